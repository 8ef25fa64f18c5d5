//! What is served of the ranks of this node when it is ready: output, the process manager, ends,
//! input.
//!
//! Of sources that are ready together, output comes first and ends come last ([`PollSource`] has
//! the order), and what ended ranks left in their pipes is read before they are reaped.
//!
//! A stream is read, `paused` (too much of it is in flight; it is out of the loop's set until that
//! is reported as written), or gone (its end has come, or its target's reader has gone). What a
//! rank writes to a paused stream stays in its pipe, and the rank waits there.

use super::*;
use crate::output::stream::{self, RankStream, UnwrittenBytes};

impl LocalRanks<'_> {
    /// Adds the sources of ranks that have been started.
    pub(super) fn watch_started(&mut self, job: &mut JobLoop<'_>) {
        let processes = &self.processes;
        for index in self.watched..processes.started_count() {
            let number = index as u32;
            job.poll.add(PollSource::Rank(number), processes.process_fd(index));
            if let Some(fd) = processes.pmi.fd(index) {
                job.poll.add(PollSource::PmiClient(number), fd);
            }
            for &id in processes.stream_ids(index) {
                job.poll.add(PollSource::Stream(id), processes.streams[&id].as_fd());
            }
        }
        self.watched = processes.started_count();
        for target in [OutputTarget::Out, OutputTarget::Err] {
            if job.owner.is_closed(target) {
                self.drop_streams(job, target);
            }
        }
    }

    pub(super) fn serve_ready(
        &mut self,
        job: &mut JobLoop<'_>,
        ready: &[PollSource],
    ) -> Result<(), LaunchError> {
        let mut ended = Vec::new();
        for &source in ready {
            match source {
                PollSource::FileWriter => self.on_files_written(job),
                PollSource::Stream(id) => self.pass_on_output(job, id),
                PollSource::PmiClient(index) => self.on_client(job, index as usize),
                PollSource::Requests => self.on_requests(job),
                PollSource::Attach => self.processes.serve_attach(),
                PollSource::Rank(index) => ended.push(index as usize),
                PollSource::RankInput => self.pass_on_input(job),
                _ => {}
            }
        }
        if !ended.is_empty() {
            self.drain(job, &ended);
            let ends = self.processes.reap(&ended)?;
            // A process that a debugger holds is reported before it can be reaped.
            for &index in ended.iter().filter(|&&at| self.processes.has_exited(at)) {
                job.poll.remove(PollSource::Rank(index as u32), self.processes.process_fd(index));
            }
            self.on_ended(job, ends);
            // The end of a rank may have hidden orphans that ended.
            self.processes.reap_orphans();
            self.note_lingering(job);
        }
        self.end_lingering(job);
        Ok(())
    }

    /// Sets the time of the next look at ranks that linger, if there are any.
    fn note_lingering(&mut self, job: &mut JobLoop<'_>) {
        if self.processes.lingering().next().is_none() {
            self.lingering_since = None;
        } else {
            self.lingering_since.get_or_insert_with(Instant::now);
            job.deadlines.set_earlier(Deadline::Lingering, Instant::now() + LINGERING_INTERVAL);
        }
    }

    /// Reports ranks as ended that have lingered and do not any more.
    pub(super) fn end_lingering(&mut self, job: &mut JobLoop<'_>) {
        let ends = self.processes.end_lingering();
        if !ends.is_empty() {
            self.on_ended(job, ends);
            self.note_lingering(job);
        }
    }

    /// Looks at ranks that linger, and says once whom the job waits for.
    pub(super) fn check_lingering(&mut self, job: &mut JobLoop<'_>) {
        self.end_lingering(job);
        if self.lingering_since.is_some_and(|at| at.elapsed() >= LINGERING_NOTE)
            && !self.lingering_is_said
            && !job.is_ending()
            && let Some(text) = self.processes.describe_lingering()
        {
            self.lingering_is_said = true;
            job.owner.say(text);
        }
        self.note_lingering(job);
    }

    /// Passes on what a rank has written to a stream.
    fn pass_on_output(&mut self, job: &mut JobLoop<'_>, id: u32) {
        let processes = &mut self.processes;
        let Some(stream) = processes.streams.get_mut(&id) else { return };
        if !has_room(&job.owner, stream.unwritten) {
            job.poll.remove(PollSource::Stream(id), stream.as_fd());
            self.paused.insert(id);
            return;
        }
        let pumped = stream.pump();
        if !pumped.is_open {
            job.poll.remove(PollSource::Stream(id), stream.as_fd());
        }
        self.write(job, id, pumped.text);
        if !pumped.is_open {
            self.processes.streams.remove(&id);
        }
        self.note_partial_line(job, id);
    }

    /// Writes text of a stream to its file and target.
    fn write(&mut self, job: &mut JobLoop<'_>, id: u32, text: Vec<u8>) {
        let processes = &mut self.processes;
        if let Some(stream) = processes.streams.get_mut(&id) {
            let text = stream.pass_to_file(text, &mut processes.file_writer);
            stream.unwritten.output += job.owner.write(stream.target(), text, id as usize);
        }
    }

    /// Threads have written to files of ranks.
    fn on_files_written(&mut self, job: &mut JobLoop<'_>) {
        let (written, problems) = self.processes.file_writer.written();
        for (id, bytes) in written {
            if let Some(stream) = self.processes.streams.get_mut(&(id as u32)) {
                let unwritten = &mut stream.unwritten.file;
                *unwritten = unwritten.saturating_sub(bytes as usize);
            }
        }
        problems.iter().for_each(|text| job.owner.say(text));
        self.resume_streams(job);
    }

    /// Sets the deadline of the part of a line that a stream holds.
    fn note_partial_line(&mut self, job: &mut JobLoop<'_>, id: u32) {
        match self.processes.streams.get(&id).and_then(RankStream::deadline) {
            Some(at) => {
                self.partial.insert(id);
                job.deadlines.set_earlier(Deadline::PartialLine, at);
            }
            None => drop(self.partial.remove(&id)),
        }
    }

    /// Passes on partial lines whose deadline has passed.
    pub(super) fn pass_on_partial_lines(&mut self, job: &mut JobLoop<'_>) {
        let now = Instant::now();
        for id in std::mem::take(&mut self.partial) {
            if let Some(stream) = self.processes.streams.get_mut(&id) {
                let text = stream.overdue(now);
                self.write(job, id, text);
            }
            self.note_partial_line(job, id);
        }
    }

    /// Reads streams again that there is room for now.
    pub(super) fn resume_streams(&mut self, job: &mut JobLoop<'_>) {
        let processes = &self.processes;
        let owner = &job.owner;
        let poll = &mut job.poll;
        self.paused.retain(|&id| {
            let Some(stream) = processes.streams.get(&id) else { return false };
            let has_room = has_room(owner, stream.unwritten);
            if has_room {
                poll.add(PollSource::Stream(id), stream.as_fd());
            }
            !has_room
        });
    }

    /// Drops the pipes of an output whose reader has gone: ranks find them closed.
    pub(super) fn drop_streams(&mut self, job: &mut JobLoop<'_>, target: OutputTarget) {
        self.processes.streams.retain(|&id, stream| {
            let is_kept = stream.target() != target;
            if !is_kept {
                job.poll.remove(PollSource::Stream(id), stream.as_fd());
            }
            is_kept
        });
    }

    /// Passes on what ranks wrote before they ended, unless its reader does not keep up.
    fn drain(&mut self, job: &mut JobLoop<'_>, ended: &[usize]) {
        let owner = &mut job.owner;
        let mut sink = |stream: &mut RankStream, text| {
            stream.unwritten.output += owner.write(stream.target(), text, stream.id as usize);
            has_room(owner, stream.unwritten)
        };
        self.processes.drain(ended, &mut sink);
    }

    /// Serves a rank's connection to the process manager.
    fn on_client(&mut self, job: &mut JobLoop<'_>, index: usize) {
        let server = &mut self.processes.pmi;
        server.serve(index);
        let arrived = server.arrived();
        if let Some(fd) = server.closed_fd(index) {
            job.poll.remove(PollSource::PmiClient(index as u32), fd);
        }
        if server.aborted(index).is_some() {
            self.processes.signal_one(index, signal::SIGKILL);
        }
        if let Some(puts) = arrived {
            match &mut job.owner {
                JobOwner::User(_) => self.complete_barrier(puts),
                JobOwner::Controller(uplink) => uplink.link.send(&AgentMessage::BarrierIn(puts)),
            }
        }
    }

    /// Serves processes that ask for descriptors. A rank may get a new connection to the process
    /// manager in place of its old one, which is closed then.
    fn on_requests(&mut self, job: &mut JobLoop<'_>) {
        for index in self.processes.serve_requests() {
            let source = PollSource::PmiClient(index as u32);
            job.poll.forget(source);
            if let Some(fd) = self.processes.pmi.fd(index) {
                job.poll.add(source, fd);
            }
        }
    }

    /// Writes to the ranks what their input pipes take.
    pub(super) fn pass_on_input(&mut self, job: &mut JobLoop<'_>) {
        if self.processes.is_starting() {
            return;
        }
        let Some(input) = &mut self.processes.input else { return };
        let (taken, goes_on) = input.write();
        if taken > 0 {
            job.owner.send(&AgentMessage::InputTaken(taken as u32));
        }
        if !goes_on {
            self.processes.input = None;
            job.owner.send(&AgentMessage::InputClosed);
        }
    }
}

/// Whether a stream that has this much in flight is read.
fn has_room(owner: &JobOwner<'_>, unwritten: UnwrittenBytes) -> bool {
    owner.has_room(unwritten.output) && unwritten.file < stream::WINDOW
}

//! One iteration of the event loop: what it waits for, and what it serves then.

use std::ops::Range;

use super::*;
use crate::input::Input;
use crate::line_output::OutputTarget;

/// What was polled, in order: where the descriptors of each kind begin.
struct Polled {
    /// Numbers of the ranks that still run; their descriptors begin at 1, after the signals.
    alive: Vec<usize>,
    /// Positions, in the list of streams, of those that were polled.
    streams: Vec<usize>,
    first_stream: usize,
    /// Numbers of the ranks whose connections to the process manager were polled.
    clients: Vec<usize>,
    first_client: usize,
    /// Where the sockets are on which processes ask for descriptors that they did not inherit.
    requests: Range<usize>,
    /// Where standard input is, if it was polled.
    input: Option<usize>,
    ready: Vec<bool>,
}

impl Supervisor<'_> {
    /// Waits for one of the descriptors, for `limit` at most, and serves those that are ready.
    pub(super) fn wait_for_event(&mut self, limit: Option<Duration>) -> Result<(), LaunchError> {
        // Drops the pipes of an output whose reader has gone: ranks find them closed.
        let master = &self.master;
        self.ranks
            .streams
            .retain(|stream| !master.is_closed(stream.target()));
        let polled = self.poll(limit)?;
        self.on_written();
        // Output first: what a rank wrote comes before the report of its end.
        self.pass_on_output(&polled);
        self.ranks.pmi.flush();
        let ready = |at: usize| polled.ready[at];
        for (at, &index) in polled.clients.iter().enumerate() {
            if ready(polled.first_client + at) {
                self.on_client(index);
            }
        }
        if polled.requests.clone().any(ready) {
            self.ranks.serve_requests();
        }
        let ended = polled.alive.iter().enumerate();
        let ended = ended.filter(|(at, _)| ready(1 + at));
        let ended: Vec<usize> = ended.map(|(_, &index)| index).collect();
        if !ended.is_empty() {
            self.drain(&ended);
            let ends = self.ranks.reap(&ended)?;
            self.on_ended(ends);
            // The end of a rank may have hidden orphans that ended.
            self.ranks.reap_orphans();
        }
        if polled.input.is_some_and(ready) {
            self.read_input();
        }
        self.pass_on_input();
        if matches!(self.master, Master::Head(_)) {
            self.serve_head();
        }
        Ok(())
    }

    fn poll(&self, limit: Option<Duration>) -> Result<Polled, LaunchError> {
        let stdin = io::stdin();
        let (ranks, master) = (&self.ranks, &self.master);
        let alive = ranks.alive();
        let mut reads = vec![self.signals.as_fd()];
        reads.extend(alive.iter().map(|&index| ranks.process_fd(index)));
        let first_stream = reads.len();
        let room = |stream: &RankStream| master.has_room(ranks.unwritten[stream.id as usize]);
        let streams = ranks.streams.iter().enumerate();
        let streams: Vec<usize> = streams.filter(|(_, s)| room(s)).map(|(at, _)| at).collect();
        reads.extend(streams.iter().map(|&at| ranks.streams[at].as_fd()));
        let first_client = reads.len();
        let connections: Vec<_> = ranks.pmi.connections().collect();
        reads.extend(connections.iter().map(|(_, fd, _)| *fd));
        let first_request = reads.len();
        reads.extend(ranks.requests.iter().flat_map(|requests| requests.fds()));
        let requests = first_request..reads.len();
        let mut input = None;
        // A rank that is started later gets the input from its beginning, too.
        let awaits_input =
            !ranks.is_starting() && ranks.input.as_ref().is_some_and(Input::wants_more);
        let may_read = || !io::IsTerminal::is_terminal(&stdin) || is_foreground(stdin.as_fd());
        if matches!(master, Master::User(_)) && awaits_input && may_read() {
            input = Some(reads.len());
            reads.push(stdin.as_fd());
        }
        let mut writes: Vec<BorrowedFd<'_>> = Vec::new();
        let unsent = connections.iter().filter(|(.., unsent)| *unsent);
        writes.extend(unsent.map(|(_, fd, _)| *fd));
        writes.extend(ranks.input.iter().flat_map(Input::unsent));
        // The following are served whether or not they are ready.
        match master {
            Master::User(user) => reads.push(user.writer.as_fd()),
            Master::Head(uplink) => {
                reads.push(uplink.link.as_fd());
                if uplink.link.has_unsent() {
                    writes.push(uplink.link.as_fd());
                }
            }
        }
        let time = [limit, self.time_to_wait()].into_iter().flatten().min();
        let ready = wait_ready(&reads, &writes, time).map_err(doing("poll"))?;
        let clients = connections.iter().map(|(index, ..)| *index).collect();
        Ok(Polled {
            alive,
            streams,
            first_stream,
            clients,
            first_client,
            requests,
            input,
            ready,
        })
    }

    /// Handles the reports of what was written of the output.
    fn on_written(&mut self) {
        let Master::User(user) = &mut self.master else {
            return;
        };
        for (id, bytes) in user.writer.written() {
            let unwritten = &mut self.ranks.unwritten[id];
            *unwritten = unwritten.saturating_sub(bytes as usize);
        }
    }

    /// Passes on what ranks have written, and partial lines whose deadline has passed.
    fn pass_on_output(&mut self, polled: &Polled) {
        let (ranks, master) = (&mut self.ranks, &mut self.master);
        let mut closed = Vec::new();
        for (order, &at) in polled.streams.iter().enumerate() {
            if !polled.ready[polled.first_stream + order] {
                continue;
            }
            let stream = &mut ranks.streams[at];
            let pumped = stream.pump();
            let (target, id) = (stream.target(), stream.id);
            master.write(target, pumped.text, id, &mut ranks.unwritten);
            if !pumped.is_open {
                closed.push(id);
            }
        }
        ranks.streams.retain(|stream| !closed.contains(&stream.id));
        let now = Instant::now();
        for stream in &mut ranks.streams {
            let text = stream.overdue(now);
            master.write(stream.target(), text, stream.id, &mut ranks.unwritten);
        }
    }

    /// Passes on what ranks wrote before they ended, unless its reader does not keep up.
    fn drain(&mut self, ended: &[usize]) {
        let (master, ranks) = (&mut self.master, &mut self.ranks);
        let mut unwritten = std::mem::take(&mut ranks.unwritten);
        let mut sink = |target: OutputTarget, text: Vec<u8>, id: u32| {
            master.write(target, text, id, &mut unwritten);
            master.has_room(unwritten[id as usize])
        };
        ranks.drain(ended, &mut sink);
        ranks.unwritten = unwritten;
    }

    /// Time until the next deadline.
    fn time_to_wait(&self) -> Option<Duration> {
        let beat = match self.master {
            Master::User(_) => None,
            Master::Head(ref uplink) if !uplink.orders.is_empty() => Some(Instant::now()),
            Master::Head(_) => Some(Instant::now() + BEAT),
        };
        let parts = self.ranks.streams.iter().filter_map(RankStream::deadline);
        let deadlines = [
            self.kill_at,
            self.give_up_at,
            self.timeout_at,
            self.report_at,
            self.recheck.map(|(at, _)| at),
            self.left.as_ref().map(DepartedRanks::next_look),
            beat,
            parts.min(),
        ];
        let next = deadlines.into_iter().flatten().min()?;
        Some(next.saturating_duration_since(Instant::now()))
    }

    /// Serves a rank's connection to the process manager, which has something to read.
    fn on_client(&mut self, index: usize) {
        let server = &mut self.ranks.pmi;
        server.serve(index);
        let arrived = server.arrived();
        if server.aborted(index).is_some() {
            self.ranks.signal_one(index, signal::SIGKILL);
        }
        if let Some(puts) = arrived {
            match &mut self.master {
                Master::User(_) => self.complete_barrier(puts),
                Master::Head(uplink) => uplink.link.send(&Up::BarrierIn(puts)),
            }
        }
    }

    pub(super) fn complete_barrier(&mut self, puts: Puts) {
        self.ranks.pmi.complete(puts);
    }

    /// Reads terminal input.
    fn read_input(&mut self) {
        // Not smaller than the buffer of `Stdin`: no poll reports bytes that stay in that buffer.
        let mut buffer = [0; 65536];
        let read = match io::stdin().lock().read(&mut buffer) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return,
            Err(_) => 0,
        };
        match &mut self.ranks.input {
            Some(input) if read > 0 => input.push(&buffer[..read]),
            Some(input) => input.end(),
            None => {}
        }
    }

    /// Writes to the ranks what their input pipes take.
    pub(super) fn pass_on_input(&mut self) {
        if self.ranks.is_starting() {
            return;
        }
        let Some(input) = &mut self.ranks.input else {
            return;
        };
        let (taken, goes_on) = input.write();
        if taken > 0 {
            self.master.tell(&Up::InputTaken(taken as u32));
        }
        if !goes_on {
            self.ranks.input = None;
            self.master.tell(&Up::InputClosed);
        }
    }
}

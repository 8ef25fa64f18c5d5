//! The launcher's event loop: one thread that waits for whatever happens to a job and acts on it.
//!
//! There is one loop for every job. It runs a job's [`Workers`]: the ranks of this node
//! ([`crate::local::supervisor`]) or the agents of several ([`crate::controller`]). It runs them
//! for a [`JobOwner`]: the user who started this process, or the controller that this process is
//! an agent of. An [`LoopEvent`] is a set of sources that are ready, a signal to this process, or
//! a deadline that has passed. The loop handles what is common to all jobs; what only ranks or
//! only agents have goes to the workers.
//!
//! A job ends in the same way everywhere:
//!
//! ```text
//! Running --(end)--> Asked --(grace, or a second signal)--> Killed --(limit)--> GivenUp
//! ```
//!
//! Asked: the workers have passed on a signal, and end by themselves. Killed: they were killed,
//! and have their limit to disappear. GivenUp: what is still there is named and left alone. The
//! loop ends when its workers are not busy any more, in whatever state.
//!
//! The loop never waits for anything but its sources: not for a reader of output (threads write
//! it, [`crate::output::writer`]), a connection that takes no bytes, or a process that does not
//! end. An idle job costs no processor time, but for the few microseconds a second in which the
//! ranks of a node look for other [worlds](Deadline::Worlds).

pub mod deadlines;
pub mod owner;
pub mod poll_set;

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use mica_node::process::{Signals, is_foreground, signal, stop_self};

use crate::error::{LaunchError, doing};
use crate::event_loop::deadlines::{Deadline, Deadlines};
use crate::event_loop::owner::{JobOwner, finish_output};
use crate::event_loop::poll_set::{PollSet, PollSource, Polled};
use crate::link::HEARTBEAT_INTERVAL;
use crate::link::messages::{ControllerMessage, KvsEntries};
use crate::options::JobOptions;
use crate::output::OutputTarget;
use crate::report::Ending;
use crate::signals::{SignalAction, SignalRules};

/// Something that the loop reacts to.
enum LoopEvent {
    /// These sources are ready, in the order of service.
    Ready(Vec<PollSource>),
    /// This process got a signal.
    Signal(i32),
    /// A deadline has passed.
    Deadline(Deadline),
}

/// How far the end of a job has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EndStage {
    Running,
    Asked,
    Killed,
    GivenUp,
}

/// What follows a hang report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterReport {
    /// The job goes on.
    Continue,
    /// The job's time is over: it is ended.
    End,
}

/// The processes of a job as the loop sees them.
pub trait Workers {
    /// Whether there is something to wait for.
    fn is_busy(&self, job: &JobLoop<'_>) -> bool;

    /// Does a part of the work that no event announces, such as starting the next ranks. Returns
    /// whether more of it is left.
    fn advance(&mut self, _: &mut JobLoop<'_>) -> Result<bool, LaunchError> {
        Ok(false)
    }

    /// Adds the sources of the next wait that are not in the loop's [`PollSet`].
    fn add_polled<'a>(&'a self, polled: &mut Polled<'a>);

    /// Serves those of the ready sources that are the workers'.
    fn serve(&mut self, job: &mut JobLoop<'_>, ready: &[PollSource]) -> Result<(), LaunchError>;

    /// Handles a deadline of the workers, or a heartbeat.
    fn on_deadline(&mut self, job: &mut JobLoop<'_>, deadline: Deadline);

    /// Whether there is room for standard input.
    fn wants_input(&self, job: &JobLoop<'_>) -> bool;

    /// Takes a piece of standard input; an empty one is its end.
    fn take_input(&mut self, job: &mut JobLoop<'_>, input: &[u8]);

    /// Output was written: the sources, and how many bytes of each, as far as these are known.
    fn on_written(&mut self, job: &mut JobLoop<'_>, written: &[(usize, u32)]);

    /// The reader of an output has gone.
    fn on_output_closed(&mut self, job: &mut JobLoop<'_>, target: OutputTarget);

    /// Passes on a signal.
    fn signal(&mut self, number: i32);

    /// Makes all processes stop, before this one does; and continue, after it has.
    fn suspend(&mut self);

    /// See [`suspend`](Self::suspend).
    fn resume(&mut self);

    /// Asks all processes to end by a signal.
    fn ask_to_end(&mut self, job: &mut JobLoop<'_>, number: i32);

    /// The user wants the end of jobs, too, that ranks of this one have spawned.
    fn end_worlds(&mut self) {}

    /// Kills all processes. Returns the time that they have to disappear.
    fn kill(&mut self) -> Duration;

    /// What has not disappeared in that time, for people.
    fn describe_remaining(&self) -> Option<String> {
        None
    }

    /// Reaps processes that became children of this one.
    fn reap_orphans(&self);

    /// Prints or sends what every rank waits for.
    fn report_hang(&mut self, job: &mut JobLoop<'_>, then: AfterReport);

    /// All ranks of the job are in a barrier of the process manager, and have put this.
    fn complete_barrier(&mut self, _: KvsEntries) {}
}

/// The loop, and the state of a job that does not depend on its workers.
pub struct JobLoop<'a> {
    /// The sources of events.
    pub poll: PollSet,
    /// The points in time at which the loop acts by itself.
    pub deadlines: Deadlines,
    /// The party that the job is run for.
    pub owner: JobOwner<'a>,
    signals: Signals,
    rules: SignalRules,
    grace: Duration,
    host_timeout: Duration,
    /// Why the job is being ended, once it is.
    ending: Option<Ending>,
    stage: EndStage,
    /// When the job's time is over, if it is limited.
    timeout_at: Option<Instant>,
    /// Sources that are ready and not served yet.
    ready: Vec<PollSource>,
    /// When the last wait returned.
    now: Instant,
}

impl<'a> JobLoop<'a> {
    /// A loop for a job that has `grace` between the request to end and being killed.
    pub fn new(
        owner: JobOwner<'a>,
        signals: Signals,
        rules: SignalRules,
        grace: Duration,
        host_timeout: Duration,
    ) -> Result<JobLoop<'a>, LaunchError> {
        let now = Instant::now();
        let mut deadlines = Deadlines::default();
        if matches!(owner, JobOwner::Controller(_)) {
            // At once: orders may have come with the plan.
            deadlines.set(Deadline::Heartbeat, now);
        }
        Ok(JobLoop {
            poll: PollSet::new().map_err(doing("cannot make an epoll instance"))?,
            deadlines,
            owner,
            signals,
            rules,
            grace,
            host_timeout,
            ending: None,
            stage: EndStage::Running,
            timeout_at: None,
            ready: Vec::new(),
            now,
        })
    }

    /// Sets the deadlines that the user asked for.
    pub fn set_time_limits(&mut self, options: &JobOptions) {
        let now = Instant::now();
        self.timeout_at = options.timeout.map(|time| now + time);
        let limits = [
            (Deadline::Timeout, self.timeout_at),
            (Deadline::HangReport, options.hang_report.map(|time| now + time)),
        ];
        for (deadline, at) in limits {
            if let Some(at) = at {
                self.deadlines.set(deadline, at);
            }
        }
    }

    /// Serves events until the workers are not busy any more.
    pub fn run<W: Workers>(&mut self, workers: &mut W) -> Result<(), LaunchError> {
        while workers.is_busy(self) {
            let time = match workers.advance(self)? {
                true => Some(Duration::ZERO),
                false => self.deadlines.time_left(Instant::now()),
            };
            self.wait(workers, time)?;
            while let Some(event) = self.next_event() {
                self.on_event(workers, event)?;
            }
        }
        Ok(())
    }

    /// Why the job is being ended, once it is.
    pub fn ending(&self) -> Option<&Ending> {
        self.ending.as_ref()
    }

    /// Whether the job is being ended.
    pub fn is_ending(&self) -> bool {
        self.ending.is_some()
    }

    /// Whether processes that do not end are not waited for any more.
    pub fn has_given_up(&self) -> bool {
        self.stage == EndStage::GivenUp
    }

    /// Waits until the user's output is written, and returns the job's exit status.
    pub fn finish(self) -> Result<u8, LaunchError> {
        let ending = self.ending.as_ref();
        let written = finish_output(self.owner, &self.signals, ending, self.timeout_at)?;
        Ok(ending.map_or(written, Ending::status))
    }

    /// Waits for a source, at most for `time`.
    fn wait<W: Workers>(&mut self, workers: &W, time: Option<Duration>) -> Result<(), LaunchError> {
        let stdin = io::stdin();
        let mut polled = Polled::default();
        polled.read(PollSource::Signals, self.signals.as_fd());
        let is_user = match &self.owner {
            JobOwner::User(user) => {
                polled.read(PollSource::Writer, user.writer.as_fd());
                true
            }
            // The end of a lost connection would be reported for ever.
            JobOwner::Controller(_) if matches!(self.ending, Some(Ending::HostLost)) => false,
            JobOwner::Controller(uplink) => {
                polled.read(PollSource::Uplink, uplink.link.as_fd());
                if uplink.link.has_unsent() {
                    polled.write(PollSource::Uplink, uplink.link.as_fd());
                }
                false
            }
        };
        // Reading a terminal in the background would stop this process.
        let may_read = || !io::IsTerminal::is_terminal(&stdin) || is_foreground(stdin.as_fd());
        if is_user && workers.wants_input(self) && may_read() {
            polled.read(PollSource::Input, stdin.as_fd());
        }
        workers.add_polled(&mut polled);
        self.ready = self.poll.wait(&polled, time).map_err(doing("poll"))?;
        self.now = Instant::now();
        Ok(())
    }

    fn next_event(&mut self) -> Option<LoopEvent> {
        if !self.ready.is_empty() {
            return Some(LoopEvent::Ready(std::mem::take(&mut self.ready)));
        }
        if let Some(number) = self.signals.next() {
            return Some(LoopEvent::Signal(number));
        }
        self.deadlines.take_passed(self.now).map(LoopEvent::Deadline)
    }

    fn on_event<W: Workers>(
        &mut self,
        workers: &mut W,
        event: LoopEvent,
    ) -> Result<(), LaunchError> {
        match event {
            LoopEvent::Ready(sources) => {
                if sources.contains(&PollSource::Writer) {
                    self.on_writer(workers);
                }
                workers.serve(self, &sources)?;
                if sources.contains(&PollSource::Input) {
                    self.read_input(workers);
                }
                if sources.contains(&PollSource::Uplink) {
                    self.on_uplink(workers);
                }
            }
            LoopEvent::Signal(number) => self.on_signal(workers, number),
            LoopEvent::Deadline(deadline) => self.on_deadline(workers, deadline),
        }
        Ok(())
    }

    /// Handles the reports of the threads that write output.
    fn on_writer<W: Workers>(&mut self, workers: &mut W) {
        let JobOwner::User(user) = &mut self.owner else { return };
        let targets = [OutputTarget::Out, OutputTarget::Err];
        let was_closed = targets.map(|target| user.writer.is_closed(target));
        let written = user.writer.written();
        let is_closed = targets.map(|target| user.writer.is_closed(target));
        workers.on_written(self, &written);
        for (at, target) in targets.into_iter().enumerate() {
            if is_closed[at] && !was_closed[at] {
                workers.on_output_closed(self, target);
            }
        }
    }

    fn read_input<W: Workers>(&mut self, workers: &mut W) {
        // Not smaller than the buffer of `Stdin`: no poll reports bytes that stay in that buffer.
        let mut buffer = [0; 16384];
        let read = match io::stdin().lock().read(&mut buffer) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return,
            Err(_) => 0,
        };
        workers.take_input(self, &buffer[..read]);
    }

    fn on_signal<W: Workers>(&mut self, workers: &mut W, number: i32) {
        match number {
            signal::SIGCHLD => workers.reap_orphans(),
            signal::SIGCONT => workers.resume(),
            signal::SIGTSTP => {
                workers.suspend();
                stop_self();
            }
            _ => self.apply_rules(workers, number),
        }
    }

    fn apply_rules<W: Workers>(&mut self, workers: &mut W, number: i32) {
        // What a signal means for an agent's ranks comes from the controller: who signals all
        // processes of a job, the agents among them, has signalled the ranks, too.
        let is_user = matches!(self.owner, JobOwner::User(_));
        match self.rules.action(number) {
            SignalAction::Forward if is_user => workers.signal(number),
            SignalAction::Report if is_user => workers.report_hang(self, AfterReport::Continue),
            // A second signal: the user does not want to wait.
            SignalAction::End if self.is_ending() => {
                workers.end_worlds();
                self.kill(workers);
            }
            SignalAction::End => {
                self.owner.say_signalled(number);
                self.end(workers, Ending::Signalled(number), number);
            }
            SignalAction::Forward | SignalAction::Report | SignalAction::Ignore => {}
        }
    }

    fn on_deadline<W: Workers>(&mut self, workers: &mut W, deadline: Deadline) {
        match deadline {
            Deadline::HangReport => workers.report_hang(self, AfterReport::Continue),
            Deadline::Timeout => {
                if let JobOwner::User(user) = &mut self.owner {
                    let time = user.options.timeout.unwrap_or_default();
                    user.writer.say(format_args!(
                        "mpiexec: the job's time of {} s is over.\n",
                        time.as_secs_f64()
                    ));
                }
                workers.report_hang(self, AfterReport::End);
            }
            Deadline::Kill => self.kill(workers),
            Deadline::GiveUp => {
                self.stage = EndStage::GivenUp;
                if let Some(what) = workers.describe_remaining() {
                    self.owner.say(format_args!(
                        "mpiexec: giving up on {what}: killed, but still there\n"
                    ));
                }
            }
            Deadline::Heartbeat => {
                self.on_uplink(workers);
                workers.on_deadline(self, deadline);
                self.deadlines.set(Deadline::Heartbeat, Instant::now() + HEARTBEAT_INTERVAL);
            }
            _ => workers.on_deadline(self, deadline),
        }
    }

    /// Asks the workers to end; what does not is killed after the grace period.
    pub fn end<W: Workers>(&mut self, workers: &mut W, ending: Ending, number: i32) {
        self.ending = Some(ending);
        self.stage = EndStage::Asked;
        for moot in [
            Deadline::Timeout,
            Deadline::HangReport,
            Deadline::HostsRefused,
            Deadline::Suspicion,
            Deadline::Departed,
            Deadline::WithoutInit,
            Deadline::AgentsConnected,
        ] {
            self.deadlines.clear(moot);
        }
        self.deadlines.set(Deadline::Kill, Instant::now() + self.grace);
        workers.ask_to_end(self, number);
    }

    fn kill<W: Workers>(&mut self, workers: &mut W) {
        self.stage = EndStage::Killed;
        self.deadlines.clear(Deadline::Kill);
        let limit = workers.kill();
        self.deadlines.set_earlier(Deadline::GiveUp, Instant::now() + limit);
    }

    /// Carries out the controller's orders. If the controller is lost, kills the workers.
    fn on_uplink<W: Workers>(&mut self, workers: &mut W) {
        let limit = self.host_timeout;
        let JobOwner::Controller(uplink) = &mut self.owner else { return };
        let (orders, received) = uplink.receive();
        let received = received.and_then(|()| uplink.heartbeat(limit));
        for order in orders {
            self.on_order(workers, order);
        }
        if received.is_err() && !matches!(self.ending, Some(Ending::HostLost)) {
            self.ending = Some(Ending::HostLost);
            self.kill(workers);
        }
    }

    fn on_order<W: Workers>(&mut self, workers: &mut W, order: ControllerMessage) {
        let JobOwner::Controller(uplink) = &mut self.owner else { return };
        match order {
            ControllerMessage::Heartbeat | ControllerMessage::Plan(_) => {}
            ControllerMessage::OutputWritten(bytes) => {
                uplink.unwritten = uplink.unwritten.saturating_sub(bytes as usize);
                workers.on_written(self, &[]);
            }
            ControllerMessage::OutputClosed(target) => {
                uplink.closed.push(target);
                workers.on_output_closed(self, target);
            }
            ControllerMessage::ReportHang => workers.report_hang(self, AfterReport::Continue),
            ControllerMessage::JobOver => uplink.dismissed = true,
            ControllerMessage::Input(bytes) => workers.take_input(self, &bytes),
            ControllerMessage::InputEnd => workers.take_input(self, &[]),
            ControllerMessage::End(number) => self.end(workers, Ending::Signalled(number), number),
            ControllerMessage::Kill => self.kill(workers),
            ControllerMessage::Signal(number) => workers.signal(number),
            ControllerMessage::BarrierOut(puts) => workers.complete_barrier(puts),
        }
    }
}

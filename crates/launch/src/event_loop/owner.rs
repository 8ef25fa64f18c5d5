//! The owner of a job, for whom its ranks are run: the user, to whom this process speaks directly,
//! or the controller, another mpiexec that this one is an agent of.
//!
//! Towards both it is the same for a rank's output: a stream is read as long as the owner [has
//! room](JobOwner::has_room). For the user each stream has a window of its own, whose bytes are
//! reported by the threads that write; an agent has one window for all, whose bytes the controller
//! reports.
//!
//! A silent controller is judged by its machine ([`heartbeat_to_controller`]). Of the user's job
//! the last step is [`finish_output`]: it waits for the reader of the output, but still hears
//! signals and the job's time.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use mica_node::process::{
    Signals, adopt_orphans, allow_many_descriptors, signal, stop_self, tcp_peer_answers, wait_ready,
};

use crate::error::{LaunchError, doing};
use crate::link::messages::{AgentMessage, ControllerMessage};
use crate::link::{Connection, HEARTBEAT_INTERVAL, LinkLost, flush_all};
use crate::options::JobOptions;
use crate::output::OutputTarget;
use crate::output::stream;
use crate::output::writer::OutputWriter;
use crate::report::rank_end::signal_status;
use crate::report::{Ending, INTERNAL, job_name};
use crate::signals::{self, SignalRules, signal_name};

/// Bytes of output that an agent sends before the controller has written them.
const WINDOW: usize = 1 << 20;

/// Time for the reader of output when the job was ended by a signal or by its time limit.
const FAREWELL: Duration = Duration::from_secs(2);

/// The party that the ranks are run for.
pub enum JobOwner<'a> {
    /// For the user who started this process.
    User(Box<InvokingUser<'a>>),
    /// For another mpiexec.
    Controller(Box<Uplink>),
}

/// The user who started this process.
pub struct InvokingUser<'a> {
    /// What they asked for.
    pub options: &'a JobOptions,
    /// Number of the job among the spawned ones, if it is one of these.
    pub spawned: Option<u32>,
    /// Writes to their terminal, or wherever the output goes.
    pub writer: OutputWriter,
}

/// An agent's connection to the controller.
pub struct Uplink {
    /// The connection.
    pub link: Connection,
    /// Orders of the controller that came before the supervisor could carry them out.
    pub orders: Vec<ControllerMessage>,
    /// Bytes of output that the controller has not written yet.
    pub unwritten: usize,
    /// Outputs whose reader has gone, as the controller reported.
    pub closed: Vec<OutputTarget>,
    /// The controller announced that the job is over.
    pub dismissed: bool,
    /// How long a controller is waited for whose machine does not answer.
    head_timeout: Duration,
}

impl Uplink {
    /// An uplink over which the plan has come, and `orders` after it.
    pub fn new(link: Connection, orders: Vec<ControllerMessage>, head_timeout: Duration) -> Uplink {
        link.tolerate_silence(head_timeout);
        Uplink { link, orders, unwritten: 0, closed: Vec::new(), dismissed: false, head_timeout }
    }

    /// The orders that have come, and the loss of the connection.
    pub fn receive(&mut self) -> (Vec<ControllerMessage>, Result<(), LinkLost>) {
        let mut orders = std::mem::take(&mut self.orders);
        self.link.flush();
        let received = self.link.receive(&mut orders);
        (orders, received)
    }

    /// Sends a sign of life, and checks that of the controller.
    pub fn heartbeat(&mut self, limit: Duration) -> Result<(), LinkLost> {
        heartbeat_to_controller(&mut self.link, limit, self.head_timeout)
    }
}

/// Sends the controller a sign of life, and checks its own. A controller whose machine answers is
/// not lost, however long it says nothing: it was stopped (Ctrl-Z, SIGSTOP, a debugger), and goes
/// on with the job later. One whose machine does not answer either may be on a machine that is
/// suspended: it is lost after `head_timeout`, if that is longer.
pub fn heartbeat_to_controller(
    link: &mut Connection,
    limit: Duration,
    head_timeout: Duration,
) -> Result<(), LinkLost> {
    link.heartbeat(&AgentMessage::Heartbeat);
    match link.check_silence(limit) {
        Err(LinkLost::Silent(_)) if tcp_peer_answers(link.as_fd(), limit).unwrap_or(false) => {
            Ok(())
        }
        Err(LinkLost::Silent(_)) => link.check_silence(limit.max(head_timeout)),
        checked => checked,
    }
}

impl JobOwner<'_> {
    /// Sends a message to the controller. Does nothing when the ranks are run for the user.
    pub fn send(&mut self, message: &AgentMessage) {
        if let JobOwner::Controller(uplink) = self {
            uplink.link.send(message);
        }
    }

    /// Reports to the controller that this agent cannot go on. Returns the exit status.
    pub fn fail(&mut self, status: u8, text: String) -> u8 {
        self.send(&AgentMessage::Failed { status, text });
        if let JobOwner::Controller(uplink) = self {
            flush_all(vec![&mut uplink.link], HEARTBEAT_INTERVAL);
        }
        status
    }

    /// Prints text on the user's standard error. Its lines begin with `mpiexec: `.
    pub fn say(&mut self, text: impl std::fmt::Display) {
        match self {
            JobOwner::User(user) => user.writer.say(text),
            JobOwner::Controller(uplink) => uplink.link.send(&AgentMessage::Say(text.to_string())),
        }
    }

    /// Accepts output for writing. Returns how many of its bytes will be reported as written by
    /// the source with number `id`.
    pub fn write(&mut self, target: OutputTarget, text: Vec<u8>, id: usize) -> usize {
        let bytes = text.len();
        match self {
            _ if bytes == 0 => 0,
            JobOwner::User(user) if user.writer.is_closed(target) => 0,
            JobOwner::User(user) => {
                user.writer.write(target, text, Some(id));
                bytes
            }
            JobOwner::Controller(uplink) => {
                uplink.unwritten += bytes;
                uplink.link.send(&AgentMessage::Output(target, text));
                0
            }
        }
    }

    /// Reports that the job is ended because of a signal to this process.
    pub fn say_signalled(&mut self, number: i32) {
        let name = signal_name(number);
        match self {
            JobOwner::User(user) => {
                let job = job_name(user.spawned);
                let text = format!("mpiexec: got signal {number} ({name}), ending {job}.\n");
                user.writer.say(text);
            }
            JobOwner::Controller(uplink) => uplink.link.send(&AgentMessage::Failed {
                status: signal_status(number),
                text: format!("its agent got signal {number} ({name})"),
            }),
        }
    }

    /// Whether a stream that has `unwritten` bytes in flight may send more.
    pub fn has_room(&self, unwritten: usize) -> bool {
        match self {
            JobOwner::User(_) => unwritten < stream::WINDOW,
            JobOwner::Controller(uplink) => uplink.unwritten < WINDOW,
        }
    }

    /// Whether the reader of this output has gone.
    pub fn is_closed(&self, target: OutputTarget) -> bool {
        match self {
            JobOwner::User(user) => user.writer.is_closed(target),
            JobOwner::Controller(uplink) => uplink.closed.contains(&target),
        }
    }
}

/// Takes the signals that a launcher reads. To be called before any thread or child is started.
pub fn take_signals() -> Result<Signals, LaunchError> {
    adopt_orphans().map_err(doing("cannot become the subreaper"))?;
    // Each rank needs several descriptors. If the limit cannot be raised, the first call that lacks
    // a descriptor reports it.
    let _ = allow_many_descriptors();
    Signals::take(&signals::taken()).map_err(doing("cannot watch signals"))
}

/// Waits until output for the user is written. Returns the exit status of a job that succeeded
/// otherwise.
pub(super) fn finish_output(
    owner: JobOwner<'_>,
    signals: &Signals,
    ending: Option<&Ending>,
    deadline: Option<Instant>,
) -> Result<u8, LaunchError> {
    let JobOwner::User(user) = owner else { return Ok(INTERNAL) };
    let mut writer = user.writer;
    let farewell = || Some(Instant::now() + FAREWELL);
    let deadline = match ending {
        None => deadline,
        Some(Ending::Signalled(_) | Ending::TimedOut) => farewell(),
        Some(_) => None,
    };
    let rules = &user.options.signals;
    let status = match settle(&mut writer, signals, rules, deadline)? {
        OutputSettled::Signalled(number) => signal_status(number),
        OutputSettled::TimedOut => Ending::TimedOut.status(),
        OutputSettled::Written if writer.has_lost_output() => INTERNAL,
        OutputSettled::Written => 0,
    };
    // The report of lost output is output, too.
    settle(&mut writer, signals, rules, farewell())?;
    writer.finish();
    Ok(status)
}

/// What ended the wait for output to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OutputSettled {
    /// All is written, or the reader has gone.
    Written,
    /// This signal came.
    Signalled(i32),
    /// The deadline passed.
    TimedOut,
}

/// Waits until all is written, at most until `deadline`. Signals are still handled.
fn settle(
    writer: &mut OutputWriter,
    signals: &Signals,
    rules: &SignalRules,
    deadline: Option<Instant>,
) -> Result<OutputSettled, LaunchError> {
    loop {
        writer.written();
        if writer.is_idle() {
            return Ok(OutputSettled::Written);
        }
        let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            return Ok(OutputSettled::TimedOut);
        }
        wait_ready(&[writer.as_fd(), signals.as_fd()], &[], left).map_err(doing("poll"))?;
        while let Some(number) = signals.next() {
            match number {
                signal::SIGTSTP => stop_self(),
                _ if rules.ends(number) => return Ok(OutputSettled::Signalled(number)),
                _ => {}
            }
        }
    }
}

//! The party that the ranks are run for: the user, to whom this process speaks directly, or another
//! mpiexec.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use mica_node::process::{Signals, signal, stop_self, wait_ready};

use super::LaunchError;
use super::doing;
use crate::line_output::OutputTarget;
use crate::link::{BEAT, Link};
use crate::messages::{Down, Up};
use crate::options::JobOptions;
use crate::output;
use crate::writer::Writer;

/// Bytes of output that an agent sends before the controller has written them.
const WINDOW: usize = 1 << 20;

/// Time for the reader of output when the job was ended by a signal or by its time limit.
const FAREWELL: Duration = Duration::from_secs(2);

/// The party that the ranks are run for.
pub enum Master<'a> {
    /// For the user who started this process.
    User(Box<InvokingUser<'a>>),
    /// For another mpiexec.
    Head(Box<Uplink>),
}

/// The user who started this process.
pub struct InvokingUser<'a> {
    /// What they asked for.
    pub options: &'a JobOptions,
    /// Writes to their terminal, or wherever the output goes.
    pub writer: Writer,
}

/// An agent's connection to the controller.
pub struct Uplink {
    /// The connection.
    pub link: Link,
    /// Orders of the controller that came before the supervisor could carry them out.
    pub orders: Vec<Down>,
    /// Bytes of output that the controller has not written yet.
    pub unwritten: usize,
    /// Outputs whose reader has gone, as the controller reported.
    pub closed: Vec<OutputTarget>,
    /// The controller announced that it will be silent.
    pub paused: bool,
    /// The controller announced that the job is over.
    pub dismissed: bool,
    /// The controller knows that ranks here have called MPI_Init.
    pub knows_world: bool,
}

impl Uplink {
    /// An uplink over which the plan has come, and `orders` after it.
    pub fn new(link: Link, orders: Vec<Down>) -> Uplink {
        Uplink {
            link,
            orders,
            unwritten: 0,
            closed: Vec::new(),
            paused: false,
            dismissed: false,
            knows_world: false,
        }
    }
}

impl Master<'_> {
    /// Sends a message to the controller. Does nothing when the ranks are run for the user.
    pub fn tell(&mut self, message: &Up) {
        if let Master::Head(uplink) = self {
            uplink.link.send(message);
        }
    }

    /// Reports to the controller that this agent cannot go on. Returns the exit status.
    pub fn fail(&mut self, status: u8, text: String) -> u8 {
        self.tell(&Up::Failed { status, text });
        if let Master::Head(uplink) = self {
            uplink.link.flush_for(BEAT);
        }
        status
    }

    /// Prints text on the user's standard error. Its lines begin with `mpiexec: `.
    pub fn say(&mut self, text: impl std::fmt::Display) {
        match self {
            Master::User(user) => user.writer.say(text),
            Master::Head(uplink) => uplink.link.send(&Up::Say(text.to_string())),
        }
    }

    /// Accepts output of ranks for writing. `unwritten` counts the bytes in flight from the stream
    /// with number `id`.
    pub fn write(&mut self, target: OutputTarget, text: Vec<u8>, id: u32, unwritten: &mut [usize]) {
        if text.is_empty() {
            return;
        }
        match self {
            Master::User(user) => {
                if !user.writer.is_closed(target) {
                    unwritten[id as usize] += text.len();
                    user.writer.write(target, text, Some(id as usize));
                }
            }
            Master::Head(uplink) => {
                uplink.unwritten += text.len();
                uplink.link.send(&Up::Output(target, text));
            }
        }
    }

    /// Whether a stream that has `unwritten` bytes in flight may send more.
    pub fn has_room(&self, unwritten: usize) -> bool {
        match self {
            Master::User(_) => unwritten < output::WINDOW,
            Master::Head(uplink) => uplink.unwritten < WINDOW,
        }
    }

    /// Whether the reader of this output has gone.
    pub fn is_closed(&self, target: OutputTarget) -> bool {
        match self {
            Master::User(user) => user.writer.is_closed(target),
            Master::Head(uplink) => uplink.closed.contains(&target),
        }
    }
}

/// What ended the wait for output to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputSettled {
    /// All is written, or the reader has gone.
    Written,
    /// This signal came.
    Signalled(i32),
    /// The deadline passed.
    TimedOut,
}

/// Waits until all is written, at most until `deadline`, and only for a short time if the user
/// wants to leave (`impatient`). Signals are still handled.
pub fn settle(
    writer: &mut Writer,
    signals: &Signals,
    impatient: bool,
    deadline: Option<Instant>,
) -> Result<OutputSettled, LaunchError> {
    let farewell = impatient.then(|| Instant::now() + FAREWELL);
    loop {
        writer.written();
        if writer.is_idle() {
            return Ok(OutputSettled::Written);
        }
        let until = [farewell, deadline].into_iter().flatten().min();
        let left = until.map(|at| at.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            return Ok(OutputSettled::TimedOut);
        }
        wait_ready(&[writer.as_fd(), signals.as_fd()], &[], left).map_err(doing("poll"))?;
        while let Some(number) = signals.next() {
            match number {
                signal::SIGINT | signal::SIGTERM | signal::SIGHUP => {
                    return Ok(OutputSettled::Signalled(number));
                }
                signal::SIGTSTP => stop_self(),
                _ => {}
            }
        }
    }
}

//! This process's own output, written by separate threads: a reader that does not read (`| less`)
//! must not keep the event loop from handling signals, deaths and deadlines, nor the controller
//! from serving its agents, which would take it for lost.
//!
//! Standard output and standard error have a thread each, started at the first text, or one for
//! both if they lead to the same file (`2>&1`), which keeps their order. The threads report what
//! they wrote through a pipe that the event loop polls. A failed write to standard output is
//! reported on standard error once, and the job's exit status shows every failure.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use mica_node::process::{set_nonblocking, wait_ready};

use crate::line_output::OutputTarget;
use crate::output::{is_one_file, own};

/// Text, and the source to inform when it is written.
type Item = (OutputTarget, Vec<u8>, Option<u32>);

/// Writes to this process's output, in order.
pub struct Writer {
    /// For standard output, or for both.
    out: Option<WriterThread>,
    /// For standard error, unless they are the same file.
    err: Option<WriterThread>,
    is_one_file: bool,
    written: PipeReader,
    report: PipeWriter,
    /// Texts that were accepted and not yet reported as written.
    pending: usize,
    state: [TargetState; 2],
}

/// A thread and its queue.
struct WriterThread {
    items: Sender<Item>,
    thread: JoinHandle<()>,
}

/// The state of one of the two outputs.
#[derive(Debug, Clone, Copy, Default)]
struct TargetState {
    /// Its reader has gone.
    closed: bool,
    /// A write failed for another reason.
    failed: bool,
}

/// Bytes of a thread's report: source (from 1; 0: none), bytes, error number (0: none), target.
const REPORT: usize = 16;

impl Writer {
    /// Prepares to write. Signals must be blocked already: threads inherit the mask.
    pub fn start() -> io::Result<Writer> {
        let (written, report) = io::pipe()?;
        set_nonblocking(written.as_fd())?;
        Ok(Writer {
            out: None,
            err: None,
            is_one_file: is_one_file(),
            written,
            report,
            pending: 0,
            state: [TargetState::default(); 2],
        })
    }

    /// Gives a thread a text to write, on behalf of `source`, if it is to be informed.
    pub fn write(&mut self, target: OutputTarget, text: Vec<u8>, source: Option<usize>) {
        if self.state[target as usize].closed {
            return;
        }
        let lane = match target {
            OutputTarget::Err if !self.is_one_file => &mut self.err,
            _ => &mut self.out,
        };
        if lane.is_none() {
            let started = self.report.try_clone().and_then(WriterThread::start);
            *lane = started.ok();
        }
        let item = (target, text, source.map(|source| source as u32));
        let refused = match lane {
            Some(lane) => lane.items.send(item).err().map(|refused| refused.0),
            None => Some(item),
        };
        if let Some((target, text, source)) = refused {
            // No thread could be started: blocking is better than losing the text.
            let written = own(target).and_then(|file| write_all(&file, &text));
            send(&self.report, target, source, text.len(), &written);
        }
        self.pending += 1;
    }

    /// Writes to standard error.
    pub fn say(&mut self, text: impl std::fmt::Display) {
        self.write(OutputTarget::Err, text.to_string().into_bytes(), None);
    }

    /// Whether all is written.
    pub fn is_idle(&self) -> bool {
        self.pending == 0
    }

    /// What was written since the last call: sources and bytes.
    pub fn written(&mut self) -> Vec<(usize, u32)> {
        let mut all = Vec::new();
        let mut report = [0; REPORT];
        // Reports are written whole: a pipe does not split writes of at most PIPE_BUF bytes.
        while let Ok(REPORT) = self.written.read(&mut report) {
            self.pending = self.pending.saturating_sub(1);
            let word = |at: usize| u32::from_ne_bytes([0, 1, 2, 3].map(|i| report[at + i]));
            if let Some(source) = word(0).checked_sub(1) {
                all.push((source as usize, word(4)));
            }
            if word(8) != 0 {
                let target = if word(12) == 0 {
                    OutputTarget::Out
                } else {
                    OutputTarget::Err
                };
                self.on_error(target, io::Error::from_raw_os_error(word(8) as i32));
            }
        }
        all
    }

    fn on_error(&mut self, target: OutputTarget, error: io::Error) {
        let state = &mut self.state[target as usize];
        if error.kind() == io::ErrorKind::BrokenPipe {
            state.closed = true;
            return;
        }
        if !std::mem::replace(&mut state.failed, true) && target == OutputTarget::Out {
            self.say(format_args!(
                "mpiexec: cannot write to standard output: {error}. Output of the job is lost.\n"
            ));
        }
    }

    /// Whether the reader of this output has gone (`| head`).
    pub fn is_closed(&self, target: OutputTarget) -> bool {
        self.state[target as usize].closed
    }

    /// Whether output was lost for another reason than that its reader has gone.
    pub fn has_lost_output(&self) -> bool {
        self.state.iter().any(|state| state.failed)
    }

    /// Ends the threads after they have written all; does not wait for one whose reader does not
    /// read.
    pub fn finish(mut self) {
        let is_idle = self.is_idle();
        for lane in [self.out.take(), self.err.take()].into_iter().flatten() {
            drop(lane.items);
            if is_idle {
                let _ = lane.thread.join();
            }
        }
    }
}

impl WriterThread {
    fn start(report: PipeWriter) -> io::Result<WriterThread> {
        let (items, queue) = channel();
        let run = move || write_items(queue, &report);
        let thread = std::thread::Builder::new().spawn(run)?;
        Ok(WriterThread { items, thread })
    }
}

/// The body of a thread.
fn write_items(queue: Receiver<Item>, report: &PipeWriter) {
    let files = [own(OutputTarget::Out), own(OutputTarget::Err)];
    for (target, text, source) in queue {
        let written = match &files[target as usize] {
            Ok(file) => write_all(file, &text),
            Err(error) => Err(io::Error::from(error.kind())),
        };
        send(report, target, source, text.len(), &written);
    }
}

/// Writes all bytes, even if another process has made the file non-blocking.
fn write_all(mut file: &File, mut text: &[u8]) -> io::Result<()> {
    while !text.is_empty() {
        match file.write(text) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => text = &text[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                wait_ready(&[], &[file.as_fd()], None)?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn send(
    mut report: &PipeWriter,
    target: OutputTarget,
    source: Option<u32>,
    bytes: usize,
    written: &io::Result<()>,
) {
    const EIO: i32 = 5; // for errors that have no number
    let error = written.as_ref().err();
    let error = error.map_or(0, |error| error.raw_os_error().unwrap_or(EIO));
    let words = [
        source.map_or(0, |source| source + 1),
        bytes as u32,
        error as u32,
        target as u32,
    ];
    let mut message = [0; REPORT];
    for (to, word) in message.chunks_exact_mut(4).zip(words) {
        to.copy_from_slice(&word.to_ne_bytes());
    }
    // An error is harmless: the event loop stops reading reports when the job is over.
    let _ = report.write_all(&message);
}

impl AsFd for Writer {
    /// Readable when a thread has reported.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.written.as_fd()
    }
}

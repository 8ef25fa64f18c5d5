//! This process's own output, written by separate threads: a reader that does not read (`| less`)
//! must not keep the event loop from handling signals, deaths and deadlines, nor the controller
//! from serving its agents, which would take it for lost.
//!
//! Standard output and standard error have a thread each ([`crate::output::writer_thread`]),
//! started at the first text, or one for both if they lead to the same file (`2>&1`), which keeps
//! their order. A failed write to standard output is reported on standard error once, and the
//! job's exit status shows every failure.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use crate::output::OutputTarget;
use crate::output::writer_thread::{OutputSink, TextWriter};
use crate::output::{is_one_file, own};

/// Writes to this process's output, in order.
pub struct OutputWriter {
    writer: TextWriter,
    state: [TargetState; 2],
}

/// The state of one of the two outputs.
#[derive(Debug, Clone, Copy, Default)]
struct TargetState {
    /// Its reader has gone.
    closed: bool,
    /// A write failed for another reason.
    failed: bool,
}

impl OutputWriter {
    /// Prepares to write. Signals must be blocked already: threads inherit the mask.
    pub fn start() -> io::Result<OutputWriter> {
        let sink = |target| OutputSink::new(move || own(target));
        let err_thread = if is_one_file() { 0 } else { 1 };
        OutputWriter::with_sinks([OutputTarget::Out, OutputTarget::Err].map(sink), err_thread)
    }

    /// Writes to these files in place of this process's output.
    #[cfg(test)]
    pub fn to_files(out: std::fs::File, err: std::fs::File) -> io::Result<OutputWriter> {
        OutputWriter::with_sinks(
            [out, err].map(|file| OutputSink::new(move || file.try_clone())),
            1,
        )
    }

    fn with_sinks([out, err]: [OutputSink; 2], err_thread: usize) -> io::Result<OutputWriter> {
        let mut writer = TextWriter::new()?;
        writer.add(out, 0);
        writer.add(err, err_thread);
        Ok(OutputWriter { writer, state: [TargetState::default(); 2] })
    }

    /// Gives a thread a text to write, on behalf of `source`, if it is to be informed.
    pub fn write(&mut self, target: OutputTarget, text: Vec<u8>, source: Option<usize>) {
        if !self.is_closed(target) {
            self.writer.write(target as u32, text, source.map(|source| source as u32));
        }
    }

    /// Writes to standard error.
    pub fn say(&mut self, text: impl std::fmt::Display) {
        self.write(OutputTarget::Err, text.to_string().into_bytes(), None);
    }

    /// Whether all is written.
    pub fn is_idle(&self) -> bool {
        self.writer.is_idle()
    }

    /// What was written since the last call: sources and bytes.
    pub fn written(&mut self) -> Vec<(usize, u32)> {
        let mut all = Vec::new();
        while let Some(report) = self.writer.next_report() {
            all.extend(report.source.map(|source| (source, report.bytes)));
            if let Some(error) = report.error {
                let target = if report.file == 0 { OutputTarget::Out } else { OutputTarget::Err };
                self.on_error(target, error);
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
    pub fn finish(self) {
        self.writer.finish();
    }
}

impl AsFd for OutputWriter {
    /// Readable when a thread has reported.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.writer.as_fd()
    }
}

//! The head's output, written by a thread of its own: a reader that does not read (`| less`) must not keep the head from
//! its agents, which would take it for lost.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use mica_node::process::set_nonblocking;

use crate::output::{Target, print};

/// Text, and the node that it came from, if that wants to know when it is written.
type Item = (Target, Vec<u8>, Option<u32>);

/// Writes to this process's output, in order.
pub struct Writer {
    items: Option<Sender<Item>>,
    written: PipeReader,
    thread: Option<JoinHandle<()>>,
    /// Texts that were given and not yet reported as written.
    pending: usize,
}

/// One report of the thread: node and bytes, both u32; nodes from 1, 0 for nobody.
const REPORT: usize = 8;

impl Writer {
    /// Starts the thread. Signals must be blocked already.
    pub fn start() -> io::Result<Writer> {
        let (written, mut report) = io::pipe()?;
        set_nonblocking(written.as_fd())?;
        let (items, queue) = channel::<Item>();
        let thread = std::thread::Builder::new().spawn(move || {
            for (target, text, node) in queue {
                print(target, &text);
                let node = node.map_or(0, |node| node + 1);
                send(&mut report, node, text.len() as u32);
            }
        })?;
        Ok(Writer {
            items: Some(items),
            written,
            thread: Some(thread),
            pending: 0,
        })
    }

    /// Gives the thread a text to write.
    pub fn write(&mut self, target: Target, text: Vec<u8>, node: Option<usize>) {
        if let Some(items) = &self.items
            && items
                .send((target, text, node.map(|node| node as u32)))
                .is_ok()
        {
            self.pending += 1;
        }
    }

    /// Writes to standard error.
    pub fn say(&mut self, text: impl std::fmt::Display) {
        self.write(Target::Err, text.to_string().into_bytes(), None);
    }

    /// Whether all is written.
    pub fn is_idle(&self) -> bool {
        self.pending == 0
    }

    /// What was written since the last call: nodes and bytes.
    pub fn written(&mut self) -> Vec<(usize, u32)> {
        let mut all = Vec::new();
        let mut report = [0; REPORT];
        // Reports are written whole: a pipe does not take apart what is shorter than PIPE_BUF.
        while let Ok(REPORT) = self.written.read(&mut report) {
            self.pending = self.pending.saturating_sub(1);
            let word = |at: usize| u32::from_ne_bytes([0, 1, 2, 3].map(|i| report[at + i]));
            if let Some(node) = word(0).checked_sub(1) {
                all.push((node as usize, word(4)));
            }
        }
        all
    }

    /// Ends the thread when it has written all; does not wait for one that nobody reads from.
    pub fn finish(mut self) {
        self.items = None;
        if self.is_idle()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }
}

fn send(report: &mut PipeWriter, node: u32, bytes: u32) {
    let mut message = [0; REPORT];
    message[..4].copy_from_slice(&node.to_ne_bytes());
    message[4..].copy_from_slice(&bytes.to_ne_bytes());
    // Nobody reads any more when the head ends.
    let _ = report.write_all(&message);
}

impl AsFd for Writer {
    /// Readable when something was written.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.written.as_fd()
    }
}

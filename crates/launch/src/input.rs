//! Standard input on its way to rank 0.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::ChildStdin;

/// Input on its way to rank 0.
pub struct Input {
    pipe: ChildStdin,
    /// Not yet taken by the rank.
    pending: Vec<u8>,
    /// Nothing comes after what is pending.
    ends: bool,
}

impl Input {
    /// Input for the process that reads this pipe, which does not block.
    pub fn new(pipe: ChildStdin) -> Input {
        Input {
            pipe,
            pending: Vec::new(),
            ends: false,
        }
    }

    /// Whether something waits for the rank to take it.
    pub fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// More bytes for the rank.
    pub fn push(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// Nothing more comes.
    pub fn end(&mut self) {
        self.ends = true;
    }

    /// Writes as much as the pipe takes without waiting. Answers how much that was, and whether the rank still reads and
    /// there can be more for it.
    pub fn write(&mut self) -> (usize, bool) {
        let mut total = 0;
        while !self.pending.is_empty() {
            match self.pipe.write(&self.pending) {
                Ok(written) => {
                    self.pending.drain(..written);
                    total += written;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return (total, true),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return (total, false),
            }
        }
        (total, !self.ends)
    }
}

impl AsFd for Input {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}

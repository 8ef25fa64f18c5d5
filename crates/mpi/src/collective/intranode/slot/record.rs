//! Records what the operations of node groups move (`MICA_RECORD_TRANSFERS`), for the link model
//! of `mica links`: every phase that a rank publishes or waits for, and every copy between, in the
//! order in which this rank came to it. That is the operation's dependency graph: a rank does its
//! steps in order, and a wait ends when the other rank has published the phase.
//!
//! Each rank appends lines to a file of its own, `PREFIX.RANK`:
//!
//! ```text
//! 32.17 begin MPI_Allreduce 4 16384     operation 17 of a group of 32, here member 4, 16384 bytes
//! 32.17 publish 1                       member 4 has reached phase 1
//! 32.17 wait 5 1                        member 5 had to reach phase 1 (`all`: every other member)
//! 32.17 load 5 512                      512 bytes were read from member 5's memory
//! 32.17 store 5 512                     512 bytes were written to member 5's memory
//! 32.17 end direct                      the path: cells, mapped or direct
//! ```
//!
//! Copies from and to a rank's own user buffers are not lines of their own, except into its cell
//! (`store` to itself); nor are collectives by messages. Off by default. Only slots of the general
//! algorithms record: while recording, no communicator has a fast path.

use std::fmt;
use std::fs::File;
use std::io::Write;
use std::sync::{Mutex, OnceLock};

use mica_node::tunables::RECORD_TRANSFERS;

use super::OperationSlot;
use super::account::{self, Access, Sums};
use crate::sync::lock;

static PREFIX: OnceLock<Option<&'static str>> = OnceLock::new();

/// This rank's file; `None` if it cannot be created.
static FILE: OnceLock<Option<Mutex<File>>> = OnceLock::new();

/// How an operation is recorded.
#[derive(Debug)]
pub enum Recording {
    /// Each step is a line.
    Steps,
    /// Bytes are added up ([`account`]).
    Sums(Sums),
}

/// Whether operations are recorded, as steps or in the account.
pub fn is_on() -> bool {
    prefix().is_some() || account::is_on()
}

fn prefix() -> Option<&'static str> {
    *PREFIX.get_or_init(|| {
        let text = RECORD_TRANSFERS.text();
        (text != "off").then(|| &*text.leak())
    })
}

impl OperationSlot<'_> {
    /// The same operation, recorded if operations are.
    pub fn recorded(self) -> Self {
        let recording = match (prefix(), account::is_on()) {
            (Some(_), _) => Some(Recording::Steps),
            (None, true) => Some(Recording::Sums(Sums::new(self.size()))),
            (None, false) => None,
        };
        OperationSlot {
            recording: recording.map(Box::new),
            ..self
        }
    }

    /// This rank has read `bytes` bytes from the memory of `member`.
    #[inline]
    pub fn loaded(&self, member: usize, bytes: usize) {
        if self.recording.is_some() && bytes > 0 {
            self.record_copy(member, Access::Load, bytes);
        }
    }

    /// This rank has written `bytes` bytes to the memory of `member`.
    #[inline]
    pub fn stored(&self, member: usize, bytes: usize) {
        if self.recording.is_some() && bytes > 0 {
            self.record_copy(member, Access::Store, bytes);
        }
    }

    #[cold]
    fn record_copy(&self, member: usize, access: Access, bytes: usize) {
        match (self.recording.as_deref(), access) {
            (Some(Recording::Sums(sums)), _) => sums.add(member, access, bytes),
            (_, Access::Load) => self.record(format_args!("load {member} {bytes}")),
            (_, Access::Store) => self.record(format_args!("store {member} {bytes}")),
        }
    }

    /// The operation begins, with this many bytes of this rank.
    pub fn record_begin(&self, bytes: usize) {
        if self.recording.is_some() {
            self.record(format_args!("begin {} {} {bytes}", self.label, self.me()));
        }
    }

    /// The operation ends, by this path.
    pub fn record_end(&self, path: &str) {
        match self.recording.as_deref() {
            Some(Recording::Sums(sums)) => account::append(self, self.label, sums),
            Some(Recording::Steps) => self.record(format_args!("end {path}")),
            None => {}
        }
    }

    /// Appends a line to this rank's file, unless only sums are kept. The program goes on without a record where it cannot be
    /// written; who reads the files detects that they are not complete.
    #[cold]
    pub(super) fn record(&self, line: fmt::Arguments<'_>) {
        if let Some(Recording::Sums(_)) = self.recording.as_deref() {
            return;
        }
        let file = FILE.get_or_init(|| {
            let path = format!("{}.{}", prefix()?, self.rank(self.me()));
            File::create(path).ok().map(Mutex::new)
        });
        if let Some(file) = file {
            let line = format!("{}.{} {line}\n", self.size(), self.number);
            // One call for a line, so that nothing is lost if the program is killed.
            let _ = lock(file).write_all(line.as_bytes());
        }
    }
}

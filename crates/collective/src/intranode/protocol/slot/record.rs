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

use crate::intranode::protocol::shared_slot::SharedSlot;
use mica_node::tunables::RECORD_TRANSFERS;

use super::OperationSlot;
use crate::intranode::protocol::account::{self, Access, CallPart, Sums};
use mica_objects::sync::lock;

static PREFIX: OnceLock<Option<&'static str>> = OnceLock::new();

/// This rank's file; `None` if it cannot be created.
static FILE: OnceLock<Option<Mutex<File>>> = OnceLock::new();

/// How an operation is recorded.
#[derive(Debug)]
pub enum Recording<'a> {
    /// Not at all.
    Off,
    /// Each step is a line.
    Steps,
    /// Bytes are added up for this part of a call ([`account`]).
    Sums(CallPart, Sums<'a>),
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

impl<'a> OperationSlot<'a> {
    /// The same operation, this part of a call, recorded if operations are.
    pub fn recorded(self, part: CallPart) -> Self {
        let recording = match (prefix(), self.group.sums_of(self.at)) {
            (Some(_), _) => Recording::Steps,
            (None, Some(sums)) if account::is_counting() => Recording::Sums(part, sums),
            (None, _) => Recording::Off,
        };
        OperationSlot { recording, ..self }
    }

    /// Whether each step is a line.
    #[inline]
    pub(super) fn records_steps(&self) -> bool {
        matches!(self.recording, Recording::Steps)
    }

    #[inline]
    pub(super) fn copied(&self, member: usize, access: Access, bytes: usize) {
        match self.recording {
            Recording::Off => {}
            Recording::Sums(_, sums) => sums.add(member, access, bytes),
            Recording::Steps => self.record_copy(member, access, bytes),
        }
    }

    #[cold]
    fn record_copy(&self, member: usize, access: Access, bytes: usize) {
        match (access, bytes) {
            (_, 0) => {}
            (Access::Load, _) => self.record(format_args!("load {member} {bytes}")),
            (Access::Store, _) => self.record(format_args!("store {member} {bytes}")),
        }
    }

    /// The operation begins, with this many bytes of this rank.
    pub fn record_begin(&self, bytes: usize) {
        if self.records_steps() {
            self.record(format_args!("begin {} {} {bytes}", self.label, self.me()));
        }
    }

    /// The operation ends, by this path.
    pub fn record_end(&self, path: &str) {
        match self.recording {
            Recording::Sums(part, sums) => {
                let members = self.group.area.members();
                account::append(members, self.me(), self.label, part, sums);
            }
            Recording::Steps => self.record(format_args!("end {path}")),
            Recording::Off => {}
        }
    }

    /// Appends a line to this rank's file. The program goes on without a record where it cannot be
    /// written; who reads the files detects that they are not complete.
    #[cold]
    pub(super) fn record(&self, line: fmt::Arguments<'_>) {
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

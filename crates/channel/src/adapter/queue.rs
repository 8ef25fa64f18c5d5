//! The rings of commands and events of an adapter, as the process uses them.
//!
//! A command is written to the next place of its ring, then the doorbell is rung: the adapter reads
//! the command during that store, so no place is ever waited for. Events are taken in order; the
//! sequence of the next one says whether it is there. Each operation has one event, and the ring
//! holds [`EVENTS`]: at most that number of operations may be pending, and `post` refuses more.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::registers::AdapterRegisters;
use mica_node::adapter::{
    ANY_SOURCE, ANY_TAG, AdapterMemory, CommandKind, EVENTS, OperationStatus,
};

/// A request, as `mica_node::adapter::Command` has it.
#[derive(Debug, Clone, Copy)]
pub struct AdapterCommand {
    /// What is asked.
    pub operation: CommandKind,
    /// The other side; `None`: any source.
    pub peer: Option<u32>,
    /// Context.
    pub context: u64,
    /// Tag; `None`: any.
    pub tag: Option<i32>,
    /// Address and length of the buffer.
    pub buffer: (usize, usize),
    /// Name of the operation.
    pub token: u64,
    /// Name of another operation.
    pub target: u64,
}

impl AdapterCommand {
    /// A command with a token and nothing else.
    pub fn of(operation: CommandKind, token: u64) -> AdapterCommand {
        AdapterCommand {
            operation,
            peer: Some(0),
            context: 0,
            tag: Some(0),
            buffer: (0, 0),
            token,
            target: 0,
        }
    }
}

/// The completion of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdapterEvent {
    /// The operation's token.
    pub token: u64,
    /// How it has completed. A status that the adapter must not write is `Invalid`.
    pub status: OperationStatus,
    /// Sender of the message.
    pub source: u32,
    /// Its tag.
    pub tag: i32,
    /// Its length in bytes.
    pub bytes: usize,
}

/// The queues of a process and its adapter.
#[derive(Debug)]
pub struct AdapterQueue {
    memory: Arc<AdapterMemory>,
    registers: Box<dyn AdapterRegisters>,
    /// Commands posted.
    posted: u64,
    /// Events taken.
    taken: u64,
}

impl AdapterQueue {
    /// The queues in `memory`, which nothing was posted to.
    pub fn new(memory: Arc<AdapterMemory>, registers: Box<dyn AdapterRegisters>) -> AdapterQueue {
        AdapterQueue { memory, registers, posted: 0, taken: 0 }
    }

    /// Rank of this process.
    pub fn rank(&self) -> u32 {
        self.memory.rank()
    }

    /// Number of ranks.
    pub fn size(&self) -> u32 {
        self.memory.size()
    }

    /// Operations that may be posted before the next event is taken.
    #[inline]
    pub fn room(&self) -> usize {
        EVENTS - (self.posted - self.taken) as usize
    }

    /// Starts an operation. False when there is no room.
    #[inline]
    pub fn post(&mut self, command: &AdapterCommand) -> bool {
        if self.room() == 0 {
            return false;
        }
        let place = self.memory.command(self.posted);
        let (address, length) = command.buffer;
        let flags = if command.tag.is_none() { ANY_TAG } else { 0 };
        // Relaxed, here and below: the adapter never runs at the same time as this process.
        place.operation.store(command.operation as u32, Ordering::Relaxed);
        place.peer.store(command.peer.unwrap_or(ANY_SOURCE), Ordering::Relaxed);
        place.context.store(command.context, Ordering::Relaxed);
        place.tag.store(command.tag.unwrap_or(0) as u32, Ordering::Relaxed);
        place.flags.store(flags, Ordering::Relaxed);
        place.address.store(address as u64, Ordering::Relaxed);
        place.length.store(length as u64, Ordering::Relaxed);
        place.token.store(command.token, Ordering::Relaxed);
        place.target.store(command.target, Ordering::Relaxed);
        self.registers.ring(self.posted);
        self.posted += 1;
        true
    }

    /// The next event, if there is one.
    #[inline]
    pub fn take_event(&mut self) -> Option<AdapterEvent> {
        let event = self.memory.event(self.taken);
        // Acquire: what the adapter has written to buffers before is not read earlier. It pairs
        // with no store of a thread; the adapter runs between instructions of this one.
        if event.sequence.load(Ordering::Acquire) != self.taken + 1 {
            return None;
        }
        let status = event.status.load(Ordering::Relaxed);
        let taken = AdapterEvent {
            token: event.token.load(Ordering::Relaxed),
            status: OperationStatus::from_code(status).unwrap_or(OperationStatus::Invalid),
            source: event.source.load(Ordering::Relaxed),
            tag: event.tag.load(Ordering::Relaxed) as i32,
            bytes: event.length.load(Ordering::Relaxed) as usize,
        };
        self.taken += 1;
        Some(taken)
    }

    /// Whether the next event is there.
    #[inline]
    pub fn has_event(&self) -> bool {
        // Relaxed: `take_event` reads it again.
        self.memory.event(self.taken).sequence.load(Ordering::Relaxed) == self.taken + 1
    }

    /// Waits until there is something new.
    pub fn wait(&self) {
        self.registers.wait(self.taken);
    }

    /// Hints that the payload of the posted receive `token` will be used at once.
    pub fn hint(&self, token: u64) {
        self.registers.hint(token);
    }

    /// Marks a region of interest.
    pub fn mark(&self, level: u64) {
        self.registers.mark(level);
    }
}

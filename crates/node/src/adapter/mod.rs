//! The memory that a process shares with its network adapter: registers, commands and events.
//!
//! The adapter is modelled: under `mica sim` each process runs on a simulated node, and an adapter
//! that matches messages by itself serves it (leon-2009 3.1; the operations are those of its Table
//! 3.2). This file is the contract between the library's driver of the adapter
//! (`mica_channel::adapter`) and the model (`mica_sim::adapter`).
//!
//! Layout of the descriptor, which the process inherits by number in [`ADAPTER_VARIABLE`]:
//!
//! | offset | what | written by |
//! |---|---|---|
//! | 0 | [`Registers`]; never cached, a store reaches the adapter at once | process |
//! | [`COMMANDS_OFFSET`] | ring of [`COMMANDS`] [`Command`]s | process |
//! | [`EVENTS_OFFSET`] | ring of [`EVENTS`] [`Event`]s | adapter |
//!
//! A command or event is one cache line. An operation: the process writes the next command of the
//! ring and stores the command's number to [`Registers::doorbell`]; the adapter reads the command
//! during this store, so its place is free right after it. When the operation completes, the
//! adapter writes one event with the operation's token. The n-th event (from 0) is at place n
//! modulo [`EVENTS`] and has `sequence` n + 1, written last: the process polls the sequence of the
//! next event. It must not have more than [`EVENTS`] operations pending.
//!
//! Waiting: a process that finds no event stores the number of events that it has taken to
//! [`Registers::wait`]. Unless there is a later event, or a message has come since the last
//! [`CommandKind::Probe`], `Extract` or return of a wait that matches no posted receive, the
//! simulated clock goes on to the moment when there is one: the polls between are not simulated one
//! by one. (A message that ends one wait does not end the next: a process that probes does so in
//! between, and one that does not probe would never wait again.)
//!
//! Memory ordering: a process and its adapter never run at the same time (the model runs inside the
//! process's stores and between its instructions), so relaxed accesses suffice.

mod layout;
mod memory;

pub use layout::{
    ADAPTER_VARIABLE, ANY_SOURCE, ANY_TAG, COMMANDS, COMMANDS_OFFSET, Command, CommandKind,
    DEVICE_BYTES, EVENTS, EVENTS_OFFSET, Event, MAGIC, OperationStatus, Registers,
};
pub use memory::{AdapterError, AdapterMemory, is_simulated};

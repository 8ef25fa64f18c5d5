//! What a node and the simulator tell each other: one [`Grant`] and one [`Report`] a quantum.
//!
//! A node runs until the moment that it was granted, then reports what its adapter has sent, and
//! waits for the next grant, which has the messages that arrive in the next quantum. Messages are in
//! order of their time. The encoding is the caller's (`postcard`, with a length before it).

use serde::{Deserialize, Serialize};

use crate::adapter::Packet;
use crate::time::SimTime;

/// A packet that a node's adapter hands to the network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Departure {
    /// When its first byte leaves the adapter.
    pub at: SimTime,
    /// The node that it is for.
    pub to: u32,
    /// The packet.
    pub packet: Packet,
}

/// A packet that reaches a node's adapter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrival {
    /// When its last byte has arrived.
    pub at: SimTime,
    /// The node that it is from.
    pub from: u32,
    /// The packet.
    pub packet: Packet,
}

/// The simulator to a node: go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The moment to stop and report at.
    pub until: SimTime,
    /// What arrives before that moment, in order of time.
    pub arrivals: Vec<Arrival>,
}

/// What a node does at the end of a quantum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeState {
    /// It computes, or polls.
    Runs,
    /// It waits for a message and has nothing to do before one arrives.
    Waits,
    /// Its process has ended.
    Ended,
}

/// A node to the simulator: this far I came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Its clock: at or a little after the granted moment; for a node that waits, the moment since
    /// when.
    pub at: SimTime,
    /// What it does.
    pub state: NodeState,
    /// What its adapter has sent, in order of time.
    pub departures: Vec<Departure>,
}

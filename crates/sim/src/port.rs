//! The messages between a node and the simulator: one [`TimeGrant`] and one [`ClockReport`] a
//! quantum.
//!
//! A node runs until the moment that it was granted, then reports what its adapter has sent, and
//! waits for the next grant, which has the messages that arrive in the next quantum. Messages are
//! in order of their time. A message on the socket is a `u32` of its length and its encoding.

use std::io::{self, Read, Write};
use std::ops::Range;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::adapter::AdapterPacket;
use crate::time::SimTime;

/// Bytes of a message's length.
const LENGTH: usize = 4;

/// One end of the socket between a node and the simulator.
#[derive(Debug)]
pub struct NodePort<S> {
    stream: S,
    outbox: Vec<u8>,
    /// Bytes read ahead: a message takes one system call, as long as it is short.
    inbox: Vec<u8>,
    /// Those of `inbox` that are not used up.
    unread: Range<usize>,
}

impl<S: Read + Write> NodePort<S> {
    /// Messages over `stream`.
    pub fn new(stream: S) -> NodePort<S> {
        NodePort { stream, outbox: Vec::new(), inbox: vec![0; 4096], unread: 0..0 }
    }

    /// Sends a message. Blocks while the socket is full.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn send(&mut self, message: &impl Serialize) -> io::Result<()> {
        self.outbox.clear();
        self.outbox.extend([0; LENGTH]);
        self.outbox = postcard::to_extend(message, std::mem::take(&mut self.outbox))
            .map_err(io::Error::other)?;
        let length = u32::try_from(self.outbox.len() - LENGTH).map_err(io::Error::other)?;
        self.outbox[..LENGTH].copy_from_slice(&length.to_le_bytes());
        self.stream.write_all(&self.outbox)
    }

    /// Receives the next message. Blocks.
    ///
    /// # Errors
    /// Those of the socket, [`io::ErrorKind::UnexpectedEof`] when the other side has ended, and
    /// those of the encoding.
    pub fn receive<T: DeserializeOwned>(&mut self) -> io::Result<T> {
        let head = self.take(LENGTH)?;
        let length = u32::from_le_bytes(self.inbox[head].try_into().expect("four bytes"));
        let body = self.take(length as usize)?;
        postcard::from_bytes(&self.inbox[body]).map_err(io::Error::other)
    }

    /// The next `bytes` bytes, as a range of the inbox.
    fn take(&mut self, bytes: usize) -> io::Result<Range<usize>> {
        if self.unread.len() < bytes {
            self.inbox.copy_within(self.unread.clone(), 0);
            self.unread = 0..self.unread.len();
            self.inbox.resize(bytes.max(self.inbox.len()), 0);
        }
        while self.unread.len() < bytes {
            match self.stream.read(&mut self.inbox[self.unread.end..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => self.unread.end += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let start = self.unread.start;
        self.unread.start += bytes;
        Ok(start..start + bytes)
    }
}

/// A packet that a node's adapter hands to the network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Departure {
    /// When its first byte leaves the adapter.
    pub at: SimTime,
    /// When its last byte can leave the adapter.
    pub last: SimTime,
    /// The node that it is for.
    pub to: u32,
    /// The packet.
    pub packet: AdapterPacket,
}

/// A packet that reaches a node's adapter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PacketArrival {
    /// When its first byte has arrived.
    pub first: SimTime,
    /// When its last byte has arrived.
    pub at: SimTime,
    /// The node that it is from.
    pub from: u32,
    /// The packet.
    pub packet: AdapterPacket,
}

/// The simulator to a node: go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeGrant {
    /// The moment to stop and report at.
    pub until: SimTime,
    /// What arrives before that moment, in order of time.
    pub arrivals: Vec<PacketArrival>,
}

/// What a node does at the end of a quantum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeState {
    /// It computes, or polls.
    Runs,
    /// It waits for a message and has nothing to do before one arrives, or its adapter has
    /// something to do.
    Waits {
        /// When the adapter has; [`SimTime::NEVER`] if never.
        due: SimTime,
    },
    /// Its process has ended.
    Ended,
}

/// A node to the simulator: this far I came.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClockReport {
    /// Its clock: at or a little after the granted moment; for a node that waits, the moment since
    /// when.
    pub at: SimTime,
    /// What it does.
    pub state: NodeState,
    /// What its adapter has sent, in order of time.
    pub departures: Vec<Departure>,
    /// With the last report: what the node counted.
    pub summary: Option<NodeSummary>,
}

/// Which part of the program is simulated in detail. The rest is run with its instructions counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum DetailedRegion {
    /// All of it.
    Everything,
    /// From `MPI_Pcontrol(1)` to `MPI_Pcontrol(0)`.
    Pcontrol,
    /// From the entry of one function to that of another.
    Functions {
        /// Its entry begins the region.
        begin: String,
        /// Its entry ends it.
        end: String,
    },
    /// During calls of a function: from the entry of the first to the entry of the one after the
    /// last.
    Calls {
        /// The function.
        function: String,
        /// Number of the first call, from 1.
        first: u64,
        /// Number of the last call.
        last: u64,
    },
}

/// The simulator to a node, once, before its process starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeSetup {
    /// The machine, as TOML.
    pub machine: String,
    /// Name of the policy of injection.
    pub policy: String,
    /// No caches: each access costs what a hit in the first cache does.
    pub loose: bool,
    /// What is simulated in detail.
    pub region: DetailedRegion,
    /// This node's rank.
    pub rank: u32,
    /// Number of nodes.
    pub size: u32,
    /// Seed of the random bytes that the program asks the system for.
    pub seed: u64,
}

/// What a node counted, in the region of interest.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeSummary {
    /// Instructions, also outside the region.
    pub instructions: u64,
    /// Simulated time until the program's end.
    pub end: SimTime,
    /// Simulated time inside the region.
    pub region: SimTime,
    /// The part of it in which the program waited for the adapter.
    pub waited: SimTime,
    /// Counts by name.
    pub counts: Vec<(String, u64)>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn messages_of_all_lengths_arrive_in_order() {
        let (one, other) = UnixStream::pair().expect("a pair of sockets");
        let lengths = [0, 1, 4091, 4092, 4093, 100_000, 3, 70_000, 0];
        let sender = std::thread::spawn(move || {
            let mut port = NodePort::new(one);
            for length in lengths {
                port.send(&vec![length as u8; length]).expect("sent");
            }
        });
        let mut port = NodePort::new(other);
        for length in lengths {
            let message: Vec<u8> = port.receive().expect("received");
            assert_eq!(message, vec![length as u8; length]);
        }
        sender.join().expect("no panic");
        let end = port.receive::<Vec<u8>>().expect_err("the other end is gone");
        assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
    }
}

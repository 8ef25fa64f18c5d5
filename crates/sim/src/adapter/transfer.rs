//! Transfers between the process's memory and the wire.
//!
//! A message leaves while it is still being read, and is written while it still arrives
//! (cut-through), so that the slowest stage and not the sum of all limits the bandwidth:
//!
//! - its first byte may leave as soon as the first line is read, but so late that no byte is
//!   missing when its turn comes on the wire;
//! - it is written as its bytes come, and the last not before it has arrived.
//!
//! How fast the memory reads and writes for the adapter, one transfer after another, is the
//! [`AdapterHost`]'s to say.

use super::host::AdapterHost;
use super::policy::PlacedBytes;
use crate::machine::SimulatedMachine;
use crate::time::SimTime;

/// Reads messages for the wire.
#[derive(Debug)]
pub(super) struct Wire {
    /// Picoseconds a byte.
    byte_gap: f64,
    /// Bytes of a line of the process's caches.
    line: u64,
}

/// A message that was read.
#[derive(Debug)]
pub(super) struct ReadOut {
    pub bytes: Vec<u8>,
    /// When its first byte can leave.
    pub can_leave: SimTime,
    /// When all is read.
    pub done: SimTime,
}

impl Wire {
    pub fn new(machine: &SimulatedMachine) -> Wire {
        let network = &machine.network;
        Wire {
            byte_gap: network.gap_per_byte_ns * 1e3 / network.bandwidth_factor,
            line: u64::from(machine.caches.line),
        }
    }

    /// How long the bytes of a message follow its first.
    pub fn time(&self, bytes: u64) -> SimTime {
        let following = bytes.saturating_sub(1);
        SimTime((following as f64 * self.byte_gap).round() as u64)
    }

    /// Reads `length` bytes at `address`. `None` if there is no memory for them.
    pub fn read(
        &self,
        at: SimTime,
        address: u64,
        length: u64,
        host: &mut dyn AdapterHost,
    ) -> Option<ReadOut> {
        let room = usize::try_from(length).ok()?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(room).ok()?;
        bytes.resize(room, 0);
        let first = length.min(self.line - address % self.line);
        let (head, rest) = bytes.split_at_mut(first as usize);
        let mut head_done = at;
        if !head.is_empty() {
            head_done = host.read(at, address, head);
        }
        let mut done = head_done;
        if !rest.is_empty() {
            done = done.max(host.read(at, address + first, rest));
        }
        let in_time = SimTime(done.0.saturating_sub(self.time(length).0));
        Some(ReadOut { bytes, can_leave: head_done.max(in_time), done })
    }
}

/// Writes `bytes` to `address`, in `runs` that are as long together. Returns when all is written.
pub(super) fn write(
    at: SimTime,
    address: u64,
    bytes: &[u8],
    runs: &[PlacedBytes],
    host: &mut dyn AdapterHost,
) -> SimTime {
    let mut done = at;
    let (mut rest, mut next) = (bytes, address);
    for run in runs {
        let (part, after) = rest.split_at(run.bytes as usize);
        done = done.max(host.write(at, next, part, run.target));
        rest = after;
        next += run.bytes;
    }
    done
}

//! Transfers between the process's memory and the wire.
//!
//! A message leaves while it is still being read, and is written while it still arrives
//! (cut-through), so that the slowest stage and not the sum of all limits the bandwidth:
//!
//! - its first byte leaves as soon as the first line is read, the others as they are read, or as
//!   fast as the network takes them;
//! - it is written as its bytes come, and the last not before it has arrived.
//!
//! How fast the memory reads and writes for the adapter, one transfer after another, is the
//! [`AdapterHost`]'s to say.

use super::host::AdapterHost;
use super::policy::PlacedBytes;
use crate::time::{ByteTimes, SimTime};

/// A message that was read.
#[derive(Debug)]
pub(super) struct ReadOut {
    pub bytes: Vec<u8>,
    pub times: ByteTimes,
}

/// Reads `length` bytes at `address` from `at` on; a line of the caches has `line` bytes. `None` if
/// there is no memory for them.
pub(super) fn read(
    at: SimTime,
    (address, length): (u64, u64),
    line: u64,
    host: &mut dyn AdapterHost,
) -> Option<ReadOut> {
    let room = usize::try_from(length).ok()?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(room).ok()?;
    bytes.resize(room, 0);
    let (head, rest) = bytes.split_at_mut(length.min(line - address % line) as usize);
    let mut times = ByteTimes::at_once(at);
    if !head.is_empty() {
        times.first = host.read(at, address, head);
    }
    times.last = times.first;
    if !rest.is_empty() {
        times.last = times.first.max(host.read(at, address + head.len() as u64, rest));
    }
    Some(ReadOut { bytes, times })
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

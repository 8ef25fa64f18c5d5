//! How much traffic a [`Background`](crate::Background) has, of the sorts that a study varies.

use serde::{Deserialize, Serialize};

/// The part of a link that an I/O burst takes.
const IO_SHARE: f64 = 0.9999;

/// Mean quiet time between I/O bursts, in seconds: about 20 calls of the modelled allreduce of
/// 16 KiB, so that about one call in 20 meets the start of a burst, as in the paper.
const IO_QUIET: f64 = 5e-3;

/// A memory stream runs for this long at a time, and is quiet for as long on average (seconds).
const STREAM_TIME: f64 = 2e-3;

/// How much there is of one sort of traffic.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum TrafficIntensity {
    /// I/O.
    Io(IoIntensity),
    /// Memory streams.
    Streams(StreamIntensity),
}

/// How much I/O there is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct IoIntensity {
    /// The part of each link on its way that a burst takes.
    pub share: f64,
    /// The mean quiet time between bursts, in seconds.
    pub quiet: f64,
}

impl IoIntensity {
    /// What [`Background::io`](crate::Background::io) has: chosen so that the modelled X4600 shows
    /// the shares that the paper measured, so these shares are no evidence for it. `model::study`
    /// varies it.
    pub const DEFAULT: IoIntensity = IoIntensity { share: IO_SHARE, quiet: IO_QUIET };
}

/// How many memory streams there are.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StreamIntensity {
    /// Streams from each chip, which come and go together; each is as fast as a core.
    pub streams: u32,
    /// How long they run at a time, and on average are quiet in between, in seconds.
    pub time: f64,
}

impl StreamIntensity {
    /// What [`Background::memory_streams`](crate::Background::memory_streams) has.
    pub const DEFAULT: StreamIntensity = StreamIntensity { streams: 1, time: STREAM_TIME };
}

impl TrafficIntensity {
    /// Whether `--background` has this one.
    pub fn is_default(self) -> bool {
        match self {
            TrafficIntensity::Io(io) => io == IoIntensity::DEFAULT,
            TrafficIntensity::Streams(streams) => streams == StreamIntensity::DEFAULT,
        }
    }
}

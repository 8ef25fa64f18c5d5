//! Why there is no DSA device to copy.

use super::queues::QueueMode;
use std::io;
use std::path::PathBuf;

/// Why no device is available for copying.
#[derive(Debug, thiserror::Error)]
pub enum NoDevice {
    /// Another engine was requested.
    #[error("DSA devices were not searched for")]
    NotLookedFor,
    /// The machine has no DSA, or no queue is set up.
    #[error("no enabled work queue of type user in {directory} (see accel-config)")]
    NoQueue {
        /// Where queues are listed.
        directory: &'static str,
    },
    /// This process may not use the queue, or another process uses it.
    #[error("{call} of DSA work queue {} failed: {source}", .queue.display())]
    Refused {
        /// The queue's character device.
        queue: PathBuf,
        /// The call.
        call: &'static str,
        /// Its error.
        source: io::Error,
    },
    /// The processor cannot submit to a queue of this mode.
    #[error("the processor lacks the instruction for {mode:?} DSA work queue {}", .queue.display())]
    NoInstruction {
        /// The queue's character device.
        queue: PathBuf,
        /// Its mode.
        mode: QueueMode,
    },
}

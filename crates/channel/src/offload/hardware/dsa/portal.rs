//! What the feeder needs of a work queue.

use super::descriptor::Descriptor;

/// The result of submitting a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::offload) enum Submission {
    /// The device will write its completion record.
    Accepted,
    /// The queue has no room: try again later.
    Full,
    /// The queue will never accept it.
    Refused,
}

/// Access to a work queue.
pub(in crate::offload) trait Portal: Send + std::fmt::Debug {
    /// Submits a descriptor. Its addresses and its record must stay valid until the record is
    /// written.
    fn submit(&mut self, descriptor: &Descriptor) -> Submission;

    /// Entries of the queue: descriptors that may be out at once.
    fn entries(&self) -> usize;

    /// Longest transfer of one descriptor, in bytes.
    fn max_transfer(&self) -> usize;

    /// Whether the queue is in service. The driver drains a queue before it disables it, so a
    /// disabled queue touches no memory any more.
    fn is_enabled(&self) -> bool;
}

//! What a receiver whose unexpected messages pile up asks of a sender.

/// A change of whether a sender's messages are held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoldChange {
    /// The sender is to send no messages until it is released.
    Hold,
    /// The sender may go on.
    Release,
}

//! What a process needs to wake another one by its wake-up socket.

/// The address of a wake-up socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WakeAddress {
    /// Number in the socket's name.
    pub number: u32,
    /// What a wake-up must carry.
    pub nonce: u64,
}

//! Errors of the network channel.

use mica_memory::OutOfMemory;

/// The network failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NetError {
    /// The library cannot be loaded.
    #[error(
        "cannot load {file}: {why}; install libfabric (Debian: libfabric1), or name its file in \
        MICA_NET_LIBRARY"
    )]
    Library {
        /// The requested file.
        file: String,
        /// The error text of the dynamic linker, or what the library lacks.
        why: String,
    },
    /// The library offers no provider that fits.
    #[error(
        "no network for this job: asked for {asked}; libfabric {version} at {file} offers {found}"
    )]
    NoProvider {
        /// The request as text.
        asked: String,
        /// Version of the library.
        version: String,
        /// Its file.
        file: String,
        /// Every offer, with the reason why it was not chosen.
        found: String,
    },
    /// A call of the library failed.
    #[error("{call} failed on {provider}: {why} (error {code})")]
    Call {
        /// The call.
        call: &'static str,
        /// The provider's name.
        provider: String,
        /// libfabric's error text.
        why: String,
        /// libfabric's error number.
        code: i32,
    },
    /// The address of a peer cannot be reached from this rank.
    #[error("rank {peer} cannot be reached: {why}")]
    Unreachable {
        /// Its job rank.
        peer: u32,
        /// What is wrong with the address.
        why: String,
    },
    /// A peer is lost.
    #[error("{0}")]
    Lost(LostPeer),
    /// The provider lacks an operation.
    #[error("the network provider {provider} has no {operation}")]
    Unsupported {
        /// The operation.
        operation: &'static str,
        /// The provider's name.
        provider: String,
    },
    /// An argument is invalid.
    #[error("{operation}: {why}")]
    Argument {
        /// The operation.
        operation: &'static str,
        /// The argument, and what is wrong with it.
        why: String,
    },
    /// No memory for buffers.
    #[error(transparent)]
    Memory(#[from] OutOfMemory),
}

/// A peer that no longer answers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("rank {peer} is lost: {detail}")]
pub struct LostPeer {
    /// Its job rank.
    pub peer: u32,
    /// The operation that failed, and the provider's error text.
    pub detail: String,
}

//! Selects the path of a put or get on a target of another node: a pure function of how its bytes
//! lie and of what is known of the target's memory.
//!
//! RMA moves the bytes without a copy at the target, and needs no message; but each piece of the
//! target's memory is an operation of its own, which costs some microseconds. Messages pack pieces
//! together, and are copied at both sides.

use crate::select::OutgoingMessage;

/// The path of a put or get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OneSidedPath {
    /// The network writes or reads the target's registered memory.
    Rma,
    /// The target carries out requests.
    Messages,
}

/// What the origin knows of the registration of the target's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetRegistration {
    /// It is not registered.
    None,
    /// By a key that the origin has.
    Known,
    /// By a key that the target has to be asked for, at each operation: memory is attached and
    /// detached at any time (`MPI_Win_attach`).
    OnRequest,
}

/// Which operations go by RMA.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RmaUse {
    /// Those that it pays for.
    Auto,
    /// All that it can carry.
    Always,
}

/// Mean length in bytes of the target's pieces from which on RMA pays. Over tcp on one machine a
/// part of an RMA operation takes 5 to 10 us, a packet of 16 KiB of pieces 6 to 9 us
/// (docs/design/net.md).
pub const PIECE_MIN: usize = 4 << 10;

/// Bytes of an operation from which on a round trip for the key pays: two of the requests of 32 KiB
/// that it saves.
pub const ASKED_MIN: usize = 64 << 10;

/// The path of an operation on `message.len` bytes in `message.pieces` pieces at the target.
pub fn one_sided_path(
    message: &OutgoingMessage,
    registration: TargetRegistration,
    rma: RmaUse,
) -> OneSidedPath {
    let pays = message.pieces <= 1 || message.len / message.pieces >= PIECE_MIN;
    let is_rma = message.len > 0
        && match (registration, rma) {
            (TargetRegistration::None, _) => false,
            (_, RmaUse::Always) => true,
            (TargetRegistration::Known, RmaUse::Auto) => pays,
            (TargetRegistration::OnRequest, RmaUse::Auto) => pays && message.len >= ASKED_MIN,
        };
    match is_rma {
        true => OneSidedPath::Rma,
        false => OneSidedPath::Messages,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(len: usize, pieces: usize, registration: TargetRegistration) -> OneSidedPath {
        let message = OutgoingMessage { pieces, ..OutgoingMessage::contiguous(len) };
        one_sided_path(&message, registration, RmaUse::Auto)
    }

    #[test]
    fn few_long_pieces_go_by_rma() {
        use OneSidedPath::{Messages, Rma};
        let known = TargetRegistration::Known;
        assert_eq!(path(8, 1, known), Rma);
        assert_eq!(path(1 << 20, 1, known), Rma);
        assert_eq!(path(1 << 20, 256, known), Rma);
        assert_eq!(path(1 << 20, 257, known), Messages);
        assert_eq!(path(16, 2, known), Messages);
        assert_eq!(path(0, 0, known), Messages);
    }

    #[test]
    fn a_key_is_asked_for_by_long_operations() {
        use OneSidedPath::{Messages, Rma};
        let asked = TargetRegistration::OnRequest;
        assert_eq!(path(ASKED_MIN - 1, 1, asked), Messages);
        assert_eq!(path(ASKED_MIN, 1, asked), Rma);
        assert_eq!(path(ASKED_MIN, 17, asked), Messages);
    }

    #[test]
    fn without_a_registration_nothing_goes_by_rma() {
        let message = OutgoingMessage::contiguous(1 << 20);
        for rma in [RmaUse::Auto, RmaUse::Always] {
            let path = one_sided_path(&message, TargetRegistration::None, rma);
            assert_eq!(path, OneSidedPath::Messages);
        }
    }

    #[test]
    fn always_is_for_every_length_that_is_registered() {
        let message = OutgoingMessage { pieces: 4, ..OutgoingMessage::contiguous(4) };
        for registration in [TargetRegistration::Known, TargetRegistration::OnRequest] {
            let path = one_sided_path(&message, registration, RmaUse::Always);
            assert_eq!(path, OneSidedPath::Rma);
        }
    }
}

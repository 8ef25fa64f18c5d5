//! The operation header beside a member's stamp: which call the member makes, and how many bytes it
//! takes part with.
//!
//! | bits | what |
//! |---|---|
//! | 0 to 41 | bytes |
//! | 42 to 46 | the root of the previous operation ([`RootBefore`]) |
//! | 47 | refused: the owner could not copy directly; members concerned go on through cells |
//! | 48 to 50 | lag: this number minus the number up to which the owner has finished all |
//! | 51 | parity of how often the operation slot has been used |
//! | 52 to 63 | the [`OperationKind`] |
//!
//! A line is written again four operations later, and not before all have finished. So a rank that
//! is in an operation finds, in a line of its slot, the header of this operation or of the previous
//! one in this slot; bit 51 distinguishes them. A rank that waits too long can thus check, without
//! a stamp, whether the other rank is in the same operation with another call.
//!
//! If two ranks each take themselves for the root of a short broadcast, or each take another rank
//! for the root of a short gather, neither waits for anything, so neither checks. They find out in
//! the next operation, from bits 42 to 46. This costs nothing there: the bits are compared together
//! with the kind.

use mica_node::area::OPERATION_SLOTS;
use mica_policy::collective::Collective;

const BEFORE_AT: u32 = 42;
const REFUSED_AT: u32 = 47;
const LAG_AT: u32 = 48;
const TIME_AT: u32 = 51;
const KIND_AT: u32 = 52;

/// Maximum lag: no operation begins before the one [`OPERATION_SLOTS`] earlier is finished.
const LAG_MAX: u64 = OPERATION_SLOTS as u64;
const _: () = assert!(LAG_MAX < 1 << (TIME_AT - LAG_AT) && OPERATION_SLOTS.is_power_of_two());

/// What all members of a node group must call alike: the collective (from bit 8 on), whether it
/// copies directly (bit 7), and its root (modulo 128).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OperationKind(u16);

const DIRECTLY: u16 = 1 << 7;
const COLLECTIVE_AT: u32 = 8;

/// The bits that must be equal for all members.
const ALIKE: u64 = !0 << KIND_AT | ((1 << (REFUSED_AT - BEFORE_AT)) - 1) << BEFORE_AT;

/// The root of the previous operation, in five bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RootBefore(u8);

impl RootBefore {
    /// It had no root, or there was no previous operation.
    pub const NONE: RootBefore = RootBefore(0);
    /// It failed for another reason: nothing is compared.
    pub const ANY: RootBefore = RootBefore(30);
    /// This rank has raised an error because ranks named different roots: a rank that has not yet
    /// raised one does so now.
    pub const WRONG: RootBefore = RootBefore(31);

    /// It had this root. (Roots 28 to 31 modulo 32 share one value, to make room for the others.)
    #[inline]
    pub fn is(root: usize) -> RootBefore {
        RootBefore((root & 31).min(28) as u8 + 1)
    }

    /// As a number of five bits.
    #[inline]
    pub fn bits(self) -> u64 {
        u64::from(self.0)
    }

    /// The inverse of [`bits`](Self::bits).
    #[inline]
    pub fn from_bits(bits: u64) -> RootBefore {
        RootBefore(bits as u8 & 31)
    }
}

/// The number of `MPI_Exscan`; the other collectives' numbers come before it.
const EXSCAN: u16 = Collective::ALL.len() as u16 + 1;
/// The number of `MPI_Finalize`.
const FINALIZE: u16 = EXSCAN + 1;
const _: () = assert!(FINALIZE < 1 << (64 - KIND_AT - COLLECTIVE_AT));

impl From<Collective> for OperationKind {
    /// Without a root, or with the first rank as root; through cells.
    #[inline]
    fn from(collective: Collective) -> OperationKind {
        OperationKind((collective as u16 + 1) << COLLECTIVE_AT)
    }
}

impl OperationKind {
    /// `MPI_Exscan`.
    pub const EXSCAN: OperationKind = OperationKind(EXSCAN << COLLECTIVE_AT);

    /// `MPI_Finalize`.
    pub const FINALIZE: OperationKind = OperationKind(FINALIZE << COLLECTIVE_AT);

    /// The same kind, of an operation that copies directly where possible.
    #[inline]
    pub fn copying_directly(self) -> OperationKind {
        OperationKind(self.0 | DIRECTLY)
    }

    /// The same kind with this root; it must not have one yet.
    #[inline]
    pub fn rooted(self, root: usize) -> OperationKind {
        OperationKind(self.0 | (root as u16 & (DIRECTLY - 1)))
    }

    /// The MPI call.
    pub fn name(self) -> &'static str {
        let number = self.0 >> COLLECTIVE_AT;
        match number {
            EXSCAN => return "MPI_Exscan",
            FINALIZE => return "MPI_Finalize",
            _ => {}
        }
        match Collective::ALL.get(usize::from(number).wrapping_sub(1)) {
            Some(Collective::Barrier) => "MPI_Barrier",
            Some(Collective::Bcast) => "MPI_Bcast",
            Some(Collective::Gather) => "MPI_Gather(v)",
            Some(Collective::Scatter) => "MPI_Scatter(v)",
            Some(Collective::Allgather) => "MPI_Allgather(v)",
            Some(Collective::Alltoall) => "MPI_Alltoall(v,w)",
            Some(Collective::Reduce) => "MPI_Reduce",
            Some(Collective::Allreduce) => "MPI_Allreduce",
            Some(Collective::ReduceScatter) => "MPI_Reduce_scatter(_block)",
            Some(Collective::Scan) => "MPI_Scan",
            None => "an unknown collective",
        }
    }

    /// Whether the other is the same MPI call.
    pub fn is_same_call(self, other: OperationKind) -> bool {
        self.0 >> COLLECTIVE_AT == other.0 >> COLLECTIVE_AT
    }

    /// What the next operation announces about this one.
    #[inline]
    pub fn root_before(self) -> RootBefore {
        match Collective::ALL.get(usize::from(self.0 >> COLLECTIVE_AT).wrapping_sub(1)) {
            Some(
                Collective::Bcast | Collective::Gather | Collective::Scatter | Collective::Reduce,
            ) => RootBefore::is(self.root()),
            _ => RootBefore::NONE,
        }
    }

    /// The root, modulo 128.
    pub fn root(self) -> usize {
        usize::from(self.0 & (DIRECTLY - 1))
    }
}

/// What a member announces about its part in an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OperationHeader(pub u64);

impl OperationHeader {
    /// The header of operation `number`, whose owner has finished all operations up to
    /// `number - lag`.
    #[inline]
    pub fn new(
        kind: OperationKind,
        before: RootBefore,
        number: u64,
        lag: u64,
        bytes: usize,
    ) -> OperationHeader {
        debug_assert!(lag <= LAG_MAX);
        // The bit that counts how often the slots have been used moves to its place.
        let time =
            (number & OPERATION_SLOTS as u64) << (TIME_AT - OPERATION_SLOTS.trailing_zeros());
        let bytes = bytes as u64 & ((1 << BEFORE_AT) - 1);
        let before = before.bits() << BEFORE_AT;
        OperationHeader(u64::from(kind.0) << KIND_AT | time | lag << LAG_AT | before | bytes)
    }

    /// Whether both announce the same call and the same root of the previous operation. (Also false
    /// if only one of them knows of an error there.)
    #[inline]
    pub fn is_alike(self, other: OperationHeader) -> bool {
        (self.0 ^ other.0) & ALIKE == 0
    }

    /// The root of the previous operation.
    pub fn before(self) -> RootBefore {
        RootBefore::from_bits(self.0 >> BEFORE_AT)
    }

    /// Which call it is.
    #[inline]
    pub fn kind(self) -> OperationKind {
        OperationKind((self.0 >> KIND_AT) as u16)
    }

    /// This operation's number minus the number up to which the owner has finished all operations.
    #[inline]
    pub fn lag(self) -> u64 {
        self.0 >> LAG_AT & ((1 << (TIME_AT - LAG_AT)) - 1)
    }

    /// Bytes that the owner takes part with.
    #[inline]
    pub fn bytes(self) -> usize {
        (self.0 & ((1 << BEFORE_AT) - 1)) as usize
    }

    /// The same header for an owner that could not copy.
    pub fn refused(self) -> OperationHeader {
        OperationHeader(self.0 | 1 << REFUSED_AT)
    }

    /// Whether the owner could not copy.
    pub fn is_refused(self) -> bool {
        self.0 >> REFUSED_AT & 1 == 1
    }

    /// Whether it belongs to operation `number`, and not to the previous one in the same slot or to
    /// none.
    pub fn is_of(self, number: u64) -> bool {
        let time = |number: u64| (number / OPERATION_SLOTS as u64) & 1;
        self.0 != 0 && self.0 >> TIME_AT & 1 == time(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_holds_what_it_was_made_of() {
        for number in 1..40 {
            for (collective, root, lag, bytes) in [
                (Collective::Barrier, 0, 1, 0),
                (Collective::Scan, 127, 4, (1 << 42) - 1),
                (Collective::Bcast, 5, 3, 77),
            ] {
                let kind = OperationKind::from(collective).rooted(root);
                let before = RootBefore::is(number as usize);
                let word = OperationHeader::new(kind, before, number, lag, bytes);
                assert_eq!(word.before(), before);
                let other = OperationHeader::new(kind, RootBefore::NONE, number + 1, 2, 9);
                assert!(!word.is_alike(other) && other.is_alike(other.refused()));
                assert_eq!((word.kind(), word.kind().root()), (kind, root));
                assert_eq!((word.lag(), word.bytes()), (lag, bytes));
                let refused = word.refused();
                assert!(refused.is_refused() && !word.is_refused());
                assert_eq!((refused.kind(), refused.bytes()), (kind, bytes));
                assert!(word.is_of(number));
                assert!(!word.is_of(number + OPERATION_SLOTS as u64));
            }
        }
        assert!(!OperationHeader(0).is_of(1), "of no operation yet");
    }

    #[test]
    fn other_calls_and_roots_are_other_kinds() {
        let kinds: Vec<OperationKind> = Collective::ALL
            .iter()
            .flat_map(|&c| [OperationKind::from(c), OperationKind::from(c).rooted(1)])
            .chain([OperationKind(EXSCAN << COLLECTIVE_AT)])
            .collect();
        for (i, a) in kinds.iter().enumerate() {
            for (j, b) in kinds.iter().enumerate() {
                assert_eq!(a == b, i == j);
                assert_eq!(a.is_same_call(*b), a.name() == b.name());
            }
        }
    }
}

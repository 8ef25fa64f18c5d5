//! The word beside a member's stamp: which call it makes, and how many bytes it takes part with.
//!
//! | bits | what |
//! |---|---|
//! | 0 to 40 | bytes |
//! | 41 to 46 | the [`Label`]: by which function it was called |
//! | 47 | its owner could not copy what it should have copied directly: those whom that concerns go on through cells |
//! | 48 to 50 | the lag: operations from the last before which its owner has finished all up to this one |
//! | 51 | whether the turn is used for an even or an odd time |
//! | 52 to 63 | the [`Kind`] |
//!
//! A line is written again four operations later and not before all have finished, so whoever is in an operation finds in a line
//! of its turn the word of this operation or of the one before in this turn. Bit 51 tells them apart. So a rank that waits in
//! vain can look, without a stamp, whether the other is in the same operation with another call.

use mica_channel::area::TURNS;
use mica_policy::collective::Collective;

use super::What;
use crate::collective::{LABEL_BITS, Label};

const LABEL_AT: u32 = 41;
const REFUSED_AT: u32 = LABEL_AT + LABEL_BITS;
const LAG_AT: u32 = REFUSED_AT + 1;
const TIME_AT: u32 = 51;
const KIND_AT: u32 = 52;

/// Most that a lag can be: no operation is begun before the one [`TURNS`] earlier is finished.
const LAG_MAX: u64 = TURNS as u64;
const _: () = assert!(LAG_MAX < 1 << (TIME_AT - LAG_AT) && TURNS.is_power_of_two());

/// What all members of a team must call alike: the collective (from bit 8 on), whether it copies directly (bit 7), and its root
/// (as far as seven bits tell).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind(u16);

const DIRECTLY: u16 = 1 << 7;
const COLLECTIVE_AT: u32 = 8;

/// The number of `MPI_Exscan`; those of other collectives come before it.
const EXSCAN: u16 = Collective::ALL.len() as u16 + 1;
const _: () = assert!(EXSCAN < 1 << (64 - KIND_AT - COLLECTIVE_AT));

impl From<Collective> for Kind {
    /// Without a root, or with the first rank as it; through cells.
    #[inline]
    fn from(collective: Collective) -> Kind {
        Kind((collective as u16 + 1) << COLLECTIVE_AT)
    }
}

impl Kind {
    /// The kind of an operation that copies `directly` where that can be.
    pub fn of(what: &What, directly: bool) -> Kind {
        let kind = match what {
            What::Scan {
                exclusive: true, ..
            } => Kind(EXSCAN << COLLECTIVE_AT),
            _ => Kind::from(what.collective()),
        };
        let kind = match directly {
            true => Kind(kind.0 | DIRECTLY),
            false => kind,
        };
        what.root().map_or(kind, |root| kind.rooted(root))
    }

    /// The same with this root, for one that has none yet.
    #[inline]
    pub fn rooted(self, root: usize) -> Kind {
        Kind(self.0 | (root as u16 & (DIRECTLY - 1)))
    }

    /// The MPI function, blocking and without displacements: what calls do that have no [`Label`].
    pub fn name(self) -> &'static str {
        let number = self.0 >> COLLECTIVE_AT;
        if number == EXSCAN {
            return "MPI_Exscan";
        }
        match Collective::ALL.get(usize::from(number).wrapping_sub(1)) {
            Some(Collective::Barrier) => "MPI_Barrier",
            Some(Collective::Bcast) => "MPI_Bcast",
            Some(Collective::Gather) => "MPI_Gather",
            Some(Collective::Scatter) => "MPI_Scatter",
            Some(Collective::Allgather) => "MPI_Allgather",
            Some(Collective::Alltoall) => "MPI_Alltoall",
            Some(Collective::Reduce) => "MPI_Reduce",
            Some(Collective::Allreduce) => "MPI_Allreduce",
            Some(Collective::ReduceScatter) => "MPI_Reduce_scatter",
            Some(Collective::Scan) => "MPI_Scan",
            None => "an unknown collective",
        }
    }

    /// Whether the other is the same MPI call.
    pub fn is_same_call(self, other: Kind) -> bool {
        self.0 >> COLLECTIVE_AT == other.0 >> COLLECTIVE_AT
    }

    /// The root, modulo 128.
    pub fn root(self) -> usize {
        usize::from(self.0 & (DIRECTLY - 1))
    }
}

/// What a member says of its part in an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Word(pub u64);

impl Word {
    /// The word of operation `number`, of whose owner all operations up to `number - lag` are finished.
    #[inline]
    pub fn new(kind: Kind, number: u64, lag: u64, bytes: usize) -> Word {
        debug_assert!(lag <= LAG_MAX);
        // The bit that counts how often the turns have been used moves to its place.
        let time = (number & TURNS as u64) << (TIME_AT - TURNS.trailing_zeros());
        let bytes = bytes as u64 & ((1 << LABEL_AT) - 1);
        Word(u64::from(kind.0) << KIND_AT | time | lag << LAG_AT | bytes)
    }

    /// The same with the name of the call, for one that has none yet.
    #[inline]
    pub fn labelled(self, label: Label) -> Word {
        let number = label.number();
        debug_assert!(number < 1 << LABEL_BITS, "neighbourhoods use no area");
        Word(self.0 | u64::from(number & ((1 << LABEL_BITS) - 1)) << LABEL_AT)
    }

    /// The name of the MPI function that was called.
    pub fn call_name(self) -> String {
        let number = (self.0 >> LABEL_AT) as u8 & ((1 << LABEL_BITS) - 1);
        let name = Label::from_number(number).name();
        name.unwrap_or_else(|| self.kind().name().to_owned())
    }

    /// Which call it is.
    #[inline]
    pub fn kind(self) -> Kind {
        Kind((self.0 >> KIND_AT) as u16)
    }

    /// How far behind the last operation is up to which its owner has finished all.
    #[inline]
    pub fn lag(self) -> u64 {
        self.0 >> LAG_AT & ((1 << (TIME_AT - LAG_AT)) - 1)
    }

    /// Bytes that its owner takes part with.
    #[inline]
    pub fn bytes(self) -> usize {
        (self.0 & ((1 << LABEL_AT) - 1)) as usize
    }

    /// The same of an owner that could not copy.
    pub fn refused(self) -> Word {
        Word(self.0 | 1 << REFUSED_AT)
    }

    /// Whether its owner could not copy.
    pub fn is_refused(self) -> bool {
        self.0 >> REFUSED_AT & 1 == 1
    }

    /// Whether it is that of operation `number`, and not of the one before in the same turn or of none.
    pub fn is_of(self, number: u64) -> bool {
        let time = |number: u64| (number / TURNS as u64) & 1;
        self.0 != 0 && self.0 >> TIME_AT & 1 == time(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::{Form, Function};

    #[test]
    fn a_word_holds_what_it_was_made_of() {
        for number in 1..40 {
            for (collective, root, lag, bytes) in [
                (Collective::Barrier, 0, 1, 0),
                (Collective::Scan, 127, 4, (1 << 41) - 1),
                (Collective::Bcast, 5, 3, 77),
            ] {
                let kind = Kind::from(collective).rooted(root);
                let word = Word::new(kind, number, lag, bytes);
                assert_eq!((word.kind(), word.kind().root()), (kind, root));
                assert_eq!((word.lag(), word.bytes()), (lag, bytes));
                let refused = word.refused();
                assert!(refused.is_refused() && !word.is_refused());
                assert_eq!((refused.kind(), refused.bytes()), (kind, bytes));
                assert!(word.is_of(number));
                assert!(!word.is_of(number + TURNS as u64));
                assert_eq!(word.call_name(), kind.name());
                let labelled = word.labelled(Label::new(Function::Scan, Form::Immediate));
                assert_eq!(labelled.call_name(), "MPI_Iscan");
                assert_eq!(
                    (labelled.kind(), labelled.lag(), labelled.bytes()),
                    (kind, lag, bytes)
                );
            }
        }
        assert!(!Word(0).is_of(1), "of no operation yet");
    }

    #[test]
    fn other_calls_and_roots_are_other_kinds() {
        let kinds: Vec<Kind> = Collective::ALL
            .iter()
            .flat_map(|&c| [Kind::from(c), Kind::from(c).rooted(1)])
            .chain([Kind(EXSCAN << COLLECTIVE_AT)])
            .collect();
        for (i, a) in kinds.iter().enumerate() {
            for (j, b) in kinds.iter().enumerate() {
                assert_eq!(a == b, i == j);
                assert_eq!(a.is_same_call(*b), a.name() == b.name());
            }
        }
    }
}

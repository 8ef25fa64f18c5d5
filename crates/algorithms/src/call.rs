//! The names of the collectives and of their algorithms, and the description that belongs to a
//! name.
//!
//! [`Collective::algorithms`] lists what may be chosen; [`MessageCall::describe`] has an arm for
//! each. Not everything that is described has a name: calls in place and blocks of different
//! lengths use the same functions, with other arguments.

use crate::reduce_scatter::ScatteredBlocks;
use crate::{
    BlockLengths, OwnData, RankPlace, ReduceBuffers, ReductionShape, RoundSink, ScanKind,
    allgather, allreduce, alltoall, barrier, bcast, gather, reduce, reduce_scatter, scan,
};

/// A collective operation; its v-, w- and non-blocking forms have the same name, and exclusive
/// scans are scans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Collective {
    /// `MPI_Barrier`.
    Barrier = 0,
    /// `MPI_Bcast`.
    Bcast,
    /// `MPI_Gather`.
    Gather,
    /// `MPI_Scatter`.
    Scatter,
    /// `MPI_Allgather`.
    Allgather,
    /// `MPI_Alltoall`.
    Alltoall,
    /// `MPI_Reduce`.
    Reduce,
    /// `MPI_Allreduce`.
    Allreduce,
    /// `MPI_Reduce_scatter`.
    ReduceScatter,
    /// `MPI_Scan`, `MPI_Exscan`.
    Scan,
}

/// Number of [`Collective`]s.
pub const COLLECTIVES: usize = 10;

impl Collective {
    /// Every collective.
    pub const ALL: [Collective; COLLECTIVES] = [
        Collective::Barrier,
        Collective::Bcast,
        Collective::Gather,
        Collective::Scatter,
        Collective::Allgather,
        Collective::Alltoall,
        Collective::Reduce,
        Collective::Allreduce,
        Collective::ReduceScatter,
        Collective::Scan,
    ];

    /// Its name on the command line and in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Collective::Barrier => "barrier",
            Collective::Bcast => "bcast",
            Collective::Gather => "gather",
            Collective::Scatter => "scatter",
            Collective::Allgather => "allgather",
            Collective::Alltoall => "alltoall",
            Collective::Reduce => "reduce",
            Collective::Allreduce => "allreduce",
            Collective::ReduceScatter => "reduce_scatter",
            Collective::Scan => "scan",
        }
    }

    /// The collective of this name.
    pub fn parse(name: &str) -> Option<Collective> {
        Collective::ALL.into_iter().find(|c| c.name() == name)
    }

    /// Its algorithms, in the order in which ties are decided: algorithms of messages, which need
    /// nothing else, first.
    pub const fn algorithms(self) -> &'static [Algorithm] {
        use Algorithm::{
            Binomial, Bruck, Direct, Dissemination, Doubling, Exchange, Halving, Linear, Pairwise,
            Ring, ScatterRing, Shared,
        };
        match self {
            Collective::Barrier => &[Dissemination, Shared],
            Collective::Bcast => &[Binomial, ScatterRing, Shared, Direct],
            Collective::Gather | Collective::Scatter => &[Binomial, Linear, Shared, Direct],
            Collective::Allgather => &[Bruck, Ring, Shared, Direct],
            Collective::Alltoall => &[Bruck, Exchange, Shared, Direct],
            Collective::Reduce => &[Binomial, Halving, Shared, Direct],
            Collective::Allreduce => &[Doubling, Halving, Shared, Direct],
            Collective::ReduceScatter => &[Halving, Pairwise, Shared, Direct],
            Collective::Scan => &[Doubling, Shared, Direct],
        }
    }

    /// True if it combines operands.
    pub const fn reduces(self) -> bool {
        matches!(
            self,
            Collective::Reduce
                | Collective::Allreduce
                | Collective::ReduceScatter
                | Collective::Scan
        )
    }

    /// What [`MessageCall::bytes`] counts.
    pub const fn unit(self) -> &'static str {
        match self {
            Collective::Barrier => "no data",
            Collective::Bcast | Collective::Reduce | Collective::Allreduce | Collective::Scan => {
                "the vector"
            }
            Collective::Alltoall => "the block of each pair",
            Collective::Gather
            | Collective::Scatter
            | Collective::Allgather
            | Collective::ReduceScatter => "the block of each rank",
        }
    }
}

/// An algorithm of one or more collectives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Algorithm {
    /// Messages, barrier: in round k to the rank at distance 2^k.
    Dissemination = 0,
    /// Messages, rooted: a binomial tree.
    Binomial,
    /// Messages, bcast: scatter by a tree, then allgather around a ring.
    ScatterRing,
    /// Messages, gather and scatter: the root exchanges a message with each rank.
    Linear,
    /// Messages, allgather and alltoall: Bruck's algorithm, doubling the distance (allgather with a
    /// power of two of ranks: recursive doubling).
    Bruck,
    /// Messages, allgather: around a ring.
    Ring,
    /// Messages, alltoall: each rank with each other.
    Exchange,
    /// Messages, allreduce and scan: recursive doubling.
    Doubling,
    /// Messages, reduce, allreduce and reduce_scatter: recursive halving, and its reverse.
    Halving,
    /// Messages, reduce_scatter: each rank with each other.
    Pairwise,
    /// Through the communicator's shared area.
    Shared,
    /// Each rank accesses the others' memory.
    Direct,
}

/// Number of [`Algorithm`]s.
pub const ALGORITHMS: usize = 12;

impl Algorithm {
    /// Every algorithm.
    pub const ALL: [Algorithm; ALGORITHMS] = [
        Algorithm::Dissemination,
        Algorithm::Binomial,
        Algorithm::ScatterRing,
        Algorithm::Linear,
        Algorithm::Bruck,
        Algorithm::Ring,
        Algorithm::Exchange,
        Algorithm::Doubling,
        Algorithm::Halving,
        Algorithm::Pairwise,
        Algorithm::Shared,
        Algorithm::Direct,
    ];

    /// Its name in tunables and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Algorithm::Dissemination => "dissemination",
            Algorithm::Binomial => "binomial",
            Algorithm::ScatterRing => "scatter-ring",
            Algorithm::Linear => "linear",
            Algorithm::Bruck => "bruck",
            Algorithm::Ring => "ring",
            Algorithm::Exchange => "exchange",
            Algorithm::Doubling => "doubling",
            Algorithm::Halving => "halving",
            Algorithm::Pairwise => "pairwise",
            Algorithm::Shared => "shared",
            Algorithm::Direct => "direct",
        }
    }

    /// The algorithm of this name.
    pub fn parse(name: &str) -> Option<Algorithm> {
        Algorithm::ALL.into_iter().find(|a| a.name() == name)
    }

    /// How it moves bytes.
    pub const fn family(self) -> AlgorithmFamily {
        match self {
            Algorithm::Shared => AlgorithmFamily::Shared,
            Algorithm::Direct => AlgorithmFamily::Direct,
            _ => AlgorithmFamily::Messages,
        }
    }
}

/// How an algorithm moves bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AlgorithmFamily {
    /// Messages from rank to rank.
    Messages,
    /// The communicator's shared area: copied in, copied out.
    Shared,
    /// The ranks' own buffers, which they announce to one another.
    Direct,
}

impl AlgorithmFamily {
    /// Every family.
    pub const ALL: [AlgorithmFamily; 3] =
        [AlgorithmFamily::Messages, AlgorithmFamily::Shared, AlgorithmFamily::Direct];

    /// Its name in `MICA_COLL` and in tables.
    pub const fn name(self) -> &'static str {
        match self {
            AlgorithmFamily::Messages => "messages",
            AlgorithmFamily::Shared => "shared",
            AlgorithmFamily::Direct => "direct",
        }
    }

    /// The family of this name.
    pub fn parse(name: &str) -> Option<AlgorithmFamily> {
        AlgorithmFamily::ALL.into_iter().find(|f| f.name() == name)
    }
}

/// A collective by messages, as all its ranks know it: the description of every rank follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MessageCall {
    /// The operation.
    pub collective: Collective,
    /// Its algorithm, one of messages.
    pub algorithm: Algorithm,
    /// Ranks that take part.
    pub ranks: usize,
    /// The root; 0 where there is none.
    pub root: usize,
    /// Bytes: of the vector (bcast, reduce, allreduce, scan), of each pair's block (alltoall), of
    /// each rank's block (gather, scatter, allgather, reduce_scatter).
    pub bytes: usize,
    /// Whether the operator commutes, if there is one.
    pub commutes: bool,
}

impl MessageCall {
    /// Bytes of a unit of the description.
    pub const fn unit_bytes(&self) -> usize {
        match self.collective {
            Collective::Gather
            | Collective::Scatter
            | Collective::Allgather
            | Collective::Alltoall => self.bytes,
            _ => 1,
        }
    }

    /// Whether all ranks do what rank 0 does, each with other peers.
    pub const fn is_symmetric(&self) -> bool {
        let keeps_order = matches!(self.collective, Collective::ReduceScatter) && !self.commutes;
        let halves_evenly = matches!(self.algorithm, Algorithm::Halving)
            && self.ranks.is_power_of_two()
            && match self.collective {
                Collective::ReduceScatter => true,
                Collective::Allreduce => self.bytes.is_multiple_of(self.ranks),
                _ => false,
            };
        keeps_order
            || halves_evenly
            || matches!(
                self.algorithm,
                Algorithm::Dissemination
                    | Algorithm::Bruck
                    | Algorithm::Ring
                    | Algorithm::Exchange
                    | Algorithm::Pairwise
            )
    }

    /// Whether the number of its messages grows with the square of the ranks.
    pub const fn is_quadratic(&self) -> bool {
        matches!(
            self.algorithm,
            Algorithm::Ring | Algorithm::Exchange | Algorithm::Pairwise | Algorithm::ScatterRing
        )
    }

    /// The calls, one after the other, that take as long as this one: a scatter and a ring for
    /// [`Algorithm::ScatterRing`], whose ring leaves out what the tree has brought; else itself.
    /// Each is symmetric or has a number of messages that grows with the ranks.
    pub fn phases(&self) -> Vec<MessageCall> {
        if self.algorithm != Algorithm::ScatterRing {
            return vec![*self];
        }
        let piece = MessageCall { bytes: self.bytes.div_ceil(self.ranks.max(1)), ..*self };
        let scatter = (Collective::Scatter, Algorithm::Binomial);
        let ring = (Collective::Allgather, Algorithm::Ring);
        let phase = |(collective, algorithm)| MessageCall { collective, algorithm, ..piece };
        [scatter, ring].map(phase).to_vec()
    }

    /// Describes what `rank` does, with buffers that differ for sending and receiving.
    ///
    /// # Panics
    /// If the collective has no such algorithm of messages.
    pub fn describe(&self, rank: usize, out: &mut impl RoundSink) {
        let (me, root) = (RankPlace { rank, size: self.ranks }, self.root);
        let (own, equal) = (OwnData::Input, BlockLengths::Equal);
        let vector = ReductionShape { count: self.bytes, commutes: self.commutes };
        let operands = ReduceBuffers { own, has_output: rank == root };
        if self.bytes == 0 && self.collective != Collective::Barrier {
            return;
        }
        match (self.collective, self.algorithm) {
            (Collective::Barrier, Algorithm::Dissemination) => barrier::dissemination(me, out),
            (Collective::Bcast, Algorithm::Binomial) => {
                bcast::binomial(me, root, self.bytes, out);
            }
            (Collective::Bcast, Algorithm::ScatterRing) => {
                bcast::scatter_ring(me, root, self.bytes, out);
            }
            (Collective::Gather, Algorithm::Binomial) => {
                gather::gather_binomial(me, root, own, out);
            }
            (Collective::Gather, Algorithm::Linear) => {
                gather::gather_linear(me, root, own, equal, out);
            }
            (Collective::Scatter, Algorithm::Binomial) => {
                gather::scatter_binomial(me, root, own, out);
            }
            (Collective::Scatter, Algorithm::Linear) => {
                gather::scatter_linear(me, root, own, equal, out);
            }
            (Collective::Allgather, Algorithm::Bruck) if self.ranks.is_power_of_two() => {
                allgather::recursive_doubling(me, own, out);
            }
            (Collective::Allgather, Algorithm::Bruck) => allgather::bruck(me, own, out),
            (Collective::Allgather, Algorithm::Ring) => allgather::ring(me, own, equal, out),
            (Collective::Alltoall, Algorithm::Bruck) => alltoall::bruck(me, out),
            (Collective::Alltoall, Algorithm::Exchange) => {
                alltoall::exchange(me, alltoall::WINDOW, equal, equal, out);
            }
            (Collective::Reduce, Algorithm::Binomial) => {
                reduce::binomial(me, root, vector, operands, out);
            }
            (Collective::Reduce, Algorithm::Halving) => {
                reduce::halving(me, root, vector, operands, out);
            }
            (Collective::Allreduce, Algorithm::Doubling) => {
                allreduce::doubling(me, vector, own, out);
            }
            (Collective::Allreduce, Algorithm::Halving) => {
                allreduce::halving(me, vector, own, out);
            }
            (Collective::ReduceScatter, algorithm) => {
                let blocks = ScatteredBlocks { first: &|rank| rank * self.bytes, own };
                match algorithm {
                    Algorithm::Halving if self.commutes => reduce_scatter::halving(me, blocks, out),
                    Algorithm::Pairwise if self.commutes => {
                        reduce_scatter::pairwise(me, blocks, out);
                    }
                    _ => reduce_scatter::in_order(me, blocks, out),
                }
            }
            (Collective::Scan, Algorithm::Doubling) => {
                scan::doubling(me, ScanKind::Inclusive, vector, own, out);
            }
            (collective, algorithm) => {
                panic!("{collective:?} has no algorithm of messages called {algorithm:?}")
            }
        }
    }
}

//! The cost formulas of the algorithms, for each collective. Those of messages are the sums over
//! their descriptions in `mica_algorithms` ([`shape`]).
//!
//! Every formula returns a [`Load`]: how often all ranks wait for one another (`passes`), the time
//! of the longest chain of steps if each rank has a core (`chain_ns`), and the total time of all
//! ranks' cores (`work_ns`). If each rank has its own core, the passes cost stamps or messages,
//! which are in the chain. If ranks share cores, in each pass every core switches to all of its
//! ranks, and the work is divided among the available cores:
//!
//! ```text
//! time = chain                                                 ranks <= cores
//! time = passes * ceil(ranks / cores) * switch + max(chain, work / cores)    otherwise
//! ```
//!
//! Estimates never decrease when bytes, or any cost, increase; the tests check that.

use mica_node::topology::Level;

use super::costs::{CollectiveCosts, CopyMeans};
use super::{Algorithm, Collective, CollectiveCall, Reachability};

mod load;
mod messages;
mod shape;

pub use load::Load;
use load::{busy, times};
use messages::MessageFormulas;

/// Children of a rank in a tree of the shared area: the default of `MICA_COLL_FAN`.
const FAN: usize = 8;

/// Ranks up to which every rank polls every other rank's flag line in a barrier and in a short
/// allreduce.
const FLAT_MAX: usize = 16;

/// Bytes that the kernel copies per call if they are then reduced: they stay in a cache.
const KERNEL_BLOCK: usize = 64 << 10;

/// The load of `algorithm` for this call, whether it is possible or not. It must be one of the
/// collective's algorithms.
pub fn load(costs: &CollectiveCosts, question: &CollectiveCall, algorithm: Algorithm) -> Load {
    if question.setting.ranks < 2 {
        return Load::NOTHING;
    }
    match algorithm {
        Algorithm::Shared => AreaFormulas::new(costs, question).load(question),
        Algorithm::Direct => DirectFormulas::new(costs, question).load(question),
        _ => MessageFormulas::new(costs, question).load(question, algorithm),
    }
}

/// Costs of signals between ranks by stamps, in an area's flag lines.
struct StampFormulas {
    ranks: usize,
    sync_ns: f64,
}

impl StampFormulas {
    fn new(costs: &CollectiveCosts, question: &CollectiveCall) -> StampFormulas {
        StampFormulas {
            ranks: question.setting.ranks,
            sync_ns: costs.of(question.setting.level).sync_ns,
        }
    }

    /// A signal from one rank reaches all: each polls one line.
    fn release(&self) -> Load {
        self.stamps(1.0)
    }

    /// One rank receives a signal from all, or each from all. The lines that it polls arrive four
    /// at a time.
    fn gather(&self) -> Load {
        self.stamps(Self::looking_at(self.ranks - 1))
    }

    fn looking_at(lines: usize) -> f64 {
        1.0 + lines.saturating_sub(1) as f64 / 4.0
    }

    /// Levels of the tree, if there are enough ranks for one.
    fn tree(&self) -> Option<usize> {
        let (mut reached, mut depth) = (1, 0);
        while reached < self.ranks {
            reached = reached.saturating_mul(FAN + 1);
            depth += 1;
        }
        (self.ranks > FLAT_MAX).then_some(depth)
    }

    /// All receive a signal from all: each polls all lines, or the signals are gathered up a tree
    /// and released down again.
    fn meet(&self) -> Load {
        match self.tree() {
            None => self.gather(),
            Some(depth) => {
                let depth = depth as f64;
                let up = self.stamps(depth * Self::looking_at(FAN));
                up.then(self.stamps(depth))
            }
        }
    }

    fn stamps(&self, syncs: f64) -> Load {
        let ns = syncs * self.sync_ns;
        Load { passes: 1, chain_ns: ns, work_ns: ns * self.ranks as f64 }
    }
}

/// Costs of algorithms through the shared area: in pieces of half a cell, each copied in, announced
/// by a stamp, and copied out or reduced.
struct AreaFormulas<'a> {
    costs: &'a CollectiveCosts,
    stamps: StampFormulas,
    level: Level,
    piece: usize,
    ranks: usize,
}

impl<'a> AreaFormulas<'a> {
    fn new(costs: &'a CollectiveCosts, question: &CollectiveCall) -> AreaFormulas<'a> {
        let setting = &question.setting;
        let cell = setting.area_cell.unwrap_or(usize::MAX);
        AreaFormulas {
            costs,
            stamps: StampFormulas::new(costs, question),
            level: setting.level,
            piece: (cell / 2).max(1),
            ranks: setting.ranks,
        }
    }

    fn pieces(&self, bytes: usize) -> usize {
        bytes.div_ceil(self.piece).max(1)
    }

    fn copy(&self, bytes: usize) -> f64 {
        self.costs.copy_ns(self.level, bytes, self.pieces(bytes))
    }

    /// The time of the first piece of a pipeline, before other ranks can read it.
    fn fill(&self, bytes: usize) -> f64 {
        self.costs.copy_ns(self.level, bytes.min(self.piece), 1)
    }

    /// Combines `operands` operands of `bytes` from cells: the slower of loading and combining.
    fn fold(&self, bytes: usize, operands: usize) -> f64 {
        let combine = self.costs.reduce_byte_ns * bytes as f64;
        operands as f64 * combine.max(self.copy(bytes))
    }

    fn load(&self, question: &CollectiveCall) -> Load {
        let (ranks, bytes) = (self.ranks, question.bytes);
        let others = ranks - 1;
        let of_others = bytes.saturating_mul(others);
        let each = |ns: f64| busy(ns, ns * ranks as f64);
        let (release, gather) = (self.stamps.release(), self.stamps.gather());
        match question.collective {
            Collective::Barrier => self.stamps.meet(),
            Collective::Bcast => times(self.pieces(bytes), release)
                .then(busy(self.fill(bytes) + self.copy(bytes), self.copy(bytes) * ranks as f64)),
            Collective::Gather => times(self.pieces(bytes), gather)
                .then(busy(self.fill(bytes) + self.copy(of_others), 2.0 * self.copy(of_others))),
            Collective::Scatter => times(self.pieces(bytes), release)
                .then(busy(self.copy(of_others) + self.fill(bytes), 2.0 * self.copy(of_others))),
            Collective::Allgather => times(self.pieces(bytes), gather)
                .then(each(self.copy(bytes) + self.copy(of_others))),
            // Half a cell has room for a block of each other rank.
            Collective::Alltoall => {
                times(self.pieces(of_others), gather).then(each(2.0 * self.copy(of_others)))
            }
            Collective::ReduceScatter => {
                let all = bytes.saturating_mul(ranks);
                times(self.pieces(all), gather)
                    .then(each(self.copy(all) + self.fold(bytes, others)))
            }
            Collective::Scan => times(self.pieces(bytes), gather)
                .then(each(self.copy(bytes) + self.fold(bytes, others))),
            Collective::Reduce => {
                let (copied, whole) = (self.copy(bytes), self.fold(bytes, others));
                let at_root = times(self.pieces(bytes), gather)
                    .then(busy(copied + whole, copied * ranks as f64 + whole));
                let out = busy(copied, copied);
                self.shorter(at_root, self.sliced(bytes).then(out), question)
            }
            Collective::Allreduce => {
                let copied = self.copy(bytes);
                let whole = match self.stamps.tree() {
                    None => gather.then(each(copied + self.fold(bytes, others))),
                    // Operands are combined on the way up, the result is copied on the way down.
                    Some(depth) => self
                        .stamps
                        .meet()
                        .then(each(copied * (2 + depth) as f64))
                        .then(each(self.fold(bytes, FAN * depth))),
                };
                self.shorter(whole, self.sliced(bytes).then(each(copied)), question)
            }
        }
    }

    /// Each rank copies its operand in and reduces its slice of each piece. The caller adds the
    /// fetch of the other ranks' slices.
    fn sliced(&self, bytes: usize) -> Load {
        let slice = self.fold(bytes.div_ceil(self.ranks), self.ranks - 1);
        let ns = self.copy(bytes) + slice;
        times(2 * self.pieces(bytes), self.stamps.gather()).then(busy(ns, ns * self.ranks as f64))
    }

    /// The load with the shorter time for this call.
    fn shorter(&self, a: Load, b: Load, question: &CollectiveCall) -> Load {
        let ns = |load: &Load| load.ns(self.ranks, question.setting.cores, self.costs.switch_ns);
        if ns(&a) <= ns(&b) { a } else { b }
    }
}

/// Costs of algorithms in the ranks' own buffers: the buffers are announced once, then all ranks
/// copy or reduce concurrently, then a signal of completion reaches every rank.
struct DirectFormulas<'a> {
    costs: &'a CollectiveCosts,
    stamps: StampFormulas,
    level: Level,
    ranks: usize,
    cores: usize,
    by: CopyMeans,
    packs: bool,
    expose_ns: f64,
}

impl<'a> DirectFormulas<'a> {
    fn new(costs: &'a CollectiveCosts, question: &CollectiveCall) -> DirectFormulas<'a> {
        let setting = &question.setting;
        DirectFormulas {
            costs,
            stamps: StampFormulas::new(costs, question),
            level: setting.level,
            ranks: setting.ranks,
            cores: setting.cores,
            by: match question.reach {
                Reachability::Cma | Reachability::Packed | Reachability::None => CopyMeans::Kernel,
                Reachability::Unknown | Reachability::Windows => CopyMeans::LoadStore,
            },
            packs: question.reach == Reachability::Packed,
            expose_ns: costs.of(setting.level).expose_ns,
        }
    }

    /// A rank copies `bytes` from or to another rank's memory.
    fn copy(&self, bytes: usize) -> f64 {
        if self.by == CopyMeans::Kernel {
            self.costs.cma_ns(self.level, bytes, 1)
        } else {
            self.costs.load_ns(self.level, bytes)
        }
    }

    /// Every rank but the root has `bytes` to copy. If each rank has its core, the root also copies
    /// its share of them.
    fn with_root(&self, bytes: usize) -> f64 {
        let copy = self.copy(bytes);
        match self.ranks {
            ranks if ranks > self.cores => copy,
            // The cost of two ranks copying concurrently is known.
            2 => copy.min(self.costs.together_ns(self.level, bytes, self.by)),
            ranks => copy * (ranks - 1) as f64 / ranks as f64,
        }
    }

    /// Combines `bytes` of each of `operands`: with windows, the slower of loading and combining;
    /// with the kernel, one after the other, a block at a time.
    fn fold(&self, bytes: usize, operands: usize) -> f64 {
        let combine = self.costs.reduce_byte_ns * bytes as f64;
        let one = if self.by == CopyMeans::Kernel {
            let calls = bytes.div_ceil(KERNEL_BLOCK).max(1);
            self.costs.cma_ns(self.level, bytes, calls) + combine
        } else {
            self.costs.load_ns(self.level, bytes).max(combine)
        };
        operands as f64 * one
    }

    /// The copy of what does not lie in one piece, before others may read it: all of it, so that
    /// it is out of the nearest cache when they do.
    fn packing(&self, question: &CollectiveCall) -> Load {
        if !self.packs {
            return Load::NOTHING;
        }
        let bytes = question.bytes;
        let all_parts = bytes.saturating_mul(self.ranks);
        let (packed, packers) = match question.collective {
            Collective::Alltoall => (all_parts, self.ranks),
            Collective::Scatter => (all_parts, 1),
            Collective::Bcast => (bytes, 1),
            Collective::Allgather => (bytes, self.ranks),
            // The root's buffer cannot be packed, and operands are never.
            _ => return Load::NOTHING,
        };
        let ns = self.costs.copy_ns(self.level, packed, 1);
        busy(ns, ns * packers as f64)
    }

    fn load(&self, question: &CollectiveCall) -> Load {
        let (ranks, bytes) = (self.ranks, question.bytes);
        let others = ranks - 1;
        let slice = bytes.div_ceil(ranks);
        let to_others = |block: usize| others as f64 * self.copy(block);
        let stamps = &self.stamps;
        // The work of each rank between the announcement and the signal of completion.
        let each = match question.collective {
            Collective::Barrier => 0.0,
            Collective::Bcast | Collective::Gather | Collective::Scatter => self.with_root(bytes),
            Collective::Allgather | Collective::Alltoall => to_others(bytes),
            Collective::Reduce => self.fold(slice, others) + self.copy(slice),
            Collective::Allreduce | Collective::Scan => self.fold(slice, others) + to_others(slice),
            Collective::ReduceScatter => self.fold(bytes, others),
        };
        let start = match question.collective {
            Collective::Bcast | Collective::Gather | Collective::Scatter => stamps.release(),
            _ => stamps.gather(),
        };
        let ranks = ranks as f64;
        self.packing(question)
            .then(busy(self.expose_ns, self.expose_ns * ranks))
            .then(start)
            .then(busy(each, each * ranks))
            .then(stamps.gather())
    }
}

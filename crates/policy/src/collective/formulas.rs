//! What each algorithm takes: a formula of the costs, for each collective.
//!
//! Every formula answers a [`Load`]: how often all ranks wait for one another (`passes`), what the longest chain of steps takes
//! where each rank has a core (`chain_ns`), and what all ranks' cores do together (`work_ns`). Where each rank has its core the
//! passes cost stamps or messages, which are in the chain. Where ranks share cores each pass has every core visit all of its
//! ranks, and the work is done by the cores that there are:
//!
//! ```text
//! time = chain                                                 ranks <= cores
//! time = passes * ceil(ranks / cores) * switch + max(chain, work / cores)    otherwise
//! ```
//!
//! Estimates never fall when bytes, or any cost, rise; the tests hold that.

use mica_node::topology::Level;

use super::costs::CollectiveCosts;
use super::{Algorithm, Collective, Question, Reach};
use crate::costs::{Way, Ways};
use crate::select::{Message, Situation, Verdict, select};

/// Children of a rank in a tree of the shared area: the default of `MICA_COLL_FAN`.
const FAN: usize = 8;

/// What an algorithm takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// How often every rank waits for another.
    pub passes: usize,
    /// Nanoseconds of the longest chain of steps that follow one another.
    pub chain_ns: f64,
    /// Nanoseconds that all cores together are busy.
    pub work_ns: f64,
}

impl Load {
    const NOTHING: Load = Load {
        passes: 0,
        chain_ns: 0.0,
        work_ns: 0.0,
    };

    /// Nanoseconds that it takes `ranks` on `cores`.
    pub fn ns(&self, ranks: usize, cores: usize, switch_ns: f64) -> f64 {
        let cores = cores.max(1);
        if ranks <= cores {
            return self.chain_ns;
        }
        let visits = self.passes * ranks.div_ceil(cores);
        visits as f64 * switch_ns + self.chain_ns.max(self.work_ns / cores as f64)
    }

    fn then(self, next: Load) -> Load {
        Load {
            passes: self.passes + next.passes,
            chain_ns: self.chain_ns + next.chain_ns,
            work_ns: self.work_ns + next.work_ns,
        }
    }
}

/// What `algorithm` takes for this question, whether it is possible or not. The algorithm is one of the collective's.
pub fn load(costs: &CollectiveCosts, question: &Question, algorithm: Algorithm) -> Load {
    if question.setting.ranks < 2 {
        return Load::NOTHING;
    }
    match algorithm {
        Algorithm::Shared => Area::new(costs, question).load(question),
        Algorithm::Direct => Buffers::new(costs, question).load(question),
        _ => Messages::new(costs, question).load(question, algorithm),
    }
}

/// ceil(log2 n)
fn log2(n: usize) -> usize {
    n.max(1).next_power_of_two().trailing_zeros() as usize
}

/// The greatest power of two that is at most `n`.
fn power_below(n: usize) -> usize {
    1 << n.max(1).ilog2()
}

/// Algorithms of messages.
struct Messages<'a> {
    costs: &'a CollectiveCosts,
    situation: Situation,
    ranks: usize,
}

impl<'a> Messages<'a> {
    fn new(costs: &'a CollectiveCosts, question: &Question) -> Messages<'a> {
        let kernel = Ways::SHARED_MEMORY.with(Way::Pull).with(Way::Cooperate);
        let ways = match question.reach {
            Reach::None => Ways::SHARED_MEMORY,
            Reach::Windows => kernel.with(Way::Mapped).with(Way::MappedCooperate),
            Reach::Unknown | Reach::Cma => kernel,
        };
        let setting = &question.setting;
        Messages {
            costs,
            situation: Situation {
                oversubscribed: setting.ranks > setting.cores,
                ..Situation::waiting(setting.level, ways)
            },
            ranks: setting.ranks,
        }
    }

    /// The way of a message of `len` bytes that comes to the least by `measure`, which is told way, nanoseconds until it is there, and
    /// nanoseconds of both cores.
    fn least(&self, len: usize, measure: impl Fn(Way, f64, f64) -> f64) -> (Way, f64) {
        let decision = select(
            &Message::contiguous(len),
            &self.situation,
            &self.costs.messages,
        );
        let mut least = (Way::Streamed, f64::INFINITY);
        for (way, verdict) in decision.considered() {
            if let Verdict::Possible(estimate) = verdict {
                let ns = measure(way, estimate.elapsed_ns, estimate.busy_ns);
                if ns < least.1 {
                    least = (way, ns);
                }
            }
        }
        least
    }

    /// A round in which some ranks send `len` bytes and others receive them; `pairs` do so.
    fn one_way(&self, len: usize, pairs: usize) -> Load {
        let elapsed = self.least(len, |_, elapsed, _| elapsed);
        self.round(elapsed, self.both_ways_ns(len).1, pairs)
    }

    /// A round in which every rank sends `len` bytes and receives as many.
    fn both_ways(&self, len: usize) -> Load {
        let (way, ns) = self.both_ways_ns(len);
        self.round((way, ns), ns, self.ranks)
    }

    /// What a rank takes to send one message and to receive another of that length. Ring and slot are not pipelined: their time is
    /// that of both sides. Nobody helps another one: each has its own to do.
    fn both_ways_ns(&self, len: usize) -> (Way, f64) {
        self.least(len, |way, elapsed, busy| match way {
            Way::Inline | Way::Ring if !self.situation.oversubscribed => elapsed,
            Way::Cooperate | Way::MappedCooperate => f64::INFINITY,
            _ => busy,
        })
    }

    /// A round whose longest chain is `chain_ns` of messages, and whose messages take `message_ns` of both cores each.
    fn round(&self, (way, chain_ns): (Way, f64), message_ns: f64, messages: usize) -> Load {
        Load {
            // Who asks first waits for an answer.
            passes: if way.is_eager() { 1 } else { 2 },
            chain_ns: self.costs.round_ns + chain_ns,
            work_ns: self.costs.round_ns * self.ranks as f64 + message_ns * messages as f64,
        }
    }

    /// Every rank copies `bytes` within its own memory.
    fn pack(&self, bytes: usize) -> Load {
        self.alone(self.costs.copy_ns(self.situation.level, bytes, 1))
    }

    /// Every rank combines `bytes`.
    fn combine(&self, bytes: usize) -> Load {
        self.alone(self.costs.reduce_byte_ns * bytes as f64)
    }

    /// Every rank is busy for `ns`.
    fn alone(&self, ns: f64) -> Load {
        Load {
            passes: 0,
            chain_ns: ns,
            work_ns: ns * self.ranks as f64,
        }
    }

    /// The sum of the loads.
    fn sum(loads: impl IntoIterator<Item = Load>) -> Load {
        loads.into_iter().fold(Load::NOTHING, Load::then)
    }

    fn load(&self, question: &Question, algorithm: Algorithm) -> Load {
        let (ranks, bytes) = (self.ranks, question.bytes);
        let rounds = log2(ranks);
        // The vector, or all blocks of it.
        let all = match question.collective {
            Collective::ReduceScatter => bytes.saturating_mul(ranks),
            _ => bytes,
        };
        let part = |k: usize| all >> k.min(63);
        match (question.collective, algorithm) {
            (_, Algorithm::Dissemination) => Self::sum((0..rounds).map(|_| self.both_ways(0))),
            (Collective::Reduce, Algorithm::Binomial) => {
                let step = |k: usize| {
                    let pairs = (ranks >> (k + 1)).max(1);
                    let message = self.one_way(bytes, pairs);
                    message.then(self.combine_by(bytes, pairs))
                };
                // To a root that is not the first rank, the result travels once more.
                let last = if question.commutes { 0 } else { 1 };
                Self::sum((0..rounds).map(step))
                    .then(Self::sum((0..last).map(|_| self.one_way(bytes, 1))))
            }
            (Collective::Bcast, Algorithm::Binomial) => {
                Self::sum((0..rounds).map(|k| self.one_way(bytes, ranks.min(1 << k))))
            }
            // Gather, and scatter backwards: subtrees double.
            (_, Algorithm::Binomial) => Self::sum((0..rounds).map(|k| {
                let subtree = (1usize << k).min(ranks - (1 << k));
                self.one_way(bytes.saturating_mul(subtree), (ranks >> (k + 1)).max(1))
            })),
            (_, Algorithm::ScatterRing) => {
                let scatter = (1..=rounds).map(|k| self.one_way(part(k), ranks.min(1 << (k - 1))));
                let ring = (1..ranks).map(|_| self.both_ways(bytes / ranks));
                Self::sum(scatter).then(Self::sum(ring))
            }
            (_, Algorithm::Linear) => {
                // The first as any message; each further one takes the root its side of it.
                let first = self.one_way(bytes, ranks - 1);
                let (_, each) = self.least(bytes, |way, elapsed, _| match way {
                    Way::Inline | Way::Ring => (elapsed + self.start_ns(way)) / 2.0,
                    _ => elapsed - self.start_ns(way) / 2.0,
                });
                Load {
                    chain_ns: first.chain_ns + each * (ranks - 2) as f64,
                    ..first
                }
            }
            (Collective::Allgather, Algorithm::Bruck) => {
                let steps = (0..rounds).map(|k| {
                    let blocks = (1usize << k).min(ranks - (1 << k));
                    self.both_ways(bytes.saturating_mul(blocks))
                });
                // Recursive doubling needs no staging.
                let staged = if ranks.is_power_of_two() { 0 } else { 1 };
                let staging = bytes.saturating_mul(ranks).saturating_mul(staged);
                Self::sum(steps).then(self.pack(staging))
            }
            (_, Algorithm::Ring) => Self::sum((1..ranks).map(|_| self.both_ways(bytes))),
            (_, Algorithm::Bruck) => {
                // Packed and unpacked in each round, rotated before and after.
                let half = bytes.saturating_mul(ranks / 2);
                let staged = half.saturating_mul(2 * rounds + 4);
                Self::sum((0..rounds).map(|_| self.both_ways(half))).then(self.pack(staged))
            }
            (_, Algorithm::Exchange) => {
                let peers = ranks - 1;
                let (way, one) = self.both_ways_ns(bytes);
                let ns = one * peers as f64;
                self.round((way, ns), ns, ranks)
            }
            (_, Algorithm::Doubling) => {
                let folds = match question.collective {
                    // Into the prefix and into the group.
                    Collective::Scan => 2,
                    _ => 1,
                };
                let step = self
                    .both_ways(bytes)
                    .then(self.combine(bytes.saturating_mul(folds)));
                let steps = match question.collective {
                    Collective::Scan => rounds,
                    _ => log2(power_below(ranks)),
                };
                let surplus = match question.collective {
                    Collective::Scan => Load::NOTHING,
                    _ => self.surplus(bytes, bytes),
                };
                Self::sum((0..steps).map(|_| step)).then(surplus)
            }
            (collective, Algorithm::Halving) => {
                let steps = log2(power_below(ranks));
                let down = (1..=steps).map(|k| self.both_ways(part(k)).then(self.combine(part(k))));
                let back = (1..=steps).map(|k| match collective {
                    Collective::Reduce => self.one_way(part(k), ranks.min(1 << (k - 1))),
                    Collective::Allreduce => self.both_ways(part(k)),
                    _ => Load::NOTHING,
                });
                let returned = if collective == Collective::Allreduce {
                    all
                } else {
                    bytes
                };
                self.pack(all)
                    .then(Self::sum(down))
                    .then(Self::sum(back))
                    .then(self.surplus(all, returned))
            }
            (_, Algorithm::Pairwise) => {
                let step = self.both_ways(bytes).then(self.combine(bytes));
                Self::sum((1..ranks).map(|_| step))
            }
            (_, Algorithm::Shared | Algorithm::Direct) => {
                unreachable!("{algorithm:?} is no algorithm of messages")
            }
        }
    }

    /// A way's start.
    fn start_ns(&self, way: Way) -> f64 {
        self.costs.messages.of(self.situation.level, way).start_ns
    }

    /// `busy` ranks combine `bytes` each.
    fn combine_by(&self, bytes: usize, busy: usize) -> Load {
        let ns = self.costs.reduce_byte_ns * bytes as f64;
        Load {
            passes: 0,
            chain_ns: ns,
            work_ns: ns * busy as f64,
        }
    }

    /// Ranks beyond a power of two hand `given` bytes to a neighbour first, and get `returned` ones back.
    fn surplus(&self, given: usize, returned: usize) -> Load {
        match self.ranks - power_below(self.ranks) {
            0 => Load::NOTHING,
            more => self
                .one_way(given, more)
                .then(self.combine_by(given, more))
                .then(self.one_way(returned, more)),
        }
    }
}

/// Words of ranks to one another by stamps: in an area's lines.
struct Stamps {
    ranks: usize,
    sync_ns: f64,
}

impl Stamps {
    fn new(costs: &CollectiveCosts, question: &Question) -> Stamps {
        Stamps {
            ranks: question.setting.ranks,
            sync_ns: costs.of(question.setting.level).sync_ns,
        }
    }

    /// Levels of a tree.
    fn depth(&self) -> usize {
        let (mut reached, mut depth) = (1, 0);
        while reached < self.ranks {
            reached = reached.saturating_mul(FAN);
            depth += 1;
        }
        depth
    }

    /// One rank's word reaches all: each looks at one line.
    fn release(&self) -> Load {
        self.stamps(self.depth() as f64)
    }

    /// One rank hears from all. The lines that it looks at arrive four at a time.
    fn gather(&self) -> Load {
        let looked_at = self.ranks.min(FAN).saturating_sub(2);
        self.stamps(self.depth() as f64 * (1.0 + looked_at as f64 / 4.0))
    }

    /// All hear from all: each looks at all lines, or up a tree and down again.
    fn meet(&self) -> Load {
        if self.ranks <= FAN {
            self.gather()
        } else {
            let whole = self.gather().then(self.release());
            Load { passes: 1, ..whole }
        }
    }

    fn stamps(&self, syncs: f64) -> Load {
        let ns = syncs * self.sync_ns;
        Load {
            passes: 1,
            chain_ns: ns,
            work_ns: ns * self.ranks as f64,
        }
    }
}

/// `once`, so many times.
fn times(n: usize, once: Load) -> Load {
    Load {
        passes: n * once.passes,
        chain_ns: n as f64 * once.chain_ns,
        work_ns: n as f64 * once.work_ns,
    }
}

/// Nanoseconds of one rank's chain and of all ranks together.
fn busy(chain_ns: f64, work_ns: f64) -> Load {
    Load {
        passes: 0,
        chain_ns,
        work_ns,
    }
}

/// Through the shared area: in chunks of a cell, each copied in, announced by a stamp, and copied out or reduced.
struct Area<'a> {
    costs: &'a CollectiveCosts,
    stamps: Stamps,
    level: Level,
    cell: usize,
    ranks: usize,
}

impl<'a> Area<'a> {
    fn new(costs: &'a CollectiveCosts, question: &Question) -> Area<'a> {
        let setting = &question.setting;
        Area {
            costs,
            stamps: Stamps::new(costs, question),
            level: setting.level,
            cell: setting.area_cell.unwrap_or(usize::MAX).max(1),
            ranks: setting.ranks,
        }
    }

    fn chunks(&self, bytes: usize) -> usize {
        bytes.div_ceil(self.cell).max(1)
    }

    fn copy(&self, bytes: usize) -> f64 {
        self.costs.copy_ns(self.level, bytes, self.chunks(bytes))
    }

    /// The first chunk of a pipeline: nobody can take it before it is there.
    fn fill(&self, bytes: usize) -> f64 {
        self.costs.copy_ns(self.level, bytes.min(self.cell), 1)
    }

    /// Combines `operands` of `bytes` from cells: what is slower of loading and combining.
    fn fold(&self, bytes: usize, operands: usize) -> f64 {
        let combine = self.costs.reduce_byte_ns * bytes as f64;
        operands as f64 * combine.max(self.copy(bytes))
    }

    fn load(&self, question: &Question) -> Load {
        let (ranks, bytes) = (self.ranks, question.bytes);
        let others = ranks - 1;
        let of_others = bytes.saturating_mul(others);
        let each = |ns: f64| busy(ns, ns * ranks as f64);
        let stamps = &self.stamps;
        match question.collective {
            Collective::Barrier => stamps.meet(),
            Collective::Bcast => times(self.chunks(bytes), stamps.release()).then(busy(
                self.fill(bytes) + self.copy(bytes),
                self.copy(bytes) * ranks as f64,
            )),
            Collective::Gather => times(self.chunks(bytes), stamps.gather()).then(busy(
                self.fill(bytes) + self.copy(of_others),
                2.0 * self.copy(of_others),
            )),
            Collective::Scatter => times(self.chunks(bytes), stamps.release()).then(busy(
                self.copy(of_others) + self.fill(bytes),
                2.0 * self.copy(of_others),
            )),
            Collective::Allgather => times(self.chunks(bytes), stamps.meet())
                .then(each(self.copy(bytes) + self.copy(of_others))),
            Collective::Alltoall => {
                times(self.chunks(of_others), stamps.meet()).then(each(2.0 * self.copy(of_others)))
            }
            Collective::ReduceScatter => times(self.chunks(of_others), stamps.meet())
                .then(each(self.copy(of_others) + self.fold(bytes, others))),
            Collective::Scan => times(self.chunks(bytes), stamps.meet())
                .then(each(self.copy(bytes) + self.fold(bytes, others))),
            Collective::Reduce => {
                let chunks = self.chunks(bytes);
                let (copied, whole) = (self.copy(bytes), self.fold(bytes, others));
                let at_root = times(chunks, stamps.gather())
                    .then(busy(copied + whole, copied * ranks as f64 + whole));
                let slice = self.fold(bytes.div_ceil(ranks), others);
                let sliced = times(chunks, stamps.meet().then(stamps.gather())).then(busy(
                    2.0 * copied + slice,
                    copied * (ranks + 1) as f64 + slice * ranks as f64,
                ));
                self.shorter(at_root, sliced, question)
            }
            Collective::Allreduce => {
                let chunks = self.chunks(bytes);
                let copied = self.copy(bytes);
                let by_all =
                    times(chunks, stamps.meet()).then(each(copied + self.fold(bytes, others)));
                let slice = self.fold(bytes.div_ceil(ranks), others);
                let sliced = times(2 * chunks, stamps.meet()).then(each(2.0 * copied + slice));
                self.shorter(by_all, sliced, question)
            }
        }
    }

    /// The one that takes less time here.
    fn shorter(&self, a: Load, b: Load, question: &Question) -> Load {
        let ns = |load: &Load| load.ns(self.ranks, question.setting.cores, self.costs.switch_ns);
        if ns(&a) <= ns(&b) { a } else { b }
    }
}

/// In the ranks' own buffers: told of once, then copied or reduced by all ranks at once, then everybody hears that it is done.
struct Buffers<'a> {
    costs: &'a CollectiveCosts,
    stamps: Stamps,
    level: Level,
    ranks: usize,
    kernel: bool,
    expose_ns: f64,
}

impl<'a> Buffers<'a> {
    fn new(costs: &'a CollectiveCosts, question: &Question) -> Buffers<'a> {
        let setting = &question.setting;
        Buffers {
            costs,
            stamps: Stamps::new(costs, question),
            level: setting.level,
            ranks: setting.ranks,
            kernel: matches!(question.reach, Reach::Cma | Reach::None),
            expose_ns: costs.of(setting.level).expose_ns,
        }
    }

    /// A rank copies `bytes` from or to another one's memory.
    fn copy(&self, bytes: usize) -> f64 {
        if self.kernel {
            self.costs.cma_ns(self.level, bytes)
        } else {
            self.costs.load_ns(self.level, bytes)
        }
    }

    /// Every rank but the root has `bytes` to be copied, and all of them copy, the root its share too.
    fn shared_out(&self, bytes: usize) -> f64 {
        let ranks = self.ranks as f64;
        let alone = self.copy(bytes) * (ranks - 1.0) / ranks;
        // What two do at once is known.
        match self.ranks {
            2 => alone.min(self.costs.together_ns(self.level, bytes, self.kernel)),
            _ => alone,
        }
    }

    /// Combines `bytes` of each of `operands`: by windows what is slower of loading and combining, by the kernel one after the
    /// other.
    fn fold(&self, bytes: usize, operands: usize) -> f64 {
        let combine = self.costs.reduce_byte_ns * bytes as f64;
        let copy = self.copy(bytes);
        let one = if self.kernel {
            copy + combine
        } else {
            copy.max(combine)
        };
        operands as f64 * one
    }

    fn load(&self, question: &Question) -> Load {
        let (ranks, bytes) = (self.ranks, question.bytes);
        let others = ranks - 1;
        let slice = bytes.div_ceil(ranks);
        let to_others = |block: usize| others as f64 * self.copy(block);
        let stamps = &self.stamps;
        // What each rank does between being told and telling.
        let each = match question.collective {
            Collective::Barrier => 0.0,
            Collective::Bcast | Collective::Gather | Collective::Scatter => self.shared_out(bytes),
            Collective::Allgather | Collective::Alltoall => to_others(bytes),
            Collective::Reduce => self.fold(slice, others) + self.copy(slice),
            Collective::Allreduce | Collective::Scan => self.fold(slice, others) + to_others(slice),
            Collective::ReduceScatter => self.fold(bytes, others),
        };
        let start = match question.collective {
            Collective::Bcast => stamps.release(),
            _ => stamps.meet(),
        };
        let end = match question.collective {
            Collective::Bcast => stamps.gather(),
            _ => stamps.meet(),
        };
        let ranks = ranks as f64;
        busy(self.expose_ns, self.expose_ns * ranks)
            .then(start)
            .then(busy(each, each * ranks))
            .then(end)
    }
}

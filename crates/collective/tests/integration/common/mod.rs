//! What the tests of the collective algorithms share: an executor that runs the schedules of all
//! ranks in one process, and buffers of elements of awkward datatypes.

#![allow(dead_code)] // not every test uses everything

use std::collections::{HashMap, VecDeque};
use std::ops::RangeInclusive;
use std::sync::Arc;

use mica_collective::schedule::{RoundTransfer, RoundWork, Schedule};
use mica_collective::{
    Blocks, Elements, Force, MessageThresholds, RankPlace, RanksByNode, Reduction, TwoLevel,
};
use mica_memory::{Block, Region, View, fill};
use mica_objects::constants as c;
use mica_objects::datatype::Datatype;
use mica_objects::op::{Op, OperandOrder};

/// When the bytes of a message leave the sender's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// At once; a send completes alone.
    Eager,
    /// When the receiver takes them; a send completes then.
    Rendezvous,
}

struct Message {
    bytes: Option<Vec<u8>>,
    view: View,
}

#[derive(Default)]
struct Rank {
    round: usize,
    entered: bool,
    /// Receives of the round, in order: source and destination.
    receives: Vec<(usize, View)>,
    /// Sends of the round that no receive has taken.
    untaken: usize,
}

/// Runs the schedules of ranks `0..schedules.len()` to their end, in an order that `reversed` turns
/// around. Messages match in order between each pair of ranks. Panics on a deadlock, a wrong
/// length, or a message that no receive takes.
pub fn simulate(schedules: &[Schedule], delivery: Delivery, reversed: bool) {
    let size = schedules.len();
    let mut ranks: Vec<Rank> = (0..size).map(|_| Rank::default()).collect();
    let mut wires: HashMap<(usize, usize), VecDeque<Message>> = HashMap::new();
    loop {
        let mut progress = false;
        for i in 0..size {
            let me = if reversed { size - 1 - i } else { i };
            let Some(round) = schedules[me].rounds.get(ranks[me].round) else {
                continue;
            };
            if !ranks[me].entered {
                ranks[me].entered = true;
                progress = true;
                for transfer in &round.transfers {
                    match transfer {
                        RoundTransfer::Send { to, view } => {
                            let bytes = (delivery == Delivery::Eager).then(|| pack(view));
                            ranks[me].untaken += usize::from(bytes.is_none());
                            let message = Message { bytes, view: view.clone() };
                            wires.entry((me, *to)).or_default().push_back(message);
                        }
                        RoundTransfer::Receive { from, view } => {
                            ranks[me].receives.push((*from, view.clone()));
                        }
                    }
                }
            }
            let mut stuck = Vec::new();
            for (from, view) in std::mem::take(&mut ranks[me].receives) {
                // A later receive must not overtake one from the same rank.
                let blocked = stuck.iter().any(|(other, _)| *other == from);
                let message =
                    if blocked { None } else { wires.entry((from, me)).or_default().pop_front() };
                let Some(message) = message else {
                    stuck.push((from, view));
                    continue;
                };
                progress = true;
                let bytes = message.bytes.unwrap_or_else(|| {
                    ranks[from].untaken -= 1;
                    pack(&message.view)
                });
                assert_eq!(bytes.len(), view.len(), "length of a message from {from} to {me}");
                view.unpack(0, &bytes);
            }
            ranks[me].receives = stuck;
            if ranks[me].receives.is_empty() && ranks[me].untaken == 0 {
                for local in &round.local {
                    work(local);
                }
                ranks[me].round += 1;
                ranks[me].entered = false;
                progress = true;
            }
        }
        if !progress {
            break;
        }
    }
    for (me, rank) in ranks.iter().enumerate() {
        assert_eq!(rank.round, schedules[me].rounds.len(), "rank {me} of {size} waits forever");
    }
    assert!(wires.values().all(VecDeque::is_empty), "a message was never received");
}

fn pack(view: &View) -> Vec<u8> {
    let mut bytes = vec![0; view.len()];
    view.pack(0, &mut bytes);
    bytes
}

fn work(local: &RoundWork) {
    match local {
        RoundWork::Copy { from, to } => {
            assert_eq!(from.len(), to.len(), "a local copy between buffers of different lengths");
            to.copy_from(from);
        }
        RoundWork::Reduce { op, input, inout, count, datatype } => {
            op.apply(input, inout, *count, datatype).unwrap();
        }
    }
}

/// How an element of eight bytes, two 32-bit numbers, lies in memory.
#[derive(Clone, Debug)]
pub struct Kind {
    pub datatype: Datatype,
    at: [isize; 2],
}

impl Kind {
    fn new(datatype: Datatype, at: [isize; 2]) -> Kind {
        datatype.commit();
        assert_eq!(datatype.size(), 8);
        datatype.register().unwrap();
        Kind { datatype, at }
    }

    /// `MPI_UINT64_T`.
    pub fn plain() -> Kind {
        Kind::new(Datatype::predefined(c::UINT64_T).unwrap(), [0, 4])
    }

    /// All kinds: plain; with gaps; with a lower bound before the data; with data before the lower
    /// bound; with a negative extent.
    pub fn all() -> Vec<Kind> {
        let word = Datatype::predefined(c::UINT32_T).unwrap();
        let gaps = Datatype::vector(2, 1, 2, &word).unwrap();
        let gaps = Datatype::resized(&gaps, 0, 24).unwrap();
        let shifted =
            Datatype::create_struct(&[1, 1], &[4, 12], &[word.clone(), word.clone()]).unwrap();
        let shifted = Datatype::resized(&shifted, -4, 28).unwrap();
        let early =
            Datatype::create_struct(&[1, 1], &[-8, 0], &[word.clone(), word.clone()]).unwrap();
        let early = Datatype::resized(&early, 4, 20).unwrap();
        let backward = Datatype::contiguous(2, &word).unwrap();
        let backward = Datatype::resized(&backward, 0, -12).unwrap();
        vec![
            Kind::plain(),
            Kind::new(gaps, [0, 8]),
            Kind::new(shifted, [4, 12]),
            Kind::new(early, [-8, 0]),
            Kind::new(backward, [0, 4]),
        ]
    }

    fn extent(&self) -> isize {
        self.datatype.extent() as isize
    }
}

/// What elements are before any rank writes them.
pub const UNTOUCHED: u64 = u64::from_ne_bytes([0xa5; 8]);

/// A buffer of elements of some kind, with all gaps filled by a pattern.
pub struct Memory {
    kind: Kind,
    base: Region,
    origin: Region,
    bytes: usize,
    count: usize,
}

impl Memory {
    pub fn new(kind: &Kind, values: &[u64]) -> Memory {
        const MARGIN: usize = 32;
        let reach = kind.extent().unsigned_abs() * values.len();
        let bytes = reach + 2 * MARGIN;
        let base = Block::allocate(bytes).unwrap();
        fill(&base, 0xa5, bytes);
        let first = if kind.extent() < 0 { reach } else { 0 } + MARGIN;
        let origin = base.offset(first as isize);
        let memory = Memory { kind: kind.clone(), base, origin, bytes, count: values.len() };
        for (i, value) in values.iter().enumerate() {
            for (half, at) in memory.kind.at.into_iter().enumerate() {
                let bytes = ((value >> (32 * half)) as u32).to_ne_bytes();
                memory.origin.offset(i as isize * memory.kind.extent() + at).write_bytes(&bytes);
            }
        }
        memory
    }

    /// Panics unless the elements are these and nothing else was touched.
    pub fn expect(&self, values: &[u64], what: &dyn std::fmt::Debug) {
        assert_eq!(values.len(), self.count);
        let wanted = Memory::new(&self.kind, values);
        assert!(
            self.image() == wanted.image(),
            "{what:?}: have {:x?}, want {values:x?}",
            self.values()
        );
    }

    pub fn values(&self) -> Vec<u64> {
        let element = |i: usize| {
            let mut value = 0;
            for (half, at) in self.kind.at.into_iter().enumerate() {
                let mut bytes = [0; 4];
                self.origin.offset(i as isize * self.kind.extent() + at).read_bytes(&mut bytes);
                value |= u64::from(u32::from_ne_bytes(bytes)) << (32 * half);
            }
            value
        };
        (0..self.count).map(element).collect()
    }

    fn image(&self) -> Vec<u8> {
        let mut image = vec![0; self.bytes];
        self.base.read_bytes(&mut image);
        image
    }

    pub fn elements(&self) -> Elements {
        Elements::new(self.origin.clone(), &self.kind.datatype)
    }

    /// All elements as one message.
    pub fn view(&self) -> View {
        self.range(0, self.count)
    }

    pub fn range(&self, first: usize, count: usize) -> View {
        self.elements().view(first, count).unwrap()
    }

    pub fn blocks(&self, count: usize) -> Blocks {
        Blocks::new(self.elements(), count)
    }
}

/// The contribution of a rank: element `i`, never twice the same.
pub fn value(rank: usize, i: usize) -> u64 {
    let mixed = ((rank as u64 + 1) << 32 | (i as u64 + 1)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 29)
}

pub fn values(rank: usize, range: std::ops::Range<usize>) -> Vec<u64> {
    range.map(|i| value(rank, i)).collect()
}

/// The numbers of ranks that all tests run with.
pub const SIZES: RangeInclusive<usize> = 1..=9;

/// Every short count, some that split unevenly, and for a few sizes one that crosses the thresholds
/// in use.
pub fn counts(size: usize) -> impl Iterator<Item = usize> {
    let long = [3, 8].contains(&size).then_some(9001);
    (0..=20).chain([33, 64, 100]).chain(long)
}

/// Thresholds that force the algorithms for short messages, those for long ones, and mixtures.
pub fn thresholds() -> Vec<MessageThresholds> {
    let short = MessageThresholds {
        bcast_scatter: usize::MAX,
        gather_linear: usize::MAX,
        allgather_ring: usize::MAX,
        alltoall_bruck: usize::MAX,
        alltoall_bruck_ranks: 0,
        alltoall_window: 3,
        reduce_split: usize::MAX,
        reduce_scatter_pairwise: usize::MAX,
    };
    let long = MessageThresholds {
        bcast_scatter: 0,
        gather_linear: 0,
        allgather_ring: 0,
        alltoall_bruck: 0,
        alltoall_bruck_ranks: usize::MAX,
        alltoall_window: 1,
        reduce_split: 0,
        reduce_scatter_pairwise: 0,
    };
    vec![
        short,
        long,
        MessageThresholds { alltoall_window: usize::MAX, ..long },
        MessageThresholds::DEFAULT,
    ]
}

/// Builds all ranks' schedules and runs them.
pub fn run(size: usize, seed: usize, build: impl Fn(RankPlace) -> mica_objects::Result<Schedule>) {
    let schedules: Vec<Schedule> =
        (0..size).map(|rank| build(RankPlace { rank, size }).expect("a schedule")).collect();
    let delivery = if seed.is_multiple_of(2) { Delivery::Eager } else { Delivery::Rendezvous };
    simulate(&schedules, delivery, seed % 4 < 2);
}

/// Placements of ranks on at least two nodes: blocks, round-robin, uneven ones, one rank a node,
/// and random ones.
pub fn placements() -> Vec<Vec<u32>> {
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = |below: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) as usize % below
    };
    let mut all = vec![
        vec![0, 0, 1, 1],
        vec![0, 1, 0, 1],
        vec![0, 1, 2, 3, 4],
        vec![0, 0, 0, 1],
        vec![4, 2, 2, 2, 2],
        vec![1, 1, 1, 0, 0, 0, 2, 2, 2],
        vec![0, 1, 2, 0, 1, 2, 0, 1, 2],
        vec![0, 0, 1, 1, 2, 2, 3, 3, 4, 4],
        vec![0, 0, 0, 0, 1, 1, 1, 1],
        vec![3, 3, 1, 2, 2, 2],
    ];
    while all.len() < 28 {
        let (size, nodes) = (2 + next(11), 2 + next(5));
        let mut names: Vec<u32> = (0..size).map(|_| next(nodes) as u32).collect();
        if all.len() % 3 == 0 {
            names.sort_unstable(); // blocks
        }
        if names.iter().any(|&name| name != names[0]) {
            all.push(names);
        }
    }
    all
}

/// Leaders and columns forced, with the algorithms for short messages at one level and those for
/// long ones at the other; neither; either; and what is in use.
pub fn two_levels() -> Vec<TwoLevel> {
    let [short, long] = [0, 1].map(|i| thresholds()[i]);
    let leaders =
        TwoLevel { force: Force::Leaders, inside: short, across: long, ..TwoLevel::DEFAULT };
    let columns =
        TwoLevel { force: Force::Columns, inside: long, across: short, ..TwoLevel::DEFAULT };
    let direct = TwoLevel {
        force: Force::Nothing,
        allreduce_columns: 0,
        allreduce_part: 0,
        gather_leaders: 0,
        allgather_leaders: 0,
        alltoall_leader_blocks: 0,
        alltoall_columns: 0,
        ..columns
    };
    let either = TwoLevel { force: Force::TwoLevel, ..TwoLevel::DEFAULT };
    vec![leaders, columns, direct, either, TwoLevel::DEFAULT]
}

/// Builds the schedules of all ranks on the nodes that these names stand for, and runs them.
/// Returns them.
pub fn run_on(
    names: &[u32],
    seed: usize,
    build: impl Fn(&RanksByNode) -> mica_objects::Result<Schedule>,
) -> Vec<Schedule> {
    let layout = |rank| RanksByNode::new(rank, names.iter().copied()).expect("several nodes");
    let schedules: Vec<Schedule> =
        (0..names.len()).map(|rank| build(&layout(rank)).expect("a schedule")).collect();
    let delivery = [Delivery::Eager, Delivery::Rendezvous][seed % 2];
    simulate(&schedules, delivery, seed % 4 < 2);
    schedules
}

/// What travels between nodes: messages and bytes.
pub fn network(names: &[u32], schedules: &[Schedule]) -> (usize, usize) {
    let (mut messages, mut bytes) = (0, 0);
    for (from, schedule) in schedules.iter().enumerate() {
        for transfer in schedule.rounds.iter().flat_map(|round| &round.transfers) {
            if let RoundTransfer::Send { to, view } = transfer
                && names[from] != names[*to]
            {
                messages += 1;
                bytes += view.len();
            }
        }
    }
    (messages, bytes)
}

/// An operator for the tests and what it does to two values.
#[derive(Clone)]
pub struct Operator {
    pub op: Op,
    pub f: fn(u64, u64) -> u64,
    pub commutes: bool,
}

/// Composition of the maps `x -> a x + b`, whose `a` and `b` are the halves of a value:
/// associative, not commutative.
fn compose(x: u64, y: u64) -> u64 {
    let ((a, b), (c, d)) = ((x as u32, (x >> 32) as u32), (y as u32, (y >> 32) as u32));
    let (slope, shift) = (a.wrapping_mul(c), a.wrapping_mul(d).wrapping_add(b));
    u64::from(shift) << 32 | u64::from(slope)
}

/// Both halves added.
fn add_halves(x: u64, y: u64) -> u64 {
    u64::from(((x >> 32) as u32).wrapping_add((y >> 32) as u32)) << 32
        | u64::from((x as u32).wrapping_add(y as u32))
}

impl Operator {
    /// A user's operator that does not commute, on elements of `kind`.
    pub fn ordered(kind: &Kind) -> Operator {
        Operator::of(kind, false, compose)
    }

    /// A user's operator that commutes.
    pub fn commuting(kind: &Kind) -> Operator {
        Operator::of(kind, true, add_halves)
    }

    /// `MPI_SUM`, for the plain kind.
    pub fn sum() -> Operator {
        Operator { op: Op::resolve(c::SUM).unwrap(), f: u64::wrapping_add, commutes: true }
    }

    fn of(kind: &Kind, commutes: bool, f: fn(u64, u64) -> u64) -> Operator {
        let (at, extent, handle) = (kind.at, kind.extent(), kind.datatype.handle());
        let function = move |input: usize, inout: usize, count: i64, datatype: u32| {
            assert_eq!(datatype, handle, "the operator gets the datatype of the call");
            let word = |base: usize, i: i64, half: usize| {
                let address = base.wrapping_add_signed(i as isize * extent + at[half]);
                std::ptr::with_exposed_provenance_mut::<u32>(address)
            };
            for i in 0..count {
                // SAFETY: both vectors have `count` elements whose halves are at these offsets;
                // nothing else refers to them while the operator runs.
                unsafe {
                    let read = |base| {
                        u64::from(word(base, i, 1).read_unaligned()) << 32
                            | u64::from(word(base, i, 0).read_unaligned())
                    };
                    let result = f(read(input), read(inout));
                    word(inout, i, 0).write_unaligned(result as u32);
                    word(inout, i, 1).write_unaligned((result >> 32) as u32);
                }
            }
        };
        let order = match commutes {
            true => OperandOrder::Any,
            false => OperandOrder::ByRank,
        };
        Operator { op: Op::user(order, Arc::new(function)), f, commutes }
    }

    pub fn reduction(&self, kind: &Kind, count: usize) -> Reduction {
        Reduction { op: self.op.clone(), datatype: kind.datatype.clone(), count }
    }

    /// The elements of `range` reduced over the ranks `ranks`, from the left.
    pub fn expected(
        &self,
        ranks: std::ops::Range<usize>,
        range: std::ops::Range<usize>,
    ) -> Vec<u64> {
        let fold = |i| ranks.clone().map(|rank| value(rank, i)).reduce(self.f).expect("some rank");
        range.map(fold).collect()
    }
}

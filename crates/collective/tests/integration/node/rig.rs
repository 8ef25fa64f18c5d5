//! All ranks of a node group in one thread: each has its own view of the area, and its operations
//! are polled in an order that a seed gives.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use fastrand::Rng;
use mica_channel::direct::{Direct, DirectOptions, Usage, XpmemDevice};
use mica_collective::intranode::CollectiveOperation;
use mica_collective::intranode::choice::context::RootedDirection;
use mica_collective::intranode::direct::exposed::ExposureChoice;
use mica_collective::intranode::dispatch::{self, perform};
use mica_collective::intranode::protocol::group::{AddressUse, NodeGroup};
use mica_collective::intranode::protocol::slot::{OperationSlot, RunMode};
use mica_collective::intranode::protocol::tree::MemberTree;
use mica_node::area::{Area, OPERATION_SLOTS};
use mica_node::lock::ThreadMode;
use mica_node::segment::{JobSegment, JobSpec};
use mica_node::topology::CorePlace;
use mica_node::tunables::{SegmentShape, segment_shape};
use mica_objects::error::Result;
use mica_policy::select::CoreUse;

/// How the members of a node group reach each other's buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// Not at all: there is no channel.
    Nothing,
    /// There is a channel with all its back ends off.
    Off,
    /// The kernel copies.
    Cma,
    /// By loads and stores.
    Windows,
    /// The first half of the ranks has windows, the others' memory goes by address.
    Mixed,
    /// Buffers are moved to the job's file when they are used a second time; what shares a page
    /// with others goes by the kernel.
    Mapped,
    /// As `Cma`, but the last rank's memory cannot be reached.
    OneCannot,
    /// As `Windows`, but now and then peers' memory cannot be mapped after all.
    Refusing,
}

/// Stands for the XPMEM module where a rank's peers are in its own process: their memory is
/// mapped where it is, except every n-th time if n is not 0.
#[derive(Debug)]
struct SameProcess {
    refuses_each: u64,
    asked: AtomicU64,
}

// SAFETY: what is "attached" is memory of this very process, at its own address.
unsafe impl XpmemDevice for SameProcess {
    fn make(&self) -> io::Result<i64> {
        Ok(1)
    }

    fn get(&self, segment: i64) -> io::Result<i64> {
        Ok(segment)
    }

    fn release(&self, _permit: i64) {}

    fn attach(&self, _permit: i64, address: u64, _bytes: usize) -> io::Result<usize> {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        if self.refuses_each > 0 && asked % self.refuses_each == self.refuses_each - 1 {
            return Err(io::Error::from_raw_os_error(12));
        }
        Ok(address as usize)
    }

    fn detach(&self, _address: usize) {}
}

/// Rank in the job of a node group's member: the last one first, and rank 0 is no member.
fn rank_of(member: usize, size: usize) -> u32 {
    (size - member) as u32
}

thread_local! {
    /// This test's jobs by the size of node groups and of cells. Another one's are not to be
    /// shared: ranks publish different things.
    static JOBS: RefCell<HashMap<(usize, usize), Arc<JobSegment>>> = RefCell::default();
}

/// A job for node groups of `size` ranks, all of them this process, in whose areas cells have
/// `cell` bytes.
fn job(size: usize, cell: usize) -> Arc<JobSegment> {
    let make = || {
        let places = vec![CorePlace::UNKNOWN; size + 1];
        let shape = SegmentShape {
            cells: 8,
            area_bytes: (size * OPERATION_SLOTS * cell) as u64,
            areas_bytes: 1 << 30,
            ..segment_shape()
        };
        let spec = JobSpec::on_one_node(&places, 2, &[]);
        let segment = JobSegment::create_shaped(&spec, shape).expect("segment");
        (0..=size as u32).for_each(|rank| segment.claim(rank).expect("free"));
        Arc::new(segment)
    };
    JOBS.with_borrow_mut(|jobs| Arc::clone(jobs.entry((size, cell)).or_insert_with(make)))
}

/// The word by which the ranks find out whether the kernel copies.
static PROBE: AtomicU64 = AtomicU64::new(0x5eed_c0ff_ee00_1dea);

/// Each member's channel.
fn channels(segment: &Arc<JobSegment>, size: usize, means: Means) -> Vec<Option<Direct>> {
    let mapped = DirectOptions {
        mapped: true,
        mapped_after: 1,
        mapped_min: 4096,
        mapped_max: 1 << 30,
        ..DirectOptions::CMA
    };
    let channel = |member: usize| {
        let rank = rank_of(member, size);
        let options = match means {
            Means::Nothing => return None,
            Means::Off | Means::Refusing => DirectOptions::OFF,
            Means::OneCannot if member + 1 == size => DirectOptions::OFF,
            Means::Mapped => mapped,
            _ => DirectOptions::CMA,
        };
        let has_windows = match means {
            Means::Windows | Means::Refusing => true,
            Means::Mixed => 2 * member < size,
            _ => false,
        };
        Some(match has_windows {
            false => Direct::new(segment, rank, &options),
            true => {
                let refuses_each = match means {
                    // Each rank at other times.
                    Means::Refusing => 5 + 2 * (member as u64 % 4),
                    _ => 0,
                };
                let device = Arc::new(SameProcess { refuses_each, asked: AtomicU64::new(0) });
                Direct::with_xpmem(segment, rank, &options, device).expect("a device")
            }
        })
    };
    let all = (0..size).map(channel).collect();
    // A process is one rank, but here: each has published a word that the next one has overwritten.
    for rank in 0..=size as u32 {
        let (address, value) = (&raw const PROBE, PROBE.load(Ordering::Relaxed));
        let block = segment.block(rank);
        block.publish_probe(address.expose_provenance() as u64, value);
    }
    all
}

/// What a node group is made of.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    pub size: usize,
    /// Bytes of a cell.
    pub cell: usize,
    pub means: Means,
    /// Arity of the tree; `None`: each rank reads the lines of all.
    pub fan: Option<usize>,
    pub has_cores: bool,
}

impl Form {
    pub fn flat(size: usize, cell: usize) -> Form {
        Form { size, cell, means: Means::Nothing, fan: None, has_cores: false }
    }
}

/// Rounds without an end of any call, after which there will be none.
const IDLE: usize = 100_000;

/// All ranks of a node group.
pub struct Ranks {
    pub form: Form,
    groups: Vec<Rc<NodeGroup>>,
    channels: Vec<Option<Direct>>,
}

/// Some tests complete operations in other threads than they began them in.
static SEVERAL_THREADS: ThreadMode = ThreadMode::new();

impl Ranks {
    pub fn new(form: Form) -> Ranks {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let segment = job(form.size, form.cell);
        let context = NEXT.fetch_add(1, Ordering::Relaxed) << 1;
        let members: Vec<u32> = (0..form.size).map(|member| rank_of(member, form.size)).collect();
        let place = |rank: u32| CorePlace {
            package: rank / 6,
            shared_cache: rank / 3,
            core: rank,
            ..CorePlace::UNKNOWN
        };
        let places: Vec<CorePlace> = members.iter().map(|&rank| place(rank)).collect();
        let channels = channels(&segment, form.size, form.means);
        let group = |(me, channel): (usize, &Option<Direct>)| {
            let area = Area::open(&segment, context, &members, me);
            let area = area.expect("memory").expect("room");
            assert_eq!(area.cell_bytes(), form.cell);
            let tree = form.fan.map(|fan| MemberTree::new(me, &places, fan));
            let reach = channel.as_ref().map(Direct::reach);
            Rc::new(NodeGroup::new(
                area,
                reach,
                tree,
                match form.has_cores {
                    true => CoreUse::Own,
                    false => CoreUse::Shared,
                },
                &SEVERAL_THREADS,
            ))
        };
        Ranks { form, groups: channels.iter().enumerate().map(group).collect(), channels }
    }

    /// Buffers that were moved to the job's file, or were to be and could not; `None` where this
    /// process moves none.
    pub fn moves(&self) -> Option<u64> {
        let usage = self.channels.iter().map(|channel| channel.as_ref()?.usage());
        let moves = |usage: Usage| usage.moves + usage.kept.iter().map(|(_, n)| n).sum::<u64>();
        usage.map(|usage| usage.map(moves)).sum()
    }

    /// Whether the operation's operands find room in cells.
    pub fn fits(&self, what: &CollectiveOperation) -> bool {
        what.fits(&self.groups[0])
    }

    /// Runs operations on all ranks, each of which begins them in this order with at most `width`
    /// under way at once. Gives each operation's results, one for each rank. Panics if one waits
    /// for ever.
    pub fn run(
        &self,
        operations: &[Operation],
        width: usize,
        seed: u64,
    ) -> Vec<Vec<Result<NodePathTaken>>> {
        let results = self.run_while_it_goes(operations, width, seed);
        let stuck: Vec<_> = results
            .iter()
            .zip(operations)
            .filter(|(results, _)| results.contains(&None))
            .map(|(results, operation)| (&operation.name, results))
            .collect();
        assert!(stuck.is_empty(), "seed {seed}: for ever in {:?}: {stuck:#?}", self.form);
        let all = |ranks: Vec<Option<_>>| {
            ranks.into_iter().map(|result| result.expect("ended")).collect()
        };
        results.into_iter().map(all).collect()
    }

    /// As [`run`](Self::run); `None` stands for calls that wait for ever.
    pub fn run_while_it_goes(
        &self,
        operations: &[Operation],
        width: usize,
        seed: u64,
    ) -> Vec<Vec<Option<Result<NodePathTaken>>>> {
        let mut random = Rng::with_seed(seed);
        let size = self.form.size;
        let mut results: Vec<Vec<Option<Result<NodePathTaken>>>> =
            operations.iter().map(|_| (0..size).map(|_| None).collect()).collect();
        let mut under_way: Vec<Vec<(usize, Task)>> = (0..size).map(|_| Vec::new()).collect();
        let mut begun = vec![0; size];
        // Some ranks are slower than others.
        let slowness: Vec<usize> =
            (0..size).map(|_| random.choice([1, 1, 2, 12]).expect("some")).collect();
        let mut polling = Context::from_waker(Waker::noop());
        let (mut left, mut idle) = (size * operations.len(), 0);
        while left > 0 {
            idle += 1;
            if idle > IDLE {
                break;
            }
            for _ in 0..size {
                let rank = random.usize(..size);
                if !random.usize(..slowness[rank]) == 0 {
                    continue;
                }
                let tasks = &mut under_way[rank];
                if begun[rank] < operations.len()
                    && tasks.len() < width
                    && (tasks.is_empty() || random.usize(..2) == 0)
                {
                    let operation = &operations[begun[rank]];
                    tasks.push((begun[rank], operation.begin(&self.groups[rank], rank)));
                    begun[rank] += 1;
                    idle = 0;
                }
                if tasks.is_empty() {
                    continue;
                }
                let at = random.usize(..tasks.len());
                for _ in 0..=random.usize(..3) {
                    if let Poll::Ready(result) = tasks[at].1.as_mut().poll(&mut polling) {
                        let (operation, _) = tasks.swap_remove(at);
                        results[operation][rank] = Some(result);
                        (left, idle) = (left - 1, 0);
                        break;
                    }
                }
            }
        }
        results
    }
}

type Task = Pin<Box<dyn Future<Output = Result<NodePathTaken>>>>;

/// The path that a rank's part has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodePathTaken {
    Cells,
    Direct,
}

/// The path that an operation is to take, on all ranks alike.
#[derive(Clone, Copy, Debug)]
pub enum NodePath {
    /// Through cells, after the phase `base`.
    Cells { base: u32 },
    /// Directly, or through cells where that cannot be.
    Direct {
        /// Copies by the kernel would do.
        by_address: bool,
        direction: RootedDirection,
    },
}

/// Bytes from which on a part is offered.
const MUCH: usize = 256;

/// An operation with all ranks' buffers.
pub struct Operation {
    pub parts: Vec<CollectiveOperation>,
    pub path: NodePath,
    /// A rank that goes another way.
    odd: Option<(usize, NodePath)>,
    /// For people.
    name: String,
    /// Ranks that have begun it.
    begun: Rc<Cell<usize>>,
}

impl Operation {
    pub fn new(parts: Vec<CollectiveOperation>, path: NodePath, name: String) -> Operation {
        Operation { parts, name, path, odd: None, begun: Rc::default() }
    }

    /// The same, but that this `rank` goes another way.
    pub fn but(self, rank: usize, path: NodePath) -> Operation {
        Operation { odd: Some((rank, path)), ..self }
    }

    /// This rank's part.
    fn begin(&self, group: &Rc<NodeGroup>, rank: usize) -> Task {
        let path = match self.odd {
            Some((odd, path)) if odd == rank => path,
            _ => self.path,
        };
        let (what, group) = (self.parts[rank].clone(), Rc::clone(group));
        let (begun, size) = (Rc::clone(&self.begun), self.parts.len());
        // Some go by as a blocking call goes, which looks more than once each time.
        let mode = match (begun.get() + rank).is_multiple_of(3) {
            true => RunMode::Blocking,
            false => RunMode::Polled,
        };
        // Where not all know the amounts, some offer what they have, and some do not. Some do not
        // pack what has gaps.
        let offers = match what.bytes().is_some() || what.longest() >= MUCH {
            false => ExposureChoice::Nothing,
            true if (self.parts.len() + rank) % 5 == 1 => ExposureChoice::InPlace,
            true => ExposureChoice::Packed,
        };
        let (by_address, is_direct, path) = match path {
            NodePath::Cells { base } => (false, false, dispatch::PathChoice::Cells { base }),
            NodePath::Direct { by_address, direction } => {
                let path = dispatch::PathChoice::Direct { direction, offers };
                (by_address, true, path)
            }
        };
        let by_address = match by_address {
            true => AddressUse::Allowed,
            false => AddressUse::Never,
        };
        let operation = group.reserve(what.kind(is_direct), by_address);
        begun.set(begun.get() + 1);
        Box::pin(async move {
            let slot = OperationSlot::new(&group, operation, mode);
            slot.begin(what.own_bytes(rank)).await;
            let result = perform(&slot, &what, path).await;
            if matches!(what, CollectiveOperation::Barrier) && result.is_ok() {
                assert_eq!(begun.get(), size, "rank {rank} has left the barrier");
            }
            slot.finish();
            result.map(|taken| match taken {
                dispatch::PathTaken::Cells => NodePathTaken::Cells,
                dispatch::PathTaken::Mapped | dispatch::PathTaken::ByAddress => {
                    NodePathTaken::Direct
                }
            })
        })
    }
}

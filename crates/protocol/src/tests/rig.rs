//! Engines of several ranks in one process, stepped by one thread.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mica_bootstrap::NodeMap;
use mica_channel::adapter::AdapterTransport;
use mica_channel::adapter::fake::{FakeDelivery, FakeNetwork};
use mica_channel::direct::{Direct, DirectOptions};
use mica_channel::shm::{NodeTraffic, Shm};
use mica_channel::transport::Transport;
use mica_node::park::Fencing;
use mica_node::segment::{JobSegment, JobSpec};
use mica_node::topology::CorePlace;
use mica_node::tunables::SegmentShape;
use mica_policy::collective::CollectiveCosts;
use mica_policy::{HoldPolicy, PollPolicy};

use super::scripted::{Fabric, Script};
use crate::engine::Engine;
use crate::engine::start::{EngineParts, Policies};
use crate::wait::policy::WaitLimits;

/// The default of `MICA_UNEXPECTED_MAX`.
pub const HOLD: HoldPolicy = HoldPolicy { max: 64 << 20 };

/// The word by which ranks determine whether the kernel can copy between them.
static PROBE: AtomicU64 = AtomicU64::new(0x5eed_c0ff_ee00_1dea);

/// Small, so that a test's program fills the pool.
pub const SHAPE: SegmentShape = SegmentShape {
    cells: 8,
    cell_bytes: 8192,
    fifo_bytes: None,
    mixed: false,
    area_bytes: 0,
    areas_bytes: 0,
};

thread_local! {
    /// By job size and rank: segments hold descriptors, and exist as long as the process.
    static SEGMENTS: RefCell<HashMap<(u32, u32), Arc<JobSegment>>> = RefCell::default();
}

/// The segment of a node on which `rank` is alone.
pub fn alone(size: u32, rank: u32) -> Arc<JobSegment> {
    SEGMENTS.with_borrow_mut(|segments| {
        Arc::clone(segments.entry((size, rank)).or_insert_with(|| {
            let spec = JobSpec {
                places: &[CorePlace::UNKNOWN],
                available_cores: 1,
                appnum: &[],
                job_size: size,
                members: &[rank],
                spare: 0,
            };
            let segment = JobSegment::create_shaped(&spec, SHAPE).expect("segment");
            segment.claim(rank).expect("free");
            Arc::new(segment)
        }))
    })
}

/// Ranks that are each alone on a node, so that all their messages go over `fabric`.
pub fn over_fabric(
    size: u32,
    script: Script,
    seed: u64,
    hold: HoldPolicy,
) -> (Vec<Engine>, Fabric) {
    let fabric = Fabric::new(size as usize, script, seed);
    let engine = |rank| {
        engine(
            &alone(size, rank),
            rank,
            Some(fabric.end(rank) as Box<dyn Transport>),
            &DirectOptions::OFF,
            hold,
        )
    };
    ((0..size).map(engine).collect(), fabric)
}

/// Ranks that are each alone on a node, whose messages their adapters match.
pub fn over_adapters(
    size: u32,
    eager_max: usize,
    delivery: FakeDelivery,
) -> (Vec<Engine>, FakeNetwork) {
    let network = FakeNetwork::new(size, eager_max, delivery).expect("memory");
    let engine = |rank| {
        let (memory, registers) = network.end(rank);
        let transport = AdapterTransport::with_registers(memory, registers).expect("memory");
        let transport = Box::new(transport) as Box<dyn Transport>;
        engine(&alone(size, rank), rank, Some(transport), &DirectOptions::OFF, HOLD)
    };
    ((0..size).map(engine).collect(), network)
}

/// As [`over_adapters`], but the engines match: their packets are the adapters' messages.
pub fn over_packets_of_adapters(size: u32, delivery: FakeDelivery) -> (Vec<Engine>, FakeNetwork) {
    // A packet with a longer payload stays at its sender until it is matched.
    let network = FakeNetwork::new(size, 1000, delivery).expect("memory");
    let engine = |rank| {
        let (memory, registers) = network.end(rank);
        let transport = AdapterTransport::of_packets_alone(memory, registers).expect("memory");
        let transport = Box::new(transport) as Box<dyn Transport>;
        engine(&alone(size, rank), rank, Some(transport), &DirectOptions::OFF, HOLD)
    };
    ((0..size).map(engine).collect(), network)
}

/// Ranks that share one node's memory.
pub fn over_shared_memory(size: u32, shape: SegmentShape, direct: &DirectOptions) -> Vec<Engine> {
    let places = vec![CorePlace::UNKNOWN; size as usize];
    // As many cores as ranks: ranks that share cores do not copy cooperatively.
    let spec = JobSpec::on_one_node(&places, size, &[]);
    let segment = JobSegment::create_shaped(&spec, shape).expect("segment");
    let segment = Arc::new(segment);
    (0..size).for_each(|rank| segment.claim(rank).expect("free"));
    let engines = (0..size).map(|rank| engine(&segment, rank, None, direct, HOLD));
    let engines = engines.collect();
    // Elsewhere a process is one rank; here each rank has published a word that the next one has
    // overwritten.
    for rank in 0..size {
        let (address, value) = (&raw const PROBE, PROBE.load(Ordering::Relaxed));
        segment.block(rank).publish_probe(address.addr() as u64, value);
    }
    engines
}

pub fn engine(
    segment: &Arc<JobSegment>,
    rank: u32,
    net: Option<Box<dyn Transport>>,
    direct: &DirectOptions,
    hold: HoldPolicy,
) -> Engine {
    let size = segment.job_size();
    let is_one_node = segment.ranks() == size;
    let parts = EngineParts {
        segment: Arc::clone(segment),
        rank,
        launched: false,
        nodes: NodeMap {
            of: (0..size).map(|r| if is_one_node { 0 } else { r }).collect(),
            names: (0..size).map(|n| format!("node{n}")).collect(),
            all_on_one_machine: true,
        },
        manager: None,
        shm: Shm::new(segment, rank, Fencing::Sender, NodeTraffic::SharedMemory).expect("memory"),
        net,
        direct: Direct::new(segment, rank, direct),
        offload: None,
        progress_thread: None,
        wake_fencing: Fencing::Sender,
        node_traffic: NodeTraffic::SharedMemory,
        collective_costs: Arc::new(CollectiveCosts::default()),
        policies: Policies { poll: PollPolicy::Static { ratio: 1 }, skew: None, hold },
    };
    let mut engine = Engine::assemble(parts).expect("defaults fit");
    // As with a launcher that does not end the job when a rank dies.
    engine.watches_peers = true;
    // Here, a rank gets what it waits for by its own polls, or not at all.
    engine.wait.alone = WaitLimits { polls: 10, yields: 10 };
    engine
}

/// Panics if the engine keeps anything: sends, receives, messages, packets.
pub fn assert_idle(engine: &Engine) {
    engine.enter(|state| {
        let rank = state.me;
        assert!(state.sends.ops.is_empty(), "rank {rank} keeps sends: {:?}", state.sends.ops);
        assert!(
            state.receives.ops.is_empty(),
            "rank {rank} keeps receives: {:?}",
            state.receives.ops
        );
        assert!(state.queues.posted.is_empty(), "rank {rank} has posted receives");
        assert!(state.queues.unexpected.is_empty(), "rank {rank} keeps unexpected messages");
        assert_eq!(
            state.queues.unexpected.bytes_from(rank).1,
            0,
            "rank {rank} counts bytes of none"
        );
        assert!(state.holds.held.is_empty(), "rank {rank} holds senders back");
        assert!(state.queues.probed.is_empty(), "rank {rank} keeps probed messages");
        assert!(state.sends.backlog.is_empty(), "rank {rank} has something to send");
        assert!(
            state.sends.outboxes.iter().all(|(_, outbox)| outbox.is_empty()),
            "rank {rank} has something to send"
        );
        assert!(
            state.receives.inbound.iter().all(|(_, inbound)| inbound.is_none()),
            "rank {rank} expects cells"
        );
        let adapter = state.adapter.as_ref();
        assert!(
            adapter.is_none_or(|a| {
                a.operations.is_empty() && a.queued.is_empty() && a.fault.is_none()
            }),
            "rank {rank} has posted {adapter:?}"
        );
        let reads = &state.rendezvous.reads;
        assert!(reads.all.is_empty() && reads.waiting.is_empty(), "rank {rank} reads");
        let rma = &state.rma;
        assert!(
            rma.all.is_empty() && rma.parts.is_empty() && rma.unstarted.is_empty(),
            "rank {rank} has transfers"
        );
        assert!(state.lost.is_none(), "rank {rank} has lost {:?}", state.lost);
    });
}

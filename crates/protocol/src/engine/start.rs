//! Joining the job: which ranks are in it, and which channels reach them.

use crate::adapter::operations::AdapterMatching;
use crate::channels::Channels;
use crate::engine::EngineState;
use crate::engine::network_record::{NetworkAddresses, NetworkRecord};
use crate::engine::polling::{PacketChannel, Polling};
use crate::engine::progress_wakeup::{IdleThread, ProgressWakeup};
use crate::engine::{CollectiveMeans, Engine};
use crate::pt2pt::{Holds, PeerKind, Selection};
use crate::rendezvous::cooperative::CooperativeCopies;
use crate::rendezvous::state::{Offload, RendezvousState};
use crate::wait::pending::HangReporter;
use crate::wait::policy::{CoreYields, WaitPolicy};
use crate::worlds::peer_kind;
use std::path::Path;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex};

use mica_bootstrap::{BootstrapError, Joined, NodeMap, ProcessManager};
use mica_channel::ChannelError;
use mica_channel::adapter::AdapterTransport;
use mica_channel::direct::{self, Direct};
use mica_channel::net::{self, Net};
use mica_channel::offload::{self, EngineCapabilities, NoDevice};
use mica_channel::shm::{NodeTraffic, Shm};
use mica_channel::transport::NetError;
use mica_channel::transport::Transport;
use mica_node::adapter::AdapterMemory;
use mica_node::counters::LiveCounters;
use mica_node::lock::ThreadLock;
use mica_node::park::{Fencing, WakeSocket};
use mica_node::segment::{AlikeSettings, Difference, JobSegment, PREFIX_VARIABLE, SegmentError};
use mica_node::topology::{Level, available_cores};
use mica_node::tunables::{self, BadValue, set_variable};
use mica_policy::collective::CollectiveCosts;
use mica_policy::select::CoreUse;
use mica_policy::{HoldPolicy, PollPolicy, SkewPolicy};

/// Why a process cannot join its job.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// It cannot determine its rank, or exchange data with the others.
    #[error(transparent)]
    Bootstrap(#[from] BootstrapError),
    /// The value of a tunable is invalid.
    #[error(transparent)]
    BadTunable(#[from] BadValue),
    /// Another rank has a different value of a tunable that must be the same in all ranks.
    #[error(transparent)]
    Settings(#[from] Box<Difference>),
    /// The tuning file cannot be used.
    #[error(transparent)]
    Tuning(#[from] mica_policy::tuning::TuningError),
    /// The requested copy engine is not available.
    #[error("MICA_COPY_ENGINE: {0}")]
    CopyEngine(#[from] NoDevice),
    /// The job segment cannot be joined.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// The FIFOs of the basic design cannot be allocated.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// The job needs a network and has none.
    #[error(transparent)]
    Net(#[from] NetError),
    /// The wake-up socket cannot be created.
    #[error("cannot make the socket by which a rank is woken that waits for the network: {0}")]
    WakeSocket(std::io::Error),
    /// The system has no random bytes.
    #[error("no random bytes for the job's secret: {0}")]
    Random(std::io::Error),
    /// The ranks of a job on one node have no launcher service to exchange network addresses
    /// through.
    #[error(
        "MICA_NET=loopback: the launcher of this job offers no exchange of addresses; set it for \
        mpiexec, too"
    )]
    NoExchange,
}

/// The components of an engine. [`Engine::start`] takes them from the job and the environment.
pub(crate) struct EngineParts {
    pub segment: Arc<JobSegment>,
    /// This rank, which the process has claimed.
    pub rank: u32,
    /// The process was started by Mica's launcher.
    pub launched: bool,
    pub nodes: NodeMap,
    pub manager: Option<Box<dyn ProcessManager>>,
    pub shm: Shm,
    /// Reaches the ranks that `shm` does not.
    pub net: Option<Box<dyn Transport>>,
    pub direct: Direct,
    pub offload: Option<Offload>,
    /// A thread makes progress while the program computes; how it waits.
    pub progress_thread: Option<IdleThread>,
    /// How this rank orders its stores before it wakes others.
    pub wake_fencing: Fencing,
    /// How messages between the ranks of this node go.
    pub node_traffic: NodeTraffic,
    pub collective_costs: Arc<CollectiveCosts>,
    pub policies: Policies,
}

/// Policies of an engine that do not depend on its peers.
pub(crate) struct Policies {
    pub poll: PollPolicy,
    /// `None`: skew is not monitored.
    pub skew: Option<SkewPolicy>,
    pub hold: HoldPolicy,
}

impl Engine {
    /// Joins the job that the environment names, or creates a job of this process alone. If the job
    /// spans nodes, waits until all its ranks have joined.
    ///
    /// # Errors
    /// When the process was started by a launcher that this version does not support, when the
    /// environment is wrong, when the job's memory cannot be allocated, or when the job needs a
    /// network and there is none.
    pub fn start() -> Result<Engine, StartError> {
        tunables::check_all()?;
        let Joined { segment, rank, launched, nodes, mut manager, adapter, .. } =
            mica_bootstrap::join()?;
        segment.claim(rank)?;
        let segment = Arc::new(segment);
        let settings = AlikeSettings::in_force()?;
        segment.agree_on_settings(rank, &settings)?;
        let wake_fencing = segment.wake_fencing();
        let simulated = adapter.is_some();
        let requested = match tunables::NET.choice()? {
            "loopback" if !simulated => NodeTraffic::Network,
            _ => NodeTraffic::SharedMemory,
        };
        let net = match adapter {
            Some(adapter) => Some(open_adapter(adapter)?),
            None => open_net(&segment, rank, &nodes, &settings, requested, manager.as_deref_mut())?,
        };
        let node_traffic = match net {
            Some(_) => requested,
            // The network was not needed: this rank is alone.
            None => NodeTraffic::SharedMemory,
        };
        let shm = Shm::new(&segment, rank, wake_fencing, node_traffic)?;
        let (collective_costs, _) = mica_policy::tuning::collective_in_force(
            set_variable(PREFIX_VARIABLE).as_deref().map(Path::new),
        )?;
        let (direct_options, offload, progress_thread) = match simulated {
            // A simulated node has one core, and no peers that share its memory.
            true => (direct::DirectOptions::OFF, None, None),
            false => {
                let offload = copy_engine(&segment, rank, wake_fencing)?;
                let progress_thread = requested_thread(offload.as_ref())?;
                (direct::DirectOptions::in_force()?, offload, progress_thread)
            }
        };
        let direct = Direct::new(&segment, rank, &direct_options);
        Engine::assemble(EngineParts {
            segment,
            rank,
            launched,
            nodes,
            manager,
            shm,
            net,
            direct,
            offload,
            progress_thread,
            wake_fencing,
            node_traffic,
            collective_costs: Arc::new(collective_costs),
            policies: Policies {
                poll: PollPolicy::from_environment()?,
                skew: SkewPolicy::from_environment()?,
                hold: HoldPolicy::from_environment()?,
            },
        })
    }

    /// Creates the engine of a rank that has claimed its place in the job and reached its peers.
    ///
    /// # Errors
    /// When a tunable's value is invalid, or the wake-up socket cannot be created.
    #[expect(
        clippy::too_many_lines,
        reason = "more than half are the names of its parts and of the engine's fields"
    )]
    pub(crate) fn assemble(parts: EngineParts) -> Result<Engine, StartError> {
        let EngineParts {
            segment,
            rank,
            launched,
            nodes,
            manager,
            shm,
            net,
            direct,
            offload,
            progress_thread,
            wake_fencing,
            node_traffic,
            collective_costs,
            policies,
        } = parts;
        let mut channels = Channels::new(shm, net);
        let waits_for_adapter = channels.matching().is_some();
        let costs = collective_costs.messages.clone();
        let cores = match segment.is_oversubscribed() {
            true => CoreUse::Shared,
            false => CoreUse::Own,
        };
        let peers = peer_kinds(&segment, rank, &mut channels);
        let selection = Selection::new(costs, peers, cores)?;
        let polling = polling(&segment, &channels, node_traffic, policies.poll);
        // Polling one peer's ring or FIFO alone would bypass the schedule if messages of one peer
        // arrive through several channels of the node.
        let waits = match progress_thread {
            Some(IdleThread::Polls) if threads_share_cores(&segment) => CoreUse::Shared,
            _ => cores,
        };
        let wait = WaitPolicy::from_environment(waits)?;
        let wait = match channels.shm.is_mixed() || waits_for_adapter {
            true => wait.without_direct_polls(),
            false => wait,
        };
        let has_network = channels.network.is_some();
        let wake_socket = match has_network && !waits_for_adapter {
            false => None,
            true => Some(open_wake_socket(&segment, rank)?),
        };
        let access = direct.reach();
        let abilities = access.abilities(collective_costs.fingerprint());
        segment.publish_abilities(rank, &abilities, wake_fencing);
        let counters = LiveCounters::of(&segment, rank);
        let cooperative = CooperativeCopies::new(&segment, rank);
        let offloads = offload.is_some();
        let mut state = EngineState::new(
            rank,
            channels,
            RendezvousState::new(direct, cooperative, offload),
            selection,
            Holds::new(policies.hold),
            counters.clone(),
        );
        state.skew.policy = policies.skew;
        state.meet_worlds(&segment)?;
        let world = segment.world_of(rank).expect("it has claimed its rank");
        let adapter = waits_for_adapter.then(|| AdapterMatching::new(segment.job_size()));
        state.adapter = adapter.map(Box::new);
        state.polling = polling;
        let polls = segment.project(|segment| segment.block(rank).polls());
        let unexpected = state.queues.unexpected.by_context();
        state.completions.long_messages = progress_thread.map(|_| 0);
        Ok(Engine {
            state: ThreadLock::new(state),
            park_fencing: segment.fencing(),
            wake_fencing,
            segment,
            rank,
            launched,
            world,
            nodes,
            // Without a manager, Mica's own mpiexec ends the job on one node when a rank is lost.
            watches_peers: manager.is_some(),
            manager: Mutex::new(manager),
            wake_socket,
            has_network,
            receive_polls: AtomicU32::new(wait.direct_polls),
            wait,
            waiters: AtomicU32::new(0),
            yields: CoreYields::default(),
            polls,
            reporter: HangReporter::default(),
            offloads,
            progress_thread: progress_thread.map(ProgressWakeup::new),
            counters,
            collectives: CollectiveMeans { access, costs: collective_costs },
            unexpected,
            node_traffic,
            waits_for_adapter,
        })
    }
}

/// What the paths to each rank of the job depend on.
fn peer_kinds(
    segment: &JobSegment,
    rank: u32,
    channels: &mut Channels,
) -> impl Iterator<Item = PeerKind> {
    let waits_for_adapter = channels.matching().is_some();
    (0..segment.job_size()).map(move |peer| {
        if waits_for_adapter {
            // Also this rank: its messages to itself go there. Another kind would cost half a
            // million instructions to derive, which are simulated.
            return (Level::Network, None);
        }
        let payload_max = channels.packet_payload_max(peer);
        match channels.is_remote(peer) {
            true => (Level::Network, payload_max),
            false => peer_kind(segment, rank, peer, payload_max),
        }
    })
}

/// Key under which ranks publish their network addresses.
const ADDRESS_KEY: &str = "mica-net";

/// The network, if the job spans nodes or requests it; connected to all ranks that it must reach.
/// Also compares the settings of all ranks of the job.
fn open_net(
    segment: &Arc<JobSegment>,
    rank: u32,
    nodes: &NodeMap,
    settings: &AlikeSettings,
    traffic: NodeTraffic,
    manager: Option<&mut (dyn ProcessManager + 'static)>,
) -> Result<Option<Box<dyn Transport>>, StartError> {
    let needed = match traffic {
        NodeTraffic::SharedMemory => segment.ranks(),
        NodeTraffic::Network => 1,
    };
    if segment.job_size() <= needed {
        return Ok(None);
    }
    let manager = manager.ok_or(StartError::NoExchange)?;
    let mut net = Net::open(&net::NetOptions::in_force(nodes.all_on_one_machine)?)?;
    let record = NetworkRecord {
        settings: settings.to_bytes(),
        kind: net.kind(),
        nonce: mica_node::handover::nonce().map_err(StartError::Random)?,
        address: net.address().to_vec(),
    };
    let value = record.to_value();
    let values = mica_bootstrap::publish(manager, ADDRESS_KEY, &value)?;
    let addresses = NetworkAddresses {
        is_uniform: values.common().as_ref() == Some(&value.common),
        values,
        segment: Arc::clone(segment),
        rank,
        traffic,
    };
    if !addresses.is_uniform
        && let Some(difference) = addresses.difference(settings)?
    {
        return Err(Box::new(difference).into());
    }
    // The first rank's random bytes are the job's secret.
    let secret = addresses.values.of(0)?;
    let secret = NetworkRecord::nonce_of(&secret).unwrap_or(record.nonce);
    net.connect(rank, net::JobSecret::new(secret), addresses)?;
    Ok(Some(Box::new(net)))
}

/// The adapter of a simulated node.
fn open_adapter(memory: AdapterMemory) -> Result<Box<dyn Transport>, StartError> {
    let adapter = AdapterTransport::open(memory).map_err(NetError::from)?;
    Ok(Box::new(adapter))
}

/// The progress thread that was requested, by itself or for the copy engine.
fn requested_thread(offload: Option<&Offload>) -> Result<Option<IdleThread>, BadValue> {
    let by_engine = offload.is_some() && tunables::COPY_ENGINE.choice()?.ends_with("thread");
    Ok(match tunables::WINDOW_LOCK.choice()? {
        "thread" => Some(IdleThread::Polls),
        "event" => Some(IdleThread::Sleeps),
        _ if by_engine || tunables::PROGRESS_THREAD.choice()? == "on" => {
            Some(IdleThread::PollsAndSleeps)
        }
        _ => None,
    })
}

/// Whether ranks and a thread of each that polls all the time outnumber the cores. Then those that
/// wait must give way: the thread that they wait for may have no other core.
fn threads_share_cores(segment: &JobSegment) -> bool {
    2 * segment.ranks() > segment.available_cores() || available_cores() < 2
}

/// The socket by which peers wake this rank while it waits for the network.
fn open_wake_socket(segment: &JobSegment, rank: u32) -> Result<WakeSocket, StartError> {
    let wake_socket = WakeSocket::new().map_err(StartError::WakeSocket)?;
    segment.block(rank).parking.0.set_wake_socket(&wake_socket);
    Ok(wake_socket)
}

/// The channels to poll besides the rings, and when.
fn polling(
    segment: &JobSegment,
    channels: &Channels,
    traffic: NodeTraffic,
    policy: PollPolicy,
) -> Option<Box<Polling>> {
    let mut further = Vec::new();
    if channels.shm.has_fifos() {
        further.push(PacketChannel::Fifos);
    }
    let has_network = channels.network.is_some();
    if has_network {
        further.push(PacketChannel::Network);
    }
    let has_rings = !channels.shm.has_fifos() || channels.shm.is_mixed();
    let by_rings = traffic == NodeTraffic::SharedMemory || !has_network;
    let rings_deliver = has_rings && segment.ranks() > 1 && by_rings;
    Polling::new(further, rings_deliver.then_some(policy)).map(Box::new)
}

/// The requested copy engine; `None` if that is this rank's own core.
fn copy_engine(
    segment: &Arc<JobSegment>,
    rank: u32,
    fencing: Fencing,
) -> Result<Option<Offload>, StartError> {
    let request = tunables::COPY_ENGINE.choice()?;
    let spot = segment.project(|segment| &segment.block(rank).parking.0);
    let notify = Arc::new(move || spot.wake(fencing));
    let engine = offload::open(request, segment, Some(notify))?;
    let own_manner = EngineCapabilities::SELF_DRIVEN | EngineCapabilities::HARDWARE;
    let min = tunables::OFFLOAD_MIN.number()? as usize;
    Ok(engine.capabilities().intersects(own_manner).then(|| Offload::new(engine, min)))
}

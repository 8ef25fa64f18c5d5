//! Collectives among ranks of one node, in memory that they share.
//!
//! A collective is described once ([`CollectiveOperation`]). The description yields either the
//! schedule of a message-based algorithm ([`CollectiveOperation::messages`]), or a [`NodeCall`] on
//! the shared area of the communicator's ranks on this node. A [`NodeCall`] copies through cells
//! ([`cells`], [`reduce_cells`]) or directly from buffer to buffer ([`direct`], [`reduce_direct`];
//! ma-2011). `mica_policy` chooses from what all ranks know alike.
//!
//! Each algorithm on an area is one `async` function that waits for stamps of other ranks and does
//! not know who polls it. A blocking call polls it until it ends; for a non-blocking or persistent
//! call, the engine polls it in every progress iteration. Tests poll all ranks of a node group in
//! one thread, in any order.

pub mod cells;
pub mod direct;
pub mod dispatch;
pub mod fast_path;
pub mod group;
pub mod header;
pub mod offers;
pub mod operands;
mod operation;
pub mod parts;
pub mod reduce_cells;
pub mod reduce_direct;
pub mod span;
pub mod tree;

use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use mica_node::counters::TrafficClass;
use mica_node::topology::{Level, level_between};
use mica_node::tunables;
use mica_policy::collective::{
    Algorithm, AlgorithmFamily, Choices, Collective, Reachability as Told,
};
use mica_protocol::{
    CollectiveTraffic, EngineState, Pending, Prepare, StageTask, TaskError, WaitKind, WaitList,
};

use self::direct::RootedDirection;
use self::dispatch::{PathChoice, PathTaken, perform};
use self::fast_path::FastPath;
use self::group::{NodeGroup, OperationSlot, OperationTicket};
use self::header::OperationKind;
use super::CallLabel;
use super::place::RankPlace;
use super::schedule::Schedule;
use super::thresholds::MessageThresholds;
use crate::comm::Comm;
use crate::error::{Error, Result};
use crate::process;

pub use operation::CollectiveOperation;
pub use parts::Parts;

/// What a communicator knows about its ranks on this node.
#[derive(Debug)]
pub struct NodeContext {
    choices: Choices,
    direction: RootedDirection,
    /// Which calls take the fast path, without a plan.
    lane: FastPath,
    /// The best possible access to buffers; known alike to all members.
    reach: Told,
    traffic: Arc<CollectiveTraffic>,
    /// `None` if there is no shared area.
    team: Option<NodeGroup>,
}

/// This rank's part in a collective on the shared area.
#[derive(Clone, Debug)]
pub struct NodeCall {
    /// Always has a node group.
    local: Arc<NodeContext>,
    what: CollectiveOperation,
    /// Whether to copy directly where buffers can be reached.
    directly: bool,
    /// The members' ranks in the communicator; `None` if the members are all of its ranks.
    ranks: Option<Arc<[usize]>>,
    /// The function by which the program called it.
    label: CallLabel,
}

/// This rank's part in a collective.
#[derive(Clone, Debug)]
pub enum CollectivePlan {
    /// On the shared area.
    Call(NodeCall),
    /// In rounds of messages.
    Rounds(Schedule),
    /// The call is erroneous, but this rank takes part so that the others do not wait for it.
    Refused(Box<RefusedCall>),
}

/// A call that ends with an error.
#[derive(Clone, Debug)]
pub struct RefusedCall {
    /// How it takes part, in memory of its own.
    pub(super) plan: CollectivePlan,
    /// The error that it ends with.
    pub(super) error: Error,
}

impl From<Schedule> for CollectivePlan {
    fn from(schedule: Schedule) -> CollectivePlan {
        CollectivePlan::Rounds(schedule)
    }
}

impl CollectivePlan {
    /// The same plan, called by the function that `label` names.
    pub fn labelled(mut self, label: CallLabel) -> CollectivePlan {
        self.set_label(label);
        self
    }

    /// Names the function that the program called.
    #[inline]
    pub fn set_label(&mut self, label: CallLabel) {
        match self {
            CollectivePlan::Call(call) => call.set_label(label),
            CollectivePlan::Rounds(schedule) => schedule.label(label),
            CollectivePlan::Refused(refused) => refused.plan.set_label(label),
        }
    }
}

/// Equal only to itself: there is one context for each communicator.
impl PartialEq for NodeContext {
    fn eq(&self, other: &NodeContext) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for NodeContext {}

impl NodeContext {
    /// The context of a communicator of this process, with `context` as the area's name; without an
    /// area if that is `None`.
    pub(crate) fn of(comm: &Comm, context: Option<u64>) -> Result<NodeContext> {
        let engine = process::engine()?;
        let (members, me) = comm.on_this_node();
        let cores = engine.cores().min(members.len());
        let common = engine.common_abilities(comm.context(), &members)?;
        let area = match context.filter(|_| members.len() > 1) {
            Some(context) => engine.open_area(context, &members, me)?,
            None => None,
        };
        let places: Vec<_> = members.iter().map(|&rank| engine.place(rank)).collect();
        let costs = match common.same_costs {
            true => engine.collective_costs(),
            // All ranks know the built-in costs.
            false => Arc::default(),
        };
        let choices = Choices::new(
            costs,
            forced(mica_policy::collective::ForcedAlgorithms::in_force())?,
            mica_policy::collective::GroupSetting {
                ranks: members.len(),
                level: furthest(&places),
                cores,
                area_cell: area.as_ref().map(mica_channel::area::Area::cell_bytes),
            },
        );
        let fan = forced(tunables::COLL_FAN.number())? as usize;
        let is_tree = match forced(tunables::COLL_SHAPE.choice())? {
            "flat" => false,
            "tree" => true,
            _ => members.len() > tree::FLAT_MAX,
        };
        let tree = is_tree.then(|| tree::MemberTree::new(me, &places, fan));
        let direction = match forced(tunables::COLL_DIRECTION.choice())? {
            "pull" => RootedDirection::Pull,
            "push" => RootedDirection::Push,
            "both" => RootedDirection::Both,
            _ => RootedDirection::Auto,
        };
        let reach = match common {
            common if common.windows => Told::Unknown,
            common if common.cma => Told::Cma,
            _ => Told::None,
        };
        let lane = match is_tree || members.len() < comm.size() || area.is_none() {
            true => FastPath::default(),
            false => FastPath::new(&choices, reach),
        };
        let has_cores = cores == members.len();
        let reach_peers = Some(engine.peer_access().clone());
        let mode = engine.thread_mode();
        let team = area.map(|area| NodeGroup::new(area, reach_peers, tree, has_cores, mode));
        Ok(NodeContext {
            lane,
            choices,
            direction,
            reach,
            traffic: engine.collective_traffic(),
            team,
        })
    }

    /// The algorithm for an operation.
    fn algorithm(&self, what: &CollectiveOperation) -> Algorithm {
        let (collective, commutes) = (what.collective(), what.commutes());
        let of = |bytes| {
            self.choices
                .algorithm(collective, bytes, commutes, self.reach)
        };
        match what.bytes() {
            Some(bytes) => of(bytes),
            // No rank knows all amounts: ranks with long parts offer them; if not all ranks do, the
            // operation goes through cells.
            None => match of(MUCH) {
                Algorithm::Direct => Algorithm::Direct,
                _ => of(LITTLE),
            },
        }
    }

    /// Whether a part of `bytes` bytes is worth offering, where not all ranks know the amounts.
    fn is_worth_offering(&self, collective: Collective, bytes: usize) -> bool {
        let choice = self.choices.algorithm(collective, bytes, true, self.reach);
        choice == Algorithm::Direct
    }
}

/// The topology level between the two members that are furthest apart.
fn furthest(places: &[mica_node::topology::CorePlace]) -> Level {
    let from = |(i, a)| places[..i].iter().map(move |b| level_between(a, b));
    let pairs = places.iter().enumerate().flat_map(from);
    pairs.max().unwrap_or(Level::SharedCache)
}

/// Bytes that stand for unknown amounts: a long and a short part.
const MUCH: usize = 1 << 20;
const LITTLE: usize = 1 << 10;

/// The value of a tunable, which was validated when the engine started.
fn forced<T>(value: std::result::Result<T, tunables::BadValue>) -> Result<T> {
    value.map_err(|bad| Error::other(crate::constants::ERR_OTHER, bad.to_string()))
}

/// A collective among this node's ranks of a communicator that spans nodes; `ranks` are their ranks
/// in the communicator. `None` if it is to use messages.
pub(super) fn node_step(
    local: &Arc<NodeContext>,
    what: &CollectiveOperation,
    ranks: &[usize],
) -> Option<NodeCall> {
    let team = local.team.as_ref()?;
    if what.is_empty() || !what.fits(team) {
        return None;
    }
    let algorithm = local.algorithm(what);
    (algorithm.family() != AlgorithmFamily::Messages).then(|| NodeCall {
        local: Arc::clone(local),
        directly: algorithm == Algorithm::Direct,
        what: what.clone(),
        ranks: Some(ranks.into()),
        label: CallLabel::UNSAID,
    })
}

/// The plan of a collective among ranks that are all on this node.
pub(super) fn plan(comm: &Comm, what: CollectiveOperation) -> Result<CollectivePlan> {
    let me = RankPlace {
        rank: comm.rank(),
        size: comm.size(),
    };
    if me.size == 1 || what.is_empty() || comm.layout().is_some() {
        return what
            .messages(me, &MessageThresholds::DEFAULT)
            .map(CollectivePlan::Rounds);
    }
    let local = comm.local()?;
    let algorithm = local.algorithm(&what);
    match (algorithm.family(), &local.team) {
        (AlgorithmFamily::Shared | AlgorithmFamily::Direct, Some(team)) if what.fits(team) => {
            Ok(CollectivePlan::Call(NodeCall {
                local: Arc::clone(local),
                directly: algorithm == Algorithm::Direct,
                what,
                ranks: None,
                label: CallLabel::UNSAID,
            }))
        }
        (AlgorithmFamily::Messages, _) => what
            .messages(me, &MessageThresholds::of(algorithm))
            .map(CollectivePlan::Rounds),
        _ => what
            .messages(me, &MessageThresholds::DEFAULT)
            .map(CollectivePlan::Rounds),
    }
}

impl NodeCall {
    /// The same call on an area of its own, for a persistent operation, which may be started in any
    /// order relative to other operations. `None` if no area is available.
    pub(super) fn apart(&self, comm: &Comm) -> Result<Option<NodeCall>> {
        let Some(context) = comm.take_last_spare() else {
            return Ok(None);
        };
        let local = Arc::new(NodeContext::of(comm, Some(context))?);
        Ok(local.team.is_some().then(|| NodeCall {
            local,
            ..self.clone()
        }))
    }

    /// Names the function that the program called.
    pub(super) fn set_label(&mut self, label: CallLabel) {
        self.label = label;
    }

    #[inline]
    fn team(&self) -> &NodeGroup {
        let team = self.local.team.as_ref();
        team.expect("calls are made where there is a team")
    }

    /// The same collective as a schedule of messages.
    pub(super) fn by_messages(&self, comm: &Comm) -> Result<Schedule> {
        let me = RankPlace {
            rank: self.team().me(),
            size: self.team().size(),
        };
        let part = self.what.messages(me, &MessageThresholds::DEFAULT)?;
        let Some(ranks) = &self.ranks else {
            return Ok(part);
        };
        debug_assert!(ranks.len() <= comm.size());
        let mut schedule = Schedule::new();
        schedule.join(part, ranks);
        Ok(schedule)
    }

    /// Takes this call's place in the order of the node group's operations. All ranks must call it
    /// in the same order.
    pub(super) fn reserve(&self) -> OperationTicket {
        let (what, choices) = (&self.what, &self.local.choices);
        // Whether direct copy still pays where some buffers can be reached only by the kernel's
        // copies.
        let by_address = self.directly && {
            let bytes = what.bytes().unwrap_or(MUCH);
            let once = choices.once_reachable(what.collective(), bytes, what.commutes(), Told::Cma);
            once == Algorithm::Direct
        };
        self.team()
            .reserve(OperationKind::of(what, self.directly), by_address)
    }

    fn how(&self) -> PathChoice {
        if !self.directly {
            return PathChoice::Cells { base: 0 };
        }
        let what = &self.what;
        // Where not all ranks know the amounts, a rank offers only parts that are long enough.
        let is_worth = || {
            self.local
                .is_worth_offering(what.collective(), what.longest())
        };
        PathChoice::Direct {
            direction: self.local.direction,
            offers: what.bytes().is_some() || is_worth(),
        }
    }

    /// Runs it to its end. Blocks.
    pub(super) fn run_here(&self, ticket: OperationTicket, context: u64) -> Result<()> {
        block_on(context, self.run(ticket, true))
    }

    /// This rank's part, from the first stamp to the last.
    async fn run(&self, ticket: OperationTicket, waits: bool) -> Result<()> {
        let turn = OperationSlot::new(self.team(), ticket, waits).labelled(self.label);
        turn.begin(self.what.own_bytes(turn.me())).await;
        let result = perform(&turn, &self.what, self.how()).await;
        turn.finish();
        let way = match result? {
            PathTaken::Cells => TrafficClass::Area,
            PathTaken::Mapped => TrafficClass::Mapped,
            PathTaken::ByAddress => TrafficClass::Direct,
        };
        let brought = self.what.brought(self.team().me());
        self.local.traffic.count(way, brought);
        Ok(())
    }
}

/// Polls an algorithm to its end, on the communicator with this context. Blocks.
fn block_on(context: u64, algorithm: impl Future<Output = Result<()>>) -> Result<()> {
    let mut running = pin!(algorithm);
    let mut polling = Context::from_waker(Waker::noop());
    process::engine()?.watch(waiting_in(context), || {
        match running.as_mut().poll(&mut polling) {
            Poll::Ready(result) => Some(result),
            Poll::Pending => None,
        }
    })?
}

/// What a hang report says about a rank that waits in a collective.
fn waiting_in(context: u64) -> impl Fn(&EngineState, &mut WaitList) {
    move |_, list| {
        list.add(Pending {
            context: Some(context),
            ..Pending::of(WaitKind::Collective)
        });
    }
}

impl Prepare for NodeCall {
    fn prepare(&self) -> Box<dyn StageTask> {
        let (call, ticket) = (self.clone(), self.reserve());
        Box::new(RunningCall(Box::pin(async move {
            call.run(ticket, false).await
        })))
    }
}

/// A call that the engine polls.
struct RunningCall(Pin<Box<dyn Future<Output = Result<()>> + Send>>);

impl StageTask for RunningCall {
    fn advance(&mut self) -> Option<std::result::Result<(), TaskError>> {
        let mut polling = Context::from_waker(Waker::noop());
        match self.0.as_mut().poll(&mut polling) {
            Poll::Pending => None,
            Poll::Ready(result) => Some(result.map_err(|error| TaskError {
                code: error.code(),
                detail: error.to_string(),
            })),
        }
    }
}

impl fmt::Debug for RunningCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Running")
    }
}

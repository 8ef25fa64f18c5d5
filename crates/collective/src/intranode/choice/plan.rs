//! Plans a collective among ranks of one node: on the shared area or in rounds of messages, as the
//! policy chooses from what all ranks know alike.

use std::sync::Arc;

use mica_node::counters::algorithm_index;
use mica_node::topology::{Level, level_between};
use mica_node::tunables;
use mica_policy::collective::{Algorithm, AlgorithmFamily, Reachability};
use mica_policy::select::CoreUse;

use super::context::{NodeContext, RootedDirection};
use super::fast_limits::FastPath;
use super::known::choices_of;
use crate::absent;
use crate::intranode::call::NodeCall;
use crate::intranode::operation::CollectiveOperation;
use crate::intranode::protocol::group::NodeGroup;
use crate::intranode::protocol::slot::record;
use crate::intranode::protocol::tree;
use crate::label::CallLabel;
use crate::members::Members;
use crate::place::RankPlace;
use crate::schedule::Schedule;
use crate::thresholds::MessageThresholds;
use mica_objects::error::{Error, Result};
use mica_objects::process;

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
    pub(crate) plan: CollectivePlan,
    /// The error that it ends with.
    pub error: Error,
}

impl From<Schedule> for CollectivePlan {
    fn from(schedule: Schedule) -> CollectivePlan {
        CollectivePlan::Rounds(schedule)
    }
}

impl CollectivePlan {
    /// The error of a plan that memory is missing for.
    #[inline]
    pub(crate) fn missing_memory(&self) -> Option<Error> {
        match absent::is_possible() {
            false => None,
            true => self.find_absent(),
        }
    }

    #[cold]
    fn find_absent(&self) -> Option<Error> {
        let bytes = match self {
            CollectivePlan::Call(call) => call.absent_bytes(),
            CollectivePlan::Rounds(schedule) => schedule.absent_bytes(),
            CollectivePlan::Refused(_) => None,
        }?;
        Some(Error::OutOfMemory { bytes: bytes as u64, what: "a temporary buffer" })
    }

    /// The root of a plan in rounds of messages, if it has one.
    pub(crate) fn root(&self) -> Option<usize> {
        match self {
            CollectivePlan::Rounds(schedule) => schedule.root,
            CollectivePlan::Call(_) => None,
            CollectivePlan::Refused(refused) => refused.plan.root(),
        }
    }

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
            CollectivePlan::Rounds(schedule) => schedule.set_label(label),
            CollectivePlan::Refused(refused) => refused.plan.set_label(label),
        }
    }
}

/// A collective among this node's ranks of a communicator that spans nodes; `ranks` are their ranks
/// in the communicator. `None` if it is to use messages.
pub(crate) fn node_step(
    local: &Arc<NodeContext>,
    operation: &CollectiveOperation,
    ranks: &[usize],
) -> Option<NodeCall> {
    let group = local.group.as_ref()?;
    if operation.is_empty() || !operation.fits(group) {
        return None;
    }
    let algorithm = local.algorithm(operation);
    (algorithm.family() != AlgorithmFamily::Messages).then(|| NodeCall {
        local: Arc::clone(local),
        directly: algorithm == Algorithm::Direct,
        operation: operation.clone(),
        ranks: Some(ranks.into()),
        label: CallLabel::UNKNOWN,
    })
}

/// The plan of a collective among ranks that are all on this node.
pub(crate) fn plan(members: &Members, operation: CollectiveOperation) -> Result<CollectivePlan> {
    let me = RankPlace { rank: members.rank(), size: members.size() };
    if me.size == 1 || operation.is_empty() || members.layout().is_some() {
        if me.size > 1 && !operation.is_empty() {
            process::engine()?.live_counters().count_algorithm(BY_SIZE);
        }
        return operation.messages(me, &MessageThresholds::DEFAULT).map(CollectivePlan::Rounds);
    }
    let local = members.local()?;
    let algorithm = local.algorithm(&operation);
    match (algorithm.family(), &local.group) {
        (AlgorithmFamily::Shared | AlgorithmFamily::Direct, Some(group))
            if operation.fits(group) =>
        {
            Ok(CollectivePlan::Call(NodeCall {
                local: Arc::clone(local),
                directly: algorithm == Algorithm::Direct,
                operation,
                ranks: None,
                label: CallLabel::UNKNOWN,
            }))
        }
        (AlgorithmFamily::Messages, _) => {
            local.counters.count_algorithm(algorithm as usize);
            operation.messages(me, &MessageThresholds::of(algorithm)).map(CollectivePlan::Rounds)
        }
        _ => {
            local.counters.count_algorithm(BY_SIZE);
            operation.messages(me, &MessageThresholds::DEFAULT).map(CollectivePlan::Rounds)
        }
    }
}

/// What collectives are counted as whose algorithm the policy has not chosen.
const BY_SIZE: usize = algorithm_index("by_size");

/// The call on the shared area for a collective of all ranks, if all are on this node and the
/// policy chooses the area.
pub(crate) fn plan_on_area(
    members: &Members,
    operation: CollectiveOperation,
) -> Result<Option<NodeCall>> {
    if members.size() == 1 || members.layout().is_some() {
        return Ok(None);
    }
    let local = members.local()?;
    let algorithm = local.algorithm(&operation);
    let uses_area = matches!(algorithm.family(), AlgorithmFamily::Shared | AlgorithmFamily::Direct)
        && local.group.as_ref().is_some_and(|group| operation.fits(group));
    Ok(uses_area.then(|| NodeCall {
        local: Arc::clone(local),
        directly: algorithm == Algorithm::Direct,
        operation,
        ranks: None,
        label: CallLabel::UNKNOWN,
    }))
}

impl Members {
    /// The members on this node, and the memory that they share.
    ///
    /// # Errors
    /// When this rank's part of the shared area cannot be obtained.
    #[inline]
    pub(crate) fn local(&self) -> Result<&Arc<NodeContext>> {
        match self.local_cell().get() {
            Some(local) => Ok(local),
            None => self.find_local(),
        }
    }

    #[cold]
    fn find_local(&self) -> Result<&Arc<NodeContext>> {
        // Only one thread at a time calls collectives here, so it is made once.
        let local = Arc::new(NodeContext::of(self, Some(self.context()))?);
        Ok(self.local_cell().get_or_init(|| local))
    }
}

impl NodeContext {
    /// The context of a communicator of this process, with `context` as the area's name; without an
    /// area if that is `None`.
    pub(crate) fn of(members: &Members, context: Option<u64>) -> Result<NodeContext> {
        let engine = process::engine()?;
        let (ranks, me) = members.on_this_node();
        let cores = engine.cores().min(ranks.len());
        let common = engine.common_abilities(members.context(), &ranks)?;
        let area = match context.filter(|_| ranks.len() > 1) {
            Some(context) => engine.open_area(context, &ranks, me)?,
            None => None,
        };
        let places: Vec<_> = ranks.iter().map(|&rank| engine.place(rank)).collect();
        let costs = match common.same_costs {
            true => engine.collective_costs(),
            // All ranks know the built-in costs.
            false => Arc::default(),
        };
        let choices = choices_of(
            costs,
            mica_policy::collective::ForcedAlgorithms::in_force()?,
            mica_policy::collective::GroupSetting {
                ranks: ranks.len(),
                level: furthest(&places),
                cores,
                area_cell: area.as_ref().map(|area| area.cell_bytes()),
            },
        );
        let fan = tunables::COLL_FAN.number()? as usize;
        let is_tree = match tunables::COLL_SHAPE.choice()? {
            "flat" => false,
            "tree" => true,
            _ => ranks.len() > tree::FLAT_MAX,
        };
        let tree = is_tree.then(|| tree::MemberTree::new(me, &places, fan));
        let direction = match tunables::COLL_DIRECTION.choice()? {
            "pull" => RootedDirection::Pull,
            "push" => RootedDirection::Push,
            "both" => RootedDirection::Both,
            _ => RootedDirection::Auto,
        };
        let reach = match common {
            common if common.windows => Reachability::Unknown,
            common if common.cma => Reachability::Cma,
            _ => Reachability::None,
        };
        let fast_path =
            match is_tree || ranks.len() < members.size() || area.is_none() || record::is_on() {
                true => FastPath::default(),
                false => FastPath::new(&choices, reach),
            };
        let cores = match cores == ranks.len() {
            true => CoreUse::Own,
            false => CoreUse::Shared,
        };
        let reach_peers = Some(engine.peer_access().clone());
        let mode = engine.thread_mode();
        let group = area.map(|area| NodeGroup::new(area, reach_peers, tree, cores, mode));
        Ok(NodeContext {
            fast_path,
            choices,
            direction,
            reach,
            counters: engine.live_counters(),
            group,
        })
    }
}

impl NodeCall {
    /// The same call on an area of its own, for a persistent operation, which may be started in any
    /// order relative to other operations. `None` if no area is available.
    pub(crate) fn apart(&self, members: &Members) -> Result<Option<NodeCall>> {
        let Some(context) = members.take_last_spare() else {
            return Ok(None);
        };
        let local = Arc::new(NodeContext::of(members, Some(context))?);
        Ok(local.group.is_some().then(|| NodeCall { local, ..self.clone() }))
    }
}

/// The topology level between the two members that are furthest apart.
fn furthest(places: &[mica_node::topology::CorePlace]) -> Level {
    let from = |(i, a)| places[..i].iter().map(move |b| level_between(a, b));
    let pairs = places.iter().enumerate().flat_map(from);
    pairs.max().unwrap_or(Level::SharedCache)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mica_node::counters::ALGORITHM_NAMES;

    #[test]
    fn each_algorithm_of_the_policy_has_a_counter() {
        for algorithm in Algorithm::ALL {
            let name = ALGORITHM_NAMES[algorithm as usize];
            assert_eq!(name, algorithm.name().replace('-', "_"));
        }
    }
}

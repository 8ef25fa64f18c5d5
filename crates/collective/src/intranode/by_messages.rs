//! A collective as a schedule of messages: from the description to the algorithm.

use std::mem;

use mica_memory::View;

use super::call::NodeCall;
use super::operation::CollectiveOperation;
use crate::flat;
use crate::intranode::cells::parts::Parts;
use crate::members::Members;
use crate::place::{Blocks, RankPlace};
use crate::schedule::Schedule;
use crate::thresholds::MessageThresholds;
use mica_objects::error::Result;

impl CollectiveOperation {
    fn parts_at_root<'a>(&self, parts: Option<&'a Parts>) -> AtRoot<'a> {
        match parts {
            Some(Parts::Each(views)) => AtRoot::Each(Some(views.clone())),
            Some(Parts::Even(blocks, _)) => AtRoot::Even(Some(blocks)),
            None if self.bytes().is_none() => AtRoot::Each(None),
            None => AtRoot::Even(None),
        }
    }

    /// The schedule of a message-based algorithm, chosen by `limits`.
    ///
    /// # Errors
    /// When there is no memory for temporary buffers.
    pub fn messages(&self, me: RankPlace, limits: &MessageThresholds) -> Result<Schedule> {
        Ok(self.rounds(me, limits)?.rooted(self.root()))
    }

    fn rounds(&self, me: RankPlace, limits: &MessageThresholds) -> Result<Schedule> {
        match self {
            CollectiveOperation::Barrier | CollectiveOperation::Finalize => Ok(flat::barrier(me)),
            CollectiveOperation::Bcast { view, root } => {
                flat::bcast(me, limits, view.clone(), *root)
            }
            CollectiveOperation::Gather { send, parts, root, .. } => {
                match self.parts_at_root(parts.as_ref()) {
                    AtRoot::Each(views) => Ok(flat::gather_linear(me, send.clone(), views, *root)),
                    AtRoot::Even(blocks) => flat::gather(me, limits, send.clone(), blocks, *root),
                }
            }
            CollectiveOperation::Scatter { parts, receive, root, .. } => match self
                .parts_at_root(parts.as_ref())
            {
                AtRoot::Each(views) => Ok(flat::scatter_linear(me, views, receive.clone(), *root)),
                AtRoot::Even(blocks) => flat::scatter(me, limits, blocks, receive.clone(), *root),
            },
            CollectiveOperation::Allgather { send, parts } => match parts {
                Parts::Even(blocks, _) => flat::allgather(me, limits, send.clone(), blocks),
                Parts::Each(views) => Ok(flat::allgather_ring(me, send.clone(), views)),
            },
            CollectiveOperation::Alltoall { send, receive } => match (send, receive) {
                (Some(Parts::Even(send, _)), Parts::Even(receive, _)) => {
                    flat::alltoall(me, limits, Some(send), receive)
                }
                (None, Parts::Even(receive, _)) => flat::alltoall(me, limits, None, receive),
                (Some(send), receive) => {
                    let (send, receive) = (send.views(me.size)?, receive.views(me.size)?);
                    Ok(flat::alltoall_exchange(me, limits, &send, &receive))
                }
                (None, Parts::Each(receive)) => Ok(flat::alltoall_swap(me, receive)),
            },
            CollectiveOperation::Reduce { reduction, send, result, root: None } => {
                let result = result.as_ref().expect("an allreduce has a receive buffer everywhere");
                flat::allreduce(me, limits, reduction, send.as_ref(), result)
            }
            CollectiveOperation::Reduce { reduction, send, result, root: Some(root) } => {
                flat::reduce(me, limits, reduction, send.as_ref(), result.as_ref(), *root)
            }
            CollectiveOperation::ReduceScatter { reduction, send, counts, result } => {
                flat::reduce_scatter(me, limits, reduction, counts, send.as_ref(), result)
            }
            CollectiveOperation::Scan { reduction, send, result, kind } => {
                flat::scan(me, *kind, reduction, send.as_ref(), result)
            }
        }
    }
}

impl NodeCall {
    /// The same collective as a schedule of messages.
    pub(crate) fn by_messages(&self, members: &Members) -> Result<Schedule> {
        let me = RankPlace { rank: self.group().me(), size: self.group().size() };
        let part = self.operation.messages(me, &MessageThresholds::DEFAULT)?;
        let Some(ranks) = &self.ranks else {
            return Ok(part);
        };
        debug_assert!(ranks.len() <= members.size());
        let mut schedule = Schedule::new();
        schedule.join(part, ranks);
        Ok(schedule)
    }
}

impl Schedule {
    /// The same schedule, with calls on shared areas replaced by schedules of messages.
    ///
    /// # Errors
    /// When there is no memory for temporary buffers.
    pub fn by_messages(self, members: &Members) -> Result<Schedule> {
        let mut schedule = Schedule::new();
        for mut round in self.rounds {
            let Some(call) = round.call.take() else {
                schedule.rounds.push(round);
                continue;
            };
            let after = mem::take(&mut round.local);
            schedule.rounds.push(round);
            schedule.rounds.extend(call.by_messages(members)?.rounds);
            schedule.last().local.extend(after);
        }
        Ok(schedule)
    }
}

/// The buffer of the root of a gather or scatter, if this rank is the root. All ranks know which
/// kind it is.
enum AtRoot<'a> {
    /// Each part separately.
    Each(Option<Vec<View>>),
    /// Parts of equal length.
    Even(Option<&'a Blocks>),
}

//! Making communicators (MPI 5.0, 7.4.2): duplicate, split, create from a group.

use super::lookup::COMMS;
use super::object::{Comm, CommState};
use crate::constants as c;
use crate::error::{Error, Result};
use crate::group::Group;
use crate::info::Info;
use crate::pt2pt;
use mica_collective::exchange::ExchangeMembers;
use mica_collective::members::Members;
use mica_collective::members::context::{fresh_context, spares};

/// Separates the traffic of `MPI_Comm_create_group`, whose tags are the user's, from a
/// communicator's collectives.
const GROUP_CREATION: u64 = 1 << 39;

/// What one process contributes to a split.
#[derive(Clone, Copy)]
pub(super) struct Bid {
    pub color: i32,
    pub key: i32,
    pub context: u64,
}

impl Bid {
    const BYTES: usize = 16;

    pub fn to_bytes(self) -> [u8; Bid::BYTES] {
        let mut bytes = [0; Bid::BYTES];
        bytes[..4].copy_from_slice(&self.color.to_ne_bytes());
        bytes[4..8].copy_from_slice(&self.key.to_ne_bytes());
        bytes[8..].copy_from_slice(&self.context.to_ne_bytes());
        bytes
    }

    pub fn from_bytes(bytes: &[u8; Bid::BYTES]) -> Bid {
        let [a, b, c, d, e, f, g, h, context @ ..] = *bytes;
        Bid {
            color: i32::from_ne_bytes([a, b, c, d]),
            key: i32::from_ne_bytes([e, f, g, h]),
            context: u64::from_ne_bytes(context),
        }
    }
}

/// The ranks, in order, of the new communicator with this color.
pub(super) fn winners(bids: &[Bid], color: i32) -> Vec<usize> {
    let mut ranks: Vec<usize> = (0..bids.len()).filter(|&rank| bids[rank].color == color).collect();
    ranks.sort_by_key(|&rank| bids[rank].key); // stable: equal keys keep the old order
    ranks
}

impl Comm {
    /// `MPI_Comm_dup` (no hints) and `MPI_Comm_dup_with_info`: same processes, error handler, and
    /// the attributes that their copy callbacks let through.
    pub fn duplicate(&self, hints: Option<&Info>) -> Result<Comm> {
        let context = ExchangeMembers::all(self.everybody()).agree_on_context()?;
        self.duplicate_as(self.twin(context)?, hints)
    }

    /// `MPI_Comm_idup`: all members take spare contexts in the same order, because they call
    /// collectives in the same order, so none of them waits. The exceptions are every 64th
    /// duplicate of a communicator, and the first duplicate of one made this way: for these the
    /// members agree on new spares.
    pub fn duplicate_at_once(&self, hints: Option<&Info>) -> Result<Comm> {
        let spare = self.take_spare();
        let context = match spare {
            Some(context) => context,
            None => {
                let first = ExchangeMembers::all(self.everybody()).agree_on_context()?;
                self.set_spares(spares(first));
                first
            }
        };
        let new = self.twin(context)?;
        new.set_spares(0..0);
        self.duplicate_as(new, hints)
    }

    fn duplicate_as(&self, new: Comm, hints: Option<&Info>) -> Result<Comm> {
        if let Some(topology) = self.topology() {
            new.attach_topology(topology.clone());
        }
        // After the exchange: a callback that fails here must not leave the others waiting.
        let copied = self.0.attributes.copy_into(self.handle(), &new.0.attributes, new.handle());
        if let Err(error) = copied {
            new.discard();
            return Err(error);
        }
        if let Some(hints) = hints {
            new.set_info(hints);
        }
        Ok(new)
    }

    /// `MPI_Comm_create`: of the processes of `group`, each of which passes the same group; `None`
    /// for the others.
    pub fn create(&self, group: &Group) -> Result<Option<Comm>> {
        if self.is_inter() {
            return self.create_sides(group);
        }
        // Taken by all, so that the members' tags stay in step.
        let tag = self.next_collective_tag(None);
        self.create_among(self, group, tag)
    }

    /// `MPI_Comm_create_group`: as [`create`](Self::create), called by the members only.
    pub fn create_group(&self, group: &Group, tag: i32) -> Result<Option<Comm>> {
        self.must_be_intra()?;
        if tag < 0 {
            let reason = format!("a tag lies between 0 and {}", pt2pt::TAG_UB);
            return Err(Error::argument(c::ERR_TAG, "tag", tag, reason));
        }
        self.create_among(&self.for_creation(), group, tag)
    }

    /// The processes with a context in which the user's tags match no other traffic:
    /// `MPI_Comm_create_group` uses it for collectives, the leaders of `MPI_Intercomm_create` for
    /// messages.
    pub(super) fn for_creation(&self) -> Members {
        self.in_context(self.context() | GROUP_CREATION, 0..0)
    }

    /// The leader sends the context to the other members, in messages with `tag` over `via`.
    fn create_among(&self, via: &Members, group: &Group, tag: i32) -> Result<Option<Comm>> {
        let ranks: Option<Vec<usize>> = group.peers().map(|peer| self.rank_of(peer)).collect();
        let ranks = ranks.ok_or_else(|| {
            let reason = format!("not all of its members are in {self}");
            let value = format!("a group of {}", group.size());
            Error::argument(c::ERR_GROUP, "group", value, reason)
        })?;
        let Some(me) = group.rank_of(self.me()) else {
            return Ok(None);
        };
        let context = ExchangeMembers::of(via, &ranks, me, tag).agree_on_context()?;
        self.child(context, group.clone()).map(Some)
    }

    /// `MPI_Comm_split`: one communicator per color, ordered by key and then by rank; `None` for
    /// `MPI_UNDEFINED`.
    pub fn split(&self, color: i32, key: i32) -> Result<Option<Comm>> {
        if color < 0 && color != c::UNDEFINED {
            let reason = "a color is not negative, or MPI_UNDEFINED";
            return Err(Error::argument(c::ERR_ARG, "color", color, reason));
        }
        let bid = Bid { color, key, context: fresh_context()? };
        if self.is_inter() {
            return self.split_sides(bid);
        }
        let all = ExchangeMembers::all(self).allgather(&bid.to_bytes())?;
        if color == c::UNDEFINED {
            return Ok(None);
        }
        let bids: Vec<Bid> = all.as_chunks().0.iter().map(Bid::from_bytes).collect();
        let ranks = winners(&bids, color);
        let group = Group::from_ranks(ranks.iter().map(|&rank| self.peer(rank)).collect());
        self.child(bids[ranks[0]].context, group).map(Some)
    }

    /// A new communicator of some of this one's processes, this one among them. It inherits the
    /// error handler.
    pub(super) fn child(&self, context: u64, group: Group) -> Result<Comm> {
        let me = self.me();
        let group = group.of_session(self.session());
        COMMS.insert_with(|handle| {
            let members = Members::intra(context, group, me, spares(context));
            Comm::new(handle, members, None, self.fresh_state())
        })
    }

    /// A new communicator of the same processes. It inherits the error handler.
    fn twin(&self, context: u64) -> Result<Comm> {
        COMMS.insert_with(|handle| self.alike(handle, context))
    }

    pub(super) fn fresh_state(&self) -> CommState {
        CommState { name: String::new(), errhandler: self.set_handler(), info: Info::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mica_collective::members::context::{BLOCK, BRIDGE, context};

    #[test]
    fn bids_travel_as_bytes() {
        let bid = Bid { color: -7, key: i32::MIN, context: context(1 << 20, 12345) };
        let back = Bid::from_bytes(&bid.to_bytes());
        assert_eq!((back.color, back.key, back.context), (bid.color, bid.key, bid.context));
    }

    #[test]
    fn ranks_of_a_split_are_ordered_by_key_then_rank() {
        let bids = [(0, 5), (1, 0), (0, -1), (0, 5), (c::UNDEFINED, 0), (1, -3)]
            .map(|(color, key)| Bid { color, key, context: 0 });
        assert_eq!(winners(&bids, 0), [2, 0, 3]);
        assert_eq!(winners(&bids, 1), [5, 1]);
        assert!(winners(&bids, 2).is_empty());
    }

    #[test]
    fn contexts_differ_and_leave_bit_0_to_the_collective_plane() {
        let mut contexts: Vec<u64> =
            (0..4).flat_map(|leader| (0..4).map(move |id| context(leader, id * BLOCK))).collect();
        let spare: Vec<u64> = contexts.iter().flat_map(|&first| spares(first).step_by(2)).collect();
        contexts.extend(spare);
        assert!(contexts.iter().all(|context| context & (1 | GROUP_CREATION | BRIDGE) == 0));
        contexts.sort_unstable();
        contexts.dedup();
        assert_eq!(contexts.len(), 16 * BLOCK as usize);
    }
}

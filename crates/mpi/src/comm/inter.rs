//! Inter-communicators (MPI 5.0, 7.6): two groups that share no process; a message goes to the
//! other group.
//!
//! Both groups have one context, which one of the two leaders made, so a message costs the same as
//! in an intra-communicator: ranks are looked up in another group. In addition, every
//! inter-communicator has a hidden intra-communicator of all its processes, those of the lower side
//! first. Duplicates, splits and merges are agreed on there, so they cost one exchange, as they do
//! elsewhere.

use mica_memory::{Block, Shape};
use mica_protocol::{MatchPattern, SendCompletion};

use super::create::{Bid, winners};
use super::lookup::COMMS;
use super::object::{Comm, CommState};
use crate::constants as c;
use crate::dynamic::connections::{self, Coming};
use crate::errhandler::Errhandler;
use crate::error::{Error, Result};
use crate::group::Group;
use crate::info::Info;
use crate::numbers::{to_bytes, to_numbers};
use crate::process;
use crate::pt2pt;
use mica_collective::calls::{place, rooted};
use mica_collective::exchange::{ExchangeMembers, barrier};
use mica_collective::members::context::{bridge, fresh_context, spares};
use mica_collective::members::{GroupSide, Members, outcome, receive_nothing};

/// What a leader learned from the other one.
pub(crate) struct RemoteLeader {
    context: u64,
    lower: bool,
    remote: Group,
    /// Where the other group is of another world: held until the communicator is made.
    coming: Option<Coming>,
}

impl RemoteLeader {
    /// The same, which keeps the other group's world announced.
    pub(crate) fn with(self, coming: Coming) -> RemoteLeader {
        RemoteLeader { coming: Some(coming), ..self }
    }
}

impl Comm {
    /// Number of processes of the other side of an inter-communicator.
    pub fn remote_size(&self) -> Result<usize> {
        self.both_groups().map(|_| self.remote_or_local_size())
    }

    /// Processes of the other side of an inter-communicator.
    pub fn remote_group(&self) -> Result<Group> {
        self.both_groups().map(|_| self.peers().clone())
    }

    /// An intra-communicator of both groups of this inter-communicator.
    fn both_groups(&self) -> Result<&Comm> {
        self.0.everybody.as_ref().ok_or_else(|| {
            let reason = "this is an intra-communicator, which has no remote group";
            Error::argument(c::ERR_COMM, "comm", self, reason)
        })
    }

    /// Refuses inter-communicators.
    ///
    /// # Errors
    /// `MPI_ERR_COMM`.
    pub fn must_be_intra(&self) -> Result<()> {
        if !self.is_inter() {
            return Ok(());
        }
        let reason = "this is an inter-communicator; the call is for intra-communicators";
        Err(Error::argument(c::ERR_COMM, "comm", self, reason))
    }

    /// An intra-communicator of all processes: this one, or the hidden one of both groups.
    pub(super) fn everybody(&self) -> &Comm {
        self.0.everybody.as_ref().unwrap_or(self)
    }

    /// `MPI_Intercomm_create`, called on the local communicator. `peer_comm` and `remote_leader`
    /// are significant only at the leader.
    pub fn create_inter(
        &self,
        local_leader: i32,
        peer_comm: u32,
        remote_leader: i32,
        tag: i32,
    ) -> Result<Comm> {
        self.must_be_intra()?;
        let leader = rank_below(self.size(), "local_leader", local_leader)?;
        if tag < 0 {
            let reason = format!("a tag lies between 0 and {}", pt2pt::TAG_UB);
            return Err(Error::argument(c::ERR_TAG, "tag", tag, reason));
        }
        self.introduce(leader, || {
            let peer_comm = Comm::resolve(peer_comm).map_err(|error| match error {
                Error::Argument { class, value, reason, .. } => {
                    Error::argument(class, "peer_comm", value, reason)
                }
                other => other,
            })?;
            self.meet(&peer_comm, remote_leader, tag)
        })
    }

    /// Makes an inter-communicator: the process `root` learns the other group through `meet`, at
    /// the same time as another process does. Collective.
    ///
    /// # Errors
    /// `MPI_ERR_ROOT`; at all, those of `meet`.
    pub(crate) fn introduce_at(
        &self,
        root: i32,
        meet: impl FnOnce() -> Result<RemoteLeader>,
    ) -> Result<Comm> {
        self.must_be_intra()?;
        let made = self.introduce(rooted(place(self), root)?, meet)?;
        // Before one of them can free it, all have announced the connection.
        barrier(self)?;
        Ok(made)
    }

    /// Makes the inter-communicator: the leader learns the other group through `meet` and
    /// broadcasts it to its own group.
    fn introduce(
        &self,
        leader: usize,
        meet: impl FnOnce() -> Result<RemoteLeader>,
    ) -> Result<Comm> {
        let exchange = ExchangeMembers::led_by(self, leader);
        let met = (self.rank() == leader).then(meet);
        // A leader that failed broadcasts its error, which is its group's as well.
        let (code, context, lower, mut rest) = match &met {
            Some(Ok(met)) => {
                let members: Vec<u64> = met.remote.peers().map(u64::from).collect();
                (0, met.context, u64::from(met.lower), to_bytes(&members))
            }
            Some(Err(error)) => (error.code() as u64, 0, 0, error.to_string().into_bytes()),
            None => (0, 0, 0, Vec::new()),
        };
        let mut head = to_bytes(&[code, context, lower, rest.len() as u64]);
        exchange.broadcast(&mut head)?;
        let head = to_numbers(&head);
        rest.resize(head[3] as usize, 0);
        exchange.broadcast(&mut rest)?;
        let met = met.transpose()?;
        if head[0] != 0 {
            let detail = format!("at rank {leader}: {}", String::from_utf8_lossy(&rest));
            return Err(Error::other(head[0] as i32, detail));
        }
        let engine = process::engine()?;
        engine.meet_worlds()?;
        let made = self.child_between(
            head[1],
            InterGroups {
                local: self.group().clone(),
                remote: group_of(&to_numbers(&rest)),
                side: if head[2] != 0 { GroupSide::Lower } else { GroupSide::Upper },
            },
        )?;
        connections::announce(engine);
        drop(met.and_then(|met| met.coming));
        Ok(made)
    }

    /// `MPI_Intercomm_create_from_groups`: `None` for an empty group. `remote` names the remote
    /// group; it and `remote_leader` are significant only at the leader.
    pub fn create_inter_from_groups(
        local: &Group,
        local_leader: i32,
        remote: u32,
        remote_leader: i32,
        stringtag: &str,
        errhandler: &Errhandler,
    ) -> Result<Option<Comm>> {
        if local.is_empty() || remote == c::GROUP_EMPTY {
            return Ok(None);
        }
        let hints = Info::default();
        let create = |group: &Group| -> Result<Passing> {
            let comm = Comm::create_from_group(group, stringtag, &hints, errhandler.clone())?;
            Ok(Passing(comm.expect("the group has members")))
        };
        let leader = rank_below(local.size(), "local_leader", local_leader)?;
        let own = create(local)?;
        let inter = own.0.introduce(leader, || {
            // The two leaders make a communicator of their own for their exchange.
            let remote = Group::resolve(remote)?;
            let rank = rank_below(remote.size(), "remote_leader", remote_leader)?;
            let (me, other) = (own.0.me(), remote.peer(rank));
            if me == other {
                return Err(same_leader(remote_leader));
            }
            let leaders = create(&Group::from_ranks(vec![me.min(other), me.max(other)]))?;
            own.0.meet(&leaders.0, i32::from(me < other), 0)
        });
        inter.map(Some)
    }

    /// The leaders exchange contexts and members; the lower side is the one whose leader has the
    /// lower job-wide rank.
    fn meet(&self, peer_comm: &Comm, remote_leader: i32, tag: i32) -> Result<RemoteLeader> {
        let remote = rank_below(peer_comm.remote_or_local_size(), "remote_leader", remote_leader)?;
        if self.me() == peer_comm.peer(remote) {
            return Err(same_leader(remote_leader));
        }
        self.meet_over(&peer_comm.for_creation(), remote, tag)
    }

    /// [`meet`](Self::meet) of the process with rank `remote` among `via`.
    pub(crate) fn meet_over(&self, via: &Members, remote: usize, tag: i32) -> Result<RemoteLeader> {
        let lower = self.me() < via.peer(remote);
        let first = match lower {
            true => FirstSender::Here,
            false => FirstSender::There,
        };
        let swap = |out: &[u64], count: usize| swap(via, remote, tag, first, out, count);

        let context = fresh_context()?;
        let theirs = swap(&[context, self.size() as u64], 2)?;
        let members: Vec<u64> = self.group().peers().map(u64::from).collect();
        let remote = group_of(&swap(&members, theirs[1] as usize)?);
        if remote.peers().any(|peer| self.group().contains(peer)) {
            let reason = "the groups of an inter-communicator share no process, and these do";
            return Err(Error::argument(c::ERR_COMM, "local_comm", self, reason));
        }
        let context = if lower { context } else { theirs[0] };
        Ok(RemoteLeader { context, lower, remote, coming: None })
    }

    /// `MPI_Intercomm_merge`: an intra-communicator of both groups, first the one whose processes
    /// pass `high` false.
    pub fn merge(&self, high: bool) -> Result<Comm> {
        let everybody = self.both_groups()?;
        let mut mine = to_bytes(&[u64::from(high), 0]);
        if everybody.rank() == 0 {
            mine = to_bytes(&[u64::from(high), fresh_context()?]);
        }
        let all = to_numbers(&ExchangeMembers::all(everybody).allgather(&mine)?);
        let (lower, upper) = self.sides();
        let high_of = |rank: usize| all[2 * rank] != 0;
        let (lower_high, upper_high) = (high_of(0), high_of(lower.size()));
        let agrees = |rank: usize| {
            high_of(rank) == if rank < lower.size() { lower_high } else { upper_high }
        };
        if !(0..all.len() / 2).all(agrees) {
            let reason =
                "all processes of a group must pass the same value, and some passed another";
            return Err(Error::argument(c::ERR_ARG, "high", high, reason));
        }
        let (first, second) =
            if lower_high && !upper_high { (upper, lower) } else { (lower, upper) };
        let union = first.peers().chain(second.peers()).collect();
        self.child(all[1], Group::from_ranks(union))
    }

    /// `MPI_Comm_create` of an inter-communicator: each side passes a part of its local group.
    pub(super) fn create_sides(&self, group: &Group) -> Result<Option<Comm>> {
        if !group.peers().all(|peer| self.group().contains(peer)) {
            let value = format!("a group of {}", group.size());
            let reason = format!("not all of its members are in the local group of {self}");
            return Err(Error::argument(c::ERR_GROUP, "group", value, reason));
        }
        let rank = group.rank_of(self.me());
        self.split_sides(Bid {
            color: if rank.is_some() { 0 } else { c::UNDEFINED },
            key: rank.map_or(0, |rank| rank as i32),
            context: fresh_context()?,
        })
    }

    /// `MPI_Comm_split` of an inter-communicator: one for each color that both sides have.
    pub(super) fn split_sides(&self, bid: Bid) -> Result<Option<Comm>> {
        let everybody = self.both_groups()?;
        let all = ExchangeMembers::all(everybody).allgather(&bid.to_bytes())?;
        if bid.color == c::UNDEFINED {
            return Ok(None);
        }
        let bids: Vec<Bid> = all.as_chunks().0.iter().map(Bid::from_bytes).collect();
        let (lower, upper) = self.sides();
        let (lower_bids, upper_bids) = bids.split_at(lower.size());
        let lower_ranks = winners(lower_bids, bid.color);
        let upper_ranks = winners(upper_bids, bid.color);
        let Some(&leader) = lower_ranks.first() else {
            return Ok(None);
        };
        if upper_ranks.is_empty() {
            return Ok(None);
        }
        let part = |group: &Group, ranks: Vec<usize>| {
            Group::from_ranks(ranks.into_iter().map(|rank| group.peer(rank)).collect())
        };
        let (lower, upper) = (part(lower, lower_ranks), part(upper, upper_ranks));
        let (local, remote, side) = match self.side() {
            Some(GroupSide::Upper) => (upper, lower, GroupSide::Upper),
            _ => (lower, upper, GroupSide::Lower),
        };
        let context = lower_bids[leader].context;
        self.child_between(context, InterGroups { local, remote, side }).map(Some)
    }

    /// The groups of the lower and of the upper side.
    fn sides(&self) -> (&Group, &Group) {
        match self.side() {
            Some(GroupSide::Upper) => (self.peers(), self.group()),
            _ => (self.group(), self.peers()),
        }
    }

    /// A new inter-communicator. It inherits the error handler of this communicator.
    fn child_between(&self, context: u64, groups: InterGroups) -> Result<Comm> {
        let session = self.session();
        let groups = InterGroups {
            local: groups.local.of_session(session),
            remote: groups.remote.of_session(session),
            ..groups
        };
        COMMS.insert_with(|handle| between(handle, context, groups, self.me(), self.fresh_state()))
    }

    /// A communicator of the same processes.
    pub(super) fn alike(&self, handle: u32, context: u64) -> Comm {
        let state = self.fresh_state();
        match self.side() {
            None => Comm::new(handle, self.in_context(context, spares(context)), None, state),
            Some(side) => {
                let (local, remote) = (self.group().clone(), self.peers().clone());
                between(handle, context, InterGroups { local, remote, side }, self.me(), state)
            }
        }
    }
}

/// A temporary communicator: dropping it frees its handle.
struct Passing(Comm);

impl Drop for Passing {
    fn drop(&mut self) {
        self.0.discard();
    }
}

/// The groups of an inter-communicator, and which of them is the local one.
struct InterGroups {
    local: Group,
    remote: Group,
    side: GroupSide,
}

fn between(handle: u32, context: u64, groups: InterGroups, me: u32, state: CommState) -> Comm {
    let InterGroups { local, remote, side } = groups;
    let (first, second) = match side {
        GroupSide::Lower => (&local, &remote),
        GroupSide::Upper => (&remote, &local),
    };
    let union = Group::from_ranks(first.peers().chain(second.peers()).collect());
    let hidden = CommState { name: String::new(), errhandler: None, info: Info::default() };
    let union = Members::intra(bridge(context), union, me, 0..0);
    let everybody = Comm::new(c::COMM_NULL, union, None, hidden);
    let members = Members::inter(context, local, remote, side, me, spares(context));
    Comm::new(handle, members, Some(everybody), state)
}

/// Which of two processes that exchange numbers sends first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FirstSender {
    Here,
    There,
}

/// Two processes exchange numbers.
fn swap(
    via: &Members,
    rank: usize,
    tag: i32,
    first: FirstSender,
    out: &[u64],
    count: usize,
) -> Result<Vec<u64>> {
    let out = to_bytes(out);
    let outgoing = Block::allocate(out.len())?;
    outgoing.write_bytes(&out);
    let outgoing = outgoing.view(Shape::Contiguous { bytes: out.len() });
    let mut bytes = vec![0; 8 * count];
    let region = Block::allocate(bytes.len())?;
    let incoming = region.offset(0).view(Shape::Contiguous { bytes: bytes.len() });
    let (engine, context, peer) = (process::engine()?, via.context(), via.peer(rank));
    let send = || engine.send(peer, context, tag, &outgoing, SendCompletion::Local);
    if first == FirstSender::Here {
        send()?;
    }
    let pattern = MatchPattern { context, source: Some(peer), tag: Some(tag) };
    let received = engine.receive(pattern, &incoming);
    // The other leader may wait for its message to be taken.
    let received = received.inspect_err(|_| receive_nothing(pattern))?;
    outcome(via, &received).1.map_or(Ok(()), Err)?;
    if first == FirstSender::There {
        send()?;
    }
    region.read_bytes(&mut bytes);
    Ok(to_numbers(&bytes))
}

#[cold]
fn same_leader(remote_leader: i32) -> Error {
    let reason = "this is the local leader; the groups share no process";
    Error::argument(c::ERR_RANK, "remote_leader", remote_leader, reason)
}

fn rank_below(size: usize, argument: &'static str, rank: i32) -> Result<usize> {
    usize::try_from(rank).ok().filter(|&rank| rank < size).ok_or_else(|| {
        let reason = format!("the communicator has ranks 0 to {}", size - 1);
        Error::argument(c::ERR_RANK, argument, rank, reason)
    })
}

fn group_of(peers: &[u64]) -> Group {
    Group::from_ranks(peers.iter().map(|&peer| peer as u32).collect())
}

//! Groups: ordered sets of processes (MPI 5.0, 7.3).
//!
//! A member is named by its rank in the job. Most groups are a run of consecutive ranks (the world,
//! one process, a block of a split) and need neither a list nor a reverse table; the others hold
//! both, so that translation is one load either way.

use std::sync::Arc;

use crate::constants as c;
use crate::error::{Error, Result};
use crate::handle::{HandleKind, HandleTable};
use crate::last_used::{Generation, KnownHandle};

/// An ordered set of processes. Cloning shares it.
#[derive(Clone, Debug)]
pub struct Group {
    members: GroupMembers,
    /// Handle of the session that it comes from; `MPI_SESSION_NULL`: from the world model.
    session: u32,
}

#[derive(Clone, Debug)]
enum GroupMembers {
    /// Ranks `first .. first + size` of the job.
    Run { first: u32, size: u32 },
    /// Anything else.
    List(Arc<List>),
}

#[derive(Debug)]
struct List {
    ranks: Box<[u32]>,
    /// Group rank of job rank `base + i`, or [`ABSENT`].
    reverse: Box<[u32]>,
    base: u32,
}

const ABSENT: u32 = u32::MAX;

/// How two groups relate; also the part of `MPI_Comm_compare` that compares members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// Same members in the same order.
    Identical,
    /// Same members in another order.
    Similar,
    /// Different members.
    Unequal,
}

impl Relation {
    /// The constant of MPI.
    pub fn constant(self) -> i32 {
        match self {
            Relation::Identical => c::IDENT,
            Relation::Similar => c::SIMILAR,
            Relation::Unequal => c::UNEQUAL,
        }
    }
}

impl Group {
    /// The group without members.
    pub const EMPTY: Group = Group::run(0, 0);

    /// Ranks `first .. first + size` of the job, without allocating.
    pub const fn run(first: u32, size: u32) -> Group {
        Group { members: GroupMembers::Run { first, size }, session: c::SESSION_NULL }
    }

    /// The group of these distinct ranks of the job, in this order.
    pub fn from_ranks(ranks: Vec<u32>) -> Group {
        let Some(&first) = ranks.first() else {
            return Group::EMPTY;
        };
        if ranks.iter().zip(first..).all(|(&rank, expected)| rank == expected) {
            return Group::run(first, ranks.len() as u32);
        }
        let base = *ranks.iter().min().expect("not empty");
        let top = *ranks.iter().max().expect("not empty");
        let mut reverse = vec![ABSENT; (top - base) as usize + 1].into_boxed_slice();
        for (i, &rank) in ranks.iter().enumerate() {
            let slot = &mut reverse[(rank - base) as usize];
            debug_assert_eq!(*slot, ABSENT, "rank {rank} of the job is in the group twice");
            *slot = i as u32;
        }
        let list = List { ranks: ranks.into(), reverse, base };
        Group { members: GroupMembers::List(Arc::new(list)), session: c::SESSION_NULL }
    }

    /// Whether both are known to have the same members in the same order, without a comparison of
    /// lists.
    pub fn shares_members(&self, other: &Group) -> bool {
        match (&self.members, &other.members) {
            (GroupMembers::List(one), GroupMembers::List(two)) => Arc::ptr_eq(one, two),
            _ => self.as_run().is_some() && self.as_run() == other.as_run(),
        }
    }

    /// First rank and size, if the members are consecutive ranks of the job.
    pub fn as_run(&self) -> Option<(u32, u32)> {
        match self.members {
            GroupMembers::Run { first, size } => Some((first, size)),
            GroupMembers::List(_) => None,
        }
    }

    /// This group as one that comes from the session with this handle (`MPI_SESSION_NULL`: from the
    /// world model).
    pub fn of_session(self, session: u32) -> Group {
        Group { session, ..self }
    }

    /// The handle of the session that it comes from, as groups and communicators made of it do;
    /// `MPI_SESSION_NULL` if it comes from the world model.
    pub fn session(&self) -> u32 {
        self.session
    }

    /// The group of these distinct ranks of the job, from the same session as this one.
    fn derive(&self, ranks: Vec<u32>) -> Group {
        Group::from_ranks(ranks).of_session(self.session)
    }

    /// Number of members.
    #[inline]
    pub fn size(&self) -> usize {
        match &self.members {
            GroupMembers::Run { size, .. } => *size as usize,
            GroupMembers::List(list) => list.ranks.len(),
        }
    }

    /// Whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.size() == 0
    }

    /// Job-wide rank of member `rank`, which is below [`size`](Self::size).
    #[inline]
    pub fn peer(&self, rank: usize) -> u32 {
        debug_assert!(rank < self.size());
        match &self.members {
            GroupMembers::Run { first, .. } => first + rank as u32,
            GroupMembers::List(list) => list.ranks[rank],
        }
    }

    /// Rank in this group of the process with job-wide rank `peer`.
    #[inline]
    pub fn rank_of(&self, peer: u32) -> Option<usize> {
        match &self.members {
            GroupMembers::Run { first, size } => {
                let rank = peer.wrapping_sub(*first);
                (rank < *size).then_some(rank as usize)
            }
            GroupMembers::List(list) => {
                let &rank = list.reverse.get(peer.wrapping_sub(list.base) as usize)?;
                (rank != ABSENT).then_some(rank as usize)
            }
        }
    }

    /// Whether the process with job-wide rank `peer` is a member.
    pub fn contains(&self, peer: u32) -> bool {
        self.rank_of(peer).is_some()
    }

    /// The members in order, by job-wide rank.
    pub fn peers(&self) -> impl ExactSizeIterator<Item = u32> + '_ {
        (0..self.size()).map(|rank| self.peer(rank))
    }

    /// `MPI_Group_compare`.
    pub fn compare(&self, other: &Group) -> Relation {
        if self.size() != other.size() {
            Relation::Unequal
        } else if self.peers().eq(other.peers()) {
            Relation::Identical
        } else if self.peers().all(|peer| other.contains(peer)) {
            Relation::Similar
        } else {
            Relation::Unequal
        }
    }

    /// `MPI_Group_union`: this group's members, then those of `other` that are not among them.
    pub fn union(&self, other: &Group) -> Group {
        let rest = other.peers().filter(|&peer| !self.contains(peer));
        self.derive(self.peers().chain(rest).collect())
    }

    /// `MPI_Group_intersection`: members of both, in this group's order.
    pub fn intersection(&self, other: &Group) -> Group {
        self.derive(self.peers().filter(|&peer| other.contains(peer)).collect())
    }

    /// `MPI_Group_difference`: members that are not in `other`, in this group's order.
    pub fn difference(&self, other: &Group) -> Group {
        self.derive(self.peers().filter(|&peer| !other.contains(peer)).collect())
    }

    /// `MPI_Group_incl`: the members with these ranks, in the order given.
    pub fn incl(&self, ranks: &[i32]) -> Result<Group> {
        let ranks = self.distinct(ranks.iter().map(|&rank| i64::from(rank)), "ranks")?;
        Ok(self.derive(ranks.into_iter().map(|rank| self.peer(rank)).collect()))
    }

    /// `MPI_Group_excl`: all but the members with these ranks.
    pub fn excl(&self, ranks: &[i32]) -> Result<Group> {
        let ranks = self.distinct(ranks.iter().map(|&rank| i64::from(rank)), "ranks")?;
        Ok(self.without(&ranks))
    }

    /// `MPI_Group_range_incl`: the members that the triplets (first, last, stride) name, in that
    /// order.
    pub fn range_incl(&self, ranges: &[[i32; 3]]) -> Result<Group> {
        let ranks = self.expand(ranges)?;
        Ok(self.derive(ranks.into_iter().map(|rank| self.peer(rank)).collect()))
    }

    /// `MPI_Group_range_excl`: all but the members that the triplets (first, last, stride) name.
    pub fn range_excl(&self, ranges: &[[i32; 3]]) -> Result<Group> {
        let ranks = self.expand(ranges)?;
        Ok(self.without(&ranks))
    }

    /// `MPI_Group_translate_ranks`: for each rank here the rank in `other`, or `MPI_UNDEFINED`.
    /// `MPI_PROC_NULL` stays.
    pub fn translate_ranks(&self, ranks: &[i32], other: &Group) -> Result<Vec<i32>> {
        let translate = |&rank: &i32| {
            if rank == c::PROC_NULL {
                return Ok(c::PROC_NULL);
            }
            let peer = self.peer(self.checked(i64::from(rank), "ranks1")?);
            Ok(other.rank_of(peer).map_or(c::UNDEFINED, |rank| rank as i32))
        };
        ranks.iter().map(translate).collect()
    }

    fn checked(&self, rank: i64, argument: &'static str) -> Result<usize> {
        usize::try_from(rank).ok().filter(|&rank| rank < self.size()).ok_or_else(|| {
            let reason = format!("the group has {} members", self.size());
            Error::argument(c::ERR_RANK, argument, rank, reason)
        })
    }

    /// These ranks, after a check that each is in the group and occurs only once.
    fn distinct(
        &self,
        ranks: impl Iterator<Item = i64>,
        argument: &'static str,
    ) -> Result<Vec<usize>> {
        let mut seen = vec![false; self.size()];
        let mut distinct = Vec::with_capacity(ranks.size_hint().0.min(self.size()));
        for rank in ranks {
            let index = self.checked(rank, argument)?;
            if std::mem::replace(&mut seen[index], true) {
                return Err(Error::argument(c::ERR_RANK, argument, rank, "it is named twice"));
            }
            distinct.push(index);
        }
        Ok(distinct)
    }

    fn expand(&self, ranges: &[[i32; 3]]) -> Result<Vec<usize>> {
        for &[first, last, stride] in ranges {
            if stride == 0 {
                let triplet = format!("({first}, {last}, {stride})");
                return Err(Error::argument(c::ERR_ARG, "ranges", triplet, "the stride is zero"));
            }
        }
        let ranks = ranges.iter().flat_map(|&[first, last, stride]| {
            let (first, last, stride) = (i64::from(first), i64::from(last), i64::from(stride));
            // A stride that leads away from `last` names no rank.
            let away = (last - first).signum() == -stride.signum();
            let count = if away { 0 } else { (last - first) / stride + 1 };
            (0..count).map(move |i| first + i * stride)
        });
        self.distinct(ranks, "ranges")
    }

    fn without(&self, ranks: &[usize]) -> Group {
        let mut leaves = vec![false; self.size()];
        ranks.iter().for_each(|&rank| leaves[rank] = true);
        let stays = (0..self.size()).filter(|&rank| !leaves[rank]);
        self.derive(stays.map(|rank| self.peer(rank)).collect())
    }
}

static GROUPS: HandleTable<Group> = HandleTable::new(HandleKind::Group);

static GENERATION: Generation = Generation::first();

impl Group {
    /// The group that `handle` names (`MPI_ERR_GROUP` if it names none).
    pub fn resolve(handle: u32) -> Result<Group> {
        match handle {
            c::GROUP_EMPTY => Ok(Group::EMPTY),
            _ => GROUPS.get(handle).ok_or_else(|| no_group(handle)),
        }
    }

    /// `handle` as it is now. To be called before it is resolved.
    #[inline(always)]
    pub fn known(handle: u32) -> KnownHandle {
        GENERATION.now(handle)
    }

    /// A handle for this group: `MPI_GROUP_EMPTY` when it has no member, else a new one.
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM` when no handle is left.
    pub fn into_handle(self) -> Result<u32> {
        if self.is_empty() { Ok(c::GROUP_EMPTY) } else { GROUPS.insert(self) }
    }

    /// `MPI_Group_free`. The predefined empty group is accepted and lives on, because set
    /// operations return it.
    pub fn free(handle: u32) -> Result<()> {
        match handle {
            c::GROUP_EMPTY => Ok(()),
            _ => {
                let removed = GROUPS.remove(handle);
                GENERATION.end();
                removed.map(drop).ok_or_else(|| no_group(handle))
            }
        }
    }
}

#[cold]
fn no_group(handle: u32) -> Error {
    let (value, reason) = match handle {
        c::GROUP_NULL => ("MPI_GROUP_NULL".to_owned(), "a group is needed"),
        _ if HandleKind::Group.owns(handle) => {
            (format!("{handle:#x}"), "this group has been freed")
        }
        _ => (format!("{handle:#x}"), "this is not the handle of a group"),
    };
    Error::argument(c::ERR_GROUP, "group", value, reason)
}

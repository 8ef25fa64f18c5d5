//! A communicator as collectives see it: its processes, its context, how the processes are spread
//! over nodes, and what they share on this one. `mica_mpi`'s communicator has one, and adds what
//! the program attaches to it.
//!
//! Messages of collectives use the context with bit 0 set ([`Members::collective_context`]), so
//! they never match the program's.

pub mod context;
mod messages;
mod roots;
mod tag;

use std::ops::Range;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, OnceLock};

use mica_objects::group::Group;
use mica_objects::process;
use mica_objects::sync::lock;

pub use messages::{outcome, receive_nothing, status_of};
pub use tag::CollectiveTag;

use crate::intranode::choice::context::NodeContext;
use crate::layout::RanksByNode;
use tag::NamedRoots;

/// The processes of a communicator, and what its collectives keep.
#[derive(Debug)]
pub struct Members {
    context: u64,
    rank: usize,
    size: usize,
    group: Group,
    /// Whom ranks in point-to-point calls name: the group, or an inter-communicator's remote group.
    peers: Group,
    /// Number of `peers`.
    reach: usize,
    /// Of an inter-communicator.
    side: Option<GroupSide>,
    /// Contexts that no communicator has yet, two apart; all members take them in the same order.
    spares: Mutex<Range<u64>>,
    /// Number of collective operations that this process has started here.
    started: AtomicU32,
    /// The roots that it has named in the last of them.
    named_roots: NamedRoots,
    /// How the members are spread over nodes; `None` if they are all on one. Found out by the first
    /// collective.
    layout: OnceLock<Option<Box<RanksByNode>>>,
    /// The members on this node, and the memory that they share. Made by the first collective that
    /// could use it.
    local: OnceLock<Arc<NodeContext>>,
}

/// Which of the two groups of an inter-communicator the local one is; both agree on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupSide {
    /// The one whose processes come first.
    Lower,
    /// The other.
    Upper,
}

impl Members {
    /// Those of an intra-communicator, of which the process with job-wide rank `me` is one.
    pub fn intra(context: u64, group: Group, me: u32, spares: Range<u64>) -> Members {
        let peers = group.clone();
        Members::assemble(context, (group, peers), None, me, spares)
    }

    /// Those of an inter-communicator, `me` in its local group.
    pub fn inter(
        context: u64,
        local: Group,
        remote: Group,
        side: GroupSide,
        me: u32,
        spares: Range<u64>,
    ) -> Members {
        Members::assemble(context, (local, remote), Some(side), me, spares)
    }

    fn assemble(
        context: u64,
        (group, peers): (Group, Group),
        side: Option<GroupSide>,
        me: u32,
        spares: Range<u64>,
    ) -> Members {
        let rank = group.rank_of(me).expect("this process is a member of its communicators");
        Members {
            context,
            rank,
            size: group.size(),
            reach: peers.size(),
            group,
            peers,
            side,
            spares: Mutex::new(spares),
            started: AtomicU32::new(0),
            named_roots: NamedRoots::default(),
            layout: OnceLock::new(),
            local: OnceLock::new(),
        }
    }

    /// The same processes with another context.
    pub fn in_context(&self, context: u64, spares: Range<u64>) -> Members {
        let groups = (self.group.clone(), self.peers.clone());
        Members::assemble(context, groups, self.side, self.me(), spares)
    }

    /// The context of the program's messages.
    #[inline]
    pub fn context(&self) -> u64 {
        self.context
    }

    /// The context of the messages of collectives, and of others that the library makes.
    #[inline]
    pub fn collective_context(&self) -> u64 {
        self.context | 1
    }

    /// This process's rank.
    #[inline]
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Number of processes; in an inter-communicator, of the local group.
    #[inline]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Job-wide rank of the process that messages to this rank go to; it is below
    /// [`remote_or_local_size`](Self::remote_or_local_size).
    #[inline]
    pub fn peer(&self, rank: usize) -> u32 {
        self.peers.peer(rank)
    }

    /// Rank here of the process with this job-wide rank, from which messages come.
    #[inline]
    pub fn rank_of(&self, peer: u32) -> Option<usize> {
        self.peers.rank_of(peer)
    }

    /// Job-wide rank of this process.
    pub fn me(&self) -> u32 {
        self.group.peer(self.rank)
    }

    /// Job-wide rank of number `n` in a collective's schedule: ranks of the (local) group, then
    /// those of the remote group.
    #[inline]
    pub fn schedule_peer(&self, n: usize) -> u32 {
        match n.checked_sub(self.size) {
            None => self.group.peer(n),
            Some(remote) => self.peers.peer(remote),
        }
    }

    /// The processes; in an inter-communicator, those of the local group.
    pub fn group(&self) -> &Group {
        &self.group
    }

    /// Whom ranks in point-to-point calls name: the group, or an inter-communicator's remote group.
    pub fn peers(&self) -> &Group {
        &self.peers
    }

    /// Whether this is an inter-communicator.
    #[inline]
    pub fn is_inter(&self) -> bool {
        self.side.is_some()
    }

    /// Which side of an inter-communicator the local group is.
    pub fn side(&self) -> Option<GroupSide> {
        self.side
    }

    /// Number of processes that messages can go to: the other side's in an inter-communicator.
    #[inline(always)]
    pub fn remote_or_local_size(&self) -> usize {
        self.reach
    }

    /// A context for a duplicate: the first of the spares, which all members take in the same
    /// order. `None` when they are used up.
    pub fn take_spare(&self) -> Option<u64> {
        let mut spares = lock(&self.spares);
        let spare = spares.start;
        (!spares.is_empty()).then(|| {
            spares.start += 2;
            spare
        })
    }

    /// A context of its own for a persistent collective: the last of the spares.
    pub(crate) fn take_last_spare(&self) -> Option<u64> {
        let mut spares = lock(&self.spares);
        (!spares.is_empty()).then(|| {
            spares.end -= 2;
            spares.end
        })
    }

    /// Puts these in place of the spares.
    pub fn set_spares(&self, spares: Range<u64>) {
        *lock(&self.spares) = spares;
    }

    /// How the processes (an inter-communicator's local group) are spread over nodes; `None` if
    /// they are all on one.
    #[inline]
    pub fn layout(&self) -> Option<&RanksByNode> {
        match self.layout.get() {
            Some(layout) => layout.as_deref(),
            None => self.find_layout(),
        }
    }

    #[cold]
    fn find_layout(&self) -> Option<&RanksByNode> {
        let engine = process::engine().ok()?;
        let find = || {
            if engine.nodes() == 1 {
                return None;
            }
            let nodes = self.group.peers().map(|peer| engine.node_of(peer));
            RanksByNode::new(self.rank, nodes).map(Box::new)
        };
        self.layout.get_or_init(find).as_deref()
    }

    /// The members on this node, and the memory that they share, once a collective has needed them.
    #[inline]
    pub fn known_local(&self) -> Option<&NodeContext> {
        self.local.get().map(|local| &**local)
    }

    /// Where the members on this node are kept.
    #[inline]
    pub(crate) fn local_cell(&self) -> &OnceLock<Arc<NodeContext>> {
        &self.local
    }

    /// Job-wide ranks of the members on this node, in their order, and this process's number among
    /// them.
    pub fn on_this_node(&self) -> (Vec<u32>, usize) {
        match self.layout() {
            None => (self.group.peers().collect(), self.rank),
            Some(layout) => {
                let neighbours = layout.neighbours().iter();
                let members = neighbours.map(|&rank| self.group.peer(rank));
                (members.collect(), layout.index_of(self.rank))
            }
        }
    }
}

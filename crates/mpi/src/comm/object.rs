//! The communicator as an object: its processes, its context, and what is attached to it. The
//! operations on it are in the files above.

use std::fmt;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, OnceLock};

use super::collective_tag::NamedRoots;
use super::context::spares;
use super::counts::CommCounts;
use crate::attribute::AttributeSet;
use crate::collective::RanksByNode;
use crate::collective::intranode::choice::context::NodeContext;
use crate::constants as c;
use crate::errhandler::{Errhandler, HandlerFamily};
use crate::error::Result;
use crate::group::{Group, Relation};
use crate::info::Info;
use crate::process;
use crate::sync::lock;
use crate::topology::Topology;
use mica_protocol::Injection;

/// A communicator. Cloning shares it.
#[derive(Clone)]
pub struct Comm(pub(super) Arc<CommInner>);

pub(super) struct CommInner {
    pub(super) handle: u32,
    pub(super) context: u64,
    pub(super) rank: usize,
    pub(super) size: usize,
    pub(super) group: Group,
    /// Whom ranks in point-to-point calls name: the group, or an inter-communicator's remote group.
    pub(super) peers: Group,
    /// Number of `peers`.
    pub(super) reach: usize,
    /// What an inter-communicator has besides.
    pub(super) inter: Option<Inter>,
    /// Number of collective operations that this process has started here.
    pub(super) collectives: AtomicU32,
    /// The roots that it has named in the last of them.
    pub(super) named_roots: NamedRoots,
    /// Set when the communicator is made, never changed.
    pub(super) topology: OnceLock<Topology>,
    /// How the members are spread over nodes; `None` if they are all on one. Found out by the first
    /// collective.
    pub(super) layout: OnceLock<Option<Box<RanksByNode>>>,
    /// The members on this node, and the memory that they share. Made by the first collective that
    /// could use it.
    pub(super) local: OnceLock<Arc<NodeContext>>,
    pub(super) attributes: AttributeSet,
    pub(super) state: Mutex<CommState>,
    /// What a tool wants to know; empty as long as none has asked.
    pub(super) counts: OnceLock<Arc<CommCounts>>,
}

/// What an inter-communicator has besides two groups.
pub(super) struct Inter {
    /// Whether the local group is the lower side, on which both sides agree.
    pub(super) lower: bool,
    /// An intra-communicator of the lower side's processes and then the other side's.
    pub(super) everybody: Comm,
}

/// What changes during its life.
pub(super) struct CommState {
    pub(super) name: String,
    /// `None` until one is set here, or on a communicator that this one was made of.
    pub(super) errhandler: Option<Errhandler>,
    pub(super) info: Info,
    /// Contexts for duplicates that need no exchange, two apart.
    pub(super) spares: std::ops::Range<u64>,
}

/// Hint of Mica: `true` says that the program uses what it receives on this communicator at once.
/// The adapter of a simulated node may then bring it into a cache (docs/design/sim.md). Other jobs
/// keep the hint and do nothing with it.
const INJECTION_HINT: &str = "mica_inject";

/// Hints that a communicator keeps (MPI 5.0, 7.4.4). They are promises of the user; the library is
/// correct even if they are broken.
const HINTS: [&str; 6] = [
    INJECTION_HINT,
    "mpi_assert_no_any_tag",
    "mpi_assert_no_any_source",
    "mpi_assert_exact_length",
    "mpi_assert_allow_overtaking",
    "mpi_assert_strict_start_ordering",
];

impl Comm {
    /// A predefined communicator.
    pub(crate) fn predefined(handle: u32, name: &str, context: u64, group: Group, me: u32) -> Comm {
        let state = CommState {
            name: name.to_owned(),
            errhandler: None,
            info: Info::default(),
            spares: spares(context),
        };
        Comm::new(handle, context, group, me, state)
    }

    pub(super) fn new(handle: u32, context: u64, group: Group, me: u32, state: CommState) -> Comm {
        let peers = group.clone();
        Comm::assemble(handle, context, group, peers, None, me, state)
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "one for each thing that a communicator is made of"
    )]
    pub(super) fn assemble(
        handle: u32,
        context: u64,
        group: Group,
        peers: Group,
        inter: Option<Inter>,
        me: u32,
        state: CommState,
    ) -> Comm {
        let rank = group.rank_of(me).expect("this process is a member of its communicators");
        let (size, reach) = (group.size(), peers.size());
        let collectives = AtomicU32::new(0);
        let (attributes, state) = (AttributeSet::default(), Mutex::new(state));
        Comm(Arc::new(CommInner {
            handle,
            context,
            rank,
            size,
            group,
            peers,
            reach,
            inter,
            collectives,
            named_roots: NamedRoots::default(),
            topology: OnceLock::new(),
            layout: OnceLock::new(),
            local: OnceLock::new(),
            attributes,
            state,
            counts: OnceLock::new(),
        }))
    }

    /// The handle.
    #[inline]
    pub fn handle(&self) -> u32 {
        self.0.handle
    }

    /// The context of the user's messages; collective traffic uses `context() | 1`.
    #[inline]
    pub fn context(&self) -> u64 {
        self.0.context
    }

    /// This process's rank.
    #[inline]
    pub fn rank(&self) -> usize {
        self.0.rank
    }

    /// Number of processes; in an inter-communicator, of the local group.
    #[inline]
    pub fn size(&self) -> usize {
        self.0.size
    }

    /// Job-wide rank of the process that messages to this rank go to; it is below
    /// [`remote_or_local_size`](Self::remote_or_local_size).
    #[inline]
    pub fn peer(&self, rank: usize) -> u32 {
        self.0.peers.peer(rank)
    }

    /// Rank here of the process with this job-wide rank, from which messages come.
    #[inline]
    pub fn rank_of(&self, peer: u32) -> Option<usize> {
        self.0.peers.rank_of(peer)
    }

    /// Job-wide rank of this process.
    pub(crate) fn me(&self) -> u32 {
        self.0.group.peer(self.0.rank)
    }

    /// Job-wide rank of number `n` in a collective's schedule: ranks of the (local) group, then
    /// those of the remote group.
    #[inline]
    pub(crate) fn schedule_peer(&self, n: usize) -> u32 {
        match n.checked_sub(self.0.size) {
            None => self.0.group.peer(n),
            Some(remote) => self.0.peers.peer(remote),
        }
    }

    /// The processes; in an inter-communicator, those of the local group.
    pub fn group(&self) -> &Group {
        &self.0.group
    }

    /// Whether this is an inter-communicator.
    #[inline]
    pub fn is_inter(&self) -> bool {
        self.0.inter.is_some()
    }

    /// Number of processes that messages can go to: the other side's in an inter-communicator.
    #[inline(always)]
    pub fn remote_or_local_size(&self) -> usize {
        self.0.reach
    }

    /// How the processes (an inter-communicator's local group) are spread over nodes; `None` if
    /// they are all on one.
    #[inline]
    pub(crate) fn layout(&self) -> Option<&RanksByNode> {
        match self.0.layout.get() {
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
            let nodes = self.0.group.peers().map(|peer| engine.node_of(peer));
            RanksByNode::new(self.0.rank, nodes).map(Box::new)
        };
        self.0.layout.get_or_init(find).as_deref()
    }

    /// The members on this node, and the memory that they share, once `local` has been called.
    #[inline]
    pub(crate) fn known_local(&self) -> Option<&NodeContext> {
        self.0.local.get().map(|local| &**local)
    }

    /// Where the members on this node are kept.
    #[inline]
    pub(crate) fn local_cell(&self) -> &OnceLock<Arc<NodeContext>> {
        &self.0.local
    }

    /// Job-wide ranks of the members on this node, in their order, and this process's number among
    /// them.
    pub(crate) fn on_this_node(&self) -> (Vec<u32>, usize) {
        match self.layout() {
            None => (self.0.group.peers().collect(), self.0.rank),
            Some(layout) => {
                let neighbours = layout.neighbours().iter();
                let members = neighbours.map(|&rank| self.0.group.peer(rank));
                (members.collect(), layout.index_of(self.0.rank))
            }
        }
    }

    /// The virtual topology.
    pub fn topology(&self) -> Option<&Topology> {
        self.0.topology.get()
    }

    /// Gives a new communicator its topology.
    pub(crate) fn attach_topology(&self, topology: Topology) {
        let attached = self.0.topology.set(topology);
        attached.expect("only a new communicator is given a topology");
    }

    /// `MPI_Comm_compare`.
    pub fn compare(&self, other: &Comm) -> i32 {
        if Arc::ptr_eq(&self.0, &other.0) {
            return c::IDENT;
        }
        if self.is_inter() != other.is_inter() {
            return c::UNEQUAL;
        }
        let (local, remote) = (&self.0.group, &self.0.peers);
        match (local.compare(&other.0.group), remote.compare(&other.0.peers)) {
            (Relation::Identical, Relation::Identical) => c::CONGRUENT,
            (Relation::Unequal, _) | (_, Relation::Unequal) => c::UNEQUAL,
            _ => c::SIMILAR,
        }
    }

    /// Its name.
    pub fn name(&self) -> String {
        lock(&self.0.state).name.clone()
    }

    /// `MPI_Comm_set_name`. A name that is longer than MPI allows is cut.
    pub fn set_name(&self, name: &str) {
        let end = name.floor_char_boundary(c::MAX_OBJECT_NAME - 1);
        lock(&self.0.state).name = name[..end].to_owned();
    }

    /// The error handler attached: at first the initial one, as a rule `MPI_ERRORS_ARE_FATAL`.
    pub fn errhandler(&self) -> Errhandler {
        self.set_handler().unwrap_or_else(Errhandler::initial)
    }

    /// The error handler, if the program has set one here or on a communicator that this one was
    /// made of.
    pub(crate) fn set_handler(&self) -> Option<Errhandler> {
        lock(&self.0.state).errhandler.clone()
    }

    /// `MPI_Comm_set_errhandler`.
    pub fn set_errhandler(&self, errhandler: Errhandler) -> Result<()> {
        errhandler.check_family(HandlerFamily::Comm)?;
        let old = lock(&self.0.state).errhandler.replace(errhandler);
        drop(old); // after the lock: the last reference frees what the user's closure holds
        Ok(())
    }

    /// `MPI_Comm_get_info`: the hints in force, as a new object.
    pub fn info(&self) -> Info {
        lock(&self.0.state).info.duplicate()
    }

    /// `MPI_Comm_set_info`: hints that MPI does not define for communicators are ignored.
    pub fn set_info(&self, hints: &Info) {
        let state = lock(&self.0.state);
        for (key, value) in hints.entries() {
            if HINTS.contains(&key.as_str()) {
                state.info.put(&key, &value);
            }
        }
        drop(state);
        if let Some(value) = hints.lookup(INJECTION_HINT) {
            self.hint_injection(&value);
        }
    }

    fn hint_injection(&self, value: &str) {
        let hint = match value {
            "true" => Injection::Wanted,
            _ => Injection::Unspecified,
        };
        // Without an engine there is no adapter that could be told.
        if let Ok(engine) = process::engine() {
            engine.hint_receives(self.context(), hint);
        }
    }

    /// Deletes all attributes, the youngest first, with their callbacks.
    pub(crate) fn delete_attributes(&self) -> Result<()> {
        self.0.attributes.delete_all(self.handle())
    }
}

/// Its name, for error messages.
impl fmt::Display for Comm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            name if name.is_empty() => write!(f, "communicator {:#x}", self.handle()),
            name => f.write_str(&name),
        }
    }
}

impl fmt::Debug for Comm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &self.0;
        write!(f, "{self} (rank {} of {}, context {:#x})", inner.rank, inner.size, inner.context)
    }
}

//! Communicators (MPI 5.0, chapter 7): a group of processes and a context that keeps their messages
//! apart from others'.
//!
//! A context is a number that is unique in the job; its bit 0 separates collective traffic from the
//! user's. The process that becomes rank 0 of a new communicator makes the number from its own job
//! rank and a counter, so the only agreement needed is to send it to the other members (module
//! `create`).
//!
//! Every message takes the path from a handle to a communicator: [`with`] caches the last
//! communicator of each thread and takes neither a lock nor a reference.

mod create;
pub(crate) mod exchange;
mod from_group;
mod inter;
mod predefined;
mod route;
mod split_type;

pub(crate) use create::{BLOCK, context, fresh_context};
pub use predefined::AttributeValue;
pub use route::Route;
pub use split_type::hardware_resources;

use std::cell::RefCell;
use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use crate::attribute::{AttributeOwner, AttributeSet};
use crate::buffered;
use crate::collective::RanksByNode;
use crate::collective::intranode::NodeContext;
use crate::constants as c;
use crate::errhandler::{Errhandler, HandlerFamily};
use crate::error::{Error, Result};
use crate::group::{Group, Relation};
use crate::handle::{HandleKind, HandleTable};
use crate::info::Info;
use crate::process;
use crate::sync::lock;
use crate::topology::Topology;

/// A communicator. Cloning shares it.
#[derive(Clone)]
pub struct Comm(Arc<CommInner>);

struct CommInner {
    handle: u32,
    context: u64,
    rank: usize,
    size: usize,
    group: Group,
    /// Whom ranks in point-to-point calls name: the group, or an inter-communicator's remote group.
    peers: Group,
    /// Number of `peers`.
    reach: usize,
    /// What an inter-communicator has besides.
    inter: Option<inter::Inter>,
    /// Number of collective operations that this process has started here.
    collectives: AtomicU32,
    /// Set when the communicator is made, never changed.
    topology: OnceLock<Topology>,
    /// How the members are spread over nodes; `None` if they are all on one. Found out by the first
    /// collective.
    layout: OnceLock<Option<Box<RanksByNode>>>,
    /// The members on this node, and the memory that they share. Made by the first collective that
    /// could use it.
    local: OnceLock<Arc<NodeContext>>,
    attributes: AttributeSet,
    state: Mutex<CommState>,
}

/// What changes during its life.
struct CommState {
    name: String,
    /// `None` until one is set here, or on a communicator that this one was made of.
    errhandler: Option<Errhandler>,
    info: Info,
    /// Contexts for duplicates that need no exchange, two apart.
    spares: std::ops::Range<u64>,
}

/// Hints that a communicator keeps (MPI 5.0, 7.4.4). They are promises of the user; the library is
/// correct even if they are broken.
const HINTS: [&str; 5] = [
    "mpi_assert_no_any_tag",
    "mpi_assert_no_any_source",
    "mpi_assert_exact_length",
    "mpi_assert_allow_overtaking",
    "mpi_assert_strict_start_ordering",
];

static COMMS: HandleTable<Comm> = HandleTable::new(HandleKind::Comm);

/// Changes whenever a handle stops being valid; [`with`]'s caches hold for one generation.
static GENERATION: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static LAST: RefCell<Option<(u64, Comm)>> = const { RefCell::new(None) };
}

/// Calls `f` with the communicator that `handle` names (`MPI_ERR_COMM` if it names none).
#[inline]
pub fn with<R>(handle: u32, f: impl FnOnce(&Comm) -> R) -> Result<R> {
    let mut f = Some(f);
    let cached = LAST.try_with(|last| {
        let last = last.try_borrow().ok()?;
        let (generation, comm) = last.as_ref()?;
        // Acquire: pairs with the increment in `forget_cached`; a thread that knows of the free
        // sees the increment.
        if comm.0.handle != handle || *generation != GENERATION.load(Ordering::Acquire) {
            return None;
        }
        f.take().map(|f| f(comm))
    });
    match cached {
        Ok(Some(result)) => Ok(result),
        _ => {
            let comm = resolve_and_cache(handle)?;
            let f = f.take().expect("the cache missed, so `f` was not called");
            Ok(f(&comm))
        }
    }
}

#[cold]
fn resolve_and_cache(handle: u32) -> Result<Comm> {
    // Read before the look-up: after a free between the two, the cache is out of date at once.
    let generation = GENERATION.load(Ordering::Acquire);
    let comm = Comm::resolve(handle)?;
    Route::remember(&comm);
    // The cache is in use when a callback inside `with` calls MPI, and gone while the thread ends:
    // neither needs it.
    let _ = LAST.try_with(|last| {
        if let Ok(mut last) = last.try_borrow_mut() {
            *last = Some((generation, comm.clone()));
        }
    });
    Ok(comm)
}

/// Invalidates every thread's cached communicator.
pub(crate) fn forget_cached() {
    // These end with MPI_Finalize; communicators that are still in use get their routes again.
    Route::forget(c::COMM_WORLD);
    Route::forget(c::COMM_SELF);
    // Release: pairs with the load in `with`; publishes the removal that came before.
    GENERATION.fetch_add(1, Ordering::Release);
}

impl Comm {
    /// The communicator that `handle` names (`MPI_ERR_COMM` if it names none).
    pub fn resolve(handle: u32) -> Result<Comm> {
        match handle {
            c::COMM_WORLD => process::world(),
            c::COMM_SELF => process::myself(),
            _ => COMMS.get(handle).ok_or_else(|| no_comm(handle)),
        }
    }

    /// The communicator that messages with this context belong to, if the program has a handle of
    /// it. A search, only for messages to the user.
    #[cold]
    pub(crate) fn of_context(context: u64) -> Option<Comm> {
        let is_it = |comm: &Comm| comm.context() == context & !1;
        let predefined = [process::world(), process::myself()];
        let mut predefined = predefined.into_iter().flatten();
        predefined.find(is_it).or_else(|| COMMS.find(is_it))
    }

    /// A predefined communicator.
    pub(crate) fn predefined(handle: u32, name: &str, context: u64, group: Group, me: u32) -> Comm {
        let state = CommState {
            name: name.to_owned(),
            errhandler: None,
            info: Info::default(),
            spares: create::spares(context),
        };
        Comm::new(handle, context, group, me, state)
    }

    fn new(handle: u32, context: u64, group: Group, me: u32, state: CommState) -> Comm {
        let peers = group.clone();
        Comm::assemble(handle, context, group, peers, None, me, state)
    }

    fn assemble(
        handle: u32,
        context: u64,
        group: Group,
        peers: Group,
        inter: Option<inter::Inter>,
        me: u32,
        state: CommState,
    ) -> Comm {
        let rank = group
            .rank_of(me)
            .expect("this process is a member of its communicators");
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
            topology: OnceLock::new(),
            layout: OnceLock::new(),
            local: OnceLock::new(),
            attributes,
            state,
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

    /// The members on this node, and the memory that they share.
    ///
    /// # Errors
    /// When this rank's part of the shared area cannot be obtained.
    #[inline]
    pub(crate) fn local(&self) -> Result<&Arc<NodeContext>> {
        match self.0.local.get() {
            Some(local) => Ok(local),
            None => self.find_local(),
        }
    }

    /// As [`local`](Self::local), if it has been made already.
    #[inline]
    pub(crate) fn known_local(&self) -> Option<&NodeContext> {
        self.0.local.get().map(|local| &**local)
    }

    #[cold]
    fn find_local(&self) -> Result<&Arc<NodeContext>> {
        // Only one thread at a time calls collectives here, so it is made once.
        let local = Arc::new(NodeContext::of(self, Some(self.context()))?);
        Ok(self.0.local.get_or_init(|| local))
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

    /// The tag of this process's next collective operation here. All members call collectives in
    /// the same order, so they agree on it.
    #[inline]
    pub fn next_collective_tag(&self) -> i32 {
        // Relaxed: only the number matters, no other memory depends on it.
        let count = self.0.collectives.fetch_add(1, Ordering::Relaxed);
        (count & i32::MAX as u32) as i32
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
        match (
            local.compare(&other.0.group),
            remote.compare(&other.0.peers),
        ) {
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

    /// The error handler attached, `MPI_ERRORS_ARE_FATAL` at first.
    pub fn errhandler(&self) -> Errhandler {
        self.set_handler().unwrap_or(Errhandler::ARE_FATAL)
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
    }

    /// `MPI_Comm_set_attr`.
    pub fn set_attribute(&self, keyval: i32, value: usize) -> Result<()> {
        predefined::refuse(keyval)?;
        self.0
            .attributes
            .set(AttributeOwner::Comm, self.handle(), keyval, value)
    }

    /// `MPI_Comm_get_attr`.
    pub fn attribute(&self, keyval: i32) -> Result<Option<AttributeValue>> {
        match predefined::value(keyval) {
            Some(value) => Ok(value.map(AttributeValue::Predefined)),
            None => {
                let value = self.0.attributes.get(AttributeOwner::Comm, keyval)?;
                Ok(value.map(AttributeValue::User))
            }
        }
    }

    /// `MPI_Comm_delete_attr`.
    pub fn delete_attribute(&self, keyval: i32) -> Result<()> {
        predefined::refuse(keyval)?;
        self.0
            .attributes
            .delete(AttributeOwner::Comm, self.handle(), keyval)
    }

    /// Deletes all attributes, the youngest first, with their callbacks.
    pub(crate) fn delete_attributes(&self) -> Result<()> {
        self.0.attributes.delete_all(self.handle())
    }

    /// `MPI_Comm_free`: deletes the attributes and the handle; the communicator lives until its
    /// operations are complete.
    pub fn free(handle: u32) -> Result<()> {
        let comm = Comm::resolve(handle)?;
        if matches!(handle, c::COMM_WORLD | c::COMM_SELF) {
            let reason = "a predefined communicator cannot be freed";
            return Err(Error::argument(c::ERR_COMM, "comm", &comm, reason));
        }
        comm.delete_attributes()?;
        buffered::release(buffered::BufferOwner::comm(&comm))?;
        comm.discard();
        Ok(())
    }

    /// Frees the handle.
    fn discard(&self) {
        Route::forget(self.handle());
        COMMS.remove(self.handle());
        forget_cached();
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
        write!(
            f,
            "{self} (rank {} of {}, context {:#x})",
            inner.rank, inner.size, inner.context
        )
    }
}

#[cold]
fn no_comm(handle: u32) -> Error {
    let (value, reason) = match handle {
        c::COMM_NULL => ("MPI_COMM_NULL".to_owned(), "a communicator is needed"),
        _ if HandleKind::Comm.owns(handle) => {
            (format!("{handle:#x}"), "this communicator has been freed")
        }
        _ => (
            format!("{handle:#x}"),
            "this is not the handle of a communicator",
        ),
    };
    Error::argument(c::ERR_COMM, "comm", value, reason)
}

//! The communicator as an object: its processes, its context, and what is attached to it. The
//! operations on it are in the files above.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex, OnceLock};

use super::counts::CommCounts;
use crate::attribute::AttributeSet;
use crate::constants as c;
use crate::errhandler::{Errhandler, HandlerFamily};
use crate::error::Result;
use crate::group::{Group, Relation};
use crate::info::Info;
use crate::process;
use crate::sync::lock;
use crate::topology::Topology;
use mica_collective::members::Members;
use mica_collective::members::context::spares;
use mica_protocol::Injection;

/// A communicator. Cloning shares it. Its processes and context are its [`Members`], as which it
/// takes part in collectives.
#[derive(Clone)]
pub struct Comm(pub(super) Arc<CommInner>);

pub(super) struct CommInner {
    pub(super) handle: u32,
    pub(super) members: Members,
    /// Of an inter-communicator: an intra-communicator of the lower side's processes and then the
    /// other side's.
    pub(super) everybody: Option<Comm>,
    /// Set when the communicator is made, never changed.
    pub(super) topology: OnceLock<Topology>,
    pub(super) attributes: AttributeSet,
    pub(super) state: Mutex<CommState>,
    /// What a tool wants to know; empty as long as none has asked.
    pub(super) counts: OnceLock<Arc<CommCounts>>,
}

/// What changes during its life.
pub(super) struct CommState {
    pub(super) name: String,
    /// `None` until one is set here, or on a communicator that this one was made of.
    pub(super) errhandler: Option<Errhandler>,
    pub(super) info: Info,
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

impl Deref for Comm {
    type Target = Members;

    #[inline(always)]
    fn deref(&self) -> &Members {
        &self.0.members
    }
}

impl Comm {
    /// A predefined communicator.
    pub(crate) fn predefined(handle: u32, name: &str, context: u64, group: Group, me: u32) -> Comm {
        let state = CommState { name: name.to_owned(), errhandler: None, info: Info::default() };
        let members = Members::intra(context, group, me, spares(context));
        Comm::new(handle, members, None, state)
    }

    /// `everybody` is that of an inter-communicator.
    pub(super) fn new(
        handle: u32,
        members: Members,
        everybody: Option<Comm>,
        state: CommState,
    ) -> Comm {
        Comm(Arc::new(CommInner {
            handle,
            members,
            everybody,
            topology: OnceLock::new(),
            attributes: AttributeSet::default(),
            state: Mutex::new(state),
            counts: OnceLock::new(),
        }))
    }

    /// The handle.
    #[inline]
    pub fn handle(&self) -> u32 {
        self.0.handle
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
        match (self.group().compare(other.group()), self.peers().compare(other.peers())) {
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
        let (rank, size, context) = (self.rank(), self.size(), self.context());
        write!(f, "{self} (rank {rank} of {size}, context {context:#x})")
    }
}

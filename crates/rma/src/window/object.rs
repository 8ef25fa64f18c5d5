//! The window as an object, and the path from a handle to it.

use std::fmt;
use std::sync::{Arc, Mutex};

use mica_node::lock::Guard;
use mica_node::window::WindowLocks;
use mica_protocol::{OneThreadAtATime, ThreadLock, ThreadMode, WindowCounterRef};

use super::choice::WindowChoices;
use super::counts::WindowCountsBlock;
use crate::epoch::{AccessEpoch, Epochs, HeldLock};
use crate::memory::access::AccessFlags;
use crate::memory::attached::OwnAttachments;
use crate::memory::movable::CreatedMemory;
use crate::memory::node_peers::NodePeers;
use crate::memory::target::WindowTarget;
use crate::remote::RemoteSide;
use mica_collective::members::Members;
use mica_objects::attribute::AttributeSet;
use mica_objects::constants as c;
use mica_objects::errhandler::Errhandler;
use mica_objects::error::{Error, Result};
use mica_objects::handle::{HandleKind, HandleTable, SoleTable};
use mica_objects::info::Info;
use mica_objects::last_used::{Generation, LastUsed};

/// A window. Cloning shares it.
#[derive(Clone)]
pub struct Window(pub(crate) Arc<WindowInner>);

pub(crate) struct WindowInner {
    pub handle: u32,
    /// The window's own: its traffic meets no other.
    pub members: Arc<Members>,
    /// By rank.
    pub targets: Box<[WindowTarget]>,
    pub flags: AccessFlags,
    pub epochs: EpochsLock,
    pub locks: Arc<WindowLocks>,
    pub choices: WindowChoices,
    /// False where the program has promised that nothing is locked (`no_locks`). No target has a
    /// [lock of the fast path](WindowTarget::fast_path_lock) then.
    pub has_locks: bool,
    pub node_peers: Arc<NodePeers>,
    /// Where this window counts.
    pub counters: WindowCounterRef,
    /// Keeps it from other windows.
    pub counts_block: Arc<WindowCountsBlock>,
    /// For targets that are accessed by messages.
    pub remote: Option<Arc<RemoteSide>>,
    /// This rank's memory, if the program has given it when it created the window.
    pub created: Option<Arc<CreatedMemory>>,
    /// The memory attached to a dynamic window.
    pub attachments: Option<Arc<OwnAttachments>>,
    pub attributes: AttributeSet,
    pub predefined: PredefinedAttributes,
    pub properties: Mutex<WindowProperties>,
}

/// Elided while the lock of [`WINDOWS`] is.
pub(crate) type EpochsLock = ThreadLock<Epochs, &'static ThreadMode>;

/// The values of the predefined attributes (MPI 5.0, 12.2.6). C gets their addresses, which stay
/// as long as the window.
#[derive(Debug)]
pub struct PredefinedAttributes {
    /// `MPI_WIN_BASE`: address of this rank's memory.
    pub base: usize,
    /// `MPI_WIN_SIZE` in bytes.
    pub size: isize,
    /// `MPI_WIN_DISP_UNIT`.
    pub disp_unit: i32,
    /// `MPI_WIN_CREATE_FLAVOR`.
    pub flavor: i32,
    /// `MPI_WIN_MODEL`.
    pub model: i32,
}

/// What the program can change.
#[derive(Debug)]
pub(crate) struct WindowProperties {
    pub name: String,
    pub errhandler: Errhandler,
    /// The hints in force.
    pub info: Info,
}

pub(crate) static WINDOWS: HandleTable<Window> = HandleTable::new(HandleKind::Win);

static GENERATION: Generation = Generation::first();

thread_local! {
    static LAST: LastUsed<Window> = const { LastUsed::none() };
}

/// Elides the locks of windows: the program has promised to keep its threads apart.
pub fn elide_table_lock(promise: OneThreadAtATime) {
    WINDOWS.elide_lock(promise);
}

/// Puts the locks of windows in force again.
pub fn share_table() {
    WINDOWS.share();
}

/// All windows, for the fast path of a call; `None` where several threads may be inside the
/// library. The call neither blocks nor calls the program until this is dropped.
#[inline(always)]
pub(crate) fn sole_table() -> Option<SoleTable<'static, Window>> {
    WINDOWS.sole(HandleKind::Win)
}

/// Calls `f` with the window that `handle` names (`MPI_ERR_WIN` if it names none).
#[inline]
pub fn with<R>(handle: u32, f: impl FnOnce(&Window) -> Result<R>) -> Result<R> {
    LastUsed::with(&LAST, &GENERATION, handle, || Window::resolve(handle), f)?
}

impl Window {
    /// The window that `handle` names (`MPI_ERR_WIN` if it names none).
    pub fn resolve(handle: u32) -> Result<Window> {
        WINDOWS.get(handle).ok_or_else(|| no_window(handle))
    }

    /// The window whose own traffic has this context, for a hang report.
    pub fn of_context(context: u64) -> Option<Window> {
        WINDOWS.find(|window| window.members().context() == context & !1)
    }

    /// The processes, and the context of the window's own traffic.
    pub fn members(&self) -> &Members {
        &self.0.members
    }

    /// The handle.
    #[inline]
    pub fn handle(&self) -> u32 {
        self.0.handle
    }

    /// Frees the handle. The window's memory is unmapped when the last reference is gone: another
    /// thread that has used this window last keeps it until its next one-sided operation.
    pub(crate) fn discard(&self) {
        WINDOWS.remove(self.handle());
        GENERATION.end();
        LastUsed::forget(&LAST);
    }

    /// The target that the argument `target_rank` names; `None` for `MPI_PROC_NULL`.
    #[inline(always)]
    pub(crate) fn target(&self, rank: i32) -> Result<Option<usize>> {
        match (rank as usize) < self.0.targets.len() && rank >= 0 {
            true => Ok(Some(rank as usize)),
            false if rank == c::PROC_NULL => Ok(None),
            false => Err(self.bad_rank("target_rank", rank)),
        }
    }

    /// The epochs, locked.
    #[inline]
    pub(crate) fn epochs(&self) -> Guard<'_, Epochs> {
        let mut epochs = self.0.epochs.lock();
        match &mut epochs.access {
            AccessEpoch::Fence { has_operations } => {
                *has_operations = self.0.flags.has_operations();
            }
            AccessEpoch::FastPathLock { target } => {
                let target = *target as usize;
                self.note_atomic_lock(&mut epochs, target);
            }
            _ => {}
        }
        epochs
    }

    /// Makes the epoch of a lock that the fast path has taken one as any other.
    #[cold]
    #[inline(never)]
    fn note_atomic_lock(&self, epochs: &mut Epochs, target: usize) {
        let lock = self.0.targets[target].fast_path_lock().expect("it was taken");
        epochs.access = AccessEpoch::Lock;
        epochs.locks.insert(target, HeldLock::Ticket(lock.held_ticket()));
    }

    /// Whether an operation may access `target` without further checks.
    #[inline(always)]
    pub(crate) fn is_open(&self, target: usize) -> bool {
        self.0.flags.is_open(&self.0.targets[target].flag)
    }

    /// What a window with targets that are accessed by messages has.
    pub(crate) fn remote(&self) -> &Arc<RemoteSide> {
        let remote = self.0.remote.as_ref();
        remote.expect("a window with such targets has a remote side")
    }

    /// Whether operations on `target` go by messages, all or some.
    pub(crate) fn has_messages(&self, target: usize) -> bool {
        self.0.choices.sends_accumulates() || self.0.targets[target].is_remote()
    }

    /// The ranks that are accessed by messages.
    pub(crate) fn remote_targets(&self) -> Vec<usize> {
        let targets = 0..self.0.targets.len();
        targets.filter(|&target| self.has_messages(target)).collect()
    }

    #[cold]
    pub(crate) fn bad_rank(&self, argument: &'static str, rank: i32) -> Error {
        let reason = format!("the window has ranks 0 to {}", self.0.targets.len() - 1);
        Error::argument(c::ERR_RANK, argument, rank, reason)
    }
}

#[cold]
fn no_window(handle: u32) -> Error {
    let (value, reason) = match handle {
        c::WIN_NULL => ("MPI_WIN_NULL".to_owned(), "a window is needed"),
        _ if HandleKind::Win.owns(handle) => (format!("{handle:#x}"), "this window has been freed"),
        _ => (format!("{handle:#x}"), "this is not the handle of a window"),
    };
    Error::argument(c::ERR_WIN, "win", value, reason)
}

/// Its name, for error messages.
impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            name if name.is_empty() => write!(f, "window {:#x}", self.handle()),
            name => write!(f, "window \"{name}\""),
        }
    }
}

impl fmt::Debug for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} ({} ranks)", self.0.targets.len())
    }
}

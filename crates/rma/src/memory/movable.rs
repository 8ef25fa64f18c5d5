//! Memory of the program in a window, which is not migrated when it becomes one: that takes some
//! 400 us, and a program may make many windows, attach much memory, and use little of it.
//!
//! The kernel copies at first. An origin adds up what it copies; once migrating the memory would
//! have cost less, it asks the owner for it ([`Engine::request_migration`]), which it does in
//! whatever call makes progress, if it can ([`expose_for_long`](PeerAccess::expose_for_long) has
//! the rules). The owner then announces where the memory lies, and origins load and store it from
//! then on. That is the rule for buffers of messages (docs/design/mapped.md), which their owner
//! counts.
//!
//! | memory | where the owner announces it |
//! |---|---|
//! | created | the window's [placements](mica_node::window::PlacementLine) |
//! | attached | the [table](super::attachment_table) of what is attached |
//!
//! An origin that has not seen the announcement yet, or cannot map the memory, lets the kernel copy
//! as before, which works with the addresses of migrated memory too. The stores that are under way
//! meanwhile hold the migration up ([`mica_node::migration_gate`]).

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use mica_channel::direct::{PeerAccess, PeerBuffer, PublishedBuffer};
use mica_memory::Region;
use mica_node::window::WindowLocks;
use mica_protocol::Engine;

use mica_objects::process;
use mica_objects::sync::lock;

/// What an operation of fewer bytes counts as: about what the kernel copies in the time of the
/// system call.
const LEAST_USE: u64 = 4096;

/// How much more is copied before the owner is asked again, which could not migrate the memory.
const MORE: u64 = 8;

/// A peer's memory, reached by address as long as its owner has not migrated it.
#[derive(Debug)]
pub(crate) struct MovableMemory {
    buffer: PeerBuffer,
    /// The owner's rank in the job, and the window's context.
    owner: (u32, u64),
    /// At which the owner knows the memory.
    address: usize,
    /// Bytes that the kernel has copied for this rank, and those after which the owner is asked.
    copied: AtomicU64,
    limit: AtomicU64,
}

impl MovableMemory {
    /// The `bytes` bytes that `owner` has exposed at `address`.
    pub fn new(
        engine: &Engine,
        buffer: PeerBuffer,
        owner: (u32, u64),
        (address, bytes): (usize, usize),
    ) -> MovableMemory {
        let limit = match buffer.may_move() {
            true => engine.peer_access().migration_pays_after(bytes).unwrap_or(u64::MAX),
            false => u64::MAX,
        };
        let (copied, limit) = (AtomicU64::new(0), AtomicU64::new(limit));
        MovableMemory { buffer, owner, address, copied, limit }
    }

    /// As it was opened.
    #[inline]
    pub fn buffer(&self) -> &PeerBuffer {
        &self.buffer
    }

    /// To be called after an operation on it: asks the owner to migrate the memory, if that pays by
    /// now.
    #[inline]
    pub fn note_use(&self, bytes: usize) {
        if !self.buffer.may_move() {
            return;
        }
        // Relaxed: estimates, which threads may miss a part of.
        let copied = self.copied.load(Ordering::Relaxed) + (bytes as u64).max(LEAST_USE);
        self.copied.store(copied, Ordering::Relaxed);
        if copied > self.limit.load(Ordering::Relaxed) {
            self.ask(copied);
        }
    }

    #[cold]
    fn ask(&self, copied: u64) {
        let (rank, context) = self.owner;
        // The operation has succeeded, whatever becomes of the request.
        let asked = process::engine().is_ok_and(|e| {
            matches!(e.request_migration(rank, context, self.address as u64), Ok(true))
        });
        if asked {
            self.limit.store(copied.saturating_mul(MORE), Ordering::Relaxed);
        }
    }
}

/// The memory of a target that has created the window.
#[derive(Debug)]
pub(crate) struct CreatedTarget {
    memory: MovableMemory,
    bytes: usize,
    locks: Arc<WindowLocks>,
    /// The target's number among the node peers.
    number: u32,
}

impl CreatedTarget {
    /// The memory as it was opened, of the node peer with this number.
    pub fn new(
        memory: MovableMemory,
        bytes: usize,
        locks: &Arc<WindowLocks>,
        number: u32,
    ) -> CreatedTarget {
        let locks = Arc::clone(locks);
        CreatedTarget { memory, bytes, locks, number }
    }

    /// As it was opened.
    pub fn buffer(&self) -> &PeerBuffer {
        self.memory.buffer()
    }

    /// To be called after an operation on the memory as it was opened. Sets `mapped` once it can be
    /// loaded and stored.
    #[inline(never)]
    pub fn note_use(&self, bytes: usize, mapped: &OnceLock<Region>) {
        match self.locks.placement(self.number).announced() {
            Some(words) => self.open_anew(words, mapped),
            None => self.memory.note_use(bytes),
        }
    }

    #[cold]
    fn open_anew(&self, words: [u64; 2], mapped: &OnceLock<Region>) {
        let Ok(engine) = process::engine() else {
            return;
        };
        let buffer = engine.peer_access().open(self.memory.owner.0, words, self.bytes);
        if let Some(region) = buffer.and_then(|buffer| buffer.region(0, self.bytes)) {
            // Another thread may have set it.
            let _ = mapped.set(region);
        }
    }
}

/// What an owner does when an origin asks it to migrate memory.
pub(crate) trait MovableOwner: Send + Sync + Debug {
    /// Migrates the memory that peers know by this address, and announces where it lies.
    fn migrate(&self, access: &PeerAccess, address: usize);
}

/// This rank's memory in a window that it has created.
#[derive(Debug)]
pub(crate) struct CreatedMemory {
    pub address: usize,
    pub bytes: usize,
    /// Peers reach the memory as long as this lives.
    pub published: Mutex<PublishedBuffer>,
    pub locks: Arc<WindowLocks>,
    /// This rank's number among the node peers.
    pub me: u32,
}

impl MovableOwner for CreatedMemory {
    fn migrate(&self, access: &PeerAccess, _: usize) {
        let mut published = lock(&self.published);
        if published.is_whole(self.bytes) {
            return;
        }
        let migrated = access.expose_for_long(self.address, self.bytes);
        if migrated.is_whole(self.bytes) {
            self.locks.placement(self.me).announce(migrated.words());
            *published = migrated;
        }
    }
}

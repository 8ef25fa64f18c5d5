//! A bell: how a rank is woken that waits for descriptors, which a futex cannot do.
//!
//! Of several threads of a rank one has the watch: it waits for the bell, and hands the watch over
//! when it has heard it. The others sleep until it does.

use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

use super::socket::BellSocket;
use crate::futex::{self, FutexScope};
use crate::sync::{AtomicBool, AtomicU32, Ordering};

/// What else ends the waiting.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BellWatch {
    /// A descriptor that becomes readable.
    pub descriptor: Option<RawFd>,
    /// So much time.
    pub limit: Option<Duration>,
}

impl BellWatch {
    pub(super) fn shorter(self, limit: Option<Duration>) -> BellWatch {
        let limit = match (self.limit, limit) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        BellWatch { limit, ..self }
    }
}

/// The bell of one process.
#[derive(Debug)]
pub struct WakeSocket {
    socket: BellSocket,
    /// A thread has the watch.
    watched: AtomicBool,
    /// How often the watch was given up: what the other threads sleep on.
    handovers: AtomicU32,
}

impl WakeSocket {
    /// Makes a bell.
    ///
    /// # Errors
    /// When the system gives no socket, or none with a name of this kind.
    pub fn new() -> io::Result<WakeSocket> {
        Ok(WakeSocket {
            socket: BellSocket::new()?,
            watched: AtomicBool::new(false),
            handovers: AtomicU32::new(0),
        })
    }

    /// By what others ring it.
    pub fn number(&self) -> u32 {
        self.socket.number()
    }

    /// Takes the watch. False if another thread has it.
    pub(super) fn take_watch(&self) -> bool {
        // SYNC watch: see `ParkingSpot::listen`.
        let taken = self
            .watched
            .compare_exchange(false, true, Ordering::SeqCst, Ordering::SeqCst);
        taken.is_ok()
    }

    /// Gives the watch up, and wakes all who wait for that.
    pub(super) fn give_up_watch(&self) {
        // SYNC watch
        self.watched.store(false, Ordering::SeqCst);
        // SYNC watch
        self.handovers.fetch_add(1, Ordering::SeqCst);
        futex::wake_all(&self.handovers, FutexScope::Process);
    }

    /// How often the watch was given up so far.
    pub(super) fn handovers(&self) -> u32 {
        // SYNC watch
        self.handovers.load(Ordering::SeqCst)
    }

    /// Sleeps until the watch is given up, unless nobody has it or it was given up since
    /// `handovers` was read.
    pub(super) fn await_handover(&self, handovers: u32, limit: Option<Duration>) {
        // SYNC watch
        if self.watched.load(Ordering::SeqCst) {
            futex::wait(&self.handovers, handovers, FutexScope::Process, limit);
        }
    }

    /// Waits for a ring or for what `watch` names; one that came before counts. By who has the
    /// watch.
    pub(super) fn await_ring(&self, watch: BellWatch) {
        self.socket.await_ring(watch);
        // Whomever of this rank a ring was meant for: all look again when the watch is given up.
        self.socket.clear();
    }
}

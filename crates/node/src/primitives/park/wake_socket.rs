//! The wake-up socket: wakes a rank that waits for file descriptors, which a futex cannot do.
//!
//! If several threads of a rank wait, one of them has the *watch*: it waits on the socket, and
//! gives the watch up when it has been woken. The others sleep until it does.

use std::io;
use std::time::Duration;

use super::events::WakeEvents;
use super::socket::DatagramSocket;
use super::wake_address::WakeAddress;
use crate::futex::{self, FutexScope};
use crate::sync::{AtomicBool, AtomicU32, Ordering};

/// The wake-up socket of one process.
#[derive(Debug)]
pub struct WakeSocket {
    socket: DatagramSocket,
    /// A thread has the watch.
    watched: AtomicBool,
    /// How often the watch was given up; the other threads sleep on this word.
    handovers: AtomicU32,
}

impl WakeSocket {
    /// Makes a wake-up socket.
    ///
    /// # Errors
    /// When the system refuses a socket, or a name of this kind for it.
    pub fn new() -> io::Result<WakeSocket> {
        Ok(WakeSocket {
            socket: DatagramSocket::new()?,
            watched: AtomicBool::new(false),
            handovers: AtomicU32::new(0),
        })
    }

    /// What other processes need to wake it.
    pub fn address(&self) -> WakeAddress {
        self.socket.address()
    }

    /// Ends the wait of the thread that has the watch, or the next one if none waits.
    pub fn interrupt(&self) {
        super::socket::wake(self.address());
    }

    /// Takes the watch. Returns false if another thread has it.
    pub(super) fn take_watch(&self) -> bool {
        // SYNC watch: see `ParkingSpot::listen`.
        let taken = self.watched.compare_exchange(false, true, Ordering::SeqCst, Ordering::SeqCst);
        taken.is_ok()
    }

    /// Gives the watch up, and wakes all threads that wait for that.
    pub(super) fn give_up_watch(&self) {
        // SYNC watch
        self.watched.store(false, Ordering::SeqCst);
        // SYNC watch
        self.handovers.fetch_add(1, Ordering::SeqCst);
        futex::wake_all(&self.handovers, FutexScope::Process);
    }

    /// The number of times that the watch was given up.
    pub(super) fn handovers(&self) -> u32 {
        // SYNC watch
        self.handovers.load(Ordering::SeqCst)
    }

    /// Sleeps until the watch is given up. Returns at once if no thread has it, or if it was given
    /// up since `handovers` was read.
    pub(super) fn await_handover(&self, handovers: u32, limit: Option<Duration>) {
        // SYNC watch
        if self.watched.load(Ordering::SeqCst) {
            futex::wait(&self.handovers, handovers, FutexScope::Process, limit);
        }
    }

    /// Waits for a wake-up or for one of `events`; an earlier wake-up counts. Only the thread
    /// that has the watch may call this.
    pub(super) fn await_events(&self, events: WakeEvents) {
        self.socket.await_events(events);
        // The wake-up may be meant for any thread of this rank: all check again when the watch is
        // given up.
        self.socket.clear();
    }
}

//! loom's replacement for the socket. A model has only one; a wait ends only with a wake-up.

use std::io;

use super::events::WakeEvents;
use super::wake_address::WakeAddress;
use crate::sync::{AtomicU32, Ordering};

loom::lazy_static! {
    static ref WAKE_UPS: AtomicU32 = AtomicU32::new(0);
}

/// The socket of the model.
#[derive(Debug)]
pub struct DatagramSocket;

impl DatagramSocket {
    pub fn new() -> io::Result<DatagramSocket> {
        Ok(DatagramSocket)
    }

    pub fn address(&self) -> WakeAddress {
        WakeAddress { number: 0, nonce: 0 }
    }

    pub fn clear(&self) {
        // A message on a socket orders what happens before it is sent before what happens after it
        // is received.
        WAKE_UPS.swap(0, Ordering::AcqRel);
    }

    pub fn await_events(&self, _events: WakeEvents) {
        while WAKE_UPS.load(Ordering::Acquire) == 0 {
            loom::thread::yield_now();
        }
    }
}

pub fn wake(_to: WakeAddress) {
    WAKE_UPS.swap(1, Ordering::AcqRel);
}

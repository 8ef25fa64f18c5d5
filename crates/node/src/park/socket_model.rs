//! loom's replacement for the socket. A model has only one; a wait ends only with a wake-up.

use std::io;

use super::bell::BellWatch;
use crate::sync::{AtomicU32, Ordering};

loom::lazy_static! {
    static ref RUNG: AtomicU32 = AtomicU32::new(0);
}

/// The socket of the model.
#[derive(Debug)]
pub struct BellSocket;

impl BellSocket {
    pub fn new() -> io::Result<BellSocket> {
        Ok(BellSocket)
    }

    pub fn number(&self) -> u32 {
        0
    }

    pub fn clear(&self) {
        // A message on a socket orders what happens before it is sent before what happens after it
        // is received.
        RUNG.swap(0, Ordering::AcqRel);
    }

    pub fn await_ring(&self, _watch: BellWatch) {
        while RUNG.load(Ordering::Acquire) == 0 {
            loom::thread::yield_now();
        }
    }
}

pub fn ring(_number: u32) {
    RUNG.swap(1, Ordering::AcqRel);
}

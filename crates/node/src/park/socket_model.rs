//! loom's stand-in for the socket, of the only bell of a model: a wait ends with a ring, and with
//! nothing else.

use std::io;

use super::bell::BellWatch;
use crate::sync::{AtomicU32, Ordering};

loom::lazy_static! {
    static ref RUNG: AtomicU32 = AtomicU32::new(0);
}

/// The socket of the bell.
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
        // A message on a socket orders what comes before it is sent and after it is taken.
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

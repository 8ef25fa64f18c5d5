//! The node's memory as the adapter uses it: the bytes are the program's, the time is the model's.

use std::io;

use mica_sim::adapter::{AdapterHost, InjectionCounts};
use mica_sim::machine::WriteMode;
use mica_sim::memory::{InjectTarget, NodeMemory};
use mica_sim::time::SimTime;

use crate::memory_file::GuestMemory;
use crate::quit::fail;

/// The memory of the node during a call of the adapter.
#[derive(Debug)]
pub struct NodeHost<'a> {
    pub memory: &'a mut NodeMemory,
    pub guest: &'a GuestMemory,
    /// State of injected lines.
    pub write_mode: WriteMode,
}

impl AdapterHost for NodeHost<'_> {
    fn read(&mut self, at: SimTime, address: u64, out: &mut [u8]) -> SimTime {
        if let Err(error) = self.guest.read(address, out) {
            fail(&unreachable("read", address, out.len(), &error));
        }
        self.memory.adapter_read(at, address, out.len() as u64)
    }

    fn write(&mut self, at: SimTime, address: u64, bytes: &[u8], to: InjectTarget) -> SimTime {
        if let Err(error) = self.guest.write(address, bytes) {
            fail(&unreachable("write", address, bytes.len(), &error));
        }
        self.memory.adapter_write(at, address, bytes.len() as u64, to, self.write_mode)
    }

    fn holds(&self, address: u64, cache: InjectTarget) -> bool {
        self.memory.holds(address, cache)
    }

    fn injections(&self) -> InjectionCounts {
        let counts = &self.memory.counts().injected;
        InjectionCounts {
            injected: counts.l2 + counts.other_core + counts.l3,
            used: counts.used,
            evicted: counts.evicted + counts.overwritten,
        }
    }
}

fn unreachable(verb: &str, address: u64, bytes: usize, error: &io::Error) -> String {
    format!(
        "the adapter cannot {verb} {bytes} bytes of the program's memory at {address:#x}: {error}"
    )
}

//! The registers that a process stores to, so that a test's adapter can be told without emulation.

use std::fmt::Debug;
use std::sync::Arc;

use mica_node::adapter::AdapterMemory;

/// The registers of an adapter (`mica_node::adapter::Registers`).
pub trait AdapterRegisters: Debug + Send {
    /// Starts command `number`. The adapter has read it when this returns.
    fn ring(&self, number: u64);
    /// Waits until there is something new, with `taken` events taken.
    fn wait(&self, taken: u64);
    /// Hints that the payload of the posted receive `token` will be used at once.
    fn hint(&self, token: u64);
    /// Marks a region of interest.
    fn mark(&self, level: u64);
}

/// The registers in the adapter's memory, whose stores the emulator simulates.
#[derive(Debug)]
pub struct MappedRegisters(pub Arc<AdapterMemory>);

impl AdapterRegisters for MappedRegisters {
    #[inline]
    fn ring(&self, number: u64) {
        self.0.ring(number);
    }

    #[inline]
    fn wait(&self, taken: u64) {
        self.0.wait(taken);
    }

    #[inline]
    fn hint(&self, token: u64) {
        self.0.hint(token);
    }

    #[inline]
    fn mark(&self, level: u64) {
        self.0.mark(level);
    }
}

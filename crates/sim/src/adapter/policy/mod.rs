//! Policies of injection: what of a message goes into which cache (leon-2009 2.5, 4.2).
//!
//! | name | events | payload |
//! |---|---|---|
//! | `base` | memory | memory |
//! | `header`, `hl2` | L2 | memory |
//! | `preposted` | memory | L3, if its receive was posted before it came |
//! | `unexpected` | memory | L3, if it came before its receive was posted |
//! | `payload` | memory | L3 |
//! | `message`, `hl2p` | L2 | L3 |
//! | `on-wait` | memory | L2, if the process waits |
//! | `in-cache` | memory | each line to the cache that has it |
//! | `size-dependent` | memory | L2, L3 or memory by its size |
//! | `first-part` | memory | L2 for the first lines; prefetching brings the rest |
//! | `processor-direction` | memory | L2 of the core that receives, or of core N with `:N` |
//! | `application-driven`, `hint` | memory | L2, if the program has hinted the receive |
//!
//! Two can be joined: `header+on-wait`. `adaptive` chooses among them by what becomes of the
//! injected lines ([`adaptive`]).
//!
//! The event of an operation is the thesis's header: one line, read at once by the library's
//! polls. The L2 is right for lines that are used at once, the L3 for payload of which that is not
//! known. No message takes more than half of a cache: one that is too large for the L2 goes to the
//! L3, and one that is too large for that to memory. Without an L3, payload for it goes to the L2.
//!
//! All but `adaptive` are pure functions. Called by the adapter for each event and payload.

pub mod adaptive;
mod fixed;
mod names;

pub use adaptive::Adaptive;
pub use fixed::{
    CacheSizes, FixedPolicy, HeaderRule, Incoming, MatchKind, PayloadRule, PlacedBytes,
    WrittenLines,
};
pub use names::PolicyError;

use super::host::InjectionCounts;
use crate::machine::SimulatedMachine;

/// A policy, as the adapter asks it.
#[derive(Debug, Clone)]
pub enum Policy {
    /// Always the same.
    Fixed(FixedPolicy),
    /// Changes with what becomes of the injected lines.
    Adaptive(Box<Adaptive>),
}

impl Policy {
    /// The policy with this name on this machine.
    pub fn named(name: &str, machine: &SimulatedMachine) -> Result<Policy, PolicyError> {
        match name {
            "adaptive" => Ok(Policy::Adaptive(Box::new(Adaptive::new(machine)))),
            _ => names::parse(name, machine.processor.cores).map(Policy::Fixed),
        }
    }

    /// Names of all policies that are not joined from others.
    pub fn names() -> impl Iterator<Item = &'static str> {
        names::NAMES.iter().map(|(name, _)| *name).chain(["adaptive"])
    }

    /// The fixed policy that decides now.
    pub fn current(&self) -> FixedPolicy {
        match self {
            Policy::Fixed(fixed) => *fixed,
            Policy::Adaptive(adaptive) => adaptive.current(),
        }
    }

    /// How many times another fixed policy has come into force.
    pub fn changes(&self) -> u64 {
        match self {
            Policy::Fixed(_) => 0,
            Policy::Adaptive(adaptive) => adaptive.changes(),
        }
    }

    /// Takes note of lines that were written, and of what has become of all that were injected.
    pub(super) fn observe(
        &mut self,
        written: WrittenLines,
        outcomes: impl FnOnce() -> InjectionCounts,
    ) {
        if let Policy::Adaptive(adaptive) = self {
            adaptive.observe(written, outcomes());
        }
    }
}

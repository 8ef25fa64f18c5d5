//! Events for tools: what the engine reports when someone has asked for it (MPI 5.0, 15.3.8).
//!
//! The hooks are on slow paths, and cost one load of [`ENABLED`] and a branch there. The fast path
//! of a receive has no hook: while arrivals are wanted, receives do not take it
//! ([`Engine::observe_arrivals`](crate::Engine::observe_arrivals)).
//!
//! The sink is called by the thread that makes progress, under the engine's lock: it must not call
//! the engine. That is why tools may register only callbacks that need nothing of MPI but the tools
//! interface.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::matching::MatchEnvelope;

/// The kinds of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum EngineEventKind {
    /// A message, or the announcement of one, has arrived. `detail`: 1 if its receive was posted.
    Arrived,
    /// It has arrived without a receive. `detail`: messages in the queue, with this one.
    Unexpected,
    /// The receiver of an announced message has chosen its path. `detail`: the path's index.
    PathChosen,
}

/// An event of the engine.
#[derive(Debug, Clone, Copy)]
pub struct EngineEvent {
    /// What has happened.
    pub kind: EngineEventKind,
    /// Context, source and tag of the message.
    pub envelope: MatchEnvelope,
    /// Its length.
    pub bytes: usize,
    /// A further number, by kind.
    pub detail: u64,
}

/// Called for each event that is wanted.
pub type EventSink = fn(&EngineEvent);

/// The kinds that are wanted, a bit each.
static ENABLED: AtomicU32 = AtomicU32::new(0);
static SINK: OnceLock<EventSink> = OnceLock::new();

/// Sets which kinds of events are reported from now on, to `sink`, which must be the same in all
/// calls.
pub fn enable_events(kinds: impl IntoIterator<Item = EngineEventKind>, sink: EventSink) {
    // A second call passes the same sink.
    let _ = SINK.set(sink);
    let mask = kinds.into_iter().fold(0, |mask, kind| mask | bit(kind));
    // Relaxed: an event at the same time may be reported or not.
    ENABLED.store(mask, Ordering::Relaxed);
}

const fn bit(kind: EngineEventKind) -> u32 {
    1 << kind as u32
}

/// Reports an event, if it is wanted.
#[inline(always)]
pub(crate) fn report(kind: EngineEventKind, envelope: &MatchEnvelope, bytes: usize, detail: u64) {
    if ENABLED.load(Ordering::Relaxed) & bit(kind) != 0 {
        emit(EngineEvent { kind, envelope: *envelope, bytes, detail });
    }
}

#[cold]
#[inline(never)]
fn emit(event: EngineEvent) {
    if let Some(sink) = SINK.get() {
        sink(&event);
    }
}

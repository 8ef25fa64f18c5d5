//! How many unexpected messages each context has, for readers without the engine's lock: a tool may
//! ask from any thread, and from a callback that runs under the lock.
//!
//! The engine, which alone writes, keeps a count for each context with messages in one of a few
//! slots near the context's hash; a slot whose count is 0 is free. Contexts beyond that, which only
//! a program with messages on hundreds of communicators at once has, are counted in a map behind a
//! mutex. A context may have messages in both: its number is their sum.
//!
//! A reader that meets a slot while it changes hands sees the old owner, the new one or a count of
//! 0: the count is stored after the context when a slot is taken (SYNC by_context: Release, paired
//! with Acquire in [`UnexpectedCounts::of`]).

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

const SLOTS: usize = 64;

/// Slots in which a context may be.
const PROBES: usize = 4;

#[derive(Debug, Default)]
struct ContextSlot {
    context: AtomicU64,
    messages: AtomicU32,
}

/// Numbers of unexpected messages by context.
#[derive(Debug)]
pub struct UnexpectedCounts {
    slots: [ContextSlot; SLOTS],
    /// Contexts that found no slot.
    others: Mutex<HashMap<u64, u32>>,
}

impl Default for UnexpectedCounts {
    fn default() -> UnexpectedCounts {
        UnexpectedCounts {
            slots: std::array::from_fn(|_| ContextSlot::default()),
            others: Mutex::default(),
        }
    }
}

impl UnexpectedCounts {
    fn probes(&self, context: u64) -> impl Iterator<Item = &ContextSlot> {
        // Contexts count up, by 2 with the plane of collectives between them.
        let first = context as usize;
        (0..PROBES).map(move |at| &self.slots[(first + at) % SLOTS])
    }

    fn others(&self) -> MutexGuard<'_, HashMap<u64, u32>> {
        // A poisoned map is usable: each change is one statement.
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a message that enters the queue.
    pub(super) fn add(&self, context: u64) {
        let mut free = None;
        for slot in self.probes(context) {
            let messages = slot.messages.load(Ordering::Relaxed);
            if messages == 0 {
                free = free.or(Some(slot));
            } else if slot.context.load(Ordering::Relaxed) == context {
                slot.messages.store(messages + 1, Ordering::Relaxed);
                return;
            }
        }
        match free {
            Some(slot) => {
                slot.context.store(context, Ordering::Relaxed);
                // SYNC by_context
                slot.messages.store(1, Ordering::Release);
            }
            None => *self.others().entry(context).or_default() += 1,
        }
    }

    /// Counts a message that leaves the queue.
    pub(super) fn remove(&self, context: u64) {
        for slot in self.probes(context) {
            let messages = slot.messages.load(Ordering::Relaxed);
            if messages > 0 && slot.context.load(Ordering::Relaxed) == context {
                slot.messages.store(messages - 1, Ordering::Relaxed);
                return;
            }
        }
        let mut others = self.others();
        if let Some(messages) = others.get_mut(&context) {
            *messages -= 1;
            if *messages == 0 {
                others.remove(&context);
            }
        }
    }

    /// Messages of `context` in the queue.
    pub fn of(&self, context: u64) -> u32 {
        let in_slot = |slot: &ContextSlot| {
            // SYNC by_context
            let messages = slot.messages.load(Ordering::Acquire);
            match slot.context.load(Ordering::Relaxed) == context {
                true => messages,
                false => 0,
            }
        };
        let in_slots: u32 = self.probes(context).map(in_slot).sum();
        in_slots + self.others().get(&context).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_exact_with_more_contexts_than_slots() {
        let counts = UnexpectedCounts::default();
        let contexts = 3 * SLOTS as u64;
        for round in 0..5 {
            for context in 0..contexts {
                if context % 5 != round {
                    counts.add(context);
                }
            }
        }
        assert!(!counts.others().is_empty());
        for context in 0..contexts {
            assert_eq!(counts.of(context), 4, "context {context}");
            counts.remove(context);
            counts.remove(context);
        }
        // Slots that have become free are taken, though the context has messages elsewhere.
        for context in (0..contexts).rev() {
            counts.remove(context);
            counts.remove(context);
            assert_eq!(counts.of(context), 0);
            counts.add(context);
        }
        for context in 0..contexts {
            assert_eq!(counts.of(context), 1, "context {context}");
            counts.remove(context);
            assert_eq!(counts.of(context), 0, "context {context}");
        }
        assert!(counts.others().is_empty());
    }
}

//! How long stores of a line merge, access by access, against the rule in words: until an access
//! that is more than another use of the line that its set used last. The fast path asks for that
//! order only once a line ([`super::super::l1`]); this model asks at every access.

use std::collections::HashMap;

use proptest::prelude::*;

use super::{LINE, memory};
use crate::memory::cache::{DIRTY, FLAGS};
use crate::memory::l1::{FetchLine, L1};
use crate::memory::{AccessKind, DataAccess, NodeMemory};

/// Lines that accesses are about: three to a way of the L1s, so that they hit and miss.
const LINES: u64 = 48;
/// Sets of the small machine's L1s.
const SETS: u64 = 4;

/// The line that each set of the L1s used last, by whether the L1 is that of instructions. It may
/// have been taken out since.
type LastUsed = HashMap<(bool, u64), u64>;

/// The set of a line.
fn set_of(kind: AccessKind, line: u64) -> (bool, u64) {
    (kind == AccessKind::Fetch, line / LINE % SETS)
}

fn l1_of(memory: &NodeMemory, kind: AccessKind) -> &L1 {
    match kind {
        AccessKind::Fetch => &memory.levels.l1i,
        _ => &memory.levels.l1d,
    }
}

/// The entry of a line that an L1 holds.
fn entry(l1: &L1, line: u64) -> Option<u64> {
    l1.lines().into_iter().find(|entry| entry & !FLAGS == line)
}

/// The line whose stores merge after an access, given that before it; `None` if the access decides
/// by its misses.
fn merging_after(
    memory: &NodeMemory,
    last_used: &LastUsed,
    (kind, address, size): (AccessKind, u64, u64),
) -> Option<u64> {
    let before = memory.merging & !FLAGS;
    let line = address & !(LINE - 1);
    if before == 0 || address % LINE + size > LINE {
        return None;
    }
    let is_store = kind == AccessKind::Store;
    if is_store && line == before && !memory.merging_is_cached {
        return Some(before);
    }
    let is_last = last_used.get(&set_of(kind, line)) == Some(&line);
    match entry(l1_of(memory, kind), line)? {
        entry if is_store && entry & DIRTY == 0 => None,
        _ if is_last => Some(before),
        _ => Some(0),
    }
}

fn misses(memory: &NodeMemory) -> u64 {
    let stores = memory.counts().stores;
    stores.from_l2 + stores.from_l3 + stores.from_memory + stores.from_other_core
}

/// The access as the emulator's plugin makes it, which keeps a [`FetchLine`] a line.
fn take(
    memory: &mut NodeMemory,
    fetches: &mut HashMap<u64, FetchLine>,
    (kind, address, size): (AccessKind, u64, u64),
) {
    let access = match kind {
        AccessKind::Load => DataAccess::load(size as u32),
        AccessKind::Store => DataAccess::store(size as u32),
        AccessKind::Fetch => {
            let line = address & !(LINE - 1);
            let line = fetches.entry(line).or_insert_with(|| FetchLine::new(line));
            if !memory.is_fetch_hit(line) {
                memory.fetch_line(0, line);
            }
            return;
        }
    };
    if !memory.is_hit(access, address) {
        memory.access(0, access, address);
    }
}

proptest! {
    #[test]
    fn stores_merge_until_a_set_uses_another_line(
        steps in prop::collection::vec((0..6, 0..LINES, 0..LINE, 1..9_u64), 1..400),
    ) {
        let mut memory = memory(&["caches.l1d.write=through"]);
        let (mut fetches, mut last_used) = (HashMap::new(), LastUsed::new());
        for (what, line, offset, size) in steps {
            let kind = match what {
                0 => AccessKind::Fetch,
                1..3 => AccessKind::Load,
                _ => AccessKind::Store,
            };
            let address = (1 << 20) + line * LINE + offset;
            // A fetch is that of a line.
            let size = if kind == AccessKind::Fetch { 1 } else { size };
            let expected = merging_after(&memory, &last_used, (kind, address, size));
            let (before, merged) = (misses(&memory), memory.counts().stores.merged);
            let was_merging = memory.merging & !FLAGS == address & !(LINE - 1);
            take(&mut memory, &mut fetches, (kind, address, size));
            let (first, last) = (address & !(LINE - 1), (address + size - 1) & !(LINE - 1));
            for line in [first, last] {
                if entry(l1_of(&memory, kind), line).is_some() {
                    last_used.insert(set_of(kind, line), line);
                }
            }
            let started = if misses(&memory) > before { last } else { 0 };
            prop_assert_eq!(memory.merging & !FLAGS, expected.unwrap_or(started));
            if memory.counts().stores.merged > merged {
                prop_assert!(was_merging && kind == AccessKind::Store);
            }
        }
    }
}

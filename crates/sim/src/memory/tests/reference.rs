//! Random accesses and injections against the naive model: same stalls, counts, and contents of
//! all caches after each step; and what must hold with a prefetcher, which that model does not
//! have.

use proptest::prelude::*;

use super::naive::{Naive, NaiveLine};
use super::{LINE, machine_of, small};
use crate::machine::{Inclusion, WriteMode};
use crate::memory::cache::{Cache, DIRTY, FLAGS, INJECTED, PREFETCHED};
use crate::memory::{AccessKind, InjectTarget, Injections, MemoryCounts, NodeMemory};
use crate::time::SimTime;

/// Lines that accesses are about: some ten to a set of the L2.
const LINES: u64 = 120;

/// Something that happens to a memory.
#[derive(Debug, Clone)]
enum Step {
    Access { kind: AccessKind, address: u64, size: u32 },
    Write { address: u64, length: u64, target: InjectTarget, mode: WriteMode },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let address = 0..LINES * LINE;
    let kind = prop_oneof![
        6 => Just(AccessKind::Load),
        4 => Just(AccessKind::Store),
        2 => Just(AccessKind::Fetch),
    ];
    let access = (kind, address.clone(), 1_u32..33);
    let target = prop_oneof![
        Just(InjectTarget::Memory),
        Just(InjectTarget::L3),
        (0..3_u32).prop_map(|core| InjectTarget::L2 { core }),
    ];
    let mode = prop_oneof![Just(WriteMode::Clean), Just(WriteMode::Dirty)];
    // Whole lines half of the time.
    let start = prop_oneof![address, (0..LINES).prop_map(|line| line * LINE)];
    let write = (start, 0..6 * LINE, target, mode);
    let step = prop_oneof![
        12 => access.prop_map(|(kind, address, size)| Step::Access { kind, address, size }),
        2 => write.prop_map(|(address, length, target, mode)| Step::Write {
            address,
            length,
            target,
            mode,
        }),
    ];
    prop::collection::vec(step, 1..400)
}

/// A random hierarchy: [`super::SMALL`] with these settings.
fn settings() -> impl Strategy<Value = Vec<String>> {
    let replacement = || prop_oneof![Just("lru"), Just("plru")];
    let write = || prop_oneof![Just("back"), Just("through")];
    let inclusion =
        || prop_oneof![Just("inclusive"), Just("exclusive"), Just("victim"), Just("none")];
    let l1 = (replacement(), write(), prop_oneof![Just(4), Just(2)]);
    let level = || (replacement(), write(), inclusion(), 3_u32..7);
    (l1, level(), prop::option::of(level())).prop_map(|(l1, l2, l3)| {
        let through = l1.1 == "through" && matches!(l2.2, "exclusive" | "victim");
        let l1_write = if through { "back" } else { l1.1 };
        let level = |(replacement, write, inclusion, ways): (_, _, _, u32), sets: u32| {
            // 16 sets of 64 bytes are a KiB.
            let size = sets / 16 * ways;
            format!(
                "{{ size_kib = {size}, ways = {ways}, replacement = '{replacement}', \
                 write = '{write}', inclusion = '{inclusion}', latency = {} }}",
                if sets == 16 { 10 } else { 40 }
            )
        };
        let mut settings = vec![
            "memory.timing.bandwidth_gb_s=1e12".to_owned(),
            format!("caches.l1d.replacement={}", l1.0),
            format!("caches.l1d.write={l1_write}"),
            format!("caches.l1d.ways={}", l1.2),
            format!("caches.l2={}", level(l2, 16)),
        ];
        if let Some(l3) = l3 {
            settings.push(format!("caches.l3={}", level(l3, 48)));
        }
        settings
    })
}

fn contents(cache: &Cache) -> Vec<NaiveLine> {
    naive_lines(cache.lines())
}

fn naive_lines(entries: impl IntoIterator<Item = u64>) -> Vec<NaiveLine> {
    let mut lines: Vec<_> = entries
        .into_iter()
        .map(|entry| NaiveLine {
            line: entry & !FLAGS,
            dirty: entry & DIRTY != 0,
            injected: entry & INJECTED != 0,
        })
        .collect();
    lines.sort();
    lines
}

fn take_step(memory: &mut NodeMemory, now: u64, step: &Step) -> u64 {
    let stall = match *step {
        Step::Access { kind: AccessKind::Load, address, size } => memory.load(now, address, size),
        Step::Access { kind: AccessKind::Store, address, size } => memory.store(now, address, size),
        Step::Access { kind: AccessKind::Fetch, address, size } => memory.fetch(now, address, size),
        Step::Write { address, length, target, mode } => {
            memory.adapter_write(SimTime(0), address, length, target, mode);
            return 0;
        }
    };
    stall.cycles()
}

impl Naive {
    fn step(&mut self, step: &Step) -> u64 {
        let (kind, address, size) = match *step {
            Step::Write { address, length, target, mode } => {
                self.merging = None;
                self.write(address, length, target, mode);
                return 0;
            }
            Step::Access { kind, address, size } => (kind, address, size),
        };
        let first = address / LINE * LINE;
        let last = (address + u64::from(size) - 1) / LINE * LINE;
        let is_store = kind == AccessKind::Store;
        if is_store && first == last && self.merging == Some(first) {
            return 0;
        }
        let mut cycles = 0;
        for line in [first, last].into_iter().take(1 + usize::from(first != last)) {
            cycles += self.access(kind, line);
        }
        // Any access that is more than another use of the line that its set used last ends it; the
        // caller corrects for those.
        let starts = is_store && self.l1_through() && cycles > 0;
        self.merging = starts.then_some(last);
        cycles
    }

    fn check(&self, memory: &NodeMemory) -> Result<(), TestCaseError> {
        let levels = &memory.levels;
        prop_assert_eq!(naive_lines(levels.l1i.lines()), self.l1i.contents());
        prop_assert_eq!(naive_lines(levels.l1d.lines()), self.l1d.contents());
        prop_assert_eq!(contents(&levels.l2.cache), self.l2.contents());
        if let (Some(l3), Some(naive)) = (&levels.l3, &self.l3) {
            prop_assert_eq!(contents(&l3.cache), naive.contents());
        }
        let other = levels.others[0].as_ref().map(contents);
        prop_assert_eq!(other.unwrap_or_default(), self.other.contents());
        let counts = memory.counts();
        prop_assert_eq!(counts.memory_reads.demand, self.reads);
        prop_assert_eq!(counts.memory_writes.write_backs, self.write_backs);
        prop_assert_eq!(counts.memory_writes.adapter, self.adapter_writes);
        prop_assert_eq!(counts.injected, self.injected);
        Ok(())
    }
}

/// Every injected line is used, evicted, overwritten, or still there.
fn check_conservation(memory: &NodeMemory) -> Result<(), TestCaseError> {
    let levels = &memory.levels;
    let mut there = 0;
    let mut add = |entry: u64| there += usize::from(entry & INJECTED != 0);
    levels.l1d.lines().into_iter().for_each(&mut add);
    let mut count = |cache: &Cache| cache.lines().for_each(&mut add);
    count(&levels.l2.cache);
    levels.l3.iter().for_each(|l3| count(&l3.cache));
    levels.others.iter().flatten().for_each(count);
    let Injections { l2, other_core, l3, used, evicted, overwritten, .. } =
        memory.counts().injected;
    prop_assert_eq!(l2 + other_core + l3, used + evicted + overwritten + there as u64);
    Ok(())
}

/// What inclusion promises.
fn check_inclusion(memory: &NodeMemory) -> Result<(), TestCaseError> {
    let levels = &memory.levels;
    let above = |cache: &Cache| cache.lines().map(|e| e & !FLAGS).collect::<Vec<_>>();
    let l1s = [levels.l1i.lines(), levels.l1d.lines()].concat();
    let l1s: Vec<u64> = l1s.into_iter().map(|e| e & !FLAGS).collect();
    if levels.l2.inclusion == Inclusion::Inclusive {
        prop_assert!(l1s.iter().all(|line| levels.l2.cache.holds(*line)));
    }
    let Some(l3) = &levels.l3 else { return Ok(()) };
    let l2 = above(&levels.l2.cache);
    match l3.inclusion {
        Inclusion::Inclusive => {
            prop_assert!([l1s, l2].concat().iter().all(|line| l3.cache.holds(*line)));
        }
        Inclusion::Exclusive if levels.l2.inclusion == Inclusion::Inclusive => {
            prop_assert!(!l2.iter().any(|line| l3.cache.holds(*line)));
        }
        _ => {}
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn behaves_as_the_naive_model(settings in settings(), steps in steps()) {
        let machine = machine_of(&settings);
        let mut memory = NodeMemory::new(&machine);
        let mut naive = Naive::new(&machine);
        let mut now = 0;
        for step in &steps {
            now += 1;
            // Merging is about what the fast path is asked; the model follows.
            naive.merging = (memory.merging != 0).then_some(memory.merging & !FLAGS);
            let cycles = take_step(&mut memory, now, step);
            prop_assert_eq!(cycles, naive.step(step), "{:?}", step);
            naive.check(&memory)?;
            now += cycles;
        }
        check_conservation(&memory)?;
        check_inclusion(&memory)?;
    }

    #[test]
    fn keeps_its_promises_with_a_prefetcher(settings in settings(), steps in steps()) {
        let mut settings = settings;
        settings.push("prefetch={ streams = 4, depth = 3 }".to_owned());
        let mut memory = NodeMemory::new(&machine_of(&settings));
        let mut now = 0;
        for step in &steps {
            now += 1 + take_step(&mut memory, now, step);
            check_conservation(&memory)?;
            check_inclusion(&memory)?;
        }
        let MemoryCounts { prefetched, memory_reads, .. } = memory.counts();
        prop_assert!(prefetched.used <= prefetched.lines);
        prop_assert!(memory_reads.prefetch <= prefetched.lines);
    }
}

#[test]
fn prefetched_lines_are_marked_until_their_first_use() {
    let mut memory = NodeMemory::new(&small(&["prefetch={ streams = 4, depth = 3 }"]));
    for n in 0..4 {
        memory.load(n * 1000, (1 << 20) + n * LINE, 8);
    }
    let levels = &memory.levels;
    let marked = |entries: Vec<u64>| entries.iter().filter(|&e| e & PREFETCHED != 0).count();
    assert_eq!(marked(levels.l1d.lines()), 1);
    assert!(marked(levels.l2.cache.lines().collect()) >= 2);
}

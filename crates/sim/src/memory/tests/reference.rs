//! Random accesses and injections against a naive model: same stalls, counts, and contents of all
//! caches after each step.
//!
//! The model keeps lines in plain lists with the moment of their last use, and PLRU trees as maps
//! from ranges of ways; it shares no code with the caches. Its rules are those of the heads of
//! `hierarchy` and `inject`.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{LINE, small};
use crate::machine::{Inclusion, Machine, Replacement, WriteMode, WritePolicy};
use crate::memory::cache::{Cache, DIRTY, FLAGS, INJECTED, PREFETCHED};
use crate::memory::{Counts, InjectTarget, Injections, NodeMemory};
use crate::time::SimTime;

/// Lines that accesses are about: some ten to a set of the L2.
const LINES: u64 = 120;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct NaiveLine {
    line: u64,
    dirty: bool,
    injected: bool,
}

/// A cache as a list of its ways.
struct NaiveCache {
    sets: u64,
    ways: usize,
    plru: bool,
    /// By set and way: the line and the moment of its last use.
    lines: BTreeMap<(u64, usize), (NaiveLine, u64)>,
    /// By set and range of ways: whether the next victim is in the upper half.
    upper: BTreeMap<(u64, usize, usize), bool>,
    moment: u64,
}

impl NaiveCache {
    fn new(size_kib: u64, ways: u32, replacement: Replacement) -> NaiveCache {
        NaiveCache {
            sets: size_kib * 1024 / LINE / u64::from(ways),
            ways: ways as usize,
            plru: replacement == Replacement::Plru,
            lines: BTreeMap::new(),
            upper: BTreeMap::new(),
            moment: 0,
        }
    }

    fn place(&self, line: u64) -> Option<(u64, usize)> {
        let set = line / LINE % self.sets;
        let found = |way: &usize| {
            let way = self.lines.get(&(set, *way));
            way.is_some_and(|(found, _)| found.line == line)
        };
        (0..self.ways).find(found).map(|way| (set, way))
    }

    fn get(&mut self, line: u64) -> Option<&mut NaiveLine> {
        let place = self.place(line)?;
        Some(&mut self.lines.get_mut(&place).unwrap().0)
    }

    fn holds(&self, line: u64) -> bool {
        self.place(line).is_some()
    }

    fn touch(&mut self, line: u64) {
        let (set, way) = self.place(line).unwrap();
        self.moment += 1;
        self.lines.get_mut(&(set, way)).unwrap().1 = self.moment;
        let (mut low, mut high) = (0, self.ways.next_power_of_two());
        while high - low > 1 {
            let middle = (low + high) / 2;
            self.upper.insert((set, low, high), way < middle);
            if way < middle {
                high = middle;
            } else {
                low = middle;
            }
        }
    }

    fn victim(&self, set: u64) -> usize {
        if let Some(free) = (0..self.ways).find(|&way| !self.lines.contains_key(&(set, way))) {
            return free;
        }
        if !self.plru {
            let last_use = |way: &usize| self.lines[&(set, *way)].1;
            return (0..self.ways).min_by_key(last_use).unwrap();
        }
        let (mut low, mut high) = (0, self.ways.next_power_of_two());
        while high - low > 1 {
            let middle = (low + high) / 2;
            let upper = self
                .upper
                .get(&(set, low, high))
                .is_some_and(|&upper| upper);
            if upper && middle < self.ways {
                low = middle;
            } else {
                high = middle;
            }
        }
        low
    }

    fn put(&mut self, line: NaiveLine) -> Option<NaiveLine> {
        assert!(!self.holds(line.line));
        let set = line.line / LINE % self.sets;
        let place = (set, self.victim(set));
        let evicted = self.lines.insert(place, (line, 0));
        self.touch(line.line);
        evicted.map(|(line, _)| line)
    }

    fn take(&mut self, line: u64) -> Option<NaiveLine> {
        let place = self.place(line)?;
        self.lines.remove(&place).map(|(line, _)| line)
    }

    fn contents(&self) -> Vec<NaiveLine> {
        let mut lines: Vec<_> = self.lines.values().map(|(line, _)| *line).collect();
        lines.sort();
        lines
    }
}

struct Naive {
    machine: Machine,
    l1i: NaiveCache,
    l1d: NaiveCache,
    l2: NaiveCache,
    l3: Option<NaiveCache>,
    other: NaiveCache,
    /// The line of a store that others merge with.
    merging: Option<u64>,
    reads: u64,
    write_backs: u64,
    adapter_writes: u64,
    injected: Injections,
}

impl Naive {
    fn new(machine: &Machine) -> Naive {
        let caches = &machine.caches;
        let l1 = |l1: &crate::machine::L1Parameters| {
            NaiveCache::new(l1.size_kib, l1.ways, l1.replacement)
        };
        let level = |level: &crate::machine::CacheParameters| {
            NaiveCache::new(level.size_kib, level.ways, level.replacement)
        };
        Naive {
            l1i: l1(&caches.l1i),
            l1d: l1(&caches.l1d),
            l2: level(&caches.l2),
            l3: caches.l3.as_ref().map(level),
            other: level(&caches.l2),
            machine: machine.clone(),
            merging: None,
            reads: 0,
            write_backs: 0,
            adapter_writes: 0,
            injected: Injections::default(),
        }
    }

    fn l2_inclusion(&self) -> Inclusion {
        self.machine.caches.l2.inclusion
    }

    fn l3_inclusion(&self) -> Option<Inclusion> {
        self.machine.caches.l3.as_ref().map(|l3| l3.inclusion)
    }

    fn l1_through(&self) -> bool {
        self.machine.caches.l1d.write == WritePolicy::Through
    }

    fn l3_through(&self) -> bool {
        let l3 = self.machine.caches.l3.as_ref();
        l3.is_some_and(|l3| l3.write == WritePolicy::Through)
    }

    /// Cycles of an access to one line.
    fn access(&mut self, line: u64, step: &Step) -> u64 {
        let is_store = matches!(step, Step::Store { .. });
        if is_store && self.l1_through() {
            return self.store_through(line);
        }
        let fetches = matches!(step, Step::Fetch { .. });
        let l1 = if fetches {
            &mut self.l1i
        } else {
            &mut self.l1d
        };
        let mut cycles = 0;
        if l1.holds(line) {
            l1.touch(line);
        } else {
            let (latency, dirty) = self.bring(line);
            cycles = latency;
            let l1 = if fetches {
                &mut self.l1i
            } else {
                &mut self.l1d
            };
            let evicted = l1.put(NaiveLine {
                line,
                dirty,
                injected: false,
            });
            self.out_of_l1(evicted);
        }
        if is_store {
            self.l1d.get(line).unwrap().dirty = true;
        }
        cycles
    }

    fn store_through(&mut self, line: u64) -> u64 {
        if self.l1d.holds(line) {
            self.l1d.touch(line);
            // "dirty" in such an L1: stores need go no further.
            let entry = self.l1d.get(line).unwrap();
            if !std::mem::replace(&mut entry.dirty, true) {
                self.write_l2(line);
            }
            return 0;
        }
        let (cycles, _) = self.bring(line);
        self.write_l2(line);
        cycles
    }

    /// Finds a line below the L1 and fills L2 and L3: its latency, and whether it is dirty for the
    /// L1.
    fn bring(&mut self, line: u64) -> (u64, bool) {
        if self.l2.holds(line) {
            self.l2.touch(line);
            self.use_injected(|naive| naive.l2.get(line));
            let gone = self.l2_inclusion() == Inclusion::Exclusive;
            let dirty = gone && self.l2.take(line).unwrap().dirty;
            return (10, dirty);
        }
        if let Some(found) = self.other.take(line) {
            self.injected.used += u64::from(found.injected);
            self.fill_l3(line);
            return (70, self.fill_l2(line, found.dirty));
        }
        if self.l3.as_ref().is_some_and(|l3| l3.holds(line)) {
            self.use_injected(|naive| naive.l3.as_mut().unwrap().get(line));
            let l3 = self.l3.as_mut().unwrap();
            l3.touch(line);
            let gone = self.machine.caches.l3.as_ref().unwrap().inclusion == Inclusion::Exclusive;
            let dirty = gone && l3.take(line).unwrap().dirty;
            return (40, self.fill_l2(line, dirty));
        }
        self.reads += 1;
        self.fill_l3(line);
        (200, self.fill_l2(line, false))
    }

    fn use_injected(&mut self, find: impl Fn(&mut Naive) -> Option<&mut NaiveLine>) {
        if std::mem::take(&mut find(self).unwrap().injected) {
            self.injected.used += 1;
        }
    }

    fn fill_l3(&mut self, line: u64) {
        use Inclusion::{Inclusive, None as Alone};
        if matches!(self.l3_inclusion(), Some(Inclusive | Alone)) {
            let l3 = self.l3.as_mut().unwrap();
            if !l3.holds(line) {
                let clean = NaiveLine {
                    line,
                    ..NaiveLine::default()
                };
                let evicted = l3.put(clean);
                self.out_of_l3(evicted);
            }
        }
    }

    fn fill_l2(&mut self, line: u64, dirty: bool) -> bool {
        use Inclusion::{Inclusive, None as Alone};
        if !matches!(self.l2_inclusion(), Inclusive | Alone) {
            return dirty;
        }
        self.put_l2(NaiveLine {
            line,
            dirty,
            injected: false,
        });
        false
    }

    fn put_l2(&mut self, mut line: NaiveLine) {
        if line.dirty && self.machine.caches.l2.write == WritePolicy::Through {
            self.write_l3(line.line);
            line.dirty = false;
        }
        let evicted = self.l2.put(line);
        self.out_of_l2(evicted);
    }

    fn out_of_l1(&mut self, evicted: Option<NaiveLine>) {
        let Some(mut line) = evicted else { return };
        if self.l1_through() {
            line.dirty = false;
        }
        if matches!(
            self.l2_inclusion(),
            Inclusion::Exclusive | Inclusion::Victim
        ) {
            match self.l2.get(line.line) {
                Some(below) => {
                    below.dirty |= line.dirty;
                    self.l2.touch(line.line);
                }
                None => self.put_l2(line),
            }
        } else if line.dirty {
            self.write_l2(line.line);
        }
    }

    fn out_of_l1s(&mut self, line: u64) -> bool {
        let instructions = self.l1i.take(line).is_some_and(|line| line.dirty);
        let data = self.l1d.take(line).is_some_and(|line| line.dirty);
        (instructions || data) && !self.l1_through()
    }

    fn out_of_l2(&mut self, evicted: Option<NaiveLine>) {
        let Some(mut line) = evicted else { return };
        if self.l2_inclusion() == Inclusion::Inclusive {
            line.dirty |= self.out_of_l1s(line.line);
        } else if self.l1_through()
            && let Some(above) = self.l1d.get(line.line)
        {
            above.dirty = false;
        }
        self.lower_to_l3(line);
    }

    fn lower_to_l3(&mut self, mut line: NaiveLine) {
        let has = self.l3.as_ref().is_some_and(|l3| l3.holds(line.line));
        match self.l3_inclusion() {
            Some(Inclusion::Exclusive | Inclusion::Victim) => {
                self.injected.demoted += u64::from(line.injected);
                let through = line.dirty && self.l3_through();
                line.dirty &= !through;
                if has {
                    let l3 = self.l3.as_mut().unwrap();
                    let below = l3.get(line.line).unwrap();
                    below.dirty |= line.dirty;
                    below.injected |= line.injected;
                    l3.touch(line.line);
                } else {
                    let evicted = self.l3.as_mut().unwrap().put(line);
                    self.out_of_l3(evicted);
                }
                self.write_backs += u64::from(through);
            }
            Some(_) if has => {
                self.injected.demoted += u64::from(line.injected);
                let below = self.l3.as_mut().unwrap().get(line.line).unwrap();
                below.injected |= line.injected;
                if line.dirty {
                    self.write_l3(line.line);
                }
            }
            _ => self.out_of_caches(line),
        }
    }

    fn out_of_l3(&mut self, evicted: Option<NaiveLine>) {
        let Some(mut line) = evicted else { return };
        if self.l3_inclusion() == Some(Inclusion::Inclusive) {
            line.dirty |= self.out_of_l1s(line.line);
            let above = [self.l2.take(line.line), self.other.take(line.line)];
            for copy in above.into_iter().flatten() {
                line.dirty |= copy.dirty;
                line.injected |= copy.injected;
            }
        }
        self.out_of_caches(line);
    }

    fn out_of_caches(&mut self, line: NaiveLine) {
        self.injected.evicted += u64::from(line.injected);
        self.write_backs += u64::from(line.dirty);
    }

    fn write_l2(&mut self, line: u64) {
        let back = self.machine.caches.l2.write == WritePolicy::Back;
        match self.l2.get(line) {
            Some(found) if back => found.dirty = true,
            _ => self.write_l3(line),
        }
    }

    fn write_l3(&mut self, line: u64) {
        let through = self.l3_through();
        match self.l3.as_mut().and_then(|l3| l3.get(line)) {
            Some(found) if !through => found.dirty = true,
            _ => self.write_backs += 1,
        }
    }

    /// A line leaves all caches, since the adapter writes it: whether a copy was dirty.
    fn out_of_all(&mut self, line: u64) -> bool {
        let mut dirty = self.out_of_l1s(line);
        let l3 = self.l3.as_mut().and_then(|l3| l3.take(line));
        let copies = [self.l2.take(line), self.other.take(line), l3];
        let mut injected = false;
        for copy in copies.into_iter().flatten() {
            dirty |= copy.dirty;
            injected |= copy.injected;
        }
        self.injected.overwritten += u64::from(injected);
        dirty
    }

    fn write(&mut self, address: u64, length: u64, target: InjectTarget, mode: WriteMode) {
        let mut line = address / LINE * LINE;
        while length > 0 && line < address + length {
            let whole = address <= line && line + LINE <= address + length;
            let dirty = self.out_of_all(line);
            if whole {
                self.write_line(line, target, mode);
            } else {
                self.write_backs += u64::from(dirty);
                self.adapter_writes += 1;
            }
            line += LINE;
        }
    }

    fn write_line(&mut self, line: u64, target: InjectTarget, mode: WriteMode) {
        let mut injected = NaiveLine {
            line,
            dirty: mode == WriteMode::Dirty,
            injected: true,
        };
        let mut to_memory = mode == WriteMode::Clean;
        match target {
            InjectTarget::L2 { core: 0 } => {
                self.injected.l2 += 1;
                self.fill_l3(line);
                self.put_l2(injected);
            }
            InjectTarget::L2 { core: 1 } => {
                self.injected.other_core += 1;
                self.fill_l3(line);
                if let Some(evicted) = self.other.put(injected) {
                    self.lower_to_l3(evicted);
                }
            }
            InjectTarget::L3 if self.l3.is_some() => {
                self.injected.l3 += 1;
                to_memory |= self.l3_through();
                injected.dirty &= !self.l3_through();
                let evicted = self.l3.as_mut().unwrap().put(injected);
                self.out_of_l3(evicted);
            }
            _ => {
                self.injected.memory += 1;
                to_memory = true;
            }
        }
        self.adapter_writes += u64::from(to_memory);
    }
}

/// Something that happens to a memory.
#[derive(Debug, Clone)]
enum Step {
    Load {
        address: u64,
        size: u32,
    },
    Store {
        address: u64,
        size: u32,
    },
    Fetch {
        address: u64,
        size: u32,
    },
    Write {
        address: u64,
        length: u64,
        target: InjectTarget,
        mode: WriteMode,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let address = 0..LINES * LINE;
    let at = (address.clone(), 1_u32..33);
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
        6 => at.clone().prop_map(|(address, size)| Step::Load { address, size }),
        4 => at.clone().prop_map(|(address, size)| Step::Store { address, size }),
        2 => at.prop_map(|(address, size)| Step::Fetch { address, size }),
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
    let inclusion = || {
        prop_oneof![
            Just("inclusive"),
            Just("exclusive"),
            Just("victim"),
            Just("none")
        ]
    };
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

/// [`small`], without the L3 unless a setting describes one.
fn machine_of(settings: &[String]) -> Machine {
    let mut machine = small(&settings.iter().map(String::as_str).collect::<Vec<_>>());
    if !settings.iter().any(|s| s.starts_with("caches.l3")) {
        machine.caches.l3 = None;
    }
    machine
}

fn contents(cache: &Cache) -> Vec<NaiveLine> {
    let mut lines: Vec<_> = cache
        .lines()
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
        Step::Load { address, size } => memory.load(now, address, size),
        Step::Store { address, size } => memory.store(now, address, size),
        Step::Fetch { address, size } => memory.fetch(now, address, size),
        Step::Write {
            address,
            length,
            target,
            mode,
        } => {
            memory.adapter_write(SimTime(0), address, length, target, mode);
            return 0;
        }
    };
    stall.cycles()
}

impl Naive {
    fn step(&mut self, step: &Step) -> u64 {
        let (address, size) = match *step {
            Step::Write {
                address,
                length,
                target,
                mode,
            } => {
                self.merging = None;
                self.write(address, length, target, mode);
                return 0;
            }
            Step::Load { address, size }
            | Step::Store { address, size }
            | Step::Fetch { address, size } => (address, u64::from(size)),
        };
        let first = address / LINE * LINE;
        let last = (address + size - 1) / LINE * LINE;
        let is_store = matches!(step, Step::Store { .. });
        if is_store && first == last && self.merging == Some(first) {
            return 0;
        }
        let mut cycles = 0;
        for line in [first, last]
            .into_iter()
            .take(1 + usize::from(first != last))
        {
            cycles += self.access(line, step);
        }
        // Any access that is more than another use of the line that its set used last ends it; the
        // caller corrects for those.
        let starts = is_store && self.l1_through() && cycles > 0;
        self.merging = starts.then_some(last);
        cycles
    }

    fn check(&self, memory: &NodeMemory) -> Result<(), TestCaseError> {
        let levels = &memory.levels;
        prop_assert_eq!(contents(&levels.l1i.cache), self.l1i.contents());
        prop_assert_eq!(contents(&levels.l1d.cache), self.l1d.contents());
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
    let mut count = |cache: &Cache| there += cache.lines().filter(|e| e & INJECTED != 0).count();
    count(&levels.l1d.cache);
    count(&levels.l2.cache);
    levels.l3.iter().for_each(|l3| count(&l3.cache));
    levels.others.iter().flatten().for_each(count);
    let Injections {
        l2,
        other_core,
        l3,
        used,
        evicted,
        overwritten,
        ..
    } = memory.counts().injected;
    prop_assert_eq!(
        l2 + other_core + l3,
        used + evicted + overwritten + there as u64
    );
    Ok(())
}

/// What inclusion promises.
fn check_inclusion(memory: &NodeMemory) -> Result<(), TestCaseError> {
    let levels = &memory.levels;
    let above = |cache: &Cache| cache.lines().map(|e| e & !FLAGS).collect::<Vec<_>>();
    let l1s = [above(&levels.l1i.cache), above(&levels.l1d.cache)].concat();
    if levels.l2.inclusion == Inclusion::Inclusive {
        prop_assert!(l1s.iter().all(|line| levels.l2.cache.holds(*line)));
    }
    let Some(l3) = &levels.l3 else {
        return Ok(());
    };
    let l2 = above(&levels.l2.cache);
    match l3.inclusion {
        Inclusion::Inclusive => {
            let all = [l1s, l2].concat();
            prop_assert!(all.iter().all(|line| l3.cache.holds(*line)));
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
        let Counts { prefetched, memory_reads, .. } = *memory.counts();
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
    let marked = |cache: &Cache| cache.lines().filter(|e| e & PREFETCHED != 0).count();
    assert_eq!(marked(&memory.levels.l1d.cache), 1);
    assert!(marked(&memory.levels.l2.cache) >= 2);
}

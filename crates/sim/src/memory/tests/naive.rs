//! A naive model of the caches and of injection, for `reference`.
//!
//! It keeps lines in plain lists with the moment of their last use, and PLRU trees as maps from
//! ranges of ways, and shares no code with the caches. Its rules are those of the heads of
//! `hierarchy` and `inject`; its latencies are those of `super::SMALL`.

use std::collections::BTreeMap;

use super::LINE;
use crate::machine::{
    CacheParameters, Inclusion, L1Parameters, Replacement, SimulatedMachine, WriteMode, WritePolicy,
};
use crate::memory::{AccessKind, InjectTarget, Injections};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NaiveLine {
    pub(super) line: u64,
    pub(super) dirty: bool,
    pub(super) injected: bool,
}

/// A cache as a list of its ways.
pub(super) struct NaiveCache {
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
        let found =
            |way: &usize| self.lines.get(&(set, *way)).is_some_and(|(found, _)| found.line == line);
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
            return (0..self.ways).min_by_key(|way| self.lines[&(set, *way)].1).unwrap();
        }
        let (mut low, mut high) = (0, self.ways.next_power_of_two());
        while high - low > 1 {
            let middle = (low + high) / 2;
            let upper = self.upper.get(&(set, low, high)).is_some_and(|&upper| upper);
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

    pub(super) fn contents(&self) -> Vec<NaiveLine> {
        let mut lines: Vec<_> = self.lines.values().map(|(line, _)| *line).collect();
        lines.sort();
        lines
    }
}

pub(super) struct Naive {
    pub(super) machine: SimulatedMachine,
    pub(super) l1i: NaiveCache,
    pub(super) l1d: NaiveCache,
    pub(super) l2: NaiveCache,
    pub(super) l3: Option<NaiveCache>,
    pub(super) other: NaiveCache,
    /// The line of a store that others merge with.
    pub(super) merging: Option<u64>,
    pub(super) reads: u64,
    pub(super) write_backs: u64,
    pub(super) adapter_writes: u64,
    pub(super) injected: Injections,
}

impl Naive {
    pub(super) fn new(machine: &SimulatedMachine) -> Naive {
        let caches = &machine.caches;
        let l1 = |l1: &L1Parameters| NaiveCache::new(l1.size_kib, l1.ways, l1.replacement);
        let level = |level: &CacheParameters| {
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

    pub(super) fn l1_through(&self) -> bool {
        self.machine.caches.l1d.write == WritePolicy::Through
    }

    fn l3_through(&self) -> bool {
        let l3 = self.machine.caches.l3.as_ref();
        l3.is_some_and(|l3| l3.write == WritePolicy::Through)
    }

    /// Cycles of an access to one line.
    pub(super) fn access(&mut self, kind: AccessKind, line: u64) -> u64 {
        let is_store = kind == AccessKind::Store;
        if is_store && self.l1_through() {
            return self.store_through(line);
        }
        let fetches = kind == AccessKind::Fetch;
        let l1 = if fetches { &mut self.l1i } else { &mut self.l1d };
        let mut cycles = 0;
        if l1.holds(line) {
            l1.touch(line);
        } else {
            let (latency, dirty) = self.bring(line);
            cycles = latency;
            let l1 = if fetches { &mut self.l1i } else { &mut self.l1d };
            let evicted = l1.put(NaiveLine { line, dirty, injected: false });
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
            return (10, gone && self.l2.take(line).unwrap().dirty);
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
                let evicted = l3.put(NaiveLine { line, ..NaiveLine::default() });
                self.out_of_l3(evicted);
            }
        }
    }

    fn fill_l2(&mut self, line: u64, dirty: bool) -> bool {
        use Inclusion::{Inclusive, None as Alone};
        if !matches!(self.l2_inclusion(), Inclusive | Alone) {
            return dirty;
        }
        self.put_l2(NaiveLine { line, dirty, injected: false });
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
        if matches!(self.l2_inclusion(), Inclusion::Exclusive | Inclusion::Victim) {
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
                self.l3.as_mut().unwrap().get(line.line).unwrap().injected |= line.injected;
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

    pub(super) fn write(
        &mut self,
        address: u64,
        length: u64,
        target: InjectTarget,
        mode: WriteMode,
    ) {
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
        let mut injected = NaiveLine { line, dirty: mode == WriteMode::Dirty, injected: true };
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

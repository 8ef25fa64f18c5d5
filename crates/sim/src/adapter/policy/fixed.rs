//! The fixed policies as data, and where they place a payload.

use crate::machine::SimulatedMachine;
use crate::memory::InjectTarget;

/// Where events go, and where payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FixedPolicy {
    /// Of events.
    pub header: HeaderRule,
    /// Of payload.
    pub payload: PayloadRule,
}

/// Where events go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HeaderRule {
    /// To memory.
    Memory,
    /// To the L2 of the core that runs the program.
    L2,
}

/// Where payload goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PayloadRule {
    /// To memory.
    Memory,
    /// That of preposted receives to the L3.
    Preposted,
    /// That of unexpected messages to the L3.
    Unexpected,
    /// All to the L3.
    All,
    /// To the L2 if the process waits, else to memory.
    OnWait,
    /// Each line to the cache that has it already.
    InCache,
    /// To L2, L3 or memory by its size.
    BySize,
    /// The first lines to the L2, the rest to memory.
    FirstPart,
    /// To the L2 of this core.
    ToCore(u32),
    /// To the L2 if the program has hinted the receive, else to memory.
    Hinted,
}

/// What a policy knows of a message whose payload is to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Incoming {
    /// Address of the buffer.
    pub address: u64,
    /// Bytes that will be written.
    pub bytes: u64,
    /// Whether message or receive was first.
    pub kind: MatchKind,
    /// The process waits for an event.
    pub is_awaited: bool,
    /// The program has said that it will use the payload at once.
    pub is_hinted: bool,
}

/// Whether message or receive was first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchKind {
    /// The receive was posted before the message came.
    Preposted,
    /// The message came first.
    Unexpected,
}

/// Bytes that go to one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlacedBytes {
    /// How many.
    pub bytes: u64,
    /// Where they go.
    pub target: InjectTarget,
}

/// Lines that the adapter has written, by where they went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WrittenLines {
    /// To L2s.
    pub l2: u64,
    /// To the L3.
    pub l3: u64,
    /// To memory.
    pub memory: u64,
}

/// The L2 of the core that runs the program.
const OWN_L2: InjectTarget = InjectTarget::L2 { core: 0 };
/// Part of the L2 for a message by `size-dependent`: most of the program's working set stays.
const SIZE_DEPENDENT_L2_PART: u64 = 8;
/// Part of the L2 for the first lines of a message by `first-part`: the prefetcher has found the
/// stream and is ahead of the program by their end.
const FIRST_PART_OF_L2: u64 = 256;

/// Sizes of the caches in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheSizes {
    /// A line.
    pub line: u64,
    /// The L2 of a core.
    pub l2: u64,
    /// The L3, if there is one.
    pub l3: Option<u64>,
}

impl CacheSizes {
    /// Those of a machine.
    pub fn of(machine: &SimulatedMachine) -> CacheSizes {
        let caches = &machine.caches;
        CacheSizes {
            line: u64::from(caches.line),
            l2: caches.l2.size_kib << 10,
            l3: caches.l3.as_ref().map(|l3| l3.size_kib << 10),
        }
    }

    /// Bytes of the cache that a target names; 0 if there is none.
    fn of_target(&self, target: InjectTarget) -> u64 {
        match target {
            InjectTarget::Memory => 0,
            InjectTarget::L2 { .. } => self.l2,
            InjectTarget::L3 => self.l3.unwrap_or(0),
        }
    }

    /// The first of `targets` of which `bytes` are at most half; else memory.
    fn first_with_room(&self, bytes: u64, targets: &[InjectTarget]) -> InjectTarget {
        let has_room = |target: &&InjectTarget| bytes <= self.of_target(**target) / 2;
        targets.iter().find(has_room).copied().unwrap_or(InjectTarget::Memory)
    }

    /// Where payload for the L3 goes.
    fn for_l3(&self, bytes: u64) -> InjectTarget {
        match self.l3 {
            Some(_) => self.first_with_room(bytes, &[InjectTarget::L3]),
            None => self.first_with_room(bytes, &[OWN_L2]),
        }
    }

    /// Where payload for the L2 of a core goes.
    fn for_l2(&self, bytes: u64, core: u32) -> InjectTarget {
        self.first_with_room(bytes, &[InjectTarget::L2 { core }, InjectTarget::L3])
    }
}

impl FixedPolicy {
    /// Everything to memory.
    pub const BASE: FixedPolicy =
        FixedPolicy { header: HeaderRule::Memory, payload: PayloadRule::Memory };

    /// Where an event goes.
    pub fn event(&self) -> InjectTarget {
        match self.header {
            HeaderRule::Memory => InjectTarget::Memory,
            HeaderRule::L2 => OWN_L2,
        }
    }

    /// Where a payload goes, from its first byte to its last. `holds` says whether a cache has the
    /// line of an address.
    pub fn payload(
        &self,
        incoming: &Incoming,
        caches: &CacheSizes,
        holds: impl Fn(u64, InjectTarget) -> bool,
    ) -> Vec<PlacedBytes> {
        let bytes = incoming.bytes;
        if bytes == 0 {
            return Vec::new();
        }
        let if_so = |holds: bool, target: InjectTarget| match holds {
            true => target,
            false => InjectTarget::Memory,
        };
        let target = match self.payload {
            PayloadRule::Memory => InjectTarget::Memory,
            PayloadRule::All => caches.for_l3(bytes),
            PayloadRule::Preposted => {
                if_so(incoming.kind == MatchKind::Preposted, caches.for_l3(bytes))
            }
            PayloadRule::Unexpected => {
                if_so(incoming.kind == MatchKind::Unexpected, caches.for_l3(bytes))
            }
            PayloadRule::OnWait => if_so(incoming.is_awaited, caches.for_l2(bytes, 0)),
            PayloadRule::Hinted => if_so(incoming.is_hinted, caches.for_l2(bytes, 0)),
            PayloadRule::ToCore(core) => caches.for_l2(bytes, core),
            PayloadRule::BySize if bytes <= caches.l2 / SIZE_DEPENDENT_L2_PART => OWN_L2,
            PayloadRule::BySize => caches.first_with_room(bytes, &[InjectTarget::L3]),
            PayloadRule::InCache => return lines_in_caches(incoming, caches, holds),
            PayloadRule::FirstPart => return first_part(incoming, caches),
        };
        vec![PlacedBytes { bytes, target }]
    }
}

/// The first lines to the L2, the rest to memory.
fn first_part(incoming: &Incoming, caches: &CacheSizes) -> Vec<PlacedBytes> {
    let part = (caches.l2 / FIRST_PART_OF_L2).max(caches.line);
    // To the end of a line, so that the last is whole.
    let end = (incoming.address + part) / caches.line * caches.line;
    let first = (end - incoming.address).min(incoming.bytes);
    let mut runs = vec![PlacedBytes { bytes: first, target: OWN_L2 }];
    append(&mut runs, incoming.bytes - first, InjectTarget::Memory);
    runs
}

/// Each line to the cache that has it, until half of this cache is taken.
fn lines_in_caches(
    incoming: &Incoming,
    caches: &CacheSizes,
    holds: impl Fn(u64, InjectTarget) -> bool,
) -> Vec<PlacedBytes> {
    let mut runs = Vec::new();
    let mut room = [OWN_L2, InjectTarget::L3].map(|cache| (cache, caches.of_target(cache) / 2));
    let end = incoming.address + incoming.bytes;
    let mut address = incoming.address;
    while address < end {
        let next = (address / caches.line + 1) * caches.line;
        let bytes = next.min(end) - address;
        let mut cached = room.iter_mut();
        let cached = cached.find(|(cache, room)| *room >= caches.line && holds(address, *cache));
        let target = cached.map_or(InjectTarget::Memory, |(cache, room)| {
            *room -= caches.line;
            *cache
        });
        append(&mut runs, bytes, target);
        address += bytes;
    }
    runs
}

/// Appends bytes to the last run, if they go to the same place, or as a new one.
fn append(runs: &mut Vec<PlacedBytes>, bytes: u64, target: InjectTarget) {
    match runs.last_mut() {
        Some(last) if last.target == target => last.bytes += bytes,
        _ if bytes == 0 => {}
        _ => runs.push(PlacedBytes { bytes, target }),
    }
}

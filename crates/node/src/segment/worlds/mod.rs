//! The worlds of a job segment: the processes that the job was started with, and those that were
//! started since (`MPI_Comm_spawn`; MPI 5.0, 11.8).
//!
//! The ranks of all worlds are numbered in one row. The first world has the numbers from 0 on; the
//! segment has address space for [more](JobSegment::capacity), and a world that is started takes a
//! run of them. So a spawned process is to its peers a rank like any other: rings, cells, direct
//! copies and areas reach it.
//!
//! | who | writes | when |
//! |---|---|---|
//! | the launcher of a world | its entry, then `generation` and `state` (Release) | at its start |
//! | the launcher of a world | `state` | at its end |
//! | any launcher | zeros over the ranks' memory, then `state` | once no process is connected |
//! | a rank | the worlds that it is connected with, in its block | with each new communicator |
//!
//! Launchers exclude each other by a record lock on the segment's file, which ends with its holder.
//! A run of numbers is given away again when all its processes have ended and no living process is
//! [connected](JobSegment::set_connected) with them: what they sent last may be unread before. Each
//! world has another generation; a rank that meets a new one forgets what it knew of the former
//! holders of its numbers.

mod start;
pub(super) mod table;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use super::block::RankState;
use super::{JobSegment, RankBlock};
use crate::ring::first_position;
use crate::topology::CorePlace;
use table::{ENDED, LIVE, WorldEntry, WorldTable};

pub use table::WORLDS;

/// A world of the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct World {
    /// Its number among the worlds.
    pub index: u32,
    /// The number of its first rank in the job.
    pub first: u32,
    /// How many ranks it has.
    pub count: u32,
    /// Distinguishes the worlds that have had these ranks; 0: the world the job started with.
    pub generation: u32,
    /// The process that started its ranks.
    pub launcher: u32,
    /// Who spawned it.
    pub parent: Option<ParentPort>,
}

/// Where the process that spawned a world expects the world's first rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParentPort {
    /// Rank of that process in the job.
    pub rank: u32,
    /// Tag of the messages.
    pub tag: u32,
}

/// A world to be started.
#[derive(Debug, Clone, Copy)]
pub struct WorldSpec<'a> {
    /// Where each rank runs; its length is the number of ranks.
    pub places: &'a [CorePlace],
    /// Program section of each rank; 0 for ranks beyond the list.
    pub appnum: &'a [u32],
    /// Who spawns it.
    pub parent: ParentPort,
}

impl World {
    /// Whether the rank is in it.
    pub fn contains(&self, rank: u32) -> bool {
        rank.checked_sub(self.first).is_some_and(|at| at < self.count)
    }

    /// Its ranks.
    pub fn ranks(&self) -> Range<u32> {
        self.first..self.first + self.count
    }
}

impl WorldEntry {
    /// Its words, as the world of this number.
    fn read(&self, index: usize) -> World {
        let load = |word: &AtomicU32| word.load(Ordering::Relaxed);
        let parent = load(&self.parent).checked_sub(1);
        World {
            index: index as u32,
            first: load(&self.first),
            count: load(&self.count),
            generation: load(&self.generation),
            launcher: load(&self.launcher),
            parent: parent.map(|rank| ParentPort { rank, tag: load(&self.port) }),
        }
    }
}

#[cfg(feature = "launcher")]
impl WorldTable {
    /// The spawned worlds whose ranks run, in a copy of the table. Nothing in it is trusted: only
    /// worlds whose ranks are numbers of `spare`.
    pub(in crate::segment) fn spawned(&self, spare: Range<u32>) -> Vec<World> {
        let running = |entry: &&WorldEntry| entry.state.load(Ordering::Relaxed) == LIVE;
        let entries = self.entries.iter().enumerate().skip(1);
        let worlds = entries.filter(|(_, e)| running(e)).map(|(index, entry)| entry.read(index));
        let fits = |world: &World| {
            let end = world.first.checked_add(world.count);
            world.first >= spare.start && end.is_some_and(|end| end <= spare.end)
        };
        worlds.filter(fits).collect()
    }
}

impl RankBlock {
    /// Lists an open port, whose tag is not 0. False if the rank has too many.
    pub fn open_port(&self, tag: u32) -> bool {
        let free = |port: &AtomicU32| {
            port.compare_exchange(0, tag, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        };
        self.connections.ports.iter().any(free)
    }

    /// Removes a port from the list. False if it is not there.
    pub fn close_port(&self, tag: u32) -> bool {
        let close = |port: &AtomicU32| {
            port.compare_exchange(tag, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        };
        self.connections.ports.iter().any(close)
    }

    fn has_open_port(&self, tag: u32) -> bool {
        self.connections.ports.iter().any(|port| port.load(Ordering::Relaxed) == tag)
    }

    fn connected(&self) -> u64 {
        // Relaxed: a launcher looks again, and gives no number away that another launcher might
        // still be told of, since a world that ends has been connected before.
        self.connections.worlds.load(Ordering::Relaxed)
    }
}

impl JobSegment {
    /// The ranks that the segment has room for, those of the job's start included. Numbers of ranks
    /// are below this, also in a job on several nodes.
    pub fn capacity(&self) -> u32 {
        self.header().job_size + self.header().spare
    }

    fn table(&self) -> &WorldTable {
        // SAFETY: in the mapping, page-aligned, allocated and zeroed by `create`; zeros are a valid
        // table, which is only accessed through its atomics.
        unsafe { &*self.at(self.geometry.worlds()).cast::<WorldTable>() }
    }

    /// Enters the world that the job starts with. To be called once, by the creator of the segment.
    pub(super) fn enter_first_world(&self, count: u32, launcher: u32) {
        let entry = &self.table().entries[0];
        entry.count.store(count, Ordering::Relaxed);
        entry.launcher.store(launcher, Ordering::Relaxed);
        // SYNC world
        entry.state.store(LIVE, Ordering::Release);
    }

    pub(super) fn services_are_there(&self) -> bool {
        // SYNC services: pairs with the Release below.
        self.table().head.services.load(Ordering::Acquire) == 1
    }

    pub(super) fn service_lock(&self) -> &AtomicU32 {
        &self.table().head.service_lock
    }

    /// To be called when the table of services has been allocated.
    pub(super) fn announce_services(&self) {
        // SYNC services
        self.table().head.services.store(1, Ordering::Release);
    }

    /// Whether a rank of this node has this port open.
    pub fn is_open_port(&self, rank: u32, tag: u32) -> bool {
        let is_there = self.is_member(rank) && self.world_of(rank).is_some();
        is_there && tag != 0 && self.block(rank).has_open_port(tag)
    }

    /// The world of an entry that is in one of these states.
    fn world_in(&self, index: usize, states: &[u32]) -> Option<World> {
        let entry = &self.table().entries[index];
        loop {
            let generation = entry.generation.load(Ordering::Relaxed);
            // SYNC world: pairs with the Release stores; the entry and the ranks' memory are there
            // before.
            if !states.contains(&entry.state.load(Ordering::Acquire)) {
                return None;
            }
            let world = World { generation, ..entry.read(index) };
            // SYNC entry: pairs with the fence in `begin_world`. A reader of a word of the next
            // world sees its generation here.
            fence(Ordering::Acquire);
            if entry.generation.load(Ordering::Relaxed) == generation {
                return Some(world);
            }
        }
    }

    /// The worlds whose ranks run.
    pub fn worlds(&self) -> impl Iterator<Item = World> + '_ {
        (0..WORLDS).filter_map(|index| self.world_in(index, &[LIVE]))
    }

    /// The worlds whose numbers are not free.
    fn kept_worlds(&self) -> impl Iterator<Item = World> + '_ {
        (0..WORLDS).filter_map(|index| self.world_in(index, &[LIVE, ENDED]))
    }

    /// The world of a rank of this node. `None` if the number is free.
    pub fn world_of(&self, rank: u32) -> Option<World> {
        if self.header().spare == 0 {
            // Ranks of several nodes are not one row.
            let first = self.world_in(0, &[LIVE])?;
            return Some(World { count: self.job_size(), ..first });
        }
        self.kept_worlds().find(|world| world.contains(rank))
    }

    /// The position that the rings from a rank begin with.
    pub fn first_position_of(&self, rank: u32) -> u32 {
        first_position(self.world_of(rank).map_or(0, |world| world.generation))
    }

    /// The ranks of this node whose control data are there: those of all worlds.
    pub fn occupied(&self) -> impl Iterator<Item = u32> + '_ {
        let spawned = self.worlds().filter(|world| world.index > 0);
        self.members().iter().copied().chain(spawned.flat_map(|world| world.ranks()))
    }

    /// Generation of the world that was started last; 0 if none was since the start of the job.
    pub fn generation(&self) -> u32 {
        // SYNC generation: pairs with the Release in `begin_world`: a reader of it finds the entry.
        self.table().head.generation.load(Ordering::Acquire)
    }

    /// Announces the worlds that rank `me` is connected with, by number: its launcher ends it if
    /// one of them fails, and their ranks' numbers stay theirs.
    pub fn set_connected(&self, me: u32, worlds: u64) {
        self.block(me).connections.worlds.store(worlds, Ordering::Relaxed);
    }

    /// The ranks of this node that rank `me` may wait for: of its world, and of the worlds that it
    /// is connected with.
    pub fn partners_of(&self, me: u32) -> Vec<u32> {
        let connected = self.block(me).connected();
        let is_partner = |world: &World| world.contains(me) || connected >> world.index & 1 == 1;
        match self.generation() {
            0 => self.members().to_vec(),
            _ => self.kept_worlds().filter(is_partner).flat_map(|world| world.ranks()).collect(),
        }
    }

    /// The worlds that are connected with world `index`, by themselves or through others; it is one
    /// of them.
    pub fn connected_with(&self, index: u32) -> u64 {
        let worlds: Vec<World> = self.kept_worlds().collect();
        let direct = |world: &World| {
            let mask = world.ranks().fold(0, |mask, rank| mask | self.block(rank).connected());
            mask | 1 << world.index
        };
        let masks: Vec<u64> = worlds.iter().map(direct).collect();
        let mut all = 1_u64 << index;
        loop {
            let more = masks.iter().filter(|&&mask| mask & all != 0).fold(all, |all, m| all | m);
            if more == all {
                return all;
            }
            all = more;
        }
    }

    /// A rank that was lost, of a world that is connected with world `index` and not that world
    /// itself: its process was killed, or it has aborted the job.
    pub fn lost_peer_of(&self, index: u32) -> Option<u32> {
        let all = self.connected_with(index);
        let mut others = self.kept_worlds().filter(|w| w.index != index && all >> w.index & 1 == 1);
        others.find_map(|world| world.ranks().find(|&rank| self.is_lost(rank)))
    }

    fn is_lost(&self, rank: u32) -> bool {
        matches!(self.rank_state(rank), RankState::Aborted { .. }) || self.is_gone(rank)
    }
}

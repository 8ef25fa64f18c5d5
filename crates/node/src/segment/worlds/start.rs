//! The start and the end of worlds, by their launchers.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{Ordering, fence};

use super::table::{ENDED, FREE, LIVE, WORLDS};
use super::{World, WorldSpec};
use crate::process_stat::exists;
use crate::segment::block::GivenLine;
use crate::segment::{JobSegment, RankBlock, SegmentError};

impl JobSegment {
    /// Starts a world: takes a run of free numbers for it, and allocates and fills their control
    /// data.
    ///
    /// # Errors
    /// When no run of numbers is free, or memory cannot be had.
    pub fn begin_world(&self, spec: &WorldSpec<'_>) -> Result<World, SegmentError> {
        let _lock = RecordLock::take(self)?;
        self.end_abandoned();
        self.reclaim();
        let count = spec.places.len() as u32;
        let index = (1..WORLDS).find(|&index| self.world_in(index, &[LIVE, ENDED]).is_none());
        let (Some(index), Some(first)) = (index, self.free_run(count)) else {
            return Err(SegmentError::NoRoom {
                wanted: count,
                spare: self.header().spare,
                taken: self.kept_worlds().skip(1).map(|world| world.count).sum(),
            });
        };
        let (start, end) = (self.geometry.block(first), self.geometry.block(first + count));
        self.allocate(start, end - start)?;
        for (at, rank) in (first..first + count).enumerate() {
            let block = self.at(self.geometry.block(rank)).cast::<RankBlock>();
            let given = GivenLine {
                place: spec.places[at],
                appnum: spec.appnum.get(at).copied().unwrap_or(0),
                rank,
            };
            // SAFETY: allocated above and zeroed; no process reads the line before the entry's
            // state says that the world is there.
            unsafe { (&raw mut (*block).given).write(given) };
        }
        let head = &self.table().head;
        let generation = head.generation.load(Ordering::Relaxed).wrapping_add(1).max(1);
        let entry = &self.table().entries[index];
        entry.generation.store(generation, Ordering::Relaxed);
        // SYNC entry: a reader that sees one of the words below sees that the entry is another's.
        fence(Ordering::Release);
        for (word, value) in [
            (&entry.first, first),
            (&entry.count, count),
            (&entry.launcher, std::process::id()),
            (&entry.parent, spec.parent.rank + 1),
            (&entry.port, spec.parent.tag),
        ] {
            word.store(value, Ordering::Relaxed);
        }
        // SYNC world
        entry.state.store(LIVE, Ordering::Release);
        // SYNC generation
        head.generation.store(generation, Ordering::Release);
        Ok(self.world_in(index, &[LIVE]).expect("just entered"))
    }

    /// Ends a world, all of whose processes have ended. Its numbers become free when no process is
    /// connected with them.
    ///
    /// # Errors
    /// When the lock cannot be had.
    pub fn end_world(&self, index: u32) -> Result<(), SegmentError> {
        let _lock = RecordLock::take(self)?;
        self.table().entries[index as usize].state.store(ENDED, Ordering::Relaxed);
        self.reclaim();
        Ok(())
    }

    /// The first of `count` numbers that no world has.
    fn free_run(&self, count: u32) -> Option<u32> {
        let mut worlds: Vec<World> = self.kept_worlds().collect();
        worlds.sort_by_key(|world| world.first);
        let mut first = self.job_size();
        for world in worlds {
            if world.first >= first && world.first - first >= count {
                break;
            }
            first = first.max(world.first + world.count);
        }
        let end = first.checked_add(count)?;
        (count > 0 && end <= self.capacity()).then_some(first)
    }

    /// Ends the worlds whose launcher was killed, and their processes with it.
    fn end_abandoned(&self) {
        for world in self.worlds().filter(|world| world.index > 0) {
            if !exists(world.launcher) && !world.ranks().any(|rank| self.is_running(rank)) {
                let entry = &self.table().entries[world.index as usize];
                // Relaxed: as in `end_world`.
                entry.state.store(ENDED, Ordering::Relaxed);
            }
        }
    }

    /// Frees the numbers of worlds that have ended and that no living process is connected with.
    fn reclaim(&self) {
        let mut connected = 0;
        for rank in self.occupied() {
            if self.is_running(rank) {
                connected |= self.block(rank).connected();
            }
        }
        for index in 1..WORLDS {
            let Some(world) = self.world_in(index, &[ENDED]) else { continue };
            if connected >> index & 1 == 0 && world.ranks().all(|rank| self.reset(rank).is_ok()) {
                // Relaxed: only who holds the lock looks for free entries.
                self.table().entries[index].state.store(FREE, Ordering::Relaxed);
            }
        }
    }

    /// Makes all memory of a rank that has ended as it was when the segment was created.
    fn reset(&self, rank: u32) -> io::Result<()> {
        let g = &self.geometry;
        let ranks = g.ranks;
        let mut parts = vec![
            (g.block(rank), g.block(rank + 1)),
            (g.cell(rank, 0), g.cell(rank + 1, 0)),
            (g.splits(rank), g.splits(rank + 1)),
            (g.pair(rank, 0), g.pair(rank + 1, 0)),
            (g.late(rank), g.late(rank + 1)),
            (g.report(rank), g.report(rank + 1)),
        ];
        parts.extend((0..ranks).map(|from| (g.pair(from, rank), g.pair(from, rank + 1))));
        for (start, end) in parts {
            self.punch_any(start as u64, (end - start) as u64)?;
        }
        if self.has_slots() {
            self.release_areas_of(rank).map_err(io::Error::other)?;
            let (slots, windows) = (g.slot(rank, 0), g.window_zone(rank));
            self.punch_any(slots, g.slot(rank + 1, 0) - slots)?;
            self.punch_any(windows, g.window_zone(rank + 1) - windows)?;
        }
        self.forget_services_of(rank);
        for receiver in self.occupied().filter(|&receiver| receiver != rank) {
            let bits = self.new_sender_bits(receiver);
            // SYNC new-sender: the receiver opens a ring at a bit that appears, and forgets one
            // that it has opened when it meets the next holder of the number.
            bits[rank as usize / 64].fetch_and(!(1 << (rank % 64)), Ordering::AcqRel);
        }
        Ok(())
    }
}

/// Excludes other launchers of worlds.
struct RecordLock<'a>(&'a JobSegment);

impl<'a> RecordLock<'a> {
    fn take(segment: &'a JobSegment) -> Result<RecordLock<'a>, SegmentError> {
        let lock = RecordLock(segment);
        match lock.set(libc::F_WRLCK) {
            Ok(()) => Ok(lock),
            Err(source) => Err(SegmentError::System { call: "fcntl", bytes: 1, source }),
        }
    }

    fn set(&self, kind: libc::c_int) -> io::Result<()> {
        loop {
            // SAFETY: all-zero bytes are a valid flock.
            let mut lock: libc::flock = unsafe { std::mem::zeroed() };
            (lock.l_type, lock.l_whence, lock.l_len) =
                (kind as libc::c_short, libc::SEEK_SET as libc::c_short, 1);
            // SAFETY: reads `lock` only.
            if unsafe { libc::fcntl(self.0.fd.as_raw_fd(), libc::F_SETLKW, &lock) } == 0 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }
}

impl Drop for RecordLock<'_> {
    fn drop(&mut self) {
        // Nothing can be done about an error; the end of this process frees the lock as well.
        let _ = self.set(libc::F_UNLCK);
    }
}

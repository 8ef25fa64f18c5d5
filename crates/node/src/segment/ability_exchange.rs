//! Publishing [abilities](super::ability) and settings in a rank's block, and waiting for those of
//! others.

use std::sync::atomic::{AtomicU32, Ordering, fence};

use super::ability::*;
use super::{JobSegment, RankBlock};
use crate::park::Fencing;

impl RankBlock {
    /// Publishes this rank's abilities. To be called after all limits have been
    /// [noted](Self::note_limit).
    fn publish_abilities(&self, abilities: &Abilities) {
        let line = &self.abilities;
        let flag = |is_on: bool, flag: u32| if is_on { flag } else { 0 };
        let flags = flag(abilities.mapped, MAPPED)
            | flag(abilities.xpmem, XPMEM)
            | flag(abilities.cma, CMA);
        line.abilities.store(flags, Ordering::Relaxed);
        line.costs.store(abilities.costs, Ordering::Relaxed);
        // SYNC abilities: pairs with the Acquire load in `abilities`. No read-modify-write is
        // needed: only the rank writes here.
        line.published.store(SETTINGS | ABILITIES, Ordering::Release);
    }

    /// The rank's abilities; `None` until it has published them.
    pub fn abilities(&self) -> Option<Abilities> {
        let line = &self.abilities;
        // SYNC abilities
        if line.published.load(Ordering::Acquire) & ABILITIES == 0 {
            return None;
        }
        let flags = line.abilities.load(Ordering::Relaxed);
        Some(Abilities {
            mapped: flags & MAPPED != 0,
            xpmem: flags & XPMEM != 0,
            cma: flags & CMA != 0,
            costs: line.costs.load(Ordering::Relaxed),
        })
    }

    fn publish_settings(&self, settings: &AlikeSettings) {
        for (to, &value) in self.abilities.settings.iter().zip(&settings.0) {
            to.store(value, Ordering::Relaxed);
        }
        // SYNC settings: pairs with the Acquire load in `settings`.
        self.abilities.published.store(SETTINGS, Ordering::Release);
    }

    fn settings(&self) -> Option<AlikeSettings> {
        // SYNC settings
        let is_there = self.abilities.published.load(Ordering::Acquire) & SETTINGS != 0;
        let value = |i: usize| self.abilities.settings[i].load(Ordering::Relaxed);
        is_there.then(|| AlikeSettings(std::array::from_fn(value)))
    }

    /// Records, for reports, why a back end does not work for this rank.
    pub fn note_limit(&self, means: Means, limit: Limit) {
        // Relaxed: the word orders nothing else.
        self.abilities.limits[means as usize].store(limit.to_word(), Ordering::Relaxed);
    }

    /// Why a back end does not work for the rank, as far as it has recorded.
    pub fn limit(&self, means: Means) -> Option<Limit> {
        Limit::from_word(self.abilities.limits[means as usize].load(Ordering::Relaxed))
    }

    /// A text of what limits the rank's node groups; empty if nothing does. It omits missing XPMEM,
    /// which is the usual case, and what MICA_DIRECT disables.
    pub fn limits_in_words(&self) -> String {
        let say = |(means, name)| match self.limit(means) {
            None | Some(Limit::SwitchedOff) => None,
            Some(limit) => Some(format!("{name}: {limit}")),
        };
        let all = [
            (Means::Mapped, "mapped"),
            (Means::Cma, "cma"),
            (Means::Window, "a window in shared memory"),
        ];
        let said: Vec<String> = all.into_iter().filter_map(say).collect();
        said.join("; ")
    }
}

impl JobSegment {
    /// Publishes the settings of rank `me`, and compares them with those that other ranks of this
    /// node have published.
    ///
    /// # Errors
    /// The first difference. Of two ranks that differ, at least one gets the error.
    pub fn agree_on_settings(
        &self,
        me: u32,
        settings: &AlikeSettings,
    ) -> Result<(), Box<Difference>> {
        self.block(me).publish_settings(settings);
        // SYNC settings: of two ranks that publish at once, at least one sees the other's settings,
        // since both fence between their store and their loads.
        fence(Ordering::SeqCst);
        let others = self.occupied().filter(|&rank| rank != me);
        let mut differences = others.filter_map(|rank| {
            let theirs = self.block(rank).settings()?;
            settings.difference(me, &theirs, rank)
        });
        differences.next().map_or(Ok(()), |d| Err(Box::new(d)))
    }

    /// Publishes the abilities of rank `me`, and wakes the ranks that wait for them.
    pub fn publish_abilities(&self, me: u32, abilities: &Abilities, fencing: Fencing) {
        self.block(me).publish_abilities(abilities);
        // SYNC awaits: pairs with the fence in `AbilityWait::poll`. Either this rank sees who waits
        // for it, or the waiting rank sees the abilities.
        fence(Ordering::SeqCst);
        for member in self.occupied() {
            let block = self.block(member);
            let awaited = block.abilities.awaits.load(Ordering::Relaxed);
            if awaited == me + 1 || awaited == ANY_RANK {
                block.parking.0.wake(fencing);
            }
        }
    }

    /// Waits for the common abilities of `members`, ranks of this node, in rank `me`.
    pub fn await_abilities<'a>(&'a self, me: u32, members: &'a [u32]) -> AbilityWait<'a> {
        AbilityWait {
            segment: self,
            awaits: &self.block(me).abilities.awaits,
            members,
            left: members.len(),
            announced: NO_RANK,
        }
    }
}

/// A rank's wait for the abilities of others, by one thread. It waits for one rank after the other,
/// the last first: ranks start in order, so that most waiting ranks are woken once.
#[derive(Debug)]
pub struct AbilityWait<'a> {
    segment: &'a JobSegment,
    /// The announcement of this rank.
    awaits: &'a AtomicU32,
    members: &'a [u32],
    /// Members up to this one may not have published yet.
    left: usize,
    /// What this thread has announced.
    announced: u32,
}

impl AbilityWait<'_> {
    /// The common abilities, once all members have published theirs. While it returns `None`, the
    /// rank is woken by the member that it found missing.
    pub fn poll(&mut self) -> Option<CommonAbilities> {
        while let Some(&member) = self.members[..self.left].last() {
            let block = self.segment.block(member);
            if block.abilities().is_none() {
                self.announce(member + 1);
                // SYNC awaits
                fence(Ordering::SeqCst);
                block.abilities()?;
            }
            self.left -= 1;
        }
        self.announce(NO_RANK);
        let abilities = |&rank: &u32| self.segment.block(rank).abilities();
        Some(Abilities::meet(self.members.iter().filter_map(abilities)))
    }

    fn announce(&mut self, awaited: u32) {
        if awaited == self.announced {
            return;
        }
        // Relaxed: the fences order it. Another thread's announcement stays in force.
        let mine = self.announced;
        let set = |now| (now == mine || now == NO_RANK).then_some(awaited);
        let relaxed = Ordering::Relaxed;
        if self.awaits.fetch_update(relaxed, relaxed, set).is_ok() {
            self.announced = awaited;
        } else if awaited != NO_RANK {
            self.awaits.store(ANY_RANK, relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Abilities = Abilities { mapped: false, xpmem: false, cma: true, costs: 0 };

    fn segment(ranks: usize) -> JobSegment {
        let places = vec![crate::topology::CorePlace::UNKNOWN; ranks];
        let spec = crate::segment::JobSpec::on_one_node(&places, 2, &[]);
        JobSegment::create(&spec).expect("segment")
    }

    fn awaited(segment: &JobSegment, rank: u32) -> u32 {
        segment.block(rank).abilities.awaits.load(Ordering::Relaxed)
    }

    #[test]
    fn waits_for_one_member_after_the_other_and_then_for_none() {
        let segment = segment(4);
        let members = [3, 0, 2];
        let mut wait = segment.await_abilities(0, &members);
        segment.publish_abilities(0, &NONE, Fencing::Sender);
        assert!(wait.poll().is_none());
        assert_eq!(awaited(&segment, 0), 2 + 1);
        segment.publish_abilities(2, &NONE, Fencing::Sender);
        assert!(wait.poll().is_none());
        assert_eq!(awaited(&segment, 0), 3 + 1);
        segment.publish_abilities(3, &NONE, Fencing::Sender);
        assert!(wait.poll().is_some_and(|common| common.cma && !common.windows));
        assert_eq!(awaited(&segment, 0), NO_RANK);
    }

    #[test]
    fn two_threads_that_wait_for_different_ranks_are_woken_by_all() {
        let segment = segment(3);
        let mut waits = [1, 2].map(|peer| (peer, [0, peer]));
        let [mut a, mut b] = waits.each_mut().map(|(_, m)| segment.await_abilities(0, &*m));
        segment.publish_abilities(0, &NONE, Fencing::Sender);
        assert!(a.poll().is_none() && b.poll().is_none());
        assert_eq!(awaited(&segment, 0), ANY_RANK);
        segment.publish_abilities(1, &NONE, Fencing::Sender);
        assert!(a.poll().is_some() && b.poll().is_none());
        assert_eq!(awaited(&segment, 0), ANY_RANK, "b still waits");
        segment.publish_abilities(2, &NONE, Fencing::Sender);
        assert!(b.poll().is_some());
    }

    /// Ranks that publish and wait at the same time all get through, and sleep no wake-up away.
    #[test]
    fn every_rank_is_woken_by_the_last_to_publish() {
        for _ in 0..50 {
            let segment = segment(6);
            let members: Vec<u32> = (0..6).collect();
            std::thread::scope(|scope| {
                for rank in 0..6 {
                    let (segment, members) = (&segment, &members);
                    scope.spawn(move || {
                        segment.publish_abilities(rank, &NONE, Fencing::Sender);
                        let mut wait = segment.await_abilities(rank, members);
                        let spot = &segment.block(rank).parking.0;
                        while wait.poll().is_none() {
                            spot.park(Fencing::Sender, None, || wait.poll().is_some());
                        }
                    });
                }
            });
        }
    }
}

//! Active target synchronization (MPI 5.0, 12.5.1 and 12.5.2): fence; post, start, complete, wait.
//!
//! Operations are complete when they return, so a fence is a barrier, and complete tells the
//! targets by a count each (jiang-2004, 3.3.3). Start does not block: the first operation on a
//! target waits until that has posted. A short put is left to the target instead, if the origin may
//! run ahead of it ([`mica_node::window::ExposureBoard`]), and complete does not wait then either.
//! Targets that share no memory learn it by messages; a fence
//! waits first until the operations on them are done.

use mica_memory::RegionRef;
use mica_node::window::{BUFFERED_PUT, BufferedPut};
use mica_protocol::{Engine, EngineState, Pending, WaitKind, WaitList};

use crate::epoch::{AccessEpoch, EpochGroup, EpochMembers, Epochs, wrong_epoch};
use crate::memory::access::{AllTargets, TargetAccess};
use crate::memory::target::{TargetBytes, TargetMemory, WindowTarget};
use crate::window::object::Window;
use mica_collective::{exchange, execute, intranode};
use mica_objects::constants as c;
use mica_objects::error::{Error, Result};
use mica_objects::group::Group;
use mica_objects::process;

/// All assertions that MPI defines. Those that a call does not know are ignored, as hints are.
const ASSERTIONS: i32 =
    c::MODE_NOCHECK | c::MODE_NOPRECEDE | c::MODE_NOPUT | c::MODE_NOSTORE | c::MODE_NOSUCCEED;

/// What `MPI_Win_wait` waits for, in hang reports.
const AWAITS_ORIGINS: &str = "the origins of MPI_Win_post to complete";

pub(crate) fn check_assertions(assertions: i32) -> Result<()> {
    if assertions & !ASSERTIONS == 0 {
        return Ok(());
    }
    let reason = "only MPI_MODE_* may be combined here";
    Err(Error::argument(c::ERR_ASSERT, "assert", format_args!("{assertions:#x}"), reason))
}

impl Window {
    /// `MPI_Win_fence`. Blocks until all ranks of the window have called it.
    ///
    /// # Errors
    /// `MPI_ERR_ASSERT`; `MPI_ERR_RMA_SYNC` in another epoch.
    pub fn fence(&self, assertions: i32) -> Result<()> {
        check_assertions(assertions)?;
        let (access, open) = match assertions & c::MODE_NOSUCCEED {
            0 => (AccessEpoch::Fence { has_operations: false }, AllTargets::Ready),
            _ => (AccessEpoch::None, AllTargets::Closed),
        };
        {
            let mut epochs = self.epochs();
            if let Some(barrier) = epochs.begun_fence.take() {
                drop(epochs);
                return self.close_on_error(barrier.end(&self.0.members));
            }
            if !matches!(epochs.access, AccessEpoch::None | AccessEpoch::Fence { .. }) {
                let described = epochs.describe();
                return Err(wrong_epoch(format!("{described}; end it before a fence")));
            }
            if epochs.is_exposed {
                let detail = "the window is exposed by MPI_Win_post; call MPI_Win_wait first";
                return Err(wrong_epoch(detail.to_owned()));
            }
            // Before the ranks meet: no thread of this one may operate until the fence has ended.
            epochs.access = access;
            self.0.flags.set_all(open);
        }
        let flushed = self.flush_remote();
        self.close_on_error(self.meet()).and(flushed)
    }

    /// Closes the epoch of a fence in which the ranks have not met.
    fn close_on_error(&self, met: Result<()>) -> Result<()> {
        if met.is_err() {
            self.epochs().access = AccessEpoch::None;
            self.0.flags.set_all(AllTargets::Closed);
        }
        met
    }

    /// Blocks until the operations by messages are done. Where all ranks meet afterwards, this rank
    /// meets them first and raises the error then, so that none of them waits for it forever.
    pub(crate) fn flush_remote(&self) -> Result<()> {
        match &self.0.remote {
            Some(remote) => remote.flush(&self.remote_targets()),
            None => Ok(()),
        }
    }

    /// Returns when all ranks of the window have called it. What they have written to window memory
    /// before is visible then.
    pub(crate) fn meet(&self) -> Result<()> {
        let members = &self.0.members;
        match intranode::fast_path::barrier(members) {
            Some(met) => met,
            None => execute::run(members, &mica_collective::barrier(members)?),
        }
    }

    /// As [`meet`](Self::meet), for the last time. Ranks that have not met in a fence meet by
    /// messages: to make and free the memory in which ranks of a node meet takes ten times as long
    /// as the window does.
    pub(crate) fn meet_last(&self) -> Result<()> {
        match self.0.members.known_local() {
            Some(_) => self.meet(),
            None => exchange::barrier(&self.0.members),
        }
    }

    /// `MPI_Win_start`. Does not block.
    ///
    /// # Errors
    /// `MPI_ERR_ASSERT`; `MPI_ERR_GROUP` when members are not in the window; `MPI_ERR_RMA_SYNC` in
    /// another access epoch.
    pub fn start(&self, group: &Group, assertions: i32) -> Result<()> {
        check_assertions(assertions)?;
        let mut epochs = self.epochs();
        epochs.must_not_access("end it before MPI_Win_start")?;
        self.name_group(&mut epochs.targets, group)?;
        for &target in &epochs.targets.members.others {
            self.remote().start(target);
        }
        self.begin_access(&mut epochs);
        Ok(())
    }

    /// Begins the access epoch of a start at `epochs.targets`.
    #[inline(always)]
    pub(crate) fn begin_access(&self, epochs: &mut Epochs) {
        self.0.flags.set_all(AllTargets::Closed);
        let Epochs { counts, targets, .. } = epochs;
        // The first operation looks for the post.
        debug_assert!(!targets.members.ranks.iter().any(|&target| self.is_open(target)));
        counts.with(|counts| counts.start(&targets.members.numbers));
        epochs.access = AccessEpoch::Start;
    }

    /// `MPI_Win_complete`. Blocks until all targets have posted; those that share memory with this
    /// rank, the epoch before this one at least.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC` without a start. Those of operations, after which the epoch has ended
    /// nevertheless.
    pub fn complete(&self) -> Result<()> {
        let engine = process::engine()?;
        let targets = {
            let epochs = &mut *self.epochs();
            if self.complete_at_once(engine, epochs).is_some() {
                return Ok(());
            }
            if epochs.access != AccessEpoch::Start {
                let detail = "MPI_Win_start has not been called";
                return Err(wrong_epoch(detail.to_owned()));
            }
            epochs.targets.members.clone()
        };
        await_posts(self, &targets.ranks, AwaitedPost::MayRunAhead)?;
        let mut ended = Ok(());
        if let Some(remote) = &self.0.remote {
            // Those that share counts with this rank do not see in which order requests come.
            let shared = |&target: &usize| self.0.targets[target].number.is_some();
            let by_messages = self.remote_among(&targets.ranks);
            let by_messages: Vec<_> = by_messages.into_iter().filter(shared).collect();
            ended = remote.flush(&by_messages);
            for &target in &targets.others {
                ended = ended.and(remote.complete(target));
            }
        }
        let epochs = &mut *self.epochs();
        // Else another thread has ended it.
        if epochs.access == AccessEpoch::Start {
            self.end_access(engine, epochs);
        }
        ended
    }

    /// Ends the access epoch of a start if it needs to wait for no target. `None`: nothing was
    /// done.
    #[inline(always)]
    pub(crate) fn complete_at_once(&self, engine: &Engine, epochs: &mut Epochs) -> Option<()> {
        (epochs.access == AccessEpoch::Start && self.0.remote.is_none()).then_some(())?;
        for &target in &epochs.targets.members.numbers {
            epochs.counts.with(|counts| counts.may_run_ahead(target)).then_some(())?;
        }
        self.end_access(engine, epochs);
        Some(())
    }

    /// Ends the access epoch of a start at the targets that share memory with this rank.
    #[inline(always)]
    fn end_access(&self, engine: &Engine, epochs: &mut Epochs) {
        let Epochs { counts, targets, .. } = epochs;
        for &target in &targets.members.ranks {
            self.0.targets[target].flag.set(TargetAccess::Closed);
        }
        let wake = self.0.node_peers.waker(engine);
        counts.with(|counts| counts.complete(&targets.members.numbers, wake));
        epochs.access = AccessEpoch::None;
    }

    /// `MPI_Win_post`. Does not block.
    ///
    /// # Errors
    /// As [`start`](Self::start), for the exposure epoch.
    pub fn post(&self, group: &Group, assertions: i32) -> Result<()> {
        check_assertions(assertions)?;
        let engine = process::engine()?;
        let mut epochs = self.epochs();
        if epochs.is_exposed {
            let detail = "the window is exposed already; call MPI_Win_wait first";
            return Err(wrong_epoch(detail.to_owned()));
        }
        if epochs.access == (AccessEpoch::Fence { has_operations: true }) {
            let detail = "the epoch of a fence is open; end it by a fence with MPI_MODE_NOSUCCEED";
            return Err(wrong_epoch(detail.to_owned()));
        }
        self.name_group(&mut epochs.origins, group)?;
        let mut others = epochs.origins.members.others.clone().into_iter();
        self.expose(engine, &mut epochs);
        drop(epochs);
        others.try_for_each(|origin| self.remote().post(origin))
    }

    /// Begins the exposure epoch of a post, for those of `epochs.origins` that share memory with
    /// this rank.
    #[inline(always)]
    pub(crate) fn expose(&self, engine: &Engine, epochs: &mut Epochs) {
        let Epochs { counts, origins, .. } = epochs;
        let wake = self.0.node_peers.waker(engine);
        counts.with(|counts| counts.post(&origins.members.numbers, wake));
        epochs.is_exposed = true;
    }

    /// `MPI_Win_wait`. Blocks until all origins have completed.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC` without a post.
    pub fn wait(&self) -> Result<()> {
        self.must_be_exposed()?;
        if self.end_exposure() {
            return Ok(());
        }
        process::engine()?.watch(
            |_, list: &mut WaitList| list.add(self.pending(AWAITS_ORIGINS)),
            || self.end_exposure().then_some(()),
        )?;
        Ok(())
    }

    /// `MPI_Win_test`: whether all origins have completed; the exposure epoch has ended then. A
    /// program that knows that they have, from a barrier for instance, may call it just once.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn test(&self) -> Result<bool> {
        let poll = process::begin_poll()?;
        self.must_be_exposed()?;
        let ended = poll.try_once(
            |state, arrived| {
                *arrived = state.progress_on_all()?;
                Ok(self.end_exposure().then_some(()))
            },
            |_, list| list.add(self.pending(AWAITS_ORIGINS)),
        )?;
        Ok(ended.is_some())
    }

    fn must_be_exposed(&self) -> Result<()> {
        match self.epochs().is_exposed {
            true => Ok(()),
            false => Err(wrong_epoch("MPI_Win_post has not been called".to_owned())),
        }
    }

    /// Ends the exposure epoch if all its origins have completed.
    fn end_exposure(&self) -> bool {
        self.end_exposure_of(&mut self.epochs())
    }

    /// As [`end_exposure`](Self::end_exposure), of these epochs.
    #[inline(always)]
    pub(crate) fn end_exposure_of(&self, epochs: &mut Epochs) -> bool {
        if !epochs.is_exposed {
            return true; // another thread has ended it
        }
        let Epochs { counts, origins, .. } = epochs;
        let EpochMembers { numbers, others, .. } = &origins.members;
        let is_complete = counts.with(|counts| numbers.iter().all(|&n| counts.is_complete(n)))
            && others.iter().all(|&origin| self.remote().is_complete(origin));
        if is_complete {
            for &origin in numbers {
                if let Some(put) = counts.with(|counts| counts.take_completion(origin)) {
                    self.carry_out(&put);
                }
            }
            epochs.is_exposed = false;
        }
        is_complete
    }

    /// Carries out a put that an origin has left to this rank in the epoch that ends.
    #[inline(always)]
    fn carry_out(&self, put: &BufferedPut) {
        let own = &self.0.targets[self.0.members.rank()];
        let TargetMemory::Mapped(region) = &own.memory else {
            unreachable!("origins reach the memory of {self} by loads and stores");
        };
        // Inside of the region, as the origin has checked.
        region.at(put.offset as usize).write_bytes(&put.data[..put.bytes]);
    }

    /// A short put in an epoch of `MPI_Win_start`, to a target that has not posted yet: leaves it
    /// to the target. `None` if nothing was done.
    #[inline(always)]
    pub(crate) fn put_before_post(
        &self,
        epochs: &mut Epochs,
        target: &WindowTarget,
        origin: RegionRef<'_>,
        to: TargetBytes,
    ) -> Option<()> {
        (1..=BUFFERED_PUT).contains(&to.bytes).then_some(())?;
        let number = target.number?;
        matches!(target.memory, TargetMemory::Mapped(_)).then_some(())?;
        let offset = target.locate(to.disp, 0, to.bytes)? as u64;
        let mut put = BufferedPut { offset, bytes: to.bytes, data: [0; BUFFERED_PUT] };
        origin.read_bytes(&mut put.data[..to.bytes]);
        epochs.counts.with(|counts| counts.buffer_put(number, &put)).then_some(())?;
        self.count(to);
        Some(())
    }

    /// What this rank waits for, in hang reports.
    pub(crate) fn pending(&self, what: &str) -> Pending {
        Pending { name: Some(format!("{what}, in {self}").into()), ..Pending::of(WaitKind::Window) }
    }

    /// Makes `group` that of an epoch, `named`.
    fn name_group(&self, named: &mut EpochGroup, group: &Group) -> Result<()> {
        if named.is(group) {
            return Ok(());
        }
        let ranks = group.peers().map(|peer| self.0.members.rank_of(peer));
        let ranks: Vec<usize> = ranks.collect::<Option<_>>().ok_or_else(|| {
            let value = format!("a group of {}", group.size());
            let reason = format!("not all of its members are in {self}");
            Error::argument(c::ERR_GROUP, "group", value, reason)
        })?;
        let number = |&rank: &usize| self.0.targets[rank].number;
        let others = ranks.iter().filter(|rank| number(rank).is_none());
        let members = EpochMembers {
            numbers: ranks.iter().filter_map(number).collect(),
            others: others.copied().collect(),
            ranks,
        };
        named.set(group, members);
        Ok(())
    }
}

/// Which post of a target is awaited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AwaitedPost {
    /// That of the epoch: its memory is to be accessed.
    OfEpoch,
    /// The one before is enough, where memory is shared: the epoch is to be completed.
    MayRunAhead,
}

/// Returns when all of `targets`, for which an epoch was started, have posted. Blocks.
pub(crate) fn await_posts(window: &Window, targets: &[usize], post: AwaitedPost) -> Result<()> {
    let posted = || {
        let mut epochs = window.epochs();
        let is_posted = |&target: &usize| match window.0.targets[target].number {
            Some(number) => epochs.counts.with(|counts| match post {
                AwaitedPost::OfEpoch => counts.is_posted(number),
                AwaitedPost::MayRunAhead => counts.may_run_ahead(number),
            }),
            None => window.remote().is_posted(target),
        };
        targets.iter().all(is_posted).then_some(())
    };
    if posted().is_some() {
        return Ok(());
    }
    // Put into words only where it is asked for: the post is mostly there before.
    let waiting = |_: &EngineState, list: &mut WaitList| {
        list.add(match targets {
            [target] => window.pending(&format!("rank {target} to post")),
            _ => window.pending("the targets of MPI_Win_start to post"),
        });
    };
    process::engine()?.watch(waiting, posted)?;
    Ok(())
}

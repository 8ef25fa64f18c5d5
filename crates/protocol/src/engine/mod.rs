//! The engine of a process: its state behind a lock, and the operations that threads call on it.
//!
//! | call | what it does with the lock |
//! |---|---|
//! | [`enter`](Engine::enter) | takes it, runs a closure on the [`EngineState`], gives it back |
//! | [`drive`](Engine::drive) | enters again and again, makes progress, and waits |
//! | [`watch`](Engine::watch) | makes progress inside, and polls the caller's condition outside |
//!
//! An engine is [started](Engine::start) by `MPI_Init` or the first session: it joins the job,
//! opens its channels and publishes what peers must know. [`finish`](Engine::finish) flushes what
//! is queued and takes this rank out of the job; [`resume`](Engine::resume) takes it in again for a
//! later session.
//!
//! **Threads.** The lock is a mutex only while several threads may be inside: under
//! `MPI_THREAD_MULTIPLE`, or with a progress thread. Otherwise the program's promise
//! ([`OneThreadAtATime`]) elides it, and a message takes no atomic operation for it. The thread
//! that releases the lock wakes the threads that wait for what has completed ([`completions`]).
//!
//! **Cost.** A blocking send of a short message is one call of `enter` and no wait; a blocking
//! receive first polls its sender's ring without posting itself, `receive_polls` times. The
//! instructions of both are counted (`tests/instructions.txt`).
//!
//! [`state`] says which part of the state each room writes, [`wait`](crate::wait) how a thread
//! waits, [`progress`] what one iteration does. Called by the `mpi` layer alone.

pub(crate) mod completions;
pub(crate) mod events;
pub(crate) mod fault;
pub(crate) mod network_record;
pub(crate) mod polling;
pub(crate) mod progress;
pub(crate) mod progress_thread;
pub(crate) mod progress_wakeup;
pub(crate) mod start;
pub(crate) mod state;

pub(crate) use completions::{
    CompletionActions, CompletionNotes, CompletionReports, NOTIFY_WAITERS,
};
pub(crate) use events::{EngineEventKind, report};
pub(crate) use fault::Fault;
pub(crate) use state::EngineState;

use crate::adapter::operations::Injection;
use crate::engine::completions::WAKE_PROGRESS_THREAD;
use crate::engine::progress_wakeup::ProgressWakeup;
use crate::matching::{MatchPattern, UnexpectedCounts};
use crate::pt2pt::{
    FastReceive, Overlong, ReceiveCompletion, RecvId, SendCompletion, SendId, StartedReceive,
};
use crate::wait::pending::{HangReporter, Pending, QueuedMessage, WaitList};
use crate::wait::policy::{CoreYields, WaitPolicy};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mica_bootstrap::{NodeMap, ProcessManager};
use mica_channel::direct::PeerAccess;
use mica_channel::shm::NodeTraffic;
use mica_memory::View;
use mica_node::area::Area;
use mica_node::counters::{Counter, CounterRef, Counters, LiveCounters, WindowCounterRef};
use mica_node::late::LateRecord;
use mica_node::lock::{OneThreadAtATime, ThreadLock, ThreadMode};
use mica_node::park::{Fencing, WakeSocket};
use mica_node::segment::{
    CommonAbilities, JobSegment, PollRecord, SegmentError, SegmentRef, WaitKind, World,
};
use mica_node::topology::CorePlace;
use mica_policy::collective::CollectiveCosts;

/// One rank's messages: sends, receives, progress and waiting. Any thread may call; how many at
/// once is settled by [`Engine::elide_lock`].
#[derive(Debug)]
pub struct Engine {
    pub(crate) state: ThreadLock<EngineState>,
    pub(crate) segment: Arc<JobSegment>,
    pub(crate) rank: u32,
    pub(crate) launched: bool,
    /// The processes that were started together with this one.
    pub(crate) world: World,
    /// The node of each rank.
    pub(crate) nodes: NodeMap,
    /// The launcher's services for the job's processes; `None` for a job on one node that was
    /// started by Mica's own launcher, and after `finish`.
    pub(crate) manager: Mutex<Option<Box<dyn ProcessManager>>>,
    /// Wakes this rank also while it waits for the network; empty as long as it has none.
    pub(crate) wake_socket: Option<WakeSocket>,
    /// Some ranks of the job are reached over a network.
    pub(crate) has_network: bool,
    /// A peer may be lost without the job ending: a rank that waits for long checks that its peers
    /// exist.
    pub(crate) watches_peers: bool,
    /// How a thread polls, yields and parks while it waits.
    pub(crate) wait: WaitPolicy,
    /// Polls of one peer's ring before a receive is posted; 0: it is always posted.
    pub(crate) receive_polls: AtomicU32,
    /// Threads that wait in `drive`; counted only where several may be inside.
    pub(crate) waiters: AtomicU32,
    /// Who fences where this rank parks.
    pub(crate) park_fencing: Fencing,
    /// How this rank orders its stores before it wakes others: the same, unless their membarriers
    /// do not reach it.
    pub(crate) wake_fencing: Fencing,
    /// Whether it pays for the waiting threads to yield.
    pub(crate) yields: CoreYields,
    /// This rank's failed polls.
    pub(crate) polls: SegmentRef<PollRecord>,
    /// State of hang reports.
    pub(crate) reporter: HangReporter,
    /// A copy engine is in use, which must know whether the program waits.
    pub(crate) offloads: bool,
    /// Makes progress for the program, where that was requested.
    pub(crate) progress_thread: Option<ProgressWakeup>,
    pub(crate) collectives: CollectiveMeans,
    /// The words in the job segment that this rank counts in.
    pub(crate) counters: CounterRef,
    /// Unexpected messages by context.
    pub(crate) unexpected: Arc<UnexpectedCounts>,
    /// Ranks of this node that use the network are not to share memory.
    pub(crate) node_traffic: NodeTraffic,
    /// An adapter matches, on a simulated node: this rank waits by its register.
    pub(crate) waits_for_adapter: bool,
}

/// What the collectives of the layer above use besides messages.
#[derive(Debug)]
pub(crate) struct CollectiveMeans {
    /// How they access peers' buffers.
    pub access: PeerAccess,
    /// What their algorithms are chosen by.
    pub costs: Arc<CollectiveCosts>,
}

impl Engine {
    /// Rank of this process in the job.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Rank of this process in its world.
    pub fn world_rank(&self) -> u32 {
        self.rank - self.world.first
    }

    /// Number of ranks of this process's world.
    pub fn size(&self) -> u32 {
        self.world.count
    }

    /// MPMD section of this rank; `None` for a program that was not started by `mpiexec`.
    pub fn appnum(&self) -> Option<u32> {
        self.launched.then(|| self.segment.appnum(self.rank))
    }

    /// Where a rank runs on its node; unknown for ranks of other nodes.
    pub fn place(&self, rank: u32) -> CorePlace {
        match self.segment.is_member(rank) {
            true => self.segment.place(rank),
            false => CorePlace::UNKNOWN,
        }
    }

    /// Number of the node that a rank is on.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn node_of(&self, rank: u32) -> u32 {
        // Processes that were started later are on the job's only node.
        self.nodes.of.get(rank as usize).copied().unwrap_or(0)
    }

    /// Number of nodes that the job is on.
    pub fn nodes(&self) -> u32 {
        self.nodes.count()
    }

    /// Name of a node: its host's name, with a suffix if several nodes are on one host.
    ///
    /// # Panics
    /// If there is no such node.
    pub fn node_name(&self, node: u32) -> &str {
        &self.nodes.names[node as usize]
    }

    /// Whether ranks outnumber cores.
    #[inline]
    pub fn shares_core(&self) -> bool {
        self.wait.shares_core
    }

    /// Number of cores that the job's ranks on this node may use.
    pub fn cores(&self) -> usize {
        self.segment.available_cores() as usize
    }

    /// How collectives access the buffers of peers on this node.
    pub fn peer_access(&self) -> &PeerAccess {
        &self.collectives.access
    }

    /// What the algorithms of collectives cost.
    pub fn collective_costs(&self) -> Arc<CollectiveCosts> {
        Arc::clone(&self.collectives.costs)
    }

    /// The common abilities of the `members` of a communicator on this node, of which this rank is
    /// one. Blocks until all of them have published theirs, in `MPI_Init` or when they opened their
    /// first session.
    ///
    /// # Errors
    /// When progress fails for lack of memory.
    pub fn common_abilities(
        &self,
        context: u64,
        members: &[u32],
    ) -> Result<CommonAbilities, Fault> {
        let waiting = |_: &EngineState, list: &mut WaitList| {
            list.add(Pending {
                context: Some(context),
                name: Some("the abilities of a communicator's ranks".into()),
                ..Pending::of(WaitKind::Collective)
            });
        };
        let mut wait = self.segment.await_abilities(self.rank, members);
        self.watch(waiting, || wait.poll())
    }

    /// The area that the `members` of a communicator on this node share; this rank is number `me`
    /// of them. `None`, for all members alike, if no area can be had.
    ///
    /// # Errors
    /// When this rank's part of it cannot be allocated.
    pub fn open_area(
        &self,
        context: u64,
        members: &[u32],
        me: usize,
    ) -> Result<Option<Area>, Fault> {
        if self.node_traffic == NodeTraffic::Network {
            return Ok(None);
        }
        Ok(Area::open(&self.segment, context, members, me)?)
    }

    /// Allows several threads inside at the same time.
    pub fn set_thread_multiple(&self) {
        self.state.share();
    }

    /// Removes the lock: the program has promised that only one thread at a time calls.
    pub fn elide_lock(&self, promise: OneThreadAtATime) {
        // The program's promise does not cover the progress thread.
        if self.progress_thread.is_none() {
            self.state.elide(promise);
        }
    }

    /// Whether several threads of this rank may be inside.
    pub fn thread_mode(&self) -> &ThreadMode {
        self.state.mode()
    }

    /// Runs `f` on the state, once.
    #[inline(always)]
    pub fn enter<R>(&self, f: impl FnOnce(&mut EngineState) -> R) -> R {
        let mut state = self.state.lock();
        let result = f(&mut state);
        if state.is_shared() {
            // Without other threads there is none to wake.
            let notifications = std::mem::take(&mut state.completions.notifications);
            drop(state);
            if notifications != 0 {
                self.notify(notifications);
            }
        }
        result
    }

    #[inline(never)]
    fn notify(&self, notifications: u8) {
        if notifications & NOTIFY_WAITERS != 0 {
            // Another thread of this rank may be asleep, waiting for what just completed.
            self.segment.block(self.rank).parking.0.wake(self.wake_fencing);
        }
        if notifications & WAKE_PROGRESS_THREAD != 0
            && let Some(thread) = &self.progress_thread
        {
            thread.wake();
        }
    }

    /// Sends, and returns when the buffer may be reused and, with `sync` (MPI's synchronous
    /// mode), the message is matched.
    /// Blocks.
    ///
    /// # Errors
    /// When memory for the message's path cannot be allocated.
    #[inline(always)]
    pub fn send(
        &self,
        peer: u32,
        context: u64,
        tag: i32,
        view: &View,
        completion: SendCompletion,
    ) -> Result<(), Fault> {
        // By value: the call of the closure then loads each argument once.
        match self.enter(move |state| state.send(peer, context, tag, view, completion))? {
            None => Ok(()),
            Some(id) => self.finish_send(id),
        }
    }

    /// The rest of a send that was started. If waiting fails, it goes on by itself. Blocks.
    ///
    /// # Errors
    /// When progress fails for lack of memory.
    #[inline(never)]
    pub fn finish_send(&self, id: SendId) -> Result<(), Fault> {
        self.drive(
            |state, list| list.add(state.pending_send(id)),
            |state| state.take_send(id).map(|_| ()),
        )
        .inspect_err(|_| self.enter(|state| state.abandon_send(id)))
    }

    /// Receives. Blocks.
    ///
    /// # Errors
    /// When progress fails for lack of memory.
    #[inline(always)]
    pub fn receive(&self, pattern: MatchPattern, view: &View) -> Result<ReceiveCompletion, Fault> {
        if let Some(source) = pattern.source
            && source != self.rank
        {
            for _ in 0..self.receive_polls.load(Ordering::Relaxed) {
                match self
                    .enter(|state| state.try_receive(&pattern, source, view, Overlong::Truncate))
                {
                    FastReceive::Received(completion) => return Ok(completion),
                    // The sender may be next in this core's run queue.
                    FastReceive::Nothing if self.wait.shares_core => {
                        if self.yields.lose_the_core() || self.yield_in_wait().took_long() {
                            break;
                        }
                    }
                    FastReceive::Nothing => std::hint::spin_loop(),
                    FastReceive::Busy => break,
                }
            }
        }
        self.receive_posted(pattern, view)
    }

    /// Starts a receive. It completes at once if its message is the next of its source and no other
    /// operation is in progress.
    ///
    /// # Errors
    /// When progress fails for lack of memory.
    #[inline]
    pub fn start_receive(
        &self,
        pattern: MatchPattern,
        view: &View,
    ) -> Result<StartedReceive, Fault> {
        self.enter(|state| {
            if let Some(source) = pattern.source
                && source != self.rank
                && self.receive_polls.load(Ordering::Relaxed) > 0
            {
                state.handle_packets_for_posted(source)?;
                if let FastReceive::Received(done) =
                    state.try_receive(&pattern, source, view, Overlong::Leave)
                {
                    return Ok(StartedReceive::Received(done));
                }
            }
            state.receive(pattern, view).map(StartedReceive::Posted)
        })
    }

    #[inline(never)]
    fn receive_posted(
        &self,
        pattern: MatchPattern,
        view: &View,
    ) -> Result<ReceiveCompletion, Fault> {
        let id = self.enter(|state| state.receive(pattern, view))?;
        self.finish_receive(id)
    }

    /// Waits for a receive that was started, and removes it. Blocks.
    ///
    /// # Errors
    /// When progress fails for lack of memory: then no message has arrived, and the buffer is the
    /// caller's again.
    pub fn finish_receive(&self, id: RecvId) -> Result<ReceiveCompletion, Fault> {
        loop {
            let received = self.drive(
                |state, list| list.add(state.pending_receive(id)),
                |state| state.take_received(id),
            );
            let Err(fault @ Fault::OutOfMemory { .. }) = received else {
                return received;
            };
            // The buffer is the caller's again, unless a message is arriving there.
            let ended = self.enter(|state| {
                state.cancel_receive(id);
                state.take_received(id)
            });
            if let Some(done) = ended {
                return if done.cancelled { Err(fault) } else { Ok(done) };
            }
        }
    }

    /// Calls `f`, which probes for a message that matches `pattern`, until it returns something.
    /// Blocks.
    ///
    /// # Errors
    /// When progress fails for lack of memory.
    pub fn probe<R>(
        &self,
        pattern: MatchPattern,
        f: impl FnMut(&mut EngineState) -> Option<R>,
    ) -> Result<R, Fault> {
        let waiting = |_: &EngineState, list: &mut WaitList| {
            list.add(Pending::matching(WaitKind::Probe, &pattern, None))
        };
        self.drive(waiting, f)
    }

    /// The values of this rank's counters.
    pub fn counters(&self) -> Counters {
        self.enter(|state| state.channels.publish_counters(&state.counters));
        self.counters.snapshot()
    }

    /// Sets a counter whose sum is kept above this layer.
    pub fn set_counter(&self, counter: Counter, value: u64) {
        self.counters.set(counter, value);
    }

    /// Whether every arrival is to be seen by the engine's handlers, which report it
    /// ([`enable_events`](crate::enable_events)): receives then do not take the fast path.
    pub fn observe_arrivals(&self, observe: bool) {
        let polls = if observe { 0 } else { self.wait.direct_polls };
        // Relaxed, here and where it is read: a receive at the same time may do either.
        self.receive_polls.store(polls, Ordering::Relaxed);
    }

    /// What this rank waits for, according to its record in the segment: a thread that is parked.
    pub fn parked_in(&self) -> Option<WaitKind> {
        let waiting = self.segment.block(self.rank).waiting();
        waiting.map(|(waiting, _)| waiting.kind)
    }

    /// The words in the job segment that this rank counts in, for operations that need no message:
    /// collectives on shared memory, and one-sided ones.
    pub fn live_counters(&self) -> CounterRef {
        self.counters.clone()
    }

    /// The first `count` messages of a context that have arrived and wait for their receives.
    #[cold]
    pub fn queued_messages(&self, context: u64, count: usize) -> Vec<QueuedMessage> {
        self.state.lock().queues.first_unexpected(Some(context), count)
    }

    /// Messages of a context that have arrived and wait for their receives. Takes no lock that a
    /// caller could hold.
    pub fn unexpected_of(&self, context: u64) -> u32 {
        self.unexpected.of(context)
    }

    /// The words in the job segment in which the window in `slot` counts; with `None`, a window
    /// without a slot.
    pub fn window_counters(&self, slot: Option<usize>) -> WindowCounterRef {
        LiveCounters::window_of(&self.segment, self.rank, slot)
    }

    /// Publishes this rank's record of late arrivals at collectives in the job segment.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn publish_late(&self, table: &LateRecord) -> Result<(), SegmentError> {
        self.segment.publish_late(self.rank, table)
    }

    /// Whether the program wants what it receives in `context` brought near the processor. Only the
    /// adapter of a simulated node knows what to do with that.
    pub fn hint_receives(&self, context: u64, hint: Injection) {
        if self.waits_for_adapter {
            self.enter(|state| state.hint_receives(context, hint));
        }
    }

    /// Marks a region of interest by the level of `MPI_Pcontrol`, where this process is simulated.
    pub fn mark(&self, level: i32) {
        if self.waits_for_adapter {
            self.enter(|state| {
                if let Some(matching) = state.channels.matching() {
                    matching.mark(level);
                }
            });
        }
    }

    /// Ends this rank's part in the job, unless it [resumes](Self::resume). To be called when all
    /// operations that it has started are complete. Blocks until all pending packets have left.
    ///
    /// # Errors
    /// When progress fails for lack of memory.
    pub fn finish(&self) -> Result<(), Fault> {
        match self.flush() {
            // A lost rank needs no packets any more; those for the others have left by now.
            Err(Fault::Lost { .. }) => {}
            end => end?,
        }
        self.enter(|state| state.rendezvous.offload.as_mut().map(|offload| offload.engine.close()));
        if let Some(mut manager) = self.manager().take() {
            // The job is over for this rank: an error of the launcher changes nothing.
            let _ = manager.finalize();
        }
        self.enter(|state| state.channels.publish_counters(&state.counters));
        self.segment.block(self.rank).finalize();
        Ok(())
    }

    /// Waits until all pending packets have left.
    fn flush(&self) -> Result<(), Fault> {
        self.drive(
            |_, list| {
                list.add(Pending {
                    name: Some("its packets to leave".into()),
                    ..Pending::of(WaitKind::Send)
                })
            },
            |state| state.is_flushed().then_some(()),
        )
    }

    /// Reports to the launcher whether this rank is between MPI_Init and MPI_Finalize.
    pub fn set_initialized(&self, inside: bool) {
        self.segment.block(self.rank).set_world(inside);
    }

    /// Takes part again after [`finish`](Self::finish).
    pub fn resume(&self) {
        self.segment.block(self.rank).resume();
    }

    /// If the job has a network, waits for all ranks through the launcher. To be called after the
    /// last synchronization of the job's ranks, so that no rank's exit cuts off packets that are
    /// still in flight to others. Blocks.
    ///
    /// # Errors
    /// When pending packets cannot be sent, or the launcher is gone.
    pub fn final_fence(&self) -> Result<(), Fault> {
        if !self.has_network {
            return Ok(());
        }
        self.flush()?;
        match self.manager().as_deref_mut() {
            None => Ok(()),
            Some(manager) => manager.fence().map_err(|e| Fault::Launcher { detail: e.to_string() }),
        }
    }

    fn manager(&self) -> MutexGuard<'_, Option<Box<dyn ProcessManager>>> {
        self.manager.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the whole job with error code `code`: the launcher sees this rank's exit, or gets a
    /// message, and ends the others.
    pub fn abort(&self, code: i32) -> ! {
        self.segment.block(self.rank).abort(code);
        // Does not wait for another thread's call to the launcher, which may never return.
        if let Ok(mut manager) = self.manager.try_lock()
            && let Some(manager) = manager.as_deref_mut()
        {
            let message = format!("MPI_Abort with code {code} by rank {}", self.rank);
            let _ = manager.abort(code, &message);
        }
        // An exit status has eight bits; 0 would read as success.
        let status = match code & 0xff {
            0 => 1,
            status => status,
        };
        std::process::exit(status)
    }
}

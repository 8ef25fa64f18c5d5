//! Processes that come and go while a job runs (MPI 5.0, chapter 11): what they change in an
//! engine.
//!
//! A process that is started later is a rank of the same segment ([`World`]), so all paths reach it
//! as they reach the others. What this rank knew of the process that had the number before it must
//! go first: its place in the rings, how its memory was reached, its skew. This rank
//! [meets](Engine::meet_worlds) the new worlds before it learns of a communicator with them, and
//! forgets then. A message of a new process that comes even earlier finds a ring that this rank has
//! not opened for it yet, and waits there.

use std::ffi::OsString;
use std::io;
use std::path::Path;

use mica_bootstrap::spawned::SpawnedLauncher;
use mica_node::segment::{JobSegment, ParentPort, ServiceError, World};
use mica_node::topology::{Level, level_between};
use mica_node::tunables::BadValue;

use crate::engine::{Engine, EngineState, Fault};
use crate::matching::MatchPattern;
use crate::pt2pt::PeerKind;

impl Engine {
    /// The processes that were started together with this one.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// The number of the world that a rank belongs to, among those of this node; 0: the one the job
    /// started with.
    pub fn world_number_of(&self, rank: u32) -> u32 {
        match self.world.contains(rank) {
            true => self.world.index,
            false => self.segment.world_of(rank).map_or(0, |world| world.index),
        }
    }

    /// Whether processes were started since the job began.
    pub fn has_spawned_worlds(&self) -> bool {
        self.segment.generation() != 0
    }

    /// Whether the job has room for processes that are started later, and reaches them.
    pub fn has_room_for_worlds(&self) -> bool {
        self.segment.capacity() > self.segment.job_size() && !self.has_network
    }

    /// Starts a launcher of more processes: the program `program`, which is Mica's `mpiexec`, with
    /// these arguments. The new processes call this rank's port `tag`. Blocks until it has come.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start_launcher(
        &self,
        program: &Path,
        arguments: &[OsString],
        tag: u32,
    ) -> io::Result<SpawnedLauncher> {
        let parent = ParentPort { rank: self.rank, tag };
        SpawnedLauncher::start(program, arguments, self.segment.as_fd(), parent)
    }

    /// Identifies the job's segment on this node.
    pub fn segment_identity(&self) -> String {
        self.segment.identity()
    }

    /// Opens a port of this rank. False if it has too many.
    pub fn open_port(&self, tag: u32) -> bool {
        self.segment.block(self.rank).open_port(tag)
    }

    /// Closes a port of this rank. False if it is not open.
    pub fn close_port(&self, tag: u32) -> bool {
        self.segment.block(self.rank).close_port(tag)
    }

    /// Whether a rank has this port open.
    pub fn is_open_port(&self, rank: u32, tag: u32) -> bool {
        self.segment.is_open_port(rank, tag)
    }

    /// Publishes a port of this rank under a name.
    ///
    /// # Errors
    /// When a service has the name, or there is no room.
    pub fn publish_service(&self, name: &str, port: &str) -> Result<(), ServiceError> {
        self.segment.publish_service(self.rank, name, port)
    }

    /// Takes back a service of this rank. False if it has published none of this name and port.
    pub fn unpublish_service(&self, name: &str, port: &str) -> bool {
        self.segment.unpublish_service(self.rank, name, port)
    }

    /// The port of a service of the job.
    pub fn service(&self, name: &str) -> Option<String> {
        self.segment.service(name)
    }

    /// Whether a message that matches has arrived.
    ///
    /// # Errors
    /// When progress fails for lack of memory.
    pub fn has_arrived(&self, pattern: &MatchPattern) -> Result<bool, Fault> {
        self.enter(|state| {
            state.progress()?;
            Ok(state.probe(pattern).is_some())
        })
    }

    /// Waits for a message that matches, from any process, also one of a world that is started
    /// meanwhile. `check` is called at each poll, and may end the wait with an error. Blocks.
    ///
    /// # Errors
    /// When progress fails for lack of memory.
    pub fn await_call<E: From<BadValue>>(
        &self,
        pattern: MatchPattern,
        mut check: impl FnMut() -> Result<(), E>,
    ) -> Result<Result<(), E>, Fault> {
        // What `check` looks at wakes no thread.
        self.enter(EngineState::begin_silent_polling);
        let arrived = self.probe(pattern, |state| {
            if let Err(bad) = state.meet_worlds(&self.segment) {
                return Some(Err(bad.into()));
            }
            match state.probe(&pattern) {
                Some(_) => Some(Ok(())),
                None => check().err().map(Err),
            }
        });
        self.enter(EngineState::end_silent_polling);
        arrived
    }

    /// Announces the worlds that this rank has communicators with, by number.
    pub fn announce_connections(&self, worlds: u64) {
        self.segment.set_connected(self.rank, worlds);
    }

    /// Prepares for the processes that were started since the last call. To be called before a
    /// message is sent to one, or waited for.
    ///
    /// # Errors
    /// When a tunable's value is invalid.
    pub fn meet_worlds(&self) -> Result<(), BadValue> {
        self.enter(|state| state.meet_worlds(&self.segment))
    }

    /// Whether this rank checks, while it waits for long, that the processes it waits for exist.
    pub(crate) fn is_watchful(&self) -> bool {
        self.watches_peers || self.has_spawned_worlds()
    }
}

impl EngineState {
    pub(crate) fn meet_worlds(&mut self, segment: &JobSegment) -> Result<(), BadValue> {
        // Before the worlds are listed: one that is entered in between is met the next time.
        let generation = segment.generation();
        if generation == self.met_generation {
            return Ok(());
        }
        let (me, met) = (self.me, self.met_generation);
        let new = segment.worlds().filter(|world| world.generation > met);
        for world in new.collect::<Vec<_>>() {
            for peer in world.ranks() {
                // Messages to itself have a kind, too; there is nothing of a former holder.
                if peer != me {
                    self.forget_former(peer, world.generation);
                }
                let kind = peer_kind(segment, me, peer, self.channels.packet_payload_max(peer));
                self.selection.set_kind(peer, kind)?;
            }
        }
        self.met_generation = generation;
        Ok(())
    }

    /// Forgets the process that had number `peer` before the world of this generation.
    fn forget_former(&mut self, peer: u32, generation: u32) {
        self.rendezvous.direct.forget(peer);
        if !self.channels.shm.forget(peer, generation) {
            return;
        }
        self.sends.outboxes.remove(peer);
        self.receives.inbound.remove(peer);
        self.skew.forget(peer);
        self.holds.held.retain(|&source| source != peer);
    }
}

/// What the paths to a rank of this node depend on.
pub(crate) fn peer_kind(
    segment: &JobSegment,
    me: u32,
    peer: u32,
    packet_payload_max: Option<usize>,
) -> PeerKind {
    let level: Level = level_between(&segment.place(me), &segment.place(peer));
    (level, packet_payload_max)
}

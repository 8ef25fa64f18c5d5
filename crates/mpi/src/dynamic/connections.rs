//! The worlds that this process is connected with (MPI 5.0, 11.10.4): those of the processes in its
//! communicators.
//!
//! They are announced in the job segment. Launchers read there which worlds share a fate, and
//! numbers of processes that have ended are not given to others as long as one that is connected
//! may have messages of theirs.

use std::cell::Cell;
use std::sync::Mutex;

use mica_protocol::Engine;

use crate::comm::Comm;
use crate::group::Group;
use crate::sync::lock;

/// Worlds of communicators that are being made, by their numbers. Held while the sum of all is
/// announced, so that of two threads the later one has the last word.
static COMING: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// A world that this process is about to make a communicator with, until it is dropped. Then what
/// is announced is what communicators say.
pub(crate) struct Coming {
    engine: &'static Engine,
    world: u32,
}

impl Coming {
    /// The world of a process, announced before that process is answered.
    pub fn with(engine: &'static Engine, rank: u32) -> Coming {
        let world = engine.world_number_of(rank);
        lock(&COMING).push(world);
        announce(engine);
        Coming { engine, world }
    }
}

impl Drop for Coming {
    fn drop(&mut self) {
        let mut coming = lock(&COMING);
        if let Some(at) = coming.iter().position(|&world| world == self.world) {
            coming.swap_remove(at);
        }
        drop(coming);
        announce(self.engine);
    }
}

/// Announces the worlds of all communicators. To be called when one was made or freed.
pub(crate) fn announce(engine: &Engine) {
    if !engine.has_spawned_worlds() {
        return;
    }
    let coming = lock(&COMING);
    let worlds = Cell::new(coming.iter().fold(0, |worlds, world| worlds | 1_u64 << world));
    let add = |group: &Group| {
        for peer in group.peers().filter(|&peer| !engine.world().contains(peer)) {
            worlds.set(worlds.get() | 1 << engine.world_number_of(peer));
        }
    };
    Comm::for_each(|comm| {
        add(comm.group());
        add(comm.peers());
    });
    engine.announce_connections(worlds.get());
}

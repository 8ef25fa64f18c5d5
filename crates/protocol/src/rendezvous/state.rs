//! What rendezvous messages use beside the queues: direct access to peers' memory, the cooperative
//! copies, the copy engine, and the reads over the network that are under way.

use crate::channels::Channels;
use crate::engine::{CompletionNotes, Fault};
use crate::pt2pt::{Receives, RecvId};
use crate::rendezvous::cooperative::CooperativeCopies;
use mica_channel::RemoteRegion;
use mica_channel::direct::{Direct, Exposed};
use mica_channel::offload::CopyEngine;
use mica_memory::View;
use slab::Slab;
use std::collections::VecDeque;

/// The means of copying a long message, and the copies that others carry out.
#[derive(Debug)]
pub(crate) struct RendezvousState {
    pub direct: Direct,
    pub cooperative: CooperativeCopies,
    pub offload: Option<Offload>,
    pub reads: RemoteReads,
}

impl RendezvousState {
    pub fn new(
        direct: Direct,
        cooperative: CooperativeCopies,
        offload: Option<Offload>,
    ) -> RendezvousState {
        RendezvousState { direct, cooperative, offload, reads: RemoteReads::default() }
    }

    /// Opens `len` bytes of this rank's `view` to peers, if it is contiguous.
    pub fn expose(&mut self, view: &View, len: usize) -> Option<Exposed> {
        let (address, _) = view.as_contiguous()?;
        self.direct.expose(address, len)
    }

    /// True if a message of `len` bytes is long enough for the copy engine.
    pub fn is_long(&self, len: usize) -> bool {
        self.offload.as_ref().is_some_and(|o| len >= o.min)
    }

    /// True while the copy engine works for this rank and the calling thread must poll it: the
    /// progress thread if there is one, else any thread.
    #[inline]
    pub fn polls_copy_jobs(&self, threads: &CompletionNotes) -> bool {
        let offload = self.offload.as_ref();
        offload.is_some_and(|o| !o.active.is_empty())
            && (threads.long_messages.is_none() || threads.in_progress_thread)
    }
}

/// This rank's copy engine and the jobs that it works on.
#[derive(Debug)]
pub(crate) struct Offload {
    pub engine: Box<dyn CopyEngine>,
    /// Minimum length in bytes of a message that is worth offloading.
    pub min: usize,
    pub active: Vec<RecvId>,
}

impl Offload {
    pub fn new(engine: Box<dyn CopyEngine>, min: usize) -> Offload {
        Offload { engine, min, active: Vec::new() }
    }
}

/// The messages that this rank reads from their senders.
#[derive(Debug, Default)]
pub(crate) struct RemoteReads {
    pub all: Slab<RemoteRead>,
    /// Those for which there was no room yet.
    pub waiting: VecDeque<usize>,
}

impl RemoteReads {
    /// Starts the reads that wait, as far as there is room.
    pub fn start(&mut self, channels: &mut Channels, receives: &Receives) -> Result<(), Fault> {
        while let Some(&at) = self.waiting.front() {
            let read = self.all[at];
            let view = &receives.ops[read.recv.index()].view;
            let Some(net) = channels.network_to(read.peer) else {
                return Ok(());
            };
            if !net.start_read(read.peer, read.region, view, read.len, at as u64)? {
                return Ok(());
            }
            self.waiting.pop_front();
        }
        Ok(())
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct RemoteRead {
    pub recv: RecvId,
    pub peer: u32,
    pub sender_op: u32,
    pub region: RemoteRegion,
    pub len: usize,
}

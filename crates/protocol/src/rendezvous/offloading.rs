//! Long messages whose bytes a copy engine moves while the program computes (chai-2009, 5.1.2 and
//! 5.2: SCI, MCI and MCNI are engines of `mica_channel::offload`).
//!
//! | state of a job | moves by |
//! |---|---|
//! | started | the receive is matched, the message is long, no waiting thread can copy it |
//! | pending | the engine by itself, if it is self-driven; else the thread that polls it |
//! | done, failed | the poll that finds it so: `FIN` to the sender, or `CTS` for cells |
//!
//! The progress thread polls, if there is one; else any thread in progress does, and one that waits
//! copies pieces itself. The cookie is dropped before the window that the job reads through and
//! before the receive buffer is released ([`Copying`]), so an engine never
//! writes to memory that is the program's again. Cost: n beta of the engine, which the program's
//! computation hides, and a start and a poll by this core; below `MICA_OFFLOAD_MIN` a copy by the
//! core is shorter.

use crate::channels::packet::RtsPacket;
use crate::engine::{EngineState, Fault, NOTIFY_WAITERS};
use crate::pt2pt::{Copying, RecvId};
use mica_channel::direct::{MappedWindow, SenderBuffer};
use mica_channel::offload::{CopyJob, JobProgress, PeerMemory};
use mica_memory::View;
use mica_node::counters::TrafficClass;

impl EngineState {
    /// True if a message of `len` bytes may be left to the copy engine: the program does not wait
    /// in MPI, or it has requested a thread that copies for it; then other ranks may use the
    /// program's core while it waits.
    pub(crate) fn may_offload(&self, len: usize) -> bool {
        self.rendezvous.is_long(len)
            && (self.completions.waiting_threads == 0 || self.completions.long_messages.is_some())
    }

    /// Has the copy engine copy the message: through `window`, or else by the kernel. False if the
    /// location of the message in the sender's memory cannot be determined.
    #[expect(clippy::too_many_arguments, reason = "six beside the receiver")]
    pub(crate) fn offload(
        &mut self,
        id: RecvId,
        peer: u32,
        rts: &RtsPacket,
        window: Option<MappedWindow>,
        view: &View,
        len: usize,
    ) -> bool {
        let Some(offload) = &mut self.rendezvous.offload else {
            return false;
        };
        let held = self.rendezvous.direct.hold(view);
        let pid = self.rendezvous.direct.process(peer);
        let (job, class) = match (&window, rts.remote) {
            (Some(window), _) => {
                (CopyJob::copy(window.view(), view.clone(), len), TrafficClass::Mapped)
            }
            (None, Some(SenderBuffer::Contiguous { address })) => {
                let from = PeerMemory::contiguous(pid, address, len);
                (CopyJob::read(from, view.clone(), len), TrafficClass::Direct)
            }
            (None, Some(SenderBuffer::Runs { table, count })) => {
                let Ok(from) = PeerMemory::listed(pid, table, count) else {
                    return false;
                };
                (CopyJob::read(from, view.clone(), len), TrafficClass::Direct)
            }
            (None, None) => return false,
        };
        self.receives.ops[id.index()].copying = Some(Box::new(Copying {
            cookie: offload.engine.start(job),
            peer,
            sender_op: rts.op,
            class,
            _window: window,
            _held: held,
        }));
        offload.active.push(id);
        // The progress thread may be asleep, and it must drive the copy.
        if !self.receives.ops[id.index()].actions.is_long() {
            let long = self.completions.begin_long_message();
            self.receives.ops[id.index()].actions.set_long(long);
        }
        self.completions.notifications |= NOTIFY_WAITERS;
        true
    }

    /// Polls the copy engine's jobs; helps to copy if the calling thread is the progress thread, or
    /// if it waits and there is no progress thread.
    #[cold]
    pub(crate) fn poll_copy_jobs(&mut self) -> Result<bool, Fault> {
        let mut ended = false;
        let mut at = 0;
        while let Some(&id) = self.rendezvous.offload.as_ref().and_then(|o| o.active.get(at)) {
            let help = self.completions.in_progress_thread
                || (self.completions.waiting_threads > 0
                    && self.completions.long_messages.is_none());
            let progress = match &self.receives.ops[id.index()].copying {
                Some(copying) if help => copying.cookie.assist(),
                Some(copying) => copying.cookie.check(),
                None => JobProgress::Done,
            };
            if progress == JobProgress::Pending {
                at += 1;
                continue;
            }
            ended = true;
            if let Some(offload) = &mut self.rendezvous.offload {
                offload.active.swap_remove(at);
            }
            if let Some(copying) = self.receives.ops[id.index()].copying.take() {
                let Copying { peer, sender_op, class, .. } = *copying;
                if matches!(progress, JobProgress::Failed(_)) {
                    self.ask_for_cells(id, peer, sender_op)?;
                } else {
                    self.finish_fetch(id, peer, sender_op, class)?;
                }
            }
        }
        Ok(ended)
    }

    /// True if the copy engine has completed something, or makes no progress without polls.
    pub(crate) fn offload_has_work(&self) -> bool {
        self.rendezvous.polls_copy_jobs(&self.completions)
            && self.rendezvous.offload.as_ref().is_some_and(|o| {
                o.active.iter().any(|id| {
                    let copying = &self.receives.ops[id.index()].copying;
                    copying.as_ref().is_none_or(|c| {
                        !c.cookie.is_self_driven() || c.cookie.check() != JobProgress::Pending
                    })
                })
            })
    }
}

//! Rendezvous: long messages, from the RTS to the last byte (DESIGN.md, section 4; chai-2009,
//! chapters 4 to 6).
//!
//! The sender announces where its bytes lie (RTS, `REQUEST`). The receiver chooses the path when
//! the message is matched:
//!
//! | path | who copies | packets after the RTS |
//! |---|---|---|
//! | pull | the receiver | receiver: `DONE` |
//! | cooperate | both, disjoint pieces | receiver: `JOIN`, `DONE`; sender: `PUSHED`, if any |
//! | push | the sender | receiver: `JOIN`; sender: `PUSHED` |
//! | cells | both, each byte twice | receiver: `CLEAR`; sender: `MORE_CELLS` ... |
//!
//! If both copy, the receiver sends `DONE` when it has copied its pieces, and the sender `PUSHED`
//! if it has taken any. A sender takes part whenever it makes progress: the receiver does not wait
//! for the sender, only for pieces that the sender has taken.
//!
//! If a copy is refused, the message goes through cells from its start. A receiver that fails takes
//! the remaining pieces without copying them, so that the sender stops, and asks for cells. A
//! sender that fails reports it, remains pending, and ignores a `DONE`.

use crate::Fault;
use crate::matching::MatchEnvelope;
use crate::packet::{self, JoinPacket, RtsPacket};
use crate::receive::{ReceiveStage, RecvId};
use crate::select::BufferFacts;
use crate::send::SendPhase;
use crate::state::EngineState;
use mica_channel::ChannelError;
use mica_channel::direct::{
    Backend, CopyRefusal, Direct, Exposed, Exposure, RemoteRun, SenderBuffer, Window,
};
use mica_channel::memory::View;
use mica_channel::shm::Packet;
use mica_channel::transport;
use mica_node::cooperative::{CooperativeCopy, CopyEnd};
use mica_node::counters::TrafficClass;
use mica_node::segment::{JobSegment, SPLITS, SegmentRef};
use mica_node::ticks;
use mica_policy as policy;
use std::ops::Range;
use std::sync::Arc;

/// What a sender keeps for the receiver of a long message.
#[derive(Debug, Default)]
pub(crate) struct RtsState {
    /// The message's memory, if it is contiguous.
    exposed: Option<Exposed>,
    /// `exposed` is cached, and is confirmed when the RTS has left.
    recalled: bool,
    /// The message's pieces if it is not contiguous, for the receiver to read while it pulls.
    pieces: Vec<RemoteRun>,
    split: Option<u8>,
    /// This side failed to copy pieces that it had taken: the receiver will ask for cells.
    spoiled: bool,
    /// It is counted as a long message in progress.
    long: bool,
    /// The message's memory, as registered with the network.
    pub(crate) registered: Option<transport::ReadableRegion>,
}

impl RtsState {
    /// The state of a message whose memory is open to the receiver.
    pub fn of(exposed: Option<Exposed>, recalled: bool) -> RtsState {
        RtsState {
            exposed,
            recalled,
            ..RtsState::default()
        }
    }
}

/// The cooperative copies of this rank's messages, which packets name by index (`split`).
#[derive(Debug)]
pub(crate) struct CooperativeCopies {
    segment: Arc<JobSegment>,
    me: u32,
    /// Those not in use; `None` until the first is requested.
    free: Option<Vec<u8>>,
}

impl CooperativeCopies {
    pub fn new(segment: &Arc<JobSegment>, me: u32) -> CooperativeCopies {
        CooperativeCopies {
            segment: Arc::clone(segment),
            me,
            free: None,
        }
    }

    /// A cooperative copy of which nothing is taken; `None` when all are in use.
    fn take(&mut self) -> Result<Option<u8>, ChannelError> {
        if self.free.is_none() {
            let bytes = SPLITS * size_of::<CooperativeCopy>();
            self.segment
                .allocate(self.segment.splits_offset(self.me), bytes)?;
            self.free = Some((0..SPLITS as u8).collect());
        }
        let index = self.free.as_mut().and_then(Vec::pop);
        if let Some(index) = index {
            self.of(self.me, index).reset();
        }
        Ok(index)
    }

    fn give_back(&mut self, index: u8) {
        if let Some(free) = &mut self.free {
            free.push(index);
        }
    }

    fn of(&self, rank: u32, index: u8) -> SegmentRef<CooperativeCopy> {
        self.segment
            .project(|segment| &segment.splits(rank)[usize::from(index)])
    }
}

/// A contiguous buffer of a peer that this rank copies from or to: through a window if there is
/// one, the rest through the kernel.
struct PeerRange {
    peer: u32,
    address: u64,
    window: Option<Window>,
    /// Where the peer answers whether the window shows its buffer. What is copied before the answer
    /// is valid only if the answer is yes.
    answer: Option<SegmentRef<CooperativeCopy>>,
}

impl PeerRange {
    fn open(
        direct: &mut Direct,
        peer: u32,
        address: u64,
        exposure: Option<Exposure>,
        len: usize,
    ) -> PeerRange {
        let window = exposure
            .filter(|e| e.backend() != Backend::Cma)
            .and_then(|e| direct.window(peer, &e, len));
        PeerRange {
            peer,
            address,
            window,
            answer: None,
        }
    }

    /// False if the window shows something other than the peer's buffer.
    fn is_confirmed(&self, peers_side: CopyEnd) -> bool {
        self.answer
            .as_ref()
            .is_none_or(|split| await_answer(split, peers_side))
    }

    /// Whether all `len` bytes can be reached without the kernel.
    fn is_mapped(&self, len: usize) -> bool {
        self.window
            .as_ref()
            .is_some_and(|w| w.reachable() == (0..len))
    }

    /// The traffic class of bytes that are copied here.
    fn way(&self) -> TrafficClass {
        if self.window.is_some() {
            TrafficClass::Mapped
        } else {
            TrafficClass::Direct
        }
    }

    /// Copies from the peer to `view`.
    fn load(
        &self,
        direct: &mut Direct,
        view: &View,
        range: Range<usize>,
    ) -> Result<(), CopyRefusal> {
        let [mapped, before, behind] = Window::parts(self.window.as_ref(), &range);
        if let Some(window) = &self.window
            && !mapped.is_empty()
        {
            window.load(mapped.start, view, mapped.start, mapped.len());
        }
        for rest in [before, behind] {
            if !rest.is_empty() {
                direct.pull_range(self.peer, self.address, view, rest.start, rest.len())?;
            }
        }
        Ok(())
    }

    /// Copies from `view` to the peer.
    fn store(
        &self,
        direct: &mut Direct,
        view: &View,
        range: Range<usize>,
    ) -> Result<(), CopyRefusal> {
        let [mapped, before, behind] = Window::parts(self.window.as_ref(), &range);
        if let Some(window) = &self.window
            && !mapped.is_empty()
        {
            window.store(mapped.start, view, mapped.start, mapped.len());
        }
        for rest in [before, behind] {
            if !rest.is_empty() {
                direct.push_range(self.peer, self.address, view, rest.start, rest.len())?;
            }
        }
        Ok(())
    }
}

/// Polls for an answer before its side is assumed not to be running.
const ANSWER_POLLS: u32 = 2000;

/// How long to wait for an answer: several time slices, for ranks that share a core. A peer that is
/// stopped or gone is not detected here: the caller's wait parks, and reports it.
const ANSWER_TIME_NS: u64 = 20_000_000;

/// Waits for the answer of `side`, which needs only one system call. A side that does not answer in
/// time has answered no: the message then goes through cells.
fn await_answer(split: &CooperativeCopy, side: CopyEnd) -> bool {
    for _ in 0..ANSWER_POLLS {
        if let Some(answer) = split.confirmed(side) {
            return answer;
        }
        std::hint::spin_loop();
    }
    let began = ticks::now_ns();
    loop {
        std::thread::yield_now();
        match split.confirmed(side) {
            Some(answer) => return answer,
            None if ticks::now_ns() - began < ANSWER_TIME_NS => {}
            None => return split.give_up(side),
        }
    }
}

/// A receive buffer that is open to the sender.
struct OpenedBuffer {
    exposed: Exposed,
    /// It is cached, and is confirmed when the sender has been notified.
    recalled: bool,
}

impl EngineState {
    /// Sends the RTS of send `id` to its receiver. False when the ring is full.
    pub(crate) fn send_request(&mut self, id: u32) -> Result<bool, Fault> {
        let op = &mut self.operations.sends[id as usize];
        let (peer, len) = (op.peer, op.view.len());
        if !self.channels.has_room(peer, 0) {
            return Ok(false);
        }
        if self.channels.is_remote(peer) {
            return self.send_rts_remote(id);
        }
        let op = &mut self.operations.sends[id as usize];
        let remote = if let Some((address, _)) = op.view.as_contiguous() {
            Some(SenderBuffer::Contiguous {
                address: address as u64,
            })
        } else if self.selection.is_worth_listing(peer, &op.view) {
            if op.asking.pieces.is_empty() {
                op.asking
                    .pieces
                    .extend(op.view.runs(0).map(|run| RemoteRun {
                        address: run.address as u64,
                        bytes: run.len as u64,
                    }));
            }
            Some(SenderBuffer::Runs {
                table: op.asking.pieces.as_ptr().addr() as u64,
                count: op.asking.pieces.len() as u64,
            })
        } else {
            None
        };
        let contiguous = matches!(remote, Some(SenderBuffer::Contiguous { .. }));
        if contiguous && self.selection.is_worth_splitting(len) {
            op.asking.split = self.splits.take()?;
        }
        if op.asking.recalled && op.asking.split.is_none() {
            // Without a cooperative copy there is no place for the answer.
            op.asking.recalled = false;
            let (address, _) = op.view.as_contiguous().expect("recalled");
            op.asking.exposed = self.direct.expose(address, len);
        }
        let request = RtsPacket {
            len: len as u64,
            op: id,
            split: op.asking.split,
            remote,
            exposure: op.asking.exposed.as_ref().map(Exposed::exposure),
            recalled: op.asking.recalled,
            registered: None,
        };
        let head = packet::request(op.context, op.tag, &request);
        let sent = self.channels.send(peer, &head, None)?;
        debug_assert!(sent, "there was room and nobody else uses it");
        if let (true, Some(split), Some(exposed), Some((address, _))) = (
            op.asking.recalled,
            op.asking.split,
            &op.asking.exposed,
            op.view.as_contiguous(),
        ) {
            // While the RTS is in flight.
            let is_right = self.direct.confirm(address, len, exposed);
            self.splits
                .of(self.me, split)
                .confirm(CopyEnd::Back, is_right);
        }
        let long = self.is_long(len) && self.begin_long();
        let op = &mut self.operations.sends[id as usize];
        op.phase = SendPhase::Asked;
        op.asking.long = long;
        Ok(true)
    }

    /// Transfers a message that its sender has only announced.
    pub(crate) fn fetch(
        &mut self,
        id: RecvId,
        envelope: MatchEnvelope,
        request: RtsPacket,
    ) -> Result<(), Fault> {
        let (peer, total) = (envelope.source, request.len as usize);
        let op = &mut self.operations.recvs[id.0 as usize];
        op.stage = ReceiveStage::Incoming {
            envelope,
            total,
            position: 0,
        };
        let view = op.view.clone();
        let len = total.min(view.len());
        if len == 0 {
            self.finish_incoming(id);
            return self.send_control(peer, packet::done(request.op, TrafficClass::Direct));
        }
        if self.channels.is_remote(peer) {
            return self.fetch_remote(id, peer, &request, &view, len);
        }
        let reach = match request.remote {
            Some(SenderBuffer::Contiguous { address }) => {
                let mut reach =
                    PeerRange::open(&mut self.direct, peer, address, request.exposure, total);
                if let Some(split) = request.split.filter(|_| request.recalled) {
                    reach.answer = Some(self.splits.of(peer, split));
                }
                Some(reach)
            }
            _ => None,
        };
        let theirs_mapped = reach.as_ref().is_some_and(|r| r.is_mapped(total));
        // Opening this side's buffer has no use if the other side's is enough.
        let mine = if theirs_mapped && !self.selection.may_cooperate() {
            None
        } else {
            self.open_receive(&view, len, request.split.is_some())
        };
        let runs = match request.remote {
            Some(SenderBuffer::Runs { count, .. }) => count as usize,
            _ => 1,
        };
        let buffers = BufferFacts {
            len,
            pieces: runs.max(view.run_count_hint()),
            theirs_mapped,
            mine_mapped: mine
                .as_ref()
                .is_some_and(|m| m.exposed.exposure().reachable(len) == (0..len)),
            readable: request.remote.is_some() && self.direct.is_usable(peer),
            divisible: request.split.is_some() && mine.is_some(),
            offload: self.may_offload(len),
        };
        let way = self.selection.choose(peer, &buffers);
        match (way, reach, request.remote) {
            (policy::MessagePath::Mapped, Some(reach), _) if buffers.theirs_mapped => {
                self.pull(id, &request, &reach, &view, len)
            }
            (policy::MessagePath::Mapped, ..) => self.have_pushed(id, &request, &view, len, mine),
            (
                policy::MessagePath::MappedCooperate | policy::MessagePath::Cooperate,
                Some(reach),
                _,
            ) => self.cooperate(id, &request, &reach, &view, len, mine),
            (policy::MessagePath::Pull, Some(reach), _) => {
                self.pull(id, &request, &reach, &view, len)
            }
            (policy::MessagePath::Pull, None, Some(remote)) => {
                let pulled = self.direct.pull(peer, remote, &view, len);
                self.end_pull(id, peer, &request, pulled, TrafficClass::Direct)
            }
            (policy::MessagePath::Offload, reach, _) => {
                if !reach.as_ref().is_none_or(|r| r.is_confirmed(CopyEnd::Back)) {
                    return self.ask_for_cells(id, peer, request.op);
                }
                let window = reach
                    .and_then(|r| r.window)
                    .filter(|_| buffers.theirs_mapped);
                if self.offload(id, peer, &request, window, &view, len) {
                    Ok(())
                } else {
                    self.ask_for_cells(id, peer, request.op)
                }
            }
            _ => self.ask_for_cells(id, peer, request.op),
        }
    }

    /// Copies the whole message on this side.
    fn pull(
        &mut self,
        id: RecvId,
        request: &RtsPacket,
        reach: &PeerRange,
        view: &View,
        len: usize,
    ) -> Result<(), Fault> {
        let pulled = reach.load(&mut self.direct, view, 0..len);
        if !reach.is_confirmed(CopyEnd::Back) {
            return self.ask_for_cells(id, reach.peer, request.op);
        }
        self.end_pull(id, reach.peer, request, pulled, reach.way())
    }

    fn end_pull(
        &mut self,
        id: RecvId,
        peer: u32,
        request: &RtsPacket,
        pulled: Result<(), CopyRefusal>,
        way: TrafficClass,
    ) -> Result<(), Fault> {
        if pulled.is_err() {
            return self.ask_for_cells(id, peer, request.op);
        }
        self.end_fetch(id, peer, request.op, way)
    }

    /// The whole message is here.
    pub(crate) fn end_fetch(
        &mut self,
        id: RecvId,
        peer: u32,
        sender_op: u32,
        way: TrafficClass,
    ) -> Result<(), Fault> {
        self.finish_incoming(id);
        self.send_control(peer, packet::done(sender_op, way))
    }

    /// Opens the buffer to the sender, which copies the whole message.
    fn have_pushed(
        &mut self,
        id: RecvId,
        request: &RtsPacket,
        view: &View,
        len: usize,
        mine: Option<OpenedBuffer>,
    ) -> Result<(), Fault> {
        self.invite(id, request, view, len, mine, true)?;
        self.await_push(id, request.op, false);
        Ok(())
    }

    /// Opens the buffer to the sender and copies the pieces that the sender does not take.
    fn cooperate(
        &mut self,
        id: RecvId,
        request: &RtsPacket,
        reach: &PeerRange,
        view: &View,
        len: usize,
        mine: Option<OpenedBuffer>,
    ) -> Result<(), Fault> {
        let Some(split) = request.split else {
            return self.pull(id, request, reach, view, len);
        };
        self.invite(id, request, view, len, mine, false)?;
        let split = self.splits.of(reach.peer, split);
        let mut failed = false;
        while let Some(piece) = split.take(CopyEnd::Front, len) {
            failed = failed || reach.load(&mut self.direct, view, piece).is_err();
        }
        failed |= !reach.is_confirmed(CopyEnd::Back);
        if split.is_shared_with(CopyEnd::Back) {
            self.await_push(id, request.op, failed);
        } else if failed {
            return self.ask_for_cells(id, reach.peer, request.op);
        } else {
            self.finish_incoming(id);
        }
        if failed {
            // The sender remains pending until its part is here, and is then asked for cells.
            return Ok(());
        }
        self.send_control(reach.peer, packet::done(request.op, reach.way()))
    }

    fn invite(
        &mut self,
        id: RecvId,
        request: &RtsPacket,
        view: &View,
        len: usize,
        mine: Option<OpenedBuffer>,
        alone: bool,
    ) -> Result<(), Fault> {
        let join = JoinPacket {
            sender_op: request.op,
            receiver_op: id.0,
            len: len as u64,
            address: view.as_contiguous().map_or(0, |(a, _)| a as u64),
            exposure: mine.as_ref().map(|m| m.exposed.exposure()),
            alone,
            recalled: mine.as_ref().is_some_and(|m| m.recalled),
        };
        let op = &mut self.operations.recvs[id.0 as usize];
        op.exposed = mine.map(|m| m.exposed);
        let ReceiveStage::Incoming { envelope, .. } = op.stage else {
            unreachable!("a message that is fetched is incoming")
        };
        let peer = envelope.source;
        self.send_control(peer, packet::join(&join))?;
        if let (true, Some(split), Some(exposed)) = (
            join.recalled,
            request.split,
            &self.operations.recvs[id.0 as usize].exposed,
        ) {
            // While the `JOIN` is in flight.
            let is_right = self.direct.confirm(join.address as usize, len, exposed);
            self.splits
                .of(peer, split)
                .confirm(CopyEnd::Front, is_right);
        }
        Ok(())
    }

    /// Opens the buffer of a receive to the sender; from cached state, if there is a cooperative
    /// copy for the answer.
    fn open_receive(&mut self, view: &View, len: usize, answers: bool) -> Option<OpenedBuffer> {
        let (address, _) = view.as_contiguous()?;
        if answers && let Some(exposed) = self.direct.recall(address, len) {
            let recalled = true;
            return Some(OpenedBuffer { exposed, recalled });
        }
        let exposed = self.expose(view, len)?;
        let recalled = false;
        Some(OpenedBuffer { exposed, recalled })
    }

    /// This side has done its part of receive `id`, and waits for the sender's.
    fn await_push(&mut self, id: RecvId, sender_op: u32, failed: bool) {
        let op = &mut self.operations.recvs[id.0 as usize];
        if let ReceiveStage::Incoming {
            envelope, total, ..
        } = op.stage
        {
            op.stage = ReceiveStage::Joint {
                envelope,
                total,
                sender_op,
                failed,
            };
        }
    }

    pub(crate) fn ask_for_cells(
        &mut self,
        id: RecvId,
        peer: u32,
        sender_op: u32,
    ) -> Result<(), Fault> {
        self.send_control(peer, packet::clear(sender_op, id.0, 0))
    }

    /// Opens `len` bytes of this rank's `view` to peers, if it is contiguous.
    pub(crate) fn expose(&mut self, view: &View, len: usize) -> Option<Exposed> {
        let (address, _) = view.as_contiguous()?;
        self.direct.expose(address, len)
    }

    /// The receiver has opened its buffer: copies the pieces that it leaves to this side, now.
    pub(crate) fn on_join(&mut self, packet: &Packet) -> Result<(), Fault> {
        let join = packet::read_join(packet);
        let (id, len) = (join.sender_op, join.len as usize);
        let op = &self.operations.sends[id as usize];
        let (peer, view) = (op.peer, op.view.clone());
        let reach = PeerRange::open(&mut self.direct, peer, join.address, join.exposure, len);
        let right = match op.asking.split.filter(|_| join.recalled) {
            Some(split) => await_answer(&self.splits.of(self.me, split), CopyEnd::Front),
            None => true,
        };
        let usable = right && (reach.is_mapped(len) || self.direct.is_usable(peer));
        let mut failed = false;
        if join.alone {
            failed = !usable || reach.store(&mut self.direct, &view, 0..len).is_err();
        } else {
            let split = self.operations.sends[id as usize].asking.split;
            let split = split.expect("the receiver joins by the split");
            let split = self.splits.of(self.me, split);
            let mut took = false;
            while usable
                && !failed
                && let Some(piece) = split.take(CopyEnd::Back, len)
            {
                took = true;
                failed = reach.store(&mut self.direct, &view, piece).is_err();
            }
            if !took {
                return Ok(());
            }
        }
        if failed {
            self.operations.sends[id as usize].asking.spoiled = true;
        } else if join.alone {
            self.end_rendezvous(id, TrafficClass::Mapped);
        }
        self.send_control(peer, packet::pushed(join.receiver_op, failed))
    }

    /// The sender has copied its part.
    pub(crate) fn on_pushed(&mut self, source: u32, packet: &Packet) -> Result<(), Fault> {
        let (id, push_failed) = packet::read_pushed(packet);
        let id = RecvId(id);
        let op = &mut self.operations.recvs[id.0 as usize];
        let ReceiveStage::Joint {
            envelope,
            total,
            sender_op,
            failed,
        } = op.stage
        else {
            debug_assert!(
                false,
                "a push from rank {source} to a receive that did not join"
            );
            return Ok(());
        };
        op.stage = ReceiveStage::Incoming {
            envelope,
            total,
            position: 0,
        };
        if failed || push_failed {
            return self.ask_for_cells(id, source, sender_op);
        }
        self.finish_incoming(id);
        Ok(())
    }

    /// The receiver has received (or has matched) the message, and no longer uses its memory.
    pub(crate) fn on_done(&mut self, packet: &Packet) {
        let (id, way) = packet::read_done(packet);
        if !self.operations.sends[id as usize].asking.spoiled {
            self.end_rendezvous(id, way);
        }
    }

    fn end_rendezvous(&mut self, id: u32, way: TrafficClass) {
        let op = &mut self.operations.sends[id as usize];
        // A short message that was only acknowledged was counted when it left.
        if op.view.len() > self.selection.ring_max(op.peer) {
            self.counters.count_message(way, op.view.len());
        }
        op.phase = SendPhase::Done;
        self.forget_rts(id);
        self.wake_progress_thread();
    }

    /// Releases the memory that the message keeps for peers.
    pub(crate) fn forget_rts(&mut self, id: u32) {
        let asking = std::mem::take(&mut self.operations.sends[id as usize].asking);
        if let Some(split) = asking.split {
            self.splits.give_back(split);
        }
        if asking.long {
            self.end_long();
        }
        if let (Some(exposed), Some(net)) = (asking.registered, &mut self.channels.net) {
            net.conceal(exposed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As if the peer were stopped before it answers.
    #[test]
    fn an_answer_that_does_not_come_is_no() {
        let split = CooperativeCopy::new();
        assert!(!await_answer(&split, CopyEnd::Front));
        split.confirm(CopyEnd::Front, true);
        assert!(!await_answer(&split, CopyEnd::Front));
        split.confirm(CopyEnd::Back, true);
        assert!(await_answer(&split, CopyEnd::Back));
    }
}

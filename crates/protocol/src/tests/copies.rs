//! Copies in the background: what they write to stays where it is until they have ended.

use mica_channel::direct::{Backend, DirectOptions, SenderBuffer};
use mica_channel::offload::InlineEngine;
use mica_memory::{Block, Region, Shape, TypeLayout, View};
use std::sync::Arc;

use super::rig::{SHAPE, over_shared_memory};
use crate::channels::packet::RtsPacket;
use crate::engine::EngineState;
use crate::matching::{MatchEnvelope, MatchPattern};
use crate::pt2pt::{ReceiveStage, RecvId, RecvOp};
use crate::rendezvous::state::Offload;

/// Longer than any block of malloc that shares its mapping with others.
const BYTES: usize = 40 << 20;

const MAPPED: DirectOptions = DirectOptions {
    mapped: true,
    mapped_all: true,
    mapped_after: 0,
    mapped_min: 4096,
    mapped_max: 1 << 30,
    ..DirectOptions::CMA
};

/// A receive into `view` whose message a copy engine copies; it works when it is polled.
fn begin(state: &mut EngineState, view: &View, from: &Region) -> RecvId {
    state.rendezvous.offload = Some(Offload::new(Box::new(InlineEngine::new()), 0));
    let pattern = MatchPattern { context: 0, source: Some(0), tag: Some(1) };
    let envelope = MatchEnvelope { context: 0, source: 0, tag: 1 };
    let id = RecvId(state.receives.ops.insert(RecvOp::new(pattern, view)));
    let (total, position) = (view.len(), 0);
    state.receives.ops[id.index()].stage = ReceiveStage::Incoming { envelope, total, position };
    let rts = RtsPacket {
        len: total as u64,
        op: 0,
        copy_index: None,
        remote: Some(SenderBuffer::Contiguous { address: from.address() as u64 }),
        exposure: None,
        unverified: false,
        registered: None,
    };
    assert!(state.offload(id, 0, &rts, None, view, total), "the engine takes it");
    id
}

/// Whether the buffer is moved when it is in use once more.
fn is_moved(state: &mut EngineState, buffer: &Region) -> bool {
    let exposed = state.rendezvous.direct.expose(buffer.address(), BYTES).expect("a back end");
    exposed.exposure().backend() == Backend::Mapped
}

#[test]
fn what_a_copy_engine_fills_stays_until_it_has_ended() {
    let byte = TypeLayout::basic(1, 1).expect("fits");
    let blocks = byte.hvector(BYTES as u64 / 131_072, 65_536, 131_072).expect("fits");
    let shapes = [
        Shape::Contiguous { bytes: BYTES },
        // With gaps, as a whole: the engine writes to both of its ends.
        Shape::of(&Arc::new(blocks), 1).expect("fits"),
    ];
    for shape in shapes {
        let engines = over_shared_memory(2, SHAPE, &MAPPED);
        let (from, to) = (Block::allocate(BYTES).unwrap(), Block::allocate(BYTES).unwrap());
        from.clone().view(Shape::Contiguous { bytes: BYTES }).unpack(0, &vec![7; BYTES]);
        let view = to.clone().view(shape);
        engines[1].enter(|state| {
            if state.rendezvous.direct.usage().is_none() {
                return eprintln!("skipped: {:?}", state.rendezvous.direct.status());
            }
            let id = begin(state, &view, &from);
            for _ in 0..8 {
                state.poll_copy_jobs().expect("no fault");
                assert!(state.received(id).is_none(), "the copy takes more polls");
                assert!(!is_moved(state, &to), "moved while the engine writes to it");
            }
            while state.received(id).is_none() {
                state.poll_copy_jobs().expect("no fault");
            }
            // Refusals make the next attempt later, not impossible.
            assert!(
                (0..1000).any(|_| is_moved(state, &to)),
                "{:?}",
                state.rendezvous.direct.status()
            );
            let mut got = vec![0; view.len()];
            view.pack(0, &mut got);
            assert!(got.iter().all(|&byte| byte == 7), "bytes are lost");
        });
    }
}

//! The same programs over real shared memory: the rings, cells and FIFOs of several ranks in one
//! process, stepped by one thread.
//!
//! Long messages are copied by the kernel, by both sides at once, or through cells. The order in
//! which packets of different senders are handled is not defined, so receives name their source
//! here: then the matching does not depend on that order.

use mica_channel::direct::DirectOptions;
use mica_node::tunables::SegmentShape;
use proptest::prelude::*;
use std::sync::Arc;

use super::program::{Call, Run, call};
use super::rig::{SHAPE, over_shared_memory};
use crate::matching::MatchPattern;
use mica_node::counters::TrafficClass;

/// Around the limits of a header, an arena, a cell and all cells, and long enough for both sides to
/// copy.
const LENGTHS: &[usize] = &[0, 8, 40, 41, 2000, 8192, 8193, 20_000, 70_000, 300_000];

/// The calls whose result does not depend on when messages arrive.
fn is_deterministic((_, call): &(u32, Call)) -> bool {
    match call {
        Call::Send { .. } => true,
        Call::Receive { pattern, .. } => pattern.source.is_some(),
        Call::Probe(_) | Call::MatchedProbe(_) | Call::Cancel(_) => false,
    }
}

const FIFOS: SegmentShape = SegmentShape { fifo_bytes: Some(64 << 10), ..SHAPE };

const MIXED: SegmentShape = SegmentShape { mixed: true, ..FIFOS };

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 80,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn ranks_of_one_node_match_as_the_model_does(
        calls in prop::collection::vec(call(3, LENGTHS), 0..80),
        shape in prop::sample::select(vec![SHAPE, SHAPE, FIFOS, MIXED]),
        copies: bool,
        seed: u64,
    ) {
        let direct = if copies { DirectOptions::CMA } else { DirectOptions::OFF };
        let engines = over_shared_memory(3, shape, &direct);
        let segment = Arc::downgrade(&engines[0].segment);
        let calls: Vec<_> = calls.into_iter().filter(is_deterministic).collect();
        Run::new(&engines, None, seed).run(&calls);
        drop(engines);
        prop_assert!(segment.upgrade().is_none(), "the last engine unmaps the segment");
    }
}

#[test]
fn long_messages_use_kernel_copy_if_available() {
    for (shape, direct, class) in [
        (SHAPE, DirectOptions::CMA, TrafficClass::Direct),
        (FIFOS, DirectOptions::CMA, TrafficClass::Direct),
        (SHAPE, DirectOptions::OFF, TrafficClass::Cells),
        (FIFOS, DirectOptions::OFF, TrafficClass::Ring),
    ] {
        let engines = over_shared_memory(2, shape, &direct);
        let send =
            Call::Send { to: 1, context: 0, tag: 1, len: 300_000, sync: false, scattered: false };
        let pattern = MatchPattern { context: 0, source: Some(0), tag: None };
        let receive = Call::Receive { pattern, capacity: 300_000, scattered: false };
        Run::new(&engines, None, 5).run(&[(0, send), (1, receive)]);
        let counters = engines[0].counters();
        assert_eq!((counters.messages(class), counters.bytes(class)), (1, 300_000), "{class:?}");
    }
}

//! A wait that lasts is recorded in the segment as long as it lasts; a short one is not.

use mica_channel::direct::DirectOptions;
use mica_node::segment::{WaitKind, Waiting};

use super::rig::{SHAPE, over_shared_memory};
use crate::engine::{Engine, EngineState};
use crate::wait::pending::{Pending, WaitList};

/// Polls after which a wait must have been recorded.
const POLLS_MAX: u32 = 1 << 20;

fn receive(_: &EngineState, list: &mut WaitList) {
    list.add(Pending { peer: Some(1), tag: Some(7), ..Pending::of(WaitKind::Receive) });
}

fn recorded(engine: &Engine) -> Option<Waiting> {
    let (waiting, _) = engine.segment.block(engine.rank).waiting()?;
    Some(waiting)
}

#[test]
fn a_wait_is_recorded_until_it_ends() {
    let engines = over_shared_memory(2, SHAPE, &DirectOptions::OFF);
    let engine = &engines[0];
    let mut polls = 0;
    let mut until_recorded = || {
        polls += 1;
        assert!(polls < POLLS_MAX, "not recorded");
        recorded(engine)
    };
    let inside = engine.drive(receive, |_| until_recorded()).expect("no fault");
    assert_eq!((inside.kind, inside.peer, inside.tag), (WaitKind::Receive, 1, 7));
    assert_eq!(recorded(engine), None, "it is over");
    let outside = engine.watch(receive, &mut until_recorded).expect("no fault");
    assert_eq!((outside, recorded(engine)), (inside, None));
}

#[test]
fn a_short_wait_is_not_recorded() {
    let engines = over_shared_memory(2, SHAPE, &DirectOptions::OFF);
    let engine = &engines[0];
    let mut polls = 0;
    let mut briefly = || {
        polls += 1;
        assert_eq!(recorded(engine), None);
        (polls > 60).then_some(())
    };
    engine.drive(receive, |_| briefly()).expect("no fault");
}

//! Tasks of schedules: what polls shared memory while a rank waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use mica_node::counters::Counter;

use super::rig::{HOLD, over_fabric};
use super::scripted::Script;
use crate::MIN_POLLS_BEFORE_PARKING;
use crate::schedule::{Prepare, ScheduleStage, StageTask, TaskError};

/// Complete after this many advances.
#[derive(Debug, Clone)]
struct Patient {
    left: u32,
    advances: Arc<AtomicU32>,
}

impl Prepare for Patient {
    fn prepare(&self) -> Box<dyn StageTask> {
        Box::new(self.clone())
    }
}

impl StageTask for Patient {
    fn leave(&mut self) {}

    fn advance(&mut self) -> Option<Result<(), TaskError>> {
        self.advances.fetch_add(1, Ordering::Relaxed);
        self.left -= 1;
        (self.left == 0).then_some(Ok(()))
    }
}

/// A task checks after half of these polls whether the others can still come; a rank that slept
/// before would sleep until something else wakes it.
#[test]
fn each_task_is_polled_often_before_the_rank_parks() {
    let (engines, _fabric) = over_fabric(2, Script::PLAIN, 1, HOLD);
    let engine = &engines[0];
    let advances = Arc::new(AtomicU32::new(0));
    let stages =
        [MIN_POLLS_BEFORE_PARKING - 8, MIN_POLLS_BEFORE_PARKING / 2, 40, 100].map(|left| {
            let task = Patient { left, advances: advances.clone() };
            ScheduleStage { steps: Vec::new(), local: Vec::new(), task: Some(Arc::new(task)) }
        });
    let id = engine.enter(|state| state.start_schedule(0, 0, stages.into()));
    let parks = || engine.counters().get(Counter::Parks);
    let before = parks();
    let end = engine.drive(|_, _| {}, |state| state.take_schedule(id));
    assert_eq!(end.expect("no fault"), Ok(()));
    assert_eq!(parks() - before, 0, "after {advances:?} advances");
}

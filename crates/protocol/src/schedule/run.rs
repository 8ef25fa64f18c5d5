//! Runs schedules: starts their stages, advances them when something has completed, and keeps their
//! results.

use crate::engine::{EngineState, Fault};
use crate::matching::MatchPattern;
use crate::pt2pt::{Receives, SendCompletion, Sends};
use crate::schedule::{RunningSchedule, ScheduleFailure, ScheduleId, ScheduleStage, ScheduleStep};
use mica_memory::View;
use std::collections::VecDeque;
use std::sync::Arc;

impl EngineState {
    /// Starts a schedule. All its messages carry `context` and `tag`.
    pub fn start_schedule(
        &mut self,
        context: u64,
        tag: i32,
        stages: Arc<[ScheduleStage]>,
    ) -> ScheduleId {
        self.start_schedule_after(context, tag, stages, None)
    }

    /// As [`start_schedule`](Self::start_schedule), of an operation that has failed at this rank
    /// already: it only goes through the messages that the others count on. Its completion is never
    /// asked for.
    pub fn start_failed_schedule(&mut self, context: u64, tag: i32, stages: Arc<[ScheduleStage]>) {
        let failure = Some(ScheduleFailure::AtStart);
        let id = self.start_schedule_after(context, tag, stages, failure);
        self.abandon_schedule(id);
    }

    fn start_schedule_after(
        &mut self,
        context: u64,
        tag: i32,
        stages: Arc<[ScheduleStage]>,
        failure: Option<ScheduleFailure>,
    ) -> ScheduleId {
        let tasks: VecDeque<_> = stages
            .iter()
            .filter_map(|stage| stage.task.as_ref().map(|task| task.prepare()))
            .collect();
        let has_tasks = !tasks.is_empty();
        let running = RunningSchedule {
            context,
            tag,
            stages,
            tasks,
            failure,
            at: 0,
            sends: Vec::new(),
            receives: Vec::new(),
            end: None,
            abandoned: false,
        };
        let key = self.schedules.running.insert(running);
        let index = key.index();
        self.begin_stage(index);
        self.advance_schedule(index);
        if self.schedules.running[index].end.is_none() {
            self.schedules.active.push(index);
            self.schedules.polled_waits += usize::from(has_tasks);
        }
        ScheduleId(key)
    }

    /// Whether the result of a schedule is still to be taken.
    pub fn has_schedule(&self, id: ScheduleId) -> bool {
        self.schedules.running.get(id.0).is_some()
    }

    /// The result of a schedule, if it is complete; the schedule is kept.
    pub fn schedule_result(&self, id: ScheduleId) -> Option<Result<(), ScheduleFailure>> {
        self.schedules.running.get(id.0)?.end.clone()
    }

    /// The result of a schedule, if it is complete; the schedule is then removed.
    pub fn take_schedule(&mut self, id: ScheduleId) -> Option<Result<(), ScheduleFailure>> {
        self.schedules.running.get(id.0)?.end.as_ref()?;
        self.schedules.running.remove(id.0.index()).end
    }

    /// Lets a schedule continue; its completion is never asked for.
    pub fn abandon_schedule(&mut self, id: ScheduleId) {
        let Some(running) = self.schedules.running.get_mut(id.0) else {
            return;
        };
        running.abandoned = true;
        if running.end.is_some() {
            self.schedules.running.remove(id.0.index());
        }
    }

    /// Advances the schedules and reactions that poll shared memory, before this rank parks. True
    /// when something has completed.
    pub(crate) fn advance_tasks(&mut self) -> bool {
        if self.schedules.polled_waits == 0 {
            return false;
        }
        // What had completed before is no reason to park either: the caller may not have seen it.
        let completed_before = self.completions.completed;
        self.run_reactions();
        completed_before || self.completions.completed
    }

    /// Advances all schedules after something has completed.
    #[cold]
    pub(crate) fn advance_schedules(&mut self) {
        let mut at = 0;
        while at < self.schedules.active.len() {
            let index = self.schedules.active[at];
            self.advance_schedule(index);
            if self.schedules.running[index].end.is_some() {
                self.schedules.active.swap_remove(at);
                let has_tasks =
                    self.schedules.running[index].stages.iter().any(|s| s.task.is_some());
                self.schedules.polled_waits -= usize::from(has_tasks);
                if self.schedules.running[index].abandoned {
                    self.schedules.running.remove(index);
                }
            } else {
                at += 1;
            }
        }
    }

    /// Starts the messages of a schedule's current stage. One that cannot be started does not keep
    /// the others from it: peers count on them.
    fn begin_stage(&mut self, index: u32) {
        let RunningSchedule { context, tag, at, .. } = self.schedules.running[index];
        let stages = self.schedules.running[index].stages.clone();
        let Some(stage) = stages.get(at) else { return };
        let empty = self.schedules.running[index].failure.is_some().then(View::empty);
        // Receives first: a message of a rank that is ahead then finds its receive posted.
        for step in &stage.steps {
            if let ScheduleStep::Receive { peer, view } = step {
                let pattern = MatchPattern { context, source: Some(*peer), tag: Some(tag) };
                match self.receive(pattern, empty.as_ref().unwrap_or(view)) {
                    Ok(id) => self.schedules.running[index].receives.push(id),
                    Err(fault) => self.fail_step(index, fault),
                }
            }
        }
        for step in &stage.steps {
            if let ScheduleStep::Send { peer, view } = step {
                let view = empty.as_ref().unwrap_or(view);
                match self.send(*peer, context, tag, view, SendCompletion::Local) {
                    Ok(None) => {}
                    Ok(Some(id)) => self.schedules.running[index].sends.push(id),
                    Err(fault) => self.fail_step(index, fault),
                }
            }
        }
    }

    /// A message of the current stage cannot be started. Without a peer the schedule is over.
    #[cold]
    fn fail_step(&mut self, index: u32, fault: Fault) {
        let is_lost = matches!(fault, Fault::Lost { .. });
        let failure = ScheduleFailure::Fault(fault);
        let running = &mut self.schedules.running[index];
        if is_lost && running.end.is_none() {
            self.complete_schedule(index, Err(failure));
        } else {
            running.failure.get_or_insert(failure);
        }
    }

    /// Advances a schedule as far as possible.
    fn advance_schedule(&mut self, index: u32) {
        while self.schedules.running[index].end.is_none() {
            let EngineState { schedules, sends, receives, .. } = self;
            let running = &mut schedules.running[index];
            if !running.collect(sends, receives) {
                return;
            }
            let (stages, at) = (running.stages.clone(), running.at);
            let Some(stage) = stages.get(at) else {
                let end = running.failure.take().map_or(Ok(()), Err);
                return self.complete_schedule(index, end);
            };
            if self.completions.in_background && !stage.is_messages_alone() {
                self.completions.held_back = true;
                return;
            }
            if stage.task.is_some()
                && let Some(task) = running.tasks.front_mut()
            {
                if running.failure.is_some() {
                    task.leave();
                }
                match task.advance() {
                    None => return,
                    Some(result) => {
                        schedules.task_completed = true;
                        drop(running.tasks.pop_front());
                        let failure = result.err().map(ScheduleFailure::Task);
                        running.failure = running.failure.take().or(failure);
                    }
                }
            }
            let local = match self.schedules.running[index].failure {
                None => &stage.local[..],
                Some(_) => &[],
            };
            let failed = local.iter().find_map(|work| work.run().err());
            if let Some(code) = failed {
                self.schedules.running[index].failure = Some(ScheduleFailure::Local(code));
            }
            self.schedules.running[index].at = at + 1;
            self.begin_stage(index);
        }
    }

    fn complete_schedule(&mut self, index: u32, end: Result<(), ScheduleFailure>) {
        self.schedules.running[index].end = Some(end);
        self.completions.note();
    }
}

impl RunningSchedule {
    /// Takes the completions of the messages of the current stage. True when there are no others.
    fn collect(&mut self, sends: &mut Sends, receives: &mut Receives) -> bool {
        self.sends.retain(|&id| sends.take(id).is_none());
        let mut failure = None;
        self.receives.retain(|&id| match receives.take(id) {
            None => true,
            Some(done) => {
                if done.sent > done.capacity {
                    failure = Some(ScheduleFailure::Truncated(done));
                } else if done.sent == 0 && done.capacity > 0 {
                    failure = Some(ScheduleFailure::Missing(done));
                }
                false
            }
        });
        self.failure = self.failure.take().or(failure);
        self.sends.is_empty() && self.receives.is_empty()
    }
}

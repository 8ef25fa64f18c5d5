//! Runs this rank's part in a collective on the shared area: to its end (blocking), or polled by
//! the engine.

use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use crate::intranode::protocol::shared_slot::SharedSlot;
use mica_node::counters::TrafficClass;
use mica_policy::collective::{Algorithm, Reachability};
use mica_protocol::{EngineState, Pending, Prepare, StageTask, TaskError, WaitKind, WaitList};

use super::call::NodeCall;
use super::dispatch::{PathChoice, PathTaken, perform};
use crate::intranode::direct::exposed::ExposureChoice;
use crate::intranode::protocol::account::CallPart;
use crate::intranode::protocol::group::ReservedOperation;
use crate::intranode::protocol::slot::{OperationSlot, RunMode};
use mica_objects::error::Result;
use mica_objects::process;

impl NodeCall {
    fn path_choice(&self) -> PathChoice {
        if !self.directly {
            return PathChoice::Cells { base: 0 };
        }
        let operation = &self.operation;
        // Where not all ranks know the amounts, a rank offers only parts that are long enough.
        let is_worth = || self.local.is_worth_offering(operation.collective(), operation.longest());
        let packing_pays = || {
            let part = operation.bytes().unwrap_or(operation.longest());
            self.once_reachable(part, Reachability::Packed) == Algorithm::Direct
        };
        let offers = match operation.bytes().is_some() || is_worth() {
            false => ExposureChoice::Nothing,
            true if packing_pays() => ExposureChoice::Packed,
            true => ExposureChoice::InPlace,
        };
        PathChoice::Direct { direction: self.local.direction, offers }
    }

    /// Runs it to its end. Blocks.
    pub(crate) fn run_here(&self, operation: ReservedOperation, context: u64) -> Result<()> {
        block_on(context, self.run(operation, RunMode::Blocking))
    }

    /// Takes this rank's place in the call and leaves it at once, which is an error for the others.
    /// Blocks.
    pub(crate) fn leave_here(&self, operation: ReservedOperation, context: u64) -> Result<()> {
        block_on(context, self.leave(operation, RunMode::Blocking))
    }

    async fn leave(&self, operation: ReservedOperation, mode: RunMode) -> Result<()> {
        let slot = OperationSlot::new(self.group(), operation, mode).labelled(self.label);
        slot.begin(self.operation.own_bytes(slot.me())).await;
        slot.finish();
        Ok(())
    }

    /// This rank's part, from the first stamp to the last.
    async fn run(&self, operation: ReservedOperation, mode: RunMode) -> Result<()> {
        let part = match self.ranks {
            None => CallPart::Whole,
            Some(_) => CallPart::Step,
        };
        let slot =
            OperationSlot::new(self.group(), operation, mode).labelled(self.label).recorded(part);
        let own_bytes = self.operation.own_bytes(slot.me());
        slot.begin(own_bytes).await;
        slot.record_begin(own_bytes);
        let result = perform(&slot, &self.operation, self.path_choice()).await;
        slot.record_end(result.as_ref().map_or("failed", |taken| taken.name()));
        slot.finish();
        let class = match result? {
            PathTaken::Cells => TrafficClass::Area,
            PathTaken::Mapped => TrafficClass::Mapped,
            PathTaken::ByAddress => TrafficClass::Direct,
        };
        let brought = self.operation.brought(self.group().me());
        let counters = &self.local.counters;
        counters.count_collective(class, brought);
        counters.count_algorithm(match class {
            TrafficClass::Area => Algorithm::Shared,
            _ => Algorithm::Direct,
        } as usize);
        Ok(())
    }
}

/// Polls an algorithm to its end, on the communicator with this context. Blocks.
pub(super) fn block_on(context: u64, algorithm: impl Future<Output = Result<()>>) -> Result<()> {
    let mut running = pin!(algorithm);
    let mut polling = Context::from_waker(Waker::noop());
    process::engine()?.watch(waiting_in(context), || match running.as_mut().poll(&mut polling) {
        Poll::Ready(result) => Some(result),
        Poll::Pending => None,
    })?
}

/// What a hang report says about a rank that waits in a collective.
pub(super) fn waiting_in(context: u64) -> impl Fn(&EngineState, &mut WaitList) {
    move |_, list| {
        list.add(Pending { context: Some(context), ..Pending::of(WaitKind::Collective) });
    }
}

impl Prepare for NodeCall {
    fn prepare(&self) -> Box<dyn StageTask> {
        let (call, operation) = (self.clone(), self.reserve());
        let is_left = Arc::new(AtomicBool::new(false));
        let leaves = Arc::clone(&is_left);
        let running = Box::pin(async move {
            // Relaxed: the engine's lock orders it.
            match leaves.load(Ordering::Relaxed) {
                false => call.run(operation, RunMode::Polled).await,
                true => call.leave(operation, RunMode::Polled).await,
            }
        });
        Box::new(RunningCall { running, is_left })
    }
}

/// A call that the engine polls.
struct RunningCall {
    running: Pin<Box<dyn Future<Output = Result<()>> + Send>>,
    is_left: Arc<AtomicBool>,
}

impl StageTask for RunningCall {
    fn leave(&mut self) {
        self.is_left.store(true, Ordering::Relaxed);
    }

    fn advance(&mut self) -> Option<std::result::Result<(), TaskError>> {
        let mut polling = Context::from_waker(Waker::noop());
        match self.running.as_mut().poll(&mut polling) {
            Poll::Pending => None,
            Poll::Ready(result) => Some(
                result.map_err(|error| TaskError { code: error.code(), detail: error.to_string() }),
            ),
        }
    }
}

impl fmt::Debug for RunningCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Running")
    }
}

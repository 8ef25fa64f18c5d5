//! Operations that the program looks for among many (`MPI_Waitany` and its kin over thousands of
//! requests): each has a place, the index of its request in the program's array, and the engine
//! reports the place when the operation completes. So what is complete is found without a look at
//! all others.
//!
//! A report is a hint: the place is worth a look. Who reads the reports looks at the request that
//! is there now, and finds what was not reported (the array may be another one) by looking at all.
//! Each operation is reported once for each time that it was watched; all is behind the engine's
//! lock.
//!
//! Reader: `request/many.rs` of the `mpi` layer.

use mica_memory::OutOfMemory;

use crate::engine::{CompletionReports, EngineState};
use crate::pt2pt::{RecvId, SendId};

impl EngineState {
    /// Makes room for the reports of `more` operations that are to be watched.
    ///
    /// # Errors
    /// There is no memory for that.
    pub fn reserve_places(&mut self, more: usize) -> Result<(), OutOfMemory> {
        let CompletionReports { places, watched } = &mut self.completions.reports;
        let room = watched.saturating_add(more);
        let failed = OutOfMemory { bytes: room.saturating_mul(size_of::<u32>()) };
        places.try_reserve(room).map_err(|_| failed)
    }

    /// Reports `place` when the send is complete. False: it is, or it is gone.
    pub fn watch_send(&mut self, id: SendId, place: u32) -> bool {
        let Some(op) = self.sends.ops.get_mut(id.0).filter(|op| op.phase.end().is_none()) else {
            return false;
        };
        self.completions.reports.watch(&mut op.actions, place);
        true
    }

    /// As [`watch_send`](Self::watch_send), for a receive.
    pub fn watch_receive(&mut self, id: RecvId, place: u32) -> bool {
        if self.is_received(id) {
            return false;
        }
        let actions = &mut self.receives.ops[id.index()].actions;
        self.completions.reports.watch(actions, place);
        true
    }

    /// Reports a place whose operation was complete before it could be watched.
    pub fn report_place(&mut self, place: u32) {
        self.completions.reports.places.push_back(place);
    }

    /// The next place that is reported.
    #[inline]
    pub fn next_reported_place(&mut self) -> Option<u32> {
        self.completions.reports.places.pop_front()
    }
}

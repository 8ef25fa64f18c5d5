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

use crate::end_duties::{EndDuties, WatchedPlaces};
use crate::operation::{RecvId, SendId};
use crate::state::EngineState;

impl EngineState {
    /// Makes room for the reports of `more` operations that are to be watched.
    ///
    /// # Errors
    /// There is no memory for that.
    pub fn reserve_places(&mut self, more: usize) -> Result<(), OutOfMemory> {
        let WatchedPlaces { reported, operations } = &mut self.watched;
        let room = operations.saturating_add(more);
        let failed = OutOfMemory { bytes: room.saturating_mul(size_of::<u32>()) };
        reported.try_reserve(room).map_err(|_| failed)
    }

    /// Reports `place` when the send is complete. False: it is, or it is gone.
    pub fn watch_send(&mut self, id: SendId, place: u32) -> bool {
        let Some(op) = self.operations.sends.get_mut(id.0).filter(|op| op.phase.end().is_none())
        else {
            return false;
        };
        self.watched.watch(&mut op.duties, place);
        true
    }

    /// As [`watch_send`](Self::watch_send), for a receive.
    pub fn watch_receive(&mut self, id: RecvId, place: u32) -> bool {
        if self.is_received(id) {
            return false;
        }
        self.watched.watch(&mut self.operations.recvs[id.index()].duties, place);
        true
    }

    /// Reports a place whose operation was complete before it could be watched.
    pub fn report_place(&mut self, place: u32) {
        self.watched.reported.push_back(place);
    }

    /// The next place that is reported.
    #[inline]
    pub fn next_reported_place(&mut self) -> Option<u32> {
        self.watched.reported.pop_front()
    }

    /// Does what is due at the end of an operation.
    #[cold]
    pub(crate) fn discharge(&mut self, duties: EndDuties) {
        if duties.is_long() {
            self.end_long_message();
        }
        if let Some(place) = duties.place() {
            self.watched.operations -= 1;
            self.report_place(place);
        }
    }
}

//! What is due when a send or receive ends, and the places of those that are
//! [watched](crate::pt2pt::watched).

use std::collections::VecDeque;

/// What is due when an operation ends beside its completion; most have nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct EndDuties(u32);

impl EndDuties {
    const LONG: u32 = 1 << 31;

    /// Of a receive: it is counted as a long message in progress, or not.
    pub fn set_long(&mut self, long: bool) {
        self.0 = self.0 & !Self::LONG | if long { Self::LONG } else { 0 };
    }

    /// Whether it is counted as a long message in progress.
    pub fn is_long(self) -> bool {
        self.0 & Self::LONG != 0
    }

    /// Whether there is nothing to do.
    #[inline(always)]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The place to report.
    pub fn place(self) -> Option<u32> {
        (self.0 & !Self::LONG).checked_sub(1)
    }

    /// Asks to report a place: the index of an element, so below `c_int::MAX`.
    fn watch(&mut self, place: u32) {
        debug_assert!(place < Self::LONG - 1);
        self.0 = self.0 & Self::LONG | (place + 1);
    }
}

/// The places whose operations have completed, in the order of completion.
#[derive(Debug, Default)]
pub(crate) struct WatchedPlaces {
    pub reported: VecDeque<u32>,
    /// Number of operations that are watched.
    pub operations: usize,
}

impl WatchedPlaces {
    /// Asks to report a place, of an operation with these duties.
    pub fn watch(&mut self, duties: &mut EndDuties, place: u32) {
        self.operations += usize::from(duties.place().is_none());
        duties.watch(place);
    }
}

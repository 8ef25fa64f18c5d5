//! One operation of a node group as the [fast path](super::super::fast_path) sees it: an
//! [`OperationSlot`] of which only what a call needs is computed, and kept in registers.

use crate::intranode::protocol::shared_slot::SharedSlot;
use mica_memory::RegionRef;
use mica_node::area::{AreaSlot, OPERATION_SLOTS};

use super::group::{AddressUse, NodeGroup, PHASE_BITS, ReservedOperation};
use super::header::{OperationHeader, OperationKind, RootBefore};
use super::slot::{OperationSlot, RunMode};
use mica_objects::error::Result;

/// One operation of a node group, which is called by a blocking call, has one phase, and is not
/// recorded.
#[derive(Debug, Clone, Copy)]
pub(in crate::intranode) struct FastSlot<'a> {
    group: &'a NodeGroup,
    turn: AreaSlot<'a>,
    number: u64,
    /// This rank's.
    header: OperationHeader,
}

impl<'a> FastSlot<'a> {
    /// The group's next operation. `wait` returns when its memory is [free](NodeGroup::is_free); it
    /// is called if it is not so yet.
    ///
    /// # Errors
    /// Those of `wait`.
    #[inline(always)]
    pub fn begin(
        group: &'a NodeGroup,
        kind: OperationKind,
        bytes: usize,
        wait: impl FnOnce(u64) -> Result<()>,
    ) -> Result<FastSlot<'a>> {
        let (number, before) = group.take_number(kind);
        if !group.is_free(number) {
            wait(number)?;
        }
        Ok(FastSlot::announcing(group, kind, bytes, (number, before)))
    }

    /// As [`begin`](Self::begin); `None` if its memory is not free: nothing was done.
    #[inline(always)]
    pub fn begin_if_free(
        group: &'a NodeGroup,
        kind: OperationKind,
        bytes: usize,
    ) -> Option<FastSlot<'a>> {
        let taken = group.take_number_if(kind, |number| group.is_free(number))?;
        Some(FastSlot::announcing(group, kind, bytes, taken))
    }

    #[inline(always)]
    fn announcing(
        group: &'a NodeGroup,
        kind: OperationKind,
        bytes: usize,
        (number, before): (u64, RootBefore),
    ) -> FastSlot<'a> {
        let header = OperationHeader::new(kind, before, number, number - group.low(), bytes);
        FastSlot::resume(group, number, header)
    }

    /// The operation that this rank has begun with this number and header.
    #[inline(always)]
    pub fn resume(group: &'a NodeGroup, number: u64, header: OperationHeader) -> FastSlot<'a> {
        let turn = group.area.slot((number % OPERATION_SLOTS as u64) as usize);
        FastSlot { group, turn, number, header }
    }

    /// The operation with all that the slow path needs.
    #[cold]
    pub fn operation_slot(self) -> OperationSlot<'a> {
        let reserved = ReservedOperation {
            number: self.number,
            kind: self.header.kind(),
            before: self.header.before(),
            by_address: AddressUse::Never,
            asks_for_cma: false,
            arrival: None,
        };
        OperationSlot::new(self.group, reserved, RunMode::Blocking).with_header(self.header)
    }

    #[inline(always)]
    pub fn group(self) -> &'a NodeGroup {
        self.group
    }

    #[inline(always)]
    pub fn number(self) -> u64 {
        self.number
    }

    /// This rank's.
    #[inline(always)]
    pub fn header(self) -> OperationHeader {
        self.header
    }

    /// See [`OperationSlot::allocate_cell`].
    ///
    /// # Errors
    /// When there is no memory for it.
    #[inline(always)]
    pub fn prepare_cell(self, member: usize) -> Result<()> {
        Ok(self.turn.allocate_before_writing(member)?)
    }

    /// A member's memory for the payload.
    #[inline(always)]
    pub fn cell(self, member: usize) -> RegionRef<'a> {
        self.turn.cell(member)
    }

    /// The bytes in a member's line.
    #[inline(always)]
    pub fn inline_region(self, member: usize) -> RegionRef<'a> {
        self.turn.inline_region(member)
    }

    #[inline(always)]
    fn stamp(self) -> u64 {
        self.number << PHASE_BITS | 1
    }

    /// Stores this rank's header in its line; all must do that, whether they publish or not.
    #[inline(always)]
    pub fn announce(self) {
        self.turn.set_word(self.header.0);
    }

    /// Stores the header of an operation that has failed, which may not have come to that: the
    /// header in a line must be that of the last operation of its slot, or of the one before. A
    /// rank that waits in this slot later takes an older one for the call of that operation.
    #[cold]
    pub fn announce_failed(self) {
        self.announce();
    }

    #[inline(always)]
    fn store_stamp(self) {
        // Both together, after the payload: as in `OperationSlot::publish`.
        self.announce();
        self.turn.publish(self.stamp());
    }

    /// Announces to all others what this rank has written.
    #[inline(always)]
    pub fn publish(self) {
        self.store_stamp();
        self.group.wake_others();
    }

    /// As [`publish`](Self::publish), where only `member` waits for it.
    #[inline(always)]
    pub fn publish_for(self, member: usize) {
        self.store_stamp();
        self.group.area.wake(member);
    }

    /// Whether `member` has published.
    #[inline(always)]
    pub fn has_published(self, member: usize) -> bool {
        self.turn.stamp(member) >= self.stamp()
    }

    /// Whether all others have published.
    #[inline(always)]
    pub fn have_all_published(self) -> bool {
        self.group.others().all(|member| self.has_published(member))
    }

    #[inline(always)]
    fn header_of(self, member: usize) -> OperationHeader {
        OperationHeader(self.turn.word(member))
    }

    /// Processes what `member` has announced when it published.
    ///
    /// # Errors
    /// When it is in another collective.
    #[inline(always)]
    pub fn accept_header(self, member: usize) -> Result<()> {
        let header = self.header_of(member);
        if header.is_alike(self.header) {
            Ok(())
        } else {
            self.operation_slot().compare(member, header)
        }
    }

    /// Processes what all others have announced when they published.
    ///
    /// # Errors
    /// When one is in another collective.
    #[inline(always)]
    pub fn accept_headers(self) -> Result<()> {
        self.accept_all(|member, header| self.operation_slot().compare(member, header))
    }

    /// As [`accept_headers`](Self::accept_headers), if they are as mostly; else false, and nothing
    /// was done.
    #[inline(always)]
    pub fn accept_alike(self) -> bool {
        self.accept_all(|_, _| Err(())).is_ok()
    }

    /// Learns up to which operation all have finished, if `accept_unlike` takes each header that
    /// is not like this rank's.
    #[inline(always)]
    fn accept_all<E>(
        self,
        accept_unlike: impl Fn(usize, OperationHeader) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let mut safe = self.group.low();
        for member in self.group.others() {
            let header = self.header_of(member);
            if !header.is_alike(self.header) {
                accept_unlike(member, header)?;
            }
            safe = safe.min(self.number - header.lag());
        }
        self.group.raise_safe(safe);
        Ok(())
    }

    /// Bytes that `member` takes part with; valid after it has published.
    #[inline(always)]
    pub fn bytes(self, member: usize) -> usize {
        self.header_of(member).bytes()
    }

    /// Refuses a `member` that takes part with a number of bytes other than `bytes`.
    ///
    /// # Errors
    /// If it does.
    #[inline(always)]
    pub fn expect_bytes(self, member: usize, bytes: usize) -> Result<()> {
        match self.bytes(member) == bytes {
            true => Ok(()),
            false => self.operation_slot().expect_bytes(member, bytes),
        }
    }

    /// This rank is done with all memory of the operation. It prefetches its line, and `bytes`
    /// bytes of its cell, for its next one: the others have copies of the line, so that a store
    /// would wait until these are gone, about as long as the transfer of a line takes.
    #[inline(always)]
    pub fn finish(self, bytes: usize) {
        self.group.area.fetch((self.number + 1) as usize % OPERATION_SLOTS, bytes);
        self.group.finish(self.number);
    }
}

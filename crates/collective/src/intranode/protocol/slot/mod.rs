//! One operation of a node group: what a member announces to the others and waits for, by stamps
//! and the operation headers beside them.

mod mismatch;
pub mod record;
mod steps;

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::Poll;

use crate::intranode::protocol::shared_slot::SharedSlot;
use mica_node::area::OPERATION_SLOTS;

use mica_protocol::MIN_POLLS_BEFORE_PARKING;

use crate::intranode::protocol::group::{AddressUse, NodeGroup, PHASE_BITS, ReservedOperation};
use crate::intranode::protocol::header::{OperationHeader, OperationKind, RootBefore};
use crate::label::CallLabel;
use crate::late::{self, ArrivalCount};
use mica_objects::error::Result;

/// Polls of a line in a row, where a rank has nothing else to do and a core of its own: returning
/// to the caller and coming back takes as long as several polls.
const POLLS_PER_TRY: u32 = 40;

/// Failed tries of an operation, each of [`OperationSlot::polls_per_try`] polls, before a rank
/// announces which operation it waits in and checks whether the others can still arrive. This is
/// more than a wait usually takes where ranks share cores. A rank that sleeps does neither, so it
/// must get here before it parks.
const POLLS_BEFORE_ANNOUNCING: u32 = MIN_POLLS_BEFORE_PARKING / 2;

/// One operation of a node group, from this rank's view.
#[derive(Debug)]
pub struct OperationSlot<'a> {
    group: &'a NodeGroup,
    number: u64,
    at: usize,
    kind: OperationKind,
    /// The function by which it was called.
    label: CallLabel,
    before: RootBefore,
    /// How it is recorded, if it is ([`record`], [`account`](super::account)).
    recording: record::Recording<'a>,
    /// The operation header that the line holds beside the stamp, once the slot is open. Only this
    /// rank uses it.
    own_header: AtomicU64,
    header_is_stored: AtomicBool,
    by_address: AddressUse,
    /// Whether this operation finds out if copies by address work.
    asks_for_cma: bool,
    /// How often to poll a line before returning to the caller.
    polls_per_try: u32,
    /// Polls that found nothing. Only this rank uses it.
    failed_polls: AtomicU32,
    /// Records all arrivals that are seen, if they are counted.
    arrival: Option<Arc<ArrivalCount>>,
}

/// Who advances an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunMode {
    /// This thread, which does nothing else until it has ended.
    Blocking,
    /// The engine, between other things.
    Polled,
}

impl<'a> OperationSlot<'a> {
    /// The reserved `operation`.
    pub fn new(
        group: &'a NodeGroup,
        operation: ReservedOperation,
        run: RunMode,
    ) -> OperationSlot<'a> {
        OperationSlot {
            group,
            number: operation.number,
            at: (operation.number % OPERATION_SLOTS as u64) as usize,
            kind: operation.kind,
            before: operation.before,
            label: CallLabel::UNKNOWN,
            recording: record::Recording::Off,
            own_header: AtomicU64::new(0),
            header_is_stored: AtomicBool::new(false),
            by_address: operation.by_address,
            asks_for_cma: operation.asks_for_cma,
            polls_per_try: match run {
                RunMode::Blocking if group.has_cores => POLLS_PER_TRY,
                RunMode::Blocking | RunMode::Polled => 1,
            },
            failed_polls: AtomicU32::new(0),
            arrival: operation.arrival,
        }
    }

    /// The same operation, open, where this rank announces `header`.
    pub(super) fn with_header(self, header: OperationHeader) -> OperationSlot<'a> {
        self.own_header.store(header.0, Ordering::Relaxed);
        self
    }

    /// The same operation, called by the function that `label` names.
    pub fn labelled(self, label: CallLabel) -> OperationSlot<'a> {
        OperationSlot { label, ..self }
    }

    /// The node group.
    #[inline]
    pub fn group(&self) -> &'a NodeGroup {
        self.group
    }

    /// A member's rank in the job.
    pub fn rank(&self, member: usize) -> u32 {
        self.group.area.members()[member]
    }

    /// Waits until the slot's memory is free, and prepares the header for the other members: this
    /// rank takes part in an operation of this kind with `bytes` bytes.
    #[inline]
    pub async fn begin(&self, bytes: usize) {
        if !self.is_free() {
            poll_fn(|_| match self.is_free() {
                true => Poll::Ready(()),
                false => Poll::Pending,
            })
            .await;
        }
        self.open(bytes);
    }

    /// Whether all members are done with the slot's memory.
    #[inline]
    pub fn is_free(&self) -> bool {
        self.group.is_free(self.number)
    }

    /// The rest of [`begin`](Self::begin), once the slot is [free](Self::is_free).
    #[inline]
    pub fn open(&self, bytes: usize) {
        let lag = self.number - self.group.low();
        let header = OperationHeader::new(self.kind, self.before, self.number, lag, bytes);
        self.own_header.store(header.0, Ordering::Relaxed);
        if late::is_on() && self.arrival.is_none() {
            // What the previous operation of this slot announced does not apply to this one.
            self.group.area.set_arrived(self.at, 0);
        }
    }

    /// Stores this rank's header and label in its line.
    #[inline]
    fn store_header(&self) {
        let header = self.own_header.load(Ordering::Relaxed);
        self.group.area.set_word(self.at, header);
        if self.label != CallLabel::UNKNOWN {
            let label = self.number << 8 | u64::from(self.label.number());
            self.group.area.set_label(self.at, label);
        }
        self.header_is_stored.store(true, Ordering::Relaxed);
    }

    /// Publishes `phase`.
    #[inline]
    fn store_stamp(&self, phase: u32) {
        // Everything in the line is stored together, after the payload: otherwise members that poll
        // the line would take the cache line away in between.
        self.store_header();
        if let Some(arrival) = &self.arrival {
            self.group.area.set_arrived(self.at, arrival.word());
        }
        self.group.area.publish(self.at, self.stamp(phase));
        if self.records_steps() {
            self.record(format_args!("publish {phase}"));
        }
    }

    /// Records what a member has announced about arrivals, with a stamp that was seen.
    #[inline]
    fn record_arrival(&self, member: usize) {
        if let Some(arrival) = &self.arrival {
            arrival.saw(self.group.area.arrived(self.at, member));
        }
    }

    #[inline]
    fn stamp(&self, phase: u32) -> u64 {
        debug_assert!(phase < 1 << PHASE_BITS);
        self.number << PHASE_BITS | u64::from(phase)
    }

    /// Whether `member` has reached `phase`.
    #[inline]
    pub fn has_reached(&self, member: usize, phase: u32) -> bool {
        self.group.area.stamp(self.at, member) >= self.stamp(phase)
    }

    /// Polls a few times, if this rank has nothing else to do.
    #[inline]
    fn reaches(&self, member: usize, phase: u32) -> bool {
        (0..self.polls_per_try).any(|poll| {
            if poll > 0 {
                std::hint::spin_loop();
            }
            self.has_reached(member, phase)
        })
    }

    /// After a failed poll of `member`: whether to poll again.
    fn after_failed_poll(&self, member: usize, phase: u32) -> Poll<Result<()>> {
        match self.check_reachable(member, phase) {
            Ok(()) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    /// Counts a failed poll. Returns true from poll number [`POLLS_BEFORE_ANNOUNCING`] on: then the
    /// other members' headers and marks are worth the cache lines that it takes to read them. At
    /// that poll, this rank announces which operation it is in.
    fn count_failed_poll(&self) -> bool {
        let polls = self.failed_polls.load(Ordering::Relaxed).saturating_add(1);
        self.failed_polls.store(polls, Ordering::Relaxed);
        if polls == POLLS_BEFORE_ANNOUNCING {
            // Other waiting members see from this what this rank does, even if it has published no
            // stamp; and members that finish later wake it.
            self.store_header();
            self.group.area.await_finish(self.number);
        }
        polls >= POLLS_BEFORE_ANNOUNCING
    }

    /// Checks that `member`, which had not reached `phase` when this rank polled, can still reach
    /// it.
    ///
    /// # Errors
    /// When it is in another collective, or has left this one.
    #[cold]
    pub fn check_reachable(&self, member: usize, phase: u32) -> Result<()> {
        match self.count_failed_poll() {
            true => self.check_reachable_now(member, phase),
            false => Ok(()),
        }
    }

    /// As [`check_reachable`](Self::check_reachable), for all others.
    ///
    /// # Errors
    /// As [`check_reachable`](Self::check_reachable).
    #[cold]
    pub fn check_all_reachable(&self, phase: u32) -> Result<()> {
        if !self.count_failed_poll() {
            return Ok(());
        }
        let late = |&member: &usize| !self.has_reached(member, phase);
        self.group
            .others()
            .filter(late)
            .try_for_each(|member| self.check_reachable_now(member, phase))
    }

    /// Checks that `member` takes part in the same operation and has not left it, as far as it has
    /// announced.
    fn check_reachable_now(&self, member: usize, phase: u32) -> Result<()> {
        // Read without a stamp: the header itself shows whether it belongs to this operation, and
        // nothing else is read because of it.
        let header = self.header_of(member);
        if header.is_of(self.number) {
            self.check(member, header)?;
        }
        // The mark is read first: then all stamps that its owner published before it are visible.
        if self.group.area.finished(member) >= self.number && !self.has_reached(member, phase) {
            return Err(self.has_left(member));
        }
        Ok(())
    }

    /// A member's operation header.
    #[inline]
    fn header_of(&self, member: usize) -> OperationHeader {
        OperationHeader(self.group.area.word(self.at, member))
    }

    /// Processes what `member` has announced with a phase that it has reached.
    ///
    /// # Errors
    /// When it is in another collective.
    #[inline]
    pub fn accept_header(&self, member: usize) -> Result<()> {
        self.record_arrival(member);
        self.check(member, self.header_of(member))
    }

    /// Processes what the others have announced with a phase that they all have reached.
    ///
    /// # Errors
    /// When one is in another collective.
    #[inline]
    pub fn accept_headers(&self) -> Result<()> {
        let mut safe = self.group.low();
        for member in self.group.others() {
            self.record_arrival(member);
            let header = self.header_of(member);
            self.check(member, header)?;
            safe = safe.min(self.number - header.lag());
        }
        self.group.raise_safe(safe);
        Ok(())
    }

    #[inline]
    fn check(&self, member: usize, header: OperationHeader) -> Result<()> {
        let own = OperationHeader(self.own_header.load(Ordering::Relaxed));
        if header.is_alike(own) { Ok(()) } else { self.compare(member, header) }
    }

    /// Bytes that this rank takes part with.
    fn own_bytes(&self) -> usize {
        OperationHeader(self.own_header.load(Ordering::Relaxed)).bytes()
    }

    /// Makes the next stamp announce that this rank could not copy what it should have copied
    /// directly. The flag stays set for the operation.
    pub fn refuse(&self) {
        let header = OperationHeader(self.own_header.load(Ordering::Relaxed)).refused();
        self.own_header.store(header.0, Ordering::Relaxed);
    }

    /// Whether `member`, this rank included, could not copy; for others, valid after a phase that
    /// announces it.
    pub fn has_refused(&self, member: usize) -> bool {
        match member == self.me() {
            true => OperationHeader(self.own_header.load(Ordering::Relaxed)).is_refused(),
            false => self.header_of(member).is_refused(),
        }
    }

    /// Whether any member could not copy.
    pub fn has_any_refused(&self) -> bool {
        (0..self.size()).any(|member| self.has_refused(member))
    }

    /// This rank is done with all memory of the slot.
    #[inline]
    pub fn finish(self) {
        if !self.header_is_stored.load(Ordering::Relaxed) {
            // For members that still wait: the header in a line must be that of the last operation
            // of its slot, or of the one before.
            self.store_header();
        }
        self.group.finish(self.number);
    }

    /// Allocates the cell of `member`, unless it is known to be: before this rank writes it.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn allocate_cell(&self, member: usize) -> Result<()> {
        Ok(self.group.area.allocate_before_writing(self.at, member)?)
    }

    /// Bytes of half a cell.
    #[inline]
    pub fn half_bytes(&self) -> usize {
        self.group.half_bytes()
    }

    /// Puts words in this rank's line.
    pub fn put_words(&self, words: [u64; 6]) {
        self.group.area.put_words(self.at, words);
    }

    /// The words in a member's line.
    pub fn words(&self, member: usize) -> [u64; 6] {
        self.group.area.get_words(self.at, member)
    }

    /// Whether this operation may copy by address; the same at all members.
    pub fn may_go_by_address(&self) -> bool {
        self.by_address == AddressUse::Allowed
    }

    /// Whether all members can reach all others' memory by address. The node group's first
    /// operation that copies directly finds this out, in the two phases after `phase`. Also returns
    /// the last phase that it used.
    ///
    /// # Errors
    /// As [`all_reached`](Self::all_reached).
    pub async fn agree_on_cma(&self, phase: u32) -> Result<(bool, u32)> {
        if let Some(&agreed) = self.group.cma.get()
            && !self.asks_for_cma
        {
            return Ok((agreed, phase));
        }
        if !self.asks_for_cma {
            // The operation that finds out is in progress.
            let agreed = poll_fn(|_| match self.group.cma.get() {
                Some(&agreed) => Poll::Ready(agreed),
                None => Poll::Pending,
            });
            return Ok((agreed.await, phase));
        }
        let asked = self.ask_for_cma(phase).await;
        // Also after an error: later operations wait for the answer.
        let _ = self.group.cma.set(matches!(asked, Ok(true)));
        asked.map(|agreed| (agreed, phase + 2))
    }

    /// Asks all members, in the two phases after `phase`.
    async fn ask_for_cma(&self, phase: u32) -> Result<bool> {
        let members = self.group.area.members();
        let can = self.group.reach().is_some_and(|reach| {
            self.group.others().all(|member| reach.cma_works(members[member]))
        });
        self.put_words([u64::from(can), 0, 0, 0, 0, 0]);
        self.publish(phase + 1);
        self.all_reached(phase + 1).await?;
        let agreed = can && self.group.others().all(|member| self.words(member)[0] == 1);
        // The words are overwritten next, so wait until all have read them.
        self.publish(phase + 2);
        self.all_reached(phase + 2).await?;
        Ok(agreed)
    }
}

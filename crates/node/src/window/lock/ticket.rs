//! [`LockTicket`]: an origin's turn at one lock.

use super::words::LockMode;

/// An origin's turn at one lock, from [`begin`](super::WindowLock::begin) to
/// [`release`](super::WindowLock::release).
///
/// One word: it is moved from call to call, and a value that was written in parts is loaded as a
/// whole only after the parts have left the store buffer (4 ns each time).
#[derive(PartialEq, Eq)]
#[must_use = "the lock is held, or will be, until the ticket is released"]
pub struct LockTicket(u64);

/// Bits 0 to 31: the origin. Bit 32: exclusive. Bit 33: held.
const EXCLUSIVE: u64 = 1 << 32;
const HELD: u64 = 1 << 33;
/// Bits 34 to 47: polls between two attempts. Bits 48 to 61: how many of them are left.
const INTERVAL_SHIFT: u32 = 34;
const LEFT_SHIFT: u32 = 48;
const POLLS_MASK: u64 = (1 << (LEFT_SHIFT - INTERVAL_SHIFT)) - 1;

/// Polls of an origin that waits from one look at `owners` to the next.
pub(super) const LOOK_EVERY: u32 = if cfg!(loom) { 1 } else { 15 };

impl LockTicket {
    // flag: the outcome of the attempt to take the lock.
    #[inline(always)]
    pub(super) fn new(origin: u32, mode: LockMode, is_held: bool) -> LockTicket {
        let mode = match mode {
            LockMode::Shared => 0,
            LockMode::Exclusive => EXCLUSIVE,
        };
        let held = if is_held { HELD } else { 0 };
        let mut ticket = LockTicket(u64::from(origin) | mode | held);
        ticket.pause(1);
        ticket
    }

    /// The rank that takes the lock.
    #[inline(always)]
    pub fn origin(&self) -> u32 {
        self.0 as u32
    }

    /// How it takes the lock.
    #[inline(always)]
    pub fn mode(&self) -> LockMode {
        match self.0 & EXCLUSIVE {
            0 => LockMode::Shared,
            _ => LockMode::Exclusive,
        }
    }

    #[inline(always)]
    pub(super) fn is_held(&self) -> bool {
        self.0 & HELD != 0
    }

    pub(super) fn set_held(&mut self) {
        self.0 |= HELD;
    }

    /// Test&Set, barging: polls between two attempts.
    pub(super) fn interval(&self) -> u32 {
        (self.0 >> INTERVAL_SHIFT & POLLS_MASK) as u32
    }

    /// Test&Set, barging: the next attempt is the last of this many polls, fewer than 2^14.
    #[inline(always)]
    pub(super) fn pause(&mut self, interval: u32) {
        let polls = u64::from(interval) & POLLS_MASK;
        let rest = self.0 & ((1 << INTERVAL_SHIFT) - 1);
        self.0 = rest | polls << INTERVAL_SHIFT | polls << LEFT_SHIFT;
    }

    /// Test&Set, barging: counts a poll; true if the pause is over with it.
    pub(super) fn ends_pause(&mut self) -> bool {
        self.0 -= 1 << LEFT_SHIFT;
        self.0 >> LEFT_SHIFT == 0
    }

    /// Test&Set, barging: the next poll makes an attempt, although the pause is not over. For an
    /// origin that has slept. One that parks must do this for its last poll.
    pub fn end_pause(&mut self) {
        self.0 = self.0 & ((1 << LEFT_SHIFT) - 1) | 1 << LEFT_SHIFT;
    }
}

impl std::fmt::Debug for LockTicket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LockTicket")
            .field("origin", &self.origin())
            .field("mode", &self.mode())
            .field("is_held", &self.is_held())
            .finish()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_disturb_one_another() {
        for mode in [LockMode::Shared, LockMode::Exclusive] {
            let mut ticket = LockTicket::new(u32::MAX - 1, mode, false);
            assert!(!ticket.is_held() && ticket.interval() == 1);
            assert!(ticket.ends_pause());
            ticket.pause(1 << 13);
            assert!(!ticket.ends_pause());
            ticket.set_held();
            assert!(ticket.is_held() && ticket.interval() == 1 << 13);
            ticket.end_pause();
            assert!(ticket.ends_pause());
            assert_eq!((ticket.origin(), ticket.mode()), (u32::MAX - 1, mode));
        }
    }
}

//! Restores the order in which each sender sent its messages.
//!
//! A provider that keeps order (FI_ORDER_SAS) matches messages to receives in order, but may report
//! the completions of the receives in another order. Every message has a sequence number
//! ([`super::wire`]); a message that is reported early is held until its predecessors have arrived.

/// How far ahead of the expected number a message may be. A provider is never further ahead than
/// the number of receives; a message beyond this bound is not one of ours.
const AHEAD: u32 = 1 << 16;

#[derive(Debug)]
pub(super) struct Order<T> {
    /// By sender: the number of the next message.
    next: Vec<u32>,
    held: Vec<(u32, u32, T)>,
}

impl<T> Order<T> {
    pub fn new(senders: usize) -> Order<T> {
        Order { next: vec![0; senders], held: Vec::new() }
    }

    /// Handles the arrival of message `number` of `source`: calls `deliver` for it and for those
    /// that have waited for it, or holds it.
    ///
    /// # Errors
    /// Returns the item if there is no such sender, the number is a duplicate, or it is out of
    /// range.
    pub fn admit(
        &mut self,
        source: u32,
        number: u32,
        item: T,
        mut deliver: impl FnMut(u32, T),
    ) -> Result<(), T> {
        let Some(next) = self.next.get_mut(source as usize) else {
            return Err(item);
        };
        if number != *next {
            let known = |(s, n, _): &(u32, u32, T)| (*s, *n) == (source, number);
            if number.wrapping_sub(*next) > AHEAD || self.held.iter().any(known) {
                return Err(item);
            }
            self.held.push((source, number, item));
            return Ok(());
        }
        *next = next.wrapping_add(1);
        deliver(source, item);
        while let Some(at) = self.held.iter().position(|(s, n, _)| (*s, *n) == (source, *next)) {
            *next = next.wrapping_add(1);
            deliver(source, self.held.swap_remove(at).2);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn admitted(order: &mut Order<u32>, source: u32, number: u32) -> Result<Vec<u32>, u32> {
        let mut out = Vec::new();
        let result = order.admit(source, number, number, |_, item| out.push(item));
        result.map(|()| out)
    }

    #[test]
    fn holds_messages_ahead_of_the_expected_number() {
        let mut order = Order::new(2);
        assert_eq!(admitted(&mut order, 0, 1), Ok(vec![]));
        assert_eq!(admitted(&mut order, 1, 0), Ok(vec![0]));
        assert_eq!(admitted(&mut order, 0, 2), Ok(vec![]));
        assert_eq!(admitted(&mut order, 0, 0), Ok(vec![0, 1, 2]));
    }

    #[test]
    fn what_was_there_or_cannot_be_is_given_back() {
        let mut order = Order::new(1);
        assert_eq!(admitted(&mut order, 0, 0), Ok(vec![0]));
        assert_eq!(admitted(&mut order, 0, 0), Err(0));
        assert_eq!(admitted(&mut order, 0, 5), Ok(vec![]));
        assert_eq!(admitted(&mut order, 0, 5), Err(5));
        assert_eq!(admitted(&mut order, 0, AHEAD + 2), Err(AHEAD + 2));
        assert_eq!(admitted(&mut order, 1, 0), Err(0));
    }

    #[test]
    fn numbers_wrap() {
        let mut order = Order::new(1);
        order.next[0] = u32::MAX;
        assert_eq!(admitted(&mut order, 0, 0), Ok(vec![]));
        assert_eq!(admitted(&mut order, 0, u32::MAX), Ok(vec![u32::MAX, 0]));
    }

    proptest! {
        #[test]
        fn any_order_becomes_the_right_one(
            numbers in Just((0..40u32).collect::<Vec<_>>()).prop_shuffle(),
        ) {
            let mut order = Order::new(1);
            let mut out = Vec::new();
            for number in numbers {
                order.admit(0, number, number, |_, item| out.push(item)).unwrap();
            }
            prop_assert_eq!(out, (0..40).collect::<Vec<_>>());
        }
    }
}

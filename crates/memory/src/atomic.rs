//! Processor atomics on elements in memory that several ranks reach: accumulate operations are
//! atomic for each element (MPI 5.0, 12.3).
//!
//! An element is 1, 2, 4 or 8 bytes at an address that its size divides ([`AtomicWidth::at`]), or
//! 16 ([`wide_atomic`](super::wide_atomic)); others are changed in a bulk update, which excludes
//! these atomics (`mica_node::window::AccumulateGate`). A value is the element's bytes as the
//! processor stores them, in the low bytes of a word; what they mean (integer, floating point) is
//! the caller's.
//!
//! Each operation is one read-modify-write with Acquire and Release: what an origin did before is
//! visible to the origin that reads the value it wrote.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use super::region::RegionRef;

/// Bytes of an element that the processor updates in one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtomicWidth {
    /// One byte.
    One,
    /// Two bytes.
    Two,
    /// Four bytes.
    Four,
    /// Eight bytes.
    Eight,
}

impl AtomicWidth {
    /// The width of elements of `bytes` bytes at `address`; `None` if the processor has no atomics
    /// for them.
    #[inline(always)]
    pub fn at(address: usize, bytes: usize) -> Option<AtomicWidth> {
        let width = match bytes {
            1 => AtomicWidth::One,
            2 => AtomicWidth::Two,
            4 => AtomicWidth::Four,
            8 => AtomicWidth::Eight,
            _ => return None,
        };
        address.is_multiple_of(bytes).then_some(width)
    }

    /// Number of bytes.
    #[inline(always)]
    pub const fn bytes(self) -> usize {
        match self {
            AtomicWidth::One => 1,
            AtomicWidth::Two => 2,
            AtomicWidth::Four => 4,
            AtomicWidth::Eight => 8,
        }
    }
}

/// Evaluates `$body` with `$atomic` as the atomic of this width at the region's address, and `$t`
/// as its integer.
macro_rules! with_atomic {
    ($region:expr, $width:expr, |$atomic:ident: $t:ident| $body:expr) => {{
        let at = $region.atomic_address($width);
        macro_rules! arm {
            ($class:ident, $int:ident) => {{
                #[allow(non_camel_case_types, reason = "an integer's name")]
                type $t = $int;
                // SAFETY: `atomic_address` has checked that the bytes are this region's, and that
                // they are aligned. All ranks access the element by atomics of this width, by the
                // caller's promise; a program that breaks MPI's rules gets wrong values, as for any
                // other region.
                let $atomic = unsafe { $class::from_ptr(at.cast()) };
                $body
            }};
        }
        match $width {
            AtomicWidth::One => arm!(AtomicU8, u8),
            AtomicWidth::Two => arm!(AtomicU16, u16),
            AtomicWidth::Four => arm!(AtomicU32, u32),
            AtomicWidth::Eight => arm!(AtomicU64, u64),
        }
    }};
}

/// Plain accesses to a value of this width, at any address.
impl RegionRef<'_> {
    /// The value here.
    ///
    /// # Panics
    /// If the region does not have the bytes.
    #[inline(always)]
    pub fn load(self, width: AtomicWidth) -> u64 {
        let at = self.checked(width.bytes());
        // SAFETY: checked to have the bytes of this width, which may be unaligned.
        unsafe {
            match width {
                AtomicWidth::One => (*at).into(),
                AtomicWidth::Two => at.cast::<u16>().read_unaligned().into(),
                AtomicWidth::Four => at.cast::<u32>().read_unaligned().into(),
                AtomicWidth::Eight => at.cast::<u64>().read_unaligned(),
            }
        }
    }

    /// Stores the value here.
    ///
    /// # Panics
    /// If the region does not have the bytes.
    #[inline(always)]
    pub fn store(self, width: AtomicWidth, value: u64) {
        let at = self.checked(width.bytes());
        // SAFETY: as in `load`; by the caller's promise no other code accesses the bytes.
        unsafe {
            match width {
                AtomicWidth::One => *at = value as u8,
                AtomicWidth::Two => at.cast::<u16>().write_unaligned(value as u16),
                AtomicWidth::Four => at.cast::<u32>().write_unaligned(value as u32),
                AtomicWidth::Eight => at.cast::<u64>().write_unaligned(value),
            }
        }
    }
}

impl RegionRef<'_> {
    /// # Panics
    /// If the region does not have the bytes, or they are not aligned.
    #[inline(always)]
    fn atomic_address(self, width: AtomicWidth) -> *mut u8 {
        let at = self.checked(width.bytes());
        assert!(
            at.addr().is_multiple_of(width.bytes()),
            "an element of {} bytes at {at:p} is not aligned",
            width.bytes()
        );
        at
    }

    /// The element's value.
    ///
    /// # Panics
    /// Here and below: if the region does not have the element's bytes, or they are not aligned.
    #[inline(always)]
    pub fn atomic_load(self, width: AtomicWidth) -> u64 {
        with_atomic!(self, width, |atomic: Int| {
            let value: Int = atomic.load(Ordering::Acquire);
            u64::from(value)
        })
    }

    /// Stores `value`, with Release.
    #[inline(always)]
    pub fn atomic_store(self, width: AtomicWidth, value: u64) {
        with_atomic!(self, width, |atomic: Int| atomic.store(value as Int, Ordering::Release));
    }

    /// Stores `value`; returns the previous value.
    #[inline(always)]
    pub fn atomic_swap(self, width: AtomicWidth, value: u64) -> u64 {
        with_atomic!(self, width, |atomic: Int| {
            u64::from(atomic.swap(value as Int, Ordering::AcqRel))
        })
    }

    /// Adds `value` as an integer that wraps around; returns the previous value. The same bytes for
    /// signed and unsigned integers.
    #[inline(always)]
    pub fn atomic_add(self, width: AtomicWidth, value: u64) -> u64 {
        with_atomic!(self, width, |atomic: Int| {
            u64::from(atomic.fetch_add(value as Int, Ordering::AcqRel))
        })
    }

    /// Stores `new` if the value is `expected`; returns the value that was found.
    #[inline(always)]
    pub fn atomic_compare_swap(self, width: AtomicWidth, expected: u64, new: u64) -> u64 {
        with_atomic!(self, width, |atomic: Int| {
            let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
            match atomic.compare_exchange(expected as Int, new as Int, success, failure) {
                Ok(found) | Err(found) => u64::from(found),
            }
        })
    }

    /// Replaces the value by `f` of it; returns the previous value. `f` is called again whenever
    /// another rank has changed the value meanwhile.
    #[inline(always)]
    pub fn atomic_update(self, width: AtomicWidth, f: impl Fn(u64) -> u64) -> u64 {
        with_atomic!(self, width, |atomic: Int| {
            let mut value = atomic.load(Ordering::Relaxed);
            loop {
                let new = f(u64::from(value)) as Int;
                let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
                match atomic.compare_exchange_weak(value, new, success, failure) {
                    Ok(found) => break u64::from(found),
                    Err(found) => value = found,
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Block;

    const WIDTHS: [AtomicWidth; 4] =
        [AtomicWidth::One, AtomicWidth::Two, AtomicWidth::Four, AtomicWidth::Eight];

    #[test]
    fn only_aligned_elements_of_a_processors_width_qualify() {
        for width in WIDTHS {
            let bytes = width.bytes();
            assert_eq!(AtomicWidth::at(64, bytes), Some(width));
            assert_eq!(AtomicWidth::at(64 + bytes, bytes), Some(width));
            assert_eq!(AtomicWidth::at(65, bytes).is_some(), bytes == 1);
        }
        for bytes in [0, 3, 6, 12, 16] {
            assert_eq!(AtomicWidth::at(64, bytes), None);
        }
    }

    #[test]
    fn operations_return_the_previous_value_and_touch_no_neighbour() {
        for width in WIDTHS {
            let region = Block::allocate(32).expect("memory");
            region.write_bytes(&[0xAA; 32]);
            let bytes = width.bytes();
            let mask = u64::MAX >> (64 - 8 * bytes);
            let element = region.at(8);
            element.atomic_swap(width, 5);
            assert_eq!(element.atomic_add(width, u64::MAX), 5);
            assert_eq!(element.atomic_load(width), 4);
            assert_eq!(element.atomic_compare_swap(width, 3, 9), 4);
            assert_eq!(element.atomic_compare_swap(width, 4, mask), 4);
            assert_eq!(element.atomic_add(width, 1), mask);
            assert_eq!(element.atomic_update(width, |value| value ^ 6), 0);
            assert_eq!(element.atomic_swap(width, 7), 6);
            assert_eq!(element.load(width), 7);
            element.store(width, mask);
            assert_eq!(element.atomic_swap(width, 0), mask);
            region.at(9).store(width, mask);
            assert_eq!(region.at(9).load(width), mask);
            region.at(8).write_bytes(&[0; 9]);
            region.at(8 + bytes).write_bytes(&[0xAA; 9]);
            let mut all = [0; 32];
            region.read_bytes(&mut all);
            assert_eq!(all[..8], [0xAA; 8]);
            assert!(all[8 + bytes..].iter().all(|&byte| byte == 0xAA));
        }
    }

    #[test]
    fn no_update_of_several_threads_is_lost() {
        const EACH: u64 = if cfg!(miri) { 40 } else { 4000 };
        for width in [AtomicWidth::Four, AtomicWidth::Eight] {
            let region = Block::allocate(8).expect("memory");
            region.write_bytes(&[0; 8]);
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        for i in 0..EACH {
                            match i % 3 {
                                0 => region.at(0).atomic_add(width, 1),
                                1 => region.at(0).atomic_update(width, |value| value + 1),
                                _ => loop {
                                    let value = region.at(0).atomic_load(width);
                                    let found =
                                        region.at(0).atomic_compare_swap(width, value, value + 1);
                                    if found == value {
                                        break found;
                                    }
                                },
                            };
                        }
                    });
                }
            });
            assert_eq!(region.at(0).atomic_load(width), 4 * EACH);
        }
    }

    #[test]
    #[should_panic(expected = "is not aligned")]
    fn an_unaligned_element_is_refused() {
        let region = Block::allocate(16).expect("memory");
        region.at(2).atomic_load(AtomicWidth::Four);
    }

    #[test]
    #[should_panic(expected = "reach outside")]
    fn an_element_outside_is_refused() {
        let region = Block::allocate(8).expect("memory");
        region.at(8).atomic_load(AtomicWidth::One);
    }
}

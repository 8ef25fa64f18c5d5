//! Processor atomics on elements of 16 bytes (CMPXCHG16B on x86-64): complex doubles, long doubles,
//! integers of 128 bits.
//!
//! Beside [`AtomicWidth`](super::AtomicWidth), whose values are words: a value is its 16 bytes
//! here. Every processor of x86-64 since 2006 has the instruction, but the architecture does not
//! demand it, so it is asked for. Elsewhere, and where the address is not a multiple of 16,
//! accumulates use the lock (`mica_node::window::AccumulateGate`).

use super::region::RegionRef;

/// Bytes of an element.
const BYTES: usize = 16;

impl RegionRef<'_> {
    /// Whether the processor changes the 16 bytes here in one step.
    ///
    /// # Panics
    /// If the region does not have the bytes.
    #[inline]
    pub fn is_wide_atomic(self) -> bool {
        let at = self.checked(BYTES);
        #[cfg(target_arch = "x86_64")]
        let has_instruction = std::arch::is_x86_feature_detected!("cmpxchg16b");
        #[cfg(not(target_arch = "x86_64"))]
        let has_instruction = false;
        has_instruction && at.addr().is_multiple_of(BYTES)
    }

    /// Replaces the element by `f` of it; returns the previous value. `f` is called again whenever
    /// another rank has changed the element meanwhile.
    ///
    /// # Panics
    /// Here and below: unless [`is_wide_atomic`](Self::is_wide_atomic).
    pub fn wide_update(self, f: impl Fn([u8; BYTES]) -> [u8; BYTES]) -> [u8; BYTES] {
        // The value is most often found by the first attempt, which writes nothing but what is
        // there.
        let mut value = self.wide_compare_swap([0; BYTES], [0; BYTES]);
        loop {
            let found = self.wide_compare_swap(value, f(value));
            if found == value {
                return value;
            }
            value = found;
        }
    }

    /// Stores `new` if the element is `expected`; returns what was found. Acquire and Release.
    pub fn wide_compare_swap(self, expected: [u8; BYTES], new: [u8; BYTES]) -> [u8; BYTES] {
        assert!(self.is_wide_atomic(), "16 bytes at {self:?} are no atomic");
        let (expected, new) = (u128::from_ne_bytes(expected), u128::from_ne_bytes(new));
        // SAFETY: checked right above: the bytes are this region's and aligned, and the processor
        // has the instruction. All ranks change the element by atomics of this width, or under a
        // lock that excludes them, by the caller's promise.
        unsafe { compare_exchange(self.checked(BYTES), expected, new) }.to_ne_bytes()
    }
}

/// # Safety
/// 1. The processor has CMPXCHG16B;
/// 2. at `at`, on a multiple of 16, lie 16 bytes that can be read and written.
#[cfg(target_arch = "x86_64")]
unsafe fn compare_exchange(at: *mut u8, expected: u128, new: u128) -> u128 {
    // By the instruction: the intrinsic of core becomes a call of libatomic where it is not
    // inlined.
    let (low, high): (u64, u64);
    // SAFETY: the obligations. RBX, which an operand may not name, holds the low half for one
    // instruction and is restored. The other operands name their registers, since the compiler may
    // choose RBX for one that does not.
    unsafe {
        std::arch::asm!(
            "xchg rbx, rsi",
            "lock cmpxchg16b [rdi]",
            "mov rbx, rsi",
            in("rdi") at,
            inout("rsi") new as u64 => _,
            in("rcx") (new >> 64) as u64,
            inout("rax") expected as u64 => low,
            inout("rdx") (expected >> 64) as u64 => high,
            options(nostack),
        );
    }
    u128::from(high) << 64 | u128::from(low)
}

/// # Safety
/// None: it is never called.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn compare_exchange(_: *mut u8, _: u128, _: u128) -> u128 {
    unreachable!("is_wide_atomic is false")
}

#[cfg(test)]
mod tests {
    use crate::Block;

    fn number(bytes: [u8; 16]) -> u128 {
        u128::from_ne_bytes(bytes)
    }

    #[test]
    fn updates_return_the_previous_value_and_touch_no_neighbour() {
        let region = Block::allocate(64).expect("memory");
        region.write_bytes(&[0xAA; 64]);
        let start = region.address().next_multiple_of(16) - region.address();
        let element = region.at(start);
        if !element.is_wide_atomic() {
            println!("skipped: this processor has no such instruction");
            return;
        }
        assert!(!region.at(start + 8).is_wide_atomic(), "not aligned");
        let old = number([0xAA; 16]);
        assert_eq!(number(element.wide_update(|_| [0; 16])), old);
        let big = (3u128 << 90 | 5).to_ne_bytes();
        assert_eq!(element.wide_compare_swap([1; 16], big), [0; 16]);
        assert_eq!(element.wide_compare_swap([0; 16], big), [0; 16]);
        let previous = element.wide_update(|value| (number(value) + 1).to_ne_bytes());
        assert_eq!(previous, big);
        let mut all = [0; 64];
        region.read_bytes(&mut all);
        assert_eq!(all[start..start + 16], (number(big) + 1).to_ne_bytes());
        let outside = all[..start].iter().chain(&all[start + 16..]);
        assert!(outside.into_iter().all(|&byte| byte == 0xAA));
    }

    #[test]
    fn no_update_of_several_threads_is_lost() {
        const EACH: u128 = if cfg!(miri) { 20 } else { 4000 };
        let region = Block::allocate(32).expect("memory");
        region.write_bytes(&[0; 32]);
        let start = region.address().next_multiple_of(16) - region.address();
        if !region.at(start).is_wide_atomic() {
            println!("skipped: this processor has no such instruction");
            return;
        }
        let step = 1u128 << 64 | 1;
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..EACH {
                        let add = |value| (number(value) + step).to_ne_bytes();
                        region.at(start).wide_update(add);
                    }
                });
            }
        });
        let sum = region.at(start).wide_update(|value| value);
        assert_eq!(number(sum), 4 * EACH * step);
    }
}

//! Keys of memory registrations.
//!
//! With most providers any process that reaches a rank's port may read and write the memory behind
//! a key that it can name, from offset 0 on: the key is all that guards the memory (FI_MR_PROV_KEY
//! providers choose it themselves). So keys are random bits, as many as the provider takes: 64 with
//! tcp and sockets, which cannot be found by trying.

use std::cell::Cell;
use std::io;

/// A source of random keys.
#[derive(Debug)]
pub(super) struct RandomKeys {
    /// The bits that the provider takes.
    mask: u64,
    /// A key that is left of the last system call.
    spare: Cell<Option<u64>>,
}

impl RandomKeys {
    /// Keys of at most `bytes` bytes; 0: the provider does not say.
    pub fn new(bytes: usize) -> RandomKeys {
        let bits = match bytes {
            1..8 => 8 * bytes as u32,
            _ => 64,
        };
        RandomKeys { mask: u64::MAX >> (64 - bits), spare: Cell::new(None) }
    }

    /// The next key.
    ///
    /// # Errors
    /// When the kernel gives no random bytes.
    pub fn draw(&self) -> io::Result<u64> {
        if let Some(key) = self.spare.take() {
            return Ok(key);
        }
        let bytes = u128::from_ne_bytes(mica_node::handover::nonce()?);
        self.spare.set(Some((bytes >> 64) as u64 & self.mask));
        Ok(bytes as u64 & self.mask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of 64 keys, the bits that are set in some and clear in others: all but once in 2^57.
    fn varying_bits(bytes: usize) -> u64 {
        let keys = RandomKeys::new(bytes);
        let (mut set, mut clear) = (0, 0);
        for _ in 0..64 {
            let key = keys.draw().expect("random bytes");
            set |= key;
            clear |= !key;
        }
        set & clear
    }

    #[test]
    fn all_bits_that_the_provider_takes_are_random() {
        assert_eq!(varying_bits(8), u64::MAX);
        assert_eq!(varying_bits(0), u64::MAX);
        assert_eq!(varying_bits(4), u64::from(u32::MAX));
        assert_eq!(varying_bits(2), 0xffff);
    }
}

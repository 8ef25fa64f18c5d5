//! Proof, in each message, that its sender is the rank that it says it is.
//!
//! Any process that reaches a rank's port can send to it. Each rank therefore publishes a random
//! challenge with its address, and the job has a secret of 16 random bytes; both travel through the
//! launcher's exchange only. A message from rank `i` to rank `j` carries the token
//!
//! ```text
//! token(i, j) = SipHash-2-4(secret, i j challenge(j))
//! ```
//!
//! which a process outside of the job can guess once in 2^64 messages. (SipHash: Aumasson and
//! Bernstein, 2012; a pseudo-random function of short inputs.) A process that gets hold of the port
//! of a rank that has ended learns only the tokens to that rank, which no rank accepts any more.
//! The tokens of a peer are computed when the first message for it or of it comes; a message costs
//! a comparison.
//!
//! Who reads the network's traffic sees tokens and contents, and can forge messages. The channel
//! does not encrypt: see the guide's section on security.

/// What the ranks of a job share and no other process knows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct JobSecret([u8; JobSecret::BYTES]);

impl JobSecret {
    /// Bytes of a secret.
    pub const BYTES: usize = 16;

    /// The secret with these bytes, which must be random.
    pub const fn new(bytes: [u8; JobSecret::BYTES]) -> JobSecret {
        JobSecret(bytes)
    }

    /// The token of messages from rank `from` to rank `to`, which has published `challenge`.
    pub fn token(&self, from: u32, to: u32, challenge: u64) -> u64 {
        let key = u128::from_le_bytes(self.0);
        sip_hash(
            (key as u64, (key >> 64) as u64),
            [u64::from(from) | u64::from(to) << 32, challenge],
        )
    }
}

/// Without its bytes, so that no error message shows them.
impl std::fmt::Debug for JobSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JobSecret")
    }
}

/// SipHash-2-4 of two words.
fn sip_hash((k0, k1): (u64, u64), words: [u64; 2]) -> u64 {
    let mut v = [
        k0 ^ 0x736f_6d65_7073_6575,
        k1 ^ 0x646f_7261_6e64_6f6d,
        k0 ^ 0x6c79_6765_6e65_7261,
        k1 ^ 0x7465_6462_7974_6573,
    ];
    // The last block holds the length, 16 bytes.
    for word in [words[0], words[1], 16 << 56] {
        v[3] ^= word;
        sip_rounds(&mut v, 2);
        v[0] ^= word;
    }
    v[2] ^= 0xff;
    sip_rounds(&mut v, 4);
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

fn sip_rounds([a, b, c, d]: &mut [u64; 4], rounds: u32) {
    for _ in 0..rounds {
        *a = a.wrapping_add(*b);
        *c = c.wrapping_add(*d);
        *b = b.rotate_left(13) ^ *a;
        *d = d.rotate_left(16) ^ *c;
        *a = a.rotate_left(32);
        *c = c.wrapping_add(*b);
        *a = a.wrapping_add(*d);
        *b = b.rotate_left(17) ^ *c;
        *d = d.rotate_left(21) ^ *a;
        *c = c.rotate_left(32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_siphash() {
        let key = std::array::from_fn(|i| i as u8);
        let word = |at: u8| u64::from_le_bytes(std::array::from_fn(|i| at + i as u8));
        let (from, to) = (word(0) as u32, (word(0) >> 32) as u32);
        // From the authors' table of test vectors, for 16 bytes.
        let token = JobSecret::new(key).token(from, to, word(8));
        assert_eq!(token, 0x3f2a_cc7f_57c2_9bdb);
    }

    #[test]
    fn each_pair_direction_and_run_has_its_own_token() {
        let secret = JobSecret::new([7; 16]);
        let mut tokens = vec![
            secret.token(0, 1, 5),
            secret.token(1, 0, 5),
            secret.token(0, 2, 5),
            secret.token(0, 1, 6),
            JobSecret::new([8; 16]).token(0, 1, 5),
        ];
        tokens.sort_unstable();
        tokens.dedup();
        assert_eq!(tokens.len(), 5);
    }
}

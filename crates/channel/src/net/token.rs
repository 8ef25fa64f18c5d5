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
//! which a process outside of the job can guess once in 2^64 messages. A process that gets hold of
//! the port of a rank that has ended learns only the tokens to that rank, which no rank accepts any
//! more. The tokens of a peer are computed when the first message for it or of it comes; a message
//! costs a comparison.
//!
//! Who reads the network's traffic sees tokens and contents, and can forge messages. The channel
//! does not encrypt: see the guide's section on security.

use mica_node::sip_hash::sip_hash;

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
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&from.to_le_bytes());
        bytes[4..8].copy_from_slice(&to.to_le_bytes());
        bytes[8..].copy_from_slice(&challenge.to_le_bytes());
        sip_hash(&self.0, &bytes)
    }
}

/// Without its bytes, so that no error message shows them.
impl std::fmt::Debug for JobSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JobSecret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

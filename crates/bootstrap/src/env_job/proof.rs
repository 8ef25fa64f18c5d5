//! How rank 0 and another rank show that they are of one job: each answers the other's challenge
//! with a hash under the job's secret. Without a secret the proofs only keep jobs apart.
//!
//! The hash has 64 bits; it can be guessed once in 2^64 connections.

use mica_node::byte_reader::ByteReader;
use mica_node::handover;
use mica_node::sip_hash::sip_hash;

use super::settings::EnvSettings;

const MAGIC: [u8; 8] = *b"mica-en\x01";

/// Random bytes that the peer's proof must answer.
pub(super) type RankChallenge = [u8; 16];

/// A new challenge.
pub(super) fn challenge() -> std::io::Result<RankChallenge> {
    handover::nonce()
}

/// Bytes of what rank 0 says first.
pub(super) const GREETING: usize = 8 + 16;
/// Bytes of another rank's answer.
pub(super) const INTRODUCTION: usize = 4 + 4 + 16 + 8;
/// Bytes of rank 0's proof.
pub(super) const WELCOME: usize = 8;

/// What rank 0 says first.
pub(super) fn greeting(challenge: &RankChallenge) -> Vec<u8> {
    [&MAGIC[..], challenge].concat()
}

/// Rank 0's challenge; `None` if this is no greeting.
pub(super) fn read_greeting(bytes: &[u8]) -> Option<RankChallenge> {
    let challenge = bytes.strip_prefix(&MAGIC)?;
    challenge.try_into().ok()
}

/// Who another rank says it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Introduction {
    pub rank: u32,
    pub size: u32,
    pub challenge: RankChallenge,
}

impl Introduction {
    /// The bytes, which answer rank 0's challenge.
    pub(super) fn encode(&self, settings: &EnvSettings, of_root: &RankChallenge) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(INTRODUCTION);
        bytes.extend(self.rank.to_le_bytes());
        bytes.extend(self.size.to_le_bytes());
        bytes.extend(self.challenge);
        bytes.extend(self.proof(settings, of_root, "member"));
        bytes
    }

    /// Reads the bytes; `None` if they do not prove that the sender is of this job.
    pub(super) fn decode(
        bytes: &[u8],
        settings: &EnvSettings,
        of_root: &RankChallenge,
    ) -> Option<Introduction> {
        let mut rest = ByteReader(bytes);
        let introduction =
            Introduction { rank: rest.u32()?, size: rest.u32()?, challenge: rest.array()? };
        let proof = introduction.proof(settings, of_root, "member");
        (rest.0 == proof).then_some(introduction)
    }

    /// What rank 0 answers, or is expected to answer.
    pub(super) fn welcome(&self, settings: &EnvSettings, of_root: &RankChallenge) -> [u8; WELCOME] {
        self.proof(settings, of_root, "root")
    }

    fn proof(&self, settings: &EnvSettings, of_root: &RankChallenge, of: &str) -> [u8; WELCOME] {
        let mut text = Vec::from(of.as_bytes());
        text.extend(of_root);
        text.extend(self.challenge);
        text.extend(self.rank.to_le_bytes());
        text.extend(self.size.to_le_bytes());
        text.extend(settings.job.as_bytes());
        sip_hash(&settings.cookie, &text).to_le_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::super::settings::tests::settings;
    use super::*;

    #[test]
    fn only_a_rank_of_the_same_job_and_secret_is_understood() {
        let ours = settings(1, 4, &[]).expect("sound");
        let of_root = challenge().expect("random bytes");
        let me = Introduction { rank: 1, size: 4, challenge: challenge().expect("random bytes") };
        let bytes = me.encode(&ours, &of_root);
        assert_eq!(bytes.len(), INTRODUCTION);
        assert_eq!(Introduction::decode(&bytes, &ours, &of_root), Some(me));
        let secret = settings(1, 4, &[("MICA_COOKIE", &"ab".repeat(16))]).expect("sound");
        let other = settings(1, 4, &[("MASTER_PORT", "29501")]).expect("sound");
        for wrong in [&secret, &other] {
            assert_eq!(Introduction::decode(&bytes, wrong, &of_root), None);
            assert_ne!(me.welcome(wrong, &of_root), me.welcome(&ours, &of_root));
        }
        // Not again, not in another's name, and rank 0 does not answer with what it was sent.
        assert_eq!(Introduction::decode(&bytes, &ours, &[0; 16]), None);
        let mut changed = bytes.clone();
        changed[0] = 2;
        assert_eq!(Introduction::decode(&changed, &ours, &of_root), None);
        assert_eq!(Introduction::decode(&bytes[..INTRODUCTION - 1], &ours, &of_root), None);
        assert_ne!(me.welcome(&ours, &of_root), bytes[24..]);
    }

    #[test]
    fn greetings_carry_a_challenge() {
        let sent = challenge().expect("random bytes");
        let bytes = greeting(&sent);
        assert_eq!(bytes.len(), GREETING);
        assert_eq!(read_greeting(&bytes), Some(sent));
        assert_eq!(read_greeting(&bytes[1..]), None);
        assert_eq!(read_greeting(b"SSH-2.0-OpenSSH_9.2p1 xx"), None);
    }
}

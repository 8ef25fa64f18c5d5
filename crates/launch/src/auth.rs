//! Mutual authentication of agent and controller: each proves to the other that it belongs to the
//! same job, before either trusts a byte of the other.
//!
//! Both know the job's secret: the controller generated it (32 random bytes), the agent received it
//! on its standard input, through the remote shell. It is never sent over the connection. All
//! messages of the handshake have a fixed length (`head` is the controller):
//!
//! ```text
//! agent -> head   MAGIC, nonce A                    (8 + 32 bytes)
//! head -> agent   nonce H, HMAC(secret, "head"  A H) (32 + 32 bytes)
//! agent -> head   HMAC(secret, "agent" A H)          (32 bytes)
//! ```
//!
//! HMAC is HMAC-SHA256 (RFC 2104, FIPS 180-4). The labels keep a proof of one side from serving as
//! the other's, the fresh nonces make a recorded handshake worthless. After the handshake every
//! frame carries a MAC under a key for this connection and direction, HMAC(secret, "up" A H) and
//! HMAC(secret, "down" A H), over its sequence number and its bytes: no frame can be changed, left
//! out, repeated or inserted. The frames are not encrypted.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::io::{self, Read};

/// Bytes of a secret, a nonce, a proof or a MAC.
pub const LENGTH: usize = 32;
/// Bytes of the agent's first message.
pub const HELLO: usize = MAGIC.len() + LENGTH;
/// Bytes of the controller's answer.
pub const CHALLENGE: usize = 2 * LENGTH;
/// The first bytes that an agent sends; the digit is the version of everything that follows.
const MAGIC: &[u8; 8] = b"MICA-AG1";

type Bytes = [u8; LENGTH];

/// The job's secret.
#[derive(Clone)]
pub struct Secret(Bytes);

impl Secret {
    /// A new random secret.
    pub fn new() -> io::Result<Secret> {
        random().map(Secret)
    }

    /// The secret as a line of text.
    pub fn to_hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The secret from a line of text.
    pub fn from_hex(text: &str) -> Option<Secret> {
        let digits = text.trim_end_matches(['\n', '\r']).as_bytes();
        let mut bytes = [0; LENGTH];
        if digits.len() != 2 * LENGTH {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
            let digit = |d: u8| char::from(d).to_digit(16);
            *byte = (digit(pair[0])? * 16 + digit(pair[1])?) as u8;
        }
        Some(Secret(bytes))
    }

    fn mac(&self, label: &str, agent: &Bytes, head: &Bytes) -> Hmac<Sha256> {
        keyed(&self.0)
            .chain_update(label)
            .chain_update(agent)
            .chain_update(head)
    }
}

fn keyed(key: &Bytes) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("HMAC takes keys of any length")
}

/// Random bytes from the system.
fn random() -> io::Result<Bytes> {
    let mut bytes = [0; LENGTH];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// The keys of an authenticated connection.
pub struct Keys {
    up: Bytes,
    down: Bytes,
}

impl Keys {
    fn new(secret: &Secret, agent: &Bytes, head: &Bytes) -> Keys {
        let key = |label| {
            secret
                .mac(label, agent, head)
                .finalize()
                .into_bytes()
                .into()
        };
        Keys {
            up: key("up"),
            down: key("down"),
        }
    }

    /// The seals for sending and receiving, on the agent's side.
    pub fn for_agent(self) -> (Seal, Seal) {
        (Seal::new(self.up), Seal::new(self.down))
    }

    /// The seals for sending and receiving, on the controller's side.
    pub fn for_head(self) -> (Seal, Seal) {
        (Seal::new(self.down), Seal::new(self.up))
    }
}

/// MACs of the frames of one direction.
pub struct Seal {
    key: Bytes,
    next: u64,
}

impl Seal {
    fn new(key: Bytes) -> Seal {
        Seal { key, next: 0 }
    }

    fn mac(&self, body: &[u8]) -> Hmac<Sha256> {
        keyed(&self.key)
            .chain_update(self.next.to_le_bytes())
            .chain_update(body)
    }

    /// The MAC of the next frame.
    pub fn seal(&mut self, body: &[u8]) -> [u8; LENGTH] {
        let mac = self.mac(body).finalize().into_bytes().into();
        self.next += 1;
        mac
    }

    /// Whether `mac` is that of the next frame; takes constant time.
    pub fn open(&mut self, body: &[u8], mac: &[u8]) -> bool {
        let good = self.mac(body).verify_slice(mac).is_ok();
        self.next += 1;
        good
    }
}

/// The controller's side of a handshake.
pub struct HeadSide {
    agent: Bytes,
    own: Bytes,
}

impl HeadSide {
    /// Takes the agent's first message and returns the answer; `None` if the caller is no agent.
    pub fn answer(secret: &Secret, hello: &[u8; HELLO]) -> Option<(HeadSide, [u8; CHALLENGE])> {
        let own = random().ok()?;
        let agent: Bytes = hello.strip_prefix(MAGIC)?.try_into().ok()?;
        let mut challenge = [0; CHALLENGE];
        challenge[..LENGTH].copy_from_slice(&own);
        let proof = secret.mac("head", &agent, &own).finalize().into_bytes();
        challenge[LENGTH..].copy_from_slice(&proof);
        Some((HeadSide { agent, own }, challenge))
    }

    /// Checks the agent's proof.
    pub fn accept(self, secret: &Secret, proof: &[u8; LENGTH]) -> Option<Keys> {
        let mac = secret.mac("agent", &self.agent, &self.own);
        mac.verify_slice(proof).ok()?;
        Some(Keys::new(secret, &self.agent, &self.own))
    }
}

/// The agent's side of a handshake.
pub struct AgentSide {
    own: Bytes,
}

impl AgentSide {
    /// Begins the handshake; returns the first message.
    pub fn new() -> io::Result<(AgentSide, [u8; HELLO])> {
        let own = random()?;
        let mut hello = [0; HELLO];
        hello[..MAGIC.len()].copy_from_slice(MAGIC);
        hello[MAGIC.len()..].copy_from_slice(&own);
        Ok((AgentSide { own }, hello))
    }

    /// Checks the controller's proof and returns this side's; `None` if the other side is not the
    /// controller.
    pub fn prove(
        self,
        secret: &Secret,
        challenge: &[u8; CHALLENGE],
    ) -> Option<([u8; LENGTH], Keys)> {
        let (head, proof) = challenge.split_at(LENGTH);
        let head: Bytes = head.try_into().ok()?;
        let mac = secret.mac("head", &self.own, &head);
        mac.verify_slice(proof).ok()?;
        let proof = secret.mac("agent", &self.own, &head).finalize();
        Some((
            proof.into_bytes().into(),
            Keys::new(secret, &self.own, &head),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A handshake, and the agent's messages.
    fn shake(
        at_agent: &Secret,
        at_head: &Secret,
    ) -> Option<(Keys, Keys, [u8; HELLO], [u8; LENGTH])> {
        let (agent, hello) = AgentSide::new().unwrap();
        let (head, challenge) = HeadSide::answer(at_head, &hello)?;
        let (proof, agent_keys) = agent.prove(at_agent, &challenge)?;
        let head_keys = head.accept(at_head, &proof)?;
        Some((agent_keys, head_keys, hello, proof))
    }

    #[test]
    fn both_sides_agree() {
        let secret = Secret::new().unwrap();
        let copy = Secret::from_hex(&(secret.to_hex() + "\n")).unwrap();
        let (agent, head, ..) = shake(&secret, &copy).unwrap();
        let (mut seal, mut open_down) = agent.for_agent();
        let (mut seal_down, mut open) = head.for_head();
        let mac = seal.seal(b"one");
        assert!(open.open(b"one", &mac));
        let mac = seal_down.seal(b"two");
        assert!(open_down.open(b"two", &mac));
    }

    #[test]
    fn frames_cannot_be_changed_repeated_or_sent_back() {
        let secret = Secret::new().unwrap();
        let keys = || shake(&secret, &secret).unwrap();
        let (agent, head, ..) = keys();
        let (mut seal, mut open_down) = agent.for_agent();
        let (_, mut open) = head.for_head();
        let mac = seal.seal(b"one");
        assert!(!open_down.open(b"one", &mac), "a reflected frame");
        assert!(open.open(b"one", &mac));
        assert!(!open.open(b"one", &mac), "a repeated frame");
        let (agent, head, ..) = keys();
        let (mut seal, _) = agent.for_agent();
        let (_, mut open) = head.for_head();
        let mac = seal.seal(b"one");
        assert!(!open.open(b"two", &mac), "a changed frame");
        let (_, head, ..) = keys();
        assert!(!head.for_head().1.open(b"one", &mac), "another connection");
    }

    #[test]
    fn a_wrong_secret_fails_on_either_side() {
        let (right, wrong) = (Secret::new().unwrap(), Secret::new().unwrap());
        assert!(shake(&wrong, &right).is_none());
        // An agent that does not check the controller still cannot get in.
        let (agent, hello) = AgentSide::new().unwrap();
        let (head, challenge) = HeadSide::answer(&right, &hello).unwrap();
        let nonce: Bytes = challenge[..LENGTH].try_into().unwrap();
        let forged = wrong
            .mac("agent", &agent.own, &nonce)
            .finalize()
            .into_bytes();
        assert!(head.accept(&right, &forged.into()).is_none());
    }

    #[test]
    fn a_recorded_handshake_is_worthless() {
        let secret = Secret::new().unwrap();
        let (.., hello, proof) = shake(&secret, &secret).unwrap();
        let (head, _) = HeadSide::answer(&secret, &hello).unwrap();
        assert!(head.accept(&secret, &proof).is_none());
    }

    #[test]
    fn the_heads_proof_is_not_the_agents() {
        let secret = Secret::new().unwrap();
        let (_, hello) = AgentSide::new().unwrap();
        let (head, challenge) = HeadSide::answer(&secret, &hello).unwrap();
        let proof: Bytes = challenge[LENGTH..].try_into().unwrap();
        assert!(head.accept(&secret, &proof).is_none());
    }

    #[test]
    fn what_is_no_secret() {
        for text in ["", "00", &"g".repeat(64), &"0".repeat(65), &"é".repeat(32)] {
            assert!(Secret::from_hex(text).is_none(), "{text}");
        }
        let (_, mut hello) = AgentSide::new().unwrap();
        hello[7] = b'0';
        assert!(HeadSide::answer(&Secret::new().unwrap(), &hello).is_none());
    }
}

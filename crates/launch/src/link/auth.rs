//! Mutual authentication of agent and controller: each proves to the other that it belongs to the
//! same job, before either trusts a byte of the other.
//!
//! The controller generates a key for the job (32 random bytes) and derives a secret for each node
//! from it; an agent receives its node's secret on its standard input, through the remote shell. So
//! a node that has been broken into cannot pose as the controller, or as another node. A secret is
//! never sent over the connection. All messages of the handshake have a fixed length (S is the
//! node's secret):
//!
//! ```text
//! agent -> controller   MAGIC, node, nonce A, HMAC(S, "hello" node A)   (8 + 4 + 32 + 32 bytes)
//! controller -> agent   nonce C, HMAC(S, "head" A C)                    (32 + 32 bytes)
//! agent -> controller   HMAC(S, "agent" A C)                            (32 bytes)
//! ```
//!
//! Either side ends the connection at the first message that does not fit; the other learns no
//! more than that. [`ControllerSide`] and [`AgentSide`] are consumed by their steps, so that none
//! is taken twice, and [`Keys`] exist only after the last.
//!
//! HMAC is HMAC-SHA256 (RFC 2104, FIPS 180-4). The first message's MAC shows the controller that
//! the caller is worth a place, though it may be recorded. The labels keep a proof of one side from
//! serving as the other's, the fresh nonces make a recorded handshake worthless. After the
//! handshake every frame is encrypted with ChaCha20-Poly1305 (RFC 8439) under a key for this
//! connection and direction, HMAC(S, "up" A C) and HMAC(S, "down" A C), with its sequence number as
//! nonce: no frame can be read, changed, left out, repeated or inserted.

use chacha20poly1305::ChaCha20Poly1305;
use chacha20poly1305::aead::{AeadInOut, Key, Nonce, Tag};
use hmac::{Hmac, KeyInit, Mac};
use mica_node::handover::nonce;
use sha2::Sha256;
use std::io;

/// Bytes of a secret, a nonce or a proof.
pub const LENGTH: usize = 32;
/// Bytes that encryption adds to a frame.
pub const TAG: usize = 16;
/// Bytes of the agent's first message.
pub const HELLO: usize = MAGIC.len() + NODE + 2 * LENGTH;
/// Bytes of the controller's answer.
pub const CHALLENGE: usize = 2 * LENGTH;
/// The first bytes that an agent sends; the digit is the version of everything that follows.
const MAGIC: &[u8; 8] = b"MICA-AG2";
/// Bytes of a node's number.
const NODE: usize = 4;
/// In place of a node's number: an agent that Slurm started, of any node.
const ANY_NODE: u32 = u32::MAX;

type Bytes = [u8; LENGTH];

/// The job's key, which only the controller has.
pub struct JobKey(Bytes);

impl JobKey {
    /// A new random key.
    ///
    /// # Errors
    /// When the system gives no random bytes.
    pub fn new() -> io::Result<JobKey> {
        random().map(JobKey)
    }

    /// The secret of a node's agent. `None`: of all agents that one command starts, which cannot
    /// give each its own (Slurm's srun).
    pub fn secret(&self, node: Option<u32>) -> Secret {
        let mac = keyed(&self.0).chain_update("node").chain_update(number(node)).finalize();
        Secret { node, key: mac.into_bytes().into() }
    }
}

fn number(node: Option<u32>) -> [u8; NODE] {
    node.unwrap_or(ANY_NODE).to_le_bytes()
}

/// What an agent and the controller share.
#[derive(Clone)]
pub struct Secret {
    node: Option<u32>,
    key: Bytes,
}

impl Secret {
    /// The node whose agent has it; `None`: any that Slurm started.
    pub fn node(&self) -> Option<u32> {
        self.node
    }

    /// The secret as a line of text.
    pub fn to_hex(&self) -> String {
        to_hex(&self.key)
    }

    /// The secret of `node` from a line of text.
    pub fn from_hex(node: Option<u32>, text: &str) -> Option<Secret> {
        let key = from_hex(text.as_bytes())?.try_into().ok()?;
        Some(Secret { node, key })
    }

    fn hello_mac(&self, nonce: &Bytes) -> Hmac<Sha256> {
        keyed(&self.key).chain_update("hello").chain_update(number(self.node)).chain_update(nonce)
    }

    fn mac(&self, label: &str, agent: &Bytes, controller: &Bytes) -> Hmac<Sha256> {
        keyed(&self.key).chain_update(label).chain_update(agent).chain_update(controller)
    }
}

fn keyed(key: &Bytes) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("HMAC takes keys of any length")
}

/// Random bytes from the kernel.
fn random() -> io::Result<Bytes> {
    let halves = [nonce()?, nonce()?];
    Ok(std::array::from_fn(|at| halves[at / 16][at % 16]))
}

/// Bytes as a line of text.
pub fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes that a line of text holds; `None` if it is no such line.
pub fn from_hex(line: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = |pair: &[u8]| Some((digit(pair[0])? * 16 + digit(*pair.get(1)?)?) as u8);
    line.trim_ascii_end().chunks(2).map(byte).collect()
}

/// The keys of an authenticated connection.
pub struct Keys {
    up: Bytes,
    down: Bytes,
}

impl Keys {
    fn new(secret: &Secret, agent: &Bytes, controller: &Bytes) -> Keys {
        let key = |label| secret.mac(label, agent, controller).finalize().into_bytes().into();
        Keys { up: key("up"), down: key("down") }
    }

    /// The seals for sending and receiving, on the agent's side.
    pub fn for_agent(self) -> (Seal, Seal) {
        (Seal::new(self.up), Seal::new(self.down))
    }

    /// The seals for sending and receiving, on the controller's side.
    pub fn for_controller(self) -> (Seal, Seal) {
        (Seal::new(self.down), Seal::new(self.up))
    }
}

/// Encrypts, or decrypts, the frames of one direction.
pub struct Seal {
    cipher: ChaCha20Poly1305,
    /// Sequence number of the next frame; a key never meets a number twice.
    next: u64,
}

impl Seal {
    fn new(key: Bytes) -> Seal {
        Seal { cipher: ChaCha20Poly1305::new(&Key::<ChaCha20Poly1305>::from(key)), next: 0 }
    }

    fn nonce(&mut self) -> Nonce<ChaCha20Poly1305> {
        let mut nonce = [0; 12];
        nonce[..8].copy_from_slice(&self.next.to_le_bytes());
        self.next += 1;
        nonce.into()
    }

    /// Encrypts the next frame in its place, and returns its tag.
    pub fn seal(&mut self, body: &mut [u8]) -> [u8; TAG] {
        let nonce = self.nonce();
        let tag = self
            .cipher
            .encrypt_inout_detached(&nonce, &[], body.into())
            .expect("frames are shorter than the cipher's 256 GiB");
        tag.into()
    }

    /// Decrypts the next frame in its place; false, and the bytes are unchanged, if the other side
    /// did not send it. Compares in constant time.
    pub fn open(&mut self, body: &mut [u8], tag: [u8; TAG]) -> bool {
        let nonce = self.nonce();
        let tag: Tag<ChaCha20Poly1305> = tag.into();
        self.cipher.decrypt_inout_detached(&nonce, &[], body.into(), &tag).is_ok()
    }
}

/// The controller's side of a handshake.
pub struct ControllerSide {
    secret: Secret,
    agent: Bytes,
    own: Bytes,
}

impl ControllerSide {
    /// Takes the agent's first message and returns the answer; `None` if the caller is no agent of
    /// this job, so that it gets none.
    pub fn answer(key: &JobKey, hello: &[u8; HELLO]) -> Option<(ControllerSide, [u8; CHALLENGE])> {
        let (node, rest) = hello.strip_prefix(MAGIC)?.split_first_chunk()?;
        let (agent, mac) = rest.split_first_chunk()?;
        let node = Some(u32::from_le_bytes(*node)).filter(|&node| node != ANY_NODE);
        let secret = key.secret(node);
        secret.hello_mac(agent).verify_slice(mac).ok()?;
        let own = random().ok()?;
        let mut challenge = [0; CHALLENGE];
        challenge[..LENGTH].copy_from_slice(&own);
        let proof = secret.mac("head", agent, &own).finalize().into_bytes();
        challenge[LENGTH..].copy_from_slice(&proof);
        let agent = *agent;
        Some((ControllerSide { secret, agent, own }, challenge))
    }

    /// Whether an agent's first message can begin with these bytes.
    pub fn expects(bytes: &[u8]) -> bool {
        let known = bytes.len().min(MAGIC.len());
        bytes[..known] == MAGIC[..known]
    }

    /// The node that the agent says it is of: it knows that node's secret once its proof is
    /// accepted.
    pub fn node(&self) -> Option<u32> {
        self.secret.node()
    }

    /// Checks the agent's proof.
    pub fn accept(self, proof: &[u8; LENGTH]) -> Option<Keys> {
        self.secret.mac("agent", &self.agent, &self.own).verify_slice(proof).ok()?;
        Some(Keys::new(&self.secret, &self.agent, &self.own))
    }
}

/// The agent's side of a handshake.
pub struct AgentSide {
    own: Bytes,
}

impl AgentSide {
    /// Begins the handshake; returns the first message.
    ///
    /// # Errors
    /// When the system gives no random bytes.
    pub fn new(secret: &Secret) -> io::Result<(AgentSide, [u8; HELLO])> {
        let own = random()?;
        let mut hello = [0; HELLO];
        let (magic, rest) = hello.split_at_mut(MAGIC.len());
        magic.copy_from_slice(MAGIC);
        let (node, rest) = rest.split_at_mut(NODE);
        node.copy_from_slice(&number(secret.node()));
        let (nonce, mac) = rest.split_at_mut(LENGTH);
        nonce.copy_from_slice(&own);
        mac.copy_from_slice(&secret.hello_mac(&own).finalize().into_bytes());
        Ok((AgentSide { own }, hello))
    }

    /// Checks the controller's proof and returns this side's; `None` if the other side is not the
    /// controller.
    pub fn prove(
        self,
        secret: &Secret,
        challenge: &[u8; CHALLENGE],
    ) -> Option<([u8; LENGTH], Keys)> {
        let (controller, proof) = challenge.split_at(LENGTH);
        let controller: Bytes = controller.try_into().ok()?;
        let mac = secret.mac("head", &self.own, &controller);
        mac.verify_slice(proof).ok()?;
        let proof = secret.mac("agent", &self.own, &controller).finalize();
        Some((proof.into_bytes().into(), Keys::new(secret, &self.own, &controller)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> JobKey {
        JobKey::new().unwrap()
    }

    /// A handshake, and the agent's messages.
    fn shake(
        at_agent: &Secret,
        at_controller: &JobKey,
    ) -> Option<(Keys, Keys, [u8; HELLO], [u8; LENGTH])> {
        let (agent, hello) = AgentSide::new(at_agent).unwrap();
        let (controller, challenge) = ControllerSide::answer(at_controller, &hello)?;
        assert_eq!(controller.node(), at_agent.node());
        let (proof, agent_keys) = agent.prove(at_agent, &challenge)?;
        let controller_keys = controller.accept(&proof)?;
        Some((agent_keys, controller_keys, hello, proof))
    }

    /// The seal of the sender and that of the receiver, agent to controller.
    fn seals() -> (Seal, Seal) {
        let key = key();
        let (agent, controller, ..) = shake(&key.secret(Some(1)), &key).unwrap();
        (agent.for_agent().0, controller.for_controller().1)
    }

    #[test]
    fn both_sides_agree() {
        let key = key();
        for node in [Some(0), Some(70_000), None] {
            let secret = key.secret(node);
            let copy = Secret::from_hex(node, &(secret.to_hex() + "\n")).unwrap();
            let (agent, controller, ..) = shake(&copy, &key).unwrap();
            let (mut up, mut from_controller) = agent.for_agent();
            let (mut down, mut from_agent) = controller.for_controller();
            let mut frame = *b"one";
            let tag = up.seal(&mut frame);
            assert!(from_agent.open(&mut frame, tag) && frame == *b"one");
            let tag = down.seal(&mut frame);
            assert!(from_controller.open(&mut frame, tag) && frame == *b"one");
        }
    }

    #[test]
    fn frames_cannot_be_read_changed_repeated_or_sent_back() {
        let (mut seal, mut open) = seals();
        let (mut first, mut again) = (*b"one and the same", *b"one and the same");
        let tag = seal.seal(&mut first);
        seal.seal(&mut again);
        assert!(first != again && first != *b"one and the same");
        let sent = first;
        assert!(open.open(&mut first, tag));
        first = sent;
        assert!(!open.open(&mut first, tag), "a repeated frame");
        assert_eq!(first, sent);

        let (mut seal, mut open) = seals();
        let tag = seal.seal(&mut first);
        first[0] ^= 1;
        assert!(!open.open(&mut first, tag), "a changed frame");

        let key = key();
        let (agent, ..) = shake(&key.secret(None), &key).unwrap();
        let (mut seal, mut from_controller) = agent.for_agent();
        let tag = seal.seal(&mut first);
        assert!(!from_controller.open(&mut first, tag), "a reflected frame");
        assert!(!seals().1.open(&mut first, tag), "another connection");
    }

    #[test]
    fn the_nonce_is_the_sequence_number() {
        let mut seal = Seal::new([7; LENGTH]);
        let other = ChaCha20Poly1305::new(&Key::<ChaCha20Poly1305>::from([7; LENGTH]));
        for number in [0u8, 1, 2] {
            let mut nonce = [0; 12];
            nonce[0] = number;
            let (mut frame, mut expected) = (*b"frame", *b"frame");
            let tag = seal.seal(&mut frame);
            let nonce: Nonce<ChaCha20Poly1305> = nonce.into();
            let wanted =
                other.encrypt_inout_detached(&nonce, &[], expected.as_mut_slice().into()).unwrap();
            assert_eq!((frame, tag), (expected, wanted.into()));
        }
    }

    #[test]
    fn a_wrong_secret_fails_on_either_side() {
        let (right, wrong) = (key(), key());
        let (node, other) = (right.secret(Some(1)), right.secret(Some(2)));
        assert!(shake(&wrong.secret(Some(1)), &right).is_none());
        // A controller of another job, and one that knows another node's secret only.
        let (agent, hello) = AgentSide::new(&node).unwrap();
        let (_, challenge) = ControllerSide::answer(&right, &hello).unwrap();
        assert!(agent.prove(&other, &challenge).is_none());
        // An agent that does not check the controller still cannot get in.
        let (agent, hello) = AgentSide::new(&node).unwrap();
        let (controller, challenge) = ControllerSide::answer(&right, &hello).unwrap();
        let nonce: Bytes = challenge[..LENGTH].try_into().unwrap();
        let forged = other.mac("agent", &agent.own, &nonce).finalize().into_bytes();
        assert!(controller.accept(&forged.into()).is_none());
    }

    #[test]
    fn a_nodes_secret_opens_no_other_node() {
        let key = key();
        let secret = key.secret(Some(1));
        assert!(shake(&secret, &key).is_some());
        for other in [Some(0), Some(2), None] {
            let posing = Secret::from_hex(other, &secret.to_hex()).unwrap();
            assert!(shake(&posing, &key).is_none(), "{other:?}");
        }
    }

    #[test]
    fn a_recorded_handshake_is_worthless() {
        let key = key();
        let (.., hello, proof) = shake(&key.secret(Some(0)), &key).unwrap();
        let (controller, _) = ControllerSide::answer(&key, &hello).unwrap();
        assert!(controller.accept(&proof).is_none());
    }

    #[test]
    fn the_controllers_proof_is_not_the_agents() {
        let key = key();
        let (_, hello) = AgentSide::new(&key.secret(Some(0))).unwrap();
        let (controller, challenge) = ControllerSide::answer(&key, &hello).unwrap();
        let proof: Bytes = challenge[LENGTH..].try_into().unwrap();
        assert!(controller.accept(&proof).is_none());
    }

    #[test]
    fn what_is_no_secret() {
        for text in ["", "00", &"g".repeat(64), &"0".repeat(65), &"é".repeat(32)] {
            assert!(Secret::from_hex(None, text).is_none(), "{text}");
        }
        let key = key();
        let (_, hello) = AgentSide::new(&key.secret(Some(0))).unwrap();
        for at in [7, 8, 20, HELLO - 1] {
            let mut changed = hello;
            changed[at] ^= 1;
            assert!(ControllerSide::answer(&key, &changed).is_none(), "byte {at}");
        }
    }
}

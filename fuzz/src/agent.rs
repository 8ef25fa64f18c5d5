//! The messages between `mpiexec` and its agents.

use std::fmt::Debug;

use mica_launch::link::auth::{AgentSide, ControllerSide, JobKey, Secret};
use mica_launch::link::messages::{AgentMessage, ControllerMessage};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The first byte selects the kind of message that the other bytes are decoded as.
pub fn run(bytes: &[u8]) {
    let Some((&kind, bytes)) = bytes.split_first() else {
        return;
    };
    match kind % 4 {
        0 => drop(decode::<AgentMessage>(bytes)),
        1 => {
            if let Some(ControllerMessage::Plan(job)) = decode::<ControllerMessage>(bytes)
                && job.is_sound()
            {
                // What code that indexes a valid job relies on.
                for (&rank, &section) in job.members.iter().zip(&job.programs.section_of) {
                    assert!(rank < job.size && (section as usize) < job.programs.sections.len());
                }
            }
        }
        2 => handshake(bytes),
        _ => {
            let text = String::from_utf8_lossy(bytes);
            if let Some(secret) = Secret::from_hex(Some(1), &text) {
                assert!(secret.to_hex().eq_ignore_ascii_case(text.trim()), "{text:?}");
            }
        }
    }
}

/// Decodes a message, encodes it, and checks that decoding again gives the same message.
fn decode<M: Serialize + DeserializeOwned + PartialEq + Debug>(bytes: &[u8]) -> Option<M> {
    let message: M = postcard::from_bytes(bytes).ok()?;
    let again = postcard::to_stdvec(&message).expect("messages can be written");
    assert_eq!(postcard::from_bytes::<M>(&again).as_ref(), Ok(&message));
    Some(message)
}

/// A peer that does not know the secret must be refused, on either side.
fn handshake(bytes: &[u8]) {
    let key = JobKey::new().expect("random bytes");
    let secret = key.secret(Some(1));
    let mut rest = bytes;
    let mut next = |length: usize| {
        let (taken, after) = rest.split_at(length.min(rest.len()));
        rest = after;
        taken.to_vec()
    };
    fn fixed<const N: usize>(bytes: &[u8]) -> [u8; N] {
        std::array::from_fn(|i| bytes.get(i).copied().unwrap_or(0))
    }
    assert!(ControllerSide::answer(&key, &fixed(&next(128))).is_none());
    let (side, hello) = AgentSide::new(&secret).expect("random bytes");
    let (answer, _) = ControllerSide::answer(&key, &hello).expect("an agent");
    assert!(answer.accept(&fixed(&next(32))).is_none());
    assert!(side.prove(&secret, &fixed(&next(96))).is_none());
}

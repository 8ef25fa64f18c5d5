//! Hands a node's job segment over: its lowest rank (the leader) gives it to the others.
//!
//! The leader binds its socket to an abstract name with the nonce of its record before the records
//! are exchanged, so that the socket exists when the others learn the name: one fence of the
//! launcher is enough. A process connects, checks that the socket belongs to its own user, and
//! sends its rank and the nonce of its own record. The leader checks that the process belongs to
//! its user and is one that it expects; it refuses all others. Both wait until a deadline. Callers
//! that say nothing are bounded: of too many the oldest is dropped.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Instant;

use mica_node::handover::{HandoverConnection, HandoverListener, wait_readable};

const GREETING: [u8; 8] = *b"mica-in\x01";
const WELCOME: [u8; 8] = *b"mica-ok\x01";
/// Greeting, rank, nonce.
const GREETING_BYTES: usize = 8 + 4 + 16;

/// A process that may get the segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JoiningProcess {
    pub rank: u32,
    pub nonce: [u8; 16],
}

/// The abstract name of the process with this nonce.
pub(crate) fn name(nonce: &[u8; 16]) -> Vec<u8> {
    format!("mica-{}", crate::manager::hex(nonce)).into_bytes()
}

/// Why the handover failed.
#[derive(Debug)]
pub(crate) enum ExchangeError {
    /// These ranks did not come before the deadline.
    Missing(Vec<u32>),
    /// The sockets failed.
    Failed(io::Error),
}

/// Connections accepted between two looks at the clock.
const ACCEPTS_PER_TURN: usize = 64;

/// Callers that have not said who they are, in addition to one for each expected process. A process
/// sends its greeting as soon as it is connected.
const SILENT_MAX: usize = 64;

/// Gives `descriptor` to every process; returns when all have it, or at the deadline: processes of
/// other users may connect without end.
pub(crate) fn hand_out(
    listener: &HandoverListener,
    descriptor: BorrowedFd<'_>,
    joining: &[JoiningProcess],
    uid: u32,
    deadline: Instant,
) -> Result<(), ExchangeError> {
    let mut expected = joining.to_vec();
    let mut callers: VecDeque<HandoverConnection> = VecDeque::new();
    let missing = |expected: &[JoiningProcess]| {
        ExchangeError::Missing(expected.iter().map(|process| process.rank).collect())
    };
    while !expected.is_empty() {
        if Instant::now() >= deadline {
            return Err(missing(&expected));
        }
        let fds: Vec<_> = std::iter::once(listener.as_fd())
            .chain(callers.iter().map(HandoverConnection::as_fd))
            .collect();
        let ready = match wait_readable(&fds, deadline) {
            Ok(ready) => ready,
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                return Err(missing(&expected));
            }
            Err(error) => return Err(ExchangeError::Failed(error)),
        };
        let (connecting, messages) = (ready[0], &ready[1..]);
        let mut has_message = messages.iter();
        callers.retain(|caller| {
            if !has_message.next().is_some_and(|ready| *ready) {
                return true;
            }
            // A caller that has sent something is served or refused, and then closed.
            let process = read_greeting(caller);
            let position = process.and_then(|process| expected.iter().position(|e| *e == process));
            if let Some(at) = position
                && caller.send(&WELCOME, Some(descriptor), deadline).is_ok()
            {
                expected.swap_remove(at);
            }
            false
        });
        if connecting {
            for _ in 0..ACCEPTS_PER_TURN {
                let Some(caller) = listener.try_accept().map_err(ExchangeError::Failed)? else {
                    break;
                };
                if caller.peer().is_ok_and(|peer| peer.uid == uid) {
                    callers.push_back(caller);
                }
                if callers.len() > SILENT_MAX + expected.len() {
                    callers.pop_front();
                }
            }
        }
    }
    Ok(())
}

/// Who a caller says it is; `None` for what is no greeting.
fn read_greeting(caller: &HandoverConnection) -> Option<JoiningProcess> {
    let (bytes, descriptor) = caller.try_receive(GREETING_BYTES).ok()??;
    let (greeting, rest) = bytes.split_first_chunk()?;
    let (rank, nonce) = rest.split_first_chunk()?;
    (*greeting == GREETING && descriptor.is_none()).then_some(())?;
    Some(JoiningProcess { rank: u32::from_le_bytes(*rank), nonce: nonce.try_into().ok()? })
}

/// Gets the descriptor from the leader whose nonce this is.
pub(crate) fn fetch(
    leader: &[u8; 16],
    me: JoiningProcess,
    uid: u32,
    deadline: Instant,
) -> io::Result<OwnedFd> {
    let connection = HandoverConnection::connect(&name(leader), deadline)?;
    let peer = connection.peer()?;
    if peer.uid != uid {
        let text = format!("its socket belongs to user {}, not {uid}", peer.uid);
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    let mut greeting = Vec::from(GREETING);
    greeting.extend(me.rank.to_le_bytes());
    greeting.extend(me.nonce);
    connection.send(&greeting, None, deadline)?;
    match connection.receive(WELCOME.len(), deadline)? {
        (bytes, Some(descriptor)) if bytes == WELCOME => Ok(descriptor),
        (bytes, _) if bytes.is_empty() => {
            Err(io::Error::new(io::ErrorKind::ConnectionReset, "it closed the connection"))
        }
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "it answered something else than Mica does",
        )),
    }
}

#[cfg(test)]
mod tests;

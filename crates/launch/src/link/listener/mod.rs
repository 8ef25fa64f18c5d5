//! The controller's port. Agents connect to it, and anyone else can.
//!
//! A caller goes through these states ([`HandshakeState`]), each left when its bytes are complete:
//!
//! ```text
//! Begins --(hello with a MAC)--> Proves --(proof)--> Trusted --(Hello)--> handed over
//! ```
//!
//! From any of them it is dropped without an answer: on bytes that no agent sends, at the end of
//! the connection, or after [`HANDSHAKE_TIMEOUT`]. An agent speaks for the node whose secret it
//! has and for no other; the first message that names another ends the connection.
//!
//! Until a caller has proved that it knows the secret of a node, no more bytes than the
//! handshake's are read from it ([`crate::link::auth`] has the messages), and it cannot keep
//! others out: of more than [`CALLERS_MAX`] callers, in addition to the agents awaited, one is
//! dropped whose MAC has not been seen, the oldest of the network (IPv4 address, IPv6 /64) that
//! has most of them. So a flood evicts its own connections, and an agent keeps its place from the
//! first message on. One that is dropped before tries again. A flood that fills the kernel's queue
//! of connections still delays agents.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use crate::link::Connection;
use crate::link::auth::{ControllerSide, HELLO, JobKey, LENGTH};
use crate::link::messages::AgentMessage;

/// Time from the connection to the end of the handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of callers, in addition to one for each awaited agent.
const CALLERS_MAX: usize = 64;
/// Callers accepted at a time, so that many of them do not keep the controller from its work.
const ACCEPTED_MAX: usize = 32;

/// The controller's ports and the callers that have connected there.
pub struct AgentListener {
    key: JobKey,
    listeners: Vec<TcpListener>,
    callers: Vec<PendingConnection>,
    awaited: usize,
}

struct PendingConnection {
    since: Instant,
    /// The network that it comes from, for the choice of whom to drop.
    origin: u128,
    state: HandshakeState,
}

enum HandshakeState {
    /// Sends its first message.
    Begins(TcpStream, Vec<u8>),
    /// Sends its proof.
    Proves(TcpStream, Vec<u8>, ControllerSide),
    /// Knows the secret of this node (`None`: of all agents that Slurm started); sends its Hello.
    Trusted(Box<Connection>, Option<u32>),
}

/// What became of a caller.
enum HandshakeStep {
    Wait(HandshakeState),
    Enter(Box<Connection>, Vec<AgentMessage>),
    Drop,
}

impl AgentListener {
    /// Listens on these addresses, on a port between the two given or one that the system chooses,
    /// for this number of agents.
    pub fn open(
        addresses: &[IpAddr],
        ports: Option<(u16, u16)>,
        key: JobKey,
        awaited: usize,
    ) -> io::Result<AgentListener> {
        let (low, high) = ports.unwrap_or((0, 0));
        let listen = |address: &IpAddr| {
            let mut problem = io::Error::from(io::ErrorKind::AddrNotAvailable);
            for port in low..=high {
                match TcpListener::bind((*address, port)) {
                    Ok(listener) => {
                        listener.set_nonblocking(true)?;
                        return Ok(listener);
                    }
                    Err(error) => problem = error,
                }
            }
            Err(problem)
        };
        let opened: Vec<io::Result<TcpListener>> = addresses.iter().map(listen).collect();
        // An address may be unusable (IPv6 that is being set up); one listener is enough.
        let mut problem = io::Error::from(io::ErrorKind::AddrNotAvailable);
        let mut listeners = Vec::new();
        for listener in opened {
            match listener {
                Ok(listener) => listeners.push(listener),
                Err(error) => problem = error,
            }
        }
        if listeners.is_empty() {
            let Some((low, high)) = ports else { return Err(problem) };
            let text = format!("no port from {low} to {high} (--port-range) can be had: {problem}");
            return Err(io::Error::new(problem.kind(), text));
        }
        Ok(AgentListener { key, listeners, callers: Vec::new(), awaited })
    }

    /// Where it listens.
    pub fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        self.listeners.iter().map(TcpListener::local_addr).collect()
    }

    /// The job's key.
    pub fn key(&self) -> &JobKey {
        &self.key
    }

    /// Stops listening, and drops callers that have not finished the handshake.
    pub fn close(&mut self) {
        self.listeners.clear();
        self.callers.clear();
    }

    /// The descriptors to wait for.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let listeners = self.listeners.iter().map(AsFd::as_fd);
        listeners.chain(self.callers.iter().map(|caller| match &caller.state {
            HandshakeState::Begins(stream, _) | HandshakeState::Proves(stream, ..) => {
                stream.as_fd()
            }
            HandshakeState::Trusted(link, _) => link.as_fd(),
        }))
    }

    /// Accepts new callers and advances the handshakes of the others. Returns the agents that have
    /// finished, with their first messages.
    pub fn accept(&mut self) -> Vec<(Box<Connection>, Vec<AgentMessage>)> {
        let mut entered = Vec::new();
        for caller in std::mem::take(&mut self.callers) {
            if caller.since.elapsed() <= HANDSHAKE_TIMEOUT {
                entered.extend(self.advance(caller));
            }
        }
        for caller in self.accept_connections() {
            // Its first message is there as a rule: then it has its place at once.
            entered.extend(self.advance(caller));
            self.make_room();
        }
        entered
    }

    /// Takes the next steps of a caller's handshake; keeps the caller if it is not done.
    fn advance(
        &mut self,
        caller: PendingConnection,
    ) -> Option<(Box<Connection>, Vec<AgentMessage>)> {
        let PendingConnection { since, origin, state } = caller;
        match self.step(state) {
            HandshakeStep::Wait(state) => {
                self.callers.push(PendingConnection { since, origin, state })
            }
            HandshakeStep::Enter(link, messages) => return Some((link, messages)),
            HandshakeStep::Drop => {}
        }
        None
    }

    fn accept_connections(&self) -> Vec<PendingConnection> {
        let mut accepted = Vec::new();
        for listener in &self.listeners {
            for _ in 0..ACCEPTED_MAX {
                let Ok((stream, from)) = listener.accept() else { break };
                if stream.set_nonblocking(true).is_ok() {
                    accepted.push(PendingConnection {
                        since: Instant::now(),
                        origin: network(from.ip()),
                        state: HandshakeState::Begins(stream, Vec::with_capacity(HELLO)),
                    });
                }
            }
        }
        accepted
    }

    /// Drops a caller if there are too many.
    fn make_room(&mut self) {
        if self.callers.len() <= CALLERS_MAX + self.awaited {
            return;
        }
        let mut crowds: HashMap<u128, usize> = HashMap::new();
        for caller in self.callers.iter().filter(|caller| caller.is_unknown()) {
            *crowds.entry(caller.origin).or_default() += 1;
        }
        let dropped = match crowds.into_iter().max_by_key(|(_, callers)| *callers) {
            Some((origin, _)) => self
                .callers
                .iter()
                .position(|caller| caller.is_unknown() && caller.origin == origin),
            // All have shown a MAC: someone repeats what agents have sent.
            None => self
                .callers
                .iter()
                .position(|caller| !matches!(caller.state, HandshakeState::Trusted(..))),
        };
        self.callers.remove(dropped.unwrap_or(0));
    }

    fn step(&self, state: HandshakeState) -> HandshakeStep {
        match state {
            HandshakeState::Begins(mut stream, mut bytes) => {
                let hello: [u8; HELLO] = match read_exactly(&mut stream, &mut bytes) {
                    Ok(Some(hello)) => hello,
                    Ok(None) if ControllerSide::expects(&bytes) => {
                        return HandshakeStep::Wait(HandshakeState::Begins(stream, bytes));
                    }
                    Ok(None) => return HandshakeStep::Drop,
                    Err(_) => return HandshakeStep::Drop,
                };
                let Some((side, challenge)) = ControllerSide::answer(&self.key, &hello) else {
                    return HandshakeStep::Drop;
                };
                // A fresh connection has room for the challenge.
                match stream.write(&challenge) {
                    Ok(written) if written == challenge.len() => {
                        self.step(HandshakeState::Proves(stream, Vec::new(), side))
                    }
                    _ => HandshakeStep::Drop,
                }
            }
            HandshakeState::Proves(mut stream, mut bytes, side) => {
                let proof: [u8; LENGTH] = match read_exactly(&mut stream, &mut bytes) {
                    Ok(Some(proof)) => proof,
                    Ok(None) => {
                        return HandshakeStep::Wait(HandshakeState::Proves(stream, bytes, side));
                    }
                    Err(_) => return HandshakeStep::Drop,
                };
                let node = side.node();
                let Some(keys) = side.accept(&proof) else { return HandshakeStep::Drop };
                match Connection::of_controller(stream, keys) {
                    Ok(link) => self.step(HandshakeState::Trusted(Box::new(link), node)),
                    Err(_) => HandshakeStep::Drop,
                }
            }
            HandshakeState::Trusted(mut link, secret_of) => {
                let mut messages = Vec::new();
                let received = link.receive(&mut messages);
                match messages.first() {
                    // An agent speaks for the node whose secret it has, and for no other.
                    Some(AgentMessage::Hello { node, .. })
                        if secret_of.is_none() || *node == secret_of =>
                    {
                        HandshakeStep::Enter(link, messages)
                    }
                    None if received.is_ok() => {
                        HandshakeStep::Wait(HandshakeState::Trusted(link, secret_of))
                    }
                    _ => HandshakeStep::Drop,
                }
            }
        }
    }
}

impl PendingConnection {
    /// Whether it has not shown that it knows a secret.
    fn is_unknown(&self) -> bool {
        matches!(self.state, HandshakeState::Begins(..))
    }
}

/// The network of an address that one person can be expected to have: the address itself, and of
/// IPv6 the first 64 bits.
fn network(address: IpAddr) -> u128 {
    match address.to_canonical() {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits() >> 64 << 64,
    }
}

/// Reads what is missing of a message of `N` bytes, and no byte more; `None` if it is not complete
/// yet.
fn read_exactly<const N: usize>(
    stream: &mut TcpStream,
    bytes: &mut Vec<u8>,
) -> io::Result<Option<[u8; N]>> {
    let mut buffer = [0; N];
    while bytes.len() < N {
        match stream.read(&mut buffer[..N - bytes.len()]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => bytes.extend_from_slice(&buffer[..read]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    buffer.copy_from_slice(bytes);
    Ok(Some(buffer))
}

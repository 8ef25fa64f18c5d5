//! An authenticated connection between controller and agent: frames of messages, both ways, that
//! never block.
//!
//! ```text
//! frame:  length of the body (u32, little endian),
//!         body (a message in postcard's format, encrypted), tag (16 bytes)
//! ```
//!
//! A tag is checked before its body is decoded ([`crate::link::auth`]); frames are numbered by
//! their order, so that TCP's order is the order of messages, and a frame that is missing or
//! repeated is one that does not open.
//!
//! Sending: what the socket does not take stays in `unsent`, and the owner of the connection waits
//! for room ([`Connection::has_unsent`]). Sending never fails: the next
//! [`receive`](Connection::receive) reports what went wrong, after the messages that came before.
//!
//! A connection is lost ([`LinkLost`]) when the other side closes it, sends anything wrong, or is
//! silent for the time given to [`Connection::check_silence`], and when this side wants to send a
//! message that is too long for a frame: that and all after it are not sent. Both sides send
//! [heartbeats](Connection::heartbeat) each second, so that silence means a failure; time in which
//! this process did not run does not count as silence. A lost connection stays lost.

use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use mica_node::process::wait_ready;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::link::auth::{AgentSide, CHALLENGE, Keys, Seal, Secret, TAG};

/// Maximum bytes of a body: room for the environment and arguments of a job's sections and for
/// every rank's addresses.
pub const BODY_MAX: usize = 64 << 20;
/// Time between two heartbeats.
pub const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);
/// Bytes of the length field before a body.
const HEAD: usize = 4;

/// Why a link is lost.
#[derive(Debug, thiserror::Error)]
pub enum LinkLost {
    /// The other side closed it.
    #[error("the connection was closed")]
    Closed,
    /// A system call failed.
    #[error("the connection failed: {0}")]
    Failed(#[from] io::Error),
    /// Bytes came that the other side cannot have sent.
    #[error("the connection carried {0}")]
    Wrong(&'static str),
    /// This side has a message that is longer than a frame may be.
    #[error(
        "a message of {0} bytes is too long for it (limit: {BODY_MAX}): the environment, arguments \
         or values that ranks publish are too much"
    )]
    TooLong(usize),
    /// Nothing came for this long.
    #[error("nothing was heard of it for {} s", .0.as_secs_f64())]
    Silent(Duration),
}

/// A message as the body of a frame.
pub fn encode(message: &impl Serialize) -> Vec<u8> {
    postcard::to_stdvec(message).expect("messages hold what postcard can write")
}

/// A connection to the other side.
pub struct Connection {
    stream: TcpStream,
    seal: Seal,
    open: Seal,
    received: Vec<u8>,
    /// What the connection has not taken yet.
    unsent: Vec<u8>,
    /// The length of a message that was too long to send.
    refused: Option<usize>,
    last_received: Instant,
    last_sent: Instant,
    /// When the silence was last checked.
    last_checked: Instant,
}

impl Connection {
    /// The controller's end of an authenticated connection.
    pub fn of_controller(stream: TcpStream, keys: Keys) -> io::Result<Connection> {
        Connection::new(stream, keys.for_controller())
    }

    /// The agent's end of an authenticated connection.
    pub fn of_agent(stream: TcpStream, keys: Keys) -> io::Result<Connection> {
        Connection::new(stream, keys.for_agent())
    }

    /// Shakes hands with the controller over a stream that blocks, and returns the agent's end of
    /// the connection.
    ///
    /// # Errors
    /// When the stream fails, or the other side is not the controller.
    pub fn authenticate(mut stream: TcpStream, secret: &Secret) -> io::Result<Connection> {
        let (side, hello) = AgentSide::new(secret)?;
        stream.write_all(&hello)?;
        let mut challenge = [0; CHALLENGE];
        stream.read_exact(&mut challenge)?;
        let not_ours = || io::Error::other("that is not the mpiexec which started this agent");
        let (proof, keys) = side.prove(secret, &challenge).ok_or_else(not_ours)?;
        stream.write_all(&proof)?;
        Connection::of_agent(stream, keys)
    }

    fn new(stream: TcpStream, (seal, open): (Seal, Seal)) -> io::Result<Connection> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let now = Instant::now();
        Ok(Connection {
            stream,
            seal,
            open,
            received: Vec::new(),
            unsent: Vec::new(),
            refused: None,
            last_received: now,
            last_sent: now,
            last_checked: now,
        })
    }

    /// Sends a message, or keeps what the connection does not accept now. A loss is reported by the
    /// next receive; so is a message that is too long, which is not sent, and nothing after it.
    pub fn send(&mut self, message: &impl Serialize) {
        self.send_body(&encode(message));
    }

    /// The same for a message that is [encoded](encode) already: one that goes to many.
    pub fn send_body(&mut self, body: &[u8]) {
        if body.len() > BODY_MAX {
            self.refused = Some(body.len());
        }
        if self.refused.is_some() {
            return;
        }
        let mut body = body.to_vec();
        let tag = self.seal.seal(&mut body);
        self.unsent.extend_from_slice(&(body.len() as u32).to_le_bytes());
        self.unsent.extend_from_slice(&body);
        self.unsent.extend_from_slice(&tag);
        self.last_sent = Instant::now();
        self.flush();
    }

    /// Sends a heartbeat if one is due. Unsent data counts as one.
    pub fn heartbeat(&mut self, message: &impl Serialize) {
        if self.unsent.is_empty() && self.last_sent.elapsed() >= HEARTBEAT_INTERVAL {
            self.send(message);
        }
    }

    /// Continues to send what is left.
    pub fn flush(&mut self) {
        let mut done = 0;
        while done < self.unsent.len() {
            match self.stream.write(&self.unsent[done..]) {
                Ok(0) => break,
                Ok(written) => done += written,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // It would block, or has failed: the next receive shows which.
                Err(_) => break,
            }
        }
        self.unsent.drain(..done);
    }

    /// Whether something waits to be sent.
    pub fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Receives what has come, up to `most` bytes, so that one busy agent does not keep the others
    /// waiting. Messages that came before a loss are put into `messages` all the same.
    pub fn receive<M: DeserializeOwned>(&mut self, messages: &mut Vec<M>) -> Result<(), LinkLost> {
        if let Some(bytes) = self.refused {
            return Err(LinkLost::TooLong(bytes));
        }
        let mut most: usize = 1 << 20;
        let mut buffer = [0; 65536];
        while most > 0 {
            match self.stream.read(&mut buffer) {
                Ok(0) => {
                    self.take(messages)?;
                    return Err(LinkLost::Closed);
                }
                Ok(read) => {
                    self.last_received = Instant::now();
                    self.received.extend_from_slice(&buffer[..read]);
                    most = most.saturating_sub(read);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.take(messages)?;
                    return Err(error.into());
                }
            }
        }
        self.take(messages)
    }

    /// Takes the complete frames out of what was received.
    fn take<M: DeserializeOwned>(&mut self, messages: &mut Vec<M>) -> Result<(), LinkLost> {
        let mut rest = &mut self.received[..];
        let mut used = 0;
        let mut result = Ok(());
        while let Some((length, after)) = rest.split_first_chunk_mut::<HEAD>() {
            let length = u32::from_le_bytes(*length) as usize;
            if length > BODY_MAX {
                result = Err(LinkLost::Wrong("a frame that is too long"));
                break;
            }
            let (body, after) = match after.split_at_mut_checked(length) {
                Some(parts) if parts.1.len() >= TAG => parts,
                _ => break,
            };
            let (tag, after) = after.split_first_chunk_mut::<TAG>().expect("checked just above");
            if !self.open.open(body, *tag) {
                result = Err(LinkLost::Wrong("a frame that the other side did not send"));
                break;
            }
            match postcard::from_bytes(body) {
                Ok(message) => messages.push(message),
                Err(_) => {
                    result = Err(LinkLost::Wrong("a message that this version does not know"));
                    break;
                }
            }
            used += HEAD + length + TAG;
            rest = after;
        }
        self.received.drain(..used);
        result
    }

    /// Checks that the other side was heard within `limit`. Time in which this process did not run
    /// (it was stopped, or the machine slept) does not count: what came meanwhile is still to be
    /// read.
    pub fn check_silence(&mut self, limit: Duration) -> Result<(), LinkLost> {
        let now = Instant::now();
        if now - self.last_checked > 3 * HEARTBEAT_INTERVAL {
            self.last_received = now;
        }
        self.last_checked = now;
        if now - self.last_received > limit { Err(LinkLost::Silent(limit)) } else { Ok(()) }
    }

    /// Has the kernel keep the connection although nothing is acknowledged for `time`, where it
    /// would give up before (after a quarter of an hour, by `tcp_retries2`).
    pub fn tolerate_silence(&self, time: Duration) {
        let own = Duration::from_secs(900);
        if time > own {
            let milliseconds = u32::try_from((2 * time).as_millis()).unwrap_or(u32::MAX >> 1);
            // Without it the kernel's own limit holds.
            let _ = rustix::net::sockopt::set_tcp_user_timeout(&self.stream, milliseconds);
        }
    }

    /// This side's address.
    pub fn local_address(&self) -> Option<IpAddr> {
        self.stream.local_addr().ok().map(|address| address.ip())
    }

    /// Starts the silence anew: silence until now does not count.
    pub fn reset_silence(&mut self) {
        self.last_received = Instant::now();
    }
}

/// Sends what is left on these connections, to all of them for at most this time.
pub fn flush_all(mut links: Vec<&mut Connection>, time: Duration) {
    let end = Instant::now() + time;
    links.retain(|link| link.has_unsent());
    while !links.is_empty() && Instant::now() < end {
        let fds: Vec<_> = links.iter().map(|link| link.as_fd()).collect();
        let left = end.saturating_duration_since(Instant::now());
        let Ok(ready) = wait_ready(&[], &fds, Some(left)) else { return };
        let mut ready = ready.into_iter();
        links.retain_mut(|link| {
            let before = link.unsent.len();
            link.flush();
            // A connection that is ready and takes nothing has failed.
            let has_failed = ready.next() == Some(true) && link.unsent.len() == before;
            link.has_unsent() && !has_failed
        });
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::link::auth::{ControllerSide, JobKey};
    use proptest::prelude::*;
    use std::net::TcpListener;

    /// Both ends of a link, on loopback, and a second handle of the agent's connection.
    pub fn pair() -> (Connection, Connection, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let agent = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (controller, _) = listener.accept().unwrap();
        let key = JobKey::new().unwrap();
        let secret = key.secret(Some(0));
        let (side, hello) = AgentSide::new(&secret).unwrap();
        let (answer, challenge) = ControllerSide::answer(&key, &hello).unwrap();
        let (proof, agent_keys) = side.prove(&secret, &challenge).unwrap();
        let controller_keys = answer.accept(&proof).unwrap();
        let raw = agent.try_clone().unwrap();
        let agent = Connection::of_agent(agent, agent_keys).unwrap();
        (Connection::of_controller(controller, controller_keys).unwrap(), agent, raw)
    }

    /// Receives until `count` messages are there or the link is lost.
    fn receive(link: &mut Connection, count: usize) -> (Vec<String>, Result<(), LinkLost>) {
        let mut messages = Vec::new();
        while messages.len() < count {
            mica_node::process::wait_readable(&[link.as_fd()], None).unwrap();
            if let Err(lost) = link.receive(&mut messages) {
                return (messages, Err(lost));
            }
        }
        (messages, Ok(()))
    }

    #[test]
    fn messages_go_both_ways_and_the_end_is_seen() {
        let (mut controller, mut agent, raw) = pair();
        agent.send(&"up");
        agent.send(&"and again");
        assert_eq!(receive(&mut controller, 2).0, ["up", "and again"]);
        controller.send(&"down");
        assert_eq!(receive(&mut agent, 1).0, ["down"]);
        agent.send(&"last");
        drop((agent, raw));
        let (messages, end) = receive(&mut controller, 2);
        assert_eq!(messages, ["last"]);
        assert!(matches!(end, Err(LinkLost::Closed)), "{end:?}");
    }

    #[test]
    fn what_does_not_fit_is_kept() {
        let (mut controller, mut agent, _raw) = pair();
        let long = "x".repeat(16 << 20);
        agent.send(&long);
        assert!(agent.has_unsent());
        let mut messages: Vec<String> = Vec::new();
        while messages.is_empty() {
            agent.flush();
            controller.receive(&mut messages).unwrap();
        }
        assert!(messages[0] == long && !agent.has_unsent());
    }

    #[test]
    fn what_is_sent_cannot_be_read_in_transit() {
        let (mut controller, _agent, mut raw) = pair();
        let secret = "TOKEN=0123456789abcdef";
        controller.send(&secret);
        let mut bytes = vec![0; HEAD + 1 + secret.len() + TAG];
        mica_node::process::wait_readable(&[raw.as_fd()], None).unwrap();
        raw.set_nonblocking(false).unwrap();
        raw.read_exact(&mut bytes).unwrap();
        let part = &secret.as_bytes()[..6];
        assert!(!bytes.windows(part.len()).any(|window| window == part));
    }

    #[test]
    fn a_message_that_is_too_long_is_refused_by_its_sender() {
        let (mut controller, mut agent, _raw) = pair();
        controller.send(&"before");
        controller.send(&"x".repeat(BODY_MAX + 1));
        controller.send(&"after");
        let lost = controller.receive::<String>(&mut Vec::new()).expect_err("refused");
        assert!(matches!(lost, LinkLost::TooLong(bytes) if bytes > BODY_MAX));
        // The other side gets all before it, and nothing that it must refuse.
        drop(controller);
        let (messages, end) = receive(&mut agent, 2);
        assert_eq!(messages, ["before"]);
        assert!(matches!(end, Err(LinkLost::Closed)), "{end:?}");
    }

    #[test]
    fn bytes_from_elsewhere_end_the_link() {
        let frame = |body: &[u8]| {
            let mut bytes = (body.len() as u32).to_le_bytes().to_vec();
            bytes.extend_from_slice(body);
            bytes.extend_from_slice(&[0; TAG]);
            bytes
        };
        for bytes in [frame(b"\x02up"), frame(b""), u32::MAX.to_le_bytes().to_vec()] {
            let (mut controller, _agent, mut raw) = pair();
            raw.write_all(&bytes).unwrap();
            let (messages, end) = receive(&mut controller, 1);
            assert!(messages.is_empty());
            assert!(matches!(end, Err(LinkLost::Wrong(_))), "{end:?}");
        }
    }

    #[test]
    fn silence_is_a_loss_unless_nobody_looked() {
        let (mut controller, _agent, _raw) = pair();
        let limit = Duration::from_millis(50);
        controller.check_silence(limit).unwrap();
        std::thread::sleep(Duration::from_millis(80));
        assert!(matches!(controller.check_silence(limit), Err(LinkLost::Silent(_))));
        controller.last_checked = Instant::now().checked_sub(4 * HEARTBEAT_INTERVAL).unwrap();
        controller.check_silence(limit).unwrap();
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn no_bytes_make_it_panic_or_get_in(
            bytes in proptest::collection::vec(any::<u8>(), 0..300),
        ) {
            let (mut controller, agent, mut raw) = pair();
            raw.write_all(&bytes).unwrap();
            drop((agent, raw));
            let (messages, end) = receive(&mut controller, 1);
            prop_assert!(messages.is_empty() && end.is_err());
        }
    }
}

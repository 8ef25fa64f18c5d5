//! Connections between rank 0 and the others, and the frames that go over them: a byte for the
//! kind, the length, and what the kind says.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Instant;

use mica_node::byte_reader::ByteReader;
use mica_node::handover::wait_readable;
use mica_node::launcher_socket::LauncherSocket;

/// Bytes of a frame at most; they are stored as they come.
const FRAME_MAX: u32 = 1 << 30;
/// Kind and length.
const HEAD: usize = 1 + 4;
const VALUES: u8 = 1;
const FAILURE: u8 = 2;

/// A value, and who has put it under which key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StoredValue {
    pub rank: u32,
    pub key: String,
    pub value: String,
}

/// What ranks say to each other after the proofs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RankFrame {
    /// To rank 0: what the sender has put; from rank 0: what all have put.
    Values(Vec<StoredValue>),
    /// From rank 0: why it has given up.
    Failure(String),
}

impl RankFrame {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; HEAD];
        bytes[0] = match self {
            RankFrame::Values(values) => {
                for stored in values {
                    bytes.extend(stored.rank.to_le_bytes());
                    for text in [&stored.key, &stored.value] {
                        bytes.extend((text.len() as u32).to_le_bytes());
                        bytes.extend(text.as_bytes());
                    }
                }
                VALUES
            }
            RankFrame::Failure(text) => {
                bytes.extend(text.as_bytes());
                FAILURE
            }
        };
        let length = (bytes.len() - HEAD) as u32;
        bytes[1..HEAD].copy_from_slice(&length.to_le_bytes());
        bytes
    }

    /// Reads what follows the length.
    fn decode(kind: u8, body: &[u8]) -> Option<RankFrame> {
        match kind {
            VALUES => {
                let mut rest = ByteReader(body);
                let mut values = Vec::new();
                while !rest.0.is_empty() {
                    let rank = rest.u32()?;
                    let mut text = || {
                        let length = rest.u32()?;
                        rest.text(length as usize)
                    };
                    values.push(StoredValue { rank, key: text()?, value: text()? });
                }
                Some(RankFrame::Values(values))
            }
            FAILURE => Some(RankFrame::Failure(String::from_utf8_lossy(body).into_owned())),
            _ => None,
        }
    }
}

/// A connection between rank 0 and another rank, with the bytes that have come and are not used.
#[derive(Debug)]
pub(super) struct PeerConnection {
    socket: LauncherSocket,
    received: Vec<u8>,
}

impl PeerConnection {
    pub(super) fn new(socket: impl Into<OwnedFd>) -> PeerConnection {
        PeerConnection { socket: LauncherSocket::from(socket.into()), received: Vec::new() }
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Receives what is there, once the descriptor can be read.
    ///
    /// # Errors
    /// `UnexpectedEof` when the peer has closed; otherwise the kernel's error.
    pub(super) fn fill(&mut self) -> io::Result<()> {
        let mut bytes = [0; 16 * 1024];
        match self.socket.receive(&mut bytes)? {
            0 => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it closed the connection")),
            n => {
                self.received.extend_from_slice(&bytes[..n]);
                Ok(())
            }
        }
    }

    /// Takes `length` bytes; `None` until all of them have come.
    pub(super) fn take(&mut self, length: usize) -> Option<Vec<u8>> {
        (self.received.len() >= length).then(|| self.received.drain(..length).collect())
    }

    /// Waits for `length` bytes.
    ///
    /// # Errors
    /// As [`fill`](Self::fill); `TimedOut` at the deadline.
    pub(super) fn receive(&mut self, length: usize, deadline: Instant) -> io::Result<Vec<u8>> {
        loop {
            if let Some(bytes) = self.take(length) {
                return Ok(bytes);
            }
            wait_readable(&[self.socket.as_fd()], deadline)?;
            self.fill()?;
        }
    }

    /// Waits for a frame.
    ///
    /// # Errors
    /// As [`receive`](Self::receive); `InvalidData` for what is no frame.
    pub(super) fn receive_frame(&mut self, deadline: Instant) -> io::Result<RankFrame> {
        let head = self.receive(HEAD, deadline)?;
        let mut rest = ByteReader(&head[1..]);
        let length = rest.u32().filter(|&length| length <= FRAME_MAX);
        let invalid = || io::Error::new(io::ErrorKind::InvalidData, "it said what Mica never does");
        let body = self.receive(length.ok_or_else(invalid)? as usize, deadline)?;
        RankFrame::decode(head[0], &body).ok_or_else(invalid)
    }

    /// Sends all bytes.
    ///
    /// # Errors
    /// `TimedOut` at the deadline; otherwise the kernel's error.
    pub(super) fn send(&self, bytes: &[u8], deadline: Instant) -> io::Result<()> {
        self.socket.send_until(bytes, deadline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(30)
    }

    /// What comes of these bytes and the end of the stream.
    fn read(bytes: &[u8]) -> io::Result<RankFrame> {
        let (one, other) = UnixStream::pair().expect("a pair");
        PeerConnection::new(one).send(bytes, soon()).expect("sent");
        PeerConnection::new(other).receive_frame(soon())
    }

    #[test]
    fn frames_round_trip() {
        let stored = |rank: u32, value: &str| {
            let (key, value) = ("card".to_owned(), value.to_owned());
            StoredValue { rank, key, value }
        };
        for frame in [
            RankFrame::Values(Vec::new()),
            RankFrame::Values(vec![stored(0, ""), stored(70_000, &"x".repeat(40_000))]),
            RankFrame::Failure("ranks [1] did not come".to_owned()),
        ] {
            assert_eq!(read(&frame.encode()).expect("a frame"), frame);
        }
        let (one, other) = UnixStream::pair().expect("a pair");
        let two = [RankFrame::Values(vec![stored(1, "a")]), RankFrame::Failure("b".to_owned())];
        let bytes: Vec<u8> = two.iter().flat_map(RankFrame::encode).collect();
        PeerConnection::new(one).send(&bytes, soon()).expect("sent");
        let mut other = PeerConnection::new(other);
        for frame in two {
            assert_eq!(other.receive_frame(soon()).expect("a frame"), frame);
        }
    }

    #[test]
    fn the_end_of_a_stream_and_silence_are_errors() {
        let cut = &RankFrame::Failure("some text".to_owned()).encode()[..8];
        assert_eq!(read(cut).expect_err("cut").kind(), io::ErrorKind::UnexpectedEof);
        let (_one, other) = UnixStream::pair().expect("a pair");
        let brief = Instant::now() + Duration::from_millis(20);
        let error = PeerConnection::new(other).receive_frame(brief).expect_err("silence");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(0u8..4, 0..80)) {
            let _ = read(&bytes);
            let _ = RankFrame::decode(VALUES, &bytes);
        }
    }
}

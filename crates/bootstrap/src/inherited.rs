//! What Mica's mpiexec gave this process: the node's segment, and a connection to its process
//! manager if the job needs one.
//!
//! Both are inherited as descriptors. A program that was started through something that closes
//! descriptors (Python's `subprocess`, some shells and profilers) asks mpiexec for them again: over
//! an abstract Unix socket with a random name that only the job's processes know
//! ([`SEGMENT_SOCKET_VARIABLE`]), where both sides check that the other is of the same user.
//! Nothing is named in a file system.
//!
//! ```text
//! process                                       mpiexec
//!   greeting, what is wanted, rank        ->
//!                                         <-    welcome with the descriptor, or a refusal in words
//! ```

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use mica_node::handover::{HandoverConnection, own_uid};
use mica_node::launcher_socket::LauncherSocket;
use mica_node::sealed_file::SealedFile;
use mica_node::segment::{
    JobSegment, SEGMENT_ID_VARIABLE, SEGMENT_SOCKET_VARIABLE, SegmentError, inherited_descriptor,
};

use crate::BootstrapError;
use crate::environment::{PMI_FD, text};
use crate::pmi1::value_table::ValueTable;

/// Environment variable: identity of the socket of PMI_FD
/// ([`mica_node::handover::identity`]).
pub const MANAGER_ID_VARIABLE: &str = "MICA_PMI_ID";

const GREETING: [u8; 8] = *b"mica-re\x01";
const WELCOME: [u8; 8] = *b"mica-go\x01";
/// Greeting, what is wanted, rank.
const REQUEST: usize = 8 + 1 + 4;
/// Bytes of an answer at most.
const ANSWER: usize = 256;
/// mpiexec answers from its event loop, which never waits for long.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// What a process of the job asks mpiexec for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum DescriptorKind {
    /// The node's job segment.
    Segment = 1,
    /// A connection to the process manager (PMI-1).
    Manager = 2,
    /// The table of what all ranks put before the last fence ([`crate::pmi1::value_table`]).
    Values = 3,
}

/// A process's request for a descriptor that it did not inherit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DescriptorRequest {
    /// What it wants.
    pub wanted: DescriptorKind,
    /// The rank that it is.
    pub rank: u32,
}

impl DescriptorRequest {
    fn encode(self) -> [u8; REQUEST] {
        let mut bytes = [0; REQUEST];
        bytes[..8].copy_from_slice(&GREETING);
        bytes[8] = self.wanted as u8;
        bytes[9..].copy_from_slice(&self.rank.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<DescriptorRequest> {
        let (greeting, rest) = bytes.split_first_chunk()?;
        let (wanted, rank) = rest.split_first()?;
        let wanted = match wanted {
            1 => DescriptorKind::Segment,
            2 => DescriptorKind::Manager,
            3 => DescriptorKind::Values,
            _ => return None,
        };
        let rank = u32::from_le_bytes(rank.try_into().ok()?);
        (*greeting == GREETING).then_some(DescriptorRequest { wanted, rank })
    }

    /// Reads the request that waits at `connection`. `None`: nothing is there yet.
    ///
    /// # Errors
    /// When the connection has ended, or carries something else.
    pub fn read(connection: &HandoverConnection) -> io::Result<Option<DescriptorRequest>> {
        match connection.try_receive(REQUEST)? {
            None => Ok(None),
            Some((bytes, None)) => DescriptorRequest::decode(&bytes)
                .map(Some)
                .ok_or_else(|| io::ErrorKind::InvalidData.into()),
            Some(_) => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Answers a request, with the descriptor or with the reason for the refusal. Does not wait: an
    /// answer fits any socket.
    pub fn answer(connection: &HandoverConnection, given: Result<BorrowedFd<'_>, &str>) {
        let now = Instant::now();
        // A process that has gone meanwhile needs no answer.
        let _ = match given {
            Ok(descriptor) => connection.send(&WELCOME, Some(descriptor), now),
            Err(reason) => connection.send(reason.as_bytes(), None, now),
        };
    }
}

/// The name of the socket at which mpiexec waits for requests, from the value of
/// [`SEGMENT_SOCKET_VARIABLE`].
pub fn socket_name(nonce: &str) -> Vec<u8> {
    format!("mica-job-{nonce}").into_bytes()
}

/// The value of [`SEGMENT_SOCKET_VARIABLE`] for a new job.
///
/// # Errors
/// When the kernel gives no random bytes.
pub fn new_nonce() -> io::Result<String> {
    mica_node::handover::nonce().map(|bytes| crate::manager::hex(&bytes))
}

/// The node's segment: under the number that mpiexec gave it to this process, or requested again.
pub(crate) fn segment(number: u32, rank: u32) -> Result<JobSegment, BootstrapError> {
    let identity = text(SEGMENT_ID_VARIABLE);
    let lost = match inherited_descriptor(number, identity.as_deref()) {
        Ok(descriptor) => return Ok(JobSegment::attach(descriptor)?),
        Err(lost) => lost,
    };
    let descriptor = request_again(DescriptorKind::Segment, rank, &lost)?;
    Ok(JobSegment::attach(descriptor)?)
}

/// The connection to mpiexec's process manager: the one inherited, or a new one.
pub(crate) fn manager(rank: u32) -> Result<LauncherSocket, BootstrapError> {
    let fd = match inherited_manager() {
        Ok(socket) => return Ok(socket),
        Err(number) => number,
    };
    request_again(DescriptorKind::Manager, rank, &SegmentError::ClosedDescriptor { fd })
        .map(LauncherSocket::from)
}

/// Closes the connection to mpiexec's process manager, which serves programs of other MPI libraries
/// in jobs that need none themselves: programs that this process starts shall not find it and take
/// themselves for this rank.
pub(crate) fn close_manager() {
    drop(inherited_manager());
}

/// The connection that mpiexec opened for this process; its number if something else is there, or
/// nothing.
fn inherited_manager() -> Result<LauncherSocket, i32> {
    let number = text(PMI_FD).and_then(|number| number.parse().ok());
    let number: i32 = number.unwrap_or(-1);
    let identity = text(MANAGER_ID_VARIABLE).ok_or(number)?;
    LauncherSocket::inherited(number, Some(&identity)).map_err(|_| number)
}

/// The table of what all ranks put before the last fence. `None` if it cannot be had.
pub(crate) fn value_table(rank: u32) -> Option<ValueTable> {
    // The error's text is not shown: there is another way to the values.
    let unused = SegmentError::ClosedDescriptor { fd: -1 };
    let table = request_again(DescriptorKind::Values, rank, &unused).ok()?;
    SealedFile::map(table.as_fd()).ok().map(ValueTable::new)
}

/// Asks mpiexec for a descriptor that it did not inherit.
fn request_again(
    wanted: DescriptorKind,
    rank: u32,
    lost: &SegmentError,
) -> Result<OwnedFd, BootstrapError> {
    let refused = |answer: String| BootstrapError::NotInherited { lost: lost.to_string(), answer };
    let Some(nonce) = text(SEGMENT_SOCKET_VARIABLE) else {
        return Err(refused(format!("{SEGMENT_SOCKET_VARIABLE} is not set")));
    };
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::ConnectionRefused => refused(
            "mpiexec cannot be reached: it has ended, or is in another network namespace"
                .to_owned(),
        ),
        _ => refused(error.to_string()),
    };
    let deadline = Instant::now() + ANSWER_TIMEOUT;
    let connection = HandoverConnection::connect(&socket_name(&nonce), deadline).map_err(failed)?;
    let peer = connection.peer().map_err(failed)?;
    if peer.uid != own_uid() {
        return Err(refused(format!(
            "the socket belongs to user {}, not to {}",
            peer.uid,
            own_uid()
        )));
    }
    let request = DescriptorRequest { wanted, rank }.encode();
    connection.send(&request, None, deadline).map_err(failed)?;
    match connection.receive(ANSWER, deadline).map_err(failed)? {
        (bytes, Some(descriptor)) if bytes == WELCOME => Ok(descriptor),
        (bytes, _) if bytes.is_empty() => Err(refused("mpiexec closed the connection".to_owned())),
        (bytes, _) => Err(refused(String::from_utf8_lossy(&bytes).into_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mica_node::handover::HandoverListener;
    use std::os::fd::AsFd;

    #[test]
    fn requests_round_trip() {
        for wanted in [DescriptorKind::Segment, DescriptorKind::Manager, DescriptorKind::Values] {
            let request = DescriptorRequest { wanted, rank: 70_000 };
            assert_eq!(DescriptorRequest::decode(&request.encode()), Some(request));
        }
        let bytes = DescriptorRequest { wanted: DescriptorKind::Segment, rank: 1 }.encode();
        assert_eq!(DescriptorRequest::decode(&bytes[..12]), None);
        assert_eq!(DescriptorRequest::decode(b"GET / HTTP/1"), None);
        assert_eq!(DescriptorRequest::decode(&[]), None);
    }

    #[test]
    fn answers_with_descriptor_or_reason() {
        let nonce = new_nonce().expect("random bytes");
        let listener = HandoverListener::bind(&socket_name(&nonce)).expect("a fresh name");
        let soon = || Instant::now() + ANSWER_TIMEOUT;
        let file = std::fs::File::open("/proc/self/exe").expect("own program");
        for given in [Ok(file.as_fd()), Err("no rank 5 here")] {
            let one =
                HandoverConnection::connect(&socket_name(&nonce), soon()).expect("it listens");
            let other = listener.try_accept().expect("accept").expect("queued");
            assert_eq!(DescriptorRequest::read(&other).expect("open"), None);
            let request = DescriptorRequest { wanted: DescriptorKind::Segment, rank: 5 };
            one.send(&request.encode(), None, soon()).expect("sent");
            assert_eq!(DescriptorRequest::read(&other).expect("open"), Some(request));
            DescriptorRequest::answer(&other, given);
            let (bytes, descriptor) = one.receive(ANSWER, soon()).expect("received");
            assert_eq!(descriptor.is_some(), given.is_ok());
            assert_eq!(bytes == WELCOME, given.is_ok());
        }
    }
}

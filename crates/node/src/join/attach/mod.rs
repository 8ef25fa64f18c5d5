//! How a tool attaches to a running job of this node: `mica top` asks the job's mpiexec (or the
//! agent of another host's mpiexec) for the job segment, to read it.
//!
//! mpiexec listens on an abstract Unix socket, so that nothing is named in a file system. The name
//! ([`SocketName`]) holds user and process, so that a tool finds jobs by reading `/proc/net/unix`,
//! and a random part, so that no other process can take the name before.
//!
//! ```text
//! mica top                                      mpiexec
//!   connects                                      checks by SO_PEERCRED: same user, or root
//!   checks by SO_PEERCRED: the user of the name
//!   greeting, version                     ->
//!                                         <-    welcome, description, read-only descriptor
//!                                               or a refusal in words; closes
//! ```
//!
//! The descriptor is a new open file of the segment with O_RDONLY: what comes of it cannot write.
//! The reader copies from it by `pread` ([`SegmentReader`]) and maps nothing, so that neither the
//! contents nor the size of the file can harm it. Greetings end with the version of these messages;
//! the description names Mica's version and the layout of the segment, which a tool of another
//! version refuses to read.

mod description;
mod name;

pub use description::{JobDescription, printable};
pub use name::SocketName;

use crate::segment::{SegmentReader, layout};

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::handover::HandoverConnection;

/// Versions of these messages are told apart by the last byte.
const GREETING: [u8; 8] = *b"mica-at\x01";
const WELCOME: [u8; 8] = *b"mica-ok\x01";
const REFUSAL: [u8; 8] = *b"mica-no\x01";
/// Maximum bytes of a request: a greeting, and the version in words.
const REQUEST_MAX: usize = 64;
/// Maximum bytes of an answer. The kernel takes messages of 200 KiB by its default.
const ANSWER_MAX: usize = 160 << 10;
/// mpiexec answers from its event loop; a hang report takes two seconds of it.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Sockets that are asked at the same time; each takes a descriptor.
const ASKED_MAX: usize = 400;

/// The version of Mica that this is.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Reads a request that has come to mpiexec. `None`: nothing is there yet.
///
/// # Errors
/// When the connection has ended, or carries something else; the text is for the other side.
pub fn read_request(caller: &HandoverConnection) -> io::Result<Option<Result<(), String>>> {
    let Some((bytes, _)) = caller.try_receive(REQUEST_MAX)? else {
        return Ok(None);
    };
    let Some((greeting, version)) = bytes.split_first_chunk::<8>() else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    if greeting[..7] != GREETING[..7] {
        return Err(io::ErrorKind::InvalidData.into());
    }
    if *greeting != GREETING {
        return Ok(Some(Err(format!(
            "its mpiexec is of Mica {VERSION} and cannot serve a tool of Mica {}: use the `mica` \
             beside that mpiexec",
            String::from_utf8_lossy(version)
        ))));
    }
    Ok(Some(Ok(())))
}

/// Answers a request with the segment, opened for reading. Never waits.
///
/// # Errors
/// When the segment cannot be opened again, or the caller is gone.
pub fn welcome(
    caller: &HandoverConnection,
    segment: BorrowedFd<'_>,
    job: &JobDescription,
) -> io::Result<()> {
    let bytes = [&WELCOME[..], &job.encode()].concat();
    let file = File::open(format!("/proc/self/fd/{}", segment.as_raw_fd()))?;
    caller.send(&bytes, Some(file.as_fd()), Instant::now())
}

/// Answers a request by a refusal in words. Never waits.
///
/// # Errors
/// When the caller is gone.
pub fn refuse(caller: &HandoverConnection, reason: &str) -> io::Result<()> {
    let bytes = [&REFUSAL[..], reason.as_bytes()].concat();
    caller.send(&bytes, None, Instant::now())
}

/// Why a tool cannot attach.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// Nothing answers under the name, or the connection failed.
    #[error("no answer: {0}")]
    Connection(#[from] io::Error),
    /// The process that has the name is not of the user that the name names.
    #[error("process {pid} of user {uid} uses the name of a job of user {named}")]
    Impostor {
        /// The process.
        pid: u32,
        /// Its user.
        uid: u32,
        /// The user in the name.
        named: u32,
    },
    /// mpiexec closed the connection, as it does to callers of other users.
    #[error("its mpiexec does not serve this user")]
    TurnedAway,
    /// mpiexec refused in words.
    #[error("{0}")]
    Refused(String),
    /// The answer makes no sense.
    #[error("its mpiexec gave an answer that this version of Mica ({VERSION}) does not understand")]
    Unintelligible,
    /// The segment is laid out differently.
    #[error(
        "the job runs under Mica {theirs}, whose counters this Mica {VERSION} cannot read: \
             use the `mica` beside its mpiexec"
    )]
    Layout {
        /// The version of the job's Mica.
        theirs: String,
    },
}

/// What an mpiexec gives to a tool.
pub type AttachAnswer = Result<(JobDescription, SegmentReader), AttachError>;

/// A question to an mpiexec, whose answer is awaited.
#[derive(Debug)]
struct Asked(HandoverConnection);

impl Asked {
    /// Asks the mpiexec that listens under `name` for its job. Does not wait: an mpiexec takes many
    /// more callers than it has, and a new connection takes a question.
    fn ask(name: &SocketName, connected: &mut dyn FnMut(u32)) -> Result<Asked, AttachError> {
        let now = Instant::now();
        let connection = HandoverConnection::connect(&name.encode(), now)?;
        let peer = connection.peer()?;
        if peer.uid != name.uid {
            return Err(AttachError::Impostor { pid: peer.pid, uid: peer.uid, named: name.uid });
        }
        connected(peer.pid);
        let request = [&GREETING[..], VERSION.as_bytes()].concat();
        match connection.send(&request, None, now) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(AttachError::TurnedAway),
            sent => Ok(sent.map(|()| Asked(connection))?),
        }
    }

    /// The answer. One that has come is taken after the deadline, too.
    fn answer(self, deadline: Instant) -> AttachAnswer {
        let answer = match self.0.receive(ANSWER_MAX, deadline) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                return Err(AttachError::TurnedAway);
            }
            answer => answer?,
        };
        read_answer(&answer.0, answer.1)
    }
}

/// Asks the mpiexecs that listen under these names for their jobs: all at the same time, and all
/// answers have the same deadline, since any user can have a socket that takes the question and is
/// silent. `connected` is called with the index of a name and its process before that is asked: a
/// handle to the process that is taken there is mpiexec's if an answer comes.
pub fn attach_all(
    names: &[SocketName],
    deadline: Instant,
    connected: &mut dyn FnMut(usize, u32),
) -> Vec<AttachAnswer> {
    let mut open = 0;
    let mut ask = |index: usize, name: &SocketName| {
        if open == ASKED_MAX {
            return Err(io::Error::other("too many others are asked").into());
        }
        let asked = Asked::ask(name, &mut |peer| connected(index, peer));
        open += usize::from(asked.is_ok());
        asked
    };
    let asked: Vec<_> = names.iter().enumerate().map(|(index, name)| ask(index, name)).collect();
    asked.into_iter().map(|asked| asked.and_then(|asked| asked.answer(deadline))).collect()
}

fn read_answer(bytes: &[u8], descriptor: Option<OwnedFd>) -> AttachAnswer {
    let Some((greeting, rest)) = bytes.split_first_chunk::<8>() else {
        return Err(match bytes {
            [] => AttachError::TurnedAway,
            _ => AttachError::Unintelligible,
        });
    };
    if greeting[..7] == REFUSAL[..7] {
        return Err(AttachError::Refused(description::printable(rest)));
    }
    if *greeting != WELCOME {
        return Err(AttachError::Unintelligible);
    }
    let job = JobDescription::decode(rest).ok_or(AttachError::Unintelligible)?;
    if job.layout != layout() {
        return Err(AttachError::Layout { theirs: job.version });
    }
    let descriptor = descriptor.ok_or(AttachError::Unintelligible)?;
    let reader = SegmentReader::open(descriptor)?;
    Ok((job, reader))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handover::{HandoverListener, own_uid};

    fn description() -> JobDescription {
        JobDescription {
            version: VERSION.to_owned(),
            layout: layout(),
            name: "kvs_here_1_2".to_owned(),
            host: "here".to_owned(),
            command: "./a.out x".to_owned(),
            job_size: 4,
            nodes: 2,
            started_ms: 1_700_000_000_123,
            pids: vec![7, 9],
        }
    }

    /// Attaches to a server in a thread, which answers by `answer`.
    fn attached(
        answer: impl Fn(&HandoverConnection) + Send + 'static,
    ) -> Result<(JobDescription, SegmentReader), AttachError> {
        let name = SocketName::new().unwrap();
        let listener = HandoverListener::bind(&name.encode()).unwrap();
        let server = std::thread::spawn(move || {
            let caller = loop {
                if let Some(caller) = listener.try_accept().unwrap() {
                    break caller;
                }
                std::thread::yield_now();
            };
            while matches!(read_request(&caller), Ok(None)) {
                std::thread::yield_now();
            }
            answer(&caller);
        });
        let mut process = 0;
        let deadline = Instant::now() + 3 * ANSWER_TIMEOUT;
        let names = std::slice::from_ref(&name);
        let mut results = attach_all(names, deadline, &mut |_, pid| process = pid);
        server.join().unwrap();
        assert_eq!((process, name.uid), (std::process::id(), own_uid()));
        results.pop().unwrap()
    }

    #[test]
    fn silent_sockets_share_one_deadline() {
        let listen = |_| {
            let name = SocketName::new().unwrap();
            let listener = HandoverListener::bind(&name.encode()).unwrap();
            (name, listener)
        };
        let (names, _listeners): (Vec<_>, Vec<_>) = (0..50).map(listen).unzip();
        let time = Duration::from_millis(200);
        let start = Instant::now();
        let answers = attach_all(&names, start + time, &mut |_, _| {});
        // Fifty times the deadline would be ten seconds.
        assert!(start.elapsed() < 20 * time, "{:?}", start.elapsed());
        assert!(answers.iter().all(|a| matches!(a, Err(AttachError::Connection(_)))));
    }

    #[test]
    fn what_is_not_a_memfd_is_not_read() {
        let (read, _write) = std::io::pipe().unwrap();
        let file = File::open("/proc/self/exe").unwrap();
        for descriptor in [OwnedFd::from(read), file.into()] {
            let error = SegmentReader::open(descriptor).unwrap_err().to_string();
            assert!(error.contains("not sealed"), "{error}");
        }
    }

    fn segment() -> crate::segment::JobSegment {
        let places = [crate::topology::CorePlace::UNKNOWN; 2];
        crate::segment::JobSegment::create(&crate::segment::JobSpec {
            job_size: 4,
            members: &[1, 3],
            ..crate::segment::JobSpec::on_one_node(&places, 2, &[])
        })
        .unwrap()
    }

    #[test]
    fn a_reader_gets_a_description_and_cannot_write() {
        let answer = |caller: &HandoverConnection| {
            welcome(caller, segment().as_fd(), &description()).unwrap();
        };
        let (job, reader) = attached(answer).unwrap();
        assert_eq!(job, description());
        assert_eq!(reader.ranks(), [1, 3]);
        let written = std::os::unix::fs::FileExt::write_at(reader.file(), b"x", 0);
        assert!(written.is_err(), "the descriptor is for reading alone");
    }

    #[test]
    fn another_layout_and_refusals_are_told() {
        let other = |caller: &HandoverConnection| {
            let job = JobDescription { layout: 7, version: "9.9".to_owned(), ..description() };
            welcome(caller, segment().as_fd(), &job).unwrap();
        };
        let error = attached(other).unwrap_err().to_string();
        assert!(error.contains("Mica 9.9"), "{error}");
        let refused = |caller: &HandoverConnection| refuse(caller, "not \x1b[2J now").unwrap();
        let error = attached(refused).unwrap_err().to_string();
        assert_eq!(error, "not ?[2J now");
        let silent = |_: &HandoverConnection| {};
        assert!(matches!(attached(silent), Err(AttachError::TurnedAway)));
    }

    #[test]
    fn a_tool_of_another_version_is_refused_in_words() {
        let name = SocketName::new().unwrap();
        let listener = HandoverListener::bind(&name.encode()).unwrap();
        let soon = Instant::now() + ANSWER_TIMEOUT;
        let tool = HandoverConnection::connect(&name.encode(), soon).unwrap();
        let caller = listener.try_accept().unwrap().unwrap();
        assert!(matches!(read_request(&caller), Ok(None)));
        tool.send(b"mica-at\x029.9.9", None, soon).unwrap();
        let refusal = read_request(&caller).unwrap().unwrap().unwrap_err();
        assert!(refusal.contains("a tool of Mica 9.9.9"), "{refusal}");
        for garbage in [&b"GET / HTTP/1.1"[..], b"x", &[b'm'; 500]] {
            tool.send(garbage, None, soon).unwrap();
            assert!(read_request(&caller).is_err());
        }
    }

    #[test]
    fn answers_that_make_no_sense_are_errors() {
        let whole = [&WELCOME[..], &description().encode()].concat();
        for end in 0..whole.len() {
            assert!(read_answer(&whole[..end], None).is_err(), "{end}");
        }
        assert!(matches!(read_answer(&whole, None), Err(AttachError::Unintelligible)));
        let file = File::open("/proc/self/exe").unwrap();
        assert!(matches!(read_answer(&whole, Some(file.into())), Err(AttachError::Connection(_))));
    }
}

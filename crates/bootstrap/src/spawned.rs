//! The launcher of spawned processes (`MPI_Comm_spawn`; MPI 5.0, 11.8): how a rank starts one, and
//! what the two say to each other.
//!
//! Any process of a job on one node can start a launcher for more, whatever started the job: the
//! launcher gets the job segment from it and enters a new world there
//! ([`mica_node::segment::World`]). It is `mpiexec` with an ordinary command line behind
//! [`SPAWNED`]; it makes itself independent of the rank, whose child it is for a moment only.
//!
//! ```text
//! rank                                              launcher
//!   listens under a random abstract name
//!   starts it: --spawned NAME:RANK:TAG -n 2 a : b ->
//!                                                   starts itself anew, in a process group of its
//!                                                   own, and ends; the second one:
//!                                              <-   connects
//!   the segment's descriptor                   ->
//!                                              <-   Started, or Failed
//!                                              <-   Failed, if a process ends without MPI_Init
//!   closes the connection once all have come
//! ```

use std::ffi::OsString;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use mica_node::handover::{HandoverConnection, HandoverListener, own_uid};
use mica_node::segment::ParentPort;

/// The option, first on the command line, by which `mpiexec` starts processes for a running job.
pub const SPAWNED: &str = "--spawned";

/// Time for the launcher to come.
const COME: Duration = Duration::from_secs(60);
/// Interval between looks whether it has ended instead.
const LOOK: Duration = Duration::from_millis(20);
/// Bytes of a message at most.
const ANSWER: usize = 4096;
const WELCOME: [u8; 8] = *b"mica-sp\x01";

/// What the launcher's first argument says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpawnedBy {
    /// Random part of the name under which the rank listens.
    pub nonce: String,
    /// Where the new processes find the rank.
    pub parent: ParentPort,
}

impl SpawnedBy {
    /// The argument behind [`SPAWNED`].
    pub fn to_argument(&self) -> String {
        format!("{}:{}:{}", self.nonce, self.parent.rank, self.parent.tag)
    }

    /// Reads such an argument.
    pub fn parse(argument: &str) -> Option<SpawnedBy> {
        let mut parts = argument.split(':');
        let (nonce, rank, tag) = (parts.next()?, parts.next()?, parts.next()?);
        let is_hex = nonce.len() == 32 && nonce.bytes().all(|byte| byte.is_ascii_hexdigit());
        let parent = ParentPort { rank: rank.parse().ok()?, tag: tag.parse().ok()? };
        (is_hex && parts.next().is_none()).then(|| SpawnedBy { nonce: nonce.to_owned(), parent })
    }

    fn name(&self) -> Vec<u8> {
        format!("mica-spawn-{}", self.nonce).into_bytes()
    }
}

/// What the launcher reports to the rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpawnAnswer {
    /// All processes are started: the ranks from `first` on, `count` of them.
    Started {
        /// Number of the first in the job.
        first: u32,
        /// How many they are.
        count: u32,
    },
    /// They could not be started, or one ended before it had called `MPI_Init`; none is left.
    Failed {
        /// Number of the program on the command line that is to blame, if one is.
        section: Option<u32>,
        /// Why, in words.
        why: String,
    },
}

impl SpawnAnswer {
    fn encode(&self) -> Vec<u8> {
        match self {
            SpawnAnswer::Started { first, count } => {
                let numbers = [*first, *count];
                std::iter::once(1).chain(numbers.into_iter().flat_map(u32::to_le_bytes)).collect()
            }
            SpawnAnswer::Failed { section, why } => {
                let section = section.map_or(u32::MAX, |section| section);
                let end = why.floor_char_boundary(ANSWER - 5);
                let mut bytes = vec![2];
                bytes.extend(section.to_le_bytes());
                bytes.extend(why[..end].bytes());
                bytes
            }
        }
    }

    fn decode(bytes: &[u8]) -> Option<SpawnAnswer> {
        let (kind, rest) = bytes.split_first()?;
        let (number, rest) = rest.split_first_chunk()?;
        let number = u32::from_le_bytes(*number);
        match kind {
            1 => {
                let count = u32::from_le_bytes(rest.try_into().ok()?);
                Some(SpawnAnswer::Started { first: number, count })
            }
            2 => Some(SpawnAnswer::Failed {
                section: (number != u32::MAX).then_some(number),
                why: String::from_utf8_lossy(rest).into_owned(),
            }),
            _ => None,
        }
    }
}

/// For the rank: a launcher that it has started.
#[derive(Debug)]
pub struct SpawnedLauncher {
    connection: HandoverConnection,
}

impl SpawnedLauncher {
    /// Starts `mpiexec`, the program `program`, with these arguments of an ordinary command line,
    /// and hands it the segment. Blocks until it has come.
    ///
    /// # Errors
    /// When it cannot be started, or ends at once.
    pub fn start(
        program: &Path,
        arguments: &[OsString],
        segment: BorrowedFd<'_>,
        parent: ParentPort,
    ) -> io::Result<SpawnedLauncher> {
        let nonce = crate::manager::hex(&mica_node::handover::nonce()?);
        let by = SpawnedBy { nonce, parent };
        let listener = HandoverListener::bind(&by.name())?;
        let mut first = Command::new(program)
            .arg(SPAWNED)
            .arg(by.to_argument())
            .args(arguments)
            .stdin(Stdio::null())
            .spawn()?;
        let deadline = Instant::now() + COME;
        let mut has_ended = false;
        loop {
            let ready =
                mica_node::handover::wait_readable(&[listener.as_fd()], Instant::now() + LOOK);
            if let Some(connection) = listener.try_accept()?
                && connection.peer()?.uid == own_uid()
            {
                connection.send(&WELCOME, Some(segment), deadline)?;
                // The first process ends before the second one connects.
                first.wait()?;
                return Ok(SpawnedLauncher { connection });
            }
            match ready {
                Err(error) if error.kind() != io::ErrorKind::TimedOut => return Err(error),
                _ if Instant::now() > deadline => return Err(io::ErrorKind::TimedOut.into()),
                _ => {}
            }
            if !has_ended && let Some(status) = first.try_wait()? {
                has_ended = true;
                if !status.success() {
                    return Err(io::Error::other(format!("it ended with {status}")));
                }
            }
        }
    }

    /// What it has reported since the last call. `None`: nothing.
    ///
    /// # Errors
    /// When the connection has ended.
    pub fn try_answer(&self) -> io::Result<Option<SpawnAnswer>> {
        match self.connection.try_receive(ANSWER)? {
            None => Ok(None),
            Some((bytes, _)) if bytes.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
            Some((bytes, _)) => {
                let answer = SpawnAnswer::decode(&bytes);
                answer.map(Some).ok_or_else(|| io::ErrorKind::InvalidData.into())
            }
        }
    }
}

/// For the launcher: the rank that has started it.
#[derive(Debug)]
pub struct SpawningRank {
    connection: HandoverConnection,
}

impl SpawningRank {
    /// Connects to the rank, and gets the descriptor of the job segment.
    ///
    /// # Errors
    /// When the rank has gone, or another user's process has its name.
    pub fn connect(by: &SpawnedBy) -> io::Result<(SpawningRank, OwnedFd)> {
        let deadline = Instant::now() + COME;
        let connection = HandoverConnection::connect(&by.name(), deadline)?;
        if connection.peer()?.uid != own_uid() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        match connection.receive(WELCOME.len(), deadline)? {
            (bytes, Some(segment)) if bytes == WELCOME => {
                Ok((SpawningRank { connection }, segment))
            }
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Whether the rank still waits: it has not closed the connection. It says nothing more itself.
    pub fn is_waiting(&self) -> bool {
        matches!(self.connection.try_receive(1), Ok(None))
    }

    /// Reports to the rank. A rank that has gone needs no report.
    pub fn answer(&self, answer: &SpawnAnswer) {
        let _ =
            self.connection.send(&answer.encode(), None, Instant::now() + Duration::from_secs(1));
    }
}

/// The `mpiexec` of the installation that `library`, a file in its folder of libraries, is part of.
/// `None`: there is none, and who starts a program looks in `PATH`.
pub fn launcher_beside(library: &Path) -> Option<PathBuf> {
    let folders = library.ancestors().skip(1).take(3);
    let mut programs = folders.map(|folder| folder.join("bin/mpiexec"));
    programs.find(|program| program.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_and_answers_round_trip() {
        let by = SpawnedBy {
            nonce: "0123456789abcdef0123456789abcdef".to_owned(),
            parent: ParentPort { rank: 3, tag: 70_000 },
        };
        assert_eq!(SpawnedBy::parse(&by.to_argument()), Some(by));
        for wrong in ["", "1:2", "0123:1:2", "0123456789abcdef0123456789abcdeg:1:2"] {
            assert_eq!(SpawnedBy::parse(wrong), None, "{wrong}");
        }
        for answer in [
            SpawnAnswer::Started { first: 2, count: 3 },
            SpawnAnswer::Failed { section: Some(1), why: "no such program".to_owned() },
            SpawnAnswer::Failed { section: None, why: String::new() },
        ] {
            assert_eq!(SpawnAnswer::decode(&answer.encode()), Some(answer));
        }
        let long = SpawnAnswer::Failed { section: None, why: "x".repeat(2 * ANSWER) };
        assert_eq!(long.encode().len(), ANSWER);
        assert_eq!(SpawnAnswer::decode(&[3, 0, 0, 0, 0]), None);
    }

    #[test]
    fn a_launcher_that_ends_at_once_is_an_error() {
        let file = std::fs::File::open("/proc/self/exe").expect("own program");
        let segment = std::os::fd::AsFd::as_fd(&file);
        let parent = ParentPort { rank: 0, tag: 0 };
        let start = |program: &str| {
            SpawnedLauncher::start(Path::new(program), &[], segment, parent).unwrap_err()
        };
        assert_eq!(start("/no/such/program").kind(), io::ErrorKind::NotFound);
        assert!(start("/bin/false").to_string().contains("exit status"));
    }
}

//! Rank 0's side: it waits until all ranks have come, and brings what they put to all of them.
//!
//! While it waits, connections that say nothing are bounded: of too many the oldest is dropped. A
//! rank that goes away before all have come may come again.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixListener};
use std::time::{Duration, Instant};

use mica_node::handover::{credentials, own_uid, wait_readable};

use super::proof::{INTRODUCTION, Introduction, RankChallenge, challenge, greeting};
use super::settings::{EnvSettings, RootPlaces};
use super::stream::{PeerConnection, RankFrame, StoredValue};
use crate::BootstrapError;

/// Callers that have not said who they are. A rank does so as soon as it has read the greeting.
const SILENT_MAX: usize = 64;
/// Connections accepted between two looks at the clock.
const ACCEPTS_PER_TURN: usize = 64;
/// How long the end of a job may take: a rank that does not read is left alone with it.
const FAREWELL: Duration = Duration::from_millis(500);

/// The connections of rank 0, in the order of ranks, from rank 1 on.
#[derive(Debug)]
pub(super) struct OtherRanks(Vec<PeerConnection>);

/// Where rank 0 waits.
enum RootListener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl RootListener {
    /// Listens at the first of the places that is free.
    fn bind(places: &RootPlaces) -> Result<RootListener, BootstrapError> {
        match places {
            RootPlaces::Names(names) => {
                let bind = |name: &String| {
                    let listener =
                        UnixListener::bind_addr(&UnixAddress::from_abstract_name(name)?)?;
                    listener.set_nonblocking(true)?;
                    Ok(RootListener::Unix(listener))
                };
                let shown = || format!("the abstract Unix socket {}", names.join(", "));
                first(names.iter().map(bind)).map_err(|error| cannot_listen(&shown(), &error))
            }
            RootPlaces::Ports { host, ports } => {
                let own = own_addresses(host);
                let bind = |address: SocketAddr| {
                    let listener = TcpListener::bind(address)?;
                    listener.set_nonblocking(true)?;
                    Ok(RootListener::Tcp(listener))
                };
                let all = ports.iter().flat_map(|&port| {
                    own.iter().map(move |&address| bind(SocketAddr::new(address, port)))
                });
                first(all).map_err(|error| cannot_listen(&format!("ports {ports:?}"), &error))
            }
        }
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            RootListener::Unix(listener) => listener.as_fd(),
            RootListener::Tcp(listener) => listener.as_fd(),
        }
    }

    /// Accepts a connection that is pending; `None` if there is none. One of another user of this
    /// node is closed.
    fn try_accept(&self) -> io::Result<Option<PeerConnection>> {
        let accepted = match self {
            RootListener::Unix(listener) => listener.accept().and_then(|(stream, _)| {
                match credentials(stream.as_fd())?.uid == own_uid() {
                    true => Ok(PeerConnection::new(stream)),
                    false => Err(ErrorKind::ConnectionAborted.into()),
                }
            }),
            RootListener::Tcp(listener) => listener.accept().and_then(|(stream, _)| {
                stream.set_nodelay(true)?;
                Ok(PeerConnection::new(stream))
            }),
        };
        match accepted {
            Ok(connection) => Ok(Some(connection)),
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::Interrupted => Ok(None),
                ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset => Ok(None),
                _ => Err(error),
            },
        }
    }
}

/// The first success, or the last error.
fn first<T>(tries: impl Iterator<Item = io::Result<T>>) -> io::Result<T> {
    let mut last = io::Error::from(ErrorKind::InvalidInput);
    for result in tries {
        match result {
            Ok(found) => return Ok(found),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn cannot_listen(place: &str, error: &io::Error) -> BootstrapError {
    let what = format!(
        "rank 0 cannot listen at {place}: {error}; MICA_JOIN_ADDRESS=HOST:PORT \
        names another place"
    );
    BootstrapError::NotMet { what }
}

/// What rank 0 listens at: the addresses that its host's name has, as far as they are this
/// machine's, so that no other network reaches it; else all of this machine's. A loopback address
/// of a name is none for others: Linux distributions give one to the machine's own name.
fn own_addresses(host: &str) -> Vec<IpAddr> {
    let is_name = host.parse::<IpAddr>().is_err();
    let named = (host, 0).to_socket_addrs().map(Iterator::collect::<Vec<_>>).unwrap_or_default();
    let named = named.into_iter().map(|address| address.ip());
    let named = named.filter(|address| !(is_name && address.is_loopback()));
    named.chain([Ipv6Addr::UNSPECIFIED.into(), Ipv4Addr::UNSPECIFIED.into()]).collect()
}

/// A connection that has not said who it is.
struct SilentCaller {
    connection: PeerConnection,
    challenge: RankChallenge,
}

/// Who has come so far.
struct Arrivals<'a> {
    settings: &'a EnvSettings,
    deadline: Instant,
    silent: VecDeque<SilentCaller>,
    joined: BTreeMap<u32, PeerConnection>,
    /// Whether processes came that did not prove to be of this job.
    had_strangers: bool,
}

impl OtherRanks {
    /// Waits until all ranks have come.
    ///
    /// # Errors
    /// When rank 0 cannot listen, or ranks do not come before the deadline.
    pub(super) fn gather(
        settings: &EnvSettings,
        deadline: Instant,
        timeout: Duration,
    ) -> Result<OtherRanks, BootstrapError> {
        let listener = RootListener::bind(&settings.places)?;
        let (silent, joined) = (VecDeque::new(), BTreeMap::new());
        let mut arrivals = Arrivals { settings, deadline, silent, joined, had_strangers: false };
        while arrivals.joined.len() as u32 + 1 < settings.size {
            if let Err(error) = arrivals.turn(&listener) {
                let what = match error.kind() {
                    ErrorKind::TimedOut => arrivals.missing(timeout),
                    _ => format!("rank 0 cannot let others in: {error}"),
                };
                return Err(OtherRanks(arrivals.joined.into_values().collect()).give_up(what));
            }
        }
        Ok(OtherRanks(arrivals.joined.into_values().collect()))
    }

    /// Waits until all ranks have called this; returns what all have put.
    ///
    /// # Errors
    /// When a rank has gone, or does not call this before the deadline.
    pub(super) fn fence(
        &mut self,
        own: Vec<StoredValue>,
        deadline: Instant,
    ) -> Result<Vec<StoredValue>, BootstrapError> {
        let mut all = own;
        let mut failed = None;
        for (member, rank) in self.0.iter_mut().zip(1..) {
            match member.receive_frame(deadline) {
                Ok(RankFrame::Values(values)) if values.iter().all(|v| v.rank == rank) => {
                    all.extend(values);
                    continue;
                }
                Ok(_) => failed = Some(format!("rank {rank} said what Mica never does")),
                Err(error) => failed = Some(lost(rank, &error)),
            }
            break;
        }
        let all = RankFrame::Values(all);
        if failed.is_none() {
            let bytes = all.encode();
            for (member, rank) in self.0.iter().zip(1..) {
                if let Err(error) = member.send(&bytes, deadline) {
                    failed = Some(lost(rank, &error));
                    break;
                }
            }
        }
        match (failed, all) {
            (None, RankFrame::Values(all)) => Ok(all),
            (what, _) => Err(self.give_up(what.unwrap_or_default())),
        }
    }

    /// Says to all that are there why the job has failed.
    fn give_up(&self, what: String) -> BootstrapError {
        let bytes = RankFrame::Failure(what.clone()).encode();
        let deadline = Instant::now() + FAREWELL;
        for member in &self.0 {
            // One that is gone does not need it.
            let _ = member.send(&bytes, deadline);
        }
        BootstrapError::NotMet { what }
    }
}

fn lost(rank: u32, error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::TimedOut => format!("rank {rank} does not answer"),
        ErrorKind::UnexpectedEof => format!("rank {rank} has ended"),
        _ => format!("rank {rank} was lost: {error}"),
    }
}

impl Arrivals<'_> {
    /// Waits for something to happen, and deals with it.
    fn turn(&mut self, listener: &RootListener) -> io::Result<()> {
        if Instant::now() >= self.deadline {
            return Err(ErrorKind::TimedOut.into());
        }
        let fds: Vec<_> = std::iter::once(listener.as_fd())
            .chain(self.silent.iter().map(|caller| caller.connection.as_fd()))
            .chain(self.joined.values().map(PeerConnection::as_fd))
            .collect();
        let ready = wait_readable(&fds, self.deadline)?;
        let (callers, joined) = ready[1..].split_at(self.silent.len());
        let mut is_readable = joined.iter();
        // What a joined rank says already waits for the fence; its end is noticed here.
        self.joined.retain(|_, connection| {
            !is_readable.next().is_some_and(|ready| *ready) || connection.fill().is_ok()
        });
        let callers: Vec<_> = self.silent.drain(..).zip(callers.to_vec()).collect();
        for (caller, is_readable) in callers {
            match is_readable {
                true => self.hear(caller)?,
                false => self.silent.push_back(caller),
            }
        }
        if ready[0] {
            self.accept(listener)?;
        }
        Ok(())
    }

    fn accept(&mut self, listener: &RootListener) -> io::Result<()> {
        for _ in 0..ACCEPTS_PER_TURN {
            let Some(connection) = listener.try_accept()? else {
                break;
            };
            let challenge = challenge()?;
            // A new connection takes these few bytes at once, or is broken.
            if connection.send(&greeting(&challenge), Instant::now()).is_ok() {
                self.silent.push_back(SilentCaller { connection, challenge });
            }
            if self.silent.len() > SILENT_MAX {
                self.silent.pop_front();
            }
        }
        Ok(())
    }

    /// Deals with what a caller has sent.
    fn hear(&mut self, mut caller: SilentCaller) -> io::Result<()> {
        if caller.connection.fill().is_err() {
            return Ok(());
        }
        let Some(bytes) = caller.connection.take(INTRODUCTION) else {
            self.silent.push_back(caller);
            return Ok(());
        };
        let SilentCaller { connection, challenge } = caller;
        let Some(member) = Introduction::decode(&bytes, self.settings, &challenge) else {
            self.had_strangers = true;
            return Ok(());
        };
        let Introduction { rank, size, .. } = member;
        let own_size = self.settings.size;
        let refusal = if size != own_size {
            Some(format!("rank {rank} has WORLD_SIZE={size}, rank 0 has {own_size}"))
        } else if rank == 0 || rank >= size || self.joined.contains_key(&rank) {
            Some(format!("two processes have RANK={rank}"))
        } else {
            None
        };
        let mut answer = member.welcome(self.settings, &challenge).to_vec();
        if let Some(text) = &refusal {
            answer.extend(RankFrame::Failure(text.clone()).encode());
        }
        let soon = Instant::now() + FAREWELL;
        if connection.send(&answer, soon.min(self.deadline)).is_ok() && refusal.is_none() {
            self.joined.insert(rank, connection);
        }
        Ok(())
    }

    /// Which ranks did not come.
    fn missing(&self, timeout: Duration) -> String {
        let missing = (1..self.settings.size).filter(|rank| !self.joined.contains_key(rank));
        let missing = mica_node::ranges::ranges(missing);
        let strangers = match self.had_strangers {
            true => "; who came instead is of another job, or has another MICA_COOKIE",
            false => "",
        };
        format!(
            "of {} ranks, {missing} did not come within {} s (MICA_JOIN_TIMEOUT){strangers}",
            self.settings.size,
            timeout.as_secs_f64()
        )
    }
}

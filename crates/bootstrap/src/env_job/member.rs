//! The side of a rank other than 0: it looks for rank 0 until it is there, and gives it what it
//! puts.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixStream};
use std::thread;
use std::time::{Duration, Instant};

use mica_node::handover::{credentials, own_uid};

use super::proof::{GREETING, Introduction, WELCOME, challenge, read_greeting};
use super::settings::{EnvSettings, RootPlaces};
use super::stream::{PeerConnection, RankFrame, StoredValue};
use crate::BootstrapError;

/// Between two searches for rank 0: before it listens, there is nothing to wait on.
const PAUSE: Duration = Duration::from_millis(20);
/// How long a host may take to accept a connection, and what listens there to greet. Rank 0 does
/// both at once, as long as it waits.
const ANSWER: Duration = Duration::from_secs(2);
/// How much longer than rank 0 this one waits: rank 0 can say which rank is missing.
const GRACE: Duration = Duration::from_secs(5);
/// The kind of the error that a rank 0 of another job is.
const OTHER_JOB: ErrorKind = ErrorKind::PermissionDenied;

/// Waits until rank 0 has let this rank in.
///
/// # Errors
/// When it is not found before the deadline.
pub(super) fn connect(
    settings: &EnvSettings,
    deadline: Instant,
    timeout: Duration,
) -> Result<PeerConnection, BootstrapError> {
    let mut told = io::Error::from(ErrorKind::ConnectionRefused);
    loop {
        let found = match &settings.places {
            RootPlaces::Names(names) => by_names(names, settings, deadline),
            RootPlaces::Ports { host, ports } => by_ports(host, ports, settings, deadline),
        };
        match found {
            Ok(connection) => return Ok(connection),
            // Rank 0 may have given up a moment ago: what it told before is the reason.
            Err(error) => told = more_telling(told, error),
        }
        if Instant::now() >= deadline {
            let place = match &settings.places {
                RootPlaces::Names(_) => "on this node".to_owned(),
                RootPlaces::Ports { host, ports } => format!("at {host}, ports {ports:?}"),
            };
            let what = format!(
                "rank {} of {} found no rank 0 of its job {place} within {} s \
                (MICA_JOIN_TIMEOUT): {told}",
                settings.rank,
                settings.size,
                timeout.as_secs_f64()
            );
            return Err(BootstrapError::NotMet { what });
        }
        thread::sleep(PAUSE.min(deadline.saturating_duration_since(Instant::now())));
    }
}

/// The error that says more about why rank 0 was not found; of two alike, the newer.
fn more_telling(old: io::Error, new: io::Error) -> io::Error {
    let tells = |error: &io::Error| match error.kind() {
        // Nothing listens.
        ErrorKind::ConnectionRefused => 0,
        OTHER_JOB => 2,
        _ => 1,
    };
    if tells(&new) >= tells(&old) { new } else { old }
}

/// Tries Unix sockets by their names. A name of another user is passed over.
fn by_names(
    names: &[String],
    settings: &EnvSettings,
    deadline: Instant,
) -> io::Result<PeerConnection> {
    let mut told = io::Error::from(ErrorKind::ConnectionRefused);
    for name in names {
        let stream = match UnixStream::connect_addr(&UnixAddress::from_abstract_name(name)?) {
            Ok(stream) => stream,
            // No process has this name.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => continue,
            Err(error) => return Err(error),
        };
        if credentials(stream.as_fd())?.uid != own_uid() {
            told = more_telling(told, io::Error::other("its socket belongs to another user"));
            continue;
        }
        match introduce(PeerConnection::new(stream), settings, deadline) {
            Ok(connection) => return Ok(connection),
            Err(error) => told = more_telling(told, error),
        }
    }
    Err(told)
}

/// Tries the ports of a host, at each of its addresses.
fn by_ports(
    host: &str,
    ports: &[u16],
    settings: &EnvSettings,
    deadline: Instant,
) -> io::Result<PeerConnection> {
    let mut told = None;
    let mut note = |error| {
        told = Some(match told.take() {
            Some(old) => more_telling(old, error),
            None => error,
        });
    };
    for address in (host, 0).to_socket_addrs()? {
        for &port in ports {
            let time = left(deadline, ANSWER);
            match TcpStream::connect_timeout(&SocketAddr::new(address.ip(), port), time) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    match introduce(PeerConnection::new(stream), settings, deadline) {
                        Ok(connection) => return Ok(connection),
                        Err(error) => note(error),
                    }
                }
                // Nothing listens at this port.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => note(error),
                // The host does not answer: not at other ports, either.
                Err(error) => {
                    note(error);
                    break;
                }
            }
        }
    }
    Err(told.unwrap_or_else(|| io::Error::other("the host's name has no address")))
}

/// What is left until the deadline, at most `most`; never zero.
fn left(deadline: Instant, most: Duration) -> Duration {
    let left = deadline.saturating_duration_since(Instant::now());
    left.clamp(Duration::from_millis(1), most)
}

/// Shows what listens that this is a rank of its job, if it greets as rank 0 does.
fn introduce(
    mut connection: PeerConnection,
    settings: &EnvSettings,
    deadline: Instant,
) -> io::Result<PeerConnection> {
    let other = || io::Error::other("what listens there is no rank 0 of Mica");
    let greeting = connection.receive(GREETING, Instant::now() + left(deadline, ANSWER));
    let of_root = greeting.ok().and_then(|bytes| read_greeting(&bytes)).ok_or_else(other)?;
    let (rank, size) = (settings.rank, settings.size);
    let me = Introduction { rank, size, challenge: challenge()? };
    connection.send(&me.encode(settings, &of_root), deadline)?;
    let welcome = connection.receive(WELCOME, deadline);
    let is_ours = welcome.is_ok_and(|bytes| bytes == me.welcome(settings, &of_root));
    is_ours.then_some(connection).ok_or_else(|| {
        io::Error::new(OTHER_JOB, "rank 0 there is of another job, or has another MICA_COOKIE")
    })
}

/// Gives rank 0 what this rank has put; returns what all have put, once all have called this.
///
/// # Errors
/// When rank 0 has given up or is gone, or does not answer before the deadline.
pub(super) fn fence(
    root: &mut PeerConnection,
    own: Vec<StoredValue>,
    deadline: Instant,
) -> Result<Vec<StoredValue>, BootstrapError> {
    let sent = root.send(&RankFrame::Values(own).encode(), deadline);
    // Rank 0 may have said why it has gone.
    let what = match root.receive_frame(deadline + GRACE) {
        Ok(RankFrame::Values(all)) => return Ok(all),
        Ok(RankFrame::Failure(text)) => text,
        Err(error) if error.kind() == ErrorKind::TimedOut => "rank 0 does not answer".to_owned(),
        Err(error) => format!("rank 0 was lost: {}", sent.err().unwrap_or(error)),
    };
    Err(BootstrapError::NotMet { what })
}

//! A socket that a launcher passes to a process by number, for a protocol of its own (`PMI_FD`).
//!
//! The number comes from the environment, so the descriptor is checked before this process adopts
//! it, and left untouched if it cannot be the launcher's.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::handover::{check, identity_of, option, own_uid, wait};

/// A socket that a launcher passed to this process by number, for a protocol of its own (`PMI_FD`).
#[derive(Debug)]
pub struct LauncherSocket {
    fd: OwnedFd,
}

impl LauncherSocket {
    /// Takes ownership of the inherited socket with this number; programs that this process starts
    /// do not inherit it. Any descriptor that cannot be it is left untouched: the program may have
    /// closed the socket and opened another file, and the number may come from the environment of
    /// another job. It is the socket if it has the [identity](crate::handover::identity) given;
    /// without one, if it is a connected stream whose other side is of this user or root's.
    ///
    /// # Errors
    /// When no descriptor, or another one than this socket, is open under the number.
    pub fn inherited(number: i32, identity: Option<&str>) -> io::Result<LauncherSocket> {
        let held = identity_of(number).map(|key| key.to_string());
        if identity.is_some_and(|wanted| held.as_deref() != Some(wanted)) {
            return Err(io::ErrorKind::NotFound.into());
        }
        // SAFETY: all-zero bytes are a valid stat.
        let mut stat: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: fstat writes to `stat` only, and fails for a descriptor that is not open.
        check(unsafe { libc::fstat(number, &mut stat) })?;
        if stat.st_mode & libc::S_IFMT != libc::S_IFSOCK {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "that descriptor is no socket",
            ));
        }
        if identity.is_none() {
            check_launcher(number, own_uid())?;
        }
        // SAFETY: plain system call on an open descriptor.
        check(unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) })?;
        // SAFETY: it is open, and by the launcher's convention no other code in this process uses
        // it.
        let fd = unsafe { OwnedFd::from_raw_fd(number) };
        Ok(LauncherSocket { fd })
    }

    /// Sends all bytes. Blocks while the peer does not read them.
    ///
    /// # Errors
    /// The kernel's error, in particular when the peer has closed (never SIGPIPE).
    pub fn send(&self, bytes: &[u8]) -> io::Result<()> {
        self.send_with(0, bytes, None)
    }

    /// [`send`](Self::send) with a deadline.
    ///
    /// # Errors
    /// `TimedOut` at the deadline; otherwise the kernel's error.
    pub fn send_until(&self, bytes: &[u8], deadline: Instant) -> io::Result<()> {
        self.send_with(libc::MSG_DONTWAIT, bytes, Some(deadline))
    }

    fn send_with(&self, flags: i32, mut bytes: &[u8], deadline: Option<Instant>) -> io::Result<()> {
        while !bytes.is_empty() {
            // SAFETY: `bytes` is valid for reads of its length.
            let sent = unsafe {
                libc::send(
                    self.fd.as_raw_fd(),
                    bytes.as_ptr().cast(),
                    bytes.len(),
                    flags | libc::MSG_NOSIGNAL,
                )
            };
            if sent >= 0 {
                bytes = &bytes[sent as usize..];
                continue;
            }
            self.after_error(libc::POLLOUT, deadline)?;
        }
        Ok(())
    }

    /// Receives at least one byte; blocks until there is one. Returns 0 when the peer has closed.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn receive(&self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            let (start, length) = (bytes.as_mut_ptr().cast(), bytes.len());
            // SAFETY: `bytes` is valid for writes of its length.
            let got = unsafe { libc::recv(self.fd.as_raw_fd(), start, length, 0) };
            if got >= 0 {
                return Ok(got as usize);
            }
            self.after_error(libc::POLLIN, None)?;
        }
    }

    /// The descriptor, for waiting for bytes ([`wait_readable`](crate::handover::wait_readable)).
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// After a failed call: waits for `events`, until the deadline if there is one, if the call
    /// would have blocked.
    fn after_error(&self, events: i16, deadline: Option<Instant>) -> io::Result<()> {
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => Ok(()),
            Some(libc::EAGAIN) => {
                let until = deadline.unwrap_or_else(|| Instant::now() + Duration::from_secs(3600));
                match wait(self.fd.as_fd(), events, until) {
                    Err(e) if e.kind() == io::ErrorKind::TimedOut && deadline.is_none() => Ok(()),
                    waited => waited,
                }
            }
            _ => Err(error),
        }
    }
}

impl From<OwnedFd> for LauncherSocket {
    fn from(fd: OwnedFd) -> LauncherSocket {
        LauncherSocket { fd }
    }
}

/// The user that the kernel names for one that a user namespace does not have
/// (/proc/sys/kernel/overflowuid, by its default).
const OVERFLOW_UID: u32 = 65534;

/// Whether the socket with this number can be a launcher's, to a process of user `uid`.
fn check_launcher(number: i32, uid: u32) -> io::Result<()> {
    let invalid = |why| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    // SAFETY: the caller has the descriptor open; it is not closed here.
    let socket = unsafe { BorrowedFd::borrow_raw(number) };
    if option::<i32>(socket, libc::SO_TYPE)? != libc::SOCK_STREAM {
        return invalid("that socket is no stream");
    }
    // SAFETY: all-zero bytes are a valid address.
    let mut peer: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let mut length = size_of_val(&peer) as libc::socklen_t;
    // SAFETY: `peer` is valid for writes of `length` bytes.
    if unsafe { libc::getpeername(number, (&raw mut peer).cast(), &mut length) } < 0 {
        return invalid("that socket is not connected");
    }
    // The kernel knows who made a Unix socket. Launchers that run as root serve all users; in a
    // user namespace without root they, and all others that it lacks, are the overflow user.
    if i32::from(peer.ss_family) == libc::AF_UNIX {
        let peer = option::<libc::ucred>(socket, libc::SO_PEERCRED)?.uid;
        if ![uid, 0, OVERFLOW_UID].contains(&peer) {
            return invalid("that socket belongs to another user");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handover::identity;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_wire_carries_bytes_and_reports_its_end() {
        let (one, mut other) = UnixStream::pair().expect("a pair");
        // A nonblocking socket still waits.
        one.set_nonblocking(true).expect("an option");
        let wire = LauncherSocket::from(OwnedFd::from(one));
        let echo = std::thread::spawn(move || {
            let mut bytes = [0; 5];
            other.read_exact(&mut bytes).expect("five bytes");
            other.write_all(&bytes).expect("sent");
        });
        wire.send(b"hello").expect("sent");
        let mut bytes = [0; 16];
        assert_eq!(wire.receive(&mut bytes).expect("received"), 5);
        assert_eq!(wire.receive(&mut bytes).expect("the end"), 0);
        echo.join().expect("the other side");
        let error = wire.send(b"x").expect_err("no listener");
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_peer_that_reads_nothing_is_given_up_at_the_deadline() {
        let (one, _other) = UnixStream::pair().expect("a pair");
        let wire = LauncherSocket::from(OwnedFd::from(one));
        let soon = Instant::now() + Duration::from_millis(50);
        let error = wire.send_until(&[0; 1 << 22], soon).expect_err("no reader");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn what_is_no_wire() {
        assert!(LauncherSocket::inherited(-1, None).is_err());
        assert!(LauncherSocket::inherited(1 << 20, None).is_err());
        let file = std::fs::File::open("/proc/self/exe").expect("own program");
        let error = LauncherSocket::inherited(file.as_raw_fd(), None).expect_err("a file");
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        // Another socket than the one that was passed: it stays open.
        let (one, mut other) = UnixStream::pair().expect("a pair");
        let wanted = identity(other.as_fd()).map(|key| key.to_string());
        assert!(wanted.is_some() && identity(other.as_fd()) != identity(one.as_fd()));
        let error =
            LauncherSocket::inherited(one.as_raw_fd(), wanted.as_deref()).expect_err("another");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        (&one).write_all(b"x").expect("still open");
        other.read_exact(&mut [0]).expect("sent");
    }

    #[test]
    fn sockets_that_cannot_be_a_launchers_are_left_open() {
        use std::net::{TcpListener, UdpSocket};
        let refused = |fd: &dyn AsRawFd| {
            let number = fd.as_raw_fd();
            let error = LauncherSocket::inherited(number, None).expect_err("no launcher's");
            assert!(identity_of(number).is_some(), "it stays open");
            error.to_string()
        };
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        assert!(refused(&listener).contains("not connected"));
        let datagrams = UdpSocket::bind("127.0.0.1:0").expect("a port");
        assert!(refused(&datagrams).contains("no stream"));
        // To another user, this test's sockets are a stranger's, unless it runs as root.
        let (one, _other) = UnixStream::pair().expect("a pair");
        let number = one.as_raw_fd();
        check_launcher(number, own_uid()).expect("of this user");
        assert_eq!(check_launcher(number, 77_777).is_ok(), own_uid() == 0);
    }
}

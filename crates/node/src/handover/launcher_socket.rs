//! The socket by which a launcher's own protocol is spoken.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use super::identity::identity_of;
use super::wait::{check, wait};

/// A socket that a launcher passed to this process by number, for a protocol of its own (`PMI_FD`).
#[derive(Debug)]
pub struct LauncherSocket {
    fd: OwnedFd,
}

impl LauncherSocket {
    /// Takes ownership of the inherited socket with this number; programs that this process starts
    /// do not inherit it. If an [`identity`](super::identity()) is given, any other descriptor under the number is
    /// left untouched: the program may have closed the socket and opened another file.
    ///
    /// # Errors
    /// When no descriptor, or another one than this socket, is open under the number.
    pub fn inherited(number: i32, identity: Option<&str>) -> io::Result<LauncherSocket> {
        if identity.is_some_and(|wanted| identity_of(number).as_deref() != Some(wanted)) {
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
    pub fn send(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            // SAFETY: `bytes` is valid for reads of its length.
            let sent = unsafe {
                libc::send(
                    self.fd.as_raw_fd(),
                    bytes.as_ptr().cast(),
                    bytes.len(),
                    libc::MSG_NOSIGNAL,
                )
            };
            if sent >= 0 {
                bytes = &bytes[sent as usize..];
                continue;
            }
            self.after_error(libc::POLLOUT)?;
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
            self.after_error(libc::POLLIN)?;
        }
    }

    /// After a failed call: waits for `events` if the socket is nonblocking and the call would
    /// block.
    fn after_error(&self, events: i16) -> io::Result<()> {
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => Ok(()),
            Some(libc::EAGAIN) => {
                let long = Instant::now() + Duration::from_secs(3600);
                match wait(self.fd.as_fd(), events, long) {
                    Err(e) if e.kind() == io::ErrorKind::TimedOut => Ok(()),
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

#[cfg(test)]
mod tests {
    use super::super::identity;
    use super::*;
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
    fn what_is_no_wire() {
        assert!(LauncherSocket::inherited(-1, None).is_err());
        assert!(LauncherSocket::inherited(1 << 20, None).is_err());
        let file = std::fs::File::open("/proc/self/exe").expect("own program");
        let error = LauncherSocket::inherited(file.as_raw_fd(), None).expect_err("a file");
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        // Another socket than the one that was passed: it stays open.
        let (one, mut other) = UnixStream::pair().expect("a pair");
        let wanted = identity(other.as_fd());
        assert!(wanted.is_some() && wanted != identity(one.as_fd()));
        let error =
            LauncherSocket::inherited(one.as_raw_fd(), wanted.as_deref()).expect_err("another");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        (&one).write_all(b"x").expect("still open");
        other.read_exact(&mut [0]).expect("sent");
    }
}

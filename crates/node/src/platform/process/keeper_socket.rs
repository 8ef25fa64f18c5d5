//! The connection from the launcher and its ranks to the keeper, and from the keeper to the guard:
//! messages of one number each.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use super::check;

/// Message that ends the keeper, or the guard, without further action.
pub(super) const FAREWELL: i32 = 0;

/// Sends a message. Async-signal-safe.
pub(super) fn send_message(socket: i32, message: i32) -> io::Result<()> {
    let message = message.to_ne_bytes();
    loop {
        let (start, length) = (message.as_ptr().cast(), message.len());
        // SAFETY: the kernel reads the four bytes of `message`.
        let sent = unsafe { libc::send(socket, start, length, libc::MSG_NOSIGNAL) };
        match check(sent as i32) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// Two connected sockets that keep message boundaries (close-on-exec).
pub(super) fn socket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: `fds` has room for two descriptors.
    check(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, fds.as_mut_ptr()) })?;
    // SAFETY: socketpair returned two new descriptors that have no other owner.
    Ok(unsafe { (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])) })
}

/// Receives the next message; `None` when the launcher is gone.
pub(super) fn hear(socket: i32) -> Option<i32> {
    let mut message = [0; 4];
    loop {
        let (start, length) = (message.as_mut_ptr().cast(), message.len());
        // SAFETY: `message` is valid for writes of its length.
        let got = unsafe { libc::recv(socket, start, length, 0) };
        if got == length as isize {
            return Some(i32::from_ne_bytes(message));
        }
        let interrupted =
            got < 0 && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted;
        if !interrupted {
            return None;
        }
    }
}

//! The datagram socket behind a [`WakeSocket`](super::WakeSocket), in the abstract namespace of
//! Unix sockets, with a name that the kernel chooses. It is in no file system, needs no descriptor
//! handed to peers, and disappears with its process. Any process that knows the number may send a
//! wake-up; a spurious one costs the receiver one poll.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::OnceLock;

use super::events::WakeEvents;

/// The datagram socket of one [`WakeSocket`](super::WakeSocket).
#[derive(Debug)]
pub struct DatagramSocket {
    descriptor: OwnedFd,
    number: u32,
}

/// Length of the names that the kernel chooses: five hexadecimal digits.
const DIGITS: usize = 5;

/// Wake-ups that [`DatagramSocket::clear`] discards at most.
const CLEARED_MAX: usize = 8;

/// The address of socket `number`, and its length.
fn address(number: u32) -> (libc::sockaddr_un, libc::socklen_t) {
    let mut address = libc::sockaddr_un {
        sun_family: libc::AF_UNIX as libc::sa_family_t,
        sun_path: [0; 108],
    };
    let name = format!("{number:05x}");
    for (to, from) in address.sun_path[1..].iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    (address, length(1 + DIGITS))
}

fn length(path: usize) -> libc::socklen_t {
    (size_of::<libc::sa_family_t>() + path) as libc::socklen_t
}

fn socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: plain system call.
    let fd = unsafe { libc::socket(libc::AF_UNIX, kind, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call returned a new descriptor that has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

impl DatagramSocket {
    /// Makes a socket.
    ///
    /// # Errors
    /// When the system refuses a socket, or a name of this kind for it.
    pub fn new() -> io::Result<DatagramSocket> {
        let socket = socket()?;
        let (mut name, _) = address(0);
        // SAFETY: the address is valid for the length given; passing only the family lets the
        // kernel choose a name.
        let bound = unsafe { libc::bind(socket.as_raw_fd(), (&raw const name).cast(), length(0)) };
        let mut len = size_of::<libc::sockaddr_un>() as libc::socklen_t;
        if bound < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: both pointers are to locals of the sizes given.
        let named =
            unsafe { libc::getsockname(socket.as_raw_fd(), (&raw mut name).cast(), &raw mut len) };
        if named < 0 {
            return Err(io::Error::last_os_error());
        }
        let digits: String = name.sun_path[1..=DIGITS]
            .iter()
            .map(|&c| char::from(c as u8))
            .collect();
        let number = u32::from_str_radix(&digits, 16)
            .ok()
            .filter(|_| len == length(1 + DIGITS))
            .ok_or_else(|| io::Error::other("the kernel chose a name of an unknown kind"))?;
        Ok(DatagramSocket {
            descriptor: socket,
            number,
        })
    }

    /// The number by which other processes wake it.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Discards wake-ups, [`CLEARED_MAX`] at most: any process may send them, and one that never
    /// stops must not hold the rank here. Each that is left ends one wait early.
    pub fn clear(&self) {
        for _ in 0..CLEARED_MAX {
            let mut byte = 0u8;
            // SAFETY: writes at most the one byte; the socket does not block.
            let received =
                unsafe { libc::recv(self.descriptor.as_raw_fd(), (&raw mut byte).cast(), 1, 0) };
            if received < 0 {
                return;
            }
        }
    }

    /// Waits for a wake-up or for one of `events`.
    pub fn await_events(&self, events: WakeEvents) {
        let wanted = |fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        // poll ignores a negative descriptor.
        let mut fds = [
            wanted(self.descriptor.as_raw_fd()),
            wanted(events.descriptor.unwrap_or(-1)),
        ];
        let limit = events.limit.map(|limit| libc::timespec {
            tv_sec: limit.as_secs() as libc::time_t,
            tv_nsec: limit.subsec_nanos().into(),
        });
        let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: the array and the limit outlive the call; no signal mask is given.
        unsafe { libc::ppoll(fds.as_mut_ptr(), 2, limit, std::ptr::null()) };
    }
}

/// Sends a wake-up to socket `number`. Ignores a socket that has a pending wake-up or no longer
/// exists.
pub fn wake(number: u32) {
    static SEND_SOCKET: OnceLock<Option<OwnedFd>> = OnceLock::new();
    let Some(sender) = SEND_SOCKET.get_or_init(|| socket().ok()) else {
        return;
    };
    let (address, len) = address(number);
    // SAFETY: the byte and the address are valid for the lengths given; the socket does not block.
    unsafe {
        libc::sendto(
            sender.as_raw_fd(),
            b"!".as_ptr().cast(),
            1,
            libc::MSG_NOSIGNAL,
            (&raw const address).cast(),
            len,
        )
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a wake-up waits to be received.
    fn has_wake_up(socket: &DatagramSocket) -> bool {
        let mut byte = 0u8;
        let (fd, flags) = (socket.descriptor.as_raw_fd(), libc::MSG_PEEK);
        // SAFETY: writes at most the one byte; the socket does not block.
        unsafe { libc::recv(fd, (&raw mut byte).cast(), 1, flags) >= 0 }
    }

    #[test]
    fn a_flood_of_wake_ups_does_not_hold_the_rank() {
        let socket = DatagramSocket::new().expect("socket");
        // One more than is discarded at a time; the kernel queues 10 at least, by its default.
        for _ in 0..=CLEARED_MAX {
            wake(socket.number());
        }
        socket.clear();
        assert!(
            has_wake_up(&socket),
            "clear() discarded more than its bound"
        );
        socket.clear();
        assert!(
            !has_wake_up(&socket),
            "a wake-up that is left is discarded next"
        );
    }
}

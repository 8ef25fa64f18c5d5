//! The datagram socket behind a [`WakeSocket`](super::WakeSocket), in the abstract namespace of
//! Unix sockets, with a name that the kernel chooses. It is in no file system, needs no descriptor
//! handed to peers, and disappears with its process.
//!
//! Any process may send to it: the names are few, and everyone may list them. A wake-up therefore
//! carries a nonce that only the ranks of the node read, in the job segment, and a filter of the
//! socket (SO_ATTACH_FILTER) discards every other datagram when it is sent, before it is queued.
//! Where the kernel refuses the filter, a spurious wake-up costs the receiver one poll.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::OnceLock;

use super::events::WakeEvents;
use super::wake_address::WakeAddress;

/// The datagram socket of one [`WakeSocket`](super::WakeSocket).
#[derive(Debug)]
pub struct DatagramSocket {
    descriptor: OwnedFd,
    address: WakeAddress,
}

/// Length of the names that the kernel chooses: five hexadecimal digits.
const DIGITS: usize = 5;

/// Wake-ups that [`DatagramSocket::clear`] discards at most.
const CLEARED_MAX: usize = 8;

/// The address of socket `number`, and its length.
fn address(number: u32) -> (libc::sockaddr_un, libc::socklen_t) {
    let mut address =
        libc::sockaddr_un { sun_family: libc::AF_UNIX as libc::sa_family_t, sun_path: [0; 108] };
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
        let digits: String =
            name.sun_path[1..=DIGITS].iter().map(|&c| char::from(c as u8)).collect();
        let number = u32::from_str_radix(&digits, 16)
            .ok()
            .filter(|_| len == length(1 + DIGITS))
            .ok_or_else(|| io::Error::other("the kernel chose a name of an unknown kind"))?;
        let nonce = random()?;
        set_filter(&socket, nonce);
        Ok(DatagramSocket { descriptor: socket, address: WakeAddress { number, nonce } })
    }

    /// What other processes need to wake it.
    pub fn address(&self) -> WakeAddress {
        self.address
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
        let wanted = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // poll ignores a negative descriptor.
        let mut fds =
            [wanted(self.descriptor.as_raw_fd()), wanted(events.descriptor.unwrap_or(-1))];
        let limit = events.limit.map(|limit| libc::timespec {
            tv_sec: limit.as_secs() as libc::time_t,
            tv_nsec: limit.subsec_nanos().into(),
        });
        let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: the array and the limit outlive the call; no signal mask is given.
        unsafe { libc::ppoll(fds.as_mut_ptr(), 2, limit, std::ptr::null()) };
    }
}

/// Eight random bytes.
fn random() -> io::Result<u64> {
    let bytes = crate::handover::nonce()?;
    Ok(u64::from_ne_bytes(bytes[..8].try_into().expect("of 16 bytes")))
}

/// Lets the socket accept datagrams that begin with `nonce` only; best effort.
fn set_filter(socket: &OwnedFd, nonce: u64) {
    let instruction = |code: u32, k: u32, skip_if_other: u8| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: skip_if_other,
        k,
    };
    let (load, equal) =
        (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K);
    // A load is of four bytes in network order, and of a datagram that is too short it rejects it.
    let mut program = [
        instruction(load, 0, 0),
        instruction(equal, (nonce >> 32) as u32, 3),
        instruction(load, 4, 0),
        instruction(equal, nonce as u32, 1),
        instruction(libc::BPF_RET | libc::BPF_K, u32::MAX, 0),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the kernel copies the program that `filter` names, of the length given.
    unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const filter).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
}

/// Sends a wake-up to the socket at `to`. Ignores a socket that has a pending wake-up or no longer
/// exists.
pub fn wake(to: WakeAddress) {
    static SEND_SOCKET: OnceLock<Option<OwnedFd>> = OnceLock::new();
    let Some(sender) = SEND_SOCKET.get_or_init(|| socket().ok()) else {
        return;
    };
    let (address, len) = address(to.number);
    let bytes = to.nonce.to_be_bytes();
    // SAFETY: bytes and address are valid for the lengths given; the socket does not block.
    unsafe {
        libc::sendto(
            sender.as_raw_fd(),
            bytes.as_ptr().cast(),
            bytes.len(),
            libc::MSG_NOSIGNAL,
            (&raw const address).cast(),
            len,
        )
    };
}

#[cfg(all(test, not(loom)))]
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
            wake(socket.address());
        }
        socket.clear();
        assert!(has_wake_up(&socket), "clear() discarded more than its bound");
        socket.clear();
        assert!(!has_wake_up(&socket), "a wake-up that is left is discarded next");
    }

    #[test]
    fn a_stranger_without_the_nonce_wakes_no_rank() {
        let socket = DatagramSocket::new().expect("socket");
        let WakeAddress { number, nonce } = socket.address();
        // As many as would fill the queue, with either half of the nonce wrong.
        for wrong in [nonce ^ 1, nonce ^ 1 << 63, 0].repeat(400) {
            wake(WakeAddress { number, nonce: wrong });
        }
        assert!(!has_wake_up(&socket));
        wake(socket.address());
        assert!(has_wake_up(&socket));
    }
}

//! Connections between processes of one node, over which messages and descriptors go.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use super::option::option;
use super::wait::{check, wait};

/// Maximum of descriptors in one message.
const DESCRIPTORS: usize = 4;

/// The credentials of the peer of a socket, as the kernel recorded them when they connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credentials {
    /// Process id, in our PID namespace; 0 if it is not visible there.
    pub pid: u32,
    /// Effective user.
    pub uid: u32,
    /// Effective group.
    pub gid: u32,
}

/// A socket that waits for connections under an abstract name.
#[derive(Debug)]
pub struct HandoverListener {
    fd: OwnedFd,
}

/// A connection between two processes of one node.
#[derive(Debug)]
pub struct HandoverConnection {
    fd: OwnedFd,
}

impl HandoverListener {
    /// Binds the abstract name `name` (1 to 107 bytes) and listens for any number of connections.
    ///
    /// # Errors
    /// `AddrInUse` when another process has the name; otherwise the kernel's error.
    pub fn bind(name: &[u8]) -> io::Result<HandoverListener> {
        let (address, length) = abstract_address(name)?;
        let fd = socket()?;
        // SAFETY: `address` is a valid socket address of `length` bytes.
        let bound = unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length) };
        check(bound)?;
        // SAFETY: plain system call on our descriptor.
        check(unsafe { libc::listen(fd.as_raw_fd(), 4096) })?;
        Ok(HandoverListener { fd })
    }

    /// Accepts a connection that is pending; `None` if there is none.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn try_accept(&self) -> io::Result<Option<HandoverConnection>> {
        // SAFETY: no address is requested, so both pointers may be null.
        let fd = unsafe {
            libc::accept4(
                self.fd.as_raw_fd(),
                std::ptr::null_mut(),
                std::ptr::null_mut(),
                libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK,
            )
        };
        if fd >= 0 {
            // SAFETY: accept4 returned a new descriptor that has no other owner.
            let fd = unsafe { OwnedFd::from_raw_fd(fd) };
            return Ok(Some(HandoverConnection { fd }));
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EINTR | libc::ECONNABORTED) => Ok(None),
            _ => Err(error),
        }
    }

    /// The descriptor, for waiting for connections ([`wait_readable`](super::wait_readable)).
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl HandoverConnection {
    /// Connects to the process that listens under `name`.
    ///
    /// # Errors
    /// `ConnectionRefused` if there is none, `TimedOut` at the deadline.
    pub fn connect(name: &[u8], deadline: Instant) -> io::Result<HandoverConnection> {
        let (address, length) = abstract_address(name)?;
        let fd = socket()?;
        loop {
            // SAFETY: `address` is a valid socket address of `length` bytes.
            let done =
                unsafe { libc::connect(fd.as_raw_fd(), (&raw const address).cast(), length) };
            let Err(error) = check(done) else {
                return Ok(HandoverConnection { fd });
            };
            match error.raw_os_error() {
                Some(libc::EINTR) => {}
                // The listener's queue is full, and the kernel does not notify when it no longer
                // is.
                Some(libc::EAGAIN) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Some(libc::EAGAIN) => return Err(io::ErrorKind::TimedOut.into()),
                _ => return Err(error),
            }
        }
    }

    /// The credentials of the peer.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn peer(&self) -> io::Result<Credentials> {
        credentials(self.as_fd())
    }

    /// Sends one message, with a descriptor if there is one.
    ///
    /// # Errors
    /// `TimedOut` at the deadline; otherwise the kernel's error, in particular when the peer has
    /// closed (never SIGPIPE).
    pub fn send(
        &self,
        bytes: &[u8],
        descriptor: Option<BorrowedFd<'_>>,
        deadline: Instant,
    ) -> io::Result<()> {
        let mut part =
            libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        let mut control = ControlBuffer::default();
        // SAFETY: all-zero bytes are a valid msghdr.
        let mut head: libc::msghdr = unsafe { std::mem::zeroed() };
        head.msg_iov = &mut part;
        head.msg_iovlen = 1;
        if let Some(descriptor) = descriptor {
            head.msg_control = control.0.as_mut_ptr().cast();
            // SAFETY: pure computations.
            let (space, length) = unsafe {
                (libc::CMSG_SPACE(size_of::<i32>() as u32), libc::CMSG_LEN(size_of::<i32>() as u32))
            };
            head.msg_controllen = space as usize;
            // SAFETY: `control` is zeroed, aligned for a cmsghdr and larger than the `space` bytes
            // that `head` names, so that CMSG_FIRSTHDR points into it with room for the header and
            // one descriptor.
            unsafe {
                let first = libc::CMSG_FIRSTHDR(&head);
                (*first).cmsg_level = libc::SOL_SOCKET;
                (*first).cmsg_type = libc::SCM_RIGHTS;
                (*first).cmsg_len = length as usize;
                let data = libc::CMSG_DATA(first).cast::<i32>();
                data.write_unaligned(descriptor.as_raw_fd());
            }
        }
        loop {
            // SAFETY: `head` names `bytes` and `control`, both alive; the kernel only reads them.
            let sent = unsafe { libc::sendmsg(self.fd.as_raw_fd(), &head, libc::MSG_NOSIGNAL) };
            if sent >= 0 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EINTR) => {}
                Some(libc::EAGAIN) => wait(self.fd.as_fd(), libc::POLLOUT, deadline)?,
                _ => return Err(error),
            }
        }
    }

    /// Receives one message and the descriptor that came with it (close-on-exec here). An empty
    /// message means that the peer has closed.
    ///
    /// # Errors
    /// `TimedOut` at the deadline; `InvalidData` for a message longer than `max` bytes or with
    /// several descriptors (these are closed again).
    pub fn receive(&self, max: usize, deadline: Instant) -> io::Result<(Vec<u8>, Option<OwnedFd>)> {
        loop {
            match self.try_receive(max)? {
                Some(message) => return Ok(message),
                None => wait(self.fd.as_fd(), libc::POLLIN, deadline)?,
            }
        }
    }

    /// [`receive`](Self::receive) without waiting; `None` if there is no message.
    ///
    /// # Errors
    /// As [`HandoverConnection::receive`].
    pub fn try_receive(&self, max: usize) -> io::Result<Option<(Vec<u8>, Option<OwnedFd>)>> {
        let mut bytes = vec![0u8; max];
        let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        let mut control = ControlBuffer::default();
        // SAFETY: all-zero bytes are a valid msghdr.
        let mut head: libc::msghdr = unsafe { std::mem::zeroed() };
        head.msg_iov = &mut part;
        head.msg_iovlen = 1;
        head.msg_control = control.0.as_mut_ptr().cast();
        head.msg_controllen = size_of_val(&control.0);
        let flags = libc::MSG_CMSG_CLOEXEC | libc::MSG_DONTWAIT;
        // SAFETY: `head` names `bytes` and `control`, both alive and writable with the lengths
        // given.
        let got = unsafe { libc::recvmsg(self.fd.as_raw_fd(), &mut head, flags) };
        if got < 0 {
            let error = io::Error::last_os_error();
            return match error.raw_os_error() {
                Some(libc::EAGAIN | libc::EINTR) => Ok(None),
                _ => Err(error),
            };
        }
        let mut descriptors = Vec::new();
        // SAFETY: the kernel filled `control` up to `msg_controllen` with well-formed headers,
        // which the macros walk; each descriptor in them is new and has no other owner.
        unsafe {
            let mut at = libc::CMSG_FIRSTHDR(&head);
            while !at.is_null() {
                if (*at).cmsg_level == libc::SOL_SOCKET && (*at).cmsg_type == libc::SCM_RIGHTS {
                    let length = (*at).cmsg_len - libc::CMSG_LEN(0) as usize;
                    let data = libc::CMSG_DATA(at).cast::<i32>();
                    for i in 0..length / size_of::<i32>() {
                        let fd = data.add(i).read_unaligned();
                        descriptors.push(OwnedFd::from_raw_fd(fd));
                    }
                }
                at = libc::CMSG_NXTHDR(&head, at);
            }
        }
        if head.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0 || descriptors.len() > 1 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "a longer message, or more descriptors, than was agreed on",
            ));
        }
        bytes.truncate(got as usize);
        Ok(Some((bytes, descriptors.pop())))
    }

    /// The descriptor, for waiting for messages ([`wait_readable`](super::wait_readable)).
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The credentials of the peer of a connected Unix socket.
///
/// # Errors
/// The kernel's error.
pub fn credentials(socket: BorrowedFd<'_>) -> io::Result<Credentials> {
    let found: libc::ucred = option(socket, libc::SO_PEERCRED)?;
    Ok(Credentials { pid: found.pid as u32, uid: found.uid, gid: found.gid })
}

/// Space for control messages, aligned for their headers.
#[derive(Default)]
struct ControlBuffer([u64; 8]);

const _: () = assert!(size_of::<ControlBuffer>() >= size_of::<libc::cmsghdr>() + DESCRIPTORS * 4);
const _: () = assert!(align_of::<ControlBuffer>() >= align_of::<libc::cmsghdr>());

fn socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: plain system call.
    let fd = unsafe { libc::socket(libc::AF_UNIX, kind, 0) };
    check(fd)?;
    // SAFETY: socket returned a new descriptor that has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn abstract_address(name: &[u8]) -> io::Result<(libc::sockaddr_un, libc::socklen_t)> {
    // SAFETY: all-zero bytes are a valid sockaddr_un.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    if name.is_empty() || name.len() >= address.sun_path.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    // After a first byte of zero, which makes the name abstract.
    for (to, from) in address.sun_path[1..].iter_mut().zip(name) {
        *to = *from as libc::c_char;
    }
    let length = std::mem::offset_of!(libc::sockaddr_un, sun_path) + 1 + name.len();
    Ok((address, length as libc::socklen_t))
}

#[cfg(test)]
mod tests {
    use super::super::{nonce, own_uid};
    use super::*;
    use std::io::{Read, Seek};

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(30)
    }

    fn pair() -> (HandoverConnection, HandoverConnection) {
        let name = nonce().expect("random bytes");
        let listener = HandoverListener::bind(&name).expect("a fresh name");
        let one = HandoverConnection::connect(&name, soon()).expect("it listens");
        let other = listener.try_accept().expect("accept").expect("queued");
        (one, other)
    }

    #[test]
    fn a_descriptor_comes_over_with_its_bytes() {
        let (one, other) = pair();
        let mut file = std::fs::File::open("/proc/self/exe").expect("own program");
        one.send(b"here", Some(file.as_fd()), soon()).expect("sent");
        one.send(b"bare", None, soon()).expect("sent");
        let (bytes, descriptor) = other.receive(16, soon()).expect("received");
        assert_eq!(bytes, b"here");
        let mut copy = std::fs::File::from(descriptor.expect("a descriptor"));
        let (mut a, mut b) = ([0; 4], [0; 4]);
        copy.read_exact(&mut a).expect("it is readable");
        file.rewind().expect("the same open file");
        file.read_exact(&mut b).expect("readable");
        assert_eq!(a, b);
        assert_eq!(a, *b"\x7fELF");
        let (bytes, descriptor) = other.receive(16, soon()).expect("received");
        assert_eq!((bytes.as_slice(), descriptor.is_some()), (&b"bare"[..], false));
    }

    #[test]
    fn both_sides_know_who_the_other_is() {
        let (one, other) = pair();
        let me = Credentials {
            pid: std::process::id(),
            uid: own_uid(),
            gid: one.peer().expect("credentials").gid,
        };
        assert_eq!(one.peer().expect("credentials"), me);
        assert_eq!(other.peer().expect("credentials"), me);
    }

    #[test]
    fn the_end_of_the_other_side_is_no_hang() {
        let (one, other) = pair();
        drop(other);
        let (bytes, descriptor) = one.receive(16, soon()).expect("the end");
        assert!(bytes.is_empty() && descriptor.is_none());
        let error = one.send(b"x", None, soon()).expect_err("closed");
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_deadline_ends_the_wait() {
        let (one, _other) = pair();
        let start = Instant::now();
        let deadline = start + Duration::from_millis(30);
        let error = one.receive(16, deadline).expect_err("nothing comes");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(start.elapsed() >= Duration::from_millis(30));
    }

    #[test]
    fn names_are_taken_once_and_freed() {
        let name = nonce().expect("random bytes");
        let first = HandoverListener::bind(&name).expect("a fresh name");
        let error = HandoverListener::bind(&name).expect_err("taken");
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        drop(first);
        let error = HandoverConnection::connect(&name, soon()).expect_err("no listener");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        HandoverListener::bind(&name).expect("free again");
        for bad in [&b""[..], &[b'x'; 200]] {
            assert!(HandoverListener::bind(bad).is_err());
        }
    }

    #[test]
    fn too_long_is_refused() {
        let (one, other) = pair();
        one.send(b"12345678", None, soon()).expect("sent");
        let error = other.receive(4, soon()).expect_err("longer than agreed");
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}

//! Options of sockets.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::wait::check;

/// An option of a socket.
pub(crate) fn option<T: SocketOption>(socket: BorrowedFd<'_>, name: i32) -> io::Result<T> {
    // SAFETY: all-zero bytes are a valid value, by the trait.
    let mut value: T = unsafe { std::mem::zeroed() };
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` is valid for writes of `length` bytes, and any bytes are a valid value.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            name,
            (&raw mut value).cast(),
            &mut length,
        )
    };
    check(result)?;
    Ok(value)
}

/// The value of a socket's option.
///
/// # Safety
/// Any bytes are a valid value.
pub(crate) unsafe trait SocketOption: Copy {}

// SAFETY: a number.
unsafe impl SocketOption for i32 {}
// SAFETY: it consists of numbers.
unsafe impl SocketOption for libc::ucred {}

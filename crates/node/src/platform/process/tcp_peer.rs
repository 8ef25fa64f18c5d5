//! Whether the machine at the other end of a TCP connection still answers, as this kernel sees it.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use super::check;

/// Whether the other machine's kernel still acknowledges what this one sends, even if no process
/// there reads it: one that is stopped by a signal or a debugger is silent, but its machine
/// answers. Something must be sent from time to time, or nothing is there to be acknowledged.
///
/// It does not answer if the last acknowledgement is older than `limit` and something was sent
/// again without an answer. Where the other side's buffer is full, probes go out with growing
/// pauses of up to two minutes, so one that is not answered yet shows nothing.
///
/// # Errors
/// When this is not a TCP socket.
pub fn tcp_peer_answers(socket: BorrowedFd<'_>, limit: Duration) -> io::Result<bool> {
    // SAFETY: tcp_info is plain data for which all zeros is a value.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    let (level, name) = (libc::IPPROTO_TCP, libc::TCP_INFO);
    // SAFETY: `info` is valid for writes of `length` bytes; an older kernel writes fewer.
    check(unsafe {
        let to = (&raw mut info).cast();
        libc::getsockopt(socket.as_raw_fd(), level, name, to, &mut length)
    })?;
    let silent = Duration::from_millis(info.tcpi_last_ack_recv.into());
    let is_repeating = info.tcpi_retransmits > 0 || info.tcpi_probes > 1;
    Ok(silent <= limit || !is_repeating)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    #[test]
    fn a_peer_that_does_not_read_answers_all_the_same() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        stream.set_nonblocking(true).unwrap();
        // Until the buffers of both sides are full.
        while stream.write(&[0; 65536]).is_ok() {}
        assert!(tcp_peer_answers(stream.as_fd(), Duration::ZERO).unwrap());
    }

    #[test]
    fn a_pipe_has_no_such_state() {
        let (read, _write) = io::pipe().unwrap();
        assert!(tcp_peer_answers(read.as_fd(), Duration::ZERO).is_err());
    }
}

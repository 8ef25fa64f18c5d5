//! Detection of lost peers.
//!
//! A provider should complete the operations on a lost peer with errors, and most do. tcp;ofi_rxm
//! does not always: a message that it has not begun to send waits for a new connection, which it
//! retries forever, and later sends return "try again". Therefore a peer with an operation under
//! way that makes no progress for a while is probed directly if the provider uses sockets: the
//! channel connects to the port of the peer's endpoint and closes the connection. If nothing
//! listens there, or the address is unreachable, the peer is lost. A peer that computes and does
//! not poll still answers, because its kernel does so. A peer whose kernel does not answer at all
//! is left to the provider and to the launcher.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Instant;

use super::Net;
use super::inspection::{PERIOD, Probe, QUIET_INSPECTIONS, Quiet, RARE};

const POLLS_PER_CLOCK_READ: u64 = 256; // polls; so that few polls pay for the clock

impl Net {
    /// Whether anything is under way with any peer, so that inspections are needed to detect a
    /// loss.
    pub(super) fn is_waiting_for_peers(&self) -> bool {
        self.peers.is_any_stuck()
            || self.peers.in_flight() > 0
            || self.remote.has_transfers()
            || !self.watch.probes.is_empty()
    }

    /// Must be called after every poll: inspects when the interval has passed.
    #[inline]
    pub(super) fn watch(&mut self) {
        if self.polls.is_multiple_of(POLLS_PER_CLOCK_READ) && self.is_waiting_for_peers() {
            self.inspect_in_time();
        }
    }

    /// Inspects if the interval since the last inspection has passed.
    #[cold]
    pub(super) fn inspect_in_time(&mut self) {
        let now = Instant::now();
        if now >= self.watch.next {
            self.watch.next = now + PERIOD;
            self.inspect();
            self.hear_answers();
        }
    }

    fn inspect(&mut self) {
        for peer in 0..self.peers.len() {
            let Some(found) = self.peers.get(peer) else {
                continue;
            };
            let busy = found.is_stuck() || found.in_flight > 0 || self.remote.is_busy_with(peer);
            let motion = found.motion;
            let lost = self.peers.loss(peer).is_some();
            let quiet = &mut self.watch.peers[peer as usize];
            if !busy || lost || quiet.motion != motion {
                *quiet = Quiet { motion, inspections: 0, ask_at: QUIET_INSPECTIONS };
                continue;
            }
            quiet.inspections += 1;
            if quiet.inspections >= quiet.ask_at {
                quiet.inspections = 0;
                quiet.ask_at = (quiet.ask_at * 2).min(RARE);
                self.probe_by_connecting(peer);
            }
        }
    }

    /// Starts to probe a peer by connecting to it.
    fn probe_by_connecting(&mut self, peer: u32) {
        let known = self.watch.probes.iter().any(|k| k.peer == peer);
        if known || !self.offer.is_sockets() {
            return;
        }
        let Ok(address) = self.peers.address(peer) else {
            return;
        };
        match connect(&address) {
            Ok(socket) => self.watch.probes.push(Probe { peer, socket }),
            Err(code) => self.answered(peer, code),
        }
    }

    /// Handles the results of the probes that have finished.
    fn hear_answers(&mut self) {
        let mut at = 0;
        while at < self.watch.probes.len() {
            match answer(&self.watch.probes[at].socket) {
                None => at += 1,
                Some(code) => {
                    let probe = self.watch.probes.swap_remove(at);
                    self.answered(probe.peer, code);
                }
            }
        }
    }

    fn answered(&mut self, peer: u32, code: i32) {
        let gone = matches!(
            code,
            libc::ECONNREFUSED | libc::ECONNRESET | libc::EHOSTUNREACH | libc::ENETUNREACH
        );
        if gone {
            let why = std::io::Error::from_raw_os_error(code);
            self.lose(peer, format!("nothing moves, and its address does not answer: {why}"));
        }
    }
}

/// Starts to connect; returns the socket, or the error number.
fn connect(address: &[u8]) -> Result<OwnedFd, i32> {
    let Some(family) = address.first_chunk::<2>() else {
        return Err(0);
    };
    let family = libc::c_int::from(u16::from_ne_bytes(*family));
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: integers only.
    let raw = unsafe { libc::socket(family, kind, 0) };
    if raw < 0 {
        return Err(0);
    }
    // SAFETY: the descriptor was just opened and has no other owner.
    let socket = unsafe { OwnedFd::from_raw_fd(raw) };
    // SAFETY: an address of that length, which the kernel checks.
    let code = unsafe {
        libc::connect(socket.as_raw_fd(), address.as_ptr().cast(), address.len() as libc::socklen_t)
    };
    match code {
        0 => Ok(socket),
        _ => match std::io::Error::last_os_error().raw_os_error() {
            Some(libc::EINPROGRESS) => Ok(socket),
            other => Err(other.unwrap_or(0)),
        },
    }
}

/// Result of a connection attempt: 0 or an error number; `None` if it is not known yet.
fn answer(socket: &OwnedFd) -> Option<i32> {
    let mut poll = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
    // SAFETY: the array has one entry.
    if unsafe { libc::poll(&raw mut poll, 1, 0) } == 0 {
        return None;
    }
    let mut code: libc::c_int = 0;
    let mut len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: room for the option, of that length.
    unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ERROR,
            (&raw mut code).cast(),
            &raw mut len,
        );
    }
    Some(code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn sockaddr(port: u16) -> Vec<u8> {
        let mut bytes = vec![0u8; 16];
        bytes[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
        bytes[2..4].copy_from_slice(&port.to_be_bytes());
        bytes[4..8].copy_from_slice(&[127, 0, 0, 1]);
        bytes
    }

    fn ask(address: &[u8]) -> i32 {
        match connect(address) {
            Err(code) => code,
            Ok(socket) => loop {
                if let Some(code) = answer(&socket) {
                    return code;
                }
                std::thread::yield_now();
            },
        }
    }

    #[test]
    fn who_listens_answers_and_who_does_not_refuses() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = sockaddr(listener.local_addr().unwrap().port());
        assert_eq!(ask(&address), 0);
        drop(listener);
        assert_eq!(ask(&address), libc::ECONNREFUSED);
        assert_eq!(ask(&[]), 0, "no address is no answer");
    }
}

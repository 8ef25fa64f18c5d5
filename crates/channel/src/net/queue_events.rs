//! New events at the descriptor of a completion queue: what a rank that sleeps waits for.
//!
//! The descriptor is readable while libfabric has events, which `fi_trywait` takes back before a
//! wait. One provider does not: in `net` of libfabric 1.17, which Debian 12 has, `fi_trywait` does
//! nothing, so that the descriptor stays readable from the first completion on. Ranks that waited
//! for it never slept, and where they outnumber the cores each message took time slices.
//!
//! So a rank waits for an epoll instance of its own, which watches the descriptor edge-triggered
//! (`EPOLLET`): it becomes readable when something new happens there, and stays so until the events
//! are [taken](QueueEvents::take). Who has taken some must poll the queue before it waits: they may
//! belong to an entry that came after its last poll.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// The descriptor of a queue, and what has happened there.
#[derive(Debug)]
pub(super) struct QueueEvents {
    descriptor: RawFd,
    /// `None`: there could be no further descriptor.
    edges: Option<OwnedFd>,
}

impl QueueEvents {
    /// Those of the queue with this descriptor, which stays open as long as they are used.
    pub fn of(descriptor: RawFd) -> QueueEvents {
        QueueEvents { descriptor, edges: edges_of(descriptor) }
    }

    /// What to wait for.
    pub fn descriptor(&self) -> RawFd {
        self.edges.as_ref().map_or(self.descriptor, AsRawFd::as_raw_fd)
    }

    /// Takes what has happened since the last time; whether anything has.
    pub fn take(&self) -> bool {
        let Some(edges) = &self.edges else {
            return false;
        };
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        // SAFETY: there is room for one event, and a timeout of 0 does not wait.
        unsafe { libc::epoll_wait(edges.as_raw_fd(), &raw mut event, 1, 0) == 1 }
    }
}

fn edges_of(descriptor: RawFd) -> Option<OwnedFd> {
    // SAFETY: takes plain numbers.
    let created = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    if created < 0 {
        return None;
    }
    // SAFETY: the call has made it, and nothing else has it.
    let edges = unsafe { OwnedFd::from_raw_fd(created) };
    let mut event = libc::epoll_event { events: (libc::EPOLLIN | libc::EPOLLET) as u32, u64: 0 };
    // SAFETY: reads the event only.
    let added =
        unsafe { libc::epoll_ctl(created, libc::EPOLL_CTL_ADD, descriptor, &raw mut event) };
    (added == 0).then_some(edges)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    fn is_readable(descriptor: RawFd) -> bool {
        let mut poll = libc::pollfd { fd: descriptor, events: libc::POLLIN, revents: 0 };
        // SAFETY: one element, and no wait.
        unsafe { libc::poll(&raw mut poll, 1, 0) == 1 }
    }

    #[test]
    fn what_stays_readable_does_not_keep_a_rank_awake() {
        // As libfabric's: an epoll instance over its signal and another over the connections.
        // SAFETY: takes plain numbers; the descriptor is new, and the only owner has it.
        let instance = || unsafe { OwnedFd::from_raw_fd(libc::epoll_create1(0)) };
        let watch = |by: &OwnedFd, descriptor: RawFd| {
            let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
            let by = by.as_raw_fd();
            // SAFETY: reads the event only.
            let code =
                unsafe { libc::epoll_ctl(by, libc::EPOLL_CTL_ADD, descriptor, &raw mut event) };
            assert_eq!(code, 0);
        };
        let (queue, connections) = (instance(), instance());
        let (mut signal, signal_end) = UnixStream::pair().unwrap();
        let (mut connection, mut connection_end) = UnixStream::pair().unwrap();
        watch(&connections, connection_end.as_raw_fd());
        watch(&queue, signal_end.as_raw_fd());
        watch(&queue, connections.as_raw_fd());
        let events = QueueEvents::of(queue.as_raw_fd());
        assert!(!is_readable(events.descriptor()) && !events.take());
        signal.write_all(b"s").unwrap();
        assert!(is_readable(events.descriptor()) && events.take());
        // The signal is never read.
        assert!(is_readable(queue.as_raw_fd()));
        for _ in 0..3 {
            assert!(!is_readable(events.descriptor()) && !events.take());
            connection.write_all(b"c").unwrap();
            assert!(is_readable(events.descriptor()) && events.take());
            connection_end.read_exact(&mut [0]).unwrap();
        }
    }
}

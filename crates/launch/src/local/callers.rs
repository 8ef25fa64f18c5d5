//! An abstract socket with callers who each ask once ([`mica_node::handover`]): processes of the
//! job that lack a descriptor, and tools that attach.
//!
//! Nothing here blocks. A caller whose user is not served is dropped unread; one that has sent
//! nothing is kept until it asks or until others need its place; one that was answered, or is
//! gone, is dropped at once. So a caller costs one answer, whatever it does.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;

use mica_node::handover::{HandoverConnection, HandoverListener};

/// The socket and its callers.
pub struct HandoverCallers {
    listener: HandoverListener,
    /// Callers that have not asked yet.
    waiting: VecDeque<HandoverConnection>,
    /// Maximum number of these; the oldest is dropped first.
    max: usize,
}

impl HandoverCallers {
    /// Listens under this name.
    pub fn listen(name: &[u8], max: usize) -> io::Result<HandoverCallers> {
        let listener = HandoverListener::bind(name)?;
        Ok(HandoverCallers { listener, waiting: VecDeque::new(), max })
    }

    /// The descriptors to wait for.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let waiting = self.waiting.iter().map(HandoverConnection::as_fd);
        std::iter::once(self.listener.as_fd()).chain(waiting)
    }

    /// Accepts callers whose user `is_served`, and has `answer` serve all. It returns whether the
    /// caller is kept, since it has not asked yet.
    ///
    /// # Errors
    /// When no connection can be accepted any more.
    pub fn serve(
        &mut self,
        is_served: impl Fn(u32) -> bool,
        answer: impl FnMut(&HandoverConnection) -> bool,
    ) -> io::Result<()> {
        for _ in 0..self.max {
            let Some(caller) = self.listener.try_accept()? else { break };
            if caller.peer().is_ok_and(|peer| is_served(peer.uid)) {
                self.waiting.push_back(caller);
            }
        }
        self.waiting.retain(answer);
        self.waiting.drain(..self.waiting.len().saturating_sub(self.max));
        Ok(())
    }

    /// How many callers have not asked yet.
    #[cfg(test)]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

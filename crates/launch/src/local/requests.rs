//! The socket on which processes of the job ask for descriptors that they did not inherit, because
//! something closed them on the way ([`mica_bootstrap::inherited`] has the messages and the other
//! side).
//!
//! It is an abstract socket with a random name; callers of other users are turned away. Nothing
//! here blocks: a caller that sends nothing is kept until others need its place.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use mica_bootstrap::inherited::{DescriptorRequest, new_nonce, socket_name};
use mica_node::handover::{HandoverConnection, HandoverListener, own_uid};

/// Maximum number of callers, in addition to one for each rank of the node, which may all ask at
/// the same time; the oldest is dropped first.
const CALLERS_MAX: usize = 64;

/// The socket and its callers.
pub struct Requests {
    listener: HandoverListener,
    nonce: String,
    callers: VecDeque<HandoverConnection>,
    callers_max: usize,
}

impl Requests {
    /// Listens under a new name, for this number of ranks.
    pub fn open(ranks: usize) -> io::Result<Requests> {
        let nonce = new_nonce()?;
        Ok(Requests {
            listener: HandoverListener::bind(&socket_name(&nonce))?,
            nonce,
            callers: VecDeque::new(),
            callers_max: CALLERS_MAX + ranks,
        })
    }

    /// The random part of the name, for the ranks' environment.
    pub fn nonce(&self) -> &str {
        &self.nonce
    }

    /// The descriptors to wait for.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        std::iter::once(self.listener.as_fd())
            .chain(self.callers.iter().map(HandoverConnection::as_fd))
    }

    /// Accepts callers and serves their requests. `give` finds the descriptor or returns why there
    /// is none.
    ///
    /// # Errors
    /// When no connection can be accepted any more.
    pub fn serve(
        &mut self,
        give: &mut dyn FnMut(DescriptorRequest) -> Result<OwnedFd, String>,
    ) -> io::Result<()> {
        for _ in 0..self.callers_max {
            let Some(caller) = self.listener.try_accept()? else {
                break;
            };
            if caller.peer().is_ok_and(|peer| peer.uid == own_uid()) {
                self.callers.push_back(caller);
            }
        }
        while self.callers.len() > self.callers_max {
            self.callers.pop_front();
        }
        self.callers.retain(|caller| match DescriptorRequest::read(caller) {
            Ok(None) => true,
            Ok(Some(request)) => {
                match give(request) {
                    Ok(descriptor) => DescriptorRequest::answer(caller, Ok(descriptor.as_fd())),
                    Err(reason) => DescriptorRequest::answer(caller, Err(&reason)),
                }
                false
            }
            Err(_) => false,
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn silent_callers_do_not_fill_the_table() {
        let mut requests = Requests::open(3).unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        let name = socket_name(requests.nonce());
        let callers: Vec<HandoverConnection> = (0..CALLERS_MAX + 12)
            .map(|_| HandoverConnection::connect(&name, deadline).unwrap())
            .collect();
        for _ in 0..2 {
            let mut give = |_| -> Result<OwnedFd, String> { panic!("not requested") };
            requests.serve(&mut give).unwrap();
        }
        assert_eq!(requests.callers.len(), CALLERS_MAX + 3);
        // The first ones are turned away, the last one is served.
        let (bytes, _) = callers[0].receive(16, deadline).unwrap();
        assert!(bytes.is_empty());
        callers.last().unwrap().send(b"what?", None, deadline).unwrap();
        requests.serve(&mut |_| Err(String::new())).unwrap();
        assert_eq!(requests.callers.len(), CALLERS_MAX + 2);
    }
}

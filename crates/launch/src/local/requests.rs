//! Processes of the job that ask for descriptors which they did not inherit, because something
//! closed them on the way ([`mica_bootstrap::inherited`] has the messages and the other side).
//!
//! They ask over an abstract socket with a random name; callers of other users are turned away.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use mica_bootstrap::inherited::{DescriptorRequest, new_nonce, socket_name};
use mica_node::handover::own_uid;

use crate::local::callers::HandoverCallers;

/// Maximum number of callers, in addition to one for each rank of the node, which may all ask at
/// the same time.
const CALLERS_MAX: usize = 64;

/// The socket and its callers.
pub struct Requests {
    callers: HandoverCallers,
    nonce: String,
}

impl Requests {
    /// Listens under a new name, for this number of ranks.
    pub fn open(ranks: usize) -> io::Result<Requests> {
        let nonce = new_nonce()?;
        let callers = HandoverCallers::listen(&socket_name(&nonce), CALLERS_MAX + ranks)?;
        Ok(Requests { callers, nonce })
    }

    /// The random part of the name, for the ranks' environment.
    pub fn nonce(&self) -> &str {
        &self.nonce
    }

    /// The descriptors to wait for.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.callers.fds()
    }

    /// Serves requests. `give` finds the descriptor or returns why there is none.
    ///
    /// # Errors
    /// When no connection can be accepted any more.
    pub fn serve(
        &mut self,
        give: &mut dyn FnMut(DescriptorRequest) -> Result<OwnedFd, String>,
    ) -> io::Result<()> {
        let own = own_uid();
        self.callers.serve(
            |uid| uid == own,
            |caller| match DescriptorRequest::read(caller) {
                Ok(None) => true,
                Ok(Some(request)) => {
                    match give(request) {
                        Ok(descriptor) => DescriptorRequest::answer(caller, Ok(descriptor.as_fd())),
                        Err(reason) => DescriptorRequest::answer(caller, Err(&reason)),
                    }
                    false
                }
                Err(_) => false,
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mica_node::handover::HandoverConnection;
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
        assert_eq!(requests.callers.waiting(), CALLERS_MAX + 3);
        // The first ones are turned away, the last one is served.
        let (bytes, _) = callers[0].receive(16, deadline).unwrap();
        assert!(bytes.is_empty());
        callers.last().unwrap().send(b"what?", None, deadline).unwrap();
        requests.serve(&mut |_| Err(String::new())).unwrap();
        assert_eq!(requests.callers.waiting(), CALLERS_MAX + 2);
    }
}

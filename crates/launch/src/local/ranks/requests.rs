//! Processes of the job that ask for descriptors which they did not inherit, because something
//! closed them on the way ([`mica_bootstrap::inherited`] has the messages and the other side).
//!
//! They ask over an abstract socket with a random name; callers of other users are turned away.

use std::os::fd::OwnedFd;

use mica_bootstrap::inherited::{DescriptorKind, DescriptorRequest, new_nonce, socket_name};
use mica_node::handover::own_uid;

use super::*;

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
    fn serve(
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

impl RankProcesses<'_> {
    /// Serves processes that ask for descriptors that they did not inherit. Returns the numbers on
    /// the node of the ranks that have a new connection to the process manager.
    pub fn serve_requests(&mut self) -> Vec<usize> {
        let mut replaced = Vec::new();
        let Some(requests) = &mut self.requests else {
            return replaced;
        };
        let (segment, pmi, members) = (&self.segment, &mut self.pmi, &self.job.members);
        let mut give = |request: DescriptorRequest| -> Result<OwnedFd, String> {
            let index = members.binary_search(&request.rank);
            let index = index.map_err(|_| format!("rank {} is not on this node", request.rank))?;
            match request.wanted {
                DescriptorKind::Values => pmi.table().map_err(|error| error.to_string()),
                DescriptorKind::Segment => {
                    let copy = segment.as_fd().try_clone_to_owned();
                    copy.map_err(|error| error.to_string())
                }
                DescriptorKind::Manager => match pmi.replace(index) {
                    Ok(Some(theirs)) => {
                        replaced.push(index);
                        Ok(theirs.into())
                    }
                    Ok(None) => Err(format!("rank {} has used its connection", request.rank)),
                    Err(error) => Err(error.to_string()),
                },
            }
        };
        if requests.serve(&mut give).is_err() {
            // Descriptors may have run out: with the service the loop would never sleep, so it
            // is stopped.
            self.requests = None;
        }
        replaced
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mica_node::handover::HandoverConnection;

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

//! The socket on which tools attach to the job (`mica top`): they get the segment, opened for
//! reading, and a description of the job ([`mica_node::attach`] has the messages and the other
//! side).
//!
//! Served are the job's user and root, who can read the ranks' memory anyway; all others are turned
//! away unheard. Nothing here blocks: a caller that sends nothing is kept until others need its
//! place, and a caller that does not read its answer loses it. A caller that was answered is
//! dropped at once, so that watching a job costs mpiexec one answer.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;

use mica_node::attach::{self, JobDescription, SocketName};
use mica_node::handover::{HandoverConnection, HandoverListener, own_uid};

/// Maximum number of callers that have not asked yet; the oldest is dropped first.
const CALLERS_MAX: usize = 16;
const ROOT: u32 = 0;

/// The socket and its callers.
pub struct AttachListener {
    listener: HandoverListener,
    callers: VecDeque<HandoverConnection>,
}

impl AttachListener {
    /// Listens under a new name.
    pub fn open() -> io::Result<AttachListener> {
        AttachListener::open_as(&SocketName::new()?)
    }

    fn open_as(name: &SocketName) -> io::Result<AttachListener> {
        Ok(AttachListener {
            listener: HandoverListener::bind(&name.encode())?,
            callers: VecDeque::new(),
        })
    }

    /// The descriptors to wait for.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        std::iter::once(self.listener.as_fd())
            .chain(self.callers.iter().map(HandoverConnection::as_fd))
    }

    /// Accepts callers and answers those that have asked.
    ///
    /// # Errors
    /// When no connection can be accepted any more.
    pub fn serve(
        &mut self,
        segment: BorrowedFd<'_>,
        describe: &dyn Fn() -> JobDescription,
    ) -> io::Result<()> {
        for _ in 0..CALLERS_MAX {
            let Some(caller) = self.listener.try_accept()? else {
                break;
            };
            if caller.peer().is_ok_and(|peer| is_served(peer.uid, own_uid())) {
                self.callers.push_back(caller);
            }
        }
        self.callers.retain(|caller| match attach::read_request(caller) {
            Ok(None) => true,
            // Errors are the caller's loss: it is gone, or does not read.
            Ok(Some(Ok(()))) => {
                if let Err(error) = attach::welcome(caller, segment, &describe()) {
                    let _ =
                        attach::refuse(caller, &format!("its mpiexec cannot share it: {error}"));
                }
                false
            }
            Ok(Some(Err(reason))) => {
                let _ = attach::refuse(caller, &reason);
                false
            }
            Err(_) => false,
        });
        while self.callers.len() > CALLERS_MAX {
            self.callers.pop_front();
        }
        Ok(())
    }
}

/// Whether user `uid` may read a job of user `own`.
fn is_served(uid: u32, own: u32) -> bool {
    [own, ROOT].contains(&uid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::time::{Duration, Instant};

    #[test]
    fn only_the_user_and_root_are_served() {
        assert!(is_served(1000, 1000) && is_served(0, 1000) && is_served(0, 0));
        assert!(!is_served(1001, 1000) && !is_served(1000, 0));
    }

    #[test]
    fn silent_callers_and_garbage_do_not_keep_others_out() {
        let name = SocketName::new().unwrap();
        let mut server = AttachListener::open_as(&name).unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        let connect = || HandoverConnection::connect(&name.encode(), deadline).unwrap();
        let idle: Vec<HandoverConnection> = (0..64).map(|_| connect()).collect();
        let garbage = connect();
        garbage.send(b"GET / HTTP/1.1", None, deadline).unwrap();
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let nothing = || -> JobDescription { panic!("no caller has asked") };
        for _ in 0..64 {
            server.serve(file.as_fd(), &nothing).unwrap();
            assert!(server.callers.len() <= CALLERS_MAX);
        }
        let (bytes, descriptor) = garbage.receive(64, deadline).unwrap_or_default();
        assert!(bytes.is_empty() && descriptor.is_none());
        let asks = connect();
        asks.send(b"mica-at\x00old", None, deadline).unwrap();
        server.serve(file.as_fd(), &nothing).unwrap();
        let (bytes, _) = asks.receive(512, deadline).unwrap();
        assert!(bytes.starts_with(b"mica-no"));
        drop(idle);
    }
}

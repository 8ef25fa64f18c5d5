//! Tools that attach to the job (`mica top`): over an abstract socket they get the segment, opened
//! for reading, and a description of the job ([`mica_node::attach`] has the messages and the other
//! side).
//!
//! Served are the job's user and root, who can read the ranks' memory anyway; all others are turned
//! away unheard.

use std::time::SystemTime;

use mica_node::attach::{self, JobDescription, SocketName, VERSION};
use mica_node::handover::own_uid;
use mica_node::segment::layout;

use super::*;
use crate::options::values::shell_words::command_line;

/// Maximum number of callers that have not asked yet.
const CALLERS_MAX: usize = 16;
const ROOT: u32 = 0;

/// Listens for tools under a new name.
pub(super) fn listen() -> io::Result<HandoverCallers> {
    HandoverCallers::listen(&SocketName::new()?.encode(), CALLERS_MAX)
}

/// Whether user `uid` may read a job of user `own`.
fn is_served(uid: u32, own: u32) -> bool {
    [own, ROOT].contains(&uid)
}

/// Answers the tools that have asked.
fn serve(
    callers: &mut HandoverCallers,
    segment: BorrowedFd<'_>,
    describe: &dyn Fn() -> JobDescription,
) -> io::Result<()> {
    let own = own_uid();
    callers.serve(
        |uid| is_served(uid, own),
        // Errors are the caller's loss: it is gone, or does not read.
        |caller| match attach::read_request(caller) {
            Ok(None) => true,
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
        },
    )
}

impl RankProcesses<'_> {
    /// Serves tools that attach to the job.
    pub fn serve_attach(&mut self) {
        let Some(mut callers) = self.attach.take() else { return };
        let describe = || JobDescription {
            version: VERSION.to_owned(),
            layout: layout(),
            name: self.job.name.clone(),
            host: self.job.host.clone(),
            command: self.command_lines(),
            job_size: self.job.size,
            nodes: self.job.network.placement.nodes.len() as u32,
            started_ms: self.started_ms,
            pids: self.ranks.iter().map(|rank| rank.process.pid()).collect(),
        };
        // After an error the service ends: descriptors may have run out, and the loop would never
        // sleep with it.
        let served = serve(&mut callers, self.world.as_fd(), &describe);
        self.attach = served.is_ok().then_some(callers);
    }

    /// The command lines of the job's programs.
    fn command_lines(&self) -> String {
        let lines = self.job.programs.sections.iter().map(|section| command_line(&section.command));
        lines.collect::<Vec<_>>().join(" : ")
    }
}

/// Milliseconds since 1970.
pub(super) fn now_ms() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_millis() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use mica_node::handover::HandoverConnection;

    #[test]
    fn only_the_user_and_root_are_served() {
        assert!(is_served(1000, 1000) && is_served(0, 1000) && is_served(0, 0));
        assert!(!is_served(1001, 1000) && !is_served(1000, 0));
    }

    #[test]
    fn silent_callers_and_garbage_do_not_keep_others_out() {
        let name = SocketName::new().unwrap();
        let mut server = HandoverCallers::listen(&name.encode(), CALLERS_MAX).unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        let connect = || HandoverConnection::connect(&name.encode(), deadline).unwrap();
        let idle: Vec<HandoverConnection> = (0..64).map(|_| connect()).collect();
        let garbage = connect();
        garbage.send(b"GET / HTTP/1.1", None, deadline).unwrap();
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let nothing = || -> JobDescription { panic!("no caller has asked") };
        for _ in 0..64 {
            serve(&mut server, file.as_fd(), &nothing).unwrap();
            assert!(server.waiting() <= CALLERS_MAX);
        }
        let (bytes, descriptor) = garbage.receive(64, deadline).unwrap_or_default();
        assert!(bytes.is_empty() && descriptor.is_none());
        let asks = connect();
        asks.send(b"mica-at\x00old", None, deadline).unwrap();
        serve(&mut server, file.as_fd(), &nothing).unwrap();
        let (bytes, _) = asks.receive(512, deadline).unwrap();
        assert!(bytes.starts_with(b"mica-no"));
        drop(idle);
    }
}

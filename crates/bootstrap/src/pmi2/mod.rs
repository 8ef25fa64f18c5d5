//! PMI-2: framed messages over the socket that the launcher names in `PMI_FD`.
//!
//! Spoken by Slurm (`srun --mpi=pmi2`) and Hydra. The greeting is a line of PMI-1; what follows has
//! its length before it ([`message`]). Values of this rank carry its rank in their key, as in
//! PMI-1.
//!
//! | request | answer |
//! |---|---|
//! | `cmd=init pmi_version=2 pmi_subversion=0` (line) | `cmd=response_to_init rc=0` (line) |
//! | `fullinit pmijobid= pmirank= threaded=` | `fullinit-response rank= size= appnum=` |
//! | `job-getid` | `job-getid-response jobid=` |
//! | `info-getjobattr key= wait=` | `info-getjobattr-response found= value=` |
//! | `kvs-put key= value=` | `kvs-put-response` |
//! | `kvs-fence` | `kvs-fence-response`, when all ranks have sent it |
//! | `kvs-get jobid= srcid= key=` | `kvs-get-response found= value=` |
//! | `finalize` | `finalize-response` |
//! | `abort isworld= msg=` | nothing: the launcher ends the job |

pub mod message;

use mica_node::launcher_socket::LauncherSocket;

use crate::pmi1::message::{MessageError, Pmi1Message};
use crate::pmi1::{LineDialogue, end, judge, lost, refused};
use crate::{BootstrapError, ProcessIdentity, ProcessManager, long_value};
use message::{Frames, to_frame};

const MANAGER: &str = "PMI-2";

/// Longest value: PMI2_MAX_VALLEN is 1024, with a NUL.
const VALUE_MAX: usize = 1000;

/// A connection to a launcher that speaks PMI-2.
#[derive(Debug)]
pub struct Pmi2 {
    dialogue: FrameDialogue,
    identity: ProcessIdentity,
}

impl Pmi2 {
    /// Greets the launcher at the other end; `rank` and `job_id` are what it said in the
    /// environment (`PMI_RANK`, `PMI_JOBID`). Blocks until it answers.
    ///
    /// # Errors
    /// When the launcher is gone, or is none.
    pub fn connect(
        socket: LauncherSocket,
        rank: u32,
        job_id: Option<&str>,
    ) -> Result<Pmi2, BootstrapError> {
        let mut lines = LineDialogue::new(socket, MANAGER);
        let init = Pmi1Message::new("init").with("pmi_version", 2);
        lines.ask(&init.with("pmi_subversion", 0), "response_to_init")?;
        let mut dialogue = FrameDialogue { socket: lines.socket, frames: Frames::new() };
        let mut init = Pmi1Message::new("fullinit");
        if let Some(job_id) = job_id {
            init = init.with("pmijobid", job_id);
        }
        let init = init.with("pmirank", rank).with("threaded", "FALSE");
        let answer = dialogue.ask(&init, "fullinit-response")?;
        let answered_rank: u32 = read(&init, answer.number("rank"))?;
        if answered_rank != rank {
            let reason = format!("rank={answered_rank}, but PMI_RANK={rank}");
            return Err(refused(MANAGER, &init, reason));
        }
        let size: u32 = read(&init, answer.number("size"))?;
        let appnum = answer.get("appnum").and_then(|n| n.parse().ok());
        let request = Pmi1Message::new("job-getid");
        let answer = dialogue.ask(&request, "job-getid-response")?;
        let job_id = read(&request, answer.text("jobid"))?.to_owned();
        let universe = dialogue.attribute("universeSize")?;
        Ok(Pmi2 {
            dialogue,
            identity: ProcessIdentity {
                rank,
                size,
                appnum,
                universe_size: universe.and_then(|n| n.parse().ok()).filter(|&n| n > 0),
                job_id,
            },
        })
    }
}

impl ProcessManager for Pmi2 {
    fn name(&self) -> &'static str {
        MANAGER
    }

    fn identity(&self) -> &ProcessIdentity {
        &self.identity
    }

    fn put(&mut self, key: &str, value: &str) -> Result<(), BootstrapError> {
        long_value::check(key, value)?;
        for (key, part) in
            long_value::cut(&long_value::of_rank(self.identity.rank, key), value, VALUE_MAX)
        {
            let put = Pmi1Message::new("kvs-put").with("key", key).with("value", part);
            self.dialogue.ask(&put, "kvs-put-response")?;
        }
        Ok(())
    }

    fn fence(&mut self) -> Result<(), BootstrapError> {
        let fence = Pmi1Message::new("kvs-fence");
        self.dialogue.ask(&fence, "kvs-fence-response").map(drop)
    }

    fn get(&mut self, rank: u32, key: &str) -> Result<String, BootstrapError> {
        let key = long_value::of_rank(rank, key);
        let (dialogue, job_id) = (&mut self.dialogue, &self.identity.job_id);
        let value = long_value::join(&key, |key| {
            // srcid is a hint where the value is; -1: none.
            let get = Pmi1Message::new("kvs-get").with("jobid", job_id).with("srcid", -1);
            let get = get.with("key", key);
            let answer = dialogue.ask(&get, "kvs-get-response")?;
            if answer.get("found") == Some("FALSE") {
                return Err(refused(MANAGER, &get, "found=FALSE".to_owned()));
            }
            read(&get, answer.text("value")).map(str::to_owned)
        })?;
        value.ok_or_else(|| BootstrapError::BadRecord {
            rank,
            what: format!("published something else than Mica does under {key}"),
        })
    }

    fn abort(&mut self, code: i32, message: &str) -> Result<(), BootstrapError> {
        // PMI-2 has no field for the code; Hydra and Slurm take the process's own exit status.
        let text = format!("{message} (code {code})");
        let abort = Pmi1Message::new("abort").with("isworld", "TRUE");
        self.dialogue.send(&abort.with("msg", text))
    }

    fn finalize(&mut self) -> Result<(), BootstrapError> {
        let finalize = Pmi1Message::new("finalize");
        self.dialogue.ask(&finalize, "finalize-response").map(drop)
    }
}

/// Questions and answers in frames.
#[derive(Debug)]
struct FrameDialogue {
    socket: LauncherSocket,
    frames: Frames,
}

impl FrameDialogue {
    fn send(&mut self, message: &Pmi1Message) -> Result<(), BootstrapError> {
        let frame = read(message, to_frame(message))?;
        let sent = self.socket.send(&frame);
        sent.map_err(|source| lost(MANAGER, message, source))
    }

    fn ask(
        &mut self,
        message: &Pmi1Message,
        expected: &str,
    ) -> Result<Pmi1Message, BootstrapError> {
        self.send(message)?;
        loop {
            if let Some(answer) = read(message, self.frames.next_message())? {
                return judge(MANAGER, message, answer, expected);
            }
            let mut bytes = [0; 4096];
            match self.socket.receive(&mut bytes) {
                Ok(0) => return Err(lost(MANAGER, message, end(self.frames.pending()))),
                Ok(n) => self.frames.push(&bytes[..n]),
                Err(source) => return Err(lost(MANAGER, message, source)),
            }
        }
    }

    /// An attribute of the job; `None` if the launcher has none of this name.
    fn attribute(&mut self, key: &str) -> Result<Option<String>, BootstrapError> {
        let ask = Pmi1Message::new("info-getjobattr").with("key", key);
        let answer = self.ask(&ask.with("wait", "FALSE"), "info-getjobattr-response");
        match answer {
            Ok(answer) if answer.get("found") == Some("TRUE") => {
                Ok(answer.get("value").map(str::to_owned))
            }
            // Some answer with an rc for what they do not have.
            Ok(_) | Err(BootstrapError::Refused { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn read<T>(request: &Pmi1Message, result: Result<T, MessageError>) -> Result<T, BootstrapError> {
    result.map_err(|error| refused(MANAGER, request, error.to_string()))
}

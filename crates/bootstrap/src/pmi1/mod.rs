//! PMI-1: lines over the socket that the launcher names in `PMI_FD`.
//!
//! Spoken by Hydra (MPICH, Intel MPI), by Slurm's pmi2 plugin, by Flux, and by Mica's own mpiexec
//! when a job spans nodes. The store of values is flat: this rank's keys carry its rank.
//!
//! | request | answer |
//! |---|---|
//! | `init pmi_version=1 pmi_subversion=1` | `response_to_init rc=0` |
//! | `get_maxes` | `maxes kvsname_max= keylen_max= vallen_max=` |
//! | `get_appnum`, `get_universe_size` | `appnum appnum=`, `universe_size size=` |
//! | `get_my_kvsname` | `my_kvsname kvsname=` |
//! | `put kvsname= key= value=` | `put_result rc=0` |
//! | `barrier_in` | `barrier_out`, when all ranks have sent it |
//! | `get kvsname= key=` | `get_result rc=0 value=` |
//! | `finalize` | `finalize_ack` |
//! | `abort exitcode=` | nothing: the launcher ends the job |

pub mod message;
pub mod value_table;

use std::io;

use mica_node::launcher_socket::LauncherSocket;

use crate::{BootstrapError, ProcessIdentity, ProcessManager, inherited, long_value};
use message::{MessageError, MessageLines, Pmi1Message};
use value_table::ValueTable;

const MANAGER: &str = "PMI-1";

/// Longest value that is sent, whatever the launcher allows.
const VALUE_MAX: usize = 800;

/// A connection to a launcher that speaks PMI-1.
#[derive(Debug)]
pub struct Pmi1 {
    dialogue: LineDialogue,
    /// Its job's name is that of the key-value space.
    identity: ProcessIdentity,
    value_max: usize,
    /// The launcher is Mica's, which hands out the values of a fence as a table.
    has_tables: bool,
}

impl Pmi1 {
    /// Greets the launcher at the other end. Blocks until it answers.
    ///
    /// # Errors
    /// When the launcher is gone, or is none.
    pub fn connect(socket: LauncherSocket, rank: u32, size: u32) -> Result<Pmi1, BootstrapError> {
        let mut dialogue = LineDialogue::new(socket, MANAGER);
        let init = Pmi1Message::new("init").with("pmi_version", 1);
        dialogue.ask(&init.with("pmi_subversion", 1), "response_to_init")?;
        let maxes = Pmi1Message::new("get_maxes");
        let answer = dialogue.ask(&maxes, "maxes")?;
        let value_max: usize = dialogue.read(&maxes, answer.number("vallen_max"))?;
        // Some count the NUL at the end; and with older ones a whole line has to fit 1024 bytes.
        let value_max = value_max.saturating_sub(1).min(VALUE_MAX);
        if value_max < 16 {
            let reason = format!("vallen_max={value_max}, too short for any value");
            return Err(dialogue.refused(&maxes, reason));
        }
        let request = Pmi1Message::new("get_appnum");
        let answer = dialogue.ask(&request, "appnum")?;
        let appnum: i64 = dialogue.read(&request, answer.number("appnum"))?;
        let request = Pmi1Message::new("get_universe_size");
        let answer = dialogue.ask(&request, "universe_size")?;
        let universe: i64 = dialogue.read(&request, answer.number("size"))?;
        let request = Pmi1Message::new("get_my_kvsname");
        let answer = dialogue.ask(&request, "my_kvsname")?;
        let job_id = dialogue.read(&request, answer.text("kvsname"))?.to_owned();
        Ok(Pmi1 {
            dialogue,
            identity: ProcessIdentity {
                rank,
                size,
                // -1: the launcher does not know.
                appnum: u32::try_from(appnum).ok(),
                universe_size: u32::try_from(universe).ok().filter(|&n| n > 0),
                job_id,
            },
            value_max,
            has_tables: false,
        })
    }

    /// The same connection, to Mica's own mpiexec.
    pub fn with_tables(self) -> Pmi1 {
        Pmi1 { has_tables: true, ..self }
    }
}

impl ProcessManager for Pmi1 {
    fn name(&self) -> &'static str {
        MANAGER
    }

    fn identity(&self) -> &ProcessIdentity {
        &self.identity
    }

    fn put(&mut self, key: &str, value: &str) -> Result<(), BootstrapError> {
        long_value::check(key, value)?;
        for (key, part) in
            long_value::cut(&long_value::of_rank(self.identity.rank, key), value, self.value_max)
        {
            let put = Pmi1Message::new("put").with("kvsname", &self.identity.job_id);
            let put = put.with("key", key).with("value", part);
            self.dialogue.ask(&put, "put_result")?;
        }
        Ok(())
    }

    fn fence(&mut self) -> Result<(), BootstrapError> {
        let barrier = Pmi1Message::new("barrier_in");
        self.dialogue.ask(&barrier, "barrier_out").map(drop)
    }

    fn get(&mut self, rank: u32, key: &str) -> Result<String, BootstrapError> {
        let key = long_value::of_rank(rank, key);
        let value = long_value::join(&key, |key| self.get_shared(key))?;
        value.ok_or_else(|| BootstrapError::BadRecord {
            rank,
            what: format!("published something else than Mica does under {key}"),
        })
    }

    fn get_shared(&mut self, key: &str) -> Result<String, BootstrapError> {
        let get = Pmi1Message::new("get").with("kvsname", &self.identity.job_id).with("key", key);
        let answer = self.dialogue.ask(&get, "get_result")?;
        let value = self.dialogue.read(&get, answer.text("value"));
        value.map(str::to_owned)
    }

    fn table(&mut self) -> Option<ValueTable> {
        // Where mpiexec's socket cannot be reached, every value is still there to be read.
        match self.has_tables {
            true => inherited::value_table(self.identity.rank),
            false => None,
        }
    }

    fn abort(&mut self, code: i32, _message: &str) -> Result<(), BootstrapError> {
        // No text: what a launcher does with one differs, and the caller has said it.
        self.dialogue.send(&Pmi1Message::new("abort").with("exitcode", code))
    }

    fn finalize(&mut self) -> Result<(), BootstrapError> {
        let finalize = Pmi1Message::new("finalize");
        self.dialogue.ask(&finalize, "finalize_ack").map(drop)
    }
}

/// Questions and answers in lines.
#[derive(Debug)]
pub(crate) struct LineDialogue {
    pub(crate) socket: LauncherSocket,
    manager: &'static str,
    lines: MessageLines,
}

impl LineDialogue {
    pub(crate) fn new(socket: LauncherSocket, manager: &'static str) -> LineDialogue {
        LineDialogue { socket, manager, lines: MessageLines::new() }
    }

    /// Sends a message to which there is no answer.
    fn send(&mut self, message: &Pmi1Message) -> Result<(), BootstrapError> {
        let line = self.read(message, message.to_line())?;
        self.socket.send(line.as_bytes()).map_err(|source| self.lost(message, source))
    }

    /// Sends a message and waits for the answer, which must be `expected` and have no `rc` but 0.
    pub(crate) fn ask(
        &mut self,
        message: &Pmi1Message,
        expected: &str,
    ) -> Result<Pmi1Message, BootstrapError> {
        self.send(message)?;
        let answer = loop {
            let next = self.lines.next_message();
            if let Some(answer) = self.read(message, next)? {
                break answer;
            }
            let mut bytes = [0; 4096];
            match self.socket.receive(&mut bytes) {
                Ok(0) => return Err(self.lost(message, end(self.lines.pending()))),
                Ok(n) => self.lines.push(&bytes[..n]),
                Err(source) => return Err(self.lost(message, source)),
            }
        };
        judge(self.manager, message, answer, expected)
    }

    pub(crate) fn read<T>(
        &self,
        request: &Pmi1Message,
        result: Result<T, MessageError>,
    ) -> Result<T, BootstrapError> {
        result.map_err(|error| self.refused(request, error.to_string()))
    }

    pub(crate) fn refused(&self, request: &Pmi1Message, answer: String) -> BootstrapError {
        refused(self.manager, request, answer)
    }

    fn lost(&self, request: &Pmi1Message, source: io::Error) -> BootstrapError {
        lost(self.manager, request, source)
    }
}

/// The error when the stream ends after some bytes of an answer.
pub(crate) fn end(pending: usize) -> io::Error {
    let what = match pending {
        0 => "it closed the connection".to_owned(),
        n => format!("it closed the connection within an answer, after {n} bytes"),
    };
    io::Error::new(io::ErrorKind::UnexpectedEof, what)
}

/// The answer if it is the one expected and says that all went well.
pub(crate) fn judge(
    manager: &'static str,
    request: &Pmi1Message,
    answer: Pmi1Message,
    expected: &str,
) -> Result<Pmi1Message, BootstrapError> {
    let well = answer.get("rc").is_none_or(|rc| rc == "0");
    if answer.command() == expected && well {
        return Ok(answer);
    }
    Err(refused(manager, request, shown(&answer)))
}

pub(crate) fn refused(
    manager: &'static str,
    request: &Pmi1Message,
    answer: String,
) -> BootstrapError {
    BootstrapError::Refused { manager, call: shown(request), answer }
}

pub(crate) fn lost(
    manager: &'static str,
    request: &Pmi1Message,
    source: io::Error,
) -> BootstrapError {
    BootstrapError::Lost { manager, call: shown(request), source }
}

/// A message for people; long values are cut.
fn shown(message: &Pmi1Message) -> String {
    let mut text = message.command().to_owned();
    for (key, value) in message.fields() {
        let dots = if value.len() > 60 { "..." } else { "" };
        text.push_str(&format!(" {key}={value:.60}{dots}"));
    }
    text
}

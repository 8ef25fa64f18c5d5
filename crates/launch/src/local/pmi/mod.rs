//! The process manager (PMI-1) of the ranks on this node, through which they exchange addresses.
//!
//! Each rank inherits one end of a socket pair (`PMI_FD`) and sends lines over it
//! (`mica_bootstrap::pmi1::message`); it gets one answer for each, in their order, but for
//! `barrier_in` (answered when the barrier is complete) and `abort` (never). A rank is
//! [`PmiProgress::Silent`], `Initialized` by `init`, `Finalized` by `finalize`; it alone moves
//! itself. A connection that carries anything but PMI-1, or whose rank does not read
//! [`UNREAD_MAX`] bytes of answers, is closed, and the rank finds it so.
//!
//! A barrier of the job:
//!
//! ```text
//! all ranks of the node wait --arrived()--> reported, with what they put --complete()--> released
//! ```
//!
//! [`PmiServer::arrived`] returns once per barrier; [`PmiServer::complete`] takes what all nodes'
//! ranks put. Values become visible with the barrier after they were put, for all ranks alike, and
//! stay; the table ([`PmiServer::table`]) has those of the last barrier alone. Nothing here blocks.
//!
//! Source of the commands: balaji-2010, section 3, and the wire protocol of MPICH's `simple` PMI.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use mica_bootstrap::NodeTable;
use mica_bootstrap::pmi1::message::{MessageError, MessageLines, Pmi1Message};
use mica_bootstrap::pmi1::value_table;
use mica_node::sealed_file;

use crate::link::messages::KvsEntries;

/// The longest key and value that ranks may put, in bytes, as in Hydra: other libraries size their
/// buffers for these.
const KEY_MAX: usize = 64;
const VALUE_MAX: usize = 1024;
/// The limits that are announced to ranks.
const MAXES: [(&str, usize); 3] =
    [("kvsname_max", 256), ("keylen_max", KEY_MAX), ("vallen_max", VALUE_MAX)];
/// Bytes of answers kept for a rank that does not read them.
const UNREAD_MAX: usize = 1 << 20;
/// Bytes of keys and values that a rank may put in all. They are kept until the job ends, by every
/// node; ranks publish some hundred bytes, and 10,000 with many interfaces.
const PUTS_MAX: usize = 256 << 10;

/// Progress of a rank in PMI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PmiProgress {
    /// It has sent nothing.
    Silent,
    /// It has sent `init`.
    Initialized,
    /// It has sent `finalize`.
    Finalized,
}

/// The values that ranks can read, and the sockets to the ranks.
#[derive(Default)]
pub struct PmiServer {
    size: u32,
    /// Ranks on this node.
    members: usize,
    name: String,
    values: BTreeMap<String, String>,
    /// What all ranks put before the last barrier, as a file, once a rank has asked for it.
    table: Option<OwnedFd>,
    /// The keys of that.
    fresh: Vec<String>,
    /// Put since the last barrier.
    puts: KvsEntries,
    clients: Vec<PmiSocket>,
    /// How many of them wait in the barrier.
    waiting: usize,
    /// Those that have not taken all their answers.
    behind: BTreeSet<usize>,
    /// The node's arrival at the present barrier was reported.
    reported: bool,
}

struct PmiSocket {
    socket: UnixStream,
    appnum: u32,
    lines: MessageLines,
    unsent: Vec<u8>,
    /// Bytes of what it has put.
    put_bytes: usize,
    progress: PmiProgress,
    waits: bool,
    open: bool,
    /// It called abort, with this code.
    aborted: Option<i32>,
}

impl PmiServer {
    /// A manager for the `members` ranks on this node of a job of `size`. All nodes' managers must
    /// give it the same name: ranks name shared objects after it.
    pub fn new(size: u32, name: &str, members: usize) -> PmiServer {
        let mut values = BTreeMap::new();
        // Other libraries ask for it.
        if size as usize == members {
            // One block of one node, beginning with node 0, with all ranks.
            values.insert("PMI_process_mapping".to_owned(), format!("(vector,(0,1,{size}))"));
        }
        PmiServer { size, members, name: name.to_owned(), values, ..PmiServer::default() }
    }

    /// Stores the placement of the job for ranks of Mica.
    pub fn store_nodes(&mut self, nodes: &NodeTable) {
        self.values.extend(nodes.values(VALUE_MAX));
    }

    /// Adds the node's next rank and returns the rank's end of the connection, to be inherited.
    pub fn add(&mut self, appnum: u32) -> io::Result<UnixStream> {
        let (client, theirs) = PmiSocket::new(appnum)?;
        self.clients.push(client);
        Ok(theirs)
    }

    /// Gives the rank with this number on the node a new connection in place of one that did not
    /// reach its program. `None`: the program has used the old one.
    pub fn replace(&mut self, index: usize) -> io::Result<Option<UnixStream>> {
        // A rank that is not started yet has no connection to replace.
        let Some(client) = self.clients.get_mut(index) else { return Ok(None) };
        if client.progress != PmiProgress::Silent {
            return Ok(None);
        }
        let (fresh, theirs) = PmiSocket::new(client.appnum)?;
        *client = fresh;
        Ok(Some(theirs))
    }

    /// The progress of the rank with this number on the node.
    pub fn progress(&self, index: usize) -> PmiProgress {
        self.clients.get(index).map_or(PmiProgress::Silent, |client| client.progress)
    }

    /// The connection of the rank with this number on the node, if it is open.
    pub fn fd(&self, index: usize) -> Option<BorrowedFd<'_>> {
        let client = self.clients.get(index).filter(|client| client.open);
        client.map(|client| client.socket.as_fd())
    }

    /// The connection of the rank with this number on the node, if it is used no more.
    pub fn closed_fd(&self, index: usize) -> Option<BorrowedFd<'_>> {
        let client = self.clients.get(index).filter(|client| !client.open);
        client.map(|client| client.socket.as_fd())
    }

    /// Whether the rank with this number on the node waits in a barrier.
    pub fn is_waiting(&self, index: usize) -> bool {
        self.clients.get(index).is_some_and(|client| client.waits)
    }

    /// The connections on which something is to be sent that they did not take.
    pub fn unsent(&self) -> impl Iterator<Item = (usize, BorrowedFd<'_>)> {
        self.behind.iter().filter_map(|&index| Some((index, self.fd(index)?)))
    }

    fn flush(&mut self, index: usize) {
        let client = &mut self.clients[index];
        client.flush();
        match client.open && !client.unsent.is_empty() {
            true => self.behind.insert(index),
            false => self.behind.remove(&index),
        };
    }

    /// Serves the rank with this number on the node.
    pub fn serve(&mut self, index: usize) {
        let mut buffer = [0; 16384];
        let client = &mut self.clients[index];
        match client.socket.read(&mut buffer) {
            Ok(read) if read > 0 => client.lines.push(&buffer[..read]),
            Err(error) if is_temporary(&error) => {}
            _ => client.open = false,
        }
        loop {
            match self.clients[index].lines.next_message() {
                Ok(Some(message)) => {
                    let answer = self.answer(index, &message);
                    let answer = answer.unwrap_or_else(|error| refusal(&message, &error));
                    if let Some(answer) = answer {
                        self.clients[index].send(&answer);
                    }
                }
                Ok(None) => break,
                // Not PMI-1: the rank finds its connection closed, instead of waiting for an
                // answer.
                Err(_) => {
                    self.clients[index].open = false;
                    break;
                }
            }
        }
        self.flush(index);
        if !self.clients[index].open {
            let _ = self.clients[index].socket.shutdown(std::net::Shutdown::Both);
        }
    }

    /// The answer to a message; `None` if there is none yet.
    fn answer(
        &mut self,
        index: usize,
        message: &Pmi1Message,
    ) -> Result<Option<Pmi1Message>, MessageError> {
        let done = |command: &str| Pmi1Message::new(command).with("rc", 0);
        let client = &mut self.clients[index];
        let answer = match message.command() {
            "init" => {
                let version: u32 = message.number("pmi_version")?;
                let rc = if version == 1 { 0 } else { -1 };
                client.progress = PmiProgress::Initialized;
                Pmi1Message::new("response_to_init")
                    .with("pmi_version", 1)
                    .with("pmi_subversion", 1)
                    .with("rc", rc)
            }
            "get_maxes" => {
                MAXES.iter().fold(done("maxes"), |m, (name, value)| m.with(*name, value))
            }
            "get_my_kvsname" => done("my_kvsname").with("kvsname", &self.name),
            "get_appnum" => done("appnum").with("appnum", client.appnum),
            "get_universe_size" => done("universe_size").with("size", self.size),
            "put" => {
                let (key, value) = (message.text("key")?, message.text("value")?);
                let total = client.put_bytes + key.len() + value.len();
                match put_refusal(key, value, total) {
                    None => {
                        client.put_bytes = total;
                        self.puts.push((key.to_owned(), value.to_owned()));
                        done("put_result").with("msg", "success")
                    }
                    Some(reason) => {
                        Pmi1Message::new("put_result").with("rc", -1).with("msg", reason)
                    }
                }
            }
            "get" => match self.values.get(message.text("key")?) {
                Some(value) => done("get_result").with("msg", "success").with("value", value),
                None => Pmi1Message::new("get_result")
                    .with("rc", -1)
                    .with("msg", "key_not_found")
                    .with("value", "unknown"),
            },
            "barrier_in" => {
                self.waiting += usize::from(!std::mem::replace(&mut client.waits, true));
                return Ok(None);
            }
            "finalize" => {
                client.progress = PmiProgress::Finalized;
                done("finalize_ack")
            }
            "abort" => {
                client.aborted = Some(message.number("exitcode").unwrap_or(1));
                return Ok(None);
            }
            _ => Pmi1Message::new(format!("{}_result", message.command()))
                .with("rc", -1)
                .with("msg", "unknown_command"),
        };
        Ok(Some(answer))
    }

    /// What the node's ranks put since the last barrier, when all of them have entered the next
    /// one. Returned once per barrier.
    pub fn arrived(&mut self) -> Option<KvsEntries> {
        let all = !self.reported && self.waiting == self.members;
        all.then(|| {
            self.reported = true;
            std::mem::take(&mut self.puts)
        })
    }

    /// All ranks of the job are in the barrier and have put this: releases the node's ranks.
    pub fn complete(&mut self, puts: KvsEntries) {
        self.table = None;
        self.fresh = puts.iter().map(|(key, _)| key.clone()).collect();
        self.values.extend(puts);
        self.reported = false;
        self.waiting = 0;
        for index in 0..self.clients.len() {
            let client = &mut self.clients[index];
            if std::mem::take(&mut client.waits) {
                client.send(&Pmi1Message::new("barrier_out").with("rc", 0));
                self.flush(index);
            }
        }
    }

    /// What all ranks put before the last barrier, as a file that cannot be changed: one for all
    /// ranks of the node, so that none has to ask for the value of each other.
    pub fn table(&mut self) -> io::Result<OwnedFd> {
        if self.table.is_none() {
            let values = self.fresh.iter().map(|key| (key.as_str(), self.values[key].as_str()));
            self.table = Some(sealed_file::create(&value_table::write(values, self.size))?);
        }
        match &self.table {
            Some(table) => table.try_clone(),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// The code with which this rank asked to abort the job, if it did.
    pub fn aborted(&self, index: usize) -> Option<i32> {
        self.clients.get(index)?.aborted
    }
}

/// The answer to a message that lacks a key.
fn refusal(message: &Pmi1Message, error: &MessageError) -> Option<Pmi1Message> {
    let text: String =
        error.to_string().chars().map(|c| if c.is_whitespace() { '_' } else { c }).collect();
    Some(Pmi1Message::new(format!("{}_result", message.command())).with("rc", -1).with("msg", text))
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

impl PmiSocket {
    /// A connection, and its other end.
    fn new(appnum: u32) -> io::Result<(PmiSocket, UnixStream)> {
        let (socket, theirs) = UnixStream::pair()?;
        socket.set_nonblocking(true)?;
        let client = PmiSocket {
            socket,
            appnum,
            lines: MessageLines::new(),
            unsent: Vec::new(),
            put_bytes: 0,
            progress: PmiProgress::Silent,
            waits: false,
            open: true,
            aborted: None,
        };
        Ok((client, theirs))
    }

    fn send(&mut self, message: &Pmi1Message) {
        match message.to_line() {
            Ok(line) if self.unsent.len() < UNREAD_MAX => {
                self.unsent.extend_from_slice(line.as_bytes());
            }
            _ => self.open = false,
        }
    }

    fn flush(&mut self) {
        while !self.unsent.is_empty() {
            match self.socket.write(&self.unsent) {
                Ok(written) => drop(self.unsent.drain(..written)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.open = false;
                    return;
                }
            }
        }
    }
}

/// Why a rank may not put this, in one word, if it has put `total` bytes with it; `None` if it may.
fn put_refusal(key: &str, value: &str, total: usize) -> Option<String> {
    if total > PUTS_MAX {
        return Some(format!("puts_of_a_rank_exceed_{PUTS_MAX}_bytes"));
    }
    if key.len() > KEY_MAX {
        Some(format!("key_of_{}_bytes_exceeds_{KEY_MAX}", key.len()))
    } else if value.len() > VALUE_MAX {
        Some(format!("value_of_{}_bytes_exceeds_{VALUE_MAX}", value.len()))
    } else {
        None
    }
}

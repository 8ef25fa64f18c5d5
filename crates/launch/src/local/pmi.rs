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
            let mapping = format!("(vector,(0,1,{size}))");
            values.insert("PMI_process_mapping".to_owned(), mapping);
        }
        PmiServer {
            size,
            members,
            name: name.to_owned(),
            values,
            table: None,
            fresh: Vec::new(),
            puts: Vec::new(),
            clients: Vec::new(),
            waiting: 0,
            behind: BTreeSet::new(),
            reported: false,
        }
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
        let Some(client) = self.clients.get_mut(index) else {
            return Ok(None);
        };
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
        let behind = self.behind.iter();
        behind.filter_map(|&index| Some((index, self.fd(index)?)))
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
            let fresh = self.fresh.iter();
            let values = fresh.map(|key| (key.as_str(), self.values[key].as_str()));
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
    let answer = Pmi1Message::new(format!("{}_result", message.command()));
    Some(answer.with("rc", -1).with("msg", text))
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

#[cfg(test)]
mod tests {
    use super::*;
    use mica_bootstrap::pmi1::value_table::ValueTable;
    use mica_node::sealed_file::SealedFile;

    struct PmiRank(UnixStream);

    impl PmiRank {
        fn say(&mut self, line: &str) {
            self.0.write_all(format!("{line}\n").as_bytes()).unwrap();
        }

        fn receive(&mut self) -> String {
            let mut line = Vec::new();
            let mut byte = [0];
            while byte != *b"\n" {
                self.0.read_exact(&mut byte).unwrap();
                line.push(byte[0]);
            }
            String::from_utf8(line).unwrap().trim_end().to_owned()
        }
    }

    fn ask(server: &mut PmiServer, rank: &mut PmiRank, index: usize, line: &str) -> String {
        rank.say(line);
        server.serve(index);
        rank.receive()
    }

    #[test]
    fn what_ranks_ask() {
        let mut server = PmiServer::new(5, "kvs_1", 1);
        let mut rank = PmiRank(server.add(3).unwrap());
        let mut asked = |line| ask(&mut server, &mut rank, 0, line);
        assert_eq!(
            asked("cmd=init pmi_version=1 pmi_subversion=1"),
            "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0"
        );
        assert!(asked("cmd=init pmi_version=2 pmi_subversion=0").ends_with("rc=-1"));
        assert_eq!(
            asked("cmd=get_maxes"),
            "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024"
        );
        assert_eq!(asked("cmd=get_appnum"), "cmd=appnum rc=0 appnum=3");
        assert_eq!(asked("cmd=get_universe_size"), "cmd=universe_size rc=0 size=5");
        assert_eq!(asked("cmd=get_my_kvsname"), "cmd=my_kvsname rc=0 kvsname=kvs_1");
        assert!(asked("cmd=get kvsname=k").contains("rc=-1"), "no key");
        assert!(asked("cmd=lookup_name service=x").starts_with("cmd=lookup_name_result rc=-1"));
        assert_eq!(asked("cmd=finalize"), "cmd=finalize_ack rc=0");
    }

    #[test]
    fn a_put_beyond_the_limits_is_refused() {
        let mut server = PmiServer::new(1, "kvs_1", 1);
        let mut rank = PmiRank(server.add(0).unwrap());
        let mut put = |key: usize, value: usize| {
            let (key, value) = ("k".repeat(key), "v".repeat(value));
            let line = format!("cmd=put kvsname=k key={key} value={value}");
            ask(&mut server, &mut rank, 0, &line)
        };
        assert_eq!(put(64, 1024), "cmd=put_result rc=0 msg=success");
        let refused = |reason| format!("cmd=put_result rc=-1 msg={reason}");
        assert_eq!(put(65, 1), refused("key_of_65_bytes_exceeds_64"));
        assert_eq!(put(1, 1025), refused("value_of_1025_bytes_exceeds_1024"));
        rank.say("cmd=barrier_in");
        server.serve(0);
        assert_eq!(server.arrived().unwrap().len(), 1, "the first alone is kept");
    }

    #[test]
    fn the_puts_of_a_rank_are_bounded_in_all() {
        let mut server = PmiServer::new(2, "kvs_1", 2);
        let mut ranks = [0, 0].map(|appnum| PmiRank(server.add(appnum).unwrap()));
        let value = "v".repeat(VALUE_MAX);
        let line = |number: usize| format!("cmd=put kvsname=k key={number} value={value}");
        let put = |server: &mut PmiServer, rank: &mut PmiRank, number| {
            ask(server, rank, 0, &line(number)).contains("rc=0")
        };
        let accepted = (0..PUTS_MAX).take_while(|&n| put(&mut server, &mut ranks[0], n)).count();
        assert!((PUTS_MAX / (VALUE_MAX + 8)..=PUTS_MAX / VALUE_MAX).contains(&accepted));
        let other = ask(&mut server, &mut ranks[1], 1, &line(0));
        assert!(other.contains("rc=0"), "the bound is each rank's own: {other}");
    }

    #[test]
    fn values_are_there_after_the_barrier() {
        let mut server = PmiServer::new(3, "kvs_1", 2);
        let mut ranks = [0, 0].map(|appnum| PmiRank(server.add(appnum).unwrap()));
        let put = ask(&mut server, &mut ranks[0], 0, "cmd=put kvsname=k key=a value=x=y");
        assert_eq!(put, "cmd=put_result rc=0 msg=success");
        let get = "cmd=get kvsname=k key=a";
        assert!(ask(&mut server, &mut ranks[0], 0, get).contains("rc=-1"));
        ranks[0].say("cmd=barrier_in");
        server.serve(0);
        assert_eq!(server.arrived(), None);
        ranks[1].say("cmd=barrier_in");
        server.serve(1);
        let mut puts = server.arrived().unwrap();
        assert_eq!(puts, [("a".to_owned(), "x=y".to_owned())]);
        assert_eq!(server.arrived(), None, "announced once");
        puts.push(("b".into(), "elsewhere".into()));
        server.complete(puts);
        for (index, rank) in ranks.iter_mut().enumerate() {
            assert_eq!(rank.receive(), "cmd=barrier_out rc=0");
            let value = ask(&mut server, rank, index, get);
            assert_eq!(value, "cmd=get_result rc=0 msg=success value=x=y");
            assert!(ask(&mut server, rank, index, "cmd=get key=b").ends_with("value=elsewhere"));
        }
        assert_eq!(server.arrived(), None, "no rank is in the next barrier");
    }

    #[test]
    fn the_table_has_what_all_put_before_the_last_barrier() {
        let mut server = PmiServer::new(2, "kvs_1", 1);
        let _rank = server.add(0).unwrap();
        let table = |server: &mut PmiServer| {
            let file = server.table().unwrap();
            ValueTable::new(SealedFile::map(file.as_fd()).expect("sealed"))
        };
        server.complete(vec![
            ("mica-0-k".into(), "1:a/0".into()),
            ("mica-1-k".into(), "1:a/1".into()),
            ("b".into(), "x=y".into()),
        ]);
        for _ in 0..2 {
            let table = table(&mut server);
            assert_eq!(table.get("mica-1-k"), Some("1:a/1"));
            assert_eq!(table.get("b"), Some("x=y"));
            assert_eq!(table.get("mica-all-k"), Some("a"));
        }
        server.complete(vec![("c".into(), "2".into())]);
        let table = table(&mut server);
        assert_eq!((table.get("c"), table.get("b")), (Some("2"), None));
    }

    #[test]
    fn a_barrier_waits_for_ranks_that_are_not_started_yet() {
        let mut server = PmiServer::new(2, "kvs_1", 2);
        let mut first = PmiRank(server.add(0).unwrap());
        assert!(!server.is_waiting(0));
        first.say("cmd=barrier_in");
        server.serve(0);
        assert!(server.is_waiting(0) && !server.is_waiting(1));
        assert_eq!(server.arrived(), None);
        assert!(server.replace(1).unwrap().is_none(), "it has no connection");
        let mut second = PmiRank(server.add(0).unwrap());
        assert_eq!(server.arrived(), None);
        second.say("cmd=barrier_in");
        server.serve(1);
        assert_eq!(server.arrived(), Some(Vec::new()));
    }

    #[test]
    fn aborts_and_nonsense() {
        let mut server = PmiServer::new(2, "kvs_1", 2);
        let mut rank = PmiRank(server.add(0).unwrap());
        rank.say("cmd=abort exitcode=7");
        server.serve(0);
        assert_eq!(server.aborted(0), Some(7));
        let mut other = PmiRank(server.add(0).unwrap());
        other.say("mcmd=spawn");
        server.serve(1);
        assert_eq!(other.0.read(&mut [0; 8]).unwrap(), 0, "closed");
        assert!(server.fd(0).is_some() && server.fd(1).is_none());
    }
}

//! Launchers for tests: threads that serve PMI-1 or PMI-2 over socket pairs, well or badly.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use mica_node::launcher_socket::LauncherSocket;

use crate::ProcessManager;
use crate::pmi1::Pmi1;
use crate::pmi1::message::{MessageLines, Pmi1Message};
use crate::pmi2::Pmi2;
use crate::pmi2::message::{Frames, to_frame};

/// What all ranks of a job share.
struct FakeJob {
    values: Mutex<HashMap<String, String>>,
    barrier: Barrier,
    size: u32,
    value_max: usize,
}

fn job(size: u32, value_max: usize) -> Arc<FakeJob> {
    Arc::new(FakeJob {
        values: Mutex::default(),
        barrier: Barrier::new(size as usize),
        size,
        value_max,
    })
}

fn pair() -> (LauncherSocket, UnixStream) {
    let (client, server) = UnixStream::pair().expect("a pair");
    (LauncherSocket::from(OwnedFd::from(client)), server)
}

/// Every rank's connection to a launcher that speaks PMI-1, with values of `value_max` bytes at
/// most.
pub(crate) fn pmi1(size: u32, value_max: usize) -> Vec<Box<dyn ProcessManager>> {
    let job = job(size, value_max);
    let connect = |rank| -> Box<dyn ProcessManager> {
        let (socket, server) = pair();
        let job = Arc::clone(&job);
        thread::spawn(move || serve_lines(server, &job));
        Box::new(Pmi1::connect(socket, rank, size).expect("the launcher answers"))
    };
    (0..size).map(connect).collect()
}

/// The same in PMI-2.
pub(crate) fn pmi2(size: u32) -> Vec<Box<dyn ProcessManager>> {
    let job = job(size, 1024);
    let connect = |rank| -> Box<dyn ProcessManager> {
        let (socket, server) = pair();
        let job = Arc::clone(&job);
        thread::spawn(move || serve_frames(server, &job, rank));
        Box::new(Pmi2::connect(socket, rank, Some("job;1")).expect("the launcher answers"))
    };
    (0..size).map(connect).collect()
}

fn serve_lines(mut stream: UnixStream, job: &FakeJob) {
    let mut lines = MessageLines::new();
    let mut bytes = [0; 700];
    while let Ok(n @ 1..) = stream.read(&mut bytes) {
        lines.push(&bytes[..n]);
        while let Some(request) = lines.next_message().expect("a client of PMI-1") {
            let Some(answer) = answer_line(&request, job) else {
                return;
            };
            // In two pieces: the client must put them together.
            let line = answer.to_line().expect("words");
            let (head, tail) = line.as_bytes().split_at(line.len() / 2);
            if [head, tail].iter().any(|part| stream.write_all(part).is_err()) {
                return;
            }
        }
    }
}

/// `None`: the client has aborted.
fn answer_line(request: &Pmi1Message, job: &FakeJob) -> Option<Pmi1Message> {
    let values = || job.values.lock().expect("no panic");
    let field = |key| request.get(key).unwrap_or_else(|| panic!("{key} in {request:?}"));
    Some(match request.command() {
        "init" => Pmi1Message::new("response_to_init").with("rc", 0).with("pmi_version", 1),
        "get_maxes" => {
            let maxes = Pmi1Message::new("maxes").with("kvsname_max", 256);
            maxes.with("keylen_max", 64).with("vallen_max", job.value_max)
        }
        "get_appnum" => Pmi1Message::new("appnum").with("appnum", 3),
        "get_universe_size" => Pmi1Message::new("universe_size").with("size", -1),
        "get_my_kvsname" => Pmi1Message::new("my_kvsname").with("kvsname", "kvs_0"),
        "put" => {
            let (key, value) = (field("key"), field("value"));
            assert!(key.len() < 64 && value.len() < job.value_max, "{request:?}");
            values().insert(key.to_owned(), value.to_owned());
            Pmi1Message::new("put_result").with("rc", 0).with("msg", "success")
        }
        "barrier_in" => {
            job.barrier.wait();
            Pmi1Message::new("barrier_out")
        }
        "get" => match values().get(field("key")) {
            Some(value) => Pmi1Message::new("get_result").with("rc", 0).with("value", value),
            None => Pmi1Message::new("get_result").with("rc", -1).with("msg", "key_not_found"),
        },
        "finalize" => Pmi1Message::new("finalize_ack"),
        "abort" => return None,
        other => panic!("unexpected request {other}"),
    })
}

fn serve_frames(mut stream: UnixStream, job: &FakeJob, rank: u32) {
    let mut line = Vec::new();
    let mut byte = [0];
    while line.last() != Some(&b'\n') {
        stream.read_exact(&mut byte).expect("a greeting");
        line.push(byte[0]);
    }
    assert_eq!(line, b"cmd=init pmi_version=2 pmi_subversion=0\n");
    let greeting = b"cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n";
    stream.write_all(greeting).expect("a client");
    let mut frames = Frames::new();
    let mut bytes = [0; 700];
    while let Ok(n @ 1..) = stream.read(&mut bytes) {
        frames.push(&bytes[..n]);
        while let Some(request) = frames.next_message().expect("a client of PMI-2") {
            let Some(answer) = answer_frame(&request, job, rank) else {
                return;
            };
            let frame = to_frame(&answer).expect("words");
            let (head, tail) = frame.split_at(3);
            if [head, tail].iter().any(|part| stream.write_all(part).is_err()) {
                return;
            }
        }
    }
}

fn answer_frame(request: &Pmi1Message, job: &FakeJob, rank: u32) -> Option<Pmi1Message> {
    let values = || job.values.lock().expect("no panic");
    let field = |key| request.get(key).unwrap_or_else(|| panic!("{key} in {request:?}"));
    let name = format!("{}-response", request.command());
    let well = |name: &str| Pmi1Message::new(name).with("rc", 0);
    Some(match request.command() {
        "fullinit" => {
            assert_eq!(field("pmijobid"), "job;1");
            let answer = well(&name).with("rank", rank).with("size", job.size);
            answer.with("appnum", -1)
        }
        "job-getid" => well(&name).with("jobid", "job;1"),
        "info-getjobattr" => well(&name).with("found", "TRUE").with("value", 8),
        "kvs-put" => {
            let (key, value) = (field("key"), field("value"));
            assert!(key.len() < 64 && value.len() < job.value_max, "{request:?}");
            values().insert(key.to_owned(), value.to_owned());
            well(&name)
        }
        "kvs-fence" => {
            job.barrier.wait();
            well(&name)
        }
        "kvs-get" => match values().get(field("key")) {
            Some(value) => well(&name).with("found", "TRUE").with("value", value),
            None => well(&name).with("found", "FALSE"),
        },
        "finalize" => well(&name),
        "abort" => return None,
        other => panic!("unexpected request {other}"),
    })
}

/// A launcher that answers the client's first words with these bytes, whatever they are, and goes
/// away.
pub(crate) fn saying(answers: &'static [&'static [u8]]) -> LauncherSocket {
    let (socket, mut server) = pair();
    thread::spawn(move || {
        for answer in answers {
            let mut bytes = [0; 4096];
            if !matches!(server.read(&mut bytes), Ok(1..)) || server.write_all(answer).is_err() {
                return;
            }
        }
    });
    socket
}

//! Ports, by which the roots of two groups find each other (MPI 5.0, 11.9).
//!
//! A port is a rank of the job and a tag, and its name says so. The root that connects sends a call
//! there and gets an answer:
//!
//! ```text
//! root that connects                          root that accepts
//!   call: own rank, tag for the answer   ->   any source, the port's tag
//!                                        <-   accepted, or refused
//!   contexts and groups                 <->   as in MPI_Intercomm_create
//! ```
//!
//! A process lists its open ports in its part of the segment, so that a call to one that is closed
//! is an error at once. A port that is closed refuses the calls that wait there.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use mica_collective::members::Members;
use mica_memory::{Block, Shape};
use mica_protocol::{Engine, MatchPattern, SendCompletion};

use super::connections::Coming;
use crate::comm::{Comm, RemoteLeader};
use crate::constants as c;
use crate::error::{Error, Result};
use crate::group::Group;
use crate::numbers::{to_bytes, to_numbers};
use crate::process;
use crate::world;

/// Context of calls. Its place for a leader's rank has a number that no process has.
const CALLS: u64 = 0xff_fffe << 40;
/// Context of answers, and of what the roots say afterwards.
const ANSWERS: u64 = CALLS + 2;

/// The answers.
const ACCEPTED: u64 = 1;
const REFUSED: u64 = 0;

/// Tags of ports and of answers, so that each is used once.
static NEXT_TAG: AtomicU32 = AtomicU32::new(1);

/// Bits of a tag that count; those above say which holder of the rank's number it was.
const TAG_BITS: u32 = 20;

/// A place where a process can be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CallPort {
    /// The process's rank in the job.
    pub rank: u32,
    /// Tag of the calls.
    pub tag: u32,
}

/// A tag that this process has not used.
pub(super) fn fresh_tag(engine: &Engine) -> u32 {
    // Relaxed: only the number matters.
    let count = NEXT_TAG.fetch_add(1, Ordering::Relaxed) & ((1 << TAG_BITS) - 1);
    (engine.world().generation & 0x7ff) << TAG_BITS | count
}

impl CallPort {
    /// Opens a port of this process.
    fn open(engine: &Engine) -> Result<CallPort> {
        let port = CallPort { rank: engine.rank(), tag: fresh_tag(engine) };
        if engine.open_port(port.tag) {
            return Ok(port);
        }
        let detail = "this process has as many open ports as it can have; close one";
        Err(Error::other(c::ERR_OTHER, detail))
    }

    fn name(self, engine: &Engine) -> String {
        format!("mica:{}:{}:{}", engine.segment_identity(), self.rank, self.tag)
    }

    fn named(name: &str, engine: &Engine) -> Result<CallPort> {
        let refuse = |reason| Err(wrong_port(name, reason));
        let parts = name.strip_prefix("mica:").and_then(|rest| {
            let (rest, tag) = rest.rsplit_once(':')?;
            let (job, rank) = rest.rsplit_once(':')?;
            Some((job, CallPort { rank: rank.parse().ok()?, tag: tag.parse().ok()? }))
        });
        let Some((job, port)) = parts else {
            return refuse("this is not the name of a port of Mica");
        };
        if job != engine.segment_identity() {
            return refuse(
                "the port belongs to another job, or to another node of it; only processes of one \
                 job on one node can be connected",
            );
        }
        match engine.is_open_port(port.rank, port.tag) {
            true => Ok(port),
            false => refuse("the port is closed"),
        }
    }
}

fn wrong_port(name: &str, reason: &str) -> Error {
    Error::argument(c::ERR_PORT, "port_name", format!("{name:?}"), reason)
}

/// `MPI_Open_port`: the name of a new port of this process.
pub fn open_port() -> Result<String> {
    let engine = process::engine()?;
    Ok(CallPort::open(engine)?.name(engine))
}

/// `MPI_Close_port`: from now on a call there is an error.
pub fn close_port(name: &str) -> Result<()> {
    let engine = process::engine()?;
    let port = own_port(name, engine)?;
    engine.close_port(port.tag);
    let calls = MatchPattern { context: CALLS, source: None, tag: Some(port.tag as i32) };
    while engine.has_arrived(&calls)? {
        let (caller, answer) = take_call(engine, calls)?;
        send(engine, caller, ANSWERS, answer, &[REFUSED])?;
    }
    Ok(())
}

fn own_port(name: &str, engine: &Engine) -> Result<CallPort> {
    let port = CallPort::named(name, engine)?;
    if port.rank == engine.rank() {
        return Ok(port);
    }
    Err(wrong_port(name, "this process has not opened it"))
}

/// `MPI_Comm_accept`, collective over `comm`; the name is significant only at `root`. Blocks until
/// a group connects.
pub fn accept(name: impl FnOnce() -> Result<String>, root: i32, comm: &Comm) -> Result<Comm> {
    comm.introduce_at(root, || {
        let engine = process::engine()?;
        let port = own_port(&name()?, engine)?;
        answer_call(engine, port.tag, comm, || Ok(()))
    })
}

/// `MPI_Comm_connect`, collective over `comm`; the name is significant only at `root`. Blocks until
/// the other side accepts.
pub fn connect(name: impl FnOnce() -> Result<String>, root: i32, comm: &Comm) -> Result<Comm> {
    comm.introduce_at(root, || {
        let engine = process::engine()?;
        let name = name()?;
        engine.meet_worlds()?;
        let port = CallPort::named(&name, engine)?;
        if port.rank == engine.rank() {
            return Err(wrong_port(&name, "this process has opened it itself"));
        }
        call(engine, port, comm)
    })
}

/// Waits for a call at this process's port and answers it. `check` is called from time to time and
/// may end the wait.
pub(super) fn answer_call(
    engine: &'static Engine,
    tag: u32,
    comm: &Comm,
    check: impl FnMut() -> Result<()>,
) -> Result<RemoteLeader> {
    let calls = MatchPattern { context: CALLS, source: None, tag: Some(tag as i32) };
    engine.await_call(calls, check)??;
    let (caller, answer) = take_call(engine, calls)?;
    let coming = Coming::with(engine, caller);
    send(engine, caller, ANSWERS, answer, &[ACCEPTED])?;
    exchange_groups(coming, engine, (caller, answer), comm)
}

/// Calls a port, and waits until it is answered.
pub(super) fn call(engine: &'static Engine, port: CallPort, comm: &Comm) -> Result<RemoteLeader> {
    let answer = fresh_tag(engine);
    let coming = Coming::with(engine, port.rank);
    send(engine, port.rank, CALLS, port.tag, &[u64::from(engine.rank()), u64::from(answer)])?;
    let pattern =
        MatchPattern { context: ANSWERS, source: Some(port.rank), tag: Some(answer as i32) };
    match receive(engine, pattern)? {
        [ACCEPTED] => exchange_groups(coming, engine, (port.rank, answer), comm),
        _ => Err(Error::other(c::ERR_PORT, "the port was closed before the call was accepted")),
    }
}

fn take_call(engine: &Engine, calls: MatchPattern) -> Result<(u32, u32)> {
    let [caller, answer] = receive(engine, calls)?;
    Ok((caller as u32, answer as u32))
}

/// The two roots exchange contexts and groups.
fn exchange_groups(
    coming: Coming,
    engine: &Engine,
    (other, tag): (u32, u32),
    comm: &Comm,
) -> Result<RemoteLeader> {
    let me = engine.rank();
    let roots = Group::from_ranks(vec![me.min(other), me.max(other)]);
    let via = Members::intra(ANSWERS, roots, me, 0..0);
    let met = comm.meet_over(&via, usize::from(me < other), tag as i32)?;
    Ok(met.with(coming))
}

fn send(engine: &Engine, peer: u32, context: u64, tag: u32, numbers: &[u64]) -> Result<()> {
    let bytes = to_bytes(numbers);
    let region = Block::allocate(bytes.len())?;
    region.write_bytes(&bytes);
    let view = region.view(Shape::Contiguous { bytes: bytes.len() });
    Ok(engine.send(peer, context, tag as i32, &view, SendCompletion::Local)?)
}

fn receive<const N: usize>(engine: &Engine, pattern: MatchPattern) -> Result<[u64; N]> {
    let region = Block::allocate(8 * N)?;
    let view = region.offset(0).view(Shape::Contiguous { bytes: 8 * N });
    engine.receive(pattern, &view)?;
    let mut bytes = vec![0; 8 * N];
    region.read_bytes(&mut bytes);
    let numbers = to_numbers(&bytes);
    Ok(std::array::from_fn(|i| numbers[i]))
}

/// Bytes that the two processes of [`join`] exchange: a port's name, filled up with zeros.
const JOIN_BYTES: usize = 128;

/// Interval of looks at a socket that does not block, for the moment in which the other process
/// calls this as well.
const SOCKET_LOOK: Duration = Duration::from_millis(1);

/// `MPI_Comm_join`: an inter-communicator of this process and the one at the other end of `socket`,
/// which calls this at the same time. Blocks.
pub fn join(socket: OwnedFd) -> Result<Comm> {
    let engine = process::engine()?;
    let own = CallPort::open(engine)?;
    let joined = join_by(engine, own, &mut File::from(socket));
    engine.close_port(own.tag);
    joined
}

fn join_by(engine: &'static Engine, own: CallPort, socket: &mut File) -> Result<Comm> {
    let failed = |error: io::Error| {
        let reason = format!("the other process cannot be reached by it: {error}");
        Error::argument(c::ERR_ARG, "fd", "a socket", reason)
    };
    let mut record = own.name(engine).into_bytes();
    record.resize(JOIN_BYTES, 0);
    patiently(JOIN_BYTES, |at| socket.write(&record[at..])).map_err(failed)?;
    patiently(JOIN_BYTES, |at| socket.read(&mut record[at..])).map_err(failed)?;
    let text = String::from_utf8_lossy(&record).trim_end_matches('\0').to_owned();
    engine.meet_worlds()?;
    let other = CallPort::named(&text, engine)?;
    if other.rank == own.rank {
        let reason = "both ends of the socket are this process's";
        return Err(Error::argument(c::ERR_ARG, "fd", "a socket", reason));
    }
    let myself = world::myself()?;
    myself.introduce_at(0, || match own.rank < other.rank {
        true => answer_call(engine, own.tag, &myself, || Ok(())),
        false => call(engine, other, &myself),
    })
}

/// Calls `step` with the number of bytes that are done, until all are.
fn patiently(bytes: usize, mut step: impl FnMut(usize) -> io::Result<usize>) -> io::Result<()> {
    let mut done = 0;
    while done < bytes {
        match step(done) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(more) => done += more,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                std::thread::sleep(SOCKET_LOOK);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

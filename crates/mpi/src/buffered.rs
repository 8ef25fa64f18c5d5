//! Buffered sends and the buffers they are charged to (MPI 5.0, 3.6).
//!
//! The program attaches buffers to the process, a communicator or a session. A buffered send copies
//! the message into memory of the library, charges its length and `MPI_BSEND_OVERHEAD` to the
//! buffer, and sends the copy in the background; the charge is taken back when the send is
//! complete. The program's memory is never touched: its size only limits how much may be pending at
//! once. `MPI_BUFFER_AUTOMATIC` is a buffer without that limit.
//!
//! A send uses the buffer of its communicator if that has one, else its session's, else the
//! process's.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex};

use mica_memory::View;
use mica_protocol::{EngineState, Pending, SendId, WaitKind, WaitList};

use crate::comm::Comm;
use crate::constants as c;
use crate::error::{Error, Result};
use crate::process;
use crate::pt2pt::{self, Mode};
use crate::request::{Request, RequestOperation};
use crate::status::Status;
use crate::sync::lock;

/// Bytes that a buffered send is charged beside its data. Another ABI has another value of
/// `MPI_BSEND_OVERHEAD`, by which programs choose the size of their buffers. Relaxed: a front end
/// sets it before the program can call anything that reads it.
static OVERHEAD: AtomicI32 = AtomicI32::new(c::BSEND_OVERHEAD as i32);

/// Charges buffered sends at most this many bytes beside their data.
pub fn limit_overhead(bytes: i32) {
    OVERHEAD.fetch_min(bytes, Ordering::Relaxed);
}

/// What a buffer is attached to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BufferOwner {
    /// This process.
    Process,
    /// The communicator with this context.
    Comm(u64),
    /// The session with this handle.
    Session(u32),
}

impl BufferOwner {
    /// A communicator.
    pub fn comm(comm: &Comm) -> BufferOwner {
        BufferOwner::Comm(comm.context())
    }
}

impl fmt::Display for BufferOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BufferOwner::Process => "this process",
            BufferOwner::Comm(_) => "this communicator",
            BufferOwner::Session(_) => "this session",
        })
    }
}

/// An attached buffer. Sends that it was charged for keep it alive.
#[derive(Debug)]
struct AttachedBuffer {
    /// What the program attached: [`detach`] gives it back.
    address: usize,
    size: i64,
    ledger: Mutex<Ledger>,
}

/// The sends pending in a buffer. Locked inside the engine only, or while no other lock is held.
#[derive(Debug, Default)]
struct Ledger {
    used: u64,
    /// Number of the next send.
    next: u64,
    sends: Vec<Charge>,
}

#[derive(Debug)]
struct Charge {
    number: u64,
    bytes: u64,
    send: SendId,
}

static BUFFERS: Mutex<BTreeMap<BufferOwner, Arc<AttachedBuffer>>> = Mutex::new(BTreeMap::new());

impl AttachedBuffer {
    fn is_automatic(&self) -> bool {
        self.address == c::BUFFER_AUTOMATIC
    }

    fn free(&self, ledger: &Ledger) -> u64 {
        match self.is_automatic() {
            true => u64::MAX,
            false => (self.size as u64).saturating_sub(ledger.used),
        }
    }

    /// Reserves `bytes`.
    fn reserve(&self, state: &mut EngineState, bytes: u64) -> Result<()> {
        let mut ledger = lock(&self.ledger);
        ledger.reclaim(state);
        if self.free(&ledger) < bytes {
            drop(ledger);
            state.progress()?;
            ledger = lock(&self.ledger);
            ledger.reclaim(state);
        }
        let free = self.free(&ledger);
        if free < bytes {
            return Err(full(bytes, free, self.size));
        }
        ledger.used += bytes;
        Ok(())
    }

    /// Whether the sends before number `before` are complete.
    fn delivered(&self, state: &mut EngineState, before: u64) -> bool {
        let mut ledger = lock(&self.ledger);
        ledger.reclaim(state);
        ledger.sends.iter().all(|charge| charge.number >= before)
    }

    /// Waits until everything in it is sent.
    fn flush(&self) -> Result<()> {
        let before = lock(&self.ledger).next;
        let waiting = |_: &EngineState, list: &mut WaitList| {
            list.add(Pending {
                name: Some("the messages in an attached buffer to leave".into()),
                ..Pending::of(WaitKind::Send)
            });
        };
        let delivered = |state: &mut EngineState| self.delivered(state, before).then_some(());
        Ok(process::engine()?.drive(waiting, delivered)?)
    }
}

impl Ledger {
    /// Takes back the charges of complete sends.
    fn reclaim(&mut self, state: &mut EngineState) {
        let used = &mut self.used;
        self.sends.retain(|charge| {
            let sent = state.take_send(charge.send).is_some();
            if sent {
                *used -= charge.bytes;
            }
            !sent
        });
    }
}

#[cold]
fn full(needed: u64, free: u64, size: i64) -> Error {
    Error::other(
        c::ERR_BUFFER,
        format!(
            "the attached buffer is full: the message needs {needed} bytes (with \
            MPI_BSEND_OVERHEAD), {free} of {size} are free"
        ),
    )
}

#[cold]
fn none_attached(owner: BufferOwner) -> Error {
    Error::other(c::ERR_BUFFER, format!("no buffer is attached to {owner}"))
}

/// `MPI_Buffer_attach` and its variants. `address` may be `MPI_BUFFER_AUTOMATIC`; `size` is then
/// ignored.
///
/// # Errors
/// `MPI_ERR_BUFFER` when the owner has a buffer already, or for a null buffer that is not empty;
/// `MPI_ERR_ARG` for a negative size.
pub fn attach(owner: BufferOwner, address: usize, size: i64) -> Result<()> {
    process::engine()?;
    if address != c::BUFFER_AUTOMATIC {
        if size < 0 {
            let reason = "a buffer's size is not negative";
            return Err(Error::argument(c::ERR_ARG, "size", size, reason));
        }
        if address == 0 && size > 0 {
            let reason = format!("{size} bytes cannot lie there");
            return Err(Error::argument(c::ERR_BUFFER, "buffer", "NULL", reason));
        }
    }
    let mut buffers = lock(&BUFFERS);
    if buffers.contains_key(&owner) {
        let detail = format!("{owner} has a buffer attached already; detach it first");
        return Err(Error::other(c::ERR_BUFFER, detail));
    }
    let buffer = AttachedBuffer { address, size, ledger: Mutex::default() };
    buffers.insert(owner, Arc::new(buffer));
    Ok(())
}

/// `MPI_Buffer_detach` and its variants: address and size of the buffer, once everything in it has
/// been sent. Blocks.
///
/// # Errors
/// `MPI_ERR_BUFFER` when none is attached; `MPI_ERR_NO_MEM`.
pub fn detach(owner: BufferOwner) -> Result<(usize, i64)> {
    process::engine()?;
    let buffer = lock(&BUFFERS).remove(&owner);
    let buffer = buffer.ok_or_else(|| none_attached(owner))?;
    buffer.flush()?;
    Ok((buffer.address, buffer.size))
}

/// Detaches the buffer of an owner that ends; its pending sends continue.
pub(crate) fn release(owner: BufferOwner) -> Result<()> {
    let Some(buffer) = lock(&BUFFERS).remove(&owner) else {
        return Ok(());
    };
    process::engine()?.enter(|state| {
        for charge in lock(&buffer.ledger).sends.drain(..) {
            state.abandon_send(charge.send);
        }
    });
    Ok(())
}

/// Detaches all buffers: for the end of MPI in this process, which waits for the pending sends.
pub(crate) fn release_all() -> Result<()> {
    let owners: Vec<BufferOwner> = lock(&BUFFERS).keys().copied().collect();
    owners.into_iter().try_for_each(release)
}

fn attached(owner: BufferOwner) -> Result<Arc<AttachedBuffer>> {
    let buffer = lock(&BUFFERS).get(&owner).cloned();
    buffer.ok_or_else(|| none_attached(owner))
}

/// `MPI_Buffer_flush` and its variants: waits until everything in the buffer has been sent. Blocks.
///
/// # Errors
/// `MPI_ERR_BUFFER` when none is attached; `MPI_ERR_NO_MEM`.
pub fn flush(owner: BufferOwner) -> Result<()> {
    process::engine()?;
    attached(owner)?.flush()
}

/// `MPI_Buffer_iflush` and its variants: a request that is complete when everything that is in the
/// buffer now has been sent.
///
/// # Errors
/// `MPI_ERR_BUFFER` when none is attached.
pub fn iflush(owner: BufferOwner) -> Result<Request> {
    process::engine()?;
    let buffer = attached(owner)?;
    let before = lock(&buffer.ledger).next;
    Ok(Request::custom(None, Arc::new(BufferFlush { buffer, before })))
}

#[derive(Debug)]
struct BufferFlush {
    buffer: Arc<AttachedBuffer>,
    before: u64,
}

impl RequestOperation for BufferFlush {
    fn name(&self) -> &'static str {
        "MPI_Buffer_iflush"
    }

    fn poll(&self, state: &mut EngineState) -> Option<(Status, Option<Error>)> {
        self.buffer.delivered(state, self.before).then_some((Status::EMPTY, None))
    }
}

/// The buffer that a send on `comm` uses.
fn buffer_of(comm: &Comm) -> Option<Arc<AttachedBuffer>> {
    let buffers = lock(&BUFFERS);
    let session = Some(comm.session()).filter(|&session| session != c::SESSION_NULL);
    let owners = [
        Some(BufferOwner::comm(comm)),
        session.map(BufferOwner::Session),
        Some(BufferOwner::Process),
    ];
    owners.into_iter().flatten().find_map(|owner| buffers.get(&owner).cloned())
}

/// `MPI_Bsend`: sends a copy in the background.
///
/// # Errors
/// `MPI_ERR_RANK`, `MPI_ERR_TAG`; `MPI_ERR_BUFFER` when no buffer is attached or it has no room;
/// `MPI_ERR_NO_MEM`.
pub fn bsend(comm: &Comm, view: &View, dest: i32, tag: i32) -> Result<()> {
    if pt2pt::destination(comm, dest, tag)?.is_none() {
        return Ok(());
    }
    let bytes = view.len() as u64 + OVERHEAD.load(Ordering::Relaxed) as u64;
    let buffer = buffer_of(comm).ok_or_else(|| {
        let detail = format!("no buffer is attached, and the message needs {bytes} bytes of one");
        Error::other(c::ERR_BUFFER, detail)
    })?;
    let engine = process::engine()?;
    engine.enter(|state| buffer.reserve(state, bytes))?;
    let sent = pt2pt::packed_copy(view)
        .and_then(|copy| pt2pt::start_send(comm, Mode::Standard, &copy, dest, tag));
    let mut ledger = lock(&buffer.ledger);
    match sent {
        Ok(Some(send)) => {
            let number = ledger.next;
            ledger.next += 1;
            ledger.sends.push(Charge { number, bytes, send });
            Ok(())
        }
        Ok(None) => {
            ledger.used -= bytes;
            Ok(())
        }
        Err(error) => {
            ledger.used -= bytes;
            Err(error)
        }
    }
}

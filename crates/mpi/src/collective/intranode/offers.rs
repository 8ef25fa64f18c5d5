//! Buffers that this rank lets others reach, described once for each operation (ma-2011: persistent
//! registration), and others' buffers as this rank reaches them.
//!
//! An operation that copies directly begins with a phase in which ranks put the description of what
//! they send from and of what they receive into in their lines. All who read a line conclude the
//! same from it: whether a buffer can be reached by loads and stores, only by address (the kernel
//! copies), or not at all. Where it cannot, the operation goes on through cells.
//!
//! A copy can still be refused (a seccomp filter that a program sets for itself, for instance). Who
//! cannot copy says so beside the stamp of its next phase ([`OperationSlot::refuse`]), and those
//! whom it concerns go on through cells from there ([`DirectOutcome`]).

use mica_channel::direct::{PeerAccessError, PeerBuffer, PublishedBuffer};
use mica_channel::memory::{Block, Region, View};

use super::group::OperationSlot;
use crate::collective::place::Elements;
use crate::constants as c;
use crate::error::{Error, Result};

/// How an attempt to copy directly has ended.
#[derive(Debug)]
pub enum DirectOutcome {
    /// All is where it belongs.
    Directly,
    /// Cells are to do it, after a phase.
    Not(CellFallback),
}

/// How cells take over.
#[derive(Debug)]
pub struct CellFallback {
    /// The phase that came before.
    pub base: u32,
    /// Where the operation has a root, at the root: the members that need cells; `None`: all.
    pub among: Option<Box<[bool]>>,
    /// This rank's operand, where the buffer that it was in has been overwritten.
    pub operand: Option<Elements>,
}

impl DirectOutcome {
    /// All go on through cells after phase `base`.
    pub fn not(base: u32) -> DirectOutcome {
        DirectOutcome::Not(CellFallback {
            base,
            among: None,
            operand: None,
        })
    }
}

/// What became of this rank's copies: refused ones are told to the others with the next phase,
/// and are no error.
///
/// # Errors
/// All others.
pub fn settle(turn: &OperationSlot<'_>, copies: Result<()>) -> Result<()> {
    match copies {
        Err(Error::Unreachable { .. }) => {
            turn.refuse();
            Ok(())
        }
        other => other,
    }
}

/// How a buffer can be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BufferAccess {
    /// Not at all.
    None = 0,
    /// The kernel copies from and to it.
    ByAddress = 1,
    /// By loads and stores.
    Window = 2,
}

/// A buffer of this rank that is offered; as long as this lives, its pages stay where they are.
#[derive(Debug)]
pub struct OfferedBuffer {
    published: Option<PublishedBuffer>,
    access: BufferAccess,
    /// What was packed, where the buffer itself is not in one piece.
    _staged: Option<Region>,
}

impl OfferedBuffer {
    /// Nothing that could be reached.
    pub const NONE: OfferedBuffer = OfferedBuffer {
        published: None,
        access: BufferAccess::None,
        _staged: None,
    };

    /// No bytes: nobody will want them.
    pub const EMPTY: OfferedBuffer = OfferedBuffer {
        access: BufferAccess::Window,
        ..OfferedBuffer::NONE
    };

    /// `bytes` bytes at `address`. `by_address`: all members may be reached by address.
    pub fn of(
        turn: &OperationSlot<'_>,
        address: usize,
        bytes: usize,
        by_address: bool,
    ) -> OfferedBuffer {
        let Some(reach) = turn.team().reach() else {
            return OfferedBuffer::NONE;
        };
        let published = reach.expose(address, bytes);
        let access = match (published.is_whole(bytes), by_address) {
            (true, _) => BufferAccess::Window,
            (false, true) => BufferAccess::ByAddress,
            (false, false) => BufferAccess::None,
        };
        OfferedBuffer {
            published: Some(published),
            access,
            _staged: None,
        }
    }

    /// A message to be read: where it lies, or packed where it is not in one piece.
    ///
    /// # Errors
    /// When memory for the packed message cannot be had.
    pub fn of_message(
        turn: &OperationSlot<'_>,
        view: &View,
        by_address: bool,
    ) -> Result<OfferedBuffer> {
        if let Some((address, bytes)) = view.as_contiguous() {
            return Ok(OfferedBuffer::of(turn, address, bytes, by_address));
        }
        let staged = Block::allocate(view.len())?;
        view.pack_to(0, &staged, view.len());
        let offer = OfferedBuffer::of(turn, staged.address(), view.len(), by_address);
        Ok(OfferedBuffer {
            _staged: Some(staged),
            ..offer
        })
    }

    /// What others open it by.
    pub fn words(&self) -> [u64; 2] {
        self.published
            .as_ref()
            .map_or([0, 0], PublishedBuffer::words)
    }

    /// How others reach it.
    pub fn access(&self) -> BufferAccess {
        self.access
    }
}

/// Which of a rank's two buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BufferSide {
    /// The one that it sends from.
    Send,
    /// The one that it receives into.
    Receive,
}

/// Puts the description of one buffer of `bytes` bytes in this rank's line, to be published next.
pub fn describe(turn: &OperationSlot<'_>, side: BufferSide, offer: &OfferedBuffer, bytes: usize) {
    match side {
        BufferSide::Send => describe_both(turn, offer, &OfferedBuffer::NONE, bytes),
        BufferSide::Receive => describe_both(turn, &OfferedBuffer::NONE, offer, bytes),
    }
}

/// The same for both buffers, of as many bytes.
pub fn describe_both(
    turn: &OperationSlot<'_>,
    send: &OfferedBuffer,
    receive: &OfferedBuffer,
    bytes: usize,
) {
    describe_operands(turn, send, receive, bytes, false);
}

/// The same for the buffers of a reduction, whose result may be to go where the operand is.
pub fn describe_operands(
    turn: &OperationSlot<'_>,
    send: &OfferedBuffer,
    receive: &OfferedBuffer,
    bytes: usize,
    in_place: bool,
) {
    let ([a, b], [c, d]) = (send.words(), receive.words());
    let in_place = if in_place { IN_PLACE } else { 0 };
    let flags = send.access as u64 | (receive.access as u64) << 2 | in_place | own_flags(turn);
    turn.put_words([a, b, c, d, flags, bytes as u64]);
}

/// Flag: the member's kernel does not copy, whoever offers it something by address.
const NO_KERNEL: u64 = 1 << 6;

/// Flag: the member's result goes where its operand is.
const IN_PLACE: u64 = 1 << 7;

/// What a rank says of itself beside its buffers.
fn own_flags(turn: &OperationSlot<'_>) -> u64 {
    let has_kernel = turn
        .team()
        .reach()
        .is_some_and(|reach| !reach.cma_was_refused());
    if has_kernel { 0 } else { NO_KERNEL }
}

/// Whether a member's flags, this one's included, say so.
fn any_announced(turn: &OperationSlot<'_>, flag: u64) -> bool {
    (0..turn.size()).any(|member| turn.words(member)[4] & flag != 0)
}

/// Whether a member works in place; to be asked after all have described their buffers.
pub fn any_in_place(turn: &OperationSlot<'_>) -> bool {
    any_announced(turn, IN_PLACE)
}

/// How the parts lie in a buffer that all others read from, each its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Division {
    /// In one stretch; where each begins is told in the cell.
    Told = 0,
    /// In one stretch, one after the other, all as long.
    Even = 1,
    /// Each is described by itself, in the cell.
    Each = 2,
}

/// Bit of the flags that the division begins at.
const DIVISION_AT: u32 = 4;

/// The same for a buffer to be read in parts, which this offer is for, or else offers of their own.
pub fn describe_parts(
    turn: &OperationSlot<'_>,
    division: Division,
    offer: &OfferedBuffer,
    bytes: usize,
) {
    let [a, b] = offer.words();
    let flags = offer.access as u64 | (division as u64) << DIVISION_AT | own_flags(turn);
    turn.put_words([a, b, 0, 0, flags, bytes as u64]);
}

/// How a member has divided its buffer.
pub fn division(turn: &OperationSlot<'_>, member: usize) -> Division {
    match turn.words(member)[4] >> DIVISION_AT & 3 {
        1 => Division::Even,
        2 => Division::Each,
        _ => Division::Told,
    }
}

/// How a member's buffer can be reached, as it has said.
pub fn access(turn: &OperationSlot<'_>, member: usize, side: BufferSide) -> BufferAccess {
    let flags = turn.words(member)[4];
    let flags = match side {
        BufferSide::Send => flags,
        BufferSide::Receive => flags >> 2,
    };
    match flags & 3 {
        2 => BufferAccess::Window,
        1 => BufferAccess::ByAddress,
        _ => BufferAccess::None,
    }
}

/// The worst access to that buffer of all members.
pub fn access_to_all(turn: &OperationSlot<'_>, side: BufferSide) -> BufferAccess {
    access_to(turn, side, 0..turn.size())
}

/// The same of some members; [`BufferAccess::None`] too where the kernel must copy and one of the
/// team says that its kernel does not.
pub fn access_to(
    turn: &OperationSlot<'_>,
    side: BufferSide,
    members: impl IntoIterator<Item = usize>,
) -> BufferAccess {
    let all = members.into_iter();
    let worst = all.map(|member| access(turn, member, side)).min();
    match worst {
        Some(BufferAccess::ByAddress) if any_announced(turn, NO_KERNEL) => BufferAccess::None,
        worst => worst.unwrap_or(BufferAccess::None),
    }
}

/// Bytes of the buffer that a member has described.
pub fn span_of(turn: &OperationSlot<'_>, member: usize) -> usize {
    turn.words(member)[5] as usize
}

/// A member's buffer of `bytes` bytes, which it has offered.
///
/// # Errors
/// When it cannot be reached after all.
pub fn open(
    turn: &OperationSlot<'_>,
    member: usize,
    side: BufferSide,
    bytes: usize,
) -> Result<PeerBuffer> {
    let [a, b, c, d, ..] = turn.words(member);
    let words = match side {
        BufferSide::Send => [a, b],
        BufferSide::Receive => [c, d],
    };
    open_by(turn, member, words, bytes)
}

/// The words by which a member has offered the buffer that it sends from.
pub fn words_to_send(turn: &OperationSlot<'_>, member: usize) -> [u64; 2] {
    let [a, b, ..] = turn.words(member);
    [a, b]
}

/// What a member has offered by these words.
///
/// # Errors
/// As [`open`].
pub fn open_by(
    turn: &OperationSlot<'_>,
    member: usize,
    words: [u64; 2],
    bytes: usize,
) -> Result<PeerBuffer> {
    let peer = turn.rank(member);
    let reached = turn
        .team()
        .reach()
        .and_then(|reach| reach.open(peer, words, bytes));
    reached.ok_or_else(|| {
        let detail = format!(
            "rank {peer} of the job has offered {bytes} bytes of its memory, which cannot be mapped here"
        );
        Error::Unreachable { detail }
    })
}

impl From<PeerAccessError> for Error {
    fn from(error: PeerAccessError) -> Error {
        let detail = error.to_string();
        match error.errno() {
            // Cells do not reach a rank that is gone either.
            Some(NO_SUCH_PROCESS) => Error::other(c::ERR_OTHER, detail),
            _ => Error::Unreachable { detail },
        }
    }
}

/// ESRCH.
const NO_SUCH_PROCESS: i32 = 3;

//! Buffers that this rank offers to others, described once for each operation (ma-2011: persistent
//! registration), and others' buffers as this rank accesses them.
//!
//! An operation that copies directly begins with a phase in which each rank puts the descriptions
//! of its send and receive buffers in its line. All ranks that read a line conclude the same from
//! it: whether a buffer can be accessed by loads and stores, only by address (the kernel copies),
//! or not at all. If it cannot be accessed, the operation goes on through cells.
//!
//! A copy can still be refused (for instance by a seccomp filter that a program sets for itself). A
//! rank that cannot copy announces this beside the stamp of its next phase
//! ([`OperationSlot::refuse`]), and the ranks that this concerns go on through cells from there
//! ([`DirectOutcome`]).

use crate::intranode::protocol::shared_slot::SharedSlot;
use mica_channel::direct::{PeerBuffer, PublishedBuffer};
use mica_memory::{Block, Region, View};

use crate::intranode::protocol::slot::OperationSlot;
use crate::place::Elements;
use mica_objects::error::{Error, Result};

/// How an attempt to copy directly has ended.
#[derive(Debug)]
pub enum DirectOutcome {
    /// All data is where it belongs.
    Directly,
    /// The operation must go through cells, after a phase.
    Not(CellFallback),
}

/// How an operation continues through cells.
#[derive(Debug)]
pub struct CellFallback {
    /// The last phase used so far.
    pub base: u32,
    /// At the root of an operation that has one: the members that need cells; `None`: all.
    pub among: Option<Box<[bool]>>,
    /// A copy of this rank's operand, if its buffer may have been overwritten.
    pub operand: Option<Elements>,
}

impl DirectOutcome {
    /// All ranks go on through cells after phase `base`.
    pub fn not(base: u32) -> DirectOutcome {
        DirectOutcome::Not(CellFallback { base, among: None, operand: None })
    }
}

/// Processes the result of this rank's copies: a refused copy is announced to the others with the
/// next phase, and is no error.
///
/// # Errors
/// All other errors of the copies.
pub fn settle(slot: &OperationSlot<'_>, copies: Result<()>) -> Result<()> {
    match copies {
        Err(Error::Unreachable { .. }) => {
            slot.refuse();
            Ok(())
        }
        other => other,
    }
}

/// What a rank lets others access. Ranks may differ in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExposureChoice {
    /// Nothing: the operation goes through cells.
    Nothing,
    /// Buffers that lie in one piece.
    InPlace,
    /// Others as well, packed into one piece.
    Packed,
}

/// How a buffer can be accessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BufferAccess {
    /// Not at all.
    None = 0,
    /// The kernel copies from and to it.
    ByAddress = 1,
    /// By loads and stores.
    Window = 2,
}

/// Whether the ranks of an operation reach one another's memory by address, where no window shows
/// it: all have agreed that their kernels copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressAccess {
    /// All do.
    Agreed,
    /// Some do not, or none was asked.
    Refused,
}

/// A buffer that this rank offers; as long as this lives, its pages stay where they are.
#[derive(Debug)]
pub struct ExposedBuffer {
    published: Option<PublishedBuffer>,
    access: BufferAccess,
    /// The packed message, if the buffer itself is not contiguous.
    _staged: Option<Region>,
}

impl ExposedBuffer {
    /// A buffer that cannot be accessed.
    pub const NONE: ExposedBuffer =
        ExposedBuffer { published: None, access: BufferAccess::None, _staged: None };

    /// No bytes: no rank reads or writes them.
    pub const EMPTY: ExposedBuffer =
        ExposedBuffer { access: BufferAccess::Window, ..ExposedBuffer::NONE };

    /// `bytes` bytes at `address`.
    pub fn of(
        slot: &OperationSlot<'_>,
        address: usize,
        bytes: usize,
        by_address: AddressAccess,
    ) -> ExposedBuffer {
        let Some(reach) = slot.group().reach() else {
            return ExposedBuffer::NONE;
        };
        ExposedBuffer::published(reach.expose(address, bytes), bytes, by_address)
    }

    /// As [`of`](Self::of), for memory that was made for this operation.
    pub fn of_staged(
        slot: &OperationSlot<'_>,
        (address, bytes): (usize, usize),
        by_address: AddressAccess,
    ) -> ExposedBuffer {
        let Some(reach) = slot.group().reach() else {
            return ExposedBuffer::NONE;
        };
        ExposedBuffer::published(reach.expose_for_now(address, bytes), bytes, by_address)
    }

    fn published(
        published: PublishedBuffer,
        bytes: usize,
        by_address: AddressAccess,
    ) -> ExposedBuffer {
        let access = match (published.is_whole(bytes), by_address) {
            (true, _) => BufferAccess::Window,
            (false, AddressAccess::Agreed) => BufferAccess::ByAddress,
            (false, AddressAccess::Refused) => BufferAccess::None,
        };
        ExposedBuffer { published: Some(published), access, _staged: None }
    }

    /// A message to be read: in place, or packed if it is not contiguous and `choice` says so.
    ///
    /// # Errors
    /// When there is no memory for the packed message.
    pub fn of_message(
        slot: &OperationSlot<'_>,
        view: &View,
        choice: ExposureChoice,
        by_address: AddressAccess,
    ) -> Result<ExposedBuffer> {
        if let Some((address, bytes)) = view.as_contiguous() {
            return Ok(ExposedBuffer::of(slot, address, bytes, by_address));
        }
        if choice != ExposureChoice::Packed {
            return Ok(ExposedBuffer::NONE);
        }
        let staged = Block::allocate(view.len())?;
        view.pack_to(0, &staged, view.len());
        let offer = ExposedBuffer::of_staged(slot, (staged.address(), view.len()), by_address);
        Ok(ExposedBuffer { _staged: Some(staged), ..offer })
    }

    /// The words by which others open it.
    pub fn words(&self) -> [u64; 2] {
        self.published.as_ref().map_or([0, 0], PublishedBuffer::words)
    }

    /// How others access it.
    pub fn access(&self) -> BufferAccess {
        self.access
    }
}

/// One of a rank's two buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BufferSide {
    /// The one that it sends from.
    Send,
    /// The one that it receives into.
    Receive,
}

/// Puts the description of one buffer of `bytes` bytes in this rank's line; the next stamp
/// publishes it.
pub fn describe(slot: &OperationSlot<'_>, side: BufferSide, offer: &ExposedBuffer, bytes: usize) {
    match side {
        BufferSide::Send => describe_both(slot, offer, &ExposedBuffer::NONE, bytes),
        BufferSide::Receive => describe_both(slot, &ExposedBuffer::NONE, offer, bytes),
    }
}

/// As [`describe`], for both buffers; each has `bytes` bytes.
pub fn describe_both(
    slot: &OperationSlot<'_>,
    send: &ExposedBuffer,
    receive: &ExposedBuffer,
    bytes: usize,
) {
    describe_operands(slot, send, receive, bytes, ResultPlace::Apart);
}

/// Where a member's result of a reduction goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultPlace {
    /// To a buffer of its own, or this member gets none.
    Apart,
    /// Where the member's operand is.
    Operand,
}

/// As [`describe_both`], for the buffers of a reduction.
pub fn describe_operands(
    slot: &OperationSlot<'_>,
    send: &ExposedBuffer,
    receive: &ExposedBuffer,
    bytes: usize,
    result: ResultPlace,
) {
    let ([a, b], [c, d]) = (send.words(), receive.words());
    let in_place = match result {
        ResultPlace::Operand => IN_PLACE,
        ResultPlace::Apart => 0,
    };
    let flags = send.access as u64 | (receive.access as u64) << 2 | in_place | own_flags(slot);
    slot.put_words([a, b, c, d, flags, bytes as u64]);
}

/// Flag: the member's kernel does not copy by address, from or to any rank.
const NO_KERNEL: u64 = 1 << 6;

/// Flag: the member's result goes where its operand is.
const IN_PLACE: u64 = 1 << 7;

/// The flags that describe the rank itself, not its buffers.
fn own_flags(slot: &OperationSlot<'_>) -> u64 {
    let has_kernel = slot.group().reach().is_some_and(|reach| !reach.cma_was_refused());
    if has_kernel { 0 } else { NO_KERNEL }
}

/// Whether any member, this rank included, has announced `flag`.
fn any_announced(slot: &OperationSlot<'_>, flag: u64) -> bool {
    (0..slot.size()).any(|member| slot.words(member)[4] & flag != 0)
}

/// Whether any member works in place; valid after all have described their buffers.
pub fn any_in_place(slot: &OperationSlot<'_>) -> bool {
    any_announced(slot, IN_PLACE)
}

/// How the parts lie in a buffer of which each other rank reads its own part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BufferDivision {
    /// In one stretch; the cell says where each part begins.
    Announced = 0,
    /// In one stretch, one after the other, all of equal length.
    Even = 1,
    /// Each part has its own description in the cell.
    Each = 2,
}

/// First bit of the division in the flags.
const DIVISION_AT: u32 = 4;

/// As [`describe`], for a buffer to be read in parts. `offer` is for the whole buffer, unless each
/// part has an offer of its own.
pub fn describe_parts(
    slot: &OperationSlot<'_>,
    division: BufferDivision,
    offer: &ExposedBuffer,
    bytes: usize,
) {
    let [a, b] = offer.words();
    let flags = offer.access as u64 | (division as u64) << DIVISION_AT | own_flags(slot);
    slot.put_words([a, b, 0, 0, flags, bytes as u64]);
}

/// How a member has divided its buffer.
pub fn division(slot: &OperationSlot<'_>, member: usize) -> BufferDivision {
    match slot.words(member)[4] >> DIVISION_AT & 3 {
        1 => BufferDivision::Even,
        2 => BufferDivision::Each,
        _ => BufferDivision::Announced,
    }
}

/// How a member's buffer can be accessed, as it has announced.
pub fn access(slot: &OperationSlot<'_>, member: usize, side: BufferSide) -> BufferAccess {
    let flags = slot.words(member)[4];
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

/// The worst access to this buffer among all members.
pub fn access_to_all(slot: &OperationSlot<'_>, side: BufferSide) -> BufferAccess {
    access_to(slot, side, 0..slot.size())
}

/// As [`access_to_all`], among some members. Also [`BufferAccess::None`] where the kernel must copy
/// and any member of the node group has announced that its kernel does not.
pub fn access_to(
    slot: &OperationSlot<'_>,
    side: BufferSide,
    members: impl IntoIterator<Item = usize>,
) -> BufferAccess {
    let all = members.into_iter();
    let worst = all.map(|member| access(slot, member, side)).min();
    match worst {
        Some(BufferAccess::ByAddress) if any_announced(slot, NO_KERNEL) => BufferAccess::None,
        worst => worst.unwrap_or(BufferAccess::None),
    }
}

/// Bytes of the buffer that a member has described.
pub fn span_of(slot: &OperationSlot<'_>, member: usize) -> usize {
    slot.words(member)[5] as usize
}

/// Opens a member's buffer of `bytes` bytes, which it has offered.
///
/// # Errors
/// When it turns out to be inaccessible.
pub fn open(
    slot: &OperationSlot<'_>,
    member: usize,
    side: BufferSide,
    bytes: usize,
) -> Result<PeerBuffer> {
    let [a, b, c, d, ..] = slot.words(member);
    let words = match side {
        BufferSide::Send => [a, b],
        BufferSide::Receive => [c, d],
    };
    open_by(slot, member, words, bytes)
}

/// The words by which a member has offered the buffer that it sends from.
pub fn words_to_send(slot: &OperationSlot<'_>, member: usize) -> [u64; 2] {
    let [a, b, ..] = slot.words(member);
    [a, b]
}

/// Opens what a member has offered by these words.
///
/// # Errors
/// As [`open`].
pub fn open_by(
    slot: &OperationSlot<'_>,
    member: usize,
    words: [u64; 2],
    bytes: usize,
) -> Result<PeerBuffer> {
    let peer = slot.rank(member);
    let reached = slot.group().reach().and_then(|reach| reach.open(peer, words, bytes));
    reached.ok_or_else(|| {
        let detail = format!(
            "rank {peer} of the job has offered {bytes} bytes of its memory, which cannot be \
            mapped here"
        );
        Error::Unreachable { detail }
    })
}

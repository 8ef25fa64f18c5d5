//! Collectives through cells: a rank's contribution is copied to its cell of the shared area,
//! stamped, and copied out (or reduced) by the ranks that get it. Messages longer than half a cell
//! go in pieces, alternating between the two halves, so that copies in and out overlap. At most
//! [`INLINE`] bytes go in the line that carries the stamp.
//!
//! Phases count from `base`, so that an operation may begin in another way and continue here. Phase
//! `base + k + 1` announces: this rank's piece `k` is there (or, from a rank that only receives: it
//! has read piece `k`). A half is written again two pieces later, after its readers have announced
//! that they have read it.
//!
//! Each algorithm is compiled twice ([`SharedSlot`]): for views of any length, polled by the engine
//! or a blocking call; and for the [fast path](super::fast_path), one piece without gaps, where
//! waits spin.

pub mod messages;
pub mod parts;

use mica_memory::RegionRef;
use mica_node::area::INLINE;

use crate::intranode::protocol::group::NodeGroup;
use crate::intranode::protocol::shared_slot::{AlgorithmEnd, SharedSlot};
use messages::{Message, MessageParts};
use mica_objects::error::{Error, Result};

/// At the root of an operation that has one, the members with which it exchanges through cells:
/// those that direct copies have left without data. `None`: all.
#[derive(Debug, Clone, Copy)]
pub struct RootMembers<'a>(pub Option<&'a [bool]>);

impl RootMembers<'_> {
    /// All members.
    pub const ALL: RootMembers<'static> = RootMembers(None);

    /// The others among these, starting with the next one.
    #[inline(always)]
    fn after(self, slot: &impl SharedSlot) -> impl Iterator<Item = usize> {
        after(slot.group()).filter(move |&member| self.0.is_none_or(|among| among[member]))
    }
}

/// A stamp's phase.
#[inline]
pub(in crate::intranode) fn phase(base: u32, pieces: usize) -> u32 {
    base + pieces as u32
}

/// Whether a message of `bytes` bytes goes in a line. A line's bytes are free before the first
/// phase alone.
#[inline(always)]
pub(in crate::intranode) fn in_line(bytes: usize, base: u32) -> bool {
    bytes <= INLINE && base == 0
}

/// Where piece `k` of a member's message of `bytes` bytes is.
#[inline(always)]
pub(in crate::intranode) fn place<'a>(
    slot: &'a impl SharedSlot,
    member: usize,
    (bytes, base): (usize, u32),
    k: usize,
) -> RegionRef<'a> {
    match in_line(bytes, base) {
        true => slot.line(member),
        false => slot.half(member, k),
    }
}

/// Barrier: no member continues before all have arrived.
///
/// # Errors
/// As for all functions here: when another rank has called something else, or takes part with
/// another amount.
pub async fn barrier<S: SharedSlot>(slot: &S) -> Result<()> {
    // Groups with a tree have no fast path.
    match slot.group().tree().filter(|_| !S::ONE_PIECE) {
        None => {
            slot.publish(1);
            slot.all_reached(1).await
        }
        Some(tree) => {
            for &child in &tree.children {
                slot.reached(child, 1).await?;
            }
            if let Some(parent) = tree.parent {
                slot.publish_for(1, parent);
                slot.reached(parent, 2).await?;
            }
            slot.publish_for_some(2, tree.children.iter().copied());
            Ok(())
        }
    }
}

/// Broadcast of `message` from `root`.
pub async fn bcast<S: SharedSlot>(
    slot: &S,
    message: &impl Message,
    root: usize,
    among: RootMembers<'_>,
    base: u32,
) -> Result<AlgorithmEnd> {
    let (piece, bytes) = (slot.group().half_bytes(), message.bytes());
    if slot.me() == root {
        if !in_line(bytes, base) {
            slot.prepare(root)?;
        }
        // Also for an empty message, the others wait for its length.
        for k in 0..S::pieces(bytes, piece).max(1) {
            if k >= 2 && among.0.is_none() {
                slot.all_reached(phase(base, k - 1)).await?;
            } else if k >= 2 {
                for member in among.after(slot) {
                    slot.reached(member, phase(base, k - 1)).await?;
                }
            }
            let (at, n) = S::part(k, bytes, piece);
            message.pack(at, place(slot, root, (bytes, base), k), n);
            slot.stored(root, n);
            slot.publish(phase(base, k + 1));
        }
        return Ok(AlgorithmEnd::Done);
    }
    slot.announce();
    slot.reached(root, phase(base, 1)).await?;
    // From the root's header. A message that does not fit is still read through, so that the root
    // does not wait forever.
    let theirs = slot.bytes(root);
    if S::ONE_PIECE && theirs != bytes {
        return Ok(AlgorithmEnd::Unequal);
    }
    let count = S::pieces(theirs, piece);
    for k in 0..count {
        if k > 0 {
            slot.reached(root, phase(base, k + 1)).await?;
        }
        let (at, n) = S::part(k, theirs, piece);
        message.unpack(at, place(slot, root, (theirs, base), k), n);
        slot.loaded(root, n);
        if count > 2 {
            slot.publish_for(phase(base, k + 1), root);
        }
    }
    if theirs > bytes {
        slot.expect_bytes(root, bytes)?;
    }
    Ok(AlgorithmEnd::Done)
}

/// Gather: the `send` of every rank to the root's `parts`. In place at the root, `send` is `None`.
pub async fn gather<S: SharedSlot, P: MessageParts>(
    slot: &S,
    send: Option<&P::Part>,
    parts: Option<&P>,
    root: usize,
    among: RootMembers<'_>,
    base: u32,
) -> Result<AlgorithmEnd> {
    let (me, piece) = (slot.me(), slot.group().half_bytes());
    if me != root {
        let Some(send) = send else { return Ok(AlgorithmEnd::Done) };
        let bytes = send.bytes();
        if !in_line(bytes, base) {
            slot.prepare(me)?;
        }
        // Also of an empty message the root may expect more.
        for k in 0..S::pieces(bytes, piece).max(usize::from(base == 0)) {
            if k >= 2 {
                slot.reached(root, phase(base, k - 1)).await?;
            }
            let (at, n) = S::part(k, bytes, piece);
            send.pack(at, place(slot, me, (bytes, base), k), n);
            slot.stored(me, n);
            slot.publish_for(phase(base, k + 1), root);
        }
        return Ok(AlgorithmEnd::Done);
    }
    slot.announce();
    let parts = parts.expect("the root has a receive buffer");
    if let Some(send) = send {
        parts.part(me)?.copy_from(send);
    }
    let (mut k, mut more, mut result) = (0, true, Ok(()));
    while S::ONE_PIECE || more {
        more = false;
        for member in among.after(slot) {
            let bytes = parts.bytes_of(member);
            if !S::ONE_PIECE && (bytes == 0 || k > 0 && k >= slot.bytes(member).div_ceil(piece)) {
                continue;
            }
            slot.reached(member, phase(base, k + 1)).await?;
            // A message that does not fit is still read through, so that the member does not wait
            // forever.
            let theirs = slot.bytes(member);
            if theirs != bytes && S::ONE_PIECE {
                return Ok(AlgorithmEnd::Unequal);
            }
            if k == 0 {
                result = result.and(slot.expect_bytes(member, bytes));
            }
            more |= k + 1 < S::pieces(theirs, piece);
            if S::ONE_PIECE || k * piece < bytes.min(theirs) {
                let (at, n) = S::part(k, bytes.min(theirs), piece);
                parts.part(member)?.unpack(at, place(slot, member, (theirs, base), k), n);
                slot.loaded(member, n);
            }
        }
        if S::ONE_PIECE {
            break;
        }
        k += 1;
        if more {
            slot.publish(phase(base, k));
        }
    }
    slot.heard_all()?;
    result.map(|()| AlgorithmEnd::Done)
}

/// Scatter: the root's `parts` to the `receive` of every rank. In place at the root, `receive` is
/// `None`. The root writes to the others' cells, or all parts to its line. `known`: the root has
/// announced the length of the parts, as all are of equal length.
pub async fn scatter<S: SharedSlot, P: MessageParts>(
    slot: &S,
    parts: Option<&P>,
    receive: Option<&P::Part>,
    root: usize,
    (among, known): (RootMembers<'_>, bool),
    base: u32,
) -> Result<AlgorithmEnd> {
    let (me, size, piece) = (slot.me(), slot.size(), slot.group().half_bytes());
    let in_line = move |bytes: usize| known && base == 0 && fits_in_line(bytes, size);
    let at_line = move |member: usize, bytes: usize| place_for(root, member, size) * bytes;
    if me != root {
        let Some(receive) = receive else {
            return Ok(AlgorithmEnd::Done);
        };
        slot.announce();
        let bytes = receive.bytes();
        let (mut theirs, mut count) = (bytes, S::pieces(bytes, piece));
        let mut k = 0;
        while k < count {
            slot.reached(root, phase(base, k + 1)).await?;
            if k == 0 && known {
                // A message that does not fit is still read through, so that the root does not wait
                // forever.
                theirs = slot.bytes(root);
                if S::ONE_PIECE && theirs != bytes {
                    return Ok(AlgorithmEnd::Unequal);
                }
                count = S::pieces(theirs, piece);
            }
            if in_line(theirs) {
                receive.unpack(0, slot.line(root).at(at_line(me, theirs)), bytes.min(theirs));
                slot.loaded(root, bytes.min(theirs));
            } else if S::ONE_PIECE || k * piece < bytes {
                let (at, n) = S::part(k, bytes, piece);
                receive.unpack(at, slot.half(me, k), n);
                slot.loaded(me, n);
            }
            if count > 2 {
                slot.publish_for(phase(base, k + 1), root);
            }
            k += 1;
        }
        if theirs != bytes {
            slot.expect_bytes(root, bytes)?;
        }
        return Ok(AlgorithmEnd::Done);
    }
    let parts = parts.expect("the root has a send buffer");
    let (mut k, mut more) = (0, true);
    while more {
        more = false;
        for member in among.after(slot) {
            let bytes = parts.bytes_of(member);
            let count = S::pieces(bytes, piece);
            if k >= count {
                continue;
            }
            if k >= 2 {
                slot.reached(member, phase(base, k - 1)).await?;
            }
            let (at, n) = S::part(k, bytes, piece);
            let (owner, to) = match in_line(bytes) {
                true => (root, slot.line(root).at(at_line(member, bytes))),
                false => {
                    slot.prepare(member)?;
                    (member, slot.half(member, k))
                }
            };
            parts.part(member)?.pack(at, to, n);
            slot.stored(owner, n);
            more |= k + 1 < count;
        }
        k += 1;
        slot.publish(phase(base, k));
    }
    if let Some(receive) = receive {
        receive.copy_from(&parts.part(me)?);
    }
    Ok(AlgorithmEnd::Done)
}

/// Allgather: rank `i`'s `send` to part `i` of the `parts` of every rank. In place, `send` is
/// `None`.
pub async fn allgather<S: SharedSlot, P: MessageParts>(
    slot: &S,
    send: Option<&P::Part>,
    parts: &P,
    base: u32,
) -> Result<()> {
    let (me, piece) = (slot.me(), slot.group().half_bytes());
    let mine = parts.part(me)?;
    let own = send.unwrap_or(&mine);
    let bytes = own.bytes();
    if bytes != mine.bytes() {
        return Err(unlike(bytes, mine.bytes()));
    }
    if !in_line(bytes, base) {
        slot.prepare(me)?;
    }
    for k in 0..most_pieces(slot, |member| parts.bytes_of(member), piece) {
        if k >= 2 {
            // A member that has published piece k - 1 has read all of round k - 2.
            slot.all_reached(phase(base, k)).await?;
        }
        if S::ONE_PIECE || k * piece < bytes {
            let (at, n) = S::part(k, bytes, piece);
            own.pack(at, place(slot, me, (bytes, base), k), n);
            slot.stored(me, n);
        }
        slot.publish(phase(base, k + 1));
        if k == 0 && send.is_some() {
            mine.copy_from(own);
        }
        for member in after(slot.group()) {
            let bytes = parts.bytes_of(member);
            if !S::ONE_PIECE && k * piece >= bytes {
                continue;
            }
            slot.reached(member, phase(base, k + 1)).await?;
            slot.expect_bytes(member, bytes)?;
            let (at, n) = S::part(k, bytes, piece);
            parts.part(member)?.unpack(at, place(slot, member, (bytes, base), k), n);
            slot.loaded(member, n);
        }
    }
    slot.heard_all()
}

/// All-to-all: part `j` of `send` to rank `j`, part `j` of `receive` from it. In place, `send` is
/// `None`. `uniform_len`: the length of all parts, if all are of equal length and each rank has
/// announced it.
pub async fn alltoall<S: SharedSlot, P: MessageParts>(
    slot: &S,
    send: Option<&P>,
    receive: &P,
    uniform_len: Option<usize>,
    base: u32,
) -> Result<()> {
    let (me, size) = (slot.me(), slot.size());
    let out = send.unwrap_or(receive);
    // A half, or the line, holds one piece for each other rank.
    let in_line = uniform_len.filter(|&bytes| base == 0 && fits_in_line(bytes, size));
    let piece = in_line.unwrap_or_else(|| share_of_half(slot.group())).max(1);
    let memory = move |writer, k| match in_line {
        Some(_) => slot.line(writer),
        None => slot.half(writer, k),
    };
    let place = move |writer, reader| place_for(writer, reader, size) * piece;
    if in_line.is_none() {
        slot.prepare(me)?;
    }
    let longest = |member| out.bytes_of(member).max(receive.bytes_of(member));
    let rounds = most_pieces(slot, |member| if member == me { 0 } else { longest(member) }, piece);
    let mut k = 0;
    while S::ONE_PIECE || k < rounds {
        for member in after(slot.group()) {
            let bytes = out.bytes_of(member);
            if S::ONE_PIECE || k * piece < bytes {
                if k >= 2 {
                    slot.reached(member, phase(base, k)).await?;
                }
                let (at, n) = S::part(k, bytes, piece);
                out.part(member)?.pack(at, memory(me, k).at(place(me, member)), n);
                slot.stored(me, n);
            }
        }
        slot.publish(phase(base, k + 1));
        if k == 0
            && let Some(send) = send
        {
            receive.part(me)?.copy_from(&send.part(me)?);
        }
        for member in after(slot.group()) {
            let bytes = receive.bytes_of(member);
            if S::ONE_PIECE || k * piece < bytes {
                slot.reached(member, phase(base, k + 1)).await?;
                if let Some(uniform_len) = uniform_len {
                    slot.expect_bytes(member, uniform_len)?;
                }
                let (at, n) = S::part(k, bytes, piece);
                let from = memory(member, k).at(place(member, me));
                receive.part(member)?.unpack(at, from, n);
                slot.loaded(member, n);
            }
        }
        k += 1;
        if S::ONE_PIECE {
            break;
        }
    }
    if rounds == 0
        && let Some(send) = send
    {
        receive.part(me)?.copy_from(&send.part(me)?);
    }
    slot.heard_all()
}

/// Pieces of the longest message of a member, whose length is `bytes_of` it.
#[inline(always)]
pub(in crate::intranode) fn most_pieces<S: SharedSlot>(
    slot: &S,
    bytes_of: impl Fn(usize) -> usize,
    piece: usize,
) -> usize {
    match S::ONE_PIECE {
        true => 1,
        false => (0..slot.size()).map(|member| bytes_of(member).div_ceil(piece)).max().unwrap_or(0),
    }
}

/// Bytes of half a cell for each other rank.
#[inline]
pub(in crate::intranode) fn share_of_half(group: &NodeGroup) -> usize {
    share_of(group.half_bytes(), group.size())
}

/// Bytes of `half` for each other rank, among `ranks` ranks.
#[inline]
pub(in crate::intranode) fn share_of(half: usize, ranks: usize) -> usize {
    let share = half / (ranks - 1).max(1);
    match share {
        0..64 => share.max(1),
        _ => share & !63,
    }
}

/// Whether parts of `bytes` bytes for all others fit in the line, where all ranks know this length.
#[inline]
pub(in crate::intranode) fn fits_in_line(bytes: usize, ranks: usize) -> bool {
    bytes * (ranks - 1) <= INLINE
}

/// Index of the place for `reader` in the memory that `writer` shares out among the others.
#[inline(always)]
pub(in crate::intranode) fn place_for(writer: usize, reader: usize, size: usize) -> usize {
    wrap(reader + size - writer - 1, size)
}

/// `n % size` for an `n` below `2 * size`: without a division, which takes 25 cycles.
#[inline(always)]
fn wrap(n: usize, size: usize) -> usize {
    if n < size { n } else { n - size }
}

/// The other members, starting with the next one, so that not all access the same member at once.
#[inline]
pub(in crate::intranode) fn after(group: &NodeGroup) -> impl Iterator<Item = usize> + use<> {
    let (me, size) = (group.me(), group.size());
    (1..size).map(move |distance| wrap(me + distance, size))
}

/// The error of a rank whose part for itself differs in length between send and receive buffer.
#[cold]
pub(in crate::intranode) fn unlike(sent: usize, room: usize) -> Error {
    let detail = format!(
        "this rank's own part has {sent} bytes in the send buffer and {room} in the receive buffer"
    );
    Error::other(mica_objects::constants::ERR_TRUNCATE, detail)
}

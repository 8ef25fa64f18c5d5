//! Collectives through cells: a rank's contribution is copied to its cell of the shared area,
//! stamped, and copied out (or reduced) by the ranks that get it. Messages longer than half a cell
//! go in pieces, alternating between the two halves, so that copies in and out overlap. At most
//! [`INLINE`] bytes go in the line that carries the stamp.
//!
//! Phases count from `base`, so that an operation may begin in another way and continue here. Phase
//! `base + k + 1` announces: this rank's piece `k` is there (or, from a rank that only receives: it
//! has read piece `k`). A half is written again two pieces later, after its readers have announced
//! that they have read it.

pub mod parts;

use mica_memory::View;
use mica_node::area::INLINE;

use crate::intranode::protocol::group::NodeGroup;
use crate::intranode::protocol::slot::OperationSlot;
use mica_objects::error::{Error, Result};
use parts::Parts;

/// At the root of an operation that has one, the members with which it exchanges through cells:
/// those that direct copies have left without data. `None`: all.
#[derive(Debug, Clone, Copy)]
pub struct RootMembers<'a>(pub Option<&'a [bool]>);

impl RootMembers<'_> {
    /// All members.
    pub const ALL: RootMembers<'static> = RootMembers(None);

    /// The others among these, starting with the next one.
    fn after(self, slot: &OperationSlot<'_>) -> impl Iterator<Item = usize> {
        after(slot.group()).filter(move |&member| self.0.is_none_or(|among| among[member]))
    }
}

/// Number of pieces of a message.
#[inline]
pub(in crate::intranode) fn pieces(bytes: usize, piece: usize) -> usize {
    bytes.div_ceil(piece)
}

/// A stamp's phase.
#[inline]
pub(in crate::intranode) fn phase(base: u32, pieces: usize) -> u32 {
    base + pieces as u32
}

/// Barrier: no member continues before all have arrived.
///
/// # Errors
/// As for all functions here: when another rank has called something else, or takes part with
/// another amount.
pub async fn barrier(slot: &OperationSlot<'_>) -> Result<()> {
    slot.begin(0).await;
    match slot.group().tree() {
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

/// Broadcast of `view` from `root`.
pub async fn bcast(
    slot: &OperationSlot<'_>,
    view: &View,
    root: usize,
    among: RootMembers<'_>,
    base: u32,
) -> Result<()> {
    let piece = slot.half_bytes();
    if slot.me() == root {
        let bytes = view.len();
        if bytes <= INLINE && base == 0 {
            slot.put(view);
            slot.publish(1);
            return Ok(());
        }
        // Also for an empty message, the others wait for its length.
        for k in 0..pieces(bytes, piece).max(1) {
            if k >= 2 && among.0.is_none() {
                slot.all_reached(phase(base, k - 1)).await?;
            } else if k >= 2 {
                for member in among.after(slot) {
                    slot.reached(member, phase(base, k - 1)).await?;
                }
            }
            let at = k * piece;
            view.pack_to(at, &slot.half(root, k), piece.min(bytes - at));
            slot.stored(root, piece.min(bytes - at));
            slot.publish(phase(base, k + 1));
        }
        return Ok(());
    }
    slot.reached(root, phase(base, 1)).await?;
    // From the root's header. A message that does not fit is still read through, so that the root
    // does not wait forever.
    let bytes = slot.bytes(root);
    if bytes <= INLINE && base == 0 {
        if bytes <= view.len() {
            slot.get(root, view);
        }
    } else {
        let count = pieces(bytes, piece);
        for k in 0..count {
            slot.reached(root, phase(base, k + 1)).await?;
            let at = k * piece;
            view.unpack_at(at, &slot.half(root, k), piece.min(bytes - at));
            slot.loaded(root, piece.min(bytes - at));
            if count > 2 {
                slot.publish_for(phase(base, k + 1), root);
            }
        }
    }
    if bytes > view.len() {
        return Err(slot.disagreement(root, view.len()));
    }
    Ok(())
}

/// Gather: the `send` of every rank to the root's `parts`. In place at the root, `send` is `None`.
pub async fn gather(
    slot: &OperationSlot<'_>,
    send: Option<&View>,
    parts: Option<&Parts>,
    root: usize,
    among: RootMembers<'_>,
    base: u32,
) -> Result<()> {
    let (me, piece) = (slot.me(), slot.half_bytes());
    if me != root {
        let Some(send) = send else { return Ok(()) };
        let bytes = send.len();
        if bytes <= INLINE && base == 0 {
            slot.put(send);
            slot.publish_for(1, root);
            return Ok(());
        }
        for k in 0..pieces(bytes, piece) {
            if k >= 2 {
                slot.reached(root, phase(base, k - 1)).await?;
            }
            let at = k * piece;
            send.pack_to(at, &slot.half(me, k), piece.min(bytes - at));
            slot.stored(me, piece.min(bytes - at));
            slot.publish_for(phase(base, k + 1), root);
        }
        return Ok(());
    }
    let parts = parts.expect("the root has a receive buffer");
    if let Some(send) = send {
        parts.view(me)?.copy_from(send);
    }
    let (mut k, mut more, mut result) = (0, true, Ok(()));
    while more {
        more = false;
        for member in among.after(slot) {
            let bytes = parts.len(member);
            if bytes == 0 || k > 0 && k >= pieces(slot.bytes(member), piece) {
                continue;
            }
            slot.reached(member, phase(base, k + 1)).await?;
            // A message that does not fit is still read through, so that the member does not wait
            // forever.
            let theirs = slot.bytes(member);
            if theirs != bytes && k == 0 {
                result = result.and(Err(slot.disagreement(member, bytes)));
            }
            more |= k + 1 < pieces(theirs, piece);
            let view = parts.view(member)?;
            if theirs <= INLINE && base == 0 {
                if theirs <= bytes {
                    slot.get(member, &view);
                }
                continue;
            }
            let at = k * piece;
            if at < bytes.min(theirs) {
                let some = piece.min(bytes.min(theirs) - at);
                view.unpack_at(at, &slot.half(member, k), some);
                slot.loaded(member, some);
            }
        }
        k += 1;
        if more {
            slot.publish(phase(base, k));
        }
    }
    result
}

/// Scatter: the root's `parts` to the `receive` of every rank. In place at the root, `receive` is
/// `None`. The root writes to the others' cells, or all parts to its line. `known`: the root has
/// announced the length of the parts, as all are of equal length.
pub async fn scatter(
    slot: &OperationSlot<'_>,
    parts: Option<&Parts>,
    receive: Option<&View>,
    root: usize,
    (among, known): (RootMembers<'_>, bool),
    base: u32,
) -> Result<()> {
    let (me, size, piece) = (slot.me(), slot.size(), slot.half_bytes());
    let in_line = |bytes: usize| known && base == 0 && fits_in_line(bytes, size);
    let line = |member: usize, bytes: usize| {
        let place = place_for(root, member, size) * bytes;
        slot.inline_region(root).at(place).to_region()
    };
    if me != root {
        let Some(receive) = receive else {
            return Ok(());
        };
        let bytes = receive.len();
        let (mut theirs, mut count) = (bytes, pieces(bytes, piece));
        let mut k = 0;
        while k < count {
            slot.reached(root, phase(base, k + 1)).await?;
            if k == 0 && known {
                // A message that does not fit is still read through, so that the root does not wait
                // forever.
                theirs = slot.bytes(root);
                count = pieces(theirs, piece);
            }
            let at = k * piece;
            if in_line(theirs) {
                receive.unpack_at(0, &line(me, theirs), bytes.min(theirs));
                slot.loaded(root, bytes.min(theirs));
            } else if at < bytes {
                receive.unpack_at(at, &slot.half(me, k), piece.min(bytes - at));
                slot.loaded(me, piece.min(bytes - at));
            }
            if count > 2 {
                slot.publish_for(phase(base, k + 1), root);
            }
            k += 1;
        }
        if theirs != bytes {
            return Err(slot.disagreement(root, bytes));
        }
        return Ok(());
    }
    let parts = parts.expect("the root has a send buffer");
    let (mut k, mut more) = (0, true);
    while more {
        more = false;
        for member in among.after(slot) {
            let bytes = parts.len(member);
            if k >= pieces(bytes, piece) {
                continue;
            }
            if k >= 2 {
                slot.reached(member, phase(base, k - 1)).await?;
            }
            let at = k * piece;
            let to = match in_line(bytes) {
                true => line(member, bytes),
                false => slot.half(member, k),
            };
            let view = parts.view(member)?;
            view.pack_to(at, &to, piece.min(bytes - at));
            let owner = if in_line(bytes) { root } else { member };
            slot.stored(owner, piece.min(bytes - at));
            more |= k + 1 < pieces(bytes, piece);
        }
        k += 1;
        slot.publish(phase(base, k));
    }
    if let Some(receive) = receive {
        receive.copy_from(&parts.view(me)?);
    }
    Ok(())
}

/// Allgather: rank `i`'s `send` to part `i` of the `parts` of every rank. In place, `send` is
/// `None`.
pub async fn allgather(
    slot: &OperationSlot<'_>,
    send: Option<&View>,
    parts: &Parts,
    base: u32,
) -> Result<()> {
    let (me, piece) = (slot.me(), slot.half_bytes());
    let mine = parts.view(me)?;
    let own = send.unwrap_or(&mine);
    if own.len() != mine.len() {
        return Err(unlike(own.len(), mine.len()));
    }
    let most = (0..slot.size()).map(|member| pieces(parts.len(member), piece)).max();
    for k in 0..most.unwrap_or(0) {
        if k >= 2 {
            // A member that has published piece k - 1 has read all of round k - 2.
            slot.all_reached(phase(base, k)).await?;
        }
        let at = k * piece;
        if own.len() <= INLINE && base == 0 {
            slot.put(own);
        } else if at < own.len() {
            own.pack_to(at, &slot.half(me, k), piece.min(own.len() - at));
            slot.stored(me, piece.min(own.len() - at));
        }
        slot.publish(phase(base, k + 1));
        if k == 0 && send.is_some() {
            mine.copy_from(own);
        }
        for member in after(slot.group()) {
            let bytes = parts.len(member);
            if at >= bytes {
                continue;
            }
            slot.reached(member, phase(base, k + 1)).await?;
            slot.expect_bytes(member, bytes)?;
            let view = parts.view(member)?;
            if bytes <= INLINE && base == 0 {
                slot.get(member, &view);
            } else {
                view.unpack_at(at, &slot.half(member, k), piece.min(bytes - at));
                slot.loaded(member, piece.min(bytes - at));
            }
        }
    }
    Ok(())
}

/// All-to-all: part `j` of `send` to rank `j`, part `j` of `receive` from it. In place, `send` is
/// `None`. `uniform_len`: the length of all parts, if all are of equal length and each rank has
/// announced it.
pub async fn alltoall(
    slot: &OperationSlot<'_>,
    send: Option<&Parts>,
    receive: &Parts,
    uniform_len: Option<usize>,
    base: u32,
) -> Result<()> {
    let (me, size) = (slot.me(), slot.size());
    let out = send.unwrap_or(receive);
    // A half, or the line, holds one piece for each other rank.
    let in_line = uniform_len.filter(|&bytes| base == 0 && fits_in_line(bytes, size));
    let piece = in_line.unwrap_or_else(|| share_of_half(slot.group())).max(1);
    let room = |member, k| match in_line {
        Some(_) => slot.inline_region(member).to_region(),
        None => slot.half(member, k),
    };
    let others = || after(slot.group());
    let rounds =
        others().map(|member| pieces(out.len(member).max(receive.len(member)), piece)).max();
    for k in 0..rounds.unwrap_or(0) {
        let at = k * piece;
        let half = room(me, k);
        for member in others() {
            let bytes = out.len(member);
            if at < bytes {
                if k >= 2 {
                    slot.reached(member, phase(base, k)).await?;
                }
                let place = place_for(me, member, size) * piece;
                let to = half.offset(place as isize);
                out.view(member)?.pack_to(at, &to, piece.min(bytes - at));
                slot.stored(me, piece.min(bytes - at));
            }
        }
        slot.publish(phase(base, k + 1));
        if k == 0
            && let Some(send) = send
        {
            receive.view(me)?.copy_from(&send.view(me)?);
        }
        for member in others() {
            let bytes = receive.len(member);
            if at < bytes {
                slot.reached(member, phase(base, k + 1)).await?;
                if let Some(uniform_len) = uniform_len {
                    slot.expect_bytes(member, uniform_len)?;
                }
                let place = place_for(member, me, size) * piece;
                let from = room(member, k).offset(place as isize);
                let view = receive.view(member)?;
                view.unpack_at(at, &from, piece.min(bytes - at));
                slot.loaded(member, piece.min(bytes - at));
            }
        }
    }
    if rounds.unwrap_or(0) == 0
        && let Some(send) = send
    {
        receive.view(me)?.copy_from(&send.view(me)?);
    }
    Ok(())
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

//! Collective writes by exchange.

use std::ops::Range;
use std::sync::Arc;

use mica_collective::schedule::RoundTransfer;
use mica_memory::{Region, View};
use mica_node::counters::Counter;
use mica_objects::error::{Error, Result};

use super::{AgreedAccess, CollectivePart};
use crate::access::staging;
use crate::failure;
use crate::operation::{Desk, Exchanged, Plane, Running};
use crate::pieces::{PieceList, ReceivedList, covered, in_window};
use crate::shared_file::SharedFile;
use crate::storage::{FilePiece, read_all, write_all};

/// Pieces with gaps between them that are written one by one; more are written with the gaps kept.
const PIECES_MAX: usize = 8;

/// A window's memory, and the call that writes it.
struct WindowBuffer {
    region: Region,
    view: View,
    writing: Option<Running<Result<()>>>,
}

/// What a rank has sent in a round.
struct SentRound {
    messages: Exchanged,
    /// Its own pieces of its own window.
    own: Option<(PieceList, View)>,
}

impl CollectivePart {
    /// This rank's part of a write, as a rank with data and as an aggregator.
    pub(super) async fn write(&self, desk: &Desk, agreement: &AgreedAccess) -> Result<u64> {
        let windows = &agreement.windows;
        let me = self.members().rank();
        let index = windows.aggregators.iter().position(|&rank| rank == me);
        let mut buffers = match index {
            None => Vec::new(),
            Some(_) => self.buffers()?,
        };
        let mut error: Option<Error> = None;
        let mut sent: Option<SentRound> = None;
        for round in 0..windows.rounds() {
            let now = self.send(desk, agreement, round)?;
            if let Some(index) = index {
                let window = windows.of(round, index);
                let buffer = &mut buffers[(round % 2) as usize];
                // The one before the last has been written when its memory is filled again.
                if let Some(writing) = buffer.writing.take() {
                    error = error.or(desk.done(writing).await.err());
                }
                let lists = self.receive(desk, agreement, &window, buffer, &now.own).await?;
                buffer.writing = Some(self.begin_writing(desk, &window, buffer, lists));
            }
            if let Some(before) = sent.replace(now) {
                desk.exchanged(self.members(), before.messages).await?;
            }
        }
        if let Some(last) = sent {
            desk.exchanged(self.members(), last.messages).await?;
        }
        for buffer in &mut buffers {
            if let Some(writing) = buffer.writing.take() {
                error = error.or(desk.done(writing).await.err());
            }
        }
        error.map_or(Ok(self.stream.end - self.stream.start), Err)
    }

    fn buffers(&self) -> Result<Vec<WindowBuffer>> {
        let memory = self.file.window_memory()?;
        let buffer = |(region, view)| WindowBuffer { region, view, writing: None };
        Ok(memory.map(buffer).into())
    }

    /// Sends what is due to the aggregators in a round: to each the list of this rank's pieces, and
    /// their bytes.
    fn send(&self, desk: &Desk, agreement: &AgreedAccess, round: u64) -> Result<SentRound> {
        let me = self.members().rank();
        let mut transfers = Vec::new();
        let mut own = None;
        for share in self.shares(agreement, round)? {
            if share.aggregator == me {
                own = Some((share.list, share.data));
                continue;
            }
            transfers.extend(share.send_list()?);
            if !share.data.is_empty() {
                transfers.push(RoundTransfer::Send { to: share.aggregator, view: share.data });
            }
        }
        Ok(SentRound { messages: desk.exchange(self.members(), Plane::Control, transfers), own })
    }

    /// As the aggregator of a window: receives lists, and the bytes into the window's memory.
    async fn receive(
        &self,
        desk: &Desk,
        agreement: &AgreedAccess,
        window: &Range<u64>,
        buffer: &WindowBuffer,
        own: &Option<(PieceList, View)>,
    ) -> Result<Vec<PieceList>> {
        let (sources, mut lists) = self.receive_lists(desk, agreement, window).await?;
        let mut transfers = Vec::new();
        for (&from, list) in sources.iter().zip(&lists) {
            if list.bytes > 0 {
                let view = in_window(list, &buffer.region)?;
                transfers.push(RoundTransfer::Receive { from, view });
            }
        }
        let messages = desk.exchange(self.members(), Plane::Control, transfers);
        if let Some((list, data)) = own {
            in_window(list, &buffer.region)?.copy_from(data);
            lists.push(list.clone());
        }
        desk.exchanged(self.members(), messages).await?;
        Ok(lists)
    }

    /// The ranks that may have pieces in a window, without this one, and their lists.
    pub(super) async fn receive_lists(
        &self,
        desk: &Desk,
        agreement: &AgreedAccess,
        window: &Range<u64>,
    ) -> Result<(Vec<usize>, Vec<PieceList>)> {
        let (members, me) = (self.members(), self.members().rank());
        let meets = |&rank: &usize| rank != me && agreement.parts[rank].meets(window);
        let sources: Vec<usize> = (0..members.size()).filter(meets).collect();
        let mut received = Vec::with_capacity(sources.len());
        let mut transfers = Vec::new();
        for &from in &sources {
            let (list, view) = ReceivedList::new()?;
            received.push(list);
            transfers.push(RoundTransfer::Receive { from, view });
        }
        let heads = desk.exchange(members, Plane::Control, transfers);
        desk.exchanged(members, heads).await?;
        let mut transfers = Vec::new();
        for (&from, list) in sources.iter().zip(&mut received) {
            transfers.extend(list.expect_rest()?.map(|view| RoundTransfer::Receive { from, view }));
        }
        let rests = desk.exchange(members, Plane::Control, transfers);
        desk.exchanged(members, rests).await?;
        Ok((sources, received.iter().map(ReceivedList::list).collect()))
    }

    fn begin_writing(
        &self,
        desk: &Desk,
        window: &Range<u64>,
        buffer: &WindowBuffer,
        lists: Vec<PieceList>,
    ) -> Running<Result<()>> {
        let file = Arc::clone(&self.file);
        let (region, view, start) = (buffer.region.clone(), buffer.view.clone(), window.start);
        desk.begin(move || write_window(&file, start, &region, &view, &lists))
    }
}

/// Writes the bytes of a window that ranks have sent, and no others.
fn write_window(
    file: &SharedFile,
    start: u64,
    region: &Region,
    view: &View,
    lists: &[PieceList],
) -> Result<()> {
    let covered = covered(lists);
    let (Some(first), Some(last)) = (covered.first(), covered.last()) else {
        return Ok(());
    };
    let range = start + first.start..start + last.end;
    let failed =
        |error: &std::io::Error| failure::of_access("write", &file.name, range.start, error);
    if covered.len() > PIECES_MAX
        && let Ok(scratch) = staging((range.end - range.start) as usize)
        && let Some(_locked) = file.guard.sieve(&range)
    {
        file.counters.count(Counter::FileSievedBlocks);
        let window = (start, region, view);
        return write_with_gaps(file, window, &scratch, &covered).map_err(|e| failed(&e));
    }
    let _admitted = file.guard.write(&range).map_err(|error| failed(&error))?;
    for piece in covered {
        let len = (piece.end - piece.start) as usize;
        let part = [FilePiece { view, position: piece.start as usize, len }];
        let written = write_all(&*file.storage, start + piece.start, &part);
        if let Some(error) = written.error {
            return Err(failed(&error));
        }
    }
    Ok(())
}

/// Reads what lies between the pieces, and writes all in one piece. The bytes are locked.
fn write_with_gaps(
    file: &SharedFile,
    (start, region, view): (u64, &Region, &View),
    (old, old_view): &(Region, View),
    covered: &[Range<u64>],
) -> std::io::Result<()> {
    let (first, last) = (covered[0].start, covered[covered.len() - 1].end);
    let len = (last - first) as usize;
    let whole = [FilePiece { view: old_view, position: 0, len }];
    let there = read_all(&*file.storage, start + first, &whole);
    there.error.map_or(Ok(()), Err)?;
    let beyond = there.bytes as usize;
    mica_memory::fill(&old.offset(beyond as isize), 0, len - beyond);
    for pair in covered.windows(2) {
        let (gap, end) = (pair[0].end, pair[1].start);
        let from = old.offset((gap - first) as isize);
        mica_memory::copy_bytes(&from, &region.offset(gap as isize), (end - gap) as usize);
    }
    let all = [FilePiece { view, position: first as usize, len }];
    write_all(&*file.storage, start + first, &all).error.map_or(Ok(()), Err)
}

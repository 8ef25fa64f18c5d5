//! Collective writes by exchange.

use std::ops::Range;
use std::sync::Arc;

use mica_collective::schedule::RoundTransfer;
use mica_memory::{Region, View};
use mica_node::counters::Counter;
use mica_objects::error::{Error, Result};

use super::{AgreedAccess, CollectivePart, RoundShares, WindowShare};
use crate::access::staging;
use crate::failure;
use crate::operation::{Desk, Exchanged, Plane, Running};
use crate::pieces::{PieceList, covered, in_window};
use crate::shared_file::{AggregatorMemory, SharedFile, WindowMemory};
use crate::storage::{FilePiece, read_all, write_all};

/// Pieces with gaps between them that are written one by one; more are written with the gaps kept.
const PIECES_MAX: usize = 8;

impl CollectivePart {
    /// This rank's part of a write, as a rank with data and as an aggregator.
    pub(super) async fn write(&self, desk: &Desk, agreement: &AgreedAccess) -> Result<u64> {
        let windows = &agreement.windows;
        let me = self.members().rank();
        let aggregator = match windows.aggregators.iter().position(|&rank| rank == me) {
            None => None,
            Some(index) => Some((index, self.file.aggregator_memory()?)),
        };
        // The calls that write what is in the memory of the two windows.
        let mut writes = [const { None::<Running<Result<()>>> }; 2];
        let mut error: Option<Error> = None;
        let mut sent: Option<Exchanged> = None;
        for round in 0..windows.rounds() {
            let mut shares = self.shares(agreement, round);
            let now = self.send(desk, &mut shares);
            error = error.or(shares.error.take());
            if let Some((index, memory)) = &aggregator {
                let window = windows.of(round, *index);
                let turn = (round % 2) as usize;
                // The one before the last has been written when its memory is filled again.
                if let Some(writing) = writes[turn].take() {
                    error = error.or(desk.done(writing).await.err());
                }
                let received =
                    self.receive(desk, agreement, (&window, memory, turn), shares.own).await;
                match received {
                    Ok(lists) => {
                        let memory = &memory.windows[turn];
                        writes[turn] = Some(self.begin_writing(desk, &window, memory, lists));
                    }
                    Err(failed) => error = error.or(Some(failed)),
                }
            }
            if let Some(before) = sent.replace(now) {
                error = error.or(desk.exchanged(self.members(), before).await.err());
            }
        }
        if let Some(last) = sent {
            error = error.or(desk.exchanged(self.members(), last).await.err());
        }
        for writing in writes.into_iter().flatten() {
            error = error.or(desk.done(writing).await.err());
        }
        error.map_or(Ok(self.stream.end - self.stream.start), Err)
    }

    /// Sends what is due to the aggregators in a round: to each the list of this rank's pieces, and
    /// their bytes.
    fn send(&self, desk: &Desk, shares: &mut RoundShares) -> Exchanged {
        let mut transfers = std::mem::take(&mut shares.lists);
        let bytes = shares.others.drain(..);
        transfers.extend(bytes.map(|(to, view)| RoundTransfer::Send { to, view }));
        desk.exchange(self.members(), Plane::Control, transfers)
    }

    /// As the aggregator of a window: receives lists, and the bytes into the window's memory.
    async fn receive(
        &self,
        desk: &Desk,
        agreement: &AgreedAccess,
        (window, memory, turn): (&Range<u64>, &AggregatorMemory, usize),
        own: Option<WindowShare>,
    ) -> Result<Vec<PieceList>> {
        let region = &memory.windows[turn].0;
        let mut received = self.receive_lists(desk, agreement, window, &memory.heads).await;
        let receive = |(from, view)| RoundTransfer::Receive { from, view };
        let transfers = received.places(region).into_iter().map(receive).collect();
        let messages = desk.exchange(self.members(), Plane::Control, transfers);
        let copied: Result<()> = own.as_ref().map_or(Ok(()), |own| {
            in_window(&own.list, region)?.copy_from(&own.data);
            Ok(())
        });
        desk.exchanged(self.members(), messages).await?;
        copied?;
        received.error.take().map_or(Ok(()), Err)?;
        Ok(received.with_own(own.as_ref().map(|own| &own.list)))
    }

    fn begin_writing(
        &self,
        desk: &Desk,
        window: &Range<u64>,
        memory: &WindowMemory,
        lists: Vec<PieceList>,
    ) -> Running<Result<()>> {
        let file = Arc::clone(&self.file);
        let ((region, view), start) = (memory.clone(), window.start);
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

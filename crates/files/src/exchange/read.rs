//! Collective reads by exchange.

use std::ops::Range;
use std::sync::Arc;

use mica_collective::schedule::RoundTransfer;
use mica_memory::{Region, View};
use mica_objects::error::{Error, Result};

use super::{AgreedAccess, CollectivePart, RoundShares, WindowShare};
use crate::failure;
use crate::operation::{Desk, Exchanged, Plane};
use crate::pieces::{PieceList, covered, in_window};
use crate::shared_file::{AggregatorMemory, SharedFile, WindowMemory};
use crate::storage::{FilePiece, read_all};

/// A gap between pieces that is read with them, in bytes: a call of the system costs more.
const GAP_MAX: u64 = 64 << 10;

/// What a rank expects in a round.
struct RequestedRound {
    lists: Exchanged,
    answers: Exchanged,
}

impl CollectivePart {
    /// This rank's part of a read of a file of `size` bytes, as a rank that wants data and as an
    /// aggregator.
    pub(super) async fn read(
        &self,
        desk: &Desk,
        agreement: &AgreedAccess,
        size: u64,
    ) -> Result<u64> {
        let windows = &agreement.windows;
        let me = self.members().rank();
        let aggregator = match windows.aggregators.iter().position(|&rank| rank == me) {
            None => None,
            Some(index) => Some((index, self.file.aggregator_memory()?)),
        };
        let mut error: Option<Error> = None;
        let mut requested: Option<RequestedRound> = None;
        // What the aggregator has sent from each of its windows.
        let mut sent: [Option<Exchanged>; 2] = [None, None];
        for round in 0..windows.rounds() {
            let mut shares = self.shares(agreement, round);
            let now = self.request(desk, &mut shares);
            error = error.or(shares.error.take());
            if let Some((index, memory)) = &aggregator {
                let window = windows.of(round, *index);
                let turn = (round % 2) as usize;
                if let Some(before) = sent[turn].take() {
                    error = error.or(desk.exchanged(self.members(), before).await.err());
                }
                let place = (&window, memory, turn);
                let (answers, failed) = self.answer(desk, agreement, place, shares.own).await;
                sent[turn] = Some(answers);
                error = error.or(failed);
            }
            if let Some(before) = requested.replace(now) {
                error = error.or(self.answered(desk, before).await.err());
            }
        }
        if let Some(last) = requested {
            error = error.or(self.answered(desk, last).await.err());
        }
        for messages in sent.into_iter().flatten() {
            error = error.or(desk.exchanged(self.members(), messages).await.err());
        }
        match error {
            Some(error) => Err(error),
            None => Ok(self.readable(size).end - self.stream.start),
        }
    }

    /// As the aggregator of a window: reads what ranks want of it, and sends it to them; whatever
    /// is in memory, where it fails.
    async fn answer(
        &self,
        desk: &Desk,
        agreement: &AgreedAccess,
        (window, memory, turn): (&Range<u64>, &AggregatorMemory, usize),
        own: Option<WindowShare>,
    ) -> (Exchanged, Option<Error>) {
        let place = &memory.windows[turn];
        let mut received = self.receive_lists(desk, agreement, window, &memory.heads).await;
        let lists = received.with_own(own.as_ref().map(|own| &own.list));
        let filled = self.fill(desk, window, place, lists).await;
        let send = |(to, view)| RoundTransfer::Send { to, view };
        let transfers = received.places(&place.0).into_iter().map(send).collect();
        let answers = desk.exchange(self.members(), Plane::Answers, transfers);
        let copied: Result<()> = own.map_or(Ok(()), |own| {
            own.data.copy_from(&in_window(&own.list, &place.0)?);
            Ok(())
        });
        (answers, received.error.or(filled.err()).or(copied.err()))
    }

    async fn answered(&self, desk: &Desk, round: RequestedRound) -> Result<()> {
        let lists = desk.exchanged(self.members(), round.lists).await;
        desk.exchanged(self.members(), round.answers).await.and(lists)
    }

    /// The part of the stream that lies in a file of this size.
    fn readable(&self, size: u64) -> Range<u64> {
        let end = self.view.position_before(size);
        self.stream.start..self.stream.end.min(end).max(self.stream.start)
    }

    /// Sends the lists of this rank's pieces in a round to the aggregators, and posts the receives
    /// of their bytes.
    fn request(&self, desk: &Desk, shares: &mut RoundShares) -> RequestedRound {
        let receive = |(from, view)| RoundTransfer::Receive { from, view };
        let answers = shares.others.drain(..).map(receive).collect();
        let lists = std::mem::take(&mut shares.lists);
        RequestedRound {
            lists: desk.exchange(self.members(), Plane::Control, lists),
            answers: desk.exchange(self.members(), Plane::Answers, answers),
        }
    }

    /// Reads the bytes of a window that ranks want.
    async fn fill(
        &self,
        desk: &Desk,
        window: &Range<u64>,
        memory: &WindowMemory,
        lists: Vec<PieceList>,
    ) -> Result<()> {
        let file = Arc::clone(&self.file);
        let ((region, view), start) = (memory.clone(), window.start);
        desk.run(move || read_window(&file, start, &region, &view, &lists)).await
    }
}

/// Reads the pieces of a window, with short gaps between them.
fn read_window(
    file: &SharedFile,
    start: u64,
    region: &Region,
    view: &View,
    lists: &[PieceList],
) -> Result<()> {
    let mut wanted: Vec<Range<u64>> = Vec::new();
    for piece in covered(lists) {
        match wanted.last_mut() {
            Some(last) if piece.start - last.end <= GAP_MAX => last.end = piece.end,
            _ => wanted.push(piece),
        }
    }
    for piece in wanted {
        let len = (piece.end - piece.start) as usize;
        let part = [FilePiece { view, position: piece.start as usize, len }];
        let got = read_all(&*file.storage, start + piece.start, &part);
        let beyond = got.bytes as usize;
        let rest = region.offset((piece.start as usize + beyond) as isize);
        mica_memory::fill(&rest, 0, len - beyond);
        let failed = |error: &std::io::Error| {
            failure::of_access("read", &file.name, start + piece.start + got.bytes, error)
        };
        if let Some(error) = &got.error {
            return Err(failed(error));
        }
        if beyond < len {
            // It had these bytes when the call began.
            return Err(failed(&std::io::ErrorKind::UnexpectedEof.into()));
        }
    }
    Ok(())
}

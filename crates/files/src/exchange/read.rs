//! Collective reads by exchange.

use std::ops::Range;
use std::sync::Arc;

use mica_collective::schedule::RoundTransfer;
use mica_memory::{Region, View};
use mica_objects::error::{Error, Result};

use super::{AgreedAccess, CollectivePart};
use crate::failure;
use crate::operation::{Desk, Exchanged, Plane};
use crate::pieces::{PieceList, covered, in_window};
use crate::shared_file::SharedFile;
use crate::storage::{FilePiece, read_all};

/// A gap between pieces that is read with them, in bytes: a call of the system costs more.
const GAP_MAX: u64 = 64 << 10;

/// What a rank expects in a round.
struct RequestedRound {
    lists: Exchanged,
    answers: Exchanged,
    /// Its own pieces of its own window.
    own: Option<(PieceList, View)>,
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
        let index = windows.aggregators.iter().position(|&rank| rank == me);
        let buffers = match index {
            None => Vec::new(),
            Some(_) => self.file.window_memory()?.into(),
        };
        let mut error: Option<Error> = None;
        let mut requested: Option<RequestedRound> = None;
        // What the aggregator has sent from each of its buffers.
        let mut sent: [Option<Exchanged>; 2] = [None, None];
        for round in 0..windows.rounds() {
            let now = self.request(desk, agreement, round)?;
            if let Some(index) = index {
                let window = windows.of(round, index);
                let turn = (round % 2) as usize;
                if let Some(before) = sent[turn].take() {
                    desk.exchanged(self.members(), before).await?;
                }
                let (sources, mut lists) = self.receive_lists(desk, agreement, &window).await?;
                lists.extend(now.own.iter().map(|(list, _)| list.clone()));
                let (region, view) = &buffers[turn];
                let filled = self.fill(desk, &window, (region, view), lists.clone()).await;
                error = error.or(filled.err());
                let mut transfers = Vec::new();
                for (&to, list) in sources.iter().zip(&lists) {
                    if list.bytes > 0 {
                        let view = in_window(list, region)?;
                        transfers.push(RoundTransfer::Send { to, view });
                    }
                }
                sent[turn] = Some(desk.exchange(self.members(), Plane::Answers, transfers));
                if let Some((list, data)) = &now.own {
                    data.copy_from(&in_window(list, region)?);
                }
            }
            if let Some(before) = requested.replace(now) {
                desk.exchanged(self.members(), before.lists).await?;
                desk.exchanged(self.members(), before.answers).await?;
            }
        }
        let last = requested.map(|last| [last.lists, last.answers]);
        for messages in sent.into_iter().flatten().chain(last.into_iter().flatten()) {
            desk.exchanged(self.members(), messages).await?;
        }
        match error {
            Some(error) => Err(error),
            None => Ok(self.readable(size).end - self.stream.start),
        }
    }

    /// The part of the stream that lies in a file of this size.
    fn readable(&self, size: u64) -> Range<u64> {
        let end = self.view.position_before(size);
        self.stream.start..self.stream.end.min(end).max(self.stream.start)
    }

    /// Sends the lists of this rank's pieces in a round to the aggregators, and posts the receives
    /// of their bytes.
    fn request(&self, desk: &Desk, agreement: &AgreedAccess, round: u64) -> Result<RequestedRound> {
        let me = self.members().rank();
        let (mut lists, mut answers) = (Vec::new(), Vec::new());
        let mut own = None;
        for share in self.shares(agreement, round)? {
            if share.aggregator == me {
                own = Some((share.list, share.data));
                continue;
            }
            lists.extend(share.send_list()?);
            if !share.data.is_empty() {
                let (from, view) = (share.aggregator, share.data);
                answers.push(RoundTransfer::Receive { from, view });
            }
        }
        let lists = desk.exchange(self.members(), Plane::Control, lists);
        let answers = desk.exchange(self.members(), Plane::Answers, answers);
        Ok(RequestedRound { lists, answers, own })
    }

    /// Reads the bytes of a window that ranks want.
    async fn fill(
        &self,
        desk: &Desk,
        window: &Range<u64>,
        (region, view): (&Region, &View),
        lists: Vec<PieceList>,
    ) -> Result<()> {
        let file = Arc::clone(&self.file);
        let (region, view, start) = (region.clone(), view.clone(), window.start);
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

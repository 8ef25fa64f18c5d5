//! Collective accesses (MPI 5.0, 14.4.3): two phases, as in Thakur, Gropp and Lusk, "Data Sieving
//! and Collective I/O in ROMIO" (1999). The range of the file that all ranks together access is
//! divided into *windows* of some hundred KiB, and each window belongs to one *aggregator*, which
//! reads or writes it in one piece. Ranks tell the aggregator of a window which of its bytes are
//! theirs ([`crate::pieces`]), and send or receive them straight from or to the program's memory;
//! on a node the aggregator's memory is filled by one copy, as by any long message.
//!
//! Windows of a round are those that all aggregators have at the same time. A rank sends what is
//! due in a round without waiting for the round before to be over: while one aggregator calls the
//! system, others take their bytes from its rank's memory.
//!
//! Ranks first exchange what each will do ([`AgreedAccess`]), and choose alike whether this pays
//! ([`exchanges`]). At the end they exchange how it went: an error of one is an error of
//! all. Others count on a rank's messages: one that meets an error goes through the rounds, sends
//! what it can (an empty list, where it has no memory for its own), and receives what is due to it.

mod read;
mod write;

use std::ops::Range;
use std::sync::Arc;

use mica_collective::exchange::check_announced;
use mica_collective::members::Members;
use mica_collective::schedule::RoundTransfer;
use mica_memory::{Block, Region, Shape, View};
use mica_node::counters::Counter;
use mica_objects::constants as c;
use mica_objects::error::{Error, Result};
use mica_policy::files::{AccessCosts, AccessDirection, AccessPart, exchanges};

use crate::access::RunSample;
use crate::operation::{Desk, Plane};
use crate::pieces::{HEADER, PieceList, ReceivedList, in_window};
use crate::shared_file::{PROCESSES, SharedFile};
use crate::view::FileView;

/// One rank's part of a collective access.
#[derive(Clone, Debug)]
pub struct CollectivePart {
    /// The file.
    pub file: Arc<SharedFile>,
    /// What the rank sees of it.
    pub view: Arc<FileView>,
    /// The stretch of the stream.
    pub stream: Range<u64>,
    /// Its bytes in memory, as the file has them.
    pub data: View,
}

/// What a rank tells the others before a collective access.
#[derive(Clone, Copy, Debug, Default)]
struct Announcement {
    part: AccessPart,
    /// Of the first rank, before a read: the size of the file.
    size: u64,
    /// Whether its part can be exchanged, and it has the memory for it.
    can_exchange: bool,
    error: i32,
}

impl Announcement {
    fn to_words(self) -> [u64; 6] {
        let AccessPart { start, end, bytes, run } = self.part;
        let flags = u64::from(self.error as u32) << 1 | u64::from(self.can_exchange);
        [start, end, bytes, run, self.size, flags]
    }

    fn from_words([start, end, bytes, run, size, flags]: [u64; 6]) -> Announcement {
        let part = AccessPart { start, end, bytes, run };
        Announcement { part, size, can_exchange: flags & 1 == 1, error: (flags >> 1) as i32 }
    }
}

/// What all ranks know of a collective access.
pub struct AgreedAccess {
    /// Each rank's part.
    pub parts: Vec<AccessPart>,
    /// The windows.
    pub windows: Windows,
}

/// What a rank has of a window of its own or of another aggregator.
struct WindowShare {
    list: PieceList,
    data: View,
}

/// What a rank has in a round.
#[derive(Default)]
struct RoundShares {
    /// Of its own window.
    own: Option<WindowShare>,
    /// The messages that carry the lists to other aggregators, and to each its bytes.
    lists: Vec<RoundTransfer>,
    others: Vec<(usize, View)>,
    /// Why the list of one is not sent.
    error: Option<Error>,
}

impl RoundShares {
    /// Adds what goes to another aggregator; nothing but an empty list, if it has an error.
    fn add(&mut self, to: usize, share: Result<WindowShare>) {
        let messages = share.and_then(|share| Ok((share.list.messages()?, share.data)));
        let ((head, rest), data) = messages.unwrap_or_else(|error| {
            self.error.get_or_insert(error);
            ((View::empty(), None), View::empty())
        });
        let views = std::iter::once(head).chain(rest);
        self.lists.extend(views.map(|view| RoundTransfer::Send { to, view }));
        if !data.is_empty() {
            self.others.push((to, data));
        }
    }
}

/// The lists of a window that its aggregator has received.
struct ReceivedLists {
    /// With the rank that each is from.
    lists: Vec<(usize, PieceList)>,
    /// One of them is not what its rank has sent.
    error: Option<Error>,
}

impl ReceivedLists {
    /// Where the bytes of each list lie in the window, by rank: at its beginning, where there is no
    /// memory to describe them.
    fn places(&mut self, window: &Region) -> Vec<(usize, View)> {
        let mut places = Vec::with_capacity(self.lists.len());
        for (rank, list) in self.lists.iter().filter(|(_, list)| list.bytes > 0) {
            let view = in_window(list, window).unwrap_or_else(|error| {
                self.error.get_or_insert(error.into());
                window.clone().view(Shape::Contiguous { bytes: list.bytes as usize })
            });
            places.push((*rank, view));
        }
        places
    }

    /// All lists, with this rank's own.
    fn with_own(&self, own: Option<&PieceList>) -> Vec<PieceList> {
        let received = self.lists.iter().map(|(_, list)| list);
        received.chain(own).cloned().collect()
    }
}

/// How a range of a file is divided among aggregators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Windows {
    range: Range<u64>,
    bytes: u64,
    /// Ranks.
    pub aggregators: Vec<usize>,
}

/// The ranks that are aggregators where there are `aggregators` of them among `ranks`.
fn aggregators_among(aggregators: usize, ranks: usize) -> impl Iterator<Item = usize> {
    let number = aggregators.clamp(1, ranks);
    (0..number).map(move |i| i * ranks / number)
}

impl Windows {
    /// Those of a range, of `bytes` bytes each, for aggregators among `ranks` ranks.
    pub fn new(range: Range<u64>, bytes: u64, aggregators: usize, ranks: usize) -> Windows {
        let aggregators = aggregators_among(aggregators, ranks).collect();
        // Windows of all accesses have the same bounds.
        let first = range.start / bytes * bytes;
        Windows { range: first..range.end, bytes, aggregators }
    }

    /// How many rounds there are.
    pub fn rounds(&self) -> u64 {
        let windows = (self.range.end - self.range.start).div_ceil(self.bytes);
        windows.div_ceil(self.aggregators.len() as u64)
    }

    /// Each aggregator's rank, and its window in a round.
    fn in_round(&self, round: u64) -> impl Iterator<Item = (usize, Range<u64>)> + '_ {
        let ranks = self.aggregators.iter().enumerate();
        ranks.map(move |(index, &rank)| (rank, self.of(round, index)))
    }

    /// The window of an aggregator, by its index, in a round. It may be empty.
    pub fn of(&self, round: u64, aggregator: usize) -> Range<u64> {
        let number = round * self.aggregators.len() as u64 + aggregator as u64;
        let start = self.range.start.saturating_add(number.saturating_mul(self.bytes));
        let start = start.min(self.range.end);
        start..start.saturating_add(self.bytes).min(self.range.end)
    }
}

impl CollectivePart {
    fn members(&self) -> &Members {
        &self.file.members
    }

    /// What it does to the file.
    fn access_part(&self) -> Result<AccessPart> {
        let Some(sample) = RunSample::of(&self.view, &self.stream) else {
            return Ok(AccessPart::default());
        };
        let span = self.file.access(&self.view).span(&self.stream)?;
        let bytes = self.stream.end - self.stream.start;
        Ok(AccessPart { start: span.start, end: span.end, bytes, run: sample.average() })
    }

    /// What is due to, or from, the aggregators in a round.
    fn shares(&self, agreement: &AgreedAccess, round: u64) -> RoundShares {
        let me = self.members().rank();
        let part = &agreement.parts[me];
        let mut shares = RoundShares::default();
        for (aggregator, window) in agreement.windows.in_round(round) {
            if !part.meets(&window) {
                continue;
            }
            let share = self.share(&window);
            match (aggregator == me, share) {
                (true, Ok(share)) => shares.own = Some(share),
                (true, Err(error)) => drop(shares.error.get_or_insert(error)),
                (false, share) => shares.add(aggregator, share),
            }
        }
        shares
    }

    /// This rank's pieces of a window, and their bytes.
    fn share(&self, window: &Range<u64>) -> Result<WindowShare> {
        let within = self.view.within(&self.stream, window);
        let from = (within.start - self.stream.start) as usize;
        let data = self.data.part(from..from + (within.end - within.start) as usize)?;
        Ok(WindowShare { list: PieceList::of(&self.view, within, window), data })
    }

    /// As the aggregator of a window: the lists of the ranks that may have pieces in it, without
    /// this one.
    async fn receive_lists(
        &self,
        desk: &Desk,
        agreement: &AgreedAccess,
        window: &Range<u64>,
        heads: &Region,
    ) -> ReceivedLists {
        let (members, me) = (self.members(), self.members().rank());
        let meets = |&rank: &usize| rank != me && agreement.parts[rank].meets(window);
        let mut received = Vec::new();
        let mut transfers = Vec::new();
        for from in (0..members.size()).filter(meets) {
            let head = heads.offset((from * HEADER) as isize);
            let (list, view) = ReceivedList::in_memory(head);
            received.push((from, list));
            transfers.push(RoundTransfer::Receive { from, view });
        }
        let messages = desk.exchange(members, Plane::Control, transfers);
        // One that has failed at its rank stays empty.
        let mut error = desk.exchanged(members, messages).await.err();
        let mut rests = Vec::new();
        for (from, list) in &mut received {
            let from = *from;
            let rest = list.expect_rest().unwrap_or_else(|no_memory| {
                error.get_or_insert(no_memory.into());
                Some(View::empty())
            });
            let receive = rest.map(|view| vec![RoundTransfer::Receive { from, view }]);
            rests.push(desk.exchange(members, Plane::Control, receive.unwrap_or_default()));
        }
        for rest in rests {
            error = error.or(desk.exchanged(members, rest).await.err());
        }
        let lists = received.iter().map(|(from, list)| (*from, list.list()));
        ReceivedLists { lists: lists.collect(), error }
    }

    /// This rank's part by itself.
    ///
    /// # Errors
    /// Those of the access.
    pub async fn alone(&self, desk: &Desk, direction: AccessDirection) -> Result<u64> {
        let part = self.clone();
        desk.run(move || {
            let access = part.file.access(&part.view);
            access.transfer(direction, part.stream.clone(), &part.data)
        })
        .await
    }

    async fn carry_out(
        &self,
        desk: &Desk,
        direction: AccessDirection,
        all: &[Announcement],
    ) -> Result<u64> {
        let hints = self.file.hints();
        let choice = match direction {
            AccessDirection::Read => hints.exchange_reads,
            AccessDirection::Write => hints.exchange_writes,
        };
        let parts: Vec<AccessPart> = all.iter().map(|one| one.part).collect();
        let can = all.iter().all(|one| one.can_exchange) && !self.file.guard.is_atomic();
        if !can || !exchanges(&parts, direction, choice, &AccessCosts::SHIPPED) {
            return self.alone(desk, direction).await;
        }
        self.file.counters.count(Counter::FileExchanges);
        let agreement = self.agree(parts, all[0].size, direction);
        match direction {
            AccessDirection::Write => self.write(desk, &agreement).await,
            AccessDirection::Read => self.read(desk, &agreement, all[0].size).await,
        }
    }

    fn agree(&self, parts: Vec<AccessPart>, size: u64, direction: AccessDirection) -> AgreedAccess {
        let with_bytes = || parts.iter().filter(|part| part.bytes > 0);
        let start = with_bytes().map(|part| part.start).min().unwrap_or(0);
        let end = with_bytes().map(|part| part.end).max().unwrap_or(0);
        // Nothing is read beyond the end that the first rank sees.
        let end = match direction {
            AccessDirection::Read => end.min(size).max(start),
            AccessDirection::Write => end,
        };
        let hints = self.file.hints();
        let ranks = parts.len();
        let aggregators = self.file.aggregators();
        let windows = Windows::new(start..end, hints.exchange_block, aggregators, ranks);
        AgreedAccess { parts, windows }
    }
}

/// Carries a collective access out: called by all ranks, also by one whose arguments are wrong.
/// Returns the bytes that this rank's part has got.
///
/// # Errors
/// The same class at all ranks, if any has one.
pub async fn access(
    desk: &Desk,
    file: &SharedFile,
    part: Result<CollectivePart>,
    direction: AccessDirection,
) -> Result<u64> {
    let members = &*file.members;
    let own = part.and_then(|part| Ok((part.access_part()?, part)));
    let is_aggregator =
        aggregators_among(file.aggregators(), members.size()).any(|rank| rank == members.rank());
    let announced = Announcement {
        part: own.as_ref().map_or_else(|_| AccessPart::default(), |(part, _)| *part),
        size: match direction {
            AccessDirection::Read if members.rank() == 0 => file.storage.size().unwrap_or(0),
            _ => 0,
        },
        can_exchange: own.as_ref().is_ok_and(|(access, part)| {
            (part.view.is_ascending() || access.bytes == 0)
                && (!is_aggregator || file.aggregator_memory().is_ok())
        }),
        error: own.as_ref().map_or_else(Error::code, |_| c::SUCCESS),
    };
    let all = allgather(desk, members, announced.to_words()).await?;
    let all: Vec<_> = all.into_iter().map(Announcement::from_words).collect();
    let (_, part) = own?;
    check_announced(all.iter().map(|one| one.error), PROCESSES)?;
    let done = part.carry_out(desk, direction, &all).await;
    let code = done.as_ref().map_or_else(Error::code, |_| c::SUCCESS);
    let codes = allgather(desk, members, [code as u64]).await?;
    let done = done?;
    check_announced(codes.into_iter().map(|[code]| code as i32), PROCESSES)?;
    Ok(done)
}

/// All ranks' words: Bruck's algorithm.
async fn allgather<const N: usize>(
    desk: &Desk,
    members: &Members,
    mine: [u64; N],
) -> Result<Vec<[u64; N]>> {
    let (size, rank, each) = (members.size(), members.rank(), size_of_val(&mine));
    let region = Block::allocate(size * each)?;
    region.write_bytes(mine.map(u64::to_ne_bytes).as_flattened());
    let part = |from: usize, blocks: usize| {
        let at = region.offset((from * each) as isize);
        at.view(Shape::Contiguous { bytes: blocks * each })
    };
    // Those of the ranks from this one on are here.
    let mut here = 1;
    while here < size {
        let blocks = here.min(size - here);
        let to = (rank + size - here) % size;
        let from = (rank + here) % size;
        let transfers = vec![
            RoundTransfer::Receive { from, view: part(here, blocks) },
            RoundTransfer::Send { to, view: part(0, blocks) },
        ];
        let messages = desk.exchange(members, Plane::Control, transfers);
        desk.exchanged(members, messages).await?;
        here += blocks;
    }
    let mut rotated = vec![0; size * each];
    region.read_bytes(&mut rotated);
    rotated.rotate_right(rank * each);
    let words = rotated.as_chunks().0.iter().map(|&word| u64::from_ne_bytes(word));
    let words: Vec<u64> = words.collect();
    Ok(words.as_chunks().0.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_cover_a_range_once() {
        for (range, bytes, aggregators) in [(0..1, 64, 3), (100..1000, 64, 3), (7..70_000, 4096, 2)]
        {
            let windows = Windows::new(range.clone(), bytes, aggregators, 5);
            let mut next = range.start / bytes * bytes;
            for round in 0..windows.rounds() {
                for aggregator in 0..windows.aggregators.len() {
                    let window = windows.of(round, aggregator);
                    assert!(window.is_empty() || window.start == next);
                    next = next.max(window.end);
                }
            }
            assert_eq!(next, range.end);
        }
        assert_eq!(Windows::new(0..8, 8, 9, 5).aggregators, [0, 1, 2, 3, 4]);
        assert_eq!(Windows::new(0..8, 8, 2, 5).aggregators, [0, 2]);
    }

    #[test]
    fn announcements_travel_whole() {
        let part = AccessPart { start: 1, end: 2, bytes: 3, run: 4 };
        let one = Announcement { part, size: 5, can_exchange: true, error: c::ERR_IO };
        let back = Announcement::from_words(one.to_words());
        assert_eq!((back.part, back.size), (part, 5));
        assert_eq!((back.can_exchange, back.error), (true, c::ERR_IO));
    }
}

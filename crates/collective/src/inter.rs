//! Collectives on intercommunicators (MPI 5.0, 6.2.2 and 6.2.3): data goes from one group to the
//! other, in one direction (rooted operations) or in both.
//!
//! A schedule numbers the processes of this process's group first, then those of the other one. So
//! within a group, the intracommunicator's algorithm applies unchanged, and the first process of
//! each group represents it: reductions cross once. A barrier and a broadcast are the
//! intracommunicator's algorithms over all processes, or over the root and the other group. In an
//! allgather, the processes of a group share out the receiving, and pass on what they got around a
//! ring. Gather, scatter and all-to-all send directly from each sender to each receiver; there is
//! no shorter way.

use mica_memory::View;

use super::flat;
use super::place::{Elements, RankPlace};
use super::reduction::Reduction;
use super::schedule::{Round, RoundTransfer, Schedule};
use super::thresholds::MessageThresholds;
use crate::members::{GroupSide, Members};
use mica_objects::constants as c;
use mica_objects::error::{Error, Result};

/// The place of a schedule's process in an intercommunicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterSides {
    /// Its rank in its group.
    pub rank: usize,
    /// Size of its group.
    pub local: usize,
    /// Size of the other group.
    pub remote: usize,
    /// Whether its group is the lower of the two; both groups agree on this.
    pub lower: bool,
}

/// Where the root of an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// This process (`MPI_ROOT`).
    Here,
    /// Another process of this group (`MPI_PROC_NULL`); there is nothing to do.
    Beside,
    /// This rank of the other group.
    Remote(usize),
}

impl InterSides {
    /// The place of this process; `None` on an intracommunicator.
    pub(super) fn of(members: &Members) -> Option<InterSides> {
        members.side().map(|side| InterSides {
            rank: members.rank(),
            local: members.size(),
            remote: members.remote_or_local_size(),
            lower: side == GroupSide::Lower,
        })
    }

    /// The meaning of the argument `root`.
    pub(super) fn root(self, root: i32) -> Result<Root> {
        match (root, usize::try_from(root)) {
            (c::ROOT, _) => Ok(Root::Here),
            (c::PROC_NULL, _) => Ok(Root::Beside),
            (_, Ok(rank)) if rank < self.remote => Ok(Root::Remote(rank)),
            _ => {
                let reason = format!(
                    "the remote group has {} ranks; MPI_ROOT and MPI_PROC_NULL are for the root's \
                    group",
                    self.remote
                );
                Err(Error::argument(c::ERR_ROOT, "root", root, reason))
            }
        }
    }

    /// The place of this process in its own group.
    fn place(self) -> RankPlace {
        RankPlace { rank: self.rank, size: self.local }
    }

    /// The number of a rank of the other group.
    fn other(self, rank: usize) -> usize {
        self.local + rank
    }
}

/// The schedule with its peers renumbered.
fn renumbered(mut schedule: Schedule, number: impl Fn(usize) -> usize) -> Schedule {
    for round in &mut schedule.rounds {
        for transfer in &mut round.transfers {
            match transfer {
                RoundTransfer::Send { to: peer, .. }
                | RoundTransfer::Receive { from: peer, .. } => {
                    *peer = number(*peer);
                }
            }
        }
    }
    schedule
}

/// The schedule of a barrier of all processes, counted from the lower group on.
pub fn barrier(me: InterSides) -> Schedule {
    let size = me.local + me.remote;
    let all = |rank| flat::barrier(RankPlace { rank, size });
    if me.lower {
        all(me.rank)
    } else {
        // The numbers count from the lower group on; here they must count from this group on.
        let number = |n: usize| {
            if n < me.remote { me.other(n) } else { n - me.remote }
        };
        renumbered(all(me.remote + me.rank), number)
    }
}

/// The schedule of a broadcast among the root, as number 0, and the other group.
pub fn bcast(
    me: InterSides,
    thresholds: &MessageThresholds,
    message: View,
    root: Root,
) -> Result<Schedule> {
    match root {
        Root::Beside => Ok(Schedule::new()),
        Root::Here => {
            let place = RankPlace { rank: 0, size: me.remote + 1 };
            let schedule = flat::bcast(place, thresholds, message, 0)?;
            Ok(renumbered(schedule, |n| me.other(n - 1)))
        }
        Root::Remote(root) => {
            let place = RankPlace { rank: me.rank + 1, size: me.local + 1 };
            let schedule = flat::bcast(place, thresholds, message, 0)?;
            Ok(renumbered(schedule, |n| n.checked_sub(1).unwrap_or(me.other(root))))
        }
    }
}

/// The schedule of a gather, v-forms too: the root receives `blocks[i]` from rank `i` of the other
/// group, whose processes `send`.
pub fn gather(
    me: InterSides,
    send: Option<View>,
    blocks: Option<Vec<View>>,
    root: Root,
) -> Schedule {
    with_root(me, root, (blocks, Round::receive), (send, Round::send))
}

/// The schedule of a scatter, v-forms too: the root sends `blocks[i]` to rank `i` of the other
/// group, whose processes `receive`.
pub fn scatter(
    me: InterSides,
    blocks: Option<Vec<View>>,
    receive: Option<View>,
    root: Root,
) -> Schedule {
    with_root(me, root, (blocks, Round::send), (receive, Round::receive))
}

/// How a side's message is transferred.
type Transfer = fn(&mut Round, usize, View) -> &mut Round;

/// The schedule of the root with its `blocks`, one for each process of the other group, or of such
/// a process with its own message.
fn with_root(
    me: InterSides,
    root: Root,
    (blocks, transfer_block): (Option<Vec<View>>, Transfer),
    (own, transfer_own): (Option<View>, Transfer),
) -> Schedule {
    let mut schedule = Schedule::new();
    let round = schedule.round();
    match root {
        Root::Beside => {}
        Root::Here => {
            for (rank, block) in blocks.into_iter().flatten().enumerate() {
                if !block.is_empty() {
                    transfer_block(round, me.other(rank), block);
                }
            }
        }
        Root::Remote(root) => {
            if let Some(own) = own.filter(|own| !own.is_empty()) {
                transfer_own(round, me.other(root), own);
            }
        }
    }
    schedule
}

/// The schedule of an allgather, v-form too: `blocks[i]` comes from rank `i` of the other group.
/// Each process receives its share of the blocks, which are then passed around the ring.
pub fn allgather(me: InterSides, send: View, blocks: &[View]) -> Schedule {
    let share = |rank: usize| {
        let taken = move |&(i, _): &(usize, &View)| i * me.local / me.remote == rank;
        blocks.iter().enumerate().filter(taken).filter(|(_, block)| !block.is_empty())
    };
    let mut schedule = Schedule::new();
    let round = schedule.round();
    for (i, block) in share(me.rank) {
        round.receive(me.other(i), block.clone());
    }
    if !send.is_empty() {
        round.send(me.other(me.rank * me.remote / me.local), send);
    }
    let place = me.place();
    for step in 0..me.local - 1 {
        let round = schedule.round();
        for (_, block) in share(place.before(step + 1)) {
            round.receive(place.before(1), block.clone());
        }
        for (_, block) in share(place.before(step)) {
            round.send(place.after(1), block.clone());
        }
    }
    schedule
}

/// The schedule of an all-to-all, v- and w-forms too: `send[i]` goes to rank `i` of the other
/// group, `receive[i]` comes from it.
pub fn alltoall(
    me: InterSides,
    thresholds: &MessageThresholds,
    send: &[View],
    receive: &[View],
) -> Schedule {
    let window = thresholds.alltoall_window.max(1);
    let mut schedule = Schedule::new();
    // Both groups count modulo the size of the larger one, so that a message has the same distance
    // on both sides.
    let larger = me.local.max(me.remote);
    for distance in 0..larger {
        let round = if distance % window == 0 { schedule.round() } else { schedule.last() };
        let (to, from) = ((me.rank + distance) % larger, (me.rank + larger - distance) % larger);
        if let Some(block) = receive.get(from).filter(|block| !block.is_empty()) {
            round.receive(me.other(from), block.clone());
        }
        if let Some(block) = send.get(to).filter(|block| !block.is_empty()) {
            round.send(me.other(to), block.clone());
        }
    }
    schedule
}

/// Reduces the operands of this group at its first process. Returns the schedule so far and, at
/// that process, where the result is.
fn reduced(
    me: InterSides,
    thresholds: &MessageThresholds,
    reduction: &Reduction,
    send: &Elements,
) -> Result<(Schedule, Option<Elements>)> {
    if me.local == 1 {
        return Ok((Schedule::new(), Some(send.clone())));
    }
    let result = (me.rank == 0).then(|| reduction.temporary(reduction.count)).transpose()?;
    let place = me.place();
    let schedule = flat::reduce(place, thresholds, reduction, Some(send), result.as_ref(), 0)?;
    Ok((schedule, result))
}

/// The schedule of a reduce: the root receives the other group's result.
pub fn reduce(
    me: InterSides,
    thresholds: &MessageThresholds,
    reduction: &Reduction,
    send: Option<&Elements>,
    receive: Option<&Elements>,
    root: Root,
) -> Result<Schedule> {
    let count = reduction.count;
    if count == 0 {
        return Ok(Schedule::new());
    }
    match (root, send, receive) {
        (Root::Here, _, Some(receive)) => {
            let mut schedule = Schedule::new();
            let round = schedule.round();
            round.receive(me.other(0), receive.view(0, count)?);
            Ok(schedule)
        }
        (Root::Remote(root), Some(send), _) => {
            let (mut schedule, result) = reduced(me, thresholds, reduction, send)?;
            if let Some(result) = result {
                let round = schedule.round();
                round.send(me.other(root), result.view(0, count)?);
            }
            Ok(schedule)
        }
        _ => Ok(Schedule::new()),
    }
}

/// The schedule of an allreduce: each group gets the other group's result.
pub fn allreduce(
    me: InterSides,
    thresholds: &MessageThresholds,
    reduction: &Reduction,
    send: &Elements,
    receive: &Elements,
) -> Result<Schedule> {
    let count = reduction.count;
    if count == 0 {
        return Ok(Schedule::new());
    }
    let (mut schedule, result) = reduced(me, thresholds, reduction, send)?;
    let vector = receive.view(0, count)?;
    if let Some(result) = result {
        let round = schedule.round();
        round.receive(me.other(0), vector.clone()).send(me.other(0), result.view(0, count)?);
    }
    let spread = flat::bcast(me.place(), thresholds, vector, 0)?;
    schedule.rounds.extend(spread.rounds);
    Ok(schedule)
}

/// The schedule of a reduce-scatter: rank `i` gets `counts[i]` elements of the other group's
/// result, after those of the ranks before it. The sum of the counts is the same in both groups.
pub fn reduce_scatter(
    me: InterSides,
    thresholds: &MessageThresholds,
    reduction: &Reduction,
    counts: &[usize],
    send: &Elements,
    receive: &Elements,
) -> Result<Schedule> {
    let total = reduction.count;
    if total == 0 {
        return Ok(Schedule::new());
    }
    let (mut schedule, result) = reduced(me, thresholds, reduction, send)?;
    let Some(result) = result else {
        if counts[me.rank] > 0 {
            let round = schedule.round();
            round.receive(0, receive.view(0, counts[me.rank])?);
        }
        return Ok(schedule);
    };
    let theirs = reduction.temporary(total)?;
    schedule
        .round()
        .receive(me.other(0), theirs.view(0, total)?)
        .send(me.other(0), result.view(0, total)?);
    let round = schedule.round();
    let mut first = 0;
    for (rank, &count) in counts.iter().enumerate() {
        if count > 0 && rank == me.rank {
            round.copy(theirs.view(first, count)?, receive.view(0, count)?);
        } else if count > 0 {
            round.send(rank, theirs.view(first, count)?);
        }
        first += count;
    }
    Ok(schedule)
}

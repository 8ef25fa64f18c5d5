//! What all ranks of a recorded run do alike: a sequence of steps.
//!
//! A step is either an exchange with neighbours or a collective, with what is computed before it.
//! An exchange begins with the first message or receive and ends when its receives are waited for.
//! Where ranks then differ in their steps, since ranks at a border skip calls (`MPI_Sendrecv` with
//! one neighbour after the other), exchanges that follow one another are one as long as they name
//! each neighbour once. If ranks still differ there is no pattern: one line says which.
//!
//! Neighbours are offsets on a grid of processes. The grid is the one of 1 to 3 dimensions on which
//! every message goes to an adjacent rank, and every rank that has a neighbour in a direction in
//! which others send sends to it; of several, the one with the fewest directions.

use std::collections::{BTreeMap, BTreeSet};

use mica_policy::collective::Collective;

use super::engine::{GroupCollective, RankGroup, ReplayOperation};
use super::grid::{Direction, Grid, factorizations};
use super::recorded::{Recorded, RecordedRank};

/// What all ranks do.
#[derive(Debug, Clone, PartialEq)]
pub struct ExchangePattern {
    /// The grid of the recorded run.
    pub grid: Grid,
    /// In order.
    pub steps: Vec<PatternStep>,
    /// Nanoseconds that each recorded rank computes after the last step.
    pub rest_ns: Vec<f64>,
    /// What the reader should know.
    pub notes: Vec<String>,
}

/// One step.
#[derive(Debug, Clone, PartialEq)]
pub struct PatternStep {
    /// Nanoseconds that each recorded rank computes before it.
    pub before_ns: Vec<f64>,
    /// Nanoseconds that each recorded rank computes between start and completion of its messages.
    pub inside_ns: Vec<f64>,
    /// What it does.
    pub kind: StepKind,
}

/// What a step does.
#[derive(Debug, Clone, PartialEq)]
pub enum StepKind {
    /// Messages to neighbours.
    Exchange {
        /// The messages in each direction.
        messages: Vec<DirectionMessages>,
        /// Whether all are started before any is waited for.
        order: ExchangeOrder,
    },
    /// A collective of all ranks.
    Collective {
        /// The operation.
        collective: Collective,
        /// Root.
        root: u32,
        /// As [`mica_algorithms::MessageCall::bytes`] counts.
        bytes: u64,
    },
}

/// The messages of an exchange in one direction.
#[derive(Debug, Clone, PartialEq)]
pub struct DirectionMessages {
    /// Where to.
    pub direction: Direction,
    /// Bytes of each, the mean of the ranks that send it.
    pub bytes: Vec<u64>,
}

/// In which order messages of an exchange go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExchangeOrder {
    /// All are started, then all are waited for.
    Together,
    /// One direction after the other.
    OneByOne,
}

/// There is no pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// Ranks have different steps.
    #[error(
        "ranks do not do the same: rank {rank} has {what}, rank 0 has {of_first}; such a run can \
         be replayed on its own number of ranks only"
    )]
    NotAlike {
        /// The first that differs from rank 0.
        rank: u32,
        /// What it does.
        what: String,
        /// What rank 0 does.
        of_first: String,
    },
    /// No grid has these neighbours.
    #[error(
        "rank {from} sends to rank {to}, and no grid of {ranks} ranks makes all such pairs \
         neighbours; --grid and --periodic can say which it is"
    )]
    NoGrid {
        /// A sender ...
        from: u32,
        /// ... and its receiver.
        to: u32,
        /// Number of ranks.
        ranks: u32,
    },
    /// A communicator of some of the ranks.
    #[error(
        "a collective of {size} of {ranks} ranks: the profile does not say which, so it cannot be \
         extrapolated"
    )]
    PartOfRanks {
        /// Its ranks.
        size: u32,
        /// All ranks.
        ranks: u32,
    },
    /// One rank.
    #[error("a run of 1 rank has no messages: record 2 ranks or more")]
    OneRank,
}

/// The pattern of a recorded run; `given` is the grid if the user says it.
///
/// # Errors
/// If ranks do not do the same.
pub fn pattern(recorded: &Recorded, given: Option<&Grid>) -> Result<ExchangePattern, PatternError> {
    let ranks = recorded.ranks.len() as u32;
    if ranks < 2 {
        return Err(PatternError::OneRank);
    }
    let by_waits: Vec<Vec<RankStep>> = recorded.ranks.iter().map(rank_steps).collect();
    let steps = match alike(&by_waits, ranks) {
        Ok(()) => by_waits,
        Err(PatternError::NotAlike { .. }) => {
            let merged: Vec<Vec<RankStep>> = by_waits.into_iter().map(merge_exchanges).collect();
            alike(&merged, ranks)?;
            merged
        }
        Err(other) => return Err(other),
    };
    let mut notes = Vec::new();
    let grid = find_grid(&steps, ranks, given, &mut notes)?;
    let count = steps[0].len();
    Ok(ExchangePattern {
        steps: (0..count).map(|at| joined(&steps, at, &grid)).collect(),
        rest_ns: recorded.ranks.iter().map(|rank| rank.rest_ns).collect(),
        grid,
        notes,
    })
}

/// A step of one rank.
#[derive(Debug, Clone, PartialEq)]
struct RankStep {
    before_ns: f64,
    inside_ns: f64,
    kind: RankStepKind,
}

#[derive(Debug, Clone, PartialEq)]
enum RankStepKind {
    Exchange { sends: Vec<(u32, u64)>, receives: Vec<u32>, order: ExchangeOrder },
    Collective(GroupCollective),
}

impl RankStep {
    fn name(&self) -> &'static str {
        match &self.kind {
            RankStepKind::Exchange { .. } => "an exchange",
            RankStepKind::Collective(call) => call.collective.name(),
        }
    }

    fn exchange() -> RankStep {
        RankStep {
            before_ns: 0.0,
            inside_ns: 0.0,
            kind: RankStepKind::Exchange {
                sends: Vec::new(),
                receives: Vec::new(),
                order: ExchangeOrder::Together,
            },
        }
    }

    fn is_empty(&self) -> bool {
        match &self.kind {
            RankStepKind::Exchange { sends, receives, .. } => {
                sends.is_empty() && receives.is_empty()
            }
            RankStepKind::Collective(_) => false,
        }
    }

    fn add(&mut self, operation: ReplayOperation) {
        if let RankStepKind::Exchange { sends, receives, .. } = &mut self.kind {
            match operation {
                ReplayOperation::Send { to, bytes, .. } => sends.push((to, bytes)),
                ReplayOperation::Receive { from, .. } => receives.push(from),
                _ => {}
            }
        }
    }
}

/// Cuts a rank's calls into steps.
fn rank_steps(rank: &RecordedRank) -> Vec<RankStep> {
    let mut steps: Vec<RankStep> = Vec::new();
    let mut open: Option<RankStep> = None;
    let mut carried = 0.0;
    for call in &rank.calls {
        match call.operation {
            ReplayOperation::Wait => match open.take() {
                Some(mut step) => {
                    step.inside_ns += call.before_ns;
                    steps.push(step);
                }
                None => carried += call.before_ns,
            },
            ReplayOperation::Send { .. } | ReplayOperation::Receive { .. } => {
                let step = open.get_or_insert_with(RankStep::exchange);
                let empty = step.is_empty();
                let time = if empty { &mut step.before_ns } else { &mut step.inside_ns };
                *time += std::mem::take(&mut carried) + call.before_ns;
                step.add(call.operation);
            }
            ReplayOperation::Collective(collective) => {
                // Messages that no rank waits for before it.
                steps.extend(open.take());
                steps.push(RankStep {
                    before_ns: std::mem::take(&mut carried) + call.before_ns,
                    inside_ns: 0.0,
                    kind: RankStepKind::Collective(collective),
                });
            }
            ReplayOperation::Compute(_) => {}
        }
    }
    steps.extend(open);
    if let Some(last) = steps.last_mut() {
        last.inside_ns += carried;
    }
    steps
}

/// Exchanges that follow one another become one, as long as each peer is named once.
fn merge_exchanges(steps: Vec<RankStep>) -> Vec<RankStep> {
    let mut merged: Vec<RankStep> = Vec::new();
    for step in steps {
        if let (Some(last), RankStepKind::Exchange { sends, receives, .. }) =
            (merged.last_mut(), &step.kind)
            && let RankStepKind::Exchange { sends: known, receives: awaited, order } =
                &mut last.kind
            && !sends.iter().any(|send| known.iter().any(|k| k.0 == send.0))
            && !receives.iter().any(|from| awaited.contains(from))
        {
            known.extend(sends);
            awaited.extend(receives);
            *order = ExchangeOrder::OneByOne;
            last.inside_ns += step.before_ns + step.inside_ns;
        } else {
            merged.push(step);
        }
    }
    merged
}

/// Whether all ranks do the same.
fn alike(steps: &[Vec<RankStep>], ranks: u32) -> Result<(), PatternError> {
    let first = &steps[0];
    for (rank, own) in steps.iter().enumerate() {
        let differs = |what: String, of_first: String| PatternError::NotAlike {
            rank: rank as u32,
            what,
            of_first,
        };
        let mut pairs = own.iter().zip(first).enumerate();
        if let Some((at, (own, first))) = pairs.find(|(_, (own, first))| own.name() != first.name())
        {
            let named = |step: &RankStep| format!("{} in step {at}", step.name());
            return Err(differs(named(own), named(first)));
        }
        if own.len() != first.len() {
            let steps = |steps: &[RankStep]| format!("{} steps", steps.len());
            return Err(differs(steps(own), steps(first)));
        }
    }
    let mut sizes = first.iter().filter_map(|step| match step.kind {
        RankStepKind::Collective(GroupCollective {
            group: RankGroup::Strided { count, .. },
            ..
        }) if count != ranks => Some(count),
        _ => None,
    });
    match sizes.next() {
        Some(size) => Err(PatternError::PartOfRanks { size, ranks }),
        None => Ok(()),
    }
}

/// Who sends to whom.
fn pairs(steps: &[Vec<RankStep>]) -> BTreeSet<(u32, u32)> {
    let mut pairs = BTreeSet::new();
    for (rank, steps) in steps.iter().enumerate() {
        for step in steps {
            if let RankStepKind::Exchange { sends, .. } = &step.kind {
                pairs.extend(sends.iter().map(|send| (rank as u32, send.0)));
            }
        }
    }
    pairs
}

fn find_grid(
    steps: &[Vec<RankStep>],
    ranks: u32,
    given: Option<&Grid>,
    notes: &mut Vec<String>,
) -> Result<Grid, PatternError> {
    let pairs = pairs(steps);
    let Some(&(from, to)) = pairs.first() else {
        return Ok(given.cloned().unwrap_or_else(|| Grid::open(&[ranks])));
    };
    let none = PatternError::NoGrid { from, to, ranks };
    if let Some(grid) = given {
        return match directions_used(grid, &pairs) {
            Ok(_) => Ok(grid.clone()),
            Err((from, to)) => Err(PatternError::NoGrid { from, to, ranks }),
        };
    }
    let mut best: Option<(usize, Grid)> = None;
    for grid in candidates(ranks) {
        if let Ok(used) = directions_used(&grid, &pairs)
            && is_complete(&grid, &used, &pairs)
            && best.as_ref().is_none_or(|(least, _)| used.len() < *least)
        {
            best = Some((used.len(), grid));
        }
    }
    let (_, grid) = best.ok_or(none)?;
    if grid.dimensions == [2] {
        notes.push(
            "2 ranks: taken as a chain in one dimension; --grid 2x1 says that there are two"
                .to_owned(),
        );
    }
    Ok(grid)
}

/// Grids of up to 3 dimensions, none of them of size 1 unless there is no other; those with rings
/// after those without.
fn candidates(ranks: u32) -> Vec<Grid> {
    let mut grids = Vec::new();
    for dimensions in 1..=3 {
        for sizes in factorizations(ranks, dimensions) {
            if dimensions > 1 && sizes.contains(&1) {
                continue;
            }
            for rings in 0..1u32 << dimensions {
                let periodic: Vec<bool> = (0..dimensions).map(|d| rings >> d & 1 == 1).collect();
                // In a ring of two both neighbours are the same rank.
                let is_plain = |(size, ring): (&u32, &bool)| !ring || *size > 2;
                if sizes.iter().zip(&periodic).all(is_plain) {
                    grids.push(Grid { dimensions: sizes.clone(), periodic });
                }
            }
        }
    }
    grids
}

/// The directions of all messages, or a pair that is in none.
fn directions_used(
    grid: &Grid,
    pairs: &BTreeSet<(u32, u32)>,
) -> Result<BTreeSet<Direction>, (u32, u32)> {
    let mut used = BTreeSet::new();
    for &(from, to) in pairs {
        let directions = grid.directions(from, to);
        if directions.is_empty() {
            return Err((from, to));
        }
        used.extend(directions);
    }
    Ok(used)
}

/// Whether every rank with a neighbour in a direction that is used sends to it.
fn is_complete(grid: &Grid, used: &BTreeSet<Direction>, pairs: &BTreeSet<(u32, u32)>) -> bool {
    let ranks = 0..grid.ranks() as u32;
    ranks.into_iter().all(|rank| {
        let neighbours = used.iter().filter_map(|direction| grid.neighbour(rank, direction));
        neighbours.into_iter().all(|peer| pairs.contains(&(rank, peer)))
    })
}

/// The steps of all ranks at one place as one.
fn joined(steps: &[Vec<RankStep>], at: usize, grid: &Grid) -> PatternStep {
    let own: Vec<&RankStep> = steps.iter().map(|steps| &steps[at]).collect();
    let kind = match &own[0].kind {
        RankStepKind::Collective(call) => {
            // Blocks of a v-form differ: their mean.
            let bytes = own.iter().map(|step| match step.kind {
                RankStepKind::Collective(call) => call.bytes,
                RankStepKind::Exchange { .. } => 0,
            });
            let given: Vec<u64> = bytes.filter(|bytes| *bytes > 0).collect();
            StepKind::Collective {
                collective: call.collective,
                root: call.root,
                bytes: given.iter().sum::<u64>() / (given.len() as u64).max(1),
            }
        }
        RankStepKind::Exchange { .. } => exchange(&own, grid),
    };
    PatternStep {
        before_ns: own.iter().map(|step| step.before_ns).collect(),
        inside_ns: own.iter().map(|step| step.inside_ns).collect(),
        kind,
    }
}

fn exchange(own: &[&RankStep], grid: &Grid) -> StepKind {
    // By direction and number of the message: sum of bytes, and ranks.
    let mut sums: BTreeMap<Direction, Vec<(u64, u64)>> = BTreeMap::new();
    let mut order = ExchangeOrder::Together;
    for (rank, step) in own.iter().enumerate() {
        let RankStepKind::Exchange { sends, order: o, .. } = &step.kind else { continue };
        if *o == ExchangeOrder::OneByOne {
            order = ExchangeOrder::OneByOne;
        }
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        for (to, bytes) in sends {
            let directions = grid.directions(rank as u32, *to);
            let count = counts.entry(*to).or_default();
            // In a ring of two, messages to the same peer take turns.
            let direction = directions[*count % directions.len()].clone();
            let number = *count / directions.len();
            *count += 1;
            let messages = sums.entry(direction).or_default();
            if messages.len() <= number {
                messages.resize(number + 1, (0, 0));
            }
            messages[number].0 += bytes;
            messages[number].1 += 1;
        }
    }
    let messages = sums.into_iter().map(|(direction, sums)| DirectionMessages {
        direction,
        bytes: sums.into_iter().map(|(sum, n)| sum / n.max(1)).collect(),
    });
    StepKind::Exchange { messages: messages.collect(), order }
}

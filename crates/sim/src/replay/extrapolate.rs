//! The steps of a pattern on another number of ranks, or a recorded run as it is.
//!
//! Assumptions (docs/sim-replay.md): a rank at a border has no neighbour there; one inside has
//! those of all directions; what a rank computes is what the recorded rank at the corresponding
//! place (border or inside, in each dimension) computed, times a factor. How bytes and times scale:
//!
//! | | weak (each rank keeps its work) | strong (the work is divided) |
//! |---|---|---|
//! | computing | 1 | p0 / p |
//! | message across a face | 1 | by the dimensions along the face: p0 / p of each |
//! | block of an all-to-all | p0 / p | (p0 / p)^2 |
//! | block of gather, scatter, allgather, reduce-scatter | 1 | p0 / p |
//! | vector of bcast, reductions, scan | 1 | 1 |

use mica_policy::collective::Collective;

use super::engine::{GroupCollective, MessageStream, RankGroup, ReplayOperation, Workload};
use super::grid::Grid;
use super::pattern::{DirectionMessages, ExchangeOrder, ExchangePattern, StepKind};
use super::recorded::Recorded;
use crate::time::SimTime;

/// What stays the same with more ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scaling {
    /// The work of each rank.
    Weak,
    /// The work of all ranks.
    Strong,
}

/// The grid of the extrapolated run cannot be derived from the recorded one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExtrapolateError {
    /// Another number of dimensions.
    #[error("the recorded grid has {recorded} dimensions and the new one {new}")]
    Dimensions {
        /// Of the recorded grid.
        recorded: usize,
        /// Of the new one.
        new: usize,
    },
    /// No messages were recorded in a dimension.
    #[error(
        "the recorded grid is 1 rank wide in dimension {dimension}, so the messages in it are not \
         known; record at least 2 ranks in each dimension"
    )]
    NotRecorded {
        /// The dimension, from 1.
        dimension: usize,
    },
}

/// A pattern on a grid.
#[derive(Debug)]
pub struct Extrapolated<'a> {
    pattern: &'a ExchangePattern,
    grid: Grid,
    scaling: Scaling,
    /// Recorded ranks over ranks, in each dimension.
    ratios: Vec<f64>,
    ratio: f64,
    compute_factor: f64,
}

impl<'a> Extrapolated<'a> {
    /// The pattern on `grid`.
    ///
    /// # Errors
    /// If the recorded run does not say what ranks of this grid do.
    pub fn new(
        pattern: &'a ExchangePattern,
        grid: Grid,
        scaling: Scaling,
    ) -> Result<Extrapolated<'a>, ExtrapolateError> {
        let recorded = &pattern.grid.dimensions;
        if recorded.len() != grid.dimensions.len() {
            return Err(ExtrapolateError::Dimensions {
                recorded: recorded.len(),
                new: grid.dimensions.len(),
            });
        }
        if pattern.steps.iter().any(|step| matches!(step.kind, StepKind::Exchange { .. })) {
            let unknown =
                recorded.iter().zip(&grid.dimensions).position(|(r, n)| *r == 1 && *n > 1);
            if let Some(dimension) = unknown {
                return Err(ExtrapolateError::NotRecorded { dimension: dimension + 1 });
            }
        }
        let ratio = |(recorded, new): (&u32, &u32)| f64::from(*recorded) / f64::from(*new);
        let ratios: Vec<f64> = recorded.iter().zip(&grid.dimensions).map(ratio).collect();
        Ok(Extrapolated {
            pattern,
            scaling,
            ratio: ratios.iter().product(),
            ratios,
            grid,
            compute_factor: 1.0,
        })
    }

    /// This with times of computing multiplied by a factor, besides what scaling does: for slower
    /// or shared processors.
    #[must_use]
    pub fn with_compute_factor(self, compute_factor: f64) -> Extrapolated<'a> {
        Extrapolated { compute_factor, ..self }
    }

    /// The recorded rank at the corresponding place.
    fn model_of(&self, rank: u32) -> usize {
        let at = self.grid.coordinates(rank);
        let sizes = self.grid.dimensions.iter().zip(&self.pattern.grid.dimensions);
        let places = at.iter().zip(sizes).map(|(&at, (&new, &recorded))| match at {
            _ if recorded == new => at,
            0 => 0,
            _ if at + 1 == new => recorded - 1,
            _ if recorded > 2 => 1 + (at - 1) % (recorded - 2),
            _ => at % recorded,
        });
        let places: Vec<u32> = places.collect();
        self.pattern.grid.rank(&places) as usize
    }

    fn compute(&self, ns: f64, out: &mut Vec<ReplayOperation>) {
        let factor = match self.scaling {
            Scaling::Weak => 1.0,
            Scaling::Strong => self.ratio,
        };
        let time = SimTime::from_ns(ns * factor * self.compute_factor);
        if time.0 > 0 {
            out.push(ReplayOperation::Compute(time));
        }
    }

    /// Bytes across a face: its extent in the dimensions that the message does not cross.
    fn face(&self, bytes: u64, direction: &[i8]) -> u64 {
        let along = self.ratios.iter().zip(direction).filter(|(_, step)| **step == 0);
        match self.scaling {
            Scaling::Weak => bytes,
            Scaling::Strong => scaled(bytes, along.map(|(ratio, _)| ratio).product()),
        }
    }

    fn block(&self, collective: Collective, bytes: u64) -> u64 {
        let factor = match (collective, self.scaling) {
            (Collective::Alltoall, Scaling::Weak) => self.ratio,
            (Collective::Alltoall, Scaling::Strong) => self.ratio * self.ratio,
            (
                Collective::Gather
                | Collective::Scatter
                | Collective::Allgather
                | Collective::ReduceScatter,
                Scaling::Strong,
            ) => self.ratio,
            _ => 1.0,
        };
        scaled(bytes, factor)
    }

    fn exchange(
        &self,
        rank: u32,
        messages: &[DirectionMessages],
        order: ExchangeOrder,
        inside_ns: f64,
        out: &mut Vec<ReplayOperation>,
    ) {
        let opposite = |direction: &[i8]| direction.iter().map(|step| -step).collect::<Vec<i8>>();
        let post =
            |of: &DirectionMessages, out: &mut Vec<ReplayOperation>| {
                if let Some(from) = self.grid.neighbour(rank, &opposite(&of.direction)) {
                    out.extend(of.bytes.iter().map(|_| ReplayOperation::Receive {
                        from,
                        stream: MessageStream::default(),
                    }));
                }
            };
        let send = |of: &DirectionMessages, out: &mut Vec<ReplayOperation>| {
            if let Some(to) = self.grid.neighbour(rank, &of.direction) {
                out.extend(of.bytes.iter().map(|bytes| ReplayOperation::Send {
                    to,
                    bytes: self.face(*bytes, &of.direction),
                    stream: MessageStream::default(),
                }));
            }
        };
        match order {
            ExchangeOrder::Together => {
                messages.iter().for_each(|of| post(of, out));
                messages.iter().for_each(|of| send(of, out));
                self.compute(inside_ns, out);
                out.push(ReplayOperation::Wait);
            }
            ExchangeOrder::OneByOne => {
                for of in messages {
                    post(of, out);
                    send(of, out);
                    out.push(ReplayOperation::Wait);
                }
                self.compute(inside_ns, out);
            }
        }
    }
}

/// At least one byte of what had one.
fn scaled(bytes: u64, factor: f64) -> u64 {
    if bytes == 0 { 0 } else { ((bytes as f64 * factor).round() as u64).max(1) }
}

impl Workload for Extrapolated<'_> {
    fn ranks(&self) -> u32 {
        self.grid.ranks() as u32
    }

    fn steps(&self) -> u32 {
        self.pattern.steps.len() as u32 + 1
    }

    fn operations(&self, rank: u32, step: u32, out: &mut Vec<ReplayOperation>) {
        let model = self.model_of(rank);
        let Some(step) = self.pattern.steps.get(step as usize) else {
            return self.compute(self.pattern.rest_ns[model], out);
        };
        self.compute(step.before_ns[model], out);
        match &step.kind {
            StepKind::Exchange { messages, order } => {
                self.exchange(rank, messages, *order, step.inside_ns[model], out);
            }
            StepKind::Collective { collective, root, bytes } => {
                let count = self.ranks();
                out.push(ReplayOperation::Collective(GroupCollective {
                    collective: *collective,
                    root: if *root < count { *root } else { 0 },
                    bytes: self.block(*collective, *bytes),
                    group: RankGroup::Strided { first: 0, stride: 1, count },
                }));
                self.compute(step.inside_ns[model], out);
            }
        }
    }
}

/// A recorded run as it is.
#[derive(Debug)]
pub struct AsRecorded<'a>(pub &'a Recorded);

impl Workload for AsRecorded<'_> {
    fn ranks(&self) -> u32 {
        self.0.ranks.len() as u32
    }

    fn steps(&self) -> u32 {
        1
    }

    fn operations(&self, rank: u32, _step: u32, out: &mut Vec<ReplayOperation>) {
        let recorded = &self.0.ranks[rank as usize];
        for call in &recorded.calls {
            out.push(ReplayOperation::Compute(SimTime::from_ns(call.before_ns)));
            out.push(match call.operation {
                // All ranks take part.
                ReplayOperation::Collective(call) => {
                    let group = RankGroup::Strided { first: 0, stride: 1, count: self.ranks() };
                    ReplayOperation::Collective(GroupCollective { group, ..call })
                }
                other => other,
            });
        }
        out.push(ReplayOperation::Wait);
        out.push(ReplayOperation::Compute(SimTime::from_ns(recorded.rest_ns)));
    }
}

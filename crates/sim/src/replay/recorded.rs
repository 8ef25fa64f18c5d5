//! The calls of a profile's time line as operations of each rank.
//!
//! Between two calls a rank computes. A call's own time is not taken over: the model gives it
//! another. What the time line does not say is assumed (docs/sim-replay.md):
//!
//! - A completing call (`MPI_Wait` and its family) waits for all receives that are posted; a test
//!   that is followed by other calls, too, and what is computed between tests that follow each
//!   other is polling.
//! - A receive without a named source takes what named ones leave (`matching`); those for which
//!   nothing is left had `MPI_PROC_NULL` for a source.
//! - Non-blocking collectives take place where they are started.

use std::collections::BTreeMap;

use mica_policy::collective::Collective;
use mica_profile::{Profile, TimelineInterval};

use super::engine::{GroupCollective, MessageStream, RankGroup, ReplayOperation};
use super::matching::{MessageLabel, RecordedReceive, SentMessage, matches};

/// What a rank did, in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RecordedRank {
    /// The calls.
    pub calls: Vec<RecordedCall>,
    /// Nanoseconds that it computed after the last one.
    pub rest_ns: f64,
}

/// A call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RecordedCall {
    /// Nanoseconds that the rank computed before.
    pub before_ns: f64,
    /// What it did. The group of a collective has as many ranks as its communicator; which they
    /// are is not known.
    pub operation: ReplayOperation,
}

/// A recorded run.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// Each rank.
    pub ranks: Vec<RecordedRank>,
    /// The longest time between initialization and finalization of a rank, in nanoseconds.
    pub measured_ns: f64,
    /// Mean over ranks of the time that they computed.
    pub computing_ns: f64,
}

/// The profile cannot be replayed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordedError {
    /// No rank, or no time line.
    #[error("the profile has no time line: record it without --no-timeline")]
    Empty,
    /// The time line is not whole.
    #[error(
        "the time line is not whole: {dropped} calls were not kept one by one; record again with \
         mica profile --spans {needed}"
    )]
    CutOff {
        /// How many.
        dropped: u64,
        /// How many a thread must keep.
        needed: u64,
    },
    /// A rank left no record.
    #[error("rank {rank} left no record: a replay needs all ranks")]
    MissingRank {
        /// Which.
        rank: u32,
    },
    /// Several threads call MPI.
    #[error("rank {rank} calls MPI from several threads: a replay knows one a rank")]
    Threads {
        /// Which.
        rank: u32,
    },
    /// A call whose communication the replay does not know.
    #[error("rank {rank} calls {call}, which a replay does not know how to repeat")]
    UnknownCall {
        /// Which.
        rank: u32,
        /// Its name.
        call: String,
    },
}

impl Recorded {
    /// The calls of a profile.
    ///
    /// # Errors
    /// If it is not whole, or has calls that cannot be repeated.
    pub fn of(profile: &Profile) -> Result<Recorded, RecordedError> {
        check(profile)?;
        let sizes = communicator_sizes(profile);
        let mut ranks = Vec::new();
        let mut intervals = profile.timeline.intervals.as_slice();
        for rank in &profile.ranks {
            let own = intervals.partition_point(|interval| interval.rank <= rank.rank);
            let (mine, rest) = intervals.split_at(own);
            intervals = rest;
            let mut reader = RankReader::new(profile, &sizes, rank.rank);
            // What was not recorded is as if it had been computing.
            for interval in mine.iter().filter(|interval| interval.joined.is_none()) {
                reader.read(interval)?;
            }
            ranks.push(reader.finish());
        }
        let ranks = matched(ranks);
        let measured = profile.ranks.iter().map(|rank| rank.app_ns).max();
        let computing = |rank: &RecordedRank| {
            rank.rest_ns + rank.calls.iter().map(|call| call.before_ns).sum::<f64>()
        };
        Ok(Recorded {
            measured_ns: measured.unwrap_or(0) as f64,
            computing_ns: ranks.iter().map(computing).sum::<f64>() / ranks.len() as f64,
            ranks,
        })
    }
}

fn check(profile: &Profile) -> Result<(), RecordedError> {
    if let Some(&rank) = profile.job.missing_ranks.first() {
        return Err(RecordedError::MissingRank { rank });
    }
    let intervals = &profile.timeline.intervals;
    let dropped = profile.timeline.dropped;
    if dropped > 0 {
        let calls = profile.calls.iter();
        let mut by_rank: BTreeMap<u32, u64> = BTreeMap::new();
        calls.for_each(|call| *by_rank.entry(call.rank).or_default() += call.count);
        let needed = by_rank.into_values().max().unwrap_or(dropped);
        return Err(RecordedError::CutOff { dropped, needed });
    }
    if profile.ranks.is_empty() || intervals.is_empty() {
        return Err(RecordedError::Empty);
    }
    match intervals.iter().find(|interval| interval.thread > 0) {
        Some(interval) => Err(RecordedError::Threads { rank: interval.rank }),
        None => Ok(()),
    }
}

/// The size of the communicator of the calls of a rank, name and site.
type Sizes<'a> = BTreeMap<(u32, &'a str, u32), u32>;

fn communicator_sizes(profile: &Profile) -> Sizes<'_> {
    let calls = profile.calls.iter();
    calls.map(|call| ((call.rank, call.call.as_str(), call.site), call.comm_size)).collect()
}

/// A call whose messages are not matched yet.
enum Unresolved {
    Known(ReplayOperation),
    Send { to: u32, bytes: u64, label: MessageLabel },
    Receive(RecordedReceive),
}

struct RankReader<'a> {
    sizes: &'a Sizes<'a>,
    rank: u32,
    ranks: u32,
    /// The end of the call before, and where the first began.
    clock: u64,
    start: Option<u64>,
    last_was_test: bool,
    /// Nanoseconds computed since the last call that communicates.
    carried_ns: f64,
    calls: Vec<(f64, Unresolved, u64)>,
    app_ns: u64,
}

impl<'a> RankReader<'a> {
    fn new(profile: &Profile, sizes: &'a Sizes<'a>, rank: u32) -> RankReader<'a> {
        RankReader {
            sizes,
            rank,
            ranks: profile.ranks.len() as u32,
            clock: 0,
            start: None,
            last_was_test: false,
            carried_ns: 0.0,
            calls: Vec::new(),
            app_ns: profile.ranks[rank as usize].app_ns,
        }
    }

    fn read(&mut self, interval: &TimelineInterval) -> Result<(), RecordedError> {
        let name = interval.call.strip_suffix("_c").unwrap_or(&interval.call);
        let name = name.strip_prefix("MPI_").unwrap_or(name);
        let is_test = name.starts_with("Test");
        // The time before the first call is not on the line.
        if self.start.is_some() && !(is_test && self.last_was_test) {
            self.carried_ns += interval.start_ns.saturating_sub(self.clock) as f64;
        }
        // The measured time is that between MPI_Init and MPI_Finalize.
        let is_init = name.starts_with("Init");
        self.start.get_or_insert(if is_init { interval.end_ns } else { interval.start_ns });
        self.clock = if name == "Finalize" { interval.start_ns } else { interval.end_ns };
        self.last_was_test = is_test;
        for kind in self.kinds(name, interval)? {
            let before = std::mem::take(&mut self.carried_ns);
            self.calls.push((before, kind, interval.start_ns));
        }
        Ok(())
    }

    fn kinds(
        &self,
        name: &str,
        interval: &TimelineInterval,
    ) -> Result<Vec<Unresolved>, RecordedError> {
        let known = Unresolved::Known;
        let label = MessageLabel::of(interval);
        let send = interval.peer.map(|to| Unresolved::Send { to, bytes: interval.bytes, label });
        let receive = || {
            let from = interval.peer;
            Unresolved::Receive(RecordedReceive { from, label })
        };
        Ok(match name {
            "Send" | "Bsend" | "Ssend" | "Rsend" | "Isend" | "Ibsend" | "Issend" | "Irsend" => {
                send.into_iter().collect()
            }
            "Recv" | "Mrecv" => vec![receive(), known(ReplayOperation::Wait)],
            "Irecv" | "Imrecv" => vec![receive()],
            "Sendrecv" | "Sendrecv_replace" => {
                let receive = Unresolved::Receive(RecordedReceive {
                    from: None,
                    label: MessageLabel::of_receive_part(interval),
                });
                let receive = [receive, known(ReplayOperation::Wait)];
                send.into_iter().chain(receive).collect()
            }
            _ if name.starts_with("Wait") || name.starts_with("Test") => {
                vec![known(ReplayOperation::Wait)]
            }
            _ => match self.collective(name, interval) {
                Some(kind) => vec![known(kind)],
                None if is_local(name) => Vec::new(),
                None => {
                    return Err(RecordedError::UnknownCall {
                        rank: self.rank,
                        call: interval.call.clone(),
                    });
                }
            },
        })
    }

    fn collective(&self, name: &str, interval: &TimelineInterval) -> Option<ReplayOperation> {
        let key = (self.rank, interval.call.as_str(), interval.site);
        let size = self.sizes.get(&key).copied().filter(|size| *size > 0).unwrap_or(self.ranks);
        let own = u64::from(size.max(1));
        let base = name.strip_prefix('I').map_or_else(|| name.to_owned(), capitalized);
        let (collective, bytes) = match base.as_str() {
            "Barrier" => (Collective::Barrier, 0),
            "Bcast" => (Collective::Bcast, interval.bytes),
            "Gather" | "Gatherv" => (Collective::Gather, interval.bytes),
            "Scatter" => (Collective::Scatter, interval.bytes),
            "Scatterv" => (Collective::Scatter, interval.bytes / own),
            "Allgather" | "Allgatherv" => (Collective::Allgather, interval.bytes),
            "Alltoall" => (Collective::Alltoall, interval.bytes),
            // The sum of the blocks: their mean.
            "Alltoallv" | "Alltoallw" => (Collective::Alltoall, interval.bytes / own),
            "Reduce" => (Collective::Reduce, interval.bytes),
            "Allreduce" => (Collective::Allreduce, interval.bytes),
            "Reduce_scatter_block" => (Collective::ReduceScatter, interval.bytes),
            "Reduce_scatter" => (Collective::ReduceScatter, interval.bytes / own),
            "Scan" | "Exscan" => (Collective::Scan, interval.bytes),
            _ => return None,
        };
        let root = interval.peer.unwrap_or(0);
        let group = RankGroup::Strided { first: 0, stride: 1, count: size };
        Some(ReplayOperation::Collective(GroupCollective { collective, root, bytes, group }))
    }

    fn finish(self) -> UnresolvedRank {
        let start = self.start.unwrap_or(self.clock);
        let rest = (start + self.app_ns).saturating_sub(self.clock.max(start));
        UnresolvedRank {
            calls: self.calls,
            // What was computed before the first call and after the last one together.
            rest_ns: self.carried_ns + rest as f64,
        }
    }
}

/// `barrier` (of `Ibarrier`) as `Barrier`.
fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Calls that move no data of the program, and for whose messages the time of a run's start counts:
/// their time is not repeated.
fn is_local(name: &str) -> bool {
    const PREFIXES: &str = "Comm_ Cart_ Graph_ Dist_graph_ Dims_ Topo_ Group_ Type_ Op_ Info_ \
                            Request_ Buffer_ Probe Iprobe Mprobe Improbe";
    const NAMES: &str = "Init Init_thread Finalize Cancel Pcontrol Pack Unpack Intercomm_create";
    NAMES.split(' ').any(|known| known == name)
        || PREFIXES.split(' ').any(|prefix| name.starts_with(prefix))
}

struct UnresolvedRank {
    calls: Vec<(f64, Unresolved, u64)>,
    rest_ns: f64,
}

/// Numbers of streams, by label.
#[derive(Default)]
struct Streams(BTreeMap<MessageLabel, u32>);

impl Streams {
    fn of(&mut self, label: MessageLabel) -> MessageStream {
        let next = self.0.len() as u32;
        MessageStream(*self.0.entry(label).or_insert(next))
    }
}

/// Says of each receive whose message it takes. One that names its source and takes none waits for
/// ever; one that names none is left out.
fn matched(ranks: Vec<UnresolvedRank>) -> Vec<RecordedRank> {
    let mut messages: Vec<Vec<SentMessage>> = vec![Vec::new(); ranks.len()];
    for (from, calls) in (0..).zip(&ranks) {
        for (_, kind, start_ns) in &calls.calls {
            if let Unresolved::Send { to, label, .. } = kind
                && let Some(messages) = messages.get_mut(*to as usize)
            {
                messages.push(SentMessage { from, label: *label, start_ns: *start_ns });
            }
        }
    }
    let mut streams = Streams::default();
    let ranks = ranks.into_iter().zip(&messages);
    ranks.map(|(rank, messages)| rank.matched(messages, &mut streams)).collect()
}

impl UnresolvedRank {
    fn matched(self, messages: &[SentMessage], streams: &mut Streams) -> RecordedRank {
        let receives = self.calls.iter().filter_map(|(_, kind, _)| match kind {
            Unresolved::Receive(receive) => Some(*receive),
            _ => None,
        });
        let receives: Vec<RecordedReceive> = receives.collect();
        let mut taken = matches(messages, &receives).into_iter();
        let mut rank = RecordedRank::default();
        let mut carried = 0.0;
        for (before_ns, kind, _) in self.calls {
            carried += before_ns;
            let operation = match kind {
                Unresolved::Known(operation) => Some(operation),
                Unresolved::Send { to, bytes, label } => {
                    Some(ReplayOperation::Send { to, bytes, stream: streams.of(label) })
                }
                Unresolved::Receive(receive) => {
                    let message = taken.next().flatten().map(|number| messages[number]);
                    let source = match message {
                        Some(message) => Some((message.from, message.label)),
                        None => receive.from.map(|from| (from, receive.label)),
                    };
                    source.map(|(from, label)| ReplayOperation::Receive {
                        from,
                        stream: streams.of(label),
                    })
                }
            };
            if let Some(operation) = operation {
                let before_ns = std::mem::take(&mut carried);
                rank.calls.push(RecordedCall { before_ns, operation });
            }
        }
        rank.rest_ns = self.rest_ns + carried;
        rank
    }
}

//! What is shown of a job: its ranks with their rates between two samples.

use std::collections::HashMap;
use std::time::SystemTime;

use mica_node::counters::{AccessClass, Counter, Counters, TrafficClass, WaitReason};
use mica_node::segment::{POLLS, RankState, WaitKind, WaitView, World};

use super::direct;
use super::job::{JobSample, RankId, RankSample, WatchedJob};
use super::spawned::{RankName, SpawnedJobView};

/// The channels, and the paths of each as senders count them.
const CHANNELS: [(&str, &[TrafficClass]); 6] = [
    ("own", &[TrafficClass::Own]),
    ("shm", &[TrafficClass::Inline, TrafficClass::Ring, TrafficClass::Cells]),
    ("direct", &[TrafficClass::Direct]),
    ("mapped", &[TrafficClass::Mapped]),
    ("net", &[TrafficClass::Net]),
    ("area", &[TrafficClass::Area]),
];

/// Number of [`CHANNEL_NAMES`].
pub const CHANNEL_COUNT: usize = CHANNELS.len() + 1;

/// The channels' names; `window` stands for one-sided operations on all paths.
pub const CHANNEL_NAMES: [&str; CHANNEL_COUNT] = {
    let mut names = ["window"; CHANNEL_COUNT];
    let mut at = 0;
    while at < CHANNELS.len() {
        names[at] = CHANNELS[at].0;
        at += 1;
    }
    names
};

/// A job as it is shown.
pub struct JobView {
    /// The process that names it.
    pub pid: u32,
    /// Its command line.
    pub command: String,
    /// The host, or the hosts, of the parts that are seen.
    pub host: String,
    /// Ranks that the job was started with, on all nodes.
    pub size: u32,
    /// Number of nodes.
    pub nodes: u32,
    /// For how long it has run, in seconds.
    pub seconds: f64,
    /// The time that rates are measured over, in seconds.
    pub interval: f64,
    /// It has ended.
    pub has_ended: bool,
    /// The jobs that it has spawned and that run.
    pub spawned: Vec<SpawnedJobView>,
    /// Its ranks on this node and those of spawned jobs, by rank.
    pub ranks: Vec<RankRow>,
}

/// What a rank does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Activity {
    /// It waits in a call of MPI, or has waited for most of the time between the samples.
    Waits,
    /// It tests or probes again and again, and finds nothing.
    Polls,
    /// It has called MPI_Init and does not wait: it computes, or is about to return from a call.
    Computes,
    /// Its process was stopped by a signal or a debugger.
    Stopped,
    /// It has not called MPI_Init.
    Starting,
    /// It has called MPI_Finalize.
    Finalized,
    /// It has aborted.
    Aborted,
    /// Its process has ended.
    Ended,
}

impl Activity {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Activity::Waits => "waits",
            Activity::Polls => "polls",
            Activity::Computes => "computes",
            Activity::Stopped => "stopped",
            Activity::Starting => "starting",
            Activity::Finalized => "finalized",
            Activity::Aborted => "aborted",
            Activity::Ended => "ended",
        }
    }

    /// What a rank does that was seen twice, so many nanoseconds apart.
    fn of(before: &RankSample, rank: &RankSample, interval_ns: f64) -> Activity {
        let Some(process) = &rank.process else { return Activity::Ended };
        let Some(view) = &rank.view else { return Activity::Starting };
        match view.state {
            _ if matches!(process.stat.state, 'T' | 't') => Activity::Stopped,
            RankState::Absent => Activity::Starting,
            RankState::Finalized => Activity::Finalized,
            RankState::Aborted { .. } => Activity::Aborted,
            RankState::Running { .. } if view.waiting.is_some() => Activity::Waits,
            RankState::Running { .. } if failed_polls(before, rank) >= POLLS => Activity::Polls,
            RankState::Running { .. } if waited(before, rank) >= MOSTLY * interval_ns => {
                Activity::Waits
            }
            RankState::Running { .. } => Activity::Computes,
        }
    }
}

/// A rank that waited for this share of the time between two samples waits: where ranks share
/// cores, many short waits in a row are the rule, and few of them are seen at the moment of a
/// sample.
const MOSTLY: f64 = 0.5;

/// Nanoseconds that a rank waited for others between two samples.
fn waited(before: &RankSample, after: &RankSample) -> f64 {
    let time = |sample: &RankSample| {
        let counters = sample.view.as_ref().map(|view| view.counters).unwrap_or_default();
        let reasons = [WaitReason::Peer, WaitReason::QueueFull];
        reasons.map(|reason| counters.waits(reason).1).into_iter().fold(0_u64, u64::saturating_add)
    };
    match time(after).saturating_sub(time(before)) {
        // No interval, or none was seen before.
        0 => f64::NEG_INFINITY,
        ns => ns as f64,
    }
}

/// Polls of a rank that failed between two samples; 0 if the last one of them succeeded, or if the
/// count has not moved since: it has stopped polling.
fn failed_polls(before: &RankSample, after: &RankSample) -> u32 {
    let polling = |sample: &RankSample| {
        let view = sample.view.as_ref()?;
        view.polling.as_ref().map(|(polls, _)| *polls)
    };
    match (polling(before), polling(after)) {
        (_, None) => 0,
        (Some(old), Some(new)) if new >= old => new - old,
        // It has found something meanwhile, and begun again.
        (_, Some(new)) => new,
    }
}

/// Messages and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct MovedAmount<T> {
    /// Messages, or one-sided operations.
    pub messages: T,
    /// Bytes of them.
    pub bytes: T,
}

/// A rank as it is shown.
pub struct RankRow {
    /// Which one.
    pub rank: RankName,
    /// Its process, if that is known.
    pub pid: Option<u32>,
    /// What it does.
    pub activity: Activity,
    /// The state of its main thread (`R`, `S`, ...).
    pub process_state: Option<char>,
    /// What it waits for, or polls for, if it does.
    pub waiting: Option<WaitView>,
    /// Whom it waits for.
    pub peer: AwaitedPeer,
    /// Processor time, in percent of one processor.
    pub cpu: Option<f64>,
    /// Resident memory in bytes.
    pub resident: Option<u64>,
    /// All counters.
    pub counters: Counters,
    /// What was sent so far, by channel.
    pub totals: [MovedAmount<u64>; CHANNEL_COUNT],
    /// What was sent in each second of the interval, by channel.
    pub rates: [MovedAmount<f64>; CHANNEL_COUNT],
    /// Bytes that it read from and wrote to files in each second of the interval.
    pub file_rate: f64,
}

impl JobView {
    /// The job, which runs, between two samples.
    pub fn between(job: &WatchedJob, before: &JobSample, after: &JobSample) -> JobView {
        let first = &job.job.parts[0].description;
        let mut hosts: Vec<&str> = Vec::new();
        for part in &job.job.parts {
            if !hosts.contains(&part.description.host.as_str()) {
                hosts.push(&part.description.host);
            }
        }
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let interval = after.at.saturating_duration_since(before.at).as_secs_f64();
        let earlier: HashMap<RankId, &RankSample> =
            before.ranks.iter().map(|rank| (rank.id, rank)).collect();
        let row = |rank: &RankSample| {
            // Of one that has come since there is nothing to compare with.
            let before = earlier.get(&rank.id).copied().unwrap_or(rank);
            RankRow::new(before, rank, &after.worlds, interval)
        };
        JobView {
            pid: job.job.pid(),
            command: first.command.clone(),
            host: hosts.join(","),
            size: job.job.parts[0].segment.job_size(),
            nodes: first.nodes,
            seconds: (now.as_secs_f64() - first.started_ms as f64 / 1e3).max(0.0),
            interval,
            has_ended: false,
            spawned: after.worlds.iter().map(|world| spawned(world, after)).collect(),
            ranks: after.ranks.iter().map(row).collect(),
        }
    }

    /// Number of its own ranks on this node.
    pub fn ranks_here(&self) -> usize {
        self.ranks.iter().filter(|row| row.rank.spawned_job == 0).count()
    }

    /// What all ranks here sent in each second.
    pub fn total_rate(&self) -> MovedAmount<f64> {
        sum(self.ranks.iter().map(RankRow::rate))
    }
}

/// A world as it is shown.
fn spawned(world: &World, sample: &JobSample) -> SpawnedJobView {
    let name = RankName { spawned_job: world.index, rank: 0 };
    let first = sample.ranks.iter().find(|rank| rank.id.0 == name);
    let process = first.and_then(|rank| rank.pid);
    SpawnedJobView {
        number: world.index,
        size: world.count,
        pid: world.launcher,
        parent: world.parent.map(|parent| RankName::of(parent.rank, &sample.worlds)),
        command: process.map(direct::command).unwrap_or_default(),
    }
}

impl RankRow {
    fn new(before: &RankSample, after: &RankSample, worlds: &[World], interval: f64) -> RankRow {
        let counters = |sample: &RankSample| {
            let view = sample.view.as_ref();
            view.map(|view| view.counters).unwrap_or_default()
        };
        let (old, new) = (totals(&counters(before)), totals(&counters(after)));
        let rate = |old: u64, new: u64| match interval > 0.0 {
            true => new.saturating_sub(old) as f64 / interval,
            false => 0.0,
        };
        let ticks = before.process.zip(after.process);
        let per_second = rustix::param::clock_ticks_per_second() as f64;
        let activity = Activity::of(before, after, interval * 1e9);
        let view = after.view.as_ref();
        let waiting = match activity {
            Activity::Waits => view.and_then(|view| view.waiting.clone()),
            Activity::Polls => view.and_then(|view| Some(view.polling.clone()?.1)),
            _ => None,
        };
        RankRow {
            rank: after.id.0,
            pid: after.pid,
            activity,
            process_state: after.process.map(|process| process.stat.state),
            peer: waiting.as_ref().map_or(AwaitedPeer::None, |wait| AwaitedPeer::of(wait, worlds)),
            waiting,
            cpu: ticks.map(|(a, b)| 100.0 * rate(a.stat.ticks, b.stat.ticks) / per_second),
            resident: after.process.map(|process| process.resident),
            counters: counters(after),
            totals: new,
            rates: std::array::from_fn(|at| MovedAmount {
                messages: rate(old[at].messages, new[at].messages),
                bytes: rate(old[at].bytes, new[at].bytes),
            }),
            file_rate: rate(file_bytes(&counters(before)), file_bytes(&counters(after))),
        }
    }

    /// What it sent in each second, on all channels.
    pub fn rate(&self) -> MovedAmount<f64> {
        sum(self.rates.iter().copied())
    }

    /// The function that it waits in, or what it waits for if that is not known.
    pub fn call(&self) -> &str {
        match &self.waiting {
            None => "",
            Some(wait) if !wait.call.is_empty() => &wait.call,
            Some(wait) => kind_name(wait.what.kind),
        }
    }

    /// Messages that have arrived and match no receive so far; `None` outside of MPI.
    pub fn unexpected(&self) -> Option<u64> {
        let runs = matches!(
            self.activity,
            Activity::Waits | Activity::Polls | Activity::Computes | Activity::Stopped
        );
        runs.then(|| self.counters.get(Counter::UnexpectedQueue))
    }

    /// The tag that it waits for. Tags of the library's own messages mean nothing to the program.
    pub fn tag(&self) -> Option<i32> {
        let wait = self.waiting.as_ref()?;
        let is_message =
            matches!(wait.what.kind, WaitKind::Receive | WaitKind::Probe | WaitKind::Send);
        let tag = Some(wait.what.tag).filter(|&tag| tag >= 0);
        tag.filter(|_| is_message && wait.what.context & 1 == 0)
    }
}

/// Whom a rank waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AwaitedPeer {
    /// No rank, or several.
    None,
    /// The first that sends.
    Any,
    /// This rank.
    Rank(RankName),
}

impl AwaitedPeer {
    /// Whom a rank that waits so waits for, where these worlds run.
    fn of(wait: &WaitView, worlds: &[World]) -> AwaitedPeer {
        let may_be_any = matches!(wait.what.kind, WaitKind::Receive | WaitKind::Probe);
        match u32::try_from(wait.what.peer) {
            Ok(peer) => AwaitedPeer::Rank(RankName::of(peer, worlds)),
            Err(_) if may_be_any => AwaitedPeer::Any,
            Err(_) => AwaitedPeer::None,
        }
    }
}

/// The word for a kind of waiting.
pub fn kind_name(kind: WaitKind) -> &'static str {
    match kind {
        WaitKind::Send => "send",
        WaitKind::Receive => "receive",
        WaitKind::Probe => "probe",
        WaitKind::Requests => "requests",
        WaitKind::Collective => "collective",
        WaitKind::Window => "window",
    }
}

fn sum(amounts: impl Iterator<Item = MovedAmount<f64>>) -> MovedAmount<f64> {
    amounts.fold(MovedAmount::default(), |sum, amount| MovedAmount {
        messages: sum.messages + amount.messages,
        bytes: sum.bytes + amount.bytes,
    })
}

/// Bytes that a rank has read from and written to files.
fn file_bytes(counters: &Counters) -> u64 {
    let read = counters.get(Counter::FileReadBytes);
    read.saturating_add(counters.get(Counter::FileWriteBytes))
}

fn totals(counters: &Counters) -> [MovedAmount<u64>; CHANNEL_COUNT] {
    // A rank may have written anything there: sums must not overflow.
    let add = |sum: MovedAmount<u64>, (messages, bytes): (u64, u64)| MovedAmount {
        messages: sum.messages.saturating_add(messages),
        bytes: sum.bytes.saturating_add(bytes),
    };
    std::array::from_fn(|at| match CHANNELS.get(at) {
        Some((_, paths)) => {
            let parts = paths.iter().map(|&p| (counters.messages(p), counters.bytes(p)));
            parts.fold(MovedAmount::default(), add)
        }
        None => {
            let parts = AccessClass::ALL.iter().map(|&a| counters.operations(a));
            parts.fold(MovedAmount::default(), add)
        }
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use mica_node::process_stat::ProcessStat;

    use crate::top::process::ProcessSample;
    use mica_node::segment::{RankView, Waiting};

    /// A rank of the job that was started by hand.
    pub fn ours(rank: u32) -> RankName {
        RankName { spawned_job: 0, rank }
    }

    /// A rank that has sent this many messages of 10 bytes.
    fn sample(rank: u32, sent: u64, ticks: u64, waiting: Option<WaitView>) -> RankSample {
        let mut counters = Counters::default();
        counters.add_messages(TrafficClass::Ring, sent, 10 * sent);
        counters.add_messages(TrafficClass::Direct, 1, 5);
        let own = ProcessStat::own().expect("this process");
        let stat = ProcessStat { state: 'S', ticks, started: 1, ..own };
        RankSample {
            id: (ours(rank), 0),
            pid: Some(100 + rank),
            process: Some(ProcessSample { stat, resident: 3 << 20 }),
            view: Some(RankView {
                state: RankState::Running { pid: 100 + rank },
                pid: 100 + rank,
                waiting,
                polling: None,
                counters,
            }),
        }
    }

    /// A wait for rank 0 with tag 7.
    pub fn receive() -> WaitView {
        WaitView {
            what: Waiting { kind: WaitKind::Receive, peer: 0, tag: 7, context: 2, unexpected: 3 },
            ns: 12_300_000_000,
            call: "MPI_Recv".to_owned(),
        }
    }

    /// A row of a rank that waits, or computes.
    pub fn row(rank: u32, waiting: Option<WaitView>) -> RankRow {
        let (before, after) = (sample(rank, 5, 10, None), sample(rank, 25, 60, waiting));
        RankRow::new(&before, &after, &[], 2.0)
    }

    #[test]
    fn rates_are_differences_by_channel() {
        let row = row(1, Some(receive()));
        let shm = CHANNEL_NAMES.iter().position(|&name| name == "shm").unwrap();
        assert_eq!((row.totals[shm].messages, row.totals[shm].bytes), (25, 250));
        assert_eq!((row.rates[shm].messages, row.rates[shm].bytes), (10.0, 100.0));
        assert_eq!(row.rate().messages, 10.0);
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        assert_eq!(row.cpu, Some(100.0 * 25.0 / ticks));
        assert_eq!(
            (row.call(), row.peer, row.tag()),
            ("MPI_Recv", AwaitedPeer::Rank(ours(0)), Some(7))
        );
        assert_eq!(row.activity, Activity::Waits);
    }

    #[test]
    fn reads_and_writes_of_files_are_one_rate() {
        let sample = |read: u64, written: u64| {
            let mut rank = sample(1, 0, 0, None);
            let counters = &mut rank.view.as_mut().unwrap().counters;
            counters.add(Counter::FileReadBytes, read);
            counters.add(Counter::FileWriteBytes, written);
            rank
        };
        assert_eq!(RankRow::new(&sample(100, 50), &sample(300, 250), &[], 2.0).file_rate, 200.0);
        assert_eq!(RankRow::new(&sample(9, 0), &sample(u64::MAX, 9), &[], 0.0).file_rate, 0.0);
    }

    #[test]
    fn absurd_values_neither_overflow_nor_panic() {
        let mut wait = receive();
        wait.what.peer = i32::MIN;
        wait.what.tag = i32::MIN;
        wait.ns = u64::MAX;
        let mut after = sample(1, 0, 0, Some(wait));
        let before = sample(1, 9, 9, None);
        if let Some(view) = &mut after.view {
            view.counters = Counters::new([u64::MAX; mica_node::counters::COUNTERS]);
        }
        let wild = RankRow::new(&before, &after, &[], 0.0);
        assert_eq!((wild.peer, wild.tag(), wild.rate().bytes), (AwaitedPeer::Any, None, 0.0));
        // Counters that go backwards are no negative rate.
        let back = RankRow::new(&after, &before, &[], 1.0);
        assert_eq!(
            (back.rate().bytes, back.cpu),
            (0.0, Some(900.0 / rustix::param::clock_ticks_per_second() as f64))
        );
    }

    #[test]
    fn activities_follow_process_and_record() {
        let mut rank = sample(1, 0, 0, None);
        let before = sample(1, 0, 0, None);
        let of = |rank: &RankSample| Activity::of(&before, rank, 1e9);
        assert_eq!(of(&rank), Activity::Computes);
        rank.process.as_mut().unwrap().stat.state = 'T';
        assert_eq!(of(&rank), Activity::Stopped);
        rank.process.as_mut().unwrap().stat.state = 'R';
        rank.view.as_mut().unwrap().state = RankState::Absent;
        assert_eq!(of(&rank), Activity::Starting);
        rank.view.as_mut().unwrap().state = RankState::Finalized;
        assert_eq!(of(&rank), Activity::Finalized);
        rank.process = None;
        assert_eq!(of(&rank), Activity::Ended);
    }

    #[test]
    fn a_rank_that_waits_most_of_the_time_waits() {
        let sample = |waited_ns: u64| {
            let mut rank = sample(1, 0, 0, None);
            let view = rank.view.as_mut().unwrap();
            view.counters.add_wait(WaitReason::Peer, waited_ns / 2);
            view.counters.add_wait(WaitReason::QueueFull, waited_ns / 2);
            rank
        };
        let row = |ns: u64| RankRow::new(&sample(1_000_000), &sample(1_000_000 + ns), &[], 1.0);
        assert_eq!(row(950_000_000).activity, Activity::Waits);
        assert_eq!((row(950_000_000).call(), row(950_000_000).peer), ("", AwaitedPeer::None));
        assert_eq!(row(300_000_000).activity, Activity::Computes);
        assert_eq!(RankRow::new(&sample(8), &sample(8), &[], 0.0).activity, Activity::Computes);
    }

    #[test]
    fn a_rank_polls_as_long_as_its_failures_grow() {
        let polling = |count: u32| {
            let mut rank = sample(1, 0, 0, None);
            let mut wait = receive();
            wait.call = "MPI_Test".to_owned();
            rank.view.as_mut().unwrap().polling = Some((count, wait));
            rank
        };
        let none = sample(1, 0, 0, None);
        let row = RankRow::new(&none, &polling(5000), &[], 1.0);
        assert_eq!(row.activity, Activity::Polls);
        assert_eq!(
            (row.call(), row.peer, row.tag()),
            ("MPI_Test", AwaitedPeer::Rank(ours(0)), Some(7))
        );
        // It has stopped; it has found something, and begun again; it has found something.
        let of = |old: &RankSample, new: &RankSample| RankRow::new(old, new, &[], 1.0).activity;
        assert_eq!(of(&polling(5000), &polling(5000)), Activity::Computes);
        assert_eq!(of(&polling(5000), &polling(70)), Activity::Polls);
        assert_eq!(of(&polling(5000), &none), Activity::Computes);
        let stopped = RankRow::new(&polling(5000), &polling(5000), &[], 1.0);
        assert_eq!(stopped.call(), "");
    }
}

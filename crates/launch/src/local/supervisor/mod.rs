//! The ranks of this node as workers of the event loop ([`crate::event_loop`]): start them, see
//! how they end, decide what that means for the job.
//!
//! The sources are a pidfd per rank, the pipes of output that passes through, the ranks'
//! connections to their process manager, and the sockets on which processes and tools ask
//! ([`events`] serves them). As a whole the ranks are in one of three stages ([`LocalStage`]),
//! which [`LocalRanks::run`] and [`run_part`] advance:
//!
//! ```text
//! Running --(none is alive, or given up)--> Writing --(files have all)--> Reported
//! ```
//!
//! Ranks are started in pieces of [`START_BATCH`], with events served in between. Once the job is
//! being ended, no more are started.
//!
//! [`worlds`] has what a job has to do with those that its ranks spawn.
//!
//! For the [user](JobOwner::User) this decides by itself: the first failure of those found
//! together ([`first_failure`]) ends the job. In an agent it reports ends to the
//! [controller](JobOwner::Controller) and carries out its orders. Two ends become failures only by
//! what other ranks do, and are looked at again by deadlines: a rank that left without
//! `MPI_Finalize` ([`crate::local::departed`]), and one that never called MPI_Init while another
//! has ([`Deadline::WithoutInit`]).

use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use mica_node::identity::host_name;
use mica_node::process::{Keeper, Signals, signal};

use crate::error::{LaunchError, doing};
use crate::event_loop::deadlines::Deadline;
use crate::event_loop::owner::{InvokingUser, JobOwner, Uplink, take_signals};
use crate::event_loop::poll_set::{PollSource, Polled};
use crate::event_loop::{AfterReport, JobLoop, Workers};
use crate::link::HEARTBEAT_INTERVAL;
use crate::link::messages::{AgentMessage, KvsEntries};
use crate::local::departed::DepartedRanks;
use crate::local::ranks::{Connect, RankProcesses};
use crate::local::world::JobWorld;
use crate::options::JobOptions;
use crate::options::values::shell_words::command_line;
use crate::output::OutputTarget;
use crate::output::writer::OutputWriter;
use crate::placement::node_job::NodeJob;
use crate::placement::plan::NodePlan;
use crate::report::rank_end::{Cause, RankEnd};
use crate::report::traffic;
use crate::report::{Ending, INTERNAL, RankFailure, departed_note, first_failure, hang_report};

mod events;
mod worlds;

pub use worlds::SpawnOrigin;

/// Time for a killed rank to die. Freeing hundreds of gigabytes takes seconds.
const KILL_LIMIT: Duration = Duration::from_secs(20);
/// Ranks are started for this long before events are served again: to start many takes longer than
/// a controller waits for a sign of life, or a user for an interrupt to be obeyed.
const START_BATCH: Duration = Duration::from_millis(300);
/// Time for files that take no more output, when the job was ended.
const FAREWELL: Duration = Duration::from_secs(2);
/// First interval between checks whether ranks wait for one that left without MPI_Init.
const RECHECK: Duration = Duration::from_millis(100);
/// Longest such interval; the interval doubles, as a job without MPI may run for days.
const RECHECK_MAX: Duration = Duration::from_secs(2);
/// Interval between looks at ranks that linger, besides those at each end of a process.
const LINGERING_INTERVAL: Duration = Duration::from_secs(1);
/// Time that ranks linger before a note says what the job waits for.
const LINGERING_NOTE: Duration = Duration::from_secs(10);

/// Runs all ranks of a job on this node and returns the exit status.
pub fn run(options: &JobOptions, node: &NodeJob, plan: &NodePlan<'_>) -> Result<u8, LaunchError> {
    let guards = JobGuards::take()?;
    let world = JobWorld::create(node, plan)?;
    run_for_user(options, node, plan, &world, guards, None)
}

/// Runs all ranks of a job that a rank has spawned, and that has its place in the segment.
pub fn run_spawned(
    options: &JobOptions,
    node: &NodeJob,
    plan: &NodePlan<'_>,
    world: &JobWorld,
    origin: SpawnOrigin<'_>,
) -> Result<u8, LaunchError> {
    run_for_user(options, node, plan, world, JobGuards::take()?, Some(origin))
}

/// What a launcher takes before it has anything else open and any thread: the keeper is a copy of
/// this process.
struct JobGuards {
    keeper: Keeper,
    signals: Signals,
}

impl JobGuards {
    fn take() -> Result<JobGuards, LaunchError> {
        let keeper = Keeper::start().map_err(doing("cannot start the keeper process"))?;
        Ok(JobGuards { keeper, signals: take_signals()? })
    }
}

fn run_for_user<'a>(
    options: &'a JobOptions,
    node: &'a NodeJob,
    plan: &'a NodePlan<'a>,
    world: &'a JobWorld,
    guards: JobGuards,
    origin: Option<SpawnOrigin<'a>>,
) -> Result<u8, LaunchError> {
    let ranks = RankProcesses::new(node, plan, world, guards.keeper, None)?;
    let writer = OutputWriter::start().map_err(doing("cannot make a pipe for output"))?;
    let user = InvokingUser { options, spawned: world.spawned(), writer };
    let owner = JobOwner::User(Box::new(user));
    let rules = node.signals.clone();
    let mut job = JobLoop::new(owner, guards.signals, rules, node.grace, node.host_timeout)?;
    job.set_time_limits(options);
    let mut ranks = LocalRanks::new(node, plan, ranks, Connect::Inherit);
    ranks.origin = origin;
    let result = ranks.run(&mut job);
    let ranks = ranks.processes;
    if result.is_ok() && options.wants_traffic() {
        job.owner.say(world.heading() + &traffic::table(&ranks.counters()));
        job.owner.say(traffic::areas(&ranks.areas()));
        job.owner.say(ranks.limits());
    }
    if result.is_ok() && options.wants_late() {
        job.owner.say(world.heading() + &ranks.late().table());
    }
    let status = job.finish()?;
    result.map(|()| status)
}

/// Runs a node's part of a job for a controller. The controller has been informed of an error, if
/// it is still connected.
pub fn run_part(
    uplink: Uplink,
    node: &NodeJob,
    keeper: Keeper,
    signals: Signals,
    address: Option<String>,
) -> Result<u8, LaunchError> {
    let mut owner = JobOwner::Controller(Box::new(uplink));
    let plan = match NodePlan::new(node) {
        Ok(plan) => plan,
        Err(error) => return Ok(owner.fail(INTERNAL, error.to_string())),
    };
    if node.reports.verbose {
        owner.say(plan.describe());
    }
    let notice = plan.notice(node);
    if !notice.is_empty() {
        owner.say(notice);
    }
    let world = match JobWorld::create(node, &plan) {
        Ok(world) => world,
        Err(error) => return Ok(owner.fail(INTERNAL, LaunchError::from(error).to_string())),
    };
    let ranks = match RankProcesses::new(node, &plan, &world, keeper, address) {
        Ok(ranks) => ranks,
        Err(error) => return Ok(owner.fail(error.status(), error.to_string())),
    };
    let rules = node.signals.clone();
    let mut job = JobLoop::new(owner, signals, rules, node.grace, node.host_timeout)?;
    let mut ranks = LocalRanks::new(node, &plan, ranks, Connect::Pipes);
    if let Err(error) = ranks.run(&mut job) {
        return Ok(job.owner.fail(error.status(), error.to_string()));
    }
    let counters = node.reports.traffic.then(|| ranks.processes.counters());
    job.owner.send(&AgentMessage::Done {
        counters: counters.unwrap_or_default(),
        late: node.reports.late.then(|| ranks.processes.late()),
    });
    // Everything is sent: waits until the controller has received it, or is gone.
    ranks.stage = LocalStage::Reported;
    job.run(&mut ranks)?;
    Ok(0)
}

/// What the ranks of this node are doing, as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LocalStage {
    /// They are started, and run.
    Running,
    /// They have ended; files get the last of what they wrote.
    Writing,
    /// They have ended, and the controller was sent all about them.
    Reported,
}

/// The ranks of this node, and what is known of their failures.
struct LocalRanks<'a> {
    node: &'a NodeJob,
    plan: &'a NodePlan<'a>,
    processes: RankProcesses<'a>,
    connect: Connect,
    stage: LocalStage,
    /// How many ranks have been added to the loop's sources.
    watched: usize,
    /// Streams that are not read, since too much of them is in flight.
    paused: BTreeSet<u32>,
    /// Streams that hold a part of a line.
    partial: BTreeSet<u32>,
    /// Ranks that left without `MPI_Finalize`, as long as that is no failure.
    departed: Option<DepartedRanks>,
    /// Interval between checks whether a rank waits for one that left without MPI_Init.
    recheck: Duration,
    /// The controller knows that ranks here have called MPI_Init.
    world_is_known: bool,
    /// Since when there are ranks whose process has ended and that linger.
    lingering_since: Option<Instant>,
    /// The user knows of these ranks.
    lingering_is_said: bool,
    /// Who has spawned the job, if a rank has.
    origin: Option<SpawnOrigin<'a>>,
    /// One of its processes, at least, is about to be connected with that rank.
    is_connected: bool,
    /// The jobs that ranks here have spawned are asked to end, too.
    ends_worlds: bool,
}

impl<'a> LocalRanks<'a> {
    fn new(
        node: &'a NodeJob,
        plan: &'a NodePlan<'a>,
        processes: RankProcesses<'a>,
        connect: Connect,
    ) -> LocalRanks<'a> {
        LocalRanks {
            node,
            plan,
            processes,
            connect,
            stage: LocalStage::Running,
            watched: 0,
            paused: BTreeSet::new(),
            partial: BTreeSet::new(),
            departed: None,
            recheck: RECHECK,
            world_is_known: false,
            lingering_since: None,
            lingering_is_said: false,
            origin: None,
            is_connected: false,
            ends_worlds: false,
        }
    }

    /// Starts the ranks, waits until they have ended, and cleans up what they leave.
    fn run(&mut self, job: &mut JobLoop<'_>) -> Result<(), LaunchError> {
        self.watch_worlds(job);
        let result = self.processes.check_programs().and_then(|()| job.run(self));
        if result.is_ok() && !job.is_ending() {
            job.owner.say(self.processes.describe_left());
        }
        let owner = &mut job.owner;
        let left = self.processes.clean_up(&mut |target, text| {
            owner.write(target, text, 0);
        });
        if let Some(what) = left {
            owner.say(format_args!("mpiexec: {what}\n"));
        }
        self.stage = LocalStage::Writing;
        if job.is_ending() {
            job.deadlines.set(Deadline::GiveUp, Instant::now() + FAREWELL);
        }
        result.and(job.run(self))
    }

    /// Reports ranks that have ended; if one of them failed, the user's job ends.
    fn on_ended(&mut self, job: &mut JobLoop<'_>, ends: Vec<RankEnd>) {
        if ends.is_empty() {
            return;
        }
        if let JobOwner::Controller(uplink) = &mut job.owner {
            uplink.link.send(&AgentMessage::Ended(ends));
            return;
        }
        if self.fail_spawn(job, &ends) {
            return;
        }
        if let Some((rank, pid, cause)) = first_failure(&ends) {
            self.on_failure(job, rank, pid, cause, &ends);
        }
        if ends.iter().any(|end| end.without_init) && !job.is_ending() {
            self.recheck = RECHECK;
            job.deadlines.set(Deadline::WithoutInit, Instant::now() + RECHECK);
        }
    }

    /// Ends the user's job because of this rank, unless it is already being ended.
    fn on_failure(
        &mut self,
        job: &mut JobLoop<'_>,
        rank: u32,
        pid: u32,
        cause: Cause,
        ends: &[RankEnd],
    ) {
        if job.is_ending() {
            return;
        }
        match cause {
            Cause::NotFinalized => self.on_departed_ranks(job, ends),
            _ => self.blame(job, self.failure(rank, pid, cause)),
        }
    }

    fn failure(&self, rank: u32, pid: u32, cause: Cause) -> RankFailure {
        RankFailure {
            rank,
            spawned: self.processes.world.spawned(),
            pid,
            host: host_name(),
            program: command_line(&self.plan.ranks[rank as usize].section.command),
            cause,
            others: 0,
        }
    }

    /// Ends the job because of this failure.
    fn blame(&mut self, job: &mut JobLoop<'_>, mut failure: RankFailure) {
        failure.others = self.processes.alive_count();
        job.owner.say(&failure);
        job.end(self, Ending::Failed(failure), signal::SIGTERM);
    }

    /// Records ranks that left without `MPI_Finalize`.
    fn on_departed_ranks(&mut self, job: &mut JobLoop<'_>, ends: &[RankEnd]) {
        let those = || ends.iter().filter(|end| end.cause == Some(Cause::NotFinalized));
        let first = those().next().filter(|_| self.departed.is_none());
        let note =
            first.map(|end| departed_note(&self.failure(end.rank, end.pid, Cause::NotFinalized)));
        if let (Some(note), JobOwner::User(user)) = (note, &mut job.owner)
            && user.options.wants_checks()
        {
            user.writer.say(note);
        }
        let departed = self.departed.get_or_insert_with(DepartedRanks::new);
        those().for_each(|end| departed.add(end.rank, end.pid));
        job.deadlines.set(Deadline::Departed, departed.next_check());
    }

    /// Ends the job if ranks cannot go on without those that left.
    fn check_departed(&mut self, job: &mut JobLoop<'_>) {
        let Some(departed) = self.departed.as_mut().filter(|_| !job.is_ending()) else { return };
        let missed = departed.missed(Instant::now(), &self.processes.activities());
        job.deadlines.set(Deadline::Departed, departed.next_check());
        if let Some((rank, pid)) = missed {
            self.departed = None;
            self.blame(job, self.failure(rank, pid, Cause::NotFinalized));
        }
    }

    /// A rank that exited without MPI_Init is no failure as long as no rank calls MPI_Init, which
    /// may happen later. Once a rank has called it, the job can never end.
    fn check_world(&mut self, job: &mut JobLoop<'_>) {
        let Some((rank, pid)) = self.processes.first_without_init() else { return };
        if let Some(waiting) = self.processes.first_in_world() {
            return self.on_failure(job, rank, pid, Cause::NotInitialized { waiting }, &[]);
        }
        self.recheck = (2 * self.recheck).min(RECHECK_MAX);
        job.deadlines.set(Deadline::WithoutInit, Instant::now() + self.recheck);
    }

    /// Reports to the controller, once, that a rank here has called MPI_Init.
    fn announce_world(&mut self, job: &mut JobLoop<'_>) {
        if let JobOwner::Controller(uplink) = &mut job.owner
            && !self.world_is_known
            && let Some(rank) = self.processes.first_in_world()
        {
            self.world_is_known = true;
            uplink.link.send(&AgentMessage::MpiInitialized(rank));
        }
    }
}

impl Workers for LocalRanks<'_> {
    fn is_busy(&self, job: &JobLoop<'_>) -> bool {
        match self.stage {
            LocalStage::Running => {
                let starting = self.processes.is_starting() && !job.is_ending();
                let own = starting || self.processes.alive_count() > 0;
                own && !job.has_given_up() || self.waits_for_worlds(job)
            }
            LocalStage::Writing => !job.has_given_up() && !self.processes.file_writer.is_idle(),
            LocalStage::Reported => match &job.owner {
                JobOwner::Controller(uplink) => {
                    !uplink.dismissed && !matches!(job.ending(), Some(Ending::HostLost))
                }
                JobOwner::User(_) => false,
            },
        }
    }

    /// Starts ranks. Those that are not started when the job is being ended never are.
    fn advance(&mut self, job: &mut JobLoop<'_>) -> Result<bool, LaunchError> {
        if !self.processes.is_starting() || job.is_ending() {
            return Ok(false);
        }
        let started = self.processes.start_some(self.connect, Instant::now() + START_BATCH);
        self.watch_started(job);
        for note in self.processes.notes.drain(..) {
            job.owner.say(note);
        }
        started?;
        if !self.processes.is_starting() {
            self.announce_start();
        }
        // Input that has come while ranks were started.
        self.pass_on_input(job);
        Ok(self.processes.is_starting())
    }

    fn add_polled<'a>(&'a self, polled: &mut Polled<'a>) {
        let processes = &self.processes;
        polled.read(PollSource::FileWriter, processes.file_writer.as_fd());
        for fd in processes.requests.iter().flat_map(|all| all.fds()) {
            polled.read(PollSource::Requests, fd);
        }
        for fd in processes.attach.iter().flat_map(|all| all.fds()) {
            polled.read(PollSource::Attach, fd);
        }
        for fd in processes.input.iter().flat_map(|input| input.unsent()) {
            polled.write(PollSource::RankInput, fd);
        }
        for (index, fd) in processes.pmi.unsent() {
            polled.write(PollSource::PmiClient(index as u32), fd);
        }
    }

    fn serve(&mut self, job: &mut JobLoop<'_>, ready: &[PollSource]) -> Result<(), LaunchError> {
        self.serve_ready(job, ready)
    }

    fn on_deadline(&mut self, job: &mut JobLoop<'_>, deadline: Deadline) {
        match deadline {
            Deadline::Departed => self.check_departed(job),
            Deadline::WithoutInit => self.check_world(job),
            Deadline::Lingering => self.check_lingering(job),
            Deadline::PartialLine => self.pass_on_partial_lines(job),
            Deadline::Worlds => self.check_worlds(job),
            Deadline::Heartbeat => self.announce_world(job),
            _ => {}
        }
    }

    fn wants_input(&self, _: &JobLoop<'_>) -> bool {
        let input = self.processes.input.as_ref();
        // A rank that is started later gets the input from its beginning, too.
        !self.processes.is_starting() && input.is_some_and(|input| input.wants_more())
    }

    fn take_input(&mut self, job: &mut JobLoop<'_>, text: &[u8]) {
        if let Some(input) = self.processes.input_to_come() {
            if text.is_empty() { input.end() } else { input.push(text) }
        }
        self.pass_on_input(job);
    }

    fn on_written(&mut self, job: &mut JobLoop<'_>, written: &[(usize, u32)]) {
        for &(id, bytes) in written {
            if let Some(stream) = self.processes.streams.get_mut(&(id as u32)) {
                let unwritten = &mut stream.unwritten.output;
                *unwritten = unwritten.saturating_sub(bytes as usize);
            }
        }
        self.resume_streams(job);
    }

    fn on_output_closed(&mut self, job: &mut JobLoop<'_>, target: OutputTarget) {
        self.drop_streams(job, target);
    }

    fn signal(&mut self, number: i32) {
        self.processes.signal(number);
    }

    fn suspend(&mut self) {
        self.processes.signal(signal::SIGTSTP);
        self.processes.world.signal_launchers(signal::SIGTSTP);
    }

    fn resume(&mut self) {
        self.processes.world.signal_launchers(signal::SIGCONT);
        self.processes.signal(signal::SIGCONT);
    }

    fn ask_to_end(&mut self, job: &mut JobLoop<'_>, number: i32) {
        if self.stage == LocalStage::Writing {
            job.deadlines.set(Deadline::GiveUp, Instant::now() + FAREWELL);
        }
        self.processes.end(number);
        // A stopped process does not handle signals.
        self.processes.signal(signal::SIGCONT);
        self.ask_worlds_to_end(job);
    }

    fn end_worlds(&mut self) {
        self.include_worlds();
    }

    /// Does not wait for long for ranks that this process may not signal.
    fn kill(&mut self) -> Duration {
        if self.stage != LocalStage::Running {
            return Duration::ZERO;
        }
        self.kill_worlds();
        if self.processes.end(signal::SIGKILL) == 0 { KILL_LIMIT } else { HEARTBEAT_INTERVAL }
    }

    fn describe_remaining(&self) -> Option<String> {
        (self.stage == LocalStage::Running).then(|| self.describe_rest()).flatten()
    }

    fn reap_orphans(&self) {
        self.processes.reap_orphans();
    }

    fn report_hang(&mut self, job: &mut JobLoop<'_>, then: AfterReport) {
        match &mut job.owner {
            JobOwner::User(user) => {
                let report = self.processes.hang_report(None);
                let report = hang_report(self.processes.count() as u32, &report);
                user.writer.say(self.processes.world.heading() + &report);
            }
            JobOwner::Controller(uplink) => {
                let report = self.processes.hang_report(Some(&self.node.host));
                uplink.link.send(&AgentMessage::HangReport(report));
            }
        }
        if then == AfterReport::End {
            job.end(self, Ending::TimedOut, signal::SIGTERM);
        }
    }

    fn complete_barrier(&mut self, puts: KvsEntries) {
        self.processes.pmi.complete(puts);
    }
}

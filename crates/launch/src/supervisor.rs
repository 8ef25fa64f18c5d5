//! The life of a node's ranks: start them, wait for events, end them all.
//!
//! One thread, one `poll` over everything: a pidfd per rank (it becomes readable when the rank has
//! ended), a descriptor for signals, the pipes of output that passes through, a terminal's input,
//! the ranks' connections to their process manager. The death of a rank is found at once, and an
//! idle launcher uses no CPU time. This loop never waits for a reader: separate threads write the
//! output ([`crate::writer`]).
//!
//! The same loop serves two masters. For the [user](Master::User) it decides by itself: it reports
//! which rank failed and ends the others. In an agent it polls one more descriptor, the connection
//! to the [controller](Master::Head): it reports events and carries out the controller's orders. If
//! it loses the controller, it ends its ranks at once.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use mica_node::process::{
    Keeper, Signals, adopt_orphans, allow_many_descriptors, host_name, is_foreground, is_ignored,
    signal, stop_self, wait_ready,
};

use crate::departed::DepartedRanks;
use crate::error::{LaunchError, doing};
use crate::link::{BEAT, LinkLost};
use crate::messages::{Down, Puts, Up};
use crate::node_job::NodeJob;
use crate::options::JobOptions;
use crate::output::RankStream;
use crate::plan::{NodePlan, command_line};
use crate::rank_end::{Cause, RankEnd, signal_name, signal_status};
use crate::ranks::{Connect, RankProcesses};
use crate::report::{Ending, RankFailure, first_failure, hang_report, left_note};
use crate::traffic;
use crate::writer::Writer;

mod events;
mod master;

pub use master::{InvokingUser, Master, OutputSettled, Uplink, settle};

/// Time for a killed rank to die. Freeing hundreds of gigabytes takes seconds.
const KILL_LIMIT: Duration = Duration::from_secs(20);
/// Ranks are started for this long before events are served again.
const START_BATCH: Duration = Duration::from_millis(300);
/// First interval between checks whether ranks wait for one that left without MPI_Init.
const RECHECK: Duration = Duration::from_millis(100);
/// Longest such interval; the interval doubles, as a job without MPI may run for days.
const RECHECK_MAX: Duration = Duration::from_secs(2);

/// Takes the signals that a launcher reads. To be called before any thread or child is started.
pub fn take_signals() -> Result<Signals, LaunchError> {
    adopt_orphans().map_err(doing("cannot become the subreaper"))?;
    // Each rank needs several descriptors. If the limit cannot be raised, the first call that lacks
    // a descriptor reports it.
    let _ = allow_many_descriptors();
    let mut numbers = vec![
        signal::SIGINT,
        signal::SIGTERM,
        signal::SIGHUP,
        signal::SIGCHLD,
        signal::SIGUSR1,
        signal::SIGTSTP,
        signal::SIGCONT,
    ];
    // Started by nohup: the job outlives the terminal.
    numbers.retain(|&number| number != signal::SIGHUP || !is_ignored(number));
    Signals::take(&numbers).map_err(doing("cannot watch signals"))
}

/// Runs all ranks of a job on this node and returns the exit status.
pub fn run(options: &JobOptions, node: &NodeJob, plan: &NodePlan<'_>) -> Result<u8, LaunchError> {
    // Before anything else is open: the keeper is a copy of this process.
    let keeper = Keeper::start().map_err(doing("cannot start the keeper process"))?;
    let signals = take_signals()?;
    let ranks = RankProcesses::new(node, plan, keeper, None)?;
    let writer = Writer::start().map_err(doing("cannot make a pipe for output"))?;
    let user = Box::new(InvokingUser { options, writer });
    let mut job = Supervisor::new(Master::User(user), node, plan, ranks, signals);
    let timeout_at = options.timeout.map(|time| Instant::now() + time);
    job.timeout_at = timeout_at;
    job.report_at = options.hang_report.map(|time| Instant::now() + time);
    let result = job.run(Connect::Inherit);
    if result.is_ok() && options.wants_traffic() {
        job.master.say(traffic::table(&job.ranks.counters()));
        job.master.say(traffic::areas(&job.ranks.areas()));
        job.master.say(job.ranks.limits());
    }
    if result.is_ok() && options.wants_late() {
        job.master.say(job.ranks.late().table());
    }
    let Supervisor {
        master,
        signals,
        ending,
        ..
    } = job;
    let Master::User(user) = master else {
        return result.map(|()| crate::INTERNAL);
    };
    let written = finish_output(user.writer, &signals, ending.as_ref(), timeout_at)?;
    result.map(|()| ending.as_ref().map_or(written, Ending::status))
}

/// Waits until output is written. Returns the exit status of a job that succeeded otherwise.
pub fn finish_output(
    mut writer: Writer,
    signals: &Signals,
    ending: Option<&Ending>,
    deadline: Option<Instant>,
) -> Result<u8, LaunchError> {
    let impatient = matches!(ending, Some(Ending::Signalled(_) | Ending::TimedOut));
    let deadline = deadline.filter(|_| ending.is_none());
    let status = match settle(&mut writer, signals, impatient, deadline)? {
        OutputSettled::Signalled(number) => signal_status(number),
        OutputSettled::TimedOut => Ending::TimedOut.status(),
        OutputSettled::Written if writer.has_lost_output() => crate::INTERNAL,
        OutputSettled::Written => 0,
    };
    // The report of lost output is output, too.
    settle(&mut writer, signals, true, None)?;
    writer.finish();
    Ok(status)
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
    let mut master = Master::Head(Box::new(uplink));
    let plan = match NodePlan::new(node) {
        Ok(plan) => plan,
        Err(error) => return Ok(master.fail(crate::INTERNAL, error.to_string())),
    };
    if node.reports.verbose {
        master.say(plan.describe());
    }
    let notice = plan.notice(node);
    if !notice.is_empty() {
        master.say(notice);
    }
    let ranks = match RankProcesses::new(node, &plan, keeper, address) {
        Ok(ranks) => ranks,
        Err(error) => return Ok(master.fail(error.status(), error.to_string())),
    };
    let mut job = Supervisor::new(master, node, &plan, ranks, signals);
    if let Err(error) = job.run(Connect::Pipes) {
        return Ok(job.master.fail(error.status(), error.to_string()));
    }
    let counters = node.reports.traffic.then(|| job.ranks.counters());
    job.master.tell(&Up::Done {
        counters: counters.unwrap_or_default(),
        late: node.reports.late.then(|| job.ranks.late()),
    });
    job.wait_for_dismissal();
    Ok(0)
}

struct Supervisor<'a> {
    master: Master<'a>,
    node: &'a NodeJob,
    plan: &'a NodePlan<'a>,
    ranks: RankProcesses<'a>,
    signals: Signals,
    /// Why the job is being ended, once it is.
    ending: Option<Ending>,
    /// When ranks that have not ended by themselves are killed.
    kill_at: Option<Instant>,
    /// When the supervisor stops waiting for ranks that were killed and have not ended.
    give_up_at: Option<Instant>,
    timeout_at: Option<Instant>,
    report_at: Option<Instant>,
    /// When to check again whether a rank waits for one that left without MPI_Init, and the current
    /// interval between checks.
    recheck: Option<(Instant, Duration)>,
    /// Ranks that left without `MPI_Finalize`, as long as that is no failure.
    left: Option<DepartedRanks>,
}

impl<'a> Supervisor<'a> {
    fn new(
        master: Master<'a>,
        node: &'a NodeJob,
        plan: &'a NodePlan<'a>,
        ranks: RankProcesses<'a>,
        signals: Signals,
    ) -> Supervisor<'a> {
        Supervisor {
            master,
            node,
            plan,
            ranks,
            signals,
            ending: None,
            kill_at: None,
            give_up_at: None,
            timeout_at: None,
            report_at: None,
            recheck: None,
            left: None,
        }
    }

    /// Starts the ranks, waits until they have ended, and cleans up what they leave.
    fn run(&mut self, connect: Connect) -> Result<(), LaunchError> {
        let started = self.start_ranks(connect);
        let result = started.and_then(|()| self.wait_for_ranks());
        let (master, ranks) = (&mut self.master, &mut self.ranks);
        let mut none = [0];
        let left = ranks.clean_up(&mut |target, text| master.write(target, text, 0, &mut none));
        if let Some(what) = left {
            self.master.say(format_args!("mpiexec: {what}\n"));
        }
        result
    }

    /// Starts the ranks, and serves events between batches of them: to start many takes longer than
    /// a controller waits for a sign of life, or a user for an interrupt to be obeyed. Ranks that
    /// are not started when the job is being ended never are.
    fn start_ranks(&mut self, connect: Connect) -> Result<(), LaunchError> {
        self.ranks.check_programs()?;
        while self.ranks.is_starting() && self.ending.is_none() {
            let until = Instant::now() + START_BATCH;
            self.ranks.start_some(connect, until)?;
            self.serve(Some(Duration::ZERO))?;
        }
        Ok(())
    }

    /// Waits for an event, for `limit` at most, and serves those that have come.
    fn serve(&mut self, limit: Option<Duration>) -> Result<(), LaunchError> {
        self.wait_for_event(limit)?;
        while let Some(number) = self.signals.next() {
            self.on_signal(number);
        }
        self.on_deadlines();
        Ok(())
    }

    /// Serves events until every rank has ended.
    fn wait_for_ranks(&mut self) -> Result<(), LaunchError> {
        while !self.ranks.alive().is_empty() {
            self.serve(None)?;
            if self.give_up_at.is_some_and(|at| at <= Instant::now()) {
                let alive = self.ranks.describe_alive();
                self.master.say(format_args!(
                    "mpiexec: giving up on {alive}: killed, but still there\n"
                ));
                return Ok(());
            }
        }
        Ok(())
    }

    /// Reports ranks that have ended; if one of them failed, the user's job ends.
    fn on_ended(&mut self, ends: Vec<RankEnd>) {
        if ends.is_empty() {
            return;
        }
        if let Master::Head(uplink) = &mut self.master {
            uplink.link.send(&Up::Ended(ends));
            return;
        }
        if let Some((rank, pid, cause)) = first_failure(&ends) {
            self.on_failure(rank, pid, cause, &ends);
        }
        if ends.iter().any(|end| end.without_init) {
            self.recheck = Some((Instant::now(), RECHECK));
        }
    }

    /// Ends the user's job because of this rank, unless it is already being ended.
    fn on_failure(&mut self, rank: u32, pid: u32, cause: Cause, ends: &[RankEnd]) {
        if self.ending.is_some() {
            return;
        }
        match cause {
            Cause::NotFinalized => self.on_left(ends),
            _ => self.blame(self.failure(rank, pid, cause)),
        }
    }

    fn failure(&self, rank: u32, pid: u32, cause: Cause) -> RankFailure {
        RankFailure {
            rank,
            pid,
            host: host_name(),
            program: command_line(&self.plan.ranks[rank as usize].section.command),
            cause,
            others: 0,
        }
    }

    /// Ends the job because of this failure.
    fn blame(&mut self, mut failure: RankFailure) {
        failure.others = self.ranks.alive().len();
        self.master.say(&failure);
        self.end(Ending::Failed(failure), signal::SIGTERM);
    }

    /// Records ranks that left without `MPI_Finalize`.
    fn on_left(&mut self, ends: &[RankEnd]) {
        let is_left = |end: &&RankEnd| end.cause == Some(Cause::NotFinalized);
        let those = || ends.iter().filter(is_left);
        let first = those().next().filter(|_| self.left.is_none());
        let note =
            first.map(|end| left_note(&self.failure(end.rank, end.pid, Cause::NotFinalized)));
        if let (Some(note), Master::User(user)) = (note, &mut self.master)
            && user.options.wants_checks()
        {
            user.writer.say(note);
        }
        let left = self.left.get_or_insert_with(DepartedRanks::new);
        those().for_each(|end| left.add(end.rank, end.pid));
    }

    /// Ends the job if ranks cannot go on without those that left.
    fn look_for_missed(&mut self, now: Instant) {
        let Some(left) = self.left.as_mut().filter(|left| left.next_look() <= now) else {
            return;
        };
        if self.ending.is_some() {
            self.left = None;
        } else if let Some((rank, pid)) = left.missed(now, &self.ranks.doings()) {
            self.left = None;
            self.blame(self.failure(rank, pid, Cause::NotFinalized));
        }
    }

    /// A rank that exited without MPI_Init is no failure as long as no rank calls MPI_Init, which
    /// may happen later. Once a rank has called it, the job can never end.
    fn check_world(&mut self) {
        let Some((rank, pid)) = self.ranks.first_without_init() else {
            self.recheck = None;
            return;
        };
        if let Some(waiting) = self.ranks.first_in_world() {
            self.recheck = None;
            return self.on_failure(rank, pid, Cause::NotInitialized { waiting }, &[]);
        }
        self.recheck = self.recheck.map(|(_, pause)| {
            let pause = (2 * pause).min(RECHECK_MAX);
            (Instant::now() + pause, pause)
        });
    }

    /// Carries out the controller's orders. If the controller is lost, kills the ranks.
    fn serve_head(&mut self) {
        let Master::Head(uplink) = &mut self.master else {
            return;
        };
        if !uplink.knows_world
            && let Some(rank) = self.ranks.first_in_world()
        {
            uplink.knows_world = true;
            uplink.link.send(&Up::InWorld(rank));
        }
        let mut orders = std::mem::take(&mut uplink.orders);
        uplink.link.flush();
        let mut heard = uplink.link.receive(&mut orders);
        uplink.link.beat(&Up::Beat);
        if uplink.paused {
            uplink.link.pardon();
        }
        if heard.is_ok() {
            heard = uplink.link.check(self.node.host_timeout);
        }
        for order in orders {
            self.on_order(order);
        }
        if let Err(lost) = heard {
            self.on_head_lost(&lost);
        }
    }

    fn on_order(&mut self, order: Down) {
        let Master::Head(uplink) = &mut self.master else {
            return;
        };
        match order {
            Down::Beat | Down::Plan(_) => {}
            Down::Written(bytes) => {
                uplink.unwritten = uplink.unwritten.saturating_sub(bytes as usize);
            }
            Down::Closed(target) => uplink.closed.push(target),
            Down::Report => {
                let report = self.ranks.hang_report(Some(&self.node.host));
                uplink.link.send(&Up::Hang(report));
            }
            Down::Pause => uplink.paused = true,
            Down::Resume => uplink.paused = false,
            Down::Bye => uplink.dismissed = true,
            Down::Input(bytes) => {
                if let Some(input) = self.ranks.input_to_come() {
                    input.push(&bytes);
                }
                self.pass_on_input();
            }
            Down::InputEnd => {
                if let Some(input) = self.ranks.input_to_come() {
                    input.end();
                }
                self.pass_on_input();
            }
            Down::End(number) => self.end(Ending::Signalled(number), number),
            Down::Kill => self.kill(),
            Down::Signal(number) => {
                self.ranks.signal(number);
            }
            Down::BarrierOut(puts) => self.complete_barrier(puts),
        }
    }

    fn on_head_lost(&mut self, _: &LinkLost) {
        self.ending = Some(Ending::HostLost);
        self.kill();
    }

    fn on_signal(&mut self, number: i32) {
        match number {
            signal::SIGCHLD => return self.ranks.reap_orphans(),
            signal::SIGCONT => {
                self.ranks.signal(signal::SIGCONT);
                return;
            }
            signal::SIGTSTP => {
                self.ranks.signal(signal::SIGTSTP);
                return stop_self();
            }
            _ => {}
        }
        let name = signal_name(number);
        match &self.master {
            Master::User(_) if number == signal::SIGUSR1 => self.say_hang_report(),
            // The controller asks for the report in a message.
            Master::Head(_) if number == signal::SIGUSR1 => {}
            // A second signal: the user does not want to wait.
            _ if self.ending.is_some() => self.kill_at = Some(Instant::now()),
            Master::User(_) => {
                self.master.say(format_args!(
                    "mpiexec: got signal {number} ({name}), ending the job.\n"
                ));
                self.end(Ending::Signalled(number), number);
            }
            Master::Head(_) => {
                self.master.tell(&Up::Failed {
                    status: signal_status(number),
                    text: format!("its agent got signal {number} ({name})"),
                });
                self.end(Ending::Signalled(number), number);
            }
        }
    }

    fn on_deadlines(&mut self) {
        let now = Instant::now();
        let passed = |deadline: Option<Instant>| deadline.is_some_and(|at| at <= now);
        if passed(self.report_at) {
            self.report_at = None;
            self.say_hang_report();
        }
        if let (Master::User(user), true) = (&mut self.master, passed(self.timeout_at))
            && self.ending.is_none()
        {
            let time = user.options.timeout.unwrap_or_default();
            user.writer.say(format_args!(
                "mpiexec: the job's time of {} s is over.\n",
                time.as_secs_f64()
            ));
            self.say_hang_report();
            self.end(Ending::TimedOut, signal::SIGTERM);
        }
        self.look_for_missed(now);
        if passed(self.kill_at) {
            self.kill_at = None;
            self.kill();
        }
        if passed(self.recheck.map(|(at, _)| at)) {
            self.check_world();
        }
    }

    /// Kills the ranks. Does not wait for those that this process may not signal.
    fn kill(&mut self) {
        let refused = self.ranks.signal(signal::SIGKILL);
        let time = if refused > 0 { BEAT } else { KILL_LIMIT };
        let at = Instant::now() + time;
        self.give_up_at = Some(self.give_up_at.map_or(at, |earlier| earlier.min(at)));
    }

    /// Asks the ranks to end; those that do not are killed after the grace period.
    fn end(&mut self, ending: Ending, number: i32) {
        self.ending = Some(ending);
        self.timeout_at = None;
        self.report_at = None;
        self.kill_at = Some(Instant::now() + self.node.grace);
        self.ranks.signal(number);
        // A stopped process does not handle signals.
        self.ranks.signal(signal::SIGCONT);
    }

    fn say_hang_report(&mut self) {
        let report = self.ranks.hang_report(None);
        let report = hang_report(self.ranks.count() as u32, &report);
        self.master.say(report);
    }

    /// The agent has sent everything: waits until the controller has received it, or is gone.
    fn wait_for_dismissal(&mut self) {
        loop {
            let Master::Head(uplink) = &self.master else {
                return;
            };
            if uplink.dismissed || matches!(self.ending, Some(Ending::HostLost)) {
                return;
            }
            let fd = [uplink.link.as_fd()];
            let writes = if uplink.link.has_unsent() {
                &fd[..]
            } else {
                &[]
            };
            if wait_ready(&fd, writes, Some(BEAT)).is_err() {
                return;
            }
            self.serve_head();
        }
    }
}

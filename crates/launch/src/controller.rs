//! The controller of a job on several nodes: starts an agent on each, sends it its part of the job,
//! receives its reports, and decides when the job ends.
//!
//! One thread and one `poll`, as for a job on one node: signals, the port where agents connect
//! ([`crate::listener`]), their connections ([`crate::link`]), the remote shells, standard input.
//! Separate threads write the output.
//!
//! A node is `Awaited` until its agent has connected, `Running` until its ranks have ended and all
//! their output has arrived, then `Over`; or it is `Lost`. No rank is started before all agents
//! have connected. The job is over when no node is running.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use mica_node::process::{
    Signals, end_children, interfaces, is_foreground, reap_orphans, signal, stop_self, wait_ready,
};
use mica_node::topology::Reservation;

use crate::auth::JobKey;
use crate::departed::DEPARTURE_TIMEOUT;
use crate::environment;
use crate::error::{LaunchError, doing};
use crate::hosts::ranks_text;
use crate::late::LateArrivals;
use crate::line_output::OutputTarget;
use crate::link::{BEAT, Link, LinkLost};
use crate::listener::AgentListener;
use crate::messages::{Down, Puts, Up};
use crate::node_job::NodeJob;
use crate::options::{Agent, AgentLauncher, JobOptions};
use crate::placement::{JobNodes, NodeRanks, PlacementError, head_addresses};
use crate::plan::command_line;
use crate::rank_end::{Cause, NodeReport, RankEnd, signal_name};
use crate::remote::{RemoteShell, commands};
use crate::report::{Ending, RankFailure, first_failure, hang_report, left_note};
use crate::supervisor::{finish_output, take_signals};
use crate::traffic::{self, CounterValues};
use crate::writer::Writer;

mod start;

/// Why the controller cannot do its work.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// The address that agents shall connect to cannot be determined.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// A system call failed.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// The remote shell cannot be run.
    #[error("cannot run {program:?} to start an agent on {hosts}: {source}")]
    Shell {
        /// The remote shell.
        program: String,
        /// The hosts.
        hosts: String,
        /// The system's error.
        source: io::Error,
    },
}

/// All agents must have connected within this many times the host timeout.
const START_FACTOR: u32 = 6;
/// Bytes of standard input in flight to a node.
const INPUT_WINDOW: usize = 1 << 16;
/// The same for a node that takes its input more slowly than another.
const INPUT_HELD: usize = 64 << 20;
/// Time for agents to answer a hang report request.
const REPORT_TIME: Duration = Duration::from_secs(5);
/// A rank that gave up may have done so because it lost another: if a host is lost or a rank is
/// killed within this time, that is reported as the cause.
const DOUBT: Duration = Duration::from_millis(250);
const OUTPUTS: [OutputTarget; 2] = [OutputTarget::Out, OutputTarget::Err];
/// Time for agents and remote shells to exit when the job is over.
const FAREWELL: Duration = Duration::from_secs(2);

/// Runs the job and returns its exit status.
pub fn run(options: &JobOptions, nodes: &JobNodes) -> Result<u8, ControllerError> {
    let signals = take_signals()?;
    let all = interfaces().map_err(doing("cannot list the network interfaces"))?;
    let addresses = head_addresses(nodes, options.hosts.interface.as_deref(), &all)?;
    let key = JobKey::new().map_err(doing("cannot make a secret"))?;
    let listener = AgentListener::open(&addresses, options.hosts.ports, key, nodes.nodes.len());
    let listener = listener.map_err(doing("cannot listen for agents"))?;
    let writer = Writer::start().map_err(doing("cannot start the thread for output"))?;
    let now = Instant::now();
    let mut controller = Controller {
        options,
        launcher: nodes.launcher,
        nodes: nodes.nodes.iter().map(AgentNode::new).collect(),
        size: options.ranks() as u32,
        listener,
        shells: Vec::new(),
        signals,
        writer,
        input: InputWindow::of(options, nodes),
        alive: vec![true; options.ranks()],
        report: None,
        outcome: Outcome::default(),
        deadlines: Deadlines {
            kill_at: None,
            give_up_at: None,
            start_by: Some(now + START_FACTOR * options.hosts.timeout),
            timeout_at: options.timeout.map(|time| now + time),
            report_at: options.hang_report.map(|time| now + time),
        },
        reservation: Reservation::default(),
    };
    let result = controller
        .start(nodes)
        .and_then(|()| Ok(controller.serve()?));
    controller.clean_up();
    let deadline = options.timeout.map(|time| now + time);
    let Controller {
        mut writer,
        signals,
        outcome: Outcome { ending, .. },
        nodes,
        ..
    } = controller;
    if result.is_ok() && options.wants_traffic() {
        let counters = nodes.iter().flat_map(|node| &node.counters);
        let counters: Vec<CounterValues> = counters.copied().collect();
        writer.say(traffic::table(&counters));
    }
    if result.is_ok() && options.wants_late() {
        let mut late = LateArrivals::default();
        for node in nodes {
            late.merge(node.late);
        }
        writer.say(late.table());
    }
    let written = finish_output(writer, &signals, ending.as_ref(), deadline)?;
    result.map(|()| ending.as_ref().map_or(written, Ending::status))
}

struct AgentNode {
    host: String,
    members: Vec<u32>,
    state: AgentState,
    /// What its ranks have put, when they are all in a barrier.
    arrived: Option<Puts>,
    /// Identifies the machine.
    machine: String,
    counters: Vec<CounterValues>,
    late: LateArrivals,
    /// The agent has reported why it cannot go on.
    explained: bool,
    /// Its agent has connected.
    came: bool,
}

enum AgentState {
    Awaited,
    Running(Box<Link>),
    Over(Box<Link>),
    Lost,
}

impl AgentNode {
    fn new(node: &crate::placement::NodeRanks) -> AgentNode {
        AgentNode {
            host: node.host.clone(),
            members: node.members.clone(),
            state: AgentState::Awaited,
            arrived: None,
            machine: String::new(),
            counters: Vec::new(),
            late: LateArrivals::default(),
            explained: false,
            came: false,
        }
    }

    fn link(&self) -> Option<&Link> {
        match &self.state {
            AgentState::Running(link) | AgentState::Over(link) => Some(link),
            AgentState::Awaited | AgentState::Lost => None,
        }
    }

    fn link_mut(&mut self) -> Option<&mut Link> {
        match &mut self.state {
            AgentState::Running(link) | AgentState::Over(link) => Some(link),
            AgentState::Awaited | AgentState::Lost => None,
        }
    }

    fn is_awaited(&self) -> bool {
        matches!(self.state, AgentState::Awaited)
    }

    fn is_running(&self) -> bool {
        matches!(self.state, AgentState::Running(_))
    }
}

/// Bytes of standard input that ranks have not taken yet, for each node whose ranks get it.
struct InputWindow(Vec<(usize, usize)>);

impl InputWindow {
    /// For the nodes that have such ranks; `None` if there are none.
    fn of(options: &JobOptions, nodes: &JobNodes) -> Option<InputWindow> {
        let reads = |node: &NodeRanks| {
            node.members
                .iter()
                .any(|&rank| options.input.contains(rank))
        };
        let nodes = nodes
            .nodes
            .iter()
            .enumerate()
            .filter(|(_, node)| reads(node));
        let untaken: Vec<_> = nodes.map(|(index, _)| (index, 0)).collect();
        (!untaken.is_empty()).then_some(InputWindow(untaken))
    }

    /// Whether some node has less than a window of untaken bytes, and no node is too far behind.
    fn has_room(&self) -> bool {
        let untaken = || self.0.iter().map(|(_, untaken)| *untaken);
        untaken().any(|bytes| bytes < INPUT_WINDOW) && untaken().all(|bytes| bytes < INPUT_HELD)
    }
}

/// What ranks wait for, as the agents have reported until now.
struct HangReport {
    all: NodeReport,
    awaited: Vec<usize>,
    until: Instant,
    /// The job's time is over: end it after the report.
    then_end: bool,
}

struct Controller<'a> {
    options: &'a JobOptions,
    launcher: AgentLauncher,
    nodes: Vec<AgentNode>,
    size: u32,
    listener: AgentListener,
    shells: Vec<RemoteShell>,
    signals: Signals,
    writer: Writer,
    /// `None` when no rank reads standard input any more, or it has ended.
    input: Option<InputWindow>,
    /// By rank: whether it may still run.
    alive: Vec<bool>,
    report: Option<HangReport>,
    outcome: Outcome,
    deadlines: Deadlines,
    /// Keeps other jobs off the processors of ranks on this machine.
    reservation: Reservation,
}

/// What is known of the job's outcome.
#[derive(Default)]
struct Outcome {
    /// A failure that may be the consequence of another, and when it is taken as the cause.
    suspect: Option<(RankFailure, Instant)>,
    /// A rank that left without `MPI_Finalize`, and when that becomes a failure if others still
    /// run.
    left: Option<(RankFailure, Instant)>,
    /// A rank that exited with 0 and never called MPI_Init, with its process and node.
    without_init: Option<(u32, u32, usize)>,
    /// A rank that has called MPI_Init.
    in_world: Option<u32>,
    /// Why the job is being ended, once it is.
    ending: Option<Ending>,
}

/// When the controller acts without a message.
struct Deadlines {
    /// When agents that still run are ordered to kill their ranks.
    kill_at: Option<Instant>,
    /// When the controller stops waiting for agents that still run.
    give_up_at: Option<Instant>,
    /// When all agents must have connected.
    start_by: Option<Instant>,
    timeout_at: Option<Instant>,
    report_at: Option<Instant>,
}

impl Controller<'_> {
    /// `host a (ranks 0-3), host b (rank 4)`.
    fn names(&self, nodes: &[usize]) -> String {
        let name = |&node: &usize| {
            let AgentNode { host, members, .. } = &self.nodes[node];
            format!("host {host} ({})", ranks_text(members))
        };
        let names: Vec<String> = nodes.iter().map(name).collect();
        names.join(", ")
    }

    /// Serves events until no node is running.
    fn serve(&mut self) -> Result<(), LaunchError> {
        while self.goes_on() {
            self.wait_for_event()?;
            while let Some(number) = self.signals.next() {
                self.on_signal(number);
            }
            self.on_deadlines();
        }
        Ok(())
    }

    fn goes_on(&self) -> bool {
        let given_up = self
            .deadlines
            .give_up_at
            .is_some_and(|at| at <= Instant::now());
        let awaited = self.outcome.ending.is_none() && self.nodes.iter().any(AgentNode::is_awaited);
        let doubt = self.outcome.suspect.is_some();
        !given_up && (awaited || doubt || self.nodes.iter().any(AgentNode::is_running))
    }

    /// Waits for an event and serves all sources. One that is not ready costs a failing read.
    fn wait_for_event(&mut self) -> Result<(), LaunchError> {
        let stdin = io::stdin();
        let read_input = self.reads_input();
        let mut reads = vec![self.signals.as_fd(), self.writer.as_fd()];
        if read_input {
            reads.push(stdin.as_fd());
        }
        reads.extend(self.listener.fds());
        reads.extend(self.shells.iter().flat_map(RemoteShell::fds));
        let links = || self.nodes.iter().filter_map(AgentNode::link);
        reads.extend(links().map(AsFd::as_fd));
        let unsent = links().filter(|link| link.has_unsent());
        let writes: Vec<BorrowedFd<'_>> = unsent.map(AsFd::as_fd).collect();
        let ready = wait_ready(&reads, &writes, Some(self.time_to_wait()));
        let ready = ready.map_err(doing("poll"))?;
        let input_ready = read_input && ready[2];

        let was_closed = OUTPUTS.map(|target| self.writer.is_closed(target));
        for (node, bytes) in self.writer.written() {
            if let Some(link) = self.nodes[node].link_mut() {
                link.send(&Down::Written(bytes));
            }
        }
        for (target, was_closed) in OUTPUTS.into_iter().zip(was_closed) {
            if self.writer.is_closed(target) && !was_closed {
                self.tell_running(&Down::Closed(target));
            }
        }
        if input_ready {
            self.read_input();
        }
        for (link, messages) in self.listener.attend() {
            self.on_entered(link, messages);
        }
        for node in 0..self.nodes.len() {
            self.hear(node);
        }
        self.look_at_shells()
    }

    /// Time until the next deadline, at most until the next heartbeat.
    fn time_to_wait(&self) -> Duration {
        let deadlines = [
            self.deadlines.kill_at,
            self.deadlines.give_up_at,
            self.deadlines.start_by,
            self.deadlines.timeout_at,
            self.deadlines.report_at,
            self.report.as_ref().map(|report| report.until),
            self.outcome.suspect.as_ref().map(|(_, until)| *until),
            self.outcome.left.as_ref().map(|(_, until)| *until),
        ];
        let next = deadlines.into_iter().flatten().min();
        let left = next.map(|at| at.saturating_duration_since(Instant::now()));
        left.unwrap_or(BEAT).min(BEAT)
    }

    /// Receives an agent's messages, and sends it a heartbeat.
    fn hear(&mut self, node: usize) {
        let Some(link) = self.nodes[node].link_mut() else {
            return;
        };
        let mut messages = Vec::new();
        link.flush();
        let mut heard = link.receive(&mut messages);
        link.beat(&Down::Beat);
        if heard.is_ok() {
            heard = link.check(self.options.hosts.timeout);
        }
        for message in messages {
            self.on_message(node, message);
        }
        if let Err(lost) = heard {
            self.on_lost(node, &lost);
        }
    }

    fn tell(&mut self, node: usize, message: &Down) {
        if let Some(link) = self.nodes[node].link_mut() {
            link.send(message);
        }
    }

    fn tell_running(&mut self, message: &Down) {
        for node in self.nodes.iter_mut().filter(|node| node.is_running()) {
            if let Some(link) = node.link_mut() {
                link.send(message);
            }
        }
    }

    fn on_message(&mut self, node: usize, message: Up) {
        match message {
            Up::Hello { .. } | Up::Beat => {}
            Up::Output(target, text) => self.writer.write(target, text, Some(node)),
            Up::Say(text) => {
                let host = &self.nodes[node].host;
                let text = text.replace("mpiexec: ", &format!("mpiexec: {host}: "));
                self.writer.say(text);
            }
            Up::InputTaken(bytes) => {
                let nodes = self.input.iter_mut().flat_map(|window| &mut window.0);
                for (_, untaken) in nodes.filter(|(reader, _)| *reader == node) {
                    *untaken = untaken.saturating_sub(bytes as usize);
                }
            }
            Up::InputClosed => {
                if let Some(InputWindow(nodes)) = &mut self.input {
                    nodes.retain(|(reader, _)| *reader != node);
                }
                self.input.take_if(|window| window.0.is_empty());
            }
            Up::Ended(ends) => self.on_ended(node, &ends),
            Up::InWorld(rank) => {
                self.outcome.in_world.get_or_insert(rank);
                self.check_world();
            }
            Up::Hang(node_report) => {
                if let Some(report) = &mut self.report {
                    report.all.lines.extend(node_report.lines);
                    report.all.ended.extend(node_report.ended);
                    report.awaited.retain(|&other| other != node);
                }
                self.finish_report();
            }
            Up::Failed { status, text } => self.on_failed(node, status, &text),
            Up::BarrierIn(puts) => {
                self.nodes[node].arrived = Some(puts);
                if self.nodes.iter().all(|node| node.arrived.is_some()) {
                    let puts = self.nodes.iter_mut().filter_map(|node| node.arrived.take());
                    let puts: Puts = puts.flatten().collect();
                    self.tell_running(&Down::BarrierOut(puts));
                }
            }
            Up::Done { counters, late } => {
                self.nodes[node].counters = counters;
                self.nodes[node].late = late.unwrap_or_default();
                for &rank in &self.nodes[node].members {
                    self.alive[rank as usize] = false;
                }
                let state = std::mem::replace(&mut self.nodes[node].state, AgentState::Lost);
                if let AgentState::Running(mut link) = state {
                    link.send(&Down::Bye);
                    self.nodes[node].state = AgentState::Over(link);
                }
            }
        }
    }

    fn on_ended(&mut self, node: usize, ends: &[RankEnd]) {
        let known = |end: &&RankEnd| self.nodes[node].members.contains(&end.rank);
        let ends: Vec<RankEnd> = ends.iter().filter(known).copied().collect();
        for end in &ends {
            self.alive[end.rank as usize] = false;
            if end.without_init {
                let left = (end.rank, end.pid, node);
                self.outcome.without_init.get_or_insert(left);
            }
        }
        self.check_world();
        let Some((rank, pid, cause)) =
            first_failure(&ends).filter(|_| self.outcome.ending.is_none())
        else {
            return;
        };
        let failure = RankFailure {
            rank,
            pid,
            host: self.nodes[node].host.clone(),
            program: command_line(self.command_of(rank)),
            cause,
            others: 0,
        };
        match cause {
            Cause::Killed { .. } => self.blame(failure),
            // The controller does not know what ranks on other nodes wait for; a rank that waits
            // for one that left learns that from the network.
            Cause::NotFinalized if self.outcome.left.is_none() => {
                if self.options.wants_checks() {
                    self.writer.say(left_note(&failure));
                }
                self.outcome.left = Some((failure, Instant::now() + DEPARTURE_TIMEOUT));
            }
            Cause::NotFinalized => {}
            _ if self.outcome.suspect.is_none() => {
                self.outcome.suspect = Some((failure, Instant::now() + DOUBT));
            }
            _ => {}
        }
    }

    /// Ends the job if a rank has called MPI_Init and another left without it: it could never go
    /// on.
    fn check_world(&mut self) {
        let (Some((rank, pid, node)), Some(waiting)) =
            (self.outcome.without_init, self.outcome.in_world)
        else {
            return;
        };
        if self.outcome.ending.is_none() && self.outcome.suspect.is_none() {
            let failure = RankFailure {
                rank,
                pid,
                host: self.nodes[node].host.clone(),
                program: command_line(self.command_of(rank)),
                cause: Cause::NotInitialized { waiting },
                others: 0,
            };
            self.outcome.suspect = Some((failure, Instant::now() + DOUBT));
        }
    }

    /// Ends the job because of this failure.
    fn blame(&mut self, mut failure: RankFailure) {
        failure.others = self.running_ranks();
        self.writer.say(&failure);
        self.end(Ending::Failed(failure), signal::SIGTERM);
    }

    fn command_of(&self, rank: u32) -> &[std::ffi::OsString] {
        let mut rank = rank as usize;
        for section in &self.options.sections {
            if rank < section.ranks {
                return &section.command;
            }
            rank -= section.ranks;
        }
        &[]
    }

    fn running_ranks(&self) -> usize {
        self.alive.iter().filter(|alive| **alive).count()
    }

    /// An agent cannot go on.
    fn on_failed(&mut self, node: usize, status: u8, text: &str) {
        self.nodes[node].explained = true;
        if self.outcome.ending.is_none() {
            let host = &self.nodes[node].host;
            self.writer
                .say(format_args!("mpiexec: host {host}: {text}\n"));
            self.end(Ending::NotStarted { status }, signal::SIGTERM);
        }
    }

    /// A node's agent has gone, or its connection is unusable.
    fn on_lost(&mut self, node: usize, lost: &LinkLost) {
        let was = std::mem::replace(&mut self.nodes[node].state, AgentState::Lost);
        for &rank in &self.nodes[node].members {
            self.alive[rank as usize] = false;
        }
        if !matches!(was, AgentState::Running(_)) || self.nodes[node].explained {
            return;
        }
        let shell = self.shells.iter_mut().find(|s| s.nodes == [node]);
        let mut why = lost.to_string();
        if let (Some(shell), LinkLost::Closed | LinkLost::Failed(_)) = (shell, lost) {
            // If the shell is the agent itself, or ends with it, its exit status says more.
            let _ = shell.wait(Duration::from_millis(200));
            if let Some(ended) = shell.ended().filter(|_| shell.has_failed()) {
                why = format!("{why}, its agent {ended}");
            }
        }
        let name = self.names(&[node]);
        let others = self.running_ranks();
        let then = match (&self.outcome.ending, others) {
            (Some(_), _) | (None, 0) => String::new(),
            (None, 1) => "mpiexec:   ending the other rank.\n".to_owned(),
            (None, _) => format!("mpiexec:   ending the {others} other ranks.\n"),
        };
        self.writer
            .say(format_args!("mpiexec: {name} was lost: {why}.\n{then}"));
        if self.outcome.ending.is_none() {
            self.end(Ending::HostLost, signal::SIGTERM);
        }
    }

    fn on_signal(&mut self, number: i32) {
        match number {
            signal::SIGCHLD => {
                let shells = &self.shells;
                reap_orphans(&|pid| shells.iter().any(|s| !s.has_ended() && s.pid() == pid));
            }
            signal::SIGUSR1 => self.ask_for_report(false),
            signal::SIGTSTP => {
                self.tell_running(&Down::Signal(signal::SIGTSTP));
                for node in &mut self.nodes {
                    if let Some(link) = node.link_mut() {
                        link.send(&Down::Pause);
                        link.flush_for(BEAT);
                    }
                }
                stop_self();
            }
            signal::SIGCONT => {
                for node in &mut self.nodes {
                    if let Some(link) = node.link_mut() {
                        link.pardon();
                        link.send(&Down::Resume);
                    }
                }
                self.tell_running(&Down::Signal(signal::SIGCONT));
            }
            // A second signal: the user does not want to wait.
            _ if self.outcome.ending.is_some() => {
                let now = Instant::now();
                self.deadlines.kill_at = Some(now);
                self.deadlines.give_up_at = Some(now + self.options.hosts.timeout);
            }
            _ => {
                let name = signal_name(number);
                self.writer.say(format_args!(
                    "mpiexec: got signal {number} ({name}), ending the job.\n"
                ));
                self.end(Ending::Signalled(number), number);
            }
        }
    }

    fn on_deadlines(&mut self) {
        let now = Instant::now();
        let passed = |deadline: Option<Instant>| deadline.is_some_and(|at| at <= now);
        if passed(self.deadlines.report_at) {
            self.deadlines.report_at = None;
            self.ask_for_report(false);
        }
        if passed(self.deadlines.timeout_at) {
            self.deadlines.timeout_at = None;
            let time = self.options.timeout.unwrap_or_default();
            self.writer.say(format_args!(
                "mpiexec: the job's time of {} s is over.\n",
                time.as_secs_f64()
            ));
            self.ask_for_report(true);
        }
        if passed(self.report.as_ref().map(|report| report.until)) {
            if let Some(report) = &mut self.report {
                report.awaited.clear();
            }
            self.finish_report();
        }
        if let Some((failure, _)) = self.outcome.suspect.take_if(|(_, until)| *until <= now) {
            self.blame(failure);
        }
        if let Some((failure, _)) = self.outcome.left.take_if(|(_, until)| *until <= now)
            && self.running_ranks() > 0
        {
            self.blame(failure);
        }
        if passed(self.deadlines.start_by) && self.outcome.ending.is_none() {
            self.on_start_timeout();
        }
        if passed(self.deadlines.kill_at) {
            self.deadlines.kill_at = None;
            self.tell_running(&Down::Kill);
        }
    }

    /// Asks all agents to report what their ranks wait for.
    fn ask_for_report(&mut self, then_end: bool) {
        let running = |node: &usize| self.nodes[*node].is_running();
        let awaited = (0..self.nodes.len()).filter(running).collect();
        let then_end = then_end || self.report.as_ref().is_some_and(|report| report.then_end);
        self.report = Some(HangReport {
            all: NodeReport::default(),
            awaited,
            until: Instant::now() + REPORT_TIME,
            then_end,
        });
        self.tell_running(&Down::Report);
        self.finish_report();
    }

    /// Prints the report if all agents have answered, or their time is over.
    fn finish_report(&mut self) {
        let Some(mut report) = self.report.take_if(|report| report.awaited.is_empty()) else {
            return;
        };
        let all = &mut report.all;
        // An agent whose ranks have all ended is not asked any more.
        let is_over = |node: &&AgentNode| matches!(node.state, AgentState::Over(_));
        let over = self.nodes.iter().filter(is_over);
        let ranks = over.flat_map(|node| &node.members);
        all.ended
            .extend(ranks.map(|&rank| (rank, "exited with code 0".to_owned())));
        all.lines.sort_by_key(|(rank, _)| *rank);
        self.writer.say(hang_report(self.size, all));
        for node in self.missing(&(0..self.nodes.len()).collect::<Vec<_>>()) {
            let name = self.names(&[node]);
            self.writer.say(format_args!(
                "mpiexec:   {name}: its agent has not connected yet\n"
            ));
        }
        if report.then_end && self.outcome.ending.is_none() {
            self.end(Ending::TimedOut, signal::SIGTERM);
        }
    }

    /// Orders all agents to end their ranks; ranks that do not end are killed after the grace
    /// period.
    fn end(&mut self, ending: Ending, number: i32) {
        let now = Instant::now();
        self.outcome.ending = Some(ending);
        self.outcome.suspect = None;
        self.outcome.left = None;
        self.deadlines.timeout_at = None;
        self.deadlines.report_at = None;
        self.deadlines.start_by = None;
        self.listener.close();
        self.deadlines.kill_at = Some(now + self.options.grace);
        self.deadlines.give_up_at = Some(now + self.options.grace + self.options.hosts.timeout);
        if self.nodes.iter().any(AgentNode::is_awaited) {
            // Nothing runs yet. Agents that have connected see the end of the connection, and exit.
            self.nodes
                .iter_mut()
                .for_each(|node| node.state = AgentState::Lost);
        }
        self.tell_running(&Down::End(number));
    }

    /// Whether more of standard input can be read now.
    fn reads_input(&self) -> bool {
        let started = !self.nodes.iter().any(AgentNode::is_awaited);
        let room = self.input.as_ref().is_some_and(InputWindow::has_room);
        let stdin = io::stdin();
        let ours = !io::IsTerminal::is_terminal(&stdin) || is_foreground(stdin.as_fd());
        started && room && ours && self.outcome.ending.is_none()
    }

    fn read_input(&mut self) {
        let mut buffer = [0; 16384];
        let read = match io::stdin().lock().read(&mut buffer) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return,
            Err(_) => 0,
        };
        let Some(InputWindow(nodes)) = &mut self.input else {
            return;
        };
        nodes.iter_mut().for_each(|(_, untaken)| *untaken += read);
        let readers: Vec<usize> = nodes.iter().map(|(node, _)| *node).collect();
        let message = match read {
            0 => Down::InputEnd,
            _ => Down::Input(buffer[..read].to_vec()),
        };
        if read == 0 {
            self.input = None;
        }
        for node in readers {
            self.tell(node, &message);
        }
    }

    /// Closes the connections and ends the remote shells, with what they started.
    fn clean_up(&mut self) {
        for node in &mut self.nodes {
            if let Some(link) = node.link_mut() {
                link.flush_for(BEAT);
            }
            // An agent that still runs sees the end of the connection, and exits.
            node.state = AgentState::Lost;
        }
        let end = Instant::now() + FAREWELL;
        for shell in &mut self.shells {
            // A shell whose agent never connected has nothing to finish.
            let came = shell.nodes.iter().any(|&node| self.nodes[node].came);
            while came && !shell.has_ended() && Instant::now() < end {
                let left = end.saturating_duration_since(Instant::now());
                if shell.wait(left).is_err() {
                    break;
                }
            }
            shell.kill();
        }
        let left = end_children(FAREWELL);
        if !left.is_empty() {
            self.writer.say(format_args!(
                "mpiexec: could not end processes {left:?} of remote shells\n"
            ));
        }
    }
}

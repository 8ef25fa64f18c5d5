//! The agents of a job on several nodes as workers of the event loop ([`crate::event_loop`]): start
//! an agent on each node, send it its part of the job, receive its reports, and decide when the job
//! ends.
//!
//! The sources are the port where agents connect ([`crate::link::listener`]), their connections
//! ([`crate::link`]) and the remote shells ([`crate::remote`]). A node is in one of four states:
//!
//! ```text
//! Awaited --(Hello)--> Running --(Done)--> Over
//!    \--------------------\--(connection lost, job ended before the start)--> Lost
//! ```
//!
//! Awaited: a remote shell starts its agent, or will. Running: its agent has the plan, or waits for
//! the others. Over: its ranks have ended and all their output has arrived; the connection stays
//! for the farewell. No rank is started before all agents have connected ([`start`]). The job is
//! over when no node is running and no failure is in doubt.
//!
//! Messages to an agent leave in the order of the decisions, and its connection keeps that order.
//! Messages from different agents arrive in any order, so the cause of a failure may arrive after
//! its consequence ([`failures`] waits for it). A connection that does not take what is sent never
//! blocks: the node is in `unsent` until it has. All is done by the event loop's thread.

use std::collections::{BTreeSet, VecDeque};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use mica_node::process::{end_children, interfaces, reap_orphans, signal, tcp_peer_answers};
use mica_node::topology::Reservation;

use crate::error::{LaunchError, doing};
use crate::event_loop::deadlines::Deadline;
use crate::event_loop::owner::{InvokingUser, JobOwner, take_signals};
use crate::event_loop::poll_set::{PollSet, PollSource, Polled};
use crate::event_loop::{AfterReport, JobLoop, Workers};
use crate::hosts::ranks_text;
use crate::link::auth::JobKey;
use crate::link::listener::AgentListener;
use crate::link::messages::{AgentMessage, ControllerMessage, KvsEntries};
use crate::link::{Connection, HEARTBEAT_INTERVAL, LinkLost, encode, flush_all};
use crate::options::values::shell_words::command_line;
use crate::options::{AgentLauncher, JobOptions};
use crate::output::OutputTarget;
use crate::output::writer::OutputWriter;
use crate::placement::JobNodes;
use crate::placement::addresses::controller_addresses;
use crate::placement::environment;
use crate::placement::node_job::NodeJob;
use crate::remote::order::AgentCommand;
use crate::remote::order::commands;
use crate::remote::shell::{RemoteShell, ShellOutput};
use crate::report::late::LateArrivals;
use crate::report::rank_end::{Cause, NodeReport, RankEnd};
use crate::report::traffic::{self, CounterValues};
use crate::report::{Ending, RankFailure, departed_note, first_failure, hang_report};

mod failures;
mod hang;
#[cfg(test)]
mod model;
mod nodes;
mod start;

use nodes::{AgentNode, AgentState, InputWindow};

/// All agents must have connected within this many times the host timeout.
const START_FACTOR: u32 = 6;
/// An agent whose machine answers is lost after this many times the host timeout: with many more
/// ranks than cores it may wait for a processor for longer than the timeout.
const STARVED_FACTOR: u32 = 6;
/// Time for agents and remote shells to exit when the job is over.
const FAREWELL: Duration = Duration::from_secs(2);

/// Runs the job and returns its exit status.
pub fn run(options: &JobOptions, nodes: &JobNodes) -> Result<u8, LaunchError> {
    let signals = take_signals()?;
    let all = interfaces().map_err(doing("cannot list the network interfaces"))?;
    let addresses = controller_addresses(nodes, options.hosts.interface.as_deref(), &all)?;
    let key = JobKey::new().map_err(doing("cannot make a secret"))?;
    let listener = AgentListener::open(&addresses, options.hosts.ports, key, nodes.nodes.len());
    let listener = listener.map_err(doing("cannot listen for agents"))?;
    let writer = OutputWriter::start().map_err(doing("cannot start the thread for output"))?;
    let owner = JobOwner::User(Box::new(InvokingUser { options, spawned: None, writer }));
    let rules = options.signals.clone();
    let mut job = JobLoop::new(owner, signals, rules, options.grace, options.hosts.timeout)?;
    job.set_time_limits(options);
    job.deadlines.set(Deadline::Heartbeat, Instant::now() + HEARTBEAT_INTERVAL);
    let mut agents = AgentPool::new(options, nodes, listener);
    let result = agents.prepare(nodes).and_then(|()| job.run(&mut agents));
    agents.clean_up(&mut job);
    if result.is_ok() && options.wants_traffic() {
        let counters = agents.nodes.iter().flat_map(|node| &node.counters);
        let counters: Vec<CounterValues> = counters.copied().collect();
        job.owner.say(traffic::table(&counters));
    }
    if result.is_ok() && options.wants_late() {
        let mut late = LateArrivals::default();
        for node in agents.nodes {
            late.merge(node.late);
        }
        job.owner.say(late.table());
    }
    let status = job.finish()?;
    result.map(|()| status)
}

/// The agents of a job and the remote shells that started them.
struct AgentPool<'a> {
    options: &'a JobOptions,
    launcher: AgentLauncher,
    nodes: Vec<AgentNode>,
    /// Nodes whose connections have not taken all that was sent.
    unsent: BTreeSet<usize>,
    /// How many nodes have arrived at the present barrier of the process manager.
    arrived: usize,
    listener: AgentListener,
    shells: Vec<RemoteShell>,
    /// Shells that were started and whose agents have not all connected.
    connecting: usize,
    /// The commands of shells that have not been started.
    commands: VecDeque<AgentCommand>,
    /// Nodes that were lost and are not reported yet.
    losses: Vec<HostLoss>,
    /// `None` when no rank reads standard input any more, or it has ended.
    input: Option<InputWindow>,
    /// By rank: whether it may still run.
    alive: Vec<bool>,
    report: Option<PendingReport>,
    failures: Failures,
    /// Keeps other jobs off the processors of ranks on this machine.
    reservation: Reservation,
}

/// What ranks wait for, as the agents have reported until now.
struct PendingReport {
    all: NodeReport,
    awaited: BTreeSet<usize>,
    then: AfterReport,
}

/// A node that was lost.
struct HostLoss {
    node: usize,
    why: String,
}

/// What may become the reason to end the job.
#[derive(Default)]
struct Failures {
    /// A failure that may be the consequence of another.
    suspect: Option<RankFailure>,
    /// A rank that left without `MPI_Finalize`: a failure if others still run when their time is
    /// over.
    left: Option<RankFailure>,
    /// A rank that exited with 0 and never called MPI_Init, with its process and node.
    without_init: Option<(u32, u32, usize)>,
    /// A rank that has called MPI_Init.
    in_world: Option<u32>,
}

impl Failures {
    /// The job is being ended for another reason.
    fn forget(&mut self) {
        self.suspect = None;
        self.left = None;
    }
}

impl<'a> AgentPool<'a> {
    fn new(options: &'a JobOptions, nodes: &JobNodes, listener: AgentListener) -> AgentPool<'a> {
        AgentPool {
            options,
            launcher: nodes.launcher,
            nodes: nodes.nodes.iter().map(AgentNode::new).collect(),
            unsent: BTreeSet::new(),
            arrived: 0,
            listener,
            shells: Vec::new(),
            connecting: 0,
            commands: VecDeque::new(),
            losses: Vec::new(),
            input: InputWindow::of(options, nodes),
            alive: vec![true; options.ranks()],
            report: None,
            failures: Failures::default(),
            reservation: Reservation::default(),
        }
    }

    /// `host a (ranks 0-3), host b (rank 4)`.
    fn names(&self, nodes: &[usize]) -> String {
        let name = |&node: &usize| {
            let AgentNode { host, members, .. } = &self.nodes[node];
            format!("host {host} ({})", ranks_text(members))
        };
        nodes.iter().map(name).collect::<Vec<_>>().join(", ")
    }

    fn awaits_agents(&self) -> bool {
        self.nodes.iter().any(AgentNode::is_awaited)
    }

    fn running_ranks(&self) -> usize {
        self.alive.iter().filter(|alive| **alive).count()
    }

    /// Sends a message to a node's agent, if it is connected.
    fn send_to(&mut self, node: usize, message: &ControllerMessage) {
        if let Some(link) = self.nodes[node].link_mut() {
            link.send(message);
            if link.has_unsent() {
                self.unsent.insert(node);
            }
        }
    }

    /// Sends a message, which is encoded once, to all agents whose ranks run.
    fn send_to_running(&mut self, message: &ControllerMessage) {
        let body = encode(message);
        for (node, agent) in self.nodes.iter_mut().enumerate() {
            if let AgentState::Running(link) = &mut agent.state {
                link.send_body(&body);
                if link.has_unsent() {
                    self.unsent.insert(node);
                }
            }
        }
    }

    /// Sends what agents have not taken yet, to all of them for at most this time.
    fn flush_all(&mut self, time: Duration) {
        flush_all(self.nodes.iter_mut().filter_map(AgentNode::link_mut).collect(), time);
        self.unsent.retain(|&node| self.nodes[node].link().is_some_and(Connection::has_unsent));
    }

    /// Serves an agent's connection: sends what is left, receives what has come.
    fn receive(&mut self, job: &mut JobLoop<'_>, node: usize) {
        let Some(link) = self.nodes[node].link_mut() else { return };
        let mut messages = Vec::new();
        link.flush();
        if !link.has_unsent() {
            self.unsent.remove(&node);
        }
        let received = link.receive(&mut messages);
        for message in messages {
            self.on_message(job, node, message);
        }
        if let Err(lost) = received {
            self.on_lost(job, node, &lost);
        }
    }

    /// Sends signs of life to all agents, and checks theirs.
    fn heartbeat(&mut self, job: &mut JobLoop<'_>) {
        for node in 0..self.nodes.len() {
            let Some(link) = self.nodes[node].link_mut() else { continue };
            link.heartbeat(&ControllerMessage::Heartbeat);
            if link.has_unsent() {
                self.unsent.insert(node);
            }
            if let Err(lost) = check_agent(link, self.options.hosts.timeout) {
                self.on_lost(job, node, &lost);
            }
        }
    }

    fn on_message(&mut self, job: &mut JobLoop<'_>, node: usize, message: AgentMessage) {
        match message {
            AgentMessage::Hello { .. } | AgentMessage::Heartbeat => {}
            AgentMessage::Output(target, text) => drop(job.owner.write(target, text, node)),
            AgentMessage::Say(text) => {
                let host = &self.nodes[node].host;
                job.owner.say(text.replace("mpiexec: ", &format!("mpiexec: {host}: ")));
            }
            AgentMessage::InputTaken(bytes) => {
                if let Some(window) = &mut self.input {
                    window.on_taken(node, bytes as usize);
                }
            }
            AgentMessage::InputClosed => {
                self.input.take_if(|window| window.remove(node));
            }
            AgentMessage::Ended(ends) => self.on_ended(job, node, &ends),
            AgentMessage::MpiInitialized(rank) => self.on_in_world(job, rank),
            AgentMessage::HangReport(report) => self.on_hang_answer(job, node, report),
            AgentMessage::Failed { status, text } => self.on_failed(job, node, status, &text),
            AgentMessage::BarrierIn(puts) => self.on_barrier(node, puts),
            AgentMessage::Done { counters, late } => {
                self.nodes[node].counters = counters;
                self.nodes[node].late = late.unwrap_or_default();
                self.mark_ended(node);
                if self.nodes[node].finish() {
                    self.send_to(node, &ControllerMessage::JobOver);
                }
            }
        }
    }

    /// Serves the port where agents connect.
    fn accept_agents(&mut self, job: &mut JobLoop<'_>) {
        for (link, messages) in self.listener.accept() {
            self.on_entered(job, link, messages);
        }
    }

    fn mark_ended(&mut self, node: usize) {
        for &rank in &self.nodes[node].members {
            self.alive[rank as usize] = false;
        }
    }

    fn on_barrier(&mut self, node: usize, puts: KvsEntries) {
        if self.nodes[node].arrived.replace(puts).is_none() {
            self.arrived += 1;
        }
        if self.arrived == self.nodes.len() {
            self.arrived = 0;
            let puts = self.nodes.iter_mut().filter_map(|node| node.arrived.take());
            let puts: KvsEntries = puts.flatten().collect();
            self.send_to_running(&ControllerMessage::BarrierOut(puts));
        }
    }

    /// Closes the connections and ends the remote shells, with what they started.
    fn clean_up(&mut self, job: &mut JobLoop<'_>) {
        self.flush_all(HEARTBEAT_INTERVAL);
        for node in &mut self.nodes {
            // An agent that still runs sees the end of the connection, and exits.
            node.state = AgentState::Lost;
        }
        let end = Instant::now() + FAREWELL;
        for shell in &mut self.shells {
            // A shell whose agent never connected has nothing to finish.
            let has_connected = shell.nodes.iter().any(|&node| self.nodes[node].has_connected);
            while has_connected && !shell.has_ended() && Instant::now() < end {
                let left = end.saturating_duration_since(Instant::now());
                if shell.wait(left, &mut job.poll).is_err() {
                    break;
                }
            }
            shell.kill();
        }
        let left = end_children(FAREWELL);
        if !left.is_empty() {
            job.owner
                .say(format_args!("mpiexec: could not end processes {left:?} of remote shells\n"));
        }
    }
}

/// Checks an agent's signs of life.
fn check_agent(link: &mut Connection, limit: Duration) -> Result<(), LinkLost> {
    match link.check_silence(limit) {
        Err(LinkLost::Silent(_)) if tcp_peer_answers(link.as_fd(), limit).unwrap_or(false) => {
            link.check_silence(STARVED_FACTOR * limit)
        }
        checked => checked,
    }
}

impl Workers for AgentPool<'_> {
    fn is_busy(&self, job: &JobLoop<'_>) -> bool {
        let awaited = !job.is_ending() && self.awaits_agents();
        let running = || self.nodes.iter().any(AgentNode::is_running);
        let doubt = self.failures.suspect.is_some() || !self.losses.is_empty();
        !job.has_given_up() && (awaited || doubt || running())
    }

    /// Starts remote shells.
    fn advance(&mut self, job: &mut JobLoop<'_>) -> Result<bool, LaunchError> {
        self.start_shells(job);
        Ok(false)
    }

    fn add_polled<'a>(&'a self, polled: &mut Polled<'a>) {
        for fd in self.listener.fds() {
            polled.read(PollSource::Listener, fd);
        }
        for &node in &self.unsent {
            if let Some(link) = self.nodes[node].link() {
                polled.write(PollSource::Agent(node as u32), link.as_fd());
            }
        }
    }

    fn serve(&mut self, job: &mut JobLoop<'_>, ready: &[PollSource]) -> Result<(), LaunchError> {
        for &source in ready {
            match source {
                PollSource::Listener => self.accept_agents(job),
                PollSource::Agent(node) => self.receive(job, node as usize),
                PollSource::Shell(shell) => self.on_shell(job, shell as usize)?,
                PollSource::ShellOutput(pipe) => self.on_shell(job, pipe as usize / 2)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn on_deadline(&mut self, job: &mut JobLoop<'_>, deadline: Deadline) {
        match deadline {
            Deadline::AgentAnswers => self.on_answers_due(job),
            Deadline::HostsLost => self.report_losses(job),
            Deadline::HostsRefused => self.report_refusals(job),
            Deadline::Suspicion => self.on_suspicion(job),
            Deadline::Departed => self.on_departed(job),
            Deadline::AgentsConnected => self.on_start_timeout(job),
            Deadline::Heartbeat => {
                // Callers that have not finished the handshake in time are dropped.
                self.accept_agents(job);
                self.heartbeat(job);
            }
            _ => {}
        }
    }

    fn wants_input(&self, job: &JobLoop<'_>) -> bool {
        let has_room = self.input.as_ref().is_some_and(InputWindow::has_room);
        has_room && !job.is_ending() && !self.awaits_agents()
    }

    fn take_input(&mut self, _: &mut JobLoop<'_>, text: &[u8]) {
        let Some(window) = &mut self.input else { return };
        let readers = window.send(text.len());
        let message = match text {
            [] => ControllerMessage::InputEnd,
            _ => ControllerMessage::Input(text.to_vec()),
        };
        if text.is_empty() {
            self.input = None;
        }
        for node in readers {
            self.send_to(node, &message);
        }
    }

    fn on_written(&mut self, _: &mut JobLoop<'_>, written: &[(usize, u32)]) {
        for &(node, bytes) in written {
            self.send_to(node, &ControllerMessage::OutputWritten(bytes));
        }
    }

    fn on_output_closed(&mut self, _: &mut JobLoop<'_>, target: OutputTarget) {
        self.send_to_running(&ControllerMessage::OutputClosed(target));
    }

    fn signal(&mut self, number: i32) {
        self.send_to_running(&ControllerMessage::Signal(number));
    }

    fn suspend(&mut self) {
        self.signal(signal::SIGTSTP);
        self.flush_all(HEARTBEAT_INTERVAL);
    }

    fn resume(&mut self) {
        for link in self.nodes.iter_mut().filter_map(AgentNode::link_mut) {
            link.reset_silence();
        }
        self.signal(signal::SIGCONT);
    }

    fn ask_to_end(&mut self, job: &mut JobLoop<'_>, number: i32) {
        self.failures.forget();
        self.listener.close();
        if self.awaits_agents() {
            // Nothing runs yet. Agents that have connected see the end of the connection, and exit.
            for node in 0..self.nodes.len() {
                self.disconnect(&mut job.poll, node);
            }
        }
        self.send_to_running(&ControllerMessage::End(number));
    }

    fn kill(&mut self) -> Duration {
        self.send_to_running(&ControllerMessage::Kill);
        self.options.hosts.timeout
    }

    fn reap_orphans(&self) {
        let shells = &self.shells;
        reap_orphans(&|pid| shells.iter().any(|s| !s.has_ended() && s.pid() == pid));
    }

    fn report_hang(&mut self, job: &mut JobLoop<'_>, then: AfterReport) {
        self.ask_for_report(job, then);
    }
}

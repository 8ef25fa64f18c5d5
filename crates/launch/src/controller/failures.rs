//! Which failure ends a job on several nodes. News of the same event come from several agents, in
//! any order.
//!
//! A rank that a signal killed is blamed at once. A rank that aborted or exited with a status may
//! have done so because it lost another: it is a suspect for [`DOUBT`], and if a host is lost or a
//! rank killed within that time, that is the cause. A rank that left without `MPI_Finalize` is
//! noted; the others have [`DEPARTURE_TIMEOUT`] to end without it, since only the network tells
//! ranks on other nodes that it left. A lost host is reported when its remote shell has had
//! [`SHELL_TIME`] to end as well, and all that are lost in that time together. The first cause ends
//! the job; later ones are consequences, of which only lost hosts are named.

use super::*;
use crate::local::departed::DEPARTURE_TIMEOUT;

/// A rank that gave up may have done so because it lost another: if a host is lost or a rank is
/// killed within this time, that is reported as the cause.
const DOUBT: Duration = Duration::from_millis(250);
/// Time for a remote shell to end after its agent's connection, so that its status can be reported.
const SHELL_TIME: Duration = Duration::from_millis(200);

impl AgentPool<'_> {
    pub(super) fn on_ended(&mut self, job: &mut JobLoop<'_>, node: usize, ends: &[RankEnd]) {
        let members = &self.nodes[node].members;
        let known = |end: &&RankEnd| members.binary_search(&end.rank).is_ok();
        let ends: Vec<RankEnd> = ends.iter().filter(known).copied().collect();
        for end in &ends {
            self.alive[end.rank as usize] = false;
            if end.without_init {
                self.failures.without_init.get_or_insert((end.rank, end.pid, node));
            }
        }
        self.check_world(job);
        let Some((rank, pid, cause)) = first_failure(&ends).filter(|_| !job.is_ending()) else {
            return;
        };
        let failure = self.failure(node, rank, pid, cause);
        match cause {
            Cause::Killed { .. } => self.blame(job, failure),
            // The controller does not know what ranks on other nodes wait for; a rank that waits
            // for one that left learns that from the network.
            Cause::NotFinalized if self.failures.left.is_none() => {
                if self.options.wants_checks() {
                    job.owner.say(departed_note(&failure));
                }
                self.failures.left = Some(failure);
                job.deadlines.set(Deadline::Departed, Instant::now() + DEPARTURE_TIMEOUT);
            }
            Cause::NotFinalized => {}
            _ => self.suspect(job, failure),
        }
    }

    fn failure(&self, node: usize, rank: u32, pid: u32, cause: Cause) -> RankFailure {
        RankFailure {
            rank,
            spawned: None,
            pid,
            host: self.nodes[node].host.clone(),
            program: command_line(self.command_of(rank)),
            cause,
            others: 0,
        }
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

    /// Records a failure that may be the consequence of another, unless there is one already.
    fn suspect(&mut self, job: &mut JobLoop<'_>, failure: RankFailure) {
        if self.failures.suspect.is_none() {
            self.failures.suspect = Some(failure);
            job.deadlines.set(Deadline::Suspicion, Instant::now() + DOUBT);
        }
    }

    pub(super) fn on_in_world(&mut self, job: &mut JobLoop<'_>, rank: u32) {
        self.failures.in_world.get_or_insert(rank);
        self.check_world(job);
    }

    /// Ends the job if a rank has called MPI_Init and another left without it: it could never go
    /// on.
    fn check_world(&mut self, job: &mut JobLoop<'_>) {
        if let (Some((rank, pid, node)), Some(waiting)) =
            (self.failures.without_init, self.failures.in_world)
            && !job.is_ending()
        {
            self.suspect(job, self.failure(node, rank, pid, Cause::NotInitialized { waiting }));
        }
    }

    /// No cause of the suspected failure was reported.
    pub(super) fn on_suspicion(&mut self, job: &mut JobLoop<'_>) {
        if !self.losses.is_empty() {
            self.report_losses(job);
        } else if let Some(failure) = self.failures.suspect.take() {
            self.blame(job, failure);
        }
    }

    /// The time of ranks without the one that left is over.
    pub(super) fn on_departed(&mut self, job: &mut JobLoop<'_>) {
        if let Some(failure) = self.failures.left.take()
            && self.running_ranks() > 0
        {
            self.blame(job, failure);
        }
    }

    /// Ends the job because of this failure.
    fn blame(&mut self, job: &mut JobLoop<'_>, mut failure: RankFailure) {
        failure.others = self.running_ranks();
        job.owner.say(&failure);
        job.end(self, Ending::Failed(failure), signal::SIGTERM);
    }

    /// An agent cannot go on.
    pub(super) fn on_failed(&mut self, job: &mut JobLoop<'_>, node: usize, status: u8, text: &str) {
        self.nodes[node].has_reported = true;
        if !job.is_ending() {
            let host = &self.nodes[node].host;
            job.owner.say(format_args!("mpiexec: host {host}: {text}\n"));
            job.end(self, Ending::NotStarted { status }, signal::SIGTERM);
        }
    }

    /// Closes the connection to a node's agent. Returns whether the node was running.
    pub(super) fn disconnect(&mut self, poll: &mut PollSet, node: usize) -> bool {
        self.unsent.remove(&node);
        if let Some(link) = self.nodes[node].link() {
            poll.remove(PollSource::Agent(node as u32), link.as_fd());
        }
        let was = std::mem::replace(&mut self.nodes[node].state, AgentState::Lost);
        matches!(was, AgentState::Running(_))
    }

    /// A node's agent has gone, or its connection is unusable. That is reported when its remote
    /// shell has had time to end too, since the exit status says more; all that are lost at the
    /// same time wait together.
    pub(super) fn on_lost(&mut self, job: &mut JobLoop<'_>, node: usize, lost: &LinkLost) {
        let was_running = self.disconnect(&mut job.poll, node);
        self.mark_ended(node);
        if !was_running || self.nodes[node].has_reported {
            return;
        }
        let has_gone = matches!(lost, LinkLost::Closed | LinkLost::Failed(_));
        let wait = match has_gone && self.shell_of(node).is_some() {
            true => SHELL_TIME,
            false => Duration::ZERO,
        };
        self.losses.push(HostLoss { node, why: lost.to_string() });
        job.deadlines.set_earlier(Deadline::HostsLost, Instant::now() + wait);
    }

    /// The shell that started this node's agent and no other.
    fn shell_of(&self, node: usize) -> Option<&RemoteShell> {
        let shell = self.shells.get(self.nodes[node].shell?)?;
        (shell.nodes == [node]).then_some(shell)
    }

    /// A remote shell has ended: reports losses that waited for it alone.
    pub(super) fn on_shell_ended(&mut self, job: &mut JobLoop<'_>) {
        let has_ended =
            |loss: &HostLoss| self.shell_of(loss.node).is_none_or(|shell| shell.has_ended());
        if !self.losses.is_empty() && self.losses.iter().all(has_ended) {
            self.report_losses(job);
        }
    }

    /// Reports the nodes that were lost, and ends the job.
    pub(super) fn report_losses(&mut self, job: &mut JobLoop<'_>) {
        job.deadlines.clear(Deadline::HostsLost);
        let others = self.running_ranks();
        for HostLoss { node, mut why } in std::mem::take(&mut self.losses) {
            let shell = self.shell_of(node).filter(|shell| shell.has_failed());
            if let Some(ended) = shell.and_then(RemoteShell::ended) {
                why = format!("{why}, its agent {ended}");
            }
            let name = self.names(&[node]);
            let then = match (job.ending(), others) {
                (Some(_), _) | (None, 0) => String::new(),
                (None, 1) => "mpiexec:   ending the other rank.\n".to_owned(),
                (None, _) => format!("mpiexec:   ending the {others} other ranks.\n"),
            };
            job.owner.say(format_args!("mpiexec: {name} was lost: {why}.\n{then}"));
            if !job.is_ending() {
                job.end(self, Ending::HostLost, signal::SIGTERM);
            }
        }
    }
}

//! The life of a node's ranks: start them, wait for what happens to them, end them all.
//!
//! One thread, one `poll` over everything: a pidfd per rank (it becomes readable when the rank has
//! ended), a descriptor for signals, the pipes of output that passes through, a terminal's input, the ranks'
//! connections to their process manager. A dead rank is found at once, and an idle launcher costs no time.
//!
//! The same loop serves two masters. For the [user](Master::User) it decides itself: it says which rank failed and ends
//! the others. As an agent it has one descriptor more, the connection to the [head](Master::Head): it reports, and does
//! what the head decides. Without a head it ends its ranks at once.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use mica_node::process::{
    Keeper, Signals, adopt_orphans, allow_many_descriptors, host_name, is_foreground, signal,
    stop_self, wait_ready,
};
use mica_node::segment::SegmentError;

use crate::left::Left;
use crate::link::{BEAT, Link, Lost};
use crate::options::Options;
use crate::output::{Stream, Target, print};
use crate::plan::{Plan, command_line};
use crate::ranks::{Connect, Ranks};
use crate::report::{
    Cause, Ending, Failure, first_failure, hang_report, left_note, say, signal_name, signal_status,
};
use crate::traffic;
use crate::wire::{Down, NodeJob, Puts, RankEnd, Up};

/// The launcher could not start the job.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// A system call that the launcher needs failed.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The shared memory of the job could not be made.
    #[error("cannot create the job's shared memory: {0}")]
    Segment(#[from] SegmentError),
    /// A file for the ranks' output cannot be opened.
    #[error("{0}")]
    OutputFile(io::Error),
    /// A debugger or the like cannot be used.
    #[error(transparent)]
    Tool(#[from] crate::tool::ToolError),
    /// A program could not be started.
    #[error("cannot start {program:?} for rank {rank}: {source}{hint}")]
    Exec {
        /// The program.
        program: String,
        /// The rank.
        rank: u32,
        /// What the system said.
        source: io::Error,
        /// What may help.
        hint: String,
    },
}

impl LaunchError {
    /// The exit status, as a shell would choose it.
    pub fn status(&self) -> u8 {
        match self {
            LaunchError::Exec { source, .. } if source.kind() == io::ErrorKind::NotFound => 127,
            LaunchError::Exec { .. } => 126,
            _ => crate::INTERNAL,
        }
    }
}

/// Says what was tried when a system call fails.
pub fn doing(what: &'static str) -> impl FnOnce(io::Error) -> LaunchError {
    move |source| LaunchError::System { what, source }
}

/// Bytes of output that an agent sends before the head has written them.
const WINDOW: usize = 1 << 20;

/// Whom the ranks are run for.
pub enum Master<'a> {
    /// For the user who started this process.
    User(&'a Options),
    /// For another mpiexec.
    Head(Box<Uplink>),
}

/// An agent's connection to the head.
pub struct Uplink {
    /// The connection.
    pub link: Link,
    /// What the head said before there was somebody to do it.
    orders: Vec<Down>,
    /// Bytes of output that the head has not written yet.
    unwritten: usize,
    /// The head said that it will be silent.
    paused: bool,
    /// The head said that the job is over.
    dismissed: bool,
}

impl Uplink {
    /// A connection over which the plan has come, and `orders` after it.
    pub fn new(link: Link, orders: Vec<Down>) -> Uplink {
        Uplink {
            link,
            orders,
            unwritten: 0,
            paused: false,
            dismissed: false,
        }
    }
}

/// The signals that a launcher reads. Taken before any thread or child is started.
pub fn take_signals() -> Result<Signals, LaunchError> {
    adopt_orphans().map_err(doing("cannot become the subreaper"))?;
    // Several descriptors for each rank. Where that is not allowed, the first one that lacks says so.
    let _ = allow_many_descriptors();
    let numbers = [
        signal::SIGINT,
        signal::SIGTERM,
        signal::SIGHUP,
        signal::SIGCHLD,
        signal::SIGUSR1,
        signal::SIGTSTP,
        signal::SIGCONT,
    ];
    Signals::take(&numbers).map_err(doing("cannot watch signals"))
}

/// Runs all ranks of a job on this node and answers the exit status.
pub fn run(options: &Options, node: &NodeJob, plan: &Plan<'_>) -> Result<u8, LaunchError> {
    // Before anything else is open: the keeper is a copy of this process.
    let keeper = Keeper::start().map_err(doing("cannot start the keeper process"))?;
    let signals = take_signals()?;
    let ranks = Ranks::new(node, plan, keeper, None)?;
    let mut job = Job::new(Master::User(options), node, plan, ranks, signals);
    job.timeout_at = options.timeout.map(|time| Instant::now() + time);
    job.report_at = options.hang_report.map(|time| Instant::now() + time);
    let result = job.run(Connect::Inherit);
    if result.is_ok() && options.wants_traffic() {
        say(traffic::table(&job.ranks.traffic()));
        say(traffic::areas(&job.ranks.areas()));
        say(job.ranks.limits());
    }
    if result.is_ok() && options.wants_late() {
        say(job.ranks.late().table());
    }
    result.map(|()| job.ending.as_ref().map_or(0, Ending::status))
}

/// Runs a node's part of a job for a head. An error is one that the head was told, if it is there.
pub fn run_part(
    uplink: Uplink,
    node: &NodeJob,
    keeper: Keeper,
    signals: Signals,
    address: Option<String>,
) -> Result<u8, LaunchError> {
    let mut master = Master::Head(Box::new(uplink));
    let plan = match Plan::new(node) {
        Ok(plan) => plan,
        Err(error) => return Ok(master.fail(crate::INTERNAL, error.to_string())),
    };
    if node.verbose {
        master.tell(&Up::Say(plan.describe()));
    }
    let notice = plan.notice(node);
    if !notice.is_empty() {
        master.tell(&Up::Say(notice));
    }
    let ranks = match Ranks::new(node, &plan, keeper, address) {
        Ok(ranks) => ranks,
        Err(error) => return Ok(master.fail(error.status(), error.to_string())),
    };
    let mut job = Job::new(master, node, &plan, ranks, signals);
    if let Err(error) = job.run(Connect::Pipes) {
        return Ok(job.master.fail(error.status(), error.to_string()));
    }
    let traffic = node.traffic.then(|| job.ranks.traffic());
    job.master.tell(&Up::Done {
        sent: traffic.unwrap_or_default(),
        late: node.late.then(|| job.ranks.late()),
    });
    job.wait_for_dismissal();
    Ok(0)
}

impl Master<'_> {
    /// Sends a message to the head; the user hears of things otherwise.
    fn tell(&mut self, message: &Up) {
        if let Master::Head(uplink) = self {
            uplink.link.send(message);
        }
    }

    /// Tells the head that this cannot go on. Answers the exit status.
    fn fail(&mut self, status: u8, text: String) -> u8 {
        self.tell(&Up::Failed { status, text });
        if let Master::Head(uplink) = self {
            uplink.link.flush_for(BEAT);
        }
        status
    }

    /// Takes output of ranks on its way.
    fn write(&mut self, target: Target, text: Vec<u8>) {
        match self {
            Master::User(_) => print(target, &text),
            Master::Head(uplink) => {
                uplink.unwritten += text.len();
                uplink.link.send(&Up::Output(target, text));
            }
        }
    }

    /// Whether output has room.
    fn has_room(&self) -> bool {
        match self {
            Master::User(_) => true,
            Master::Head(uplink) => uplink.unwritten < WINDOW,
        }
    }
}

struct Job<'a> {
    master: Master<'a>,
    node: &'a NodeJob,
    plan: &'a Plan<'a>,
    ranks: Ranks<'a>,
    signals: Signals,
    /// Why the job is being ended, once it is.
    ending: Option<Ending>,
    /// When what has not ended by itself is killed.
    kill_at: Option<Instant>,
    timeout_at: Option<Instant>,
    report_at: Option<Instant>,
    /// Ranks that left without `MPI_Finalize`, as long as it does no harm.
    left: Option<Left>,
}

impl<'a> Job<'a> {
    fn new(
        master: Master<'a>,
        node: &'a NodeJob,
        plan: &'a Plan<'a>,
        ranks: Ranks<'a>,
        signals: Signals,
    ) -> Job<'a> {
        Job {
            master,
            node,
            plan,
            ranks,
            signals,
            ending: None,
            kill_at: None,
            timeout_at: None,
            report_at: None,
            left: None,
        }
    }

    /// The whole life of the ranks. Nothing is left of them afterwards.
    fn run(&mut self, connect: Connect) -> Result<(), LaunchError> {
        let result = self
            .ranks
            .start(connect)
            .and_then(|()| self.wait_for_ranks());
        let master = &mut self.master;
        self.ranks
            .clean_up(&mut |target, text| master.write(target, text));
        result
    }

    /// Until every rank has ended.
    fn wait_for_ranks(&mut self) -> Result<(), LaunchError> {
        while !self.ranks.alive().is_empty() {
            self.wait_for_event()?;
            while let Some(number) = self.signals.next() {
                self.on_signal(number);
            }
            self.on_deadlines();
        }
        Ok(())
    }

    /// Waits for one of the descriptors and serves those that are ready.
    fn wait_for_event(&mut self) -> Result<(), LaunchError> {
        let stdin = io::stdin();
        let read_input = match (&self.master, &self.ranks.input) {
            (Master::User(_), Some(input)) => {
                let is_terminal = io::IsTerminal::is_terminal(&stdin);
                input.wants_more() && (!is_terminal || is_foreground(stdin.as_fd()))
            }
            _ => false,
        };
        let alive = self.ranks.alive();
        let mut reads = vec![self.signals.as_fd()];
        reads.extend(alive.iter().map(|&index| self.ranks.process_fd(index)));
        let first_stream = reads.len();
        let room = self.master.has_room();
        reads.extend(
            self.ranks
                .streams
                .iter()
                .filter(|_| room)
                .map(Stream::as_fd),
        );
        let first_client = reads.len();
        let clients: Vec<_> = self
            .ranks
            .pmi
            .iter()
            .flat_map(|s| s.connections())
            .collect();
        reads.extend(clients.iter().map(|(_, fd, _)| *fd));
        let numbers: Vec<usize> = clients.iter().map(|(index, ..)| *index).collect();
        if read_input {
            reads.push(stdin.as_fd());
        }
        let mut writes = Vec::new();
        writes.extend(
            clients
                .iter()
                .filter(|(.., unsent)| *unsent)
                .map(|(_, fd, _)| *fd),
        );
        if let Some(input) = &self.ranks.input {
            writes.extend(input.unsent());
        }
        let uplink = reads.len();
        if let Master::Head(uplink) = &self.master {
            reads.push(uplink.link.as_fd());
            if uplink.link.has_unsent() {
                writes.push(uplink.link.as_fd());
            }
        }
        let ready = wait_ready(&reads, &writes, self.time_to_wait()).map_err(doing("poll"))?;

        // Output first: what a rank wrote comes before the report of its end.
        let mut stream_ready = ready[first_stream..first_client].iter();
        let master = &mut self.master;
        let mut sink = |target, text| master.write(target, text);
        self.ranks
            .streams
            .retain_mut(|stream| match stream_ready.next() {
                Some(true) => stream.pump(&mut sink),
                _ => true,
            });
        let client_ready = ready[first_client..first_client + numbers.len()].iter();
        if let Some(server) = &mut self.ranks.pmi {
            server.flush();
        }
        for (&index, _) in numbers
            .iter()
            .zip(client_ready)
            .filter(|(_, ready)| **ready)
        {
            self.on_client(index);
        }
        let ended = alive.iter().zip(&ready[1..]).filter(|(_, ready)| **ready);
        let ended: Vec<usize> = ended.map(|(&index, _)| index).collect();
        let ends = self.ranks.reap(&ended)?;
        self.on_ended(ends);
        if read_input && ready[uplink - 1] {
            self.read_input();
        }
        self.pass_on_input();
        if matches!(self.master, Master::Head(_)) {
            self.serve_head();
        }
        Ok(())
    }

    /// Until the next deadline.
    fn time_to_wait(&self) -> Option<Duration> {
        let beat = match self.master {
            Master::User(_) => None,
            Master::Head(ref uplink) if !uplink.orders.is_empty() => Some(Instant::now()),
            Master::Head(_) => Some(Instant::now() + BEAT),
        };
        let look = self.left.as_ref().map(Left::next_look);
        let deadlines = [self.kill_at, self.timeout_at, self.report_at, beat, look];
        let next = deadlines.into_iter().flatten().min()?;
        Some(next.saturating_duration_since(Instant::now()))
    }

    /// Serves a rank's connection to the process manager, which has something to read.
    fn on_client(&mut self, index: usize) {
        let Some(server) = &mut self.ranks.pmi else {
            return;
        };
        server.serve(index);
        let arrived = server.arrived();
        if server.aborted(index).is_some() {
            self.ranks.signal_one(index, signal::SIGKILL);
        }
        if let Some(puts) = arrived {
            match &mut self.master {
                Master::User(_) => self.complete_barrier(puts),
                Master::Head(uplink) => uplink.link.send(&Up::BarrierIn(puts)),
            }
        }
    }

    fn complete_barrier(&mut self, puts: Puts) {
        if let Some(server) = &mut self.ranks.pmi {
            server.complete(puts);
        }
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
        let Some((rank, pid, cause)) = first_failure(&ends).filter(|_| self.ending.is_none())
        else {
            return;
        };
        let failure = Failure {
            rank,
            pid,
            host: host_name(),
            program: command_line(&self.plan.ranks[rank as usize].section.command),
            cause,
            others: 0,
        };
        match cause {
            Cause::NotFinalized => self.on_left(failure, &ends),
            _ => self.blame(failure),
        }
    }

    /// Ends the job because of this failure.
    fn blame(&mut self, mut failure: Failure) {
        failure.others = self.ranks.alive().len();
        say(&failure);
        self.end(Ending::Failed(failure), signal::SIGTERM);
    }

    /// Ranks have left without `MPI_Finalize`; `first` is one of them.
    fn on_left(&mut self, first: Failure, ends: &[RankEnd]) {
        let left = self.left.get_or_insert_with(|| {
            if let Master::User(options) = &self.master
                && options.wants_checks()
            {
                say(left_note(&first));
            }
            Left::new(first)
        });
        let others = ends
            .iter()
            .filter(|end| end.cause == Some(Cause::NotFinalized));
        others.for_each(|end| left.add(end.rank));
    }

    /// Ends the job if ranks cannot go on without those that left.
    fn look_for_missed(&mut self, now: Instant) {
        let Some(left) = self.left.as_mut().filter(|left| left.next_look() <= now) else {
            return;
        };
        if self.ending.is_some() {
            self.left = None;
        } else if left.is_missed(now, &self.ranks.waits()) {
            let failure = left.first.clone();
            self.left = None;
            self.blame(failure);
        }
    }

    /// Reads what the terminal has.
    fn read_input(&mut self) {
        // Not less than the buffer of `Stdin`, in which bytes would stay that no poll tells of.
        let mut buffer = [0; 65536];
        let read = match io::stdin().lock().read(&mut buffer) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return,
            Err(_) => 0,
        };
        match &mut self.ranks.input {
            Some(input) if read > 0 => input.push(&buffer[..read]),
            Some(input) => input.end(),
            None => {}
        }
    }

    /// Gives rank 0 what it takes of its input.
    fn pass_on_input(&mut self) {
        let Some(input) = &mut self.ranks.input else {
            return;
        };
        let (taken, goes_on) = input.write();
        if taken > 0 {
            self.master.tell(&Up::InputTaken(taken as u32));
        }
        if !goes_on {
            self.ranks.input = None;
            self.master.tell(&Up::InputClosed);
        }
    }

    /// Does what the head says. Without the head, the ranks are killed.
    fn serve_head(&mut self) {
        let Master::Head(uplink) = &mut self.master else {
            return;
        };
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
            Down::Report => {
                let report = self.ranks.hang_report(Some(&self.node.host));
                uplink.link.send(&Up::Hang(report));
            }
            Down::Pause => uplink.paused = true,
            Down::Resume => uplink.paused = false,
            Down::Bye => uplink.dismissed = true,
            Down::Input(bytes) => {
                if let Some(input) = &mut self.ranks.input {
                    input.push(&bytes);
                }
                self.pass_on_input();
            }
            Down::InputEnd => {
                if let Some(input) = &mut self.ranks.input {
                    input.end();
                }
                self.pass_on_input();
            }
            Down::End(number) => self.end(Ending::Signalled(number), number),
            Down::Kill => self.ranks.signal(signal::SIGKILL),
            Down::Signal(number) => self.ranks.signal(number),
            Down::BarrierOut(puts) => self.complete_barrier(puts),
        }
    }

    fn on_head_lost(&mut self, _: &Lost) {
        self.ending = Some(Ending::HostLost);
        self.ranks.signal(signal::SIGKILL);
    }

    fn on_signal(&mut self, number: i32) {
        match number {
            signal::SIGCHLD => return self.ranks.reap_orphans(),
            signal::SIGCONT => return self.ranks.signal(signal::SIGCONT),
            signal::SIGTSTP => {
                self.ranks.signal(signal::SIGTSTP);
                return stop_self();
            }
            _ => {}
        }
        let name = signal_name(number);
        match &self.master {
            Master::User(_) if number == signal::SIGUSR1 => self.say_hang_report(),
            // The head asks for it in another way.
            Master::Head(_) if number == signal::SIGUSR1 => {}
            // The second time somebody is impatient.
            _ if self.ending.is_some() => self.kill_at = Some(Instant::now()),
            Master::User(_) => {
                say(format_args!(
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
        if let (Master::User(options), true) = (&self.master, passed(self.timeout_at))
            && self.ending.is_none()
        {
            let time = options.timeout.unwrap_or_default();
            say(format_args!(
                "mpiexec: the job's time of {} s is over.\n",
                time.as_secs_f64()
            ));
            self.say_hang_report();
            self.end(Ending::TimedOut, signal::SIGTERM);
        }
        self.look_for_missed(now);
        if passed(self.kill_at) {
            self.kill_at = None;
            self.ranks.signal(signal::SIGKILL);
        }
    }

    /// Asks the ranks to end; those that do not are killed after the grace.
    fn end(&mut self, ending: Ending, number: i32) {
        self.ending = Some(ending);
        self.timeout_at = None;
        self.report_at = None;
        self.kill_at = Some(Instant::now() + self.node.grace);
        self.ranks.signal(number);
        // A stopped process does not look at signals.
        self.ranks.signal(signal::SIGCONT);
    }

    fn say_hang_report(&self) {
        let report = self.ranks.hang_report(None);
        say(hang_report(self.ranks.count() as u32, &report));
    }

    /// The agent has said all: until the head has heard it, or is gone.
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

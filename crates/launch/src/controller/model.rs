//! The controller with agents in one process: a job of many hosts is connected, started, exchanges
//! addresses in a barrier, and ends, or loses a host on the way. The controller, its links and its
//! messages are the real ones; an agent is a script that answers as the ranks of a host would make
//! it answer. What goes over each connection is counted.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;

use mica_node::process::{Signals, wait_ready};

use super::*;
use crate::link::connection::tests::pair;
use crate::link::messages::Surroundings;
use crate::options;
use crate::placement::{Placement, place};

/// When an agent is lost: after it has sent or received this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LossStep {
    Hello,
    Plan,
    BarrierIn,
    BarrierOut,
    Ended,
}

const STEPS: [LossStep; 5] =
    [LossStep::Hello, LossStep::Plan, LossStep::BarrierIn, LossStep::BarrierOut, LossStep::Ended];

/// The job to play.
#[derive(Debug, Clone, Copy)]
struct Scene {
    hosts: usize,
    /// Ranks of each host.
    ranks: usize,
    /// The host that is lost, and when.
    loss: Option<(usize, LossStep)>,
    /// A host with another version of Mica.
    foreign: Option<usize>,
}

/// What one agent sent and received.
#[derive(Debug, Default, Clone, Copy)]
struct AgentTraffic {
    /// Without heartbeats.
    messages: usize,
    sent: usize,
    /// Without the plan, whose size is that of the environment.
    received: usize,
}

struct ModelAgent {
    link: Option<Connection>,
    members: Vec<u32>,
    lost_at: Option<LossStep>,
    traffic: AgentTraffic,
    is_done: bool,
}

impl ModelAgent {
    fn send(&mut self, message: &AgentMessage) {
        self.traffic.messages += 1;
        self.traffic.sent += encode(message).len();
        if let Some(link) = &mut self.link {
            link.send(message);
        }
    }

    /// Goes on after a step, unless it is the last.
    fn pass(&mut self, step: LossStep) {
        if self.lost_at == Some(step) {
            self.link = None;
        }
    }

    fn on_message(&mut self, message: &ControllerMessage, job_size: usize) {
        if self.link.is_none() || matches!(message, ControllerMessage::Heartbeat) {
            return;
        }
        self.traffic.messages += 1;
        match message {
            ControllerMessage::Plan(plan) => {
                assert_eq!(plan.members, self.members);
                self.pass(LossStep::Plan);
                let puts = self.members.iter();
                let puts = puts.map(|rank| (format!("mica-{rank}-mica-net"), "1:".repeat(40)));
                self.send(&AgentMessage::BarrierIn(puts.collect()));
                self.pass(LossStep::BarrierIn);
            }
            ControllerMessage::BarrierOut(puts) => {
                self.traffic.received += encode(message).len();
                assert_eq!(puts.len(), job_size);
                self.pass(LossStep::BarrierOut);
                self.end(None);
            }
            ControllerMessage::End(_) | ControllerMessage::Kill if !self.is_done => {
                let number = signal::SIGTERM;
                self.end(Some(Cause::Killed { number, core_dumped: false }));
            }
            ControllerMessage::JobOver => self.link = None,
            _ => {}
        }
    }

    fn end(&mut self, cause: Option<Cause>) {
        let end = |&rank: &u32| RankEnd { rank, pid: rank + 1, cause, without_init: false };
        let ends = self.members.iter().map(end).collect();
        self.is_done = true;
        self.send(&AgentMessage::Ended(ends));
        self.pass(LossStep::Ended);
        self.send(&AgentMessage::Done { counters: Vec::new(), late: None });
    }
}

/// Plays the agents until none is connected.
fn play(mut agents: Vec<ModelAgent>, job_size: usize) -> Vec<AgentTraffic> {
    agents.iter_mut().for_each(|agent| agent.pass(LossStep::Hello));
    loop {
        let links = || agents.iter().filter_map(|agent| agent.link.as_ref());
        let reads: Vec<_> = links().map(AsFd::as_fd).collect();
        if reads.is_empty() {
            return agents.into_iter().map(|agent| agent.traffic).collect();
        }
        let writes: Vec<_> = links().filter(|link| link.has_unsent()).map(AsFd::as_fd).collect();
        wait_ready(&reads, &writes, None).unwrap();
        for agent in &mut agents {
            let mut messages = Vec::new();
            let Some(link) = &mut agent.link else { continue };
            link.flush();
            let received = link.receive(&mut messages);
            for message in &messages {
                agent.on_message(message, job_size);
            }
            if received.is_err() {
                agent.link = None;
            }
        }
    }
}

struct Played {
    /// Why the job was ended.
    ending: Option<Ending>,
    /// What was printed on standard error.
    report: String,
    traffic: Vec<AgentTraffic>,
}

fn run(scene: Scene) -> Played {
    let hosts: Vec<String> = (0..scene.hosts).map(|host| format!("h{host}")).collect();
    let size = scene.hosts * scene.ranks;
    let line = format!("-n {size} -s none --launcher fork -hosts {} prog", hosts.join(","));
    let mut options = options::tests::job(&line);
    let Ok(Placement::Nodes(nodes)) = place(&mut options, &|_| None) else {
        panic!("{line}");
    };
    let key = JobKey::new().unwrap();
    let local = [[127, 0, 0, 1].into()];
    let listener = AgentListener::open(&local, None, key, scene.hosts).unwrap();
    let (mut report, err) = std::io::pipe().unwrap();
    let out = File::options().write(true).open("/dev/null").unwrap();
    let writer = OutputWriter::to_files(out, File::from(std::os::fd::OwnedFd::from(err))).unwrap();
    let options = &options;
    let owner = JobOwner::User(Box::new(InvokingUser { options, spawned: None, writer }));
    let signals = Signals::take(&[]).unwrap();
    let (rules, timeout) = (options.signals.clone(), options.hosts.timeout);
    let mut job = JobLoop::new(owner, signals, rules, options.grace, timeout).unwrap();
    job.deadlines.set(Deadline::Heartbeat, Instant::now() + HEARTBEAT_INTERVAL);
    let mut pool = AgentPool::new(options, &nodes, listener);

    let mut agents = Vec::new();
    let mut entering = Vec::new();
    for (host, node) in nodes.nodes.iter().enumerate() {
        let (controller, agent, _) = pair();
        entering.push(controller);
        let loss = scene.loss.filter(|(lost, _)| *lost == host);
        agents.push(ModelAgent {
            link: Some(agent),
            members: node.members.clone(),
            lost_at: loss.map(|(_, step)| step),
            traffic: AgentTraffic::default(),
            is_done: false,
        });
    }
    let playing = std::thread::spawn(move || play(agents, size));
    for (host, link) in entering.into_iter().enumerate() {
        let mut surroundings = Surroundings::own();
        if scene.foreign == Some(host) {
            surroundings.format[4] += 1;
        }
        let hello = AgentMessage::Hello {
            node: Some(host as u32),
            slurm: None,
            machine: String::new(),
            surroundings,
        };
        pool.on_entered(&mut job, Box::new(link), vec![hello]);
    }
    job.run(&mut pool).unwrap();
    if !matches!(job.ending(), Some(Ending::NotStarted { .. })) {
        assert_eq!(pool.running_ranks(), 0);
    }
    pool.flush_all(HEARTBEAT_INTERVAL);
    drop(pool);
    let traffic = playing.join().expect("the agents saw the end");
    let ending = job.ending().cloned();
    job.finish().unwrap();
    let mut text = String::new();
    report.read_to_string(&mut text).unwrap();
    Played { ending, report: text, traffic }
}

/// 10,000 ranks: each host has a number of messages that does not depend on their number, and bytes
/// in proportion to what it has to know, which is an address of every rank.
#[test]
fn messages_and_bytes_stay_within_bounds_at_10000_ranks() {
    let scene = Scene { hosts: 100, ranks: 100, loss: None, foreign: None };
    let played = run(scene);
    assert!(played.ending.is_none(), "{}", played.report);
    assert_eq!(played.report, "");
    for traffic in &played.traffic {
        // Plan, BarrierIn, BarrierOut, Ended, Done, Bye: in any job.
        assert!(traffic.messages <= 6, "{traffic:?}");
        // A key and a value of 80 characters; a rank, its process and how it ended.
        assert!(traffic.sent <= 130 * scene.ranks, "{traffic:?}");
        assert!(traffic.received <= 110 * scene.hosts * scene.ranks, "{traffic:?}");
    }
}

#[test]
fn the_loss_of_any_host_at_any_step_ends_the_job() {
    for lost in 0..8 {
        for step in STEPS {
            check_loss(Scene { hosts: 8, ranks: 5, loss: Some((lost, step)), foreign: None }, lost);
        }
    }
    check_loss(
        Scene { hosts: 100, ranks: 100, loss: Some((57, LossStep::BarrierIn)), foreign: None },
        57,
    );
}

#[test]
fn a_host_with_another_version_is_refused_by_name() {
    for foreign in 0..3 {
        let played = run(Scene { hosts: 3, ranks: 2, loss: None, foreign: Some(foreign) });
        let report = &played.report;
        assert!(matches!(played.ending, Some(Ending::NotStarted { .. })), "{report}");
        let refused = format!("host h{foreign}: its ranks would not understand");
        assert!(report.contains(&refused), "{report}");
    }
}

fn check_loss(scene: Scene, lost: usize) {
    let played = run(scene);
    let ending = &played.ending;
    let report = &played.report;
    assert!(matches!(ending, Some(Ending::HostLost)), "{scene:?}: {ending:?} {report}");
    let named = format!("host h{lost} (ranks ");
    assert!(report.contains(&named), "{scene:?}: {report}");
    assert!(report.contains("was lost: the connection "));
}

//! The nodes, quantum by quantum (leon-2009 3.1).
//!
//! In each quantum every node that has something to do runs up to the same moment and reports what
//! its adapter has sent. Then the host ranks exchange the heads of all packets; each runs the same
//! model of the network over all of them, in order of (time, sender, number), and keeps the packets
//! for its own nodes until the quantum in which they arrive. So a result does not depend on how
//! many host ranks there are, or in which order nodes report.
//!
//! If no node runs, the clock jumps to the quantum of the next arrival. If there is none, the nodes
//! wait for ever, which ends the simulation: for one another, or for nodes whose programs have
//! ended before (`MPI_Abort`, `exit`).

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::error::Error;
use std::io;
use std::process::ExitStatus;

use mica_sim::network::{Network, PacketHead};
use mica_sim::port::{Departure, NodeSetup, NodeState, NodeSummary, PacketArrival, TimeGrant};
use mica_sim::time::{ByteTimes, SimTime};
use serde::{Deserialize, Serialize};

use super::cluster_error::ClusterError;
use super::host_ranks::HostRanks;
use super::node_process::{NodeCommand, NodeProcess};
use super::progress::RunProgress;
use super::summary::{NodeEnd, status};

/// A node of this host rank.
#[derive(Debug)]
struct LocalNode {
    node: u32,
    process: NodeProcess,
    /// Packets that have not been handed to it, the earliest first.
    arrivals: BinaryHeap<Reverse<Queued>>,
    summary: Option<NodeSummary>,
}

/// A packet under way, ordered by arrival, sender and number.
#[derive(Debug, PartialEq, Eq)]
struct Queued {
    number: u64,
    arrival: PacketArrival,
}

impl Ord for Queued {
    fn cmp(&self, other: &Queued) -> std::cmp::Ordering {
        let key = |queued: &Queued| (queued.arrival.at, queued.arrival.from, queued.number);
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for Queued {
    fn partial_cmp(&self, other: &Queued) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// What a host rank tells another after a quantum.
#[derive(Debug, Default, Serialize, Deserialize)]
struct QuantumNews {
    /// New states of its nodes.
    states: Vec<(u32, NodeState)>,
    /// Heads of all packets that its nodes have sent.
    heads: Vec<PacketHead>,
    /// The packets for nodes of the host rank that receives this, in the order of `heads`.
    departures: Vec<Departure>,
}

/// The cluster as one host rank knows it: its own nodes, and the states of all.
#[derive(Debug)]
pub struct HostCluster {
    local: Vec<LocalNode>,
    states: Vec<NodeState>,
    /// When each node's next packet arrives, of all nodes.
    due: BinaryHeap<Reverse<(SimTime, u32)>>,
    /// Packets sent so far by each node.
    sent: Vec<u64>,
    until: SimTime,
    /// The node processes have sent packets in the last quantum.
    has_sent: bool,
}

/// How long quanta are.
#[derive(Debug, Clone, Copy)]
pub struct Quanta {
    /// The shortest, and the first.
    pub least: SimTime,
    /// While no packet is sent they double up to this.
    pub most: SimTime,
}

impl HostCluster {
    /// Starts the processes of this host rank's nodes.
    ///
    /// # Errors
    /// [`ClusterError::Start`].
    pub fn start(
        command: &NodeCommand,
        setup: &NodeSetup,
        hosts: &HostRanks,
    ) -> Result<HostCluster, ClusterError> {
        let mut local = Vec::new();
        for node in (0..setup.size).filter(|&node| hosts.host_of(node) == hosts.rank()) {
            let setup = NodeSetup { rank: node, ..setup.clone() };
            let process =
                command.start(&setup).map_err(|error| ClusterError::Start { node, error })?;
            local.push(LocalNode { node, process, arrivals: BinaryHeap::new(), summary: None });
        }
        Ok(HostCluster {
            local,
            states: vec![NodeState::Runs; setup.size as usize],
            due: BinaryHeap::new(),
            sent: vec![0; setup.size as usize],
            until: SimTime::default(),
            has_sent: false,
        })
    }

    /// Runs all nodes until their programs have ended.
    ///
    /// # Errors
    /// [`ClusterError`], and those of MPI between the host ranks.
    pub fn run(
        &mut self,
        mut network: Network,
        quanta: Quanta,
        hosts: &HostRanks,
        progress: &RunProgress,
    ) -> Result<(), Box<dyn Error>> {
        let mut quantum = quanta.least;
        while let Some(until) = self.next_until(quantum) {
            if until == SimTime::NEVER {
                return Err(self.stuck(hosts)?.into());
            }
            self.until = until;
            let departures = self.run_quantum()?;
            self.exchange(departures, &mut network, hosts)?;
            // The same on all host ranks, which know of all packets.
            quantum = match self.has_sent {
                true => quanta.least,
                false => SimTime(quantum.0 * 2).min(quanta.most),
            };
            progress.show(until);
        }
        Ok(())
    }

    /// The end of the next quantum: NEVER if all nodes wait for ever, `None` if all programs have
    /// ended.
    fn next_until(&mut self, quantum: SimTime) -> Option<SimTime> {
        let runs = |state: &NodeState| *state == NodeState::Runs;
        let ended = |state: &NodeState| *state == NodeState::Ended;
        if self.states.iter().all(ended) {
            return None;
        }
        if self.states.iter().any(runs) {
            return Some(self.until + quantum);
        }
        while let Some(Reverse((_, node))) = self.due.peek()
            && ended(&self.states[*node as usize])
        {
            self.due.pop();
        }
        let arrival = self.due.peek().map_or(SimTime::NEVER, |due| due.0.0);
        let own = self.states.iter().filter_map(|state| match state {
            NodeState::Waits { due } => Some(*due),
            _ => None,
        });
        let next = own.fold(arrival, SimTime::min);
        if next == SimTime::NEVER {
            return Some(next);
        }
        // The quantum of the grid that holds `next`, and not the last one again.
        let end = SimTime(next.0 / quantum.0 * quantum.0 + quantum.0);
        Some(end.max(self.until + quantum))
    }

    /// Why nodes wait for ever. All host ranks call it at the same moment.
    fn stuck(&mut self, hosts: &HostRanks) -> Result<ClusterError, Box<dyn Error>> {
        let waiting = self.waiting();
        let ended = self.ends(hosts)?.into_iter();
        // Those that end well in the middle of others' waits have not finalized, either.
        let worst = ended.max_by_key(|end| (status(end.code), std::cmp::Reverse(end.node)));
        Ok(match worst {
            None => ClusterError::Deadlock { at: self.until, nodes: waiting },
            Some(NodeEnd { node, code, summary }) => {
                ClusterError::Ended { node, code, at: summary.end, waiting }
            }
        })
    }

    /// The numbers of the nodes that wait, for people.
    fn waiting(&self) -> String {
        let waits = |state: &NodeState| matches!(state, NodeState::Waits { .. });
        let numbers = (0..self.states.len()).filter(|&node| waits(&self.states[node]));
        let mut texts: Vec<String> = numbers.map(|node| node.to_string()).collect();
        if texts.len() > 16 {
            texts.truncate(16);
            texts.push("...".into());
        }
        texts.join(", ")
    }

    /// Lets the local nodes run that have something to do. Returns what they sent.
    fn run_quantum(&mut self) -> Result<Vec<(u32, Vec<Departure>)>, ClusterError> {
        let until = self.until;
        let mut granted = Vec::new();
        for (index, local) in self.local.iter_mut().enumerate() {
            let arrivals = local.take_arrivals(until);
            let due = match self.states[local.node as usize] {
                NodeState::Runs => true,
                NodeState::Waits { due } => due < until || !arrivals.is_empty(),
                NodeState::Ended => false,
            };
            if due {
                // A process that has ended is found by the report that is missing.
                let _ = local.process.grant(&TimeGrant { until, arrivals });
                granted.push(index);
            }
        }
        let mut departures = Vec::new();
        for index in granted {
            let local = &mut self.local[index];
            let report = match local.process.report() {
                Ok(report) => report,
                Err(error) => return Err(local.lost(until, &error)),
            };
            self.states[local.node as usize] = report.state;
            local.summary = report.summary.or(local.summary.take());
            departures.push((local.node, report.departures));
        }
        Ok(departures)
    }

    /// Exchanges news with the other host ranks, and carries all packets through the network.
    fn exchange(
        &mut self,
        departures: Vec<(u32, Vec<Departure>)>,
        network: &mut Network,
        hosts: &HostRanks,
    ) -> Result<(), Box<dyn Error>> {
        let news = self.news(departures, hosts);
        let messages = news.iter().map(postcard::to_stdvec).collect::<Result<Vec<_>, _>>()?;
        let mut heads = Vec::new();
        let mut packets = Vec::new();
        for message in hosts.exchange(messages)? {
            let news: QuantumNews = postcard::from_bytes(&message)?;
            for (node, state) in news.states {
                self.states[node as usize] = state;
            }
            let mine = |head: &&PacketHead| hosts.host_of(head.to) == hosts.rank();
            packets.extend(
                news.heads
                    .iter()
                    .filter(mine)
                    .map(|head| (head.from, head.number))
                    .zip(news.departures),
            );
            heads.extend(news.heads);
        }
        self.has_sent = !heads.is_empty();
        // Sorts them as well.
        let times = network.carry(&mut heads);
        let mut arrivals: HashMap<(u32, u64), ByteTimes> = HashMap::new();
        for (head, ByteTimes { first, last }) in heads.iter().zip(times) {
            // A quantum longer than the network's latency delivers late.
            let last = last.max(self.until);
            self.due.push(Reverse((last, head.to)));
            arrivals.insert((head.from, head.number), ByteTimes { first, last });
        }
        for ((from, number), departure) in packets {
            let ByteTimes { first, last } = arrivals[&(from, number)];
            let arrival = PacketArrival { first, at: last, from, packet: departure.packet };
            let index = self.local.iter().position(|l| l.node == departure.to);
            let local = &mut self.local[index.expect("a node of this host rank")];
            local.arrivals.push(Reverse(Queued { number, arrival }));
        }
        while self.due.peek().is_some_and(|due| due.0.0 < self.until) {
            self.due.pop();
        }
        Ok(())
    }

    /// What to tell each host rank.
    fn news(
        &mut self,
        departures: Vec<(u32, Vec<Departure>)>,
        hosts: &HostRanks,
    ) -> Vec<QuantumNews> {
        let mut heads = Vec::new();
        let mut packets: Vec<Vec<Departure>> = (0..hosts.size()).map(|_| Vec::new()).collect();
        let mut states = Vec::new();
        for (node, sent) in departures {
            states.push((node, self.states[node as usize]));
            for departure in sent {
                let number = &mut self.sent[node as usize];
                *number += 1;
                heads.push(PacketHead {
                    at: departure.at,
                    last: departure.last,
                    from: node,
                    to: departure.to,
                    number: *number,
                    bytes: departure.packet.payload.len() as u64,
                });
                packets[hosts.host_of(departure.to) as usize].push(departure);
            }
        }
        packets
            .into_iter()
            .map(|departures| QuantumNews {
                states: states.clone(),
                heads: heads.clone(),
                departures,
            })
            .collect()
    }

    /// How the nodes ended whose programs have: all of them when [`run`](Self::run) has returned.
    ///
    /// # Errors
    /// Those of the system and of MPI.
    pub fn ends(&mut self, hosts: &HostRanks) -> Result<Vec<NodeEnd>, Box<dyn Error>> {
        let mut mine = Vec::new();
        let has_ended =
            |local: &&mut LocalNode| self.states[local.node as usize] == NodeState::Ended;
        for local in self.local.iter_mut().filter(has_ended) {
            mine.push(NodeEnd {
                node: local.node,
                code: code(local.process.wait()?),
                summary: local.summary.take().unwrap_or_default(),
            });
        }
        let message = postcard::to_stdvec(&mine)?;
        let mut all: Vec<NodeEnd> = Vec::new();
        for message in hosts.exchange(vec![message; hosts.size() as usize])? {
            all.extend(postcard::from_bytes::<Vec<NodeEnd>>(&message)?);
        }
        all.sort_by_key(|end| end.node);
        Ok(all)
    }
}

impl LocalNode {
    /// The packets that arrive before `until`, in order.
    fn take_arrivals(&mut self, until: SimTime) -> Vec<PacketArrival> {
        let mut taken = Vec::new();
        while let Some(Reverse(queued)) = self.arrivals.peek()
            && queued.arrival.at < until
        {
            taken.extend(self.arrivals.pop().map(|queued| queued.0.arrival));
        }
        taken
    }

    /// Its process has ended without a report.
    fn lost(&mut self, at: SimTime, error: &io::Error) -> ClusterError {
        let (how, code) = match self.process.wait() {
            Ok(status) => (status.to_string(), Some(code(status))),
            Err(_) => (error.to_string(), None),
        };
        ClusterError::Lost { node: self.node, at, how, code }
    }
}

/// The exit code, or 128 + the signal.
fn code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    let by_signal = || 128 + status.signal().unwrap_or(0);
    status.code().unwrap_or_else(by_signal)
}

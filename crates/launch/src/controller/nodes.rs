//! The nodes of a job as the controller knows them.

use crate::link::Connection;
use crate::link::messages::{KvsEntries, Surroundings};
use crate::options::JobOptions;
use crate::placement::{JobNodes, NodeRanks};
use crate::report::late::LateArrivals;
use crate::report::traffic::CounterValues;

/// Bytes of standard input in flight to a node.
const INPUT_WINDOW: usize = 1 << 16;
/// The same for a node that takes its input more slowly than another.
const INPUT_HELD: usize = 64 << 20;

/// A node of the job.
#[derive(Default)]
pub(super) struct AgentNode {
    pub host: String,
    pub members: Vec<u32>,
    pub state: AgentState,
    /// What its ranks have put, when they are all in a barrier.
    pub arrived: Option<KvsEntries>,
    /// Identifies the machine (`boot_id`): virtual nodes with the same one share its cores.
    pub machine: String,
    /// What it is to the ranks of other nodes.
    pub surroundings: Surroundings,
    pub counters: Vec<CounterValues>,
    pub late: LateArrivals,
    /// The agent has reported why it cannot go on.
    pub has_reported: bool,
    /// Its agent has connected.
    pub has_connected: bool,
    /// The number of the remote shell that starts its agent, once it runs.
    pub shell: Option<usize>,
}

/// How far a node's part of the job has come.
#[derive(Default)]
pub(super) enum AgentState {
    #[default]
    Awaited,
    Running(Box<Connection>),
    Over(Box<Connection>),
    Lost,
}

impl AgentNode {
    pub fn new(node: &NodeRanks) -> AgentNode {
        let (host, members) = (node.host.clone(), node.members.clone());
        AgentNode { host, members, ..AgentNode::default() }
    }

    pub fn link(&self) -> Option<&Connection> {
        match &self.state {
            AgentState::Running(link) | AgentState::Over(link) => Some(link),
            AgentState::Awaited | AgentState::Lost => None,
        }
    }

    pub fn link_mut(&mut self) -> Option<&mut Connection> {
        match &mut self.state {
            AgentState::Running(link) | AgentState::Over(link) => Some(link),
            AgentState::Awaited | AgentState::Lost => None,
        }
    }

    pub fn is_awaited(&self) -> bool {
        matches!(self.state, AgentState::Awaited)
    }

    pub fn is_running(&self) -> bool {
        matches!(self.state, AgentState::Running(_))
    }

    /// Its ranks have ended, and all their output has arrived. Returns whether it was running.
    pub fn finish(&mut self) -> bool {
        match std::mem::replace(&mut self.state, AgentState::Lost) {
            AgentState::Running(link) => {
                self.state = AgentState::Over(link);
                true
            }
            _ => false,
        }
    }
}

/// Bytes of standard input that ranks have not taken yet, for each node whose ranks get it.
pub(super) struct InputWindow(Vec<(usize, usize)>);

impl InputWindow {
    /// For the nodes that have such ranks; `None` if there are none.
    pub fn of(options: &JobOptions, nodes: &JobNodes) -> Option<InputWindow> {
        let reads =
            |node: &NodeRanks| node.members.iter().any(|&rank| options.input.contains(rank));
        let nodes = nodes.nodes.iter().enumerate().filter(|(_, node)| reads(node));
        let untaken: Vec<_> = nodes.map(|(index, _)| (index, 0)).collect();
        (!untaken.is_empty()).then_some(InputWindow(untaken))
    }

    /// Whether some node has less than a window of untaken bytes, and no node is too far behind.
    pub fn has_room(&self) -> bool {
        let untaken = || self.0.iter().map(|(_, untaken)| *untaken);
        untaken().any(|bytes| bytes < INPUT_WINDOW) && untaken().all(|bytes| bytes < INPUT_HELD)
    }

    /// The ranks of a node have taken this many bytes.
    pub fn on_taken(&mut self, node: usize, bytes: usize) {
        for (_, untaken) in self.0.iter_mut().filter(|(reader, _)| *reader == node) {
            *untaken = untaken.saturating_sub(bytes);
        }
    }

    /// No rank of the node reads any more. Returns whether there is no other such node.
    pub fn remove(&mut self, node: usize) -> bool {
        self.0.retain(|(reader, _)| *reader != node);
        self.0.is_empty()
    }

    /// This many bytes are sent to the nodes that are returned.
    pub fn send(&mut self, bytes: usize) -> Vec<usize> {
        self.0.iter_mut().for_each(|(_, untaken)| *untaken += bytes);
        self.0.iter().map(|(node, _)| *node).collect()
    }
}

//! How agents are started, and by whom: a tree of remote shells.
//!
//! A host starts agents on at most `fanout` others. If there are more, these are dealt into
//! `fanout` groups, and the first host of each starts the agents of its group in the same way, by
//! an `mpiexec --starter` ([`crate::remote::starter`]) that reads a [`StartOrder`] on standard
//! input. The tree serves the start only: agents connect to the controller alone, whichever host
//! started them. So a host of the tree that is lost takes none of the others' connections with it,
//! and nothing that a job says passes through another host.
//!
//! What a starter learns are the secrets of the hosts below it. It starts the programs there and
//! could start others in their place, so that no secret could keep these hosts from it; it learns
//! none of the other hosts, and cannot pose as the controller to them.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::link::auth::{from_hex, to_hex};
use crate::options::{Agent, STARTER};

/// Agents that one host starts itself, unless `--fanout` says otherwise.
pub const FANOUT: usize = 32;

/// What the lines begin with that name hosts which refused.
const REFUSED: &str = "mica-starter: refused ";
/// ssh must not prompt: there may be no user to answer.
const SSH: [&str; 4] = ["ssh", "-x", "-o", "BatchMode=yes"];

/// A command that starts an agent, or several.
pub struct AgentCommand {
    /// The nodes whose agents it starts.
    pub nodes: Vec<usize>,
    /// What it reads on standard input: a line with the secret of the agent (with Slurm, of all of
    /// them), or with the order for a starter.
    pub input: String,
    /// Whether it runs a starter ([`crate::remote::starter`]).
    pub is_starter: bool,
    /// The command.
    pub command: Vec<OsString>,
}

/// The same for all agents of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartMethod {
    /// The remote shell; `None`: the hosts are virtual nodes of this machine.
    pub shell: Option<Vec<String>>,
    /// More arguments for the remote shell, before the host.
    pub extra: Vec<String>,
    /// The path of mpiexec on all hosts.
    pub program: OsString,
    /// The addresses where the controller listens.
    pub addresses: Vec<SocketAddr>,
    /// Agents that one host starts itself; 0: all.
    pub fanout: usize,
}

/// A node whose agent is to be started.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStart {
    /// The node's number.
    pub number: u32,
    /// The host's name.
    pub host: String,
    /// The secret of its agent, as a line of text.
    pub secret: String,
}

/// What a starter has to do.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartOrder {
    /// How agents are started.
    pub means: StartMethod,
    /// The nodes, of which the first is the starter's own.
    pub nodes: Vec<NodeStart>,
}

impl StartMethod {
    /// The words of the remote shell that the user gave, or of ssh.
    pub fn shell_words(given: Option<&[String]>) -> Vec<String> {
        match given {
            Some(words) => words.to_vec(),
            None => SSH.map(str::to_owned).to_vec(),
        }
    }

    /// The command that starts an agent on this machine.
    pub fn here(&self, node: &NodeStart) -> AgentCommand {
        AgentCommand {
            nodes: vec![node.number as usize],
            input: node.secret.clone(),
            is_starter: false,
            command: self.agent(node),
        }
    }

    /// The commands that start agents on other hosts.
    pub fn deal(&self, nodes: &[NodeStart]) -> Vec<AgentCommand> {
        let groups = match self.fanout {
            0 => nodes.len(),
            fanout => fanout.min(nodes.len()),
        };
        let first = |group: usize| group * nodes.len() / groups;
        (0..groups).map(|group| self.start(&nodes[first(group)..first(group + 1)])).collect()
    }

    /// The command that starts the agents of a group, on the host of its first.
    fn start(&self, group: &[NodeStart]) -> AgentCommand {
        if let [node] = group {
            let command = self.reach(&node.host, self.agent(node));
            return AgentCommand { command, ..self.here(node) };
        }
        let order = StartOrder { means: self.clone(), nodes: group.to_vec() };
        let starter = vec![self.program.clone(), STARTER.into()];
        AgentCommand {
            nodes: group.iter().map(|node| node.number as usize).collect(),
            input: order.to_line(),
            is_starter: true,
            command: self.reach(&group[0].host, starter),
        }
    }

    fn agent(&self, node: &NodeStart) -> Vec<OsString> {
        let agent = Agent { addresses: self.addresses.clone(), node: Some(node.number) };
        self.agent_command(&agent)
    }

    /// The command line of an agent.
    pub fn agent_command(&self, agent: &Agent) -> Vec<OsString> {
        let arguments = agent.arguments().into_iter().map(OsString::from);
        std::iter::once(self.program.clone()).chain(arguments).collect()
    }

    /// A command on a host.
    fn reach(&self, host: &str, command: Vec<OsString>) -> Vec<OsString> {
        let Some(shell) = &self.shell else {
            return command;
        };
        let is_ssh = Path::new(&shell[0]).file_name().is_some_and(|name| name == "ssh");
        let words = shell.iter().chain(&self.extra).map(OsString::from);
        let mut reached: Vec<OsString> = words.chain([host.into()]).collect();
        match is_ssh {
            // ssh joins all words into one line, and a shell on the host splits it again.
            true => reached.push(quoted(&command)),
            false => reached.extend(command),
        }
        reached
    }
}

impl StartOrder {
    /// The commands that carry it out.
    pub fn commands(&self) -> Vec<AgentCommand> {
        let Some((own, others)) = self.nodes.split_first() else {
            return Vec::new();
        };
        let mut commands = vec![self.means.here(own)];
        commands.extend(self.means.deal(others));
        commands
    }

    /// The order as a line of text.
    pub fn to_line(&self) -> String {
        let bytes = postcard::to_stdvec(self).expect("an order has no type that postcard refuses");
        to_hex(&bytes)
    }

    /// The order that a line of text holds; `None` if there is none, or it cannot be carried out.
    pub fn from_line(line: &[u8]) -> Option<StartOrder> {
        let order: StartOrder = postcard::from_bytes(&from_hex(line)?).ok()?;
        let shell_is_sound = order.means.shell.as_ref().is_none_or(|s| !s.is_empty());
        (!order.nodes.is_empty() && shell_is_sound).then_some(order)
    }
}

/// The line that names nodes whose agents could not be started.
pub fn refused_line(nodes: &[usize]) -> String {
    let numbers: Vec<String> = nodes.iter().map(ToString::to_string).collect();
    format!("{REFUSED}{}\n", numbers.join(","))
}

/// The nodes that such a line names; `None` if it is another line.
pub fn refused_nodes(line: &str) -> Option<Vec<usize>> {
    let numbers = line.trim_end().strip_prefix(REFUSED)?.split(',');
    numbers.map(|number| number.parse().ok()).collect()
}

/// A command as one line for a shell.
fn quoted(words: &[OsString]) -> OsString {
    let mut line = OsString::from("exec");
    for word in words {
        line.push(" '");
        let mut parts = word.to_string_lossy().into_owned();
        parts = parts.replace('\'', r"'\''");
        line.push(parts);
        line.push("'");
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn order(nodes: u32, fanout: usize) -> StartOrder {
        let node = |number| NodeStart {
            number,
            host: format!("h{number}"),
            secret: format!("{number:064x}"),
        };
        StartOrder {
            means: StartMethod {
                shell: Some(vec!["rsh".to_owned()]),
                extra: Vec::new(),
                program: "/bin/mpiexec".into(),
                addresses: vec!["10.0.0.1:5".parse().unwrap()],
                fanout,
            },
            nodes: (0..nodes).map(node).collect(),
        }
    }

    /// What came of carrying out an order, and the orders that it led to.
    #[derive(Default)]
    struct StartTree {
        /// By node: the host that ran the command which starts its agent, and how far that is from
        /// the controller.
        agents: BTreeMap<usize, (String, usize)>,
        /// The most commands for other hosts that one host ran.
        widest: usize,
        deepest: usize,
        /// By host: the nodes whose secrets it was given.
        learnt: BTreeMap<String, usize>,
    }

    impl StartTree {
        fn run(&mut self, on: &str, depth: usize, commands: Vec<AgentCommand>) {
            let elsewhere = commands.iter().filter(|start| start.command[0] == "rsh");
            self.widest = self.widest.max(elsewhere.count());
            self.deepest = self.deepest.max(depth);
            for start in commands {
                if !start.is_starter {
                    let [node] = start.nodes[..] else {
                        panic!("an agent of {:?}", start.nodes);
                    };
                    assert_eq!(start.input, format!("{node:064x}"));
                    let again = self.agents.insert(node, (on.to_owned(), depth));
                    assert!(again.is_none(), "node {node} is started twice");
                    continue;
                }
                let order = StartOrder::from_line(start.input.as_bytes()).unwrap();
                let numbers = order.nodes.iter().map(|node| node.number as usize);
                assert!(numbers.eq(start.nodes.iter().copied()));
                let host = start.command[1].to_str().unwrap().to_owned();
                assert_eq!(host, order.nodes[0].host);
                self.learnt.insert(host.clone(), order.nodes.len());
                self.run(&host, depth + 1, order.commands());
            }
        }
    }

    #[test]
    fn up_to_the_fanout_the_controller_starts_all_itself() {
        for (nodes, fanout) in [(32, 32), (1, 32), (1000, 0)] {
            let order = order(nodes, fanout);
            let commands = order.means.deal(&order.nodes);
            assert_eq!(commands.len(), nodes as usize);
            assert!(commands.iter().all(|start| !start.is_starter));
        }
    }

    /// 10,000 ranks on hosts of 32 need one step more, and 10,000 hosts two.
    #[test]
    fn a_tree_is_as_deep_as_it_must_be() {
        for (nodes, depth) in [(33, 1), (313, 1), (1056, 1), (1057, 2), (10_000, 2)] {
            let order = order(nodes, FANOUT);
            let mut tree = StartTree::default();
            tree.run("head", 0, order.means.deal(&order.nodes));
            assert_eq!(tree.agents.len(), nodes as usize);
            assert_eq!(tree.widest, FANOUT, "{nodes}");
            assert_eq!(tree.deepest, depth, "{nodes}");
            let most = (nodes as usize).div_ceil(FANOUT);
            assert!(tree.learnt.values().all(|&secrets| secrets <= most));
        }
    }

    #[test]
    fn lines_name_the_nodes_that_refused() {
        assert_eq!(refused_nodes(&refused_line(&[3])), Some(vec![3]));
        assert_eq!(refused_nodes(&refused_line(&[3, 40_000])), Some(vec![3, 40_000]));
        for other in
            ["", "Welcome to host 3", "mica-starter: refused ", "mica-starter: refused 1;2"]
        {
            assert_eq!(refused_nodes(other), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn every_agent_is_started_once(nodes in 1u32..400, fanout in 0usize..9) {
            let order = order(nodes, fanout);
            let mut tree = StartTree::default();
            tree.run("head", 0, order.means.deal(&order.nodes));
            prop_assert!(tree.agents.keys().copied().eq(0..nodes as usize));
            prop_assert!(fanout == 0 || tree.widest <= fanout);
        }

        #[test]
        fn no_line_makes_it_panic(line in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = StartOrder::from_line(&line);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in "([0-9a-f]{2}){0,100}") {
            let _ = StartOrder::from_line(bytes.as_bytes());
        }
    }
}

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

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::link::auth::{JobKey, from_hex, to_hex};
use crate::options::{Agent, AgentLauncher, HostOptions, STARTER};
use crate::placement::{JobNodes, NodeRanks, is_this_machine};

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
    pub host: String,
    /// The secret of its agent, as a line of text.
    pub secret: String,
}

/// What a starter has to do.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartOrder {
    /// How agents are started.
    pub method: StartMethod,
    /// The nodes, of which the first is the starter's own.
    pub nodes: Vec<NodeStart>,
}

impl StartMethod {
    /// The words of the remote shell that the user gave, or of ssh.
    pub fn shell_words(given: Option<&[String]>) -> Vec<String> {
        if let Some(words) = given { words.to_vec() } else { SSH.map(str::to_owned).to_vec() }
    }

    /// The command that starts an agent on this machine.
    pub fn on_this_machine(&self, node: &NodeStart) -> AgentCommand {
        AgentCommand {
            nodes: vec![node.number as usize],
            input: node.secret.clone(),
            is_starter: false,
            command: self.agent(node),
        }
    }

    /// The commands that start agents on other hosts.
    pub fn commands_for(&self, nodes: &[NodeStart]) -> Vec<AgentCommand> {
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
            let command = self.on_host(&node.host, self.agent(node));
            return AgentCommand { command, ..self.on_this_machine(node) };
        }
        let order = StartOrder { method: self.clone(), nodes: group.to_vec() };
        let starter = vec![self.program.clone(), STARTER.into()];
        AgentCommand {
            nodes: group.iter().map(|node| node.number as usize).collect(),
            input: order.to_line(),
            is_starter: true,
            command: self.on_host(&group[0].host, starter),
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
    fn on_host(&self, host: &str, command: Vec<OsString>) -> Vec<OsString> {
        let Some(shell) = &self.shell else { return command };
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

/// The commands for a job's nodes, in the order of the nodes. `program` is the path of mpiexec.
pub fn commands(
    nodes: &JobNodes,
    options: &HostOptions,
    program: &Path,
    addresses: &[SocketAddr],
    key: &JobKey,
) -> Vec<AgentCommand> {
    let shell = options.launcher_exec.as_deref();
    let is_fork = nodes.launcher == AgentLauncher::Fork && shell.is_none();
    let method = StartMethod {
        shell: (!is_fork).then(|| StartMethod::shell_words(shell)),
        extra: options.launcher_args.clone(),
        program: program.as_os_str().to_owned(),
        addresses: addresses.to_vec(),
        // Another remote shell than ssh may be there on this host only.
        fanout: options.fanout.unwrap_or(if shell.is_some() { 0 } else { FANOUT }),
    };
    if nodes.launcher == AgentLauncher::Srun {
        return vec![slurm_command(nodes, options, &method, key)];
    }
    let is_here = |node: &NodeStart| shell.is_none() && !is_fork && is_this_machine(&node.host);
    let start = |(index, node): (usize, &NodeRanks)| NodeStart {
        number: index as u32,
        host: node.host.clone(),
        secret: key.secret(Some(index as u32)).to_hex(),
    };
    let all = nodes.nodes.iter().enumerate().map(start);
    let (here, elsewhere): (Vec<NodeStart>, Vec<NodeStart>) = all.partition(is_here);
    let mut commands: Vec<AgentCommand> =
        here.iter().map(|node| method.on_this_machine(node)).collect();
    commands.extend(method.commands_for(&elsewhere));
    commands.sort_by_key(|start| start.nodes[0]);
    commands
}

/// Slurm starts all agents with one command.
fn slurm_command(
    nodes: &JobNodes,
    options: &HostOptions,
    method: &StartMethod,
    key: &JobKey,
) -> AgentCommand {
    let count = nodes.nodes.len();
    let names: Vec<&str> = nodes.nodes.iter().map(|node| node.host.as_str()).collect();
    let srun = ["srun".to_owned()];
    let words = options.launcher_exec.as_deref().unwrap_or(&srun);
    let mut command: Vec<OsString> = words.iter().map(OsString::from).collect();
    // One agent per host, with all of the host's processors; it binds the ranks itself.
    command.extend([
        format!("--nodes={count}").into(),
        format!("--ntasks={count}").into(),
        "--ntasks-per-node=1".into(),
        format!("--nodelist={}", names.join(",")).into(),
        "--mpi=none".into(),
        "--cpu-bind=none".into(),
        "--overlap".into(),
        // Each agent reads the secret, whatever SLURM_STDINMODE says.
        "--input=all".into(),
    ]);
    command.extend(options.launcher_args.iter().map(OsString::from));
    command
        .extend(method.agent_command(&Agent { addresses: method.addresses.clone(), node: None }));
    AgentCommand {
        nodes: (0..count).collect(),
        // srun gives all the same input.
        input: key.secret(None).to_hex(),
        is_starter: false,
        command,
    }
}

impl StartOrder {
    /// The commands that carry it out.
    pub fn commands(&self) -> Vec<AgentCommand> {
        let Some((own, others)) = self.nodes.split_first() else { return Vec::new() };
        let mut commands = vec![self.method.on_this_machine(own)];
        commands.extend(self.method.commands_for(others));
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
        let shell_is_sound = order.method.shell.as_ref().is_none_or(|s| !s.is_empty());
        (!order.nodes.is_empty() && shell_is_sound).then_some(order)
    }
}

/// The line that names nodes whose agents could not be started.
pub fn refused_line(nodes: &[usize]) -> String {
    format!("{REFUSED}{}\n", nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join(","))
}

/// The nodes that such a line names; `None` if it is another line.
pub fn refused_nodes(line: &str) -> Option<Vec<usize>> {
    line.trim_end().strip_prefix(REFUSED)?.split(',').map(|number| number.parse().ok()).collect()
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

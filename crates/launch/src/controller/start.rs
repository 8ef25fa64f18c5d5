//! From the start of the remote shells to agents that have their plan. No rank is started before
//! all agents have connected.

use std::path::{Path, PathBuf};

use mica_bootstrap::NodeTable;
use mica_node::identity::boot_id;
use mica_node::topology::SYNTHETIC_VARIABLE;
use mica_node::tunables::set_variable;

use super::*;
use crate::link::messages::Surroundings;
use crate::placement::node_job::{self, NodePlacement};
use crate::placement::plan::NodePlan;
use crate::placement::widths::CoreGrant;

/// Remote shells that are being started at the same time: more would run into the limits of an ssh
/// server on a gateway, or of processes on this host.
pub(super) const STARTS_MAX: usize = 32;
/// A laptop may be suspended for this long: a night.
const SUSPENSION: Duration = Duration::from_secs(12 * 3600);
/// Time for other hosts to refuse an agent as well, after one has.
const REFUSAL_TIME: Duration = Duration::from_millis(500);

/// Whether a machine runs on a battery at times; `supplies` is the kernel's list of its power
/// supplies. The battery of a mouse has the scope of a device.
fn has_battery(supplies: &Path) -> bool {
    let is_battery = |supply: PathBuf| {
        let read = |name| std::fs::read_to_string(supply.join(name)).unwrap_or_default();
        read("type").trim() == "Battery" && read("scope").trim() != "Device"
    };
    let all = std::fs::read_dir(supplies).into_iter().flatten().flatten();
    all.into_iter().any(|entry| is_battery(entry.path()))
}

impl AgentPool<'_> {
    /// Finds out the commands that start the agents.
    pub(super) fn prepare(&mut self, nodes: &JobNodes) -> Result<(), LaunchError> {
        let addresses = self.listener.addresses();
        let addresses = addresses.map_err(doing("cannot find out the port for agents"))?;
        let program = std::env::current_exe();
        let program = program.map_err(doing("cannot find out the path of mpiexec"))?;
        let key = self.listener.key();
        self.commands = commands(nodes, &self.options.hosts, &program, &addresses, key).into();
        Ok(())
    }

    /// Starts remote shells, as long as not too many agents are being waited for.
    pub(super) fn start_shells(&mut self, job: &mut JobLoop<'_>) {
        while !job.is_ending() && self.connecting < STARTS_MAX && !self.is_refused(job) {
            let Some(start) = self.commands.pop_front() else { return };
            let limit = START_FACTOR * self.options.hosts.timeout;
            job.deadlines.set(Deadline::AgentsConnected, Instant::now() + limit);
            let hosts = self.names(&start.nodes);
            if self.options.verbose {
                let command = command_line(&start.command);
                job.owner.say(format_args!("mpiexec: {hosts}: {command}\n"));
            }
            let program = start.command[0].to_string_lossy().into_owned();
            let number = self.shells.len();
            match RemoteShell::start(number as u32, start, ShellOutput::Kept) {
                Ok(shell) => {
                    shell.watch(&mut job.poll);
                    for &node in &shell.nodes {
                        self.nodes[node].shell = Some(number);
                    }
                    self.connecting += 1;
                    self.shells.push(shell);
                }
                Err(error) => {
                    let text = format!(
                        "mpiexec: cannot run {program:?} to start an agent on {hosts}: {error}\n"
                    );
                    return self.fail_to_start(job, &text);
                }
            }
        }
    }

    /// Whether a remote shell has failed before its agents connected.
    fn is_refused(&self, job: &JobLoop<'_>) -> bool {
        job.deadlines.get(Deadline::HostsRefused).is_some()
    }

    /// An agent has authenticated itself.
    pub(super) fn on_entered(
        &mut self,
        job: &mut JobLoop<'_>,
        link: Box<Connection>,
        messages: Vec<AgentMessage>,
    ) {
        let mut messages = messages.into_iter();
        let Some(AgentMessage::Hello { node, slurm, machine, surroundings }) = messages.next()
        else {
            return;
        };
        let awaited = |node: &usize| self.nodes[*node].is_awaited();
        // Slurm numbers hosts in its own order.
        let by_name = slurm.filter(|_| self.launcher == AgentLauncher::Srun);
        let by_name = by_name.and_then(|name| self.nodes.iter().position(|n| n.host == name));
        let number = node.and_then(|node| usize::try_from(node).ok());
        let number = by_name.or(number).filter(|&node| node < self.nodes.len());
        let Some(number) = number.filter(awaited).filter(|_| !job.is_ending()) else { return };
        job.poll.add(PollSource::Agent(number as u32), link.as_fd());
        self.nodes[number].state = AgentState::Running(link);
        self.nodes[number].machine = machine;
        let is_alike = surroundings.format == Surroundings::own().format;
        self.nodes[number].surroundings = surroundings;
        self.nodes[number].has_connected = true;
        if let Some(shell) = self.nodes[number].shell
            && self.shells[shell].on_agent_connected()
        {
            self.connecting -= 1;
        }
        if !is_alike {
            let text = "its ranks would not understand those of this host: it has another version \
                        of Mica, or is another kind of machine (width of pointers, byte order)";
            return self.on_failed(job, number, crate::report::INTERNAL, text);
        }
        for message in messages {
            self.on_message(job, number, message);
        }
        if !self.awaits_agents() {
            job.deadlines.clear(Deadline::AgentsConnected);
            self.listener.close();
            self.send_plans();
        }
    }

    /// All agents have connected: sends each its part of the job.
    fn send_plans(&mut self) {
        let spans = self.nodes.len() > 1;
        let inherited = environment::for_agents(self.launcher, self.options);
        let grants = self.plan_this_machine();
        let directory = std::env::current_dir().ok().map(Into::into);
        let placement = self.placement();
        // Without it the fabrics have their default, and the job runs.
        let fabric_uuid = node_job::new_uuid().ok();
        let head_timeout = self.head_timeout();
        for number in 0..self.nodes.len() {
            let node = &self.nodes[number];
            let mut job = NodeJob::part(self.options, node.members.clone());
            let shares = |other: &&AgentNode| other.machine == node.machine;
            let before = self.nodes[..number].iter().filter(shares);
            job.cores.machine_first = before.map(|other| other.members.len() as u32).sum();
            let all = self.nodes.iter().filter(shares);
            job.cores.machine_ranks = all.map(|other| other.members.len() as u32).sum();
            job.host = node.host.clone();
            job.programs.inherited = inherited.clone();
            job.node = number as u32;
            job.head_timeout = head_timeout;
            let mut granted = grants.iter().filter(|(of, _)| *of == number);
            job.cores.grant = granted.next().map(|(_, grant)| grant.clone());
            job.programs.directory = directory.clone();
            job.reports.traffic = self.options.wants_traffic();
            job.reports.late = self.options.wants_late();
            job.network.pmi |= spans;
            job.network.placement = placement.clone();
            job.network.fabric_uuid = fabric_uuid.clone();
            job.network.interface = match (&self.options.hosts.interface, self.launcher) {
                // An address is this machine's; other nodes use the one over which their agents
                // connected.
                (Some(name), _) if name.parse::<std::net::IpAddr>().is_ok() => Some(String::new()),
                (Some(name), _) => Some(name.clone()),
                (None, AgentLauncher::Fork) => Some(String::new()),
                (None, _) => None,
            };
            self.send_to(number, &ControllerMessage::Plan(Box::new(job)));
        }
    }

    /// How long agents wait for this machine. From outside, one that is suspended cannot be told
    /// from one that has lost its power.
    fn head_timeout(&self) -> Duration {
        let hosts = &self.options.hosts;
        hosts.head_timeout.unwrap_or_else(|| {
            match has_battery(Path::new("/sys/class/power_supply")) {
                true => SUSPENSION,
                false => hosts.timeout,
            }
        })
    }

    /// Which rank is on which node.
    fn placement(&self) -> NodePlacement {
        let network = &self.nodes[0].surroundings.network;
        let is_one = self.nodes.iter().all(|node| node.surroundings.network == *network);
        let nodes = self.nodes.iter();
        NodePlacement {
            network: if is_one { network.clone() } else { String::new() },
            nodes: nodes.map(|node| (node.host.clone(), NodeTable::runs(&node.members))).collect(),
        }
    }

    /// Places the ranks of nodes that are on this machine, if there are several of these: an agent
    /// by itself would take the other agents' processors for those of another job. Returns what
    /// each node gets.
    fn plan_this_machine(&mut self) -> Vec<(usize, CoreGrant)> {
        let own = boot_id();
        let is_here = |&node: &usize| self.nodes[node].machine == own;
        let here: Vec<usize> = (0..self.nodes.len()).filter(is_here).collect();
        let is_described = set_variable(SYNTHETIC_VARIABLE).is_some();
        if here.len() < 2 || own.is_empty() || is_described {
            return Vec::new();
        }
        // In node order, which differs from rank order when hosts are assigned ranks more than
        // once.
        let ranks = here.iter().flat_map(|&node| &self.nodes[node].members);
        let mut job = NodeJob::part(self.options, ranks.copied().collect());
        // Each agent arranges its own ranks on what it is granted.
        job.cores.traffic.clear();
        // The agents report what is wrong with it.
        let Ok(plan) = NodePlan::new(&job) else { return Vec::new() };
        let mut first = 0;
        let mut grants = Vec::new();
        for node in here {
            let last = first + self.nodes[node].members.len();
            grants.push((node, plan.grant(first..last)));
            first = last;
        }
        self.reservation = plan.into_reservation();
        grants
    }

    /// Reads what a remote shell says, and whether it has ended. One that fails before its agents
    /// have connected fails the start.
    pub(super) fn on_shell(
        &mut self,
        job: &mut JobLoop<'_>,
        number: usize,
    ) -> Result<(), LaunchError> {
        let shell = &mut self.shells[number];
        let before = (shell.has_ended(), shell.refused().len());
        shell.update(&mut job.poll).map_err(doing("cannot look at a remote shell"))?;
        if before == (shell.has_ended(), shell.refused().len()) {
            return Ok(());
        }
        if shell.has_ended() && !before.0 {
            self.on_shell_ended(job);
        }
        if !job.is_ending() && !self.refused_by(&self.shells[number]).is_empty() {
            // Other hosts may refuse for the same reason.
            let are_missing = |shell: &RemoteShell| {
                self.missing(&shell.nodes).len() > self.refused_by(shell).len()
            };
            let wait = match self.shells.iter().any(are_missing) {
                true => REFUSAL_TIME,
                false => Duration::ZERO,
            };
            job.deadlines.set_earlier(Deadline::HostsRefused, Instant::now() + wait);
        }
        Ok(())
    }

    /// Nodes whose agents have not connected, and will not.
    fn refused_by(&self, shell: &RemoteShell) -> Vec<usize> {
        self.missing(&shell.refused())
    }

    /// Fails the start because of the hosts whose remote shells have failed.
    pub(super) fn report_refusals(&mut self, job: &mut JobLoop<'_>) {
        let mut text = String::new();
        let mut is_tree = false;
        for shell in &self.shells {
            let missing = self.refused_by(shell);
            if !missing.is_empty() {
                is_tree |= shell.is_starter();
                text.push_str(&format!(
                    "mpiexec: cannot start an agent on {}:\n{}",
                    self.names(&missing),
                    shell.describe()
                ));
            }
        }
        if is_tree {
            text.push_str(
                "mpiexec: these hosts were to be reached from others of the job; with --fanout 0 \
                 this host reaches all.\n",
            );
        }
        // An agent may have connected although its shell has failed.
        if !text.is_empty() {
            self.fail_to_start(job, &text);
        }
    }

    /// Those of these nodes whose agents have not connected.
    pub(super) fn missing(&self, nodes: &[usize]) -> Vec<usize> {
        nodes.iter().filter(|&&node| self.nodes[node].is_awaited()).copied().collect()
    }

    fn fail_to_start(&mut self, job: &mut JobLoop<'_>, text: &str) {
        job.owner.say(text);
        let status = crate::report::INTERNAL;
        job.end(self, Ending::NotStarted { status }, signal::SIGTERM);
    }

    pub(super) fn on_start_timeout(&mut self, job: &mut JobLoop<'_>) {
        let time = START_FACTOR * self.options.hosts.timeout;
        let mut text = String::new();
        for shell in &self.shells {
            let missing = self.missing(&shell.nodes);
            if missing.is_empty() {
                continue;
            }
            let agents = if missing.len() == 1 { "its agent" } else { "their agents" };
            text.push_str(&format!(
                "mpiexec: {}: {agents} did not connect within {} s:\n{}",
                self.names(&missing),
                time.as_secs_f64(),
                shell.describe()
            ));
        }
        let is_untried = |node: &&AgentNode| node.is_awaited() && node.shell.is_none();
        let untried = self.nodes.iter().filter(is_untried).count();
        if untried > 0 {
            text.push_str(&format!(
                "mpiexec: {untried} more hosts were not tried: {STARTS_MAX} agents are started at \
                 the same time.\n"
            ));
        }
        self.fail_to_start(job, &text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_laptop_is_known_by_its_battery() {
        let name = format!("mica-supplies-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&folder);
        assert!(!has_battery(&folder));
        let add = |name: &str, kind: &str, scope: Option<&str>| {
            let supply = folder.join(name);
            std::fs::create_dir_all(&supply).unwrap();
            std::fs::write(supply.join("type"), kind).unwrap();
            if let Some(scope) = scope {
                std::fs::write(supply.join("scope"), scope).unwrap();
            }
        };
        add("AC", "Mains\n", None);
        add("hidpp_battery_0", "Battery\n", Some("Device\n"));
        assert!(!has_battery(&folder));
        add("BAT0", "Battery\n", None);
        assert!(has_battery(&folder));
        std::fs::remove_dir_all(folder).unwrap();
    }
}

//! What a command line asks for.

use std::ffi::{OsStr, OsString};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use mica_bootstrap::spawned::{SPAWNED, SpawnedBy};
use mica_node::tunables::{CHECK, LATE, STATS};
use mica_profile::recorded::RecordedTraffic;
use serde::{Deserialize, Serialize};

use crate::hosts::Host;
use crate::options::values::binding::Binding;
use crate::options::values::completion_shell::CompletionShell;
use crate::options::values::inherit::Inherit;
use crate::options::values::output_rules::OutputRules;
use crate::options::values::rank_set::RankSet;
use crate::options::values::tool::Tool;
use crate::signals::SignalRules;

/// What the command line asks for.
#[derive(Debug)]
pub enum CommandRequest {
    /// Print the help.
    Help,
    /// Print the manual page.
    Manual,
    /// Print the script that completes options in this shell.
    Completion(CompletionShell),
    /// Print the version.
    Version,
    /// Run a job.
    Run(Box<JobOptions>),
    /// Run ranks for another mpiexec.
    Agent(Agent),
    /// Start agents for another mpiexec.
    Starter,
    /// Start the launcher of processes that a rank spawns.
    Spawn {
        /// The rank.
        by: SpawnedBy,
        /// What is to be started: an ordinary command line.
        command_line: Vec<OsString>,
    },
    /// Be that launcher.
    Spawned(SpawnedJob),
}

/// What the first process puts on the command line of a spawned job's launcher.
#[derive(Debug, Clone, PartialEq)]
pub struct SpawnedJob {
    /// The first process.
    pub starter: u32,
    /// The rank that spawns the job.
    pub by: SpawnedBy,
    /// What is to be started: an ordinary command line.
    pub command_line: Vec<OsString>,
}

/// What the controller puts on an agent's command line.
#[derive(Debug, Clone, PartialEq)]
pub struct Agent {
    /// The addresses where the controller listens, to be tried in order.
    pub addresses: Vec<SocketAddr>,
    /// The node's number; `None` if Slurm provides it.
    pub node: Option<u32>,
}

/// How agents are started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentLauncher {
    /// By a remote shell.
    Ssh,
    /// As processes of this machine: the hosts are virtual nodes.
    Fork,
    /// By Slurm.
    Srun,
}

impl AgentLauncher {
    /// The names that `--launcher` takes.
    pub const NAMES: &'static str = "ssh, fork, srun";

    /// The launcher of this name.
    pub fn parse(name: &str) -> Option<AgentLauncher> {
        match name {
            "ssh" => Some(AgentLauncher::Ssh),
            "fork" => Some(AgentLauncher::Fork),
            "srun" | "slurm" => Some(AgentLauncher::Srun),
            _ => None,
        }
    }
}

/// A job as the user wants it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct JobOptions {
    /// The programs, in rank order.
    pub sections: Vec<ProgramSection>,
    /// Environment of all ranks.
    pub environment: Vec<(OsString, OsString)>,
    /// Which variables of this process's environment ranks get.
    pub inherit: Inherit,
    /// Labels and files for the ranks' output.
    pub output: OutputRules,
    /// The ranks that get standard input.
    pub input: RankSet,
    /// Commands that ranks' programs are started under.
    pub tools: Vec<Tool>,
    /// Print what is started, and where.
    pub verbose: bool,
    /// Print what each rank is bound to.
    pub report_bindings: bool,
    /// End the job after this time.
    pub timeout: Option<Duration>,
    /// Print the hang report after this time.
    pub hang_report: Option<Duration>,
    /// Which signals to mpiexec the ranks get.
    pub signals: SignalRules,
    /// Time between asking ranks to end and killing them.
    pub grace: Duration,
    /// Where ranks run on their nodes.
    pub binding: Binding,
    /// The profile by whose traffic ranks are placed.
    pub profile: Option<PathBuf>,
    /// The traffic in it, once it is read.
    pub traffic: RecordedTraffic,
    /// The hosts, and how to reach them.
    pub hosts: HostOptions,
}

/// The hosts of a job, and how agents on them are started and reached.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HostOptions {
    /// The hosts named on the command line; one named twice appears twice.
    pub named: Vec<Host>,
    /// A file of hosts.
    pub file: Option<PathBuf>,
    /// Ranks that each host gets at a time.
    pub per_host: Option<usize>,
    /// How agents are started; `None`: mpiexec chooses.
    pub launcher: Option<AgentLauncher>,
    /// The remote shell in place of ssh.
    pub launcher_exec: Option<Vec<String>>,
    /// More arguments for the remote shell, before the host.
    pub launcher_args: Vec<String>,
    /// Agents that one host starts itself; 0: all; `None`: mpiexec chooses.
    pub fanout: Option<usize>,
    /// A host is lost if it is silent for this long.
    pub timeout: Duration,
    /// Agents wait for this long for a controller whose machine does not answer; `None`: mpiexec
    /// chooses.
    pub head_timeout: Option<Duration>,
    /// A name or address of the interface that agents connect to.
    pub interface: Option<String>,
    /// The ports that may be used, first and last.
    pub ports: Option<(u16, u16)>,
}

impl JobOptions {
    /// What an empty command line asks for.
    pub(super) fn new() -> JobOptions {
        JobOptions {
            grace: Duration::from_secs(2),
            hosts: HostOptions { timeout: Duration::from_secs(10), ..HostOptions::default() },
            ..JobOptions::default()
        }
    }

    /// The number of ranks in the job.
    pub fn ranks(&self) -> usize {
        self.sections.iter().map(|section| section.ranks).sum()
    }

    /// Whether ranks will find this value in their environment; the command line takes precedence
    /// over this process's own environment.
    pub fn sets(&self, name: &str, value: &str) -> bool {
        let sections = self.sections.iter().flat_map(|section| &section.environment);
        let mut given = self.environment.iter().chain(sections).filter(|(known, _)| known == name);
        match given.next_back() {
            Some((_, given)) => given == value,
            None => std::env::var_os(name).is_some_and(|own| own == *value),
        }
    }

    /// The value that ranks of a section will find in their environment under this name, if it is
    /// known here.
    pub fn variable(&self, section: &ProgramSection, name: &str) -> Option<OsString> {
        let mut given = self.environment.iter().chain(&section.environment);
        match given.rfind(|(known, _)| known == name) {
            Some((_, value)) => Some(value.clone()),
            None => {
                let inherit = section.inherit.as_ref().unwrap_or(&self.inherit);
                inherit.takes(OsStr::new(name)).then(|| std::env::var_os(name))?
            }
        }
    }

    /// Whether `MICA_STATS=table` applies to the ranks.
    pub fn wants_traffic(&self) -> bool {
        self.sets(STATS.env, "table")
    }

    /// Whether the ranks count late arrivals.
    pub fn wants_late(&self) -> bool {
        self.sets(LATE.env, "on")
    }

    /// Whether mpiexec reports violations of MPI's rules by the program.
    pub fn wants_checks(&self) -> bool {
        self.sets(CHECK.env, "1")
    }

    /// Whether the command line names neither hosts nor a launcher: then ranks run on this machine.
    pub(super) fn names_no_hosts(&self) -> bool {
        self.hosts.named.is_empty() && self.hosts.file.is_none() && self.hosts.launcher.is_none()
    }
}

/// One program of the job.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ProgramSection {
    /// How many ranks run it.
    pub ranks: usize,
    /// Whether the command line gave the number.
    pub counted: bool,
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Environment of these ranks.
    pub environment: Vec<(OsString, OsString)>,
    /// Which variables of the launcher's environment they get; `None`: those that the whole job
    /// gets.
    pub inherit: Option<Inherit>,
    /// Working directory.
    pub directory: Option<PathBuf>,
    /// Where the program is looked for before PATH.
    pub path: Option<OsString>,
    /// The numbers of ranks that it can run with.
    pub soft: Option<String>,
    /// The architecture that it asks for.
    pub architecture: Option<String>,
    /// The file of further options that it names, which means nothing to Mica.
    pub file: Option<String>,
}

/// The command line is wrong.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum UsageError {
    /// No such option. The second text names a replacement, if one is known.
    #[error("unknown option {0}{1}")]
    Unknown(String, String),
    /// A file of options cannot be used.
    #[error("{}: {what}", path.display())]
    ConfigFile { path: PathBuf, what: String },
    /// A value is missing.
    #[error("{option} needs {wanted}")]
    Missing { option: String, wanted: String },
    /// A value is invalid.
    #[error("{option}: {value:?} is not {wanted}")]
    Value { option: String, value: String, wanted: String },
    /// The environment variable that `-x` should export is not set.
    #[error("-x {0}: the variable is not set; give it a value with -x {0}=VALUE")]
    Unset(String),
    /// No number of ranks is allowed.
    #[error("-soft {soft}: no number in it is from 1 to {limit}, the ranks asked for")]
    Soft { soft: String, limit: usize },
    /// A section has no program.
    #[error("no program given{0}")]
    NoProgram(&'static str),
    /// A program's working directory is not there.
    #[error("-wdir: {directory:?} is not a directory")]
    Directory { section: u32, directory: PathBuf },
    /// An agent's command line is not one that a controller writes.
    #[error("--agent is for mpiexec's own use")]
    Agent,
    /// A starter's command line has more words.
    #[error("--starter is for mpiexec's own use")]
    Starter,
    /// The command line of a spawned job's launcher is not one that a rank or mpiexec writes.
    #[error("{SPAWNED} is for the use of MPI_Comm_spawn")]
    Spawned,
}

impl UsageError {
    /// Number of the program whose part of the command line is wrong, if it is known.
    pub fn section(&self) -> Option<u32> {
        match self {
            UsageError::Directory { section, .. } => Some(*section),
            _ => None,
        }
    }
}

impl ProgramSection {
    pub(super) fn new() -> ProgramSection {
        ProgramSection { ranks: 1, ..ProgramSection::default() }
    }
}

/// The option, first on the command line, that makes this program an agent. It is not in the table,
/// as only mpiexec uses it.
pub const AGENT: &str = "--agent";

/// The option, alone on the command line, that makes this program a starter.
pub const STARTER: &str = "--starter";

/// The option, first on the command line, that makes this program the launcher of a spawned job.
pub const SPAWNED_HERE: &str = "--spawned-here";

impl SpawnedJob {
    /// The words before the job's own command line.
    pub fn words(starter: u32, by: &SpawnedBy) -> [String; 3] {
        [SPAWNED_HERE.to_owned(), starter.to_string(), by.to_argument()]
    }

    pub(super) fn parse(arguments: &[OsString]) -> Option<SpawnedJob> {
        let [starter, by, command_line @ ..] = arguments else { return None };
        Some(SpawnedJob {
            starter: starter.to_str()?.parse().ok()?,
            by: SpawnedBy::parse(by.to_str()?)?,
            command_line: command_line.to_vec(),
        })
    }
}

impl Agent {
    /// The command line that [`Agent::parse`] reads, without the program.
    pub fn arguments(&self) -> Vec<String> {
        let addresses: Vec<String> = self.addresses.iter().map(ToString::to_string).collect();
        let node = self.node.map_or("slurm".to_owned(), |node| node.to_string());
        vec![AGENT.to_owned(), addresses.join(","), node]
    }

    pub(super) fn parse(arguments: &[OsString]) -> Option<Agent> {
        let [addresses, node] = arguments else { return None };
        let addresses = addresses.to_str()?.split(',').map(|address| address.parse().ok());
        let node = match node.to_str()? {
            "slurm" => None,
            number => Some(number.parse().ok()?),
        };
        let addresses = addresses.collect::<Option<Vec<SocketAddr>>>()?;
        Some(Agent { addresses, node })
    }
}

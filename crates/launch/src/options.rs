//! The command line: one table of options drives parsing, `--help` and the manual.
//!
//! Long names may be written with one dash or two (`-np`, `--np`): users come from launchers with
//! either habit. Options end at the program's name; what follows up to a lone `:` belongs to the
//! program. After `:` comes the next section of a job of several programs (MPMD).

use std::ffi::{OsStr, OsString};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mica_node::tunables::{CHECK, LATE, STATS};
use serde::{Deserialize, Serialize};

use crate::binding::Binding;
use crate::hosts::Host;
use crate::inherit::Inherit;
use crate::output_rules::OutputRules;
use crate::pattern::NamePattern;
use crate::rank_set::RankSet;
use crate::tool::Tool;

mod config_file;
mod foreign;
mod help;
mod table;
mod variables;

pub use help::help;
use table::options;

/// What the command line asks for.
#[derive(Debug)]
pub enum CommandRequest {
    /// Print the help.
    Help,
    /// Print the version.
    Version,
    /// Run a job.
    Run(Box<JobOptions>),
    /// Run ranks for another mpiexec.
    Agent(Agent),
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
#[derive(Debug, Clone, PartialEq)]
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
    /// Time between asking ranks to end and killing them.
    pub grace: Duration,
    /// Where ranks run on their nodes.
    pub binding: Binding,
    /// The hosts named on the command line; one named twice appears twice.
    pub hosts: Vec<Host>,
    /// A file of hosts.
    pub host_file: Option<PathBuf>,
    /// Ranks that each host gets at a time.
    pub per_host: Option<usize>,
    /// How agents are started; `None`: mpiexec chooses.
    pub launcher: Option<AgentLauncher>,
    /// The remote shell in place of ssh.
    pub launcher_exec: Option<Vec<String>>,
    /// More arguments for the remote shell, before the host.
    pub launcher_args: Vec<String>,
    /// A host is lost if it is silent for this long.
    pub host_timeout: Duration,
    /// A name or address of the interface that agents connect to.
    pub interface: Option<String>,
    /// The ports that may be used, first and last.
    pub ports: Option<(u16, u16)>,
}

impl Default for JobOptions {
    fn default() -> JobOptions {
        JobOptions {
            sections: Vec::new(),
            environment: Vec::new(),
            inherit: Inherit::All,
            output: OutputRules::default(),
            input: RankSet::one(0),
            tools: Vec::new(),
            verbose: false,
            report_bindings: false,
            timeout: None,
            hang_report: None,
            grace: Duration::from_secs(2),
            binding: Binding::default(),
            hosts: Vec::new(),
            host_file: None,
            per_host: None,
            launcher: None,
            launcher_exec: None,
            launcher_args: Vec::new(),
            host_timeout: Duration::from_secs(10),
            interface: None,
            ports: None,
        }
    }
}

impl JobOptions {
    /// The number of ranks in the job.
    pub fn ranks(&self) -> usize {
        self.sections.iter().map(|section| section.ranks).sum()
    }

    /// Whether ranks will find this value in their environment; the command line takes precedence
    /// over this process's own environment.
    pub fn sets(&self, name: &str, value: &str) -> bool {
        let sections = self
            .sections
            .iter()
            .flat_map(|section| &section.environment);
        let mut given = self
            .environment
            .iter()
            .chain(sections)
            .filter(|(known, _)| known == name);
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
                inherit
                    .takes(OsStr::new(name))
                    .then(|| std::env::var_os(name))?
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
    fn names_no_hosts(&self) -> bool {
        self.hosts.is_empty() && self.host_file.is_none() && self.launcher.is_none()
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
}

/// The command line is wrong.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum UsageError {
    /// No such option. The second text names a replacement, if one is known.
    #[error("unknown option {0}{1}")]
    Unknown(String, String),
    /// A file of options cannot be used.
    #[error("{}: {what}", path.display())]
    ConfigFile {
        /// The file.
        path: PathBuf,
        /// What is wrong, and on which line.
        what: String,
    },
    /// A value is missing.
    #[error("{option} needs {wanted}")]
    Missing {
        /// The option as written.
        option: String,
        /// The names of its values.
        wanted: String,
    },
    /// A value is invalid.
    #[error("{option}: {value:?} is not {wanted}")]
    Value {
        /// The option as written.
        option: String,
        /// The value given.
        value: String,
        /// What a valid value is.
        wanted: String,
    },
    /// The environment variable that `-x` should export is not set.
    #[error("-x {0}: the variable is not set; give it a value with -x {0}=VALUE")]
    Unset(String),
    /// A section has no program.
    #[error("no program given{0}")]
    NoProgram(&'static str),
    /// An agent's command line is not one that a controller writes.
    #[error("--agent is for mpiexec's own use")]
    Agent,
}

/// One entry of the table.
struct Spec {
    /// The names as the help shows them; one dash or two are accepted.
    names: &'static [&'static str],
    /// The names of its values, one for each argument that it takes.
    values: &'static [&'static str],
    /// Whether it belongs to the section (program) or to the whole job.
    scope: Scope,
    /// The text for the help.
    help: &'static str,
    /// Applies the option.
    apply: fn(&mut OptionParser, &str, &[OsString]) -> Result<(), UsageError>,
}

impl Spec {
    fn has_name(&self, bare: &str) -> bool {
        self.names
            .iter()
            .any(|name| name.trim_start_matches('-') == bare)
    }
}

#[derive(PartialEq)]
enum Scope {
    Section,
    Job,
}

/// The options and sections read so far.
struct OptionParser {
    options: JobOptions,
    section: ProgramSection,
    /// The sections come from a file, or this is a line of a file.
    from_file: bool,
    /// The command line names the ranks that get standard input.
    input_given: bool,
    /// Set by options that mpiexec answers without running a job.
    answer: Option<CommandRequest>,
}

impl ProgramSection {
    fn new() -> ProgramSection {
        ProgramSection {
            ranks: 1,
            ..ProgramSection::default()
        }
    }
}

/// Looks up an environment variable.
pub type Variables<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// Parses the command line (without the name of this program), as if no variable were set.
#[cfg(test)]
pub fn parse(arguments: &[OsString]) -> Result<CommandRequest, UsageError> {
    parse_with(arguments, &|_| None)
}

/// Parses the command line (without the name of this program). Variables that other launchers read
/// are applied before it.
pub fn parse_with(
    arguments: &[OsString],
    variables: Variables<'_>,
) -> Result<CommandRequest, UsageError> {
    if let Some((first, rest)) = arguments.split_first()
        && first == AGENT
    {
        return Agent::parse(rest)
            .ok_or(UsageError::Agent)
            .map(CommandRequest::Agent);
    }
    let mut parser = OptionParser {
        options: JobOptions::default(),
        section: ProgramSection::new(),
        from_file: false,
        input_given: false,
        answer: None,
    };
    variables::apply(&mut parser, variables)?;
    for section in arguments.split(|argument| argument == ":") {
        parser.section(section)?;
        if let Some(answer) = parser.answer {
            return Ok(answer);
        }
    }
    if !parser.input_given {
        // A debugger of a single rank reads its commands from standard input.
        let debugged = parser.options.tools.iter().find_map(Tool::only_debugged);
        parser.options.input = RankSet::one(debugged.unwrap_or(0));
    }
    // Other hosts may have other directories, so directories are checked only without hosts.
    if parser.options.names_no_hosts() {
        for directory in parser
            .options
            .sections
            .iter()
            .filter_map(|s| s.directory.as_ref())
        {
            if !directory.is_dir() {
                return Err(wrong("-wdir", directory.as_os_str(), "a directory"));
            }
        }
    }
    Ok(CommandRequest::Run(Box::new(parser.options)))
}

/// The option, first on the command line, that makes this program an agent. It is not in the table,
/// as only mpiexec uses it.
const AGENT: &str = "--agent";

impl Agent {
    /// The command line that [`Agent::parse`] reads, without the program.
    pub fn arguments(&self) -> Vec<String> {
        let addresses: Vec<String> = self.addresses.iter().map(ToString::to_string).collect();
        let node = self
            .node
            .map_or("slurm".to_owned(), |node| node.to_string());
        vec![AGENT.to_owned(), addresses.join(","), node]
    }

    fn parse(arguments: &[OsString]) -> Option<Agent> {
        let [addresses, node] = arguments else {
            return None;
        };
        let addresses = addresses
            .to_str()?
            .split(',')
            .map(|address| address.parse().ok());
        let node = match node.to_str()? {
            "slurm" => None,
            number => Some(number.parse().ok()?),
        };
        let addresses = addresses.collect::<Option<Vec<SocketAddr>>>()?;
        Some(Agent { addresses, node })
    }
}

impl OptionParser {
    fn section(&mut self, arguments: &[OsString]) -> Result<(), UsageError> {
        self.section = ProgramSection::new();
        let arguments = self.leading_options(arguments)?;
        if self.answer.is_some() || (arguments.is_empty() && self.from_file) {
            return Ok(());
        }
        if arguments.is_empty() {
            let place = match self.options.sections.is_empty() {
                true => "",
                false => " in the section after ':'",
            };
            return Err(UsageError::NoProgram(place));
        }
        self.program(arguments);
        Ok(())
    }

    /// Applies the options before the program and returns the rest.
    fn leading_options<'a>(
        &mut self,
        mut arguments: &'a [OsString],
    ) -> Result<&'a [OsString], UsageError> {
        while let Some((first, rest)) = arguments.split_first() {
            let text = first.to_string_lossy();
            if !text.starts_with('-') || text == "-" {
                break;
            }
            arguments = rest;
            if text == "--" {
                break;
            }
            arguments = self.option(&text, arguments)?;
            if self.answer.is_some() {
                break;
            }
        }
        Ok(arguments)
    }

    /// Ends the section at its program.
    fn program(&mut self, command: &[OsString]) {
        self.section.command = command.to_vec();
        let section = std::mem::replace(&mut self.section, ProgramSection::new());
        self.options.sections.push(section);
    }

    /// Applies one option and returns the arguments after it.
    fn option<'a>(
        &mut self,
        text: &str,
        arguments: &'a [OsString],
    ) -> Result<&'a [OsString], UsageError> {
        let bare = text.strip_prefix("--").unwrap_or(&text[1..]);
        let (bare, attached) = match bare.split_once('=') {
            Some((bare, value)) => (bare, Some(OsString::from(value))),
            None => (bare, None),
        };
        let option = text.split('=').next().unwrap_or(text);
        let spec = options().find(|spec| spec.has_name(bare));
        let spec = spec.ok_or_else(|| unknown(text, bare))?;
        let needed = match (spec.values, arguments.first()) {
            // Hydra accepts `-genv NAME=VALUE` as well.
            (["NAME", "VALUE"], Some(pair)) if pair.as_encoded_bytes().contains(&b'=') => 1,
            _ => spec.values.len(),
        };
        match attached {
            Some(value) if needed == 1 => (spec.apply)(self, option, &[value]).map(|()| arguments),
            Some(value) => Err(wrong(option, &value, "wanted: it takes no value after '='")),
            None if arguments.len() < needed => Err(UsageError::Missing {
                option: option.to_owned(),
                wanted: spec.values.join(" "),
            }),
            None => {
                let (values, rest) = arguments.split_at(needed);
                (spec.apply)(self, option, values).map(|()| rest)
            }
        }
    }
}

/// The error for an option that does not exist, with a suggestion.
fn unknown(text: &str, bare: &str) -> UsageError {
    let instead = foreign::instead(bare).map(|instead| format!(": {instead}"));
    let instead = instead.or_else(|| {
        let near = help::nearest(bare)?;
        Some(format!("; is {near} meant?"))
    });
    UsageError::Unknown(text.to_owned(), instead.unwrap_or_default())
}

fn wrong(option: &str, value: &OsStr, wanted: &str) -> UsageError {
    UsageError::Value {
        option: option.to_owned(),
        value: value.to_string_lossy().into_owned(),
        wanted: wanted.to_owned(),
    }
}

fn number<T: std::str::FromStr>(
    option: &str,
    value: &OsStr,
    wanted: &str,
) -> Result<T, UsageError> {
    let number = value.to_str().and_then(|text| text.parse().ok());
    number.ok_or_else(|| wrong(option, value, wanted))
}

fn seconds(option: &str, value: &OsStr) -> Result<Duration, UsageError> {
    let wanted = "a number of seconds";
    let seconds: f64 = number(option, value, wanted)?;
    Duration::try_from_secs_f64(seconds).map_err(|_| wrong(option, value, wanted))
}

/// Parses a number of ranks.
fn ranks(option: &str, value: &OsStr) -> Result<usize, UsageError> {
    let wanted = "a number of ranks from 1 to 65536";
    let ranks: usize = number(option, value, wanted)?;
    if !(1..=65536).contains(&ranks) {
        return Err(wrong(option, value, wanted));
    }
    Ok(ranks)
}

fn rank_set(option: &str, value: &OsStr) -> Result<RankSet, UsageError> {
    let set = value.to_str().and_then(RankSet::parse);
    set.ok_or_else(|| wrong(option, value, RankSet::WANTED))
}

fn pattern(option: &str, value: &OsStr) -> Result<NamePattern, UsageError> {
    let pattern = value.to_str().and_then(NamePattern::parse);
    pattern.ok_or_else(|| wrong(option, value, NamePattern::WANTED))
}

fn variable_name(option: &str, name: &OsStr) -> Result<OsString, UsageError> {
    let text = name.to_string_lossy();
    if text.is_empty() || text.contains('=') {
        return Err(wrong(option, name, "the name of an environment variable"));
    }
    Ok(name.to_owned())
}

/// Parses `NAME VALUE` or `NAME=VALUE`.
fn variable(option: &str, values: &[OsString]) -> Result<(OsString, OsString), UsageError> {
    match values {
        [name, value] => Ok((variable_name(option, name)?, value.clone())),
        _ => {
            let pair = values[0].to_string_lossy();
            let (name, value) = pair.split_once('=').unwrap_or((&pair, ""));
            Ok((variable_name(option, OsStr::new(name))?, value.into()))
        }
    }
}

/// Parses `A,B,C`, each the name of a variable.
fn variable_names(option: &str, value: &OsStr) -> Result<Inherit, UsageError> {
    let names = value.to_string_lossy();
    let names = names
        .split(',')
        .map(|name| variable_name(option, OsStr::new(name)));
    Ok(Inherit::Only(names.collect::<Result<_, _>>()?))
}

#[cfg(test)]
mod tests;

//! The command line: one table of options drives parsing, `--help` and the manual.
//!
//! Long names may be written with one dash or two (`-np`, `--np`): users come from launchers with
//! either habit. Options end at the program's name, all that follows up to a lone `:` is the
//! program's; after `:` comes the next section of a job of several programs (MPMD).

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use mica_node::topology::{BindTo, MapBy};
use mica_node::tunables::{CHECK, LATE, STATS};
use serde::{Deserialize, Serialize};

use crate::hosts::{Host, parse_list};

mod table;

use table::OPTIONS;

/// What the command line asks for.
#[derive(Debug)]
pub enum Request {
    /// Print the help.
    Help,
    /// Print the version.
    Version,
    /// Run a job.
    Run(Box<Options>),
    /// Run ranks for another mpiexec.
    Agent(Agent),
}

/// What the head puts on an agent's command line.
#[derive(Debug, Clone, PartialEq)]
pub struct Agent {
    /// Where the head listens: to be tried in order.
    pub addresses: Vec<SocketAddr>,
    /// The node's number; `None` if Slurm tells it.
    pub node: Option<u32>,
}

/// How agents are started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Launcher {
    /// By a remote shell.
    Ssh,
    /// As processes of this machine: the hosts are virtual nodes.
    Fork,
    /// By Slurm.
    Srun,
}

impl Launcher {
    /// The names that `--launcher` takes.
    pub const NAMES: &'static str = "ssh, fork, srun";

    /// The launcher of this name.
    pub fn parse(name: &str) -> Option<Launcher> {
        match name {
            "ssh" => Some(Launcher::Ssh),
            "fork" => Some(Launcher::Fork),
            "srun" | "slurm" => Some(Launcher::Srun),
            _ => None,
        }
    }
}

/// A job as the user wants it.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The programs, in rank order.
    pub sections: Vec<Section>,
    /// Environment of all ranks.
    pub environment: Vec<(OsString, OsString)>,
    /// Prefix each line of output with the rank.
    pub label: bool,
    /// Say what is started, and where.
    pub verbose: bool,
    /// End the job after this time.
    pub timeout: Option<Duration>,
    /// Print the hang report after this time.
    pub hang_report: Option<Duration>,
    /// Time between asking ranks to end and killing them.
    pub grace: Duration,
    /// Binding; `None` chooses by the number of ranks.
    pub bind: Option<BindTo>,
    /// The order in which ranks take cores.
    pub map: MapBy,
    /// The hosts named on the command line; one named twice is there twice.
    pub hosts: Vec<Host>,
    /// A file of hosts.
    pub host_file: Option<PathBuf>,
    /// Ranks of each host in its turn.
    pub per_host: Option<usize>,
    /// How agents are started; `None` chooses.
    pub launcher: Option<Launcher>,
    /// The remote shell in place of ssh.
    pub launcher_exec: Option<Vec<String>>,
    /// A host is lost if it is silent for so long.
    pub host_timeout: Duration,
    /// A name or address of the interface that agents connect to.
    pub interface: Option<String>,
}

impl Options {
    /// All ranks of the job.
    pub fn ranks(&self) -> usize {
        self.sections.iter().map(|section| section.ranks).sum()
    }

    /// Whether ranks will find this value in their environment; the command line comes before this process's own.
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

    /// Whether `MICA_STATS=table` is in force for the ranks.
    pub fn wants_traffic(&self) -> bool {
        self.sets(STATS.env, "table")
    }

    /// Whether the ranks count late arrivals.
    pub fn wants_late(&self) -> bool {
        self.sets(LATE.env, "on")
    }

    /// Whether it is said what the program does that MPI does not allow.
    pub fn wants_checks(&self) -> bool {
        self.sets(CHECK.env, "1")
    }

    /// Whether all runs on this machine without agents, as far as the command line goes.
    fn names_no_hosts(&self) -> bool {
        self.hosts.is_empty() && self.host_file.is_none() && self.launcher.is_none()
    }
}

/// One program of the job.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Section {
    /// How many ranks run it.
    pub ranks: usize,
    /// Whether the command line said so.
    pub counted: bool,
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Environment of these ranks.
    pub environment: Vec<(OsString, OsString)>,
    /// Working directory.
    pub directory: Option<PathBuf>,
}

/// The command line is wrong.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum UsageError {
    /// No such option.
    #[error("unknown option {0}")]
    Unknown(String),
    /// A value is missing.
    #[error("{option} needs {wanted}")]
    Missing {
        /// The option as written.
        option: String,
        /// The names of its values.
        wanted: String,
    },
    /// A value is not right.
    #[error("{option}: {value:?} is not {wanted}")]
    Value {
        /// The option as written.
        option: String,
        /// The value given.
        value: String,
        /// What it should have been.
        wanted: String,
    },
    /// The environment variable that `-x` should export is not set.
    #[error("-x {0}: the variable is not set; give it a value with -x {0}=VALUE")]
    Unset(String),
    /// A section has no program.
    #[error("no program given{0}")]
    NoProgram(&'static str),
    /// An agent's command line is not what a head writes.
    #[error("--agent is for mpiexec's own use")]
    Agent,
}

/// One entry of the table.
struct Spec {
    /// The names as the help shows them; either number of dashes is read.
    names: &'static [&'static str],
    /// The names of its values; their number is how many arguments it takes.
    values: &'static [&'static str],
    /// Whether it belongs to the section (program) or to the whole job.
    scope: Scope,
    /// For the help.
    help: &'static str,
    /// What it does.
    apply: fn(&mut Parser, &str, &[OsString]) -> Result<(), UsageError>,
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

/// What has been read so far.
struct Parser {
    options: Options,
    section: Section,
    /// Set by options that are answered without running anything.
    answer: Option<Request>,
}

impl Section {
    fn new() -> Section {
        Section {
            ranks: 1,
            ..Section::default()
        }
    }
}

/// Reads the command line (without the name of this program).
pub fn parse(arguments: &[OsString]) -> Result<Request, UsageError> {
    if let Some((first, rest)) = arguments.split_first()
        && first == AGENT
    {
        return Agent::parse(rest)
            .ok_or(UsageError::Agent)
            .map(Request::Agent);
    }
    let mut parser = Parser {
        options: Options {
            sections: Vec::new(),
            environment: Vec::new(),
            label: false,
            verbose: false,
            timeout: None,
            hang_report: None,
            grace: Duration::from_secs(2),
            bind: None,
            map: MapBy::default(),
            hosts: Vec::new(),
            host_file: None,
            per_host: None,
            launcher: None,
            launcher_exec: None,
            host_timeout: Duration::from_secs(10),
            interface: None,
        },
        section: Section::new(),
        answer: None,
    };
    for section in arguments.split(|argument| argument == ":") {
        parser.section(section)?;
        if let Some(answer) = parser.answer {
            return Ok(answer);
        }
    }
    // Other hosts may have other directories.
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
    Ok(Request::Run(Box::new(parser.options)))
}

/// The option, first on the command line, that makes this program an agent. It is not in the table: only mpiexec uses it.
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

impl Parser {
    fn section(&mut self, mut arguments: &[OsString]) -> Result<(), UsageError> {
        self.section = Section::new();
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
                return Ok(());
            }
        }
        if arguments.is_empty() {
            let place = match self.options.sections.is_empty() {
                true => "",
                false => " in the section after ':'",
            };
            return Err(UsageError::NoProgram(place));
        }
        self.section.command = arguments.to_vec();
        self.options
            .sections
            .push(std::mem::take(&mut self.section));
        Ok(())
    }

    /// Applies one option and answers the arguments after it.
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
        let spec = OPTIONS.iter().find(|spec| spec.has_name(bare));
        let spec = spec.ok_or_else(|| UsageError::Unknown(text.to_owned()))?;
        let needed = spec.values.len();
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

fn variable_name(option: &str, name: &OsStr) -> Result<OsString, UsageError> {
    let text = name.to_string_lossy();
    if text.is_empty() || text.contains('=') {
        return Err(wrong(option, name, "the name of an environment variable"));
    }
    Ok(name.to_owned())
}

/// `-n, -np, -c N`.
fn usage(spec: &Spec) -> String {
    let values = spec.values.iter().map(|value| format!(" {value}"));
    spec.names.join(", ") + &values.collect::<String>()
}

/// The text of `--help`.
pub fn help() -> String {
    let mut text = String::from(
        "Usage: mpiexec [OPTIONS] PROGRAM [ARGUMENTS] [: [OPTIONS] PROGRAM [ARGUMENTS]]...\n\n\
         Starts the ranks of an MPI job, here or on other hosts, and waits for them. Any program can be\n\
         started, not only MPI programs. Long names may be written with one dash or two.\n",
    );
    for (scope, title) in [
        (Scope::Section, "Options of one program (they end at ':'):"),
        (Scope::Job, "Options of the whole job:"),
    ] {
        let _ = write!(text, "\n{title}\n");
        for spec in OPTIONS.iter().filter(|spec| spec.scope == scope) {
            let _ = writeln!(text, "  {}", usage(spec));
            for line in wrap(spec.help, 80) {
                let _ = writeln!(text, "          {line}");
            }
        }
    }
    text.push_str(
        "\nThe exit status is that of the first rank that failed: its own, or 128 + N for signal N.\n",
    );
    text
}

fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("never empty");
        if line.is_empty() {
            line.push_str(word);
        } else if line.len() + 1 + word.len() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(line: &str) -> Options {
        match parse_line(line).unwrap() {
            Request::Run(options) => *options,
            other => panic!("{line}: {other:?}"),
        }
    }

    fn parse_line(line: &str) -> Result<Request, UsageError> {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        parse(&words)
    }

    fn refusal(line: &str) -> String {
        parse_line(line).unwrap_err().to_string()
    }

    #[test]
    fn one_dash_or_two() {
        for line in [
            "-n 4 a", "--n 4 a", "-np 4 a", "--np 4 a", "--np=4 a", "-n=4 a", "-c 4 a",
        ] {
            assert_eq!(run(line).sections[0].ranks, 4, "{line}");
        }
        assert_eq!(run("a").sections[0].ranks, 1);
        assert!(run("-label a").label && run("--label a").label && run("-l a").label);
    }

    #[test]
    fn late_arrivals_are_asked_for_by_option_or_variable() {
        let wanted = [
            "--late-arrivals a",
            "-x MICA_LATE=on a",
            "-env MICA_LATE on a",
        ];
        assert!(wanted.into_iter().all(|line| run(line).wants_late()));
        assert!(!run("-x MICA_LATE=off a").wants_late());
        let options = run("--late-arrivals a");
        assert_eq!(options.environment, [("MICA_LATE".into(), "on".into())]);
    }

    #[test]
    fn options_end_at_the_program() {
        let options = run("-n 2 prog -n 7 --label -- x");
        assert_eq!(options.sections[0].ranks, 2);
        assert_eq!(
            options.sections[0].command,
            ["prog", "-n", "7", "--label", "--", "x"]
        );
        assert!(!options.label);
        assert_eq!(run("-n 2 -- -odd").sections[0].command, ["-odd"]);
    }

    #[test]
    fn sections() {
        let options = run("-n 2 -env A 1 a x : -n 3 -wdir / --genv B 2 b : c");
        let ranks: Vec<usize> = options.sections.iter().map(|s| s.ranks).collect();
        assert_eq!(ranks, [2, 3, 1]);
        assert_eq!(options.sections[0].command, ["a", "x"]);
        assert_eq!(options.sections[0].environment, [("A".into(), "1".into())]);
        assert_eq!(options.sections[1].directory, Some(PathBuf::from("/")));
        assert_eq!(
            options.sections[2],
            Section {
                ranks: 1,
                counted: false,
                command: vec!["c".into()],
                ..Section::default()
            }
        );
        assert_eq!(options.environment, [("B".into(), "2".into())]);
    }

    #[test]
    fn exported_variables() {
        assert_eq!(run("-x A=b=c p").environment, [("A".into(), "b=c".into())]);
        assert_eq!(run("-x PATH p").environment[0].0, "PATH");
        assert!(refusal("-x MICA_NO_SUCH_VARIABLE p").contains("not set"));
        assert!(refusal("-x =1 p").contains("name of an environment variable"));
    }

    #[test]
    fn policies_and_times() {
        let options = run("--bind-to none --map-by l3 --timeout 1.5 --hang-report 3 --grace 0 p");
        assert_eq!(options.bind, Some(BindTo::None));
        assert_eq!(options.map, MapBy::SharedCache);
        assert_eq!(options.timeout, Some(Duration::from_millis(1500)));
        assert_eq!(options.hang_report, Some(Duration::from_secs(3)));
        assert_eq!(options.grace, Duration::ZERO);
    }

    #[test]
    fn familiar_options_are_accepted() {
        run("--oversubscribe --allow-run-as-root -host localhost,127.0.0.1:4 -H localhost p");
    }

    #[test]
    fn hosts_and_how_to_reach_them() {
        let line = "-hosts a,b:4 -H c -f /hosts -ppn 3 --launcher fork -iface lo --host-timeout 2.5 -wdir /no/such p";
        let options = run(line);
        let names: Vec<&str> = options
            .hosts
            .iter()
            .map(|host| host.name.as_str())
            .collect();
        assert_eq!(names, ["a", "b", "c"]);
        assert_eq!(options.hosts[1].slots, Some(4));
        assert_eq!(options.host_file, Some(PathBuf::from("/hosts")));
        assert_eq!(
            (options.per_host, options.launcher),
            (Some(3), Some(Launcher::Fork))
        );
        assert_eq!(options.interface.as_deref(), Some("lo"));
        assert_eq!(options.host_timeout, Duration::from_millis(2500));
        for name in ["-f", "-hostfile", "--hostfile", "-machinefile"] {
            assert!(run(&format!("{name} x p")).host_file.is_some());
        }
        let words = ["-launcher-exec", "ip netns exec", "p"].map(OsString::from);
        let Ok(Request::Run(options)) = parse(&words) else {
            panic!("a job");
        };
        assert_eq!(options.launcher_exec.unwrap(), ["ip", "netns", "exec"]);
    }

    #[test]
    fn an_agents_command_line() {
        for node in [Some(3), None] {
            let addresses = ["10.0.0.1:400", "[fd00::1]:5"].map(|a| a.parse().unwrap());
            let agent = Agent {
                addresses: addresses.to_vec(),
                node,
            };
            let words: Vec<OsString> = agent.arguments().into_iter().map(OsString::from).collect();
            match parse(&words) {
                Ok(Request::Agent(read)) => assert_eq!(read, agent),
                other => panic!("{other:?}"),
            }
        }
        assert!(!help().contains("--agent"));
    }

    #[test]
    fn wrong_lines_are_named() {
        assert_eq!(refusal(""), "no program given");
        assert_eq!(refusal("-n 2"), "no program given");
        assert!(refusal("a : -n 2").contains("after ':'"));
        assert_eq!(refusal("--fast a"), "unknown option --fast");
        assert_eq!(refusal("-n"), "-n needs N");
        assert_eq!(refusal("-env A"), "-env needs NAME VALUE");
        assert!(refusal("-n none a").contains("\"none\" is not a number of ranks"));
        assert!(refusal("-n 0 a").contains("\"0\""));
        assert!(refusal("--timeout -1 a").contains("seconds"));
        assert!(refusal("--bind-to socket a").contains("core, none"));
        assert!(refusal("--map-by board a").contains("package"));
        assert!(refusal("-wdir /no/such a").contains("/no/such"));
        assert!(refusal("-host -oX a").contains("\"-oX\" is not a host"));
        assert!(refusal("-hosts a,,b a").contains("\"\" is not a host"));
        assert!(refusal("--launcher rsh a").contains("ssh, fork, srun"));
        assert!(refusal("-ppn 0 a").contains("\"0\""));
        assert!(refusal("--host-timeout 0.1 a").contains("2 seconds or more"));
        assert!(refusal("--agent 1 2 3").contains("mpiexec's own use"));
        assert!(refusal("--agent 127.0.0.1 0").contains("mpiexec's own use"));
        assert!(refusal("--label=yes a").contains("no value"));
    }

    #[test]
    fn help_and_version() {
        assert!(matches!(parse_line("--help"), Ok(Request::Help)));
        assert!(matches!(parse_line("-n 2 -h"), Ok(Request::Help)));
        assert!(matches!(parse_line("--version"), Ok(Request::Version)));
        for spec in OPTIONS {
            assert!(help().contains(&usage(spec)), "{}", spec.names[0]);
        }
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<&str> = OPTIONS
            .iter()
            .flat_map(|s| s.names)
            .map(|n| n.trim_start_matches('-'))
            .collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    /// The manual's table comes from the table above. To renew it:
    /// `MICA_RENEW=1 cargo test -p mica-launch manual`.
    #[test]
    fn the_manual_has_this_table() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../docs/design/launching.md"
        );
        let page = std::fs::read_to_string(path).unwrap();
        let (begin, end) = ("<!-- options: generated -->\n", "<!-- end of options -->");
        let (before, rest) = page.split_once(begin).expect("begin marker");
        let (table, after) = rest.split_once(end).expect("end marker");
        let mut wanted = String::from("| option | meaning |\n|---|---|\n");
        for spec in OPTIONS {
            let option = usage(spec).replace('|', "\\|");
            let _ = writeln!(wanted, "| `{option}` | {} |", spec.help);
        }
        if std::env::var_os("MICA_RENEW").is_some() {
            let page = format!("{before}{begin}{wanted}{end}{after}");
            std::fs::write(path, page).unwrap();
        } else {
            assert_eq!(table, wanted);
        }
    }
}

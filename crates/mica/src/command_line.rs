//! The command line of `mica`: its commands in groups, and what each calls. The enums are the one
//! declaration of commands and groups; `mica --help`, the manual pages and completion are made of
//! it.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Command, CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;
use mica_report::origin;

use crate::{
    bench, doctor, explain, info, links, loggp, packaged, place, profile, sim, table, terminal,
    top, tune, version,
};

/// Tools of the Mica MPI library.
#[derive(Parser)]
#[command(name = "mica", version, about, arg_required_else_help = true)]
struct CommandLine {
    #[command(subcommand)]
    command: MicaCommand,
}

/// The groups of commands, in the order of the help.
#[derive(Subcommand)]
enum MicaCommand {
    #[command(flatten)]
    Machine(MachineCommand),
    #[command(flatten)]
    Measure(MeasureCommand),
    #[command(flatten)]
    Program(ProgramCommand),
    #[command(flatten)]
    Cluster(ClusterCommand),
    #[command(flatten)]
    Shell(ShellCommand),
}

#[derive(Subcommand)]
enum MachineCommand {
    /// Show the machine, the channels that work here, and the tunables; or explain a choice.
    Info {
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// Draw the machine's topology as well.
        #[arg(long)]
        topology: bool,
        /// Show every offer of the network's library, also those that a job does not use.
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        question: explain::ExplainQuestion,
    },
    /// Say what is wrong with this machine or container for MPI, and what to do.
    #[command(after_help = "The exit status is 1 if something hinders.")]
    Doctor {
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// Show also what is well.
        #[arg(long)]
        all: bool,
        /// Write what a report of a bug needs as JSON, to FILE or standard output: version,
        /// machine, findings, settings. Names of hosts and users, home directories and addresses
        /// are replaced, and no variable has its value in it but Mica's settings.
        #[arg(long, value_name = "FILE", num_args = 0..=1, conflicts_with_all = ["json", "all"])]
        report: Option<Option<PathBuf>>,
    },
    /// Print version, ABI, what this was built from, and which libraries it finds here.
    Version {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Subcommand)]
enum MeasureCommand {
    /// Measure what each path of a message costs on this machine, and write its tuning file.
    Tune(tune::TuneOptions),
    /// Measure Mica beside MPICH, Open MPI and Intel MPI on this machine.
    Bench(bench::BenchOptions),
    /// Measure the LogGP parameters L, o_s, o_r, g and G of a channel.
    Loggp(loggp::LogGpOptions),
    /// Time calls of a collective, and say which links between chips make some slow.
    Links(links::LinksOptions),
}

#[derive(Subcommand)]
enum ProgramCommand {
    /// Run a job and say where its communication time goes.
    #[command(after_help = "As in: mica profile -- mpiexec -n 4 PROGRAM")]
    Profile(profile::ProfileOptions),
    /// Show what the ranks of a running job do: computing or waiting for whom, rates, memory.
    Top(top::TopOptions),
    /// Propose places for the ranks of a profiled job, and predict what they gain.
    Place(place::PlaceOptions),
}

#[derive(Subcommand)]
enum ClusterCommand {
    /// Run MPI programs on a cluster that does not exist, or predict larger ones.
    Sim(sim::SimOptions),
}

#[derive(Subcommand)]
enum ShellCommand {
    /// Write the manual pages of mica and its commands into a folder.
    Man {
        /// The folder; it is made if it is not there.
        folder: PathBuf,
    },
    /// Print the script by which a shell completes the command line of mica.
    Completion {
        /// The shell.
        shell: Shell,
    },
}

/// Does what the command line says.
pub fn main() -> ExitCode {
    let text = match parse() {
        MicaCommand::Machine(command) => return machine(command),
        MicaCommand::Measure(MeasureCommand::Tune(options)) => tune::tune(&options),
        MicaCommand::Measure(MeasureCommand::Bench(options)) => return bench::main(options),
        MicaCommand::Measure(MeasureCommand::Loggp(options)) => loggp::loggp(&options),
        MicaCommand::Measure(MeasureCommand::Links(options)) => links::links(&options),
        MicaCommand::Program(ProgramCommand::Profile(options)) => return profile::main(&options),
        MicaCommand::Program(ProgramCommand::Top(options)) => return top::main(&options),
        MicaCommand::Program(ProgramCommand::Place(options)) => place::place(&options),
        MicaCommand::Cluster(ClusterCommand::Sim(options)) => return sim::main(&options),
        MicaCommand::Shell(ShellCommand::Man { folder }) => packaged::manual(command(), &folder),
        MicaCommand::Shell(ShellCommand::Completion { shell }) => {
            Ok(packaged::completion(command(), shell))
        }
    };
    terminal::print_text("mica", text)
}

fn machine(command: MachineCommand) -> ExitCode {
    let text = match command {
        MachineCommand::Info { question, .. } if question.is_asked() => question.answer(),
        MachineCommand::Info { json: true, topology, .. } => info_text(topology, ReportForm::Json),
        MachineCommand::Info { topology, all, .. } => info_text(topology, ReportForm::text(all)),
        MachineCommand::Doctor { report: Some(file), .. } => doctor::report::write(file.as_deref()),
        MachineCommand::Doctor { json: true, .. } => return doctor(ReportForm::Json),
        MachineCommand::Doctor { all, .. } => return doctor(ReportForm::text(all)),
        MachineCommand::Version { json } => Ok(version::text(json)),
    };
    terminal::print_text("mica", text)
}

/// The command and what is below it.
fn command() -> Command {
    let command = CommandLine::command();
    let help = grouped_help(&command);
    command.help_template(help)
}

/// Reads the command line; for a mistake, or for the help, prints and exits.
fn parse() -> MicaCommand {
    let matches = command().get_matches();
    let line = CommandLine::from_arg_matches(&matches);
    line.unwrap_or_else(|error| error.format(&mut command()).exit()).command
}

/// The template of the help, where the commands stand in their groups.
fn grouped_help(command: &Command) -> String {
    fn group<C: Subcommand>(title: &'static str) -> (&'static str, Command) {
        (title, C::augment_subcommands(Command::new("mica")))
    }
    let groups = [
        group::<MachineCommand>("See the machine"),
        group::<MeasureCommand>("Measure"),
        group::<ProgramCommand>("Understand a program"),
        group::<ClusterCommand>("Simulate a cluster"),
        group::<ShellCommand>("Set up a shell"),
    ];
    let styles = command.get_styles();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let names = groups.iter().flat_map(|(_, group)| group.get_subcommands());
    let width = names.map(|command| command.get_name().len()).max().unwrap_or_default();
    let mut template = "{about-with-newline}\n{usage-heading} {usage}\n\n".to_owned();
    for (title, group) in &groups {
        let _ = writeln!(template, "{header}{title}:{header:#}");
        for command in group.get_subcommands() {
            let (name, about) = (command.get_name(), command.get_about().cloned());
            let about = about.unwrap_or_default();
            let _ = writeln!(template, "  {literal}{name:width$}{literal:#}  {about}");
        }
        template.push('\n');
    }
    let _ = writeln!(template, "{header}Options:{header:#}\n{{options}}");
    template
}

/// Prints the report. The exit status says whether a finding hinders.
fn doctor(form: ReportForm) -> ExitCode {
    let report = doctor::DoctorReport::gather();
    let text = match form {
        ReportForm::Json => json_text(&report),
        ReportForm::Brief => report.render(false),
        ReportForm::Full => report.render(true),
    };
    terminal::print(&text);
    ExitCode::from(u8::from(!report.healthy))
}

// flag: whether to draw the topology, as the command's option says.
fn info_text(topology: bool, form: ReportForm) -> Result<String, Box<dyn std::error::Error>> {
    let info = info::MachineReport::gather(topology)?;
    Ok(match form {
        ReportForm::Json => json_text(&info),
        ReportForm::Brief => table::render(&info, &info.network.render(false)),
        ReportForm::Full => table::render(&info, &info.network.render(true)),
    })
}

fn json_text(report: &impl serde::Serialize) -> String {
    let origin = origin::ResultOrigin::without_messages();
    origin.json(report).expect("plain data is valid JSON")
}

/// How a report is printed.
#[derive(Clone, Copy)]
enum ReportForm {
    Json,
    /// What matters most.
    Brief,
    /// All that was found.
    Full,
}

impl ReportForm {
    fn text(all: bool) -> ReportForm {
        if all { ReportForm::Full } else { ReportForm::Brief }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_lists_every_command_in_a_group() {
        let command = command();
        let help = command.clone().render_help().to_string();
        let (before, after) = help.split_once("See the machine:").expect("the first group");
        assert!(before.contains("Usage: mica <COMMAND>"), "{help}");
        for command in command.get_subcommands() {
            let line = after.lines().find(|line| line.trim_start().starts_with(command.get_name()));
            assert!(line.is_some_and(|line| line.len() <= 100), "{}: {help}", command.get_name());
        }
        assert!(help.ends_with("-V, --version  Print version\n"), "{help}");
    }
}

//! The `mica` command: what the library finds on this machine and its settings (`info`), what
//! hinders it here (`doctor`), the cost of its paths here (`tune`), its speed beside other MPIs
//! (`bench`), where a program's communication time goes (`profile`), where its ranks had better run
//! (`place`), which links between chips make a collective slow (`links`), the LogGP parameters of a
//! channel (`loggp`), what the ranks of a running job do (`top`), how it would run on another
//! cluster (`sim`), and its version (`version`).

#![forbid(unsafe_code)]

mod bench;
mod channels;
mod compiled;
mod doctor;
mod explain;
mod info;
mod links;
mod loggp;
mod network;
mod place;
mod profile;
mod settings;
mod sim;
mod table;
mod terminal;
mod top;
mod tune;
mod version;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use mica_report::{draw, origin, scratch};

/// Tools of the Mica MPI library.
#[derive(Parser)]
#[command(name = "mica", version, about, arg_required_else_help = true)]
struct CommandLine {
    #[command(subcommand)]
    command: MicaCommand,
}

#[derive(Subcommand)]
enum MicaCommand {
    /// Show the machine, the channels that work here (and why others do not), and the tunables; or
    /// explain a choice.
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
    /// Say what is wrong with this machine or container for MPI, and what to do; status 1 if
    /// something hinders.
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
    /// Print version, standard, ABI, the library's place, what this was built from, and which
    /// libraries it finds here.
    Version {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Measure what each path of a message costs on this machine, and write its tuning file.
    Tune(tune::TuneOptions),
    /// Measure Mica beside MPICH, Open MPI and Intel MPI on this machine.
    Bench(bench::BenchOptions),
    /// Show what the ranks of a running job do: computing or waiting for whom, rates, memory.
    Top(top::TopOptions),
    /// Run a job and say where its communication time goes: mica profile -- mpiexec -n 4 PROGRAM.
    Profile(profile::ProfileOptions),
    /// Propose places for the ranks of a profiled job, and predict what they gain.
    Place(place::PlaceOptions),
    /// Time thousands of calls of a collective, and say which links between chips make some slow.
    Links(links::LinksOptions),
    /// Measure the LogGP parameters L, o_s, o_r, g and G of a channel.
    Loggp(loggp::LogGpOptions),
    /// Run MPI programs on a cluster that does not exist, or predict larger ones.
    Sim(sim::SimOptions),
}

fn main() -> ExitCode {
    let text = match CommandLine::parse().command {
        MicaCommand::Info { question, .. } if question.is_asked() => question.answer(),
        MicaCommand::Info { json: true, topology, .. } => info_text(topology, ReportForm::Json),
        MicaCommand::Info { topology, all, .. } => info_text(topology, ReportForm::text(all)),
        MicaCommand::Doctor { report: Some(file), .. } => doctor::report::write(file.as_deref()),
        MicaCommand::Doctor { json: true, .. } => return doctor(ReportForm::Json),
        MicaCommand::Doctor { all, .. } => return doctor(ReportForm::text(all)),
        MicaCommand::Version { json } => Ok(version::text(json)),
        MicaCommand::Tune(options) => tune::tune(&options),
        MicaCommand::Place(options) => place::place(&options),
        MicaCommand::Links(options) => links::links(&options),
        MicaCommand::Loggp(options) => loggp::loggp(&options),
        MicaCommand::Bench(options) => return bench::main(options),
        MicaCommand::Top(options) => return top::main(&options),
        MicaCommand::Profile(options) => return profile::main(&options),
        MicaCommand::Sim(options) => return sim::main(&options),
    };
    terminal::print_text("mica", text)
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

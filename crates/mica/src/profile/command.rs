//! Puts the profiler's library into the ranks of a command.
//!
//! The variables go to the ranks by the launcher's own option, so that the launcher and its agents
//! do not load the library: `-genv` of Mica's mpiexec and of Hydra (MPICH, Intel MPI), which hold
//! for all programs of the command line, `-x` of Open MPI's, `--export` of Slurm's srun. A command
//! that is no launcher is a job of one, or a script that calls one: it gets them in its
//! environment.

use std::error::Error;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use mica_node::process::{Signals, signal, wait_readable};
use mica_profile::rank_tables::{DIRECTORY_VARIABLE, SPANS_VARIABLE};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// A command with variables.
#[derive(Debug, PartialEq)]
pub struct ProfiledCommand {
    arguments: Vec<String>,
    variables: Vec<(String, String)>,
    launcher: Launcher,
}

/// How a launcher takes variables for the ranks.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Launcher {
    /// `-genv NAME VALUE`.
    Genv,
    /// `-x NAME=VALUE`.
    OpenMpi,
    /// `--export=ALL,NAME=VALUE`.
    Srun,
    /// None: through the environment.
    None,
}

/// The command with the library in its ranks.
pub fn under_profiler(
    command: &[String],
    library: &Path,
    records: &Path,
) -> Result<ProfiledCommand, Box<dyn Error>> {
    let text = |path: &Path| -> Result<String, Box<dyn Error>> {
        let text = path.to_str().ok_or("a path is not UTF-8")?;
        // The dynamic linker separates the names in LD_PRELOAD by these.
        match text.contains([' ', ':']) && path == library {
            true => Err(format!("{text}: LD_PRELOAD takes no path with a space or colon").into()),
            false => Ok(text.to_owned()),
        }
    };
    let mut preload = text(library)?;
    // What the user preloads stays, behind: a tool that overrides MPI calls is called by this one.
    if let Ok(others) = std::env::var("LD_PRELOAD")
        && !others.is_empty()
    {
        preload = format!("{preload}:{others}");
    }
    Ok(ProfiledCommand {
        arguments: command.to_vec(),
        variables: vec![
            ("LD_PRELOAD".into(), preload),
            (DIRECTORY_VARIABLE.into(), text(records)?),
        ],
        launcher: launcher(&command[0]),
    })
}

/// The command as it is.
pub fn without_profiler(command: &[String]) -> ProfiledCommand {
    ProfiledCommand { arguments: command.to_vec(), variables: Vec::new(), launcher: Launcher::None }
}

/// Each thread of a rank keeps this many intervals.
pub fn keep_spans(command: &mut ProfiledCommand, spans: u32) {
    command.variables.push((SPANS_VARIABLE.into(), spans.to_string()));
}

/// The ranks tell calls apart by this many call sites.
pub fn keep_callers(command: &mut ProfiledCommand, depth: u8) {
    if depth > 1 {
        command.variables.push(("MICA_PROFILE_STACK".into(), depth.to_string()));
    }
}

/// Where the command's standard output goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramOutput {
    /// To this process's.
    Standard,
    /// To standard error: this process's own output is for programs.
    StandardError,
    /// Nowhere.
    Discarded,
}

/// Runs it to its end. A signal that asks this process to end goes to the command, whose end is
/// then waited for, so that what was recorded is reported; a terminal's SIGINT reaches the command
/// by itself.
pub fn run(command: &ProfiledCommand, output: ProgramOutput) -> Result<ExitStatus, Box<dyn Error>> {
    let output = match output {
        ProgramOutput::Standard => Stdio::inherit(),
        ProgramOutput::StandardError => std::io::stderr().as_fd().try_clone_to_owned()?.into(),
        ProgramOutput::Discarded => Stdio::null(),
    };
    let arguments = command.complete();
    let mut process = Command::new(&arguments[0]);
    process.args(&arguments[1..]).stdout(output);
    if command.launcher == Launcher::None {
        process.envs(command.variables.iter().cloned());
    }
    // `Command` starts children with no signal blocked.
    let signals = Signals::take(&[signal::SIGINT, signal::SIGTERM, signal::SIGHUP])?;
    let mut child = process.spawn().map_err(|error| format!("{}: {error}", arguments[0]))?;
    let handle = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if let Some(number) = signals.next()
            && number == signal::SIGTERM
        {
            let _ = pidfd_send_signal(&handle, Signal::TERM);
        }
        wait_readable(&[handle.as_fd(), signals.as_fd()], None)?;
    }
}

impl ProfiledCommand {
    /// The arguments with the options that carry the variables.
    fn complete(&self) -> Vec<String> {
        let option = |(name, value): &(String, String)| -> Vec<String> {
            match self.launcher {
                Launcher::Genv => vec!["-genv".into(), name.clone(), value.clone()],
                Launcher::OpenMpi => vec!["-x".into(), format!("{name}={value}")],
                Launcher::Srun | Launcher::None => Vec::new(),
            }
        };
        let mut options: Vec<String> = self.variables.iter().flat_map(option).collect();
        if self.launcher == Launcher::Srun {
            let list: Vec<String> =
                self.variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
            options.push(format!("--export=ALL,{}", list.join(",")));
        }
        let (program, rest) = self.arguments.split_at(1);
        [program, &options, rest].concat()
    }
}

fn launcher(program: &str) -> Launcher {
    match Path::new(program).file_name().and_then(|name| name.to_str()) {
        Some("mpiexec.hydra") => Launcher::Genv,
        Some("srun") => Launcher::Srun,
        Some("prterun" | "prun") => Launcher::OpenMpi,
        Some("mpiexec" | "mpirun") if is_open_mpi(program) => Launcher::OpenMpi,
        Some("mpiexec" | "mpirun") => Launcher::Genv,
        _ => Launcher::None,
    }
}

fn is_open_mpi(program: &str) -> bool {
    let version = Command::new(program).arg("--version").stdin(Stdio::null()).output();
    let text = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    text.is_ok_and(|text| text.contains("Open MPI") || text.contains("OpenRTE"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(launcher: Launcher, arguments: &str) -> String {
        let command = ProfiledCommand {
            arguments: arguments.split(' ').map(String::from).collect(),
            variables: vec![("A".into(), "1".into()), ("B".into(), "2".into())],
            launcher,
        };
        command.complete().join(" ")
    }

    #[test]
    fn variables_come_before_the_programs_of_the_command_line() {
        assert_eq!(
            complete(Launcher::Genv, "mpiexec -n 2 a : -n 1 b"),
            "mpiexec -genv A 1 -genv B 2 -n 2 a : -n 1 b"
        );
        assert_eq!(complete(Launcher::OpenMpi, "mpirun a"), "mpirun -x A=1 -x B=2 a");
        assert_eq!(complete(Launcher::Srun, "srun a"), "srun --export=ALL,A=1,B=2 a");
        assert_eq!(complete(Launcher::None, "./a -n 1"), "./a -n 1");
    }
}

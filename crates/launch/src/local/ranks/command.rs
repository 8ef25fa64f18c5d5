//! The command of each rank: program, environment, descriptors.

use std::env;
use std::fs::File;
use std::io::PipeWriter;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use mica_bootstrap::inherited::MANAGER_ID_VARIABLE;
use mica_bootstrap::{EXCHANGE_VARIABLE, LAUNCH_VARIABLE};
use mica_node::handover::identity;
use mica_node::segment::{
    PREFIX_VARIABLE, RANK_VARIABLE, SEGMENT_FD_VARIABLE, SEGMENT_ID_VARIABLE,
    SEGMENT_SOCKET_VARIABLE, SIZE_VARIABLE,
};
use mica_node::tunables::FOREIGN_MPI;
use mica_profile::rank_tables::JOB_VARIABLE;

use super::*;
use crate::local::foreign::open_mpi_library;
use crate::options::values::tool;
use crate::output::is_left_to_ranks;
use crate::output::redirect::{PipeOutlet, StreamOutlet};

/// The variable that names the interface for ranks to use among hosts.
const INTERFACE_VARIABLE: &str = "MICA_NET_INTERFACE";
/// libfabric's parameters for the job's UUID, of the providers that have one.
const FABRIC_UUIDS: [&str; 3] = ["FI_PSM3_UUID", "FI_PSM2_UUID", "FI_OPX_UUID"];

impl RankProcesses<'_> {
    /// The command of a rank, and the rank's end of the connection to the process manager.
    pub(super) fn command(
        &mut self,
        index: usize,
        plan: &RankPlan<'_>,
        connect: Connect,
    ) -> Result<(Command, UnixStream), LaunchError> {
        let section = plan.section;
        let variable = |name: &str| env::var(name).ok();
        let (tools, size) = (&self.job.programs.tools, self.job.size);
        let mut program = section.command.clone();
        program[0] = environment::program(section, &self.directory_or_own(plan));
        let words = tool::command(tools, &program, plan.rank, size, &variable)?;
        let mut command = Command::new(environment::find_program(self.job, section, &words[0]));
        command.args(&words[1..]);
        environment::apply(&mut command, self.job, section);
        if let Some(directory) = self.directory(plan) {
            command.env("PWD", std::path::absolute(&directory).unwrap_or(directory.clone()));
            command.current_dir(directory);
        }
        self.set_interface(&mut command, plan);
        self.set_fabric_uuid(&mut command, plan);
        let connection = self.pmi.add(plan.section_number);
        let connection = connection.map_err(doing("cannot connect a rank to its manager"))?;
        command
            .env("PMI_FD", connection.as_raw_fd().to_string())
            .env("PMI_RANK", plan.rank.to_string())
            .env("PMI_SIZE", self.job.size.to_string())
            .env("PMI_HOSTNAME", &self.job.host)
            .envs(identity(connection.as_fd()).map(|key| (MANAGER_ID_VARIABLE, key.to_string())));
        if self.job.network.pmi {
            command.env(EXCHANGE_VARIABLE, "pmi");
        }
        let (segment, number) = (self.world.as_fd(), self.world.number(plan.rank));
        command
            .env(SEGMENT_FD_VARIABLE, segment.as_raw_fd().to_string())
            .env(SEGMENT_ID_VARIABLE, self.world.identity())
            .env(RANK_VARIABLE, number.to_string())
            .env(SIZE_VARIABLE, self.job.size.to_string())
            .env(LAUNCH_VARIABLE, environment::launch_info(self.job, section))
            .envs(installation().map(|prefix| (PREFIX_VARIABLE, prefix)))
            .env("MPI_LOCALRANKID", index.to_string())
            .env("MPI_LOCALNRANKS", self.plan.ranks.len().to_string());
        if environment::value(self.job, section, DIRECTORY_VARIABLE).is_some() {
            command.env(JOB_VARIABLE, &self.job.name);
        }
        match &self.requests {
            Some(requests) => command.env(SEGMENT_SOCKET_VARIABLE, requests.nonce()),
            None => command.env_remove(SEGMENT_SOCKET_VARIABLE),
        };
        let takes_input = self.job.takes_input(plan.rank);
        command.stdin(match connect {
            Connect::Inherit if self.has_terminal(plan.rank) => Stdio::inherit(),
            // A terminal must be read by the launcher: the ranks' process groups are in the
            // terminal's background, where a read stops the process.
            Connect::Inherit
                if takes_input
                    && self.has_one_reader
                    && !io::IsTerminal::is_terminal(&io::stdin()) =>
            {
                Stdio::inherit()
            }
            _ if takes_input => Stdio::piped(),
            _ => no_input()?,
        });
        Ok((command, connection))
    }

    fn set_interface(&self, command: &mut Command, plan: &RankPlan<'_>) {
        let Some(interface) = &self.job.network.interface else { return };
        if environment::value(self.job, plan.section, INTERFACE_VARIABLE).is_none() {
            let value = match interface.as_str() {
                "" => self.address.as_ref(),
                _ => Some(interface),
            };
            command.envs(value.map(|value| (INTERFACE_VARIABLE, value)));
        }
    }

    /// The endpoints of two jobs on these fabrics talk to each other if they have the same UUID,
    /// which by default is a constant.
    fn set_fabric_uuid(&self, command: &mut Command, plan: &RankPlan<'_>) {
        let Some(uuid) = &self.job.network.fabric_uuid else { return };
        for name in FABRIC_UUIDS {
            if environment::value(self.job, plan.section, name).is_none() {
                command.env(name, uuid);
            }
        }
    }

    /// Whether the rank's debugger has the terminal for itself.
    pub(super) fn has_terminal(&self, rank: u32) -> bool {
        let mut tools = self.job.programs.tools.iter();
        let stdin = io::stdin();
        tools.any(|tool| tool.debugs_alone(rank, self.job.size))
            && self.job.takes_input(rank)
            && io::IsTerminal::is_terminal(&stdin)
            && is_foreground(stdin.as_fd())
    }

    /// Connects a rank's output, and returns the streams through this process, and the files that
    /// the rank gets itself.
    pub(super) fn connect_output(
        &mut self,
        command: &mut Command,
        index: usize,
        files: &mut Redirect,
        connect: Connect,
    ) -> Result<(Vec<RankStream>, Vec<FileIdentity>), LaunchError> {
        let rules = &self.job.streams.output;
        let rank = self.job.pattern_rank(self.plan.ranks[index].rank);
        let directory = self.job.programs.directory.as_ref().map(PathBuf::from).unwrap_or_default();
        let pipes = self.pipes(connect);
        let outlets = files.of_rank(rules, &rank, pipes, &directory, &mut self.file_writer);
        let [out, err] = outlets.map_err(LaunchError::OutputFile)?;
        // One pipe for both preserves the order in which the rank writes to the two.
        let is_one =
            rules.merge || self.job.streams.one_stream && rules.out.label == rules.err.label;
        let is_joined = is_one && out.is_bare_pipe() && err.is_bare_pipe();
        let failed = || doing("cannot make pipes for a rank's output");
        let mut streams = Vec::new();
        let mut open = |pipe: PipeOutlet| -> Result<PipeWriter, LaunchError> {
            let (read, write) = io::pipe().map_err(failed())?;
            streams.push(pipe.stream(self.next_stream, read));
            self.next_stream += 1;
            Ok(write)
        };
        if is_joined && let StreamOutlet::Pipe(pipe) = out {
            let write = open(pipe)?;
            command.stderr(write.try_clone().map_err(failed())?).stdout(write);
            return Ok((streams, Vec::new()));
        }
        let file = |outlet: &StreamOutlet| outlet.file().map_err(failed());
        let files = [file(&out)?, file(&err)?].into_iter().flatten().collect();
        let mut stdio = |outlet: StreamOutlet| match outlet {
            StreamOutlet::Pipe(pipe) => Ok(Stdio::from(open(pipe)?)),
            own => own.stdio().map_err(failed()),
        };
        command.stdout(stdio(out)?).stderr(stdio(err)?);
        Ok((streams, files))
    }

    /// Whether standard output and standard error of ranks pass through this process. The only rank
    /// of a job has no other rank's lines to be mixed with.
    fn pipes(&self, connect: Connect) -> [bool; 2] {
        match connect {
            Connect::Pipes => [true; 2],
            Connect::Inherit if self.job.size == 1 => [false; 2],
            Connect::Inherit => {
                [OutputTarget::Out, OutputTarget::Err].map(|target| !is_left_to_ranks(target))
            }
        }
    }

    /// The directory that a rank's program is run in, if one is given.
    fn directory(&self, plan: &RankPlan<'_>) -> Option<PathBuf> {
        let common = self.job.programs.directory.as_ref().map(PathBuf::from);
        match (&plan.section.directory, common) {
            (Some(own), Some(common)) => Some(common.join(own)),
            (own, common) => own.clone().or(common),
        }
    }

    /// The same; where none is given, this process's.
    fn directory_or_own(&self, plan: &RankPlan<'_>) -> PathBuf {
        self.directory(plan).unwrap_or(PathBuf::from("."))
    }

    /// Refuses a job whose programs would each take themselves for rank 0 of 1.
    pub fn check_programs(&self) -> Result<(), LaunchError> {
        if self.job.size == 1 {
            return Ok(());
        }
        for (index, plan) in self.plan.ranks.iter().enumerate() {
            let earlier = index.checked_sub(1).map(|before| &self.plan.ranks[before]);
            if earlier.is_some_and(|before| before.section_number == plan.section_number) {
                continue;
            }
            let set = |name: &str| environment::value(self.job, plan.section, name);
            if set(FOREIGN_MPI.env).is_some_and(|value| value == "start") {
                continue;
            }
            let directory = self.directory_or_own(plan);
            let path = set("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
            let program = environment::program(plan.section, &directory);
            let program = environment::find_in_path(&program, &directory, &path);
            let Some(program) = program else { continue };
            if let Some(library) = open_mpi_library(&program) {
                return Err(LaunchError::ForeignProgram {
                    program: program.display().to_string(),
                    library,
                    ranks: self.job.size,
                });
            }
        }
        Ok(())
    }

    /// The error for a program that could not be started, with a hint.
    pub(super) fn exec_error(&self, plan: &RankPlan<'_>, source: io::Error) -> LaunchError {
        let directory = self.directory_or_own(plan);
        let program = environment::program(plan.section, &directory);
        let program = Path::new(&program);
        let found = directory.join(program).is_file();
        let by_path = program.components().count() > 1 || program.is_absolute();
        let hint = match source.kind() {
            _ if !directory.is_dir() => {
                format!(" (there is no directory {})", directory.display())
            }
            io::ErrorKind::NotFound if found && by_path => {
                " (the file is there, its interpreter or loader is not)".to_owned()
            }
            io::ErrorKind::NotFound if found => {
                format!(" in PATH (a file of this name is here: use ./{})", program.display())
            }
            _ => String::new(),
        };
        LaunchError::Exec {
            program: program.to_string_lossy().into_owned(),
            rank: plan.rank,
            source,
            hint,
        }
    }
}

/// Input that is at its end. Where a container has no `/dev/null`, it is the read end of a pipe
/// without a writer.
fn no_input() -> Result<Stdio, LaunchError> {
    match File::open("/dev/null") {
        Ok(file) => Ok(file.into()),
        Err(_) => {
            let (read, _) = io::pipe().map_err(doing("cannot make a pipe for standard input"))?;
            Ok(read.into())
        }
    }
}

/// The folder that this program is installed in, if the program lies in a `bin`.
fn installation() -> Option<PathBuf> {
    let program = env::current_exe().ok()?;
    let folder = program.parent().filter(|bin| bin.ends_with("bin"))?;
    folder.parent().map(Path::to_owned)
}

//! The command of each rank: program, environment, descriptors.

use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use mica_bootstrap::EXCHANGE_VARIABLE;
use mica_bootstrap::inherited::MANAGER_ID_VARIABLE;
use mica_node::handover::identity;
use mica_node::segment::{
    PREFIX_VARIABLE, RANK_VARIABLE, SEGMENT_FD_VARIABLE, SEGMENT_ID_VARIABLE,
    SEGMENT_SOCKET_VARIABLE, SIZE_VARIABLE,
};
use mica_node::tunables::FOREIGN_MPI;

use super::*;
use crate::foreign::{find_program, open_mpi_library};
use crate::output::is_left_to_ranks;

/// Variables of other process managers, or for the launcher alone: a rank must not take itself for theirs.
const NOT_FOR_RANKS: [&str; 4] = ["PMI_", "PMIX_", "MICA_VIRTUAL_NODES", EXCHANGE_VARIABLE];
/// What tells ranks which interface to use among hosts.
const INTERFACE_VARIABLE: &str = "MICA_NET_INTERFACE";

/// Where one of a rank's outputs goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Route {
    /// To where this process's goes, directly.
    Inherited,
    /// Through a pipe to this process.
    Piped,
    /// Standard error: through the pipe of standard output.
    Joined,
}

impl Ranks<'_> {
    /// The command of a rank, and its end of the connection to the process manager.
    pub(super) fn command(
        &mut self,
        index: usize,
        plan: &RankPlan<'_>,
        connect: Connect,
    ) -> Result<(Command, UnixStream), LaunchError> {
        let section = plan.section;
        let mut command = Command::new(&section.command[0]);
        command.args(&section.command[1..]);
        for (name, _) in env::vars_os() {
            let foreign = |prefix: &&str| name.as_encoded_bytes().starts_with(prefix.as_bytes());
            if NOT_FOR_RANKS.iter().any(&foreign) {
                command.env_remove(&name);
            }
        }
        if let Some(directory) = self.directory(plan) {
            let absolute = std::path::absolute(&directory);
            command.env("PWD", absolute.unwrap_or(directory.clone()));
            command.current_dir(directory);
        }
        for (name, value) in self.job.environment.iter().chain(&section.environment) {
            command.env(name, value);
        }
        self.set_interface(&mut command, plan);
        let connection = self.pmi.add(plan.section_number);
        let connection = connection.map_err(doing("cannot connect a rank to its manager"))?;
        command
            .env("PMI_FD", connection.as_raw_fd().to_string())
            .env("PMI_RANK", plan.rank.to_string())
            .env("PMI_SIZE", self.job.size.to_string())
            .env("PMI_HOSTNAME", &self.job.host)
            .envs(identity(connection.as_fd()).map(|id| (MANAGER_ID_VARIABLE, id)));
        if self.job.pmi {
            command.env(EXCHANGE_VARIABLE, "pmi");
        }
        let segment = self.segment.as_fd();
        command
            .env(SEGMENT_FD_VARIABLE, segment.as_raw_fd().to_string())
            .env(SEGMENT_ID_VARIABLE, self.segment.identity())
            .env(RANK_VARIABLE, plan.rank.to_string())
            .env(SIZE_VARIABLE, self.job.size.to_string())
            .envs(installation().map(|prefix| (PREFIX_VARIABLE, prefix)))
            .env("MPI_LOCALRANKID", index.to_string())
            .env("MPI_LOCALNRANKS", self.plan.ranks.len().to_string());
        match &self.requests {
            Some(requests) => command.env(SEGMENT_SOCKET_VARIABLE, requests.nonce()),
            None => command.env_remove(SEGMENT_SOCKET_VARIABLE),
        };
        let is_first = plan.rank == 0 && self.job.takes_input;
        command.stdin(match connect {
            // A terminal must be read by the launcher: the ranks' process groups are in the
            // terminal's background, where reading stops a process.
            Connect::Inherit if is_first && !io::IsTerminal::is_terminal(&io::stdin()) => {
                Stdio::inherit()
            }
            _ if is_first => Stdio::piped(),
            _ => no_input()?,
        });
        Ok((command, connection))
    }

    fn set_interface(&self, command: &mut Command, plan: &RankPlan<'_>) {
        let Some(interface) = &self.job.interface else {
            return;
        };
        let given = &plan.section.environment;
        let mut given = self.job.environment.iter().chain(given);
        let is_set = given.any(|(name, _)| name == INTERFACE_VARIABLE);
        if !is_set && env::var_os(INTERFACE_VARIABLE).is_none() {
            let value = match interface.as_str() {
                "" => self.address.as_ref(),
                _ => Some(interface),
            };
            command.envs(value.map(|value| (INTERFACE_VARIABLE, value)));
        }
    }

    /// Connects a rank's output, and answers the streams through this process.
    pub(super) fn connect_output(
        &mut self,
        command: &mut Command,
        index: usize,
        connect: Connect,
    ) -> io::Result<Vec<Stream>> {
        let label = self.job.label.then_some(self.plan.ranks[index].rank);
        let [out, err] = self.routes(connect);
        let mut streams = Vec::new();
        let mut stream = |pipe, target| {
            let id = self.unwritten.len() as u32;
            self.unwritten.push(0);
            streams.push(Stream::new(id, index, label, pipe, target));
        };
        if out == Route::Piped {
            let (read, write) = io::pipe()?;
            if err == Route::Joined {
                command.stderr(write.try_clone()?);
            }
            command.stdout(write);
            stream(read, Target::Out);
        }
        if err == Route::Piped {
            let (read, write) = io::pipe()?;
            command.stderr(write);
            stream(read, Target::Err);
        }
        Ok(streams)
    }

    /// Where standard output and standard error of ranks go. The only rank of a job has nobody to mix its lines with.
    fn routes(&self, connect: Connect) -> [Route; 2] {
        let all = self.job.label || connect == Connect::Pipes;
        if !all && self.job.size == 1 {
            return [Route::Inherited; 2];
        }
        let routes =
            [Target::Out, Target::Err].map(|target| match !all && is_left_to_ranks(target) {
                true => Route::Inherited,
                false => Route::Piped,
            });
        match routes {
            [Route::Piped, Route::Piped] if self.job.one_stream => [Route::Piped, Route::Joined],
            other => other,
        }
    }

    fn directory(&self, plan: &RankPlan<'_>) -> Option<PathBuf> {
        let common = self.job.directory.as_ref().map(PathBuf::from);
        match (&plan.section.directory, common) {
            (Some(own), Some(common)) => Some(common.join(own)),
            (own, common) => own.clone().or(common),
        }
    }

    /// Refuses a job whose programs would take themselves for rank 0 of 1 each.
    pub(super) fn check_programs(&self) -> Result<(), LaunchError> {
        if self.job.size == 1 {
            return Ok(());
        }
        for (index, plan) in self.plan.ranks.iter().enumerate() {
            let earlier = index.checked_sub(1).map(|before| &self.plan.ranks[before]);
            if earlier.is_some_and(|before| before.section_number == plan.section_number) {
                continue;
            }
            let set = |name: &str| self.variable(plan, name);
            if set(FOREIGN_MPI.env).is_some_and(|value| value == "start") {
                continue;
            }
            let directory = self.directory(plan).unwrap_or(PathBuf::from("."));
            let path = set("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
            let program = find_program(&plan.section.command[0], &directory, &path);
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

    /// A variable as the rank will find it.
    fn variable(&self, plan: &RankPlan<'_>, name: &str) -> Option<OsString> {
        let given = self.job.environment.iter().chain(&plan.section.environment);
        let set = given.filter(|(known, _)| known == name).last();
        set.map(|(_, value)| value.clone())
            .or_else(|| env::var_os(name))
    }

    /// Why the program could not be started, and what may help.
    pub(super) fn exec_error(&self, plan: &RankPlan<'_>, source: io::Error) -> LaunchError {
        let program = Path::new(&plan.section.command[0]);
        let directory = self.directory(plan).unwrap_or(PathBuf::from("."));
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
                format!(
                    " in PATH (a file of this name is here: use ./{})",
                    program.display()
                )
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

/// Input that is at its end. Not every container has a `/dev/null`; then the read end of a pipe without a writer.
fn no_input() -> Result<Stdio, LaunchError> {
    match File::open("/dev/null") {
        Ok(file) => Ok(file.into()),
        Err(_) => {
            let (read, _) = io::pipe().map_err(doing("cannot make a pipe for standard input"))?;
            Ok(read.into())
        }
    }
}

/// The folder that this program is installed in, if it lies in a `bin`.
fn installation() -> Option<PathBuf> {
    let program = env::current_exe().ok()?;
    let folder = program.parent().filter(|bin| bin.ends_with("bin"))?;
    folder.parent().map(Path::to_owned)
}

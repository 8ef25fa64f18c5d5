//! The environment of the ranks.
//!
//! As with Hydra's `-genvall`, ranks get the whole environment of the `mpiexec` that the user
//! started, on top of what the host gives its agent, so that `export NAME=VALUE` works on many
//! nodes as on one. Variables are left out that describe the controller's host or session, or
//! belong to a process manager.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use mica_bootstrap::{EXCHANGE_VARIABLE, LAUNCH_VARIABLE};

use crate::options::values::inherit::Inherit;
use crate::options::{AgentLauncher, JobOptions, ProgramSection};
use crate::placement::node_job::NodeJob;

/// Variables of other process managers, or for the launcher alone: a rank must not believe that
/// another process manager started it.
const FOREIGN: [&str; 4] = ["PMI_", "PMIX_", "MICA_VIRTUAL_NODES", EXCHANGE_VARIABLE];

/// Variables that are meaningful on the controller's host only, in its shell or session.
const OF_THE_HOST: [&str; 17] = [
    "_",
    "DBUS_SESSION_BUS_ADDRESS",
    "HOST",
    "HOSTNAME",
    "MICA_EXCHANGE",
    LAUNCH_VARIABLE,
    "MICA_PMI_ID",
    "MICA_RANK",
    "MICA_SEGMENT_FD",
    "MICA_SEGMENT_ID",
    "MICA_SEGMENT_SOCKET",
    "MICA_SIZE",
    "MICA_VIRTUAL_NODES",
    "OLDPWD",
    "PWD",
    "SHLVL",
    "XDG_RUNTIME_DIR",
];
/// Prefixes of such names.
const PREFIXES: [&str; 6] = ["MPI_LOCAL", "PMI_", "PMIX_", "SSH_", "XDG_SESSION_", "XPC_"];
/// Slurm sets these variables anew on each host.
const SLURM: [&str; 2] = ["SLURM_", "SLURMD_"];

/// Which variables of this process's environment are sent to agents: those that ranks of some
/// section inherit. What the user excepts does not leave this machine.
pub fn for_agents(launcher: AgentLauncher, options: &JobOptions) -> Vec<(OsString, OsString)> {
    let own = std::env::vars_os();
    own.filter(|(name, _)| goes_along(name, launcher) && is_inherited(name, options)).collect()
}

/// Whether ranks of some section inherit this variable.
fn is_inherited(name: &OsStr, options: &JobOptions) -> bool {
    let mut sections = options.sections.iter();
    sections.any(|section| section.inherit.as_ref().unwrap_or(&options.inherit).takes(name))
}

/// Sets the environment of a rank's command: what it inherits here, what the controller sent of its
/// own, and what the command line sets.
pub fn apply(command: &mut Command, job: &NodeJob, section: &ProgramSection) {
    let inherit = section.inherit.as_ref().unwrap_or(&job.programs.inherit);
    if *inherit != Inherit::All {
        command.env_clear();
        command.envs(std::env::vars_os().filter(|(name, _)| inherit.takes(name)));
    }
    for (name, _) in std::env::vars_os() {
        let foreign = |prefix: &&str| name.as_encoded_bytes().starts_with(prefix.as_bytes());
        if FOREIGN.iter().any(&foreign) {
            command.env_remove(&name);
        }
    }
    let sent = job.programs.inherited.iter().filter(|(name, _)| inherit.takes(name));
    let given = job.programs.environment.iter().chain(&section.environment);
    for (name, value) in sent.chain(given) {
        command.env(name, value);
    }
}

/// The value that [`apply`] gives the rank for a variable; `None` if it gives none.
pub fn value(job: &NodeJob, section: &ProgramSection, name: &str) -> Option<OsString> {
    let inherit = section.inherit.as_ref().unwrap_or(&job.programs.inherit);
    let given = job.programs.environment.iter().chain(&section.environment);
    let sent = job.programs.inherited.iter().filter(|(name, _)| inherit.takes(name));
    let mut set = sent.chain(given).rev();
    let set = set.find(|(known, _)| known == name);
    let own = || std::env::var_os(name).filter(|_| inherit.takes(OsStr::new(name)));
    set.map(|(_, value)| value.clone()).or_else(own)
}

/// The program of a section that is run in `directory`, as `-path` finds it; its name if it is not
/// there, or `-path` does not count for it.
pub fn program(section: &ProgramSection, directory: &Path) -> OsString {
    let name = &section.command[0];
    if name.as_encoded_bytes().contains(&b'/') {
        return name.clone();
    }
    let is_executable = |file: &PathBuf| {
        let meta = std::fs::metadata(directory.join(file));
        meta.is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    // An empty name stands for the working directory, and a path without a slash is not one.
    let within = |folder: PathBuf| match folder.as_os_str().is_empty() {
        true => Path::new(".").join(name),
        false => folder.join(name),
    };
    let found = section.path.iter().flat_map(std::env::split_paths).map(within).find(is_executable);
    found.map_or_else(|| name.clone(), Into::into)
}

/// How MPI_INFO_ENV describes the start of a section's ranks: lines of a key and a value
/// ([`LAUNCH_VARIABLE`]).
pub fn launch_info(job: &NodeJob, section: &ProgramSection) -> String {
    let given = [
        ("soft", section.soft.as_ref()),
        ("host", job.programs.hosts.as_ref()),
        ("arch", section.architecture.as_ref()),
        ("file", section.file.as_ref()),
    ];
    let given = given.into_iter().filter_map(|(key, value)| Some((key, value?)));
    let given = given.filter(|(_, value)| !value.contains('\n'));
    let given = given.map(|(key, value)| format!("\n{key}={value}"));
    format!("maxprocs={}", section.ranks) + &given.collect::<String>()
}

/// The program as this process's PATH finds it, for ranks that do not inherit PATH.
pub fn find_program(job: &NodeJob, section: &ProgramSection, program: &OsStr) -> OsString {
    if program.as_encoded_bytes().contains(&b'/') || value(job, section, "PATH").is_some() {
        return program.to_owned();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    find_in_path(program, Path::new(""), &path).map_or(program.to_owned(), Into::into)
}

/// The file that the first word of a command names, as the shell finds it.
pub fn find_in_path(word: &OsStr, directory: &Path, path: &OsStr) -> Option<PathBuf> {
    let name = Path::new(word);
    if name.components().count() > 1 || name.is_absolute() {
        return Some(directory.join(name));
    }
    let candidates = std::env::split_paths(path).map(|folder| directory.join(folder).join(name));
    candidates.into_iter().find(|file| file.is_file())
}

fn goes_along(name: &OsStr, launcher: AgentLauncher) -> bool {
    let begins = |prefix: &&str| name.as_encoded_bytes().starts_with(prefix.as_bytes());
    let of_slurm = launcher == AgentLauncher::Srun && SLURM.iter().any(&begins);
    !OF_THE_HOST.iter().any(|known| name == *known) && !PREFIXES.iter().any(&begins) && !of_slurm
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::tests::job;

    #[test]
    fn only_what_ranks_inherit_is_sent() {
        let sent = |line: &str, name: &str| is_inherited(OsStr::new(name), &job(line));
        assert!(sent("-n 2 a", "TOKEN") && !sent("-genvnone -n 2 a", "TOKEN"));
        assert!(!sent("-genvlist PATH a", "TOKEN") && sent("-genvlist PATH a", "PATH"));
        assert!(!sent("-genvexcept TOK*,B a", "TOKEN") && sent("-genvexcept TOK*,B a", "PATH"));
        assert!(sent("-genvexcept TOKEN a : -envlist TOKEN b", "TOKEN"));
    }

    #[test]
    fn what_goes_along() {
        let goes = |name: &str, launcher| goes_along(OsStr::new(name), launcher);
        for name in
            ["PATH", "LD_LIBRARY_PATH", "OMP_NUM_THREADS", "MICA_NET", "FI_PROVIDER", "HOSTS"]
        {
            assert!(goes(name, AgentLauncher::Srun), "{name}");
        }
        for name in ["PWD", "HOSTNAME", "PMI_FD", "SSH_AUTH_SOCK", "MICA_RANK", "_"] {
            assert!(!goes(name, AgentLauncher::Ssh), "{name}");
        }
        assert!(
            goes("SLURM_JOB_ID", AgentLauncher::Ssh) && !goes("SLURM_NODEID", AgentLauncher::Srun)
        );
    }

    #[test]
    fn a_program_is_looked_for_in_its_own_path_first() {
        let folder = std::env::temp_dir().join(format!("mica-path-{}", std::process::id()));
        for (name, mode) in [("a/prog", 0o644), ("b/prog", 0o755), ("here", 0o755)] {
            let file = folder.join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, "").unwrap();
            std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).unwrap();
        }
        let found = |line: &str| program(&job(line).sections[0], &folder).into_string().unwrap();
        assert_eq!(found("-path /no/such:a:b prog"), "b/prog", "a/prog cannot be executed");
        assert_eq!(found("-path a: here"), "./here");
        assert_eq!(found("-path a:b other"), "other");
        assert_eq!(found("-path b ./prog"), "./prog");
        assert_eq!(found("prog"), "prog");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn programs_are_found_as_a_shell_does() {
        let found = |word: &str, directory: &str| {
            find_in_path(OsStr::new(word), Path::new(directory), OsStr::new("/no/such:/bin"))
        };
        assert_eq!(found("sh", "/"), Some("/bin/sh".into()));
        assert_eq!(found("./sh", "/bin"), Some("/bin/./sh".into()));
        assert_eq!(found("/x/y", "/bin"), Some("/x/y".into()));
        assert_eq!(found("mica-no-such-program", "/bin"), None);
    }
}

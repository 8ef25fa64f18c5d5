//! What ranks on other hosts find in their environment.
//!
//! As with Hydra's `-genvall`, ranks get the whole environment of the `mpiexec` that the user started, on top of what
//! the host gives its agent, so that `export NAME=VALUE` works on many nodes as on one. Left out is what describes the
//! head's host or session, or belongs to a process manager.

use std::ffi::{OsStr, OsString};

use crate::options::{Launcher, Options};

/// Variables that mean something on the head's host, in its shell or session only.
const OF_THE_HOST: [&str; 16] = [
    "_",
    "DBUS_SESSION_BUS_ADDRESS",
    "HOST",
    "HOSTNAME",
    "MICA_EXCHANGE",
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
/// Beginnings of such names.
const PREFIXES: [&str; 6] = ["MPI_LOCAL", "PMI_", "PMIX_", "SSH_", "XDG_SESSION_", "XPC_"];
/// Slurm gives its own on each host.
const SLURM: [&str; 2] = ["SLURM_", "SLURMD_"];

/// The environment that agents give their ranks: this process's, then what the command line sets.
pub fn for_agents(options: &Options, launcher: Launcher) -> Vec<(OsString, OsString)> {
    let own = std::env::vars_os().filter(|(name, _)| goes_along(name, launcher));
    own.chain(options.environment.iter().cloned()).collect()
}

fn goes_along(name: &OsStr, launcher: Launcher) -> bool {
    let begins = |prefix: &&str| name.as_encoded_bytes().starts_with(prefix.as_bytes());
    let of_slurm = launcher == Launcher::Srun && SLURM.iter().any(&begins);
    !OF_THE_HOST.iter().any(|known| name == *known) && !PREFIXES.iter().any(&begins) && !of_slurm
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_along() {
        let goes = |name: &str, launcher| goes_along(OsStr::new(name), launcher);
        for name in [
            "PATH",
            "LD_LIBRARY_PATH",
            "OMP_NUM_THREADS",
            "MICA_NET",
            "FI_PROVIDER",
            "HOSTS",
        ] {
            assert!(goes(name, Launcher::Srun), "{name}");
        }
        for name in [
            "PWD",
            "HOSTNAME",
            "PMI_FD",
            "SSH_AUTH_SOCK",
            "MICA_RANK",
            "_",
        ] {
            assert!(!goes(name, Launcher::Ssh), "{name}");
        }
        assert!(goes("SLURM_JOB_ID", Launcher::Ssh) && !goes("SLURM_NODEID", Launcher::Srun));
    }
}

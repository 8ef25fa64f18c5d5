//! What the environment says of the job before this process has joined it: what
//! `MPI_Info_create_env` may report before `MPI_Init`, and the same after it. Nothing here fails;
//! what is not known is absent.

use mica_node::segment::{SEGMENT_FD_VARIABLE, SIZE_VARIABLE};
use mica_node::tunables;

use crate::choose::{DetectedLauncher, choose};
use crate::env_job;
use crate::environment;

/// Environment variable in which Mica's mpiexec describes how this process's program was started,
/// in lines `KEY=VALUE`: maxprocs, and of soft, host, arch and file what the command line has.
pub const LAUNCH_VARIABLE: &str = "MICA_LAUNCH_INFO";

/// What the launcher has put into the environment of this process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Announced {
    /// Number of processes of the job.
    pub size: Option<u32>,
    /// Keys and values for `MPI_INFO_ENV`.
    pub launch: Vec<(String, String)>,
}

/// Reads the environment.
pub fn announced() -> Announced {
    read(&environment::text, tunables::PMI.choice().unwrap_or_default())
}

fn read(get: &dyn Fn(&str) -> Option<String>, forced: &str) -> Announced {
    let size = |variables: &[&str]| {
        let mut values = variables.iter().filter_map(|variable| get(variable));
        values.find_map(|value| value.parse().ok())
    };
    if get(SEGMENT_FD_VARIABLE).is_some() {
        let text = get(LAUNCH_VARIABLE).unwrap_or_default();
        let pairs = text.lines().filter_map(|line| line.split_once('='));
        let launch = pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        return Announced { size: size(&[SIZE_VARIABLE]), launch };
    }
    let size = match choose(get, forced) {
        Ok(DetectedLauncher::None) => Some(1),
        Ok(DetectedLauncher::Pmi1 | DetectedLauncher::Pmi2) => {
            size(&["PMI_SIZE", "SLURM_STEP_NUM_TASKS"])
        }
        Ok(DetectedLauncher::Environment) => size(&[env_job::SIZE]),
        Ok(DetectedLauncher::Pmix) => size(&["OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"]),
        Err(_) => None,
    };
    // Other launchers do not say how many processes run which program.
    let maxprocs = size.map(|size| ("maxprocs".to_owned(), size.to_string()));
    Announced { size, launch: maxprocs.into_iter().collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(set: &[(&str, &str)]) -> Announced {
        let get = |name: &str| {
            let found = set.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        read(&get, "auto")
    }

    fn size(set: &[(&str, &str)]) -> Option<u32> {
        with(set).size
    }

    #[test]
    fn finds_the_size_under_each_launcher() {
        let ours = [("MICA_SEGMENT_FD", "5"), ("MICA_RANK", "1"), ("MICA_SIZE", "4")];
        // A launcher of another MPI around mpiexec leaves its own PMI variables behind.
        let foreign = [("PMI_RANK", "0"), ("PMI_SIZE", "9")];
        assert_eq!(size(&ours), Some(4));
        assert_eq!(size(&[&ours[..], &foreign].concat()), Some(4));
        assert_eq!(size(&[("PMI_FD", "7"), ("PMI_SIZE", "3")]), Some(3));
        let pmix = [("PMIX_NAMESPACE", "a"), ("PMIX_RANK", "0")];
        assert_eq!(size(&pmix), None);
        let with_size = [pmix[0], pmix[1], ("OMPI_COMM_WORLD_SIZE", "6")];
        assert_eq!(size(&with_size), Some(6));
        let torchrun = [("RANK", "2"), ("WORLD_SIZE", "5"), ("MASTER_ADDR", "h")];
        assert_eq!(size(&torchrun), Some(1));
        assert_eq!(size(&[&torchrun[..], &[("MASTER_PORT", "1")]].concat()), Some(5));
        assert_eq!(size(&[]), Some(1));
        assert_eq!(size(&[("PALS_RANKID", "1")]), None);
    }

    #[test]
    fn finds_how_the_program_was_started() {
        let ours = [("MICA_SEGMENT_FD", "5"), ("MICA_SIZE", "4")];
        assert_eq!(with(&ours).launch, []);
        let text = "maxprocs=3\nsoft=1:3\nfile=a=b";
        let set = [ours[0], ours[1], (LAUNCH_VARIABLE, text)];
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let pairs = [pair("maxprocs", "3"), pair("soft", "1:3"), pair("file", "a=b")];
        assert_eq!(with(&set).launch, pairs);
        assert_eq!(with(&[(LAUNCH_VARIABLE, text)]).launch, [pair("maxprocs", "1")]);
    }
}

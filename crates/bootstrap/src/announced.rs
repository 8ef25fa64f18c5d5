//! What the environment says of the job before this process has joined it: what
//! `MPI_Info_create_env` may report before `MPI_Init`, and the same after it. Nothing here fails;
//! what is not known is absent.

use mica_node::segment::{RANK_VARIABLE, SEGMENT_FD_VARIABLE, SIZE_VARIABLE};
use mica_node::tunables;

use crate::choose::{DetectedLauncher, choose};
use crate::environment;

/// What the launcher has put into the environment of this process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Announced {
    /// Number of processes of the job.
    pub size: Option<u32>,
    /// The node's name, where the launcher gives it another than the machine's.
    pub host: Option<String>,
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
        // A launcher of another MPI around mpiexec leaves its own PMI variables in the environment.
        let is_ours =
            get("PMI_RANK") == get(RANK_VARIABLE) && get("PMI_SIZE") == get(SIZE_VARIABLE);
        return Announced {
            size: size(&[SIZE_VARIABLE]),
            host: get("PMI_HOSTNAME").filter(|_| is_ours),
        };
    }
    let size = match choose(get, forced) {
        Ok(DetectedLauncher::None) => Some(1),
        Ok(DetectedLauncher::Pmi1 | DetectedLauncher::Pmi2) => {
            size(&["PMI_SIZE", "SLURM_STEP_NUM_TASKS"])
        }
        Ok(DetectedLauncher::Pmix) => size(&["OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"]),
        Err(_) => None,
    };
    Announced { size, host: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(set: &[(&str, &str)]) -> (Option<u32>, Option<String>) {
        let get = |name: &str| {
            let found = set.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let Announced { size, host } = read(&get, "auto");
        (size, host)
    }

    #[test]
    fn finds_size_and_host_under_each_launcher() {
        let ours = [("MICA_SEGMENT_FD", "5"), ("MICA_RANK", "1"), ("MICA_SIZE", "4")];
        let served = [("PMI_RANK", "1"), ("PMI_SIZE", "4"), ("PMI_HOSTNAME", "n2")];
        let foreign = [("PMI_RANK", "0"), ("PMI_SIZE", "9"), ("PMI_HOSTNAME", "outer")];
        assert_eq!(with(&ours), (Some(4), None));
        assert_eq!(with(&[&ours[..], &served].concat()), (Some(4), Some("n2".into())));
        assert_eq!(with(&[&ours[..], &foreign].concat()), (Some(4), None));
        assert_eq!(with(&[("PMI_FD", "7"), ("PMI_SIZE", "3")]).0, Some(3));
        let pmix = [("PMIX_NAMESPACE", "a"), ("PMIX_RANK", "0")];
        assert_eq!(with(&pmix).0, None);
        let with_size = [pmix[0], pmix[1], ("OMPI_COMM_WORLD_SIZE", "6")];
        assert_eq!(with(&with_size).0, Some(6));
        assert_eq!(with(&[]).0, Some(1));
        assert_eq!(with(&[("PALS_RANKID", "1")]).0, None);
    }
}

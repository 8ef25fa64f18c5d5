//! Which launcher started this process, by its environment.

use mica_node::launcher_socket::LauncherSocket;

use crate::BootstrapError;
use crate::environment::{PMI_FD, required, text};
use crate::pmi1::Pmi1;
use crate::pmi2::Pmi2;
use crate::{ProcessManager, env_job, pmix};

/// What the environment says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DetectedLauncher {
    None,
    Pmi1,
    Pmi2,
    Pmix,
    /// None: variables describe the job, and its ranks find each other by them.
    Environment,
}

const A_PMIX_LAUNCHER: &str = "a PMIx launcher (Open MPI's mpirun, prterun, or Slurm's srun)";
const A_PMI_LAUNCHER: &str = "a PMI launcher (mpiexec of MPICH or Intel MPI, or Slurm's srun)";
const NO_SOCKET: &str = "gives it no PMI_FD to speak PMI over";

/// Variables of launchers that Mica does not speak, or not in this way: which launcher, and why
/// not.
const FOREIGN: [(&str, &str, &str); 6] = [
    ("PMI_PORT", A_PMI_LAUNCHER, "speaks PMI over a port, which this version of Mica does not"),
    ("PMI_RANK", A_PMI_LAUNCHER, NO_SOCKET),
    (
        "OMPI_COMM_WORLD_SIZE",
        "Open MPI's mpirun",
        "gives it no PMIX_NAMESPACE and PMIX_RANK to speak PMIx by",
    ),
    ("PMIX_RANK", A_PMIX_LAUNCHER, "gives it no PMIX_NAMESPACE to speak PMIx by"),
    ("PMIX_NAMESPACE", A_PMIX_LAUNCHER, "gives it no PMIX_RANK to speak PMIx by"),
    ("PALS_RANKID", "HPE's PALS", "this version of Mica does not speak"),
];

/// Decides by the variables that `is_set` knows; `forced` is the tunable's value.
///
/// # Errors
/// When a launcher is there that Mica does not speak.
pub(crate) fn choose(
    get: &dyn Fn(&str) -> Option<String>,
    forced: &str,
) -> Result<DetectedLauncher, BootstrapError> {
    let is_set = |variable: &str| get(variable).is_some();
    match forced {
        "pmi1" => return Ok(DetectedLauncher::Pmi1),
        "pmi2" => return Ok(DetectedLauncher::Pmi2),
        "pmix" => return Ok(DetectedLauncher::Pmix),
        "env" => return Ok(DetectedLauncher::Environment),
        _ => {}
    }
    if is_set(PMI_FD) {
        // Slurm's own plugin names the job. Hydra may run under Slurm too, and that of Intel MPI
        // does not get over PMI-2.
        let by_slurm = is_set("SLURM_STEP_ID") && is_set("PMI_JOBID") && !is_set("HYDI_CONTROL_FD");
        return Ok(match by_slurm {
            true => DetectedLauncher::Pmi2,
            false => DetectedLauncher::Pmi1,
        });
    }
    if is_set("PMIX_NAMESPACE") && is_set("PMIX_RANK") {
        return Ok(DetectedLauncher::Pmix);
    }
    let foreign = FOREIGN.iter().find(|(variable, ..)| is_set(variable));
    if let Some(&(variable, launcher, why)) = foreign {
        return Err(BootstrapError::ForeignLauncher { launcher, variable, why });
    }
    if env_job::is_described(get) {
        return Ok(DetectedLauncher::Environment);
    }
    // srun without a PMI. In a batch script the step's variables are not set; a step of one task is
    // a job of one.
    let tasks = get("SLURM_STEP_NUM_TASKS").and_then(|n| n.parse::<u32>().ok());
    if tasks.is_some_and(|n| n > 1) && is_set("SLURM_PROCID") {
        return Err(BootstrapError::ForeignLauncher {
            launcher: "Slurm's srun",
            variable: "SLURM_STEP_NUM_TASKS",
            why: "gives it no PMI: add --mpi=pmi2 or --mpi=pmix to srun's options",
        });
    }
    Ok(DetectedLauncher::None)
}

/// Connects to the launcher; `None` if there is none, or this process is no rank of its job.
///
/// # Errors
/// When there is one that cannot be spoken to.
pub(crate) fn connect(
    launcher: DetectedLauncher,
) -> Result<Option<Box<dyn ProcessManager>>, BootstrapError> {
    Ok(Some(match launcher {
        DetectedLauncher::None => return Ok(None),
        DetectedLauncher::Pmi1 => Box::new(pmi1()?),
        DetectedLauncher::Pmi2 => {
            let (rank, job_id) = (required("PMI_RANK")?, text("PMI_JOBID"));
            Box::new(Pmi2::connect(socket()?, rank, job_id.as_deref())?)
        }
        DetectedLauncher::Pmix => Box::new(pmix::Pmix::connect()?),
        DetectedLauncher::Environment => match env_job::connect()? {
            Some(job) => Box::new(job),
            None => return Ok(None),
        },
    }))
}

/// Connects to the launcher by PMI-1.
///
/// # Errors
/// When that is not possible.
fn pmi1() -> Result<Pmi1, BootstrapError> {
    let (rank, size): (u32, u32) = (required("PMI_RANK")?, required("PMI_SIZE")?);
    if rank >= size {
        return Err(BootstrapError::BadEnvironment {
            variable: "PMI_RANK",
            value: rank.to_string(),
            reason: "is not below PMI_SIZE",
        });
    }
    Pmi1::connect(socket()?, rank, size)
}

fn socket() -> Result<LauncherSocket, BootstrapError> {
    let number: i32 = required(PMI_FD)?;
    LauncherSocket::inherited(number, None).map_err(|source| BootstrapError::NoConnection {
        variable: PMI_FD,
        value: number.to_string(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(set: &[(&str, &str)], forced: &str) -> Result<DetectedLauncher, BootstrapError> {
        let get = |name: &str| {
            let found = set.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        choose(&get, forced)
    }

    #[test]
    fn detects_launchers_by_their_variables() {
        let pmi = [("PMI_FD", "9"), ("PMI_RANK", "0"), ("PMI_SIZE", "2")];
        assert_eq!(chosen(&pmi, "auto").expect("known"), DetectedLauncher::Pmi1);
        let slurm = [
            ("PMI_FD", "9"),
            ("PMI_JOBID", "7.0"),
            ("SLURM_STEP_ID", "0"),
            ("SLURM_STEP_NUM_TASKS", "2"),
            ("SLURM_PROCID", "1"),
        ];
        assert_eq!(chosen(&slurm, "auto").expect("known"), DetectedLauncher::Pmi2);
        let hydra = [("PMI_FD", "9"), ("SLURM_STEP_ID", "0")];
        assert_eq!(chosen(&hydra, "auto").expect("known"), DetectedLauncher::Pmi1);
        let pmix = [("PMIX_NAMESPACE", "x"), ("PMIX_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "2")];
        assert_eq!(chosen(&pmix, "auto").expect("known"), DetectedLauncher::Pmix);
        assert_eq!(chosen(&[], "auto").expect("known"), DetectedLauncher::None);
        let one = [("SLURM_STEP_NUM_TASKS", "1"), ("SLURM_PROCID", "0")];
        assert_eq!(chosen(&one, "auto").expect("a job of one"), DetectedLauncher::None);
        let variables =
            [("RANK", "1"), ("WORLD_SIZE", "2"), ("MASTER_ADDR", "h"), ("MASTER_PORT", "29500")];
        let with = |other: &[(&'static str, &'static str)], forced| {
            chosen(&[other, &variables].concat(), forced).ok()
        };
        assert_eq!(with(&[], "auto"), Some(DetectedLauncher::Environment));
        // A launcher that can be spoken to has more to say. srun without a PMI starts torchrun.
        assert_eq!(with(&pmi, "auto"), Some(DetectedLauncher::Pmi1));
        assert_eq!(with(&pmix, "auto"), Some(DetectedLauncher::Pmix));
        assert_eq!(with(&pmix, "env"), Some(DetectedLauncher::Environment));
        assert_eq!(with(&[("PMI_RANK", "0")], "auto"), None);
        let srun = [("SLURM_STEP_NUM_TASKS", "2"), ("SLURM_PROCID", "1")];
        assert_eq!(with(&srun, "auto"), Some(DetectedLauncher::Environment));
        assert_eq!(chosen(&variables[..3], "auto").expect("a job of one"), DetectedLauncher::None);
        assert_eq!(chosen(&pmi, "pmi2").expect("forced"), DetectedLauncher::Pmi2);
        assert_eq!(chosen(&pmi, "pmix").expect("forced"), DetectedLauncher::Pmix);
    }

    #[test]
    fn rejects_unsupported_launchers_by_name() {
        for (set, name) in [
            (&[("PMI_RANK", "0")][..], "MPICH"),
            (&[("PMI_PORT", "host:1"), ("PMI_ID", "0")], "port"),
            (&[("OMPI_COMM_WORLD_SIZE", "2")], "Open MPI"),
            (&[("PMIX_RANK", "0")], "PMIX_NAMESPACE"),
            (&[("PALS_RANKID", "0")], "PALS"),
            (&[("SLURM_STEP_NUM_TASKS", "2"), ("SLURM_PROCID", "1")], "--mpi=pmi2"),
        ] {
            let error = chosen(set, "auto").expect_err(name).to_string();
            assert!(error.contains(name) && error.contains("mpiexec"), "{error}");
        }
    }
}

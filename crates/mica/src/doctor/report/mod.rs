//! `mica doctor --report`: what a maintainer needs to know of a machine where something fails, as
//! one JSON document that its sender can read through and publish.
//!
//! It has the answers of `mica version`, `mica info` and `mica doctor`, the system's settings
//! ([`system`]), and of the environment the values of Mica's settings and the names of what
//! launchers and libraries read. No other value of the environment is asked for, and
//! [`redaction`] then goes over every text of the document.

mod redaction;
mod system;

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;
use std::path::Path;

use mica_node::tunables;
use mica_report::origin::ResultOrigin;
use serde::Serialize;
use serde_json::Value;

use super::DoctorReport;
use crate::info::MachineReport;
use crate::version::Version;

use redaction::Redaction;
use system::SystemSettings;

/// What stands first in the document.
const NOTE: &str = "Names of hosts and users, home directories and addresses are replaced, and no \
    value of the environment is here but those of Mica's settings. Paths outside of home \
    directories are not replaced: read it before you send it.";

/// The beginnings of the names of variables that MPI programs, launchers, networks, threads and
/// the loader read.
const NAMES: [&str; 28] = [
    "COBALT_",
    "FI_",
    "FLUX_",
    "GOMP_",
    "GLIBC_",
    "HYDRA_",
    "HYDI_",
    "I_MPI_",
    "KMP_",
    "KUBERNETES_",
    "LD_",
    "LSB_",
    "MALLOC_",
    "MICA_",
    "MPI",
    "MV2_",
    "NCCL_",
    "OMPI_",
    "OMP_",
    "PALS_",
    "PBS_",
    "PMI",
    "PRTE_",
    "PRRTE_",
    "SGE_",
    "SLURM_",
    "UCX_",
    "VALGRIND_",
];

/// The document, but for where it comes from.
#[derive(Serialize)]
struct BugReport {
    note: &'static str,
    version: Version,
    system: SystemSettings,
    environment: ReportedEnvironment,
    /// What `mica info --json` says, or why it cannot.
    info: Value,
    /// What `mica doctor --json` says.
    doctor: DoctorReport,
}

/// What the report says of the environment.
#[derive(Serialize)]
struct ReportedEnvironment {
    /// Mica's settings, with their values.
    settings: BTreeMap<String, String>,
    /// Names of other variables that may matter.
    names: BTreeSet<String>,
}

/// Writes the report to the file; without one, it is the text that is returned.
///
/// # Errors
/// If the file cannot be written.
pub fn write(file: Option<&Path>) -> Result<String, Box<dyn Error>> {
    let text = text()?;
    let Some(file) = file else { return Ok(text) };
    fs::write(file, text)
        .map_err(|error| format!("cannot write the report to {}: {error}", file.display()))?;
    let file = file.display();
    Ok(format!("The report is in {file}. Read it, and send it with what you ran and saw.\n"))
}

fn text() -> Result<String, serde_json::Error> {
    let variables = std::env::vars_os().map(|(name, value)| {
        (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned())
    });
    let report = BugReport {
        note: NOTE,
        version: Version::gather(),
        system: SystemSettings::gather(),
        environment: ReportedEnvironment::of(variables),
        info: match MachineReport::gather(false) {
            Ok(info) => serde_json::to_value(info)?,
            Err(error) => Value::String(error.to_string()),
        },
        doctor: DoctorReport::gather(),
    };
    let document = ResultOrigin::without_messages().json(&report)?;
    let mut document: Value = serde_json::from_str(&document)?;
    Redaction::of_this_process().apply(&mut document);
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

impl ReportedEnvironment {
    fn of(variables: impl Iterator<Item = (String, String)>) -> ReportedEnvironment {
        let is_setting =
            |name: &str| tunables::all().iter().any(|t| t.variables().any(|known| known == name));
        let (settings, others): (Vec<_>, Vec<_>) =
            variables.partition(|(name, _)| is_setting(name));
        let names = others.into_iter().map(|(name, _)| name);
        ReportedEnvironment {
            settings: settings.into_iter().collect(),
            names: names.filter(|name| NAMES.iter().any(|start| name.starts_with(start))).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_settings_are_reported_and_names_of_others() {
        let variables = [
            ("MICA_SPIN", "7"),
            ("MICA_WAY", "pull"),
            ("MICA_LAUNCH_INFO", "secret"),
            ("SLURM_JWT", "secret"),
            ("AWS_TOKEN", "secret"),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let found = ReportedEnvironment::of(variables.into_iter());
        let settings: Vec<(&str, &str)> =
            found.settings.iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!(settings, [("MICA_SPIN", "7"), ("MICA_WAY", "pull")]);
        let names: Vec<&str> = found.names.iter().map(String::as_str).collect();
        assert_eq!(names, ["MICA_LAUNCH_INFO", "SLURM_JWT"]);
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named() {
        let file = Path::new("/nowhere/at/all/report.json");
        let error = write(Some(file)).expect_err("there is no such folder").to_string();
        assert!(error.starts_with("cannot write the report to /nowhere/at/all/report.json: "));
    }
}

//! `mica version`: identifies this Mica.

use std::path::PathBuf;

use mica_report::build;
use serde::Serialize;

use crate::info;

/// The content of the answer.
#[derive(Serialize)]
struct Version {
    version: &'static str,
    /// The version of the MPI standard that it implements, and of its ABI.
    standard: &'static str,
    abi: &'static str,
    /// The library beside this command.
    library: Option<PathBuf>,
    /// The build profile.
    build: &'static str,
    target: &'static str,
    compiler: &'static str,
    /// The commit that it was built from, if that was a git repository.
    commit: Option<&'static str>,
}

/// The answer as text or as JSON.
pub fn text(json: bool) -> String {
    let library = info::library();
    let version = Version {
        version: library.version,
        standard: "MPI 5.0",
        abi: "libmpi_abi.so.1 (the ABI of MPI 5.0)",
        library: library.path,
        build: build::PROFILE,
        target: build::TARGET,
        compiler: build::COMPILER,
        commit: build::commit(),
    };
    if json {
        return serde_json::to_string_pretty(&version).expect("plain data is valid JSON") + "\n";
    }
    let place = match &version.library {
        Some(path) => path.display().to_string(),
        None => "not beside this command (is it installed?)".to_owned(),
    };
    let Version { version, standard, abi, build, target, compiler, commit, .. } = version;
    let commit = commit.unwrap_or("not known");
    format!(
        "Mica {version}\n  standard  {standard}\n  ABI       {abi}\n  library   {place}\n  \
        build     {build}, {target}, {compiler}\n  commit    {commit}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_there() {
        let plain = text(false);
        for part in ["Mica 0.", "MPI 5.0", "libmpi_abi.so.1", "rustc", "commit"] {
            assert!(plain.contains(part), "{part}: {plain}");
        }
        let json: serde_json::Value = serde_json::from_str(&text(true)).unwrap();
        assert_eq!(json["version"], env!("CARGO_PKG_VERSION"));
        assert!(json["target"].as_str().is_some_and(|target| target.contains('-')));
    }
}

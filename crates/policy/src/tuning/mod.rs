//! The tuning file: the costs of the paths on one machine, as measured by `mica tune`.
//!
//! Text in a line-oriented subset of TOML, which people can read and edit:
//!
//! ```toml
//! version = 1
//!
//! [machine]
//! processor = "AMD EPYC 9B14"
//! processors = "0-1"
//! caches = "32K Data, 1024K Unified, 32768K Unified"
//! kernel = "6.1.0"
//!
//! [shared-cache.pull]
//! start_ns = 812.5
//! from = [0, 4194304]
//! byte_ns = [0.066, 0.11]
//! piece_ns = 60
//! sender = 0
//! receiver = 1
//!
//! [collective]
//! switch_ns = 700
//!
//! [collective.shared-cache]
//! sync_ns = 48
//! ```
//!
//! A level and path without a section keeps the shipped figures, and so does a step of collectives
//! without a line. The library reads the file when a job starts, so whatever the file contains, the
//! result is usable costs, or an error that names the file, the line and the cause.

use std::ffi::OsString;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use mica_node::identity::Identity;
use mica_node::topology::Level;
use mica_node::tunables;

use crate::collective::CollectiveCosts;
use crate::costs::{MessagePath, PathCost, PathCosts, level_name};

mod collective;
mod parser;
mod value;

use value::{Quoted, write_spans};

pub use collective::{CollectiveTuning, LevelTuning};

/// The version of the format.
pub const VERSION: u32 = 1;

/// Longest accepted tuning file, in bytes.
const BYTES_MAX: u64 = 1 << 20;

/// A tuning file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TuningError {
    /// It cannot be read.
    #[error("tuning file {}: {reason}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The system's error.
        reason: std::io::Error,
    },
    /// A line of it is invalid.
    #[error("tuning file {}, line {line}: {what}", file.display())]
    Line {
        /// The file.
        file: PathBuf,
        /// The line, from 1 on.
        line: usize,
        /// What is invalid, with its value.
        what: String,
    },
    /// It was measured on another machine.
    #[error(
        "tuning file {} is of another machine: its {part} is {theirs:?}, here it is {ours:?}; run \
        `mica tune` here",
        file.display()
    )]
    OtherMachine {
        /// The file.
        file: PathBuf,
        /// The property in which the machines differ.
        part: &'static str,
        /// Its value in the file.
        theirs: String,
        /// Its value on this machine.
        ours: String,
    },
}

/// The content of a tuning file.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tuning {
    /// The machine that it was measured on.
    pub machine: Identity,
    /// The costs that were measured; each pair of level and path at most once.
    pub costs: Vec<(Level, MessagePath, PathCost)>,
    /// The measured figures of the steps of collectives.
    pub collective: CollectiveTuning,
}

impl Tuning {
    /// Parses the text of a file; `file` is for error messages.
    ///
    /// # Errors
    /// [`TuningError::Line`] for the first invalid line.
    pub fn parse(text: &str, file: &Path) -> Result<Tuning, TuningError> {
        parser::run(text).map_err(|(line, what)| TuningError::Line {
            file: file.to_owned(),
            line,
            what,
        })
    }

    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, or a line of it is invalid.
    pub fn read(file: &Path) -> Result<Tuning, TuningError> {
        let failed = |reason| TuningError::Read { file: file.to_owned(), reason };
        let mut text = String::new();
        let opened = std::fs::File::open(file).map_err(failed)?;
        let mut limited = opened.take(BYTES_MAX + 1);
        limited.read_to_string(&mut text).map_err(failed)?;
        if text.len() as u64 > BYTES_MAX {
            let what = format!("longer than {BYTES_MAX} bytes");
            return Err(failed(std::io::Error::other(what)));
        }
        Tuning::parse(&text, file)
    }

    /// Whether it was measured on a machine like `here`.
    ///
    /// # Errors
    /// [`TuningError::OtherMachine`] with the first difference.
    pub fn check(&self, here: &Identity, file: &Path) -> Result<(), TuningError> {
        let differs = parts(&self.machine)
            .into_iter()
            .zip(parts(here))
            .find(|((_, theirs), (_, ours))| theirs != ours);
        match differs {
            None => Ok(()),
            Some(((part, theirs), (_, ours))) => Err(TuningError::OtherMachine {
                file: file.to_owned(),
                part,
                theirs: theirs.to_owned(),
                ours: ours.to_owned(),
            }),
        }
    }

    /// The shipped costs, with the measured ones in their place.
    pub fn applied(&self) -> PathCosts {
        let mut costs = PathCosts::default();
        for &(level, path, cost) in &self.costs {
            costs.set(level, path, cost);
        }
        costs
    }

    /// The shipped costs of collectives, with the measured ones in their place.
    pub fn applied_to_collectives(&self) -> CollectiveCosts {
        self.collective.applied(self.applied())
    }
}

fn parts(machine: &Identity) -> [(&'static str, &str); 4] {
    [
        ("processor", &machine.processor),
        ("processors", &machine.processors),
        ("caches", &machine.caches),
        ("kernel", &machine.kernel),
    ]
}

/// The name of a machine's tuning file without its suffix: the processor's name in characters that
/// any file system accepts, and a hash (FNV-1a, 64 bits) of the whole description.
pub fn machine_key(machine: &Identity) -> String {
    let mut name = String::new();
    for c in machine.processor.chars() {
        if c.is_ascii_alphanumeric() {
            name.push(c.to_ascii_lowercase());
        } else if !name.is_empty() && !name.ends_with('-') {
            name.push('-');
        }
    }
    name.truncate(40);
    let name = match name.trim_end_matches('-') {
        "" => "machine",
        name => name,
    };
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for (_, part) in parts(machine) {
        for byte in part.bytes().chain([0]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    format!("{name}-{hash:016x}")
}

/// The folders of tuning files: the user's and the installation's, as far as they are known.
/// `variable` looks up the environment, `prefix` is the folder in which Mica is installed.
/// `mica tune` writes to the first.
pub fn folders(variable: &dyn Fn(&str) -> Option<OsString>, prefix: Option<&Path>) -> Vec<PathBuf> {
    let path = |name: &str| {
        let value = variable(name).map(PathBuf::from);
        value.filter(|path| path.is_absolute())
    };
    let user = path("XDG_CONFIG_HOME").or_else(|| Some(path("HOME")?.join(".config")));
    let user = user.map(|folder| folder.join("mica/tuning"));
    let installed = prefix.map(|prefix| prefix.join("etc/mica/tuning"));
    user.into_iter().chain(installed).collect()
}

/// The source of the costs in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TuningSource {
    /// The shipped figures.
    Shipped,
    /// This file.
    File(PathBuf),
}

impl fmt::Display for TuningSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TuningSource::Shipped => write!(f, "shipped defaults"),
            TuningSource::File(file) => write!(f, "{}", file.display()),
        }
    }
}

/// The costs in force on this machine: those of the file that `MICA_TUNING` names, else of this
/// machine's file in the first of [`folders`] that has it, else the shipped ones. Reads files, and,
/// if there is a folder of them, the machine's description.
///
/// # Errors
/// If the file cannot be read, is malformed, or was measured on another machine.
pub fn in_force(prefix: Option<&Path>) -> Result<(PathCosts, TuningSource), TuningError> {
    let (tuning, source) = file_in_force(prefix)?;
    Ok((tuning.applied(), source))
}

/// The costs of collectives in force on this machine, as for [`in_force`].
///
/// # Errors
/// Those of [`in_force`].
pub fn collective_in_force(
    prefix: Option<&Path>,
) -> Result<(CollectiveCosts, TuningSource), TuningError> {
    let (tuning, source) = file_in_force(prefix)?;
    Ok((tuning.applied_to_collectives(), source))
}

/// The content of the file in force; empty if there is none.
fn file_in_force(prefix: Option<&Path>) -> Result<(Tuning, TuningSource), TuningError> {
    let text = tunables::TUNING.text();
    let file = match text.as_str() {
        "off" => None,
        "auto" => {
            let mut folders = folders(&|name| std::env::var_os(name), prefix);
            folders.retain(|folder| folder.is_dir());
            if folders.is_empty() {
                None
            } else {
                let name = machine_key(&Identity::read()) + ".toml";
                let mut files = folders.iter().map(|folder| folder.join(&name));
                files.find(|file| file.exists())
            }
        }
        file => Some(PathBuf::from(file)),
    };
    let Some(file) = file else {
        return Ok((Tuning::default(), TuningSource::Shipped));
    };
    let tuning = Tuning::read(&file)?;
    tuning.check(&Identity::read(), &file)?;
    Ok((tuning, TuningSource::File(file)))
}

impl fmt::Display for Tuning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "version = {VERSION}\n\n[machine]")?;
        for (name, value) in parts(&self.machine) {
            writeln!(f, "{name} = {}", Quoted(value))?;
        }
        for (level, path, cost) in &self.costs {
            writeln!(f, "\n[{}.{}]", level_name(*level), path.name())?;
            writeln!(f, "start_ns = {}", cost.start_ns)?;
            write_spans(f, cost)?;
            writeln!(f, "piece_ns = {}", cost.piece_ns)?;
            writeln!(f, "sender = {}", cost.sender)?;
            writeln!(f, "receiver = {}", cost.receiver)?;
        }
        self.collective.fmt(f)
    }
}

#[cfg(test)]
mod tests;

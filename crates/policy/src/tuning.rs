//! The tuning file: what the ways cost on one machine, as `mica tune` measured it.
//!
//! Text in a line-oriented subset of TOML, for people to read and to correct:
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
//! ```
//!
//! A level and way without a section keeps the shipped figures. The library reads the file when a job starts, so whatever is
//! in it, the answer is costs that can be used, or an error that names the file, the line and what is wrong there.

use std::ffi::OsString;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use mica_node::identity::Identity;
use mica_node::topology::Level;
use mica_node::tunables;

use crate::costs::{Cost, Costs, LEVELS, SPANS, Span, Way, level_from_name, level_name};

/// The version of the format.
pub const VERSION: u32 = 1;

/// No tuning file is longer.
const BYTES_MAX: u64 = 1 << 20;

/// A tuning file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TuningError {
    /// It cannot be read.
    #[error("tuning file {}: {reason}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// What the system says.
        reason: std::io::Error,
    },
    /// A line of it is wrong.
    #[error("tuning file {}, line {line}: {what}", file.display())]
    Line {
        /// The file.
        file: PathBuf,
        /// The line, from 1 on.
        line: usize,
        /// What is wrong, with its value.
        what: String,
    },
    /// It is another machine's.
    #[error(
        "tuning file {} is of another machine: its {part} is {theirs:?}, here it is {ours:?}; run `mica tune` here",
        file.display()
    )]
    OtherMachine {
        /// The file.
        file: PathBuf,
        /// In what the machines differ.
        part: &'static str,
        /// What the file says.
        theirs: String,
        /// What this machine says.
        ours: String,
    },
}

/// What a tuning file says.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tuning {
    /// The machine that it was measured on.
    pub machine: Identity,
    /// The costs that were measured; each pair of level and way at most once.
    pub costs: Vec<(Level, Way, Cost)>,
}

impl Tuning {
    /// Reads the text of a file; `file` is for messages.
    ///
    /// # Errors
    /// [`TuningError::Line`] for the first line that is wrong.
    pub fn parse(text: &str, file: &Path) -> Result<Tuning, TuningError> {
        Parser::run(text).map_err(|(line, what)| TuningError::Line {
            file: file.to_owned(),
            line,
            what,
        })
    }

    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read, or a line of it is wrong.
    pub fn read(file: &Path) -> Result<Tuning, TuningError> {
        let failed = |reason| TuningError::Read {
            file: file.to_owned(),
            reason,
        };
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

    /// The shipped costs with the measured ones in their place.
    pub fn applied(&self) -> Costs {
        let mut costs = Costs::default();
        for &(level, way, cost) in &self.costs {
            costs.set(level, way, cost);
        }
        costs
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

/// The name of a machine's tuning file without its suffix: the processor's name in letters that any file system takes, and a
/// hash (FNV-1a, 64 bits) of all of the description.
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

/// Where tuning files are: the user's folder and the installation's, as far as they are known. `variable` looks up the
/// environment, `prefix` is the folder that Mica is installed in. The first is where `mica tune` writes to.
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

/// Where the costs in force come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// They are shipped.
    Shipped,
    /// This file has them.
    File(PathBuf),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Shipped => write!(f, "shipped defaults"),
            Source::File(file) => write!(f, "{}", file.display()),
        }
    }
}

/// The costs in force on this machine: those of the file that `MICA_TUNING` names, else of this machine's file in the first
/// of [`folders`] that has it, else the shipped ones. Reads files, and where there is a folder of them the machine's
/// description.
///
/// # Errors
/// When the file cannot be read, is malformed, or is another machine's.
pub fn in_force(prefix: Option<&Path>) -> Result<(Costs, Source), TuningError> {
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
        return Ok((Costs::default(), Source::Shipped));
    };
    let tuning = Tuning::read(&file)?;
    tuning.check(&Identity::read(), &file)?;
    Ok((tuning.applied(), Source::File(file)))
}

impl fmt::Display for Tuning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "version = {VERSION}\n\n[machine]")?;
        for (name, value) in parts(&self.machine) {
            writeln!(f, "{name} = {}", Quoted(value))?;
        }
        for (level, way, cost) in &self.costs {
            let list = |values: Vec<String>| format!("[{}]", values.join(", "));
            let from = cost.used_spans().map(|span| span.from.to_string());
            let byte_ns = cost.used_spans().map(|span| span.byte_ns.to_string());
            writeln!(f, "\n[{}.{}]", level_name(*level), way.name())?;
            writeln!(f, "start_ns = {}", cost.start_ns)?;
            writeln!(f, "from = {}", list(from.collect()))?;
            writeln!(f, "byte_ns = {}", list(byte_ns.collect()))?;
            writeln!(f, "piece_ns = {}", cost.piece_ns)?;
            writeln!(f, "sender = {}", cost.sender)?;
            writeln!(f, "receiver = {}", cost.receiver)?;
        }
        Ok(())
    }
}

/// A string as TOML writes it.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"")?;
        for c in self.0.chars() {
            match c {
                '"' | '\\' => write!(f, "\\{c}")?,
                c if c.is_control() => write!(f, "\\u{:04x}", c as u32)?,
                c => write!(f, "{c}")?,
            }
        }
        write!(f, "\"")
    }
}

/// A value in the file.
#[derive(Debug, Clone, PartialEq)]
enum Value {
    Text(String),
    Number(f64),
    List(Vec<f64>),
}

impl Value {
    /// Reads a value and what may follow it: blanks and a comment.
    fn parse(text: &str) -> Result<Value, String> {
        let wrong = || format!("{text:?} is no string, number or list of numbers");
        let (value, rest) = if let Some(inner) = text.strip_prefix('"') {
            let (value, rest) = unquote(inner).ok_or_else(wrong)?;
            (Value::Text(value), rest)
        } else if let Some(inner) = text.strip_prefix('[') {
            let (list, rest) = inner.split_once(']').ok_or_else(wrong)?;
            let list = list.trim().trim_end_matches(',');
            let numbers = list.split(',').map(number).collect::<Option<_>>();
            (Value::List(numbers.ok_or_else(wrong)?), rest)
        } else {
            let end = text.find('#').unwrap_or(text.len());
            let value = number(&text[..end]).ok_or_else(wrong)?;
            (Value::Number(value), &text[end..])
        };
        let rest = rest.trim_start();
        if rest.is_empty() || rest.starts_with('#') {
            Ok(value)
        } else {
            Err(format!("{rest:?} after the value"))
        }
    }
}

fn number(text: &str) -> Option<f64> {
    let value: f64 = text.trim().parse().ok()?;
    value.is_finite().then_some(value)
}

/// The string up to the closing quote, and what follows that.
fn unquote(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.chars();
    loop {
        match chars.next()? {
            '"' => return Some((value, chars.as_str())),
            '\\' => match chars.next()? {
                c @ ('"' | '\\') => value.push(c),
                'u' => {
                    let digits = chars.as_str().get(..4)?;
                    let code = u32::from_str_radix(digits, 16).ok()?;
                    value.push(char::from_u32(code)?);
                    chars = chars.as_str()[4..].chars();
                }
                _ => return None,
            },
            c => value.push(c),
        }
    }
}

/// A section of the file with what has been read of it.
enum Section {
    Top,
    Machine,
    Cost(Level, Way),
}

const COST_KEYS: [&str; 6] = [
    "start_ns", "from", "byte_ns", "piece_ns", "sender", "receiver",
];

struct Parser {
    tuning: Tuning,
    versioned: bool,
    section: Section,
    /// The line of the section's head.
    opened: usize,
    /// The section's keys and values.
    values: Vec<(String, Value)>,
}

/// Line and what is wrong there.
type Wrong = (usize, String);

impl Parser {
    fn run(text: &str) -> Result<Tuning, Wrong> {
        let mut parser = Parser {
            tuning: Tuning::default(),
            versioned: false,
            section: Section::Top,
            opened: 1,
            values: Vec::new(),
        };
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if !line.is_empty() && !line.starts_with('#') {
                parser.line(at + 1, line)?;
            }
        }
        parser.close()?;
        if parser.tuning.machine == Identity::default() {
            return Err((1, "no section [machine]".to_owned()));
        }
        Ok(parser.tuning)
    }

    fn line(&mut self, at: usize, line: &str) -> Result<(), Wrong> {
        if let Some(rest) = line.strip_prefix('[') {
            self.close()?;
            let head = rest.split_once(']').filter(|(_, rest)| {
                let rest = rest.trim_start();
                rest.is_empty() || rest.starts_with('#')
            });
            let (name, _) =
                head.ok_or_else(|| (at, format!("{line:?} is no head of a section")))?;
            self.section = self.head(name.trim()).map_err(|what| (at, what))?;
            self.opened = at;
            return Ok(());
        }
        let Some((key, value)) = line.split_once('=') else {
            return Err((at, format!("{line:?} is neither [SECTION] nor KEY = VALUE")));
        };
        let key = key.trim();
        if self.values.iter().any(|(known, _)| known == key) {
            return Err((at, format!("{key} is given twice")));
        }
        let value = Value::parse(value.trim()).map_err(|what| (at, format!("{key}: {what}")))?;
        self.key(key, &value).map_err(|what| (at, what))?;
        self.values.push((key.to_owned(), value));
        Ok(())
    }

    fn head(&self, name: &str) -> Result<Section, String> {
        if !self.versioned {
            return Err(format!("no line \"version = {VERSION}\" before [{name}]"));
        }
        if name == "machine" {
            return match self.tuning.machine == Identity::default() {
                true => Ok(Section::Machine),
                false => Err("[machine] is given twice".to_owned()),
            };
        }
        let wanted = || {
            let levels = LEVELS.map(level_name).join(", ");
            let ways = Way::ALL.map(Way::name).join(", ");
            format!(
                "[{name}] is not [machine] nor [LEVEL.WAY] with a level of {levels} and a way of {ways}"
            )
        };
        let (level, way) = name.split_once('.').ok_or_else(wanted)?;
        let level = level_from_name(level).ok_or_else(wanted)?;
        let way = Way::from_name(way).ok_or_else(wanted)?;
        let known = |(l, w, _): &(Level, Way, Cost)| (*l, *w) == (level, way);
        match self.tuning.costs.iter().any(known) {
            true => Err(format!("[{name}] is given twice")),
            false => Ok(Section::Cost(level, way)),
        }
    }

    /// Checks a key of the section, and its value's kind.
    fn key(&mut self, key: &str, value: &Value) -> Result<(), String> {
        let fits = match (&self.section, key, value) {
            (Section::Top, "version", Value::Number(version)) => {
                if *version != f64::from(VERSION) {
                    return Err(format!(
                        "version is {version}: this library reads version {VERSION}"
                    ));
                }
                self.versioned = true;
                true
            }
            (Section::Machine, key, Value::Text(_)) => parts(&Identity::default())
                .iter()
                .any(|(part, _)| *part == key),
            (Section::Cost(..), "from" | "byte_ns", Value::List(list)) => {
                if list.len() > SPANS {
                    return Err(format!("{key} has {} values: at most {SPANS}", list.len()));
                }
                true
            }
            (Section::Cost(..), "from" | "byte_ns", _) => false,
            (Section::Cost(..), key, Value::Number(_)) => COST_KEYS.contains(&key),
            _ => false,
        };
        if fits {
            Ok(())
        } else {
            Err(format!(
                "{key} is no key of this section, or has a value of another kind"
            ))
        }
    }

    /// Ends the section that is open.
    fn close(&mut self) -> Result<(), Wrong> {
        let values = std::mem::take(&mut self.values);
        let result = match self.section {
            Section::Top => Ok(()),
            Section::Machine => machine(&values).map(|machine| self.tuning.machine = machine),
            Section::Cost(level, way) => {
                cost(&values).map(|cost| self.tuning.costs.push((level, way, cost)))
            }
        };
        result.map_err(|what| (self.opened, what))
    }
}

fn machine(values: &[(String, Value)]) -> Result<Identity, String> {
    let text = |key: &str| match values.iter().find(|(known, _)| known == key) {
        Some((_, Value::Text(text))) => Ok(text.clone()),
        _ => Err(format!("no {key} in this section")),
    };
    let machine = Identity {
        processor: text("processor")?,
        processors: text("processors")?,
        caches: text("caches")?,
        kernel: text("kernel")?,
    };
    match machine == Identity::default() {
        true => Err("the machine is not described: all of it is empty".to_owned()),
        false => Ok(machine),
    }
}

fn cost(values: &[(String, Value)]) -> Result<Cost, String> {
    let value = |key: &str| {
        let found = values.iter().find(|(known, _)| known == key);
        found
            .map(|(_, value)| value)
            .ok_or_else(|| format!("no {key} in this section"))
    };
    let number = |key: &str| match value(key)? {
        Value::Number(number) => Ok(*number),
        _ => Err(format!("{key} is no number")),
    };
    let list = |key: &str| match value(key)? {
        Value::List(list) => Ok(list),
        _ => Err(format!("{key} is no list")),
    };
    let (from, byte_ns) = (list("from")?, list("byte_ns")?);
    if from.len() != byte_ns.len() {
        return Err(format!(
            "from has {} values and byte_ns has {}",
            from.len(),
            byte_ns.len()
        ));
    }
    // Bytes beyond this are not exact as numbers of the file.
    let bytes = |from: f64| from.fract() == 0.0 && (0.0..=9e15).contains(&from);
    if let Some(from) = from.iter().find(|&&from| !bytes(from)) {
        return Err(format!("from has {from}: expected a number of bytes"));
    }
    let mut spans = Cost::new(0.0, &[(0, 0.0)]).spans;
    for (span, (&from, &byte_ns)) in spans.iter_mut().zip(from.iter().zip(byte_ns)) {
        *span = Span {
            from: from as u64,
            byte_ns,
        };
    }
    let cost = Cost {
        start_ns: number("start_ns")?,
        spans,
        piece_ns: number("piece_ns")?,
        sender: number("sender")?,
        receiver: number("receiver")?,
    };
    match cost.flaw() {
        Some(flaw) => Err(flaw),
        None => Ok(cost),
    }
}

#[cfg(test)]
mod tests;

//! Parses the text of a tuning file, line by line.

use mica_node::identity::Identity;
use mica_node::topology::Level;

use super::collective::{KEYS, LEVEL_KEYS};
use super::value::{TuningValue, spans};
use super::{Tuning, VERSION, parts};
use crate::costs::{LEVELS, MessagePath, PathCost, SPANS, level_from_name, level_name};

/// A section of the file with the values read from it.
enum TuningSection {
    Top,
    Machine,
    Cost(Level, MessagePath),
    Collective,
    CollectiveLevel(Level),
}

const COST_KEYS: [&str; 6] = ["start_ns", "from", "byte_ns", "piece_ns", "sender", "receiver"];

struct TuningParser {
    tuning: Tuning,
    versioned: bool,
    section: TuningSection,
    /// The line of the section's header.
    opened: usize,
    /// The section's keys and values.
    values: Vec<(String, TuningValue)>,
}

/// A line number and what is invalid there.
pub(super) type Wrong = (usize, String);

/// Parses the text of a file.
pub(super) fn run(text: &str) -> Result<Tuning, Wrong> {
    let mut parser = TuningParser {
        tuning: Tuning::default(),
        versioned: false,
        section: TuningSection::Top,
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

impl TuningParser {
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
        let value =
            TuningValue::parse(value.trim()).map_err(|what| (at, format!("{key}: {what}")))?;
        self.key(key, &value).map_err(|what| (at, what))?;
        self.values.push((key.to_owned(), value));
        Ok(())
    }

    fn head(&self, name: &str) -> Result<TuningSection, String> {
        if !self.versioned {
            return Err(format!("no line \"version = {VERSION}\" before [{name}]"));
        }
        if name == "machine" {
            return match self.tuning.machine == Identity::default() {
                true => Ok(TuningSection::Machine),
                false => Err("[machine] is given twice".to_owned()),
            };
        }
        if name == "collective" {
            return match self.tuning.collective.is_measured() {
                false => Ok(TuningSection::Collective),
                true => Err("[collective] is given twice".to_owned()),
            };
        }
        let wanted = || {
            let levels = LEVELS.map(level_name).join(", ");
            let paths = MessagePath::ALL.map(MessagePath::name).join(", ");
            format!(
                "[{name}] is not [machine], [collective], [collective.LEVEL] nor [LEVEL.PATH] \
                 with a level of {levels} and a path of {paths}"
            )
        };
        let (level, path) = name.split_once('.').ok_or_else(wanted)?;
        if level == "collective" {
            let level = level_from_name(path).ok_or_else(wanted)?;
            let mut levels = self.tuning.collective.levels.iter();
            return match levels.any(|(known, _)| *known == level) {
                false => Ok(TuningSection::CollectiveLevel(level)),
                true => Err(format!("[{name}] is given twice")),
            };
        }
        let level = level_from_name(level).ok_or_else(wanted)?;
        let path = MessagePath::from_name(path).ok_or_else(wanted)?;
        let known = |(l, w, _): &(Level, MessagePath, PathCost)| (*l, *w) == (level, path);
        match self.tuning.costs.iter().any(known) {
            true => Err(format!("[{name}] is given twice")),
            false => Ok(TuningSection::Cost(level, path)),
        }
    }

    /// Checks a key of the section, and its value's type.
    fn key(&mut self, key: &str, value: &TuningValue) -> Result<(), String> {
        let fits = match (&self.section, key, value) {
            (TuningSection::Top, "version", TuningValue::Number(version)) => {
                if *version != f64::from(VERSION) {
                    return Err(format!(
                        "version is {version}: this library reads version {VERSION}"
                    ));
                }
                self.versioned = true;
                true
            }
            (TuningSection::Machine, key, TuningValue::Text(_)) => {
                parts(&Identity::default()).iter().any(|(part, _)| *part == key)
            }
            (
                TuningSection::Cost(..) | TuningSection::CollectiveLevel(_),
                "from" | "byte_ns",
                TuningValue::List(list),
            ) => {
                if list.len() > SPANS {
                    return Err(format!("{key} has {} values: at most {SPANS}", list.len()));
                }
                true
            }
            (TuningSection::Cost(..), "from" | "byte_ns", _) => false,
            (TuningSection::Cost(..), key, TuningValue::Number(_)) => COST_KEYS.contains(&key),
            (TuningSection::Collective, key, TuningValue::Number(_)) => KEYS.contains(&key),
            (TuningSection::CollectiveLevel(_), key, TuningValue::Number(_)) => {
                LEVEL_KEYS.contains(&key)
            }
            _ => false,
        };
        if fits {
            Ok(())
        } else {
            Err(format!("{key} is no key of this section, or has a value of another kind"))
        }
    }

    /// Ends the current section.
    fn close(&mut self) -> Result<(), Wrong> {
        let values = std::mem::take(&mut self.values);
        let result = match self.section {
            TuningSection::Top => Ok(()),
            TuningSection::Machine => machine(&values).map(|machine| self.tuning.machine = machine),
            TuningSection::Cost(level, path) => {
                cost(&values).map(|cost| self.tuning.costs.push((level, path, cost)))
            }
            TuningSection::Collective => self.tuning.collective.read(&values),
            TuningSection::CollectiveLevel(level) => {
                self.tuning.collective.read_level(level, &values)
            }
        };
        result.map_err(|what| (self.opened, what))
    }
}

fn machine(values: &[(String, TuningValue)]) -> Result<Identity, String> {
    let text = |key: &str| match values.iter().find(|(known, _)| known == key) {
        Some((_, TuningValue::Text(text))) => Ok(text.clone()),
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

fn cost(values: &[(String, TuningValue)]) -> Result<PathCost, String> {
    let value = |key: &str| {
        let found = values.iter().find(|(known, _)| known == key);
        found.map(|(_, value)| value).ok_or_else(|| format!("no {key} in this section"))
    };
    let number = |key: &str| match value(key)? {
        TuningValue::Number(number) => Ok(*number),
        _ => Err(format!("{key} is no number")),
    };
    let cost = PathCost {
        start_ns: number("start_ns")?,
        spans: spans(values)?,
        piece_ns: number("piece_ns")?,
        sender: number("sender")?,
        receiver: number("receiver")?,
    };
    match cost.flaw() {
        Some(flaw) => Err(flaw),
        None => Ok(cost),
    }
}

//! Finds a machine's text, sets single values in it, and makes of it the machine that is asked for.

use std::fs;
use std::path::Path;

use serde::Deserialize as _;
use toml::{Table, Value};

use super::chips::ChipMachine;
use super::description::{MachineDescription, SimulatedMachine};
use super::error::MachineError;
use super::{check, old_form};

macro_rules! shipped {
    ($name:literal) => {
        ($name, include_str!(concat!("../machines/", $name, ".toml")))
    };
}

/// The machines that ship with Mica.
const SHIPPED: [(&str, &str); 8] = [
    shipped!("power5-redstorm"),
    shipped!("epyc7742-slingshot"),
    shipped!("xeon8480-ndr"),
    shipped!("x4600"),
    shipped!("upi-2"),
    shipped!("upi-4"),
    shipped!("xgmi-2"),
    shipped!("xgmi-4"),
];

/// Names of the machines that ship with Mica and have this section.
fn shipped_with(section: &str) -> impl Iterator<Item = &'static str> {
    let header = format!("\n[{section}]\n");
    SHIPPED.iter().filter(move |(_, text)| text.contains(&header)).map(|(name, _)| *name)
}

impl SimulatedMachine {
    /// The machine that ships under this name, or the one that this file describes.
    pub fn named(name_or_path: &str) -> Result<SimulatedMachine, MachineError> {
        SimulatedMachine::with(name_or_path, &[])
    }

    /// As [`SimulatedMachine::named`], with each `section.key=value` of `settings` in place of what
    /// the file says.
    pub fn with(name_or_path: &str, settings: &[String]) -> Result<SimulatedMachine, MachineError> {
        MachineText::find(name_or_path, "processor")?.simulated(settings)
    }

    /// The machine that `text` describes, with `settings`; `file` names it in errors.
    pub fn parse(
        text: &str,
        file: &str,
        settings: &[String],
    ) -> Result<SimulatedMachine, MachineError> {
        MachineText::new(text, file).simulated(settings)
    }

    /// Names of the machines that ship with Mica and can be simulated.
    pub fn names() -> impl Iterator<Item = &'static str> {
        shipped_with("processor")
    }
}

impl ChipMachine {
    /// The machine that ships under this name, or the one that this file describes.
    ///
    /// # Errors
    /// If there is none, or its `[chips]` are missing, malformed, out of range, have a pair of
    /// chips linked twice, or are not connected.
    pub fn named(name_or_path: &str) -> Result<ChipMachine, MachineError> {
        MachineText::find(name_or_path, "chips")?.chips()
    }

    /// The machine that `text` describes; `file` names it in errors.
    ///
    /// # Errors
    /// As [`ChipMachine::named`].
    pub fn parse(text: &str, file: &str) -> Result<ChipMachine, MachineError> {
        MachineText::new(text, file).chips()
    }

    /// Names of the machines that ship with Mica and say how their chips are linked.
    pub fn names() -> impl Iterator<Item = &'static str> {
        shipped_with("chips")
    }
}

/// The text of a machine, and what to call it.
struct MachineText {
    text: String,
    file: String,
}

impl MachineText {
    fn new(text: &str, file: &str) -> MachineText {
        MachineText { text: text.to_owned(), file: file.to_owned() }
    }

    /// A shipped machine of this name, else the file at this path. `section` is what is wanted of
    /// it, for the list of names in an error.
    fn find(name_or_path: &str, section: &str) -> Result<MachineText, MachineError> {
        if let Some((name, text)) = SHIPPED.iter().find(|(name, _)| *name == name_or_path) {
            return Ok(MachineText::new(text, name));
        }
        if !Path::new(name_or_path).exists() && !name_or_path.contains('/') {
            return Err(MachineError::NoSuchMachine {
                name: name_or_path.to_owned(),
                shipped: shipped_with(section).collect::<Vec<_>>().join(", "),
            });
        }
        match fs::read_to_string(name_or_path) {
            Ok(text) => Ok(MachineText::new(&text, name_or_path)),
            Err(error) => Err(MachineError::Unreadable {
                file: name_or_path.to_owned(),
                reason: error.to_string(),
            }),
        }
    }

    /// The simulated machine, with `settings` in place of what the text says.
    fn simulated(self, settings: &[String]) -> Result<SimulatedMachine, MachineError> {
        let read = self.description(settings)?;
        let file = &self.file;
        let machine = SimulatedMachine {
            description: read.description,
            processor: section(read.processor, "processor", file)?,
            caches: section(read.caches, "caches", file)?,
            memory: section(read.memory, "memory", file)?,
            prefetch: read.prefetch,
            device: section(read.device, "device", file)?,
            adapter: section(read.adapter, "adapter", file)?,
            network: section(read.network, "network", file)?,
        };
        check::machine(&machine).map_err(|mistake| mistake.of_file(file))?;
        Ok(machine)
    }

    /// The chips of the machine and their links.
    fn chips(self) -> Result<ChipMachine, MachineError> {
        let read = self.description(&[])?;
        let chips = section(read.chips, "chips", &self.file)?;
        let cores = read.processor.map(|processor| processor.cores as usize);
        let machine = ChipMachine::new(read.description, read.source, cores, chips);
        machine.map_err(|mistake| mistake.of_file(&self.file))
    }

    fn description(&self, settings: &[String]) -> Result<MachineDescription, MachineError> {
        let mut table = old_form::renewed(self.table()?);
        for setting in settings {
            set(&mut table, setting)?;
        }
        let values = Value::Table(table);
        let mut track = serde_path_to_error::Track::new();
        let read = serde_path_to_error::Deserializer::new(values, &mut track);
        MachineDescription::deserialize(read).map_err(|error| MachineError::Field {
            file: self.file.clone(),
            field: place(&track.path().to_string()),
            reason: one_line(error.message()),
        })
    }

    fn table(&self) -> Result<Table, MachineError> {
        self.text.parse().map_err(|error: toml::de::Error| MachineError::NotToml {
            file: self.file.clone(),
            line: line_of(&self.text, error.span().map_or(0, |span| span.start)),
            reason: one_line(error.message()),
        })
    }
}

fn section<T>(found: Option<T>, section: &'static str, file: &str) -> Result<T, MachineError> {
    found.ok_or_else(|| MachineError::NoSection { file: file.to_owned(), section })
}

/// The path that serde took to a mistake; "." at the top.
fn place(path: &str) -> String {
    match path {
        "." => "the machine".to_owned(),
        path => path.to_owned(),
    }
}

fn one_line(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn line_of(text: &str, offset: usize) -> usize {
    let before = &text.as_bytes()[..offset.min(text.len())];
    1 + before.iter().filter(|&&byte| byte == b'\n').count()
}

/// Sets one value of `table` by a string `section.key=value`. A value that is no TOML is a string.
fn set(table: &mut Table, setting: &str) -> Result<(), MachineError> {
    let wrong = |reason: &str| MachineError::Setting {
        setting: setting.to_owned(),
        reason: reason.to_owned(),
    };
    let (path, text) = setting.split_once('=').ok_or_else(|| wrong("has no '='"))?;
    let (sections, key) = match path.trim().rsplit_once('.') {
        Some((sections, key)) => (Some(sections), key),
        None => (None, path.trim()),
    };
    if key.is_empty() {
        return Err(wrong("has no key"));
    }
    let mut inside = table;
    for section in sections.iter().flat_map(|sections| sections.split('.')) {
        inside = inside
            .entry(section)
            .or_insert_with(|| Value::Table(Table::new()))
            .as_table_mut()
            .ok_or_else(|| wrong(&format!("'{section}' is not a section")))?;
    }
    inside.insert(key.to_owned(), value(text.trim()));
    Ok(())
}

fn value(text: &str) -> Value {
    let parsed = format!("value = {text}").parse::<Table>().ok();
    parsed
        .and_then(|mut table| table.remove("value"))
        .unwrap_or_else(|| Value::String(text.to_owned()))
}

//! Finds a machine's text, sets single values in it, and makes a [`SimulatedMachine`] of it.

use std::fs;
use std::path::Path;

use serde::Deserialize as _;
use toml::{Table, Value};

use super::{MachineError, SimulatedMachine, check};

macro_rules! shipped {
    ($name:literal) => {
        ($name, include_str!(concat!("../machines/", $name, ".toml")))
    };
}

/// The machines that ship with Mica.
pub(super) const SHIPPED: [(&str, &str); 3] =
    [shipped!("power5-redstorm"), shipped!("epyc7742-slingshot"), shipped!("xeon8480-ndr")];

/// The text of a machine, and what to call it.
pub(super) struct MachineText {
    text: String,
    file: String,
}

impl MachineText {
    pub(super) fn new(text: &str, file: &str) -> MachineText {
        MachineText { text: text.to_owned(), file: file.to_owned() }
    }

    /// A shipped machine of this name, else the file at this path.
    pub(super) fn find(name_or_path: &str) -> Result<MachineText, MachineError> {
        if let Some((name, text)) = SHIPPED.iter().find(|(name, _)| *name == name_or_path) {
            return Ok(MachineText::new(text, name));
        }
        if !Path::new(name_or_path).exists() && !name_or_path.contains('/') {
            return Err(MachineError::NoSuchMachine {
                name: name_or_path.to_owned(),
                shipped: SHIPPED.map(|(name, _)| name).join(", "),
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

    /// The machine, with `settings` in place of what the text says.
    pub(super) fn machine(self, settings: &[String]) -> Result<SimulatedMachine, MachineError> {
        let mut table = self.table()?;
        for setting in settings {
            set(&mut table, setting)?;
        }
        let values = Value::Table(table);
        let mut track = serde_path_to_error::Track::new();
        let read = serde_path_to_error::Deserializer::new(values, &mut track);
        let machine = SimulatedMachine::deserialize(read).map_err(|error| MachineError::Field {
            file: self.file.clone(),
            field: place(&track.path().to_string()),
            reason: one_line(error.message()),
        })?;
        check::machine(&machine).map_err(|mistake| mistake.of_file(&self.file))?;
        Ok(machine)
    }

    fn table(&self) -> Result<Table, MachineError> {
        self.text.parse().map_err(|error: toml::de::Error| MachineError::NotToml {
            file: self.file.clone(),
            line: line_of(&self.text, error.span().map_or(0, |span| span.start)),
            reason: one_line(error.message()),
        })
    }
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

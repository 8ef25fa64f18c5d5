//! What is wrong with a machine's file.

use thiserror::Error;

/// Why there is no such machine. Each is one line.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum MachineError {
    /// Neither a shipped machine nor a file.
    #[error("no machine '{name}': not a file, and not one of {shipped}")]
    NoSuchMachine {
        /// What was asked for.
        name: String,
        /// Names of the machines that there are.
        shipped: String,
    },
    /// The file cannot be read.
    #[error("cannot read the machine file '{file}': {reason}")]
    Unreadable {
        /// Path of the file.
        file: String,
        /// Why, as the system says.
        reason: String,
    },
    /// The file is not TOML.
    #[error("{file}:{line}: not valid TOML: {reason}")]
    NotToml {
        /// Path of the file, or name of the machine.
        file: String,
        /// Line of the mistake, from 1.
        line: usize,
        /// What is wrong there.
        reason: String,
    },
    /// A setting is not `section.key=value`.
    #[error("setting '{setting}': {reason}; write section.key=value")]
    Setting {
        /// The setting.
        setting: String,
        /// What is wrong.
        reason: String,
    },
    /// A field is missing, unknown or of another type.
    #[error("{file}: {field}: {reason}")]
    Field {
        /// Path of the file, or name of the machine.
        file: String,
        /// The field, as `section.key`; the section if a field is missing or unknown.
        field: String,
        /// What is wrong.
        reason: String,
    },
    /// The file says nothing of a part of the machine.
    #[error("{file}: has no section [{section}]")]
    NoSection {
        /// Path of the file, or name of the machine.
        file: String,
        /// The section that is needed.
        section: &'static str,
    },
    /// A value that no machine can have.
    #[error("{file}: {field} = {value}: {reason}")]
    Value {
        /// Path of the file, or name of the machine.
        file: String,
        /// The field, as `section.key`.
        field: String,
        /// Its value.
        value: String,
        /// Why it is not possible.
        reason: String,
    },
}

//! The user's choice of environment variables that ranks inherit.

use std::ffi::{OsStr, OsString};

use serde::{Deserialize, Serialize};

/// Which variables of the launcher's own environment ranks get.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Inherit {
    /// All of it.
    All,
    /// These variables.
    Only(Vec<OsString>),
}

impl Inherit {
    /// Whether a variable of the launcher's environment is passed on.
    pub fn takes(&self, name: &OsStr) -> bool {
        match self {
            Inherit::All => true,
            Inherit::Only(names) => names.iter().any(|known| known == name),
        }
    }
}

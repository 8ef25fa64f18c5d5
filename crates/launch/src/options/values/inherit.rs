//! The user's choice of environment variables that ranks inherit.

use std::ffi::{OsStr, OsString};

use serde::{Deserialize, Serialize};

/// Which variables of the launcher's own environment ranks get.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Inherit {
    /// All of it.
    #[default]
    All,
    /// These variables.
    Only(Vec<OsString>),
    /// All but these variables; `NAME*` means all that begin with NAME.
    Except(Vec<OsString>),
}

impl Inherit {
    /// Whether a variable of the launcher's environment is passed on.
    pub fn takes(&self, name: &OsStr) -> bool {
        match self {
            Inherit::All => true,
            Inherit::Only(names) => names.iter().any(|known| known == name),
            Inherit::Except(patterns) => !patterns.iter().any(|pattern| fits(name, pattern)),
        }
    }
}

fn fits(name: &OsStr, pattern: &OsStr) -> bool {
    match pattern.as_encoded_bytes().strip_suffix(b"*") {
        Some(beginning) => name.as_encoded_bytes().starts_with(beginning),
        None => name == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excepted_variables_stay_here() {
        let except = Inherit::Except(vec!["AWS_*".into(), "TOKEN".into()]);
        let takes = |name: &str| except.takes(OsStr::new(name));
        assert!(takes("PATH") && takes("AWS") && takes("TOKENS"));
        assert!(!takes("AWS_SECRET_ACCESS_KEY") && !takes("AWS_") && !takes("TOKEN"));
    }
}

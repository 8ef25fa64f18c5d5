//! Values of tunables: where they come from (replaced by MPI_T, the environment, the default), and
//! what they are by their kind.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{BadValue, ListValue, OldName, Tunable, TunableKind};

/// The values that were replaced in this process, by the tunables' names.
fn replaced() -> MutexGuard<'static, BTreeMap<&'static str, String>> {
    static REPLACED: Mutex<BTreeMap<&str, String>> = Mutex::new(BTreeMap::new());
    REPLACED.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tunable {
    /// The value in force as text: the [replaced](Self::replace) one, the environment's, or the
    /// default.
    pub fn text(&self) -> String {
        let replaced = replaced().get(self.name).cloned();
        replaced.or_else(|| self.environment()).unwrap_or_else(|| self.default.to_owned())
    }

    /// What the environment says by the variable and by its old names. Of a list these are parts,
    /// the variable's last, which therefore holds where they differ.
    fn environment(&self) -> Option<String> {
        let value = |env| set_variable(env)?.into_string().ok();
        let new = value(self.env);
        if !matches!(self.kind, TunableKind::List(_)) {
            return new.or_else(|| self.old_names.iter().find_map(|old| value(old.env)));
        }
        let old = self.old_names.iter().filter_map(|old| Some(old.in_new_form(&value(old.env)?)));
        let parts: Vec<String> = old.chain(new).collect();
        (!parts.is_empty()).then(|| parts.join(","))
    }

    /// True when the environment sets it, or it was replaced.
    pub fn is_set(&self) -> bool {
        self.variables().any(|env| set_variable(env).is_some())
            || replaced().contains_key(self.name)
    }

    /// The variable, and its old names.
    pub fn variables(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.env).chain(self.old_names.iter().map(|old| old.env))
    }

    /// The old names that the environment has: the variable, and what to set in its place.
    pub fn renamed(&self) -> impl Iterator<Item = (&'static str, String)> {
        self.old_names.iter().filter_map(|old| {
            let value = set_variable(old.env)?;
            let value = old.in_new_form(&value.to_string_lossy());
            Some((old.env, format!("{}={value}", self.env)))
        })
    }

    /// Replaces the value in this process, whatever the environment says, for all who read it from
    /// now on.
    ///
    /// # Errors
    /// When the value does not fit the kind; the earlier one then stays in force.
    pub fn replace(&self, value: &str) -> Result<(), BadValue> {
        let before = replaced().insert(self.name, value.to_owned());
        let checked = self.check();
        if checked.is_err() {
            match before {
                Some(before) => replaced().insert(self.name, before),
                None => replaced().remove(self.name),
            };
        }
        checked
    }

    /// The value in force of a `Bytes` or `Count` tunable.
    ///
    /// # Errors
    /// When the environment holds something that is not a number.
    pub fn number(&self) -> Result<u64, BadValue> {
        let value = self.text();
        self.number_of(&value).ok_or_else(|| self.bad(value, "a number".to_owned()))
    }

    /// [`number`](Self::number), or the default where that is not one.
    pub fn number_or_default(&self) -> u64 {
        let number = self.number().ok().or_else(|| self.number_of(self.default));
        number.expect("the default fits the kind")
    }

    fn number_of(&self, value: &str) -> Option<u64> {
        match self.kind {
            TunableKind::Bytes => parse_bytes(value),
            _ => parse_count(value),
        }
    }

    /// The value in force of a `Threshold`, in bytes; `None` for `auto`.
    ///
    /// # Errors
    /// When the environment holds neither a number nor `auto`.
    pub fn threshold(&self) -> Result<Option<usize>, BadValue> {
        let value = self.text();
        if value == "auto" {
            return Ok(None);
        }
        match parse_bytes(&value) {
            Some(bytes) => Ok(Some(usize::try_from(bytes).unwrap_or(usize::MAX))),
            None => Err(self.bad(value, String::new())),
        }
    }

    /// The value in force of a `Choice` tunable.
    ///
    /// # Errors
    /// When the environment holds none of the choices.
    pub fn choice(&self) -> Result<&'static str, BadValue> {
        let TunableKind::Choice(words) = self.kind else {
            unreachable!("{} is no choice", self.name)
        };
        let value = self.text();
        words
            .iter()
            .find(|w| **w == value)
            .copied()
            .ok_or_else(|| self.bad(value, format!("one of {}", words.join(", "))))
    }

    /// The value in force of a `List` tunable.
    ///
    /// # Errors
    /// When the environment holds something else.
    pub fn list(&self) -> Result<ListValue, BadValue> {
        let TunableKind::List(words) = self.kind else { unreachable!("{} is no list", self.name) };
        let value = self.text();
        words.parse(&value).map_err(|expected| self.bad(value, expected))
    }

    /// The value in force as a number by which ranks compare it: the word's index for a `Choice`,
    /// all indices as one number for a `List`, otherwise the number, saturated to 32 bits.
    ///
    /// # Errors
    /// When the environment holds something that does not fit.
    pub fn code(&self) -> Result<u32, BadValue> {
        self.check()?;
        Ok(self.code_of(&self.text()))
    }

    /// [`code`](Self::code) of the default.
    pub fn code_of_default(&self) -> u32 {
        self.code_of(self.default)
    }

    /// The code of a value that fits.
    fn code_of(&self, value: &str) -> u32 {
        let code = |number: Option<u64>| {
            let code = number.and_then(|number| u32::try_from(number).ok());
            code.unwrap_or(u32::MAX)
        };
        match self.kind {
            TunableKind::Choice(words) => {
                let place = words.iter().position(|word| *word == value);
                place.map_or(u32::MAX, |place| place as u32)
            }
            TunableKind::List(words) => words.parse(value).map_or(u32::MAX, |value| value.code()),
            TunableKind::Count => code(parse_count(value)),
            TunableKind::Bytes | TunableKind::Threshold => code(parse_bytes(value)),
            TunableKind::Path(_) => {
                unreachable!("{} is not compared: files differ within", self.name)
            }
        }
    }

    /// The value with this [`code`](Self::code), as it would be written in the environment.
    pub fn text_of(&self, code: u32) -> String {
        match self.kind {
            TunableKind::Choice(words) => words.get(code as usize).unwrap_or(&"?").to_string(),
            TunableKind::List(words) => words.decode(code).to_string(),
            TunableKind::Threshold if code == u32::MAX => "auto".to_owned(),
            _ => code.to_string(),
        }
    }

    pub(super) fn bad(&self, value: String, expected: String) -> BadValue {
        let expected = match self.kind {
            TunableKind::Bytes => "a number of bytes such as 65536 or 64K".to_owned(),
            TunableKind::Threshold => "a number of bytes such as 65536 or 64K, or auto".to_owned(),
            _ => expected,
        };
        let old = self.renamed().map(|(old, new)| format!(" ({old} is the old name of {new})"));
        let expected = expected + &old.collect::<String>();
        BadValue { env: self.env, value, expected }
    }

    /// Checks the value in force.
    ///
    /// # Errors
    /// When it does not fit the kind.
    pub fn check(&self) -> Result<(), BadValue> {
        match self.kind {
            TunableKind::Choice(_) => self.choice().map(drop),
            TunableKind::List(_) => self.list().map(drop),
            TunableKind::Bytes | TunableKind::Count => self.number().map(drop),
            TunableKind::Threshold => self.threshold().map(drop),
            TunableKind::Path(_) if self.text().is_empty() => {
                Err(self.bad(String::new(), "the path of a file".to_owned()))
            }
            TunableKind::Path(_) => Ok(()),
        }
    }
}

impl OldName {
    /// A value of the old variable, as a value or as a part of the value of the new one.
    fn in_new_form(&self, value: &str) -> String {
        self.entry.map_or(value.to_owned(), |entry| format!("{entry}={value}"))
    }
}

/// The value of an environment variable. An empty one is as if it were not set: scripts clear a
/// variable so (`MICA_CHECK= mpiexec ...`).
pub fn set_variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Parses a number of bytes as users write it: `65536`, `64K`, `2G`. `None` if it is not one.
pub fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let (digits, shift) = match text.char_indices().last()? {
        (at, 'k' | 'K') => (&text[..at], 10),
        (at, 'm' | 'M') => (&text[..at], 20),
        (at, 'g' | 'G') => (&text[..at], 30),
        _ => (text, 0),
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// Parses a number without a unit.
pub(super) fn parse_count(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

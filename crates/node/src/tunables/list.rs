//! A tunable that is a list: a word that holds for all entries, and words for single entries,
//! separated by commas (`MICA_COLL=shared,bcast=binomial`). Of two that name the same entry the
//! later one holds; the first word of each kind is `auto`, which asks for nothing.

/// The words that a list takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListWords {
    /// Those that hold for all entries, `auto` first.
    pub all: &'static [&'static str],
    /// The entries that have words of their own.
    pub entries: &'static [ListEntry],
}

/// An entry of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListEntry {
    /// What stands before the `=`.
    pub name: &'static str,
    /// What may stand after it, `auto` first.
    pub words: &'static [&'static str],
}

/// The value of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListValue {
    kind: ListWords,
    /// Index of the word that holds for all entries, then of each entry's own.
    chosen: Vec<usize>,
}

impl ListWords {
    /// The sets of words in the order of [`ListValue::chosen`].
    fn sets(self) -> impl Iterator<Item = &'static [&'static str]> {
        std::iter::once(self.all).chain(self.entries.iter().map(|entry| entry.words))
    }

    /// Reads a value; the error says what was expected.
    pub(super) fn parse(self, text: &str) -> Result<ListValue, String> {
        let mut chosen = vec![0; 1 + self.entries.len()];
        for part in text.split(',').map(str::trim) {
            let (at, word) = match part.split_once('=') {
                None => (0, part),
                Some((name, word)) => (1 + self.position(name)?, word),
            };
            let words = self.sets().nth(at).unwrap_or_default();
            let found = words.iter().position(|known| *known == word);
            chosen[at] = found.ok_or_else(|| match at.checked_sub(1) {
                None => format!(
                    "one of {}, or NAME=WORD with one of {} as name, not '{part}'",
                    words.join(", "),
                    self.names()
                ),
                Some(entry) => format!(
                    "one of {} for {}, not '{word}'",
                    words.join(", "),
                    self.entries[entry].name
                ),
            })?;
        }
        Ok(ListValue { kind: self, chosen })
    }

    fn position(self, name: &str) -> Result<usize, String> {
        let found = self.entries.iter().position(|entry| entry.name == name);
        found.ok_or_else(|| format!("one of {} before the '=', not '{name}'", self.names()))
    }

    fn names(self) -> String {
        let names: Vec<&str> = self.entries.iter().map(|entry| entry.name).collect();
        names.join(", ")
    }

    /// The value with this [`code`](ListValue::code).
    pub(super) fn decode(self, code: u32) -> ListValue {
        let mut rest = code as usize;
        let mut digits: Vec<usize> = Vec::new();
        for words in self.sets().collect::<Vec<_>>().into_iter().rev() {
            digits.push(rest % words.len());
            rest /= words.len();
        }
        digits.reverse();
        ListValue { kind: self, chosen: digits }
    }
}

impl ListValue {
    /// The word that holds for all entries.
    pub fn all(&self) -> &'static str {
        self.kind.all[self.chosen[0]]
    }

    /// An entry's own word; `None`: there is no such entry.
    pub fn of(&self, name: &str) -> Option<&'static str> {
        let at = self.kind.entries.iter().position(|entry| entry.name == name)?;
        Some(self.kind.entries[at].words[self.chosen[1 + at]])
    }

    /// The value as one number, by which ranks compare it: the indices of the words as the digits
    /// of a number whose bases are the sizes of the sets.
    pub(super) fn code(&self) -> u32 {
        let digits = self.chosen.iter().zip(self.kind.sets());
        digits.fold(0, |code, (&digit, words)| code * words.len() as u32 + digit as u32)
    }
}

impl std::fmt::Display for ListValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let own = self.kind.entries.iter().zip(&self.chosen[1..]).filter(|(_, at)| **at > 0);
        let own: Vec<String> =
            own.map(|(entry, &at)| format!("{}={}", entry.name, entry.words[at])).collect();
        match self.chosen[0] > 0 || own.is_empty() {
            true => f.write_str(&[&[self.all().to_owned()], &own[..]].concat().join(",")),
            false => f.write_str(&own.join(",")),
        }
    }
}

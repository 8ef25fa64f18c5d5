//! What all ranks put before a fence, as one text: Mica's mpiexec gives each node's ranks the same
//! file with it, instead of answering a question of every rank for the value of every other.
//!
//! A line is `KEY=VALUE`. Keys have no `=`, and neither has white space, as PMI-1 demands.

use std::collections::HashMap;

/// The text for these keys and values.
pub fn write<'a>(values: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut text = String::new();
    for (key, value) in values {
        text.push_str(key);
        text.push('=');
        text.push_str(value);
        text.push('\n');
    }
    text
}

/// The values of a text, by key.
#[derive(Debug)]
pub struct ValueTable<'a>(HashMap<&'a str, &'a str>);

impl<'a> ValueTable<'a> {
    /// Reads a text. Lines that are none of a table are passed over: their values are missed later.
    pub fn parse(text: &'a str) -> ValueTable<'a> {
        ValueTable(
            text.lines()
                .filter_map(|line| line.split_once('='))
                .collect(),
        )
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&'a str> {
        self.0.get(key).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_found_by_its_key() {
        let values = [("mica-0-net", "1:ab=c"), ("mica-1-net", ""), ("k", "v")];
        let text = write(values.into_iter());
        let table = ValueTable::parse(&text);
        for (key, value) in values {
            assert_eq!(table.get(key), Some(value));
        }
        assert_eq!(table.get("mica-2-net"), None);
        assert_eq!(ValueTable::parse("damaged\n=\n\n").get("damaged"), None);
    }
}

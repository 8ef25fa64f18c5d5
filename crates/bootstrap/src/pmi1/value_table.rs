//! What all ranks put before a fence, as one file: Mica's mpiexec gives each node's ranks the same
//! one, instead of answering a question of every rank for the value of every other.
//!
//! The file is an index and a text. The text has a line `KEY=VALUE` for each value, in the order of
//! keys; the index has the number of lines, the offset of each, and that of the end of the text, as
//! words of 32 bits in the machine's byte order. So a rank of a large job that talks with few
//! others finds their values by binary search and reads no more of the file than that.
//!
//! Keys have no `=`, and neither has white space, as PMI-1 demands.
//!
//! [`publish`](crate::publish) writes values of the form `COMMON/OWN`. Where all ranks of the
//! job have put the same `COMMON`, the file has it once more, under [`common_key`]: ranks that only
//! need to know whether they agree need not read each other's values.

use std::collections::BTreeMap;

use mica_node::sealed_file::SealedFile;

use crate::long_value;

/// Divides the part of a value that is expected to be the same on all ranks from the rank's own.
pub(crate) const COMMON_END: char = '/';

/// The key of what all ranks have in common under `key`.
pub(crate) fn common_key(key: &str) -> String {
    format!("mica-all-{key}")
}

/// The file for these keys and values, of a job of `ranks` ranks.
pub fn write<'a>(values: impl Iterator<Item = (&'a str, &'a str)>, ranks: u32) -> Vec<u8> {
    let mut lines: BTreeMap<String, &str> = BTreeMap::new();
    // By key without the rank: the common part, and how many ranks have that.
    let mut common: BTreeMap<&str, (&str, u32)> = BTreeMap::new();
    for (key, value) in values {
        lines.insert(key.to_owned(), value);
        let value = value.strip_prefix(long_value::ONE_PART);
        let part = value.and_then(|value| value.split_once(COMMON_END));
        if let (Some((_, name)), Some((part, _))) = (long_value::rank_and_key(key), part) {
            let (first, count) = common.entry(name).or_insert((part, 0));
            *count += u32::from(*first == part);
        }
    }
    let of_all = common.iter().filter(|(_, (_, count))| *count == ranks);
    lines.extend(of_all.map(|(name, (part, _))| (common_key(name), *part)));
    let mut index = vec![lines.len() as u32];
    let mut text = String::new();
    for (key, value) in lines {
        index.push(text.len() as u32);
        text.push_str(&key);
        text.push('=');
        text.push_str(value);
        text.push('\n');
    }
    index.push(text.len() as u32);
    let mut bytes: Vec<u8> = index.iter().flat_map(|word| word.to_ne_bytes()).collect();
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

/// The values of a file, by key.
#[derive(Debug)]
pub struct ValueTable(SealedFile);

impl ValueTable {
    /// The values of a file that [`write()`] made. What is damaged is missed later.
    pub fn new(file: SealedFile) -> ValueTable {
        ValueTable(file)
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        find(&self.0, key)
    }
}

/// Finds the value of `key`. Any bytes are an acceptable file.
fn find<'a>(file: &'a [u8], key: &str) -> Option<&'a str> {
    let word = |at: usize| -> Option<usize> {
        let bytes = file.get(4 * at..)?.first_chunk()?;
        usize::try_from(u32::from_ne_bytes(*bytes)).ok()
    };
    let lines = word(0)?;
    let text = file.get(4 * (lines.checked_add(2)?)..)?;
    let line = |number: usize| -> Option<(&[u8], &[u8])> {
        let line = text.get(word(1 + number)?..word(2 + number)?)?;
        let equals = line.iter().position(|&byte| byte == b'=')?;
        Some((&line[..equals], line[equals + 1..].strip_suffix(b"\n")?))
    };
    let (mut low, mut high) = (0, lines);
    while low < high {
        let middle = low + (high - low) / 2;
        let (name, value) = line(middle)?;
        match name.cmp(key.as_bytes()) {
            std::cmp::Ordering::Equal => return std::str::from_utf8(value).ok(),
            std::cmp::Ordering::Less => low = middle + 1,
            std::cmp::Ordering::Greater => high = middle,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_written_is_found_by_its_key() {
        let values = [("mica-0-net", "1:ab=c"), ("mica-1-net", ""), ("k", "v")];
        let file = write(values.into_iter(), 2);
        for (key, value) in values {
            assert_eq!(find(&file, key), Some(value));
        }
        assert_eq!(find(&file, "mica-2-net"), None);
        assert_eq!(find(&file, "mica-0-ne"), None);
    }

    #[test]
    fn many_values_are_found() {
        let key = |rank: u32| long_value::of_rank(rank, "net");
        let values: Vec<(String, String)> =
            (0..1000).map(|rank| (key(rank), format!("1:a/{rank}"))).collect();
        let file = write(values.iter().map(|(key, value)| (&key[..], &value[..])), 1000);
        for (key, value) in &values {
            assert_eq!(find(&file, key), Some(&value[..]));
        }
        assert_eq!(find(&file, &common_key("net")), Some("a"));
        assert_eq!(find(&file, &key(1000)), None);
    }

    #[test]
    fn common_is_only_what_all_ranks_have_put() {
        let common = |values: &[(&str, &str)], ranks| {
            let file = write(values.iter().copied(), ranks);
            find(&file, "mica-all-net").map(str::to_owned)
        };
        let same = [("mica-0-net", "1:ab/1"), ("mica-1-net", "1:ab/2")];
        assert_eq!(common(&same, 2), Some("ab".to_owned()));
        // The third rank put nothing, or something else, or something without a common part.
        assert_eq!(common(&same, 3), None);
        for odd in ["1:abc/1", "1:ab", "", "2:ab/1"] {
            assert_eq!(common(&[same[0], same[1], ("mica-2-net", odd)], 3), None);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_searched(bytes in prop::collection::vec(0u8..20, 0..80), key in ".{0,4}") {
            let _ = find(&bytes, &key);
        }
    }
}

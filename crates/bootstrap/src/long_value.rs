//! Values of any length in a store of short values: cut into parts, each under a key of its own.
//!
//! The first part stands under the key itself and begins with the number of parts (`3:...`); part
//! `i` stands under `KEY-i`.

use crate::BootstrapError;

/// Longest key that a caller may use: with rank and number of the part it must fit 64 bytes, the
/// least that a PMI offers.
const KEY_MAX: usize = 24;

/// Parts of a value at most; more than this in an answer is no value of ours.
const PARTS_MAX: usize = 100_000;

/// What a value that was not cut begins with.
pub(crate) const ONE_PART: &str = "1:";

/// `rank`'s `key` in a store with one name space for all ranks.
pub(crate) fn of_rank(rank: u32, key: &str) -> String {
    format!("mica-{rank}-{key}")
}

/// Whose value a key in such a store is, and its key; `None` for a key that no rank has put.
pub(crate) fn rank_and_key(name: &str) -> Option<(u32, &str)> {
    let (rank, key) = name.strip_prefix("mica-")?.split_once('-')?;
    Some((rank.parse().ok()?, key))
}

/// Whether the store can hold this value under this key, as [`crate::ProcessManager::put`] says.
pub(crate) fn check(key: &str, value: &str) -> Result<(), BootstrapError> {
    let named = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let short = !key.is_empty() && key.len() <= KEY_MAX;
    let storable = |c: char| c.is_ascii_graphic() && c != ';';
    if short && key.chars().all(named) && value.chars().all(storable) {
        return Ok(());
    }
    Err(BootstrapError::NotStorable {
        key: key.chars().take(80).collect(),
        value: value.chars().take(80).collect(),
    })
}

/// Cuts a value into (key, part) with parts of at most `limit` bytes.
pub(crate) fn cut(key: &str, value: &str, limit: usize) -> Vec<(String, String)> {
    // Room for the number of parts and a colon.
    let room = limit.saturating_sub(8).max(1);
    let parts: Vec<&[u8]> = value.as_bytes().chunks(room).collect();
    let count = parts.len().max(1);
    let text = |part: &[u8]| String::from_utf8_lossy(part).into_owned();
    let first = text(parts.first().copied().unwrap_or_default());
    let rest = parts.iter().enumerate().skip(1);
    std::iter::once((key.to_owned(), format!("{count}:{first}")))
        .chain(rest.map(|(i, part)| (format!("{key}-{i}"), text(part))))
        .collect()
}

/// Joins the parts of a value; `get` reads the value of a key. `None` if the first part does not
/// begin with a count.
pub(crate) fn join(
    key: &str,
    mut get: impl FnMut(&str) -> Result<String, BootstrapError>,
) -> Result<Option<String>, BootstrapError> {
    let first = get(key)?;
    let head = first.split_once(':');
    let head = head.and_then(|(count, part)| Some((count.parse::<usize>().ok()?, part)));
    let Some((count @ 1..=PARTS_MAX, part)) = head else {
        return Ok(None);
    };
    let mut value = part.to_owned();
    for i in 1..count {
        value.push_str(&get(&format!("{key}-{i}"))?);
    }
    Ok(Some(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    #[test]
    fn rejects_unstorable_keys_and_values() {
        check("card", "1:ab/+=").expect("storable");
        check("card", "").expect("storable");
        let long = "k".repeat(KEY_MAX + 1);
        for (key, value) in
            [("", "x"), ("a b", "x"), (&*long, "x"), ("a", "x y"), ("a", "x;"), ("a", "ä")]
        {
            assert!(check(key, value).is_err(), "{key}={value}");
        }
    }

    #[test]
    fn keys_of_ranks_are_told_from_others() {
        assert_eq!(rank_and_key(&of_rank(12, "net-1")), Some((12, "net-1")));
        for other in ["mica-nodes", "mica-all-net", "mica-", "k"] {
            assert_eq!(rank_and_key(other), None);
        }
    }

    #[test]
    fn rejects_first_part_without_count() {
        for bad in ["", "abc", "x:abc", "0:", "999999999:x", "-1:x"] {
            let joined = join("k", |_| Ok(bad.to_owned())).expect("no error");
            assert_eq!(joined, None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn cut_and_join_round_trip(value in "[!-:<-~]{0,5000}", limit in 9usize..2000) {
            let parts: HashMap<String, String> = cut("key", &value, limit).into_iter().collect();
            for part in parts.values() {
                prop_assert!(part.len() <= limit, "{} > {limit}", part.len());
            }
            let joined = join("key", |key| Ok(parts[key].clone())).expect("all there");
            prop_assert_eq!(joined, Some(value));
        }
    }
}

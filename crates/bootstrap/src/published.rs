//! What every rank of a job publishes of itself for the others, read when it is first needed.
//!
//! A rank's value has two parts: one that is expected to be the same on all ranks (settings, the
//! kind of network), and the rank's own (its address). Under Mica's mpiexec a table that the ranks
//! of a node share says at once whether all have the same common part, so that start-up costs a
//! rank nothing for each other rank; under other launchers every value is read here, once.

use crate::manager::{ProcessManager, hex, unhex};
use crate::pmi1::value_table::{COMMON_END, ValueTable, common_key};
use crate::{BootstrapError, long_value};

/// What one rank has published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedValue {
    /// The part that is expected to be the same on all ranks.
    pub common: Vec<u8>,
    /// The rank's own part.
    pub own: Vec<u8>,
}

impl PublishedValue {
    fn to_text(&self) -> String {
        format!("{}{COMMON_END}{}", hex(&self.common), hex(&self.own))
    }

    fn from_text(text: &str) -> Option<PublishedValue> {
        let (common, own) = text.split_once(COMMON_END)?;
        Some(PublishedValue { common: unhex(common)?, own: unhex(own)? })
    }
}

/// What all ranks have published under one key.
#[derive(Debug)]
pub struct PublishedValues {
    key: String,
    source: ValueSource,
}

/// Where the values are.
#[derive(Debug)]
enum ValueSource {
    Table(ValueTable),
    /// By rank.
    Read(Vec<String>),
}

/// Publishes this rank's value under `key` for all ranks of the job. Collective; contains one
/// fence. `key` is used once in the life of a job.
///
/// # Errors
/// When the launcher fails.
pub fn publish(
    manager: &mut dyn ProcessManager,
    key: &str,
    value: &PublishedValue,
) -> Result<PublishedValues, BootstrapError> {
    manager.put(key, &value.to_text())?;
    manager.fence()?;
    let source = match manager.table() {
        Some(table) => ValueSource::Table(table),
        None => {
            let ranks = 0..manager.size();
            let values = ranks.map(|rank| manager.get(rank, key));
            ValueSource::Read(values.collect::<Result<_, _>>()?)
        }
    };
    Ok(PublishedValues { key: key.to_owned(), source })
}

impl PublishedValues {
    /// The common part, if it is known without reading every value that all ranks have the same.
    pub fn common(&self) -> Option<Vec<u8>> {
        match &self.source {
            ValueSource::Table(table) => unhex(table.get(&common_key(&self.key))?),
            ValueSource::Read(_) => None,
        }
    }

    /// The value of `rank`.
    ///
    /// # Errors
    /// If there is none, or not one that [`publish`] writes.
    pub fn of(&self, rank: u32) -> Result<PublishedValue, BootstrapError> {
        let bad = |what: String| BootstrapError::BadRecord { rank, what };
        let text = match &self.source {
            ValueSource::Read(values) => values
                .get(rank as usize)
                .cloned()
                .ok_or_else(|| bad("is no rank of the job".to_owned()))?,
            ValueSource::Table(table) => {
                let name = long_value::of_rank(rank, &self.key);
                let part = |part: &str| match table.get(part) {
                    Some(value) => Ok(value.to_owned()),
                    None => Err(bad(format!("published nothing under {part}"))),
                };
                long_value::join(&name, part)?.ok_or_else(|| {
                    bad(format!("published {name} in parts that Mica never makes"))
                })?
            }
        };
        PublishedValue::from_text(&text).ok_or_else(|| {
            let key = &self.key;
            bad(format!("published under {key} what Mica never writes: {text:.80}"))
        })
    }
}

/// Every rank gives bytes and gets those of all ranks, in the order of ranks (its own included).
/// Collective; contains one fence. `key` is used once in the life of a job.
///
/// # Errors
/// When the launcher fails, or a rank's value is not what `exchange` writes.
pub fn exchange(
    manager: &mut dyn ProcessManager,
    key: &str,
    own: &[u8],
) -> Result<Vec<Vec<u8>>, BootstrapError> {
    let value = PublishedValue { common: Vec::new(), own: own.to_vec() };
    let all = publish(manager, key, &value)?;
    let ranks = 0..manager.size();
    ranks.map(|rank| all.of(rank).map(|value| value.own)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pmi1::value_table;
    use mica_node::sealed_file::{self, SealedFile};
    use std::os::fd::AsFd;

    fn value(rank: u32) -> PublishedValue {
        PublishedValue { common: vec![1, 2], own: vec![rank as u8; 5] }
    }

    /// The table that mpiexec makes of what these ranks put, values cut at `limit` bytes.
    fn table(values: &[PublishedValue], limit: usize) -> PublishedValues {
        let cut = |(rank, value): (u32, &PublishedValue)| {
            long_value::cut(&long_value::of_rank(rank, "net"), &value.to_text(), limit)
        };
        let puts: Vec<(String, String)> = (0..).zip(values).flat_map(cut).collect();
        let puts = puts.iter().map(|(key, value)| (&key[..], &value[..]));
        let file = value_table::write(puts, values.len() as u32);
        let file = sealed_file::create(&file).expect("memory");
        PublishedValues {
            key: "net".to_owned(),
            source: ValueSource::Table(ValueTable::new(
                SealedFile::map(file.as_fd()).expect("sealed"),
            )),
        }
    }

    #[test]
    fn table_says_what_all_ranks_have_in_common() {
        let mut values: Vec<PublishedValue> = (0..300).map(value).collect();
        let all = table(&values, 1024);
        assert_eq!(all.common(), Some(vec![1, 2]));
        for (rank, value) in (0..).zip(&values) {
            assert_eq!(&all.of(rank).expect("published"), value);
        }
        assert!(all.of(300).is_err());
        values[299].common = vec![1, 3];
        assert_eq!(table(&values, 1024).common(), None);
    }

    #[test]
    fn values_in_parts_are_joined() {
        let values: Vec<PublishedValue> = (0..3).map(value).collect();
        let all = table(&values, 12);
        for (rank, value) in (0..).zip(&values) {
            assert_eq!(&all.of(rank).expect("published"), value);
        }
        assert_eq!(all.common(), None, "only values of one part are compared");
    }
}

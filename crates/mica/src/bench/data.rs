//! The figures of all rounds, indexed by what they measure.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::run::{BenchRun, FLOOR};
use super::stats::Stats;
use super::suite::Suite;
use crate::draw::text::size;

/// What a figure measures; the figures of all contestants with the same key are comparable.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct FigureKey {
    pub program: String,
    pub measure: String,
    pub ranks: u32,
    /// Values of the program's further keys.
    pub at: Vec<(String, KeyValue)>,
    pub bytes: u64,
}

/// The value of a further key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(untagged)]
pub enum KeyValue {
    Number(i64),
    Text(String),
}

impl KeyValue {
    fn of(value: &Value) -> KeyValue {
        match (value.as_i64(), value.as_str()) {
            (Some(number), _) => KeyValue::Number(number),
            (None, Some(text)) => KeyValue::Text(text.to_owned()),
            (None, None) => KeyValue::Text(value.to_string()),
        }
    }
}

impl From<&toml::Value> for KeyValue {
    fn from(value: &toml::Value) -> KeyValue {
        match (value.as_integer(), value.as_str()) {
            (Some(number), _) => KeyValue::Number(number),
            (None, Some(text)) => KeyValue::Text(text.to_owned()),
            (None, None) => KeyValue::Text(value.to_string()),
        }
    }
}

impl std::fmt::Display for KeyValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            KeyValue::Number(number) => write!(f, "{number}"),
            KeyValue::Text(text) => f.write_str(text),
        }
    }
}

impl FigureKey {
    /// The value of a further key.
    pub fn at(&self, name: &str) -> Option<&KeyValue> {
        let mut pairs = self.at.iter();
        pairs.find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// The position of the figure within its measure: `64 KiB`, `8 ranks`, `depth 10000`.
    pub fn place(&self) -> String {
        let mut parts = Vec::new();
        if self.bytes > 0 {
            parts.push(size(self.bytes));
        }
        parts.extend(self.at.iter().map(|(name, value)| format!("{name} {value}")));
        parts.push(format!("{} ranks", self.ranks));
        parts.join(", ")
    }
}

/// Values of one contestant, each with its round.
type Values = Vec<(usize, f64)>;

/// All figures.
#[derive(Default)]
pub struct FigureTable {
    values: BTreeMap<FigureKey, BTreeMap<String, Values>>,
    units: BTreeMap<FigureKey, String>,
}

impl FigureTable {
    /// Collects the figures of all runs.
    pub fn of(runs: &[BenchRun], suite: &Suite) -> FigureTable {
        let mut data = FigureTable::default();
        for run in runs {
            let program = suite.program(&run.program);
            let keys: Vec<&String> = program.iter().flat_map(|p| p.all_keys()).collect();
            for figure in &run.figures {
                let more = |name: &&String| {
                    let value = figure.more.get(*name)?;
                    Some(((*name).clone(), KeyValue::of(value)))
                };
                let mut key = FigureKey {
                    program: run.program.clone(),
                    measure: figure.measure.clone(),
                    ranks: figure.ranks,
                    at: keys.iter().filter_map(more).collect(),
                    bytes: figure.bytes,
                };
                if let Some((measure, parameter, number)) = suite.parameter(&figure.measure) {
                    key.measure = measure.to_owned();
                    key.at.push((parameter.to_owned(), KeyValue::Number(number)));
                }
                data.units.insert(key.clone(), figure.unit.clone());
                let contestants = data.values.entry(key).or_default();
                let values = contestants.entry(run.contestant.clone()).or_default();
                values.push((run.round, figure.value));
            }
        }
        data
    }

    /// The keys that were measured, without floors, in order.
    pub fn keys(&self) -> impl Iterator<Item = &FigureKey> {
        let all = self.values.iter();
        all.filter(|(_, by)| by.keys().any(|name| name != FLOOR)).map(|(key, _)| key)
    }

    /// The keys of a measure of the floor program, with their figures.
    pub fn floors<'a>(&'a self, measure: &'a str) -> impl Iterator<Item = (&'a FigureKey, Stats)> {
        let all = self.values.keys().filter(move |key| key.measure == measure);
        all.filter_map(|key| Some((key, self.stats(FLOOR, key)?)))
    }

    /// The unit of a figure.
    pub fn unit(&self, key: &FigureKey) -> &str {
        self.units.get(key).map_or("", String::as_str)
    }

    /// A contestant's values of all rounds.
    pub fn values(&self, contestant: &str, key: &FigureKey) -> &[(usize, f64)] {
        let found = self.values.get(key).and_then(|by| by.get(contestant));
        found.map_or(&[], Vec::as_slice)
    }

    /// Statistics of these values.
    pub fn stats(&self, contestant: &str, key: &FigureKey) -> Option<Stats> {
        let values: Vec<f64> = self.values(contestant, key).iter().map(|&(_, v)| v).collect();
        Stats::of(&values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_in_a_name_is_a_key() {
        let text = "[measure.\"matching posted\"]\nparameter = \
            \"depth\"\n[measure.skew]\nparameter = \"c2\"";
        let suite: Suite = toml::from_str(text).unwrap();
        let names = ["matching posted 10", "skew c2=50", "matching posted", "skew x"];
        let run = |name: &&str| crate::bench::results::tests::run(0, "mica", name, 8, 1.0, "us");
        let runs: Vec<BenchRun> = names.iter().map(run).collect();
        let data = FigureTable::of(&runs, &suite);
        let found: Vec<String> =
            data.keys().map(|k| format!("{} ({})", k.measure, k.place())).collect();
        assert_eq!(
            found,
            [
                "matching posted (8 B, 2 ranks)",
                "matching posted (8 B, depth 10, 2 ranks)",
                "skew (8 B, c2 50, 2 ranks)",
                "skew x (8 B, 2 ranks)",
            ]
        );
    }
}

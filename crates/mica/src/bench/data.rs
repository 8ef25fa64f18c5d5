//! The figures of all rounds, indexed by what they measure.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::position::Position;
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

    /// The value that a bar gives to a further key.
    pub fn of_bar(value: &toml::Value) -> KeyValue {
        serde_json::to_value(value).map_or(KeyValue::Text(value.to_string()), |v| KeyValue::of(&v))
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

/// The further key of a figure that says how far apart its ranks' cores lay, in microseconds.
const LINE_US: &str = "line_us";

/// A figure of one contestant.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    pub round: usize,
    pub value: f64,
    /// How far apart the ranks' cores lay, if the program says so.
    line_us: Option<f64>,
}

/// All figures; of those that say how far apart their ranks' cores lay, the ones that can be
/// compared ([`Position`]).
#[derive(Default)]
pub struct FigureTable {
    samples: BTreeMap<FigureKey, BTreeMap<String, Vec<Sample>>>,
    units: BTreeMap<FigureKey, String>,
    positions: BTreeMap<FigureKey, Position>,
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
                let contestants = data.samples.entry(key).or_default();
                let samples = contestants.entry(run.contestant.clone()).or_default();
                samples.push(Sample {
                    round: run.round,
                    value: figure.value,
                    line_us: figure.more.get(LINE_US).and_then(Value::as_f64),
                });
            }
        }
        data.keep_comparable();
        data
    }

    /// Leaves out what was measured in other positions than the common one. Floors stay: they are
    /// chosen by the figure that they bound.
    fn keep_comparable(&mut self) {
        for (key, contestants) in &mut self.samples {
            let times = |samples: &Vec<Sample>| samples.iter().map(|s| s.line_us).collect();
            let launched = contestants.iter().filter(|(name, _)| *name != FLOOR);
            let times: Vec<_> = launched.map(|(_, samples)| times(samples)).collect();
            let Some(position) = Position::common(&times) else { continue };
            for samples in contestants.values_mut() {
                samples.retain(|sample| sample.line_us.is_some_and(|us| position.has(us)));
            }
            self.positions.insert(key.clone(), position);
        }
    }

    /// The keys that were measured, without floors, in order.
    pub fn keys(&self) -> impl Iterator<Item = &FigureKey> {
        let all = self.samples.iter();
        all.filter(|(_, by)| by.keys().any(|name| name != FLOOR)).map(|(key, _)| key)
    }

    /// The keys of a measure of the floor program, with their figures: those in `position`, where
    /// the program says its own.
    pub fn floors<'a>(
        &'a self,
        measure: &'a str,
        position: Option<Position>,
    ) -> impl Iterator<Item = (&'a FigureKey, Stats)> {
        let is_there = move |sample: &&Sample| {
            position.zip(sample.line_us).is_none_or(|(position, us)| position.has(us))
        };
        let all = self.samples.keys().filter(move |key| key.measure == measure);
        all.filter_map(move |key| {
            let there = self.samples(FLOOR, key).iter().filter(is_there);
            let values: Vec<f64> = there.map(|sample| sample.value).collect();
            Some((key, Stats::of(&values)?))
        })
    }

    /// The unit of a figure.
    pub fn unit(&self, key: &FigureKey) -> &str {
        self.units.get(key).map_or("", String::as_str)
    }

    /// Where the launches were that are compared, if all said so.
    pub fn position(&self, key: &FigureKey) -> Option<Position> {
        self.positions.get(key).copied()
    }

    /// A contestant's figures of all rounds.
    pub fn samples(&self, contestant: &str, key: &FigureKey) -> &[Sample] {
        let found = self.samples.get(key).and_then(|by| by.get(contestant));
        found.map_or(&[], Vec::as_slice)
    }

    /// Statistics of these figures.
    pub fn stats(&self, contestant: &str, key: &FigureKey) -> Option<Stats> {
        let values: Vec<f64> = self.samples(contestant, key).iter().map(|s| s.value).collect();
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

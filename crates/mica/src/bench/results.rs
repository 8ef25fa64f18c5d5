//! The table: for each figure all contestants, the floor, the best peer, and Mica's ratio to both.

use std::collections::BTreeMap;

use serde::Serialize;

use super::data::{FigureKey, FigureTable, Sample};
use super::position::Position;
use super::run::{BenchRun, FLOOR};
use super::stats::Stats;
use super::suite::{Better, MICA, Suite};
use crate::draw::text::size;

/// One line of the table.
#[derive(Debug, Clone, Serialize)]
pub struct ResultRow {
    #[serde(flatten)]
    pub key: FigureKey,
    pub unit: String,
    pub better: Better,
    /// Where the launches were that are compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<Position>,
    pub contestants: BTreeMap<String, Stats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floor: Option<Bound>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best_peer: Option<String>,
    /// Mica's median over the best peer's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    /// The same ratio within each round: disturbances of the machine affect both values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_by_round: Option<Stats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floor_ratio: Option<f64>,
}

impl ResultRow {
    /// The key's [place](FigureKey::place), with the position of the launches.
    pub fn place(&self) -> String {
        let position = self.position.map(|position| format!("; {}", position.text()));
        self.key.place() + &position.unwrap_or_default()
    }
}

/// The hardware's limit, in the row's unit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bound {
    pub value: f64,
    pub label: String,
}

/// A kind of run that failed, and how often.
#[derive(Debug, Clone, Serialize)]
pub struct RunFailure {
    pub contestant: String,
    pub program: String,
    pub ranks: u32,
    pub rounds: Vec<usize>,
    pub error: String,
    pub output: String,
}

/// All lines, in the order of the suite.
pub fn rows(data: &FigureTable, suite: &Suite, contestants: &[String]) -> Vec<ResultRow> {
    let mut rows: Vec<ResultRow> =
        data.keys().map(|key| row(data, suite, contestants, key)).collect();
    let position = |row: &ResultRow| suite.programs.iter().position(|p| p.name == row.key.program);
    rows.sort_by_key(position);
    rows
}

fn row(data: &FigureTable, suite: &Suite, contestants: &[String], key: &FigureKey) -> ResultRow {
    let unit = data.unit(key).to_owned();
    let better = suite.better(&key.measure, &unit);
    let stats = contestants.iter().filter_map(|name| Some((name.clone(), data.stats(name, key)?)));
    let stats: BTreeMap<String, Stats> = stats.collect();
    let floor = floor(data, suite, key, &unit);
    let best_peer = best_peer(&stats, better);
    let mica = stats.get(MICA).map(|stats| stats.median);
    let peer = best_peer.as_ref().map(|name| stats[name].median);
    ResultRow {
        ratio: quotient(mica, peer),
        ratio_by_round: best_peer.as_ref().and_then(|name| by_round(data, MICA, name, key)),
        floor_ratio: quotient(mica, floor.as_ref().map(|bound| bound.value)),
        key: key.clone(),
        unit,
        better,
        position: data.position(key),
        contestants: stats,
        floor,
        best_peer,
    }
}

/// `a / b` if both exist and the quotient is meaningful.
pub fn quotient(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    let quotient = a? / b?;
    quotient.is_finite().then_some(quotient)
}

/// The peer with the best median.
fn best_peer(stats: &BTreeMap<String, Stats>, better: Better) -> Option<String> {
    let peers = stats.iter().filter(|(name, _)| !name.starts_with(MICA));
    let by_median =
        |a: &(&String, &Stats), b: &(&String, &Stats)| a.1.median.total_cmp(&b.1.median);
    let best = match better {
        Better::Lower => peers.min_by(by_median),
        Better::Higher => peers.max_by(by_median),
    };
    best.map(|(name, _)| name.clone())
}

/// Ratios of the rounds in which both contestants have a value.
fn by_round(data: &FigureTable, a: &str, b: &str, key: &FigureKey) -> Option<Stats> {
    let others = data.samples(b, key).iter().map(|other| (other.round, other.value));
    let others: BTreeMap<usize, f64> = others.collect();
    let ratio = |own: &Sample| quotient(Some(own.value), others.get(&own.round).copied());
    let ratios: Vec<f64> = data.samples(a, key).iter().filter_map(ratio).collect();
    Stats::of(&ratios)
}

/// The floor of a figure, by the first rule that matches and was measured.
fn floor(data: &FigureTable, suite: &Suite, key: &FigureKey, unit: &str) -> Option<Bound> {
    let mut rules = suite.floors.iter().filter(|rule| {
        rule.measure == key.measure
            && rule.program.as_ref().is_none_or(|name| *name == key.program)
            && rule.ranks.is_none_or(|ranks| ranks == key.ranks)
            && (rule.min_bytes..=rule.max_bytes.unwrap_or(u64::MAX)).contains(&key.bytes)
    });
    rules.find_map(|rule| {
        let bytes = rule.from_bytes.unwrap_or(key.bytes);
        let (from, stats) = data.floors(&rule.from, data.position(key)).find(|(key, _)| {
            key.bytes == bytes && rule.from_ranks.is_none_or(|ranks| ranks == key.ranks)
        })?;
        Some(Bound {
            value: convert(stats.median, data.unit(from), key.bytes, unit)?,
            label: rule.label.clone(),
        })
    })
}

/// Converts a time to the bytes that move in that time, where the figure is a rate.
fn convert(value: f64, from: &str, bytes: u64, unit: &str) -> Option<f64> {
    match (from, unit) {
        (from, unit) if from == unit => Some(value),
        ("us", "MB/s") => Some(bytes as f64 / value),
        ("us", "GB/s") => Some(bytes as f64 / value / 1e3),
        ("us", "messages/s") => Some(1e6 / value),
        _ => None,
    }
}

/// The failed runs, each kind once.
pub fn failures(runs: &[BenchRun]) -> Vec<RunFailure> {
    let mut found: Vec<RunFailure> = Vec::new();
    for run in runs {
        let Some(error) = &run.error else { continue };
        let same = found.iter_mut().find(|other| {
            (&other.contestant, &other.program, other.ranks, &other.error)
                == (&run.contestant, &run.program, run.ranks, error)
        });
        match same {
            Some(failure) => failure.rounds.push(run.round + 1),
            None => found.push(RunFailure {
                contestant: run.contestant.clone(),
                program: run.program.clone(),
                ranks: run.ranks,
                rounds: vec![run.round + 1],
                error: error.clone(),
                output: run.output.clone().unwrap_or_default(),
            }),
        }
    }
    found
}

/// The hardware's own figures as measured.
pub fn hardware(
    data: &FigureTable,
    runs: &[BenchRun],
    suite: &Suite,
) -> Vec<(String, String, Stats)> {
    let mut list = Vec::new();
    let mut measures: Vec<&str> = Vec::new();
    let of_floor = runs.iter().filter(|run| run.contestant == FLOOR);
    for figure in of_floor.flat_map(|run| &run.figures) {
        if !measures.contains(&figure.measure.as_str()) {
            measures.push(&figure.measure);
        }
    }
    for measure in measures {
        for (key, stats) in data.floors(measure, None) {
            let title = suite.measure(measure).title;
            let name = title.unwrap_or_else(|| measure.to_owned());
            let cores = if key.ranks == 1 { "core" } else { "cores" };
            let what = format!("{name}, {}, {} {cores}", size(key.bytes), key.ranks);
            list.push((what, data.unit(key).to_owned(), stats));
        }
    }
    list
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::bench::figure::Figure;

    /// A run with one figure.
    pub fn run(
        round: usize,
        who: &str,
        measure: &str,
        bytes: u64,
        value: f64,
        unit: &str,
    ) -> BenchRun {
        BenchRun {
            round,
            program: if who == FLOOR { "floor" } else { "p" }.to_owned(),
            ranks: 2,
            contestant: who.to_owned(),
            seconds: 1.0,
            figures: vec![Figure {
                measure: measure.to_owned(),
                bytes,
                ranks: 2,
                value,
                unit: unit.to_owned(),
                ..Figure::default()
            }],
            ..BenchRun::default()
        }
    }

    pub fn suite() -> Suite {
        let text = r#"
            [[program]]
            name = "floor"
            floor = true
            [[program]]
            name = "p"
            ranks = [2]
            keys = ["depth"]
            [[floor]]
            measure = "speed"
            from = "copy"
            label = "one copy"
            [[floor]]
            measure = "time"
            max_bytes = 100
            from = "flag"
            from_bytes = 8
            label = "a flag"
        "#;
        toml::from_str(text).unwrap()
    }

    #[test]
    fn the_best_peer_is_by_direction_and_ratios_are_paired_by_round() {
        let mut runs = Vec::new();
        for (round, scale) in [(0, 1.0), (1, 3.0), (2, 1.0)] {
            for (who, time, speed) in [("mica", 1.0, 90.0), ("x", 2.0, 60.0), ("y", 4.0, 30.0)] {
                runs.push(run(round, who, "time", 8, time * scale, "us"));
                runs.push(run(round, who, "speed", 1000, speed / scale, "MB/s"));
            }
            runs.push(run(round, FLOOR, "flag", 8, 0.5, "us"));
            runs.push(run(round, FLOOR, "copy", 1000, 5.0, "us"));
        }
        // A variant does not count as a peer, however good it is.
        runs.push(run(0, "mica+v", "time", 8, 0.1, "us"));
        let suite = suite();
        let data = FigureTable::of(&runs, &suite);
        let names = ["mica", "x", "y", "mica+v"].map(str::to_owned);
        let rows = rows(&data, &suite, &names);
        assert_eq!(rows.len(), 2, "{rows:?}");
        let (speed, time) = (&rows[0], &rows[1]);
        assert_eq!((time.key.measure.as_str(), time.better), ("time", Better::Lower));
        assert_eq!((time.best_peer.as_deref(), time.ratio), (Some("x"), Some(0.5)));
        let paired = time.ratio_by_round.unwrap();
        assert_eq!((paired.min, paired.max, paired.rounds), (0.5, 0.5, 3));
        assert_eq!(time.floor_ratio, Some(2.0));
        assert_eq!((speed.best_peer.as_deref(), speed.ratio), (Some("x"), Some(1.5)));
        assert_eq!(speed.floor.as_ref().unwrap().value, 200.0);
    }

    #[test]
    fn only_launches_in_the_common_position_are_compared() {
        let mut runs = Vec::new();
        let mut add = |round, who, value, line_us: f64| {
            let mut run = run(round, who, "time", 8, value, "us");
            run.figures[0].more.insert("line_us".into(), line_us.into());
            runs.push(run);
        };
        for (round, (mica_line, x_line)) in
            [(0.05, 0.2), (0.2, 0.05), (0.2, 0.05), (0.05, 0.05), (0.2, 0.2)]
                .into_iter()
                .enumerate()
        {
            add(round, "mica", 2.0 * mica_line, mica_line);
            add(round, "x", 10.0 * x_line, x_line);
        }
        let suite = suite();
        let rows = rows(&FigureTable::of(&runs, &suite), &suite, &["mica", "x"].map(str::to_owned));
        // The median of all is 0.4 of one and 0.5 of the other: of different positions.
        assert_eq!(rows[0].ratio.map(|ratio| (ratio * 1e3).round()), Some(200.0));
        let place = "8 B, 2 ranks; a line in 0.200 to 0.200 us, 5 of 10 launches";
        assert_eq!((rows[0].place().as_str(), rows[0].contestants["x"].rounds), (place, 2));
        // The last round alone has both there.
        assert_eq!(rows[0].ratio_by_round.unwrap().rounds, 1);
    }

    #[test]
    fn failures_of_a_kind_are_one() {
        let mut runs = vec![run(0, "x", "time", 8, 1.0, "us"); 3];
        for (round, run) in runs.iter_mut().enumerate() {
            run.round = round;
        }
        runs[0].error = Some("exit code 1".into());
        runs[2].error = Some("exit code 1".into());
        let found = failures(&runs);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].rounds, [1, 3]);
    }
}

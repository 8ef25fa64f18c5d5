//! Performance guidelines: checks of a library against itself. An operation should not be slower
//! than others that do the same together (an allreduce than a reduction and a broadcast), and no
//! slower for less data than for more.
//!
//! Both sides are figures of one contestant, in one run. Where a size was not measured, the next
//! larger one is used: that makes the other side slower, so it never creates a violation. A
//! violation exceeds the suite's tolerance, and the interquartile ranges of the two sides do not
//! overlap.

use serde::Serialize;

use super::data::FigureKey;
use super::results::ResultRow;
use super::stats::Stats;
use super::suite::{Better, Guideline, Set, Suite, Term, TermScale};
use crate::draw::text::{size, three_digits};

/// The name of the guideline about sizes.
const MONOTONE: &str = "no slower for less data than for more";

/// The results of the guidelines for all contestants.
#[derive(Debug, Default, Serialize)]
pub struct Findings {
    pub tolerance: f64,
    /// How often each guideline was judged and violated, for each contestant.
    pub tallies: Vec<Tally>,
    pub violations: Vec<Violation>,
}

/// The result of one guideline for one contestant.
#[derive(Debug, PartialEq, Serialize)]
pub struct Tally {
    pub guideline: String,
    pub contestant: String,
    pub judged: usize,
    pub violated: usize,
}

/// An operation that is slower than it should be.
#[derive(Debug, Serialize)]
pub struct Violation {
    pub guideline: String,
    pub contestant: String,
    pub measure: String,
    pub place: String,
    pub unit: String,
    /// The contestant's median.
    pub value: f64,
    /// The figures it is compared with: the sum of these medians.
    pub terms: Vec<ViolationPart>,
    pub reference: f64,
    pub ratio: f64,
}

/// One figure of a violation's other side.
#[derive(Debug, Serialize)]
pub struct ViolationPart {
    pub measure: String,
    pub bytes: u64,
    pub value: f64,
}

/// Judges all guidelines of the suite for these contestants.
pub fn judge(suite: &Suite, rows: &[ResultRow], contestants: &[String]) -> Findings {
    let Some(judging) = &suite.judging else { return Findings::default() };
    let mut findings = Findings { tolerance: judging.tolerance, ..Findings::default() };
    for set in judging.sets.iter().filter_map(|name| suite.set(name)) {
        for contestant in contestants {
            let own = Own::of(rows, set, contestant);
            for guideline in &suite.guidelines {
                own.judge(guideline, &mut findings);
            }
            own.judge_sizes(&mut findings);
        }
    }
    findings
}

/// The times of one contestant in the programs of one set.
struct Own<'a> {
    contestant: &'a str,
    rows: Vec<(&'a ResultRow, &'a Stats)>,
}

impl<'a> Own<'a> {
    fn of(rows: &'a [ResultRow], set: &Set, contestant: &'a str) -> Own<'a> {
        let here = |row: &&ResultRow| set.programs.contains(&row.key.program);
        let times = rows.iter().filter(|row| here(row) && row.better == Better::Lower);
        Own {
            contestant,
            rows: times.filter_map(|row| Some((row, row.contestants.get(contestant)?))).collect(),
        }
    }

    /// Figures of a measure with the same ranks and further keys as another figure.
    fn like(
        &self,
        key: &'a FigureKey,
        measure: &'a str,
    ) -> impl Iterator<Item = (&'a ResultRow, &'a Stats)> {
        let fits = move |other: &FigureKey| {
            other.measure == measure && other.ranks == key.ranks && other.at == key.at
        };
        let all = self.rows.iter().copied();
        all.filter(move |(row, _)| fits(&row.key))
    }

    /// The figure of a term, at the smallest size that is large enough.
    fn term(&self, key: &'a FigureKey, term: &'a Term) -> Option<(&'a ResultRow, &'a Stats)> {
        let least = match term.bytes {
            TermScale::Same => key.bytes,
            TermScale::TimesRanks => key.bytes * u64::from(key.ranks),
            TermScale::OverRanks => key.bytes.div_ceil(u64::from(key.ranks)),
        };
        let enough = self.like(key, &term.measure).filter(|(row, _)| row.key.bytes >= least);
        enough.min_by_key(|(row, _)| row.key.bytes)
    }

    /// Judges one guideline at every size and number of ranks at which both sides were measured.
    fn judge(&self, guideline: &'a Guideline, findings: &mut Findings) {
        for &(row, stats) in &self.rows {
            if row.key.measure != guideline.measure {
                continue;
            }
            let terms = guideline.than.iter().map(|term| self.term(&row.key, term));
            if let Some(terms) = terms.collect::<Option<Vec<_>>>() {
                self.compare(&guideline.text, (row, stats), &terms, findings);
            }
        }
    }

    /// Compares every size with the fastest larger one.
    fn judge_sizes(&self, findings: &mut Findings) {
        for &(row, stats) in &self.rows {
            let larger = self
                .like(&row.key, &row.key.measure)
                .filter(|(other, _)| other.key.bytes > row.key.bytes);
            let fastest = larger.min_by(|a, b| a.1.median.total_cmp(&b.1.median));
            if let Some(fastest) = fastest {
                self.compare(MONOTONE, (row, stats), &[fastest], findings);
            }
        }
    }

    fn compare(
        &self,
        guideline: &str,
        (row, stats): (&ResultRow, &Stats),
        terms: &[(&ResultRow, &Stats)],
        findings: &mut Findings,
    ) {
        let reference: f64 = terms.iter().map(|(_, stats)| stats.median).sum();
        let upper: f64 = terms.iter().map(|(_, stats)| stats.q3).sum();
        let violated = stats.median > reference * (1.0 + findings.tolerance) && stats.q1 > upper;
        let tally = findings.tally(guideline, self.contestant);
        tally.judged += 1;
        if !violated {
            return;
        }
        tally.violated += 1;
        let part = |(row, stats): &(&ResultRow, &Stats)| ViolationPart {
            measure: row.key.measure.clone(),
            bytes: row.key.bytes,
            value: stats.median,
        };
        findings.violations.push(Violation {
            guideline: guideline.to_owned(),
            contestant: self.contestant.to_owned(),
            measure: row.key.measure.clone(),
            place: row.key.place(),
            unit: row.unit.clone(),
            value: stats.median,
            terms: terms.iter().map(part).collect(),
            reference,
            ratio: stats.median / reference,
        });
    }
}

impl Findings {
    fn tally(&mut self, guideline: &str, contestant: &str) -> &mut Tally {
        let known = |tally: &Tally| tally.guideline == guideline && tally.contestant == contestant;
        let at = self.tallies.iter().position(known).unwrap_or_else(|| {
            self.tallies.push(Tally {
                guideline: guideline.to_owned(),
                contestant: contestant.to_owned(),
                judged: 0,
                violated: 0,
            });
            self.tallies.len() - 1
        });
        &mut self.tallies[at]
    }

    /// The names of the guidelines that were judged, each once.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for tally in &self.tallies {
            if !names.contains(&tally.guideline.as_str()) {
                names.push(&tally.guideline);
            }
        }
        names
    }

    /// The table cell for one contestant and one guideline.
    pub fn verdict(&self, guideline: &str, contestant: &str) -> String {
        let mut tallies = self.tallies.iter();
        let found = tallies.find(|t| t.guideline == guideline && t.contestant == contestant);
        match found {
            None => "-".to_owned(),
            Some(tally) if tally.violated == 0 => format!("holds ({})", tally.judged),
            Some(tally) => format!("violated {} of {}", tally.violated, tally.judged),
        }
    }
}

impl Violation {
    /// The other side and its figures, as text.
    pub fn sum(&self) -> String {
        let part = |part: &ViolationPart| {
            let value = three_digits(part.value);
            format!("{} {}: {value}", part.measure, size(part.bytes))
        };
        let parts: Vec<String> = self.terms.iter().map(part).collect();
        parts.join(" + ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::data::FigureTable;
    use crate::bench::results::{rows, tests::run};
    use crate::bench::run::BenchRun;

    const SUITE: &str = r#"
        [[program]]
        name = "p"
        ranks = [2]
        [[program]]
        name = "other"
        ranks = [2]
        [[set]]
        name = "s"
        title = "S"
        programs = ["p"]
        [guidelines]
        tolerance = 0.1
        sets = ["s"]
        [[guideline]]
        text = "allreduce"
        measure = "allreduce"
        than = [{ measure = "reduce" }, { measure = "bcast" }]
        [[guideline]]
        text = "bcast"
        measure = "bcast"
        than = [
            { measure = "scatter", bytes = "over-ranks" },
            { measure = "allgather", bytes = "over-ranks" },
        ]
        [[guideline]]
        text = "allgather"
        measure = "allgather"
        than = [{ measure = "gather" }, { measure = "bcast", bytes = "times-ranks" }]
    "#;

    fn judged(runs: &[BenchRun]) -> Findings {
        let suite: Suite = toml::from_str(SUITE).unwrap();
        let names = ["mica", "x"].map(str::to_owned);
        let rows = rows(&FigureTable::of(runs, &suite), &suite, &names);
        judge(&suite, &rows, &names)
    }

    /// One round of "x": (measure, bytes, microseconds).
    fn figures(list: &[(&str, u64, f64)]) -> Vec<BenchRun> {
        let one =
            |(measure, bytes, value): &(&str, u64, f64)| run(0, "x", measure, *bytes, *value, "us");
        list.iter().map(one).collect()
    }

    #[test]
    fn satisfied_guidelines_are_counted_and_not_listed() {
        let findings = judged(&figures(&[
            ("allreduce", 64, 5.4),
            ("reduce", 64, 3.0),
            ("bcast", 64, 2.0),
            ("scatter", 32, 1.0),
            ("allgather", 32, 1.5),
            ("gather", 32, 1.0),
        ]));
        assert!(findings.violations.is_empty(), "{findings:?}");
        for name in ["allreduce", "bcast", "allgather"] {
            assert_eq!(findings.verdict(name, "x"), "holds (1)");
            assert_eq!(findings.verdict(name, "mica"), "-");
        }
        // Every measure has one size only.
        assert_eq!(findings.names(), ["allreduce", "bcast", "allgather"]);
    }

    #[test]
    fn what_is_slower_than_its_parts_is_listed_with_figures() {
        let findings = judged(&figures(&[
            ("allreduce", 64, 5.6),
            ("reduce", 64, 3.0),
            ("bcast", 64, 2.0),
            ("scatter", 32, 0.5),
            ("allgather", 32, 4.0),
            ("gather", 32, 1.0),
        ]));
        let found: Vec<(&str, f64, f64)> = findings
            .violations
            .iter()
            .map(|v| (v.guideline.as_str(), v.value, v.reference))
            .collect();
        assert_eq!(found, [("allreduce", 5.6, 5.0), ("allgather", 4.0, 3.0)]);
        let first = &findings.violations[0];
        assert_eq!(first.contestant, "x");
        assert_eq!(first.sum(), "reduce 64 B: 3.00 + bcast 64 B: 2.00");
        assert_eq!(findings.verdict("allreduce", "x"), "violated 1 of 1");
    }

    #[test]
    fn missing_size_uses_the_next_larger_one() {
        let mut list = vec![
            ("bcast", 64, 9.0),
            ("scatter", 40, 1.0),
            ("scatter", 80, 1.1),
            ("allgather", 32, 1.0),
        ];
        let findings = judged(&figures(&list));
        assert_eq!(findings.violations.len(), 1, "{findings:?}");
        assert_eq!(findings.violations[0].sum(), "scatter 40 B: 1.00 + allgather 32 B: 1.00");
        // A smaller size does not count: less data may take less time.
        list.retain(|(measure, ..)| *measure != "scatter");
        list.push(("scatter", 8, 1.0));
        let findings = judged(&figures(&list));
        assert_eq!(findings.verdict("bcast", "x"), "-");
    }

    #[test]
    fn less_data_takes_no_longer_than_more() {
        let findings = judged(&figures(&[
            ("alltoall", 8, 1.0),
            ("alltoall", 64, 5.0),
            ("alltoall", 512, 4.8),
            ("alltoall", 4096, 4.0),
        ]));
        let found: Vec<(&str, u64)> =
            findings.violations.iter().map(|v| (v.place.as_str(), v.terms[0].bytes)).collect();
        assert_eq!(found, [("64 B, 2 ranks", 4096), ("512 B, 2 ranks", 4096)]);
        assert_eq!(findings.verdict(MONOTONE, "x"), "violated 2 of 3");
    }

    #[test]
    fn difference_within_noise_is_no_violation() {
        let mut runs = Vec::new();
        for (round, slow) in [8.0, 3.9, 8.0].into_iter().enumerate() {
            runs.push(run(round, "x", "allreduce", 64, slow, "us"));
            runs.push(run(round, "x", "reduce", 64, 3.0, "us"));
            runs.push(run(round, "x", "bcast", 64, 3.0, "us"));
        }
        assert_eq!(judged(&runs).verdict("allreduce", "x"), "holds (1)");
        runs[3].figures[0].value = 7.9;
        assert_eq!(judged(&runs).verdict("allreduce", "x"), "violated 1 of 1");
    }

    #[test]
    fn figures_of_other_sets_other_ranks_and_rates_are_left_alone() {
        let mut runs = figures(&[("allreduce", 64, 9.0), ("reduce", 64, 1.0), ("bcast", 64, 1.0)]);
        runs[1].figures[0].ranks = 4;
        assert_eq!(judged(&runs).verdict("allreduce", "x"), "-");
        runs[1].figures[0].ranks = 2;
        runs[2].program = "other".to_owned();
        assert_eq!(judged(&runs).verdict("allreduce", "x"), "-");
        let mut rate = run(0, "x", "bandwidth", 64, 9.0, "MB/s");
        let mut more = run(0, "x", "bandwidth", 512, 1.0, "MB/s");
        rate.ranks = 2;
        more.ranks = 2;
        assert!(judged(&[rate, more]).tallies.is_empty());
    }
}

//! The results as a table on a terminal and as Markdown.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use serde::Serialize;

use super::bars::Judged;
use super::cache::Misses;
use super::guidelines::{Findings, Violation};
use super::host::HostFacts;
use super::plot::BenchPlot;
use super::results::{ResultRow, RunFailure};
use super::stats::Stats;
use crate::draw::page::{TableCells, columns};
use crate::draw::text::three_digits;
use crate::origin::ResultOrigin;

/// What the table of bars shows.
const BARS_NOTE: &str = "Mica's median, what it is compared with, and the quotient of the two.";

/// Everything that a report shows.
#[derive(Serialize)]
pub struct BenchReport {
    #[serde(skip)]
    pub origin: ResultOrigin,
    pub title: String,
    pub rounds: usize,
    pub contestants: Vec<String>,
    pub host: HostFacts,
    pub rows: Vec<ResultRow>,
    pub bars: Vec<Judged>,
    pub guidelines: Findings,
    pub misses: Vec<Misses>,
    #[serde(skip)]
    pub hardware: Vec<(String, String, Stats)>,
    pub failures: Vec<RunFailure>,
    /// Contestants that are not available, and programs that could not be compiled.
    pub left_out: Vec<String>,
    #[serde(skip)]
    pub plots: Vec<BenchPlot>,
}

/// What a table shows of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableDetail {
    /// The median.
    Medians,
    /// The median, with minimum, quartiles and maximum.
    Spread,
}

impl BenchReport {
    /// For programs.
    pub fn json(&self) -> Result<String, String> {
        self.origin.json(self).map_err(|error| error.to_string())
    }

    /// The tables that are not empty.
    pub fn tables(&self, detail: TableDetail) -> Vec<TableCells> {
        let mut programs: Vec<&str> = Vec::new();
        for row in &self.rows {
            if !programs.contains(&row.key.program.as_str()) {
                programs.push(&row.key.program);
            }
        }
        let figures = programs.iter().map(|program| self.figures(program, detail));
        let mut tables = vec![self.bars()];
        tables.extend(figures);
        tables.extend([self.guidelines(), self.violations()]);
        tables.extend([self.cache(), self.floor(detail)]);
        tables.retain(|cells| !cells.rows.is_empty());
        tables
    }

    fn bars(&self) -> TableCells {
        let loaded = self.host.loaded_text();
        let row = |bar: &Judged| {
            let notes = Some(&bar.note).filter(|note| !note.is_empty());
            let notes: Vec<&str> = notes.into_iter().chain(&loaded).map(String::as_str).collect();
            let verdict = match bar.pass {
                Some(true) if notes.is_empty() => "reached".to_owned(),
                Some(true) => format!("reached; {}", notes.join("; ")),
                Some(false) if notes.is_empty() => "missed".to_owned(),
                Some(false) => format!("missed; {}", notes.join("; ")),
                None => format!("not judged: {}", bar.note),
            };
            vec![
                bar.text.clone(),
                bar.place.clone(),
                value(bar.value, &bar.unit),
                value(bar.reference, &bar.unit),
                bar.against.clone(),
                bar.ratio.map_or_else(|| NO_VALUE.to_owned(), three_digits),
                bar.limit.clone(),
                verdict,
            ]
        };
        TableCells {
            title: "Bars".to_owned(),
            note: match &loaded {
                Some(loaded) => format!(
                    "{BARS_NOTE} {loaded} while this ran: measure again on an idle machine before \
                     a verdict counts."
                ),
                None => BARS_NOTE.to_owned(),
            },
            header: columns("bar | at | mica | reference | against | ratio | limit | verdict"),
            rows: self.bars.iter().map(row).collect(),
        }
    }

    /// The figures of one program, with a column for each contestant that has any.
    fn figures(&self, program: &str, detail: TableDetail) -> TableCells {
        let rows = || self.rows.iter().filter(|row| row.key.program == program);
        let failed = |name: &String, ranks: u32| {
            let mut failures = self.failures.iter();
            failures.any(|f| f.contestant == *name && f.program == program && f.ranks == ranks)
        };
        let takes_part = |name: &&String| {
            rows().any(|row| row.contestants.contains_key(*name) || failed(name, row.key.ranks))
        };
        let contestants: Vec<&String> = self.contestants.iter().filter(takes_part).collect();
        let mut header = columns("measure | at | unit");
        header.extend(contestants.iter().map(|name| name.to_string()));
        header.extend(columns("floor | x floor | best peer | mica / best peer"));
        let row = |row: &ResultRow| {
            let mut cells = vec![row.key.measure.clone(), row.place(), row.unit.clone()];
            for name in &contestants {
                cells.push(match row.contestants.get(*name) {
                    Some(stats) => shown(stats, detail),
                    None if failed(name, row.key.ranks) => "failed".to_owned(),
                    None => NO_VALUE.to_owned(),
                });
            }
            cells.push(row.floor.as_ref().map_or_else(
                || NO_VALUE.to_owned(),
                |bound| format!("{} ({})", three_digits(bound.value), bound.label),
            ));
            cells.push(row.floor_ratio.map_or_else(|| NO_VALUE.to_owned(), three_digits));
            cells.push(row.best_peer.clone().unwrap_or_else(|| NO_VALUE.to_owned()));
            let by_round = row
                .ratio_by_round
                .filter(|stats| detail == TableDetail::Spread && stats.rounds > 1);
            let by_round = by_round.map_or_else(String::new, |stats| {
                format!(" [{}, {}]", three_digits(stats.q1), three_digits(stats.q3))
            });
            let ratio = row.ratio.map_or_else(|| NO_VALUE.to_owned(), three_digits);
            cells.push(ratio + &by_round);
            cells
        };
        let of = match detail {
            TableDetail::Spread => {
                "Medians [minimum, quartiles, maximum] of the rounds; the ratio's quartiles are \
                those of the rounds' own ratios."
            }
            TableDetail::Medians => "Medians of the rounds.",
        };
        without_empty_columns(TableCells {
            title: program.to_owned(),
            note: of.to_owned(),
            header,
            rows: rows().map(row).collect(),
        })
    }

    /// The verdict of every guideline on every contestant.
    fn guidelines(&self) -> TableCells {
        let mut header = columns("guideline");
        header.extend(self.contestants.iter().cloned());
        let row = |guideline: &str| {
            let verdict = |name: &String| self.guidelines.verdict(guideline, name);
            let verdicts = self.contestants.iter().map(verdict);
            [guideline.to_owned()].into_iter().chain(verdicts).collect()
        };
        let names = self.guidelines.names();
        TableCells {
            title: "Guidelines".to_owned(),
            note: format!(
                "What a library should not contradict itself by; how many sizes and numbers of \
                 ranks were judged. Violated means by more than {} %, and by more than the middle \
                 halves of the rounds overlap.",
                three_digits(self.guidelines.tolerance * 100.0)
            ),
            header,
            rows: names.into_iter().map(row).collect(),
        }
    }

    fn violations(&self) -> TableCells {
        let row = |violation: &Violation| {
            vec![
                violation.contestant.clone(),
                violation.guideline.clone(),
                format!("{}, {}", violation.measure, violation.place),
                value(Some(violation.value), &violation.unit),
                violation.sum(),
                value(Some(violation.reference), &violation.unit),
                three_digits(violation.ratio),
            ]
        };
        TableCells {
            title: "Guidelines: violations".to_owned(),
            note: "A size that was not measured is stood for by the next larger one.".to_owned(),
            header: columns("contestant | guideline | at | value | compared with | sum | ratio"),
            rows: self.guidelines.violations.iter().map(row).collect(),
        }
    }

    fn cache(&self) -> TableCells {
        let row = |misses: &Misses| {
            vec![
                misses.name.clone(),
                misses.contestant.clone(),
                three_digits(misses.first_level),
                three_digits(misses.last_level),
                misses.messages.to_string(),
                misses.by.clone(),
            ]
        };
        TableCells {
            title: "Cache misses per message".to_owned(),
            note: "Data misses of sender and receiver together; start and end of the job are not \
                in it."
                .to_owned(),
            header: columns(
                "messages of | contestant | first level | last level | messages | counted by",
            ),
            rows: self.misses.iter().map(row).collect(),
        }
    }

    fn floor(&self, detail: TableDetail) -> TableCells {
        let row = |(name, unit, stats): &(String, String, Stats)| {
            vec![name.clone(), unit.clone(), shown(stats, detail)]
        };
        TableCells {
            title: "The hardware's floor".to_owned(),
            note: "Without MPI, in every round.".to_owned(),
            header: columns("measure | unit | value"),
            rows: self.hardware.iter().map(row).collect(),
        }
    }

    /// The report for a terminal.
    pub fn terminal(&self) -> String {
        let mut text = format!("{}\n{}\n", self.title, self.host.line());
        for cells in self.tables(TableDetail::Medians) {
            let mut table = Table::new();
            table.load_preset(presets::NOTHING);
            table.set_content_arrangement(ContentArrangement::Dynamic);
            // Without a terminal, or with one that reports width 0: wide enough for all columns.
            if table.width().is_none_or(|width| width < 40) {
                table.set_width(180);
            }
            table.set_header(&cells.header);
            table.add_rows(&cells.rows);
            for (index, name) in cells.header.iter().enumerate() {
                let number = self.contestants.contains(name)
                    || ["ratio", "x floor"].contains(&name.as_str());
                if let Some(column) = table.column_mut(index).filter(|_| number) {
                    column.set_cell_alignment(CellAlignment::Right);
                }
            }
            let _ = write!(text, "\n{}\n{}\n", cells.title, table.trim_fmt());
        }
        for line in self.complaints() {
            let _ = write!(text, "\n{line}");
        }
        text.trim_end().to_owned() + "\n"
    }

    /// The report as `summary.md`.
    pub fn markdown(&self) -> String {
        let mut text = format!("# {}\n\n{}.\n\n", self.title, self.host.line());
        let _ = writeln!(
            text,
            "`{}`: {} interleaved rounds. How each run was started and bound is in raw.json.gz.\n",
            self.origin.command, self.rounds
        );
        for (name, version) in &self.host.versions {
            let _ = writeln!(text, "- {name}: {version}");
        }
        for cells in self.tables(TableDetail::Spread) {
            let _ = write!(text, "\n## {}\n\n{}\n\n", cells.title, cells.note);
            let _ = writeln!(text, "| {} |", cells.header.join(" | "));
            let _ = writeln!(text, "|{}", "---|".repeat(cells.header.len()));
            for row in &cells.rows {
                let row: Vec<String> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
                let _ = writeln!(text, "| {} |", row.join(" | "));
            }
        }
        if !self.plots.is_empty() {
            text += "\n## Plots\n\n";
            for plot in &self.plots {
                let _ = writeln!(text, "![{}]({}.svg)", plot.title, plot.name);
            }
        }
        let complaints = self.complaints();
        if !complaints.is_empty() {
            text += "\n## What failed or was left out\n\n";
            for line in complaints {
                let _ = writeln!(text, "- {}", line.replace('\n', "\n  "));
            }
        }
        text
    }

    /// The failures and what was left out, one line each.
    pub fn complaints(&self) -> Vec<String> {
        let failed = self.failures.iter().map(|failure| {
            let RunFailure { contestant, program, ranks, rounds, error, .. } = failure;
            let rounds = rounds.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
            format!("{contestant} failed in {program} ({ranks} ranks), round {rounds}: {error}")
        });
        failed.chain(self.left_out.iter().cloned()).collect()
    }
}

/// What a cell without a value shows.
const NO_VALUE: &str = "-";

/// The table without the columns in which no row has a value: those of floors and peers where there
/// is none.
fn without_empty_columns(mut cells: TableCells) -> TableCells {
    let has_value = |at: usize| cells.rows.iter().any(|row| row[at] != NO_VALUE);
    let kept: Vec<bool> = (0..cells.header.len()).map(has_value).collect();
    for row in cells.rows.iter_mut().chain([&mut cells.header]) {
        let mut kept = kept.iter();
        row.retain(|_| *kept.next().unwrap_or(&true));
    }
    cells
}

fn value(value: Option<f64>, unit: &str) -> String {
    value.map_or_else(|| NO_VALUE.to_owned(), |value| format!("{} {unit}", three_digits(value)))
}

fn shown(stats: &Stats, detail: TableDetail) -> String {
    let median = three_digits(stats.median);
    if detail == TableDetail::Medians || stats.rounds == 1 {
        return median;
    }
    let rest = [stats.min, stats.q1, stats.q3, stats.max].map(three_digits);
    format!("{median} [{}]", rest.join(", "))
}

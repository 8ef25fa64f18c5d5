//! Time by rank and by call: application and MPI time as in ma-2011's Tables 1 to 3.

use super::facts::share;
use super::groups::Groups;
use super::section::{Section, figure};
use super::view::ProfileView;
use crate::draw::bars::{ChartBar, Series, StackedBars, legend};
use crate::draw::page::{Cell, DataTable, columns};
use crate::draw::scale::TickUnit;
use crate::draw::text::{count, percent, time, volume};

/// Up to this number, each rank has a row with its name.
const ROWS: usize = 24;
/// Columns that a chart of ranks has room for.
pub const COLUMNS: usize = 512;
const NS: f64 = 1e-9;
/// Instead of a table of calls without rows.
pub const NO_CALLS: &str = "<p class=\"none\">No MPI call was recorded.</p>";

/// A value for each rank and series, in seconds, as a chart of ranks.
pub struct ByRank<'a> {
    pub name: &'a str,
    pub series: &'a [Series],
    /// For each rank a value for each series.
    pub values: &'a [Vec<f64>],
}

impl ByRank<'_> {
    /// The chart with its legend, its note and its table.
    pub fn html(&self) -> String {
        let groups = Groups::new(self.values.len(), COLUMNS);
        let bars: Vec<ChartBar> =
            (0..groups.count()).map(|group| self.bar(groups, group)).collect();
        let chart = StackedBars {
            name: self.name,
            series: self.series,
            bars: &bars,
            value_label: &|seconds| if seconds == 0.0 { "0".into() } else { time(seconds) },
            ticks: TickUnit::Decimal,
            axis: "rank",
            width: 1000.0,
        };
        let svg = if self.values.len() <= ROWS { chart.rows() } else { chart.columns() };
        let note = groups.note("a bar").map(|note| note + " It shows their mean.");
        figure(&(legend(self.series) + &svg), note.as_deref(), &self.table(groups))
    }

    fn mean(&self, groups: Groups, group: usize) -> Vec<f64> {
        let members = groups.members(group);
        let first = group * groups.size;
        let sum = |series: usize| {
            let ranks = &self.values[first..first + members];
            ranks.iter().map(|rank| rank[series]).sum::<f64>() / members as f64
        };
        (0..self.series.len()).map(sum).collect()
    }

    fn bar(&self, groups: Groups, group: usize) -> ChartBar {
        let values = self.mean(groups, group);
        let sum: f64 = values.iter().sum();
        let word = if groups.members(group) > 1 { "Ranks" } else { "Rank" };
        let mut tip = format!("{word} {}", groups.label(group));
        let parts = self.series.iter().zip(&values).filter(|(_, value)| **value > 0.0);
        for (series, value) in parts {
            let part = percent(value / sum);
            tip += &format!("\n{}: {} ({part})", series.name, time(*value));
        }
        let label = match self.values.len() <= ROWS {
            true => format!("rank {group}"),
            false => groups.short_label(group),
        };
        ChartBar { label, values, tip }
    }

    fn table(&self, groups: Groups) -> String {
        let mut header = columns("rank");
        header.extend(self.series.iter().map(|series| series.name.clone()));
        let row = |group: usize| {
            let mut cells = vec![Cell::number(group as f64, groups.label(group))];
            let values = self.mean(groups, group);
            cells.extend(values.iter().map(|value| Cell::number(*value, time(*value))));
            cells
        };
        DataTable { caption: self.name, header, rows: (0..groups.count()).map(row).collect() }
            .html()
    }
}

/// Application and the largest calls, for each rank.
pub fn by_rank(view: &ProfileView) -> Section {
    let mut series = vec![Series { name: "application".into(), colour: "var(--work)".into() }];
    series.extend(view.series());
    let ranks = view.profile.ranks.iter();
    let mut values: Vec<Vec<f64>> = ranks
        .map(|rank| {
            let mut values = vec![0.0; series.len()];
            values[0] = rank.app_ns.saturating_sub(rank.mpi_ns) as f64 * NS;
            values
        })
        .collect();
    for record in &view.profile.calls {
        values[record.rank as usize][1 + view.hue(&record.call)] += record.time_ns as f64 * NS;
    }
    let chart = ByRank { name: "Time by rank", series: &series, values: &values };
    Section {
        id: "ranks",
        title: "Time by rank",
        question: "Is the work balanced, and which calls fill the rest? Bars of unequal grey mean \
                   unequal work: ranks with less of it wait in MPI.",
        body: chart.html(),
    }
}

/// The calls, those that take longest first.
pub fn by_call(view: &ProfileView) -> Section {
    let longest = view.calls.first().map_or(0, |sum| sum.time_ns);
    let row = |sum: &mica_profile::summary::CallSum| {
        let part = share(sum.time_ns, longest);
        vec![
            Cell::text(&sum.call),
            Cell::number(sum.time_ns as f64, percent(share(sum.time_ns, view.mpi_ns)))
                .with_bar(part, view.call_colour(&sum.call)),
            Cell::number(sum.time_ns as f64, time(sum.time_ns as f64 * NS)),
            Cell::number(sum.count as f64, count(sum.count)),
            Cell::number(f64::from(sum.ranks), sum.ranks.to_string()),
            duration(sum.time_ns / sum.count.max(1)),
            duration(sum.min_ns.min(sum.max_ns)),
            duration(sum.max_ns),
            Cell::number(sum.bytes as f64, volume(sum.bytes as f64)),
            mean_size(sum.bytes, sum.sends),
        ]
    };
    let table = DataTable {
        caption: "Time by call",
        header: columns(
            "call | share of MPI time | time | calls | ranks | mean | \
             shortest | longest | sent | mean size",
        ),
        rows: view.calls.iter().map(row).collect(),
    };
    Section {
        id: "calls",
        title: "Time by call",
        question: "Which MPI functions take the time, in how many calls, and how much do they \
                   send? Times are sums over all ranks.",
        body: if view.calls.is_empty() { NO_CALLS.into() } else { table.html() },
    }
}

/// A cell with a time.
pub fn duration(ns: u64) -> Cell {
    Cell::number(ns as f64, time(ns as f64 * NS))
}

/// A cell with the mean size of what was sent.
pub fn mean_size(bytes: u64, sends: u64) -> Cell {
    match sends {
        0 => Cell::number(-1.0, "\u{2013}"),
        sends => {
            let mean = bytes as f64 / sends as f64;
            Cell::number(mean, volume(mean))
        }
    }
}

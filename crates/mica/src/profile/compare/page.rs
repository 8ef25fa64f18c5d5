//! A [`Comparison`] as one HTML page that needs nothing else.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::super::text::{short, without_folders};
use super::{CallRow, Comparison, Side, percent};
use crate::draw::bars::{ChartBar, Series, StackedBars, legend};
use crate::draw::colour::{THEME, hue};
use crate::draw::page::{self, Cell, DataTable, columns};
use crate::draw::scale::TickUnit;
use crate::draw::text::{count, escape, time, volume};

/// Rows of the tables of calls.
const ROWS: usize = 40;

/// What a row of a table is about: the call, and the site where sites are distinguished.
type RowKey = (String, String);

/// The calls of a side that belong to a row.
#[derive(Debug, Clone, Copy, Default)]
struct CallAmount {
    ms: f64,
    count: u64,
    bytes: u64,
}

impl Comparison {
    /// The page.
    pub fn page(&self) -> String {
        let title = format!("Comparison: {}", self.title());
        let mut html = page::open(&title, &format!("{THEME}{}", page::STYLE));
        let _ = write!(
            html,
            "<body>\n<main>\n<header>\n<p class=\"kicker\">MPI profiles compared</p>\n\
             <h1><code>{}</code></h1>\n",
            escape(&self.title())
        );
        html += &page::sentences("notes", "What ran", &self.what_ran());
        html += "</header>\n";
        html += &page::section(
            "Time",
            "How long does each side take, and how much of that in MPI calls? Means of the ranks; \
             a difference within the smallest and the largest run says nothing.",
            &self.times_html(),
        );
        html += &page::section(
            "Calls",
            "Which functions take longer or shorter? Sums of all ranks.",
            &self.calls("Time by call", |row| (short(&row.call).to_owned(), String::new())),
        );
        html += &page::section(
            "Call sites",
            "And at which lines? A line that moved between two versions of a program has a row for \
             each.",
            &self.calls("Time by call and site", |row| {
                (short(&row.call).to_owned(), row.site.clone())
            }),
        );
        html + "</main>\n</body>\n</html>\n"
    }

    fn times_html(&self) -> String {
        let series = [("computing", "var(--work)".to_owned()), ("MPI", hue(0))];
        let series = series.map(|(name, colour)| Series { name: name.to_owned(), colour });
        let bar = |side: &Side| {
            let mpi = side.mpi_s.median;
            let computing = (side.app_s.median - mpi).max(0.0);
            ChartBar {
                label: side.name.clone(),
                values: vec![computing, mpi],
                tip: format!("{}\ncomputing: {}\nMPI: {}", side.name, time(computing), time(mpi)),
            }
        };
        let bars: Vec<ChartBar> = self.sides.iter().map(bar).collect();
        let chart = StackedBars {
            name: "Time of each side",
            series: &series,
            bars: &bars,
            value_label: &|seconds| if seconds == 0.0 { "0".into() } else { time(seconds) },
            ticks: TickUnit::Decimal,
            axis: "side",
            width: 1000.0,
        };
        let first = self.sides[0].app_s.median;
        let row = |side: &Side| {
            let seconds = |value: f64| Cell::number(value, time(value));
            let range =
                |low: f64, high: f64| Cell::text(format!("{} to {}", time(low), time(high)));
            let ratio = percent(side.app_s.median, first) / 100.0;
            vec![
                Cell::text(&side.name),
                seconds(side.app_s.median),
                range(side.app_s.min, side.app_s.max),
                seconds(side.mpi_s.median),
                range(side.mpi_s.min, side.mpi_s.max),
                Cell::number(side.mpi_percent, format!("{:.1} %", side.mpi_percent)),
                Cell::number(ratio, format!("{ratio:.2}")),
            ]
        };
        let table = DataTable {
            caption: "Application time and MPI time",
            header: columns("side | time | from, to | in MPI | from, to | share | time / first"),
            rows: self.sides.iter().map(row).collect(),
        };
        let figure = format!("<div class=\"figure\">{}</div>\n", chart.rows());
        legend(&series) + &figure + &table.html()
    }

    /// A row for each key that calls have, those that took longest on any side first.
    fn calls(&self, caption: &str, key: impl Fn(&CallRow) -> RowKey) -> String {
        let mut rows: BTreeMap<RowKey, Vec<CallAmount>> = BTreeMap::new();
        for (place, side) in self.sides.iter().enumerate() {
            for row in &side.calls {
                let none = || vec![CallAmount::default(); self.sides.len()];
                let sum = &mut rows.entry(key(row)).or_insert_with(none)[place];
                sum.ms += row.time_ms;
                sum.count += row.count;
                sum.bytes += row.bytes;
            }
        }
        let longest = |sums: &[CallAmount]| sums.iter().map(|sum| sum.ms).fold(0.0, f64::max);
        let mut rows: Vec<(RowKey, Vec<CallAmount>)> = rows.into_iter().collect();
        rows.sort_by(|a, b| longest(&b.1).total_cmp(&longest(&a.1)));
        let most = rows.first().map_or(0.0, |(_, sums)| longest(sums));
        let has_sites = rows.iter().any(|((_, site), _)| !site.is_empty());
        let mut header = vec!["call".to_owned()];
        if has_sites {
            header.push("site".to_owned());
        }
        for side in &self.sides {
            header.extend([format!("{}: time", side.name), "calls".into(), "sent".into()]);
        }
        header.push("last / first".to_owned());
        let left_out = rows.len().saturating_sub(ROWS);
        let cells = rows.into_iter().take(ROWS).map(|((call, site), sums)| {
            let mut cells = vec![Cell::text(call)];
            if has_sites {
                cells.push(Cell::text(without_folders(&site)).with_tip(site));
            }
            for (place, sum) in sums.iter().enumerate() {
                let share = percent(sum.ms, most) / 100.0;
                cells.push(Cell::number(sum.ms, time(sum.ms / 1e3)).with_bar(share, hue(place)));
                cells.push(Cell::number(sum.count as f64, count(sum.count)));
                cells.push(Cell::number(sum.bytes as f64, volume(sum.bytes as f64)));
            }
            let ratio = sums[sums.len() - 1].ms / sums[0].ms;
            cells.push(match ratio.is_finite() {
                true => Cell::number(ratio, format!("{ratio:.2}")),
                false => Cell::text("-"),
            });
            cells
        });
        let table = DataTable { caption, header, rows: cells.collect() };
        let note = match left_out {
            0 => String::new(),
            left_out => format!("<p class=\"note\">{left_out} more rows are left out.</p>\n"),
        };
        table.html() + &note
    }
}

#[cfg(test)]
mod tests {
    use mica_profile::Profile;

    use super::super::summarize;
    use super::*;

    #[test]
    fn sides_have_a_bar_and_columns_each() {
        let mut slower = Profile::example();
        for call in &mut slower.calls {
            call.time_ns *= 3;
        }
        let sides = vec![
            summarize("before <1>".into(), &[Profile::example()]),
            summarize("after".into(), &[slower]),
        ];
        let html = Comparison { sides }.page();
        assert_eq!(html.matches("class=\"hit\"").count(), 2);
        assert!(html.contains("before &lt;1&gt;: time") && html.contains("after: time"), "{html}");
        assert!(html.contains(">3.00</td>"), "{html}");
        assert!(html.contains(">Allreduce</td>") && html.contains("ring.c:40"), "{html}");
        assert!(!html.contains("NaN") && !html.contains("http://"), "{html}");
    }
}

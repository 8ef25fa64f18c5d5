//! [`ScalingRuns`] as one HTML page that needs nothing else.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::super::report::level_colour;
use super::{LEVELS, ScalingRun, ScalingRuns};
use crate::draw::bars::{ChartBar, Series, StackedBars, legend};
use crate::draw::colour::{THEME, hue};
use crate::draw::curves::Curves;
use crate::draw::page::{self, Cell, DataTable, columns};
use crate::draw::scale::TickUnit;
use crate::draw::text::{escape, percent, time};

impl ScalingRuns {
    /// The page.
    pub fn page(&self) -> String {
        let command = self.command.join(" ");
        let title = format!("Scaling: {command}");
        let mut html = page::open(&title, &format!("{THEME}{}", page::STYLE));
        let _ = write!(
            html,
            "<body>\n<main>\n<header>\n<p class=\"kicker\">Scaling of an MPI program</p>\n\
             <h1><code>{}</code></h1>\n<p class=\"where\">{}, {} processors; medians of {} \
             round(s)</p>\n",
            escape(&command),
            escape(&self.host),
            self.runs.first().map_or(0, |run| run.processors),
            self.rounds
        );
        html += &page::sentences("findings", "What stands out", &self.findings);
        html += "</header>\n";
        html += &page::section(
            "Time and speed-up",
            "Does the program get faster with more ranks? Two nodes are virtual, over the loopback \
             network (chai-2009, Figures 2.5 and 2.7).",
            &self.curves_html(),
        );
        html += &page::section(
            "Messages by level",
            "How near are the ranks that exchange messages, at each number of ranks?",
            &self.levels_html(),
        );
        html + "</main>\n</body>\n</html>\n"
    }

    fn curves_html(&self) -> String {
        let mut by_nodes: BTreeMap<usize, Vec<&ScalingRun>> = BTreeMap::new();
        for run in &self.runs {
            by_nodes.entry(run.nodes).or_default().push(run);
        }
        for runs in by_nodes.values_mut() {
            runs.sort_by_key(|run| run.ranks);
        }
        let series = by_nodes.keys().map(|nodes| Series {
            name: if *nodes == 1 { "one node".to_owned() } else { format!("{nodes} nodes") },
            colour: hue(if *nodes == 1 { 0 } else { 5 }),
        });
        let mut series: Vec<Series> = series.collect();
        let points = |value: fn(&ScalingRun) -> f64| -> Vec<Vec<(f64, f64)>> {
            let of = |runs: &Vec<&ScalingRun>| {
                runs.iter().map(|run| (run.ranks as f64, value(run))).collect()
            };
            by_nodes.values().map(of).collect()
        };
        let times = points(|run| run.app_s.median);
        let mut speed_ups = points(|run| run.speed_up);
        let curves = |name: &str, y_label: &dyn Fn(f64) -> String, points: &[Vec<(f64, f64)>]| {
            let chart = Curves {
                name,
                x_name: "ranks",
                y_name: name,
                is_log: true,
                x_label: &|ranks| format!("{ranks}"),
                y_label,
                series: &series,
                points,
            };
            chart.svg()
        };
        let time_chart = curves("time of the slowest rank", &time, &times);
        let ranks = || self.runs.iter().map(|run| run.ranks as f64);
        speed_ups.push(ranks().collect::<Vec<_>>().into_iter().map(|n| (n, n)).collect());
        if let Some(ideal) = speed_ups.last_mut() {
            ideal.sort_by(|a, b| a.0.total_cmp(&b.0));
            ideal.dedup();
        }
        series.push(Series { name: "as many as ranks".into(), colour: hue(7) });
        let name = format!("speed-up, {}", self.base_text());
        let curve = Curves {
            name: &name,
            x_name: "ranks",
            y_name: "speed-up",
            is_log: true,
            x_label: &|ranks| format!("{ranks}"),
            y_label: &|value| format!("{value}"),
            series: &series,
            points: &speed_ups,
        };
        let pair = format!(
            "<div class=\"pair\"><div><h3>Time of the slowest rank</h3>{time_chart}</div>\
             <div><h3>Speed-up, {}</h3>{}</div></div>\n",
            escape(&self.base_text()),
            curve.svg()
        );
        legend(&series) + &pair + &self.table().html()
    }

    fn table(&self) -> DataTable<'static> {
        let row = |run: &ScalingRun| {
            let (low, high) = (time(run.app_s.min), time(run.app_s.max));
            let mut cells = vec![
                Cell::number(run.ranks as f64, run.ranks.to_string()),
                Cell::number(run.nodes as f64, run.nodes.to_string()),
                Cell::number(run.app_s.median, time(run.app_s.median)),
                Cell::text(format!("{low} to {high}")),
                Cell::number(self.normalized(run), format!("{:.3}", self.normalized(run))),
                Cell::number(run.speed_up, format!("{:.2}", run.speed_up)),
                Cell::number(run.mpi_percent, format!("{:.1} %", run.mpi_percent)),
            ];
            cells.push(Cell::text(match run.is_oversubscribed() {
                true => format!("{} ranks on {} processors", run.ranks_here, run.processors),
                false => String::new(),
            }));
            cells
        };
        DataTable {
            caption: "The runs",
            header: columns(
                "ranks | nodes | time | from, to | / one node | speed-up | in MPI | oversubscribed",
            ),
            rows: self.runs.iter().map(row).collect(),
        }
    }

    fn levels_html(&self) -> String {
        let series =
            LEVELS.map(|level| Series { name: level.name().into(), colour: level_colour(level) });
        let bar = |run: &ScalingRun| {
            let values: Vec<f64> = run.level_percent.iter().map(|share| share / 100.0).collect();
            let mut tip = format!("{} ranks on {} node(s)", run.ranks, run.nodes);
            for (level, share) in LEVELS.iter().zip(&values) {
                let _ = write!(tip, "\n{}: {}", level.name(), percent(*share));
            }
            let label = format!("{} ranks, {} node(s)", run.ranks, run.nodes);
            ChartBar { label, values, tip }
        };
        let bars: Vec<ChartBar> = self.runs.iter().map(bar).collect();
        let chart = StackedBars {
            name: "Messages by level",
            series: &series,
            bars: &bars,
            value_label: &|share| format!("{:.0} %", share * 100.0),
            ticks: TickUnit::Decimal,
            axis: "run",
            width: 1000.0,
        };
        format!("{}<div class=\"figure\">{}</div>\n", legend(&series), chart.rows())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::run_of;
    use super::*;

    #[test]
    fn draws_time_speed_up_and_levels() {
        let runs = vec![run_of(1, 1, 100, 1, 0), run_of(2, 1, 50, 1, 0), run_of(4, 2, 75, 1, 0)];
        let html = ScalingRuns::of(vec!["mpiexec".into(), "./a<b".into()], 3, runs).page();
        assert_eq!(html.matches("<svg").count(), 3);
        assert!(html.contains("./a&lt;b") && html.contains("relative to 1 rank"), "{html}");
        assert!(html.contains("4 ranks on 2 processors") && html.contains("oversubscription"));
        assert!(!html.contains("NaN") && !html.contains("inf\""), "{html}");
    }
}

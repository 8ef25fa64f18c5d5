//! Plots: value over size (or ranks, or another key) for each contestant, as self-contained SVG.
//!
//! This chooses what is shown: the axis, one plot for each combination of the other keys, and each
//! contestant's look. A line connects medians; the band behind it is the middle half of the rounds.
//! [`LineChart`] draws them.

use std::collections::{BTreeMap, BTreeSet};

use super::data::{FigureKey, KeyValue};
use super::results::ResultRow;
use super::stats::Stats;
use super::suite::{Better, Suite};
use crate::draw::colour;
use crate::draw::lines::{ChartLine, LineChart, LinePoint, LineStyle};
use crate::draw::text::{short, size, three_digits};

/// One plot.
pub struct BenchPlot {
    /// A file name without extension.
    pub name: String,
    pub title: String,
    /// The quantity on the y axis, and which direction is better.
    pub note: String,
    axis: String,
    series: Vec<PlotSeries>,
}

struct PlotSeries {
    name: String,
    points: Vec<(f64, Stats)>,
}

/// The least number of points for a plot.
const LEAST_POINTS: usize = 3;

/// All plots for these rows.
pub fn plots(rows: &[ResultRow], suite: &Suite) -> Vec<BenchPlot> {
    let mut families: Vec<((&str, &str), Vec<&ResultRow>)> = Vec::new();
    for row in rows {
        let family = (row.key.program.as_str(), row.key.measure.as_str());
        match families.iter_mut().find(|(known, _)| *known == family) {
            Some((_, members)) => members.push(row),
            None => families.push((family, vec![row])),
        }
    }
    let plots = families.iter().flat_map(|(_, rows)| family(rows, suite));
    plots.collect()
}

/// The plots of one measure of one program: one for each combination of keys that are not on the x
/// axis.
fn family(rows: &[&ResultRow], suite: &Suite) -> Vec<BenchPlot> {
    let first = rows[0];
    let measure = suite.measure(&first.key.measure);
    let Some(axis) = measure.axis.clone().or_else(|| varying(rows)) else { return Vec::new() };
    let mut groups: BTreeMap<String, Vec<&ResultRow>> = BTreeMap::new();
    for row in rows {
        groups.entry(rest(&row.key, &axis)).or_default().push(row);
    }
    let enough = groups.into_iter().filter(|(_, rows)| distinct(rows, &axis) >= LEAST_POINTS);
    let plot = |(rest, rows): (String, Vec<&ResultRow>)| {
        let what = measure.title.clone().unwrap_or_else(|| first.key.measure.clone());
        let better = match first.better {
            Better::Lower => "lower",
            Better::Higher => "higher",
        };
        BenchPlot {
            name: file_name(&format!("{} {} {rest}", first.key.program, first.key.measure)),
            title: if rest.is_empty() { what } else { format!("{what} ({rest})") },
            note: format!("{}, {better} is better", first.unit),
            axis: axis.clone(),
            series: series(&rows, &axis),
        }
    };
    enough.map(plot).collect()
}

/// The key that varies most; among equals sizes, then ranks, then a further key that is a number.
fn varying(rows: &[&ResultRow]) -> Option<String> {
    let keys = rows[0].key.at.iter().map(|(name, _)| name.clone());
    let axes = ["bytes".to_owned(), "ranks".to_owned()].into_iter().chain(keys);
    let counted = axes.map(|axis| (distinct(rows, &axis), axis));
    let mut best: Option<(usize, String)> = None;
    for (count, axis) in counted.filter(|(count, _)| *count >= LEAST_POINTS) {
        if best.as_ref().is_none_or(|(most, _)| count > *most) {
            best = Some((count, axis));
        }
    }
    best.map(|(_, axis)| axis)
}

fn distinct(rows: &[&ResultRow], axis: &str) -> usize {
    let values = rows.iter().filter_map(|row| x_of(&row.key, axis));
    values.map(f64::to_bits).collect::<BTreeSet<_>>().len()
}

/// The position of a figure on the axis. Zero cannot be shown on a logarithmic axis.
fn x_of(key: &FigureKey, axis: &str) -> Option<f64> {
    let x = match axis {
        "bytes" => key.bytes as f64,
        "ranks" => f64::from(key.ranks),
        name => match key.at(name)? {
            KeyValue::Number(number) => *number as f64,
            KeyValue::Text(_) => return None,
        },
    };
    (x > 0.0).then_some(x)
}

/// The other keys that identify the figure.
fn rest(key: &FigureKey, axis: &str) -> String {
    let mut parts = Vec::new();
    if axis != "ranks" {
        parts.push(format!("{} ranks", key.ranks));
    }
    if axis != "bytes" && key.bytes > 0 {
        parts.push(size(key.bytes));
    }
    let others = key.at.iter().filter(|(name, _)| name != axis);
    parts.extend(others.map(|(name, value)| format!("{name} {value}")));
    parts.join(", ")
}

fn file_name(text: &str) -> String {
    let keep = |c: char| {
        if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }
    };
    let name: String = text.chars().map(keep).collect();
    let parts: Vec<&str> = name.split('-').filter(|part| !part.is_empty()).collect();
    parts.join("-")
}

/// The floor is drawn first, so that it is behind; Mica last, so that it is in front.
fn series(rows: &[&ResultRow], axis: &str) -> Vec<PlotSeries> {
    let mut lines: BTreeMap<&str, Vec<(f64, Stats)>> = BTreeMap::new();
    for row in rows {
        let Some(x) = x_of(&row.key, axis) else { continue };
        let floor =
            row.floor.as_ref().and_then(|bound| Some(("floor", Stats::of(&[bound.value])?)));
        let all = row.contestants.iter().map(|(name, stats)| (name.as_str(), *stats));
        for (name, stats) in all.chain(floor).filter(|(_, stats)| stats.min > 0.0) {
            lines.entry(name).or_default().push((x, stats));
        }
    }
    let series = lines.into_iter().map(|(name, mut points)| {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let name = name.to_owned();
        PlotSeries { name, points }
    });
    let mut series: Vec<PlotSeries> = series.collect();
    series.sort_by_key(|s| (s.name == "mica", s.name.starts_with("mica"), s.name != "floor"));
    series
}

/// How a contestant's line looks.
fn style(name: &str) -> LineStyle {
    let colour = match name {
        "mica" => colour::BLUE,
        "mpich" => colour::ORANGE,
        "openmpi" => colour::GREEN,
        "impi" => colour::PINK,
        "floor" => colour::GREY,
        name => {
            let variants = [colour::SKY, colour::VERMILION, colour::PURPLE, colour::DARK];
            variants[name.bytes().map(usize::from).sum::<usize>() % variants.len()]
        }
    };
    let width = match name {
        "mica" => 3.0,
        "floor" => 1.5,
        _ => 1.8,
    };
    LineStyle {
        colour,
        width,
        dashed: name == "floor",
        bold: name == "mica",
        marks: name != "floor",
    }
}

impl BenchPlot {
    /// The plot as SVG.
    pub fn svg(&self) -> String {
        let sizes = self.axis == "bytes";
        let chart = LineChart {
            title: &self.title,
            note: &self.note,
            x_name: if sizes { "message size" } else { &self.axis },
            x_label: if sizes { |value| size(value as u64) } else { short },
            lines: self.series.iter().map(|s| s.line(&self.axis)).collect(),
        };
        chart.svg()
    }
}

impl PlotSeries {
    fn line(&self, axis: &str) -> ChartLine<'_> {
        let point = |(place, stats): &(f64, Stats)| {
            let where_at = match axis {
                "bytes" => size(*place as u64),
                axis => format!("{axis} {}", short(*place)),
            };
            LinePoint {
                x: *place,
                low: stats.q1,
                middle: stats.median,
                high: stats.q3,
                title: format!(
                    "{}, {where_at}: {} (middle half {} to {})",
                    self.name,
                    three_digits(stats.median),
                    three_digits(stats.q1),
                    three_digits(stats.q3)
                ),
            }
        };
        ChartLine {
            name: &self.name,
            style: style(&self.name),
            points: self.points.iter().map(point).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::data::FigureTable;
    use crate::bench::results::{rows, tests as made};
    use crate::bench::run::FLOOR;

    #[test]
    fn a_measure_over_sizes_becomes_a_plot() {
        let mut runs = Vec::new();
        for (bytes, time) in [(8, 0.1), (1024, 0.3), (1 << 20, 30.0)] {
            for (who, factor) in [("mica", 1.0), ("x", 2.0)] {
                runs.push(made::run(0, who, "copy time", bytes, time * factor, "us"));
                runs.push(made::run(1, who, "copy time", bytes, time * factor * 1.2, "us"));
            }
        }
        runs.push(made::run(0, "mica", "two sizes", 8, 1.0, "us"));
        runs.push(made::run(0, "mica", "two sizes", 16, 1.0, "us"));
        runs.push(made::run(0, FLOOR, "copy", 8, 1.0, "us"));
        let suite = made::suite();
        let rows = rows(&FigureTable::of(&runs, &suite), &suite, &["mica".into(), "x".into()]);
        let plots = plots(&rows, &suite);
        assert_eq!(plots.len(), 1);
        assert_eq!(plots[0].name, "p-copy-time-2-ranks");
        let svg = plots[0].svg();
        for part in
            ["copy time (2 ranks)", "us, lower is better", "1 MiB", ">mica<", ">x<", "</svg>"]
        {
            assert!(svg.contains(part), "{part}: {svg}");
        }
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert_eq!(svg.matches("<circle").count(), 6);
    }
}

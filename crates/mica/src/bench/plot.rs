//! Plots: value over size (or ranks, or another key) for each contestant, as self-contained SVG.
//!
//! Both axes are logarithmic: message sizes and times span decades, and equal ratios are equal
//! distances. A line connects medians; the band behind it is the middle half of the rounds. Names
//! are at the ends of the lines.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::data::{FigureKey, KeyValue, size};
use super::results::ResultRow;
use super::stats::{Stats, three_digits};
use super::suite::{Better, Suite};

/// One plot.
pub struct Plot {
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

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 430.0;
const LEFT: f64 = 66.0;
const RIGHT: f64 = 112.0;
const TOP: f64 = 64.0;
const BOTTOM: f64 = 52.0;
/// The least vertical distance of two names at the ends of lines.
const NAME_HEIGHT: f64 = 16.0;
/// The least number of points for a plot.
const LEAST_POINTS: usize = 3;

/// All plots for these rows.
pub fn plots(rows: &[ResultRow], suite: &Suite) -> Vec<Plot> {
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
fn family(rows: &[&ResultRow], suite: &Suite) -> Vec<Plot> {
    let first = rows[0];
    let measure = suite.measure(&first.key.measure);
    let Some(axis) = measure.axis.clone().or_else(|| varying(rows)) else {
        return Vec::new();
    };
    let mut groups: BTreeMap<String, Vec<&ResultRow>> = BTreeMap::new();
    for row in rows {
        groups.entry(rest(&row.key, &axis)).or_default().push(row);
    }
    let enough = groups
        .into_iter()
        .filter(|(_, rows)| distinct(rows, &axis) >= LEAST_POINTS);
    let plot = |(rest, rows): (String, Vec<&ResultRow>)| {
        let what = measure
            .title
            .clone()
            .unwrap_or_else(|| first.key.measure.clone());
        let better = match first.better {
            Better::Lower => "lower",
            Better::Higher => "higher",
        };
        Plot {
            name: file_name(&format!(
                "{} {} {rest}",
                first.key.program, first.key.measure
            )),
            title: match rest.is_empty() {
                true => what,
                false => format!("{what} ({rest})"),
            },
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
    let axes = ["bytes".to_owned(), "ranks".to_owned()]
        .into_iter()
        .chain(keys);
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
        if c.is_ascii_alphanumeric() {
            c.to_ascii_lowercase()
        } else {
            '-'
        }
    };
    let name: String = text.chars().map(keep).collect();
    let parts: Vec<&str> = name.split('-').filter(|part| !part.is_empty()).collect();
    parts.join("-")
}

/// The floor is drawn first, so that it is behind; Mica last, so that it is in front.
fn series(rows: &[&ResultRow], axis: &str) -> Vec<PlotSeries> {
    let mut lines: BTreeMap<&str, Vec<(f64, Stats)>> = BTreeMap::new();
    for row in rows {
        let Some(x) = x_of(&row.key, axis) else {
            continue;
        };
        let floor = row
            .floor
            .as_ref()
            .and_then(|bound| Some(("floor", Stats::of(&[bound.value])?)));
        let all = row
            .contestants
            .iter()
            .map(|(name, stats)| (name.as_str(), *stats));
        for (name, stats) in all.chain(floor).filter(|(_, stats)| stats.min > 0.0) {
            lines.entry(name).or_default().push((x, stats));
        }
    }
    let mut series: Vec<PlotSeries> = lines
        .into_iter()
        .map(|(name, mut points)| {
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            let name = name.to_owned();
            PlotSeries { name, points }
        })
        .collect();
    series.sort_by_key(|s| {
        (
            s.name == "mica",
            s.name.starts_with("mica"),
            s.name != "floor",
        )
    });
    series
}

/// Colours that most people can distinguish (Okabe and Ito).
fn colour(name: &str) -> &'static str {
    match name {
        "mica" => "#0072b2",
        "mpich" => "#e69f00",
        "openmpi" => "#009e73",
        "impi" => "#cc79a7",
        "floor" => "#777777",
        name => {
            let variants = ["#56b4e9", "#d55e00", "#8c6bb1", "#4d4d4d"];
            variants[name.bytes().map(usize::from).sum::<usize>() % variants.len()]
        }
    }
}

/// Maps a logarithmic axis to a range of pixels.
struct LogScale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl LogScale {
    fn at(&self, value: f64) -> f64 {
        let span = (self.high / self.low).ln().max(1e-9);
        self.from + (value / self.low).ln() / span * (self.to - self.from)
    }
}

impl Plot {
    /// The plot as SVG.
    pub fn svg(&self) -> String {
        let points = || self.series.iter().flat_map(|s| &s.points);
        let x = LogScale {
            low: points().map(|p| p.0).fold(f64::INFINITY, f64::min),
            high: points().map(|p| p.0).fold(0.0, f64::max),
            from: LEFT + 8.0,
            to: WIDTH - RIGHT,
        };
        let lowest = points().map(|p| p.1.q1).fold(f64::INFINITY, f64::min);
        let highest = points().map(|p| p.1.q3).fold(0.0, f64::max);
        let y = LogScale {
            low: lowest / 1.15,
            high: highest * 1.15,
            from: HEIGHT - BOTTOM,
            to: TOP,
        };
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             width=\"{WIDTH}\" height=\"{HEIGHT}\" font-family=\"system-ui, Helvetica, Arial, \
                 sans-serif\" font-size=\"12\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
             <text x=\"{LEFT}\" y=\"26\" font-size=\"16\" font-weight=\"600\" \
                 fill=\"#111\">{}</text>\n\
             <text x=\"{LEFT}\" y=\"46\" fill=\"#555\">{}</text>\n",
            escape(&self.title),
            escape(&self.note)
        );
        self.axes(&mut svg, &x, &y);
        for series in &self.series {
            series.draw(&mut svg, &x, &y, &self.axis);
        }
        self.names(&mut svg, &y);
        svg + "</svg>\n"
    }

    fn axes(&self, svg: &mut String, x: &LogScale, y: &LogScale) {
        let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
        for value in ticks(y.low, y.high) {
            let at = y.at(value);
            let _ = writeln!(
                svg,
                "<line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\" \
                 stroke=\"#e4e4e4\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#333\">{}</text>",
                LEFT - 8.0,
                at + 4.0,
                short(value)
            );
        }
        let mut places: Vec<f64> = self
            .series
            .iter()
            .flat_map(|s| &s.points)
            .map(|p| p.0)
            .collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        let mut free = f64::NEG_INFINITY;
        for value in places {
            let at = x.at(value);
            let _ = writeln!(
                svg,
                "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{bottom}\" y2=\"{:.1}\" \
                stroke=\"#999\"/>",
                bottom + 5.0
            );
            // A label is drawn only if the previous one leaves room.
            if at >= free {
                let label = self.label(value);
                let _ = writeln!(
                    svg,
                    "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\" \
                    fill=\"#333\">{label}</text>",
                    bottom + 20.0
                );
                free = at + 46.0;
            }
        }
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{bottom}\" y2=\"{bottom}\" stroke=\"#999\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#555\">{}</text>",
            (LEFT + right) / 2.0,
            HEIGHT - 12.0,
            escape(if self.axis == "bytes" {
                "message size"
            } else {
                &self.axis
            })
        );
    }

    fn label(&self, value: f64) -> String {
        match self.axis.as_str() {
            "bytes" => size(value as u64),
            _ => short(value),
        }
    }

    /// Names at the ends of the lines, moved apart where they would overlap.
    fn names(&self, svg: &mut String, y: &LogScale) {
        let ends = self.series.iter().filter_map(|series| {
            let last = series.points.last()?;
            Some((y.at(last.1.median), series.name.as_str()))
        });
        let mut ends: Vec<(f64, &str)> = ends.collect();
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        for i in 1..ends.len() {
            ends[i].0 = ends[i].0.max(ends[i - 1].0 + NAME_HEIGHT);
        }
        // Names that were moved past the bottom edge move back up.
        let mut limit = HEIGHT - BOTTOM;
        for end in ends.iter_mut().rev() {
            end.0 = end.0.min(limit);
            limit = end.0 - NAME_HEIGHT;
        }
        for (at, name) in ends {
            let weight = if name == "mica" { 700 } else { 400 };
            let _ = writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"{:.1}\" fill=\"{}\" font-weight=\"{weight}\">{}</text>",
                WIDTH - RIGHT + 10.0,
                at + 4.0,
                colour(name),
                escape(name)
            );
        }
    }
}

impl PlotSeries {
    fn draw(&self, svg: &mut String, x: &LogScale, y: &LogScale, axis: &str) {
        let colour = colour(&self.name);
        let line = |value: fn(&Stats) -> f64| {
            let at = move |(place, stats): &(f64, Stats)| {
                format!("{:.1},{:.1}", x.at(*place), y.at(value(stats)))
            };
            self.points.iter().map(at).collect::<Vec<_>>()
        };
        let (low, high) = (line(|s| s.q1), line(|s| s.q3));
        let band: Vec<String> = low.into_iter().chain(high.into_iter().rev()).collect();
        let (width, dash) = match self.name.as_str() {
            "mica" => (3.0, ""),
            "floor" => (1.5, " stroke-dasharray=\"5 4\""),
            _ => (1.8, ""),
        };
        let _ = writeln!(
            svg,
            "<polygon points=\"{}\" fill=\"{colour}\" fill-opacity=\"0.14\"/>\
             <polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\" \
             stroke-linejoin=\"round\"{dash}/>",
            band.join(" "),
            line(|s| s.median).join(" ")
        );
        for (place, stats) in self.points.iter().filter(|_| self.name != "floor") {
            let where_at = match axis {
                "bytes" => size(*place as u64),
                axis => format!("{axis} {}", short(*place)),
            };
            let _ = writeln!(
                svg,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.2\" fill=\"{colour}\"><title>{}, \
                 {where_at}: {} (middle half {} to {})</title></circle>",
                x.at(*place),
                y.at(stats.median),
                escape(&self.name),
                three_digits(stats.median),
                three_digits(stats.q1),
                three_digits(stats.q3)
            );
        }
    }
}

/// Round values between `low` and `high`: decades, with 2 and 5 where there are few.
fn ticks(low: f64, high: f64) -> Vec<f64> {
    let decades = (high / low).log10();
    let steps: &[f64] = match decades {
        d if d > 3.0 => &[1.0],
        d if d > 0.7 => &[1.0, 2.0, 5.0],
        _ => &[1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0],
    };
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let all =
        (first..=last).flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power)));
    all.filter(|value| (low..=high).contains(value)).collect()
}

/// `20 k`, `0.5`, `3 M`.
fn short(value: f64) -> String {
    for (unit, factor) in [("G", 1e9), ("M", 1e6), ("k", 1e3)] {
        if value >= factor * 0.9999 {
            return format!("{} {unit}", trimmed(value / factor));
        }
    }
    trimmed(value)
}

fn trimmed(value: f64) -> String {
    let text = three_digits(value);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// Escapes text for XML.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
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
                runs.push(made::run(
                    1,
                    who,
                    "copy time",
                    bytes,
                    time * factor * 1.2,
                    "us",
                ));
            }
        }
        runs.push(made::run(0, "mica", "two sizes", 8, 1.0, "us"));
        runs.push(made::run(0, "mica", "two sizes", 16, 1.0, "us"));
        runs.push(made::run(0, FLOOR, "copy", 8, 1.0, "us"));
        let suite = made::suite();
        let rows = rows(
            &FigureTable::of(&runs, &suite),
            &suite,
            &["mica".into(), "x".into()],
        );
        let plots = plots(&rows, &suite);
        assert_eq!(plots.len(), 1);
        assert_eq!(plots[0].name, "p-copy-time-2-ranks");
        let svg = plots[0].svg();
        for part in [
            "copy time (2 ranks)",
            "us, lower is better",
            "1 MiB",
            ">mica<",
            ">x<",
            "</svg>",
        ] {
            assert!(svg.contains(part), "{part}: {svg}");
        }
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert_eq!(svg.matches("<circle").count(), 6);
    }

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(
            ticks(0.08, 70.0),
            [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0]
        );
        assert_eq!(ticks(1.0, 1e5).len(), 6);
        assert!(ticks(10.0, 14.0).len() >= 2);
        assert_eq!(
            (short(20_000.0).as_str(), short(0.5).as_str()),
            ("20 k", "0.5")
        );
    }
}

//! Points over two axes, for a page that follows the reader's mode. All points of a series are one
//! path of round dots, so that thousands of them stay small.

use std::fmt::Write as _;

use super::bars::{Series, open};
use super::frame::{PlotFrame, TOP, WIDTH, bottom};
use super::scale::{LinearScale, LogScale, TickUnit, log_byte_ticks, log_ticks};

/// How an axis maps values, and of what its ticks are round numbers. A logarithmic one leaves out
/// values that are not above zero.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Axis {
    Linear(TickUnit),
    Log(TickUnit),
}

/// A chart of points.
pub struct Scatter<'a> {
    /// What the chart shows, for those who do not see it.
    pub name: &'a str,
    pub x_name: &'a str,
    pub y_name: &'a str,
    pub x_axis: Axis,
    pub y_axis: Axis,
    pub x_label: &'a dyn Fn(f64) -> String,
    pub y_label: &'a dyn Fn(f64) -> String,
    /// Later ones are in front.
    pub series: &'a [Series],
    /// For each series, its points.
    pub points: &'a [Vec<(f64, f64)>],
}

const HEIGHT: f64 = 300.0;
const MARGIN: f64 = 16.0;
const DOT: f64 = 4.0;

/// An axis with its range.
enum Scale {
    Linear(LinearScale, TickUnit),
    Log(LogScale, TickUnit),
}

impl Scale {
    fn new(axis: Axis, values: impl Iterator<Item = f64>, from: f64, to: f64) -> Scale {
        let (mut low, mut high) = (f64::INFINITY, 0.0f64);
        for value in values.filter(|value| matches!(axis, Axis::Linear(_)) || *value > 0.0) {
            low = low.min(value);
            high = high.max(value);
        }
        match axis {
            Axis::Linear(unit) => Scale::Linear(LinearScale { high, from, to }, unit),
            Axis::Log(unit) if high > 0.0 => {
                Scale::Log(LogScale { low: low / 1.1, high: high * 1.1, from, to }, unit)
            }
            Axis::Log(unit) => Scale::Log(LogScale { low: 1.0, high: 10.0, from, to }, unit),
        }
    }

    fn at(&self, value: f64) -> Option<f64> {
        match self {
            Scale::Linear(scale, _) => Some(scale.at(value)),
            Scale::Log(scale, _) => (value > 0.0).then(|| scale.at(value)),
        }
    }

    fn ticks(&self) -> Vec<f64> {
        match self {
            Scale::Linear(scale, unit) => scale.ticks(6, *unit),
            Scale::Log(scale, TickUnit::Decimal) => log_ticks(scale.low, scale.high),
            Scale::Log(scale, TickUnit::Bytes) => log_byte_ticks(scale.low, scale.high),
        }
    }
}

impl Scatter<'_> {
    /// The chart as SVG.
    pub fn svg(&self) -> String {
        let all = || self.points.iter().flatten();
        let y = Scale::new(self.y_axis, all().map(|p| p.1), bottom(HEIGHT), TOP);
        let labels = y.ticks().into_iter().map(self.y_label);
        let frame = PlotFrame::new(HEIGHT, MARGIN, labels);
        let x = Scale::new(self.x_axis, all().map(|p| p.0), frame.left, frame.right());
        let mut svg = open(self.name, WIDTH, HEIGHT);
        self.axes(&mut svg, &frame, &x, &y);
        for (series, points) in self.series.iter().zip(self.points) {
            let mut path = String::new();
            for point in points {
                if let (Some(x), Some(y)) = (x.at(point.0), y.at(point.1)) {
                    let _ = write!(path, "M{x:.1} {y:.1}h0");
                }
            }
            let _ = writeln!(
                svg,
                "<path fill=\"none\" stroke=\"{}\" stroke-width=\"{DOT}\" stroke-opacity=\".6\" \
                 stroke-linecap=\"round\" d=\"{path}\"/>",
                series.colour
            );
        }
        svg + "</svg>\n"
    }

    fn axes(&self, svg: &mut String, frame: &PlotFrame, x: &Scale, y: &Scale) {
        for (value, at) in y.ticks().iter().filter_map(|v| Some((*v, y.at(*v)?))) {
            frame.line(svg, "rule", at);
            frame.y_label(svg, at, &(self.y_label)(value));
        }
        let ticks = x.ticks();
        let labels = ticks.iter().filter_map(|v| Some((x.at(*v)?, (self.x_label)(*v))));
        frame.x_labels(svg, labels);
        frame.line(svg, "border", frame.bottom());
        frame.names(svg, self.x_name, self.y_name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_each_point_and_leaves_out_what_a_logarithm_cannot_show() {
        let series = [Series { name: "a".into(), colour: "red".into() }];
        let points = [vec![(1.0, 1.0), (10.0, 5.0), (0.0, 3.0)]];
        let chart = |x_axis| Scatter {
            name: "a < b",
            x_name: "x",
            y_name: "y",
            x_axis,
            y_axis: Axis::Linear(TickUnit::Decimal),
            x_label: &|value| value.to_string(),
            y_label: &|value| value.to_string(),
            series: &series,
            points: &points,
        };
        assert_eq!(chart(Axis::Linear(TickUnit::Decimal)).svg().matches("h0").count(), 3);
        assert_eq!(chart(Axis::Log(TickUnit::Decimal)).svg().matches("h0").count(), 2);
        assert!(chart(Axis::Log(TickUnit::Decimal)).svg().contains("a &lt; b"));
        let empty = Scatter { points: &[], ..chart(Axis::Log(TickUnit::Decimal)) };
        assert!(!empty.svg().contains("NaN"));
    }
}

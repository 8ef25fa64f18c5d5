//! Curves through measured points, for a page that follows the reader's mode. The y axis is linear
//! and may go below zero; the x axis is linear or logarithmic. A mark stands at each point, with a
//! tip; names are in a legend (`bars::legend`).

use std::fmt::Write as _;

use super::bars::{Series, open};
use super::frame::{PlotFrame, TOP, WIDTH, bottom};
use super::scale::{LinearScale, LogScale, TickUnit};
use super::text::escape;

/// A chart of curves.
pub struct Curves<'a> {
    /// What the chart shows, for those who do not see it.
    pub name: &'a str,
    pub x_name: &'a str,
    pub y_name: &'a str,
    /// Equal ratios of x are equal distances; all x are above zero.
    pub is_log: bool,
    pub x_label: &'a dyn Fn(f64) -> String,
    pub y_label: &'a dyn Fn(f64) -> String,
    pub series: &'a [Series],
    /// For each series, its points in order of x.
    pub points: &'a [Vec<(f64, f64)>],
}

const HEIGHT: f64 = 320.0;
const MARGIN: f64 = 20.0;
const RADIUS: f64 = 3.5;

/// The y axis: values from `low` to `high`, which contain zero.
struct Heights {
    low: f64,
    high: f64,
}

impl Heights {
    fn of(values: impl Iterator<Item = f64>) -> Heights {
        let (low, high) = values
            .fold((0.0, 0.0), |(low, high): (f64, f64), value| (low.min(value), high.max(value)));
        if high > low { Heights { low, high } } else { Heights { low, high: 1.0 } }
    }

    fn at(&self, value: f64) -> f64 {
        let share = (value - self.low) / (self.high - self.low);
        bottom(HEIGHT) - share * (bottom(HEIGHT) - TOP)
    }

    /// Round values on the axis: those of both sides of zero, at the larger side's distances.
    fn ticks(&self) -> Vec<f64> {
        let longest = self.high.max(-self.low);
        let scale = |high| LinearScale { high, from: 0.0, to: 1.0 };
        let steps = scale(longest).ticks(5, TickUnit::Decimal);
        let below = steps.iter().skip(1).map(|tick| -tick);
        let all = below.chain(steps.iter().copied());
        let margin = (self.high - self.low) * 1e-9;
        all.filter(|tick| (self.low - margin..=self.high + margin).contains(tick)).collect()
    }
}

impl Curves<'_> {
    /// The chart as SVG.
    pub fn svg(&self) -> String {
        let mut svg = open(self.name, WIDTH, HEIGHT);
        let all = || self.points.iter().flatten();
        let heights = Heights::of(all().map(|point| point.1));
        let mut places: Vec<f64> = all().map(|point| point.0).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        let labels = heights.ticks().into_iter().map(self.y_label);
        let frame = PlotFrame::new(HEIGHT, MARGIN, labels);
        let x = self.across(&frame, &places);
        self.axes(&mut svg, &frame, (&places, &x), &heights);
        for (series, points) in self.series.iter().zip(self.points) {
            draw(&mut svg, &series.colour, points, &x, &heights);
            for point in points {
                let _ = writeln!(
                    svg,
                    "<circle class=\"hit\" r=\"9\" cx=\"{:.1}\" cy=\"{:.1}\" data-tip=\"{}\">\
                     <title>{2}</title></circle>",
                    x(point.0),
                    heights.at(point.1),
                    escape(&format!(
                        "{}, {}: {}",
                        series.name,
                        (self.x_label)(point.0),
                        (self.y_label)(point.1)
                    ))
                );
            }
        }
        svg + "</svg>\n"
    }

    /// Where an x is, given all that occur.
    fn across(&self, frame: &PlotFrame, places: &[f64]) -> Box<dyn Fn(f64) -> f64> {
        let (from, to) = (frame.left + 12.0, frame.right() - 12.0);
        let low = places.first().copied().unwrap_or(1.0);
        let high = places.last().copied().unwrap_or(1.0);
        if self.is_log {
            let scale = LogScale { low, high, from, to };
            return Box::new(move |value| scale.at(value));
        }
        let span = if high > low { high - low } else { 1.0 };
        Box::new(move |value| from + (value - low) / span * (to - from))
    }

    fn axes(
        &self,
        svg: &mut String,
        frame: &PlotFrame,
        (places, x): (&[f64], &dyn Fn(f64) -> f64),
        heights: &Heights,
    ) {
        for value in heights.ticks() {
            let at = heights.at(value);
            frame.line(svg, if value == 0.0 { "border" } else { "rule" }, at);
            frame.y_label(svg, at, &(self.y_label)(value));
        }
        let labels = places.iter().map(|value| (x(*value), (self.x_label)(*value)));
        frame.x_labels(svg, labels);
        frame.names(svg, self.x_name, self.y_name);
    }
}

/// A curve with its marks.
fn draw(
    svg: &mut String,
    colour: &str,
    points: &[(f64, f64)],
    x: &dyn Fn(f64) -> f64,
    heights: &Heights,
) {
    let mut path = String::new();
    let mut marks = String::new();
    for (place, point) in points.iter().enumerate() {
        let (x, y) = (x(point.0), heights.at(point.1));
        let _ = write!(path, "{}{x:.1} {y:.1}", if place == 0 { 'M' } else { 'L' });
        let _ = write!(marks, "M{x:.1} {y:.1}h0");
    }
    let _ = writeln!(
        svg,
        "<path fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" d=\"{path}\"/>\
         <path fill=\"none\" stroke=\"{colour}\" stroke-width=\"{}\" stroke-linecap=\"round\" \
         d=\"{marks}\"/>",
        2.0 * RADIUS
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: &[Vec<(f64, f64)>]) -> String {
        let series = [Series { name: "a < b".into(), colour: "red".into() }];
        let chart = Curves {
            name: "n",
            x_name: "x",
            y_name: "y",
            is_log: true,
            x_label: &|value| value.to_string(),
            y_label: &|value| value.to_string(),
            series: &series,
            points,
        };
        chart.svg()
    }

    #[test]
    fn marks_every_point_and_the_zero_line() {
        let svg = chart(&[vec![(1.0, -3.0), (10.0, 5.0), (100.0, 0.0)]]);
        assert_eq!(svg.matches("h0").count(), 3);
        assert_eq!(svg.matches("class=\"hit\"").count(), 3);
        assert_eq!(svg.matches("class=\"border\"").count(), 1);
        assert!(svg.contains("a &lt; b") && svg.contains(">-2<"), "{svg}");
    }

    #[test]
    fn draws_nothing_and_one_point_without_infinities() {
        for points in [vec![], vec![vec![]], vec![vec![(4.0, 0.0)]]] {
            let svg = chart(&points);
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }
}

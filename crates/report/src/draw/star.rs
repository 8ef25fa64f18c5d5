//! Star plots: an axis for each variable, all from one centre, and a polygon for each series
//! (muecke-2010, Figure 7).

use std::f64::consts::TAU;
use std::fmt::Write as _;

use super::bars::{Series, open};
use super::text::escape;

/// A star.
pub struct Star<'a> {
    /// What it shows, for those who do not see it.
    pub name: &'a str,
    /// The names of the axes.
    pub axes: &'a [String],
    /// Later ones are in front.
    pub series: &'a [Series],
    /// For each series, a share between 0 and 1 on each axis.
    pub values: &'a [Vec<f64>],
}

const SIDE: f64 = 340.0;
const RADIUS: f64 = 125.0;

impl Star<'_> {
    /// The star as SVG. The first axis points upwards, the others follow clockwise.
    pub fn svg(&self) -> String {
        let mut svg = open(self.name, SIDE, SIDE);
        for share in [0.5, 1.0] {
            let _ = writeln!(
                svg,
                "<circle class=\"rule\" cx=\"{0}\" cy=\"{0}\" r=\"{1}\"/>",
                SIDE / 2.0,
                RADIUS * share
            );
        }
        for (axis, name) in self.axes.iter().enumerate() {
            let (x, y) = self.place(axis, 1.0);
            let (text_x, text_y) = self.place(axis, 1.16);
            let _ = writeln!(
                svg,
                "<path class=\"rule\" d=\"M{0} {0}L{x:.1} {y:.1}\"/>\
                 <text class=\"mid quiet\" x=\"{text_x:.1}\" y=\"{1:.1}\">{2}</text>",
                SIDE / 2.0,
                text_y + 4.0,
                escape(name)
            );
        }
        for (series, values) in self.series.iter().zip(self.values) {
            let mut path = String::new();
            for (axis, value) in values.iter().enumerate() {
                let (x, y) = self.place(axis, value.clamp(0.0, 1.0));
                let command = if axis == 0 { 'M' } else { 'L' };
                let _ = write!(path, "{command}{x:.1} {y:.1}");
            }
            let _ = writeln!(
                svg,
                "<path fill=\"{0}\" fill-opacity=\".12\" stroke=\"{0}\" stroke-width=\"2\" \
                 d=\"{path}z\"/>",
                series.colour
            );
        }
        svg + "</svg>\n"
    }

    fn place(&self, axis: usize, share: f64) -> (f64, f64) {
        let angle = TAU * axis as f64 / self.axes.len().max(1) as f64;
        let (sine, cosine) = angle.sin_cos();
        let radius = RADIUS * share;
        (SIDE / 2.0 + radius * sine, SIDE / 2.0 - radius * cosine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_a_polygon_with_a_corner_on_each_axis() {
        let axes = ["0->1", "1->2", "2->3", "3->0"].map(str::to_owned);
        let series = [Series { name: "long".into(), colour: "red".into() }];
        let svg = Star {
            name: "star",
            axes: &axes,
            series: &series,
            values: &[vec![1.0, 0.0, 0.5, 7.0]],
        }
        .svg();
        assert!(svg.contains("d=\"M170.0 45.0L170.0 170.0L170.0 232.5L45.0 170.0z\""), "{svg}");
        assert!(svg.contains("0-&gt;1"));
    }
}

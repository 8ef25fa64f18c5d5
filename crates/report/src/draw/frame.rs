//! What charts of points and of curves have in common: rules and labels of the y axis, labels of
//! the x axis, the axes' names.

use std::fmt::Write as _;

use super::bars::{CHARACTER, text};
use super::text::escape;

/// Pixels of a chart, and of its upper and lower margin.
pub const WIDTH: f64 = 620.0;
pub const TOP: f64 = 14.0;
const BOTTOM: f64 = 50.0;
/// What the name of the y axis takes at the left, and the gap between labels and plot.
const NAME: f64 = 24.0;
const GAP: f64 = 8.0;
/// The least left margin.
const LEAST_LEFT: f64 = 60.0;
/// The least gap between two labels of the x axis.
const LABEL_GAP: f64 = 10.0;

/// The frame of a chart.
pub struct PlotFrame {
    pub height: f64,
    /// The left margin.
    pub left: f64,
    /// The right margin.
    pub margin: f64,
}

/// The bottom of the plot in a chart of this height.
pub fn bottom(height: f64) -> f64 {
    height - BOTTOM
}

fn room(label: &str) -> f64 {
    label.chars().count() as f64 * CHARACTER
}

impl PlotFrame {
    /// A frame with room for these labels of the y axis beside the axis's name.
    pub fn new(height: f64, margin: f64, y_labels: impl Iterator<Item = String>) -> PlotFrame {
        let widest = y_labels.map(|label| room(&label)).fold(0.0, f64::max);
        PlotFrame { height, left: (NAME + widest + GAP).max(LEAST_LEFT), margin }
    }

    /// Where the plot ends on the right.
    pub fn right(&self) -> f64 {
        WIDTH - self.margin
    }

    /// Where the plot ends below.
    pub fn bottom(&self) -> f64 {
        bottom(self.height)
    }

    /// A horizontal line across the plot, of a class of the page's style.
    pub fn line(&self, svg: &mut String, class: &str, at: f64) {
        let (left, right) = (self.left, self.right());
        let _ = write!(svg, "<path class=\"{class}\" d=\"M{left:.1} {at:.1}H{right}\"/>");
    }

    /// A label of the y axis.
    pub fn y_label(&self, svg: &mut String, at: f64, label: &str) {
        text(svg, self.left - GAP, at + 4.0, "end quiet", label);
    }

    /// Labels of the x axis, from left to right; those without room are left out.
    pub fn x_labels(&self, svg: &mut String, labels: impl Iterator<Item = (f64, String)>) {
        let mut free = f64::NEG_INFINITY;
        for (at, label) in labels {
            let half = room(&label) / 2.0;
            // The last label may not leave the chart.
            let at = at.min(WIDTH - half);
            if at - half < free {
                continue;
            }
            free = at + half + LABEL_GAP;
            text(svg, at, self.bottom() + 17.0, "mid quiet", &label);
        }
    }

    /// The names of the axes.
    pub fn names(&self, svg: &mut String, x_name: &str, y_name: &str) {
        let _ = writeln!(
            svg,
            "<text class=\"mid quiet\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\
             <text class=\"mid quiet\" transform=\"translate(13 {:.1}) rotate(-90)\">{}</text>",
            f64::midpoint(self.left, self.right()),
            self.height - 10.0,
            escape(x_name),
            f64::midpoint(TOP, self.bottom()),
            escape(y_name)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_keep_clear_of_the_axis_name_and_of_each_other() {
        let labels = ["0", "-1,250,000 ns"].map(str::to_owned);
        let frame = PlotFrame::new(300.0, 16.0, labels.into_iter());
        assert!(frame.left - GAP - room("-1,250,000 ns") >= NAME, "{}", frame.left);
        let mut svg = String::new();
        let places = [(80.0, "100 ms"), (100.0, "110 ms"), (150.0, "x"), (WIDTH - 2.0, "900 ms")];
        frame.x_labels(&mut svg, places.map(|(at, label)| (at, label.to_owned())).into_iter());
        assert!(!svg.contains("110 ms") && svg.contains(">x<"), "{svg}");
        assert!(svg.contains(&format!("x=\"{:.1}\"", WIDTH - room("900 ms") / 2.0)), "{svg}");
    }
}

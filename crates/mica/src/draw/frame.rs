//! What charts of points and of curves have in common: rules and labels of the y axis, labels of
//! the x axis, the axes' names.

use std::fmt::Write as _;

use super::text::escape;

/// Pixels of a chart, and of its margins but for the right one.
pub const WIDTH: f64 = 620.0;
pub const LEFT: f64 = 76.0;
pub const TOP: f64 = 14.0;
const BOTTOM: f64 = 50.0;
/// The least distance of two labels of the x axis.
const LABEL_WIDTH: f64 = 54.0;

/// The frame of a chart.
pub struct PlotFrame {
    pub height: f64,
    /// The right margin.
    pub margin: f64,
}

impl PlotFrame {
    /// Where the plot ends on the right.
    pub fn right(&self) -> f64 {
        WIDTH - self.margin
    }

    /// Where the plot ends below.
    pub fn bottom(&self) -> f64 {
        self.height - BOTTOM
    }

    /// A horizontal line across the plot, of a class of the page's style.
    pub fn line(&self, svg: &mut String, class: &str, at: f64) {
        let right = self.right();
        let _ = write!(svg, "<path class=\"{class}\" d=\"M{LEFT} {at:.1}H{right}\"/>");
    }

    /// A label of the y axis.
    pub fn y_label(&self, svg: &mut String, at: f64, label: &str) {
        let _ = writeln!(
            svg,
            "<text class=\"end quiet\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            LEFT - 8.0,
            at + 4.0,
            escape(label)
        );
    }

    /// Labels of the x axis, from left to right; those without room are left out.
    pub fn x_labels(&self, svg: &mut String, labels: impl Iterator<Item = (f64, String)>) {
        let mut free = 0.0;
        for (at, label) in labels {
            if at < free {
                continue;
            }
            free = at + LABEL_WIDTH;
            let _ = writeln!(
                svg,
                "<text class=\"mid quiet\" x=\"{at:.1}\" y=\"{:.1}\">{}</text>",
                self.bottom() + 17.0,
                escape(&label)
            );
        }
    }

    /// The names of the axes.
    pub fn names(&self, svg: &mut String, x_name: &str, y_name: &str) {
        let _ = writeln!(
            svg,
            "<text class=\"mid quiet\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\
             <text class=\"mid quiet\" transform=\"translate(13 {:.1}) rotate(-90)\">{}</text>",
            f64::midpoint(LEFT, self.right()),
            self.height - 10.0,
            escape(x_name),
            f64::midpoint(TOP, self.bottom()),
            escape(y_name)
        );
    }
}

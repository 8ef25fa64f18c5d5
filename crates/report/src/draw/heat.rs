//! A heat map of a square table. Values span decades, so its steps are equal ratios; cells of one
//! step are one path, which keeps a map of 128 x 128 cells below 300 KB. Steps are at least a ratio
//! of [`LEAST_RATIO`] apart, and the largest value is always the darkest: values that hardly differ
//! look alike.
//!
//! The element says where its cells are (`data-left`, `data-top`, `data-extent`, `data-side`), so
//! that a script can show the cell under the pointer.

use std::fmt::Write as _;

use super::bars::{CHARACTER, open, text};
use super::colour;
use super::text::escape;

/// A square of cells.
pub struct HeatMap<'a> {
    pub name: &'a str,
    /// The key by which a script finds the values.
    pub key: &'a str,
    pub side: usize,
    /// Column, row, value above zero. Other cells are empty.
    pub cells: &'a [(usize, usize, f64)],
    /// Labels of columns and rows.
    pub labels: &'a [String],
    /// Rows and columns before which a line is drawn.
    pub borders: &'a [usize],
    pub column_name: &'a str,
    pub row_name: &'a str,
    pub value_label: fn(f64) -> String,
}

/// The side of the map in pixels: that of a cell where cells are few.
const EXTENT: f64 = 400.0;
const LARGEST_CELL: f64 = 40.0;
const LEAST_EXTENT: f64 = 140.0;
/// What the rows' name takes at the left, and the gap between labels and map.
const NAME: f64 = 26.0;
const GAP: f64 = 8.0;
const LEAST_LEFT: f64 = 70.0;
const TOP: f64 = 46.0;
const STEPS: usize = 7;
/// The least ratio of a step, so that one step is more than what a label rounds away.
const LEAST_RATIO: f64 = 1.15;
/// The least distance of labels of rows and of columns.
const ROW_LABEL: f64 = 15.0;

impl HeatMap<'_> {
    /// The map as SVG.
    pub fn svg(&self) -> String {
        let (extent, left) = (self.extent(), self.left());
        let height = TOP + extent + 52.0;
        let mut svg = open(self.name, left + EXTENT + 14.0, height);
        let cell = extent / self.side.max(1) as f64;
        let _ = writeln!(
            svg,
            "<g class=\"heat\" data-key=\"{}\" data-left=\"{left}\" data-top=\"{TOP}\" \
             data-extent=\"{extent}\" data-side=\"{}\">\
             <rect class=\"empty\" x=\"{left}\" y=\"{TOP}\" width=\"{extent}\" \
             height=\"{extent}\"/>\
             <g transform=\"translate({left} {TOP}) scale({cell})\">",
            escape(self.key),
            self.side
        );
        for (step, path) in self.paths().iter().enumerate().filter(|(_, path)| !path.is_empty()) {
            let fill = step_colour(step);
            let _ = writeln!(svg, "<path style=\"fill:{fill}\" d=\"{path}\"/>");
        }
        svg += "</g>";
        for border in self.borders {
            let at = *border as f64 * cell;
            let _ = write!(
                svg,
                "<path class=\"border\" d=\"M{:.1} {TOP}v{extent}M{left} {:.1}h{extent}\"/>",
                left + at,
                TOP + at
            );
        }
        svg += "<path class=\"cursor\" d=\"\"/></g>\n";
        self.axes(&mut svg, cell);
        self.legend(&mut svg);
        svg + "</svg>\n"
    }

    /// The map's side in pixels.
    fn extent(&self) -> f64 {
        (self.side as f64 * LARGEST_CELL).clamp(LEAST_EXTENT, EXTENT)
    }

    /// The margin with the labels of the rows.
    fn left(&self) -> f64 {
        (NAME + self.longest_label() + GAP).max(LEAST_LEFT)
    }

    /// The width of the longest label.
    fn longest_label(&self) -> f64 {
        let longest = self.labels.iter().map(|label| label.chars().count()).max();
        longest.unwrap_or(1) as f64 * CHARACTER
    }

    fn range(&self) -> (f64, f64) {
        let values = || self.cells.iter().map(|cell| cell.2);
        let low = values().fold(f64::INFINITY, f64::min);
        (low.min(values().fold(0.0, f64::max)), values().fold(0.0, f64::max))
    }

    /// The palest step that is used: the fewer, the closer the values.
    fn first_step(&self) -> usize {
        let (low, high) = self.range();
        let steps = ((high / low).ln() / LEAST_RATIO.ln()) as usize;
        STEPS - steps.clamp(1, STEPS)
    }

    fn paths(&self) -> Vec<String> {
        let (low, high) = self.range();
        let (decades, first) = ((high / low).ln(), self.first_step());
        let steps = STEPS - first;
        let size = if self.side <= 40 { "0.94" } else { "1" };
        let mut paths = vec![String::new(); STEPS];
        for &(column, row, value) in self.cells {
            let share = if steps > 1 { (value / low).ln() / decades } else { 1.0 };
            let step = (first + (share * steps as f64) as usize).min(STEPS - 1);
            let _ = write!(paths[step], "M{column} {row}h{size}v{size}h-{size}z");
        }
        paths
    }

    fn axes(&self, svg: &mut String, cell: f64) {
        let left = self.left();
        let column_room = self.longest_label() + 6.0;
        let every = |room: f64| round_step((room / cell).ceil().max(1.0) as usize);
        for place in (0..self.labels.len()).step_by(every(column_room)) {
            let at = left + (place as f64 + 0.5) * cell;
            text(svg, at, TOP - 7.0, "mid", &self.labels[place]);
        }
        for place in (0..self.labels.len()).step_by(every(ROW_LABEL)) {
            let at = TOP + (place as f64 + 0.5) * cell + 4.0;
            text(svg, left - GAP, at, "end", &self.labels[place]);
        }
        text(svg, left + self.extent() / 2.0, 16.0, "mid quiet", self.column_name);
        let _ = writeln!(
            svg,
            "<text class=\"mid quiet\" transform=\"translate(16 {:.1}) rotate(-90)\">{}</text>",
            TOP + self.extent() / 2.0,
            escape(self.row_name)
        );
    }

    /// The steps, with the least and the largest value.
    fn legend(&self, svg: &mut String) {
        let (low, high) = self.range();
        if self.cells.is_empty() {
            return;
        }
        let (y, wide, left) = (TOP + self.extent() + 18.0, 28.0, self.left());
        let steps = self.first_step()..STEPS;
        let count = steps.len() as f64;
        for (place, step) in steps.enumerate() {
            let _ = write!(
                svg,
                "<rect style=\"fill:{}\" x=\"{:.1}\" y=\"{y:.1}\" width=\"{wide}\" height=\"10\"/>",
                step_colour(step),
                left + place as f64 * wide
            );
        }
        let (low, high) = ((self.value_label)(low), (self.value_label)(high));
        let range = match count > 1.0 {
            _ if low == high => high,
            true => {
                text(svg, left + count * wide, y + 25.0, "end", &high);
                low
            }
            false => format!("{low} to {high}"),
        };
        text(svg, left, y + 25.0, "", &range);
    }
}

fn step_colour(step: usize) -> String {
    colour::heat(0.14 + 0.86 * step as f64 / (STEPS - 1) as f64)
}

/// The next power of two, so that labels are 0, 8, 16.
fn round_step(step: usize) -> usize {
    step.next_power_of_two()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map_of<'a>(cells: &'a [(usize, usize, f64)], labels: &'a [String]) -> HeatMap<'a> {
        HeatMap {
            name: "n",
            key: "k",
            side: labels.len(),
            cells,
            labels,
            borders: &[1],
            column_name: "to",
            row_name: "from",
            value_label: |value| format!("{value} B"),
        }
    }

    fn map(cells: &[(usize, usize, f64)], side: usize) -> String {
        let labels: Vec<String> = (0..side).map(|rank| rank.to_string()).collect();
        map_of(cells, &labels).svg()
    }

    #[test]
    fn steps_are_ratios() {
        let svg = map(&[(0, 1, 1.0), (1, 0, 1e6), (1, 1, 1e3)], 2);
        assert_eq!(svg.matches("<path style=\"fill").count(), 3, "{svg}");
        assert!(svg.contains("1 B") && svg.contains("1000000 B"));
        let svg = map(&[(0, 1, 5.0), (1, 0, 5.0)], 2);
        assert_eq!(svg.matches("<path style=\"fill").count(), 1, "{svg}");
        // What hardly differs is the darkest step; what differs by a third, the darkest two.
        let svg = map(&[(0, 1, 2.61e6), (1, 0, 2.6101e6), (1, 1, 2.9e6)], 2);
        assert_eq!(svg.matches("<path style=\"fill").count(), 1, "{svg}");
        assert!(svg.contains(&step_colour(STEPS - 1)) && svg.contains(">2610000 B to 2900000 B<"));
        let svg = map(&[(0, 1, 4.0), (1, 0, 5.5)], 2);
        assert_eq!(svg.matches("<path style=\"fill").count(), 2, "{svg}");
        assert!(svg.contains(&step_colour(STEPS - 2)) && !svg.contains(&step_colour(0)), "{svg}");
        let svg = map(&[], 0);
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn labels_of_rows_keep_clear_of_their_name() {
        let labels = ["ranks 100-127".to_owned()];
        let map = map_of(&[(0, 0, 1.0)], &labels);
        assert!(map.left() - GAP - map.longest_label() >= NAME);
        assert!(map.svg().contains(&format!("data-left=\"{}\"", map.left())));
    }

    #[test]
    fn a_full_map_stays_small() {
        let cells: Vec<_> = (0..128 * 128).map(|n| (n % 128, n / 128, 1.0 + n as f64)).collect();
        let svg = map(&cells, 128);
        assert!(svg.len() < 350_000, "{}", svg.len());
    }
}

//! Lines over logarithmic axes: message sizes and times span decades, and equal ratios are equal
//! distances. A line connects middle values; the band behind it goes from the low to the high ones.
//! Names are at the ends of the lines. The chart stands alone in a file: its colours are literal.

use std::fmt::Write as _;

use super::scale::{LogScale, log_ticks, spread};
use super::text::{escape, short};

/// A chart of lines.
pub struct LineChart<'a> {
    pub title: &'a str,
    /// The quantity on the y axis, and which direction is better.
    pub note: &'a str,
    pub x_name: &'a str,
    pub x_label: fn(f64) -> String,
    /// Drawn in this order: the last is in front.
    pub lines: Vec<ChartLine<'a>>,
}

/// One line of a chart.
pub struct ChartLine<'a> {
    pub name: &'a str,
    pub style: LineStyle,
    /// Sorted by `x`; all values are above zero.
    pub points: Vec<LinePoint>,
}

/// How a line looks.
pub struct LineStyle {
    pub colour: &'static str,
    pub width: f64,
    pub dashed: bool,
    /// The name is bold.
    pub bold: bool,
    /// Each point has a mark with a title.
    pub marks: bool,
}

/// A value with its spread, and what a pointer on it shows.
pub struct LinePoint {
    pub x: f64,
    pub low: f64,
    pub middle: f64,
    pub high: f64,
    pub title: String,
}

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 430.0;
const LEFT: f64 = 66.0;
const RIGHT: f64 = 112.0;
const TOP: f64 = 64.0;
const BOTTOM: f64 = 52.0;
/// The least vertical distance of two names at the ends of lines.
const NAME_HEIGHT: f64 = 16.0;
/// The least horizontal distance of two labels of the x axis.
const LABEL_WIDTH: f64 = 46.0;

impl LineChart<'_> {
    /// The chart as SVG.
    pub fn svg(&self) -> String {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let x = LogScale {
            low: points().map(|p| p.x).fold(f64::INFINITY, f64::min),
            high: points().map(|p| p.x).fold(0.0, f64::max),
            from: LEFT + 8.0,
            to: WIDTH - RIGHT,
        };
        let lowest = points().map(|p| p.low).fold(f64::INFINITY, f64::min);
        let highest = points().map(|p| p.high).fold(0.0, f64::max);
        let y =
            LogScale { low: lowest / 1.15, high: highest * 1.15, from: HEIGHT - BOTTOM, to: TOP };
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             width=\"{WIDTH}\" height=\"{HEIGHT}\" font-family=\"system-ui, Helvetica, Arial, \
                 sans-serif\" font-size=\"12\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
             <text x=\"{LEFT}\" y=\"26\" font-size=\"16\" font-weight=\"600\" \
                 fill=\"#111\">{}</text>\n\
             <text x=\"{LEFT}\" y=\"46\" fill=\"#555\">{}</text>\n",
            escape(self.title),
            escape(self.note)
        );
        self.axes(&mut svg, &x, &y);
        for line in &self.lines {
            line.draw(&mut svg, &x, &y);
        }
        self.names(&mut svg, &y);
        svg + "</svg>\n"
    }

    fn axes(&self, svg: &mut String, x: &LogScale, y: &LogScale) {
        let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
        for value in log_ticks(y.low, y.high) {
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
        self.x_axis(svg, x, bottom);
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{bottom}\" y2=\"{bottom}\" stroke=\"#999\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#555\">{}</text>",
            (LEFT + right) / 2.0,
            HEIGHT - 12.0,
            escape(self.x_name)
        );
    }

    fn x_axis(&self, svg: &mut String, x: &LogScale, bottom: f64) {
        let points = self.lines.iter().flat_map(|line| &line.points);
        let mut places: Vec<f64> = points.map(|point| point.x).collect();
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
                let label = (self.x_label)(value);
                let _ = writeln!(
                    svg,
                    "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\" \
                    fill=\"#333\">{label}</text>",
                    bottom + 20.0
                );
                free = at + LABEL_WIDTH;
            }
        }
    }

    /// Names at the ends of the lines, moved apart where they would overlap.
    fn names(&self, svg: &mut String, y: &LogScale) {
        let ends = self.lines.iter().filter_map(|line| {
            let last = line.points.last()?;
            Some((y.at(last.middle), line))
        });
        let mut ends: Vec<(f64, &ChartLine)> = ends.collect();
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        spread(&mut ends, NAME_HEIGHT, HEIGHT - BOTTOM);
        for (at, line) in ends {
            let weight = if line.style.bold { 700 } else { 400 };
            let _ = writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"{:.1}\" fill=\"{}\" font-weight=\"{weight}\">{}</text>",
                WIDTH - RIGHT + 10.0,
                at + 4.0,
                line.style.colour,
                escape(line.name)
            );
        }
    }
}

impl ChartLine<'_> {
    fn draw(&self, svg: &mut String, x: &LogScale, y: &LogScale) {
        let LineStyle { colour, width, .. } = self.style;
        let line = |value: fn(&LinePoint) -> f64| {
            let at = |point: &LinePoint| format!("{:.1},{:.1}", x.at(point.x), y.at(value(point)));
            self.points.iter().map(at).collect::<Vec<_>>()
        };
        let (low, high) = (line(|p| p.low), line(|p| p.high));
        let band: Vec<String> = low.into_iter().chain(high.into_iter().rev()).collect();
        let dash = if self.style.dashed { " stroke-dasharray=\"5 4\"" } else { "" };
        let _ = writeln!(
            svg,
            "<polygon points=\"{}\" fill=\"{colour}\" fill-opacity=\"0.14\"/>\
             <polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\" \
             stroke-linejoin=\"round\"{dash}/>",
            band.join(" "),
            line(|p| p.middle).join(" ")
        );
        for point in self.points.iter().filter(|_| self.style.marks) {
            let _ = writeln!(
                svg,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.2\" fill=\"{colour}\"><title>{}\
                 </title></circle>",
                x.at(point.x),
                y.at(point.middle),
                escape(&point.title)
            );
        }
    }
}

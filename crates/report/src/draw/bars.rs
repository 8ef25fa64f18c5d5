//! Stacked bars, in rows or side by side, and groups of bars, for a page that follows the reader's
//! mode: colours are the page's CSS variables. A bar's whole area shows its `data-tip`.

use std::fmt::Write as _;

use super::scale::{LinearScale, TickUnit};
use super::text::escape;

/// What one colour stands for.
pub struct Series {
    pub name: String,
    pub colour: String,
}

/// One bar, or one group of bars: a value for each series.
pub struct ChartBar {
    pub label: String,
    pub values: Vec<f64>,
    pub tip: String,
}

/// Bars made of parts that lie on one another.
pub struct StackedBars<'a> {
    /// What the chart shows, for those who do not see it.
    pub name: &'a str,
    pub series: &'a [Series],
    pub bars: &'a [ChartBar],
    pub value_label: &'a dyn Fn(f64) -> String,
    pub ticks: TickUnit,
    /// What the bars are, on their axis.
    pub axis: &'a str,
    pub width: f64,
}

/// Groups of bars that are shares, with a point for each group, and further groups apart from them.
pub struct GroupedBars<'a> {
    pub name: &'a str,
    pub series: &'a [Series],
    pub groups: &'a [ChartBar],
    /// A share for each group, drawn as a diamond.
    pub points: &'a [f64],
    /// Groups to the right of a divider: what the others are compared with.
    pub aside: &'a [ChartBar],
    pub axis: &'a str,
    pub width: f64,
}

const ROW: f64 = 26.0;
const ROW_BAR: f64 = 18.0;
const HEIGHT: f64 = 250.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 46.0;
/// The width of a character of a label, for what must not overlap.
pub const CHARACTER: f64 = 6.6;
const WIDEST_COLUMN: f64 = 56.0;
/// The least scale of a chart on a narrow page: type of 12 pixels has 9.6 there.
const LEAST_SCALE: f64 = 0.8;

/// The beginning of an SVG element of a page. It has its own size, so that type is alike in all
/// charts, and shrinks to [`LEAST_SCALE`] where the page is narrow; its element scrolls then.
pub fn open(name: &str, width: f64, height: f64) -> String {
    format!(
        "<svg role=\"img\" aria-label=\"{}\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" style=\"min-width:{:.0}px\">\n",
        escape(name),
        width * LEAST_SCALE
    )
}

/// The names of the colours, as a list beside a chart.
pub fn legend(series: &[Series]) -> String {
    let mut html = String::from("<ul class=\"legend\">");
    for entry in series {
        let _ = write!(
            html,
            "<li><i style=\"background:{}\"></i>{}</li>",
            entry.colour,
            escape(&entry.name)
        );
    }
    html + "</ul>\n"
}

fn rectangle(path: &mut String, x: f64, y: f64, width: f64, height: f64) {
    if width > 0.0 && height > 0.0 {
        let _ = write!(path, "M{x:.2} {y:.2}h{width:.2}v{height:.2}h{:.2}z", -width);
    }
}

/// One path for each series keeps the file small where there are many bars.
fn paths(svg: &mut String, series: &[Series], paths: &[String], opacity: f64) {
    for (entry, path) in series.iter().zip(paths).filter(|(_, path)| !path.is_empty()) {
        let _ = writeln!(
            svg,
            "<path fill=\"{}\" fill-opacity=\"{opacity}\" d=\"{path}\"/>",
            entry.colour
        );
    }
}

fn target(svg: &mut String, [x, y, width, height]: [f64; 4], tip: &str) {
    let _ = writeln!(
        svg,
        "<rect class=\"hit\" x=\"{x:.2}\" y=\"{y:.2}\" width=\"{width:.2}\" \
         height=\"{height:.2}\" data-tip=\"{}\"/>",
        escape(tip)
    );
}

/// Puts a text at a place, with a class of the page's style.
pub fn text(svg: &mut String, x: f64, y: f64, class: &str, text: &str) {
    let _ =
        writeln!(svg, "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escape(text));
}

/// Width of the title of the columns' axis.
fn axis_room(title: &str) -> f64 {
    title.chars().count() as f64 * CHARACTER
}

/// The title of the columns' axis, centred at `middle` or as far left as it has room.
fn axis_title(svg: &mut String, middle: f64, title: &str) {
    let x = middle.max(axis_room(title) / 2.0);
    text(svg, x, HEIGHT - 8.0, "mid quiet", title);
}

/// Labels under columns: each, or every second, fourth, eighth where there is no room for more.
fn column_labels<'a>(svg: &mut String, y: f64, labels: impl Iterator<Item = (f64, &'a str)>) {
    let labels: Vec<(f64, &str)> = labels.collect();
    let half = |label: &str| label.chars().count() as f64 * CHARACTER / 2.0 + 2.0;
    let free = |every: usize| {
        let shown: Vec<_> = labels.iter().step_by(every).collect();
        let apart = |two: &[&(f64, &str)]| two[0].0 + half(two[0].1) <= two[1].0 - half(two[1].1);
        shown.windows(2).all(apart)
    };
    let mut every = 1;
    while !free(every) {
        every *= 2;
    }
    for (at, label) in labels.iter().step_by(every) {
        text(svg, *at, y, "mid", label);
    }
}

/// Horizontal rules with their values at the left.
fn rules(
    svg: &mut String,
    y: &LinearScale,
    ticks: &[f64],
    (left, right): (f64, f64),
    label: &dyn Fn(f64) -> String,
) {
    for &value in ticks {
        let at = y.at(value);
        let _ = writeln!(svg, "<path class=\"rule\" d=\"M{left:.1} {at:.1}H{right:.1}\"/>");
        text(svg, left - 8.0, at + 4.0, "end", &label(value));
    }
}

/// The room that the labels of the rules need.
fn room(ticks: &[f64], label: &dyn Fn(f64) -> String) -> f64 {
    let longest = ticks.iter().map(|value| label(*value).chars().count()).max();
    longest.unwrap_or(0) as f64 * CHARACTER + 14.0
}

impl StackedBars<'_> {
    fn highest(&self) -> f64 {
        let sums = self.bars.iter().map(|bar| bar.values.iter().sum::<f64>());
        sums.fold(0.0, f64::max)
    }

    /// A row for each bar: for few bars with names.
    pub fn rows(&self) -> String {
        let longest = self.bars.iter().map(|bar| bar.label.chars().count()).max();
        let left = longest.unwrap_or(0) as f64 * CHARACTER + 14.0;
        let bottom = TOP + self.bars.len() as f64 * ROW;
        let mut svg = open(self.name, self.width, bottom + 30.0);
        let x = LinearScale { high: self.highest(), from: left, to: self.width - 24.0 };
        for value in x.ticks(6, self.ticks) {
            let at = x.at(value);
            let _ = writeln!(svg, "<path class=\"rule\" d=\"M{at:.1} {TOP}V{bottom:.1}\"/>");
            text(&mut svg, at, bottom + 18.0, "mid", &(self.value_label)(value));
        }
        let mut parts = vec![String::new(); self.series.len()];
        for (place, bar) in self.bars.iter().enumerate() {
            let y = TOP + place as f64 * ROW + (ROW - ROW_BAR) / 2.0;
            let mut sum = 0.0;
            for (part, value) in parts.iter_mut().zip(&bar.values) {
                let (from, to) = (x.at(sum), x.at(sum + value));
                rectangle(part, from, y, to - from, ROW_BAR);
                sum += value;
            }
        }
        paths(&mut svg, self.series, &parts, 1.0);
        for (place, bar) in self.bars.iter().enumerate() {
            let y = TOP + place as f64 * ROW;
            text(&mut svg, left - 10.0, y + ROW / 2.0 + 4.0, "end", &bar.label);
            target(&mut svg, [0.0, y, self.width, ROW], &bar.tip);
        }
        svg + "</svg>\n"
    }

    /// A column for each bar: for many bars, or for bars along an axis.
    pub fn columns(&self) -> String {
        let mut svg = open(self.name, self.width, HEIGHT);
        let bottom = HEIGHT - BOTTOM;
        let highest = self.highest();
        let y = LinearScale { high: highest, from: bottom, to: TOP };
        let ticks = y.ticks(5, self.ticks);
        let (left, right) = (room(&ticks, self.value_label), self.width - 8.0);
        rules(&mut svg, &y, &ticks, (left, right), self.value_label);
        let step = ((right - left) / self.bars.len().max(1) as f64).min(WIDEST_COLUMN);
        let gap = if step > 6.0 { step * 0.2 } else { 0.0 };
        let mut parts = vec![String::new(); self.series.len()];
        for (place, bar) in self.bars.iter().enumerate() {
            let mut sum = 0.0;
            for (part, value) in parts.iter_mut().zip(&bar.values) {
                let (low, high) = (y.at(sum), y.at(sum + value));
                let x = left + place as f64 * step + gap / 2.0;
                rectangle(part, x, high, step - gap, low - high);
                sum += value;
            }
        }
        paths(&mut svg, self.series, &parts, 1.0);
        let at = |place: usize| left + (place as f64 + 0.5) * step;
        let labels = self.bars.iter().enumerate().map(|(place, bar)| (at(place), &*bar.label));
        column_labels(&mut svg, bottom + 17.0, labels);
        for (place, bar) in self.bars.iter().enumerate() {
            let x = left + place as f64 * step;
            target(&mut svg, [x, TOP, step, bottom - TOP], &bar.tip);
        }
        let middle = left + step * self.bars.len() as f64 / 2.0;
        axis_title(&mut svg, middle, self.axis);
        svg + "</svg>\n"
    }
}

impl GroupedBars<'_> {
    /// The chart; its axis goes from 0 to 100 %.
    pub fn svg(&self) -> String {
        let mut svg = open(self.name, self.width, HEIGHT);
        let bottom = HEIGHT - BOTTOM;
        let label = |share: f64| format!("{:.0} %", share * 100.0);
        let y = LinearScale { high: 1.0, from: bottom, to: TOP };
        let ticks = y.ticks(5, TickUnit::Decimal);
        let (left, right) = (room(&ticks, &label), self.width - 8.0);
        rules(&mut svg, &y, &ticks, (left, right), &label);
        let apart = if self.aside.is_empty() { 0.0 } else { 18.0 };
        let all = self.groups.len() + self.aside.len();
        let even = (right - left - apart) / all.max(1) as f64;
        // What the groups are compared with needs room for its names.
        let aside_step = even.clamp(44.0, 96.0);
        let rest = right - left - apart - aside_step * self.aside.len() as f64;
        let step = (rest / self.groups.len().max(1) as f64).min(96.0);
        let divider = left + step * self.groups.len() as f64 + apart / 2.0;
        let main = |place: usize| left + place as f64 * step;
        let aside = |place: usize| divider + apart / 2.0 + place as f64 * aside_step;
        self.groups_at(&mut svg, &y, self.groups, (&main, step));
        self.groups_at(&mut svg, &y, self.aside, (&aside, aside_step));
        if apart > 0.0 {
            let low = bottom + 22.0;
            let _ = writeln!(svg, "<path class=\"axis\" d=\"M{divider:.1} {TOP}V{low:.1}\"/>");
        }
        for (place, share) in self.points.iter().enumerate() {
            let (x, y) = (main(place) + step / 2.0, y.at(*share));
            let _ = writeln!(
                svg,
                "<path class=\"point\" d=\"M{x:.1} {:.1}l4.5 4.5l-4.5 4.5l-4.5 -4.5z\"/>",
                y - 4.5
            );
        }
        let groups = self.groups.iter().enumerate().map(|(at, group)| (main(at), step, group));
        let others =
            self.aside.iter().enumerate().map(|(at, group)| (aside(at), aside_step, group));
        for (x, width, group) in groups.chain(others) {
            target(&mut svg, [x, TOP, width, bottom - TOP], &group.tip);
        }
        let middle = left + step * self.groups.len() as f64 / 2.0;
        axis_title(&mut svg, middle, self.axis);
        svg + "</svg>\n"
    }

    fn groups_at(
        &self,
        svg: &mut String,
        y: &LinearScale,
        groups: &[ChartBar],
        (at, step): (&dyn Fn(usize) -> f64, f64),
    ) {
        let bar = (step * 0.8 / self.series.len().max(1) as f64).min(22.0);
        let margin = (step - bar * self.series.len() as f64) / 2.0;
        let mut parts = vec![String::new(); self.series.len()];
        for (place, group) in groups.iter().enumerate() {
            for (series, (part, value)) in parts.iter_mut().zip(&group.values).enumerate() {
                let x = at(place) + margin + series as f64 * bar;
                let high = y.at(*value);
                rectangle(part, x, high, bar * 0.92, y.from - high);
            }
        }
        paths(svg, self.series, &parts, 1.0);
        let labels = groups.iter().enumerate();
        let labels = labels.map(|(place, group)| (at(place) + step / 2.0, &*group.label));
        column_labels(svg, y.from + 17.0, labels);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series() -> Vec<Series> {
        let series = |name: &str| Series { name: name.into(), colour: "red".into() };
        vec![series("a<"), series("b")]
    }

    fn bars(count: usize) -> Vec<ChartBar> {
        let bar = |place: usize| ChartBar {
            label: format!("bar {place}"),
            values: vec![1.0, place as f64],
            tip: format!("\"{place}\""),
        };
        (0..count).map(bar).collect()
    }

    #[test]
    fn each_bar_has_a_target_and_labels_keep_apart() {
        for count in [0, 1, 4, 500] {
            let (series, bars) = (series(), bars(count));
            let chart = StackedBars {
                name: "n",
                series: &series,
                bars: &bars,
                value_label: &|value| format!("{value}"),
                ticks: TickUnit::Decimal,
                axis: "rank",
                width: 900.0,
            };
            for svg in [chart.rows(), chart.columns()] {
                assert_eq!(svg.matches("class=\"hit\"").count(), count);
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            }
            let labels = chart.columns().matches(">bar ").count();
            assert!(labels <= 25 && labels >= count.min(1), "{labels}");
        }
        assert!(legend(&series()).contains("a&lt;"));
    }

    #[test]
    fn points_stand_over_their_groups() {
        let (series, groups) = (series(), bars(2));
        let chart = GroupedBars {
            name: "n",
            series: &series,
            groups: &groups,
            points: &[0.0, 1.0],
            aside: &groups[..1],
            axis: "size",
            width: 500.0,
        };
        let svg = chart.svg();
        assert_eq!(svg.matches("class=\"point\"").count(), 2);
        assert_eq!(svg.matches("class=\"hit\"").count(), 3);
        assert!(svg.contains("100 %"));
    }
}

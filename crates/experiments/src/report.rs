//! The report of an experiment: findings beside the thesis's, charts, and the table of all runs; as
//! text and as one HTML page that works from itself alone.

use std::fmt::Write as _;

use mica_report::draw::bars::{ChartBar, Series, StackedBars, legend};
use mica_report::draw::colour::{THEME, hue};
use mica_report::draw::curves::Curves;
use mica_report::draw::page::{self, Cell, DataTable, columns};
use mica_report::draw::scale::TickUnit;
use mica_report::draw::text::{count, escape, size, time, trimmed};

use crate::store::Results;
use crate::table::Heading;
use crate::thesis::{Fact, PaperValue};

/// What an experiment's results say.
#[derive(Debug, Default)]
pub struct ExperimentReport {
    /// Beside the thesis's statements.
    pub findings: Vec<ThesisFinding>,
    /// What the thesis does not have, or what one must know.
    pub notes: Vec<String>,
    /// The charts.
    pub charts: Vec<Chart>,
}

/// A statement of the thesis and our result.
#[derive(Debug)]
pub struct ThesisFinding {
    fact: &'static Fact,
    measured: Measured,
    /// Under which condition, if there are several.
    condition: &'static str,
}

/// What was measured here.
#[derive(Debug)]
enum Measured {
    /// In the fact's unit.
    Number(f64),
    /// Whether the shape is there, and the figures that say so.
    Shape(ShapeVerdict, String),
}

/// Whether a shape of the thesis is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShapeVerdict {
    Holds,
    Differs,
}

impl ShapeVerdict {
    /// Of a condition.
    pub fn of(holds: bool) -> ShapeVerdict {
        if holds { ShapeVerdict::Holds } else { ShapeVerdict::Differs }
    }
}

impl ThesisFinding {
    /// A number beside the thesis's.
    pub fn number(fact: &'static Fact, measured: f64) -> ThesisFinding {
        ThesisFinding { fact, measured: Measured::Number(measured), condition: "" }
    }

    /// The same, under a condition that the sentence names.
    pub fn under(self, condition: &'static str) -> ThesisFinding {
        ThesisFinding { condition, ..self }
    }

    /// Whether a shape is there, with the figures that say so.
    pub fn shape(fact: &'static Fact, verdict: ShapeVerdict, figures: String) -> ThesisFinding {
        ThesisFinding { fact, measured: Measured::Shape(verdict, figures), condition: "" }
    }

    /// The sentences.
    pub fn text(&self) -> String {
        let Fact { claim, value, place } = self.fact;
        let thesis = match value {
            PaperValue::UpTo(value, unit) => format!("Thesis: up to {value} {unit} ({place})."),
            PaperValue::About(value, unit) => format!("Thesis: about {value} {unit} ({place})."),
            PaperValue::Between(low, high, unit) => {
                format!("Thesis: {low} to {high} {unit} ({place}).")
            }
            PaperValue::MoreThan(value, unit) => {
                format!("Thesis: more than {value} {unit} ({place}).")
            }
            PaperValue::Shape => format!("Thesis: {place}."),
        };
        let here = match self.condition {
            "" => "ere".to_owned(),
            condition => format!("ere, {condition}"),
        };
        let measured = match &self.measured {
            Measured::Number(measured) => {
                let unit = value.unit();
                format!("H{here}: {} {unit}, {}.", round(*measured), value.difference(*measured))
            }
            Measured::Shape(ShapeVerdict::Holds, figures) => format!("H{here}, too: {figures}."),
            Measured::Shape(ShapeVerdict::Differs, figures) => {
                format!("Not so h{here}: {figures}.")
            }
        };
        format!("{claim}. {thesis} {measured}")
    }
}

impl PaperValue {
    fn unit(&self) -> &'static str {
        match self {
            PaperValue::UpTo(_, unit)
            | PaperValue::About(_, unit)
            | PaperValue::Between(_, _, unit)
            | PaperValue::MoreThan(_, unit) => unit,
            PaperValue::Shape => "",
        }
    }

    /// The difference of the measured value, in words.
    fn difference(&self, measured: f64) -> String {
        let points = |other: f64| {
            let by = round((measured - other).abs());
            match measured - other {
                _ if by == "0" => "the same".to_owned(),
                d if d > 0.0 => format!("{by} points more"),
                _ => format!("{by} points less"),
            }
        };
        match *self {
            PaperValue::UpTo(value, _) | PaperValue::About(value, _) => points(value),
            PaperValue::Between(low, high, _) if (low..=high).contains(&measured) => {
                "within".to_owned()
            }
            PaperValue::Between(low, _, _) if measured < low => points(low),
            PaperValue::Between(_, high, _) => points(high),
            PaperValue::MoreThan(value, _) if measured > value => "as there".to_owned(),
            PaperValue::MoreThan(value, _) => points(value),
            PaperValue::Shape => String::new(),
        }
    }
}

/// One digit after the point, or none.
pub fn round(value: f64) -> String {
    let text = format!("{value:.1}");
    let text = text.strip_suffix(".0").unwrap_or(&text).to_owned();
    if text == "-0" { "0".into() } else { text }
}

/// Values as a list: `1.2 %, 3.4 %`.
pub fn percents(values: &[f64]) -> String {
    values.iter().map(|v| format!("{} %", round(*v))).collect::<Vec<_>>().join(", ")
}

/// By how many percent `other` is less than `base`.
pub fn gain(base: f64, other: f64) -> f64 {
    if base > 0.0 { (1.0 - other / base) * 100.0 } else { 0.0 }
}

/// What the x values of a chart are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XAxis {
    /// Bytes, on a logarithmic axis.
    Bytes,
    /// Nanoseconds, on a logarithmic axis.
    Nanoseconds,
    /// Nodes, on a logarithmic axis.
    Nodes,
    /// Plain numbers on a linear axis.
    Plain,
}

/// What the y values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum YAxis {
    /// Percents.
    Percent,
    /// Microseconds.
    Microseconds,
    /// Counts.
    Count,
}

/// A chart of curves, or of bars for names.
#[derive(Debug)]
pub struct Chart {
    /// Its heading.
    pub title: String,
    /// What it shows.
    pub caption: String,
    /// The names at its axes.
    pub x_name: &'static str,
    pub y_name: &'static str,
    /// What is drawn.
    pub plot: ReportPlot,
}

/// What a chart draws.
#[derive(Debug)]
pub enum ReportPlot {
    /// A curve a name.
    Curves { x: XAxis, y: YAxis, curves: Vec<(String, Vec<(f64, f64)>)> },
    /// A bar a name, of parts that have names.
    Bars { parts: Vec<String>, bars: Vec<(String, Vec<f64>)>, y: YAxis },
}

fn x_label(x: XAxis, value: f64) -> String {
    match x {
        XAxis::Bytes => size(value as u64),
        XAxis::Nanoseconds => time(value * 1e-9),
        XAxis::Nodes | XAxis::Plain => trimmed(value),
    }
}

fn y_label(y: YAxis, value: f64) -> String {
    match y {
        YAxis::Percent => format!("{} %", round(value)),
        YAxis::Microseconds => time(value * 1e-6),
        YAxis::Count => count(value.round() as u64),
    }
}

fn series<'a>(names: impl Iterator<Item = &'a String>) -> Vec<Series> {
    let named = |(place, name): (usize, &String)| Series { name: name.clone(), colour: hue(place) };
    names.enumerate().map(named).collect()
}

impl Chart {
    fn html(&self) -> String {
        let (names, svg) = match &self.plot {
            ReportPlot::Curves { x, y, curves } => {
                let series = series(curves.iter().map(|curve| &curve.0));
                let points: Vec<_> = curves.iter().map(|curve| curve.1.clone()).collect();
                let chart = Curves {
                    name: &self.title,
                    x_name: self.x_name,
                    y_name: self.y_name,
                    is_log: *x != XAxis::Plain,
                    x_label: &|value| x_label(*x, value),
                    y_label: &|value| y_label(*y, value),
                    series: &series,
                    points: &points,
                };
                (legend(&series), chart.svg())
            }
            ReportPlot::Bars { parts, bars, y } => {
                let series = series(parts.iter());
                let bars = bars.iter().map(|(name, values)| ChartBar {
                    label: name.clone(),
                    values: values.clone(),
                    tip: tip(name, parts, values, *y),
                });
                let chart = StackedBars {
                    name: &self.title,
                    series: &series,
                    bars: &bars.collect::<Vec<_>>(),
                    value_label: &|value| y_label(*y, value),
                    ticks: TickUnit::Decimal,
                    axis: self.x_name,
                    width: 760.0,
                };
                (legend(&series), chart.rows())
            }
        };
        format!(
            "<section><h2>{}</h2>\n<p class=\"question\">{}</p>\n\
             <div class=\"figure\">{names}{svg}</div></section>\n",
            escape(&self.title),
            escape(&self.caption)
        )
    }

    /// The chart's values as lines of text.
    fn text(&self) -> String {
        let mut text = format!("{}\n", self.title);
        match &self.plot {
            ReportPlot::Curves { x, y, curves } => {
                for (name, points) in curves {
                    let value =
                        |p: &(f64, f64)| format!("{}: {}", x_label(*x, p.0), y_label(*y, p.1));
                    let values: Vec<String> = points.iter().map(value).collect();
                    let _ = writeln!(text, "  {name}: {}", values.join("; "));
                }
            }
            ReportPlot::Bars { parts, bars, y } => {
                for (name, values) in bars {
                    let _ = writeln!(text, "  {}", tip(name, parts, values, *y));
                }
            }
        }
        text
    }
}

fn tip(name: &str, parts: &[String], values: &[f64], y: YAxis) -> String {
    let value = |(part, value): (&String, &f64)| format!("{part} {}", y_label(y, *value));
    format!("{name}: {}", parts.iter().zip(values).map(value).collect::<Vec<_>>().join(", "))
}

impl ExperimentReport {
    /// For people, as text.
    pub fn text(&self, heading: &Heading, results: &Results) -> String {
        let mut text = format!("{}\n{}\n{}\n\n", heading.title, heading.question, heading.source);
        for finding in &self.findings {
            let _ = writeln!(text, "- {}", finding.text());
        }
        for note in &self.notes {
            let _ = writeln!(text, "* {note}");
        }
        for chart in &self.charts {
            let _ = write!(text, "\n{}", chart.text());
        }
        let (simulated, _) = results.seconds();
        let _ =
            writeln!(text, "\n{} runs, {} simulated in all", results.all().len(), time(simulated));
        text
    }

    /// As one page.
    pub fn page(&self, heading: &Heading, results: &Results) -> String {
        let style = format!("{THEME}{}", page::STYLE);
        let mut html = page::open(heading.title, &style);
        let _ = write!(
            html,
            "<body>\n<main>\n<header><p class=\"kicker\">sim-experiments {}</p>\n\
             <h1>{}</h1>\n<p class=\"where\">{}</p></header>\n",
            escape(heading.name),
            escape(heading.question),
            escape(heading.source)
        );
        let (simulated, real) = results.seconds();
        html += &page::facts([
            ("runs", results.all().len().to_string(), String::new()),
            ("simulated", time(simulated), "of all clusters".to_owned()),
            ("took", time(real), "of simulation".to_owned()),
        ]);
        let findings: Vec<String> = self.findings.iter().map(ThesisFinding::text).collect();
        html += &page::sentences("findings", "Beside the thesis", &findings);
        html += &page::sentences("notes", "Notes", &self.notes);
        for chart in &self.charts {
            html += &chart.html();
        }
        html += "<section><h2>All runs</h2>\n";
        html += &table(results).html();
        html + "</section>\n</main>\n</body>\n</html>\n"
    }
}

/// All runs with the counts that most readers want.
fn table(results: &Results) -> DataTable<'static> {
    let number = |value: f64| Cell::number(value, count(value.round() as u64));
    let rows = results.all().iter().map(|(run, outcome)| {
        let injected = ["injected_l2", "injected_l3", "injected_other_core"];
        vec![
            Cell::text(run.name()),
            Cell::number(outcome.region_ns, time(outcome.region_ns * 1e-9)),
            number(outcome.memory_reads()),
            number(injected.iter().map(|name| outcome.count(name)).sum()),
            number(outcome.count("injected_used")),
            number(outcome.count("injected_evicted")),
            number(outcome.count("instructions")),
        ]
    });
    DataTable {
        caption: "Counts of all nodes together, in the region of interest; instructions of the \
            whole program",
        header: columns(
            "run | time | memory reads | lines injected | used | evicted before use | instructions",
        ),
        rows: rows.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thesis;

    #[test]
    fn findings_put_numbers_beside_the_thesis() {
        let less = ThesisFinding::number(&thesis::INJECTION_READS, 94.04).text();
        assert!(
            less.contains("up to 96 % (Figure 2.4, page 16). Here: 94 %, 2 points less."),
            "{less}"
        );
        let within = ThesisFinding::number(&thesis::FFT_PAYLOAD, 6.5).text();
        assert!(within.ends_with("Here: 6.5 %, within."), "{within}");
        let above = ThesisFinding::number(&thesis::FFT_PAYLOAD, 9.0).text();
        assert!(above.ends_with("Here: 9 %, 1 points more."), "{above}");
        let more = ThesisFinding::number(&thesis::AMG_WAITS, 44.0).text();
        assert!(more.ends_with("Here: 44 %, as there."), "{more}");
        let figures = percents(&[1.0, 2.25]);
        let shape =
            ThesisFinding::shape(&thesis::GAIN_GROWS, ShapeVerdict::of(false), figures).text();
        assert!(shape.ends_with("Not so here: 1 %, 2.2 %."), "{shape}");
    }

    #[test]
    fn gains_are_percents_of_the_base() {
        assert_eq!(gain(200.0, 150.0), 25.0);
        assert_eq!(gain(100.0, 110.0).round(), -10.0);
        assert_eq!(gain(0.0, 1.0), 0.0);
        assert_eq!((round(-0.01), round(2.04)), ("0".into(), "2".into()));
    }
}

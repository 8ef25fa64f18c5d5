//! The result as one HTML page that needs nothing else.

use mica_sim::loggp::{LogGpFit, Parameter, SizeRow};

use super::text::{line, meaning, notes};
use crate::draw::bars::{Series, legend};
use crate::draw::colour::{THEME, hue};
use crate::draw::page::{self, Cell, DataTable, columns};
use crate::draw::scale::TickUnit;
use crate::draw::scatter::{Axis, Scatter};
use crate::draw::text::{escape, size, time, trimmed};

/// The page.
pub fn page(fitted: &LogGpFit) -> String {
    let style = format!("{THEME}{}", page::STYLE);
    let mut html = page::open("LogGP parameters", &style);
    html += "<body>\n<main>\n<header><h1>LogGP parameters</h1>\n";
    html += &format!("<p class=\"note\">{}</p>\n", escape(&fitted.library));
    let facts = Parameter::ALL.into_iter().zip(&fitted.estimates).map(|(p, e)| {
        (
            p.symbol(),
            format!("{} {}", trimmed(e.value), p.unit()),
            format!("{} to {}: {}", trimmed(e.low), trimmed(e.high), meaning(p)),
        )
    });
    html += &page::facts(facts);
    html += &page::sentences("notes", "Notes", &notes(fitted));
    html += "</header>\n<section>\n<h2>Gaps and the fitted line</h2>\n";
    html += &chart(fitted);
    html += &table(fitted);
    html + "</section>\n</main>\n</body>\n</html>\n"
}

/// What a size has of a series.
type Column = fn(&SizeRow) -> f64;

fn chart(fitted: &LogGpFit) -> String {
    let columns: [(&str, usize, Column); 4] = [
        ("one way", 1, |row| row.one_way.value),
        ("o_s", 2, |row| row.send.value),
        ("o_r", 3, |row| row.receive.value),
        ("gap", 5, |row| row.gap.value),
    ];
    let mut series =
        vec![Series { name: "g + (bytes - 1) G".into(), colour: "var(--quiet)".into() }];
    let mut points = vec![fine_line(fitted)];
    for (name, colour, value) in columns {
        series.push(Series { name: name.into(), colour: hue(colour) });
        let of = |row: &SizeRow| (row.bytes as f64, value(row));
        points.push(fitted.sizes.iter().map(of).collect());
    }
    let svg = Scatter {
        name: "Overheads, one-way times and gaps by message size, with the fitted line",
        x_name: "bytes",
        y_name: "time",
        x_axis: Axis::Log(TickUnit::Bytes),
        y_axis: Axis::Log(TickUnit::Decimal),
        x_label: &|value| size(value as u64),
        y_label: &|value| time(value * 1e-9),
        series: &series,
        points: &points,
    }
    .svg();
    format!("{}<div class=\"figure\">{svg}</div>\n", legend(&series))
}

/// The fitted line as dots that nearly touch.
fn fine_line(fitted: &LogGpFit) -> Vec<(f64, f64)> {
    let (Some(first), Some(last)) = (fitted.sizes.first(), fitted.sizes.last()) else {
        return Vec::new();
    };
    let (low, high) = ((first.bytes as f64).ln(), (last.bytes as f64).ln());
    let at = |step: u32| (low + (high - low) * f64::from(step) / 300.0).exp();
    let point = |bytes: f64| (bytes, line(fitted, bytes as u64));
    (0..=300).map(|step| point(at(step))).collect()
}

fn table(fitted: &LogGpFit) -> String {
    let row = |row: &SizeRow| {
        let estimate = |e: &mica_sim::loggp::Estimate| {
            let tip = format!("{} to {}", trimmed(e.low), trimmed(e.high));
            Cell::number(e.value, trimmed(e.value)).with_tip(tip)
        };
        vec![
            Cell::number(row.bytes as f64, size(row.bytes)),
            estimate(&row.send),
            estimate(&row.receive),
            estimate(&row.one_way),
            estimate(&row.gap),
            Cell::text(if row.counts { "yes" } else { "no" }),
        ]
    };
    DataTable {
        caption: "Times by size, in nanoseconds",
        header: columns("size | o_s | o_r | one way | gap | counts for g and G"),
        rows: fitted.sizes.iter().map(row).collect(),
    }
    .html()
}

#[cfg(test)]
mod tests {
    use super::super::text::tests::example;
    use super::*;

    #[test]
    fn stands_alone_and_escapes() {
        let html = page(&example());
        assert!(html.contains("Some &lt;MPI&gt;") && !html.contains("<MPI>"));
        assert!(!html.contains("NaN") && !html.contains("http://") && !html.contains("src="));
        assert_eq!(html.matches("<tr>").count(), 1 + 4);
    }
}

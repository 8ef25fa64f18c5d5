//! The results as one HTML page that contains its plots.

use std::fmt::Write as _;

use super::report::{BenchReport, TableDetail};
use crate::draw::page;
use crate::draw::text::escape;

const STYLE: &str = "
:root { --ground: #fff; --shade: rgb(0 0 0 / .22); }
body { font: 15px/1.5 system-ui, Helvetica, Arial, sans-serif; color: #111; background: #fff; \
    margin: 2rem auto;
       max-width: 84rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
p.note, details { color: #555; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .3rem .7rem; border-bottom: 1px solid #e4e4e4; \
    vertical-align: top; }
th { font-weight: 600; border-bottom: 1px solid #999; }
td.reached { color: #00694c; font-weight: 600; } td.missed { color: #b3261e; font-weight: 600; }
div.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 34rem), 1fr)); \
    gap: 1rem; }
div.plots div { min-width: 0; border: 1px solid #eee; }
div.plots svg { display: block; width: 100%; min-width: 38rem; height: auto; }
div.plots svg > rect { fill: none; }
pre { white-space: pre-wrap; font-size: 12px; }
";

/// Writes the page.
pub fn page(report: &BenchReport) -> String {
    let mut html = page::open(&report.title, &format!("{STYLE}{}", page::SCROLLING));
    let _ = writeln!(
        html,
        "<h1>{}</h1>\n<p>{}.<br><code>{}</code>, {} interleaved rounds.</p>",
        escape(&report.title),
        escape(&report.host.line()),
        escape(&report.origin.command),
        report.rounds
    );
    let complaints = report.complaints();
    if !complaints.is_empty() {
        html += "<h2>What failed or was left out</h2>\n<ul>\n";
        for line in complaints {
            let _ = writeln!(html, "<li>{}</li>", escape(&line));
        }
        html += "</ul>\n";
    }
    let tables = report.tables(TableDetail::Medians);
    let (bars, others): (Vec<_>, Vec<_>) = tables.iter().partition(|cells| cells.title == "Bars");
    for cells in bars {
        page::table(&mut html, cells, class);
    }
    if !report.plots.is_empty() {
        html += "<h2>Plots</h2>\n<p class=\"note\">Lines join the medians of the rounds; bands \
                 hold the middle half. Point at a mark for its numbers.</p>\n\
                 <div class=\"plots\">\n";
        for plot in &report.plots {
            let _ = writeln!(html, "<div class=\"figure\">{}</div>", plot.svg());
        }
        html += "</div>\n";
    }
    for cells in others {
        page::table(&mut html, cells, class);
    }
    let host = serde_json::to_string_pretty(&report.host).expect("plain data is valid JSON");
    let _ = writeln!(
        html,
        "<details><summary>The machine and the libraries</summary><pre>{}</pre></details>\n</html>",
        escape(&host)
    );
    html
}

/// The class of a cell by its text.
fn class(cell: &str) -> Option<&'static str> {
    match cell {
        "reached" => Some("reached"),
        _ if cell == "missed" || cell.starts_with("missed; ") => Some("missed"),
        _ => None,
    }
}

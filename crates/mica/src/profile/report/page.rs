//! The page: its frame, the order of its sections, and the data for its script.

use std::fmt::Write as _;

use mica_profile::Profile;
use serde_json::json;

use super::view::View;
use super::{distribution, facts, matrix, sites, time, timeline, waiting};
use crate::draw::colour::THEME;
use crate::draw::page;
use crate::draw::text::{escape, script_json};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// One section of the page.
pub struct Section {
    pub id: &'static str,
    pub title: &'static str,
    /// What the section answers, and how to read it.
    pub question: &'static str,
    /// HTML.
    pub body: String,
}

/// A chart with a note on what it leaves out, and its figures as a table that opens.
pub fn figure(chart: &str, note: Option<&str>, table: &str) -> String {
    let mut html = format!("<div class=\"figure\">{chart}</div>\n");
    if let Some(note) = note {
        let _ = writeln!(html, "<p class=\"note\">{}</p>", escape(note));
    }
    if !table.is_empty() {
        let _ = writeln!(html, "<details><summary>Table</summary>\n{table}</details>");
    }
    html
}

/// Two charts beside one another, with their titles.
pub fn pair(a: (&str, &str), b: (&str, &str)) -> String {
    format!("<div class=\"pair\">{}{}</div>", titled(a), titled(b))
}

/// Two wide charts, one below the other.
pub fn column(a: (&str, &str), b: (&str, &str)) -> String {
    titled(a) + &titled(b)
}

fn titled((title, chart): (&str, &str)) -> String {
    format!("<div><h3>{title}</h3>{chart}</div>")
}

/// The whole page.
pub fn page(profile: &Profile) -> String {
    let view = View::new(profile);
    let (timeline, bars) = timeline::section(&view);
    let sections = [
        time::by_rank(&view),
        time::by_call(&view),
        timeline,
        waiting::late(&view),
        waiting::reasons(&view),
        distribution::by_size(&view),
        distribution::two_dimensional(&view),
        matrix::section(&view),
        sites::section(&view),
    ];
    let title = format!("MPI profile: {}", profile.job.command.join(" "));
    let mut html = page::open(&title, &format!("{THEME}{STYLE}"));
    html += "<body>\n<a class=\"skip\" href=\"#ranks\">To the charts</a>\n";
    html += &facts::html(&view);
    html += "<nav aria-label=\"Sections\"><ul>";
    for section in &sections {
        let _ = write!(
            html,
            "<li><a href=\"#{}\">{}</a></li>",
            section.id, section.title
        );
    }
    html += "</ul></nav>\n<main>\n";
    for section in &sections {
        let _ = writeln!(
            html,
            "<section id=\"{0}\" aria-labelledby=\"{0}-title\">\n<h2 id=\"{0}-title\">{1}</h2>\n\
             <p class=\"question\">{2}</p>\n{3}</section>",
            section.id, section.title, section.question, section.body
        );
    }
    html += "</main>\n<div id=\"tip\" role=\"status\" hidden></div>\n";
    let data = json!({ "timeline": bars, "matrix": matrix::data(&view) }).to_string();
    let _ = writeln!(
        html,
        "<script type=\"application/json\" id=\"data\">{}</script>\n<script>{SCRIPT}</script>\n\
         </body>\n</html>",
        script_json(&data)
    );
    html
}

//! A section of the page, and how charts stand in it. The modules of the sections build them, the
//! page puts them in order.

use std::fmt::Write as _;

use crate::draw::text::escape;

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

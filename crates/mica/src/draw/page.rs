//! The frame of an HTML page that is one file, and its tables.

use std::fmt::Write as _;

use super::text::escape;

/// A table's cells as text, from which every format is made.
pub struct TableCells {
    pub title: String,
    pub note: String,
    pub header: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

/// The page's first lines, up to and with its heading.
pub fn head(title: &str, style: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{0}</title>\n<style>{style}</style>\n<h1>{0}</h1>\n",
        escape(title)
    )
}

/// A table under its own heading. `class` names the class of a cell by its text.
pub fn table(html: &mut String, cells: &TableCells, class: fn(&str) -> Option<&'static str>) {
    let _ = writeln!(
        html,
        "<h2>{}</h2>\n<p class=\"note\">{}</p>\n<div class=\"table\"><table><tr>",
        escape(&cells.title),
        escape(&cells.note)
    );
    for name in &cells.header {
        let _ = write!(html, "<th>{}</th>", escape(name));
    }
    html.push_str("</tr>\n");
    for row in &cells.rows {
        html.push_str("<tr>");
        for cell in row {
            let class = class(cell).map_or_else(String::new, |name| format!(" class=\"{name}\""));
            let _ = write!(html, "<td{class}>{}</td>", escape(cell));
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</table></div>\n");
}

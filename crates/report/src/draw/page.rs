//! The frame of an HTML page that is one file, and its tables.

use std::fmt::Write as _;

use super::text::escape;

/// How charts and tables scroll that are wider than the page (classes `figure`, `pair`, `one`,
/// `table`); it needs the colours `--ground` and `--shade`.
pub const SCROLLING: &str = include_str!("scroll.css");

/// The style of reports: sections of charts and tables.
pub const STYLE: &str = concat!(include_str!("scroll.css"), include_str!("style.css"));

/// A table's cells as text, from which every format is made.
pub struct TableCells {
    pub title: String,
    pub note: String,
    pub header: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

/// The header cells of a table, which stand between bars: `size | calls`.
pub fn columns(header: &str) -> Vec<String> {
    header.split(" | ").map(str::to_owned).collect()
}

/// The page's first lines, before its heading.
pub fn open(title: &str, style: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{0}</title>\n<style>{style}</style>\n",
        escape(title)
    )
}

/// The figures in a page's head: of each the name, the value and what is said beside it.
pub fn facts<'a>(facts: impl IntoIterator<Item = (&'a str, String, String)>) -> String {
    let mut html = String::from("<dl class=\"facts\">\n");
    for (name, value, more) in facts {
        let _ = writeln!(
            html,
            "<div><dt>{name}</dt><dd>{}<small>{}</small></dd></div>",
            escape(&value),
            escape(&more)
        );
    }
    html + "</dl>\n"
}

/// A section with a heading and the question that it answers; `body` is HTML.
pub fn section(title: &str, question: &str, body: &str) -> String {
    format!("<section>\n<h2>{title}</h2>\n<p class=\"question\">{question}</p>\n{body}</section>\n")
}

/// A list of sentences, with its name for those who do not see it; nothing if it is empty.
pub fn sentences(class: &str, label: &str, lines: &[String]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let mut html = format!("<ul class=\"{class}\" aria-label=\"{label}\">\n");
    for line in lines {
        let _ = writeln!(html, "<li>{}</li>", escape(line));
    }
    html + "</ul>\n"
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

/// A cell of a [`DataTable`].
#[derive(Clone, Default)]
pub struct Cell {
    pub text: String,
    /// What the cell is sorted by, if not by its text.
    pub number: Option<f64>,
    /// A bar behind the text: its share of the cell, and its colour.
    pub bar: Option<(f64, String)>,
    /// What a pointer on it shows.
    pub tip: Option<String>,
}

impl Cell {
    /// A cell with text.
    pub fn text(text: impl Into<String>) -> Cell {
        Cell { text: text.into(), ..Cell::default() }
    }

    /// A cell with a number, by which its column is sorted.
    pub fn number(number: f64, text: impl Into<String>) -> Cell {
        Cell { text: text.into(), number: Some(number), ..Cell::default() }
    }

    /// The cell with a bar of this share of its width.
    pub fn with_bar(self, share: f64, colour: impl Into<String>) -> Cell {
        Cell { bar: Some((share, colour.into())), ..self }
    }

    /// The cell with a text that is shown when the pointer is on it.
    pub fn with_tip(self, tip: impl Into<String>) -> Cell {
        Cell { tip: Some(tip.into()), ..self }
    }
}

/// A table whose columns a script can sort: the header cells of a table with the class `data`.
pub struct DataTable<'a> {
    pub caption: &'a str,
    pub header: Vec<String>,
    pub rows: Vec<Vec<Cell>>,
}

impl DataTable<'_> {
    /// The table. A column is right-aligned if its first cell is a number without a bar.
    pub fn html(&self) -> String {
        let first = self.rows.first().map(|row| row.iter().map(Cell::column_class).collect());
        let classes: Vec<&str> = first.unwrap_or(vec![""; self.header.len()]);
        let mut html = format!(
            "<div class=\"table\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\">\
             <table class=\"data\"><caption>{0}</caption><thead><tr>",
            escape(self.caption)
        );
        for (name, class) in self.header.iter().zip(&classes) {
            let _ = write!(html, "<th scope=\"col\"{class}>{}</th>", escape(name));
        }
        html += "</tr></thead><tbody>\n";
        for row in &self.rows {
            html += "<tr>";
            for (cell, class) in row.iter().zip(&classes) {
                cell.write(&mut html, class);
            }
            html += "</tr>\n";
        }
        html + "</tbody></table></div>\n"
    }
}

impl Cell {
    /// The class attribute of the column that this cell begins.
    fn column_class(&self) -> &'static str {
        if self.number.is_some() && self.bar.is_none() { " class=\"n\"" } else { "" }
    }

    fn write(&self, html: &mut String, class: &str) {
        let _ = write!(html, "<td{class}");
        if let Some(number) = self.number {
            let _ = write!(html, " data-n=\"{number}\"");
        }
        if let Some(tip) = &self.tip {
            let _ = write!(html, " data-tip=\"{}\"", escape(tip));
        }
        html.push('>');
        if let Some((share, colour)) = &self.bar {
            let width = share.clamp(0.0, 1.0) * 100.0;
            let _ = write!(
                html,
                "<i class=\"bar\"><b style=\"width:{width:.1}%;background:{colour}\"></b></i>"
            );
        }
        html.push_str(&escape(&self.text));
        html.push_str("</td>");
    }
}

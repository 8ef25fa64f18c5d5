//! The page: its frame, the order of its sections, and the data for its script.

use std::fmt::Write as _;

use mica_profile::Profile;
use serde_json::json;

use super::view::ProfileView;
use super::{distribution, facts, files, matrix, sites, time, timeline, waiting};
use crate::draw::colour::THEME;
use crate::draw::page;
use crate::draw::text::script_json;

const SCRIPT: &str = include_str!("script.js");

/// The whole page.
pub fn page(profile: &Profile) -> String {
    let view = ProfileView::new(profile);
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
        files::section(&view),
        sites::section(&view),
    ];
    let title = format!("MPI profile: {}", profile.job.command.join(" "));
    let mut html = page::open(&title, &format!("{THEME}{}", page::STYLE));
    html += "<body>\n<a class=\"skip\" href=\"#ranks\">To the charts</a>\n";
    html += &facts::html(&view);
    html += "<nav aria-label=\"Sections\"><ul>";
    for section in &sections {
        let _ = write!(html, "<li><a href=\"#{}\">{}</a></li>", section.id, section.title);
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

//! The section of the page for `mica links model --study`: how the finding depends on the
//! background, and whether the predictor pays.

use mica_links::study::ModelStudy;

use super::text::{intensity, payoff_sentence, uses};
use crate::draw::colour::hue;
use crate::draw::page::{Cell, DataTable, columns, section};
use crate::draw::text::{percent, time};

/// The sections.
pub fn html(study: &ModelStudy) -> String {
    let mut html = section(
        "Sensitivity to the background",
        "How much of the share of the slowest calls comes from the background that was chosen?",
        &sensitivity(study),
    );
    html += &section(
        "Does the predictor pay?",
        "What do postponing calls and choosing between schedules save on the modelled machine?",
        &payoffs(study),
    );
    html
}

fn sensitivity(study: &ModelStudy) -> String {
    let rows = study.sensitivity.iter().map(|row| {
        vec![
            Cell::text(intensity(row.intensity)),
            Cell::number(row.slowest_share, percent(row.slowest_share))
                .with_bar(row.slowest_share, hue(0)),
            Cell::text(format!("{} to {}", percent(row.least), percent(row.highest))),
            Cell::number(row.longest, format!("{:.0}", row.longest)),
            Cell::text(if row.is_default { "the default" } else { "" }),
        ]
    });
    let caption = format!(
        "The share of the time that the slowest 5 % of the calls take under traffic of other \
         intensities; the paper measured 93 %, and the default I/O was chosen to come near it. {} \
         worlds of {} calls",
        study.worlds, study.calls
    );
    let table = DataTable {
        caption: &caption,
        header: columns(
            "other traffic | slowest 5 % take | over worlds | longest call, in medians | ",
        ),
        rows: rows.collect(),
    };
    table.html()
}

fn payoffs(study: &ModelStudy) -> String {
    let rows = uses(study).map(|(what, payoff)| {
        vec![
            Cell::text(what),
            Cell::number(payoff.without, time(payoff.without)),
            Cell::number(payoff.with, time(payoff.with)),
            Cell::text(payoff_sentence(payoff)),
        ]
    });
    let caption = format!(
        "Time of {} calls without and with the predictor, waiting included; means and 95 % \
         intervals over {} worlds that it has not learnt from",
        study.calls, study.worlds
    );
    let table = DataTable {
        caption: &caption,
        header: columns("use | without | with | result"),
        rows: rows.into(),
    };
    format!("<div class=\"words\">{}</div>\n", table.html())
}

//! An explanation as text for a terminal.

use std::fmt::Write as _;

use comfy_table::{Table, presets};
use mica_links::analysis::cluster::TIME_CLASSES;
use mica_links::explain::Explanation;
use mica_links::predictor::Validation;

use crate::draw::text::{percent, time, trimmed};

/// Rows of the table of links.
const LINKS: usize = 12;

/// The text.
pub fn render(explanation: &Explanation) -> String {
    let all = &explanation.distribution;
    let mut text = format!(
        "{}\non {}\n\n{} calls, {} in all: median {}, 95 % up to {}, longest {}.\n\
         The slowest 5 % of the calls take {} of the time.\n\n",
        explanation.what,
        explanation.machine,
        all.calls,
        time(all.total_seconds),
        time(all.median),
        time(all.p95),
        time(all.max),
        percent(all.slowest_share)
    );
    for advice in &explanation.advice {
        let _ = writeln!(text, "* {advice}");
    }
    let _ = writeln!(
        text,
        "\nClusters of execution time\n{}",
        clusters(explanation)
    );
    if !explanation.links.is_empty() {
        let _ = writeln!(
            text,
            "\nLinks by rank correlation with the time (all links together: {:.2})\n{}",
            explanation.total_correlation,
            links(explanation)
        );
        let _ = writeln!(text, "\n{}", relevant(explanation));
    }
    let validations = [
        (
            "Load during a call as indicator of its class",
            &explanation.indicator,
        ),
        (
            "Load before a call as predictor of its class",
            &explanation.predictor,
        ),
    ];
    for (title, validation) in validations {
        if let Some(validation) = validation {
            let _ = writeln!(text, "\n{title}\n{}", confusion(validation));
        }
    }
    for note in &explanation.notes {
        let _ = writeln!(text, "\nNote: {note}");
    }
    text + "\n"
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(header);
    table
}

fn clusters(explanation: &Explanation) -> String {
    let mut rows = table(&["class", "from", "to", "calls", "of the time", "marked by"]);
    for cluster in &explanation.clusters {
        let marks = cluster.marks.iter().take(6);
        let names: Vec<&str> = marks
            .map(|mark| explanation.links[mark.link].as_str())
            .collect();
        rows.add_row([
            cluster.duration.name().to_owned(),
            time(cluster.from),
            time(cluster.to),
            cluster.calls.to_string(),
            percent(cluster.time_share),
            names.join(" "),
        ]);
    }
    rows.to_string()
}

fn links(explanation: &Explanation) -> String {
    let header = [
        "link",
        "correlation",
        "95 % interval",
        "p (Holm)",
        "blamed",
        "in slow calls",
    ];
    let mut rows = table(&header);
    for link in explanation.ranking.iter().take(LINKS) {
        rows.add_row([
            explanation.links[link.link].clone(),
            format!("{:.2}", link.rho),
            format!("{:.2} to {:.2}", link.interval.low, link.interval.high),
            match link.p {
                p if p < 1e-6 => "< 1e-6".to_owned(),
                p => trimmed(p),
            },
            if link.blamed { "yes" } else { "" }.to_owned(),
            percent(link.coincidence),
        ]);
    }
    rows.to_string()
}

fn relevant(explanation: &Explanation) -> String {
    let names: Vec<String> = explanation
        .relevant
        .iter()
        .map(|chosen| {
            let name = &explanation.links[chosen.link];
            format!(
                "{name} (in {:.0} % of half samples)",
                100.0 * chosen.stability
            )
        })
        .collect();
    match names.is_empty() {
        true => "No set of links is relevant.".to_owned(),
        false => format!("Relevant set of links: {}", names.join(", ")),
    }
}

fn confusion(validation: &Validation) -> String {
    let mut rows = table(&["is \\ said", "short", "medium", "long"]);
    for class in TIME_CLASSES {
        let row = validation.confusion[class as usize].map(|calls| calls.to_string());
        rows.add_row(std::iter::once(class.name().to_owned()).chain(row));
    }
    format!(
        "{rows}\nRight in {} of held-out calls, the best constant guess in {}; difference {:+.1} to \
         {:+.1} points: {}.",
        percent(validation.accuracy),
        percent(validation.constant),
        100.0 * validation.gain.low,
        100.0 * validation.gain.high,
        match validation.beats_constant {
            true => "better than the guess",
            false => "not better than the guess",
        }
    )
}

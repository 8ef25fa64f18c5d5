//! The numbers of muecke-2010 beside those of an observation, figure by figure, and why they differ.
//!
//! The paper: 2000 consecutive `MPI_Allreduce` of 16 kB on 32 ranks of a Sun Fire X4600 M2 with Open
//! MPI 1.3, section 5.1. It has no numbered tables, and its text gives no number for Figure 6.

use mica_links::Source;
use mica_links::analysis::cluster::Cluster;
use mica_links::explain::Explanation;
use serde::Serialize;

use crate::draw::text::{percent, time};

/// Seconds; below this a call counts as fast in Figures 3 and 6.
const FAST: f64 = 500e-6;

/// Seconds; the cluster that Figure 7 shows.
const CLUSTER: f64 = 80e-3;

/// One number of the paper.
#[derive(Debug, Clone, Serialize)]
pub struct PaperRow {
    /// Where the paper has it.
    pub figure: &'static str,
    /// What it is.
    pub what: &'static str,
    /// The paper's value.
    pub paper: &'static str,
    /// This observation's.
    pub here: String,
    /// Why both differ.
    pub why: &'static str,
}

/// All rows for the calls of a workload, whose times are `seconds`.
pub fn rows(explanation: &Explanation, seconds: &[f64]) -> Vec<PaperRow> {
    let is_model = explanation.source == Source::Model;
    // Elsewhere everything differs: the machine, the library and what else runs.
    let why = |model: &'static str| match is_model {
        true => model,
        false => "another machine, library and background",
    };
    let all = &explanation.distribution;
    let fast = seconds.iter().filter(|time| **time < FAST).count();
    let fast = fast as f64 / seconds.len().max(1) as f64;
    let row = |figure, what, paper, here: String, why| PaperRow {
        figure,
        what,
        paper,
        here,
        why,
    };
    let mut rows = vec![
        row(
            "2",
            "median call",
            "363 us",
            time(all.median),
            why("the model has no caches, operators or scheduler, and another library's schedule"),
        ),
        row(
            "2",
            "longest call",
            "600 ms",
            time(all.max),
            why(
                "the longest burst of the background was set to 600 ms; whether a call meets one is \
             chance",
            ),
        ),
        row(
            "3",
            "calls below 500 us",
            "more than 95 %",
            percent(fast),
            why("the quiet time between bursts was set so that about 1 call in 20 meets one"),
        ),
        row(
            "text",
            "time taken by the slowest 5 %",
            "93 %",
            percent(all.slowest_share),
            why(
                "the background was chosen to come near it: no evidence of the cause (see the \
             sensitivity)",
            ),
        ),
    ];
    if explanation.links.is_empty() {
        return rows;
    }
    let blamed = explanation
        .ranking
        .iter()
        .filter(|link| link.blamed)
        .count();
    let best = explanation.ranking.first();
    rows.extend([
        row("4", "time against all links' load", "no obvious correlation",
            format!("rank correlation {:.2}", explanation.total_correlation), why(
            "long calls also carry more bytes of the background, which the model's links add up; \
             the paper judged by eye, on linear axes",
        )),
        row("5", "time against the load of one link", "positive for link 12 and several others",
            best.map_or(String::new(), |best| format!(
                "{:.2} for {}; {blamed} of {} links blamed",
                best.rho, explanation.links[best.link], explanation.links.len()
            )), why("the paper's numbers of links cannot be mapped to sockets")),
        row("6", "load of links in fast calls", "a figure; links ordered by median",
            evenness(explanation), why(
            "one schedule at one placement: the spread is that of the routes",
        )),
        row("7", "a cluster at about 80 ms", "marked by links 1, 3, 13 and 15",
            nearest(explanation), why(
            "each length of burst crosses certain links of the model by design, so that clusters \
             have marks; the marks must be found, their existence is no finding",
        )),
        row("text", "classes told apart by load during the call", "short, medium, long (by eye)",
            explanation.indicator.as_ref().map_or("no classes".to_owned(), |v| format!(
                "right in {} of held-out calls, guess {}", percent(v.accuracy), percent(v.constant)
            )), why("the same question, answered by cross-validation")),
        row("6 (outlook)", "predictor", "proposed, not built",
            explanation.predictor.as_ref().map_or("no classes".to_owned(), |v| format!(
                "right in {} of held-out calls, guess {}", percent(v.accuracy), percent(v.constant)
            )), why("load before the call, not during it")),
    ]);
    rows
}

/// How far apart the medians of links are in fast calls.
fn evenness(explanation: &Explanation) -> String {
    let medians = || explanation.fast_loads.iter().map(|load| load.median);
    let (least, most) = (
        medians().fold(f64::INFINITY, f64::min),
        medians().fold(0.0, f64::max),
    );
    match least > 0.0 {
        true => format!("highest median {:.1} times the least", most / least),
        false => "some links carry nothing".to_owned(),
    }
}

/// The cluster nearest to the paper's, on a scale of factors.
fn nearest(explanation: &Explanation) -> String {
    let middle = |cluster: &Cluster| (cluster.from.max(1e-12) * cluster.to.max(1e-12)).sqrt();
    let distance = |cluster: &&Cluster| (middle(cluster) / CLUSTER).ln().abs();
    let found = explanation
        .clusters
        .iter()
        .min_by(|a, b| distance(a).total_cmp(&distance(b)));
    let Some(found) = found else {
        return String::new();
    };
    let names: Vec<&str> = found
        .marks
        .iter()
        .take(4)
        .map(|mark| explanation.links[mark.link].as_str())
        .collect();
    let marks = match names.is_empty() {
        true => "no link marks it".to_owned(),
        false => format!("marked by {}", names.join(", ")),
    };
    format!("{} to {}: {marks}", time(found.from), time(found.to))
}

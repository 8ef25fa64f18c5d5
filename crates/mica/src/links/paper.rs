//! The numbers of muecke-2010 beside those of an observation, figure by figure, and why they
//! differ.
//!
//! The paper: 2000 consecutive `MPI_Allreduce` of 16 kB on 32 ranks of a Sun Fire X4600 M2 with
//! Open MPI 1.3, section 5.1. It has no numbered tables, and its text gives no number for Figure 6.

use mica_links::LoadSource;
use mica_links::analysis::cluster::TimeCluster;
use mica_links::explain::Explanation;
use mica_links::predictor::Validation;
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

/// Figure, what it is, the paper's value, and why a modelled machine has another.
type PaperValue = [&'static str; 4];

/// What the paper says about times.
const TIMES: [PaperValue; 4] = [
    [
        "2",
        "median call",
        "363 us",
        "the model has no caches, operators or scheduler, and another library's schedule",
    ],
    [
        "2",
        "longest call",
        "600 ms",
        "the longest burst of the background was set to 600 ms; whether a call meets one is chance",
    ],
    [
        "3",
        "calls below 500 us",
        "more than 95 %",
        "the quiet time between bursts was set so that about 1 call in 20 meets one",
    ],
    [
        "text",
        "time taken by the slowest 5 %",
        "93 %",
        "the background was chosen to come near it: no evidence of the cause (see the sensitivity)",
    ],
];

/// What it says about links.
const LINKS: [PaperValue; 6] = [
    [
        "4",
        "time against all links' load",
        "no obvious correlation",
        "a long call also counts the background's bytes while it lasts, and ranks show that; the \
         paper judged by eye, on linear axes",
    ],
    [
        "5",
        "time against the load of one link",
        "positive for link 12 and several others",
        "the paper does not say which sockets its link numbers mean",
    ],
    [
        "6",
        "load of links in fast calls",
        "a figure; links ordered by median",
        "one schedule at one placement: the spread is that of the routes",
    ],
    [
        "7",
        "a cluster at about 80 ms",
        "marked by links 1, 3, 13 and 15",
        "each length of burst crosses certain links of the model by design, so marks are no \
         finding; clusters of fewer than 5 calls have none",
    ],
    [
        "text",
        "classes told apart by load during the call",
        "short, medium, long (by eye)",
        "the same question, answered by cross-validation",
    ],
    [
        "6 (outlook)",
        "predictor",
        "proposed, not built",
        "it sees the load before a call, not during it",
    ],
];

/// All rows for the calls of a workload, whose times are `seconds`.
pub fn rows(explanation: &Explanation, seconds: &[f64]) -> Vec<PaperRow> {
    let is_model = explanation.source == LoadSource::Model;
    let times = TIMES.iter().zip(times(explanation, seconds));
    let links = match explanation.links.is_empty() {
        true => Vec::new(),
        false => LINKS.iter().zip(links(explanation)).collect(),
    };
    let row = |(value, here): (&PaperValue, String)| {
        let [figure, what, paper, why] = *value;
        PaperRow {
            figure,
            what,
            paper,
            here,
            // Elsewhere everything differs: the machine, the library and what else runs.
            why: if is_model { why } else { "another machine, library and background" },
        }
    };
    times.chain(links).map(row).collect()
}

/// This observation's values for [`TIMES`].
fn times(explanation: &Explanation, seconds: &[f64]) -> [String; 4] {
    let all = &explanation.distribution;
    let fast = seconds.iter().filter(|time| **time < FAST).count();
    [
        time(all.median),
        time(all.max),
        percent(fast as f64 / seconds.len().max(1) as f64),
        percent(all.slowest_share),
    ]
}

/// This observation's values for [`LINKS`].
fn links(explanation: &Explanation) -> [String; 6] {
    let ranking = &explanation.ranking;
    let beyond = ranking.iter().filter(|link| link.beyond_chance).count();
    let best = ranking.first().map(|best| {
        let (name, all) = (&explanation.links[best.link], explanation.links.len());
        format!("{:.2} for {name}; {beyond} of {all} links beyond chance", best.rho)
    });
    [
        format!("rank correlation {:.2}", explanation.total_correlation),
        best.unwrap_or_default(),
        evenness(explanation),
        nearest(explanation),
        held_out(explanation.indicator.as_ref()),
        held_out(explanation.predictor.as_ref()),
    ]
}

fn held_out(validation: Option<&Validation>) -> String {
    match validation {
        None => "no classes".to_owned(),
        Some(found) => format!(
            "right in {} of held-out calls, guess {}",
            percent(found.accuracy),
            percent(found.constant)
        ),
    }
}

/// How far apart the medians of links are in fast calls.
fn evenness(explanation: &Explanation) -> String {
    let medians = || explanation.fast_loads.iter().map(|load| load.median);
    let (least, most) = (medians().fold(f64::INFINITY, f64::min), medians().fold(0.0, f64::max));
    match least > 0.0 {
        true => format!("highest median {:.1} times the least", most / least),
        false => "some links carry nothing".to_owned(),
    }
}

/// The cluster nearest to the paper's, on a scale of factors.
fn nearest(explanation: &Explanation) -> String {
    let middle = |cluster: &TimeCluster| (cluster.from.max(1e-12) * cluster.to.max(1e-12)).sqrt();
    let distance = |cluster: &&TimeCluster| (middle(cluster) / CLUSTER).ln().abs();
    let found = explanation.clusters.iter().min_by(|a, b| distance(a).total_cmp(&distance(b)));
    let Some(found) = found else { return String::new() };
    let names: Vec<&str> =
        found.marks.iter().take(4).map(|mark| explanation.links[mark.link].as_str()).collect();
    let marks = format!("marked by {}", names.join(", "));
    let marks = if names.is_empty() { "no link marks it" } else { &marks };
    format!("{} to {}: {marks}", time(found.from), time(found.to))
}

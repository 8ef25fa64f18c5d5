//! Waiting: for whom collectives waited, and for what the library waited.

use std::collections::BTreeMap;

use mica_profile::{LateArrival, Wait};

use super::section::{Section, figure};
use super::time::{ByRank, duration};
use super::view::ProfileView;
use crate::draw::bars::Series;
use crate::draw::colour;
use crate::draw::page::{Cell, DataTable, columns};
use crate::draw::text::{count, time};

/// Rows of the table of late arrivals.
const ROWS: usize = 100;
const NS: f64 = 1e-9;
const NO_REASONS: &str = "<p class=\"none\">The profile does not say what the library waited for: \
                          only Mica counts that.</p>";

/// The ranks that others waited for, those with the largest wait first.
pub fn late(view: &ProfileView) -> Section {
    let mut late: Vec<&LateArrival> = view.profile.late.iter().collect();
    late.sort_by_key(|late| std::cmp::Reverse(late.wait_ns));
    let longest = late.first().map_or(0, |late| late.wait_ns);
    let row = |late: &&LateArrival| {
        let site = view.site(late.site);
        let share = super::facts::share(late.wait_ns, longest);
        vec![
            Cell::text(format!("rank {}", late.rank)).with_tip(view.host(late.rank)),
            Cell::number(late.wait_ns as f64, time(late.wait_ns as f64 * NS))
                .with_bar(share, colour::hue(5)),
            Cell::text(&late.call),
            Cell::text(site.both()).with_tip(site.full),
            Cell::number(late.times as f64, count(late.times)),
            duration(late.behind_ns),
            duration(late.behind_ns / late.times.max(1)),
        ]
    };
    let caption = match late.len() > ROWS {
        true => format!("The {ROWS} largest of {} late arrivals", late.len()),
        false => "Late arrivals by blame".to_owned(),
    };
    let table = DataTable {
        caption: &caption,
        header: columns("late rank | the others waited | call | where | times | late by | mean"),
        rows: late.iter().take(ROWS).map(row).collect(),
    };
    Section {
        id: "late",
        title: "Late arrivals",
        question: "Which rank made the others wait in a collective call, where, and how long? \
                   \u{201c}Late by\u{201d} \
                   counts from the arrival of the one before it. Look for the reason in \
                   what that rank did before the call.",
        body: match late.is_empty() {
            true => "<p class=\"none\">No collective call waited for a rank.</p>".into(),
            false => table.html(),
        },
    }
}

/// The library's waiting by reason and rank.
pub fn reasons(view: &ProfileView) -> Section {
    Section {
        id: "waits",
        title: "Waiting by reason",
        question: "What did the library wait for inside MPI calls? Waiting for a peer calls for \
                   balance, a full queue for more buffers or fewer messages, copying for larger \
                   caches or fewer bytes.",
        body: match &view.profile.waits {
            Some(waits) if waits.iter().any(|wait| wait.ns > 0) => by_reason(view, waits),
            Some(_) => "<p class=\"none\">The library did not wait.</p>".into(),
            None => NO_REASONS.into(),
        },
    }
}

fn by_reason(view: &ProfileView, waits: &[Wait]) -> String {
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for wait in waits {
        *sums.entry(&wait.reason).or_default() += wait.ns;
    }
    let mut reasons: Vec<(&str, u64)> = sums.into_iter().collect();
    reasons.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let series = reasons.iter().enumerate().map(|(place, (reason, ns))| Series {
        name: format!("{reason}, {} in all", time(*ns as f64 * NS)),
        colour: colour::hue(place),
    });
    let series: Vec<Series> = series.collect();
    let mut values = vec![vec![0.0; series.len()]; view.profile.ranks.len()];
    for wait in waits {
        let place = reasons.iter().position(|(reason, _)| *reason == wait.reason);
        values[wait.rank as usize][place.unwrap_or(0)] += wait.ns as f64 * NS;
    }
    let chart = ByRank { name: "Waiting by rank and reason", series: &series, values: &values };
    figure(&chart.html(), None, "")
}

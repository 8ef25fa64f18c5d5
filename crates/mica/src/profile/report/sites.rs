//! The table of call sites.

use mica_profile::summary::{CallSum, by_call_and_site};

use super::facts::share;
use super::section::Section;
use super::time::{NO_CALLS, duration, mean_size};
use super::view::ProfileView;
use crate::draw::page::{Cell, DataTable, columns};
use crate::draw::text::{count, percent, time, volume};

/// Rows that the page has at most.
const ROWS: usize = 1000;

/// Each call at each place, those that took longest first.
pub fn section(view: &ProfileView) -> Section {
    let sums = by_call_and_site(view.profile);
    let longest = sums.first().map_or(0, |sum| sum.time_ns);
    let row = |sum: &CallSum| {
        let site = view.site(sum.site.unwrap_or(u32::MAX));
        let ns = sum.time_ns as f64;
        vec![
            Cell::text(&sum.call),
            Cell::text(&site.function),
            Cell::text(site.place_and_callers()).with_tip(&site.full),
            Cell::number(ns, percent(share(sum.time_ns, view.mpi_ns)))
                .with_bar(share(sum.time_ns, longest), view.call_colour(&sum.call)),
            Cell::number(ns, time(ns * 1e-9)),
            Cell::number(sum.count as f64, count(sum.count)),
            Cell::number(f64::from(sum.ranks), sum.ranks.to_string()),
            duration(sum.time_ns / sum.count.max(1)),
            duration(sum.max_ns),
            Cell::number(sum.bytes as f64, volume(sum.bytes as f64)),
            mean_size(sum.bytes, sum.sends),
        ]
    };
    let caption = match sums.len() > ROWS {
        true => format!("The {ROWS} call sites that took longest, of {}", sums.len()),
        false => "Call sites".to_owned(),
    };
    let table = DataTable {
        caption: &caption,
        header: columns(
            "call | function | place | share of MPI time | time | calls | ranks | mean | \
             longest | sent | mean size",
        ),
        rows: sums.iter().take(ROWS).map(row).collect(),
    };
    Section {
        id: "sites",
        title: "Call sites",
        question: "Which line of the program calls, and what does it cost? Type to filter; a click \
                   on a heading sorts.",
        body: match sums.is_empty() {
            true => NO_CALLS.into(),
            false => format!(
                "<p class=\"filter\"><label>Filter <input type=\"search\" id=\"filter\" \
             placeholder=\"call, function or file\" autocomplete=\"off\"></label> \
             <output id=\"filtered\" for=\"filter\"></output></p>\n{}",
                table.html()
            ),
        },
    }
}

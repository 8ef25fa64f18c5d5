//! Files: what was done with each.

use mica_profile::summary::{FileDirectionSum, FileSum, by_file};

use super::facts::share;
use super::section::Section;
use super::time::mean_size;
use super::view::{ProfileView, class_range};
use crate::draw::colour;
use crate::draw::page::{Cell, DataTable, columns};
use crate::draw::text::{count, percent, time, volume};

/// Files that the page names at most.
const ROWS: usize = 200;
const NS: f64 = 1e-9;

/// Each file with its reads and its writes, those that took longest first.
pub fn section(view: &ProfileView) -> Section {
    let sums = by_file(view.profile);
    let longest = sums.first().map_or(0, FileSum::time_ns);
    let caption = match sums.len() > ROWS {
        true => format!("The {ROWS} files that took longest, of {}", sums.len()),
        false => "Files".to_owned(),
    };
    let table = DataTable {
        caption: &caption,
        header: columns(
            "file | time | ranks | access | accesses | bytes | mean size | most are | sequential | \
             their time | other calls",
        ),
        rows: sums.iter().take(ROWS).flat_map(|sum| rows(sum, longest)).collect(),
    };
    Section {
        id: "files",
        title: "Files",
        question: "What was read and written by MPI, in which sizes, and how long did it take? \
                   \u{201c}Sequential\u{201d} are accesses that begin where the last one of the \
                   rank ended. Many short ones that are not want a collective call with a view.",
        body: match sums.is_empty() {
            true => "<p class=\"none\">No file was accessed by MPI.</p>".into(),
            false => table.html(),
        },
    }
}

fn rows(sum: &FileSum, longest: u64) -> Vec<Vec<Cell>> {
    let used = ["read", "write"].into_iter().zip(&sum.directions).filter(|(_, of)| of.calls > 0);
    let row = |access: &str, of: &FileDirectionSum| {
        let ns = sum.time_ns();
        vec![
            Cell::text(&sum.file),
            Cell::number(ns as f64, time(ns as f64 * NS))
                .with_bar(share(ns, longest), colour::hue(0)),
            Cell::number(f64::from(sum.ranks), sum.ranks.to_string()),
            Cell::text(access),
            Cell::number(of.calls as f64, count(of.calls)),
            Cell::number(of.bytes as f64, volume(of.bytes as f64)),
            mean_size(of.bytes, of.calls),
            Cell::text(of.usual_class().map_or_else(String::new, class_range)),
            Cell::number(of.following as f64, percent(share(of.following, of.calls))),
            Cell::number(of.time_ns as f64, time(of.time_ns as f64 * NS)),
            Cell::number(sum.other_ns as f64, time(sum.other_ns as f64 * NS)),
        ]
    };
    let rows: Vec<_> = used.map(|(access, of)| row(access, of)).collect();
    match rows.is_empty() {
        true => vec![row("none", &FileDirectionSum::default())],
        false => rows,
    }
}

//! The communication matrix: who sends how much to whom. Rows send, columns receive.

use std::collections::BTreeMap;

use mica_profile::RankPair;
use serde_json::{Value, json};

use super::groups::Groups;
use super::section::{Section, figure, pair};
use super::view::ProfileView;
use crate::draw::heat::HeatMap;
use crate::draw::page::{Cell, DataTable, columns};
use crate::draw::text::{count, volume};

/// Ranks, or groups of ranks, that a side has at most.
const SIDE: usize = 128;
/// Pairs that the table has at most.
const PAIRS: usize = 100;

/// The sums of one kind of traffic, by column and row: messages and bytes.
type Cells = BTreeMap<(usize, usize), (u64, u64)>;

const KINDS: [(&str, &str); 2] =
    [("messages", "Messages and one-sided operations"), ("collectives", "Data of collectives")];

fn amount(pair: &RankPair, kind: usize) -> (u64, u64) {
    match kind {
        0 => (pair.messages, pair.bytes),
        _ => (pair.collective_messages, pair.collective_bytes),
    }
}

fn groups(view: &ProfileView) -> Groups {
    Groups::new(view.profile.ranks.len(), SIDE)
}

fn cells(view: &ProfileView, kind: usize) -> Cells {
    let groups = groups(view);
    let mut cells = Cells::new();
    for pair in &view.profile.matrix {
        let (messages, bytes) = amount(pair, kind);
        if messages > 0 {
            let cell = cells.entry((groups.of(pair.to), groups.of(pair.from))).or_default();
            *cell = (cell.0 + messages, cell.1 + bytes);
        }
    }
    cells
}

/// The maps and the largest pairs.
pub fn section(view: &ProfileView) -> Section {
    let maps: Vec<(&str, String)> = (0..KINDS.len())
        .filter_map(|kind| {
            let cells = cells(view, kind);
            (!cells.is_empty()).then(|| (KINDS[kind].1, map(view, kind, &cells)))
        })
        .collect();
    let note = groups(view).note("a row or column");
    let body = match maps.as_slice() {
        [] => "<p class=\"none\">No rank sent data to another.</p>".into(),
        [(title, map)] => {
            let one = format!("<div class=\"one\"><h3>{title}</h3>{map}</div>");
            figure(&one, note.as_deref(), &table(view))
        }
        [a, b, ..] => figure(&pair((a.0, &a.1), (b.0, &b.1)), note.as_deref(), &table(view)),
    };
    Section {
        id: "matrix",
        title: "Communication matrix",
        question: "Who sends how much to whom? Ranks whose cells are dark should be near one \
                   another. Lines separate nodes; steps of colour are equal ratios of bytes.",
        body,
    }
}

fn map(view: &ProfileView, kind: usize, cells: &Cells) -> String {
    let groups = groups(view);
    let values: Vec<(usize, usize, f64)> = cells
        .iter()
        // A message without data is still one: it is a cell of the lightest step.
        .map(|((column, row), (_, bytes))| (*column, *row, (*bytes).max(1) as f64))
        .collect();
    let labels: Vec<String> = (0..groups.count()).map(|group| groups.short_label(group)).collect();
    let map = HeatMap {
        name: KINDS[kind].1,
        key: KINDS[kind].0,
        side: groups.count(),
        cells: &values,
        labels: &labels,
        borders: &borders(view, groups),
        column_name: "receiver",
        row_name: "sender",
        value_label: volume,
    };
    map.svg()
}

/// Where nodes begin, unless there are too many to see.
fn borders(view: &ProfileView, groups: Groups) -> Vec<usize> {
    let ranks = &view.profile.ranks;
    let changes = ranks.windows(2).filter(|two| two[0].node != two[1].node);
    let mut borders: Vec<usize> = changes.map(|two| groups.of(two[1].rank)).collect();
    borders.dedup();
    if borders.len() > groups.count() / 2 && borders.len() > 8 { Vec::new() } else { borders }
}

fn table(view: &ProfileView) -> String {
    let mut pairs: Vec<&RankPair> = view.profile.matrix.iter().collect();
    pairs.sort_by_key(|pair| std::cmp::Reverse(pair.bytes + pair.collective_bytes));
    let row = |pair: &&RankPair| {
        let mut cells = [pair.from, pair.to]
            .map(|rank| Cell::number(f64::from(rank), rank.to_string()))
            .to_vec();
        for kind in 0..KINDS.len() {
            let (messages, bytes) = amount(pair, kind);
            cells.push(Cell::number(messages as f64, count(messages)));
            cells.push(Cell::number(bytes as f64, volume(bytes as f64)));
        }
        cells
    };
    let caption = match pairs.len() > PAIRS {
        true => format!("The {PAIRS} largest of {} pairs", count(pairs.len() as u64)),
        false => "Pairs of ranks".to_owned(),
    };
    DataTable {
        caption: &caption,
        header: columns("from | to | messages | their bytes | collective blocks | their bytes"),
        rows: pairs.iter().take(PAIRS).map(row).collect(),
    }
    .html()
}

/// What the page's script shows of a cell: labels, and column, row, messages, bytes of each cell.
pub fn data(view: &ProfileView) -> Value {
    let groups = groups(view);
    let labels: Vec<String> = (0..groups.count()).map(|group| groups.label(group)).collect();
    let flat = |kind: usize| -> Vec<u64> {
        let cells = cells(view, kind).into_iter();
        let cells = cells
            .map(|((column, row), (messages, bytes))| [column as u64, row as u64, messages, bytes]);
        cells.flatten().collect()
    };
    json!({ "labels": labels, "messages": flat(0), "collectives": flat(1) })
}

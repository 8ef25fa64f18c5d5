//! The rooms of a crate: its folders and files one above the other, and imports only downwards.
//!
//! Only crates are listed whose rooms have an order (docs/design of each says what is in them).

use std::collections::BTreeMap;
use std::path::Path;

use crate::circles::{arrows, read_crate};
use crate::sources::workspace;

/// The rooms of each crate, the highest first; those of one level use none of another.
const ORDERS: [(&str, &[&[&str]]); 3] = [
    (
        "launch",
        &[
            &["controller"],
            &["local", "remote"],
            &["event_loop"],
            &["link"],
            &["placement"],
            &["error"],
            &["output"],
            &["report"],
            &["options"],
            &["hosts", "signals"],
        ],
    ),
    (
        "files",
        &[
            &["file"],
            &["exchange"],
            &["operation", "shared_file"],
            &["access"],
            &["guard", "pieces"],
            &["view", "storage"],
            &["representation", "amode"],
            &["hints", "failure"],
        ],
    ),
    (
        "rma",
        &[&["operations"], &["synchronization"], &["window"], &["epoch"], &["remote"], &["memory"]],
    ),
];

/// The room of a file: the first part of its path below `src`. `lib` and `main` are above all.
fn room(file: &Path, source: &Path) -> Option<String> {
    let below = file.strip_prefix(source).ok()?.components().next()?;
    let name = Path::new(below.as_os_str()).with_extension("").display().to_string();
    (name != "lib" && name != "main").then_some(name)
}

/// Imports that lead up or aside, in the crate whose folder this is.
fn wrong_arrows(folder: &Path, order: &[&[&str]]) -> Vec<String> {
    let source = folder.join("src");
    let levels: BTreeMap<&str, usize> = (order.iter().enumerate())
        .flat_map(|(level, rooms)| rooms.iter().map(move |room| (*room, level)))
        .collect();
    let level = |room: &str| {
        let known = levels.get(room).copied();
        known.unwrap_or_else(|| panic!("{}: no level has the room {room}", folder.display()))
    };
    let mut wrong = Vec::new();
    for (from, to) in arrows(&read_crate(folder)) {
        let Some(here) = room(&from, &source) else { continue };
        for (file, names) in to {
            let there = room(&file, &source);
            if there.as_ref().is_none_or(|there| *there != here && level(there) <= level(&here)) {
                wrong.push(format!("{} -> {}: {names:?}", from.display(), file.display()));
            }
        }
    }
    wrong
}

#[test]
fn rooms_use_only_those_below_them() {
    for (name, order) in ORDERS {
        let wrong = wrong_arrows(&workspace().join("crates").join(name), order);
        assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    }
}

#[test]
fn finds_an_arrow_that_leads_up_or_aside() {
    let launch = workspace().join("crates/launch");
    let (_, order) = ORDERS[0];
    let upside_down: Vec<&[&str]> = order.iter().rev().copied().collect();
    assert!(!wrong_arrows(&launch, &upside_down).is_empty());
    let all: Vec<&str> = order.iter().flat_map(|rooms| rooms.iter().copied()).collect();
    assert!(!wrong_arrows(&launch, &[&all]).is_empty(), "all on one level");
}

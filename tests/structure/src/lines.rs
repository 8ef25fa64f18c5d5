//! Hand-written lines of Rust end by column 100. `cargo fmt` sees to code, but not to strings,
//! comments, what macros take, and statements that it cannot make shorter.

use std::fs;
use std::path::{Path, PathBuf};

use crate::workspace;

/// Characters of a line: what rustfmt keeps to by default (`max_width`).
const MAX_WIDTH: usize = 100;
/// Ends of the paths of generated files.
const GENERATED: [&str; 3] = ["generated", "net/bindings.rs", "target"];

#[test]
fn lines_end_by_column_100() {
    let root = workspace();
    let mut files = Vec::new();
    for folder in ["crates", "tests", "fuzz", "examples"] {
        sources(&root.join(folder), &mut files);
    }
    assert!(files.len() > 700, "only {} files were read", files.len());
    let mut long = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{file:?}: {error}"));
        let name = file.strip_prefix(&root).expect("below the root").display();
        long.extend(long_lines(&text).map(|(line, width)| format!("{name}:{line}: {width}")));
    }
    assert!(
        long.is_empty(),
        "break these lines (a string by a backslash at the line's end):\n{}",
        long.join("\n")
    );
}

/// The number of each long line, and its characters.
fn long_lines(text: &str) -> impl Iterator<Item = (usize, usize)> {
    let widths = text.lines().map(|line| line.chars().count());
    (1..).zip(widths).filter(|&(_, width)| width > MAX_WIDTH)
}

/// The source files below a folder, but for generated ones and what builds leave there.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries {
        let path = entry.expect("an entry").path();
        if GENERATED.iter().any(|other| path.ends_with(other)) {
            continue;
        }
        match path.is_dir() {
            true => sources(&path, found),
            false if path.extension().is_some_and(|end| end == "rs") => found.push(path),
            false => {}
        }
    }
}

#[test]
fn counts_characters_and_not_bytes() {
    let text = format!("{}\n{}\n{}x\n", "ä".repeat(100), "x".repeat(101), "ä".repeat(100));
    let found: Vec<_> = long_lines(&text).collect();
    assert_eq!(found, [(2, 101), (3, 101)]);
}

//! Hand-written lines of Rust end by column 100. `cargo fmt` sees to code, but not to strings,
//! comments, what macros take, and statements that it cannot make shorter.

use crate::sources::{short, sources_below, text};

/// Characters of a line: what rustfmt keeps to by default (`max_width`).
const MAX_WIDTH: usize = 100;

#[test]
fn lines_end_by_column_100() {
    let files = sources_below(&["crates", "tests", "fuzz", "examples"]);
    assert!(files.len() > 700, "only {} files were read", files.len());
    let mut long = Vec::new();
    for file in files {
        let name = short(&file);
        long.extend(
            long_lines(&text(&file)).map(|(line, width)| format!("{name}:{line}: {width}")),
        );
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

#[test]
fn counts_characters_and_not_bytes() {
    let text = format!("{}\n{}\n{}x\n", "ä".repeat(100), "x".repeat(101), "ä".repeat(100));
    let found: Vec<_> = long_lines(&text).collect();
    assert_eq!(found, [(2, 101), (3, 101)]);
}

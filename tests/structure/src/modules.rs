//! One convention of modules and of the place of their unit tests.
//!
//! - A module is a file `foo.rs`, or a folder with `foo/mod.rs` if it has parts: never `foo.rs`
//!   beside `foo/`.
//! - Unit tests of up to two screens are a module `tests` at the end of the file that they test;
//!   longer ones are in `foo/tests.rs`, or files of a folder `foo/tests`. Models for loom are in
//!   `foo/model.rs`. No file is called `foo_tests.rs` or `foo_model.rs`.

use std::path::Path;

use crate::sources::{short, sources_below, text};

/// Lines of tests in the file that they test: two screens.
const MAX_TESTS: usize = 160;

#[test]
fn modules_and_their_tests_are_where_the_convention_says() {
    let files = sources_below(&["crates", "tests", "fuzz"]);
    assert!(files.len() > 700, "only {} files were read", files.len());
    let mut wrong = Vec::new();
    for file in files {
        let name = short(&file);
        let problems = misplaced(&name, file.with_extension("").is_dir(), &text(&file));
        wrong.extend(problems.iter().map(|problem| format!("{name}: {problem}")));
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// What is not as the convention says. `has_folder`: a folder of the file's name is beside it.
fn misplaced(name: &str, has_folder: bool, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let stem = Path::new(name).file_stem().expect("a file has a name").to_string_lossy();
    if has_folder {
        found.push(format!("make it {stem}/mod.rs"));
    }
    if stem.ends_with("_tests") || stem.ends_with("_model") {
        found.push("tests are foo/tests.rs, models foo/model.rs".to_owned());
    }
    let lines: Vec<&str> = text.lines().collect();
    let is_for_tests = |line: &str| line.starts_with("#[cfg(") && line.contains("test");
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| is_module(line)) {
        let mut attributes = lines[..at].iter().rev().take_while(|line| line.starts_with("#["));
        if !attributes.any(|line| is_for_tests(line)) {
            continue;
        }
        let length = 1 + lines[at..].iter().take_while(|line| **line != "}").count();
        if *line != "mod tests {" {
            found.push(format!("{line}: call it tests, or put it into a file"));
        }
        if length > MAX_TESTS {
            found.push(format!("{length} lines of tests: put them into {stem}/tests.rs"));
        }
        if at + length < lines.len() {
            found.push("code after its tests".to_owned());
        }
    }
    found
}

/// Whether a line begins a module whose code follows.
fn is_module(line: &str) -> bool {
    line.starts_with("mod ") && line.ends_with('{')
}

#[test]
fn finds_what_is_misplaced() {
    let tests = |lines: usize| {
        format!("struct A;\n\n#[cfg(test)]\nmod tests {{\n{}}}\n", "    x();\n".repeat(lines))
    };
    for (name, has_folder, text) in [
        ("a/b.rs", true, "mod c;\n".to_owned()),
        ("a/b_tests.rs", false, String::new()),
        ("a/model/b_model.rs", false, String::new()),
        ("a/b.rs", false, tests(MAX_TESTS)),
        ("a/b.rs", false, tests(1) + "struct B;\n"),
        ("a/b.rs", false, tests(1).replace("tests", "model")),
        ("a/b.rs", false, tests(1).replace("tests", "model").replace("(test", "(all(loom, test)")),
    ] {
        assert_eq!(misplaced(name, has_folder, &text).len(), 1, "{name}: {text}");
    }
    for text in [tests(1), tests(MAX_TESTS - 2), "mod plain {\n}\nfn after() {}\n".to_owned()] {
        assert_eq!(misplaced("a/b.rs", false, &text), [""; 0], "{text}");
    }
}

//! The documents name files and folders that exist.
//!
//! Checked in every Markdown file of the repository but `CHANGELOG.md` and `bench/results`, which
//! speak of the past: relative links, code spans that begin with a folder of the repository
//! (`crates/node/src`), and code spans that end in `.rs`, which may leave out the folders in front
//! (`comm/route.rs`). Words in capitals stand for something else (`fuzz/corpus/TARGET`).
//!
//! The documentation in the sources has no code that `cargo test --doc` would run, for no one runs
//! that: public items are shown at work by tests.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use mica_tests::workspace;

/// The files of the repository and the folders that they are in, relative to its root. Files that
/// git does not know yet count, unless it ignores them.
fn known() -> BTreeSet<String> {
    let list = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(workspace())
        .output()
        .expect("git lists the files");
    assert!(list.status.success(), "git: {}", list.status);
    let files = String::from_utf8(list.stdout).expect("names in UTF-8");
    let with_folders = files.lines().flat_map(|file| Path::new(file).ancestors());
    with_folders
        .filter_map(|path| path.to_str().map(str::to_owned))
        .filter(|path| !path.is_empty() && workspace().join(path).exists())
        .collect()
}

/// `text` without blocks of code.
fn prose(text: &str) -> String {
    text.split("```").step_by(2).collect()
}

/// What stands between `open` and `close`, within a line.
fn between<'a>(text: &'a str, open: &'a str, close: char) -> impl Iterator<Item = &'a str> {
    let ends_in_line =
        move |rest: &'a str| rest.lines().next().and_then(|line| line.split_once(close));
    text.split(open).skip(1).filter_map(move |rest| ends_in_line(rest).map(|(span, _)| span))
}

/// `path` from the folder of the file `from`; `None` if it leaves the repository.
fn resolve(from: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// The names in a document that nothing in `known` has.
fn dangling(file: &str, text: &str, known: &BTreeSet<String>) -> Vec<String> {
    let text = prose(text);
    let mut found = Vec::new();
    for link in between(&text, "](", ')') {
        let path = link.split('#').next().unwrap_or_default();
        let is_elsewhere = path.is_empty() || path.contains(':') || path.contains(' ');
        if !is_elsewhere && !resolve(file, path).is_some_and(|path| known.contains(&path)) {
            found.push(format!("{file}: link to {link}"));
        }
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || "._/-".contains(c);
    let stands_for_another = |span: &str| {
        let mut words = span.split(['/', '.', '-']);
        words.any(|word| word.len() > 1 && word.bytes().all(|b| b.is_ascii_uppercase()))
    };
    for span in text.lines().flat_map(|line| line.split('`').skip(1).step_by(2)) {
        let path = span.trim_end_matches('/');
        if path.is_empty() || !path.chars().all(is_name) || stands_for_another(path) {
            continue;
        }
        let of_root = path.split_once('/').is_some_and(|(first, _)| {
            known.contains(first) && !known.contains(&format!("crates/{first}"))
        });
        let is_there = known.contains(path)
            || path.ends_with(".rs")
                && known.iter().any(|file| file.ends_with(&format!("/{path}")));
        if (of_root || path.ends_with(".rs")) && !is_there {
            found.push(format!("{file}: `{span}`"));
        }
    }
    found
}

#[test]
fn documents_name_what_exists() {
    let known = known();
    let is_checked = |file: &&String| {
        file.ends_with(".md") && *file != "CHANGELOG.md" && !file.starts_with("bench/results")
    };
    let mut dangling_names = Vec::new();
    for file in known.iter().filter(is_checked) {
        let text = fs::read_to_string(workspace().join(file)).expect("a document");
        dangling_names.extend(dangling(file, &text, &known));
    }
    assert!(dangling_names.is_empty(), "{}", dangling_names.join("\n"));
}

#[test]
fn names_without_a_file_are_found() {
    let known = ["docs", "docs/a.md", "crates", "crates/node", "crates/node/src/ring.rs"];
    let known = known.map(str::to_owned).into_iter().collect();
    let text = "[a](a.md), [b](b.md), [up](../docs/a.md#x), [web](https://x.org/y)\n\
        `docs/c.md`, `docs/TARGET`, `src/ring.rs`, `ring/producer.rs`, `crates/node`, `a/b`\n\
        ```\n`docs/d.md`\n```\n";
    assert_eq!(
        dangling("docs/a.md", text, &known),
        ["docs/a.md: link to b.md", "docs/a.md: `docs/c.md`", "docs/a.md: `ring/producer.rs`"]
    );
}

/// The lines of `source` whose documentation begins a block of code that is Rust: fenced without
/// another language's name, or indented.
fn code_to_run(source: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let (mut in_fence, mut after_blank) = (false, true);
    for (number, line) in (1..).zip(source.lines()) {
        let line = line.trim_start();
        let Some(doc) = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")) else {
            (in_fence, after_blank) = (false, true);
            continue;
        };
        if let Some(language) = doc.trim_start().strip_prefix("```") {
            let is_rust = !in_fence && !matches!(language, "text" | "c" | "sh" | "toml");
            found.extend(is_rust.then_some(number));
            in_fence = !in_fence;
        } else if !in_fence && after_blank && doc.starts_with("     ") {
            found.push(number);
        }
        after_blank = doc.trim().is_empty();
    }
    found
}

#[test]
fn documentation_has_no_code_to_run() {
    let mut found = Vec::new();
    // cargo runs none of an example's documentation.
    let is_checked = |file: &&String| file.ends_with(".rs") && !file.contains("/examples/");
    for file in known().iter().filter(is_checked) {
        let source = fs::read_to_string(workspace().join(file)).expect("a source");
        found.extend(code_to_run(&source).iter().map(|line| format!("{file}:{line}")));
    }
    assert!(found.is_empty(), "make these tests, or name a language: {}", found.join(", "));
}

#[test]
fn code_to_run_is_found() {
    let source = "//! A.\n//!\n//!     let a = 1;\n//! ```text\n//!\n//!     a\n//! ```\n\n\
        /// - b\n///   more\n/// ```\n/// let b = 1;\n/// ```\n\n/// ```no_run\nfn c() {}\n";
    assert_eq!(code_to_run(source), [3, 11, 15]);
}

//! The documents name files and folders that exist.
//!
//! Checked in every Markdown file of the repository but `CHANGELOG.md` and `bench/results`, which
//! speak of the past: relative links, code spans that begin with a folder of the repository
//! (`crates/node/src`), and code spans that end in `.rs`, which may leave out the folders in front
//! (`comm/route.rs`). Words in capitals stand for something else (`fuzz/corpus/TARGET`).
//!
//! `docs/README.md` names every page below `docs`. A folder of `bench/results` is cited by a
//! document or the newest of its kind, and has its raw data compressed.
//!
//! The documentation in the sources has no code that `cargo test --doc` would run, for no one runs
//! that: public items are shown at work by tests.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::sources::workspace;

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

/// The paths of the relative links of the document `file`.
fn linked(file: &str, text: &str) -> BTreeSet<String> {
    let links = between(text, "](", ')').filter(|link| !link.contains(':'));
    links.filter_map(|link| resolve(file, link.split('#').next()?)).collect()
}

#[test]
fn index_names_every_page() {
    let index = "docs/README.md";
    let text = fs::read_to_string(workspace().join(index)).expect("the index");
    let named = linked(index, &text);
    let known = known();
    let is_page = |file: &&String| {
        file.starts_with("docs/") && file.ends_with(".md") && file.as_str() != index
    };
    let missing: Vec<&String> =
        known.iter().filter(is_page).filter(|page| !named.contains(*page)).collect();
    assert!(missing.is_empty(), "{index} does not name {missing:?}");
}

/// What the results in a folder `YYYY-MM-DD-KIND` or `YYYY-MM-DD-KIND-x` are of: a letter or a
/// digit at the end counts the runs of one day.
fn kind(folder: &str) -> &str {
    let rest = folder.get("YYYY-MM-DD-".len()..).unwrap_or(folder);
    match rest.rsplit_once('-') {
        Some((kind, run)) if run.len() == 1 => kind,
        _ => rest,
    }
}

/// Whether `text` names `folder`, and not one whose name only begins alike.
fn cites(text: &str, folder: &str) -> bool {
    let goes_on = |rest: &str| rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '-');
    text.match_indices(folder).any(|(at, _)| !goes_on(&text[at + folder.len()..]))
}

/// The folders that no text of `documents` cites and that are not the newest of their kind.
fn outdated<'a>(folders: &BTreeSet<&'a str>, documents: &[String]) -> Vec<&'a str> {
    let newest: BTreeMap<&str, &str> =
        folders.iter().map(|&folder| (kind(folder), folder)).collect();
    let is_kept = |folder: &str| {
        newest[kind(folder)] == folder || documents.iter().any(|text| cites(text, folder))
    };
    folders.iter().copied().filter(|folder| !is_kept(folder)).collect()
}

#[test]
fn results_are_cited_or_the_newest_of_their_kind() {
    let known = known();
    let is_document =
        |file: &&String| *file == "README.md" || file.starts_with("docs/") && file.ends_with(".md");
    let read = |file: &String| fs::read_to_string(workspace().join(file)).expect("a document");
    let documents: Vec<String> = known.iter().filter(is_document).map(read).collect();
    let below = known.iter().filter_map(|path| path.strip_prefix("bench/results/"));
    let folders = below.filter_map(|path| Some(path.split_once('/')?.0)).collect();
    let outdated = outdated(&folders, &documents);
    assert!(outdated.is_empty(), "remove or cite these of bench/results: {outdated:?}");
}

#[test]
fn outdated_results_are_found() {
    let folders = ["2026-11-25-rma", "2026-11-25-rma-b", "2026-11-25-rma-get", "2026-11-26-rma"];
    let folders = folders.into_iter().collect();
    assert_eq!(outdated(&folders, &[]), ["2026-11-25-rma", "2026-11-25-rma-b"]);
    let documents = ["(../bench/results/2026-11-25-rma-b/summary.md)".to_owned()];
    assert_eq!(outdated(&folders, &documents), ["2026-11-25-rma"]);
}

/// Bytes of an uncompressed file of results from which it counts as raw data. The longest that
/// people read are descriptions of hosts and tables of 30 KiB.
const RAW_BYTES: u64 = 32 << 10;

/// Whether a file of results should be compressed: `raw.json` always, others if they are long, but
/// for what `mica bench` writes to be read.
fn is_raw(path: &str, bytes: u64) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let is_read = name == "summary.json"
        || [".md", ".html", ".svg", ".gz"].iter().any(|end| name.ends_with(end));
    name == "raw.json" || !is_read && bytes > RAW_BYTES
}

#[test]
fn raw_data_of_results_is_compressed() {
    let mut raw = Vec::new();
    for file in known().into_iter().filter(|file| file.starts_with("bench/results/")) {
        let about = fs::metadata(workspace().join(&file)).expect("a file");
        if about.is_file() && is_raw(&file, about.len()) {
            raw.push(file);
        }
    }
    assert!(raw.is_empty(), "compress by `gzip -9 -n`: {}", raw.join(", "));
    let of_bench = "bench/results/2026-11-28-rma";
    assert!(is_raw(&format!("{of_bench}/raw.json"), 1));
    assert!(is_raw(&format!("{of_bench}/table.csv"), RAW_BYTES + 1));
    assert!(!is_raw(&format!("{of_bench}/raw.json.gz"), 1 << 20));
    assert!(!is_raw(&format!("{of_bench}/summary.json"), 1 << 20));
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

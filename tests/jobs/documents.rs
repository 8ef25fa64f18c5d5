//! What the pages for users, the messages of the tools and the installed scripts name is in an
//! installation: at its place in the source tree, below `share/mica` (`scripts/install_share.sh`).

use std::collections::BTreeSet;
use std::fs;

use mica_tests::{Install, workspace};

/// Words of a text that could be paths: with a slash, or the name of a page.
fn paths(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_./-".contains(c);
    let words = text.split(move |c| !is_part(c)).map(|word| word.trim_end_matches(['.', '/']));
    words.filter(|word| word.contains('/') || word.ends_with(".md"))
}

/// `path` as it stands in the file `from`, from the root of the source tree.
fn from_root(from: &str, path: &str) -> String {
    let is_relative = path.starts_with("..") || !path.contains('/') || path.starts_with("design/");
    let mut parts: Vec<&str> = from.split('/').filter(|_| is_relative).collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join("/")
}

/// What is in the source tree alone: Rust's sources, tests, and what makes files of the library.
fn is_of_the_source_tree(path: &str) -> bool {
    let of_folders = ["tests/", "bindings/", "fuzz/", "include/"];
    path.ends_with(".rs")
        || path.contains("/tests/")
        || of_folders.iter().any(|folder| path.starts_with(folder))
}

/// The files of a folder of the source tree with this ending, as paths from its root.
fn files(folder: &str, ending: &str) -> Vec<String> {
    let entries = fs::read_dir(workspace().join(folder)).expect("a folder");
    let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    let mut all: Vec<String> = names.map(|name| format!("{folder}/{name}")).collect();
    let folders: Vec<String> =
        all.iter().filter(|path| workspace().join(path).is_dir()).cloned().collect();
    all.retain(|path| path.ends_with(ending));
    all.extend(folders.iter().flat_map(|folder| files(folder, ending)));
    all
}

#[test]
fn documents_name_what_is_installed() {
    let install = Install::find();
    if !install.is_mica() {
        println!("skipped: the installation is not Mica's");
        return;
    }
    let share = install.prefix().join("share/mica");
    let mut missing = BTreeSet::new();
    let mut want = |from: &str, path: &str| {
        let installed = path.split_once("share/mica/").map(|(_, rest)| rest.to_owned());
        let named = installed.clone().unwrap_or_else(|| from_root(from, path));
        let is_there = share.join(&named).exists();
        let is_file = workspace().join(&named).is_file() && !is_of_the_source_tree(&named);
        if !is_there && (is_file || installed.is_some()) {
            missing.insert(format!("{from}: {path}"));
        }
    };
    // Pages for who uses Mica: those of its making name scripts and results of the source tree.
    let is_of_the_making =
        |page: &str| page.starts_with("docs/design/") || page.ends_with("testing.md");
    let pages = files("docs", ".md").into_iter().chain(["README.md".to_owned()]);
    for page in pages {
        want("README.md", &page);
        if !is_of_the_making(&page) {
            let text = fs::read_to_string(workspace().join(&page)).expect("a page");
            paths(&text).for_each(|path| want(&page, path));
        }
    }
    // Messages, and the help that clap makes of the documentation of options.
    for source in
        files("crates/mica/src", ".rs").into_iter().chain(files("crates/launch/src", ".rs"))
    {
        let text = fs::read_to_string(workspace().join(&source)).expect("a source");
        let text = text.split("#[cfg(test)]\nmod").next().unwrap_or_default();
        let is_shown = |line: &&str| {
            let line = line.trim_start();
            !line.starts_with("//") || line.starts_with("///")
        };
        let lines: Vec<&str> = text.lines().filter(is_shown).collect();
        paths(&lines.join("\n")).for_each(|path| want("README.md", path));
    }
    // What the installed scripts use.
    for script in files("bench", ".sh") {
        let text = fs::read_to_string(workspace().join(&script)).expect("a script");
        for (_, rest) in
            text.match_indices("$ROOT/").map(|(at, found)| text[at..].split_at(found.len()))
        {
            let path = rest.split(['"', ' ', '\n', '$', ')']).next().unwrap_or_default();
            want("README.md", path.trim_end_matches('/'));
        }
    }
    assert!(missing.is_empty(), "named and not installed: {missing:#?}");
}

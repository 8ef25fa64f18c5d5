//! What the pages for users, the messages of the tools and the installed scripts name is in an
//! installation: at its place in the source tree, below `share/mica` (`scripts/install_share.sh`).

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use mica_tests::{Install, target, workspace};

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
    let is_of_the_making = |page: &str| {
        let ends = ["testing.md", "packages.md"];
        page.starts_with("docs/design/") || ends.iter().any(|end| page.ends_with(end))
    };
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

#[test]
fn numbers_of_a_paper_stand_beside_what_was_measured() {
    let folder = target().join("paper-tables");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("cpmd-2")).expect("a folder");
    let side = |app: u32, mpi: u32| {
        let call = format!(
            r#"{{"call": "MPI_Alltoall", "site": "s", "time_ms": {mpi}, "sends": 2, "bytes": 48}}"#
        );
        format!(
            r#"{{"app_s": {{"median": {app}}}, "mpi_s": {{"median": {mpi}}}, "mpi_percent": 50,
                "calls": [{call}]}}"#
        )
    };
    let comparison = format!(r#"{{"sides": [{}, {}]}}"#, side(4, 2), side(6, 3));
    fs::write(folder.join("cpmd-2/comparison.json"), comparison).expect("a file");
    let table = |paper: &str| {
        let script = workspace().join("bench/paper_tables.py");
        let mut python = Command::new("python3");
        let done = python.arg(script).arg(paper).arg(&folder).output().expect("python3 runs");
        assert!(done.status.success(), "{done:?}");
        String::from_utf8(done.stdout).expect("text")
    };
    let rows = table("ma2011");
    let row = |start: &str| rows.lines().find(|line| line.starts_with(start)).expect(start);
    let application = row("Table 1   CPMD: application time");
    assert!(application.contains("276, 423 s (1.53x)") && application.contains("4, 6 s (1.50x)"));
    assert!(row("Table 3   FFTW: Bcast").contains("not run"), "{rows}");
    assert!(row("Figure 1  CPMD on 2 ranks").contains("4, 6 s (1.50x)"), "{rows}");
    for item in ["Figure 2.1", "Figure 2.7", "Table 2.1", "Table 2.2"] {
        assert!(table("chai2009").contains(item), "{item}");
    }
    assert!(table("leon2009").contains("AMG") && folder.join("paper.md").is_file());
}

//! The source files that these tests read.

use std::fs;
use std::path::{Path, PathBuf};

/// Ends of the paths of what is not written by hand.
const GENERATED: [&str; 3] = ["generated", "net/bindings.rs", "target"];

/// The workspace's root directory.
pub fn workspace() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("tests/structure lies in the workspace").to_path_buf()
}

/// The folders of the crates below `crates`, in order.
pub fn crate_folders() -> Vec<PathBuf> {
    let entries = fs::read_dir(workspace().join("crates")).expect("the crates are there");
    let mut folders: Vec<PathBuf> = entries
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|folder| folder.join("src").is_dir())
        .collect();
    folders.sort();
    folders
}

/// The source files below folders of the workspace, in order, without generated ones and what
/// builds leave there.
pub fn sources_below(folders: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in folders {
        collect(&workspace().join(folder), &mut found);
    }
    found.sort();
    found
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    for entry in entries {
        let path = entry.expect("an entry").path();
        let is_generated = GENERATED.iter().any(|end| path.ends_with(end));
        match path.is_dir() {
            _ if is_generated => {}
            true => collect(&path, found),
            false if path.extension().is_some_and(|end| end == "rs") => found.push(path),
            false => {}
        }
    }
}

/// A file's text.
pub fn text(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|error| panic!("{file:?}: {error}"))
}

/// A file's path from the workspace's root.
pub fn short(file: &Path) -> String {
    file.strip_prefix(workspace()).expect("below the root").display().to_string()
}

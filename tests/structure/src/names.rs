//! A type's name carries one idea in the whole workspace (docs/glossary.md): no two types that
//! another module can name have the same name. Not held to it: a type that is private to its file,
//! tests, and models and doubles for them, which take the place of the type that they are called
//! after.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::workspace;

/// Ends of the paths of files that hold models and doubles.
const DOUBLES: [&str; 3] = ["/model.rs", "_model.rs", "adapter/fake.rs"];

#[test]
fn no_two_types_have_the_same_name() {
    let crates = workspace().join("crates");
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in sources(&crates) {
        let text = fs::read_to_string(&file).unwrap();
        let text = text.split("#[cfg(test)]\nmod ").next().unwrap();
        for name in text.lines().filter_map(defined) {
            let place = file.strip_prefix(&crates).unwrap().display().to_string();
            places.entry(name.to_owned()).or_default().push(place);
        }
    }
    assert!(places.len() > 1000, "{} types were found", places.len());
    let twice: Vec<String> = (places.into_iter())
        .filter(|(_, places)| places.len() > 1)
        .map(|(name, places)| format!("{name}: {}", places.join(", ")))
        .collect();
    assert!(twice.is_empty(), "\n{}", twice.join("\n"));
}

/// The type that a line defines for other modules.
fn defined(line: &str) -> Option<&str> {
    let line = line.trim_start().strip_prefix("pub")?;
    let line = line.trim_start_matches(|c: char| c != ' ');
    let (keyword, rest) = line.trim_start().split_once(' ')?;
    let end = |c: char| !c.is_alphanumeric() && c != '_';
    let name = rest.split(end).next()?;
    let is_type = ["struct", "enum", "union", "trait"].contains(&keyword);
    (is_type && name.starts_with(char::is_uppercase)).then_some(name)
}

/// The source files below a folder, in order, but for tests and generated code.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let is_test = name.starts_with("tests") || name.ends_with("_tests.rs");
        let text = path.to_str().unwrap();
        let is_double = DOUBLES.iter().any(|double| text.ends_with(double));
        let is_generated = ["generated", "bindings.rs"].contains(&name.as_str());
        if is_test || is_double || is_generated {
            continue;
        }
        match path.is_dir() {
            true => found.extend(sources(&path)),
            false if name.ends_with(".rs") => found.push(path),
            false => {}
        }
    }
    found
}

#[test]
fn finds_the_name_of_a_type() {
    assert_eq!(defined("    pub(crate) struct Body {"), Some("Body"));
    assert_eq!(defined("pub enum Step<'a> {"), Some("Step"));
    assert_eq!(defined("enum Step<'a> {"), None);
    assert_eq!(defined("/// A struct Body"), None);
    assert_eq!(defined("pub trait Host: Sized {"), Some("Host"));
    assert_eq!(defined("pub struct $name {"), None);
}

//! A type's name carries one idea in the whole workspace (docs/glossary.md): no two types that
//! other modules can use have the same name. Not held to it: types private to a module, tests, and
//! models and doubles for them, which take the place of the type that they are called after.

use std::collections::BTreeMap;

use crate::sources::{short, sources_below, text};

/// Ends of the paths of files that hold models and doubles.
const DOUBLES: [&str; 3] = ["/model.rs", "_under_loom.rs", "adapter/fake.rs"];

#[test]
fn no_two_types_have_the_same_name() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in sources_below(&["crates"]) {
        let (place, text) = (short(&file), text(&file));
        if is_for_tests(&place) {
            continue;
        }
        let text = text.split("#[cfg(test)]\nmod ").next().unwrap();
        for name in text.lines().filter_map(defined) {
            places.entry(name.to_owned()).or_default().push(place.clone());
        }
    }
    assert!(places.len() > 1000, "{} types were found", places.len());
    let twice: Vec<String> = (places.into_iter())
        .filter(|(_, places)| places.len() > 1)
        .map(|(name, places)| format!("{name}: {}", places.join(", ")))
        .collect();
    assert!(twice.is_empty(), "\n{}", twice.join("\n"));
}

/// Whether a file has tests, or doubles for them.
fn is_for_tests(file: &str) -> bool {
    let mut names = file.split('/');
    names.any(|name| name.starts_with("tests") || name.ends_with("_tests.rs"))
        || DOUBLES.iter().any(|double| file.ends_with(double))
}

/// The type that a line defines for other modules.
fn defined(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("pub")?;
    let (keyword, rest) = rest.trim_start_matches(|c: char| c != ' ').trim().split_once(' ')?;
    let end = |c: char| !c.is_alphanumeric() && c != '_';
    let name = rest.split(end).next()?;
    let is_type = ["struct", "enum", "union", "trait"].contains(&keyword);
    (is_type && name.starts_with(char::is_uppercase)).then_some(name)
}

#[test]
fn finds_the_name_of_a_type() {
    assert_eq!(defined("    pub(crate) struct Body {"), Some("Body"));
    assert_eq!(defined("    pub enum Step<'a> {"), Some("Step"));
    assert_eq!(defined("enum Step<'a> {"), None);
    assert_eq!(defined("/// A struct Body"), None);
    assert_eq!(defined("pub trait Host: Sized {"), Some("Host"));
    assert_eq!(defined("pub struct $name {"), None);
}

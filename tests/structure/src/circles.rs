//! No file of a crate imports itself by way of others.
//!
//! Reads the `use` declarations of every file under `crates/*/src` outside tests, draws an arrow
//! from each file to those that define what it imports, and fails with the strongly connected
//! components. A name that a module re-exports is looked up in the file that defines it, and a
//! module's own re-exports (`pub use`) draw no arrow: `mod.rs` and `lib.rs` may be faces of what
//! lies below them.
//!
//! Only declarations count: paths in expressions and what macros expand to are not seen.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::visit::Visit;
use syn::{Attribute, Ident, Item, ItemUse, UseTree, Visibility};

use crate::sources::{crate_folders, text};

/// The path of a module or of an item from the crate's root.
pub type Segments = Vec<String>;

/// One name that a module imports.
#[derive(Clone)]
pub struct Import {
    /// From the crate's root; `*` as the last one for a glob.
    target: Segments,
    /// The name in the importing module.
    name: String,
    is_reexport: bool,
}

/// What a module declares, outside tests.
#[derive(Default)]
pub struct Module {
    file: PathBuf,
    items: BTreeSet<String>,
    imports: Vec<Import>,
}

/// The modules of a crate, by path.
pub type Modules = BTreeMap<Segments, Module>;

/// Reads a crate from its root file.
pub fn read_crate(folder: &Path) -> Modules {
    let mut modules = Modules::new();
    let source = folder.join("src");
    let roots = ["lib.rs", "main.rs"].map(|name| source.join(name));
    if let Some(root) = roots.iter().find(|root| root.exists()) {
        read_file(root, &source, Vec::new(), &mut modules);
    }
    let children: BTreeSet<Segments> = modules.keys().cloned().collect();
    for (path, module) in &mut modules {
        module.imports.retain_mut(|import| {
            let target = absolute(&import.target, path, &children);
            import.target = target.clone().unwrap_or_default();
            target.is_some()
        });
    }
    modules
}

/// Reads a file and those of its modules; `below` is the folder of its children.
fn read_file(file: &Path, below: &Path, path: Segments, modules: &mut Modules) {
    let syntax = syn::parse_file(&text(file)).unwrap_or_else(|error| panic!("{file:?}: {error}"));
    read_items(&syntax.items, file, below, path, modules);
}

fn read_items(items: &[Item], file: &Path, below: &Path, path: Segments, modules: &mut Modules) {
    let mut module = Module { file: file.to_owned(), ..Module::default() };
    for item in items {
        let (attributes, name) = attributes_and_name(item);
        if attributes.iter().any(is_for_tests) {
            continue;
        }
        module.items.extend(name.map(Ident::to_string));
        // `#[path = "..."]` is not read: no crate uses it.
        if let Item::Mod(child) = item {
            let name = child.ident.to_string();
            let folder = below.join(&name);
            let child_path = path.iter().cloned().chain([name]).collect();
            match &child.content {
                Some((_, items)) => read_items(items, file, &folder, child_path, modules),
                None => {
                    let files = [folder.with_extension("rs"), folder.join("mod.rs")];
                    if let Some(file) = files.iter().find(|file| file.exists()) {
                        read_file(file, &folder, child_path, modules);
                    }
                }
            }
        } else {
            // Imports in functions count for their file.
            Imports(&mut module.imports).visit_item(item);
        }
    }
    modules.insert(path, module);
}

/// An item's attributes, and the name that it defines.
fn attributes_and_name(item: &Item) -> (&[Attribute], Option<&Ident>) {
    match item {
        Item::Const(item) => (&item.attrs, Some(&item.ident)),
        Item::Enum(item) => (&item.attrs, Some(&item.ident)),
        Item::Fn(item) => (&item.attrs, Some(&item.sig.ident)),
        Item::Impl(item) => (&item.attrs, None),
        Item::Macro(item) => (&item.attrs, item.ident.as_ref()),
        Item::Mod(item) => (&item.attrs, Some(&item.ident)),
        Item::Static(item) => (&item.attrs, Some(&item.ident)),
        Item::Struct(item) => (&item.attrs, Some(&item.ident)),
        Item::Trait(item) => (&item.attrs, Some(&item.ident)),
        Item::Type(item) => (&item.attrs, Some(&item.ident)),
        Item::Union(item) => (&item.attrs, Some(&item.ident)),
        Item::Use(item) => (&item.attrs, None),
        _ => (&[], None),
    }
}

/// Whether an item with this attribute is compiled for tests alone.
pub fn is_for_tests(attribute: &Attribute) -> bool {
    let condition = attribute.meta.require_list().map(|list| list.tokens.to_string());
    let condition = condition.unwrap_or_default().replace(' ', "");
    let is_cfg = attribute.path().is_ident("cfg");
    is_cfg && (condition == "test" || condition.starts_with("all(test"))
}

/// Collects the imports of an item and of what it contains.
struct Imports<'a>(&'a mut Vec<Import>);

impl<'ast> Visit<'ast> for Imports<'_> {
    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let is_reexport = !matches!(item.vis, Visibility::Inherited);
        expand(&item.tree, &[], is_reexport, self.0);
    }
}

/// Expands a `use` tree.
fn expand(tree: &UseTree, prefix: &[String], is_reexport: bool, found: &mut Vec<Import>) {
    let within = |name: String| prefix.iter().cloned().chain([name]).collect::<Segments>();
    let (name, renamed) = match tree {
        UseTree::Path(path) => {
            return expand(&path.tree, &within(path.ident.to_string()), is_reexport, found);
        }
        UseTree::Group(group) => {
            return group.items.iter().for_each(|tree| expand(tree, prefix, is_reexport, found));
        }
        UseTree::Name(name) => (name.ident.to_string(), None),
        UseTree::Rename(rename) => (rename.ident.to_string(), Some(rename.rename.to_string())),
        UseTree::Glob(_) => ("*".to_owned(), None),
    };
    let target = if name == "self" { prefix.to_vec() } else { within(name) };
    if let Some(name) = renamed.or(target.last().cloned()) {
        found.push(Import { target, name, is_reexport });
    }
}

/// An import's path from the crate's root; `None` if it leads to another crate.
fn absolute(target: &[String], module: &[String], known: &BTreeSet<Segments>) -> Option<Segments> {
    let mut base = match target.first()?.as_str() {
        "crate" => Vec::new(),
        "self" | "super" => module.to_vec(),
        first => {
            let child: Segments = module.iter().cloned().chain([first.to_owned()]).collect();
            return known.contains(&child).then(|| module.iter().chain(target).cloned().collect());
        }
    };
    for segment in target {
        match segment.as_str() {
            "crate" | "self" => {}
            "super" => drop(base.pop()),
            name => base.push(name.to_owned()),
        }
    }
    Some(base)
}

/// The file that defines what `target` names. Re-exports are followed at most `steps` times.
fn definition(target: &[String], modules: &Modules, steps: usize) -> Option<PathBuf> {
    let depth = (0..=target.len()).rev().find(|&depth| modules.contains_key(&target[..depth]))?;
    let module = &modules[&target[..depth]];
    let Some(name) = target.get(depth).filter(|name| *name != "*") else {
        return Some(module.file.clone());
    };
    if !module.items.contains(name) && steps > 0 {
        let named = module.imports.iter().filter(|import| import.name == *name);
        let globs = module.imports.iter().filter(|i| i.is_reexport && i.name == "*");
        for import in named.chain(globs) {
            let mut onward = import.target.clone();
            if import.name == "*" {
                onward.pop();
                onward.push(name.clone());
                let inner = modules.get(&import.target[..import.target.len() - 1]);
                if !inner.is_some_and(|inner| inner.items.contains(name)) {
                    continue;
                }
            }
            return definition(&onward, modules, steps - 1);
        }
    }
    Some(module.file.clone())
}

/// The files that each file imports from.
pub type Arrows = BTreeMap<PathBuf, BTreeMap<PathBuf, BTreeSet<String>>>;

pub fn arrows(modules: &Modules) -> Arrows {
    let mut arrows = Arrows::new();
    for module in modules.values() {
        for import in module.imports.iter().filter(|import| !import.is_reexport) {
            if let Some(file) = definition(&import.target, modules, 8)
                && file != module.file
            {
                let from = arrows.entry(module.file.clone()).or_default();
                from.entry(file).or_default().insert(import.name.clone());
            }
        }
    }
    arrows
}

/// The strongly connected components of more than one file.
fn circles(arrows: &Arrows) -> Vec<BTreeSet<PathBuf>> {
    let reached = |from: &PathBuf| {
        let mut found = BTreeSet::new();
        let mut open = vec![from];
        while let Some(file) = open.pop() {
            for next in arrows.get(file).into_iter().flat_map(BTreeMap::keys) {
                if found.insert(next.clone()) {
                    open.push(next);
                }
            }
        }
        found
    };
    let all: BTreeMap<&PathBuf, _> = arrows.keys().map(|file| (file, reached(file))).collect();
    let mut circles: Vec<BTreeSet<PathBuf>> = Vec::new();
    for (file, reached) in &all {
        if !reached.contains(*file) || circles.iter().any(|circle| circle.contains(*file)) {
            continue;
        }
        let back = |other: &&PathBuf| all.get(other).is_some_and(|r| r.contains(*file));
        circles.push(reached.iter().filter(back).cloned().collect());
    }
    circles
}

/// The circles of a crate: the arrows of each, with the names that they import.
fn circles_in(folder: &Path) -> Vec<String> {
    let arrows = arrows(&read_crate(folder));
    let short = |file: &Path| file.strip_prefix(folder).unwrap_or(file).display().to_string();
    let circle = |files: BTreeSet<PathBuf>| {
        let mut lines = vec![format!("a circle of {} files:", files.len())];
        for from in &files {
            for (to, names) in arrows[from].iter().filter(|(to, _)| files.contains(*to)) {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                let names = names.join(", ");
                lines.push(format!("  {} -> {}: {names}", short(from), short(to)));
            }
        }
        lines.join("\n")
    };
    circles(&arrows).into_iter().map(circle).collect()
}

#[test]
fn no_file_imports_itself_in_a_circle() {
    let mut wrong = Vec::new();
    for folder in crate_folders() {
        let name = folder.file_name().expect("a folder has a name").to_string_lossy();
        let circles = circles_in(&folder);
        wrong.extend(circles.iter().map(|circle| format!("{name}: {circle}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Writes a crate of these files and returns its circles.
fn circles_of(name: &str, files: &[(&str, &str)]) -> Vec<String> {
    let folder = std::env::temp_dir().join(format!("mica-circles-{name}-{}", std::process::id()));
    for (file, text) in files {
        let file = folder.join("src").join(file);
        fs::create_dir_all(file.parent().expect("a file is in a folder")).expect("a folder");
        fs::write(file, text).expect("a writable file");
    }
    let found = circles_in(&folder);
    fs::remove_dir_all(folder).expect("the folder was just made");
    found
}

#[test]
fn finds_a_circle_by_way_of_a_reexport() {
    let found = circles_of(
        "reexport",
        &[
            ("lib.rs", "mod a; mod b; pub use b::Low;"),
            ("a.rs", "use crate::Low; pub struct High;"),
            ("b.rs", "use super::a::{self, High as Top}; pub struct Low;"),
        ],
    );
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("src/a.rs -> src/b.rs: Low"), "{found:?}");
    assert!(found[0].contains("src/b.rs -> src/a.rs: Top, a"), "{found:?}");
}

#[test]
fn ignores_tests_comments_strings_and_faces() {
    let found = circles_of(
        "innocent",
        &[
            ("main.rs", "mod a; mod b; const TEXT: &str = \"{ use b::B;\"; pub use a::A;"),
            ("a/mod.rs", "mod deep; pub use deep::Deep; pub struct A; // use crate::b::B;"),
            ("a/deep.rs", "use super::A; pub struct Deep<'a>(&'a char); const C: char = '\"';"),
            (
                "b.rs",
                "use crate::a::Deep; use std::fs; pub struct B;\n\
                 #[cfg(test)] mod tests { use crate::a::A; }",
            ),
        ],
    );
    assert!(found.is_empty(), "{found:?}");
}

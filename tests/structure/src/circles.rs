//! No file of a crate imports itself by way of others.
//!
//! Reads the `use` declarations of every file under `crates/*/src` outside tests, draws an arrow
//! from each file to those that define what it imports, and fails with the strongly connected
//! components. A name that a module re-exports is looked up in the file that defines it, and a
//! module's own re-exports (`pub use`) draw no arrow: `mod.rs` and `lib.rs` may be faces of what
//! lies below them.
//!
//! The reader knows declarations, not the whole language: paths in expressions and what macros
//! expand to are not seen.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::workspace;

/// The path of a module or of an item from the crate's root.
type Segments = Vec<String>;

/// One name that a module imports.
#[derive(Clone)]
struct Import {
    /// From the crate's root; `*` as the last one for a glob.
    target: Segments,
    /// The name in the importing module.
    name: String,
    is_reexport: bool,
}

/// What a module declares, outside tests.
#[derive(Default)]
struct Module {
    file: PathBuf,
    items: BTreeSet<String>,
    imports: Vec<Import>,
}

/// The modules of a crate, by path.
type Modules = BTreeMap<Segments, Module>;

/// The words and signs of a source text; comments, strings and characters are left out.
fn tokens(text: &str) -> Vec<String> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &text[at..];
        let first = bytes[at];
        if rest.starts_with("//") {
            at += rest.find('\n').unwrap_or(rest.len());
        } else if rest.starts_with("/*") {
            at += rest.find("*/").map_or(rest.len(), |end| end + 2);
        } else if let Some(hashes) = raw_string(rest) {
            let close = format!("\"{}", "#".repeat(hashes));
            let open = rest.find('"').expect("a raw string opens") + 1;
            at += rest[open..].find(&close).map_or(rest.len(), |end| open + end + close.len());
        } else if first == b'"' {
            at += string(rest);
        } else if first == b'\'' {
            at += character(rest);
        } else if first.is_ascii_alphanumeric() || first == b'_' {
            let is_word = |c: char| c.is_alphanumeric() || c == '_';
            let end = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
            found.push(rest[..end].to_owned());
            at += end;
        } else {
            if first.is_ascii_punctuation() {
                found.push(char::from(first).to_string());
            }
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    found
}

/// The number of `#` of the raw string that begins here, if one does.
fn raw_string(text: &str) -> Option<usize> {
    let text = text.strip_prefix("br").or_else(|| text.strip_prefix('r'))?;
    let hashes = text.bytes().take_while(|&byte| byte == b'#').count();
    text[hashes..].starts_with('"').then_some(hashes)
}

/// The length of the string literal that begins here.
fn string(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// The length of the character literal or of the quote of the lifetime that begins here.
fn character(text: &str) -> usize {
    let mut chars = text.char_indices().skip(1);
    match chars.next() {
        Some((_, '\\')) => text[3..].find('\'').map_or(1, |end| end + 4),
        Some(_) => match chars.next() {
            Some((at, '\'')) => at + 1,
            _ => 1,
        },
        None => 1,
    }
}

/// The index after the bracket that closes the one at `open`.
fn closed(tokens: &[String], open: usize) -> usize {
    let mut depth = 0usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.as_str() {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    tokens.len()
}

/// Reads a crate from its root file.
fn read_crate(folder: &Path) -> Modules {
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
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{file:?}: {error}"));
    read_items(&tokens(&text), file, below, path, modules);
}

fn read_items(tokens: &[String], file: &Path, below: &Path, path: Segments, modules: &mut Modules) {
    let mut module = Module { file: file.to_owned(), ..Module::default() };
    let (mut at, mut is_test, mut is_public) = (0, false, false);
    // `#[path = "..."]` is not read: its string is no token, and no crate uses it.
    while at < tokens.len() {
        let next = tokens.get(at + 1).map_or("", String::as_str);
        match tokens[at].as_str() {
            "#" => {
                let open = at + if next == "!" { 2 } else { 1 };
                let end = closed(tokens, open);
                let words: Vec<&str> = tokens[open..end].iter().map(String::as_str).collect();
                let tested = ["cfg", "(", "test"];
                let all_tested = ["cfg", "(", "all", "(", "test"];
                is_test |= words.windows(3).any(|w| w == tested)
                    || words.windows(5).any(|w| w == all_tested);
                at = end;
                continue;
            }
            "pub" => {
                is_public = true;
                at = if next == "(" { closed(tokens, at + 1) } else { at + 1 };
                continue;
            }
            "use" => {
                let end = at + tokens[at..].iter().position(|t| t == ";").expect("use ends");
                if !is_test {
                    imports(&tokens[at + 1..end], &[], is_public, &mut module.imports);
                }
                at = end + 1;
            }
            "mod" => {
                let child: Segments = path.iter().cloned().chain([next.to_owned()]).collect();
                let open = at + 2;
                let is_inline = tokens.get(open).is_some_and(|token| token == "{");
                let end = if is_inline { closed(tokens, open) } else { open + 1 };
                if !is_test {
                    module.items.insert(next.to_owned());
                    let folder = below.join(next);
                    if is_inline {
                        let inner = &tokens[open + 1..end - 1];
                        read_items(inner, file, &folder, child, modules);
                    } else {
                        let files = [folder.with_extension("rs"), folder.join("mod.rs")];
                        if let Some(file) = files.iter().find(|file| file.exists()) {
                            read_file(file, &folder, child, modules);
                        }
                    }
                }
                at = end;
            }
            "struct" | "enum" | "union" | "trait" | "fn" | "type" | "const" | "static" => {
                module.items.insert(next.to_owned());
                at += 2;
                continue;
            }
            "macro_rules" => {
                let name = tokens.get(at + 2).cloned().unwrap_or_default();
                module.items.insert(name);
                at += 3;
                continue;
            }
            // Bodies, and what else is in brackets: imports in functions count for their file.
            "{" => {
                let end = closed(tokens, at);
                if !is_test {
                    body_imports(&tokens[at + 1..end.max(at + 2) - 1], &mut module.imports);
                }
                at = end;
            }
            ";" => at += 1,
            _ => {
                at += 1;
                continue;
            }
        }
        (is_test, is_public) = (false, false);
    }
    modules.insert(path, module);
}

/// The imports in a function's body.
fn body_imports(tokens: &[String], found: &mut Vec<Import>) {
    for (at, token) in tokens.iter().enumerate() {
        let starts = at == 0 || matches!(tokens[at - 1].as_str(), "{" | "}" | ";");
        if token == "use"
            && starts
            && let Some(length) = tokens[at..].iter().position(|t| t == ";")
        {
            imports(&tokens[at + 1..at + length], &[], false, found);
        }
    }
}

/// Expands a `use` tree.
fn imports(tree: &[String], prefix: &[String], is_reexport: bool, found: &mut Vec<Import>) {
    let mut path = prefix.to_vec();
    let mut at = 0;
    while at < tree.len() {
        match tree[at].as_str() {
            ":" => at += 1,
            "{" => {
                let inner = &tree[at + 1..closed(tree, at) - 1];
                let (mut start, mut depth) = (0, 0usize);
                for (end, token) in inner.iter().enumerate() {
                    match token.as_str() {
                        "{" => depth += 1,
                        "}" => depth -= 1,
                        "," if depth == 0 => {
                            imports(&inner[start..end], &path, is_reexport, found);
                            start = end + 1;
                        }
                        _ => {}
                    }
                }
                if start < inner.len() {
                    imports(&inner[start..], &path, is_reexport, found);
                }
                return;
            }
            "as" => break,
            word => {
                path.push(word.to_owned());
                at += 1;
            }
        }
    }
    if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
        path.pop();
    }
    let renamed = tree.get(at + 1).filter(|_| at < tree.len());
    if let Some(name) = renamed.or(path.last()).cloned() {
        found.push(Import { target: path, name, is_reexport });
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
type Arrows = BTreeMap<PathBuf, BTreeMap<PathBuf, BTreeSet<String>>>;

fn arrows(modules: &Modules) -> Arrows {
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
    let crates = workspace().join("crates");
    let mut folders: Vec<PathBuf> = fs::read_dir(crates)
        .expect("the crates are there")
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|folder| folder.join("src").is_dir())
        .collect();
    folders.sort();
    let mut wrong = Vec::new();
    for folder in folders {
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

//! Functions that are hard to read at a glance say why they are so.
//!
//! Reads every file under `crates/*/src` outside tests and finds the functions that are longer than
//! a screen, take more than six arguments, or take a flag (`bool`, also as a const parameter),
//! which at the call site is a bare `true`. Each is either changed, or has the reason in a line
//! comment of its own directly above it (CONTRIBUTING.md, "Rules"):
//!
//! ```text
//! // long: one arm per call of the standard; a split would only move the arms.
//! // arguments: the C signature of MPI_Alltoallw, converted.
//! // flag: answers a yes-or-no question of the standard, and is passed on unread.
//! ```
//!
//! More than seven arguments need Clippy's `allow` anyway: its `reason`, on the function or at the
//! head of the file, is enough.
//!
//! A flag needs no reason where the call reads well as it is: it is the function's whole argument
//! (`enable(true)`), or the value of a setter (`set_skewed(peer, true)`). What another signature
//! dictates needs none either: implementations of a trait (the trait's declaration needs the
//! reason), and functions with a foreign ABI. Closures and what macros expand to are not seen.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, FnArg, GenericParam, Signature, Type};

use crate::workspace;

/// Lines from the signature to the closing brace: what a screen shows.
const MAX_LINES: usize = 80;
/// Arguments, without the receiver.
const MAX_ARGUMENTS: usize = 6;

/// What a function does that wants a reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Excess {
    Long(usize),
    Arguments(usize),
    Flag,
}

impl Excess {
    /// The word that opens the reason.
    fn word(self) -> &'static str {
        match self {
            Excess::Long(_) => "long",
            Excess::Arguments(_) => "arguments",
            Excess::Flag => "flag",
        }
    }
}

/// A function without its reason.
struct Finding {
    file: PathBuf,
    line: usize,
    function: String,
    excess: Excess,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (file, line, function) = (self.file.display(), self.line, &self.function);
        write!(f, "{file}:{line}: `{function}` ")?;
        match self.excess {
            Excess::Long(lines) => write!(f, "has {lines} lines"),
            Excess::Arguments(count) => write!(f, "takes {count} arguments"),
            Excess::Flag => write!(f, "takes a flag"),
        }
    }
}

/// Walks through a file.
struct Reader<'a> {
    file: &'a Path,
    lines: Vec<&'a str>,
    /// The file's head says why its functions have many arguments.
    allows_arguments: bool,
    found: Vec<Finding>,
}

impl Reader<'_> {
    /// Looks at a function that ends in line `end`.
    fn function(
        &mut self,
        (attributes, sig): (&[Attribute], &Signature),
        end: usize,
        origin: Origin,
    ) {
        let start = sig.span().start().line;
        let mut excesses = Vec::new();
        let lines = end + 1 - start;
        if lines > MAX_LINES {
            excesses.push(Excess::Long(lines));
        }
        if origin == Origin::Own && sig.abi.is_none() {
            let arguments = arguments(sig);
            if arguments.len() > MAX_ARGUMENTS {
                excesses.push(Excess::Arguments(arguments.len()));
            }
            if takes_flag(sig, &arguments) {
                excesses.push(Excess::Flag);
            }
        }
        for excess in excesses {
            let is_allowed = matches!(excess, Excess::Arguments(_))
                && (self.allows_arguments || allows_arguments(attributes));
            if !is_allowed && !has_reason(&self.lines[..start - 1], excess.word()) {
                self.found.push(Finding {
                    file: self.file.to_owned(),
                    line: start,
                    function: sig.ident.to_string(),
                    excess,
                });
            }
        }
    }
}

/// Who chose a signature.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    Own,
    /// By a trait that is implemented.
    Dictated,
}

/// The arguments' types, without the receiver.
fn arguments(sig: &Signature) -> Vec<&Type> {
    let mut found = Vec::new();
    for argument in &sig.inputs {
        if let FnArg::Typed(typed) = argument {
            found.push(&*typed.ty);
        }
    }
    found
}

fn is_bool(ty: &Type) -> bool {
    matches!(ty, Type::Path(path) if path.path.is_ident("bool"))
}

/// Whether calls of the function have a bare `true` that their text does not explain.
fn takes_flag(sig: &Signature, arguments: &[&Type]) -> bool {
    let is_const_flag = |parameter: &GenericParam| match parameter {
        GenericParam::Const(parameter) => is_bool(&parameter.ty),
        _ => false,
    };
    let is_setter = sig.ident.to_string().starts_with("set_");
    let in_question = match arguments {
        [] | [_] => &[],
        [others @ .., _value] if is_setter => others,
        all => all,
    };
    sig.generics.params.iter().any(is_const_flag) || in_question.iter().any(|ty| is_bool(ty))
}

/// Whether the comments and attributes that end with `above` have a reason that opens with `word`.
fn has_reason(above: &[&str], word: &str) -> bool {
    let belongs = |line: &&&str| line.starts_with("//") || line.starts_with('#');
    let trimmed: Vec<&str> = above.iter().map(|line| line.trim()).collect();
    let block = trimmed.iter().rev().take_while(belongs);
    let opening = format!("// {word}: ");
    let reason = |line: &&str| line.strip_prefix(opening.as_str()).is_some_and(|r| r.len() > 9);
    block.into_iter().any(reason)
}

/// Whether an attribute allows many arguments (`clippy::too_many_arguments`) and gives a reason.
fn allows_arguments(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let list = attribute.meta.require_list();
        attribute.path().is_ident("allow")
            && list.is_ok_and(|list| {
                let words = list.tokens.to_string();
                words.contains("too_many_arguments") && words.contains("reason")
            })
    })
}

/// Whether an item is compiled for tests alone.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let path = attribute.path();
        let condition = || match attribute.meta.require_list() {
            Ok(list) => list.tokens.to_string().replace(' ', ""),
            Err(_) => String::new(),
        };
        path.is_ident("test")
            || (path.is_ident("cfg")
                && (condition() == "test" || condition().starts_with("all(test")))
    })
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_test(&item.attrs) {
            self.function((&item.attrs, &item.sig), item.block.span().end().line, Origin::Own);
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if is_test(&item.attrs) {
            return;
        }
        let origin = match item.trait_ {
            Some(_) => Origin::Dictated,
            None => Origin::Own,
        };
        for member in &item.items {
            if let syn::ImplItem::Fn(method) = member
                && !is_test(&method.attrs)
            {
                self.function((&method.attrs, &method.sig), method.block.span().end().line, origin);
                visit::visit_block(self, &method.block);
            }
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.function((&item.attrs, &item.sig), item.span().end().line, Origin::Own);
        visit::visit_trait_item_fn(self, item);
    }
}

/// The functions of a source text that have no reason.
fn read(file: &Path, text: &str) -> Vec<Finding> {
    let syntax = syn::parse_file(text).unwrap_or_else(|error| panic!("{file:?}: {error}"));
    let mut reader = Reader {
        file,
        lines: text.lines().collect(),
        allows_arguments: allows_arguments(&syntax.attrs),
        found: Vec::new(),
    };
    reader.visit_file(&syntax);
    reader.found
}

/// All source files below a folder that are not tests.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    for entry in entries {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "tests") {
                sources(&path, found);
            }
        } else if path.extension().is_some_and(|e| e == "rs")
            && path.file_stem().is_some_and(|stem| stem != "tests")
        {
            found.push(path);
        }
    }
}

#[test]
fn functions_are_short_and_say_what_is_passed() {
    let root = workspace();
    let mut files = Vec::new();
    for entry in fs::read_dir(root.join("crates")).expect("crates") {
        let source = entry.expect("an entry").path().join("src");
        sources(&source, &mut files);
    }
    files.sort();
    assert!(files.len() > 300, "only {} files were read", files.len());
    let mut found = Vec::new();
    for file in &files {
        let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{file:?}: {error}"));
        let name = file.strip_prefix(&root).expect("below the root");
        found.extend(read(name, &text));
    }
    let list: Vec<String> = found.iter().map(Finding::to_string).collect();
    assert!(
        list.is_empty(),
        "say why, or change them (see this test's head):\n{}",
        list.join("\n")
    );
}

/// What [`read`] finds in a text, as text.
fn found_in(text: &str) -> Vec<String> {
    let findings = read(Path::new("a.rs"), text);
    findings.iter().map(Finding::to_string).collect()
}

#[test]
fn finds_flags_many_arguments_and_long_functions() {
    let long = format!("fn long() {{\n{}}}\n", "    work();\n".repeat(79));
    assert_eq!(found_in(&long), ["a.rs:1: `long` has 81 lines"]);
    let fits = format!("fn fits() {{\n{}}}\n", "    work();\n".repeat(78));
    assert_eq!(found_in(&fits), [""; 0]);
    let many = "impl A {\n fn many(&self, a: A, b: B, c: C, d: D, e: E, f: F, g: G) {}\n}";
    assert_eq!(found_in(many), ["a.rs:2: `many` takes 7 arguments"]);
    for flag in [
        "fn flag(a: A, on: bool) {}",
        "fn flag<const ON: bool>(a: A) {}",
        "fn set_flag(on: bool, a: A) {}",
        "trait T { fn flag(&self, a: A, on: bool); }",
        "fn outer() { fn flag(a: A, on: bool) {} }",
        "// a comment\n#[inline]\nfn flag(a: A, on: bool) {}",
        "// flag: short\nfn flag(a: A, on: bool) {}",
        "// long: it is a table of many arms\nfn flag(a: A, on: bool) {}",
        "// flag: the reason of another function\nfn b() {}\nfn flag(a: A, on: bool) {}",
    ] {
        let found = found_in(flag);
        assert!(found.len() == 1 && found[0].ends_with("flag` takes a flag"), "{flag}: {found:?}");
    }
}

#[test]
fn accepts_reasons_and_what_needs_none() {
    for text in [
        "// flag: passed on unread\n/// Text.\n#[inline]\nfn a(a: A, on: bool) {}",
        "/// Text.\n// flag: passed on unread\n#[inline]\nfn a(a: A, on: bool) {}",
        "impl A { fn enable(&self, on: bool) {} }",
        "impl A { fn set_skewed(&mut self, peer: u32, on: bool) {} }",
        "impl Foreign for A { fn a(&self, a: A, on: bool) {} }",
        "extern \"C\" fn a(a: A, on: bool) {}",
        "#[cfg(test)] mod tests { fn a(a: A, on: bool) {} }",
        "#[test] fn a(a: A, on: bool) {}",
        "#[allow(clippy::too_many_arguments, reason = \"MPI's\")]\n\
         fn a(a: A, b: B, c: C, d: D, e: E, f: F, g: G, h: H) {}",
    ] {
        assert_eq!(found_in(text), [""; 0], "{text}");
    }
}

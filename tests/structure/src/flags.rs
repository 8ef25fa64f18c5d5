//! A flag (`bool`, also as a const parameter) among a function's parameters is a bare `true` where
//! the function is called: it is an enum, or a line comment directly above the function says why
//! not (`// flag: answers a yes-or-no question of the standard`).
//!
//! A flag needs no reason where the call reads well as it is: it is the function's whole argument
//! (`enable(true)`), or the value of a setter (`set_skewed(peer, true)`). What another signature
//! dictates needs none either: implementations of a trait (the trait's declaration needs the
//! reason), and functions with a foreign ABI. Tests, closures and what macros expand to are not
//! read. Clippy holds functions to their length and their number of arguments (`clippy.toml`).

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{
    FnArg, GenericParam, ImplItemFn, ItemFn, ItemImpl, ItemMod, Signature, TraitItemFn, Type,
};

use crate::circles::is_for_tests;
use crate::sources::{short, sources_below, text};

/// Walks through a file.
struct Reader<'a> {
    lines: Vec<&'a str>,
    /// Who chose the signatures: a trait that is implemented.
    is_dictated: bool,
    found: Vec<String>,
}

impl Reader<'_> {
    fn check(&mut self, sig: &Signature) {
        let line = sig.span().start().line;
        let is_free = self.is_dictated || sig.abi.is_some();
        if !is_free && takes_flag(sig) && !has_reason(&self.lines[..line - 1]) {
            self.found.push(format!("{line}: `{}` takes a flag", sig.ident));
        }
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if !item.attrs.iter().any(is_for_tests) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        if !item.attrs.iter().any(is_for_tests) {
            let outer = std::mem::replace(&mut self.is_dictated, item.trait_.is_some());
            visit::visit_item_impl(self, item);
            self.is_dictated = outer;
        }
    }

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        let is_test = |attribute| is_for_tests(attribute) || attribute.path().is_ident("test");
        if !item.attrs.iter().any(is_test) {
            let outer = std::mem::replace(&mut self.is_dictated, false);
            self.check(&item.sig);
            visit::visit_item_fn(self, item);
            self.is_dictated = outer;
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        if !item.attrs.iter().any(is_for_tests) {
            self.check(&item.sig);
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        self.check(&item.sig);
        visit::visit_trait_item_fn(self, item);
    }
}

fn is_bool(ty: &Type) -> bool {
    matches!(ty, Type::Path(path) if path.path.is_ident("bool"))
}

/// Whether calls of the function have a bare `true` that their text does not explain.
fn takes_flag(sig: &Signature) -> bool {
    let is_const_flag = |parameter: &GenericParam| match parameter {
        GenericParam::Const(parameter) => is_bool(&parameter.ty),
        _ => false,
    };
    let arguments = sig.inputs.iter().filter_map(|argument| match argument {
        FnArg::Typed(typed) => Some(is_bool(&typed.ty)),
        FnArg::Receiver(_) => None,
    });
    let arguments: Vec<bool> = arguments.collect();
    let is_setter = sig.ident.to_string().starts_with("set_");
    let in_question = match arguments.as_slice() {
        [] | [_] => &[],
        [others @ .., _value] if is_setter => others,
        all => all,
    };
    sig.generics.params.iter().any(is_const_flag) || in_question.contains(&true)
}

/// Whether the comments and attributes that end with `above` have a reason.
fn has_reason(above: &[&str]) -> bool {
    let trimmed = above.iter().rev().map(|line| line.trim());
    let mut block = trimmed.take_while(|line| line.starts_with("//") || line.starts_with('#'));
    block.any(|line| line.strip_prefix("// flag: ").is_some_and(|reason| reason.len() > 9))
}

/// The functions of a source text that take a flag without a reason.
fn flags(text: &str) -> Vec<String> {
    let syntax = syn::parse_file(text).expect("Rust");
    let mut reader = Reader { lines: text.lines().collect(), is_dictated: false, found: vec![] };
    reader.visit_file(&syntax);
    reader.found
}

#[test]
fn flags_say_why_they_are_no_enums() {
    let is_read = |name: &String| name.contains("/src/") && !name.contains("/tests");
    let mut files = 0;
    let mut found = Vec::new();
    for file in sources_below(&["crates"]) {
        let name = short(&file);
        if is_read(&name) {
            files += 1;
            found.extend(flags(&text(&file)).iter().map(|flag| format!("{name}:{flag}")));
        }
    }
    assert!(files > 300, "only {files} files were read");
    assert!(found.is_empty(), "say why, or change them:\n{}", found.join("\n"));
}

#[test]
fn finds_flags_without_a_reason() {
    for text in [
        "fn flag(a: A, on: bool) {}",
        "fn flag<const ON: bool>(a: A) {}",
        "fn set_flag(on: bool, a: A) {}",
        "trait T { fn flag(&self, a: A, on: bool); }",
        "impl Foreign for A { fn a(&self) { fn flag(a: A, on: bool) {} } }",
        "// a comment\n#[inline]\nfn flag(a: A, on: bool) {}",
        "// flag: short\nfn flag(a: A, on: bool) {}",
        "// flag: the reason of another function\nfn b() {}\nfn flag(a: A, on: bool) {}",
    ] {
        let found = flags(text);
        assert!(found.len() == 1 && found[0].ends_with("flag` takes a flag"), "{text}: {found:?}");
    }
    for text in [
        "// flag: passed on unread\n/// Text.\n#[inline]\nfn a(a: A, on: bool) {}",
        "/// Text.\n// flag: passed on unread\n#[inline]\nfn a(a: A, on: bool) {}",
        "impl A { fn enable(&self, on: bool) {} }",
        "impl A { fn set_skewed(&mut self, peer: u32, on: bool) {} }",
        "impl Foreign for A { fn a(&self, a: A, on: bool) {} }",
        "extern \"C\" fn a(a: A, on: bool) {}",
        "#[cfg(test)] mod tests { fn a(a: A, on: bool) {} }",
        "#[test] fn a(a: A, on: bool) {}",
    ] {
        assert_eq!(flags(text), [""; 0], "{text}");
    }
}

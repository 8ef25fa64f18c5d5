//! The text of `mpiexec --help`, and what the manual page shares with it.

use std::fmt::Write as _;

use super::parser::{Scope, Spec};
use super::table::options;
use super::variables;

/// How it is called, after the name of the command.
pub(super) const USAGE: &str = "[OPTIONS] PROGRAM [ARGUMENTS] [: [OPTIONS] PROGRAM [ARGUMENTS]]...";

/// What it does.
pub(super) const ABOUT: &str = "Starts the ranks of an MPI job, here or on other hosts, and waits \
    for them. Any program can be started, not only MPI programs. Long names may be written with \
    one dash or two.";

/// The parts of the list of options, with their titles.
pub(super) const SCOPES: [(Scope, &str); 2] = [
    (Scope::Section, "Options of one program (they end at ':')"),
    (Scope::Job, "Options of the whole job"),
];

/// The title of the list of variables.
pub(super) const VARIABLES: &str =
    "Variables that count as in MPICH's Hydra, unless an option says otherwise";

/// What it returns.
pub(super) const STATUS: &str = "The exit status is that of the first rank that failed: its own, \
    or 128 + N for signal N.";

/// The names and values of an option: `-n, -np, -c N`.
pub(super) fn usage(spec: &Spec) -> String {
    let values = spec.values().iter().map(|value| format!(" {value}"));
    spec.names.join(", ") + &values.collect::<String>()
}

/// The text of `--help`.
pub fn help() -> String {
    let mut text = format!("Usage: mpiexec {USAGE}\n\n");
    let mut lines = |indent: &str, text_of: &str, width: usize| {
        for line in wrap(text_of, width) {
            let _ = writeln!(text, "{indent}{line}");
        }
    };
    lines("", ABOUT, 100);
    for (scope, title) in SCOPES {
        lines("", "", 1);
        lines("", &format!("{title}:"), 100);
        for spec in options().filter(|spec| spec.scope == scope) {
            lines("  ", &usage(spec), usize::MAX);
            lines("          ", spec.help, 80);
        }
    }
    lines("", "", 1);
    lines("", &format!("{VARIABLES}:"), 100);
    for (names, meaning) in variables::rows() {
        lines("  ", &format!("{names}: {}", meaning.replace('`', "")), 88);
    }
    lines("", "", 1);
    lines("", STATUS, 100);
    text
}

/// The lines of a text, none longer than `width` unless a word is.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("never empty");
        if line.is_empty() {
            line.push_str(word);
        } else if line.len() + 1 + word.len() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

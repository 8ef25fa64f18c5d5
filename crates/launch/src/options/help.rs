//! The text of `mpiexec --help`.

use std::fmt::Write as _;

use super::parser::{Scope, Spec};
use super::table::options;
use super::variables;

/// The names and values of an option: `-n, -np, -c N`.
pub(super) fn usage(spec: &Spec) -> String {
    let values = spec.values().iter().map(|value| format!(" {value}"));
    spec.names.join(", ") + &values.collect::<String>()
}

/// The text of `--help`.
pub fn help() -> String {
    let mut text = String::from(
        "Usage: mpiexec [OPTIONS] PROGRAM [ARGUMENTS] [: [OPTIONS] PROGRAM [ARGUMENTS]]...\n\n\
         Starts the ranks of an MPI job, here or on other hosts, and waits for them. \
         Any program can be\n\
         started, not only MPI programs. Long names may be written with one dash or two.\n",
    );
    for (scope, title) in [
        (Scope::Section, "Options of one program (they end at ':'):"),
        (Scope::Job, "Options of the whole job:"),
    ] {
        let _ = write!(text, "\n{title}\n");
        for spec in options().filter(|spec| spec.scope == scope) {
            let _ = writeln!(text, "  {}", usage(spec));
            for line in wrap(spec.help, 80) {
                let _ = writeln!(text, "          {line}");
            }
        }
    }
    text.push_str("\nVariables that count as in MPICH's Hydra, unless an option says otherwise:\n");
    for (names, meaning) in variables::rows() {
        for line in wrap(&format!("{names}: {}", meaning.replace('`', "")), 88) {
            let _ = writeln!(text, "  {line}");
        }
    }
    text.push_str(
        "\nThe exit status is that of the first rank that failed: its own, or 128 + N for signal \
        N.\n",
    );
    text
}

fn wrap(text: &str, width: usize) -> Vec<String> {
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

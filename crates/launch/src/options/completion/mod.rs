//! Completion of the command line of `mpiexec` by shells, from the table of options:
//! `mpiexec --completion SHELL`. `scripts/install_man.sh` installs the scripts.
//!
//! Each script reads the line as the [parser](super::parser) does: options up to the program, then
//! the program's own arguments, and the next section after `:`. So it has to know how many values
//! an option takes.

use super::parser::Spec;
use super::values::completion_shell::CompletionShell;

mod bash;
mod fish;
mod zsh;

/// The script for a shell.
pub fn completion(shell: CompletionShell) -> String {
    match shell {
        CompletionShell::Bash => bash::script(),
        CompletionShell::Zsh => zsh::script(),
        CompletionShell::Fish => fish::script(),
    }
}

/// What can stand for a value of an option.
#[derive(Debug, PartialEq)]
enum ValueChoice {
    /// One of these words, or what begins with it.
    Words(Vec<&'static str>),
    Files,
    Folders,
    /// Anything.
    Free,
}

impl ValueChoice {
    /// Reads the name that the help gives to the value: what is not in capitals is to be typed, as
    /// in `core[:N]|none|user:SET,...`.
    fn of(value: &'static str) -> ValueChoice {
        if value.starts_with("FILE") {
            return ValueChoice::Files;
        }
        if value.starts_with("DIR") {
            return ValueChoice::Folders;
        }
        let is_typed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_:=".contains(c);
        let typed =
            value.split('|').map(|word| &word[..word.find(|c| !is_typed(c)).unwrap_or(word.len())]);
        let words: Vec<&str> = typed.filter(|word| !word.is_empty()).collect();
        if words.is_empty() { ValueChoice::Free } else { ValueChoice::Words(words) }
    }
}

/// The first sentence of an option's help.
fn summary(spec: &Spec) -> &'static str {
    spec.help.split(". ").next().unwrap_or_default().trim_end_matches('.')
}

/// A word that a shell reads as it is.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests;

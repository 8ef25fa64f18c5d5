//! The shells whose completion `mpiexec` knows.

/// A shell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CompletionShell {
    Bash,
    Zsh,
    Fish,
}

impl CompletionShell {
    pub const WANTED: &str = "bash, zsh or fish";

    pub fn parse(name: &str) -> Option<CompletionShell> {
        match name {
            "bash" => Some(CompletionShell::Bash),
            "zsh" => Some(CompletionShell::Zsh),
            "fish" => Some(CompletionShell::Fish),
            _ => None,
        }
    }
}

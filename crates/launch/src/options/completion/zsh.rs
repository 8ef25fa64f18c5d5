//! The script for zsh: a call of its `_arguments`.

use super::{ValueChoice, quoted, summary};
use crate::options::parser::Spec;
use crate::options::table::options;

/// The script. After the options, what zsh offers for any command line.
pub fn script() -> String {
    let head = "#compdef mpiexec mpirun\n# zsh completion of Mica's mpiexec, written by \
        `mpiexec --completion zsh`\n\n_arguments -S \\\n";
    let specs: String = options().map(argument).collect();
    format!("{head}{specs}    '*::program: _normal'\n")
}

/// An option: `{-n,-np}'[what it does]:N: '`.
fn argument(spec: &Spec) -> String {
    let names = match spec.names {
        [name] => (*name).to_owned(),
        names => format!("{{{}}}", names.join(",")),
    };
    let values = spec.values().iter().map(|value| format!(":{}:{}", escaped(value), action(value)));
    let text = format!("[{}]{}", escaped(summary(spec)), values.collect::<String>());
    format!("    {names}{} \\\n", quoted(&text))
}

/// What zsh does for a value.
fn action(value: &'static str) -> String {
    match ValueChoice::of(value) {
        ValueChoice::Words(words) => format!("({})", escaped(&words.join(" "))),
        ValueChoice::Files => "_files".to_owned(),
        ValueChoice::Folders => "_files -/".to_owned(),
        ValueChoice::Free => " ".to_owned(),
    }
}

/// Without what divides the parts of an argument of `_arguments`.
fn escaped(text: &str) -> String {
    text.chars()
        .flat_map(|c| ['\\', c].into_iter().skip(usize::from(!"[]:\\".contains(c))))
        .collect()
}

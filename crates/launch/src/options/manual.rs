//! The manual page of `mpiexec`, in roff, from the tables of options and variables:
//! `mpiexec --man`. `scripts/install_man.sh` installs it.

use std::fmt::Write as _;

use super::help::{ABOUT, SCOPES, STATUS, USAGE, VARIABLES, wrap};
use super::parser::Spec;
use super::table::options;
use super::variables;

/// The page.
pub fn manual() -> String {
    let mut page = format!(
        ".TH MPIEXEC 1 \"\" \"Mica {}\" Mica\n.nh\n.ad l\n.SH NAME\nmpiexec, mpirun \\- start the \
        ranks of an MPI job\n.SH SYNOPSIS\n.B mpiexec\n",
        env!("CARGO_PKG_VERSION")
    );
    let _ = write!(page, "{}.SH DESCRIPTION\n{}.SH OPTIONS\n", text(USAGE), text(ABOUT));
    for (scope, title) in SCOPES {
        let _ = writeln!(page, ".SS {title}");
        for spec in options().filter(|spec| spec.scope == scope) {
            let _ = write!(page, ".TP\n{}\n{}", head(spec), text(spec.help));
        }
    }
    let own = "Mica's own variables, which ranks read, are listed by mica info.";
    let _ = write!(page, ".SH ENVIRONMENT\n{}.PP\n{}", text(own), text(&format!("{VARIABLES}:")));
    for (names, meaning) in variables::rows() {
        let _ = write!(page, ".TP\n.B {names}\n{}", text(&meaning.replace('`', "")));
    }
    let _ = write!(page, ".SH EXIT STATUS\n{}", text(STATUS));
    page.push_str(".SH SEE ALSO\n.BR mica (1),\n.BR mpicc (1),\n.BR MPI (3)\n");
    page
}

/// The names of an option in bold, and its values in italics.
fn head(spec: &Spec) -> String {
    let names: Vec<String> =
        spec.names.iter().map(|name| format!("\\fB{}\\fP", escaped(name))).collect();
    let values = spec.values().iter().map(|value| format!(" \\fI{}\\fP", escaped(value)));
    names.join(", ") + &values.collect::<String>()
}

/// A paragraph.
fn text(text: &str) -> String {
    // A line that begins with a dot or a quote would be a request.
    wrap(text, 78).iter().map(|line| format!("\\&{}\n", escaped(line))).collect()
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-")
}

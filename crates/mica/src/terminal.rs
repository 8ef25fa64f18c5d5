//! What commands print: text, errors, tables without lines, a sign that something goes on.

use std::error::Error;
use std::fmt::Display;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use comfy_table::{CellAlignment, Row, Table, presets};
use indicatif::{ProgressBar, ProgressStyle};

use crate::draw::page::columns;

/// Prints; a reader that has exited (`| head`) is no error.
pub fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// Prints the text of a command. The status is that of the command.
pub fn print_text(command: &str, text: Result<String, Box<dyn Error>>) -> ExitCode {
    status(command, text.map(|text| print(&text)).map(|()| ExitCode::SUCCESS), ExitCode::FAILURE)
}

/// The status of a command; an error is printed, and its status is `failed`.
pub fn status(command: &str, end: Result<ExitCode, impl Display>, failed: ExitCode) -> ExitCode {
    end.unwrap_or_else(|error| {
        eprintln!("{command}: {error}");
        failed
    })
}

/// Shows on a terminal that something goes on.
pub fn spinner() -> Result<ProgressBar, Box<dyn Error>> {
    let spinner = ProgressBar::new_spinner();
    spinner.set_style(ProgressStyle::with_template("{spinner} {elapsed} {msg}")?);
    spinner.enable_steady_tick(Duration::from_millis(100));
    Ok(spinner)
}

/// A table whose header cells stand between bars: `size | calls`.
pub fn table(header: &str) -> Table {
    with_header(columns(header))
}

/// A table with these header cells.
pub fn with_header(header: impl Into<Row>) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(header);
    table
}

/// Aligns to the right all columns but these.
pub fn align_right_but(table: &mut Table, left: &[usize]) {
    let columns = table.column_iter_mut().enumerate();
    for (_, column) in columns.filter(|(at, _)| !left.contains(at)) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

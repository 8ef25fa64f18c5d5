//! Tables for a terminal: columns under a header, without lines.

use comfy_table::{CellAlignment, Row, Table, presets};

use crate::draw::page::columns;

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

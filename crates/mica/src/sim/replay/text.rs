//! The predictions as text.

use std::fmt::Write as _;

use comfy_table::Table;
use mica_sim::loggp::{Parameter, Sensitivity};
use mica_sim::replay::ReplayCluster;

use super::{Compared, Predicted, ReplayFindings};
use crate::draw::text::{percent, short, time, trimmed};
use crate::terminal::{align_right_but, table, with_header};

/// `4x2`.
pub fn grid(dimensions: &[u32]) -> String {
    let sizes: Vec<String> = dimensions.iter().map(u32::to_string).collect();
    sizes.join("x")
}

/// The predictions.
pub fn render(outcome: &ReplayFindings, cluster: &ReplayCluster) -> String {
    let mut text =
        format!("Recorded: {} ranks, {}", outcome.recorded_ranks, time(outcome.measured_seconds));
    if !outcome.recorded_grid.is_empty() {
        let _ = write!(text, ", grid {}", grid(&outcome.recorded_grid));
    }
    let _ = writeln!(text, "; {} scaling", outcome.scaling);
    let values = Parameter::ALL.map(|parameter| {
        let value = trimmed(cluster.network.get(parameter));
        format!("{} {value} {}", parameter.symbol(), parameter.unit())
    });
    let _ = writeln!(text, "Network: {}\n", values.join(", "));
    let header =
        "ranks | grid | predicted | computing | rest | efficiency | messages | replayed in";
    let mut table = table(header);
    let first = &outcome.predictions[0];
    for predicted in &outcome.predictions {
        table.add_row([
            predicted.ranks.to_string(),
            grid(&predicted.grid),
            time(predicted.seconds),
            time(predicted.computing_seconds),
            percent(1.0 - predicted.computing_seconds / predicted.seconds),
            percent(efficiency(outcome.scaling, first, predicted)),
            short(predicted.messages as f64),
            time(predicted.replay_seconds),
        ]);
    }
    let _ = writeln!(text, "{}", right(table));
    if outcome.predictions.iter().any(|p| p.whole_collectives > 0) {
        text += "\nLong collectives of more than 64 ranks are one time for all of their ranks.\n";
    }
    for note in &outcome.notes {
        let _ = writeln!(text, "\n{note}");
    }
    if let Some(sensitivity) = &outcome.sensitivity {
        text += &sensitive(sensitivity);
    }
    text
}

/// Relative to the first row.
fn efficiency(scaling: &str, first: &Predicted, predicted: &Predicted) -> f64 {
    let speed_up = first.seconds / predicted.seconds;
    match scaling {
        "weak" => speed_up,
        _ => speed_up * f64::from(first.ranks) / f64::from(predicted.ranks),
    }
}

/// Times with each parameter raised.
pub fn sensitive(sensitivity: &Sensitivity) -> String {
    let factors = sensitivity.rows.first().map(|row| &row.times);
    let factors = factors.into_iter().flatten();
    let mut header = vec!["".to_owned()];
    header.extend(factors.map(|(factor, _)| format!("x {factor}")));
    header.push("% for each %".to_owned());
    let mut table = with_header(header);
    for row in &sensitivity.rows {
        let mut cells = vec![row.parameter.symbol().to_owned()];
        cells.extend(row.times.iter().map(|(_, seconds)| time(*seconds)));
        cells.push(trimmed(row.elasticity));
        table.add_row(cells);
    }
    let base = time(sensitivity.base);
    format!(
        "\nSensitivity: the time with one parameter raised ({base} as it is)\n{}\n",
        right(table)
    )
}

/// Predicted and measured.
pub fn compared(rows: &[Compared], notes: &[String], cores: u32) -> String {
    let header = "ranks | measured | predicted | difference | computing measured | predicted";
    let mut table = table(header);
    for row in rows {
        table.add_row([
            row.ranks.to_string(),
            time(row.measured),
            time(row.predicted),
            format!("{:+.1} %", (row.predicted / row.measured - 1.0) * 100.0),
            time(row.computing_measured),
            time(row.computing_predicted),
        ]);
    }
    let mut text = format!(
        "{}\n\nAll are predicted from the run of {} ranks. {cores} cores; where ranks share one, \
         what they compute\nlasts longer by their number.\n",
        right(table),
        rows[0].ranks
    );
    for note in notes {
        let _ = writeln!(text, "{note}");
    }
    text
}

/// All columns to the right, without space at line ends.
fn right(mut table: Table) -> String {
    align_right_but(&mut table, &[]);
    table.trim_fmt()
}

//! What was measured, as tables and warnings.

use mica_policy::costs::level_name;
use mica_policy::{MessagePaths, PathCost, PathCosts, Situation, Thresholds};

use super::measure::{MeasuredCost, NOISY, SeriesOutcome};
use crate::explain::{threshold_rows, time};
use crate::terminal;

/// A fit with a larger error than this gets a remark.
const POOR: f64 = 0.3;

pub(super) fn table(outcomes: &[SeriesOutcome], before: &PathCosts) -> String {
    let mut table = terminal::table(
        " level | path | start | (before) | ns/byte | (before) | ns/piece | (before) | off by",
    );
    for SeriesOutcome { level, path, result } in outcomes {
        let old = before.of(*level, *path);
        let name = format!(" {}", level_name(*level));
        match result {
            Ok(MeasuredCost { cost, error, .. }) => table.add_row([
                name,
                path.name().to_owned(),
                time(cost.start_ns),
                time(old.start_ns),
                prices(cost),
                prices(old),
                format!("{}", cost.piece_ns),
                format!("{}", old.piece_ns),
                format!("{:.0} %", 100.0 * error),
            ]),
            Err(why) => table.add_row([
                name,
                path.name().to_owned(),
                "as before".to_owned(),
                time(old.start_ns),
                "as before".to_owned(),
                prices(old),
                String::new(),
                format!("{}", old.piece_ns),
                why.lines().next().unwrap_or_default().to_owned(),
            ]),
        };
    }
    table.trim_fmt()
}

/// `0.0225, 0.043 from 4 MiB`.
pub(super) fn prices(cost: &PathCost) -> String {
    let price = |span: &mica_policy::CostSpan| match span.from {
        0 => format!("{}", span.byte_ns),
        from => {
            let from = mica_node::topology::readable_bytes(from);
            format!("{} from {from}", span.byte_ns)
        }
    };
    cost.used_spans().map(price).collect::<Vec<_>>().join(", ")
}

/// The thresholds of each measured level, with the paths that were available.
pub(super) fn thresholds(
    outcomes: &[SeriesOutcome],
    before: &PathCosts,
    after: &PathCosts,
) -> String {
    let mut table = terminal::table(" level | threshold | bytes | (before)");
    for same_level in outcomes.chunk_by(|a, b| a.level == b.level) {
        let level = same_level[0].level;
        let there = same_level.iter().filter(|outcome| outcome.result.is_ok());
        let available: MessagePaths = there.map(|outcome| outcome.path).collect();
        let situation = Situation::waiting(level, available.union(MessagePaths::SHARED_MEMORY));
        let new = threshold_rows(&Thresholds::derive(after, &situation));
        let old = threshold_rows(&Thresholds::derive(before, &situation));
        for ((name, new), (_, old)) in new.into_iter().zip(old) {
            table.add_row([format!(" {}", level_name(level)), name.to_owned(), new, old]);
        }
    }
    table.trim_fmt()
}

/// Number of messages that varied by more than [`NOISY`], and of all messages.
pub(super) fn noise(outcomes: &[SeriesOutcome]) -> (usize, usize) {
    let measured = outcomes.iter().filter_map(|o| o.result.as_ref().ok());
    measured
        .fold((0, 0), |(noisy, all), measured| (noisy + measured.noisy.0, all + measured.noisy.1))
}

pub(super) fn warnings(outcomes: &[SeriesOutcome]) -> Vec<String> {
    let mut warnings = Vec::new();
    let measured = || outcomes.iter().filter_map(|o| Some((o, o.result.as_ref().ok()?)));
    let (noisy, all) = noise(outcomes);
    if noisy * 10 > all {
        warnings.push(format!(
            "{noisy} of {all} measurements varied by more than {:.0} %: is something else \
             running? Measure again when the machine is quiet.",
            100.0 * NOISY
        ));
    }
    for (SeriesOutcome { level, path, .. }, MeasuredCost { error, .. }) in measured() {
        if *error > POOR {
            warnings.push(format!(
                "{}, {}: the fit is off by {:.0} % at one size.",
                level_name(*level),
                path.name(),
                100.0 * error
            ));
        }
    }
    warnings
}

//! The table of bytes and messages per path, from the counters that ranks leave in the job segment
//! (`MICA_STATS=table`).

use mica_node::counters::{COUNTERS, Counters, TrafficClass};
use mica_node::segment::AreaBudget;
use std::fmt::Write as _;

/// The values of one rank's counters, as messages carry them.
pub type CounterValues = [u64; COUNTERS];

/// The table for a job whose ranks have counted `ranks`.
pub fn table(ranks: &[CounterValues]) -> String {
    let mut text = format!(
        "mpiexec: what {} ranks sent\nmpiexec:   {:<8}{:>12}{:>16}{:>8}  path\n",
        ranks.len(),
        "channel",
        "messages",
        "bytes",
        "share"
    );
    let mut sum = Counters::default();
    for &values in ranks {
        sum.merge(&Counters::new(values));
    }
    let all: u64 = TrafficClass::ALL.iter().map(|&path| sum.bytes(path)).sum();
    for path in TrafficClass::ALL {
        let (messages, bytes) = (sum.messages(path), sum.bytes(path));
        let share = if all == 0 {
            0.0
        } else {
            100.0 * bytes as f64 / all as f64
        };
        writeln!(
            text,
            "mpiexec:   {:<8}{messages:>12}{bytes:>16}{share:>7.1}%  {}",
            path.name(),
            path.meaning()
        )
        .expect("a string takes all");
    }
    text
}

/// The memory that this node's collective areas use, and their limit.
pub fn areas(budget: &AreaBudget<'_>) -> String {
    format!(
        "mpiexec: shared areas of communicators have {} KiB of {} KiB\n",
        budget.used() >> 10,
        budget.limit() >> 10
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_sums_over_ranks() {
        let mut rank = Counters::default();
        rank.add_messages(TrafficClass::Inline, 3, 24);
        rank.add_messages(TrafficClass::Direct, 1, 76);
        let text = table(&[*rank.values(), *rank.values()]);
        let row = |name: &str| {
            let line = text
                .lines()
                .find(|l| l.contains(&format!("  {name} ")))
                .expect("a row");
            line.split_whitespace()
                .skip(2)
                .take(3)
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(row("inline"), ["6", "48", "24.0%"]);
        assert_eq!(row("direct"), ["2", "152", "76.0%"]);
        assert_eq!(row("cells"), ["0", "0", "0.0%"]);
    }
}

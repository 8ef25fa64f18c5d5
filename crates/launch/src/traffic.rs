//! The table of bytes and messages per path, from the counters that ranks leave in the job segment
//! (`MICA_STATS=table`).

use mica_node::area::Budget;
use mica_node::segment::{TRAFFIC_NAMES, TRAFFIC_WAYS};
use std::fmt::Write as _;

/// Messages and bytes by path, as one rank has sent them.
pub type Sent = [(u64, u64); TRAFFIC_WAYS];

/// Descriptions of the paths.
const MEANINGS: [&str; TRAFFIC_WAYS] = [
    "to the rank itself",
    "shared memory, in the ring's slot",
    "shared memory, in the ring's arena",
    "shared memory, through cells",
    "single copy by the kernel",
    "single copy in memory that both ranks map",
    "over the network",
    "collectives, through a communicator's area",
];

/// The table for a job whose ranks have sent `ranks`.
pub fn table(ranks: &[Sent]) -> String {
    let mut text = format!(
        "mpiexec: what {} ranks sent\nmpiexec:   {:<8}{:>12}{:>16}{:>8}  way\n",
        ranks.len(),
        "channel",
        "messages",
        "bytes",
        "share"
    );
    let all: u64 = ranks.iter().flatten().map(|(_, bytes)| bytes).sum();
    for way in 0..TRAFFIC_WAYS {
        let messages: u64 = ranks.iter().map(|sent| sent[way].0).sum();
        let bytes: u64 = ranks.iter().map(|sent| sent[way].1).sum();
        let share = if all == 0 {
            0.0
        } else {
            100.0 * bytes as f64 / all as f64
        };
        writeln!(
            text,
            "mpiexec:   {:<8}{messages:>12}{bytes:>16}{share:>7.1}%  {}",
            TRAFFIC_NAMES[way], MEANINGS[way]
        )
        .expect("a string takes all");
    }
    text
}

/// The memory that this node's collective areas use, and their limit.
pub fn areas(budget: &Budget<'_>) -> String {
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
        let mut sent = [(0, 0); TRAFFIC_WAYS];
        sent[1] = (3, 24);
        sent[4] = (1, 76);
        let text = table(&[sent, sent]);
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

//! The tables of messages by path and level, one-sided operations, and waits, from the counters
//! that ranks leave in the job segment (`MICA_STATS=table`).

use mica_node::counters::{
    AccessClass, COUNTERS, Counter, Counters, SIZE_CLASSES, TrafficClass, WaitReason,
    size_class_max,
};
use mica_node::segment::AreaBudget;
use mica_node::topology::Level;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// The values of one rank's counters, as messages carry them: as a list, since serde knows no
/// arrays of more than 32 elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<u64>", into = "Vec<u64>")]
pub struct CounterValues(pub [u64; COUNTERS]);

impl From<CounterValues> for Vec<u64> {
    fn from(values: CounterValues) -> Vec<u64> {
        values.0.to_vec()
    }
}

impl TryFrom<Vec<u64>> for CounterValues {
    type Error = String;

    /// Refuses a list of another length.
    fn try_from(values: Vec<u64>) -> Result<CounterValues, String> {
        let found = values.len();
        let values = values.try_into();
        values
            .map(CounterValues)
            .map_err(|_| format!("{found} counters; this version of mpiexec has {COUNTERS}"))
    }
}

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
    for &CounterValues(values) in ranks {
        sum.merge(&Counters::new(values));
    }
    let all: u64 = TrafficClass::ALL.iter().map(|&path| sum.bytes(path)).sum();
    for path in TrafficClass::ALL {
        let (messages, bytes) = (sum.messages(path), sum.bytes(path));
        let share = if all == 0 { 0.0 } else { 100.0 * bytes as f64 / all as f64 };
        let _ = writeln!(
            text,
            "mpiexec:   {:<8}{messages:>12}{bytes:>16}{share:>7.1}%  {}",
            path.name(),
            path.meaning()
        );
    }
    text + &by_level(&sum) + &one_sided(&sum) + &files(&sum) + &waits(&sum, ranks.len())
}

/// The rows of messages by level; none if no rank sent any to another.
fn by_level(sum: &Counters) -> String {
    let all: u64 = Level::ALL.iter().map(|&level| sum.by_level(level).0).sum();
    if all == 0 {
        return String::new();
    }
    let mut text = format!(
        "mpiexec: messages by distance\nmpiexec:   {:<14}{:>10}{:>16}  sizes (share of messages)\n",
        "level", "messages", "bytes"
    );
    for level in Level::ALL {
        let (messages, bytes) = sum.by_level(level);
        if messages > 0 {
            let (name, sizes) = (level.name(), sizes(sum, level, messages));
            let _ = writeln!(text, "mpiexec:   {name:<14}{messages:>10}{bytes:>16}  {sizes}");
        }
    }
    text
}

/// The size classes of a level's messages, as `<=64: 90 %, <=4K: 10 %`.
fn sizes(sum: &Counters, level: Level, messages: u64) -> String {
    let share = |class: usize| 100.0 * sum.by_size(level, class).0 as f64 / messages as f64;
    let name = |class: usize| match size_class_max(class) {
        None => ">4M".to_owned(),
        Some(max) if max >= 1 << 20 => format!("<={}M", max >> 20),
        Some(max) if max >= 1 << 10 => format!("<={}K", max >> 10),
        Some(max) => format!("<={max}"),
    };
    let classes = (0..SIZE_CLASSES).filter(|&class| share(class) > 0.0);
    let shares: Vec<String> =
        classes.map(|class| format!("{}: {:.0} %", name(class), share(class))).collect();
    shares.join(", ")
}

/// The rows of waits by reason, with the mean over the ranks; none if no rank waited for long.
fn waits(sum: &Counters, ranks: usize) -> String {
    if WaitReason::ALL.iter().all(|&reason| sum.waits(reason).0 == 0) {
        return String::new();
    }
    let mut text = format!(
        "mpiexec: waits\nmpiexec:   {:<11}{:>9}{:>16}{:>8}  reason\n",
        "time in", "times", "ms per rank", ""
    );
    for reason in WaitReason::ALL {
        let (times, ns) = sum.waits(reason);
        let ms = ns as f64 / 1e6 / ranks.max(1) as f64;
        let _ = writeln!(
            text,
            "mpiexec:   {:<11}{times:>9}{ms:>16.3}{:>8}  {}",
            reason.name(),
            "",
            reason.meaning()
        );
    }
    text
}

/// The rows of one-sided operations; none if there were none.
fn one_sided(sum: &Counters) -> String {
    let of = |access: AccessClass| sum.operations(access);
    let locks = sum.get(Counter::WindowLocks);
    if locks == 0 && AccessClass::ALL.iter().all(|&access| of(access).0 == 0) {
        return String::new();
    }
    let mut text = format!(
        "mpiexec: one-sided operations\nmpiexec:   {:<8}{:>12}{:>16}{:8}  path\n",
        "access", "operations", "bytes", ""
    );
    for access in AccessClass::ALL {
        let ((operations, bytes), name) = (of(access), access.name());
        let _ = writeln!(
            text,
            "mpiexec:   {name:<8}{operations:>12}{bytes:>16}{:8}  {}",
            "",
            access.meaning()
        );
    }
    let (waits, barges, helps) = (
        sum.get(Counter::WindowLockWaits),
        sum.get(Counter::WindowLockBarges),
        sum.get(Counter::WindowHelps),
    );
    let _ = writeln!(
        text,
        "mpiexec:   locks   {locks:>12}, {waits} waits for one, {barges} taken before others\n\
         mpiexec:   helped  {helps:>12} of the operations, whose targets copied a part"
    );
    text
}

/// The rows of reads and writes of files; none if there were none.
fn files(sum: &Counters) -> String {
    let rows = [
        ("reads", Counter::FileReads, Counter::FileReadBytes),
        ("writes", Counter::FileWrites, Counter::FileWriteBytes),
    ];
    if rows.iter().all(|&(_, calls, _)| sum.get(calls) == 0) {
        return String::new();
    }
    let mut text =
        format!("mpiexec: files\nmpiexec:   {:<8}{:>12}{:>16}\n", "access", "calls", "bytes");
    for (name, calls, bytes) in rows {
        let (calls, bytes) = (sum.get(calls), sum.get(bytes));
        let _ = writeln!(text, "mpiexec:   {name:<8}{calls:>12}{bytes:>16}");
    }
    let (exchanges, blocks) = (sum.get(Counter::FileExchanges), sum.get(Counter::FileSievedBlocks));
    let _ = writeln!(
        text,
        "mpiexec:   of the calls {exchanges} by exchange; {blocks} blocks for short pieces"
    );
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
        let text = table(&[CounterValues(*rank.values()); 2]);
        let row = |name: &str| {
            let line = text.lines().find(|l| l.contains(&format!("  {name} "))).expect("a row");
            line.split_whitespace().skip(2).take(3).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(row("inline"), ["6", "48", "24.0%"]);
        assert_eq!(row("direct"), ["2", "152", "76.0%"]);
        assert_eq!(row("cells"), ["0", "0", "0.0%"]);
        assert!(!text.contains("one-sided"), "there were none");
    }

    #[test]
    fn messages_by_level_are_shown_with_their_sizes_and_waits_with_their_time() {
        let mut rank = Counters::default();
        rank.add_by_size(Level::Package, 0, 3, 24);
        rank.add_by_size(Level::Package, 3, 1, 4096);
        rank.add_wait(WaitReason::Peer, 3_000_000);
        let text = table(&[CounterValues(*rank.values()); 2]);
        let package = text.lines().find(|l| l.contains("package  ")).expect("row");
        assert!(package.ends_with("<=64: 75 %, <=4K: 25 %"), "{package}");
        assert!(package.contains(" 8 ") && package.contains(" 8240 "), "{package}");
        let peer = text.lines().find(|l| l.contains(" peer ")).expect("row");
        assert!(peer.contains(" 2 ") && peer.contains(" 3.000 "), "{peer}");
        let silent = table(&[CounterValues(*Counters::default().values())]);
        assert!(!silent.contains("distance") && !silent.contains("waits"), "{silent}");
    }

    #[test]
    fn values_of_another_number_of_counters_are_refused() {
        let values = CounterValues([7; COUNTERS]);
        assert_eq!(CounterValues::try_from(Vec::from(values)), Ok(values));
        assert!(CounterValues::try_from(vec![7; COUNTERS - 1]).is_err());
    }

    #[test]
    fn files_have_rows_where_there_were_any() {
        let mut rank = Counters::default();
        rank.add(Counter::FileWrites, 3);
        rank.add(Counter::FileWriteBytes, 300);
        rank.add(Counter::FileExchanges, 1);
        let text = table(&[CounterValues(*rank.values()); 2]);
        let row = text.lines().find(|line| line.contains("  writes ")).expect("row");
        assert_eq!(row.split_whitespace().skip(2).collect::<Vec<_>>(), ["6", "600"]);
        assert!(text.contains("of the calls 2 by exchange; 0 blocks"), "{text}");
        let silent = table(&[CounterValues(*Counters::default().values())]);
        assert!(!silent.contains("files"), "{silent}");
    }

    #[test]
    fn one_sided_operations_have_rows_where_there_were_any() {
        let mut rank = Counters::default();
        rank.add_operations(AccessClass::Rma, 3, 24);
        rank.add(Counter::WindowLocks, 2);
        let text = table(&[CounterValues(*rank.values()); 2]);
        let row = |name: &str| {
            let mut lines = text.lines();
            let line = lines.find(|l| l.contains(&format!("  {name} ")));
            let words = line.expect("a row").split_whitespace().skip(2);
            words.take(2).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(row("rma"), ["6", "48"]);
        assert_eq!(row("requests"), ["0", "0"]);
        assert_eq!(row("locks"), ["4,", "0"]);
    }
}

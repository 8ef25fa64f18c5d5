//! The table of late arrivals at collectives, from what ranks leave in the job segment
//! (`--late-arrivals`, `MICA_LATE=on`).
//!
//! A rank counts, for each place that calls a collective, how often and how long it waited there
//! and for whom (`mica_node::late`), and leaves that as a table of its own; it is read when the
//! ranks have ended. Ranks that run the same program call from the same places in the same files,
//! wherever these are mapped, so a place is a file and an offset in it. An agent adds up its node's
//! ranks, and finds the lines of the places in the files of its node; the controller adds up the
//! nodes. Ranks may leave any bytes: sums saturate, and what is not known is left open.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt::Write as _;

use mica_node::late::{CallSite, LastArrival, LateRecord, SiteCounts};
use mica_symbols::Symbolizer;
use serde::{Deserialize, Serialize};

use crate::report::call_place;

/// Call sites that the table shows.
const ROWS: usize = 40;

/// How many of the ranks that came last a row shows.
const LATEST: usize = 3;

/// The counts of several ranks, added up.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LateArrivals {
    /// Ranks that were asked, and the number that have left a table (`answered`).
    asked: u32,
    answered: u32,
    calls_left_out: u64,
    sites: BTreeMap<SiteKey, SiteSum>,
}

/// Identifies a call site across ranks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct SiteKey {
    object: String,
    offset: u64,
    collective: String,
    ranks: u32,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct SiteSum {
    /// `solve at solver.c:41`; empty if the file has no debug information.
    source: String,
    symbol: String,
    symbol_offset: u64,
    calls: u64,
    waited: u64,
    wait_ns: u64,
    longest_ns: u64,
    inside_ns: u64,
    /// Times and nanoseconds, by rank.
    last: BTreeMap<u32, (u64, u64)>,
}

impl LateArrivals {
    /// Adds the table that a rank has left, if it has left one.
    pub fn add(&mut self, table: Option<LateRecord>, symbols: &mut Symbolizer) {
        self.asked += 1;
        let Some(table) = table else { return };
        self.answered += 1;
        add(&mut self.calls_left_out, table.calls_left_out);
        for site in table.sites {
            let CallSite { address, object, offset, symbol, symbol_offset } = site.place;
            let key = SiteKey {
                // Without a file only the address is known, which means something in this process
                // only.
                offset: if object.is_empty() { address } else { offset },
                object,
                collective: site.collective,
                ranks: site.ranks,
            };
            let sum = match self.sites.entry(key) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(fresh) => {
                    let source = source(symbols, fresh.key());
                    fresh.insert(SiteSum { source, ..SiteSum::default() })
                }
            };
            sum.symbol = symbol;
            sum.symbol_offset = symbol_offset;
            sum.add(&SiteSum::of(&site.counts));
        }
    }

    /// Adds the counts of other ranks.
    pub fn merge(&mut self, other: LateArrivals) {
        self.asked += other.asked;
        self.answered += other.answered;
        add(&mut self.calls_left_out, other.calls_left_out);
        for (key, theirs) in other.sites {
            let sum = self.sites.entry(key).or_default();
            if sum.source.is_empty() {
                sum.source.clone_from(&theirs.source);
            }
            sum.symbol.clone_from(&theirs.symbol);
            sum.symbol_offset = theirs.symbol_offset;
            sum.add(&theirs);
        }
    }

    /// The table.
    pub fn table(&self) -> String {
        let mut sites: Vec<(&SiteKey, &SiteSum)> = self.sites.iter().collect();
        sites.sort_by_key(|(key, sum)| (Reverse((sum.wait_ns, sum.inside_ns)), *key));
        let mut text = format!(
            "mpiexec: late arrivals at collectives ({} of {} ranks have reported; counts and \
            times are those of all ranks together)\n",
            self.answered, self.asked
        );
        if !sites.is_empty() {
            let _ = writeln!(
                text,
                "mpiexec:   {:<22}{:>5}{:>10}{:>10}{:>11}{:>11}{:>11}{:>11}  {:<34}  call site",
                "collective",
                "size",
                "calls",
                "waits",
                "waited",
                "mean",
                "longest",
                "inside",
                "last: share of waiting (of waits)",
            );
        }
        for (key, sum) in sites.iter().take(ROWS) {
            text.push_str(&row(key, sum));
        }
        let mut left_out = self.calls_left_out;
        for (_, sum) in sites.iter().skip(ROWS) {
            add(&mut left_out, sum.calls);
        }
        if left_out > 0 {
            let _ = writeln!(text, "mpiexec:   {left_out} calls at sites with less waiting");
        }
        text
    }
}

impl SiteSum {
    fn of(counts: &SiteCounts) -> SiteSum {
        let last = counts.last.iter();
        SiteSum {
            calls: counts.calls,
            waited: counts.waited,
            wait_ns: counts.wait_ns,
            longest_ns: counts.longest_ns,
            inside_ns: counts.inside_ns,
            last: last.map(|l| (l.rank, (l.times, l.wait_ns))).collect(),
            ..SiteSum::default()
        }
    }

    fn add(&mut self, other: &SiteSum) {
        add(&mut self.calls, other.calls);
        add(&mut self.waited, other.waited);
        add(&mut self.wait_ns, other.wait_ns);
        add(&mut self.inside_ns, other.inside_ns);
        self.longest_ns = self.longest_ns.max(other.longest_ns);
        for (&rank, &(times, wait_ns)) in &other.last {
            let (all_times, all_ns) = self.last.entry(rank).or_default();
            add(all_times, times);
            add(all_ns, wait_ns);
        }
    }

    /// `3: 92% (80%), 0: 6% (11%)`: who came last, and what it cost.
    fn latest(&self) -> String {
        let mut last: Vec<LastArrival> = self
            .last
            .iter()
            .map(|(&rank, &(times, wait_ns))| LastArrival { rank, times, wait_ns })
            .collect();
        last.sort_by_key(|l| (Reverse((l.wait_ns, l.times)), l.rank));
        let names = last.iter().take(LATEST).map(|l| {
            format!(
                "{}: {:.0}% ({:.0}%)",
                l.rank,
                percent(l.wait_ns, self.wait_ns),
                percent(l.times, self.waited)
            )
        });
        let names: Vec<String> = names.collect();
        if names.is_empty() { "-".to_owned() } else { names.join(", ") }
    }
}

/// Ranks may write any values there: sums must not panic.
fn add(to: &mut u64, more: u64) {
    *to = to.saturating_add(more);
}

fn row(key: &SiteKey, sum: &SiteSum) -> String {
    let collective = match &*key.collective {
        "" => "?",
        name => name,
    };
    let mean = sum.wait_ns.checked_div(sum.waited).unwrap_or(0);
    format!(
        "mpiexec:   {:<22}{:>5}{:>10}{:>10}{:>11}{:>11}{:>11}{:>11}  {:<34}  {}\n",
        collective,
        key.ranks,
        sum.calls,
        sum.waited,
        time(sum.wait_ns),
        time(mean),
        time(sum.longest_ns),
        time(sum.inside_ns),
        sum.latest(),
        place(key, sum)
    )
}

/// `solve at solver.c:41`, if the file's debug information says so; else nothing.
fn source(symbols: &mut Symbolizer, key: &SiteKey) -> String {
    match key.object.is_empty() {
        true => String::new(),
        false => call_place::source(symbols, &key.object, key.offset).unwrap_or_default(),
    }
}

/// `solve at solver.c:41 (program+0x13f2)`, or without debug information `main+0x2f
/// (program+0x13f2)`.
fn place(key: &SiteKey, sum: &SiteSum) -> String {
    if key.object.is_empty() {
        return format!("{:#x}", key.offset);
    }
    let in_file = call_place::in_file(&key.object, key.offset);
    match (&*sum.source, &*sum.symbol) {
        ("", "") => in_file,
        ("", symbol) => format!("{symbol}+{:#x} ({in_file})", sum.symbol_offset),
        (source, _) => format!("{source} ({in_file})"),
    }
}

fn percent(part: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { 100.0 * part as f64 / all as f64 }
}

/// Nanoseconds for people.
fn time(ns: u64) -> String {
    let ns = ns as f64;
    match ns {
        ..1e3 => format!("{ns:.0} ns"),
        ..1e6 => format!("{:.1} us", ns / 1e3),
        ..1e9 => format!("{:.2} ms", ns / 1e6),
        _ => format!("{:.2} s", ns / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mica_node::late::LateSite;

    fn site(offset: u64, collective: &str, counts: SiteCounts) -> LateSite {
        LateSite {
            place: CallSite {
                address: 0x5555_0000 + offset,
                object: "/home/me/program".to_owned(),
                offset,
                symbol: "solve".to_owned(),
                symbol_offset: 0x20,
            },
            collective: collective.to_owned(),
            ranks: 4,
            counts,
        }
    }

    fn counts(last: u32, waited: u64, wait_ns: u64) -> SiteCounts {
        SiteCounts {
            calls: 10,
            waited,
            wait_ns,
            longest_ns: wait_ns,
            inside_ns: wait_ns.saturating_mul(2),
            last: vec![LastArrival { rank: last, times: waited, wait_ns }],
        }
    }

    fn table_of(sites: Vec<LateSite>) -> Option<LateRecord> {
        Some(LateRecord { sites, calls_left_out: 0 })
    }

    fn symbols() -> Symbolizer {
        Symbolizer::default()
    }

    fn words(line: &str) -> Vec<&str> {
        line.split_whitespace().collect()
    }

    #[test]
    fn ranks_add_up_and_the_longest_waiting_comes_first() {
        let mut first = LateArrivals::default();
        let barrier = site(0x100, "barrier", counts(2, 10, 3_000_000));
        let scan = site(0x200, "scan", counts(1, 5, 2_000));
        first.add(table_of(vec![scan, barrier.clone()]), &mut symbols());
        let mut second = LateArrivals::default();
        second.add(table_of(vec![site(0x100, "barrier", counts(3, 5, 1_000_000))]), &mut symbols());
        second.add(None, &mut symbols());
        first.merge(second);
        let text = first.table();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].contains("2 of 3 ranks"), "{text}");
        let barrier = "mpiexec: barrier 4 20 15 4.00 ms 266.7 us 3.00 ms 8.00 ms \
                       2: 75% (67%), 3: 25% (33%) solve+0x20 (program+0x100)";
        assert_eq!(words(lines[2]), words(barrier), "{text}");
        let scan = "mpiexec: scan 4 10 5 2.0 us 400 ns 2.0 us 4.0 us \
                    1: 100% (100%) solve+0x20 (program+0x200)";
        assert_eq!(words(lines[3]), words(scan), "{text}");
        assert_eq!(lines.len(), 4);
    }

    #[test]
    fn what_is_not_known_is_left_open() {
        let mut late = LateArrivals::default();
        let alone = SiteCounts { calls: 7, inside_ns: 900, ..SiteCounts::default() };
        let mut nameless = site(0, "bcast", alone.clone());
        nameless.collective.clear();
        nameless.place = CallSite { address: 0x1234, ..CallSite::default() };
        let mut unexported = site(0x300, "bcast", alone);
        unexported.place.symbol.clear();
        late.add(table_of(vec![nameless, unexported]), &mut symbols());
        let text = late.table();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(words(lines[2]), words("mpiexec: ? 4 7 0 0 ns 0 ns 0 ns 900 ns - 0x1234"));
        assert!(lines[3].ends_with("  program+0x300"), "{text}");
        let empty = LateArrivals::default().table();
        assert_eq!(empty.lines().count(), 1, "{empty}");
    }

    #[test]
    fn a_line_that_one_node_knows_is_shown() {
        let mut here = LateArrivals::default();
        here.add(table_of(vec![site(0x100, "barrier", counts(2, 10, 3_000))]), &mut symbols());
        let mut there = here.clone();
        for sum in there.sites.values_mut() {
            sum.source = "solve at solver.c:41".to_owned();
        }
        here.merge(there);
        let text = here.table();
        assert!(text.contains("  solve at solver.c:41 (program+0x100)\n"), "{text}");
    }

    #[test]
    fn only_so_many_rows_are_shown() {
        let mut late = LateArrivals::default();
        let sites = (0..50u64).map(|n| site(n, "scan", counts(0, 1, 1 + n)));
        late.add(Some(LateRecord { sites: sites.collect(), calls_left_out: 5 }), &mut symbols());
        let text = late.table();
        assert_eq!(text.lines().count(), 2 + ROWS + 1);
        assert!(text.contains("  105 calls at sites"), "{text}");
        assert!(text.contains("+0x31)") && !text.contains("+0x9)"), "{text}");
    }

    #[test]
    fn absurd_counts_are_no_panic() {
        let mut late = LateArrivals::default();
        for _ in 0..2 {
            late.add(
                table_of(vec![site(1, "scan", counts(0, u64::MAX, u64::MAX))]),
                &mut symbols(),
            );
        }
        assert!(late.table().contains("scan"));
    }
}

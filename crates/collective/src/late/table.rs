//! What a process counts: for each site, function called there and size of communicator.
//!
//! Communicators of one size share an entry, so that a program that makes and frees many does not
//! fill the table, and the rows of a grid are one line of the report; ranks that came last are
//! counted by their number in the job.

use std::cmp::Reverse;
use std::collections::HashMap;

use mica_node::late::{CallSite, LateRecord as Report, LateSite, SITES, SiteCounts};

use super::frequent::Frequent;

/// Maximum number of entries. Calls at further sites are only counted in total.
const ENTRIES: usize = 4096;

/// A call of the library by the program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Caller {
    /// Return address of the call, in the program; 0 if it cannot be found.
    pub site: u64,
    /// A return address inside the library function that was called; 0 if it cannot be found.
    pub entry: u64,
}

/// What distinguishes one entry from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct LateKey {
    pub caller: Caller,
    pub ranks: u32,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CallOutcome {
    pub inside_ns: u64,
    /// Which rank came last, by number in the job, and how many nanoseconds after this rank; `None`
    /// if no rank was seen to come later.
    pub waited: Option<(u32, u64)>,
}

#[derive(Debug, Default)]
struct LateEntry {
    calls: u64,
    waited: u64,
    wait_ns: u64,
    longest_ns: u64,
    inside_ns: u64,
    last: Frequent,
}

/// The sums over a table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct LateTotals {
    /// Calls, those that are in no entry included.
    pub calls: u64,
    pub waited: u64,
    pub wait_ns: u64,
}

#[derive(Debug)]
pub(super) struct LateTable {
    /// `None` before the first call: a static cannot hold an empty one.
    entries: Option<HashMap<LateKey, LateEntry>>,
    calls_left_out: u64,
}

impl LateTable {
    pub const fn new() -> LateTable {
        LateTable { entries: None, calls_left_out: 0 }
    }

    pub fn count(&mut self, key: LateKey, outcome: &CallOutcome) {
        let entries = self.entries.get_or_insert_default();
        if entries.len() >= ENTRIES && !entries.contains_key(&key) {
            self.calls_left_out += 1;
            return;
        }
        let entry = entries.entry(key).or_default();
        entry.calls += 1;
        entry.inside_ns += outcome.inside_ns;
        if let Some((rank, wait_ns)) = outcome.waited {
            entry.waited += 1;
            entry.wait_ns += wait_ns;
            entry.longest_ns = entry.longest_ns.max(wait_ns);
            entry.last.count(rank, wait_ns);
        }
    }

    /// Calls, waits and times, summed over all entries.
    pub fn totals(&self) -> LateTotals {
        let mut totals = LateTotals { calls: self.calls_left_out, ..LateTotals::default() };
        for entry in self.entries.iter().flat_map(HashMap::values) {
            totals.calls += entry.calls;
            totals.waited += entry.waited;
            totals.wait_ns += entry.wait_ns;
        }
        totals
    }

    /// The sites with the most waiting, ties broken by the time inside; the same calls give the
    /// same order.
    pub fn report(&self, name: impl Fn(u64) -> CallSite) -> Report {
        let mut entries: Vec<(&LateKey, &LateEntry)> = self.entries.iter().flatten().collect();
        entries.sort_by_key(|(key, entry)| (Reverse((entry.wait_ns, entry.inside_ns)), **key));
        let (reported, left_out) = entries.split_at(entries.len().min(SITES));
        let left_out: u64 = left_out.iter().map(|(_, entry)| entry.calls).sum();
        let site = |(key, entry): &(&LateKey, &LateEntry)| LateSite {
            place: name(key.caller.site),
            collective: function(&name(key.caller.entry).symbol),
            ranks: key.ranks,
            counts: SiteCounts {
                calls: entry.calls,
                waited: entry.waited,
                wait_ns: entry.wait_ns,
                longest_ns: entry.longest_ns,
                inside_ns: entry.inside_ns,
                last: entry.last.list(),
            },
        };
        Report {
            sites: reported.iter().map(site).collect(),
            calls_left_out: self.calls_left_out + left_out,
        }
    }
}

/// The name of a function of the library. `MPI_X` and `PMPI_X` have one body, which the linker may
/// keep once, under either name.
pub(super) fn function(symbol: &str) -> String {
    let plain = symbol.strip_prefix('P').filter(|rest| rest.starts_with("MPI_"));
    plain.unwrap_or(symbol).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mica_node::late::LastArrival;

    fn key(site: u64) -> LateKey {
        LateKey { caller: Caller { site, entry: 9 }, ranks: 4 }
    }

    fn named(address: u64) -> CallSite {
        CallSite { address, symbol: format!("f{address}"), ..CallSite::default() }
    }

    #[test]
    fn calls_add_up() {
        let mut table = LateTable::new();
        for (inside_ns, waited) in [(100, Some((2, 70))), (50, None), (300, Some((2, 250)))] {
            table.count(key(7), &CallOutcome { inside_ns, waited });
        }
        let report = table.report(named);
        assert_eq!(report.calls_left_out, 0);
        let [site] = &report.sites[..] else {
            panic!("one site: {report:?}");
        };
        assert_eq!((&*site.place.symbol, &*site.collective, site.ranks), ("f7", "f9", 4));
        let last = LastArrival { rank: 2, times: 2, wait_ns: 320 };
        let counts = SiteCounts {
            calls: 3,
            waited: 2,
            wait_ns: 320,
            longest_ns: 250,
            inside_ns: 450,
            last: vec![last],
        };
        assert_eq!(site.counts, counts);
        let totals = LateTotals { calls: 3, waited: 2, wait_ns: 320 };
        assert_eq!(table.totals(), totals);
    }

    #[test]
    fn a_function_has_one_name() {
        assert_eq!(function("PMPI_Bcast"), "MPI_Bcast");
        assert_eq!(function("MPI_Bcast"), "MPI_Bcast");
        assert_eq!((&*function("Pack"), &*function("")), ("Pack", ""));
    }

    #[test]
    fn functions_and_sizes_are_told_apart() {
        let mut table = LateTable::new();
        let alone = CallOutcome { inside_ns: 1, waited: None };
        table.count(key(1), &alone);
        table.count(LateKey { caller: Caller { site: 1, entry: 8 }, ranks: 4 }, &alone);
        table.count(LateKey { ranks: 2, ..key(1) }, &alone);
        assert_eq!(table.report(named).sites.len(), 3);
    }

    #[test]
    fn the_sites_with_the_most_waiting_are_told_of() {
        let mut table = LateTable::new();
        let sites = SITES as u64 + 10;
        for site in 0..sites {
            let waited = Some((0, site * 10));
            let outcome = CallOutcome { inside_ns: 1000, waited };
            table.count(key(site), &outcome);
        }
        let report = table.report(named);
        let reported: Vec<u64> = report.sites.iter().map(|s| s.place.address).collect();
        let expected: Vec<u64> = (10..sites).rev().collect();
        assert_eq!(reported, expected);
        assert_eq!(report.calls_left_out, 10);
    }

    #[test]
    fn memory_is_bounded() {
        let mut table = LateTable::new();
        let outcome = CallOutcome { inside_ns: 1, waited: None };
        for site in 0..ENTRIES as u64 + 5 {
            table.count(key(site), &outcome);
        }
        table.count(key(0), &outcome);
        let report = table.report(named);
        assert_eq!(report.sites[0].counts.calls, 2, "known sites still count");
        let reported: u64 = report.sites.iter().map(|s| s.counts.calls).sum();
        assert_eq!(reported + report.calls_left_out, ENTRIES as u64 + 6);
        assert_eq!(table.totals().calls, ENTRIES as u64 + 6);
    }
}

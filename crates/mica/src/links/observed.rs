//! Makes an observation of what the ranks wrote ([`RawCalls`]), the counters that they read, and
//! the library's account of its transfers.
//!
//! Link columns are the counters' where the kernel permits these, with the account beside them;
//! otherwise they are the account's. Events that the user names are columns after them. A chip is a
//! package where counters say between which packages a link is, else a memory domain: then links
//! are those of a described machine, or what the distances between domains suggest. All nodes of a
//! job are taken to be like this one.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use mica_links::account::{ChipLinks, RankAccount, Transfers, name_on_node, transfers};
use mica_links::discover::Domains;
use mica_links::{
    CallWorkload, Calls, ChipMachine, LinkSet, LoadSource, Observation, PairBytes, Provenance,
};

use super::raw::{ObservedPlace, RawCalls};
use super::wanted::WantedCounters;
use crate::origin::ResultOrigin;

/// What the observation is made of.
pub struct Gathered<'a> {
    pub collective: &'a str,
    pub bytes: u64,
    pub command: String,
    pub seed: u64,
    pub raw: &'a RawCalls,
    pub wanted: &'a WantedCounters,
    /// The ranks' accounts; `None` where there is none, with the reason.
    pub accounts: Result<Vec<RankAccount>, String>,
    /// The memory domains of this node before the job, and after it.
    pub domains: [Domains; 2],
    /// The description of the machine, if the user gave one.
    pub machine: Option<&'a ChipMachine>,
}

impl Gathered<'_> {
    /// The observation.
    ///
    /// # Errors
    /// If its parts do not fit each other.
    pub fn observation(&self) -> Result<Observation, Box<dyn std::error::Error>> {
        let origin = ResultOrigin::without_messages();
        let mut notes = vec![self.domains[0].summary()];
        notes.extend(self.wanted.notes.iter().cloned());
        notes.extend(self.refusals());
        let counted = self.counted();
        let links = self.chip_links();
        let (chips, moved) = self.chips(links.chips());
        notes.extend(moved);
        let nodes = self.raw.places.iter().map(|place| place.node + 1).max();
        let links = links.on_nodes(nodes.unwrap_or(1));
        let accounted = self.accounted(&chips, &links, &mut notes);
        let mut calls = table(&self.raw.entry, &self.raw.exit);
        let pairs = accounted.as_ref().map_or(Vec::new(), |found| found.pairs.clone());
        let (link_set, source) = match self.has_link_counters() {
            true => beside_counters(&mut calls, counted, accounted, &links),
            false => by_account(&mut calls, counted, accounted, links.links),
        };
        let observation = Observation {
            provenance: Provenance {
                machine: machine_name(&self.domains[0]),
                source,
                command: self.command.clone(),
                seed: self.seed,
                rank_chips: chips.iter().map(|&chip| chip as u32).collect(),
                notes,
                numa: self.numa(),
                host: origin.host,
                date: origin.date,
                tool: origin.mica,
            },
            links: link_set,
            workloads: vec![self.workload(pairs)],
            calls,
            study: None,
        };
        observation.check()?;
        Ok(observation)
    }

    fn workload(&self, pairs: Vec<PairBytes>) -> CallWorkload {
        CallWorkload {
            collective: self.collective.to_owned(),
            bytes: self.bytes,
            ranks: self.raw.entry.len() as u32,
            schedule: String::new(),
            pairs,
        }
    }

    /// Counters that a rank could not open although this process could.
    fn refusals(&self) -> Option<String> {
        let (node, counter, reason) = self.raw.refused.first()?;
        let name = self.wanted.counters.get(*counter).map_or("a counter", |c| &c.name);
        let all = self.raw.refused.len();
        Some(format!(
            "A rank on node {node} could not open {name} ({reason}): {all} counters read as 0."
        ))
    }

    /// The names of what counters counted, and for each name and call the amount. Counters of one
    /// link of a node are added up.
    fn counted(&self) -> Counted {
        let (mut names, mut columns): (Vec<String>, Vec<Vec<f64>>) = Default::default();
        for (node, readings) in self.raw.readings.iter().enumerate() {
            for (counter, reading) in self.wanted.counters.iter().zip(readings) {
                let name = name_on_node(node, &counter.link);
                let amounts = reading.windows(2).map(|two| (two[1] - two[0]) * counter.scale);
                let amounts = amounts.map(|amount| amount.max(0.0));
                match names.iter().position(|known| *known == name) {
                    None => {
                        names.push(name);
                        columns.push(amounts.collect());
                    }
                    Some(at) => {
                        let sums = columns[at].iter_mut().zip(amounts);
                        sums.for_each(|(sum, amount)| *sum += amount);
                    }
                }
            }
        }
        (names, columns)
    }

    fn has_link_counters(&self) -> bool {
        self.wanted.counters.iter().any(|c| c.ends.is_some())
    }

    /// The chip of each rank, where a node has `on_node` of them; all ranks of a node are on its
    /// first chip where there is one domain. The sentence says what a reader must know.
    fn chips(&self, on_node: usize) -> (Vec<usize>, Option<String>) {
        // Counters of links are between packages.
        let by_package = self.has_link_counters();
        let places = &self.raw.places;
        let moved = places
            .iter()
            .filter(|place| place.domains[1].is_some() && place.domains[0] != place.domains[1])
            .count();
        let note = (moved > 0).then(|| {
            format!(
                "{moved} ranks moved to another memory domain during the calls: their transfers \
                 are counted where they began. Bind them (mpiexec --bind-to core)."
            )
        });
        let numbers: Vec<u32> = self.domains[0].domains.iter().map(|d| d.number).collect();
        let chip = |place: &ObservedPlace| {
            if by_package {
                return place.cpus[0].and_then(package).unwrap_or(0) as usize;
            }
            let index = |domain| numbers.iter().position(|&number| number == domain);
            place.domains[0].and_then(index).unwrap_or(0)
        };
        let on_node = on_node.max(1);
        let chip_in_job =
            |place: &ObservedPlace| place.node * on_node + chip(place).min(on_node - 1);
        (places.iter().map(chip_in_job).collect(), note)
    }

    /// The links over which the account is routed.
    fn chip_links(&self) -> ChipLinks {
        if let Some(machine) = self.machine {
            return ChipLinks::of_machine(machine);
        }
        let all = self.wanted.counters.iter().filter_map(|counter| counter.ends);
        let mut ends: Vec<_> = all.map(|(a, b)| (a as usize, b as usize)).collect();
        ends.sort_unstable();
        ends.dedup();
        match ends.iter().map(|&(from, to)| from.max(to) + 1).max() {
            None => ChipLinks::of_domains(&self.domains[0]),
            Some(chips) => {
                let source =
                    "Links are those that have counters; the account takes shortest paths.";
                ChipLinks::of_ends(chips, &ends, source)
            }
        }
    }

    fn accounted(
        &self,
        chips: &[usize],
        links: &ChipLinks,
        notes: &mut Vec<String>,
    ) -> Option<Transfers> {
        let count = self.raw.entry.first().map_or(0, Vec::len);
        let reason = match &self.accounts {
            Err(reason) => reason.clone(),
            Ok(accounts) => {
                if let Some(found) = transfers(accounts, self.collective, count, chips, links) {
                    if !links.links.is_empty() {
                        notes.push(links.source.clone());
                    }
                    return Some(found);
                }
                "a rank has counted fewer calls".to_owned()
            }
        };
        notes.push(format!("The library's account of its transfers is missing: {reason}."));
        None
    }

    fn numa(&self) -> Option<mica_links::data::NumaFacts> {
        let [before, after] = &self.domains;
        let grown = |domain: &mica_links::discover::Domain| {
            let old = before.domains.iter().find(|old| old.number == domain.number);
            let since = |(name, pages): (&String, &u64)| {
                let then = old.and_then(|old| old.numastat.get(name)).copied();
                (name.clone(), pages.saturating_sub(then.unwrap_or(0)))
            };
            let pages: BTreeMap<String, u64> = domain.numastat.iter().map(since).collect();
            (domain.number, pages)
        };
        let facts = mica_links::data::NumaFacts {
            numastat: after.domains.iter().map(grown).collect(),
            rank_bytes: self.raw.rank_bytes(),
        };
        (!facts.numastat.is_empty() || !facts.rank_bytes.is_empty()).then_some(facts)
    }
}

/// What was counted: names, and for each name and call the amount.
type Counted = (Vec<String>, Vec<Vec<f64>>);

/// Link columns by counters, with the account's bytes beside them.
fn beside_counters(
    calls: &mut Calls,
    (names, columns): Counted,
    accounted: Option<Transfers>,
    links: &ChipLinks,
) -> (LinkSet, LoadSource) {
    if let Some(found) = accounted {
        calls.moved_bytes = found.moved;
        let of = |name: &String| links.links.index(name).map(|at| found.link_bytes[at].clone());
        let zeros = || vec![0.0; columns[0].len()];
        calls.account_bytes = names.iter().map(|name| of(name).unwrap_or_else(zeros)).collect();
    }
    calls.link_bytes = columns;
    let set = LinkSet::new(names).expect("counters of one name have been added up");
    (set, LoadSource::Counters)
}

/// Link columns by the account, where there is one, then those of named events.
fn by_account(
    calls: &mut Calls,
    (events, mut amounts): Counted,
    accounted: Option<Transfers>,
    links: LinkSet,
) -> (LinkSet, LoadSource) {
    let mut names = Vec::new();
    if let Some(found) = accounted {
        calls.moved_bytes = found.moved;
        calls.link_bytes = found.link_bytes;
        names.extend_from_slice(links.names());
    }
    names.extend(events);
    calls.link_bytes.append(&mut amounts);
    let set = LinkSet::new(names).expect("an event's name is no link's");
    (set, LoadSource::Account)
}

/// The calls: from the first rank's entry to the last rank's return.
fn table(entry: &[Vec<f64>], exit: &[Vec<f64>]) -> Calls {
    let mut calls = Calls::with_columns(entry.len(), 0);
    let number = entry.first().map_or(0, Vec::len);
    let over = |columns: &[Vec<f64>], call: usize, worse: fn(f64, f64) -> f64| {
        let values = columns.iter().map(|column| column[call]);
        values.reduce(worse).unwrap_or_default()
    };
    let origin = match number {
        0 => 0.0,
        _ => over(entry, 0, f64::min),
    };
    for call in 0..number {
        let (first, last) = (over(entry, call, f64::min), over(exit, call, f64::max));
        calls.workload.push(0);
        calls.start.push(first - origin);
        calls.time.push(last - first);
        for rank in 0..entry.len() {
            calls.rank_entry[rank].push(entry[rank][call] - first);
            calls.rank_time[rank].push(exit[rank][call] - entry[rank][call]);
        }
    }
    calls
}

/// The package of a processor of this machine.
fn package(cpu: u32) -> Option<u32> {
    let topology = format!("/sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id");
    fs::read_to_string(Path::new(&topology)).ok()?.trim().parse().ok()
}

fn machine_name(domains: &Domains) -> String {
    let host = mica_node::identity::host_name();
    let count = domains.domains.len().max(1);
    let word = if count == 1 { "domain" } else { "domains" };
    format!("{host}, {count} memory {word}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::links::raw::tests::file;
    use crate::links::wanted::WantedCounter;
    use mica_links::account::AccountedCall;
    use mica_node::perf::PerfEvent;

    fn tree(name: &str) -> Domains {
        let links = Path::new(env!("CARGO_MANIFEST_DIR")).join("../links/tests/sysfs");
        Domains::find(&links.join(name)).unwrap()
    }

    fn counter(link: &str, ends: Option<(u32, u32)>) -> WantedCounter {
        WantedCounter {
            name: format!("unit/{link}"),
            event: PerfEvent { event_type: 1, config: 1 },
            cpu: None,
            link: link.to_owned(),
            ends,
            scale: 2.0,
        }
    }

    /// Two calls of two ranks, each of which reads 64 bytes of the other.
    fn accounts() -> Vec<RankAccount> {
        let call = |peer| AccountedCall {
            function: "MPI_Barrier".to_owned(),
            ranks: 2,
            moved: vec![(peer, 64, 0)],
        };
        [1, 0].map(|peer| RankAccount { calls: vec![call(peer); 2] }).to_vec()
    }

    fn observed(
        domains: &str,
        counters: Vec<WantedCounter>,
        accounts: Result<Vec<RankAccount>, String>,
    ) -> Observation {
        let raw = RawCalls::read(file().as_slice()).unwrap();
        let wanted = WantedCounters { counters, notes: Vec::new() };
        let gathered = Gathered {
            collective: "barrier",
            bytes: 0,
            command: String::new(),
            seed: 0,
            raw: &raw,
            wanted: &wanted,
            accounts,
            domains: [tree(domains), tree(domains)],
            machine: None,
        };
        gathered.observation().unwrap()
    }

    #[test]
    fn a_call_lasts_from_the_first_entry_to_the_last_return() {
        let observation = observed("nowhere", Vec::new(), Err("none".into()));
        let calls = &observation.calls;
        assert_eq!((&calls.start[..], &calls.time[..]), (&[0.0, 1.5][..], &[1.25, 2.5][..]));
        assert_eq!(calls.rank_entry[1], [0.5, 0.0]);
        assert_eq!(calls.rank_time[0], [1.0, 2.0]);
        assert!(observation.links.is_empty() && calls.moved_bytes.is_empty());
        let notes = observation.provenance.notes.join("\n");
        assert!(notes.contains("one memory domain") && notes.contains("missing: none"), "{notes}");
    }

    #[test]
    fn one_domain_has_moved_bytes_and_no_links() {
        let observation = observed("nowhere", Vec::new(), Ok(accounts()));
        assert_eq!(observation.calls.moved_bytes, [128.0, 128.0]);
        assert!(observation.links.is_empty() && observation.calls.link_bytes.is_empty());
        assert_eq!(observation.workloads[0].pairs.len(), 2);
    }

    #[test]
    fn account_is_routed_over_the_links_of_two_domains() {
        let observation = observed("intel-2", Vec::new(), Ok(accounts()));
        assert_eq!(observation.provenance.source, LoadSource::Account);
        assert_eq!(observation.provenance.rank_chips, [0, 1]);
        assert_eq!(observation.links.names(), ["0->1", "1->0"]);
        assert_eq!(observation.calls.link_bytes, [[64.0, 64.0], [64.0, 64.0]]);
        let numa = observation.provenance.numa.unwrap();
        assert_eq!(numa.numastat[&1]["numa_hit"], 0, "the trees are equal");
        assert_eq!(numa.rank_bytes[0][&1], 4096);
    }

    #[test]
    fn counters_of_one_link_are_added_up_beside_the_account() {
        let both = vec![counter("0->1", Some((0, 1)))];
        let observation = observed("intel-2", both, Ok(accounts()));
        assert_eq!(observation.provenance.source, LoadSource::Counters);
        // Readings 100, 150, 150 and 2 bytes a count.
        assert_eq!(observation.calls.link_bytes, [[100.0, 0.0]]);
        assert_eq!(observation.calls.account_bytes.len(), 1);
    }

    #[test]
    fn named_events_have_columns_of_their_own() {
        let named = vec![counter("software/config=1/", None)];
        let observation = observed("nowhere", named.clone(), Err("off".into()));
        assert_eq!(observation.links.names(), ["software/config=1/"]);
        assert_eq!(observation.calls.link_bytes, [[100.0, 0.0]]);
        let observation = observed("intel-2", named, Ok(accounts()));
        assert_eq!(observation.links.names(), ["0->1", "1->0", "software/config=1/"]);
        assert_eq!(observation.calls.link_bytes[1..], [[64.0, 64.0], [100.0, 0.0]]);
    }
}

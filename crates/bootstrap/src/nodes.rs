//! Which rank is on which node.

use std::collections::HashMap;

use crate::BootstrapError;
use crate::endpoint_record::{EndpointRecord, machine};
use crate::long_value;
use crate::manager::{ProcessManager, hex, unhex};

/// The key of the [`NodeTable`] in the process manager of Mica's mpiexec: no rank's.
const TABLE_KEY: &str = "mica-nodes";

/// Which rank is on which node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeMap {
    /// Number of the node by job rank; nodes are numbered in the order of their lowest rank.
    pub of: Vec<u32>,
    /// Name by node: the host's, with a suffix where several nodes are on one host (`host`,
    /// `host#1`, `host#2`).
    pub names: Vec<String>,
    /// Whether all nodes are one machine and see the same loopback interface (virtual nodes; not
    /// network namespaces).
    pub all_on_one_machine: bool,
}

/// Makes the names of nodes that share a host's name different.
#[derive(Default)]
struct NodeNames {
    names: Vec<String>,
    /// How many nodes each host has.
    counts: HashMap<String, u32>,
}

impl NodeNames {
    fn add(&mut self, host: &str) {
        let count = self.counts.entry(host.to_owned()).or_default();
        self.names.push(match *count {
            0 => host.to_owned(),
            n => format!("{host}#{n}"),
        });
        *count += 1;
    }
}

impl NodeMap {
    /// All ranks on one node.
    pub(crate) fn one(size: u32, name: String) -> NodeMap {
        NodeMap { of: vec![0; size as usize], names: vec![name], all_on_one_machine: true }
    }

    /// By the records of all ranks, in the order of ranks.
    pub(crate) fn from_records(records: &[EndpointRecord]) -> NodeMap {
        let mut firsts: Vec<&EndpointRecord> = Vec::new();
        let mut names = NodeNames::default();
        let mut of = Vec::with_capacity(records.len());
        let mut numbers = HashMap::new();
        for record in records {
            let number = *numbers.entry(record.node.as_str()).or_insert_with(|| {
                names.add(&record.host);
                firsts.push(record);
                firsts.len() as u32 - 1
            });
            of.push(number);
        }
        NodeMap {
            of,
            names: names.names,
            all_on_one_machine: firsts.windows(2).all(|two| two[0].machine == two[1].machine),
        }
    }

    /// Number of nodes.
    pub fn count(&self) -> u32 {
        self.names.len() as u32
    }

    /// The ranks on node `node`, in rising order.
    pub fn members(&self, node: u32) -> Vec<u32> {
        let ranks = self.of.iter().zip(0..);
        ranks.filter(|(of, _)| **of == node).map(|(_, rank)| rank).collect()
    }
}

/// The placement of a job, as Mica's mpiexec has decided it: what ranks would otherwise have to
/// find out from each other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeTable {
    /// What [`machine`] returns on all nodes; empty if they differ.
    pub machine: String,
    /// By node: the host's name, and its ranks as runs of a first one and a number of them.
    pub nodes: Vec<(String, Vec<(u32, u32)>)>,
}

impl NodeTable {
    /// Ascending ranks as runs.
    pub fn runs(ranks: &[u32]) -> Vec<(u32, u32)> {
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for &rank in ranks {
            match runs.last_mut() {
                Some((first, count)) if *first + *count == rank => *count += 1,
                _ => runs.push((rank, 1)),
            }
        }
        runs
    }

    /// The keys and values under which a process manager keeps it, for values of at most `limit`
    /// bytes.
    pub fn values(&self, limit: usize) -> Vec<(String, String)> {
        let mut text = format!("{}\n", self.machine);
        for (host, runs) in &self.nodes {
            let runs: Vec<String> = runs.iter().map(|(at, n)| format!("{at}+{n}")).collect();
            text.push_str(&format!("{}\t{}\n", runs.join(","), host));
        }
        long_value::cut(TABLE_KEY, &hex(text.as_bytes()), limit)
    }

    /// Reads it back; `None` if this is none.
    fn parse(value: &str) -> Option<NodeTable> {
        let text = String::from_utf8(unhex(value)?).ok()?;
        let (machine, lines) = text.split_once('\n')?;
        let run = |run: &str| {
            let (at, count) = run.split_once('+')?;
            Some((at.parse().ok()?, count.parse().ok()?))
        };
        let node = |line: &str| {
            let (runs, host) = line.split_once('\t')?;
            let runs: Option<Vec<(u32, u32)>> = runs.split(',').map(run).collect();
            Some((host.to_owned(), runs?))
        };
        let nodes: Option<Vec<_>> = lines.lines().map(node).collect();
        Some(NodeTable { machine: machine.to_owned(), nodes: nodes? })
    }

    /// Where the ranks of a job of `size` are; `None` if not each of them is on one node.
    fn map(mut self, size: u32) -> Option<NodeMap> {
        self.nodes.sort_by_key(|(_, runs)| runs.first().copied());
        let mut of = vec![None; size as usize];
        for ((_, runs), node) in self.nodes.iter().zip(0..) {
            for &(first, count) in runs {
                let last = first.checked_add(count)?;
                for slot in of.get_mut(first as usize..last as usize)? {
                    if slot.replace(node).is_some() {
                        return None;
                    }
                }
            }
        }
        let mut names = NodeNames::default();
        for (host, _) in &self.nodes {
            names.add(host);
        }
        Some(NodeMap {
            of: of.into_iter().collect::<Option<_>>()?,
            names: names.names,
            // A rank may have been put into a container of its own by the command that starts it.
            all_on_one_machine: !self.machine.is_empty() && self.machine == machine(),
        })
    }
}

impl NodeMap {
    /// What Mica's mpiexec says of the placement of its job.
    ///
    /// # Errors
    /// When it says nothing, or what no placement is.
    pub(crate) fn of_launcher(manager: &mut dyn ProcessManager) -> Result<NodeMap, BootstrapError> {
        let (rank, size) = (manager.rank(), manager.size());
        let value = long_value::join(TABLE_KEY, |key| manager.get_shared(key))?;
        let table = value.as_deref().and_then(NodeTable::parse);
        let map = table.and_then(|table| table.map(size));
        map.ok_or_else(|| BootstrapError::BadRecord {
            rank,
            what: "was given a table of nodes that does not have each rank once".to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(machine: &str, node: &str, host: &str) -> EndpointRecord {
        EndpointRecord {
            machine: machine.to_owned(),
            node: node.to_owned(),
            host: host.to_owned(),
            ..EndpointRecord::own("", None, 0).expect("a record")
        }
    }

    #[test]
    fn nodes_are_numbered_as_they_appear() {
        let records = [("m2", "b"), ("m1", "a"), ("m2", "b"), ("m1", "a"), ("m1", "c")];
        let records = records.map(|(machine, node)| record(machine, node, machine));
        let nodes = NodeMap::from_records(&records);
        assert_eq!(nodes.of, [0, 1, 0, 1, 2]);
        assert_eq!(nodes.names, ["m2", "m1", "m1#1"]);
        assert!(!nodes.all_on_one_machine);
        assert_eq!(nodes.members(1), [1, 3]);
        assert_eq!(nodes.count(), 3);
    }

    fn table() -> NodeTable {
        let node = |host: &str, ranks: &[u32]| (host.to_owned(), NodeTable::runs(ranks));
        NodeTable {
            machine: machine(),
            nodes: vec![node("here", &[2, 3]), node("a b", &[0, 1, 4]), node("here", &[5])],
        }
    }

    #[test]
    fn a_table_of_nodes_round_trips_through_short_values() {
        let values: HashMap<String, String> = table().values(40).into_iter().collect();
        assert!(values.values().all(|value| value.len() <= 40));
        let joined = long_value::join(TABLE_KEY, |key| Ok(values[key].clone())).unwrap();
        let read = NodeTable::parse(&joined.unwrap()).expect("a table");
        assert_eq!(read, table());
        let map = read.map(6).expect("a placement");
        assert_eq!(map.of, [0, 0, 1, 1, 0, 2]);
        assert_eq!(map.names, ["a b", "here", "here#1"]);
        assert!(map.all_on_one_machine);
    }

    #[test]
    fn rejects_tables_that_do_not_have_each_rank_once() {
        assert_eq!(table().map(7), None, "rank 6 is nowhere");
        assert_eq!(table().map(5), None, "rank 5 does not exist");
        let mut twice = table();
        twice.nodes[2].1 = vec![(4, 2)];
        assert_eq!(twice.map(6), None);
        let mut beyond = table();
        beyond.nodes[2].1 = vec![(5, u32::MAX)];
        assert_eq!(beyond.map(6), None);
        assert_eq!(NodeTable::parse("00"), None);
        assert_eq!(NodeTable::parse(&hex(b"m\n0-1\th\n")), None);
        let elsewhere = NodeTable { machine: String::new(), ..table() };
        assert!(!elsewhere.map(6).expect("a placement").all_on_one_machine);
    }

    #[test]
    fn virtual_nodes_are_one_machine() {
        let nodes = NodeMap::from_records(&["v0", "v1"].map(|node| record("m", node, "here")));
        assert_eq!(nodes.names, ["here", "here#1"]);
        assert!(nodes.all_on_one_machine);
        assert_eq!(NodeMap::one(3, "here".to_owned()).of, [0, 0, 0]);
    }
}

//! Which rank is on which node.

use crate::endpoint_record::EndpointRecord;

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

impl NodeMap {
    /// All ranks on one node.
    pub(crate) fn one(size: u32, name: String) -> NodeMap {
        NodeMap {
            of: vec![0; size as usize],
            names: vec![name],
            all_on_one_machine: true,
        }
    }

    /// By the records of all ranks, in the order of ranks.
    pub(crate) fn from_records(records: &[EndpointRecord]) -> NodeMap {
        let mut firsts: Vec<&EndpointRecord> = Vec::new();
        let mut names: Vec<String> = Vec::new();
        let mut of = Vec::with_capacity(records.len());
        let mut numbers = std::collections::HashMap::new();
        for record in records {
            let number = *numbers.entry(record.node.as_str()).or_insert_with(|| {
                let before = firsts.iter().filter(|first| first.host == record.host);
                names.push(match before.count() {
                    0 => record.host.clone(),
                    n => format!("{}#{n}", record.host),
                });
                firsts.push(record);
                firsts.len() as u32 - 1
            });
            of.push(number);
        }
        NodeMap {
            of,
            names,
            all_on_one_machine: firsts
                .windows(2)
                .all(|two| two[0].machine == two[1].machine),
        }
    }

    /// Number of nodes.
    pub fn count(&self) -> u32 {
        self.names.len() as u32
    }

    /// The ranks on node `node`, in rising order.
    pub fn members(&self, node: u32) -> Vec<u32> {
        let ranks = self.of.iter().zip(0..);
        ranks
            .filter(|(of, _)| **of == node)
            .map(|(_, rank)| rank)
            .collect()
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
        let records = [
            ("m2", "b"),
            ("m1", "a"),
            ("m2", "b"),
            ("m1", "a"),
            ("m1", "c"),
        ];
        let records = records.map(|(machine, node)| record(machine, node, machine));
        let nodes = NodeMap::from_records(&records);
        assert_eq!(nodes.of, [0, 1, 0, 1, 2]);
        assert_eq!(nodes.names, ["m2", "m1", "m1#1"]);
        assert!(!nodes.all_on_one_machine);
        assert_eq!(nodes.members(1), [1, 3]);
        assert_eq!(nodes.count(), 3);
    }

    #[test]
    fn virtual_nodes_are_one_machine() {
        let nodes = NodeMap::from_records(&["v0", "v1"].map(|node| record("m", node, "here")));
        assert_eq!(nodes.names, ["here", "here#1"]);
        assert!(nodes.all_on_one_machine);
        assert_eq!(NodeMap::one(3, "here".to_owned()).of, [0, 0, 0]);
    }
}

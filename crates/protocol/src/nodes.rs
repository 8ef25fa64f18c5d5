//! Which node each rank of the job runs on, as every rank of the job knows it alike.

/// The nodes of a job and who runs where.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Nodes {
    /// The node of each job rank; empty: all run on node 0.
    pub of: Vec<u32>,
    /// The name of each node; empty where nobody has given one.
    pub names: Vec<String>,
}

impl Nodes {
    /// Number of nodes, at least 1.
    pub fn count(&self) -> u32 {
        self.of.iter().max().map_or(1, |last| last + 1)
    }

    /// The node of job rank `rank`.
    #[inline]
    pub fn of(&self, rank: u32) -> u32 {
        self.of.get(rank as usize).copied().unwrap_or(0)
    }

    /// The name of `node`, or an empty one.
    pub fn name(&self, node: u32) -> &str {
        self.names.get(node as usize).map_or("", String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_information_all_is_one_nameless_node() {
        let nodes = Nodes::default();
        assert_eq!((nodes.count(), nodes.of(7), nodes.name(0)), (1, 0, ""));
    }

    #[test]
    fn ranks_and_names_are_looked_up() {
        let nodes = Nodes {
            of: vec![1, 0, 1],
            names: vec!["a".to_owned(), "b".to_owned()],
        };
        assert_eq!(nodes.count(), 2);
        assert_eq!(
            [0, 1, 2].map(|rank| nodes.name(nodes.of(rank))),
            ["b", "a", "b"]
        );
    }
}

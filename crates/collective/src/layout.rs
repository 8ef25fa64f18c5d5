//! How the ranks of a communicator are spread over nodes, for two-level algorithms.

use std::sync::{Arc, OnceLock};

use super::intranode::choice::context::NodeContext;

/// Ranks by node. Nodes are numbered from 0 in the order of their first ranks, members of a node by
/// rank, so all ranks use the same numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RanksByNode {
    rank: usize,
    /// The members of each node, ascending.
    nodes: Vec<Vec<usize>>,
    /// Each rank's node and its number there.
    seats: Vec<(u32, u32)>,
    blocks: bool,
    equal: Option<usize>,
    busiest: usize,
    /// The context of this node's members with their shared memory, once that is known.
    local: OnceLock<Arc<NodeContext>>,
}

impl RanksByNode {
    /// The layout as `rank` sees it, where `names[r]` identifies rank `r`'s node; `None` if all
    /// ranks are on one node.
    pub fn new(rank: usize, names: impl IntoIterator<Item = u32>) -> Option<RanksByNode> {
        let mut numbers = std::collections::HashMap::new();
        let mut nodes: Vec<Vec<usize>> = Vec::new();
        let mut seats = Vec::new();
        let mut last = usize::MAX;
        let mut blocks = true;
        for (r, name) in names.into_iter().enumerate() {
            let node = *numbers.entry(name).or_insert(nodes.len());
            if node == nodes.len() {
                nodes.push(Vec::new());
            } else {
                // A rank on an earlier node, after ranks of other nodes.
                blocks &= node == last;
            }
            last = node;
            seats.push((node as u32, nodes[node].len() as u32));
            nodes[node].push(r);
        }
        if nodes.len() < 2 {
            return None;
        }
        let first = nodes[0].len();
        let equal = nodes.iter().all(|n| n.len() == first).then_some(first);
        let crossing = nodes.iter().map(|n| n.len() * (seats.len() - n.len()));
        Some(RanksByNode {
            rank,
            busiest: crossing.max().unwrap_or(0),
            nodes,
            seats,
            blocks,
            equal,
            local: OnceLock::new(),
        })
    }

    /// The rank whose view this is.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Number of ranks.
    pub fn size(&self) -> usize {
        self.seats.len()
    }

    /// Number of nodes, at least 2.
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// The ranks on `node`, ascending. The first one is the node's leader.
    pub fn members(&self, node: usize) -> &[usize] {
        &self.nodes[node]
    }

    /// The node that `rank` is on.
    pub fn node_of(&self, rank: usize) -> usize {
        self.seats[rank].0 as usize
    }

    /// The number of `rank` among the members of its node.
    pub fn index_of(&self, rank: usize) -> usize {
        self.seats[rank].1 as usize
    }

    /// The node that this rank is on.
    pub fn here(&self) -> usize {
        self.node_of(self.rank)
    }

    /// The members of this rank's node.
    pub fn neighbours(&self) -> &[usize] {
        self.members(self.here())
    }

    /// Whether the ranks of each node follow each other without a gap. Then the order of nodes, and
    /// within each node that of its members, is the order of ranks.
    pub fn in_blocks(&self) -> bool {
        self.blocks
    }

    /// The number of ranks on each node, if it is the same for all.
    pub fn equal(&self) -> Option<usize> {
        self.equal
    }

    /// Whether each rank is alone on its node: then there is only one level.
    pub fn is_flat(&self) -> bool {
        self.equal == Some(1)
    }

    /// Lets the steps within this node use the memory that its members share.
    pub(super) fn share(&self, local: &Arc<NodeContext>) {
        self.local.get_or_init(|| Arc::clone(local));
    }

    /// The context of this node's members with their shared memory; `None`: steps within the node
    /// use messages.
    pub(super) fn local(&self) -> Option<&Arc<NodeContext>> {
        self.local.get()
    }

    /// The largest number of ordered pairs of ranks whose first is on some node and the second is
    /// not.
    pub fn busiest(&self) -> usize {
        self.busiest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(names: &[u32]) -> Option<RanksByNode> {
        RanksByNode::new(names.len() - 1, names.iter().copied())
    }

    #[test]
    fn one_node_has_no_layout() {
        assert_eq!(of(&[5, 5, 5]), None);
        assert_eq!(of(&[5]), None);
    }

    #[test]
    fn blocks_are_blocks_in_any_order_of_nodes() {
        let layout = of(&[7, 7, 2, 2, 9]).unwrap();
        assert!(layout.in_blocks());
        assert_eq!(layout.equal(), None);
        assert_eq!(layout.nodes(), 3);
        assert_eq!(layout.members(1), [2, 3]);
        assert_eq!((layout.here(), layout.neighbours()), (2, &[4][..]));
        assert_eq!(layout.busiest(), 2 * 3);
    }

    #[test]
    fn round_robin_is_equal_but_not_in_blocks() {
        let layout = of(&[0, 1, 2, 0, 1, 2]).unwrap();
        assert!(!layout.in_blocks());
        assert_eq!(layout.equal(), Some(2));
        assert!(!layout.is_flat());
        assert_eq!(layout.members(1), [1, 4]);
        assert_eq!((layout.node_of(3), layout.index_of(3)), (0, 1));
    }

    #[test]
    fn every_rank_has_its_seat() {
        for names in [&[0, 1, 1, 0, 2, 0][..], &[3, 2, 1, 0], &[0, 0, 0, 1]] {
            let layout = of(names).unwrap();
            let mut seen = 0;
            for node in 0..layout.nodes() {
                assert!(layout.members(node).is_sorted());
                for (i, &rank) in layout.members(node).iter().enumerate() {
                    assert_eq!((layout.node_of(rank), layout.index_of(rank)), (node, i));
                    seen += 1;
                }
            }
            assert_eq!(seen, layout.size());
        }
        assert!(of(&[3, 2, 1, 0]).unwrap().is_flat());
    }
}

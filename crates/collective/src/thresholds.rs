//! The sizes at which one message-based algorithm hands over to another.
//!
//! All values are compared with quantities that every rank of the communicator knows to be equal
//! (message sizes and the number of ranks), so that all ranks choose alike. [`MessageThresholds`]
//! are part of `mica_policy`, since the simulator's replay chooses by them, too.

use std::sync::OnceLock;

use mica_node::tunables;
pub use mica_policy::collective::MessageThresholds;

use super::layout::RanksByNode;
use mica_objects::op::OperandOrder;

/// How a collective treats the nodes of its communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeTreatment {
    /// All ranks alike, without regard to nodes.
    Flat,
    /// Within nodes to their leaders, between leaders, and back.
    Leaders,
    /// Every rank exchanges with the ranks of the same number on other nodes, for its part of the
    /// data. Only for nodes with equal numbers of ranks.
    Columns,
}

/// What `MICA_COLL_TWO_LEVEL` asks for, where algorithms could also work without two levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Force {
    /// Whatever pays.
    Nothing,
    /// Two levels wherever that is correct.
    TwoLevel,
    /// Two levels, with leaders.
    Leaders,
    /// Two levels, with columns where nodes are equal.
    Columns,
}

impl Force {
    /// What a value of the tunable asks for: `Some(None)` for no two levels at all, `None` if there
    /// is no such value.
    fn parse(word: &str) -> Option<Option<Force>> {
        Some(match word {
            "auto" => Some(Force::Nothing),
            "on" => Some(Force::TwoLevel),
            "leaders" => Some(Force::Leaders),
            "columns" => Some(Force::Columns),
            "off" => None,
            _ => return None,
        })
    }
}

/// When two-level algorithms pay, where a communicator spans nodes. docs/design/collectives.md
/// derives the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TwoLevel {
    /// What the tunable asks for.
    pub force: Force,
    /// Within a node.
    pub inside: MessageThresholds,
    /// Between nodes, and for flat algorithms.
    pub across: MessageThresholds,
    /// Allreduce: columns from this many bytes on ...
    pub allreduce_columns: usize,
    /// ... where each rank's part of the vector has at least this many.
    pub allreduce_part: usize,
    /// Gather and scatter: leaders below this many bytes for each rank.
    pub gather_leaders: usize,
    /// Allgather: leaders below this many bytes in total.
    pub allgather_leaders: usize,
    /// All-to-all on unequal nodes: leaders up to this many bytes that leave a node ...
    pub alltoall_leaders: usize,
    /// ... in at most this many blocks.
    pub alltoall_leader_blocks: usize,
    /// All-to-all on equal nodes: columns below this many bytes per pair.
    pub alltoall_columns: usize,
}

impl TwoLevel {
    /// What `MICA_COLL_TWO_LEVEL=auto` means.
    pub const DEFAULT: TwoLevel = TwoLevel {
        force: Force::Nothing,
        inside: MessageThresholds::DEFAULT,
        across: MessageThresholds::NETWORK,
        allreduce_columns: 512 << 10,
        allreduce_part: 16 << 10,
        gather_leaders: 8 << 10,
        allgather_leaders: 64 << 10,
        alltoall_leaders: 32 << 10,
        alltoall_leader_blocks: 256,
        alltoall_columns: 8 << 10,
    };

    /// The setting of `MICA_COLL_TWO_LEVEL`; `None` if it is off.
    pub(super) fn in_force() -> Option<&'static TwoLevel> {
        static IN_FORCE: OnceLock<Option<TwoLevel>> = OnceLock::new();
        let choose = || {
            // A bad value was refused at MPI_Init.
            let word = tunables::COLL_TWO_LEVEL.choice().unwrap_or("auto");
            let force = Force::parse(word).flatten()?;
            Some(TwoLevel { force, ..TwoLevel::DEFAULT })
        };
        IN_FORCE.get_or_init(choose).as_ref()
    }

    /// Barrier and broadcast: one message to each other node is the minimum.
    pub fn always(&self, layout: &RanksByNode) -> NodeTreatment {
        if layout.is_flat() { NodeTreatment::Flat } else { NodeTreatment::Leaders }
    }

    /// Reduce and reduce-scatter: nodes combine their operands before these are sent to other
    /// nodes. An operator that does not commute needs ranks in blocks.
    pub fn reduce(&self, layout: &RanksByNode, order: OperandOrder) -> NodeTreatment {
        if order == OperandOrder::Any || layout.in_blocks() {
            self.always(layout)
        } else {
            NodeTreatment::Flat
        }
    }

    /// Allreduce of a vector of `bytes`.
    pub fn allreduce(
        &self,
        layout: &RanksByNode,
        order: OperandOrder,
        bytes: usize,
    ) -> NodeTreatment {
        let long = |ranks| bytes >= self.allreduce_columns && bytes / ranks >= self.allreduce_part;
        match self.reduce(layout, order) {
            NodeTreatment::Flat => NodeTreatment::Flat,
            _ if layout.equal().is_some_and(long) => self.asked(layout, NodeTreatment::Columns),
            _ => self.asked(layout, NodeTreatment::Leaders),
        }
    }

    /// Gather and scatter of blocks of `block` bytes.
    pub fn gather(&self, layout: &RanksByNode, block: usize) -> NodeTreatment {
        if self.force != Force::Nothing || block < self.gather_leaders {
            self.always(layout)
        } else {
            NodeTreatment::Flat
        }
    }

    /// Allgather of `bytes` in total.
    pub fn allgather(&self, layout: &RanksByNode, bytes: usize) -> NodeTreatment {
        match (self.always(layout), layout.equal()) {
            (NodeTreatment::Flat, _) => NodeTreatment::Flat,
            _ if bytes < self.allgather_leaders => self.asked(layout, NodeTreatment::Leaders),
            (_, Some(_)) => self.asked(layout, NodeTreatment::Columns),
            (_, None) => self.asked(layout, NodeTreatment::Flat),
        }
    }

    /// All-to-all of blocks of `block` bytes.
    pub fn alltoall(&self, layout: &RanksByNode, block: usize) -> NodeTreatment {
        let crossing = layout.busiest();
        let few = crossing <= self.alltoall_leader_blocks
            && crossing.saturating_mul(block) <= self.alltoall_leaders;
        match (self.always(layout), layout.equal()) {
            (NodeTreatment::Flat, _) => NodeTreatment::Flat,
            (_, Some(_)) if block < self.alltoall_columns => {
                self.asked(layout, NodeTreatment::Columns)
            }
            (_, None) if few => self.asked(layout, NodeTreatment::Leaders),
            _ => self.asked(layout, NodeTreatment::Flat),
        }
    }

    /// What the tunable asks for, where it is possible, instead of what pays.
    fn asked(&self, layout: &RanksByNode, pays: NodeTreatment) -> NodeTreatment {
        let equal = layout.equal().is_some();
        match (self.force, pays) {
            (Force::Nothing, _) => pays,
            (Force::Leaders, _) => NodeTreatment::Leaders,
            (Force::Columns, _) | (Force::TwoLevel, NodeTreatment::Flat) if equal => {
                NodeTreatment::Columns
            }
            (Force::Columns | Force::TwoLevel, NodeTreatment::Flat) => NodeTreatment::Leaders,
            (Force::Columns | Force::TwoLevel, _) => pays,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mica_node::tunables::TunableKind;

    /// The declared values are those that are parsed: each value asks for something, each for
    /// something else, and everything can be asked for.
    #[test]
    fn the_tunable_has_the_words_that_are_read() {
        let TunableKind::Choice(words) = tunables::COLL_TWO_LEVEL.kind else {
            panic!("not a choice");
        };
        let mut asked: Vec<Option<Force>> = words
            .iter()
            .map(|word| Force::parse(word).unwrap_or_else(|| panic!("{word} is not read")))
            .collect();
        for force in [
            None,
            Some(Force::Nothing),
            Some(Force::TwoLevel),
            Some(Force::Leaders),
            Some(Force::Columns),
        ] {
            let at = asked.iter().position(|asked| *asked == force);
            asked.remove(at.unwrap_or_else(|| panic!("{force:?} cannot be asked for")));
        }
        assert_eq!(asked, [], "two words for one thing");
        assert_eq!(Force::parse("flat"), None);
    }
}

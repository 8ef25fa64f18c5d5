//! The parameters of a segment: the ranks of a job that are on its node.

use crate::topology::CorePlace;

/// What the launcher knows of a job when it creates a node's segment. Lists are indexed by rank on
/// the node.
#[derive(Debug, Clone, Copy)]
pub struct JobSpec<'a> {
    /// Where each rank runs; its length is the number of ranks on the node.
    pub places: &'a [CorePlace],
    /// Cores that the job may use on this node.
    pub available_cores: u32,
    /// MPMD section of each rank; 0 for ranks beyond the list.
    pub appnum: &'a [u32],
    /// Ranks of the job on all its nodes.
    pub job_size: u32,
    /// The job's ranks that are on this node, in rising order. If empty, the job is on this node
    /// alone.
    pub members: &'a [u32],
    /// Ranks that there shall be room for beside these, for processes that are started later. Only
    /// for a job on one node.
    pub spare: u32,
}

impl<'a> JobSpec<'a> {
    /// The specification of a job on one node.
    pub fn on_one_node(
        places: &'a [CorePlace],
        available_cores: u32,
        appnum: &'a [u32],
    ) -> JobSpec<'a> {
        let job_size = places.len() as u32;
        JobSpec { places, available_cores, appnum, job_size, members: &[], spare: 0 }
    }
}

/// The job's ranks on a node. A rank's index in this order is its index in the segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NodeMembers {
    pub ranks: Vec<u32>,
    /// True if the ranks are consecutive from 0, so that a rank is its own index.
    are_all: bool,
    /// Indices beyond those of the ranks.
    spare: u32,
}

impl NodeMembers {
    /// `None` unless the ranks are rising numbers below `job_size`, and all ranks of the job if
    /// there are to be `spare` ones.
    pub fn new(ranks: Vec<u32>, job_size: u32, spare: u32) -> Option<NodeMembers> {
        let ordered = ranks.is_sorted_by(|a, b| a < b);
        let within = ranks.last().is_some_and(|&last| last < job_size);
        let are_all = ranks.last().is_some_and(|&last| last as usize + 1 == ranks.len());
        let whole = are_all && ranks.len() as u32 == job_size;
        let is_sound = ordered && within && (whole || spare == 0);
        is_sound.then_some(NodeMembers { ranks, are_all, spare })
    }

    #[inline]
    pub fn index(&self, rank: u32) -> Option<u32> {
        if self.are_all {
            return (rank < self.ranks.len() as u32 + self.spare).then_some(rank);
        }
        self.ranks.binary_search(&rank).ok().map(|index| index as u32)
    }
}

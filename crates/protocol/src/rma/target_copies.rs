//! What a rank knows of transfers that targets copy, too
//! ([`target_copy`](crate::rma::target_copy)): its own parts of windows, and the targets that it
//! has asked.

use crate::channels::packet::TargetCopyRequest;
use crate::rendezvous::cooperative::CooperativeCopies;
use mica_node::peer_table::PeerTable;
use std::collections::HashMap;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

/// What a rank does in its part of a window for the origins of transfers.
pub trait TargetCopier: Send + Sync + Debug {
    /// Copies for the job's rank `origin` the pieces that `pieces` yields, which are parts of the
    /// request's `divided` bytes. Called in progress. It may leave all pieces, but not one that
    /// it has taken.
    fn copy_pieces(
        &self,
        origin: u32,
        request: &TargetCopyRequest,
        pieces: &mut dyn Iterator<Item = Range<usize>>,
    );

    /// Migrates this rank's memory, so that origins can load and store it: the part of a window,
    /// or in a dynamic window what is attached at `address`. Called in progress. It may leave the
    /// memory where it is.
    fn migrate(&self, address: u64);
}

/// What this rank copies for origins, and what it has asked of targets.
#[derive(Debug, Default)]
pub(crate) struct TargetCopies {
    /// What copies in this rank's part of a window, by the window's context.
    pub copiers: HashMap<u64, Arc<dyn TargetCopier>>,
    pub targets: PeerTable<RequestedTarget>,
    /// Requests that targets have not looked at.
    pub unanswered: usize,
}

/// A target that was asked to copy.
#[derive(Debug, Default)]
pub(crate) struct RequestedTarget {
    /// The cooperative copy of a request that it has not looked at.
    pub unanswered: Option<u8>,
    /// Transfers without a request after the last, and those that are left.
    pub pause: u32,
    pub pause_left: u32,
}

impl TargetCopies {
    /// Takes back the cooperative copy of the last request to `target`, if it has looked at it.
    pub fn free_answered(&mut self, target: u32, copies: &mut CooperativeCopies) {
        let unanswered = &mut self.targets.entry(target).unanswered;
        if let Some(index) = *unanswered
            && copies.own(index).is_finished()
        {
            *unanswered = None;
            self.unanswered -= 1;
            copies.give_back(index);
        }
    }
}

//! What an engine is opened with.

use super::job::Notify;
use mica_node::segment::JobSegment;
use std::sync::Arc;

/// The configuration that a rank passes to an engine.
#[derive(Clone)]
pub struct OffloadSetup {
    /// The job's segment, which counts the helpers of the node.
    pub segment: Arc<JobSegment>,
    /// Helpers that may work on the node at once; 0 for none.
    pub helpers: u32,
    /// Called by the helper when a job completes, to wake the rank if it sleeps. Must not block,
    /// and must not use the engine or a cookie.
    pub notify: Option<Notify>,
}

impl std::fmt::Debug for OffloadSetup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Setup").field("helpers", &self.helpers).finish_non_exhaustive()
    }
}

//! What this rank has migrated.

use super::eligibility::SkipReason;

/// What has been migrated, and what has not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of memory that lie in slots.
    pub bytes: usize,
    /// Slots in use.
    pub slots: usize,
    /// Migrations so far.
    pub moves: u64,
    /// How often buffers in reuse were left where they are, by reason.
    pub kept: Vec<(SkipReason, u64)>,
}

//! Where the lines of a rank's output go, and what begins them.

use serde::{Deserialize, Serialize};

use crate::options::values::pattern::{NamePattern, PatternRank};

/// Where output goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OutputTarget {
    /// The launcher's standard output.
    Out,
    /// The launcher's standard error.
    Err,
}

/// The label of a rank's lines.
pub struct LineLabel {
    pattern: NamePattern,
    rank: PatternRank,
    /// The text, unless it changes.
    text: Option<String>,
}

impl LineLabel {
    /// The label of a rank.
    pub fn new(pattern: NamePattern, rank: PatternRank) -> LineLabel {
        let text = (!pattern.has_time()).then(|| pattern.fill(&rank));
        LineLabel { pattern, rank, text }
    }

    /// Appends the label for a line that is written now.
    pub fn begin(&self, line: &mut Vec<u8>) {
        match &self.text {
            Some(text) => line.extend_from_slice(text.as_bytes()),
            None => line.extend_from_slice(self.pattern.fill(&self.rank).as_bytes()),
        }
    }
}

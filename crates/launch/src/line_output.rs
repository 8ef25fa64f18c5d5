//! Where the lines of a rank's output go, and what begins them.

use std::fs::File;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::pattern::{NamePattern, PatternRank};

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
        LineLabel {
            pattern,
            rank,
            text,
        }
    }

    /// Appends the label for a line that is written now.
    pub fn begin(&self, line: &mut Vec<u8>) {
        match &self.text {
            Some(text) => line.extend_from_slice(text.as_bytes()),
            None => line.extend_from_slice(self.pattern.fill(&self.rank).as_bytes()),
        }
    }
}

/// A file that gets a rank's output.
pub struct OutputFile {
    pub file: File,
    /// mpiexec's own output gets it as well.
    pub copy: bool,
    pub name: PathBuf,
    /// An error has been reported.
    pub failed: bool,
}

impl OutputFile {
    /// Writes to the file. The first error is reported; the job goes on.
    pub fn write(&mut self, text: &[u8]) {
        if let Err(error) = io::Write::write_all(&mut self.file, text)
            && !std::mem::replace(&mut self.failed, true)
        {
            let name = self.name.display();
            crate::report::say(format_args!("mpiexec: cannot write to {name}: {error}\n"));
        }
    }
}

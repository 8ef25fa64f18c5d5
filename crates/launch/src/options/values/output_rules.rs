//! The user's rules for the output of ranks, from the command line.

use serde::{Deserialize, Serialize};

use crate::options::values::pattern::NamePattern;
use crate::options::values::rank_set::RankSet;

/// The user's rules for the ranks' output.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OutputRules {
    /// For standard output.
    pub out: StreamRules,
    /// For standard error.
    pub err: StreamRules,
    /// Output that goes to files goes to mpiexec's own output as well.
    pub copy: bool,
    /// Standard error goes where standard output goes.
    pub merge: bool,
    /// The ranks whose output is wanted.
    pub only: RankSet,
}

/// The user's rules for one of the two streams.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StreamRules {
    /// The label that begins each line.
    pub label: Option<NamePattern>,
    /// The file that the stream goes to.
    pub file: Option<NamePattern>,
}

fn fixed(pattern: &str) -> NamePattern {
    NamePattern::parse(pattern).expect("a pattern of this program")
}

impl OutputRules {
    /// Labels both streams with the rank.
    pub fn label_ranks(&mut self) {
        self.label_both(&fixed("[%r] "));
    }

    /// Labels both streams.
    pub fn label_both(&mut self, pattern: &NamePattern) {
        self.out.label = Some(pattern.clone());
        self.err.label = Some(pattern.clone());
    }

    /// Parses a value of Open MPI's `--output-filename`: `DIR[:nocopy,nojobid]`.
    #[must_use]
    pub fn read_directory(&mut self, text: &str) -> Option<()> {
        let (directory, words) = text.split_once(':').unwrap_or((text, ""));
        let mut job = "1/";
        self.copy = true;
        for word in words.split(',').filter(|word| !word.is_empty()) {
            match word {
                "nocopy" => self.copy = false,
                "nojobid" => job = "",
                _ => return None,
            }
        }
        let directory = directory.replace('%', "%%");
        if directory.is_empty() {
            return None;
        }
        let file = |name: &str| NamePattern::parse(&format!("{directory}/{job}rank.%0r/{name}"));
        self.out.file = file("stdout");
        self.err.file = file("stderr");
        Some(())
    }

    /// Parses a value of Open MPI's `--output`: words separated by commas.
    #[must_use]
    pub fn read_words(&mut self, text: &str) -> Option<()> {
        for word in text.split(',') {
            match word.split_once('=').unwrap_or((word, "")) {
                ("tag" | "rank", "") => self.label_ranks(),
                ("timestamp", "") => self.label_both(&fixed("%t ")),
                ("merge" | "merge-stderr-to-stdout", "") => self.merge = true,
                ("dir" | "directory", name) => self.read_directory(&format!("{name}:nocopy"))?,
                ("file" | "filename", name) if !name.is_empty() => {
                    let name = name.replace('%', "%%");
                    self.out.file = NamePattern::parse(&format!("{name}.%0r.out"));
                    self.err.file = NamePattern::parse(&format!("{name}.%0r.err"));
                }
                _ => return None,
            }
        }
        Some(())
    }

    /// A file name that is the same for ranks on several nodes, each of which would write its own.
    pub fn shared_file(&self) -> Option<&NamePattern> {
        let mut files = [&self.out.file, &self.err.file].into_iter().flatten();
        files.find(|file| !file.differs_between_nodes())
    }
}

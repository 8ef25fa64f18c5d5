//! The observation: consecutive calls of collectives, each with its time and with what every
//! directed link between chips carried meanwhile (muecke-2010, section 5: 2000 calls, the time and
//! 22 links each).
//!
//! The measuring harness and the model make it, the analysis reads it; [`file`](mod@crate::file)
//! has the format in which it is stored. Invariants: all columns have one length, and
//! [`Observation::check`] holds for every observation that was read from a file.

use std::collections::BTreeMap;
use std::io;

use mica_machine::{ChipMachine, Link};
use serde::{Deserialize, Serialize};

use crate::study::ModelStudy;

/// Calls that were observed, and where.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Observation {
    /// Where the numbers come from.
    pub provenance: Provenance,
    /// The directed links between chips.
    pub links: LinkSet,
    /// What was called.
    pub workloads: Vec<CallWorkload>,
    /// The calls, in the order in which they were made.
    pub calls: Calls,
    /// What `mica links model --study` found on the same modelled machine.
    pub study: Option<ModelStudy>,
}

/// Where an observation comes from.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Provenance {
    /// The machine, for people: its model, chips and cores.
    pub machine: String,
    /// How the link columns were obtained.
    pub source: LoadSource,
    /// The command that made the observation.
    pub command: String,
    /// The host on which it was made. Empty in what is modelled, as the next two are, so that equal
    /// seeds give equal files.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// When it was made: date and time in UTC.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub date: String,
    /// The version of the tool.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tool: String,
    /// The seed of the background traffic and of the model.
    pub seed: u64,
    /// The chip of each rank.
    pub rank_chips: Vec<u32>,
    /// Anything else that a reader of the numbers should know.
    pub notes: Vec<String>,
    /// Where the kernel had pages, if it was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numa: Option<NumaFacts>,
}

/// What the kernel says about memory domains, which needs no privilege.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NumaFacts {
    /// For each memory domain of the node of rank 0: by how much its `numastat` grew during the
    /// job, in pages, by name (of all processes of the machine).
    pub numastat: BTreeMap<u32, BTreeMap<String, u64>>,
    /// For each rank: its bytes in each memory domain after the calls (`/proc/self/numa_maps`).
    pub rank_bytes: Vec<BTreeMap<u32, u64>>,
}

/// How bytes on links were obtained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoadSource {
    /// Computed by the link model.
    #[default]
    Model,
    /// Read from the processors' counters.
    Counters,
    /// The library's account of its transfers, routed over the topology's links.
    Account,
}

/// Directed links, in the order of their columns.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LinkSet {
    names: Vec<String>,
}

/// One kind of call.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CallWorkload {
    /// The collective, without `MPI_` and in lower case: `allreduce`.
    pub collective: String,
    /// Bytes of a rank's buffer.
    pub bytes: u64,
    /// Ranks of the communicator.
    pub ranks: u32,
    /// Which schedule of the collective ran; empty if the library chose it.
    pub schedule: String,
    /// What one call moves between ranks.
    pub pairs: Vec<PairBytes>,
}

/// Bytes that one call moves from a rank's memory to another rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u32, u32, u64)", into = "(u32, u32, u64)")]
pub struct PairBytes {
    /// Whose memory was read.
    pub from: u32,
    /// Whose memory was written.
    pub to: u32,
    /// Bytes in a call.
    pub bytes: u64,
}

impl From<(u32, u32, u64)> for PairBytes {
    fn from((from, to, bytes): (u32, u32, u64)) -> Self {
        PairBytes { from, to, bytes }
    }
}

impl From<PairBytes> for (u32, u32, u64) {
    fn from(pair: PairBytes) -> Self {
        (pair.from, pair.to, pair.bytes)
    }
}

/// The calls as columns; every column has a value for each call.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Calls {
    /// Index in [`Observation::workloads`].
    pub workload: Vec<u32>,
    /// When the first rank entered the call, in seconds since the start of the observation.
    pub start: Vec<f64>,
    /// From the first rank's entry to the last rank's return, in seconds.
    pub time: Vec<f64>,
    /// For each rank: when it entered, in seconds after `start`. Empty if ranks are not told
    /// apart.
    pub rank_entry: Vec<Vec<f64>>,
    /// For each rank: its time in the call, in seconds. Empty as `rank_entry` is.
    pub rank_time: Vec<Vec<f64>>,
    /// For each link: the bytes that it carried during the call, of all traffic.
    pub link_bytes: Vec<Vec<f64>>,
    /// For each link: the bytes among `link_bytes` that are not the call's. Empty where that
    /// cannot be known, as with counters.
    pub background_bytes: Vec<Vec<f64>>,
    /// For each link: the call's own bytes according to the library's account, beside what counters
    /// counted. Empty unless both are known.
    pub account_bytes: Vec<Vec<f64>>,
    /// Bytes that the call moved between ranks, according to the library's account, within a chip
    /// or not. Empty where there is none.
    pub moved_bytes: Vec<f64>,
}

/// An observation cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// The file could not be read or written.
    #[error("cannot read or write the observation: {0}")]
    Io(#[from] io::Error),
    /// The first line is not a header.
    #[error("not an observation of mica links: the first line is no header: {0}")]
    Header(serde_json::Error),
    /// Another format or version.
    #[error(
        "format {format:?}, version {version}: this release reads \"mica-links\", versions 1 and 2"
    )]
    Version {
        /// The format in the header.
        format: String,
        /// The version in the header.
        version: u32,
    },
    /// The file ends early, or has bytes after the last column.
    #[error("column {column:?} of {rows} values: {problem}")]
    Column {
        /// Its name.
        column: String,
        /// Rows according to the header.
        rows: usize,
        /// What is wrong.
        problem: String,
    },
    /// Columns do not fit each other.
    #[error("inconsistent observation: {0}")]
    Inconsistent(String),
}

impl Observation {
    /// Checks that the parts fit each other: see [`Calls::check`].
    ///
    /// # Errors
    /// [`DataError::Inconsistent`], with the first part that does not fit.
    pub fn check(&self) -> Result<(), DataError> {
        self.calls.check(self.links.len(), self.workloads.len())
    }
}

impl LinkSet {
    /// The links with these names, as `3->5`.
    ///
    /// # Errors
    /// If a name occurs twice.
    pub fn new(names: Vec<String>) -> Result<LinkSet, DataError> {
        let mut sorted: Vec<&String> = names.iter().collect();
        sorted.sort_unstable();
        match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => {
                Err(DataError::Inconsistent(format!("two links are named {:?}", pair[0])))
            }
            None => Ok(LinkSet { names }),
        }
    }

    /// The links of a described machine.
    pub fn of_machine(machine: &ChipMachine) -> LinkSet {
        LinkSet { names: machine.links().iter().map(Link::name).collect() }
    }

    /// Number of links.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there is no link, as on a machine with one chip.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Their names, in the order of the columns.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The index of a link.
    pub fn index(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|known| known == name)
    }
}

impl Calls {
    /// Columns without rows, for `ranks` ranks and `links` links.
    pub fn with_columns(ranks: usize, links: usize) -> Calls {
        Calls {
            rank_entry: vec![Vec::new(); ranks],
            rank_time: vec![Vec::new(); ranks],
            link_bytes: vec![Vec::new(); links],
            background_bytes: vec![Vec::new(); links],
            ..Calls::default()
        }
    }

    /// Number of calls.
    pub fn len(&self) -> usize {
        self.time.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.time.is_empty()
    }

    /// Checks that all columns have one length and that indices and values are in range.
    ///
    /// # Errors
    /// [`DataError::Inconsistent`], with the first column that does not fit.
    pub fn check(&self, links: usize, workloads: usize) -> Result<(), DataError> {
        let wrong = |problem: String| Err(DataError::Inconsistent(problem));
        let rows = self.len();
        if self.link_bytes.len() != links {
            return wrong(format!("{} columns of bytes for {links} links", self.link_bytes.len()));
        }
        for (what, columns) in
            [("background bytes", &self.background_bytes), ("accounted bytes", &self.account_bytes)]
        {
            if ![0, links].contains(&columns.len()) {
                let found = columns.len();
                return wrong(format!("{found} columns of {what} for {links} links"));
            }
        }
        if self.rank_entry.len() != self.rank_time.len() {
            return wrong("entries and times are of different numbers of ranks".to_owned());
        }
        if self.workload.len() != rows {
            return wrong(format!("{} workloads of {rows} calls", self.workload.len()));
        }
        if let Some(index) = self.workload.iter().find(|&&at| at as usize >= workloads) {
            return wrong(format!("workload {index} of {workloads}"));
        }
        for (name, _, column) in self.real_columns() {
            if column.len() != rows {
                return wrong(format!("{} values of {name} for {rows} calls", column.len()));
            }
            if let Some(call) = column.iter().position(|value| !value.is_finite()) {
                return wrong(format!("{name} of call {call} is {}", column[call]));
            }
        }
        Ok(())
    }

    /// The columns of reals: name, unit and values, in the order of the file.
    pub(crate) fn real_columns(&self) -> Vec<(String, &'static str, &Vec<f64>)> {
        let mut found =
            vec![("start".to_owned(), "s", &self.start), ("time".to_owned(), "s", &self.time)];
        for (name, unit, columns) in [
            ("rank_entry", "s", &self.rank_entry),
            ("rank_time", "s", &self.rank_time),
            ("link_bytes", "B", &self.link_bytes),
            ("background_bytes", "B", &self.background_bytes),
            ("account_bytes", "B", &self.account_bytes),
        ] {
            let named = |(index, column)| (format!("{name}:{index}"), unit, column);
            found.extend(columns.iter().enumerate().map(named));
        }
        if !self.moved_bytes.is_empty() {
            found.push(("moved_bytes".to_owned(), "B", &self.moved_bytes));
        }
        found
    }
}

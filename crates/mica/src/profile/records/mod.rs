//! Reads what the ranks left: two files each, in the forms that `mica_profile::rank_tables` and the
//! head of `crates/profile-preload/src/facts.rs` describe, and what the launcher says of their
//! ends.
//!
//! A rank may have ended in any way at any time: what it had recorded by then is read. A call that
//! it was in counts until its end. [`facts`] reads the lines, [`tables`] takes the calls out of the
//! tables, [`jobs`] finds out which ranks belong together.

mod facts;
mod jobs;
mod rank;
mod tables;

use std::fs;
use std::path::Path;

use mica_profile::rank_tables::RankTables;

pub use self::facts::RecordedSite;
use self::facts::{EndedRank, RankFacts};
pub use self::jobs::RecordingEnd;
pub use self::rank::{CollectiveWaiting, RankRecords, RecordedArrival, SiteCalls};

/// What the ranks of a command left.
#[derive(Debug, Default)]
pub struct CommandRecords {
    /// The ranks of each job, in order; the jobs in the order of their starts.
    pub jobs: Vec<Vec<RankRecords>>,
    /// A program of another ABI ran, which was not profiled.
    pub other_abi: bool,
}

/// All records in a directory.
///
/// # Errors
/// If a file cannot be read, or is no record.
pub fn read_all(directory: &Path, end: &RecordingEnd) -> Result<CommandRecords, String> {
    let mut ranks = Vec::new();
    let mut ended: Vec<EndedRank> = Vec::new();
    let mut other_abi = false;
    let named = |path: &Path, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    for entry in fs::read_dir(directory).map_err(|error| named(directory, &error))? {
        let path = entry.map_err(|error| named(directory, &error))?.path();
        let read = || fs::read(&path).map_err(|error| named(&path, &error));
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("facts") => {
                let facts = RankFacts::read(&String::from_utf8_lossy(&read()?));
                let facts = facts.map_err(|error| named(&path, &error))?;
                let tables = path.with_extension("tables");
                let bytes = fs::read(&tables).map_err(|error| named(&tables, &error))?;
                let read = RankTables::read(&bytes);
                ranks.push((facts, read.ok_or_else(|| named(&tables, &"not a rank's tables"))?));
            }
            Some("ended") => {
                ended.extend(facts::read_ended(&String::from_utf8_lossy(&read()?)));
            }
            _ => other_abi |= path.ends_with("other-abi"),
        }
    }
    let jobs = jobs::of(ranks, &ended, end);
    let jobs = jobs.into_iter().map(|ranks| ranks.into_iter().map(tables::records).collect());
    Ok(CommandRecords { jobs: jobs.collect(), other_abi })
}

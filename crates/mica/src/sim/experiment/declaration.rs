//! An experiment as data: a table of runs, and a function that makes a report of their results.

use super::report::Report;
use super::store::Results;
use super::table::{Extent, Heading, Run};

/// An experiment.
#[derive(Debug)]
pub struct Experiment {
    /// What it is called, and what it asks.
    pub heading: Heading,
    /// The table of its runs.
    pub runs: fn(Extent) -> Vec<Run>,
    /// The report; all runs of the table have results.
    pub report: fn(Extent, &Results) -> Report,
}

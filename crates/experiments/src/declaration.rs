//! An experiment as data: a table of runs, and a function that makes a report of their results.

use crate::report::ExperimentReport;
use crate::store::Results;
use crate::table::{Extent, Heading, SimulationRun};

/// An experiment.
#[derive(Debug)]
pub struct Experiment {
    /// What it is called, and what it asks.
    pub heading: Heading,
    /// The table of its runs.
    pub runs: fn(Extent) -> Vec<SimulationRun>,
    /// The report; all runs of the table have results.
    pub report: fn(Extent, &Results) -> ExperimentReport,
}

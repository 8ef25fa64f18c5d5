//! The record of one run: what the rounds produce, the display shows, and the results are computed
//! from.

use std::collections::BTreeMap;

use serde::Serialize;

use super::figure::Figure;

/// The contestant name of the floor programs' figures.
pub const FLOOR: &str = "floor";

/// One run of one program by one contestant: an element of `raw.json.gz`.
#[derive(Debug, Clone, Default, Serialize)]
pub struct BenchRun {
    pub round: usize,
    pub program: String,
    pub ranks: u32,
    pub contestant: String,
    pub command: Vec<String>,
    /// The variables that were set in addition to the caller's environment.
    pub environment: BTreeMap<String, String>,
    pub binding: String,
    pub seconds: f64,
    pub figures: Vec<Figure>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The last lines that a failed run printed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
}

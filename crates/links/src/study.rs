//! What was found about a modelled machine beyond one observation: how much the finding depends on
//! the background that was chosen, and whether the predictor pays. `model::study` computes it, the
//! file of an observation stores it, and the report shows it.

use serde::{Deserialize, Serialize};

use crate::intensity::TrafficIntensity;
use crate::predictor::payoff::Payoff;

/// The results of `mica links model --study`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelStudy {
    /// The share of the slowest calls under other backgrounds.
    pub sensitivity: Vec<BackgroundRow>,
    /// Calls of each of the worlds below.
    pub calls: usize,
    /// Worlds: the seeds of the background that each comparison ran with.
    pub worlds: usize,
    /// Postponing calls that are predicted to be long.
    pub postponing: Payoff,
    /// Choosing between schedules for each call.
    pub choosing: ChoosingStudy,
}

/// Calls under one sort of traffic of one intensity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BackgroundRow {
    /// The traffic.
    #[serde(flatten)]
    pub intensity: TrafficIntensity,
    /// This row has the values that `--background` uses.
    pub is_default: bool,
    /// The share of the time that the slowest 5 % of the calls take: the mean over the worlds.
    pub slowest_share: f64,
    /// The least of it over the worlds.
    pub least: f64,
    /// The highest.
    pub highest: f64,
    /// The longest call as a multiple of the median: the mean over the worlds.
    pub longest: f64,
}

/// Choosing between schedules.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChoosingStudy {
    /// The schedules' names.
    pub schedules: Vec<String>,
    /// The mean seconds of a call by each schedule alone.
    pub alone: Vec<f64>,
    /// Against the best schedule of each world, which no program knows beforehand.
    pub against_best: Payoff,
    /// Against the schedule that was best on the calls learnt from.
    pub against_fixed: Payoff,
}

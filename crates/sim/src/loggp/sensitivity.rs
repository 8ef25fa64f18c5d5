//! The sensitivity of an application to each parameter (leon-2009, 5.4; Martin, Vahdat, Culler,
//! Anderson 1997): its time with one parameter raised at a time.
//!
//! The runner decides what "raised" means. On the simulated cluster it overrides a value of the
//! machine; in a replay it changes the model's parameters. A real network cannot be changed.

use serde::{Deserialize, Serialize};

use super::Parameter;

/// The times with one parameter raised.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SensitivityRow {
    /// The parameter.
    pub parameter: Parameter,
    /// What it was multiplied by, and the application's time in seconds.
    pub times: Vec<(f64, f64)>,
    /// Percent of time for each percent of the parameter, from the smallest factor above 1.
    pub elasticity: f64,
}

/// The times of an application with each parameter raised.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sensitivity {
    /// Seconds with all as they are.
    pub base: f64,
    /// Most sensitive first.
    pub rows: Vec<SensitivityRow>,
}

/// Runs the application once as it is (`None`), and once for each parameter and factor.
///
/// # Errors
/// The first error of the runner.
pub fn sensitivity<E>(
    parameters: &[Parameter],
    factors: &[f64],
    mut run: impl FnMut(Option<(Parameter, f64)>) -> Result<f64, E>,
) -> Result<Sensitivity, E> {
    let base = run(None)?;
    let mut rows = Vec::new();
    for &parameter in parameters {
        let mut times = Vec::new();
        for &factor in factors {
            times.push((factor, run(Some((parameter, factor)))?));
        }
        let raised = times.iter().filter(|(factor, _)| *factor > 1.0);
        let nearest = raised.min_by(|a, b| a.0.total_cmp(&b.0));
        let elasticity = nearest.map_or(0.0, |(factor, time)| (time / base - 1.0) / (factor - 1.0));
        rows.push(SensitivityRow { parameter, times, elasticity });
    }
    rows.sort_by(|a, b| b.elasticity.total_cmp(&a.elasticity));
    Ok(Sensitivity { base, rows })
}

//! `mica sim sensitivity -n N -- PROGRAM`: how much longer a program takes on the simulated cluster
//! with each parameter of the network raised (leon-2009, 5.4; Martin et al. 1997).
//!
//! The program is simulated once as the machine is, and once for each parameter and factor. Times
//! are those of the region of interest. A parameter that the machine has as 0 cannot be multiplied
//! and is left out with a note. `mica_sim::loggp::sensitivity` has the arithmetic.

use std::error::Error;
use std::path::PathBuf;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use mica_sim::loggp::{Parameter, Sensitivity, sensitivity};
use mica_sim::machine::SimulatedMachine;

use super::replay::sensitive;
use super::run::host_ranks::HostRanks;
use super::run::{SimRunOptions, simulate};
use crate::origin::ResultOrigin;
use crate::scratch::write_new;

/// The options of `mica sim sensitivity`.
#[derive(Args)]
pub struct SensitivityOptions {
    /// What each parameter is multiplied by.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = [2.0, 4.0, 8.0])]
    factors: Vec<f64>,
    #[command(flatten)]
    run: SimRunOptions,
}

/// The text, on the first host rank; nothing on others.
pub fn text(options: &SensitivityOptions) -> Result<String, Box<dyn Error>> {
    if let Some(factor) = options.factors.iter().find(|&&factor| factor <= 1.0) {
        return Err(format!("--factors {factor}: each must be above 1").into());
    }
    let ((result, zero), is_first) =
        HostRanks::with(|hosts| Ok((measure(options, hosts)?, hosts.rank() == 0)))?;
    if !is_first {
        return Ok(String::new());
    }
    if let Some(file) = &options.run.json {
        let json = ResultOrigin::simulated(&options.run.machine).json(&result)?;
        write_new(file, json).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    let mut text = sensitive(&result);
    for key in zero {
        text += &format!("{key} is 0 on this machine: not raised\n");
    }
    Ok(text)
}

/// The times, and the keys of parameters that are 0.
fn measure(
    options: &SensitivityOptions,
    hosts: &mut HostRanks,
) -> Result<(Sensitivity, Vec<&'static str>), Box<dyn Error>> {
    let machine = SimulatedMachine::with(&options.run.machine, &options.run.set)?;
    let (mut parameters, mut zero) = (Vec::new(), Vec::new());
    // The sender's overhead stands for both: the machine has one.
    for parameter in Parameter::ALL {
        match key(parameter, &machine) {
            (Some(_), value) if value > 0.0 => parameters.push(parameter),
            (Some(name), _) => zero.push(name),
            (None, _) => {}
        }
    }
    let runs = 1 + parameters.len() * options.factors.len();
    let progress = progress(runs as u64, hosts.rank() == 0 && !options.run.quiet);
    let result = sensitivity(&parameters, &options.factors, |raised| {
        let mut run = SimRunOptions {
            quiet: true,
            json: None,
            stdout: Some(options.run.stdout.clone().unwrap_or_else(nowhere)),
            ..options.run.clone()
        };
        if let Some((parameter, factor)) = raised {
            let (name, value) = key(parameter, &machine);
            let name = name.expect("a parameter that is raised has a key");
            run.set.push(format!("{name}={}", value * factor));
        }
        let summary = simulate(&run, hosts)?;
        if summary.exit_code() != 0 {
            return Err(format!("the program ends with status {}", summary.exit_code()).into());
        }
        progress.inc(1);
        Ok::<f64, Box<dyn Error>>(summary.region_ns * 1e-9)
    })?;
    progress.finish_and_clear();
    Ok((result, zero))
}

/// The machine's key for a parameter, and what it has there; no key for the receiver's overhead.
fn key(parameter: Parameter, machine: &SimulatedMachine) -> (Option<&'static str>, f64) {
    let network = &machine.network;
    match parameter {
        Parameter::Latency => (Some("network.latency_ns"), network.latency_ns),
        Parameter::SendOverhead => (Some("network.overhead_ns"), network.overhead_ns),
        Parameter::ReceiveOverhead => (None, network.overhead_ns),
        Parameter::Gap => (Some("network.gap_ns"), network.gap_ns),
        Parameter::GapPerByte => (Some("network.gap_per_byte_ns"), network.gap_per_byte_ns),
    }
}

/// Where the program's output goes if it is not asked for: it is printed once a run.
fn nowhere() -> PathBuf {
    PathBuf::from("/dev/null")
}

// flag: the call passes the condition: the first host rank shows it, unless quiet.
fn progress(runs: u64, shown: bool) -> ProgressBar {
    let bar = if shown { ProgressBar::new(runs) } else { ProgressBar::hidden() };
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} runs, {elapsed}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.tick();
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_the_machine_s() {
        for parameter in Parameter::ALL {
            let with = |set: &[String]| SimulatedMachine::with("power5-redstorm", set);
            let Some(name) = key(parameter, &with(&[]).expect("a machine")).0 else { continue };
            let machine = with(&[format!("{name}=7.5")]).expect("a machine");
            assert_eq!(key(parameter, &machine).1, 7.5, "{name}");
        }
    }
}

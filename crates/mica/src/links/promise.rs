//! What a description of the machine promises for the calls of an observation: which description
//! and which schedule `mica links analyze` and `report` compare with (`mica_links::promise`).

use std::error::Error;

use clap::Args;
use mica_links::promise::{Promise, compare};
use mica_links::{CallWorkload, ChipMachine, Observation, RecordedSchedule, schedule};

use super::named::schedule_named;

/// What the calls are compared with.
#[derive(Args, Default)]
pub struct PromiseOptions {
    /// Compare with what this machine promises: the name of one that is shipped, or a file in
    /// TOML. The default is the shipped one whose description has the same name.
    #[arg(long, value_name = "MACHINE")]
    machine: Option<String>,
    /// The schedule of the calls, as for mica links model. The default is the shipped one of the
    /// same collective, size and ranks.
    #[arg(long, value_name = "SCHEDULE", requires = "machine")]
    schedule: Option<String>,
}

/// The comparison; none where no description or schedule fits and none was named.
pub fn promise(
    observation: &Observation,
    workload: usize,
    options: &PromiseOptions,
) -> Result<Option<Promise>, Box<dyn Error>> {
    let machine = match &options.machine {
        Some(name) => Some(ChipMachine::named(name)?),
        None => described(&observation.provenance.machine),
    };
    let called = &observation.workloads[workload];
    let schedule = match &options.schedule {
        Some(name) => Some(schedule_named(name)?),
        None => recorded(called),
    };
    match (machine, schedule) {
        (Some(machine), Some(schedule)) if schedule.ranks() == called.ranks as usize => {
            Ok(Some(compare(observation, workload, &machine, &schedule)?))
        }
        (Some(_), Some(schedule)) => Err(format!(
            "--schedule is of {} ranks, and the calls are of {}",
            schedule.ranks(),
            called.ranks
        )
        .into()),
        (Some(_), None) if options.machine.is_some() => Err(format!(
            "no shipped schedule is of {} of {} B on {} ranks: record one (MICA_RECORD_TRANSFERS, \
             docs/links.md) and name it with --schedule",
            called.collective, called.bytes, called.ranks
        )
        .into()),
        _ => Ok(None),
    }
}

/// The shipped description of this name.
fn described(name: &str) -> Option<ChipMachine> {
    let mut all = ChipMachine::names().filter_map(|name| ChipMachine::named(name).ok());
    all.find(|machine| machine.name() == name)
}

/// The shipped schedule of these calls.
fn recorded(called: &CallWorkload) -> Option<RecordedSchedule> {
    let all = schedule::SHIPPED.iter().filter_map(|(_, text)| RecordedSchedule::parse(text).ok());
    all.into_iter().find(|schedule| {
        schedule.collective == called.collective
            && schedule.bytes == called.bytes
            && schedule.ranks() == called.ranks as usize
            && (called.schedule.is_empty() || called.schedule == schedule.path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use mica_links::{Background, observe_model};

    #[test]
    fn description_and_schedule_are_found_by_what_was_called() {
        let machine = ChipMachine::named("x4600").unwrap();
        let schedule = RecordedSchedule::shipped("barrier").unwrap();
        let observation = observe_model(&machine, &schedule, &Background::none(), 20, 1).unwrap();
        let found = promise(&observation, 0, &PromiseOptions::default()).unwrap().unwrap();
        assert!(found.is_kept() && found.machine == machine.name(), "{found:?}");
        let mut elsewhere = observation;
        elsewhere.provenance.machine = "another".into();
        assert_eq!(promise(&elsewhere, 0, &PromiseOptions::default()).unwrap(), None);
        let named = PromiseOptions { machine: Some("x4600".into()), ..PromiseOptions::default() };
        assert!(promise(&elsewhere, 0, &named).unwrap().is_some());
        elsewhere.workloads[0].bytes = 7;
        let error = promise(&elsewhere, 0, &named).unwrap_err().to_string();
        assert!(error.contains("no shipped schedule") && error.contains("7 B"), "{error}");
    }
}

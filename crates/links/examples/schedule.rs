//! Prints the schedule of a recorded call: `schedule PREFIX RANKS COLLECTIVE OCCURRENCE COMMAND`.
//! `crates/links/schedules/record.sh` makes the shipped schedules by it.

use std::error::Error;
use std::fs;

use mica_links::RecordedSchedule;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [prefix, ranks, collective, occurrence, command] = arguments.as_slice() else {
        return Err("usage: schedule PREFIX RANKS COLLECTIVE OCCURRENCE COMMAND".into());
    };
    let records = (0..ranks.parse()?)
        .map(|rank: u32| fs::read_to_string(format!("{prefix}.{rank}")))
        .collect::<Result<Vec<_>, _>>()?;
    let schedule =
        RecordedSchedule::from_records(&records, collective, occurrence.parse()?, command)?;
    print!("{schedule}");
    Ok(())
}

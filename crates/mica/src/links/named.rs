//! Machines and schedules by the names that the command line has for them.

use std::error::Error;
use std::fs;
use std::path::Path;

use mica_links::RecordedSchedule;

/// A schedule by the name that is shipped, from a file, or from records of a job.
pub fn schedule_named(name: &str) -> Result<RecordedSchedule, Box<dyn Error>> {
    let mut words = name.rsplitn(3, ':');
    if let (Some(call), Some(collective), Some(prefix)) = (words.next(), words.next(), words.next())
    {
        let call = call.parse().map_err(|_| format!("{name}: {call:?} is no number of a call"))?;
        return recorded(prefix, collective, call);
    }
    match name.ends_with(".txt") {
        true => {
            let text = fs::read_to_string(Path::new(name));
            Ok(RecordedSchedule::parse(&text.map_err(|error| format!("{name}: {error}"))?)?)
        }
        false => Ok(RecordedSchedule::shipped(name)?),
    }
}

/// A call in the records `PREFIX.0`, `PREFIX.1`, ... of a job's ranks.
fn recorded(
    prefix: &str,
    collective: &str,
    call: usize,
) -> Result<RecordedSchedule, Box<dyn Error>> {
    let files = (0..).map(|rank| format!("{prefix}.{rank}"));
    let records: Vec<String> = files.map_while(|file| fs::read_to_string(file).ok()).collect();
    if records.is_empty() {
        return Err(format!("{prefix}.0: there is no record of a rank").into());
    }
    let command = format!("MICA_RECORD_TRANSFERS={prefix}");
    Ok(RecordedSchedule::from_records(&records, collective, call, &command)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_come_from_the_command_a_file_or_the_records_of_a_job() {
        assert_eq!(schedule_named("barrier").unwrap().ranks(), 32);
        let folder = crate::scratch::ScratchFolder::new("schedule").unwrap();
        let prefix = folder.path().join("job").display().to_string();
        let records = [
            "2.1 begin MPI_Bcast 0 8\n2.1 store 0 8\n2.1 publish 1\n2.1 end cells\n",
            "2.1 begin MPI_Bcast 1 8\n2.1 wait 0 1\n2.1 load 0 8\n2.1 end cells\n",
        ];
        for (rank, record) in records.iter().enumerate() {
            fs::write(format!("{prefix}.{rank}"), record).unwrap();
        }
        let found = schedule_named(&format!("{prefix}:bcast:0")).unwrap();
        assert_eq!((found.ranks(), found.bytes), (2, 8));
        let file = folder.path().join("bcast.txt").display().to_string();
        fs::write(&file, found.to_string()).unwrap();
        assert_eq!(schedule_named(&file).unwrap().steps, found.steps);
        let error = |name: &str| schedule_named(name).unwrap_err().to_string();
        assert!(error(&format!("{prefix}:bcast:1")).contains("has 1 calls"));
        assert!(error(&format!("{prefix}:bcast:x")).contains("no number of a call"));
        assert!(error("/nonexistent:bcast:0").contains("no record"));
    }
}

//! What the kernel knows of a rank's process: `/proc/PID/stat` and `/proc/PID/status`.

use std::fs;

/// Processor time, memory and state of a process at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessSample {
    /// State of its main thread: `R`, `S`, `D`, `T`, `t`, `Z`.
    pub state: char,
    /// Processor time of all its threads, in clock ticks.
    pub ticks: u64,
    /// When it was started, in clock ticks since boot: tells it from another process that has
    /// got its number.
    pub started: u64,
    /// Resident memory in bytes.
    pub resident: u64,
}

impl ProcessSample {
    /// The process with this number; `None` if there is none.
    pub fn of(pid: u32) -> Option<ProcessSample> {
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        let sample = parse_stat(&String::from_utf8_lossy(&stat))?;
        let status = fs::read(format!("/proc/{pid}/status")).unwrap_or_default();
        Some(ProcessSample { resident: resident(&String::from_utf8_lossy(&status)), ..sample })
    }

    /// The parent of the process with this number.
    pub fn parent_of(pid: u32) -> Option<u32> {
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        let stat = String::from_utf8_lossy(&stat);
        let (_, fields) = stat.rsplit_once(") ")?;
        fields.split_ascii_whitespace().nth(1)?.parse().ok()
    }

    /// Whether it still runs: a zombie does not.
    pub fn is_alive(&self) -> bool {
        !matches!(self.state, 'Z' | 'X' | 'x')
    }
}

/// Fields of `/proc/PID/stat`, counted behind the name, which may contain anything.
fn parse_stat(stat: &str) -> Option<ProcessSample> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    // Fields are counted from 3 in proc(5).
    let number = |at: usize| fields.get(at - 3)?.parse::<u64>().ok();
    Some(ProcessSample {
        state: fields.first()?.chars().next()?,
        ticks: number(14)?.saturating_add(number(15)?),
        started: number(22)?,
        resident: 0,
    })
}

fn resident(status: &str) -> u64 {
    let mut lines = status.lines();
    let size = lines.find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = size.and_then(|size| size.trim().strip_suffix("kB"));
    let kilobytes = kilobytes.and_then(|number| number.trim().parse::<u64>().ok());
    kilobytes.unwrap_or(0).saturating_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_read() {
        let own = ProcessSample::of(std::process::id()).unwrap();
        assert!(own.is_alive() && own.resident > 0 && own.started > 0);
        assert_eq!(ProcessSample::of(u32::MAX), None);
    }

    #[test]
    fn names_with_parentheses_do_not_shift_the_fields() {
        let stat = "42 (a) R 7 (b) S 1 2 3 4 5 6 7 8 9 10 120 30 0 0 20 0 1 0 777 1 2";
        let sample = parse_stat(stat).unwrap();
        assert_eq!((sample.state, sample.ticks, sample.started), ('S', 150, 777));
        for bad in ["", "42 (x", "42 (x) S 1 2", "42 (x) "] {
            assert_eq!(parse_stat(bad), None, "{bad}");
        }
    }

    #[test]
    fn resident_memory_is_in_bytes() {
        assert_eq!(resident("Name: x\nVmRSS:\t    2048 kB\nVmData: 1 kB"), 2048 << 10);
        assert_eq!(resident("Name: x\n"), 0);
    }
}

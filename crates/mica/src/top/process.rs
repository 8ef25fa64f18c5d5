//! What the kernel knows of a rank's process: `/proc/PID/stat` and `/proc/PID/status`.

use std::fs;

use mica_node::process_stat::ProcessStat;

/// Processor time, memory and state of a process at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessSample {
    /// What the kernel says in its line.
    pub stat: ProcessStat,
    /// Resident memory in bytes.
    pub resident: u64,
}

impl ProcessSample {
    /// The process with this number; `None` if there is none.
    pub fn of(pid: u32) -> Option<ProcessSample> {
        let stat = ProcessStat::of(pid)?;
        let status = fs::read(format!("/proc/{pid}/status")).unwrap_or_default();
        Some(ProcessSample { stat, resident: resident(&String::from_utf8_lossy(&status)) })
    }

    /// Whether it still runs: a zombie does not.
    pub fn is_alive(&self) -> bool {
        !matches!(self.stat.state, 'Z' | 'X' | 'x')
    }
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
        assert!(own.is_alive() && own.resident > 0 && own.stat.started > 0);
        assert_eq!(ProcessSample::of(u32::MAX), None);
    }

    #[test]
    fn resident_memory_is_in_bytes() {
        assert_eq!(resident("Name: x\nVmRSS:\t    2048 kB\nVmData: 1 kB"), 2048 << 10);
        assert_eq!(resident("Name: x\n"), 0);
    }
}

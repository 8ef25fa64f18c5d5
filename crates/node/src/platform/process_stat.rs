//! What the kernel says of a process in one line: `/proc/PID/stat` (proc(5)).
//!
//! The line's first 22 fields fit into a kilobyte, so it is read into a buffer on the stack.

use std::fs::File;
use std::io::{self, Read};

/// The fields of `/proc/PID/stat` that are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessStat {
    /// State of its main thread: `R`, `S`, `D`, `T`, `t`, `Z`.
    pub state: char,
    /// The process that started it, or that has adopted it.
    pub parent: u32,
    /// The kernel's flags (`PF_...`).
    pub flags: u64,
    /// Processor time of all its threads, in clock ticks.
    pub ticks: u64,
    /// Processor time of the children that it has waited for, and of theirs, in clock ticks.
    pub children_ticks: u64,
    /// Number of its threads.
    pub threads: u64,
    /// When it was started, in clock ticks since boot: tells it from another process that has got
    /// its number.
    pub started: u64,
}

impl ProcessStat {
    /// The process with this number; `None` if there is none, or it may not be seen.
    pub fn of(pid: u32) -> Option<ProcessStat> {
        read(&format!("/proc/{pid}/stat"))
    }

    /// This process.
    pub fn own() -> Option<ProcessStat> {
        read("/proc/self/stat")
    }
}

/// Whether there is a process with this number; one that has ended counts until its parent has
/// waited for it.
pub fn exists(pid: u32) -> bool {
    // SAFETY: signal 0 is not sent: the call only checks whether the process exists.
    let found = unsafe { libc::kill(pid as libc::pid_t, 0) } == 0;
    found || io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}

fn read(path: &str) -> Option<ProcessStat> {
    let mut line = [0; 1024];
    let length = File::open(path).and_then(|mut file| file.read(&mut line)).ok()?;
    parse(&line[..length])
}

/// The name, in parentheses, may contain anything: fields are counted behind its end.
fn parse(line: &[u8]) -> Option<ProcessStat> {
    let end = line.windows(2).rposition(|pair| pair == b") ")?;
    let mut fields = str::from_utf8(&line[end + 2..]).ok()?.split_ascii_whitespace();
    // proc(5) numbers the state 3, and what follows from 4 on.
    let state = fields.next()?.chars().next()?;
    let mut numbers = [0; 19];
    for number in &mut numbers {
        // Some of the fields that are not used may be negative.
        *number = fields.next()?.parse::<i64>().ok()? as u64;
    }
    let field = |number: usize| numbers[number - 4];
    Some(ProcessStat {
        state,
        parent: field(4) as u32,
        flags: field(9),
        ticks: field(14).saturating_add(field(15)),
        children_ticks: field(16).saturating_add(field(17)),
        threads: field(20),
        started: field(22),
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_read() {
        let own = ProcessStat::own().unwrap();
        assert_eq!(own.parent, std::os::unix::process::parent_id());
        assert!(own.started > 0 && own.threads > 0);
        let again = ProcessStat::of(std::process::id()).unwrap();
        assert_eq!((own.parent, own.started), (again.parent, again.started));
        assert_eq!(ProcessStat::of(u32::MAX), None);
    }

    #[test]
    fn names_with_parentheses_do_not_shift_the_fields() {
        let line = "42 (a) R 7 (\u{e4}) S 1 2 3 4 -1 6 7 8 9 10 120 30 50 6 20 0 1 0 777 1 2";
        let stat = parse(line.as_bytes()).unwrap();
        assert_eq!((stat.state, stat.parent, stat.flags), ('S', 1, 6));
        assert_eq!((stat.ticks, stat.children_ticks), (150, 56));
        assert_eq!((stat.threads, stat.started), (1, 777));
        for bad in ["", "42 (x", "42 (x) S 1 2", "42 (x) "] {
            assert_eq!(parse(bad.as_bytes()), None, "{bad}");
        }
    }
}

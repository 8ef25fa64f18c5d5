//! What processes that do not end are doing, for the report of a hang: the threads of a process and
//! of all that it started, with their stacks where gdb is there, and with the function of the
//! kernel and the system call in which each waits.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use mica_node::process_stat::ProcessStat;

/// Most processes of which stacks are shown: a hang of many ranks is one of few kinds.
const SHOWN: usize = 12;
/// Most lines of gdb for one process.
const GDB_LINES: usize = 60;

/// The process and all that it started and that still run, itself first.
pub fn descendants(root: i32) -> Vec<i32> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        if let Some(stat) = ProcessStat::of(pid as u32) {
            children.entry(stat.parent as i32).or_default().push(pid);
        }
    }
    let mut found = vec![root];
    let mut next = 0;
    while let Some(pid) = found.get(next) {
        found.extend(children.remove(pid).into_iter().flatten());
        next += 1;
    }
    found
}

/// The threads of these processes: names, states, where they wait, and stacks.
pub fn stacks(pids: &[i32]) -> String {
    let mut text = String::new();
    for &pid in pids.iter().take(SHOWN) {
        let folder = Path::new("/proc").join(pid.to_string());
        let read = |path: &Path| fs::read_to_string(path).unwrap_or_default();
        let line = read(&folder.join("cmdline")).replace('\0', " ");
        let _ = writeln!(text, "  process {pid}: {:.160}", line.trim_end());
        for task in fs::read_dir(folder.join("task")).into_iter().flatten().flatten() {
            let task = task.path();
            let state = read(&task.join("stat"));
            let state =
                state.rsplit_once(") ").map_or("?", |(_, rest)| rest.get(..1).unwrap_or("?"));
            let call = read(&task.join("syscall"));
            let call: Vec<&str> = call.split_whitespace().take(4).collect();
            let _ = writeln!(
                text,
                "    {} {state} {} syscall {}",
                read(&task.join("comm")).trim_end(),
                read(&task.join("wchan")),
                call.join(" ")
            );
        }
        text += &gdb(pid);
    }
    if pids.len() > SHOWN {
        let _ = writeln!(text, "  and {} processes more", pids.len() - SHOWN);
    }
    text
}

/// The stacks by gdb, which may not be there, or not be permitted.
fn gdb(pid: i32) -> String {
    let output = Command::new("timeout")
        .args([
            // gdb waits with signals blocked for a process that the kernel does not stop.
            "--kill-after=5",
            "20",
            "gdb",
            "-p",
            &pid.to_string(),
            "-batch",
            "-nx",
            "-ex",
            "thread apply all bt 24",
        ])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    let Ok(output) = output else { return String::new() };
    let lines = String::from_utf8_lossy(&output.stdout);
    let frames = lines.lines().filter(|line| line.starts_with(['#', 'T']));
    frames.take(GDB_LINES).map(|line| format!("      {line:.200}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_and_describes_what_a_process_started() {
        let mut child = Command::new("sh").args(["-c", "sleep 600 & wait"]).spawn().expect("sh");
        let pid = child.id() as i32;
        // The shell needs a moment to start its child.
        let found = loop {
            match descendants(pid) {
                found if found.len() == 2 => break found,
                _ => std::thread::yield_now(),
            }
        };
        while !stacks(&found).contains("sleep 600") {
            std::thread::yield_now();
        }
        let text = stacks(&found);
        for &pid in &found {
            let pid = rustix::process::Pid::from_raw(pid).expect("a process");
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        child.wait().expect("a child");
        assert!(text.contains(" S "), "{text}");
        assert_eq!(found[0], pid);
    }
}

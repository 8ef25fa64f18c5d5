//! What the tests of `mpiexec` share: its output as text, and processes by their numbers.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

pub fn sorted_lines(bytes: &[u8]) -> Vec<String> {
    let mut lines: Vec<String> = text(bytes).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// A folder of this name that is empty at the beginning.
pub fn empty_folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Starts a command and reads as many lines of its output as asked.
pub fn start_and_read(mut command: Command, lines: usize) -> (Child, Vec<String>) {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let reader = BufReader::new(child.stdout.as_mut().unwrap());
    let lines = reader.lines().take(lines).map(Result::unwrap).collect();
    (child, lines)
}

/// Sends a signal (`-KILL`) to processes, all by one command.
pub fn send_to(signal: &str, pids: &[&str]) {
    let status = Command::new("kill").arg(signal).args(pids).status();
    assert!(status.unwrap().success());
}

pub fn send(signal: &str, pid: u32) {
    send_to(signal, &[&pid.to_string()]);
}

/// The fields of `/proc/PID/stat` from the state on. `None`: there is no such process.
pub fn process_fields(pid: &str) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let after_name = stat.rsplit(") ").next().unwrap();
    Some(after_name.split(' ').map(str::to_owned).collect())
}

/// Waits until a process, which is there, is stopped.
pub fn wait_until_stopped(pid: &str) {
    wait_until(|| process_fields(pid).expect("it is there")[0] == "T");
}

/// Whether a process is gone, or a zombie that its new parent has not reaped yet.
pub fn is_gone(pid: &str) -> bool {
    process_fields(pid).is_none_or(|fields| fields[0] == "Z")
}

/// Returns once `condition` holds. For what can only be asked: files, and processes that are not
/// this one's children.
pub fn wait_until(condition: impl Fn() -> bool) {
    while !condition() {
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub fn wait_until_gone(pid: &str) {
    wait_until(|| is_gone(pid));
}

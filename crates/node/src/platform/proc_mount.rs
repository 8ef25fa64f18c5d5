//! Whether `/proc` can be asked about processes by their numbers.

/// Whether `/proc` is mounted for this process's own PID namespace. Then the status lists exactly
/// one pid, the one in this namespace.
pub fn proc_is_ours() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let pids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    pids.is_some_and(|pids| pids.trim() == std::process::id().to_string())
}

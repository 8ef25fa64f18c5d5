//! `membarrier(2)`, global and expedited: a fence on every core that runs a registered process.

const QUERY: i32 = 0;
const GLOBAL_EXPEDITED: i32 = 1 << 1;
const REGISTER_GLOBAL_EXPEDITED: i32 = 1 << 2;

fn call(command: i32) -> i64 {
    // SAFETY: membarrier takes two integers and touches no memory of ours.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0) }
}

/// True when the kernel offers the command to this process.
pub fn is_available() -> bool {
    let offered = call(QUERY);
    offered >= 0 && offered & i64::from(GLOBAL_EXPEDITED) != 0
}

/// Registers this process as one whose cores are fenced when a peer parks. Returns false when
/// refused.
pub fn register() -> bool {
    call(REGISTER_GLOBAL_EXPEDITED) == 0
}

/// Fences all cores that run registered processes. Returns false when refused.
pub fn run() -> bool {
    call(GLOBAL_EXPEDITED) == 0
}

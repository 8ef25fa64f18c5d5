//! How a process comes by what a node shares: its launcher's socket, the segment that another
//! process hands over, and a tool's way into a running job.

#[cfg(feature = "launcher")]
pub mod attach;
pub mod handover;
pub mod launcher_socket;

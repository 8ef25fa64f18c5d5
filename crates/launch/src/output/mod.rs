//! Output of the ranks, from their pipes to this process's output and to files.
//!
//! [`redirect`] decides where a stream of a rank goes. One that passes through this process is read
//! by a [`stream`], which passes on whole lines, and written by a thread: of this process's own
//! output ([`writer`]) or of a file ([`file_writer`]).

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;

use mica_node::handover::FileIdentity;
use rustix::fs::{FileType, Stat, fstat};
use serde::{Deserialize, Serialize};

pub mod file_writer;
pub mod redirect;
pub mod stream;
pub mod writer;
mod writer_thread;

/// Where output goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OutputTarget {
    /// The launcher's standard output.
    Out,
    /// The launcher's standard error.
    Err,
}

/// The device number of `/dev/null`.
const NULL_DEVICE: u64 = (1 << 8) | 3;

fn is_null(file: &Stat) -> bool {
    let kind = FileType::from_raw_mode(file.st_mode);
    kind == FileType::CharacterDevice && file.st_rdev == NULL_DEVICE
}

/// Which file a process has as its output; `None` for `/dev/null`, which every daemon has.
pub fn output_file(file: &Stat) -> Option<FileIdentity> {
    (!is_null(file)).then_some(FileIdentity { device: file.st_dev, inode: file.st_ino })
}

/// What this process has as its own output.
fn own_file(target: OutputTarget) -> rustix::io::Result<Stat> {
    match target {
        OutputTarget::Out => fstat(io::stdout()),
        OutputTarget::Err => fstat(io::stderr()),
    }
}

/// Whether ranks may write to this process's output themselves. A terminal keeps each write whole,
/// and programs behave differently on one. On `/dev/null` no reader sees the lines.
pub fn is_left_to_ranks(target: OutputTarget) -> bool {
    let is_terminal = match target {
        OutputTarget::Out => io::stdout().is_terminal(),
        OutputTarget::Err => io::stderr().is_terminal(),
    };
    is_terminal || own_file(target).is_ok_and(|file| is_null(&file))
}

/// Whether standard output and standard error lead to the same file (`2>&1`). They then remain one
/// stream, so that a rank's writes to the two keep their order.
pub fn is_one_file() -> bool {
    match (own_file(OutputTarget::Out), own_file(OutputTarget::Err)) {
        (Ok(out), Ok(err)) => (out.st_dev, out.st_ino) == (err.st_dev, err.st_ino),
        _ => false,
    }
}

/// This process's own output as a file without a buffer.
pub fn own(target: OutputTarget) -> io::Result<File> {
    let copy = match target {
        OutputTarget::Out => io::stdout().as_fd().try_clone_to_owned(),
        OutputTarget::Err => io::stderr().as_fd().try_clone_to_owned(),
    };
    copy.map(File::from)
}

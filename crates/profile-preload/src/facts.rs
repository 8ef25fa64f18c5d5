//! What is known of a rank besides its tables: `NAME.facts` beside `NAME.tables` (`memory`) in the
//! directory that `MICA_PROFILE_DIR` names. `mica profile` reads both when the rank has ended
//! (`crates/mica/src/profile/records.rs`).
//!
//! The form is lines of fields with tabs between, the first field naming the line; numbers are
//! decimal. Tabs and line ends in names become `?`. A line is appended when its fact is found: few
//! are, so that a system call each costs nothing.
//!
//! ```text
//! mica-profile 2
//! rank     R SIZE PID HOST PROCESSOR BOOT
//! job      KEY                     equal for the ranks of a job (of a host, without a launcher's)
//! start    NS UNIX-NS
//! program  COMMAND-LINE
//! library  FIRST-LINE
//! place    CPU CORE CACHE PACKAGE  if bound
//! calls    NAME NAME ...           of the calls, by number
//! object   START END BASE PATH     loaded at the start
//! code     SITE OFFSET OBJECT      a site that is machine code
//! python   SITE LINE FUNCTION FILE a site that is a line of Python
//! stack    SITE SITE,SITE,...      a site that is a stack: its return addresses, the call's first
//! group    NUMBER RANK,RANK,...    world ranks, those of others left out
//! file     NUMBER NAME             opened by MPI
//! wait     REASON NS               where the library counts it
//! stopped  REASON                  there was no room for more records
//! end      HOW NS [CODE]           HOW: finalized, aborted, exited
//! resumed  NS                      a session was begun after an end
//! ```
//!
//! Times are `CLOCK_MONOTONIC`. A rank without `end` was killed, or called `_exit`. The last line
//! may be cut off.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

struct FactsFile {
    path: PathBuf,
    /// The process that started MPI; a child after `fork` has another number.
    pid: u32,
}

static FILE: OnceLock<FactsFile> = OnceLock::new();

/// Makes the file with its first lines.
pub fn create(path: &Path, lines: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(lines.as_bytes())?;
    let _ = FILE.set(FactsFile { path: path.to_owned(), pid: std::process::id() });
    Ok(())
}

/// Adds a line. Nothing happens without a file, or in a child after `fork`.
pub fn append(line: &str) {
    let Some(file) = FILE.get().filter(|file| file.pid == std::process::id()) else { return };
    // By its name: a program may have closed descriptors that are not its own.
    let opened = OpenOptions::new().append(true).open(&file.path);
    let written = opened.and_then(|mut opened| opened.write_all(format!("{line}\n").as_bytes()));
    if let Err(error) = written {
        eprintln!("mica profile: cannot write {}: {error}", file.path.display());
    }
}

/// A name without what separates fields.
pub fn field(text: &str) -> String {
    text.replace(['\t', '\n', '\r'], "?")
}

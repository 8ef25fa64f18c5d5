//! How long parts of a test took: a line each in the file that `MICA_TEST_TIMES` names, from which
//! the runner (`src/bin/suite`) makes its table. Nothing without the variable.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A part of a test: a line of the program list in one of its passes, say.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TestTime {
    /// What it belongs to: a pass of the program list, a test binary.
    pub group: String,
    /// Its name.
    pub name: String,
    /// Seconds from its start to its end.
    pub wall: f64,
    /// Seconds of a core.
    pub core: f64,
}

/// Adds a line to the file that `MICA_TEST_TIMES` names, if there is one.
///
/// # Panics
/// If the file cannot be written.
pub fn record_time(group: &str, name: &str, wall: Duration, core: Duration) {
    if let Some(path) = std::env::var_os("MICA_TEST_TIMES") {
        append_time(Path::new(&path), group, name, wall, core);
    }
}

/// Adds a line to a file. Lines are short, and appended whole.
///
/// # Panics
/// If the file cannot be written.
pub fn append_time(path: &Path, group: &str, name: &str, wall: Duration, core: Duration) {
    let (wall, core) = (wall.as_secs_f64(), core.as_secs_f64());
    let time = TestTime { group: group.to_owned(), name: name.to_owned(), wall, core };
    let line = serde_json::to_string(&time).expect("text and numbers") + "\n";
    let file = File::options().create(true).append(true).open(path);
    let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
    written.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

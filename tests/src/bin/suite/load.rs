//! What else the machine does while tests run, to find those that count on its being idle.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::str::FromStr;

use mica_tests::core_count;

/// A kind of load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// Nothing.
    None,
    /// A loop on each core.
    Busy,
    /// Memory that is written over and over, until a twentieth of the machine's is left.
    Memory,
}

impl FromStr for Load {
    type Err = String;

    fn from_str(word: &str) -> Result<Load, String> {
        match word {
            "none" => Ok(Load::None),
            "busy" => Ok(Load::Busy),
            "memory" => Ok(Load::Memory),
            _ => Err(format!("--load {word}: expected none, busy or memory")),
        }
    }
}

/// Writes `ARGUMENT` MiB, and then a byte of each page again and again.
const EAT: &str = "
import sys, time
size = int(sys.argv[1]) << 20
memory = bytearray(size)
while True:
    for at in range(0, size, 4096):
        memory[at] = (memory[at] + 1) & 255
    time.sleep(0.5)
";

/// Processes that make a load until they are dropped.
pub struct LoadProcesses(Vec<Child>);

impl LoadProcesses {
    /// Starts the load.
    pub fn start(load: Load) -> Result<LoadProcesses, String> {
        let command = |program: &str, args: &[&str]| {
            // They end with this process, however it ends.
            let mut command = Command::new("setpriv");
            command.args(["--pdeathsig", "KILL", program]).args(args).stdin(Stdio::null());
            command.spawn().map_err(|error| format!("setpriv {program}: {error}"))
        };
        let processes = match load {
            Load::None => Vec::new(),
            Load::Busy => (0..core_count())
                .map(|_| command("sh", &["-c", "while :; do :; done"]))
                .collect::<Result<_, _>>()?,
            Load::Memory => {
                let mebibytes = available_mebibytes()? * 19 / 20;
                vec![command("python3", &["-c", EAT, &mebibytes.to_string()])?]
            }
        };
        Ok(LoadProcesses(processes))
    }
}

impl Drop for LoadProcesses {
    fn drop(&mut self) {
        for process in &mut self.0 {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

fn available_mebibytes() -> Result<u64, String> {
    let text = fs::read_to_string("/proc/meminfo").map_err(|e| format!("/proc/meminfo: {e}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kibibytes.map(|k| k >> 10).ok_or("no MemAvailable in /proc/meminfo".to_owned())
}

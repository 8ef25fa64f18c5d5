//! One test in its process: started, watched, and ended with all that it started if it hangs.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use mica_tests::{Cores, descendants, has_ended, processor_time, stacks};
use rustix::process::{Pid, Signal, kill_process};

use crate::test_binary::TestCase;

/// Between two looks at a test: little beside what starting a process takes.
const POLL: Duration = Duration::from_millis(2);
/// How long mpiexec may take for its hang report.
const REPORT: Duration = Duration::from_secs(3);
/// Packages whose tests take no core for themselves: those of `mica-tests` do so for each of their
/// jobs, and what `mica-launch` starts mostly waits.
const WITHOUT_CORE: [&str; 2] = ["mica-tests", "mica-launch"];

/// What became of a test.
#[derive(Debug, Clone)]
pub struct TestRun {
    /// Whether it passed.
    pub passed: bool,
    /// All that it wrote, and, if it hung, what its processes were doing.
    pub output: String,
    /// From its start to its end.
    pub wall: Duration,
    /// The processor time of all its processes.
    pub core: Duration,
}

/// Runs a test; `output` and `times` are files for what it writes, and for the times of its parts.
pub fn run(
    case: &TestCase,
    output: &Path,
    times: &Path,
    limit: Duration,
) -> Result<TestRun, String> {
    // None at all, and not none of the cores: a test may want to be alone on the machine.
    let takes_core = !WITHOUT_CORE.contains(&case.binary.package.as_str());
    let _core = takes_core.then(|| Cores::take(1));
    let error = |what: &Path, e: std::io::Error| format!("{}: {e}", what.display());
    let file = File::create(output).map_err(|e| error(output, e))?;
    let copy = file.try_clone().map_err(|e| error(output, e))?;
    let start = Instant::now();
    let mut child = case
        .command()
        .env("MICA_TEST_TIMES", times)
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(copy)
        .spawn()
        .map_err(|e| format!("{}: {e}", case.full_name()))?;
    let id = i32::try_from(child.id()).expect("a process id");
    let mut hang = None;
    while !has_ended(id) {
        if start.elapsed() > limit {
            hang = Some(end(id, limit));
            break;
        }
        thread::sleep(POLL);
    }
    let (wall, core) = (start.elapsed(), processor_time(id));
    let status = wait(&mut child);
    let bytes = fs::read(output).map_err(|e| error(output, e))?;
    let mut output = String::from_utf8_lossy(&bytes).into_owned();
    let passed = hang.is_none() && status == "exit status: 0";
    if !passed {
        output += &format!("\n{status}\n{}", hang.unwrap_or_default());
    }
    Ok(TestRun { passed, output, wall, core })
}

fn wait(child: &mut Child) -> String {
    child.wait().map_or_else(|error| error.to_string(), |status| status.to_string())
}

/// Ends a test that hangs, and all that it started. Returns what they were doing.
fn end(id: i32, limit: Duration) -> String {
    let processes = descendants(id);
    let signal = |id: i32, signal| {
        if let Some(id) = Pid::from_raw(id) {
            let _ = kill_process(id, signal);
        }
    };
    for &process in &processes {
        let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
        if name.trim_end() == "mpiexec" {
            signal(process, Signal::USR1);
        }
    }
    thread::sleep(REPORT);
    let text = format!("no end after {} s:\n{}", limit.as_secs(), stacks(&processes));
    // From the test on downwards, so that nothing is started anew.
    for process in processes {
        signal(process, Signal::KILL);
    }
    text
}

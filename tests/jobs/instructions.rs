//! Guards instruction counts (docs/design/house.md, section 8): an 8-byte `MPI_Send`, an `MPI_Recv`
//! that finds its message in the ring, their non-blocking forms, the tests and probes that find
//! nothing, the calls that have a leaf (`crates/abi/src/shims`), and a send and a receive through
//! MPICH's ABI and through Fortran's interfaces, also of a section of an array, must stay within
//! 3 % of the counts that `tests/instructions.txt` records. A fence has a leaf and is not counted:
//! the rank that comes first waits, and which one that is differs from run to run.
//!
//! valgrind's callgrind counts what a rank executes inside the two calls, in two jobs of different
//! length; the difference leaves out start-up and first calls. The program
//! (`tests/c/tools/instructions.c`) takes care that no call waits, because only waiting depends on
//! time: the counts of two jobs of one build are equal to the last instruction.

use std::collections::BTreeMap;
use std::env::consts::ARCH;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use mica_tests::{Cores, Install, Launcher, core_count, target, workspace};

/// What precedes the calls of a program that was built for MPICH's ABI.
const MPICH: &str = "MPICH:";

/// The calls as recorded, the rank that makes only this call, and the program's argument.
const CALLS: [(&str, usize, Option<&str>); 28] = [
    ("MPI_Send", 0, None),
    ("MPI_Recv", 1, None),
    ("MPICH:MPI_Send", 0, None),
    ("MPICH:MPI_Recv", 1, None),
    ("mpif.h:MPI_Send", 0, Some("mpif")),
    ("mpif.h:MPI_Recv", 1, Some("mpif")),
    ("mpi_f08:MPI_Send", 0, Some("f08")),
    ("mpi_f08:MPI_Recv", 1, Some("f08")),
    ("MPI_Send:vector", 0, Some("vector")),
    ("mpi_f08:MPI_Send:section", 0, Some("section")),
    ("MPI_Isend", 0, Some("start")),
    ("MPI_Irecv", 1, Some("start")),
    ("MPI_Test", 0, Some("test")),
    ("MPI_Testany", 0, Some("testany")),
    ("MPI_Testsome", 0, Some("testsome")),
    ("MPI_Testall", 0, Some("testall")),
    ("MPI_Iprobe", 0, Some("iprobe")),
    ("MPI_Improbe", 0, Some("improbe")),
    ("MPI_Put+MPI_Win_flush", 0, Some("put")),
    ("MPI_Get+MPI_Win_flush_local", 0, Some("get")),
    ("MPI_Fetch_and_op", 0, Some("fetch")),
    ("MPI_Compare_and_swap", 0, Some("swap")),
    ("MPI_Accumulate", 0, Some("accumulate")),
    ("MPI_Win_lock+MPI_Put+MPI_Win_unlock", 0, Some("lock")),
    ("MPI_Win_start+MPI_Win_complete", 0, Some("post")),
    ("MPI_Win_post+MPI_Win_wait", 1, Some("post")),
    ("MPI_Pready", 0, Some("partitions")),
    ("MPI_Parrived", 1, Some("partitions")),
];
/// Messages in a batch of the program.
const BATCH: u64 = 32;
/// Batches of each of the two jobs.
const BATCHES: [u64; 2] = [50, 250];
/// Growth above this factor fails the test.
const GROWTH: f64 = 1.03;
/// A count below this fraction of the record should be recorded anew.
const GAIN: f64 = 0.9;

fn record_path() -> PathBuf {
    workspace().join("tests/instructions.txt")
}

/// The recorded counts of this architecture.
fn records(text: &str, arch: &str) -> BTreeMap<String, f64> {
    let mut found = BTreeMap::new();
    for line in text.lines().map(|l| l.split('#').next().unwrap_or(l)) {
        let words: Vec<_> = line.split_whitespace().collect();
        match words[..] {
            [] => {}
            [of, call, count] => {
                let count: f64 =
                    count.parse().unwrap_or_else(|e| panic!("'{line}': count '{count}': {e}"));
                let known = CALLS.iter().any(|(name, ..)| *name == call);
                assert!(known, "'{line}': unknown call '{call}'");
                if of == arch {
                    let before = found.insert(call.to_owned(), count);
                    assert!(before.is_none(), "'{line}': recorded twice");
                }
            }
            _ => panic!("'{line}': not architecture, call, count"),
        }
    }
    found
}

/// Compares a count with its record: an error fails the test, `Some` is advice.
fn judge(call: &str, count: f64, record: f64) -> Result<Option<String>, String> {
    let change = 100.0 * (count / record - 1.0);
    let line = format!("{ARCH} {call} {count:.1}");
    let change_text =
        format!("{call}: {count:.1} instructions, recorded {record:.1} ({change:+.1} %)");
    if count > record * GROWTH {
        Err(format!(
            "{change_text}. See where they go: valgrind --tool=callgrind as in this test, then \
             callgrind_annotate. If they are worth it, write '{line}' into {}",
            record_path().display()
        ))
    } else if count < record * GAIN {
        Ok(Some(format!(
            "{change_text}: keep the gain, write '{line}' into {}",
            record_path().display()
        )))
    } else {
        Ok(None)
    }
}

/// The instructions that each rank counted in a job of this many batches, with this argument if
/// any. The program is built for MPICH's ABI, or for the standard one.
fn collected(install: &Install, batches: u64, (is_mpich, argument): Counted<'_>) -> [u64; 2] {
    let program = match is_mpich {
        true => Launcher::Mpich.program("tools/instructions"),
        false => install.program("tools/instructions"),
    };
    let dir = target().join(format!("instructions-{}", std::process::id()));
    fs::create_dir_all(&dir).expect("target is writable");
    let turn = dir.join("turn");
    fs::write(&turn, [0; 64]).expect("target is writable");
    let out = install
        .mpiexec(["-n", "2", "valgrind", "-q", "--tool=callgrind"])
        .args(["--toggle-collect=counted_*"])
        .args([format!("--callgrind-out-file={}/%p", dir.display())])
        .args([program.as_os_str()])
        .args([batches.to_string().as_ref(), turn.as_os_str()])
        .args(argument)
        .env("LD_LIBRARY_PATH", &install.libraries())
        .run()
        .expect_success();
    let mut counts = [0; 2];
    for line in out.stdout.lines() {
        let (rank, pid) = line.split_once(' ').expect("the program prints RANK PID");
        let path = dir.join(pid);
        let profile =
            fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let total = profile
            .lines()
            .find_map(|l| l.strip_prefix("totals: "))
            .unwrap_or_else(|| panic!("{}: no totals", path.display()));
        counts[rank.parse::<usize>().expect("a rank")] = total.trim().parse().expect("a count");
    }
    fs::remove_dir_all(&dir).expect("target is writable");
    counts
}

/// A way to run the program: whether it is of MPICH's ABI, and its argument.
type Counted<'a> = (bool, Option<&'a str>);

/// The difference of two jobs, per message.
fn each(short: u64, long: u64) -> f64 {
    (long - short) as f64 / ((BATCHES[1] - BATCHES[0]) * BATCH) as f64
}

#[test]
fn ping_pong_costs_what_is_recorded() {
    let _cores = Cores::take(core_count());
    let install = Install::find();
    if !install.is_mica() {
        println!("skipped: {} is not Mica", install.prefix().display());
        return;
    }
    if let Err(error) = Command::new("valgrind").arg("--version").output() {
        println!(
            "skipped: valgrind cannot be started ({error}); scripts/setup.sh installs it as root"
        );
        return;
    }
    let path = record_path();
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let records = records(&text, ARCH);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let counts = |counted| BATCHES.map(|batches| collected(&install, batches, counted));
    let mut counted = BTreeMap::new();
    let mut failures = Vec::new();
    for (call, rank, argument) in CALLS {
        // Where ranks share a core these read the clock, so their counts depend on time.
        let finds_nothing = call.starts_with("MPI_Test") || call.ends_with("probe");
        if finds_nothing && cores < 2 {
            println!("{call}: skipped: counting it takes two cores");
            continue;
        }
        let way: Counted<'_> = (call.starts_with(MPICH), argument);
        let [short, long] = *counted.entry(way).or_insert_with(|| counts(way));
        let count = each(short[rank], long[rank]);
        assert!(count > 10.0, "{call}: {count} instructions cannot be: nothing was collected");
        let Some(&record) = records.get(call) else {
            println!(
                "{call}: nothing is recorded for {ARCH}; write '{ARCH} {call} {count:.1}' into {}",
                path.display()
            );
            continue;
        };
        println!("{call}: {count:.1} instructions, recorded {record:.1}");
        match judge(call, count, record) {
            Ok(Some(advice)) => println!("{advice}"),
            Ok(None) => {}
            Err(failure) => failures.push(failure),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn a_count_that_grew_fails() {
    assert!(judge("MPI_Send", 103.1, 100.0).is_err());
    assert_eq!(judge("MPI_Send", 102.9, 100.0), Ok(None));
    assert_eq!(judge("MPI_Send", 91.0, 100.0), Ok(None));
    assert!(judge("MPI_Send", 89.0, 100.0).is_ok_and(|advice| advice.is_some()));
}

#[test]
fn records_of_other_architectures_do_not_count() {
    let text = "# head\nx86_64 MPI_Send 10.5 # why\n\naarch64 MPI_Send 20\n";
    assert_eq!(records(text, "x86_64"), BTreeMap::from([("MPI_Send".to_owned(), 10.5)]));
}

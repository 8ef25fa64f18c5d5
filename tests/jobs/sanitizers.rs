//! Programs of `tests/c` with library and program compiled for ThreadSanitizer or AddressSanitizer.
//!
//! `scripts/sanitizers.sh` builds both and names the sanitizer in `MICA_SANITIZER`, the
//! installation in `MICA_PREFIX`. A finding of a sanitizer is written to standard error and makes
//! the exit status 66, so that the run fails as any other does. ThreadSanitizer follows the threads
//! of one process: accesses of another process to shared memory are invisible to it.

use std::path::Path;

use mica_tests::{Entry, Install, Verdict, parse_list, workspace};

/// For ThreadSanitizer: programs with threads of their own, or with the library's (helpers that
/// copy, progress threads).
const THREADS: &str = "
thr_pingpong       ranks=1,2
thr_pingpong       ranks=2 MICA_DIRECT=off -- 40
thr_pingpong       ranks=3 MICA_SHM=mixed MICA_POLL=static MICA_POLL_RATIO=50 -- 40
thr_blocked        ranks=1,2
thr_nbc            ranks=2,3
thr_nbc            ranks=3 MICA_COLL=shared
thr_nbc            ranks=3 MICA_COLL=direct
thr_coll           ranks=2,3
thr_coll           ranks=3 MICA_COLL=shared
thr_coll           ranks=3 MICA_COLL=direct
thr_partitioned    ranks=2
thr_partitioned    ranks=2 MICA_EAGER_MAX=8K MICA_DIRECT_MIN=8K MICA_DIRECT_RUN_MIN=1
session_threads    ranks=2
nbc_progress       ranks=2
pt2pt_outstanding  ranks=2 MICA_EAGER_MAX=8K MICA_COPY_ENGINE=thread MICA_OFFLOAD_MIN=8K \
                   MICA_PATH=offload
rma_threads        ranks=2 -- 20 1
rma_long           ranks=2 MICA_WINDOW_HELP_MIN=8K MICA_MAPPED_AFTER=1 -- 4 1
";

/// For AddressSanitizer: the same threads, and the paths that handle buffers, layouts and lists of
/// requests.
const ADDRESSES: &str = "
thr_pingpong       ranks=2
thr_coll           ranks=3
thr_nbc            ranks=3
thr_partitioned    ranks=2
session_threads    ranks=2
nbc_progress       ranks=3
pt2pt_modes        ranks=1,3
pt2pt_modes        ranks=2 MICA_EAGER_MAX=8K MICA_PATH=mapped MICA_MAPPED_AFTER=1 MICA_MAPPED_MIN=4K
pt2pt_sendrecv     ranks=3
pt2pt_complete     ranks=3
pt2pt_cancel       ranks=2
pt2pt_persistent   ranks=2 -- strict
pt2pt_buffered     ranks=2 -- strict
pt2pt_partitioned  ranks=2 -- strict
pt2pt_layouts      ranks=2
pt2pt_layouts      ranks=2 MICA_EAGER_MAX=8K MICA_PATH=cooperate
pt2pt_random       ranks=3 -- 20 11
pt2pt_random       ranks=2 MICA_SHM=basic MICA_EAGER_MAX=8K MICA_DIRECT_MIN=8K -- 20 12
type_random        ranks=2 -- 300
type_extent        ranks=1
coll_data          ranks=4
coll_userop        ranks=3
coll_vector        ranks=3
coll_property      ranks=4 -- 12 1
coll_property      ranks=3 MICA_COLL=direct -- 12 27
coll_property      ranks=3 MICA_COLL=shared -- 12 23
nbc_random         ranks=3
pers_coll          ranks=2
comm_random        ranks=3
inter_coll         ranks=4
topo_neighbor      ranks=3
err_args           ranks=1
info               ranks=1
rma_long           ranks=2 MICA_WINDOW_HELP_MIN=8K MICA_MAPPED_AFTER=1 -- 6 1
";

/// The sanitizers' options, besides the suppressions.
fn options(sanitizer: &str) -> (&'static str, String) {
    let suppressions = workspace().join("tests/sanitizers").join(sanitizer);
    let suppressions = suppressions.with_extension("supp");
    assert!(suppressions.exists(), "{}", suppressions.display());
    let file = suppressions.display();
    match sanitizer {
        "thread" => (
            "TSAN_OPTIONS",
            format!("exitcode=66:second_deadlock_stack=1:history_size=4:suppressions={file}"),
        ),
        _ => (
            "ASAN_OPTIONS",
            // Leaks: programs end with MPI objects alive. ODR: gcc registers two static variables
            // of functions that have the same name as one. Quarantine: programs that look for a
            // leak in their resident memory have filled this much before they compare.
            format!(
                "exitcode=66:detect_leaks=0:detect_odr_violation=0:quarantine_size_mb=16:\
                 detect_stack_use_after_return=1:suppressions={file}"
            ),
        ),
    }
}

fn programs(sanitizer: &str) -> Vec<Entry> {
    let list = match sanitizer {
        "thread" => THREADS,
        "address" => ADDRESSES,
        other => panic!("MICA_SANITIZER={other} is neither thread nor address"),
    };
    parse_list(list).expect("a right list")
}

#[test]
fn programs_run_without_a_finding() {
    let Ok(sanitizer) = std::env::var("MICA_SANITIZER") else {
        println!(
            "skipped: scripts/sanitizers.sh builds the library for it and sets MICA_SANITIZER"
        );
        return;
    };
    let install = Install::find();
    let (variable, value) = options(&sanitizer);
    let (mut passed, mut failures) = (0, Vec::new());
    for mut entry in programs(&sanitizer) {
        entry.env.push((variable.to_owned(), value.clone()));
        for &ranks in &entry.ranks {
            match entry
                .run(&install.program(&entry.program), install.mpiexec([""; 0]), ranks, None)
                .verdict
            {
                Verdict::Passed => passed += 1,
                Verdict::Skipped(why) => println!("{}: skipped, {why}", entry.program),
                Verdict::Failed(report) => failures.push(report),
            }
        }
    }
    println!("{sanitizer}: {passed} runs without a finding");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// A run without findings would prove nothing if the sanitizer were not active.
#[test]
fn the_sanitizer_finds_what_is_wrong() {
    let Ok(sanitizer) = std::env::var("MICA_SANITIZER") else {
        println!("skipped: as above");
        return;
    };
    let install = Install::find();
    let (variable, value) = options(&sanitizer);
    let program = install.program("tools/faulty");
    let job = install.mpiexec(["-n", "1"]).args([Path::new(&program)]);
    let outcome = job.args([&sanitizer]).env(variable, &value).run();
    let finding = match sanitizer.as_str() {
        "thread" => "ThreadSanitizer: data race",
        _ => "AddressSanitizer: heap-buffer-overflow",
    };
    assert!(outcome.stderr.contains(finding), "{}", outcome.report());
    assert_ne!(outcome.code(), 0, "{}", outcome.report());
}

/// Every program is one of `tests/c` (the lists are only read where a sanitizer is).
#[test]
fn the_lists_name_programs() {
    for entry in ["thread", "address"].iter().flat_map(|s| programs(s)) {
        let source = workspace().join("tests/c").join(&entry.program);
        let source = source.with_extension("c");
        assert!(source.exists(), "{}", source.display());
    }
}

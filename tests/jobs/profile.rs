//! `mica profile` on programs whose profile is known by construction: exact counts and bytes, the
//! lines of the calls, the rank that comes late. Where a test is about time it asserts a minimum.

use std::env;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use mica_tests::{Install, Job, Outcome, TWO_NODES, target, workspace};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;

const RANKS: u64 = 3;

/// A directory of its own for a test.
fn directory(test: &str) -> PathBuf {
    let directory = target().join("profile-tests").join(test);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).expect("target is writable");
    directory
}

/// `mica profile -o DIRECTORY -- mpiexec ARGUMENTS`.
fn profiled(directory: &Path, arguments: &[&str]) -> Job {
    let install = Install::find();
    let job = Job::new(install.bin("mica")).args(["profile", "-o"]).args([directory]);
    job.args(["--"]).args([install.bin("mpiexec")]).args(arguments)
}

fn text(path: PathBuf) -> String {
    path.to_str().expect("a path in UTF-8").to_owned()
}

/// The profile that a job left, and that it left nothing else.
fn profile(directory: &Path, outcome: &Outcome) -> Value {
    let read = fs::read_to_string(directory.join("profile.json"));
    let read = read.unwrap_or_else(|error| panic!("{error}\n{}", outcome.report()));
    let entries = fs::read_dir(directory).expect("the directory").flatten();
    for entry in entries.map(|entry| entry.file_name().into_string().expect("UTF-8")) {
        assert!(!entry.contains("records"), "{entry} was left behind");
    }
    serde_json::from_str(&read).expect("JSON")
}

/// Number of the line of a source that has this mark.
fn marked(source: &str, mark: &str) -> u64 {
    let source = fs::read_to_string(workspace().join("tests").join(source)).expect("a source");
    let line = source.lines().position(|line| line.contains(&format!("site: {mark}")));
    line.unwrap_or_else(|| panic!("no mark {mark}")) as u64 + 1
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().unwrap_or_else(|| panic!("no {name}"))
}

fn number(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or_else(|| panic!("no {name} in {value}"))
}

/// The site of a call record or late arrival.
fn site<'a>(profile: &'a Value, record: &Value) -> &'a Value {
    &list(profile, "sites")[number(record, "site") as usize]
}

/// Sum of a number over the records of a call, optionally of those at a line.
fn sum(profile: &Value, call: &str, line: Option<u64>, what: &str) -> u64 {
    let calls = list(profile, "calls").iter().filter(|record| record["call"] == call);
    let here = |record: &&Value| {
        line.is_none_or(|line| site(profile, record)["line"].as_u64() == Some(line))
    };
    calls.filter(here).map(|record| number(record, what)).sum()
}

/// Messages, bytes, blocks of collectives and their bytes from one rank to another.
fn pair(profile: &Value, from: u64, to: u64) -> [u64; 4] {
    let of = |pair: &&Value| number(pair, "from") == from && number(pair, "to") == to;
    let found = list(profile, "matrix").iter().find(of);
    let names = ["messages", "bytes", "collective_messages", "collective_bytes"];
    names.map(|name| found.map_or(0, |pair| number(pair, name)))
}

#[test]
fn accesses_of_files_are_counted_by_file() {
    let directory = directory("files");
    let folder = text(directory.clone());
    let program = text(Install::find().program("tools/profile_files"));
    let outcome = profiled(&directory, &["-n", "3", &program, &folder]).run().expect_success();
    for name in ["one", "shared"] {
        fs::remove_file(directory.join(name)).expect("the program's file");
    }
    let profile = profile(&directory, &outcome);
    // Calls, bytes, sequential ones of all ranks, and the size class.
    let found = |file: &str, call: &str| {
        let of = |record: &&Value| {
            record["call"] == call && record["file"].as_str().is_some_and(|at| at.ends_with(file))
        };
        let records: Vec<_> = list(&profile, "files").iter().filter(of).collect();
        let sum = |name| records.iter().map(|record| number(record, name)).sum::<u64>();
        assert_eq!(records.len() as u64, RANKS, "{file}: {call}");
        assert!(sum("time_ns") > 0, "{file}: {call}");
        [sum("calls"), sum("bytes"), sum("following"), number(records[0], "class")]
    };
    let writes = [10 * RANKS, 10 * 4096 * RANKS, 10 * RANKS, 13];
    assert_eq!(found("/one", "MPI_File_write_at"), writes);
    assert_eq!(found("/one", "MPI_File_read"), [2 * RANKS, 2 * 4096 * RANKS, 0, 13]);
    assert_eq!(found("/one", "MPI_File_seek"), [2 * RANKS, 0, 0, 0]);
    let ordered = [5 * RANKS, 500 * RANKS, 0, 7];
    assert_eq!(found("/shared", "MPI_File_write_ordered_begin"), ordered);
    assert_eq!(found("/shared", "MPI_File_write_ordered_end"), [5 * RANKS, 0, 0, 0]);
    let report = fs::read_to_string(directory.join("report.txt")).expect("a report");
    let row = ["/one", "write", "30", "122880", "4096-8191", "100.00"];
    assert!(report.lines().any(|line| row.iter().all(|word| line.contains(word))), "{report}");
}

#[test]
fn known_pattern_is_counted_exactly() {
    let directory = directory("pattern");
    let program = text(Install::find().program("tools/profile_pattern"));
    let outcome = profiled(&directory, &["-n", "3", &program]).run().expect_success();
    let profile = profile(&directory, &outcome);
    assert_eq!(number(&profile["job"], "exit_code"), 0);
    let is_mica = profile["job"]["library"].as_str().is_some_and(|text| text.contains("Mica"));
    assert_eq!(profile["job"]["is_mica"], is_mica);

    let source = "c/tools/profile_pattern.c";
    for (call, mark, count, bytes) in [
        ("MPI_Send", "send", 50 * RANKS, 50 * 24_576 * RANKS),
        ("MPI_Send", "reversed", 1, 8),
        ("MPI_Startall", "start", 3 * RANKS, 300 * RANKS),
        ("MPI_Allreduce", "late", 4 * RANKS, 4 * 8 * RANKS),
    ] {
        let line = Some(marked(source, mark));
        let found = ["count", "bytes"].map(|what| sum(&profile, call, line, what));
        assert_eq!(found, [count, bytes], "{call} at {mark}");
        assert_eq!(sum(&profile, call, line, "sends"), count);
    }
    assert_eq!(sum(&profile, "MPI_Irecv", None, "count"), 50 * RANKS);
    assert_eq!(sum(&profile, "MPI_Irecv", None, "bytes"), 0);
    assert_eq!(sum(&profile, "MPI_Alltoall", None, "bytes"), 4 * RANKS);
    assert_eq!(sum(&profile, "MPI_Alltoallv", None, "bytes"), 4 * RANKS * RANKS);
    // The root's block; the other ranks' arguments do not count.
    assert_eq!(sum(&profile, "MPI_Scatter", None, "bytes"), 4);
    // Between MPI_Pcontrol(0) and MPI_Pcontrol(1).
    assert_eq!(sum(&profile, "MPI_Barrier", None, "count"), 0);

    // The ring, the message of `reversed` to the world's last rank, the persistent messages; the
    // blocks of both all-to-alls and of the scatter, and four sums of 8 bytes.
    let ring = 50 * 24_576 + 3 * 100;
    assert_eq!(pair(&profile, 0, 1), [53, ring, 7, 44]);
    assert_eq!(pair(&profile, 0, 2), [1, 8, 7, 44]);
    assert_eq!(pair(&profile, 2, 0), [53, ring, 6, 40]);
    let report = fs::read_to_string(directory.join("report.txt")).expect("a report");
    let place = format!("profile_pattern.c:{}", marked(source, "late"));
    assert!(report.contains(&place), "{report}");
    assert!(outcome.stdout.contains(&report), "{}", outcome.report());
}

/// A profile keeps the tags that a replay needs: in the order of the sends the same run would be
/// predicted to take half as long.
#[test]
fn a_replay_matches_messages_by_the_tags_of_a_profile() {
    let install = Install::find();
    if !install.is_mica() {
        println!("skipped: only mica has replays");
        return;
    }
    let directory = directory("tags");
    let program = text(install.program("tools/profile_tags"));
    profiled(&directory, &["-n", "2", &program]).run().expect_success();
    let mica = Job::new(install.bin("mica")).args(["sim", "replay"]).args([&directory]);
    let options = ["--ranks", "2", "--machine", "xeon8480-ndr", "--json"];
    let outcome = mica.args(options).run().expect_success();
    let replayed: Value = serde_json::from_str(&outcome.stdout).expect("JSON alone");
    let seconds = list(&replayed, "predictions")[0]["seconds"].as_f64();
    // Each rank computes for 50 ms at least, one after the other.
    assert!(seconds >= Some(0.1), "{replayed}");
}

/// The blocks of `tools/profile_moves` from one rank to another, and their bytes.
fn moved(from: u64, to: u64) -> [u64; 2] {
    let mut sum = [0, 0];
    let mut add = |condition: bool, blocks: u64, bytes: u64| {
        if condition {
            sum[0] += blocks;
            sum[1] += blocks * bytes;
        }
    };
    let (is_next, number) = (to == (from + 1) % RANKS, to + 1);
    add(to + 1 == from, 1, 4); // the line
    add(to == from + 1, 1, 8);
    add(is_next, 1, 12); // the ring
    add(is_next, 1, 8);
    add(is_next, 2, 20);
    add(true, 2, 8); // persistent
    add(true, 3, 4 * number);
    add(to == 0, 1, 4); // reductions
    add(true, 1, 4 * number);
    add(true, 1, 8);
    add(to > from, 2, 4);
    sum
}

#[test]
fn blocks_of_all_collectives_are_in_the_matrix() {
    let directory = directory("moves");
    let program = text(Install::find().program("tools/profile_moves"));
    let outcome = profiled(&directory, &["-n", "3", &program]).run().expect_success();
    let profile = profile(&directory, &outcome);
    for (from, to) in (0..RANKS).flat_map(|from| (0..RANKS).map(move |to| (from, to))) {
        let [blocks, bytes] = if from == to { [0, 0] } else { moved(from, to) };
        let found = pair(&profile, from, to);
        assert_eq!(found, [0, 0, blocks, bytes], "from {from} to {to}");
    }
    // Blocks to MPI_PROC_NULL are none: 4 bytes to each rank but the last, 8 to each but the first.
    let bytes = |call: &str| sum(&profile, call, None, "bytes");
    assert_eq!(bytes("MPI_Neighbor_alltoallv"), 12 * (RANKS - 1));
    assert_eq!(bytes("MPI_Neighbor_alltoallw"), 12 * RANKS);
    assert_eq!(bytes("MPI_Neighbor_alltoallv_init"), 0);
    assert_eq!(bytes("MPI_Start"), RANKS * (2 * 20 + 4 * (1 + 2 + 3)));
    assert_eq!(bytes("MPI_Startall"), RANKS * 2 * (8 + 4 * (1 + 2 + 3)));
}

#[test]
fn rank_that_sleeps_before_a_collective_is_blamed_with_its_line() {
    let directory = directory("late");
    let program = text(Install::find().program("tools/profile_pattern"));
    let outcome = profiled(&directory, &["-n", "3", &program]).run().expect_success();
    let profile = profile(&directory, &outcome);
    let late = &list(&profile, "late")[0];
    assert_eq!((late["call"].as_str(), number(late, "rank")), (Some("MPI_Allreduce"), 1));
    // On a busy machine another rank may have been later once.
    assert!(number(late, "times") >= 3, "{late}");
    assert!(number(late, "wait_ns") >= 2 * 3 * 30_000_000, "{late}");
    let place = site(&profile, late);
    assert_eq!(number(place, "line"), marked("c/tools/profile_pattern.c", "late"));
    assert_eq!(place["function"], "come_late");
    assert!(place["file"].as_str().is_some_and(|file| file.ends_with("profile_pattern.c")));
    // Those who waited did so in the call: four times 50 ms.
    let rank_0 = &list(&profile, "ranks")[0];
    assert!(number(rank_0, "mpi_ns") >= 100_000_000, "{rank_0}");
    assert!(number(rank_0, "app_ns") >= number(rank_0, "mpi_ns"), "{rank_0}");
    // Mica says why; other libraries do not.
    let is_mica = profile["job"]["is_mica"] == true;
    assert_eq!(profile["waits"].is_array(), is_mica);
    let for_peers = |wait: &&Value| number(wait, "rank") == 0 && wait["reason"] == "peer";
    if is_mica {
        let wait = list(&profile, "waits").iter().find(for_peers);
        let wait = wait.expect("rank 0 waits for peers");
        assert!(number(wait, "ns") >= 100_000_000, "{wait}");
    }
}

/// Two functions send through a third: with `--stack` each has its own row. And a broadcast of no
/// bytes does not wait for its late root: no rank waits for longer than it was in its calls.
#[test]
fn callers_of_a_wrapper_are_told_apart_and_no_wait_exceeds_the_call() {
    let directory = directory("wrapped");
    let install = Install::find();
    let job = Job::new(install.bin("mica")).args(["profile", "--stack", "2", "-o"]);
    let job = job.args([directory.clone()]).args(["--"]).args([install.bin("mpiexec")]);
    let program = install.program("tools/profile_wrapped");
    let outcome = job.args(["-n", "3"]).args([program]).run().expect_success();
    let profile = profile(&directory, &outcome);
    let source = "c/tools/profile_wrapped.c";
    for (mark, count) in [("near", 30), ("far", 12)] {
        let line = marked(source, mark);
        let calls = list(&profile, "calls").iter().filter(|record| {
            let site = site(&profile, record);
            record["call"] == "MPI_Sendrecv" && site["callers"][0]["line"].as_u64() == Some(line)
        });
        assert_eq!(
            calls.map(|record| number(record, "count")).sum::<u64>(),
            count * RANKS,
            "{mark}"
        );
    }
    assert_eq!(sum(&profile, "MPI_Sendrecv", None, "count"), 42 * RANKS);
    let waited = |call: &str| -> u64 {
        let late = list(&profile, "late").iter().filter(|late| late["call"] == call);
        late.map(|late| number(late, "wait_ns")).sum()
    };
    let inside = sum(&profile, "MPI_Bcast", None, "time_ns");
    assert!(waited("MPI_Bcast") <= inside, "{} of {inside}", waited("MPI_Bcast"));
}

#[test]
fn exit_codes_and_records_survive_an_end_without_finalize() {
    let program = text(Install::find().program("tools/profile_pattern"));
    for (how, code) in [("exit", 3), ("abort", 5)] {
        let directory = directory(how);
        let outcome = profiled(&directory, &["-n", "1", &program, how]).run().expect_code(code);
        let profile = profile(&directory, &outcome);
        assert_eq!(number(&profile["job"], "exit_code"), code as u64);
        assert_eq!(list(&profile, "ranks")[0]["finalized"], false);
        assert_eq!(sum(&profile, "MPI_Allreduce", None, "count"), 4, "{how}");
    }
}

#[test]
fn threads_windows_groups_and_children_are_counted_exactly() {
    let directory = directory("threads");
    let program = text(Install::find().program("tools/profile_threads"));
    let outcome = profiled(&directory, &["-n", "2", &program]).run().expect_success();
    let profile = profile(&directory, &outcome);
    let line = Some(marked("c/tools/profile_threads.c", "thread") - 1);
    let (of_threads, bytes) = (2 * 4 * 200, 2 * 4 * 200 * 64);
    assert_eq!(sum(&profile, "MPI_Sendrecv", line, "count"), of_threads);
    assert_eq!(sum(&profile, "MPI_Sendrecv", None, "bytes"), bytes);
    assert_eq!(sum(&profile, "MPI_Put", None, "bytes"), 16);
    assert_eq!(sum(&profile, "MPI_Get", None, "bytes"), 8);
    // One to the other group, one that is refused and sends nothing, on both ranks.
    assert_eq!(sum(&profile, "MPI_Send", None, "count"), 3);
    assert_eq!(sum(&profile, "MPI_Send", None, "bytes"), 2);
    assert_eq!(pair(&profile, 0, 1), [802, 800 * 64 + 16 + 2, 0, 0]);
    assert_eq!(pair(&profile, 1, 0), [801, 800 * 64 + 8, 0, 0]);
    assert!(list(&profile, "ranks").iter().all(|rank| rank["finalized"] == true));
}

#[test]
fn levels_tell_nodes_apart() {
    let directory = directory("nodes");
    let program = text(Install::find().program("tools/profile_pattern"));
    let mut job = profiled(&directory, &["-n", "4", &program]);
    for (name, value) in TWO_NODES {
        job = job.env(name, value);
    }
    let outcome = job.run().expect_success();
    let profile = profile(&directory, &outcome);
    let of = |level: &str| -> u64 {
        let sizes = list(&profile, "sizes").iter().filter(|size| size["level"] == level);
        sizes.map(|size| number(size, "messages")).sum()
    };
    let nodes = list(&profile, "ranks").iter().map(|rank| number(rank, "node"));
    let nodes: Vec<u64> = nodes.collect();
    let away = (0..4).filter(|rank| nodes[*rank] != nodes[(rank + 1) % 4]).count() as u64;
    assert!(away > 0, "{nodes:?}");
    // Messages to the next rank, and one from rank 0 to rank 3.
    let reversed = u64::from(nodes[0] != nodes[3]);
    assert_eq!(of("network"), away * 53 + reversed, "{nodes:?}");
}

#[test]
fn lines_of_python_are_named() {
    let directory = directory("python");
    let script = text(workspace().join("tests/python/profile_calls.py"));
    let outcome = profiled(&directory, &["-n", "2", &text(mica_tests::python()), &script]).run();
    let outcome = outcome.expect_success();
    let profile = profile(&directory, &outcome);
    // mpi4py calls the forms with large counts.
    let source = "python/profile_calls.py";
    let line = Some(marked(source, "pass_on"));
    assert_eq!(sum(&profile, "MPI_Sendrecv_c", line, "count"), 2 * 2 * 20, "{profile:#}");
    assert_eq!(sum(&profile, "MPI_Sendrecv_c", line, "bytes"), 2 * 2 * 20 * 1000);
    assert_eq!(sum(&profile, "MPI_Barrier", Some(marked(source, "barrier")), "count"), 2);
    let named = |name: &str| {
        let sites = list(&profile, "sites").iter();
        sites.filter(|site| site["language"] == "python" && site["function"] == name).count()
    };
    assert_eq!((named("pass_on"), named("<module>")), (1, 1));
}

/// `mica profile OPTIONS -- mpiexec -n 3 profile_pattern`.
fn profiled_pattern(options: &[&str]) -> Outcome {
    let install = Install::find();
    let job = Job::new(install.bin("mica")).args(["profile"]).args(options);
    job.args(["--"])
        .args([install.bin("mpiexec")])
        .args(["-n", "3", &text(install.program("tools/profile_pattern"))])
        .run()
        .expect_success()
}

#[test]
fn settings_are_compared_side_by_side() {
    let directory = directory("compare");
    let output = directory.to_str().expect("UTF-8");
    let options = ["--compare", "MICA_DIRECT=off", "--rounds", "1", "-o", output];
    let outcome = profiled_pattern(&options);
    let read = |name: &str| fs::read_to_string(directory.join(name)).expect("an output");
    let comparison: Value = serde_json::from_str(&read("comparison.json")).expect("JSON");
    let sides = list(&comparison, "sides");
    let names: Vec<&str> = sides.iter().filter_map(|side| side["name"].as_str()).collect();
    assert_eq!(names, ["as it is", "MICA_DIRECT=off"]);
    let place = format!("profile_pattern.c:{}", marked("c/tools/profile_pattern.c", "send"));
    for side in sides {
        let is_send = |row: &&Value| {
            let site = row["site"].as_str().unwrap_or_default();
            row["call"] == "MPI_Send" && site.ends_with(&place)
        };
        let row = list(side, "calls").iter().find(is_send).expect("the send");
        assert_eq!(number(row, "count"), 50 * RANKS);
        assert_eq!(number(row, "bytes"), 50 * 24_576 * RANKS);
        assert!(side["mpi_s"]["median"].as_f64() > Some(0.0), "{side}");
    }
    assert!(outcome.stdout.contains(&read("comparison.txt")));
    let row = format!("| {} | {} |", 50 * RANKS, 50 * 24_576 * RANKS);
    let table = read("comparison.md");
    let table = table.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(table.contains(&row), "no {row} in:\n{table}");
}

/// Another user who knows the process id prepares folders under the names of old, with links to a
/// file of root's in them. Needs root, and the user `nobody`.
#[test]
fn what_another_user_prepared_in_the_temporary_folder_is_left_alone() {
    let nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let works = Command::new(nobody[0]).args(&nobody[1..]).arg("true").status();
    if !works.is_ok_and(|status| status.success()) || !rustix::process::geteuid().is_root() {
        println!("skipped: needs root");
        return;
    }
    // Where `nobody` gets to.
    let folder = env::temp_dir().join(format!("mica-prepared-{}", std::process::id()));
    fs::create_dir(&folder).expect("a new folder");
    let precious = folder.join("precious");
    fs::write(&precious, "kept").expect("own folder");
    let temporary = folder.join("tmp");
    fs::create_dir(&temporary).expect("own folder");
    fs::set_permissions(&temporary, fs::Permissions::from_mode(0o1777)).expect("own folder");
    let install = Install::find();
    let (mica, mpiexec) = (text(install.bin("mica")), text(install.bin("mpiexec")));
    let program = text(install.program("tools/profile_pattern"));
    let links = "for f in profile.json report.txt report.html trace.json perf; do \
                 ln -s $1 $2/mica-compare-$3/$f; ln -s $1 $2/mica-scaling-$3/$f; done";
    let prepare = format!("umask 0; mkdir $2/mica-compare-$3 $2/mica-scaling-$3; {links}");
    let (precious, temporary) = (text(precious), text(temporary));
    let compare = ["--text", "--compare", "MICA_DIRECT=off", "--rounds", "1"];
    for options in [&compare[..], &["--json", "--scaling", "1", "--rounds", "1"]] {
        // The shell has the process id that mica has after it.
        let script = format!(
            "{} sh -c '{prepare}' sh {precious} {temporary} $$; exec \"$@\"",
            nobody.join(" ")
        );
        let job = Job::new("sh").args(["-c", &script, "sh", &mica, "profile"]);
        let job = job.args(options).args(["--", &mpiexec, "-n", "2", &program]);
        job.env("TMPDIR", &temporary).run().expect_success();
        assert_eq!(fs::read_to_string(&precious).expect("still there"), "kept");
    }
    let left = fs::read_dir(&temporary).expect("own folder").flatten();
    let left = left.filter(|entry| entry.metadata().is_ok_and(|meta| meta.uid() == 0)).count();
    assert_eq!(left, 0, "mica has left folders behind");
    fs::remove_dir_all(&folder).expect("own folder");
}

#[test]
fn overhead_is_measured_and_leaves_nothing() {
    let outcome = profiled_pattern(&["--overhead", "--rounds", "2", "--json"]);
    let overhead: Value = serde_json::from_str(&outcome.stdout).expect("JSON alone");
    assert_eq!(number(&overhead, "rounds"), 2);
    for name in ["without_s", "with_s"] {
        // The program sleeps for 200 ms in all.
        assert!(overhead[name]["min"].as_f64() > Some(0.2), "{overhead}");
    }
    let install = Install::find();
    let job = Job::new(install.bin("mica")).args(["profile", "--overhead", "--rounds", "1", "--"]);
    job.args(["sh", "-c", "exit 4"]).run().expect_failure().says("without the profiler");
}

/// `mpiexec -n 2 profile_ends HOW` under the profiler, with options of mpiexec.
fn profiled_end(directory: &Path, options: &[&str], how: &str) -> Job {
    let program = text(Install::find().program("tools/profile_ends"));
    profiled(directory, &[options, &["-n", "2", &program, how]].concat())
}

/// Both ranks exchanged 300 messages. A receive that has no end counts, and is named.
fn check_ends(directory: &Path, outcome: &Outcome, ended: [&str; 2]) -> Value {
    let profile = profile(directory, outcome);
    assert_eq!(number(&profile["job"], "exit_code"), outcome.status.code().expect("a code") as u64);
    let exchanges = Some(marked("c/tools/profile_ends.c", "exchange") - 1);
    assert_eq!(sum(&profile, "MPI_Sendrecv", exchanges, "count"), 600, "{}", outcome.report());
    assert_eq!(sum(&profile, "MPI_Sendrecv", exchanges, "bytes"), 2400);
    assert_eq!(pair(&profile, 0, 1)[0], 300);
    let line = marked("c/tools/profile_ends.c", "wait");
    let mut inside = 0;
    for (rank, words) in list(&profile, "ranks").iter().zip(ended) {
        let said = rank["ended"].as_str().unwrap_or_else(|| panic!("{rank}"));
        assert!(said.contains(words), "{said}");
        assert_eq!(rank["finalized"], false);
        let place = format!("profile_ends.c:{}", line);
        inside += u64::from(said.contains("in MPI_Recv at main ") && said.contains(&place));
        outcome_says(outcome, said.strip_prefix("was ").unwrap_or(said));
    }
    assert_eq!(sum(&profile, "MPI_Recv", Some(line), "count"), inside);
    profile
}

fn outcome_says(outcome: &Outcome, words: &str) {
    assert!(outcome.stdout.contains(words), "no '{words}' in {}", outcome.report());
}

/// What a rank has recorded is reported however it ends, and how it ended.
#[test]
fn what_was_recorded_survives_the_end_of_a_rank() {
    if !Install::find().is_mica() {
        println!("skipped: only Mica's mpiexec says how ranks ended");
        return;
    }
    for (how, code, words) in [
        ("inside", 137, "was killed by signal 9 (SIGKILL)"),
        ("kill", 137, "was killed by signal 9 (SIGKILL)"),
        ("crash", 139, "was killed by signal 11 (SIGSEGV"),
        ("_exit", 3, "exited with code 3 without having called MPI_Finalize"),
        ("exit", 3, "exited with code 3 without having called MPI_Finalize"),
        ("abort", 5, "called MPI_Abort with code 5"),
    ] {
        let directory = directory(&format!("end-{how}"));
        let outcome = profiled_end(&directory, &[], how).run().expect_code(code);
        let profile = check_ends(&directory, &outcome, ["was ended by mpiexec (SIGTERM)", words]);
        // The call in which it was.
        let line = Some(marked("c/tools/profile_ends.c", "inside"));
        let count = sum(&profile, "MPI_Comm_delete_attr", line, "count");
        let said = outcome.stdout.contains("in MPI_Comm_delete_attr at end_inside ");
        assert_eq!((count, said), (u64::from(how == "inside"), how == "inside"), "{how}");
    }
}

/// The same where the whole job is ended: by a signal to the profiler, as Ctrl-C by a signal to all
/// of the terminal's group, and by a limit of time.
#[test]
fn what_was_recorded_survives_the_end_of_the_job() {
    if !Install::find().is_mica() {
        println!("skipped: only Mica's mpiexec says how ranks ended");
        return;
    }
    let by_mpiexec = ["was ended by mpiexec (SIG"; 2];
    for (name, signal) in [("term", Signal::TERM), ("interrupt", Signal::INT)] {
        let directory = directory(&format!("end-{name}"));
        let mut job = profiled_end(&directory, &[], "wait").start();
        job.wait_for("waiting");
        match signal {
            Signal::INT => {
                let group = Pid::from_raw(job.pid()).expect("a process");
                kill_process_group(group, signal).expect("the group is there");
            }
            _ => job.signal(signal),
        }
        let outcome = job.finish().expect_failure();
        check_ends(&directory, &outcome, by_mpiexec);
    }
    let directory = directory("end-timeout");
    let outcome = profiled_end(&directory, &["--timeout", "2"], "wait").run().expect_code(124);
    check_ends(&directory, &outcome, by_mpiexec);
}

/// A script that runs several jobs has a profile of each, also of jobs with as many ranks.
#[test]
fn each_job_of_a_script_has_a_profile_of_its_own() {
    let directory = directory("jobs");
    let install = Install::find();
    let program = text(install.program("tools/profile_pattern"));
    let script = "$1 -n 2 $2; $1 -n 2 $2; $1 -n 3 $2; $1 -n 1 $2; $1 -n 1 $2";
    let job = Job::new(install.bin("mica")).args(["profile", "-o"]).args([&directory]);
    let job = job.args(["--", "sh", "-c", script, "sh", &text(install.bin("mpiexec")), &program]);
    let outcome = job.run().expect_success();
    for (number_of_job, ranks) in (1..).zip([2, 2, 3, 1, 1]) {
        let folder = directory.join(format!("job-{number_of_job}"));
        let profile = profile(&folder, &outcome);
        assert_eq!(list(&profile, "ranks").len() as u64, ranks, "job {number_of_job}");
        assert_eq!(sum(&profile, "MPI_Irecv", None, "count"), 50 * ranks);
        assert_eq!(profile["job"]["number"], serde_json::json!([number_of_job, 5]));
        assert_eq!(profile["job"]["program"], program.as_str());
        outcome_says(&outcome, &format!("Job        {number_of_job} of 5: {program}"));
    }
    // A command that runs one job later leaves nothing of these.
    profiled(&directory, &["-n", "2", &program]).run().expect_success();
    assert!(!directory.join("job-1").exists() && directory.join("profile.json").exists());
}

#[test]
fn sessions_end_a_program_that_never_calls_finalize() {
    let directory = directory("sessions");
    let program = text(Install::find().program("tools/profile_sessions"));
    let outcome = profiled(&directory, &["-n", "2", &program]).run().expect_success();
    let profile = profile(&directory, &outcome);
    assert_eq!(sum(&profile, "MPI_Allreduce", None, "count"), 4);
    for rank in list(&profile, "ranks") {
        assert!(rank["finalized"] == true && rank["ended"].is_null(), "{rank}");
    }
    assert!(!outcome.stdout.contains("MPI_Finalize"), "{}", outcome.report());
}

#[test]
fn program_of_another_abi_runs_without_a_profile() {
    let directory = directory("other-abi");
    let source = workspace().join("tests/c/tools/other_abi.c");
    let library = directory.join("libmpi.so.40");
    let compile = |options: &[&str], out: &Path| {
        let mut command = Command::new("cc");
        command.args(options).arg("-o").arg(out).arg(&source);
        if out != library {
            command.arg(&library);
        }
        assert!(command.status().expect("cc").success());
    };
    let shared = ["-DLIBRARY", "-shared", "-fPIC", "-Wl,-soname,libmpi.so.40"];
    compile(&shared, &library);
    let program = directory.join("other");
    compile(&["-Wl,-rpath,$ORIGIN"], &program);
    let out = directory.join("out");
    fs::create_dir(&out).expect("own directory");
    fs::write(out.join("profile.json"), "of an earlier run").expect("own directory");
    let job = Job::new(Install::find().bin("mica")).args(["profile", "-o"]).args([&out]);
    let outcome = job.args(["--"]).args([&program]).run().expect_success();
    assert_eq!(outcome.stdout, "done\n", "{}", outcome.report());
    let outcome = outcome.says("built for libmpi.so.40, not for the standard ABI's libmpi_abi.so");
    assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.report());
    assert!(!out.join("profile.json").exists(), "an earlier profile was left");
}

/// Records that have no room end no program: by a limit of files' sizes, which is a signal.
#[test]
fn a_limit_of_file_sizes_leaves_a_program_unrecorded() {
    let install = Install::find();
    let program = text(install.program("tools/profile_pattern"));
    let limited = format!("ulimit -f 100; exec {program}");
    let job = Job::new(install.bin("mica")).args(["profile", "--text", "--"]);
    let mpiexec = text(install.bin("mpiexec"));
    let outcome = job.args([&mpiexec, "-n", "1", "sh", "-c", &limited]).run().expect_success();
    outcome.says("File too large (os error 27); this rank is not recorded");
}

#[test]
fn command_without_mpi_is_reported_as_such() {
    let job = Job::new(Install::find().bin("mica")).args(["profile", "--text", "--"]);
    let outcome = job.args(["sh", "-c", "exit 4"]).run().expect_code(4);
    outcome.says("no rank left a record");
}

/// A `perf` that runs the command and reports as many cache misses as `count` says of `N` ranks.
fn perf_that_counts(directory: &Path, count: &str) {
    let script = format!(
        "#!/bin/sh\nwhile [ \"$1\" != -- ]; do\n    [ \"$1\" = -o ] && file=$2\n    shift\ndone\n\
         shift\n\
         N=$(echo \"$*\" | sed -n 's/.* -n \\([0-9]*\\) .*/\\1/p')\nN=${{N:-1}}\n\
         echo \"$(({count})),,cache-misses:u,1,100.00,,\" >\"$file\"\nexec \"$@\"\n"
    );
    let perf = directory.join("perf");
    fs::write(&perf, script).expect("own directory");
    fs::set_permissions(&perf, fs::Permissions::from_mode(0o755)).expect("own file");
}

#[test]
fn scaling_names_contention_by_what_is_counted() {
    let directory = directory("scaling");
    let install = Install::find();
    let program = text(install.program("tools/profile_work"));
    let path = env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", directory.display());
    for (count, reason) in [
        ("1000 * N * N + 1000", "2.5 times the cache misses: ranks contend for caches and memory"),
        ("1000 + N", "1.0 times the cache misses: caches are not the reason"),
    ] {
        perf_that_counts(&directory, count);
        let outcome = Job::new(install.bin("mica"))
            .args(["profile", "--scaling", "1,2", "--rounds", "1", "--json", "--"])
            .args([install.bin("mpiexec")])
            .args(["-n", "1", &program])
            .env("PATH", &path)
            .run()
            .expect_success();
        let scaling: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
        assert!(scaling["runs"][1]["cache_misses"].is_u64(), "{scaling:#}");
        // On one node and on two: each rank does the same, so two compute twice as long.
        let findings = list(&scaling, "findings");
        assert_eq!(findings.len(), 2, "{scaling:#}");
        for finding in findings {
            let said = finding.as_str().expect("text");
            assert!(said.contains(reason) && said.starts_with("2 ranks"), "{said}");
        }
    }
}

#[test]
fn json_is_all_that_standard_output_has() {
    let outcome = profiled_pattern(&["--json", "--spans", "20"]);
    let profile: Value = serde_json::from_str(&outcome.stdout).expect("JSON and nothing else");
    assert_eq!(list(&profile, "ranks").len(), 3);
    // A rank calls more than 160 times, and what does not fit is joined.
    let (dropped, columns) = (&profile["timeline"]["dropped"], &profile["timeline"]["columns"]);
    assert!(dropped.as_u64() >= Some(3 * 140), "{dropped}");
    assert!(columns.is_string(), "{columns}");
}

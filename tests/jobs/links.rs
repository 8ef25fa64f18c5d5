//! `mica links`: what it observes of a real job on this machine, and that the file of a modelled
//! one places ranks.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use mica_tests::{Cores, Install, core_count, target};
use serde_json::Value;

fn folder(name: &str) -> PathBuf {
    let folder = target().join("links-test").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// Runs `mica links`, and returns what it says.
fn links(install: &Install, folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new(install.bin("mica"))
        .arg("links")
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("mica runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let errors = text(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    text(&output.stdout)
}

/// The first line of an observation.
fn header(file: &Path) -> Value {
    let bytes = fs::read(file).expect("an observation");
    let line = bytes.split(|byte| *byte == b'\n').next().expect("a line");
    serde_json::from_slice(line).expect("a header")
}

fn has_numa_maps() -> bool {
    Path::new("/proc/self/numa_maps").exists()
}

#[test]
fn run_observes_times_the_account_and_memory() {
    let _cores = Cores::take(core_count());
    let install = Install::find();
    let folder = folder("run");
    let mpiexec = install.bin("mpiexec").display().to_string();
    let calls = ["run", "--collective", "allreduce", "--bytes", "16384", "--calls", "60"];
    let job = ["--", mpiexec.as_str(), "-n", "4"];
    let said = links(&install, &folder, &[&calls[..], &job].concat());
    assert!(said.contains("60 calls of allreduce on 4 ranks in links.mica"), "{said}");
    assert!(said.contains("A call moves "), "the library's account: {said}");
    let header = header(&folder.join("links.mica"));
    let names: Vec<&str> = header["columns"]
        .as_array()
        .expect("columns")
        .iter()
        .map(|column| column["name"].as_str().expect("a name"))
        .collect();
    assert!(names.contains(&"rank_time:3") && names.contains(&"moved_bytes"), "{names:?}");
    // Every rank needs every operand: at least three of four parts come from others.
    let pairs = header["workloads"][0]["pairs"].as_array().expect("pairs");
    let bytes = |pair: &Value| pair[2].as_u64().expect("bytes");
    let moved: u64 = pairs.iter().map(bytes).sum();
    assert!(moved >= 4 * 16384 * 3 / 4, "{pairs:?}");
    let ranks = header["provenance"]["rank_chips"].as_array().expect("chips");
    assert_eq!(ranks.len(), 4);
    if has_numa_maps() {
        let maps = header["provenance"]["numa"]["rank_bytes"].as_array();
        assert_eq!(maps.expect("numa_maps").len(), 4);
    }
    let text = links(&install, &folder, &["analyze", "links.mica", "--resamples", "50"]);
    assert!(text.contains("allreduce of 16384 B on 4 ranks") && text.contains("A call moves "));
    if header["links"].as_array().expect("links").is_empty() {
        assert!(said.contains("one memory domain") && text.contains("no links between chips"));
    }
    links(&install, &folder, &["report", "links.mica", "--resamples", "50"]);
    let page = fs::read_to_string(folder.join("links.html")).expect("a page");
    assert!(page.contains("Beside the paper") && page.ends_with("</html>\n"));
    // The job's command and host, not those of the report.
    let origin = page.split("<p class=\"note origin\">").nth(1).expect("where it comes from");
    assert!(origin.contains("mpiexec -n 4 links. Channel: "), "{origin}");
}

/// The bytes of a call between each pair of ranks, by an observation of an allgather of 4,096 bytes
/// of each of 4 ranks, in a job with these variables.
fn bytes_of_an_allgather(name: &str, variables: &[&str]) -> Vec<(u64, u64, u64)> {
    let install = Install::find();
    let folder = folder(name);
    let mpiexec = install.bin("mpiexec").display().to_string();
    let run = "run --collective allgather --bytes 4096 --calls 50 -- env";
    let run: Vec<&str> = run.split(' ').collect();
    let job = [mpiexec.as_str(), "-n", "4"];
    let said = links(&install, &folder, &[&run[..], variables, &job].concat());
    assert!(said.contains("A call moves "), "{said}");
    let header = header(&folder.join("links.mica"));
    let pairs = header["workloads"][0]["pairs"].as_array().expect("pairs");
    let number = |pair: &Value, at: usize| pair[at].as_u64().expect("a number");
    pairs.iter().map(|pair| (number(pair, 0), number(pair, 1), number(pair, 2))).collect()
}

#[test]
fn the_account_has_collectives_by_messages() {
    let _cores = Cores::take(core_count());
    let pairs = bytes_of_an_allgather("messages", &["MICA_COLL=messages"]);
    // Whatever the algorithm: each rank gets three blocks, each once.
    let moved: u64 = pairs.iter().map(|pair| pair.2).sum();
    assert_eq!(moved, 4 * 3 * 4096, "{pairs:?}");
}

/// The number of calls of a function in a rank's account (`intranode/protocol/account.rs` has the
/// format).
fn accounted_calls(account: &[u8], function: &str) -> u64 {
    let line = account.iter().position(|byte| *byte == b'\n').expect("a line");
    let (line, records) = account.split_at(line + 1);
    let line = str::from_utf8(line).expect("text").trim_end();
    let mut names = line.split(' ').skip(2);
    let label = 1 + names.position(|name| name == function).expect("a label") as u64;
    let words = records.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
    let words: Vec<u64> = words.collect();
    let (mut calls, mut at) = (0, 0);
    while let Some([_, of, _, _, repeats, members]) = words.get(at..at + 6) {
        calls += if *of == label { *repeats } else { 0 };
        at += 6 + 3 * *members as usize;
    }
    calls
}

#[test]
fn pcontrol_stops_the_account() {
    let _cores = Cores::take(core_count());
    let install = Install::find();
    let folder = folder("pcontrol");
    let program = "#include <mpi.h>
        static double out[2048], in[2048];
        int main(void) {
            MPI_Init(0, 0);
            for (int i = 0; i < 7; i++) {
                MPI_Pcontrol(i % 3); /* 2 changes nothing: 1, 2, 4 and 5 are counted */
                MPI_Allreduce(out, in, 2048, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
            }
            MPI_Finalize();
        }";
    fs::write(folder.join("program.c"), program).expect("a file");
    let run = |mut command: Command| {
        let done = command.current_dir(&folder).output().expect("it starts");
        assert!(done.status.success(), "{done:?}");
    };
    let mut compile = Command::new(install.bin("mpicc"));
    compile.args(["-o", "program", "program.c"]);
    run(compile);
    let mut job = Command::new(install.bin("mpiexec"));
    job.args(["-n", "3", "./program"]).env("MICA_TRANSFER_ACCOUNT", "account");
    run(job);
    for rank in 0..3 {
        let account = fs::read(folder.join(format!("account.{rank}"))).expect("an account");
        assert_eq!(accounted_calls(&account, "MPI_Allreduce"), 4);
    }
}

#[test]
fn the_account_has_steps_within_nodes_and_messages_between_them() {
    let _cores = Cores::take(core_count());
    let nodes = ["MICA_VIRTUAL_NODES=2", "MICA_NET_PROVIDER=tcp", "MICA_NET_INTERFACE=lo"];
    let pairs = bytes_of_an_allgather("nodes", &nodes);
    let of = |is_meant: fn(u64, u64) -> bool| -> u64 {
        let meant = pairs.iter().filter(|pair| is_meant(pair.0, pair.1));
        meant.map(|pair| pair.2).sum()
    };
    // Each node gets the two blocks of the other one, at least once.
    assert!(of(|from, to| from < 2 && to >= 2) >= 2 * 4096, "{pairs:?}");
    assert!(of(|from, to| from >= 2 && to < 2) >= 2 * 4096, "{pairs:?}");
    // And each rank the block of the other rank of its node.
    assert!(of(|from, to| from < 2 && to < 2) >= 2 * 4096, "{pairs:?}");
    assert!(of(|from, to| from >= 2 && to >= 2) >= 2 * 4096, "{pairs:?}");
}

#[test]
fn run_reads_named_counters_around_each_call_or_says_why_not() {
    let _cores = Cores::take(core_count());
    let install = Install::find();
    let folder = folder("counters");
    // CPU time of the reading thread; the kernel's policy may refuse it.
    let output = Command::new(install.bin("mica"))
        .args(["links", "run", "--collective", "barrier", "--calls", "50"])
        .args(["--counter", "software/config=1/", "--background", "memory"])
        .current_dir(&folder)
        .output()
        .expect("mica runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        assert!(errors.contains("software/config=1/"), "{errors}");
        return;
    }
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("Background traffic: memory streams copied"), "{said}");
    let analyzed =
        links(&install, &folder, &["analyze", "links.mica", "--json", "--resamples", "20"]);
    let json: Value = serde_json::from_str(&analyzed).expect("JSON");
    let names = json["workloads"][0]["links"].as_array().expect("links");
    let at = names.iter().position(|name| name == "software/config=1/").expect("the counter");
    let loads = json["workloads"][0]["fast_loads"].as_array().expect("loads");
    let load = loads.iter().find(|load| load["link"] == at).expect("its load");
    // A barrier takes some of the thread's time.
    assert!(load["max"].as_f64().expect("a number") > 0.0, "{load}");
}

/// A schedule of 32 ranks in which rank r reads 64 KiB of rank r + 16's memory.
fn distant_pairs() -> String {
    let mut text = "collective bcast\nbytes 65536\npath direct\ncommand by hand\n".to_owned();
    for rank in 0..32 {
        text += &format!("rank {rank}\n");
        if rank < 16 {
            text += &format!("load {} 65536\n", rank + 16);
        }
    }
    text
}

#[test]
fn observations_place_ranks_and_the_model_confirms_it() {
    let _cores = Cores::take(core_count());
    let install = Install::find();
    let folder = folder("place");
    fs::write(folder.join("pairs.txt"), distant_pairs()).expect("written");
    let model = ["model", "x4600", "pairs.txt", "--background", "none", "--calls", "60"];
    links(&install, &folder, &model);
    let text = links(&install, &folder, &["analyze", "links.mica", "--resamples", "20"]);
    let advice = text.lines().find(|line| line.contains("--map-by profile:links.mica"));
    let advice = advice.unwrap_or_else(|| panic!("no advice: {text}"));
    assert!(advice.contains("moves 0 B between chips instead of 1 MiB"), "{advice}");
    // mpiexec does as advised, on a machine of that shape.
    let file = folder.join("links.mica");
    let map = format!("profile:{}", file.display());
    let job = install.mpiexec(["-n", "32", "-v", "--bind-to", "core", "--map-by", map.as_str()]);
    let out = job.env("MICA_TOPOLOGY_SYNTHETIC", "pack:8 l3:1 core:4 pu:1").args(["true"]).run();
    let package = |rank: u32| {
        let begin = format!("mpiexec: rank {rank}: ");
        let line = out.stderr.lines().find(|line| line.starts_with(&begin));
        let line = line.unwrap_or_else(|| panic!("{}", out.report()));
        let (_, rest) = line.split_once("package ").expect(line);
        rest.split([',', ' ']).next().expect("a number").to_owned()
    };
    for rank in 0..16 {
        assert_eq!(package(rank), package(rank + 16), "{}", out.report());
    }
    // And the model with ranks placed that way has nothing on its links.
    let said = links(&install, &folder, &[&model[..], &["--map"]].concat());
    assert!(said.contains("moves 0 B between chips, by default 1 MiB"), "{said}");
    let json = links(&install, &folder, &["analyze", "links.mica", "--json", "--resamples", "20"]);
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["origin"]["simulated"], "Sun Fire X4600 M2", "{}", json["origin"]);
    for load in json["workloads"][0]["fast_loads"].as_array().expect("loads") {
        assert_eq!(load["max"].as_f64(), Some(0.0), "{load}");
    }
}

#[test]
fn cost_measures_a_prediction_and_the_observer() {
    let _cores = Cores::take(core_count());
    let install = Install::find();
    let folder = folder("cost");
    let arguments = ["cost", "--json", "--observer", "2", "--calls", "300", "--bytes", "64"];
    let said = links(&install, &folder, &arguments);
    let json: Value = serde_json::from_str(&said).expect("JSON");
    assert!(json["decision_ns"].as_f64().expect("a number") > 0.0, "{said}");
    let observer = &json["observer"];
    assert_eq!(observer["jobs"], 2);
    for side in ["without_us", "with_us"] {
        assert!(observer[side].as_f64().expect("a number") > 0.0, "{said}");
    }
}

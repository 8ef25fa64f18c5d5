//! `mica sim run`: programs on simulated nodes give their results, in the same simulated time
//! whatever simulates them; and what cannot be simulated is refused in one line.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use mica_tests::{Install, Job, Outcome, target};
use serde_json::Value;

/// The emulator is there; says so if it is not.
fn can_emulate() -> bool {
    let found = Command::new("qemu-x86_64").arg("--version").output().is_ok();
    if !found {
        eprintln!("skipped: qemu-x86_64 is not there (Debian: qemu-user)");
    }
    found
}

/// `mica sim run` with these arguments, under mpiexec if there are several host ranks.
fn simulate(install: &Install, hosts: u32, arguments: &[&str]) -> Job {
    let mica = install.bin("mica");
    match hosts {
        1 => Job::new(mica).args(["sim", "run"]).args(arguments),
        _ => install
            .mpiexec(["-n", &hosts.to_string()])
            .args([mica.to_str().unwrap(), "sim", "run"])
            .args(arguments),
    }
}

/// A file for results.
fn json(name: &str) -> PathBuf {
    let folder = target().join("sim-tests");
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join(name);
    let _ = fs::remove_file(&file);
    file
}

fn read(file: &PathBuf) -> Value {
    serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
}

/// Runs the test program on `nodes` nodes and returns the results without the host's time.
fn run(install: &Install, hosts: u32, nodes: &str, options: &[&str], program: &[&str]) -> Value {
    let name = format!("{hosts}-{nodes}-{}.json", program.join("-").replace('/', "_"));
    let file = json(&name);
    let simulated = install.program("tools/simulated");
    let mut arguments = vec!["-n", nodes, "--json", file.to_str().unwrap()];
    arguments.extend(options);
    arguments.extend(["--", simulated.to_str().unwrap()]);
    arguments.extend(program);
    simulate(install, hosts, &arguments).run().expect_success();
    let mut results = read(&file);
    let members = results.as_object_mut().unwrap();
    members.remove("host_seconds");
    let origin = members.remove("origin").unwrap();
    assert_eq!(origin["simulated"], "power5-redstorm", "{origin}");
    results
}

#[test]
fn cycles_do_not_depend_on_what_simulates_them() {
    if !can_emulate() {
        return;
    }
    let install = Install::find();
    let ring = ["ring", "20000", "2"];
    let alone = run(&install, 1, "3", &["--policy", "message"], &ring);
    assert!(alone["end_ns"].as_f64().unwrap() > 0.0);
    let again = run(&install, 1, "3", &["--policy", "message"], &ring);
    assert_eq!(alone, again, "two runs");
    let shared = run(&install, 2, "3", &["--policy", "message"], &ring);
    assert_eq!(alone, shared, "one host rank and two");
}

#[test]
fn time_is_simulated() {
    if !can_emulate() {
        return;
    }
    let install = Install::find();
    let simulated = install.program("tools/simulated");
    let program = ["-n", "1", "--", simulated.to_str().unwrap(), "clock"];
    let said = simulate(&install, 1, &program).run().expect_success();
    assert!(said.stdout.contains("slept 20 20 ms in 2026"), "{}", said.report());
}

#[test]
fn region_is_simulated_in_detail_and_the_rest_counted() {
    if !can_emulate() {
        return;
    }
    let install = Install::find();
    let region = ["--region", "pcontrol"];
    let part = run(&install, 1, "2", &region, &["region", "4000", "2"]);
    let all = run(&install, 1, "2", &[], &["region", "4000", "3"]);
    let (inside, end) = (&part["region_ns"], &part["end_ns"]);
    assert!(inside.as_f64() > Some(0.0) && inside.as_f64() < end.as_f64());
    let loads = |results: &Value| results["counts"]["loads"].as_u64().unwrap();
    assert!(loads(&part) > 0 && loads(&part) < loads(&all) / 2);
}

#[test]
fn child_of_a_fork_is_not_simulated() {
    if !can_emulate() {
        return;
    }
    run(&Install::find(), 1, "2", &["--loose"], &["fork", "100", "2"]);
}

/// Fails, says this in one line that starts with the command's name, and leaves no process.
fn refused(outcome: Outcome, text: &str) {
    let outcome = outcome.expect_failure();
    let line = outcome.stderr.lines().find(|line| line.contains(text));
    let line = line.unwrap_or_else(|| panic!("nothing says {text:?}: {}", outcome.report()));
    assert!(line.starts_with("mica sim: "), "{line}");
}

#[test]
fn refuses_what_cannot_be_simulated_in_one_line() {
    let install = Install::find();
    let simulated = install.program("tools/simulated");
    let program = simulated.to_str().unwrap();
    let refuse = |arguments: &[&str], text: &str| {
        refused(simulate(&install, 1, arguments).run(), text);
    };
    refuse(&["--machine", "nowhere.toml", "--", program], "nowhere.toml");
    refuse(&["--set", "caches.l1d.ways=0", "--", program], "ways");
    let outcome = simulate(&install, 1, &["--policy", "wishful", "--", program]).run();
    assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.report());
    refused(outcome, "wishful");
    refuse(&["--", "no-such-program"], "no-such-program");
    refuse(&["--quantum", "0", "--", program], "quantum");
    if !can_emulate() {
        return;
    }
    refuse(&["--", "/work"], "/work");
    let folder = target().join("sim-tests");
    fs::create_dir_all(&folder).unwrap();
    let source = folder.join("empty.c");
    fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    let compile = |name: &str, options: &[&str]| {
        let file = folder.join(name);
        let done = Command::new("cc").args(options).arg("-o").arg(&file).arg(&source).status();
        assert!(done.unwrap().success());
        file
    };
    let fixed = compile("static", &["-static"]);
    refuse(&["--", fixed.to_str().unwrap()], "statically linked");
    // A library of another ABI, as far as a program's head tells.
    let library = folder.join("libmpi.so");
    let made = Command::new("cc")
        .args(["-shared", "-Wl,-soname,libmpi.so.12", "-o"])
        .arg(&library)
        .arg(&source)
        .status();
    assert!(made.unwrap().success());
    let folder_option = format!("-L{}", folder.display());
    let foreign = compile("foreign", &["-Wl,--no-as-needed", &folder_option, "-lmpi"]);
    refuse(&["--", foreign.to_str().unwrap()], "libmpi.so.12");
    let pathless = simulate(&install, 1, &["--", program]).env("PATH", "/nonexistent");
    refused(pathless.run(), "qemu-x86_64");
    // A script has no emulator of its own.
    let script = folder.join("script");
    fs::write(&script, "#!/bin/sh\n").unwrap();
    refuse(&["--", script.to_str().unwrap()], "script");
}

#[test]
fn programs_that_cannot_go_on_end_the_simulation() {
    if !can_emulate() {
        return;
    }
    let install = Install::find();
    let simulated = install.program("tools/simulated");
    let program = simulated.to_str().unwrap();
    for (what, text, status) in [
        ("deadlock", "nodes 0, 1, 2 wait", 1),
        ("thread", "second thread", 1),
        ("die", "node 1: its process ended", 128 + 9),
        ("abort", "the program of node 1 ended with status 3", 3),
        ("exit", "the program of node 1 ended with status 4", 4),
    ] {
        for hosts in [1, 2] {
            let arguments = ["-n", "3", "--loose", "--", program, what];
            let outcome = simulate(&install, hosts, &arguments).run();
            assert_eq!(outcome.code(), status, "{what}: {}", outcome.report());
            let is_deadlock = outcome.stderr.contains("deadlock");
            assert_eq!(is_deadlock, what == "deadlock", "{}", outcome.report());
            refused(outcome, text);
        }
    }
}

#[test]
fn region_that_is_never_entered_is_an_error() {
    if !can_emulate() {
        return;
    }
    let install = Install::find();
    let simulated = install.program("tools/simulated");
    let program = simulated.to_str().unwrap();
    for (region, text) in [
        ("pcontrol", "did not call MPI_Pcontrol(1)"),
        ("no_such_function:main", "no call of no_such_function was seen"),
        ("main:2-3", "fewer than 2 calls of main were seen"),
    ] {
        let arguments = ["-n", "1", "--region", region, "--", program, "clock"];
        refused(simulate(&install, 1, &arguments).run(), text);
    }
}

/// A library of the standard ABI's name that is not Mica's.
fn other_library(folder: &Path) -> PathBuf {
    let source = folder.join("other.c");
    let text = "#include <stdlib.h>\n\
        int MPI_Init(int *c, char ***v) { exit(42); }\nint MPI_Finalize(void) { return 1; }\n";
    fs::write(&source, text).unwrap();
    let library = folder.join("libmpi_abi.so.1");
    let made = Command::new("cc")
        .args(["-shared", "-fPIC", "-Wl,-soname,libmpi_abi.so.1", "-o"])
        .args([&library, &source])
        .status();
    assert!(made.unwrap().success());
    library
}

#[test]
fn library_of_this_installation_is_simulated_whatever_the_program_names() {
    if !can_emulate() {
        return;
    }
    let install = Install::find();
    let folder = target().join("sim-tests/other");
    fs::create_dir_all(&folder).unwrap();
    let library = other_library(&folder);
    let source = folder.join("program.c");
    let text = "int MPI_Init(int *c, char ***v);\nint MPI_Finalize(void);\n\
        int main(void) { return MPI_Init(0, 0) + MPI_Finalize(); }\n";
    fs::write(&source, text).unwrap();
    let compile = |name: &str, tags: &str| {
        let file = folder.join(name);
        let rpath = format!("-Wl,{tags},-rpath,{}", folder.display());
        let mut cc = Command::new("cc");
        cc.args([&source, &library]).args([&rpath, "-o"]).arg(&file);
        assert!(cc.status().unwrap().success());
        file
    };
    let with_runpath = compile("runpath", "--enable-new-dtags");
    let program = ["-n", "2", "--", with_runpath.to_str().unwrap()];
    simulate(&install, 1, &program).run().expect_success();
    let with_rpath = compile("rpath", "--disable-new-dtags");
    let outcome = simulate(&install, 1, &["--", with_rpath.to_str().unwrap()]).run();
    refused(outcome, "its RPATH loads");
}

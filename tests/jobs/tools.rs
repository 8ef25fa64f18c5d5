//! `mica doctor` with refused system calls, its report of a bug, `mica version`, and valgrind with
//! the installed suppressions.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use mica_tests::{Cores, Install, core_count, target};

/// `mica doctor ARGUMENTS`, without the environment variables that the doctor reports on.
fn doctor(install: &Install, before: &[&str], arguments: &[&str]) -> Command {
    let mica = install.bin("mica");
    let (program, first) = match before {
        [] => (mica.as_os_str(), &[][..]),
        [program, first @ ..] => (program.as_ref(), first),
    };
    let mut command = Command::new(program);
    command.args(first);
    if !before.is_empty() {
        command.arg(&mica);
    }
    for (name, _) in std::env::vars_os() {
        let name_text = name.to_string_lossy();
        if ["MICA_", "PMI", "LD_LIBRARY"].iter().any(|start| name_text.starts_with(start)) {
            command.env_remove(&name);
        }
    }
    let path = std::env::var("PATH").unwrap_or_default();
    let bin = install.prefix().join("bin");
    command.env("PATH", format!("{}:{path}", bin.display()));
    command.arg("doctor").args(arguments);
    command
}

/// Runs a command; returns its exit status and what it printed.
fn run(mut command: Command) -> (Option<i32>, String) {
    let output = command.output().expect("mica is installed");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.code(), text + &String::from_utf8_lossy(&output.stderr))
}

/// Checks that the doctor finds more with a hindering change than it finds on this machine anyway.
fn finds(install: &Install, command: Command, words: &[&str]) {
    let (_, before) = run(doctor(install, &[], &[]));
    let (status, text) = run(command);
    assert_eq!(status, Some(1), "{text}");
    for word in words {
        assert!(text.contains(word), "no {word:?} in:\n{text}");
        assert!(!before.contains(word), "{word:?} without the change:\n{before}");
    }
    assert!(text.contains("remedy: "), "{text}");
}

fn mica() -> Option<Install> {
    let install = Install::find();
    if install.is_mica() {
        return Some(install);
    }
    println!("skipped: {} is not Mica", install.prefix().display());
    None
}

#[test]
fn exit_status_reports_findings() {
    let Some(install) = mica() else { return };
    let (status, text) = run(doctor(&install, &[], &["--all"]));
    let healthy = text.contains("Nothing hinders MPI here");
    assert_eq!(status, Some(i32::from(!healthy)), "{text}");
    assert_eq!(text.lines().any(|line| line == "Hinders"), !healthy, "{text}");
    assert!(text.contains("installation   libmpi_abi.so.1 lies beside this command"), "{text}");

    let (status, text) = run(doctor(&install, &[], &["--json"]));
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(json["healthy"], status == Some(0));
    for part in ["host", "command", "date", "mica", "channel"] {
        assert!(json["origin"][part].is_string(), "where it comes from, {part}: {text}");
    }
    let findings = json["findings"].as_array().expect("a list");
    assert!(
        findings.iter().all(|finding| finding["check"].is_string() && finding["found"].is_string())
    );
}

#[test]
fn refusals_of_the_kernel_are_found() {
    let Some(install) = mica() else { return };
    let _cores = Cores::take(core_count());
    let nocma = install.program("tools/nocma");
    let nocma = nocma.to_str().expect("a path");
    finds(&install, doctor(&install, &[nocma], &[]), &["process_vm_readv", "copied twice"]);
}

#[test]
fn limits_are_found() {
    let Some(install) = mica() else { return };
    for (limit, word) in [
        ("ulimit -f 0", "files may have 0 B"),
        ("ulimit -v 3000000", "a process may map 2.9 GiB at most: too little"),
        ("ulimit -n 100", "100 descriptors open"),
    ] {
        let script = format!("{limit}; exec \"$0\" \"$@\"");
        finds(&install, doctor(&install, &["sh", "-c", &script], &[]), &[word]);
    }
}

#[test]
fn doctor_checks_environment_variables() {
    let Some(install) = mica() else { return };
    let with = |name: &str, value: &str| {
        let mut command = doctor(&install, &[], &[]);
        command.env(name, value);
        command
    };
    let misspelt = "MICA_EAGERMAX: Mica has no variable of this name; is MICA_EAGER_MAX meant?";
    finds(&install, with("MICA_EAGERMAX", "1"), &[misspelt]);
    finds(&install, with("MICA_SPIN", "lots"), &["MICA_SPIN=lots"]);
    finds(&install, with("PMI_RANK", "0"), &["takes itself for a rank", "unset PMI_RANK"]);
    finds(&install, with("MICA_TUNING", "/no/such/file"), &["/no/such/file"]);

    let other = target().join(format!("doctor-{}", std::process::id()));
    fs::create_dir_all(&other).expect("target is writable");
    let mpiexec = other.join("mpiexec");
    fs::write(&mpiexec, "#!/bin/sh\n").expect("target is writable");
    fs::set_permissions(&mpiexec, fs::Permissions::from_mode(0o755)).expect("own file");
    fs::write(other.join("libmpi_abi.so.1"), "").expect("target is writable");
    let folder = other.to_str().expect("a path");
    let path = format!("{folder}:{}", std::env::var("PATH").unwrap_or_default());
    finds(&install, with("PATH", &path), &["not this installation's", "export PATH="]);
    finds(&install, with("LD_LIBRARY_PATH", folder), &["another libmpi_abi.so.1"]);
    fs::remove_dir_all(&other).expect("own folder");
}

/// A report goes to people whom its sender does not know: nothing in it says who that is, and no
/// value of the environment is there that might be a secret.
#[test]
fn the_report_of_a_bug_has_settings_and_no_secrets() {
    let Some(install) = mica() else { return };
    let file = target().join(format!("report-{}.json", std::process::id()));
    let report = |arguments: &[&str]| {
        let mut command = doctor(&install, &[], &[&["--report"], arguments].concat());
        command.env("HOME", "/home/zaphod").env("USER", "beeblebrox").env("HOSTNAME", "magrathea");
        command.env("MICA_TUNING", "/home/zaphod/costs.toml").env("MICA_SPIN", "4321");
        command.env("MICA_NET_LIBRARY", "/data/beeblebrox/on.magrathea/libfabric.so.1");
        for name in ["AWS_SECRET_ACCESS_KEY", "SLURM_JWT", "MICA_LAUNCH_INFO", "MICA_SPINN"] {
            command.env(name, "slartibartfast");
        }
        run(command)
    };
    let (status, text) = report(&[]);
    assert_eq!(status, Some(0), "{text}");
    for secret in ["zaphod", "beeblebrox", "magrathea", "slartibartfast", "AWS_"] {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let settings = &json["environment"]["settings"];
    assert_eq!(settings["MICA_SPIN"], "4321");
    assert_eq!(settings["MICA_TUNING"], "<home>/costs.toml");
    assert_eq!(settings["MICA_NET_LIBRARY"], "/data/<user>/on.<host>/libfabric.so.1");
    let names = json["environment"]["names"].as_array().expect("a list");
    for name in ["SLURM_JWT", "MICA_LAUNCH_INFO", "MICA_SPINN"] {
        assert!(names.iter().any(|known| known == name), "{name}: {text}");
    }
    assert_eq!(json["origin"]["host"], "<host>");
    assert_eq!(json["info"]["machine"]["host"], "<host>");
    for part in ["/version/commit", "/info/channels", "/info/tunables", "/doctor/findings"] {
        assert!(json.pointer(part).is_some(), "{part}: {text}");
    }
    for part in ["/system/libc", "/system/limits", "/system/kernel", "/system/status/Seccomp"] {
        assert!(json.pointer(part).is_some(), "{part}: {text}");
    }

    let (status, said) = report(&[file.to_str().expect("UTF-8")]);
    assert_eq!(status, Some(0), "{said}");
    assert!(said.starts_with("The report is in "), "{said}");
    let written = fs::read_to_string(&file).expect("the report");
    fs::remove_file(&file).expect("own file");
    let written: serde_json::Value = serde_json::from_str(&written).expect("JSON");
    assert_eq!(written["environment"], json["environment"]);
    let (status, said) = report(&["/no/such/folder/report.json"]);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("cannot write the report to /no/such/folder/report.json"), "{said}");
}

#[test]
fn version_prints_library_and_build() {
    let Some(install) = mica() else { return };
    let output = Command::new(install.bin("mica")).arg("version").output().expect("mica");
    let text = String::from_utf8(output.stdout).expect("text");
    let library = install.prefix().canonicalize().expect("there").join("lib/libmpi_abi.so.1");
    assert!(text.contains(&library.display().to_string()), "{text}");
    let is_dev = std::env::var("MICA_COMMANDS_PROFILE").is_ok_and(|profile| profile == "dev");
    let build = if is_dev { "debug, " } else { "release, " };
    let value = |name: &str| {
        let mut values = text.lines().filter_map(|line| line.trim_start().strip_prefix(name));
        values.next().unwrap_or_else(|| panic!("{name}: {text}")).trim_start()
    };
    assert!(text.starts_with("Mica ") && value("standard") == "MPI 5.0", "{text}");
    assert!(value("build").starts_with(build) && !value("commit").is_empty(), "{text}");
    let front_ends = "libmpi_abi.so.1 (the ABI of MPI 5.0), libmpi.so.12 (the ABI of MPICH)";
    assert_eq!(value("front ends"), front_ends);
    assert!(value("hwloc").starts_with("2.") && value("fault tolerance") == "no", "{text}");
}

/// Memory that the library keeps until the process ends is not reported as lost.
#[test]
fn valgrind_reports_nothing_lost() {
    let Some(install) = mica() else { return };
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("skipped: there is no valgrind");
        return;
    }
    let _cores = Cores::take(core_count());
    let suppressions = install.prefix().join("share/mica/mica.supp");
    let leaks = |suppressions: &[String]| {
        let job = install.mpiexec(["-n", "2", "valgrind", "-q", "--leak-check=full"]);
        let job = job.args(["--errors-for-leak-kinds=definite,possible", "--error-exitcode=9"]);
        job.args(suppressions).args([install.job()]).args(["hello"]).run()
    };
    let with = leaks(&[format!("--suppressions={}", suppressions.display())]);
    let with = with.expect_success();
    assert_eq!(with.stderr, "", "{}", with.report());
    assert_eq!(leaks(&[]).code(), 9, "the suppressions are of no use any more");
}

//! Every command that README.md and the pages for users show in a block of its own is run as it
//! stands there, on a described machine with cores enough, and hosts that are virtual nodes. A
//! command that cannot run here is in [`ELSEWHERE`] with the reason; one that is in neither fails.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use mica_tests::{Install, Job, target, workspace};

const PAGES: [&str; 4] =
    ["README.md", "docs/guide.md", "docs/coming-from.md", "docs/troubleshooting.md"];

/// How commands begin that are not run here, and what shows them instead.
const ELSEWHERE: [(&str, &str); 6] = [
    ("make run", "the run itself is too long for a test"),
    ("make test", "this is a part of it"),
    ("make install", "`make test` installs in this way, into target/dist"),
    ("torchrun", "it would need PyTorch; scripts/torchrun.sh runs it"),
    ("srun", "it would need PyTorch; tests/jobs/foreign.rs starts ranks by srun"),
    ("pip install", "it would need PyPI; tests/jobs/mpich.rs runs what it brings"),
];

/// What the installation is called in the pages.
const PREFIX: &str = "/opt/mica";

/// A machine with the processors that the commands name.
const MACHINE: &str = "numa:2 pack:1 core:8 pu:1";

/// A line of a block: the page, and the command without its remark.
struct Shown {
    page: &'static str,
    command: String,
}

/// The commands of a page: lines that are set off by four blanks after an empty line, in blocks
/// that are not the output of one.
fn commands(page: &'static str) -> Vec<Shown> {
    let text = fs::read_to_string(workspace().join(page)).expect("a page");
    let mut found = Vec::new();
    let mut is_block = false;
    let mut is_after_empty = true;
    for line in text.lines() {
        let set_off = line.strip_prefix("    ").filter(|rest| !rest.starts_with(' '));
        is_block = match set_off {
            Some(rest) if is_after_empty => !rest.starts_with("mpiexec:"),
            Some(_) => is_block,
            None => false,
        };
        if let Some(rest) = set_off.filter(|_| is_block) {
            let command = rest.split("  #").next().unwrap_or_default().trim();
            found.push(Shown { page, command: command.to_owned() });
        }
        is_after_empty = line.trim().is_empty();
    }
    found
}

/// A folder with the files that the commands name.
fn folder(install: &Install) -> std::path::PathBuf {
    let folder = target().join("commands");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("target is writable");
    let example = |name: &str| workspace().join("examples").join(name);
    fs::create_dir(folder.join("examples")).expect("a folder");
    for (name, from) in [("program.c", "hello.c"), ("examples/hello.c", "hello.c")] {
        fs::copy(example(from), folder.join(name)).expect("an example");
    }
    for name in ["hybrid", "solve"] {
        let mut compiler = Command::new(install.bin("mpicc"));
        let done = compiler.args(["-O2", "-o", name]).arg(example("hello.c")).current_dir(&folder);
        assert!(done.status().expect("mpicc runs").success());
    }
    fs::write(folder.join("hosts"), "n1\nn2:4\nn3 slots=4\n").expect("a file");
    folder
}

fn run(shown: &Shown, folder: &Path, variables: &BTreeMap<String, String>) {
    let job = Job::new("/bin/sh").args(["-ec", &shown.command]).dir(folder).cores(2);
    let job = variables.iter().fold(job, |job, (name, value)| job.env(name, value));
    let outcome = job.run();
    assert!(
        !outcome.hung() && outcome.code() == 0,
        "{}: `{}`\n{}",
        shown.page,
        shown.command,
        outcome.report()
    );
}

#[test]
fn every_command_of_the_pages_runs() {
    let install = Install::find();
    if !install.is_mica() {
        println!("skipped: the pages are of Mica");
        return;
    }
    let folder = folder(&install);
    let path = std::env::var("PATH").unwrap_or_default();
    let python = target().join("venv/bin");
    let path = format!("{}:{}:{path}", install.bin("").display(), python.display());
    let mut variables: BTreeMap<String, String> = [
        ("PATH", path.as_str()),
        ("MICA_TOPOLOGY_SYNTHETIC", MACHINE),
        // Hosts are virtual nodes of this machine.
        ("HYDRA_LAUNCHER", "fork"),
        ("MICA_NET_PROVIDER", "tcp"),
        ("MICA_NET_INTERFACE", "lo"),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .collect();
    let profiled = "mica profile -- mpiexec -n 8 ./solve";
    run(&Shown { page: "docs/guide.md", command: profiled.to_owned() }, &folder, &variables);
    let mut ran = 0;
    for mut shown in PAGES.into_iter().flat_map(commands) {
        shown.command = shown.command.replace(PREFIX, &install.prefix().display().to_string());
        if ELSEWHERE.iter().any(|(start, _)| shown.command.starts_with(start)) {
            continue;
        }
        match shown.command.strip_prefix("export ").and_then(|set| set.split_once('=')) {
            Some((name, value)) => {
                variables.insert(name.to_owned(), value.to_owned());
            }
            None => run(&shown, &folder, &variables),
        }
        ran += 1;
    }
    // The pages have more; fewer would mean that their blocks are not found any more.
    assert!(ran >= 15, "only {ran} commands are shown");
}

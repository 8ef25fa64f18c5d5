//! The Python wheel of this installation (`scripts/wheel.py`; `make wheel` packs another build, and
//! `make wheel-test` shows that one at work): what pip makes of it, and what is found from there.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use mica_tests::{Install, Job, python, target, workspace};

use crate::mpich::{self, output};

/// A folder that pip has installed the wheel into, as the root of an environment. It is removed
/// with the value.
struct WheelEnvironment(PathBuf);

impl WheelEnvironment {
    fn new(install: &Install) -> WheelEnvironment {
        let folder = target().join(format!("wheel-test-{}", std::process::id()));
        let environment = WheelEnvironment(folder);
        let packed = environment.0.join("packed");
        // Not compressed, which takes longer than all else.
        let wheel = output(
            Command::new(python())
                .arg(workspace().join("scripts/wheel.py"))
                .arg(install.prefix())
                .args(["--tag", "py3-none-any", "--level", "0", "--output"])
                .arg(&packed),
        );
        output(
            Command::new(python())
                .args(["-m", "pip", "install", "--no-index", "--no-deps", "--prefix"])
                .arg(&environment.0)
                .arg(wheel.trim_end()),
        );
        fs::remove_dir_all(&packed).expect("own folder");
        environment
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Its files, as paths from its root.
    fn files(&self) -> BTreeSet<PathBuf> {
        let mut files = BTreeSet::new();
        let mut folders = vec![self.0.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("own folder") {
                let path = entry.expect("own folder").path();
                match path.is_dir() {
                    true => folders.push(path),
                    false => drop(files.insert(path.strip_prefix(&self.0).unwrap().to_owned())),
                }
            }
        }
        files
    }
}

impl Drop for WheelEnvironment {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What pip removes again: the files of the package's list.
fn recorded(environment: &WheelEnvironment) -> BTreeSet<PathBuf> {
    let is_list = |path: &&PathBuf| path.ends_with("RECORD");
    let files = environment.files();
    let list = files.iter().find(is_list).expect("pip keeps the package's list");
    let packages = list.parent().and_then(Path::parent).expect("site-packages");
    let text = fs::read_to_string(environment.0.join(list)).expect("a text");
    let names = text.lines().filter_map(|line| line.split(',').next());
    let named = |name: &str| {
        let mut path = packages.to_owned();
        for part in Path::new(name) {
            match part == ".." {
                true => drop(path.pop()),
                false => path.push(part),
            }
        }
        path
    };
    names.map(named).collect()
}

#[test]
fn the_wheel_is_an_installation_in_an_environment() {
    let install = Install::find();
    if !install.is_mica() {
        println!("skipped: {} is not Mica", install.prefix().display());
        return;
    }
    let environment = WheelEnvironment::new(&install);
    assert_eq!(environment.files(), recorded(&environment));

    // Compiled by its wrapper, and by a compiler that looks where any library is looked for.
    let hello = workspace().join("examples/hello.c");
    let (wrapped, linked) = (environment.path("wrapped"), environment.path("linked"));
    output(Command::new(environment.path("bin/mpicc")).arg("-o").args([&wrapped, &hello]));
    let lib = environment.path("lib");
    output(
        Command::new("cc")
            .arg(format!("-I{}", environment.path("include").display()))
            .arg("-o")
            .args([&linked, &hello])
            .arg(format!("-L{}", lib.display()))
            .args([format!("-Wl,-rpath,{}", lib.display()), "-lmpi_abi".to_owned()]),
    );
    for (command, program) in [("mpiexec", &wrapped), ("mpirun", &linked)] {
        let job = Job::new(environment.path("bin").join(command)).args(["-n", "2"]);
        let out = job.args([program]).run().expect_success();
        assert_eq!(out.stdout.matches(" of 2 on ").count(), 2, "{}", out.report());
    }

    // mpi4py of PyPI, which looks for MPICH's library in `lib`.
    let library = lib.join("libmpi.so.12").display().to_string();
    let script = "from mpi4py import MPI; print(MPI.Get_library_version())";
    let job = Job::new(environment.path("bin/mpiexec")).args(["-n", "2"]);
    let job = job.args([mpich::wheel()]).args(["-c", script]).env("MPI4PY_LIBMPI", &library);
    let out = job.run().expect_success();
    assert_eq!(out.stdout.matches("Mica ").count(), 2, "{}", out.report());

    // The doctor knows that the environment's files lead to its own.
    let path = env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", environment.path("bin").display());
    let mut doctor = Command::new(environment.path("bin/mica"));
    doctor.args(["doctor", "--all"]).env("PATH", path).env("LD_LIBRARY_PATH", &lib);
    let text = String::from_utf8(doctor.output().expect("mica").stdout).expect("text");
    assert!(text.contains("mpiexec and mpicc in PATH are this installation's"), "{text}");
    assert!(text.contains("LD_LIBRARY_PATH leads to no other MPI"), "{text}");
}

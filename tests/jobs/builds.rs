//! Build systems find Mica when its `bin` is in PATH, and nothing else is set: CMake's FindMPI,
//! meson's `dependency('mpi')`, AX_MPI of autoconf-archive; pkg-config finds it by the names of the
//! standard. `tests/builds` has a program in C and C++ with a description for each of them.

use std::fs;
use std::path::{Path, PathBuf};

use mica_tests::{Install, Job, Outcome, target, try_python_environment, workspace};

use crate::surroundings::works;

/// A copy of the program, and the commands of the system with Mica's before them.
struct Project {
    folder: PathBuf,
    path: String,
}

impl Project {
    fn new(name: &str) -> Project {
        let folder = target().join("tests-c/builds").join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("target is writable");
        for entry in fs::read_dir(workspace().join("tests/builds")).expect("the program") {
            let file = entry.expect("a file").path();
            fs::copy(&file, folder.join(file.file_name().expect("a name"))).expect("a copy");
        }
        let bin = Install::find().prefix().join("bin");
        Project { folder, path: format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display()) }
    }

    /// Adds a folder of commands behind the others.
    fn with(mut self, folder: &Path) -> Project {
        self.path += &format!(":{}", folder.display());
        self
    }

    /// Runs a command in an environment that names nothing but where commands are.
    fn run(&self, command: &[&str]) -> Outcome {
        let job = Job::new("env").args(["-i", &format!("PATH={}", self.path), "LANG=C.UTF-8"]);
        job.args(command).dir(&self.folder).run().expect_success()
    }

    /// What pkg-config says of a package.
    fn package(&self, name: &str, question: &str) -> String {
        let folder = Install::find().prefix().join("lib/pkgconfig");
        let path = format!("PKG_CONFIG_PATH={}", folder.display());
        self.run(&["env", &path, "pkg-config", question, name]).stdout.trim().to_owned()
    }
}

/// The programs ran: each wrote a line.
fn expect_sums(out: &Outcome) {
    let sums = out.stdout.lines().filter(|line| line.contains("3 ranks, sum 3, Mica "));
    assert_eq!(sums.count(), 2, "{}", out.report());
}

#[test]
fn cmake_finds_it() {
    if !works(&["cmake", "--version"]) {
        return;
    }
    let project = Project::new("cmake");
    project.run(&["cmake", "-S", ".", "-B", "build"]);
    project.run(&["cmake", "--build", "build"]);
    let out = project.run(&["ctest", "--test-dir", "build", "--verbose"]);
    expect_sums(&out);
}

#[test]
fn meson_finds_it() {
    let environment = match try_python_environment("meson", "meson==1.12.1 ninja==1.13.2") {
        Ok(environment) => environment,
        Err(why) => return println!("skipped: meson cannot be had: {why}"),
    };
    let project = Project::new("meson").with(&environment.join("bin"));
    project.run(&["meson", "setup", "build"]);
    let out = project.run(&["meson", "test", "-C", "build", "--verbose"]);
    expect_sums(&out);
}

#[test]
fn autoconf_finds_it() {
    const MACROS: &str = "/usr/share/aclocal";
    if !works(&["autoconf", "--version"]) {
        return;
    }
    if !Path::new(MACROS).join("ax_mpi.m4").exists() {
        return println!("skipped: {MACROS} has no ax_mpi.m4 (Debian: autoconf-archive)");
    }
    let project = Project::new("autoconf");
    project.run(&["autoconf", "--include", MACROS]);
    project.run(&["./configure"]);
    expect_sums(&project.run(&["make", "check"]));
}

#[test]
fn pkg_config_finds_it() {
    if !works(&["pkg-config", "--version"]) {
        return;
    }
    let project = Project::new("pkg-config");
    for name in ["mpi", "mpi-c", "mpi-cxx", "mpi_abi", "mica"] {
        let flags = project.package(name, "--cflags") + " " + &project.package(name, "--libs");
        let source = if name == "mpi-cxx" { "c++ sum.cc" } else { "cc sum.c" };
        let command: Vec<&str> = source.split(' ').chain(flags.split_whitespace()).collect();
        project.run(&[&command[..], &["-o", name]].concat());
        let out = project.run(&["mpiexec", "-n", "3", &format!("./{name}")]);
        assert!(out.stdout.contains("3 ranks, sum 3, Mica "), "{}", out.report());
    }
    let of_mica = project.package("mica", "--modversion");
    let version = project.run(&["mpiexec", "--version"]);
    assert!(version.stdout.contains(&of_mica), "{of_mica}: {}", version.report());
    assert_eq!(project.package("mpi-c", "--modversion"), "5.0");
}

/// The wrappers under the names by which MPICH and Debian tell MPIs apart.
#[test]
fn wrappers_have_the_names_of_others() {
    let project = Project::new("names");
    for (wrapper, source) in [
        ("mpicc_abi", "sum.c"),
        ("mpicxx_abi", "sum.cc"),
        ("mpicc.mica", "sum.c"),
        ("mpicxx.mica", "sum.cc"),
    ] {
        project.run(&[wrapper, source, "-o", wrapper]);
        for launcher in ["mpiexec.mica", "mpirun.mica"] {
            project.run(&[launcher, "-n", "3", &format!("./{wrapper}")]);
        }
    }
}

//! Build systems find Mica when its `bin` is in PATH, and nothing else is set: CMake's FindMPI,
//! meson's `dependency('mpi')`, AX_MPI of autoconf-archive; pkg-config finds it by the names of the
//! standard. `tests/builds` has a program in C and C++ with a description for each of them, and
//! `tests/builds/fortran` one by each of Fortran's interfaces.

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
        Project::of("tests/builds", name)
    }

    /// The programs in Fortran; none, if there is no such compiler.
    fn in_fortran(name: &str, compiler: &str) -> Option<Project> {
        let name = format!("fortran-{name}");
        works(&[compiler, "--version"]).then(|| Project::of("tests/builds/fortran", &name))
    }

    fn of(source: &str, name: &str) -> Project {
        let folder = target().join("tests-c/builds").join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("target is writable");
        let entries = fs::read_dir(workspace().join(source)).expect("the program").flatten();
        for file in entries.map(|entry| entry.path()).filter(|path| path.is_file()) {
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
fn expect_sums(out: &Outcome, programs: usize) {
    let sums = out.stdout.lines().filter(|line| line.contains("3 ranks, sum 3, Mica "));
    assert_eq!(sums.count(), programs, "{}", out.report());
}

/// meson, or why there is none.
fn meson() -> Option<PathBuf> {
    let environment = try_python_environment("meson", "meson==1.12.1 ninja==1.13.2");
    let environment = environment.map_err(|why| println!("skipped: meson cannot be had: {why}"));
    environment.ok().map(|environment| environment.join("bin"))
}

/// Whether autoconf and its macros for MPI are there.
fn has_autoconf() -> bool {
    let is_there = Path::new(MACROS).join("ax_mpi.m4").exists();
    if !is_there {
        println!("skipped: {MACROS} has no ax_mpi.m4 (Debian: autoconf-archive)");
    }
    is_there && works(&["autoconf", "--version"])
}

const MACROS: &str = "/usr/share/aclocal";

#[test]
fn cmake_finds_it() {
    if !works(&["cmake", "--version"]) {
        return;
    }
    let project = Project::new("cmake");
    project.run(&["cmake", "-S", ".", "-B", "build"]);
    project.run(&["cmake", "--build", "build"]);
    let out = project.run(&["ctest", "--test-dir", "build", "--verbose"]);
    expect_sums(&out, 2);
}

#[test]
fn meson_finds_it() {
    let Some(meson) = meson() else { return };
    let project = Project::new("meson").with(&meson);
    project.run(&["meson", "setup", "build"]);
    let out = project.run(&["meson", "test", "-C", "build", "--verbose"]);
    expect_sums(&out, 2);
}

#[test]
fn autoconf_finds_it() {
    if !has_autoconf() {
        return;
    }
    let project = Project::new("autoconf");
    project.run(&["autoconf", "--include", MACROS]);
    project.run(&["./configure"]);
    expect_sums(&project.run(&["make", "check"]), 2);
}

/// With any compiler that CMake is told to use: it names that to the wrapper.
#[test]
fn cmake_finds_fortran() {
    if !works(&["cmake", "--version"]) {
        return;
    }
    for compiler in ["gfortran", "gfortran-11", "flang-new-19", "mpifort"] {
        let needed = if compiler == "mpifort" { "gfortran" } else { compiler };
        let Some(project) = Project::in_fortran(compiler, needed) else { continue };
        let variable = format!("FC={compiler}");
        project.run(&["env", &variable, "cmake", "-S", ".", "-B", "build"]);
        project.run(&["cmake", "--build", "build"]);
        let out = project.run(&["ctest", "--test-dir", "build", "--verbose"]);
        expect_sums(&out, 3);
    }
}

#[test]
fn meson_finds_fortran() {
    let Some(meson) = meson() else { return };
    let Some(project) = Project::in_fortran("meson", "gfortran") else { return };
    let project = project.with(&meson);
    project.run(&["meson", "setup", "build"]);
    let out = project.run(&["meson", "test", "-C", "build", "--verbose"]);
    expect_sums(&out, 3);
}

#[test]
fn autoconf_finds_fortran() {
    if !has_autoconf() {
        return;
    }
    let Some(project) = Project::in_fortran("autoconf", "gfortran") else { return };
    project.run(&["autoconf", "--include", MACROS]);
    project.run(&["./configure"]);
    expect_sums(&project.run(&["make", "check"]), 3);
}

/// It knows `mpif.h`, but no compiler's modules.
#[test]
fn pkg_config_finds_fortran() {
    if !works(&["pkg-config", "--version"]) {
        return;
    }
    let Some(project) = Project::in_fortran("pkg-config", "gfortran") else { return };
    let flags =
        project.package("mpi-fort", "--cflags") + " " + &project.package("mpi-fort", "--libs");
    let command = ["gfortran", "sum_mpif.f", "-o", "sum"].into_iter();
    project.run(&command.chain(flags.split_whitespace()).collect::<Vec<_>>());
    expect_sums(&project.run(&["mpiexec", "-n", "3", "./sum"]), 1);
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

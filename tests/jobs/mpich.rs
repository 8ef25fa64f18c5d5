//! Programs of MPICH's ABI on Mica's `libmpi.so.12`: its names, launchers of others, parts of one
//! process that were built for different ABIs, and the mpi4py that `pip install` brings. The
//! programs of `tests/c` have a pass of their own (`programs.rs`).

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use mica_tests::{Install, Job, Launcher, Machine, python_environment, target, workspace};

use crate::mpi4py::{counts, listed, path};

/// What a command prints, which succeeds.
pub fn output(command: &mut Command) -> String {
    let done = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{command:?}:\n{said}");
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// What the loader finds in an installed library, as `nm` lists it.
pub fn defined_in(install: &Install, library: &str) -> String {
    let library = install.prefix().join("lib").join(library);
    output(Command::new("nm").args(["-D", "--defined-only"]).arg(library))
}

/// The names in such a list.
pub fn names_of(listing: &str) -> BTreeSet<&str> {
    listing.lines().filter_map(|line| line.split_whitespace().nth(2)).collect()
}

#[test]
fn the_library_has_the_names_of_mpich() {
    let install = Install::find();
    let listing = defined_in(&install, "libmpi.so.12");
    let exported = names_of(&listing);
    let list = workspace().join("bindings/data/mpich-abi-symbols.txt");
    let list = fs::read_to_string(list).expect("the list of names");
    let missing: Vec<&str> = list.split_whitespace().filter(|n| !exported.contains(n)).collect();
    assert!(missing.is_empty(), "not exported: {missing:?}");
    // Functions have the name for tools as well; data is not called.
    let functions = listing.lines().filter_map(|line| line.split_once(" T "));
    let functions: Vec<&str> =
        functions.map(|(_, name)| name).filter(|name| name.starts_with("MPI_")).collect();
    assert!(functions.len() > 680, "{} functions", functions.len());
    let alone: Vec<&&str> =
        functions.iter().filter(|name| !exported.contains(format!("P{name}").as_str())).collect();
    assert!(alone.is_empty(), "without a name for tools: {alone:?}");
    let library = install.prefix().join("lib/libmpi.so.12");
    let dynamic = output(Command::new("readelf").arg("-d").arg(library));
    assert!(dynamic.contains("[libmpi.so.12]"), "{dynamic}");
    assert!(install.prefix().join("lib/libmpich.so.12").exists());
}

/// The launchers of MPICH and Intel start programs of their own ABI on Mica.
#[test]
fn launchers_of_mpich_and_intel_start_them() {
    let (install, machine) = (Install::find(), Machine::start());
    let program = Launcher::Mpich.program("tools/job");
    for launcher in [Launcher::Mpich, Launcher::Intel] {
        let (mpiexec, options) = launcher.find();
        let start = |ranks: u32, words: &[&str]| {
            let job = machine.job(&mpiexec).args(options).args(["-n", &ranks.to_string()]);
            job.args([&program]).args(words).env("LD_LIBRARY_PATH", &install.libraries()).run()
        };
        for ranks in [1, 3] {
            let out = start(ranks, &["hello"]).expect_success();
            let hello = (0..ranks).map(|rank| format!("hello from {rank} of {ranks}"));
            assert_eq!(out.sorted(), hello.collect::<Vec<_>>(), "{launcher:?}: {}", out.report());
        }
        assert_eq!(start(2, &["abort", "7", "1"]).expect_failure().code(), 7);
    }
}

/// Programs that Intel's `mpicc` compiled, with Intel's own header.
#[test]
fn programs_of_intels_compiler_run() {
    let install = Install::find();
    let run = |name: &str, words: &[&str]| {
        let program = Launcher::Intel.program(name);
        let job = install.mpiexec(["-n", "4"]).args([&program]).args(words);
        let out = job.env("LD_LIBRARY_PATH", &install.libraries()).run().expect_success();
        out.stdout.trim().to_owned()
    };
    let library = run("tools/job", &["library"]);
    assert!(library.starts_with("4 ranks on Mica "), "{library}");
    for name in ["pt2pt_modes", "coll_data", "comm_attr", "err_handler", "rma_moves", "type_extent"]
    {
        assert_eq!(run(name, &[]), "No Errors", "{name}");
    }
}

/// Compiles a part for an ABI, as a shared library whose function has this name.
fn part(compiler: &Path, folder: &Path, function: &str) -> PathBuf {
    let library = folder.join(format!("lib{function}.so"));
    let source = workspace().join("tests/c/tools/abi_part.c");
    output(
        Command::new(compiler)
            .args(["-shared", "-fPIC", &format!("-DPART={function}"), "-o"])
            .args([&library, &source]),
    );
    library
}

/// Compiles a program for an ABI that needs a part.
fn host(compiler: &Path, folder: &Path, function: &str, name: &str) -> PathBuf {
    let program = folder.join(name);
    let source = workspace().join("tests/c/tools/abi_host.c");
    output(
        Command::new(compiler)
            .args([&format!("-DPART={function}"), "-o"])
            .args([&program, &source])
            .args([&format!("-L{}", folder.display()), &format!("-l{function}")])
            .arg(format!("-Wl,-rpath,{}", folder.display())),
    );
    program
}

fn folder(name: &str) -> PathBuf {
    let folder = target().join("tests-c").join(name);
    fs::create_dir_all(&folder).expect("target is writable");
    folder
}

/// A program and its part that were built for different ABIs are refused before anything is called
/// by the wrong one; a program and a part of one ABI run.
#[test]
fn parts_of_two_abis_that_share_their_names_are_refused() {
    let (install, folder) = (Install::find(), folder("mixed-abis"));
    let mpich = Launcher::Mpich.find().0.with_file_name("mpicc");
    let standard = install.bin("mpicc");
    part(&mpich, &folder, "mpich_part");
    part(&standard, &folder, "standard_part");
    let run = |compiler: &Path, function: &str| {
        let name = format!("{function}-of-{}", if compiler == mpich { "mpich" } else { "mica" });
        let program = host(compiler, &folder, function, &name);
        let job = install.mpiexec(["-n", "2"]).args([program]);
        job.env("LD_LIBRARY_PATH", &install.libraries()).run()
    };
    for (compiler, function) in [(&mpich, "mpich_part"), (&standard, "standard_part")] {
        let out = run(compiler, function).expect_success();
        assert_eq!(out.sorted(), ["the part sees 2"; 2], "{}", out.report());
    }
    let out = run(&mpich, "standard_part").expect_failure();
    let out = out.says("libstandard_part.so was built for the standard ABI");
    assert_eq!(out.stdout, "", "{}", out.report());
    let out = run(&standard, "mpich_part").expect_failure();
    let out = out.says("libmpich_part.so was built for MPICH's ABI");
    assert_eq!(out.stdout, "", "{}", out.report());
}

/// Parts that keep their library to themselves, as modules of an interpreter do, may be of
/// different ABIs: there is one MPI for both.
#[test]
fn modules_of_two_abis_share_one_library() {
    let (install, folder) = (Install::find(), folder("loaded-abis"));
    let mpich = Launcher::Mpich.find().0.with_file_name("mpicc");
    let program = folder.join("abi_loads");
    let source = workspace().join("tests/c/tools/abi_loads.c");
    output(Command::new("cc").arg("-o").args([&program, &source]).arg("-ldl"));
    for (first, second) in [(&mpich, &install.bin("mpicc")), (&install.bin("mpicc"), &mpich)] {
        let parts = [part(first, &folder, "first"), part(second, &folder, "second")];
        let job = install.mpiexec(["-n", "3"]).args([&program]).args(parts);
        let out = job.env("LD_LIBRARY_PATH", &install.libraries()).run().expect_success();
        assert_eq!(out.sorted(), ["the parts see 3 and 3"; 3], "{}", out.report());
    }
}

/// The wheel of mpi4py from PyPI, which knows MPICH's ABI and Open MPI's: its own test suite, but
/// for what is not there yet (`tests/python/mpi4py-modules.txt`), on 2 ranks.
#[test]
fn the_mpi4py_of_pypi_runs() {
    let install = Install::find();
    let python = wheel();
    let source = path("MICA_MPI4PY_SRC", "mpi4py-src");
    let folder = workspace().join("tests/python");
    let modules: Vec<String> = listed()
        .into_iter()
        // The wheel was built with an MPICH that lacks types which this library, and MPICH 5.0.2 as
        // well, says it has.
        .filter(|module| module.runs && module.name != "test_mpiabi")
        .map(|module| module.name)
        .collect();
    assert!(modules.len() > 40, "{modules:?}");
    let job = install.mpiexec(["-n", "2"]).args([&python, &folder.join("run_mpi4py.py")]);
    let job = job.args(["--limit", "300", "--no-numpy", "--src"]).args([&source]);
    let job = job.args(["--list"]).args([folder.join("mpi4py-modules.txt")]).args(modules);
    let job = job.cores(2).env("LD_LIBRARY_PATH", &install.libraries());
    let out = job.run().expect_success();
    let (_, _, failed) = counts(&out.stdout).expect("a summary");
    assert_eq!(failed, 0, "{}", out.report());
}

/// A Python with mpi4py's wheel.
pub fn wheel() -> PathBuf {
    python_environment("mpi4py-wheel", "mpi4py==4.1.2").join("bin/python")
}

/// A job of the launcher is one of Mica's, and its program knows which library it runs on.
#[test]
fn the_library_says_what_it_is() {
    let install = Install::find();
    let python = wheel();
    let words = "from mpi4py import MPI; print(MPI.Get_library_version().split()[0])";
    let job = Job::new(install.bin("mpiexec")).args(["-n", "1"]).args([&python]);
    let out = job.args(["-c", words]).env("LD_LIBRARY_PATH", &install.libraries()).run();
    assert_eq!(out.expect_success().stdout.trim(), "Mica");
}

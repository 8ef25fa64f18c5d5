//! Every function of Fortran, in its three interfaces: what arrives in C, and what comes back.
//! `tests/fortran/calls/calls.py` writes the programs from the Forum's description, and the
//! recorder that stands in for `libmpi_abi.so.1`; the library under test is `libmpifort_abi.so.1`
//! alone.
//!
//! The programs are compiled without `mpifort`, whose tests are `fortran_wrapper` and `builds`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mica_tests::{Install, Job, Outcome, python, target, workspace};

use crate::surroundings::works;

/// The interfaces, the source of their module, and how many functions they have at least.
const INTERFACES: [(&str, Option<&str>, usize); 3] =
    [("f08", Some("mpi_f08"), 584), ("mpi", Some("mpi"), 434), ("mpif", None, 434)];

/// A folder with the programs of one compiler.
struct Calls {
    folder: PathBuf,
    compiler: &'static str,
    install: Install,
}

impl Calls {
    /// Writes the sources, and compiles what the programs share.
    fn new(compiler: &'static str) -> Calls {
        let folder = target().join("tests-c/fortran_calls").join(compiler);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("target is writable");
        let calls = Calls { folder, compiler, install: Install::find() };
        calls.script(&[calls.folder.to_str().expect("text")]).expect_success();
        calls
    }

    /// Runs `calls.py`.
    fn script(&self, words: &[&str]) -> Outcome {
        let script = workspace().join("tests/fortran/calls/calls.py");
        Job::new(python()).args([&script]).args(words).dir(&self.folder).run()
    }

    /// Runs a command in the folder.
    fn run(&self, program: &str, words: &[&str], paths: &[&Path]) -> Outcome {
        let job = Job::new(program).args(words).args(paths).dir(&self.folder);
        job.limit(Duration::from_secs(300)).run().expect_success()
    }

    fn compile_shared_parts(&self) {
        let own = workspace().join("tests/fortran/calls");
        let header = self.install.prefix().join("include");
        let words = "-std=c17 -Wall -Werror=incompatible-pointer-types -shared -fPIC \
            -Wl,-soname,libmpi_abi.so.1 -o libmpi_abi.so.1 recorder.c";
        let includes = [format!("-I{}", own.display()), format!("-I{}", header.display())];
        let words = words.split_whitespace().chain(includes.iter().map(String::as_str));
        self.run("cc", &words.collect::<Vec<_>>(), &[]);
        self.run(self.compiler, &["-c"], &[&own.join("reports.f90")]);
        for (_, module, _) in INTERFACES {
            if let Some(module) = module {
                let source = format!("share/mica/fortran/{module}.f90");
                self.run(self.compiler, &["-c"], &[&self.install.prefix().join(source)]);
            }
        }
    }

    /// Compiles the program of an interface, and returns its name.
    fn program(&self, interface: &str, module: Option<&str>) -> String {
        let name = format!("calls_{interface}");
        let include = format!("-I{}", self.install.prefix().join("include").display());
        let (source, object) = (format!("{name}.f90"), module.map(|name| format!("{name}.o")));
        let mut words = vec!["-o", &name, &source, "reports.o", "libmpi_abi.so.1", &include];
        words.extend(object.as_deref());
        if interface == "mpif" && self.compiler.starts_with("gfortran") {
            // Without interfaces it sees arrays where it has seen MPI_UNWEIGHTED.
            words.extend(["-fallow-argument-mismatch", "-w"]);
        }
        self.run(self.compiler, &words, &[&self.library()]);
        name
    }

    fn library(&self) -> PathBuf {
        self.install.prefix().join("lib/libmpifort_abi.so.1")
    }

    /// Runs a program with the recorder, and compares its record with what is expected.
    fn compare(&self, program: &str, functions: usize) {
        let expected = format!("{program}.expected");
        let paths = format!("{}:{}", self.folder.display(), self.install.libraries());
        let job = Job::new(self.folder.join(program)).args(["record"]).dir(&self.folder);
        let ran = job.env("LD_LIBRARY_PATH", &paths).run();
        let compared = self.script(&["--compare", &expected, "record"]);
        assert!(compared.code() == 0, "{}\n{}", compared.stdout, ran.report());
        ran.expect_success();
        let text = fs::read_to_string(self.folder.join(&expected)).expect("the generator's");
        let calls = text.matches("# ").count();
        assert!(calls >= 3 * functions, "{calls} calls of {functions} functions");
        println!("{}: {}", self.compiler, compared.stdout.trim());
    }

    /// The names in a table of symbols.
    fn symbols(&self, which: &str, object: &Path) -> BTreeSet<String> {
        let listing = self.run("nm", &["-D", which], &[object]).stdout;
        listing
            .lines()
            .filter_map(|line| line.split_whitespace().last())
            .map(str::to_owned)
            .collect()
    }
}

/// Each function of each interface arrives in C as it was called, and its results come back.
fn calls_arrive(compiler: &'static str) {
    if !works(&[compiler, "--version"]) {
        return;
    }
    let calls = Calls::new(compiler);
    calls.compile_shared_parts();
    let exported = calls.symbols("--defined-only", &calls.library());
    for (interface, module, functions) in INTERFACES {
        let program = calls.program(interface, module);
        calls.compare(&program, functions);
        let wanted = calls.symbols("--undefined-only", &calls.folder.join(&program));
        let wanted = wanted.into_iter().filter(|name| name.to_lowercase().contains("mpi_"));
        let (found, missing): (Vec<_>, Vec<_>) = wanted.partition(|name| exported.contains(name));
        assert!(missing.is_empty(), "not exported: {missing:?}");
        assert!(found.len() >= 2 * functions, "{} names of {interface}", found.len());
    }
}

#[test]
fn calls_by_gfortran_arrive_in_c() {
    calls_arrive("gfortran");
}

#[test]
fn calls_by_an_older_gfortran_arrive_in_c() {
    calls_arrive("gfortran-11");
}

#[test]
fn calls_by_flang_arrive_in_c() {
    calls_arrive("flang-new-19");
}

/// Compilers write `MPI_Send` as `mpi_send_`, `mpi_send__`, `mpi_send` or `MPI_SEND`.
#[test]
fn every_function_has_the_names_that_compilers_give_it() {
    let calls = Calls::new("names");
    let exported = calls.symbols("--defined-only", &calls.library());
    let names = fs::read_to_string(calls.folder.join("names")).expect("the generator's");
    let missing: Vec<&str> = names.lines().filter(|name| !exported.contains(*name)).collect();
    assert!(missing.is_empty(), "not exported: {missing:?}");
    let count = names.lines().count();
    assert!(count > 8 * 430, "{count} names");
}

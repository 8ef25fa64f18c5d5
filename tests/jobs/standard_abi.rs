//! The standard ABI between three MPIs: one program, compiled by Mica, MPICH and Intel MPI, each
//! binary run on the library of each, by that library's launcher, with and without a tool between
//! program and library that was compiled once. What they print is the same (docs/abi.md).

use std::path::{Path, PathBuf};
use std::process::Command;

use mica_tests::{Install, Launcher, Machine, Outcome, target, workspace};

/// An MPI that has the standard ABI.
struct Library {
    /// What it calls itself in `MPI_Get_library_version`.
    name: &'static str,
    mpiexec: PathBuf,
    options: &'static [&'static str],
    libraries: String,
    /// None: Mica.
    peer: Option<Launcher>,
}

impl Library {
    fn of_mica(install: &Install) -> Library {
        Library {
            name: "Mica",
            mpiexec: install.bin("mpiexec"),
            options: &[],
            libraries: install.libraries(),
            peer: None,
        }
    }

    fn of(peer: Launcher, name: &'static str) -> Result<Library, String> {
        let (mpiexec, options) = peer.try_find()?;
        let libraries = peer.libraries().display().to_string();
        Ok(Library { name, mpiexec, options, libraries, peer: Some(peer) })
    }

    /// Compiles `tests/c/tools/SOURCE.c`.
    fn compile(&self, source: &str, options: &[&str], to: &Path) {
        let source = workspace().join("tests/c/tools").join(source).with_extension("c");
        let mut compiler = match self.peer {
            None => Command::new(Install::find().bin("mpicc_abi")),
            Some(peer) => peer.standard_abi_compiler(),
        };
        compiler.args(["-std=c99", "-O2"]).args(options).arg("-o").args([to, &source]);
        let done = compiler.output().unwrap_or_else(|e| panic!("{compiler:?}: {e}"));
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{compiler:?}: {said}");
    }

    /// Runs a program on this library, with the tool if there is one.
    fn run(&self, machine: &Machine, program: &Path, tool: Option<&Path>) -> Outcome {
        let job = machine.job(&self.mpiexec).args(self.options).args(["-n", "3"]);
        let job = match tool {
            Some(tool) => job.args(["-genv", "LD_PRELOAD"]).args([tool]),
            None => job,
        };
        let out = job.args([program]).env("LD_LIBRARY_PATH", &self.libraries).run();
        out.expect_success().says(&format!("library: {}", self.name))
    }
}

/// The lines, by their heads, in which Intel MPI 2021.18.1 is not as the standard says: eight
/// constants of its header have other values, of which one is printed...
const INTELS_HEADER: [&str; 1] = ["errors return"];
/// ... and its library numbers handles as MPICH's ABI does, says that a probed message was
/// cancelled, and packs "external32" in the processor's order of bytes.
const INTELS_LIBRARY: [&str; 3] = ["toint", "cancelled probe", "external32"];

/// The lines that are not as the standard says, of a program of this compiler on this library.
fn deviations(compiler: &Library, library: &Library) -> Vec<&'static str> {
    let mut heads = Vec::new();
    if compiler.peer == Some(Launcher::Intel) {
        heads.extend(INTELS_HEADER);
    }
    if library.peer == Some(Launcher::Intel) {
        heads.extend(INTELS_LIBRARY);
    }
    heads
}

/// The heads of the lines that differ.
fn differing<'a>(stdout: &'a str, expected: &str) -> Vec<&'a str> {
    assert_eq!(stdout.lines().count(), expected.lines().count(), "{stdout}");
    let pairs = stdout.lines().zip(expected.lines()).filter(|(line, expected)| line != expected);
    pairs.map(|(line, _)| line.split(':').next().unwrap_or(line)).collect()
}

/// The lines of the tool.
fn counted(out: &Outcome) -> Vec<&str> {
    out.stderr.lines().filter(|line| line.starts_with("tool: ")).collect()
}

#[test]
fn any_compilers_program_runs_alike_on_any_library() {
    let (install, machine) = (Install::find(), Machine::start());
    let peers = [(Launcher::Mpich, "MPICH"), (Launcher::Intel, "Intel(R) MPI")];
    let mut libraries = vec![Library::of_mica(&install)];
    for (peer, name) in peers {
        match Library::of(peer, name) {
            Ok(library) => libraries.push(library),
            Err(why) => return println!("skipped: {name} cannot be had: {why}"),
        }
    }
    let folder = target().join("tests-c/standard-abi");
    std::fs::create_dir_all(&folder).expect("target is writable");
    let tool = folder.join("libabi_tool.so");
    libraries[0].compile("abi_tool", &["-shared", "-fPIC"], &tool);
    let program = |number: usize| folder.join(format!("abi_report-{number}"));
    for (number, library) in libraries.iter().enumerate() {
        library.compile("abi_report", &[], &program(number));
    }
    let expected = libraries[0].run(&machine, &program(0), Some(&tool));
    assert!(expected.stdout.lines().count() > 80, "{}", expected.report());
    assert!(counted(&expected).contains(&"tool: Allreduce 72"), "{}", expected.report());
    for library in &libraries {
        for (number, compiler) in libraries.iter().enumerate() {
            let plain = library.run(&machine, &program(number), None);
            let watched = library.run(&machine, &program(number), Some(&tool));
            for out in [&plain, &watched] {
                let differing = differing(&out.stdout, &expected.stdout);
                assert_eq!(differing, deviations(compiler, library), "{}", out.report());
            }
            assert!(counted(&plain).is_empty(), "{}", plain.report());
            assert_eq!(counted(&watched), counted(&expected), "{}", watched.report());
        }
    }
}

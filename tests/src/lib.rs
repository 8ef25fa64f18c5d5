//! Harness of the multi-process tests: finds the installed tree, compiles the programs of `tests/c`
//! with its `mpicc`, runs jobs under a watchdog, and reads the test list (MPICH's habit: program,
//! ranks, arguments, environment, one line each).
//!
//! `MICA_PREFIX` names the installed tree (default `target/dist`). The programs are portable, so
//! the prefix of another MPI works as well; that is how they were checked before the library
//! existed.
//!
//! Tests assert what happened, never how fast: the watchdog's limit only ends a hang.

mod cores;
mod fortran;
mod job;
mod launchers;
mod list;
mod machine;
pub mod netns;
mod stacks;
mod times;
mod traffic;

pub use cores::{Cores, core_count};
pub use fortran::{FortranStyle, MpichFortran};
pub use job::{
    Job, MARK, Outcome, Running, WATCHDOG, has_ended, processes_with_mark, processor_time,
};
pub use launchers::{Launcher, python, python_environment, try_python_environment};
pub use list::{Entry, EntryRun, Verdict, parse_list};
pub use machine::Machine;
pub use stacks::{descendants, stacks};
pub use times::{TestTime, append_time, record_time};
pub use traffic::{Traffic, without_table};

use netns::Namespaces;

/// The variables that split this machine into two nodes that talk over its loopback interface.
pub const TWO_NODES: [(&str, &str); 3] =
    [("MICA_VIRTUAL_NODES", "2"), ("MICA_NET_PROVIDER", "tcp"), ("MICA_NET_INTERFACE", "lo")];

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// The workspace's root directory.
pub fn workspace() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().expect("tests/ lies in the workspace").to_path_buf()
}

/// The directory for what tests build and write: `target` of the workspace.
pub fn target() -> PathBuf {
    workspace().join("target")
}

/// An installed MPI: `bin/mpiexec`, `bin/mpicc`, `lib/`.
#[derive(Debug, Clone)]
pub struct Install {
    prefix: PathBuf,
}

impl Install {
    /// The tree named by `MICA_PREFIX`, or `target/dist`.
    ///
    /// # Panics
    /// If there is no `mpiexec` in it.
    pub fn find() -> Self {
        let prefix =
            std::env::var_os("MICA_PREFIX").map_or_else(|| target().join("dist"), PathBuf::from);
        let install = Self { prefix };
        let mpiexec = install.bin("mpiexec");
        assert!(
            mpiexec.exists(),
            "{} does not exist: build and install first (make), or set MICA_PREFIX",
            mpiexec.display()
        );
        install
    }

    /// A program of the tree.
    pub fn bin(&self, name: &str) -> PathBuf {
        self.prefix.join("bin").join(name)
    }

    /// The tree's root.
    pub fn prefix(&self) -> &Path {
        &self.prefix
    }

    /// The folder of the libraries, for `LD_LIBRARY_PATH`.
    pub fn libraries(&self) -> String {
        self.prefix.join("lib").display().to_string()
    }

    /// True unless another MPI is tested in place of Mica.
    pub fn is_mica(&self) -> bool {
        self.prefix.join("lib/libmpi_abi.so.1").exists() && self.bin("mica").exists()
    }

    /// Compiles `tests/c/SOURCE.c` unless it is up to date, and returns the program.
    ///
    /// # Panics
    /// If it does not compile, with the compiler's messages.
    pub fn program(&self, source: &str) -> PathBuf {
        let dir = workspace().join("tests/c");
        const TOOLS: [&str; 6] = [
            "tools/attach",
            "tools/nocma",
            "tools/cma_probe",
            "tools/deny",
            "tools/refuse",
            "tools/unkillable",
        ];
        let tool = TOOLS.contains(&source);
        let out_dir =
            target().join("tests-c").join(self.prefix.to_string_lossy().replace('/', "_"));
        let out = out_dir.join(Path::new(source).file_name().expect("a program's name"));
        let src = dir.join(source).with_extension("c");
        let mut inputs = sources_of(&src);
        inputs.extend([self.bin("mpicc"), self.prefix.join("include/mpi.h")]);
        let compiler = if tool { PathBuf::from("cc") } else { self.bin("mpicc") };
        build(&out, &inputs, |fresh| {
            let mut compile = Command::new(compiler);
            compile.args([
                "-std=c11",
                "-D_GNU_SOURCE",
                "-O2",
                // Most of what they do is to fill buffers and to compare them.
                "-ftree-vectorize",
                "-fvect-cost-model=dynamic",
                "-g",
                "-Wall",
                "-Wextra",
                "-Werror",
                "-pthread",
            ]);
            compile.arg("-o").args([fresh, &src]).arg("-lm");
            compile
        });
        out
    }

    /// The helper for launcher and fault tests (`tests/c/tools/job.c`).
    pub fn job(&self) -> PathBuf {
        self.program("tools/job")
    }

    /// `mpiexec ARGS...` on the first of two hosts, for a job on both.
    pub fn mpiexec_on<I, S>(&self, hosts: &Namespaces, args: I) -> Job
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        let [program, first @ ..] = hosts.on_first();
        Job::new(program)
            .args(first)
            .args([self.bin("mpiexec")])
            .args(["-hosts", &hosts.hosts()])
            .args(["--launcher-exec", Namespaces::SHELL])
            .args(args)
    }

    /// `mpiexec ARGS...`.
    pub fn mpiexec<I, S>(&self, args: I) -> Job
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        Job::new(self.bin("mpiexec")).args(args)
    }
}

/// Builds the program `out`, unless it is newer than `inputs`, by the command that writes the file
/// that it is given.
///
/// # Panics
/// If the command fails, with what it says.
fn build(out: &Path, inputs: &[PathBuf], compile: impl FnOnce(&Path) -> Command) {
    fs::create_dir_all(out.parent().expect("a folder in target")).expect("target is writable");
    // Test binaries run one after the other, but nothing forbids two `cargo test` at once.
    let lock = File::create(out.with_extension("lock")).expect("target is writable");
    lock.lock().expect("lock of the program being built");
    if up_to_date(out, inputs) {
        return;
    }
    let fresh = out.with_extension("new");
    let mut compile = compile(&fresh);
    let done = compile.output().unwrap_or_else(|e| panic!("{compile:?}: {e}"));
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{compile:?}:\n{said}");
    fs::rename(&fresh, out).expect("target is writable");
}

/// A program of `tests/c` and the headers that it may include.
fn sources_of(program: &Path) -> Vec<PathBuf> {
    let headers = fs::read_dir(workspace().join("tests/c")).expect("tests/c").flatten();
    let headers = headers.map(|entry| entry.path());
    let headers = headers.filter(|path| path.extension().is_some_and(|end| end == "h"));
    std::iter::once(program.to_owned()).chain(headers).collect()
}

fn up_to_date(out: &Path, inputs: &[PathBuf]) -> bool {
    let time = |p: &Path| fs::metadata(p).and_then(|m| m.modified()).ok();
    let Some(made) = time(out) else { return false };
    inputs.iter().all(|p| time(p).unwrap_or(SystemTime::UNIX_EPOCH) < made)
}

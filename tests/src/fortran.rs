//! Programs of `tests/fortran`, compiled by the installed `mpifort` in each of Fortran's styles, or
//! for MPICH's ABI by gfortran with the modules and libraries of other MPIs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::launchers::unpacked_packages;
use crate::{Install, Launcher, build, target, workspace};

/// The way in which a program gets MPI's procedures and constants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FortranStyle {
    /// `use mpi_f08`
    F08,
    /// `use mpi`
    Mpi,
    /// `include 'mpif.h'`
    MpifH,
}

impl FortranStyle {
    /// All of them.
    pub const ALL: [FortranStyle; 3] = [FortranStyle::F08, FortranStyle::Mpi, FortranStyle::MpifH];

    /// Its word in the test list.
    pub fn name(self) -> &'static str {
        match self {
            FortranStyle::F08 => "f08",
            FortranStyle::Mpi => "mpi",
            FortranStyle::MpifH => "mpif_h",
        }
    }

    /// The style with this name.
    ///
    /// # Errors
    /// What is wrong with the word.
    pub fn of(name: &str) -> Result<FortranStyle, String> {
        let found = FortranStyle::ALL.into_iter().find(|style| style.name() == name);
        found.ok_or_else(|| format!("'{name}' is no style (f08, mpi, mpif_h)"))
    }
}

/// A program of `tests/fortran`.
struct FortranSource {
    source: PathBuf,
    /// With the headers that programs share.
    inputs: Vec<PathBuf>,
    style: FortranStyle,
    /// Where the compiled program goes.
    out: PathBuf,
    /// And its modules: programs with a module of the same name are compiled at the same time.
    modules: PathBuf,
}

impl FortranSource {
    fn new(name: &str, style: FortranStyle, folder: &Path) -> FortranSource {
        let sources = workspace().join("tests/fortran");
        let free = sources.join(name).with_extension("F90");
        let source = if free.exists() { free } else { sources.join(name).with_extension("F") };
        let out = folder.join(format!("{name}-{}", style.name()));
        let modules = out.with_extension("modules");
        fs::create_dir_all(&modules).expect("target is writable");
        let headers = fs::read_dir(&sources).expect("tests/fortran").flatten();
        let headers = headers.map(|entry| entry.path());
        let headers = headers.filter(|path| path.extension().is_some_and(|end| end == "h"));
        let inputs = headers.chain([source.clone()]).collect();
        FortranSource { source, inputs, style, out, modules }
    }

    /// Adds the options and files with which `compiler` makes the program of its source.
    fn compile(&self, mut command: Command, compiler: &str, fresh: &Path) -> Command {
        let sources = self.source.parent().expect("a folder");
        command.args(["-g", "-cpp", "-I"]).arg(sources);
        // They have thousands of calls, which compile in a third of the time.
        let name = self.source.file_name().expect("a name").to_string_lossy();
        command.arg(if name.starts_with("sections_") { "-O0" } else { "-O2" });
        command.arg(format!("-DSTYLE_{}", self.style.name().to_uppercase()));
        if compiler.starts_with("gfortran") {
            command.args(["-w", "-J"]).arg(&self.modules);
            // Lines that macros make have more than 132 characters.
            command.arg("-ffree-line-length-none");
            // Buffers have any type, and mpif.h has no interfaces.
            let mismatch = self.style == FortranStyle::MpifH;
            command.args(mismatch.then_some("-fallow-argument-mismatch"));
        } else {
            command.arg("-module-dir").arg(&self.modules);
        }
        command.arg("-o").args([fresh, &self.source]);
        command
    }
}

impl Install {
    /// Compiles a program of `tests/fortran` by `compiler`, unless it is up to date; returns it.
    ///
    /// # Panics
    /// If it does not compile, with the compiler's messages.
    pub fn fortran_program(&self, name: &str, style: FortranStyle, compiler: &str) -> PathBuf {
        let prefix = self.prefix().to_string_lossy().replace('/', "_");
        let folder = target().join("tests-fortran").join(prefix).join(compiler);
        let mut source = FortranSource::new(name, style, &folder);
        let module = self.prefix().join("share/mica/fortran");
        source.inputs.extend([module.join("mpi_f08.f90"), module.join("mpi.f90")]);
        source.inputs.extend([self.bin("mpifort"), self.prefix().join("include/mpif.h")]);
        build(&source.out, &source.inputs, |fresh| {
            let mut command = Command::new(self.bin("mpifort"));
            command.env("MICA_FC", compiler);
            source.compile(command, compiler, fresh)
        });
        source.out
    }
}

/// Gfortran with another MPI's modules and libraries, for programs of MPICH's ABI.
#[derive(Debug)]
pub struct MpichFortran {
    name: &'static str,
    /// A wrapper of that MPI, or gfortran itself.
    command: PathBuf,
    options: Vec<String>,
    /// Above its `bin`.
    prefix: PathBuf,
}

impl MpichFortran {
    /// Intel MPI's, of PyPI. Gfortran has modules of it for `mpi` alone.
    ///
    /// # Panics
    /// If it cannot be installed, or gfortran does not say its version.
    pub fn intel() -> MpichFortran {
        let (launcher, _) = Launcher::Intel.find();
        let prefix = launcher.ancestors().nth(2).expect("a folder above bin").to_path_buf();
        // The wrapper looks for the modules where the installer of another package puts them.
        let modules = modules_for(&prefix.join("include/mpi/gfortran"), gfortran_version());
        let options = vec!["-fc=gfortran".to_owned(), format!("-I{}", modules.display())];
        MpichFortran {
            name: "intel-mpi",
            command: launcher.with_file_name("mpif90"),
            options,
            prefix,
        }
    }

    /// Debian's MPICH, from the mirror of this machine, unpacked into a directory of its own.
    ///
    /// # Errors
    /// Why there is none.
    pub fn debian() -> Result<MpichFortran, String> {
        let root = unpacked_packages("debian-mpich", &["libmpich12", "libmpich-dev"])?;
        let triplet = format!("{}-linux-gnu", std::env::consts::ARCH);
        let libraries = root.join("usr/lib").join(&triplet);
        let headers = root.join("usr/include").join(&triplet).join("mpich");
        let options = vec![
            // As its wrapper says: `mpi` has no interfaces of some functions.
            "-fallow-argument-mismatch".to_owned(),
            format!("-I{}", headers.display()),
            format!("-L{}", libraries.display()),
            "-lmpichfort".to_owned(),
            "-lmpich".to_owned(),
            // Of what Debian's library needs nothing is here, and nothing is used.
            "-Wl,--allow-shlib-undefined".to_owned(),
        ];
        Ok(MpichFortran { name: "debian-mpich", command: "gfortran".into(), options, prefix: root })
    }

    /// Compiles a program of `tests/fortran`, unless it is up to date; returns it.
    ///
    /// # Panics
    /// If it does not compile, with the compiler's messages.
    pub fn program(&self, name: &str, style: FortranStyle) -> PathBuf {
        let folder = target().join("tests-fortran").join(self.name);
        let source = FortranSource::new(name, style, &folder);
        build(&source.out, &source.inputs, |fresh| {
            let command = source.compile(self.start(), "gfortran", fresh);
            self.finish(command)
        });
        source.out
    }

    /// Compiles sources of C and of Fortran into a program, by this MPI's `mpi.h` and `mpif.h`.
    ///
    /// # Panics
    /// As [`MpichFortran::program`].
    pub fn mixed_program(&self, sources: &[&str]) -> PathBuf {
        let sources: Vec<PathBuf> = sources.iter().map(|name| workspace().join(name)).collect();
        let folder = target().join("tests-fortran").join(self.name);
        let out = folder.join(sources[0].file_stem().expect("a name"));
        build(&out, &sources, |fresh| {
            let mut command = self.start();
            command.args(&sources).arg("-o").arg(fresh);
            self.finish(command)
        });
        out
    }

    fn start(&self) -> Command {
        let mut command = Command::new(&self.command);
        // Intel's wrappers do not find their installation by themselves.
        command.env("I_MPI_ROOT", &self.prefix);
        command
    }

    /// Libraries come after what needs them.
    fn finish(&self, mut command: Command) -> Command {
        command.args(&self.options);
        command
    }
}

/// The major version of gfortran.
fn gfortran_version() -> u32 {
    let said = Command::new("gfortran").arg("-dumpversion").output().expect("gfortran");
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let major = said.trim().split('.').next().and_then(|major| major.parse().ok());
    major.unwrap_or_else(|| panic!("gfortran -dumpversion: {said}"))
}

/// The folder of modules for the last version of a compiler that is not later than this one.
fn modules_for(folder: &Path, version: u32) -> PathBuf {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let versions = entries.flatten().filter_map(|entry| {
        let major = entry.file_name().to_string_lossy().split('.').next()?.parse::<u32>().ok()?;
        (major <= version).then_some((major, entry.path()))
    });
    versions.max().map_or_else(|| panic!("{}: none", folder.display()), |(_, path)| path)
}

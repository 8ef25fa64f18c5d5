//! Programs of `tests/fortran`, compiled by the installed `mpifort` in each of Fortran's styles.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::{Install, build, target, workspace};

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

impl Install {
    /// Compiles a program of `tests/fortran` by `compiler`, unless it is up to date; returns it.
    ///
    /// # Panics
    /// If it does not compile, with the compiler's messages.
    pub fn fortran_program(&self, name: &str, style: FortranStyle, compiler: &str) -> PathBuf {
        let sources = workspace().join("tests/fortran");
        let free = sources.join(name).with_extension("F90");
        let source = if free.exists() { free } else { sources.join(name).with_extension("F") };
        let prefix = self.prefix().to_string_lossy().replace('/', "_");
        let folder = target().join("tests-fortran").join(prefix).join(compiler);
        let out = folder.join(format!("{name}-{}", style.name()));
        // Programs with a module of the same name are compiled at the same time.
        let modules = out.with_extension("modules");
        fs::create_dir_all(&modules).expect("target is writable");
        let headers = fs::read_dir(&sources).expect("tests/fortran").flatten();
        let headers = headers.map(|entry| entry.path());
        let headers = headers.filter(|path| path.extension().is_some_and(|end| end == "h"));
        let mut inputs: Vec<PathBuf> = headers.collect();
        let module = self.prefix().join("share/mica/fortran");
        inputs.extend([source.clone(), module.join("mpi_f08.f90"), module.join("mpi.f90")]);
        inputs.extend([self.bin("mpifort"), self.prefix().join("include/mpif.h")]);
        build(&out, &inputs, |fresh| {
            let mut compile = Command::new(self.bin("mpifort"));
            compile.env("MICA_FC", compiler).args(["-g", "-cpp", "-I"]).arg(&sources);
            // They have thousands of calls, which compile in a third of the time.
            compile.arg(if name.starts_with("sections_") { "-O0" } else { "-O2" });
            compile.arg(format!("-DSTYLE_{}", style.name().to_uppercase()));
            if compiler.starts_with("gfortran") {
                compile.args(["-w", "-J"]).arg(&modules);
                // Lines that macros make have more than 132 characters.
                compile.arg("-ffree-line-length-none");
                // Buffers have any type, and mpif.h has no interfaces.
                let mismatch = style == FortranStyle::MpifH;
                compile.args(mismatch.then_some("-fallow-argument-mismatch"));
            } else {
                compile.arg("-module-dir").arg(&modules);
            }
            compile.arg("-o").args([fresh, &source]);
            compile
        });
        out
    }
}

//! Whether a file is a program that can be simulated: x86-64, dynamically linked, against the
//! standard ABI's library.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

use object::elf::{EM_X86_64, FileHeader64};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::{Endianness, elf};

/// Why a program cannot be simulated.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// No such file.
    #[error("{0}: no such program in PATH")]
    NotFound(String),
    /// It cannot be read.
    #[error("{}: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It is not an x86-64 program.
    #[error("{}: not an x86-64 ELF program (a script cannot be simulated; name its interpreter)",
        .0.display())]
    Foreign(PathBuf),
    /// It is statically linked.
    #[error("{}: statically linked, so the simulated library cannot be put under it",
        .0.display())]
    Static(PathBuf),
    /// It was built against another ABI.
    #[error("{}: built for {library}, not for the standard ABI's libmpi_abi.so; rebuild it with \
        Mica's mpicc", path.display())]
    OtherAbi {
        /// The file.
        path: PathBuf,
        /// The library that it needs.
        library: String,
    },
}

/// The program's file, checked.
pub fn find(name: &str) -> Result<PathBuf, ProgramError> {
    let path = in_path(name).ok_or_else(|| ProgramError::NotFound(name.to_owned()))?;
    let data =
        fs::read(&path).map_err(|error| ProgramError::Unreadable { path: path.clone(), error })?;
    check(&path, &data)?;
    Ok(path)
}

/// The file that `name` means: itself if it has a slash, else the first in PATH.
pub fn in_path(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        let path = PathBuf::from(name);
        return path.is_file().then_some(path);
    }
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

fn check(path: &Path, data: &[u8]) -> Result<(), ProgramError> {
    let foreign = || ProgramError::Foreign(path.to_owned());
    let header = FileHeader64::<Endianness>::parse(data).map_err(|_| foreign())?;
    let endian = header.endian().map_err(|_| foreign())?;
    if header.e_machine(endian) != EM_X86_64 {
        return Err(foreign());
    }
    let segments = header.program_headers(endian, data).map_err(|_| foreign())?;
    if !segments.iter().any(|s| s.p_type(endian) == elf::PT_INTERP) {
        return Err(ProgramError::Static(path.to_owned()));
    }
    // Python and the like load the library later, so that none need be named here.
    match needed(header, endian, data).into_iter().find(|l| is_mpi(l)) {
        Some(library) if !library.starts_with("libmpi_abi.so") => {
            Err(ProgramError::OtherAbi { path: path.to_owned(), library })
        }
        _ => Ok(()),
    }
}

/// The libraries that the program names.
fn needed(header: &FileHeader64<Endianness>, endian: Endianness, data: &[u8]) -> Vec<String> {
    let entries = || {
        let sections = header.sections(endian, data).ok()?;
        let (entries, link) = sections.dynamic(endian, data).ok()??;
        let strings = sections.strings(endian, data, link).ok()?;
        Some((entries, strings))
    };
    let Some((entries, strings)) = entries() else {
        return Vec::new();
    };
    let names = entries
        .iter()
        .filter(|entry| entry.tag32(endian) == Some(elf::DT_NEEDED))
        .filter_map(|entry| entry.string(endian, strings).ok());
    names.map(|name| String::from_utf8_lossy(name).into_owned()).collect()
}

/// Whether the library is an MPI.
fn is_mpi(library: &str) -> bool {
    ["libmpi.so", "libmpich.so", "libmpi_abi.so"].iter().any(|name| library.starts_with(name))
}

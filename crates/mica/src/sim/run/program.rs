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
    /// Its RPATH, which no variable of the environment has precedence over, has another library.
    #[error("{}: its RPATH loads {}, which knows no simulated adapter, instead of Mica's library; \
        link it with --enable-new-dtags, or by Mica's mpicc", path.display(), library.display())]
    OtherLibrary {
        /// The file.
        path: PathBuf,
        /// The library that it loads.
        library: PathBuf,
    },
}

/// File name of the library.
const LIBRARY: &str = "libmpi_abi.so.1";

/// The program's file, checked. `folder` has Mica's library.
pub fn find(name: &str, folder: &Path) -> Result<PathBuf, ProgramError> {
    let path = in_path(name).ok_or_else(|| ProgramError::NotFound(name.to_owned()))?;
    let data =
        fs::read(&path).map_err(|error| ProgramError::Unreadable { path: path.clone(), error })?;
    check(&path, &data, folder)?;
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

fn check(path: &Path, data: &[u8], folder: &Path) -> Result<(), ProgramError> {
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
    let texts = |tag| dynamic_texts(header, endian, data, tag);
    match texts(elf::DT_NEEDED).into_iter().find(|l| is_mpi(l)) {
        Some(library) if !library.starts_with("libmpi_abi.so") => {
            return Err(ProgramError::OtherAbi { path: path.to_owned(), library });
        }
        _ => {}
    }
    // The loader ignores RPATH where there is a RUNPATH.
    let rpath = if texts(elf::DT_RUNPATH).is_empty() { texts(elf::DT_RPATH) } else { Vec::new() };
    let found = rpath.iter().flat_map(|folders| folders.split(':')).find_map(|folder| {
        let origin = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let origin = origin.parent().unwrap_or(Path::new("/")).display().to_string();
        let folder = folder.replace("${ORIGIN}", &origin).replace("$ORIGIN", &origin);
        Some(Path::new(&folder).join(LIBRARY)).filter(|library| library.is_file())
    });
    match found {
        Some(library)
            if library.canonicalize().ok() != folder.join(LIBRARY).canonicalize().ok() =>
        {
            Err(ProgramError::OtherLibrary { path: path.to_owned(), library })
        }
        _ => Ok(()),
    }
}

/// The texts of the entries with this tag in the program's dynamic section: libraries, or folders.
fn dynamic_texts(
    header: &FileHeader64<Endianness>,
    endian: Endianness,
    data: &[u8],
    tag: u32,
) -> Vec<String> {
    let entries = || {
        let sections = header.sections(endian, data).ok()?;
        let (entries, link) = sections.dynamic(endian, data).ok()??;
        let strings = sections.strings(endian, data, link).ok()?;
        Some((entries, strings))
    };
    let Some((entries, strings)) = entries() else { return Vec::new() };
    let names = entries
        .iter()
        .filter(|entry| entry.tag32(endian) == Some(tag))
        .filter_map(|entry| entry.string(endian, strings).ok());
    names.map(|name| String::from_utf8_lossy(name).into_owned()).collect()
}

/// Whether the library is an MPI.
fn is_mpi(library: &str) -> bool {
    ["libmpi.so", "libmpich.so", "libmpi_abi.so"].iter().any(|name| library.starts_with(name))
}

//! Detection of programs that are linked to other MPI libraries, before they are started.
//!
//! A program that is linked to MPICH's or Intel's library (or another one that speaks PMI-1 over
//! `PMI_FD`) runs under this mpiexec. Open MPI's library needs PMIx: without it, each of the N
//! processes takes itself for rank 0 of 1, which looks like success. Such a program is refused, by
//! the libraries that its ELF file names (`DT_NEEDED`). Scripts, and programs that load the library
//! later, are not recognised.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The libraries of Open MPI from version 2 on (version 1 named its library as MPICH does). These
/// are prefixes, as `.so` and the version follow.
const OPEN_MPI: [&str; 4] = ["libmpi.so.20", "libmpi.so.40", "libmpi_mpifh.so.", "liboshmem.so."];

/// Open MPI's library, if this program is linked to it.
pub fn open_mpi_library(program: &Path) -> Option<String> {
    let mut needed = needed_libraries(program)?.into_iter();
    needed.find(|name| OPEN_MPI.iter().any(|library| name.starts_with(library)))
}

/// Maximum entries of an ELF table that are read: a damaged file must not keep the launcher busy.
const ENTRIES_MAX: u64 = 4096;
const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const DT_NULL: u64 = 0;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;

/// A loaded part of the program: its offset in the file, its address, its length in bytes.
struct Segment {
    offset: u64,
    address: u64,
    bytes: u64,
}

/// What `DT_NEEDED` names; `None` for a file that is no 64-bit little-endian ELF file, or is linked
/// statically.
fn needed_libraries(path: &Path) -> Option<Vec<String>> {
    let file = File::open(path).ok()?;
    let head = read(&file, 0, 64)?;
    if head.get(..6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let (table, size, count) = (word(&head, 32)?, half(&head, 54)?, half(&head, 56)?);
    if size < 56 {
        return None;
    }
    let mut loaded = Vec::new();
    let mut dynamic = None;
    for index in 0..u64::from(count) {
        let entry = read(&file, table.checked_add(index * u64::from(size))?, 56)?;
        let (offset, address, bytes) = (word(&entry, 8)?, word(&entry, 16)?, word(&entry, 32)?);
        match u32::from_le_bytes(entry.get(..4)?.try_into().ok()?) {
            PT_LOAD => loaded.push(Segment { offset, address, bytes }),
            PT_DYNAMIC => dynamic = Some((offset, bytes)),
            _ => {}
        }
    }
    let (offset, bytes) = dynamic?;
    let entries = read(&file, offset, bytes.min(16 * ENTRIES_MAX))?;
    let mut names = Vec::new();
    let mut strings = None;
    for entry in entries.chunks_exact(16) {
        match (word(entry, 0)?, word(entry, 8)?) {
            (DT_NULL, _) => break,
            (DT_NEEDED, name) => names.push(name),
            (DT_STRTAB, address) => strings = Some(address),
            _ => {}
        }
    }
    let strings = strings?;
    let within = |s: &&Segment| (s.address..s.address.saturating_add(s.bytes)).contains(&strings);
    let segment = loaded.iter().find(within)?;
    let strings = segment.offset.checked_add(strings - segment.address)?;
    Some(names.into_iter().filter_map(|at: u64| text(&file, strings.checked_add(at)?)).collect())
}

fn read(file: &File, at: u64, bytes: u64) -> Option<Vec<u8>> {
    let mut buffer = vec![0; usize::try_from(bytes).ok()?];
    file.read_exact_at(&mut buffer, at).ok()?;
    Some(buffer)
}

/// The string at this offset, of at most the longest file name's length.
fn text(file: &File, at: u64) -> Option<String> {
    let mut buffer = [0; 256];
    let got = file.read_at(&mut buffer, at).ok()?;
    let end = buffer[..got].iter().position(|&byte| byte == 0)?;
    String::from_utf8(buffer[..end].to_vec()).ok()
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_of_this_program() {
        let own = std::env::current_exe().unwrap();
        let needed = needed_libraries(&own).expect("an ELF file");
        assert!(needed.iter().any(|name| name == "libc.so.6"), "{needed:?}");
        assert_eq!(open_mpi_library(&own), None);
    }

    #[test]
    fn other_files_are_no_programs() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert_eq!(needed_libraries(&folder.join("Cargo.toml")), None);
        assert_eq!(needed_libraries(folder), None);
        assert_eq!(needed_libraries(Path::new("/no/such")), None);
    }

    /// Truncated and damaged copies of a real program yield a result or `None`, never a panic.
    #[test]
    fn damaged_programs_are_read_without_harm() {
        let whole = std::fs::read("/bin/sh").unwrap();
        let path = std::env::temp_dir().join(format!("mica-elf-{}", std::process::id()));
        for step in 0..200 {
            let mut bytes = whole.clone();
            match step % 2 {
                0 => bytes.truncate(step * 7),
                _ => bytes[16 + step % 1000..][..8].fill(0xff),
            }
            std::fs::write(&path, &bytes).unwrap();
            let _ = needed_libraries(&path);
        }
        std::fs::remove_file(&path).unwrap();
    }
}

//! Open files: their names, and where the last access of each ended, by which an access is found to
//! follow the one before it.

use std::collections::HashMap;
use std::ffi::{CStr, c_char};
use std::sync::Mutex;

use crate::facts;
use crate::types::{MPI_Datatype, MPI_File, MPI_Offset};

/// Where an access begins.
#[derive(Clone, Copy)]
pub enum FilePlace {
    /// At an offset, in etypes.
    At(MPI_Offset),
    /// At the individual file pointer.
    Pointer,
    /// At the shared one, which other ranks move as well.
    Shared,
}

/// What a call does with a file besides reading or writing.
#[derive(Clone, Copy)]
pub enum FileUse {
    /// It moves the individual pointer.
    Seeks,
    /// It sets a view with this etype.
    SetsView(MPI_Datatype),
    /// Anything else.
    Manages,
}

/// A file that is open.
struct OpenFile {
    /// Number of its name.
    number: u64,
    etype: MPI_Datatype,
    /// Where the next access by offset begins if it follows the last one.
    next: Option<MPI_Offset>,
    /// The individual pointer was moved by something else than an access.
    is_moved: bool,
}

static OPEN: Mutex<Option<HashMap<MPI_File, OpenFile>>> = Mutex::new(None);
/// Numbers of names.
static NAMES: Mutex<Option<HashMap<String, u64>>> = Mutex::new(None);

/// A file has been opened; returns the number of its name.
///
/// # Safety
/// `name` is a string.
pub unsafe fn register(file: MPI_File, name: *const c_char, byte: MPI_Datatype) -> u64 {
    // SAFETY: as the caller promises.
    let name = facts::field(&unsafe { CStr::from_ptr(name) }.to_string_lossy());
    let number = number_of(name);
    let open = OpenFile { number, etype: byte, next: None, is_moved: false };
    with_open(|files| files.insert(file, open));
    number
}

/// The file at this address is about to be closed.
///
/// # Safety
/// The address is null or that of a handle.
pub unsafe fn forget(file: *const MPI_File) {
    // SAFETY: as the caller promises.
    if let Some(file) = unsafe { file.as_ref() } {
        with_open(|files| files.remove(file));
    }
}

/// A call has used the file; the number of its name, if it was opened while records were taken.
pub fn used(file: MPI_File, how: FileUse) -> Option<u64> {
    with_open(|files| {
        let open = files.get_mut(&file)?;
        match how {
            FileUse::Seeks => open.is_moved = true,
            FileUse::SetsView(etype) => {
                (open.etype, open.next, open.is_moved) = (etype, None, false);
            }
            FileUse::Manages => {}
        }
        Some(open.number)
    })
}

/// An access of `bytes` bytes: the number of the file's name, and whether the access begins where
/// the last one of this rank ended. `size` gives the bytes of a datatype.
pub fn accessed(
    file: MPI_File,
    place: FilePlace,
    bytes: u64,
    size: impl FnOnce(MPI_Datatype) -> u64,
) -> Option<(u64, bool)> {
    with_open(|files| {
        let open = files.get_mut(&file)?;
        let follows = match place {
            FilePlace::Shared => false,
            FilePlace::Pointer => !std::mem::take(&mut open.is_moved),
            FilePlace::At(offset) => {
                let etypes = bytes / size(open.etype).max(1);
                let end = offset.saturating_add_unsigned(etypes);
                open.next.replace(end).is_none_or(|next| next == offset)
            }
        };
        Some((open.number, follows))
    })
}

fn with_open<T>(f: impl FnOnce(&mut HashMap<MPI_File, OpenFile>) -> T) -> T {
    f(OPEN.lock().expect("no panic while locked").get_or_insert_default())
}

/// The number of a name, which the records say when it is first seen.
fn number_of(name: String) -> u64 {
    let mut names = NAMES.lock().expect("no panic while locked");
    let names = names.get_or_insert_default();
    let next = names.len() as u64;
    *names.entry(name).or_insert_with_key(|name| {
        facts::append(&format!("file\t{next}\t{name}"));
        next
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_that_follow_one_another_are_found() {
        let (file, byte, word) = (0x7000, 1, 8);
        let size = |datatype: MPI_Datatype| datatype as u64;
        // SAFETY: the name is a string.
        let number = unsafe { register(file, c"a\tb".as_ptr(), byte) };
        let follows = |place| accessed(file, place, 16, size).expect("an open file");
        for (offset, expected) in [(100, true), (116, true), (132, true), (0, false), (16, true)] {
            assert_eq!(follows(FilePlace::At(offset)), (number, expected), "{offset}");
        }
        assert_eq!(used(file, FileUse::SetsView(word)), Some(number));
        assert!(follows(FilePlace::At(7)).1 && follows(FilePlace::At(9)).1);
        assert!(follows(FilePlace::Pointer).1);
        used(file, FileUse::Seeks);
        assert!(!follows(FilePlace::Pointer).1 && follows(FilePlace::Pointer).1);
        assert!(!follows(FilePlace::Shared).1);
        // Another handle of the same name has a place of its own.
        // SAFETY: as above.
        assert_eq!(unsafe { register(file + 1, c"a\tb".as_ptr(), byte) }, number);
        // SAFETY: the address of a handle.
        unsafe { forget(&file) };
        assert_eq!(used(file, FileUse::Manages), None);
        assert_eq!(used(file + 1, FileUse::Manages), Some(number));
    }
}

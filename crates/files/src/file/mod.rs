//! The file as an object, and the calls on it.
//!
//! | file | what |
//! |---|---|
//! | [`open`] | opening, closing, deleting |
//! | [`data`] | reading and writing, in all their forms |
//! | [`mod@pointer`], [`shared_pointer`] | file pointers, of one process and shared |
//! | [`manage`] | size, view, hints, consistency |

mod data;
mod manage;
mod open;
mod pointer;
mod shared_pointer;

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use mica_collective::members::Members;
use mica_objects::constants as c;
use mica_objects::errhandler::{self, Errhandler, HandlerFamily};
use mica_objects::error::{Error, Result};
use mica_objects::handle::{HandleKind, HandleTable};
use mica_objects::info::Info;
use mica_objects::sync::lock;

use crate::amode::AccessMode;
use crate::operation::{FileOperation, Turns};
use crate::shared_file::SharedFile;
use crate::view::FileView;
use shared_pointer::SharedPointer;

pub use data::{AccessPosition, Coordination, SplitCall};
pub use open::delete;

/// An open file. Cloning shares it.
#[derive(Clone)]
pub struct File(Arc<FileInner>);

/// What an open file has.
struct FileInner {
    handle: u32,
    shared_file: Arc<SharedFile>,
    path: PathBuf,
    mode: AccessMode,
    view: Mutex<Arc<FileView>>,
    /// The individual file pointer, in etypes.
    pointer: Mutex<u64>,
    shared: SharedPointer,
    turns: Turns,
    /// The split collective access that has begun.
    split: Mutex<Option<(SplitCall, Arc<FileOperation>)>>,
    properties: Mutex<FileProperties>,
}

/// What the program can change.
#[derive(Debug)]
struct FileProperties {
    errhandler: Errhandler,
    info: Info,
}

static FILES: HandleTable<File> = HandleTable::new(HandleKind::File);

impl File {
    /// The file that `handle` names.
    ///
    /// # Errors
    /// `MPI_ERR_FILE`.
    pub fn resolve(handle: u32) -> Result<File> {
        FILES.get(handle).ok_or_else(|| {
            let (value, reason) = match handle {
                c::FILE_NULL => ("MPI_FILE_NULL".to_owned(), "an open file is needed"),
                _ if HandleKind::File.owns(handle) => {
                    (format!("{handle:#x}"), "this file has been closed")
                }
                _ => (format!("{handle:#x}"), "this is not the handle of a file"),
            };
            Error::argument(c::ERR_FILE, "fh", value, reason)
        })
    }

    /// The file whose own traffic has this context, for a hang report.
    pub fn of_context(context: u64) -> Option<File> {
        FILES.find(|file| file.members().context() == context & !1)
    }

    /// The processes, and the context of the file's own traffic.
    pub fn members(&self) -> &Members {
        &self.0.shared_file.members
    }

    /// The handle.
    pub fn handle(&self) -> u32 {
        self.0.handle
    }

    /// `MPI_File_get_errhandler`; `MPI_FILE_NULL` has the handler that files get when they are
    /// opened.
    ///
    /// # Errors
    /// `MPI_ERR_FILE`.
    pub fn errhandler_of(handle: u32) -> Result<Errhandler> {
        match handle {
            c::FILE_NULL => Ok(errhandler::default_of_files()),
            _ => Ok(lock(&File::resolve(handle)?.0.properties).errhandler.clone()),
        }
    }

    /// `MPI_File_set_errhandler`.
    ///
    /// # Errors
    /// `MPI_ERR_FILE`; `MPI_ERR_ARG` for the handler of another kind of object.
    pub fn set_errhandler_of(handle: u32, errhandler: Errhandler) -> Result<()> {
        errhandler.check_family(HandlerFamily::File)?;
        let old = match handle {
            c::FILE_NULL => errhandler::set_default_of_files(errhandler),
            _ => {
                let file = File::resolve(handle)?;
                let properties = &mut *lock(&file.0.properties);
                std::mem::replace(&mut properties.errhandler, errhandler)
            }
        };
        drop(old); // after the locks: the last reference frees what the user's closure holds
        Ok(())
    }
}

/// Its name, for error messages.
impl fmt::Display for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "file {}", self.0.shared_file.name)
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} ({} ranks)", self.0.shared_file.members.size())
    }
}

impl fmt::Debug for FileInner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileInner").field("name", &self.shared_file.name).finish_non_exhaustive()
    }
}

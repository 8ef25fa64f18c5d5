//! What accesses need of an open file, apart from its handle, pointers and view.

use std::sync::{Arc, Mutex};

use mica_collective::members::Members;
use mica_objects::sync::lock;

use crate::access::FileAccess;
use crate::guard::FileGuard;
use crate::hints::Hints;
use crate::storage::Storage;
use crate::view::FileView;

/// An open file.
#[derive(Debug)]
pub struct SharedFile {
    /// Its processes, in a context of the file's own: its traffic meets no other.
    pub members: Arc<Members>,
    /// As the program gave it, for messages.
    pub name: String,
    /// Where its bytes are.
    pub storage: Arc<dyn Storage>,
    /// What keeps accesses apart.
    pub guard: FileGuard,
    /// Ranks that access the file for all, where the hints say nothing.
    pub aggregators: usize,
    /// The hints in force.
    pub hints: Mutex<Hints>,
}

impl SharedFile {
    /// The file, as an access to this view of it needs it.
    pub fn access<'a>(&'a self, view: &'a FileView) -> FileAccess<'a> {
        FileAccess {
            storage: &*self.storage,
            guard: &self.guard,
            view,
            hints: self.hints(),
            name: &self.name,
        }
    }

    /// The hints in force.
    pub fn hints(&self) -> Hints {
        *lock(&self.hints)
    }
}

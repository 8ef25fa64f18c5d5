//! Opening, closing and deleting files (MPI 5.0, 14.2.1 to 14.2.3).
//!
//! The first rank opens the file first, and creates it if that is wanted; then all others open it.
//! In two exchanges each rank says how it went, so that a call fails at all ranks or at none. Ranks
//! that share memory share the [`SharedWords`] of the file, which the first of them allocates; no
//! file is made beside the program's.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::{Arc, Mutex};

use mica_collective::exchange::ExchangeMembers;
use mica_collective::members::Members;
use mica_memory::{Block, Region, fill};
use mica_node::window::PartUser;
use mica_objects::constants as c;
use mica_objects::errhandler;
use mica_objects::error::{Error, Result};
use mica_objects::info::Info;
use mica_objects::process;
use mica_objects::sync::lock;
use mica_protocol::Engine;

use super::shared_pointer::SharedPointer;
use super::{FILES, File, FileInner, FileProperties};
use crate::amode::AccessMode;
use crate::failure;
use crate::guard::{FileGuard, SharedWords};
use crate::hints::{self, Hints};
use crate::operation::Turns;
use crate::shared_file::SharedFile;
use crate::storage::Storage;
use crate::storage::posix::{Creates, PosixFile, path_of};
use crate::view::FileView;

/// What a rank tells the others when it has opened the file as the first, or closes it: the access
/// mode, the cores that it may use, where the shared words lie, and the hints that hold for all.
type Announcement = [u64; 5];

/// Exchanges what each rank has to say; fails at all ranks alike if one has an error.
fn agree<const N: usize>(members: &Members, own: Result<[u64; N]>) -> Result<Vec<[u64; N]>> {
    ExchangeMembers::all(members).agree(own, "the communicator")
}

/// What the first rank opens before the others.
#[derive(Default)]
struct OfFirst {
    storage: Option<Arc<dyn Storage>>,
    /// Where the shared words lie in its memory, and the words.
    words: Option<(u64, Region)>,
}

/// What the call is about.
struct Opening<'a> {
    engine: &'a Engine,
    members: &'a Arc<Members>,
    path: &'a Path,
    name: String,
    /// Whether all ranks share memory.
    is_shared: bool,
}

impl File {
    /// `MPI_File_open`. Blocks until all ranks have called it.
    ///
    /// # Errors
    /// `MPI_ERR_AMODE`, `MPI_ERR_NOT_SAME`; those of the system; `MPI_ERR_NO_MEM`. If the call
    /// fails at one rank, it fails at all.
    pub fn open(parent: &Members, name: &Path, amode: i32, hints: &Info) -> Result<File> {
        let context = ExchangeMembers::all(parent).agree_on_context()?;
        let members = &Arc::new(parent.in_context(context, 0..0));
        let engine = process::engine()?;
        let is_shared = !engine.is_loopback()
            && (0..members.size()).all(|rank| engine.shares_windows_with(members.peer(rank)));
        let path = &path_of(name);
        let name = name.to_string_lossy().into_owned();
        let opening = Opening { engine, members, path, name, is_shared };
        opening.open(amode, hints)
    }

    /// `MPI_File_close`. Blocks until all ranks have called it.
    ///
    /// # Errors
    /// `MPI_ERR_FILE`; those of deleting it, after which it is closed nevertheless; `MPI_ERR_OTHER`
    /// while a split collective access has begun.
    pub fn close(handle: u32) -> Result<()> {
        let file = File::resolve(handle)?;
        if let Some((call, _)) = &*lock(&file.0.split) {
            let detail = format!("{call} has begun; end it before MPI_File_close");
            return Err(Error::other(c::ERR_OTHER, detail));
        }
        let (members, name) = (&file.0.shared_file.members, &file.0.shared_file.name);
        // It is there until all have closed it.
        let mut met = agree(members, Ok([]));
        if file.0.mode.deletes_on_close() {
            let deleted = match members.rank() {
                0 => std::fs::remove_file(&file.0.path),
                _ => Ok(()),
            };
            let deleted = deleted.map_err(|error| failure::of_name("delete", name, &error));
            met = met.and(agree(members, deleted.map(|()| [])));
        }
        file.0.shared.close()?;
        FILES.remove(handle);
        met.map(drop)
    }
}

/// `MPI_File_delete`.
///
/// # Errors
/// Those of the system.
pub fn delete(name: &Path) -> Result<()> {
    let path = path_of(name);
    let deleted = match std::fs::symlink_metadata(&path) {
        Ok(found) if found.is_dir() => Err(ErrorKind::IsADirectory.into()),
        _ => std::fs::remove_file(&path),
    };
    deleted.map_err(|error| failure::of_name("delete", &name.to_string_lossy(), &error))
}

impl Opening<'_> {
    fn open(&self, amode: i32, given: &Info) -> Result<File> {
        let info = hints::in_force(given);
        let checked = self.check(amode, &info);
        let announced = checked.as_ref().map_err(Error::clone).map(|(mode, hints, first)| {
            let at = first.words.as_ref().map_or(0, |(offset, _)| *offset);
            let [choices, block] = hints.shared();
            [mode.bits() as u64, self.engine.cores() as u64, at, choices, block]
        });
        let all = agree(self.members, announced)?;
        let (mode, mut hints, first) = checked?;
        let [_, cores, _, choices, block] = all[0];
        hints.adopt([choices, block]);
        let opened = self.open_after_first(mode, &hints, first, &all);
        let opened = opened.and_then(|opened| Ok((opened, FILES.reserve()?)));
        let again = opened.as_ref().map(|((_, _, size), _)| [*size]).map_err(Error::clone);
        let sizes = agree(self.members, again)?;
        let ((storage, words, _), handle) = opened?;
        let (members, size) = (Arc::clone(self.members), sizes[0][0]);
        let words = words.map(|region| SharedWords::new(region, members.rank(), members.size()));
        let shared = SharedPointer::new(&members, words.clone())?;
        if mode.appends() && self.members.rank() == 0 {
            shared.set(size)?;
        }
        let aggregators = cores as usize * self.engine.nodes() as usize;
        let shared_file = Arc::new(SharedFile {
            name: self.name.clone(),
            guard: FileGuard::new(Arc::clone(&storage), words),
            storage,
            aggregators: aggregators.clamp(1, members.size()),
            members,
            hints: Mutex::new(hints),
            counters: self.engine.live_counters(),
            windows: Mutex::new(Vec::new()),
        });
        let file = handle.fill(|handle| {
            File(Arc::new(FileInner {
                handle,
                shared_file,
                path: self.path.to_owned(),
                mode,
                view: Mutex::new(Arc::new(FileView::of_bytes())),
                pointer: Mutex::new(size),
                shared,
                turns: Turns::default(),
                split: Mutex::new(None),
                properties: Mutex::new(FileProperties {
                    errhandler: errhandler::default_of_files(),
                    info,
                }),
            }))
        });
        if mode.appends() {
            // The pointer is at the end before another rank moves it.
            agree(&file.0.shared_file.members, Ok([]))?;
        }
        Ok(file)
    }

    /// The arguments; and the first rank's file, which may be new, and its words.
    fn check(&self, amode: i32, info: &Info) -> Result<(AccessMode, Hints, OfFirst)> {
        let (mode, hints) = (AccessMode::new(amode)?, Hints::of(info)?);
        if self.members.rank() != 0 {
            return Ok((mode, hints, OfFirst::default()));
        }
        let storage = self.storage(mode, &hints, Creates::Yes)?;
        let words = self.allocate_words()?;
        Ok((mode, hints, OfFirst { storage: Some(storage), words }))
    }

    /// The file, its shared words, and its size, where file pointers begin at its end.
    fn open_after_first(
        &self,
        mode: AccessMode,
        hints: &Hints,
        first: OfFirst,
        all: &[Announcement],
    ) -> Result<(Arc<dyn Storage>, Option<Region>, u64)> {
        if all.iter().any(|one| one[0] != all[0][0]) {
            let detail = "ranks have different access modes (amode)";
            return Err(Error::other(c::ERR_NOT_SAME, detail));
        }
        let storage = match first.storage {
            Some(storage) => storage,
            None => self.storage(mode, hints, Creates::No)?,
        };
        let words = match first.words {
            Some((_, region)) => Some(region),
            None => self.open_words(all[0][2])?,
        };
        let size = match mode.appends() {
            true => storage.size().map_err(|e| failure::of_name("open", &self.name, &e))?,
            false => 0,
        };
        Ok((storage, words, size))
    }

    fn storage(
        &self,
        mode: AccessMode,
        hints: &Hints,
        creates: Creates,
    ) -> Result<Arc<dyn Storage>> {
        let opened = PosixFile::open(self.path, mode, hints.permissions, creates);
        let file = opened.map_err(|error| failure::of_name("open", &self.name, &error))?;
        Ok(Arc::new(file))
    }

    /// Memory for the shared words, and where others find it; `None` if ranks share none.
    fn allocate_words(&self) -> Result<Option<(u64, Region)>> {
        let bytes = SharedWords::bytes(self.members.size());
        let (offset, region) = if self.members.size() == 1 {
            (0, Block::allocate(bytes)?)
        } else if self.is_shared {
            let window = self.engine.allocate_window(bytes, PartUser::Library)?;
            (window.offset(), window.region())
        } else {
            return Ok(None);
        };
        fill(&region, 0, bytes);
        Ok(Some((offset, region)))
    }

    fn open_words(&self, offset: u64) -> Result<Option<Region>> {
        if !self.is_shared {
            return Ok(None);
        }
        let (owner, bytes) = (self.members.peer(0), SharedWords::bytes(self.members.size()));
        let window = self.engine.open_window(owner, offset, bytes, PartUser::Library)?;
        Ok(Some(window.region()))
    }
}

//! Opening, closing and deleting files (MPI 5.0, 14.2.1 to 14.2.3).
//!
//! When all ranks have come, with arguments that go together, the first rank opens the file, and
//! creates it if that is wanted: so a rank may delete an old file of this name just before the
//! call. Then all others open it. In an exchange after each of these steps each rank says how it
//! went, so that a call fails at all ranks or at none. Ranks that share memory share the
//! [`SharedWords`] of the file, which the first of them allocates; no file is made beside the
//! program's.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::{Arc, Mutex};

use mica_collective::exchange::ExchangeMembers;
use mica_collective::members::{Members, context::fresh_context};
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

/// What a rank tells the others when it comes: a context for the file's traffic, the access mode,
/// the cores that it may use, and the hints of those that hold for all.
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

/// What the call is about, after all ranks have come.
struct Opening<'a> {
    engine: &'a Engine,
    members: &'a Arc<Members>,
    path: &'a Path,
    name: String,
    mode: AccessMode,
    hints: Hints,
    /// Ranks that access the file for all, where the hints say nothing.
    aggregators: usize,
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
        let engine = process::engine()?;
        let info = hints::in_force(hints);
        let checked = AccessMode::new(amode).and_then(|mode| Ok((mode, Hints::of(&info)?)));
        let announced = checked.clone().and_then(|(mode, hints)| {
            let context = match parent.rank() {
                0 => fresh_context()?,
                _ => 0,
            };
            let [choices, block] = hints.shared();
            Ok([context, mode.bits() as u64, engine.cores() as u64, choices, block])
        });
        let all: Vec<Announcement> = agree(parent, announced)?;
        let (mode, mut hints) = checked?;
        if all.iter().any(|one| one[1] != all[0][1]) {
            let detail = "ranks have different access modes (amode)";
            return Err(Error::other(c::ERR_NOT_SAME, detail));
        }
        let [context, _, cores, choices, block] = all[0];
        hints.adopt([choices, block]);
        let members = &Arc::new(parent.in_context(context, 0..0));
        let opening = Opening {
            engine,
            members,
            path: &path_of(name),
            name: name.to_string_lossy().into_owned(),
            mode,
            hints,
            aggregators: (cores as usize * engine.nodes() as usize).clamp(1, members.size()),
            is_shared: !engine.is_loopback()
                && (0..members.size()).all(|rank| engine.shares_windows_with(members.peer(rank))),
        };
        opening.open(info)
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
    fn open(&self, info: Info) -> Result<File> {
        let (members, mode) = (self.members, self.mode);
        let first = self.open_first();
        let announced = first.as_ref().map_err(Error::clone).map(|first| {
            let words = first.words.as_ref();
            [words.map_or(0, |(offset, _)| *offset)]
        });
        let places = agree(members, announced)?;
        let opened = self.open_after_first(first?, places[0][0]);
        let opened = opened.and_then(|opened| Ok((opened, FILES.reserve()?)));
        let again = opened.as_ref().map(|((_, _, size), _)| [*size]).map_err(Error::clone);
        let size = agree(members, again)?[0][0];
        let ((storage, words, _), handle) = opened?;
        let words = words.map(|region| SharedWords::new(region, members.rank(), members.size()));
        let shared = SharedPointer::new(members, words.clone())?;
        if mode.appends() && members.rank() == 0 {
            shared.set(size)?;
        }
        let shared_file = Arc::new(SharedFile {
            name: self.name.clone(),
            guard: FileGuard::new(Arc::clone(&storage), words),
            storage,
            aggregators: self.aggregators,
            members: Arc::clone(members),
            hints: Mutex::new(self.hints),
            counters: self.engine.live_counters(),
            aggregator_memory: Mutex::new(None),
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
            agree(members, Ok([]))?;
        }
        Ok(file)
    }

    /// The first rank's file, which may be new, and its words.
    fn open_first(&self) -> Result<OfFirst> {
        if self.members.rank() != 0 {
            return Ok(OfFirst::default());
        }
        let storage = self.storage(Creates::Yes)?;
        Ok(OfFirst { storage: Some(storage), words: self.allocate_words()? })
    }

    /// The file, its shared words, which lie there in the first rank's memory, and its size, where
    /// file pointers begin at its end.
    fn open_after_first(
        &self,
        first: OfFirst,
        words_at: u64,
    ) -> Result<(Arc<dyn Storage>, Option<Region>, u64)> {
        let storage = match first.storage {
            Some(storage) => storage,
            None => self.storage(Creates::No)?,
        };
        let words = match first.words {
            Some((_, region)) => Some(region),
            None => self.open_words(words_at)?,
        };
        let size = match self.mode.appends() {
            true => storage.size().map_err(|e| failure::of_name("open", &self.name, &e))?,
            false => 0,
        };
        Ok((storage, words, size))
    }

    fn storage(&self, creates: Creates) -> Result<Arc<dyn Storage>> {
        let opened = PosixFile::open(self.path, self.mode, self.hints.permissions, creates);
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

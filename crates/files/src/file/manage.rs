//! Size, view, hints and consistency of a file (MPI 5.0, 14.2.4 to 14.2.8, 14.3, 14.6).

use std::io;
use std::sync::Arc;

use mica_collective::exchange::ExchangeMembers;
use mica_objects::constants as c;
use mica_objects::datatype::Datatype;
use mica_objects::error::{Error, Result};
use mica_objects::group::Group;
use mica_objects::info::Info;
use mica_objects::sync::lock;

use super::File;
use crate::failure;
use crate::hints::{self, Hints};
use crate::representation::Representation;
use crate::view::FileView;

impl File {
    /// What the first rank does for all. Blocks until all ranks have called it.
    fn by_first(
        &self,
        value: u64,
        checked: Result<()>,
        what: &str,
        act: impl FnOnce() -> io::Result<()>,
    ) -> Result<()> {
        self.agree_on(value, &checked)?;
        let done = match self.0.shared_file.members.rank() {
            0 => act().map_err(|error| failure::of_name(what, &self.0.shared_file.name, &error)),
            _ => Ok(()),
        };
        self.agree_on(0, &done)
    }

    /// Whether the file may be written.
    pub(super) fn check_writable(&self) -> Result<()> {
        match self.0.mode.writes() {
            true => Ok(()),
            false => {
                let detail = format!("{} is opened with MPI_MODE_RDONLY", self.0.shared_file.name);
                Err(Error::other(c::ERR_READ_ONLY, detail))
            }
        }
    }

    fn check_size(&self, size: i64) -> Result<u64> {
        self.refuse_sequential("to change the size")?;
        self.check_writable()?;
        u64::try_from(size)
            .map_err(|_| Error::argument(c::ERR_ARG, "size", size, "a size is not negative"))
    }

    /// `MPI_File_set_size`. Blocks until all ranks have called it.
    ///
    /// # Errors
    /// `MPI_ERR_ARG`, `MPI_ERR_READ_ONLY`, `MPI_ERR_NOT_SAME`; those of the system.
    pub fn set_size(&self, size: i64) -> Result<()> {
        let bytes = self.check_size(size);
        let checked = bytes.as_ref().map(|_| ()).map_err(Error::clone);
        self.by_first(size as u64, checked, "set the size of", || {
            self.0.shared_file.storage.set_size(size as u64)
        })
    }

    /// `MPI_File_preallocate`. Blocks until all ranks have called it.
    ///
    /// # Errors
    /// As [`set_size`](Self::set_size).
    pub fn preallocate(&self, size: i64) -> Result<()> {
        let bytes = self.check_size(size);
        let checked = bytes.as_ref().map(|_| ()).map_err(Error::clone);
        self.by_first(size as u64, checked, "allocate storage for", || {
            self.0.shared_file.storage.allocate(size as u64)
        })
    }

    /// `MPI_File_sync`: what ranks have written is on the device, and seen by all. Blocks until all
    /// ranks have called it.
    ///
    /// # Errors
    /// Those of the system.
    pub fn sync(&self) -> Result<()> {
        // Ranks of a node share the page cache: one of them asks for all, after all have written.
        ExchangeMembers::all(&self.0.shared_file.members).allgather(&[0])?;
        let (on_node, me) = self.0.shared_file.members.on_this_node();
        let synced = match me == 0 || on_node.is_empty() {
            true => self.0.shared_file.storage.sync(),
            false => Ok(()),
        };
        let synced =
            synced.map_err(|e| failure::of_name("synchronize", &self.0.shared_file.name, &e));
        self.agree_on(0, &synced)
    }

    /// `MPI_File_get_amode`.
    pub fn amode(&self) -> i32 {
        self.0.mode.bits()
    }

    /// `MPI_File_get_group`.
    pub fn group(&self) -> Group {
        self.0.shared_file.members.group().clone()
    }

    /// `MPI_File_get_info`: the hints in force, as a new object.
    pub fn info(&self) -> Info {
        let info = lock(&self.0.properties).info.duplicate();
        self.0.shared_file.hints().show_shared(&info);
        info
    }

    /// `MPI_File_set_info`. Blocks until all ranks have called it.
    ///
    /// # Errors
    /// Where a variable of the library has a value that it cannot have.
    pub fn set_info(&self, given: &Info) -> Result<()> {
        let changed = self.change_hints(given);
        self.agree_on(0, &changed)?;
        self.adopt_hints_of_first()
    }

    /// The first rank's hints hold where ranks choose alike.
    fn adopt_hints_of_first(&self) -> Result<()> {
        let mut bytes = [0; 16];
        let shared = self.0.shared_file.hints().shared();
        bytes.copy_from_slice(shared.map(u64::to_ne_bytes).as_flattened());
        ExchangeMembers::all(&self.0.shared_file.members).broadcast(&mut bytes)?;
        let (words, _) = bytes.as_chunks();
        let words = [words[0], words[1]].map(u64::from_ne_bytes);
        lock(&self.0.shared_file.hints).adopt(words);
        Ok(())
    }

    fn change_hints(&self, given: &Info) -> Result<()> {
        let properties = lock(&self.0.properties);
        hints::change(&properties.info, given);
        *lock(&self.0.shared_file.hints) = Hints::of(&properties.info)?;
        Ok(())
    }

    /// `MPI_File_set_atomicity`. Blocks until all ranks have called it.
    ///
    /// # Errors
    /// `MPI_ERR_NOT_SAME`.
    // flag: MPI's own argument.
    pub fn set_atomicity(&self, is_atomic: bool) -> Result<()> {
        self.agree_on(is_atomic.into(), &Ok(()))?;
        self.0.shared_file.guard.set_atomic(is_atomic);
        // No access in the new mode meets one in the old.
        ExchangeMembers::all(&self.0.shared_file.members).allgather(&[0]).map(drop)
    }

    /// `MPI_File_get_atomicity`.
    pub fn atomicity(&self) -> bool {
        self.0.shared_file.guard.is_atomic()
    }

    /// `MPI_File_set_view`: file pointers go to the beginning. Blocks until all ranks have called
    /// it.
    ///
    /// # Errors
    /// As [`FileView::new`]; `MPI_ERR_UNSUPPORTED_DATAREP`.
    pub fn set_view(
        &self,
        displacement: i64,
        etype: &Datatype,
        filetype: &Datatype,
        representation: &str,
        hints: &Info,
    ) -> Result<()> {
        let made = self.new_view(displacement, etype, filetype, representation);
        let made = made.and_then(|view| self.change_hints(hints).map(|()| view));
        self.agree_on(0, &made)?;
        self.adopt_hints_of_first()?;
        *lock(&self.0.view) = Arc::new(made?);
        *lock(&self.0.pointer) = 0;
        if self.0.shared_file.members.rank() == 0 {
            self.0.shared.set(0)?;
        }
        ExchangeMembers::all(&self.0.shared_file.members).allgather(&[0]).map(drop)
    }

    fn new_view(
        &self,
        displacement: i64,
        etype: &Datatype,
        filetype: &Datatype,
        representation: &str,
    ) -> Result<FileView> {
        let is_current = displacement == c::DISPLACEMENT_CURRENT;
        let displacement = match (is_current, self.0.mode.is_sequential()) {
            (false, false) => displacement,
            // Where the shared pointer is.
            (true, true) => {
                let view = self.view();
                let etypes = self.0.shared.advance(0)?;
                view.offset_of(etypes * view.etype_bytes())? as i64
            }
            (true, false) => {
                let reason = "it is for files that are opened with MPI_MODE_SEQUENTIAL";
                let value = "MPI_DISPLACEMENT_CURRENT";
                return Err(Error::argument(c::ERR_ARG, "disp", value, reason));
            }
            (false, true) => {
                let reason = "in a file that is opened with MPI_MODE_SEQUENTIAL it is \
                              MPI_DISPLACEMENT_CURRENT";
                return Err(Error::argument(c::ERR_ARG, "disp", displacement, reason));
            }
        };
        FileView::new(displacement, etype, filetype, Representation::named(representation)?)
    }

    /// `MPI_File_get_view`: displacement, handles of etype and filetype, which the caller frees,
    /// and the name of the representation.
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM`.
    pub fn view_contents(&self) -> Result<(i64, u32, u32, String)> {
        let view = self.view();
        let name = view.representation().name().to_owned();
        let (etype, filetype) = (view.etype(), view.filetype());
        let displacement = view.displacement() as i64;
        Ok((displacement, etype.another_handle()?, filetype.another_handle()?, name))
    }

    /// `MPI_File_get_type_extent`.
    ///
    /// # Errors
    /// Those of the program's function.
    pub fn type_extent(&self, datatype: &Datatype) -> Result<i64> {
        Ok(self.view().representation().in_file(datatype)?.extent())
    }
}

//! How a file is opened (MPI 5.0, 14.2.1).

use mica_objects::constants as c;
use mica_objects::error::{Error, Result};

/// A checked combination of `MPI_MODE_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessMode(i32);

impl AccessMode {
    /// The mode that the argument `amode` names.
    ///
    /// # Errors
    /// `MPI_ERR_AMODE`.
    pub fn new(amode: i32) -> Result<AccessMode> {
        const KNOWN: i32 = c::MODE_RDONLY
            | c::MODE_RDWR
            | c::MODE_WRONLY
            | c::MODE_CREATE
            | c::MODE_EXCL
            | c::MODE_DELETE_ON_CLOSE
            | c::MODE_UNIQUE_OPEN
            | c::MODE_SEQUENTIAL
            | c::MODE_APPEND;
        let mode = AccessMode(amode);
        let refused = |reason: &str| {
            Err(Error::argument(c::ERR_AMODE, "amode", format!("{amode:#x}"), reason))
        };
        let accesses = [c::MODE_RDONLY, c::MODE_RDWR, c::MODE_WRONLY];
        if amode & !KNOWN != 0 {
            return refused("it has bits of no access mode");
        }
        if accesses.into_iter().filter(|&access| mode.has(access)).count() != 1 {
            return refused("it has one of MPI_MODE_RDONLY, MPI_MODE_RDWR and MPI_MODE_WRONLY");
        }
        if mode.has(c::MODE_RDONLY) && (mode.creates() || mode.excludes()) {
            let reason = "a file that is only read is neither created (MPI_MODE_CREATE) nor new \
                          (MPI_MODE_EXCL)";
            return refused(reason);
        }
        if mode.has(c::MODE_RDWR) && mode.is_sequential() {
            return refused("sequential access (MPI_MODE_SEQUENTIAL) either reads or writes");
        }
        Ok(mode)
    }

    fn has(self, bits: i32) -> bool {
        self.0 & bits == bits
    }

    /// As the program gave it.
    pub fn bits(self) -> i32 {
        self.0
    }

    /// Whether the file may be read.
    pub fn reads(self) -> bool {
        !self.has(c::MODE_WRONLY)
    }

    /// Whether the file may be written.
    pub fn writes(self) -> bool {
        !self.has(c::MODE_RDONLY)
    }

    /// Whether the file is created if it does not exist.
    pub fn creates(self) -> bool {
        self.has(c::MODE_CREATE)
    }

    /// Whether it must not exist.
    pub fn excludes(self) -> bool {
        self.has(c::MODE_EXCL)
    }

    /// Whether it is accessed by the shared file pointer alone.
    pub fn is_sequential(self) -> bool {
        self.has(c::MODE_SEQUENTIAL)
    }

    /// Whether file pointers begin at the end.
    pub fn appends(self) -> bool {
        self.has(c::MODE_APPEND)
    }

    /// Whether it is deleted when it is closed.
    pub fn deletes_on_close(self) -> bool {
        self.has(c::MODE_DELETE_ON_CLOSE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_has_one_kind_of_access() {
        let yes = [
            c::MODE_RDONLY,
            c::MODE_RDWR | c::MODE_CREATE | c::MODE_EXCL,
            c::MODE_WRONLY | c::MODE_SEQUENTIAL | c::MODE_APPEND,
            c::MODE_RDONLY | c::MODE_SEQUENTIAL | c::MODE_UNIQUE_OPEN | c::MODE_DELETE_ON_CLOSE,
        ];
        let no = [
            0,
            c::MODE_CREATE,
            c::MODE_RDONLY | c::MODE_WRONLY,
            c::MODE_RDWR | c::MODE_WRONLY,
            c::MODE_RDONLY | c::MODE_CREATE,
            c::MODE_RDONLY | c::MODE_EXCL,
            c::MODE_RDWR | c::MODE_SEQUENTIAL,
            c::MODE_RDWR | 1 << 20,
            -1,
        ];
        assert!(yes.into_iter().all(|amode| AccessMode::new(amode).is_ok()));
        for amode in no {
            let error = AccessMode::new(amode).unwrap_err();
            assert_eq!(error.code(), c::ERR_AMODE, "{amode:#x}");
        }
        let write = AccessMode::new(c::MODE_WRONLY).unwrap();
        assert!(write.writes() && !write.reads());
    }
}

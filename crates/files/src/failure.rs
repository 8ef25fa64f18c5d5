//! Errors of the system as MPI has them (MPI 5.0, 14.7 and 14.8).

use std::io::{self, ErrorKind};

use mica_objects::constants as c;
use mica_objects::error::Error;

/// The class of an error of the system.
pub fn class_of(error: &io::Error) -> i32 {
    match error.kind() {
        ErrorKind::NotFound => c::ERR_NO_SUCH_FILE,
        ErrorKind::AlreadyExists => c::ERR_FILE_EXISTS,
        ErrorKind::PermissionDenied => c::ERR_ACCESS,
        ErrorKind::StorageFull => c::ERR_NO_SPACE,
        ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => c::ERR_QUOTA,
        ErrorKind::ReadOnlyFilesystem => c::ERR_READ_ONLY,
        ErrorKind::ResourceBusy | ErrorKind::ExecutableFileBusy => c::ERR_FILE_IN_USE,
        ErrorKind::IsADirectory
        | ErrorKind::NotADirectory
        | ErrorKind::InvalidFilename
        | ErrorKind::InvalidInput => c::ERR_BAD_FILE,
        ErrorKind::OutOfMemory => c::ERR_NO_MEM,
        _ => c::ERR_IO,
    }
}

/// An error of a call that names the file, as at its opening.
pub fn of_name(what: &str, name: &str, error: &io::Error) -> Error {
    Error::other(class_of(error), format!("cannot {what} {name}: {error}"))
}

/// An error of an access to an open file at this byte.
pub fn of_access(what: &str, name: &str, offset: u64, error: &io::Error) -> Error {
    let class = match class_of(error) {
        // No name is at fault any more.
        c::ERR_BAD_FILE | c::ERR_NO_SUCH_FILE => c::ERR_IO,
        class => class,
    };
    Error::other(class, format!("cannot {what} {name} at byte {offset}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_of_the_system_has_its_class() {
        let classes = [
            (libc_errno::ENOENT, c::ERR_NO_SUCH_FILE),
            (libc_errno::EEXIST, c::ERR_FILE_EXISTS),
            (libc_errno::EACCES, c::ERR_ACCESS),
            (libc_errno::ENOSPC, c::ERR_NO_SPACE),
            (libc_errno::EDQUOT, c::ERR_QUOTA),
            (libc_errno::EFBIG, c::ERR_QUOTA),
            (libc_errno::EROFS, c::ERR_READ_ONLY),
            (libc_errno::ETXTBSY, c::ERR_FILE_IN_USE),
            (libc_errno::EISDIR, c::ERR_BAD_FILE),
            (libc_errno::ENAMETOOLONG, c::ERR_BAD_FILE),
            (libc_errno::EIO, c::ERR_IO),
            (libc_errno::ESTALE, c::ERR_IO),
        ];
        for (errno, class) in classes {
            let error = io::Error::from_raw_os_error(errno);
            assert_eq!(class_of(&error), class, "{error}");
        }
    }

    /// The numbers of Linux on x86-64 and aarch64.
    mod libc_errno {
        pub const ENOENT: i32 = 2;
        pub const EIO: i32 = 5;
        pub const EACCES: i32 = 13;
        pub const EEXIST: i32 = 17;
        pub const EISDIR: i32 = 21;
        pub const ETXTBSY: i32 = 26;
        pub const EFBIG: i32 = 27;
        pub const ENOSPC: i32 = 28;
        pub const EROFS: i32 = 30;
        pub const ENAMETOOLONG: i32 = 36;
        pub const ESTALE: i32 = 116;
        pub const EDQUOT: i32 = 122;
    }
}

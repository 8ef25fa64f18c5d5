//! Folders and files of this command that no other user can have prepared or can look into: the
//! folder for temporary files belongs to all, and so may the working directory.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use mica_node::handover::nonce;

/// A folder of this user alone, removed with all that is in it when the value goes.
#[derive(Debug)]
pub struct ScratchFolder(PathBuf);

impl ScratchFolder {
    /// Makes one in the folder for temporary files. `purpose` begins its name.
    ///
    /// # Errors
    /// What the system says, and of which folder.
    pub fn new(purpose: &str) -> Result<ScratchFolder, String> {
        ScratchFolder::within(&std::env::temp_dir(), purpose)
    }

    /// Makes one in this folder.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn within(parent: &Path, purpose: &str) -> Result<ScratchFolder, String> {
        let named = |error: io::Error| format!("{}: {error}", parent.display());
        let random = u128::from_ne_bytes(nonce().map_err(named)?);
        let parent = fs::canonicalize(parent).map_err(named)?;
        let path = parent.join(format!("mica-{purpose}-{random:032x}"));
        // To make a folder fails if something has the name, a symbolic link too.
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(ScratchFolder(path))
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Removes what is in it.
    ///
    /// # Errors
    /// The system's.
    pub fn empty(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.0)? {
            let entry = entry?;
            match entry.file_type()?.is_dir() {
                true => fs::remove_dir_all(entry.path())?,
                false => fs::remove_file(entry.path())?,
            }
        }
        Ok(())
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        // What cannot be removed stays in the temporary directory.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Makes a file, in place of what has its name: a symbolic link that somebody has put there is
/// removed, not followed. For names that this command chooses; one that the user gives may well be
/// a link, or a device.
///
/// # Errors
/// The system's.
pub fn new_file(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    OpenOptions::new().write(true).create_new(true).open(path)
}

/// Writes a [new file](new_file).
///
/// # Errors
/// The system's.
pub fn write_new(path: &Path, content: impl AsRef<[u8]>) -> io::Result<()> {
    new_file(path)?.write_all(content.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_folder_is_private_and_has_a_new_name_each_time() {
        let [one, other] = [(); 2].map(|()| ScratchFolder::new("test").unwrap());
        assert_ne!(one.path(), other.path());
        let mode = fs::metadata(one.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        let path = one.path().to_owned();
        fs::create_dir(path.join("below")).unwrap();
        fs::write(path.join("below/file"), "x").unwrap();
        one.empty().unwrap();
        assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
        drop(one);
        assert!(!path.exists());
    }

    #[test]
    fn links_in_the_way_are_not_followed() {
        let folder = ScratchFolder::new("test").unwrap();
        let [precious, name] = ["precious", "report"].map(|name| folder.path().join(name));
        fs::write(&precious, "kept").unwrap();
        symlink(&precious, &name).unwrap();
        write_new(&name, "new").unwrap();
        assert_eq!(fs::read_to_string(&precious).unwrap(), "kept");
        assert_eq!(fs::read_to_string(&name).unwrap(), "new");
        write_new(&name, "newer").unwrap();
        assert_eq!(fs::read_to_string(&name).unwrap(), "newer");
    }
}

//! Files that have the debug information of an object, apart from it.
//!
//! Two ways name them, and GDB's manual ("Separate Debug Files") has both. By build-id: the note
//! `.note.gnu.build-id` of the object, as `FOLDER/.build-id/ab/cdef...debug`. By link: the section
//! `.gnu_debuglink` has a name and a checksum, and the file is beside the object, in `.debug/`
//! beside it, or in `FOLDER` followed by the object's own folder. The debug information may in turn
//! name a file that it shares with other objects (`.gnu_debugaltlink`, made by `dwz`).

use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use flate2::Crc;
use object::read::ReadCache;
use object::{Object, ObjectSection};

/// Where distributions install separate debug information.
pub const DEBUG_FOLDER: &str = "/usr/lib/debug";

/// Bytes read at a time for a checksum.
const CHUNK: usize = 1 << 16;

/// The files that complete an object.
#[derive(Debug, Default)]
pub struct SeparateFiles {
    /// Debug information, if the object has none itself.
    pub debug: Option<PathBuf>,
    /// What the object's debug information shares with others.
    pub own_supplement: Option<PathBuf>,
    /// What `debug` shares with others.
    pub debug_supplement: Option<PathBuf>,
}

/// What an object says of itself.
#[derive(Debug, Default)]
struct ObjectFacts {
    has_debug: bool,
    build_id: Option<Vec<u8>>,
    /// Name and checksum.
    link: Option<(PathBuf, u32)>,
    supplement: Option<PathBuf>,
}

impl SeparateFiles {
    /// The files for the object at `path`; `folder` has those of the distribution.
    pub fn find(path: &Path, folder: &Path) -> SeparateFiles {
        let Some(facts) = ObjectFacts::read(path) else { return SeparateFiles::default() };
        let debug = match facts.has_debug {
            true => None,
            false => facts.by_build_id(folder).or_else(|| facts.by_link(path, folder)),
        };
        SeparateFiles {
            own_supplement: existing(facts.supplement, path),
            debug_supplement: debug
                .as_ref()
                .and_then(|debug| existing(ObjectFacts::read(debug)?.supplement, debug)),
            debug,
        }
    }
}

impl ObjectFacts {
    fn read(path: &Path) -> Option<ObjectFacts> {
        let cache = ReadCache::new(fs::File::open(path).ok()?);
        let file = object::File::parse(&cache).ok()?;
        let name = |bytes: &[u8]| PathBuf::from(std::ffi::OsStr::from_bytes(bytes));
        // A file stripped of it keeps the section's head, without content.
        let has_debug = file
            .section_by_name(".debug_info")
            .is_some_and(|section| section.file_range().is_some_and(|(_, bytes)| bytes > 0));
        Some(ObjectFacts {
            has_debug,
            build_id: file.build_id().ok().flatten().map(<[u8]>::to_vec),
            link: file.gnu_debuglink().ok().flatten().map(|(link, crc)| (name(link), crc)),
            supplement: file.gnu_debugaltlink().ok().flatten().map(|(link, _)| name(link)),
        })
    }

    fn by_build_id(&self, folder: &Path) -> Option<PathBuf> {
        let id = self.build_id.as_ref()?;
        let (first, rest) = id.split_first()?;
        let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
        let path = folder.join(format!(".build-id/{first:02x}/{rest}.debug"));
        (ObjectFacts::read(&path)?.build_id.as_ref() == Some(id)).then_some(path)
    }

    fn by_link(&self, path: &Path, folder: &Path) -> Option<PathBuf> {
        let (name, crc) = self.link.as_ref()?;
        let own = fs::canonicalize(path).ok()?;
        let beside = own.parent()?;
        let installed = folder.join(beside.strip_prefix("/").unwrap_or(beside));
        let places = [beside.join(name), beside.join(".debug").join(name), installed.join(name)];
        places.into_iter().find(|place| *place != own && checksum(place) == Some(*crc))
    }
}

/// The file that a link names, relative to the file that has the link.
fn existing(link: Option<PathBuf>, of: &Path) -> Option<PathBuf> {
    let path = fs::canonicalize(of).ok()?.parent()?.join(link?);
    path.exists().then_some(path)
}

/// The checksum of a file, as `.gnu_debuglink` has it.
fn checksum(path: &Path) -> Option<u32> {
    let mut file = fs::File::open(path).ok()?;
    let mut crc = Crc::new();
    let mut bytes = vec![0; CHUNK];
    loop {
        match file.read(&mut bytes).ok()? {
            0 => return Some(crc.sum()),
            count => crc.update(&bytes[..count]),
        }
    }
}

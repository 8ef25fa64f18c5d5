//! Reading the ranks' control data of a job segment from outside of the job (`mica top`).
//!
//! The reader has a descriptor opened for reading and copies each rank's block by `pread`: nothing
//! is mapped, so that a file that is shorter than it claims is an error and no SIGBUS, and a hole
//! is read as zeros and costs no memory. A block is copied twice, and again while what the rank
//! waits for differs between the two copies, so that a record that is being written is not shown
//! half old and half new. All numbers are the ranks', who may have overwritten them with anything:
//! they are checked where they lead to memory (how many ranks there are), and shown otherwise.

use super::block::{RankBlock, RankState, monotonic_ns};
use super::spec::NodeMembers;
use super::wait_record::{CALL_BYTES, Waiting};
use super::worlds::World;
use super::worlds::table::WorldTable;
use super::{Geometry, MAGIC, PAGE, SegmentHeader, layout};
use crate::counters::Counters;
use crate::sealed_file::has_seals;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;

/// Copies of a block until two of them agree on what the rank waits for.
const COPIES_MAX: usize = 8;

/// A job segment, opened for reading.
#[derive(Debug)]
pub struct SegmentReader {
    file: File,
    geometry: Geometry,
    job_size: u32,
    launcher_pid: u32,
    ranks: Vec<u32>,
    /// Numbers for ranks of worlds that are spawned.
    spare: u32,
}

/// What a rank's control data say at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankView {
    /// Its state.
    pub state: RankState,
    /// The process that it says it is, 0 before `MPI_Init`; in its own PID namespace.
    pub pid: u32,
    /// What it waits for, if it has waited for some time.
    pub waiting: Option<WaitView>,
    /// Its failed polls since the last successful one, and what they ask for; `None` if they are
    /// few.
    pub polling: Option<(u32, WaitView)>,
    /// Its counters.
    pub counters: Counters,
}

/// A wait that lasts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitView {
    /// What is waited for.
    pub what: Waiting,
    /// For how many nanoseconds.
    pub ns: u64,
    /// The function that the program called; empty as long as it is not known.
    pub call: String,
}

impl SegmentReader {
    /// Takes the descriptor of a segment.
    ///
    /// # Errors
    /// When it holds something else, or the segment of another version, or cannot be read.
    pub fn open(descriptor: OwnedFd) -> io::Result<SegmentReader> {
        let invalid = || io::Error::new(io::ErrorKind::InvalidData, "this is no job segment");
        let file = File::from(descriptor);
        // A file in memory, whose length is fixed: to read from another kind of file, a pipe or one
        // of a file system in user space, could take any time.
        if !has_seals(file.as_fd(), libc::F_SEAL_SHRINK | libc::F_SEAL_GROW) {
            let other = "this is no job segment: its length is not sealed";
            return Err(io::Error::new(io::ErrorKind::InvalidData, other));
        }
        let mut head = [0; size_of::<SegmentHeader>()];
        file.read_exact_at(&mut head, 0)?;
        let u32_at = |at: usize| u32::from_ne_bytes(std::array::from_fn(|i| head[at + i]));
        let magic = std::mem::offset_of!(SegmentHeader, magic);
        if head[magic..magic + 8] != MAGIC.to_ne_bytes() {
            return Err(invalid());
        }
        let layout_at = std::mem::offset_of!(SegmentHeader, layout);
        if head[layout_at..layout_at + 8] != layout().to_ne_bytes() {
            let other = "this is the job segment of another version of Mica";
            return Err(io::Error::new(io::ErrorKind::InvalidData, other));
        }
        let geometry = std::mem::offset_of!(SegmentHeader, geometry);
        let geometry = Geometry::from_words(std::array::from_fn(|at| u32_at(geometry + 4 * at)))
            .ok_or_else(invalid)?;
        let job_size = u32_at(std::mem::offset_of!(SegmentHeader, job_size));
        let launcher_pid = u32_at(std::mem::offset_of!(SegmentHeader, launcher_pid));
        let end = geometry.control_bytes() as u64;
        let spare = u32_at(std::mem::offset_of!(SegmentHeader, spare));
        let ranks = geometry.ranks.checked_sub(spare).ok_or_else(invalid)?;
        if ranks == 0 || ranks > job_size || file.metadata()?.len() < end.max(PAGE as u64) {
            return Err(invalid());
        }
        let mut reader =
            SegmentReader { file, geometry, job_size, launcher_pid, ranks: Vec::new(), spare };
        // One at a time: the first that is invalid ends this, however many are claimed.
        for index in 0..ranks {
            let rank = reader.copy_of_block(index)?.given.rank;
            let is_next = reader.ranks.last().is_none_or(|&last| last < rank);
            if !is_next || rank >= job_size {
                return Err(invalid());
            }
            reader.ranks.push(rank);
        }
        NodeMembers::new(reader.ranks.clone(), job_size, 0).ok_or_else(invalid)?;
        Ok(reader)
    }

    /// The ranks on this node that the job was started with, in rising order.
    pub fn ranks(&self) -> &[u32] {
        &self.ranks
    }

    /// Ranks of the job on all nodes.
    pub fn job_size(&self) -> u32 {
        self.job_size
    }

    /// The process that has started the ranks, in its own PID namespace.
    pub fn launcher_pid(&self) -> u32 {
        self.launcher_pid
    }

    /// The descriptor.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The worlds that have been spawned and run. Their ranks' numbers are [indices](Self::read) of
    /// control data. Empty when the file cannot be read any more.
    pub fn spawned_worlds(&self) -> Vec<World> {
        let first = self.ranks.len() as u32;
        let numbers = first..first.saturating_add(self.spare);
        let table = || self.copy::<WorldTable>(self.geometry.worlds());
        let worlds = || table().map(|table| table.spawned(numbers.clone()));
        // An entry that is being written differs between two copies.
        match (worlds(), worlds()) {
            (Ok(before), Ok(now)) => now.into_iter().filter(|w| before.contains(w)).collect(),
            _ => Vec::new(),
        }
    }

    /// The control data of the rank with this index among [`ranks`](Self::ranks).
    ///
    /// # Errors
    /// When the file cannot be read any more.
    pub fn read(&self, index: usize) -> io::Result<RankView> {
        let mut before = self.copy_of_block(index as u32)?;
        for _ in 0..COPIES_MAX {
            let block = self.copy_of_block(index as u32)?;
            let (one, other) = (before.waiting(), block.waiting());
            let agree = one.map(|(what, _)| what) == other.map(|(what, _)| what)
                && before.call_bytes() == block.call_bytes();
            before = block;
            if agree {
                break;
            }
        }
        Ok(view(&before))
    }

    fn copy_of_block(&self, index: u32) -> io::Result<Box<RankBlock>> {
        self.copy(self.geometry.block(index))
    }

    /// What the file has at this offset.
    fn copy<T: AnyBytes>(&self, offset: usize) -> io::Result<Box<T>> {
        // SAFETY: zeros are a valid `T`, as all bytes are.
        let mut part = unsafe { Box::<T>::new_zeroed().assume_init() };
        // SAFETY: the bytes of `part`, which nothing else refers to. Whatever is written there, it
        // stays valid.
        let bytes = unsafe {
            std::slice::from_raw_parts_mut((&raw mut *part).cast::<u8>(), size_of::<T>())
        };
        self.file.read_exact_at(bytes, offset as u64)?;
        Ok(part)
    }
}

/// A part of a segment.
///
/// # Safety
/// All bytes are valid in it: it consists of numbers, atomic numbers and padding.
unsafe trait AnyBytes {}

// SAFETY: numbers and atomic numbers.
unsafe impl AnyBytes for RankBlock {}

// SAFETY: atomic numbers.
unsafe impl AnyBytes for WorldTable {}

fn view(block: &RankBlock) -> RankView {
    let waiting =
        block.waiting().map(|(what, ns)| WaitView { what, ns, call: call_of(&block.call_bytes()) });
    let polling = block.polls().polling().map(|(polls, what, since_ns)| {
        let wait = WaitView {
            what,
            ns: monotonic_ns().saturating_sub(since_ns),
            call: call_of(&block.polls().call().bytes()),
        };
        (polls, wait)
    });
    RankView {
        state: block.state(),
        polling,
        pid: block.pid(),
        waiting,
        counters: block.counters(),
    }
}

/// The name of a function, or nothing.
fn call_of(bytes: &[u8; CALL_BYTES]) -> String {
    let name = bytes.split(|&b| b == 0).next().unwrap_or_default();
    let is_name = name.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_');
    match is_name {
        true => String::from_utf8_lossy(name).into_owned(),
        false => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{JobSegment, JobSpec, ParentPort, WaitKind, WorldSpec, monotonic_ns};
    use super::*;
    use crate::topology::CorePlace;

    fn segment() -> JobSegment {
        let places = [CorePlace::UNKNOWN; 3];
        let spec =
            JobSpec { job_size: 9, members: &[2, 3, 8], ..JobSpec::on_one_node(&places, 2, &[]) };
        JobSegment::create(&spec).unwrap()
    }

    fn reader(segment: &JobSegment) -> SegmentReader {
        SegmentReader::open(segment.as_fd().try_clone_to_owned().unwrap()).unwrap()
    }

    #[test]
    fn a_wait_is_read_with_its_call() {
        let segment = segment();
        let reader = reader(&segment);
        assert_eq!((reader.ranks(), reader.job_size()), (&[2, 3, 8][..], 9));
        assert_eq!(reader.read(1).unwrap().state, RankState::Absent);
        segment.claim(3).unwrap();
        let what = Waiting { kind: WaitKind::Receive, peer: 2, tag: 7, context: 4, unexpected: 5 };
        let block = segment.block(3);
        let since = monotonic_ns() - 1_000_000;
        block.set_waiting(Some((&what, since)));
        block.name_wait("MPI_Intercomm_create_from_groups");
        let view = reader.read(1).unwrap();
        assert_eq!(view.pid, std::process::id());
        let wait = view.waiting.unwrap();
        assert_eq!(wait.what, what);
        assert!(wait.ns >= 1_000_000);
        assert_eq!(wait.call, "MPI_Intercomm_create_from_groups");
        // A later update keeps the name; the end of the wait does not.
        block.set_waiting(Some((&what, since)));
        assert!(!reader.read(1).unwrap().waiting.unwrap().call.is_empty());
        block.set_waiting(None);
        assert_eq!(reader.read(1).unwrap().waiting, None);
        block.set_waiting(Some((&what, since)));
        assert_eq!(reader.read(1).unwrap().waiting.unwrap().call, "");
    }

    #[test]
    fn the_worlds_that_run_are_seen() {
        let places = [CorePlace::UNKNOWN; 3];
        let spec = JobSpec { spare: 6, ..JobSpec::on_one_node(&places[..2], 2, &[]) };
        let segment = JobSegment::create(&spec).unwrap();
        let reader = reader(&segment);
        assert_eq!(reader.spawned_worlds(), []);
        let begin = |ranks: usize| {
            let parent = ParentPort { rank: 1, tag: 9 };
            let spec = WorldSpec { places: &places[..ranks], appnum: &[], parent };
            segment.begin_world(&spec).unwrap()
        };
        let (one, other) = (begin(3), begin(2));
        segment.claim(6).unwrap();
        assert_eq!((reader.spawned_worlds(), reader.ranks()), (vec![one, other], &[0, 1][..]));
        assert_eq!(reader.read(6).unwrap().pid, std::process::id());
        segment.end_world(one.index).unwrap();
        assert_eq!(reader.spawned_worlds(), [other]);
        // A rank can write anything there.
        let file = File::from(segment.as_fd().try_clone_to_owned().unwrap());
        let entry = (reader.geometry.worlds() + 64 * (1 + other.index as usize)) as u64;
        for (first, count, is_seen) in
            [(2, 6, true), (1, 1, false), (7, 2, false), (u32::MAX, 2, false), (2, u32::MAX, false)]
        {
            let words = [first, count].map(u32::to_ne_bytes).concat();
            file.write_all_at(&words, entry + 4).unwrap();
            assert_eq!(reader.spawned_worlds().len(), usize::from(is_seen), "{first} {count}");
        }
    }

    /// A rank can write anything into its block.
    #[test]
    fn scribbled_control_data_are_bounded() {
        let segment = segment();
        let file = File::from(segment.as_fd().try_clone_to_owned().unwrap());
        let open = || SegmentReader::open(segment.as_fd().try_clone_to_owned().unwrap());
        let reader = reader(&segment);
        let block = reader.geometry.block(1) as u64;
        for byte in [0xff, 0x80, 0x01, 0x1b] {
            file.write_all_at(&[byte; size_of::<RankBlock>()], block).unwrap();
            let view = reader.read(1).unwrap();
            assert!(view.waiting.is_none_or(|wait| wait.call.is_empty()));
        }
        assert!(open().is_err(), "its rank is out of order");
        // More ranks than the file has room for, and than the job has.
        let ranks = (std::mem::offset_of!(SegmentHeader, geometry)
            + std::mem::offset_of!(Geometry, ranks)) as u64;
        for claimed in [0, 4, 1 << 20, u32::MAX] {
            file.write_all_at(&claimed.to_ne_bytes(), ranks).unwrap();
            assert!(open().is_err(), "{claimed}");
        }
        file.write_all_at(b"x", 0).unwrap();
        assert!(open().is_err());
    }
}

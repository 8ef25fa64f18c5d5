//! Creating a segment, joining an existing one, and leaving it.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::{Mutex, OnceLock};

use super::block::GivenLine;
use super::spec::{JobSpec, NodeMembers};
use super::worlds::table::WORLD_TABLE_BYTES;
use super::{Geometry, JobSegment, MAGIC, PAGE, RankBlock, SegmentError, SegmentHeader};
use crate::handover;
use crate::page::page_size;
use crate::tunables::{SegmentShape, segment_shape};

impl JobSegment {
    /// Creates the segment of a job: an anonymous memfd (close-on-exec), with header and control
    /// blocks allocated.
    ///
    /// # Errors
    /// When memory or descriptors are not available, with the number of bytes wanted.
    pub fn create(spec: &JobSpec<'_>) -> Result<JobSegment, SegmentError> {
        JobSegment::create_shaped(spec, segment_shape())
    }

    /// [`create`](Self::create) for ranks that the process `launcher` has started, instead of this
    /// one.
    ///
    /// # Errors
    /// As [`JobSegment::create`].
    pub fn create_under(spec: &JobSpec<'_>, launcher: u32) -> Result<JobSegment, SegmentError> {
        JobSegment::create_with(spec, segment_shape(), launcher)
    }

    /// [`create`](Self::create) with another shape than the environment's.
    ///
    /// # Errors
    /// As [`JobSegment::create`].
    pub fn create_shaped(
        spec: &JobSpec<'_>,
        shape: SegmentShape,
    ) -> Result<JobSegment, SegmentError> {
        JobSegment::create_with(spec, shape, std::process::id())
    }

    fn create_with(
        spec: &JobSpec<'_>,
        shape: SegmentShape,
        launcher_pid: u32,
    ) -> Result<JobSegment, SegmentError> {
        let ranks = spec.places.len() as u32;
        let named = match spec.members {
            [] => (0..ranks).collect(),
            named => named.to_vec(),
        };
        let members = NodeMembers::new(named, spec.job_size, spec.spare)
            .filter(|m| m.ranks.len() == spec.places.len())
            .ok_or(SegmentError::Members {
                members: spec.members.len(),
                places: spec.places.len(),
                job_size: spec.job_size,
            })?;
        let geometry = geometry(ranks + spec.spare, shape)?;
        let bytes = geometry.total_bytes();
        let fd = job_file().ok_or_else(|| system("memfd_create", bytes))?;
        let limit = FileSizeLimit::lift();
        let with_slots = geometry.file_bytes().filter(|&bytes| limit.allows(bytes));
        let file_bytes = with_slots.unwrap_or(bytes as u64);
        if !limit.allows(file_bytes) {
            return Err(SegmentError::FileSizeLimit { bytes: file_bytes, limit: limit.bytes });
        }
        // SAFETY: plain system call on our descriptor.
        if unsafe { libc::ftruncate(fd.as_raw_fd(), file_bytes as libc::off_t) } < 0 {
            return Err(system("ftruncate", bytes));
        }
        fix_size(&fd);
        // Filling the file within its size is not subject to the limit.
        drop(limit);
        let segment = JobSegment {
            base: map(&fd, 0, bytes)?,
            fd,
            block_stride: geometry.block_stride(),
            geometry,
            has_slots: with_slots.is_some(),
            members,
            taken_parts: Mutex::default(),
            kept_parts: Mutex::default(),
            wake_fencing: OnceLock::new(),
        };
        segment.allocate(0, geometry.block(ranks))?;
        segment.allocate(geometry.worlds(), WORLD_TABLE_BYTES)?;
        let header = SegmentHeader {
            magic: MAGIC,
            geometry,
            available_cores: spec.available_cores,
            launcher_pid,
            parker_fences: u32::from(parker_fences(ranks > spec.available_cores)),
            job_size: spec.job_size,
            spare: spec.spare,
            area_bytes: shape.area_bytes,
            areas_bytes: shape.areas_bytes,
            layout: super::layout(),
        };
        // SAFETY: header and blocks lie in the part just allocated, zeroed and seen by no other
        // process yet.
        unsafe {
            segment.base.cast::<SegmentHeader>().write(header);
            for (index, &rank) in segment.members.ranks.iter().enumerate() {
                let block = segment.at(geometry.block(index as u32)).cast::<RankBlock>();
                (*block).given = GivenLine {
                    place: spec.places[index],
                    appnum: spec.appnum.get(index).copied().unwrap_or(0),
                    rank,
                };
            }
        }
        segment.enter_first_world(ranks, launcher_pid);
        Ok(segment)
    }

    /// Maps the segment that an inherited descriptor holds.
    ///
    /// # Errors
    /// When the descriptor holds something else, or cannot be mapped.
    pub fn attach(fd: OwnedFd) -> Result<JobSegment, SegmentError> {
        let not_a_segment = SegmentError::NotASegment { fd: fd.as_raw_fd() };
        let (header, size) = header(&fd)?;
        let bytes = header.geometry.total_bytes();
        let has_slots = header.geometry.file_bytes() == Some(size as u64);
        // SAFETY: plain system call: programs that this process starts must not inherit the
        // segment.
        unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) };
        let base = map(&fd, 0, bytes)?;
        let ranks = header.geometry.ranks.saturating_sub(header.spare);
        let ranks = (0..ranks).map(|index| {
            // SAFETY: the block lies in the mapping, page-aligned; its given line is not written
            // any more.
            unsafe {
                let block = base.as_ptr().wrapping_add(header.geometry.block(index));
                (*block.cast::<RankBlock>()).given.rank
            }
        });
        let members = NodeMembers::new(ranks.collect(), header.job_size, header.spare)
            .ok_or(not_a_segment)?;
        Ok(JobSegment {
            base,
            fd,
            block_stride: header.geometry.block_stride(),
            geometry: header.geometry,
            has_slots,
            members,
            taken_parts: Mutex::default(),
            kept_parts: Mutex::default(),
            wake_fencing: OnceLock::new(),
        })
    }

    /// Identifies this segment among all files of this machine, for [`inherited_descriptor`].
    pub fn identity(&self) -> String {
        handover::identity(self.as_fd()).map_or_else(String::new, |key| key.to_string())
    }

    /// Whether the calling process, which a rank of this node started, is the first such process to
    /// find that it is a job of its own.
    pub fn begin_descendants(&self) -> bool {
        self.block(self.members()[0]).begin_descendants()
    }

    /// Makes the calling process rank `rank` of the job.
    ///
    /// # Errors
    /// When there is no such rank, or another process has it.
    pub fn claim(&self, rank: u32) -> Result<(), SegmentError> {
        if !self.is_member(rank) || self.world_of(rank).is_none() {
            return Err(SegmentError::NoSuchRank {
                rank,
                ranks: self.ranks(),
                job_size: self.job_size(),
            });
        }
        let block = self.block(rank);
        if block.claim(std::process::id()) {
            Ok(())
        } else {
            Err(SegmentError::RankTaken { rank, pid: block.pid() })
        }
    }
}

impl JobSegment {
    /// Maps `bytes` bytes of the file from `offset` on, beside the segment's own mapping.
    ///
    /// # Errors
    /// When there is no address space, with the number of bytes.
    pub(crate) fn map_part(&self, offset: u64, bytes: usize) -> Result<MappedPart, SegmentError> {
        let base = map(&self.fd, offset, bytes)?;
        Ok(MappedPart { base, bytes })
    }
}

/// A part of the job's file, mapped in this process until it is dropped.
#[derive(Debug)]
pub(crate) struct MappedPart {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping is shared memory; the code that makes references into it answers for them.
unsafe impl Send for MappedPart {}
// SAFETY: as above.
unsafe impl Sync for MappedPart {}

impl MappedPart {
    /// The first byte, on a page. Valid as long as this lives.
    #[inline(always)]
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Number of bytes.
    #[inline(always)]
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for MappedPart {
    fn drop(&mut self) {
        // SAFETY: mapped with this length in `map_part`; by the contract of `base`, nothing uses it
        // any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

impl Drop for JobSegment {
    fn drop(&mut self) {
        // SAFETY: mapped with this length in `create` or `attach`; references into it borrow
        // `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.geometry.total_bytes()) };
    }
}

/// Lifts the limit on the size of files that this process makes (RLIMIT_FSIZE) to the hard limit,
/// until it is dropped. Beyond the limit, the kernel would end the process (SIGXFSZ).
struct FileSizeLimit {
    /// The limit in force now.
    bytes: u64,
    /// The limit to restore, if it was changed.
    before: Option<libc::rlimit>,
}

impl FileSizeLimit {
    fn lift() -> FileSizeLimit {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: writes to `limit` only.
        if unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) } < 0 {
            return FileSizeLimit { bytes: 0, before: None };
        }
        let lifted = libc::rlimit { rlim_cur: limit.rlim_max, ..limit };
        // SAFETY: reads `lifted` only.
        let done = limit.rlim_cur != limit.rlim_max
            && unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &lifted) } == 0;
        FileSizeLimit {
            bytes: if done { limit.rlim_max } else { limit.rlim_cur },
            before: done.then_some(limit),
        }
    }

    fn allows(&self, bytes: u64) -> bool {
        self.bytes == libc::RLIM_INFINITY || self.bytes >= bytes
    }
}

impl Drop for FileSizeLimit {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // SAFETY: reads `before` only. Lowering a soft limit cannot fail.
            unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, before) };
        }
    }
}

/// A file without a name for the job, close-on-exec and not executable.
fn job_file() -> Option<OwnedFd> {
    let create = |flags| {
        // SAFETY: the name is a NUL-terminated string; the call touches no other memory.
        let fd = unsafe { libc::memfd_create(c"mica-job".as_ptr(), libc::MFD_CLOEXEC | flags) };
        // SAFETY: memfd_create returned a new descriptor that has no other owner.
        (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
    };
    // Kernels before Linux 6.3 do not know the first flag, which includes the second.
    create(libc::MFD_NOEXEC_SEAL).or_else(|| create(libc::MFD_ALLOW_SEALING))
}

/// Seals the file's size: a process that shortened it, by mistake or to harm, would end all others
/// by SIGBUS. Where the kernel has no seals, the file works as well.
fn fix_size(fd: &OwnedFd) {
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: plain system call on our descriptor.
    unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, seals) };
}

fn geometry(ranks: u32, shape: SegmentShape) -> Result<Geometry, SegmentError> {
    let SegmentShape { cells, cell_bytes, fifo_bytes, mixed, .. } = shape;
    let geometry = Geometry::new(ranks, cells, cell_bytes).ok_or(SegmentError::Geometry {
        ranks,
        cells,
        cell_bytes,
    })?;
    match fifo_bytes {
        None => Ok(geometry),
        Some(fifo_bytes) => geometry
            .with_fifos(fifo_bytes)
            .and_then(|g| if mixed { g.mixed() } else { Some(g) })
            .ok_or(SegmentError::Fifos { ranks, fifo_bytes }),
    }
}

/// Where each rank has a core, parking is rare, and membarrier is cheaper than a fence on every
/// send.
fn parker_fences(oversubscribed: bool) -> bool {
    match crate::tunables::FENCING.text().as_str() {
        "sender" => false,
        "parker" => true,
        _ => !oversubscribed && crate::park::membarrier_available(),
    }
}

/// Takes ownership of the descriptor that the launcher left open for this process, if it holds the
/// segment that `identity` names ([`JobSegment::identity`]). Any other descriptor is left
/// untouched: a program may have closed what it inherited, and opened another file under the
/// number, and the environment may come from another job.
///
/// # Errors
/// When the descriptor is closed, or holds something else.
pub fn inherited_descriptor(number: u32, identity: Option<&str>) -> Result<OwnedFd, SegmentError> {
    let fd = number as i32;
    let held = (fd >= 0).then(|| handover::identity_of(fd)).flatten();
    let Some(held) = held else {
        return Err(SegmentError::ClosedDescriptor { fd });
    };
    if identity.is_some_and(|wanted| wanted != held.to_string()) {
        return Err(SegmentError::NotASegment { fd });
    }
    // The contents are checked too: who adopts the descriptor closes it if it is no segment.
    // SAFETY: it is open, and released below without being closed.
    let borrowed = std::mem::ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(fd) });
    header(&borrowed)?;
    // SAFETY: it is open, and by the launcher's convention no other code in this process uses it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The header of the segment behind a descriptor, and the size of its file.
fn header(fd: &OwnedFd) -> Result<(SegmentHeader, usize), SegmentError> {
    let not_a_segment = || SegmentError::NotASegment { fd: fd.as_raw_fd() };
    // SAFETY: all-zero bytes are a valid stat.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: fstat writes to `stat` only.
    let known = unsafe { libc::fstat(fd.as_raw_fd(), &mut stat) } == 0;
    let size = stat.st_size as usize;
    if !known || stat.st_mode & libc::S_IFMT != libc::S_IFREG || size < PAGE {
        return Err(not_a_segment());
    }
    let head = map(fd, 0, PAGE).map_err(|_| not_a_segment())?;
    // SAFETY: the file has at least a page and the header fits one; it was written before this
    // process was started.
    let header = unsafe { head.cast::<SegmentHeader>().read() };
    // SAFETY: mapped just above with this length, and not used any more.
    unsafe { libc::munmap(head.as_ptr().cast(), PAGE) };
    // The geometry is valid only if the magic number is.
    let whole = header.magic == MAGIC
        && (header.geometry.total_bytes() == size
            || header.geometry.file_bytes() == Some(size as u64));
    whole.then_some((header, size)).ok_or_else(not_a_segment)
}

fn system(call: &'static str, bytes: usize) -> SegmentError {
    SegmentError::System { call, bytes, source: io::Error::last_os_error() }
}

fn map(fd: &OwnedFd, offset: u64, bytes: usize) -> Result<NonNull<u8>, SegmentError> {
    // As a kernel with such pages would.
    if !offset.is_multiple_of(page_size() as u64) {
        let source = io::Error::from_raw_os_error(libc::EINVAL);
        return Err(SegmentError::System { call: "mmap", bytes, source });
    }
    // SAFETY: a fresh mapping at an address that the kernel chooses; MAP_NORESERVE since most of
    // the segment is never touched, and memory of the areas is allocated separately.
    let base = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_NORESERVE,
            fd.as_raw_fd(),
            offset as libc::off_t,
        )
    };
    if base == libc::MAP_FAILED {
        return Err(system("mmap", bytes));
    }
    Ok(NonNull::new(base.cast()).expect("mmap does not return null"))
}

//! Who else holds or changes pages of this process: devices, asynchronous I/O, handlers of user
//! faults, protection keys (docs/design/mapped.md, "What holds or changes a page").
//!
//! A driver that pins pages keeps the old ones when others are put in their place, and the kernel
//! counts the pins of some drivers only (VmPin). What a driver has done cannot be seen, so the rule
//! is by what is known to be harmless: whatever device is mapped or open stops all moves, unless it
//! is one of a short list (null, zero, random numbers, terminals), or one of the library's own copy
//! engines, whose memory is held by the operation. The same for kinds of sockets and of anonymous
//! inodes.
//!
//! A registration lasts as long as the device's file: it has a descriptor or a mapping in some
//! process. Both are looked for in this process, before each move.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::fs;
use std::os::fd::RawFd;
use std::sync::OnceLock;

use super::eligibility::SkipReason;
use super::raw;
use crate::own_devices;
use mica_node::procmap::{MappedArea, ProcMap};

/// Whether the kernel may be writing to memory of the process by itself, at the request of a thread
/// that goes on meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum AsyncReads {
    None,
    /// A ring of io_uring or a context of asynchronous I/O is there.
    Possible,
}

/// What a file means for the process's pages: a reason to move none, or whether asynchronous reads
/// go through it.
type FileMeaning = Result<AsyncReads, SkipReason>;

/// Who else holds pages of this process.
#[derive(Debug, Default)]
pub(super) struct PageHolders {
    /// Mapped files met so far, by device and inode.
    known: HashMap<(u64, u64), FileMeaning>,
}

/// Bytes of the longest path, with its NUL.
const NAME_BYTES: usize = 4096;

impl PageHolders {
    /// Looks at all mapped files and open descriptors of the process. Costs one query for each file
    /// area (0.35 us), and one or two system calls for each descriptor.
    ///
    /// # Errors
    /// The reason to leave all memory alone.
    pub fn survey(&mut self, maps: &ProcMap) -> Result<AsyncReads, SkipReason> {
        if has_protection_keys() {
            return Err(SkipReason::Keys);
        }
        let mapped = self.of_areas(maps)?;
        let opened = of_descriptors()?;
        let found = mapped.max(opened);
        Ok(if has_hidden_ring() { AsyncReads::Possible } else { found })
    }

    fn of_areas(&mut self, maps: &ProcMap) -> FileMeaning {
        let mut at = 0;
        let mut found = AsyncReads::None;
        while let Some(area) = maps.next_of_a_file(at).map_err(|_| SkipReason::Kernel)? {
            at = area.addresses.end;
            found = found.max(self.of_area(maps, &area)?);
        }
        Ok(found)
    }

    fn of_area(&mut self, maps: &ProcMap, area: &MappedArea) -> FileMeaning {
        let key = (area.device, area.inode);
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let mut name = [0u8; NAME_BYTES];
        // A name that does not fit is not known to be harmless.
        maps.named(area.addresses.start, &mut name).map_err(|_| SkipReason::Device)?;
        let name = CStr::from_bytes_until_nul(&name).map_err(|_| SkipReason::Device)?;
        if own_devices::has_mapping(&area.addresses) {
            return Ok(AsyncReads::None);
        }
        let meaning = meaning_of_mapped(name.to_bytes());
        // All anonymous inodes may share one inode number.
        if !name.to_bytes().starts_with(ANONYMOUS) {
            self.known.insert(key, meaning);
        }
        meaning
    }
}

const ANONYMOUS: &[u8] = b"anon_inode:";

/// Names of files below `/dev` that are no devices, or harmless ones.
const PLAIN_IN_DEV: [&[u8]; 4] = [b"/dev/shm/", b"/dev/hugepages", b"/dev/mqueue/", b"/dev/zero"];

/// The meaning of a mapped file, by its name.
fn meaning_of_mapped(name: &[u8]) -> FileMeaning {
    if let Some(kind) = name.strip_prefix(ANONYMOUS) {
        return meaning_of_anonymous(kind);
    }
    if name.starts_with(b"/[aio]") {
        return Ok(AsyncReads::Possible);
    }
    let is_plain = PLAIN_IN_DEV.iter().any(|prefix| name.starts_with(prefix));
    let is_of_device = [&b"/dev/"[..], b"/sys/", b"/proc/"].iter().any(|p| name.starts_with(p));
    if is_of_device && !is_plain || !name.starts_with(b"/") {
        // Registers of a device; a socket's or another special file's own memory.
        return Err(SkipReason::Device);
    }
    let path = CString::new(name).map_err(|_| SkipReason::Device)?;
    // SAFETY: the path is NUL-terminated; stat writes to `stat` only, which zeros are valid for.
    let (result, stat) = unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        (libc::stat(path.as_ptr(), &mut stat), stat)
    };
    let is_known = match result {
        0 => !is_device(&stat) || is_harmless(stat.st_rdev),
        // A file of no name any more (memfd, deleted) outside of /dev is no device.
        _ => name.ends_with(DELETED),
    };
    if is_known { Ok(AsyncReads::None) } else { Err(SkipReason::Device) }
}

/// How the kernel ends the name of a file that has been removed, or never had one.
const DELETED: &[u8] = b" (deleted)";

/// The meaning of an anonymous inode, by its kind.
fn meaning_of_anonymous(kind: &[u8]) -> FileMeaning {
    // Not the maps and programs of BPF, which may have pinned pages of a task (BPF_UPTR).
    const HARMLESS: [&[u8]; 9] = [
        b"[eventfd]",
        b"[eventpoll]",
        b"[timerfd]",
        b"[signalfd]",
        b"[pidfd]",
        b"[fanotify]",
        b"[perf_event]",
        b"inotify",
        b"[landlock-ruleset]",
    ];
    match kind {
        b"[io_uring]" => Ok(AsyncReads::Possible),
        b"[userfaultfd]" => Err(SkipReason::UserFaults),
        kind if HARMLESS.contains(&kind) => Ok(AsyncReads::None),
        _ => Err(SkipReason::Device),
    }
}

fn is_device(stat: &libc::stat) -> bool {
    stat.st_mode & libc::S_IFMT == libc::S_IFCHR
}

/// Whether a character device holds no memory of its users (Linux, Documentation/admin-guide,
/// devices.txt).
fn is_harmless(device: libc::dev_t) -> bool {
    match (libc::major(device), libc::minor(device)) {
        // null, zero, full, random, urandom, kmsg; terminals; registers and facts of the processor.
        (1, minor) => matches!(minor, 3 | 5 | 7 | 8 | 9 | 11),
        (4 | 5 | 136..=143 | 202 | 203, _) => true,
        _ => false,
    }
}

/// What the open descriptors of the process mean. Other threads that have a table of their own
/// (`unshare`) are not seen. (`/proc/self` is the first thread's table, which is empty once that
/// thread has ended.)
fn of_descriptors() -> FileMeaning {
    let mut found = AsyncReads::None;
    for entry in fs::read_dir("/proc/thread-self/fd").map_err(|_| SkipReason::Kernel)? {
        let name = entry.map_err(|_| SkipReason::Kernel)?.file_name();
        let Some(fd) = name.to_str().and_then(|name| name.parse::<RawFd>().ok()) else {
            continue;
        };
        found = found.max(of_descriptor(fd)?);
    }
    Ok(found)
}

fn of_descriptor(fd: RawFd) -> FileMeaning {
    // SAFETY: fstat writes to `stat` only, which zeros are valid for.
    let (result, stat) = unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        (libc::fstat(fd, &mut stat), stat)
    };
    if result < 0 {
        return unless_closed(std::io::Error::last_os_error());
    }
    let is_own = || own_devices::has_descriptor(fd, stat.st_rdev);
    match stat.st_mode & libc::S_IFMT {
        libc::S_IFCHR if is_harmless(stat.st_rdev) || is_own() => Ok(AsyncReads::None),
        libc::S_IFCHR => Err(SkipReason::Device),
        libc::S_IFSOCK => of_socket(fd),
        libc::S_IFDIR | libc::S_IFIFO | libc::S_IFBLK | libc::S_IFLNK => Ok(AsyncReads::None),
        // Anonymous inodes have no type, or that of a regular file.
        kind => match fs::read_link(format!("/proc/thread-self/fd/{fd}")) {
            Ok(name) => meaning_of_open(kind, name.as_os_str().as_encoded_bytes()),
            Err(error) => unless_closed(error),
        },
    }
}

/// The meaning of an open file that is no device, socket or pipe, by its type and name.
fn meaning_of_open(kind: libc::mode_t, name: &[u8]) -> FileMeaning {
    if let Some(kind) = name.strip_prefix(ANONYMOUS) {
        return meaning_of_anonymous(kind);
    }
    // Events of users have words in their memory, which the kernel writes (user_events_data).
    match kind == libc::S_IFREG && !name.starts_with(b"/sys/kernel/") {
        true => Ok(AsyncReads::None),
        // Buffers of devices (dma-buf), and kinds of files to come.
        false => Err(SkipReason::Device),
    }
}

/// The meaning of a descriptor that cannot be examined: none if another thread has closed it.
fn unless_closed(error: std::io::Error) -> FileMeaning {
    match error.raw_os_error() {
        Some(libc::EBADF | libc::ENOENT) => Ok(AsyncReads::None),
        _ => Err(SkipReason::Device),
    }
}

/// Sockets of other families may have registered memory with an adapter (AF_XDP, AF_RDS).
fn of_socket(fd: RawFd) -> FileMeaning {
    let mut family: libc::c_int = 0;
    let mut bytes = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the kernel writes to `family`, at most its `bytes` bytes.
    let result = unsafe {
        libc::getsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_DOMAIN,
            (&raw mut family).cast(),
            &raw mut bytes,
        )
    };
    if result < 0 {
        return unless_closed(std::io::Error::last_os_error());
    }
    let is_harmless = matches!(
        family,
        libc::AF_UNIX
            | libc::AF_INET
            | libc::AF_INET6
            | libc::AF_NETLINK
            | libc::AF_PACKET
            | libc::AF_VSOCK
    );
    if is_harmless { Ok(AsyncReads::None) } else { Err(SkipReason::Device) }
}

/// Whether the calling thread has a ring of io_uring that has neither descriptor nor mapping
/// (IORING_SETUP_REGISTERED_FD_ONLY, IORING_SETUP_NO_MMAP): the kernel is asked for the
/// capabilities of each ring that a thread may have so. Other threads count as writers anyway.
fn has_hidden_ring() -> bool {
    const RINGS: usize = 16; // IO_RINGFD_REG_MAX
    const REGISTER_PROBE: usize = 8;
    const USE_REGISTERED_RING: usize = 1 << 31;
    // struct io_uring_probe, for the capabilities of no operation.
    let mut probe = [0u64; 2];
    (0..RINGS).any(|ring| {
        let operation = REGISTER_PROBE | USE_REGISTERED_RING;
        let arguments = [ring, operation, probe.as_mut_ptr().expose_provenance(), 0, 0, 0];
        // SAFETY: the kernel writes to `probe`, which has the bytes of the structure's head.
        raw::check(unsafe { raw::call(libc::SYS_io_uring_register, arguments) }).is_ok()
    })
}

/// Whether the process has allocated protection keys: an allocation of one then does not give the
/// first one.
fn has_protection_keys() -> bool {
    const DISABLE_ACCESS: usize = 1; // a thread's right at its start
    static ARE_THERE: OnceLock<bool> = OnceLock::new();
    if !*ARE_THERE.get_or_init(supports_protection_keys) {
        return false;
    }
    // SAFETY: allocates a key, and changes the right of this thread to memory of that key, of which
    // there is none.
    let key = unsafe { raw::call(libc::SYS_pkey_alloc, [0, DISABLE_ACCESS, 0, 0, 0, 0]) };
    match raw::check(key) {
        Ok(key) => {
            // SAFETY: the key is known to this function alone.
            unsafe { raw::call(libc::SYS_pkey_free, [key, 0, 0, 0, 0, 0]) };
            key != 1
        }
        Err(libc::ENOSYS | libc::EINVAL) => false,
        // All are taken, or it cannot be known.
        Err(_) => true,
    }
}

#[cfg(target_arch = "x86_64")]
fn supports_protection_keys() -> bool {
    const OSPKE: u32 = 1 << 4;
    std::arch::x86_64::__cpuid(0).eax >= 7
        && std::arch::x86_64::__cpuid_count(7, 0).ecx & OSPKE != 0
}

#[cfg(target_arch = "aarch64")]
fn supports_protection_keys() -> bool {
    const POE: u64 = 1 << 63; // HWCAP2_POE
    // SAFETY: no obligations.
    unsafe { libc::getauxval(libc::AT_HWCAP2) & POE != 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_to_be_harmless_stops_moves() {
        let device = Err(SkipReason::Device);
        for name in [
            &b"/dev/nvidia0"[..],
            b"/dev/nvidia-uvm (deleted)",
            b"/dev/kfd",
            b"/dev/dri/renderD128",
            b"/dev/infiniband/uverbs0",
            b"/dev/vfio/7",
            b"/dev/something-new",
            b"/sys/bus/pci/devices/0000:00:02.0/resource0",
            b"anon_inode:[vfio-device]",
            b"anon_inode:kvm-vcpu:0",
            b"anon_inode:i915.gem",
            b"anon_inode:something-new",
            b"anon_inode:bpf-map",
            b"socket:[17]",
            b"/a/place/that/cannot/be/seen",
        ] {
            assert_eq!(meaning_of_mapped(name), device, "{}", String::from_utf8_lossy(name));
        }
        for name in [
            &b"/memfd:mica (deleted)"[..],
            b"/SYSV00000000 (deleted)",
            b"/dev/shm/segment (deleted)",
            b"/dev/zero (deleted)",
            b"/proc-like/file (deleted)",
            env!("CARGO_MANIFEST_DIR").as_bytes(),
            b"anon_inode:[perf_event]",
        ] {
            let meaning = meaning_of_mapped(name);
            assert_eq!(meaning, Ok(AsyncReads::None), "{}", String::from_utf8_lossy(name));
        }
        assert_eq!(meaning_of_mapped(b"/[aio] (deleted)"), Ok(AsyncReads::Possible));
        assert_eq!(meaning_of_mapped(b"anon_inode:[io_uring]"), Ok(AsyncReads::Possible));
        assert_eq!(meaning_of_mapped(b"anon_inode:[userfaultfd]"), Err(SkipReason::UserFaults));
    }

    #[test]
    fn open_files_are_told_apart_by_name() {
        for (kind, name, expected) in [
            (libc::S_IFREG, &b"/home/user/data"[..], Ok(AsyncReads::None)),
            (libc::S_IFREG, b"/proc/7/maps", Ok(AsyncReads::None)),
            (libc::S_IFREG, b"/sys/class/powercap/energy_uj", Ok(AsyncReads::None)),
            (libc::S_IFREG, b"/sys/kernel/tracing/user_events_data", Err(SkipReason::Device)),
            (0, b"/dmabuf:", Err(SkipReason::Device)),
            (0, b"anon_inode:[eventfd]", Ok(AsyncReads::None)),
            (libc::S_IFREG, b"anon_inode:[io_uring]", Ok(AsyncReads::Possible)),
        ] {
            let meaning = meaning_of_open(kind, name);
            assert_eq!(meaning, expected, "{}", String::from_utf8_lossy(name));
        }
    }

    #[test]
    fn devices_are_told_apart_by_number() {
        for (major, minor, expected) in
            [(1, 3, true), (1, 1, false), (1, 9, true), (5, 0, true), (136, 7, true)]
        {
            assert_eq!(is_harmless(libc::makedev(major, minor)), expected, "{major}:{minor}");
        }
        assert!(!is_harmless(libc::makedev(10, 229)) && !is_harmless(libc::makedev(195, 0)));
    }

    #[test]
    fn a_process_without_rings_and_keys_has_none() {
        assert!(!has_hidden_ring());
        assert!(!has_protection_keys());
    }
}

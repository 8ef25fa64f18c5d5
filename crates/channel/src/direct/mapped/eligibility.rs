//! Which memory may be migrated: the checks before a migration, and the reasons to skip it
//! (docs/design/mapped.md has the hazards).

use std::collections::BTreeSet;
use std::ffi::CStr;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::raw;
use mica_node::procmap::{MappedArea, ProcMap};
pub use mica_node::segment::SkipReason;

/// The library's threads, which access users' memory only as part of a transfer: their number, and
/// in the upper half how often it has changed.
///
/// SYNC helpers: a thread adds itself when it has begun and takes itself off before it ends, both
/// with Release, so that who counts it (Acquire, `ProcessStatus::now`) finds it among the threads
/// that the kernel counts.
static HELPERS: AtomicU64 = AtomicU64::new(0);

const CHANGE: u64 = 1 << 32;

/// The number in a value of [`HELPERS`].
fn number_of(helpers: u64) -> u32 {
    helpers as u32
}

/// Marks the calling thread as one of the library, until it is dropped. A process whose other
/// threads are all so marked counts as single-threaded. Such a thread accesses users' memory only
/// in transfers, and writes only to buffers that are [exposed](crate::direct::Direct::expose)
/// meanwhile, which are not migrated.
#[derive(Debug)]
pub struct HelperThread(());

impl HelperThread {
    /// Marks the calling thread, which must drop the value when it ends.
    #[allow(clippy::new_without_default)]
    pub fn new() -> HelperThread {
        // SYNC helpers
        HELPERS.fetch_add(CHANGE + 1, Ordering::AcqRel);
        HelperThread(())
    }

    /// How many there are.
    pub(super) fn count() -> u32 {
        number_of(HELPERS.load(Ordering::Relaxed))
    }

    /// Resets the count in a child of `fork`, which has none of its parent's helpers.
    pub(super) fn none_in_child() {
        // The child has one thread: nothing is ordered against it.
        let helpers = HELPERS.load(Ordering::Relaxed);
        HELPERS.fetch_add(CHANGE - u64::from(number_of(helpers)), Ordering::AcqRel);
    }
}

impl Drop for HelperThread {
    fn drop(&mut self) {
        // SYNC helpers
        HELPERS.fetch_add(CHANGE - 1, Ordering::AcqRel);
    }
}

/// The parsed content of `/proc/self/status`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ProcessStatus {
    /// No thread but the calling one accesses users' memory.
    pub is_single: bool,
    /// Memory is locked, or pinned by a driver.
    pub has_pinned: bool,
}

impl ProcessStatus {
    pub fn now() -> Result<ProcessStatus, SkipReason> {
        // SYNC helpers: a helper counts as one only while the kernel counts it as a thread. If the
        // number has not changed meanwhile, the kernel has counted all of them.
        let before = HELPERS.load(Ordering::Acquire);
        let status = fs::read_to_string("/proc/self/status").map_err(|_| SkipReason::Kernel)?;
        let has_changed = HELPERS.load(Ordering::Acquire) != before;
        let helpers = if has_changed { 0 } else { number_of(before) };
        ProcessStatus::parse(&status, helpers).ok_or(SkipReason::Kernel)
    }

    fn parse(status: &str, helpers: u32) -> Option<ProcessStatus> {
        let value = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse::<u64>().ok()
        };
        Some(ProcessStatus {
            is_single: value("Threads:")?.saturating_sub(u64::from(helpers)) <= 1,
            has_pinned: value("VmLck:")? > 0 || value("VmPin:")? > 0,
        })
    }
}

/// Whether `malloc` is glibc's, which gives memory back by unmapping it (except in threads'
/// arenas), with no sign of another allocator.
pub(super) fn allocator_is_known() -> bool {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    *KNOWN.get_or_init(|| {
        const OTHERS: [&CStr; 6] =
            [c"mallctl", c"je_mallctl", c"_rjem_mallctl", c"mi_malloc", c"tc_malloc", c"rpmalloc"];
        // Heaps of huge pages are purged; tagged memory would lose its tags.
        let unfit = |tunables: String| tunables.contains("hugetlb") || tunables.contains("tagging");
        let is_unfit = std::env::var("GLIBC_TUNABLES").is_ok_and(unfit);
        let symbol = |name: &CStr| {
            // SAFETY: the name is NUL-terminated; looking it up has no side effect on what is
            // loaded.
            unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }
        };
        !is_unfit
            && OTHERS.iter().all(|name| symbol(name).is_null())
            && object_of(symbol(c"malloc")).is_some_and(|object| is_libc(&object))
    })
}

/// Whether a path is that of glibc's C library.
pub(super) fn is_libc(object: &str) -> bool {
    let file = object.rsplit('/').next().unwrap_or(object);
    file.starts_with("libc.so") || file.starts_with("libc-2")
}

/// Path of the loaded object that holds a symbol.
pub(super) fn object_of(symbol: *mut libc::c_void) -> Option<String> {
    if symbol.is_null() {
        return None;
    }
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: dladdr writes to `info` only, and an info of zeros is valid if it does not.
    let (found, info) = unsafe { (libc::dladdr(symbol, info.as_mut_ptr()), info.assume_init()) };
    if found == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader's NUL-terminated string, alive as long as the object is loaded.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    Some(name.to_string_lossy().into_owned())
}

/// Whether these pages hold memory that the calling thread writes while it migrates them: its
/// frames, or its control data (errno, rseq).
pub(super) fn holds_own_memory(pages: &Range<usize>) -> bool {
    let local = 0u8;
    let frames = (&raw const local).addr();
    // SAFETY: no obligations.
    let (control, errno) =
        unsafe { (libc::pthread_self() as usize, libc::__errno_location().addr()) };
    let meets = |low: usize, high: usize| pages.start < high && low < pages.end;
    meets(frames.saturating_sub(256 << 10), frames + (16 << 10))
        || meets(control.saturating_sub(4 << 10), control + (8 << 10))
        || meets(errno, errno + 4)
}

/// Whether an area that is not migrated yet may be migrated.
pub(super) fn check_area(area: &MappedArea, name: &[u8], page: usize) -> Result<(), SkipReason> {
    if name.starts_with(b"[stack") {
        return Err(SkipReason::Thread);
    }
    if area.page_bytes != page {
        return Err(SkipReason::PageSize);
    }
    // `[heap]`, or a name that the program has given (PR_SET_VMA_ANON_NAME); no other special area.
    let plain = name.first().is_none_or(|&c| c == 0)
        || name.starts_with(b"[heap]")
        || name.starts_with(b"[anon");
    if area.is_private_data() && plain { Ok(()) } else { Err(SkipReason::Kind) }
}

/// The advice that undoes advice on how fork and core dumps treat memory.
const CLEARED: [i32; 3] = [libc::MADV_KEEPONFORK, libc::MADV_DOFORK, libc::MADV_DODUMP];

/// Checks whether the program has given advice on an area that a migration would lose. The kernel
/// reports advice in `/proc/self/smaps` only, whose cost grows with the size of the process.
/// Instead, the advice is undone for one page in the middle: if it was in force, that page is an
/// area of its own now. (A page at an end may be merged with a neighbour.)
pub(super) fn check_advice(
    maps: &ProcMap,
    area: &MappedArea,
    page: usize,
) -> Result<(), SkipReason> {
    let Range { start, end } = area.addresses;
    if end - start <= 2 * page {
        let flags = advice_of(start).ok_or(SkipReason::Kernel)?;
        return flags.is_empty().then_some(()).ok_or(SkipReason::Advised);
    }
    let at = start + (end - start) / page / 2 * page;
    for advice in CLEARED {
        // SAFETY: a page of the program's, none of whose bytes changes.
        unsafe { raw::advise(at, page, advice) }.map_err(|_| SkipReason::Kernel)?;
    }
    let now = maps.at(at).map_err(|_| SkipReason::Kernel)?;
    if now.is_none_or(|now| now.addresses != (at..at + page)) {
        return Ok(());
    }
    for advice in advice_of(start).unwrap_or_default() {
        // SAFETY: as above.
        let _ = unsafe { raw::advise(at, page, advice) };
    }
    Err(SkipReason::Advised)
}

/// The advice in force at an address, of the kinds that [`CLEARED`] undoes.
fn advice_of(address: usize) -> Option<Vec<i32>> {
    let smaps = BufReader::new(File::open("/proc/self/smaps").ok()?);
    let mut is_here = false;
    for line in smaps.lines() {
        let line = line.ok()?;
        let first = line.split_whitespace().next()?;
        if let Some((start, end)) = first.split_once('-')
            && let (Ok(start), Ok(end)) =
                (usize::from_str_radix(start, 16), usize::from_str_radix(end, 16))
        {
            is_here = (start..end).contains(&address);
        } else if is_here && first == "VmFlags:" {
            let advice = |flag| match flag {
                "wf" => Some(libc::MADV_WIPEONFORK),
                "dc" => Some(libc::MADV_DONTFORK),
                "dd" => Some(libc::MADV_DONTDUMP),
                _ => None,
            };
            return Some(line.split_whitespace().filter_map(advice).collect());
        }
    }
    None
}

/// The NUMA node that all of these pages lie on, judged by a sample; `None` where the machine has
/// one node only, or no page of the sample has been touched.
pub(super) fn common_node(pages: &Range<usize>, page: usize) -> Result<Option<u32>, SkipReason> {
    static NODES: OnceLock<bool> = OnceLock::new();
    let several = *NODES.get_or_init(|| {
        fs::read_to_string("/sys/devices/system/node/online")
            .is_ok_and(|online| online.contains([',', '-']))
    });
    if !several {
        return Ok(None);
    }
    let nodes = nodes_of(pages, page)?;
    if nodes.len() > 1 {
        return Err(SkipReason::Spread);
    }
    Ok(nodes.first().copied())
}

/// The nodes that a sample of 64 pages lies on.
fn nodes_of(pages: &Range<usize>, page: usize) -> Result<BTreeSet<u32>, SkipReason> {
    const SAMPLE: usize = 64;
    let count = (pages.len() / page).min(SAMPLE);
    let step = (pages.len() / count / page).max(1) * page;
    let addresses: Vec<usize> = (0..count).map(|i| pages.start + i * step).collect();
    let mut status = vec![0i32; count];
    // SAFETY: without target nodes the call only writes to `status`, one entry for each address.
    let result = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            0,
            count,
            addresses.as_ptr(),
            std::ptr::null::<i32>(),
            status.as_mut_ptr(),
            0,
        )
    };
    if result < 0 {
        return Err(SkipReason::Kernel);
    }
    // Negative: not touched yet.
    Ok(status.iter().filter_map(|&s| u32::try_from(s).ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_is_read() {
        let text = "Name:\tx\nVmLck:\t       0 kB\nVmPin:\t       4 kB\nThreads:\t3\n";
        let of = |helpers| ProcessStatus::parse(text, helpers).expect("complete");
        assert!(!of(1).is_single && of(2).is_single && of(0).has_pinned);
        assert_eq!(ProcessStatus::parse("Threads:\t1\n", 0), None);
        assert!(ProcessStatus::now().is_ok());
    }

    #[test]
    fn this_test_runs_on_known_malloc_and_on_its_stack() {
        assert!(allocator_is_known());
        let local = 0u8;
        let here = (&raw const local).addr();
        assert!(holds_own_memory(&(here & !4095..(here & !4095) + 4096)));
        assert!(!holds_own_memory(&(4096..8192)));
        assert!(object_of(std::ptr::null_mut()).is_none());
    }

    #[test]
    fn advice_on_memory_is_noticed_and_stays() {
        let Ok(maps) = ProcMap::open() else {
            return eprintln!("skipped: no PROCMAP_QUERY");
        };
        const PAGE: usize = 4096;
        // SAFETY: a fresh mapping, with pages around it that keep it apart.
        let at = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let at = libc::mmap(std::ptr::null_mut(), 16 * PAGE, protection, flags, -1, 0);
            assert_ne!(at, libc::MAP_FAILED);
            at.expose_provenance()
        };
        let advise = |from: usize, count: usize, advice| {
            // SAFETY: the test's own memory.
            unsafe { raw::advise(at + from * PAGE, count * PAGE, advice) }.expect("advice");
        };
        let check = |from: usize| {
            let area = maps.at(at + from * PAGE).expect("answer").expect("mapped");
            check_advice(&maps, &area, PAGE)
        };
        assert_eq!(check(4), Ok(()));
        for (advice, count) in
            [(libc::MADV_WIPEONFORK, 5), (libc::MADV_DONTFORK, 2), (libc::MADV_DONTDUMP, 1)]
        {
            advise(4, count, advice);
            for _ in 0..2 {
                assert_eq!(check(4), Err(SkipReason::Advised), "{count} pages");
                let area = maps.at(at + 4 * PAGE).unwrap().unwrap();
                assert_eq!(area.addresses.len(), count * PAGE, "as before");
            }
            CLEARED.into_iter().for_each(|advice| advise(4, count, advice));
            assert_eq!(check(4), Ok(()));
        }
    }

    #[test]
    fn pages_have_a_node() {
        let block = vec![1u8; 1 << 20];
        let first = block.as_ptr().addr().next_multiple_of(4096);
        match nodes_of(&(first..first + (512 << 10)), 4096) {
            Ok(nodes) => assert!(!nodes.is_empty()),
            Err(why) => eprintln!("skipped: move_pages: {why}"),
        }
        assert!(common_node(&(first..first + 4096), 4096).is_ok());
    }
}

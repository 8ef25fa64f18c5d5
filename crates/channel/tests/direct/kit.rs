//! Processes, memory and a peer to talk to.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use mica_channel::direct::{Backend, Direct, DirectOptions, Exposed, Exposure, PeerCopy};
use mica_memory::{Block, Shape, View};
use mica_node::procmap::ProcMap;
use mica_node::segment::{JobSegment, JobSpec};
use mica_node::topology::CorePlace;

pub type Scenario = (&'static str, fn());

pub const PAGE: usize = 4096;
pub const MIB: usize = 1 << 20;

/// Uses before a buffer is moved, in these tests.
pub const AFTER: u32 = 2;

#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    Ok,
    Skipped,
    Failed,
}

pub const SKIP: i32 = 77;

/// Ends the scenario, with the reason.
pub fn skip(why: &str) -> ! {
    println!("skipped: {why}");
    std::process::exit(SKIP);
}

/// Runs `body` in a process of its own; a minute at most.
pub fn run(body: fn()) -> Outcome {
    match finish(start(body, 60)) {
        0 => Outcome::Ok,
        SKIP => Outcome::Skipped,
        _ => Outcome::Failed,
    }
}

/// Starts a child that runs `body`, for `seconds` at most; returns its process number.
pub fn start(body: impl FnOnce(), seconds: u32) -> i32 {
    // SAFETY: the process has one thread, or its child does not depend on what others hold.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork: {}", std::io::Error::last_os_error());
    if pid == 0 {
        // SAFETY: no obligations.
        unsafe { libc::alarm(seconds) };
        let result = catch_unwind(AssertUnwindSafe(body));
        std::process::exit(if result.is_ok() { 0 } else { 1 });
    }
    pid
}

/// Exit code of a child; 128 and more for a signal.
pub fn finish(pid: i32) -> i32 {
    let mut status = 0;
    // SAFETY: waits for a child of ours.
    let got = unsafe { libc::waitpid(pid, &mut status, 0) };
    assert_eq!(got, pid);
    if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { 128 + libc::WTERMSIG(status) }
}

/// Runs `body` in a child; true if it did not panic.
pub fn succeeds_in_child(body: impl FnOnce()) -> bool {
    finish(start(body, 30)) == 0
}

/// A job of `ranks` ranks, known to this process and those it forks from now on.
pub fn job(ranks: usize) -> Arc<JobSegment> {
    let places = vec![CorePlace::UNKNOWN; ranks];
    let spec = JobSpec::on_one_node(&places, 2, &[]);
    Arc::new(JobSegment::create(&spec).expect("segment"))
}

/// Options with `mapped` on, for all memory.
pub fn mapped() -> DirectOptions {
    DirectOptions {
        mapped: true,
        mapped_all: true,
        mapped_after: AFTER,
        mapped_min: PAGE,
        mapped_max: 1 << 30,
        ..DirectOptions::CMA
    }
}

/// As by default: not what the program has mapped itself.
pub fn auto() -> DirectOptions {
    DirectOptions { mapped_all: false, ..mapped() }
}

/// Ends the scenario where `mapped` cannot work here.
pub fn need_mapped() {
    if let Err(why) = ProcMap::open() {
        skip(&format!("PROCMAP_QUERY: {why}"));
    }
}

/// Rank 0's channel, with `mapped`.
pub fn owner(segment: &Arc<JobSegment>) -> Direct {
    need_mapped();
    segment.claim(0).expect("rank 0 is free");
    let direct = Direct::new(segment, 0, &mapped());
    assert!(direct.usage().is_some(), "{:?}", direct.status());
    direct
}

/// Bytes of the segment's file.
pub fn file_bytes(segment: &JobSegment) -> usize {
    use std::os::fd::AsRawFd;
    // SAFETY: fstat writes to `stat` only.
    unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        assert_eq!(libc::fstat(segment.as_fd().as_raw_fd(), &mut stat), 0);
        stat.st_blocks as usize * 512
    }
}

pub fn pattern(seed: u8, at: usize) -> u8 {
    (at.wrapping_mul(31) ^ at >> 8).wrapping_add(usize::from(seed) * 17) as u8
}

/// Bytes after which [`pattern`] repeats itself.
const PERIOD: usize = 1 << 16;

/// The first bytes of a pattern, `PERIOD` at most.
fn period(seed: u8, len: usize) -> Vec<u8> {
    (0..len.min(PERIOD)).map(|at| pattern(seed, at)).collect()
}

type Mremap = unsafe extern "C" fn(
    *mut libc::c_void,
    usize,
    usize,
    i32,
    *mut libc::c_void,
) -> *mut libc::c_void;

/// `mremap` as it was before anything was migrated: a pointer that was fetched then is not watched.
pub fn unseen_mremap() -> Mremap {
    static FUNCTION: std::sync::OnceLock<Mremap> = std::sync::OnceLock::new();
    *FUNCTION.get_or_init(|| {
        // SAFETY: the name is NUL-terminated, and the function has this type.
        unsafe {
            let found = libc::dlsym(libc::RTLD_DEFAULT, c"mremap".as_ptr());
            std::mem::transmute::<*mut libc::c_void, Mremap>(found)
        }
    })
}

/// Memory of the test's own, from `mmap`; by raw addresses, since it is shared, moved, and taken
/// away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    pub at: usize,
    pub len: usize,
}

impl Memory {
    pub fn map(len: usize) -> Memory {
        Memory::map_as(0, len, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE, -1)
    }

    /// Fresh private memory at just this address.
    pub fn map_at(at: usize, len: usize) -> Memory {
        let flags = libc::MAP_PRIVATE | libc::MAP_FIXED;
        Memory::map_as(at, len, libc::PROT_READ | libc::PROT_WRITE, flags, -1)
    }

    pub fn map_as(at: usize, len: usize, protection: i32, flags: i32, fd: i32) -> Memory {
        let anonymous = if fd < 0 { libc::MAP_ANONYMOUS } else { 0 };
        let hint = std::ptr::without_provenance_mut(at);
        // SAFETY: where an address is fixed, it is of memory that the test has made.
        let at = unsafe { libc::mmap(hint, len, protection, flags | anonymous, fd, 0) };
        assert_ne!(at, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
        let at = at.expose_provenance();
        Memory { at, len }
    }

    pub fn part(self, from: usize, len: usize) -> Memory {
        assert!(from + len <= self.len);
        Memory { at: self.at + from, len }
    }

    fn ptr(self) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(self.at)
    }

    pub fn unmap(self) {
        // SAFETY: the test's own memory, used no more.
        assert_eq!(unsafe { libc::munmap(self.ptr().cast(), self.len) }, 0);
    }

    pub fn protect(self, protection: i32) {
        // SAFETY: the test's own memory.
        let result = unsafe { libc::mprotect(self.ptr().cast(), self.len, protection) };
        assert_eq!(result, 0);
    }

    pub fn malloc(len: usize) -> Memory {
        // SAFETY: no obligations.
        let at = unsafe { libc::malloc(len) };
        assert!(!at.is_null());
        let at = at.expose_provenance();
        Memory { at, len }
    }

    pub fn aligned(alignment: usize, len: usize) -> Memory {
        let mut at = std::ptr::null_mut();
        // SAFETY: writes a pointer.
        assert_eq!(unsafe { libc::posix_memalign(&mut at, alignment, len) }, 0);
        let at = at.expose_provenance();
        Memory { at, len }
    }

    pub fn realloc(self, len: usize) -> Memory {
        // SAFETY: from malloc; the old address is not used any more.
        let at = unsafe { libc::realloc(self.ptr().cast(), len) };
        assert!(!at.is_null());
        let at = at.expose_provenance();
        Memory { at, len }
    }

    pub fn free(self) {
        // SAFETY: from malloc, used no more.
        unsafe { libc::free(self.ptr().cast()) };
    }

    /// By a call that the library does not see.
    pub fn remap(self, len: usize) -> Memory {
        let null = std::ptr::null_mut();
        // SAFETY: the test's own memory; the old address is not used any more.
        let at = unsafe {
            unseen_mremap()(self.ptr().cast(), self.len, len, libc::MREMAP_MAYMOVE, null)
        };
        assert_ne!(at, libc::MAP_FAILED);
        let at = at.expose_provenance();
        Memory { at, len }
    }

    /// To this very address, by a call that the library does not see.
    pub fn remap_to(self, to: usize) -> Memory {
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        let target = std::ptr::with_exposed_provenance_mut::<libc::c_void>(to);
        // SAFETY: both places are the test's own memory.
        let at = unsafe { unseen_mremap()(self.ptr().cast(), self.len, self.len, flags, target) };
        assert_ne!(at, libc::MAP_FAILED);
        Memory { at: to, ..self }
    }

    pub fn fill(self, seed: u8) {
        let period = period(seed, self.len);
        for at in (0..self.len).step_by(PERIOD) {
            let len = PERIOD.min(self.len - at);
            // SAFETY: in the test's own memory.
            unsafe { self.ptr().add(at).copy_from_nonoverlapping(period.as_ptr(), len) };
        }
    }

    pub fn set(self, i: usize, value: u8) {
        assert!(i < self.len);
        // SAFETY: in the test's own memory.
        unsafe { self.ptr().add(i).write_volatile(value) };
    }

    pub fn get(self, i: usize) -> u8 {
        assert!(i < self.len);
        // SAFETY: in the test's own memory.
        unsafe { self.ptr().add(i).read_volatile() }
    }

    #[track_caller]
    pub fn check(self, seed: u8) {
        let period = period(seed, self.len);
        let mut got = vec![0; period.len()];
        let is_wrong = |at: &usize| {
            let len = PERIOD.min(self.len - at);
            // SAFETY: in the test's own memory.
            unsafe { self.ptr().add(*at).copy_to_nonoverlapping(got.as_mut_ptr(), len) };
            got[..len] != period[..len]
        };
        let part = (0..self.len).step_by(PERIOD).find(is_wrong);
        let wrong = part.and_then(|at| (at..self.len).find(|&i| self.get(i) != pattern(seed, i)));
        assert_eq!(wrong, None, "first byte of {} that is not pattern {seed}", self.len);
    }
}

/// Exposes `memory` until it is moved.
#[track_caller]
pub fn expose_moved(direct: &mut Direct, memory: Memory) -> Exposed {
    for _ in 0..=AFTER {
        let exposed = direct.expose(memory.at, memory.len).expect("a back end");
        if exposed.exposure().backend() == Backend::Mapped {
            return exposed;
        }
    }
    panic!("{memory:x?} is not moved: {:?}", direct.status());
}

/// Exposes `memory` once; whether it is moved.
pub fn is_moved(direct: &mut Direct, memory: Memory) -> bool {
    let exposed = direct.expose(memory.at, memory.len).expect("a back end");
    exposed.exposure().backend() == Backend::Mapped
}

/// Another rank in a process of its own, which reads and writes buffers that are announced to it.
#[derive(Debug)]
pub struct Peer {
    pid: i32,
    wire: UnixStream,
}

#[derive(Debug, Clone, Copy)]
#[repr(u64)]
enum Ask {
    Load = 1,
    Store = 2,
    End = 3,
}

/// What a peer did: whether the bytes were as expected, and how many came through a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    pub right: bool,
    pub by_window: usize,
}

impl Peer {
    /// Forks rank `rank`, whose channel `make` makes.
    pub fn fork(make: impl FnOnce() -> Direct) -> Peer {
        let (mine, its) = UnixStream::pair().expect("socket pair");
        let pid = start(move || serve(make(), its), 60);
        Peer { pid, wire: mine }
    }

    pub fn mapped(segment: &Arc<JobSegment>, rank: u32) -> Peer {
        Peer::fork(|| {
            segment.claim(rank).expect("free");
            Direct::new(segment, rank, &mapped())
        })
    }

    fn ask(&mut self, ask: Ask, words: [u64; 4]) -> Answer {
        let message = [ask as u64, words[0], words[1], words[2], words[3]];
        let bytes: Vec<u8> = message.iter().flat_map(|w| w.to_ne_bytes()).collect();
        self.wire.write_all(&bytes).expect("the peer lives");
        let mut answer = [0u8; 16];
        self.wire.read_exact(&mut answer).expect("the peer lives");
        let word = |i: usize| u64::from_ne_bytes(answer[i..i + 8].try_into().unwrap());
        Answer { right: word(0) == 1, by_window: word(8) as usize }
    }

    fn words(exposed: &Exposed, memory: Memory, seed: u8) -> [u64; 4] {
        let [a, b] = exposed.exposure().to_words();
        // Address and seed share a word: addresses have 47 bits.
        [a, b, (memory.at as u64) << 8 | u64::from(seed), memory.len as u64]
    }

    /// Has the peer read the buffer and compare it with a pattern.
    #[track_caller]
    pub fn check(&mut self, exposed: &Exposed, memory: Memory, seed: u8) -> usize {
        let answer = self.ask(Ask::Load, Peer::words(exposed, memory, seed));
        assert!(answer.right, "the peer reads other bytes");
        answer.by_window
    }

    /// Has the peer write a pattern to the buffer.
    #[track_caller]
    pub fn fill(&mut self, exposed: &Exposed, memory: Memory, seed: u8) -> usize {
        let answer = self.ask(Ask::Store, Peer::words(exposed, memory, seed));
        assert!(answer.right, "the peer cannot write");
        answer.by_window
    }

    #[track_caller]
    pub fn end(mut self) {
        self.ask(Ask::End, [0; 4]);
        assert_eq!(finish(self.pid), 0, "the peer ends well");
    }
}

fn serve(mut direct: Direct, mut wire: UnixStream) {
    let mut bytes = [0u8; 40];
    while wire.read_exact(&mut bytes).is_ok() {
        let word = |i: usize| u64::from_ne_bytes(bytes[i * 8..i * 8 + 8].try_into().unwrap());
        let (ask, len) = (word(0), word(4) as usize);
        let (address, seed) = (word(3) >> 8, word(3) as u8);
        let mut answer = [1, 0];
        if ask != Ask::End as u64 {
            let exposure = Exposure::from_words([word(1), word(2)]).expect("an exposure");
            let mine = Block::allocate(len).expect("memory");
            let view = mine.clone().view(Shape::Contiguous { bytes: len });
            let is_load = ask == Ask::Load as u64;
            let expected: Vec<u8> = period(seed, len).into_iter().cycle().take(len).collect();
            if !is_load {
                view.unpack(0, &expected);
            }
            let done = transfer(&mut direct, is_load, &exposure, address, &view);
            answer = match done {
                Some(by_window) => [1, by_window as u64],
                None => [0, 0],
            };
            if is_load {
                let mut got = vec![0; len];
                view.pack(0, &mut got);
                answer[0] &= u64::from(got == expected);
            }
        }
        let reply: Vec<u8> = answer.iter().flat_map(|w: &u64| w.to_ne_bytes()).collect();
        wire.write_all(&reply).expect("the owner lives");
        if ask == Ask::End as u64 {
            break;
        }
    }
}

/// Copies all of rank 0's buffer to or from `view`: by window what can be, in two pieces, the rest
/// by CMA.
fn transfer(
    direct: &mut Direct,
    is_load: bool,
    exposure: &Exposure,
    address: u64,
    view: &View,
) -> Option<usize> {
    let len = view.len();
    let window = direct.window(0, exposure, len);
    let reach = window.as_ref().map_or(0..0, |w| w.reachable());
    if let Some(window) = &window {
        let middle = reach.start + reach.len() / 3;
        for part in [reach.start..middle, middle..reach.end] {
            if is_load {
                window.load(part.start, view, part.start, part.len());
            } else {
                window.store(part.start, view, part.start, part.len());
            }
        }
    }
    for rest in [0..reach.start, reach.end..len] {
        if !rest.is_empty() {
            let direction = match is_load {
                true => PeerCopy::Load,
                false => PeerCopy::Store,
            };
            let result = direct.copy_range(direction, 0, address, view, rest);
            result.ok()?;
        }
    }
    Some(reach.len())
}

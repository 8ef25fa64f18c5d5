//! What else holds or changes pages while a buffer is to be moved: other threads, signal handlers,
//! asynchronous reads, devices, handlers of user faults, protection keys, the program's own advice
//! (docs/design/mapped.md has the table).

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::kit::{
    AFTER, MIB, Memory, PAGE, Peer, Scenario, expose_moved, file_bytes, is_moved, job, owner, skip,
};
use mica_channel::direct::{Direct, SkipReason};
use mica_memory::{Region, Shape};
use mica_node::segment::{Limit, Means};

pub const SCENARIOS: &[Scenario] = &[
    ("memory_that_becomes_a_window_stays_if_there_are_threads", windows_and_threads),
    ("handlers_of_signals_lose_no_store", signals),
    ("a_mapped_device_stops_moves", || mapped_device(false)),
    ("a_mapped_device_stops_moves_of_a_process_with_threads", || mapped_device(true)),
    ("an_open_device_stops_moves", open_device),
    ("a_socket_of_an_unknown_family_stops_moves", odd_socket),
    ("user_faults_stop_moves", user_faults),
    ("protection_keys_stop_moves", protection_keys),
    ("a_ring_without_a_mapping_is_seen", unmapped_ring),
    ("a_ring_without_a_descriptor_is_seen", hidden_ring),
    ("a_context_of_asynchronous_reads_is_seen", context),
    ("memory_of_a_copy_in_the_background_stays", held),
    ("discarded_memory_of_a_slot_in_use_stays_reachable", discarded),
];

#[track_caller]
fn stays(direct: &mut Direct, memory: Memory, why: SkipReason) {
    for _ in 0..=AFTER {
        assert!(!is_moved(direct, memory));
    }
    has_refused(direct, why);
    // Nor is it as a window.
    let published = direct.reach().expose_for_long(memory.at, memory.len);
    assert!(!published.is_whole(memory.len));
}

#[track_caller]
fn has_refused(direct: &Direct, why: SkipReason) {
    let usage = direct.usage().unwrap();
    assert!(usage.kept.iter().any(|(w, n)| *w == why && *n > 0), "not {why:?}: {usage:?}");
}

/// Runs `body` while another thread runs `beside` again and again.
fn with_thread<T>(beside: impl Fn() + Sync, body: impl FnOnce() -> T) -> T {
    let (stop, turns) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|s| {
        s.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                beside();
                turns.fetch_add(1, Ordering::Relaxed);
            }
        });
        while turns.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        let result = body();
        stop.store(true, Ordering::Relaxed);
        result
    })
}

fn windows_and_threads() {
    let segment = job(1);
    let mut direct = owner(&segment);
    let memory = Memory::map(8 * MIB);
    memory.fill(0);
    // The other thread adds one to a byte of each page, and finds all it has added.
    let added = AtomicUsize::new(0);
    let lost = AtomicUsize::new(0);
    let store = || {
        let value = added.fetch_add(1, Ordering::Relaxed) as u8;
        for at in (77..memory.len).step_by(PAGE) {
            memory.set(at, value);
        }
        let wrong = (77..memory.len).step_by(PAGE).filter(|&at| memory.get(at) != value);
        lost.fetch_add(wrong.count(), Ordering::Relaxed);
    };
    with_thread(store, || {
        for _ in 0..50 {
            let published = direct.reach().expose_for_long(memory.at, memory.len);
            assert!(!published.is_whole(memory.len));
        }
    });
    assert_eq!(lost.load(Ordering::Relaxed), 0, "stores are lost");
    has_refused(&direct, SkipReason::OpenToStores);
    // Reports say so where nothing else reaches the window.
    let limit = || segment.block(0).limit(Means::Window);
    assert_eq!(limit(), None);
    with_thread(|| (), || drop(direct.reach().expose_only_path(memory.at, memory.len)));
    assert_eq!(limit(), Some(Limit::WindowInPlace { why: SkipReason::OpenToStores }));
    // The kernel counts a thread for a moment after it has been joined.
    while !std::fs::read_to_string("/proc/self/status").unwrap().contains("Threads:\t1\n") {
        std::thread::yield_now();
    }
    let published = direct.reach().expose_for_long(memory.at, memory.len);
    assert!(published.is_whole(memory.len), "{:?}", direct.usage());
    drop(published);
    // As part of a message, it may move with threads, too.
    let buffer = Memory::map(MIB);
    buffer.fill(1);
    with_thread(|| buffer.check(1), || drop(expose_moved(&mut direct, buffer)));
    buffer.check(1);
}

/// Where the handler stores, and how often it has.
static STORE_AT: AtomicUsize = AtomicUsize::new(0);
static STORED: AtomicUsize = AtomicUsize::new(0);

/// Words that the handler stores, one at each call.
const WORDS: usize = 500;

extern "C" fn on_alarm(_: libc::c_int) {
    let at = STORE_AT.load(Ordering::Relaxed);
    let number = STORED.load(Ordering::Relaxed);
    if at != 0 && number < WORDS {
        let word = std::ptr::with_exposed_provenance_mut::<usize>(at + 8 * number);
        // SAFETY: eight bytes of the test's memory, aligned, beside the buffers.
        unsafe { word.write_volatile(number + 1) };
        STORED.store(number + 1, Ordering::Relaxed);
    }
}

fn signals() {
    let mut direct = owner(&job(1));
    let each = 256 * PAGE;
    let memory = Memory::map(50 * each);
    memory.fill(1);
    // SAFETY: a handler that stores to memory of the test.
    unsafe { libc::signal(libc::SIGALRM, on_alarm as *const () as libc::sighandler_t) };
    let every = |micros| {
        let time = libc::timeval { tv_sec: 0, tv_usec: micros };
        let timer = libc::itimerval { it_interval: time, it_value: time };
        let none = std::ptr::null_mut();
        // SAFETY: reads `timer`.
        assert_eq!(unsafe { libc::setitimer(libc::ITIMER_REAL, &timer, none) }, 0);
    };
    for i in 0..50 {
        let part = memory.part(i * each, each);
        STORED.store(0, Ordering::Relaxed);
        STORE_AT.store(part.at, Ordering::Relaxed);
        every(20);
        // Its first page has the words that the handler stores.
        drop(expose_moved(&mut direct, part.part(8 * WORDS, each - 8 * WORDS)));
        every(0);
        STORE_AT.store(0, Ordering::Relaxed);
        let stored = STORED.load(Ordering::Relaxed);
        let is_there = |number: &usize| {
            let word = std::ptr::with_exposed_provenance::<usize>(part.at + 8 * number);
            // SAFETY: as in the handler.
            unsafe { word.read_volatile() == number + 1 }
        };
        let lost = (0..stored).filter(|number| !is_there(number)).count();
        assert_eq!(lost, 0, "of {stored} stores");
    }
}

/// An empty `/dev` that this process alone sees.
fn mount_own_dev() -> std::io::Result<()> {
    let check = |result| match result {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    };
    // SAFETY: plain system calls with NUL-terminated strings. A mount does not leave a namespace
    // of mounts that belongs to a new one of users.
    unsafe {
        let (user, group) = (libc::getuid(), libc::getgid());
        check(libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS))?;
        std::fs::write("/proc/self/uid_map", format!("0 {user} 1"))?;
        std::fs::write("/proc/self/setgroups", "deny")?;
        std::fs::write("/proc/self/gid_map", format!("0 {group} 1"))?;
        let (none, dev) = (c"none".as_ptr(), c"/dev".as_ptr());
        check(libc::mount(none, dev, c"tmpfs".as_ptr(), 0, std::ptr::null()))
    }
}

/// With a file of the name of a device in a `/dev` of its own.
fn mapped_device(has_threads: bool) {
    use std::os::fd::AsRawFd;
    let mut direct = owner(&job(1));
    if let Err(why) = mount_own_dev() {
        skip(&format!("a /dev of its own: {why}"));
    }
    let mut options = std::fs::File::options();
    let device = options.read(true).write(true).create(true).open("/dev/nvidia0").unwrap();
    device.set_len(PAGE as u64).unwrap();
    let both = libc::PROT_READ | libc::PROT_WRITE;
    let registers = Memory::map_as(0, PAGE, both, libc::MAP_SHARED, device.as_raw_fd());
    drop(device);
    let buffer = Memory::map(MIB);
    buffer.fill(1);
    let mut attempt = || stays(&mut direct, buffer, SkipReason::Device);
    match has_threads {
        true => with_thread(|| buffer.check(1), attempt),
        false => attempt(),
    }
    registers.unmap();
    buffer.check(1);
    // Refusals make the next attempt later, not impossible.
    assert!((0..100).any(|_| is_moved(&mut direct, buffer)), "{:?}", direct.usage());
}

fn open_device() {
    let mut direct = owner(&job(1));
    let names =
        ["/dev/fuse", "/dev/kvm", "/dev/net/tun", "/dev/vga_arbiter", "/dev/cpu_dma_latency"];
    let opened = names.iter().find_map(|name| std::fs::File::open(name).ok());
    let Some(device) = opened else {
        skip("none of the devices can be opened");
    };
    stays(&mut direct, Memory::map(MIB), SkipReason::Device);
    let buffer = Memory::map(MIB);
    buffer.fill(1);
    with_thread(|| buffer.check(1), || assert!(!is_moved(&mut direct, buffer)));
    drop(device);
    drop(expose_moved(&mut direct, Memory::map(MIB)));
}

fn odd_socket() {
    let mut direct = owner(&job(1));
    let families = [44 /* AF_XDP */, libc::AF_ALG, libc::AF_RDS, libc::AF_BLUETOOTH];
    // SAFETY: makes a descriptor.
    let made = families.iter().any(|&family| unsafe {
        libc::socket(family, libc::SOCK_RAW, 0) >= 0 || libc::socket(family, 5, 0) >= 0
    });
    if !made {
        skip("no socket of such a family can be made");
    }
    stays(&mut direct, Memory::map(MIB), SkipReason::Device);
}

fn user_faults() {
    const USER_MODE_ONLY: libc::c_int = 1;
    let mut direct = owner(&job(1));
    // SAFETY: makes a descriptor.
    let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | USER_MODE_ONLY) };
    if fd < 0 {
        skip(&format!("userfaultfd: {}", std::io::Error::last_os_error()));
    }
    stays(&mut direct, Memory::map(MIB), SkipReason::UserFaults);
    // SAFETY: the test's descriptor.
    unsafe { libc::close(fd as i32) };
    drop(expose_moved(&mut direct, Memory::map(MIB)));
}

fn protection_keys() {
    let mut direct = owner(&job(1));
    const DISABLE_ACCESS: libc::c_long = 1;
    // SAFETY: allocates a key.
    let key = unsafe { libc::syscall(libc::SYS_pkey_alloc, 0, DISABLE_ACCESS) };
    if key < 0 {
        skip(&format!("pkey_alloc: {}", std::io::Error::last_os_error()));
    }
    let buffer = Memory::map(MIB);
    buffer.fill(1);
    let both = libc::PROT_READ | libc::PROT_WRITE;
    let at = std::ptr::without_provenance::<u8>(buffer.at);
    // SAFETY: the test's own memory, which it does not access until the key is free.
    let result = unsafe { libc::syscall(libc::SYS_pkey_mprotect, at, buffer.len, both, key) };
    assert_eq!(result, 0);
    // A copy of it would be a fault.
    stays(&mut direct, buffer, SkipReason::Keys);
    // SAFETY: as above.
    unsafe {
        assert_eq!(libc::syscall(libc::SYS_pkey_mprotect, at, buffer.len, both, 0), 0);
        assert_eq!(libc::syscall(libc::SYS_pkey_free, key), 0);
    }
    buffer.check(1);
    assert!((0..100).any(|_| is_moved(&mut direct, buffer)), "{:?}", direct.usage());
}

/// `struct io_uring_params`, in words of four bytes.
type RingParameters = [u32; 30];

fn ring(parameters: &mut RingParameters) -> Option<i32> {
    // SAFETY: the kernel reads and writes the structure's 120 bytes.
    let fd = unsafe { libc::syscall(libc::SYS_io_uring_setup, 8, parameters.as_mut_ptr()) };
    (fd >= 0).then_some(fd as i32)
}

/// Only the whole pages of a buffer move, and no window.
#[track_caller]
fn moves_whole_pages_only(direct: &mut Direct) {
    let memory = Memory::map(MIB);
    let published = direct.reach().expose_for_long(memory.at, memory.len);
    assert!(!published.is_whole(memory.len));
    drop(published);
    has_refused(direct, SkipReason::OpenToStores);
    let memory = Memory::map(MIB);
    let buffer = memory.part(100, MIB - 200);
    let reach = expose_moved(direct, buffer).exposure().reachable(buffer.len);
    assert_eq!(reach, PAGE - 100..MIB - PAGE - 100);
}

fn unmapped_ring() {
    let mut direct = owner(&job(1));
    let Some(fd) = ring(&mut [0; 30]) else {
        skip(&format!("io_uring_setup: {}", std::io::Error::last_os_error()));
    };
    moves_whole_pages_only(&mut direct);
    // Buffers registered with it are pinned.
    let buffer = Memory::map(MIB);
    let piece =
        libc::iovec { iov_base: std::ptr::without_provenance_mut(buffer.at), iov_len: buffer.len };
    // SAFETY: the kernel reads `piece`, and pins the test's memory.
    let result = unsafe { libc::syscall(libc::SYS_io_uring_register, fd, 0, &raw const piece, 1) };
    if result == 0 {
        stays(&mut direct, buffer, SkipReason::Pinned);
    }
}

fn hidden_ring() {
    const NO_MMAP: u32 = 1 << 14;
    const REGISTERED_FD_ONLY: u32 = 1 << 15;
    let mut direct = owner(&job(1));
    let rings = Memory::map(2 * PAGE);
    let mut parameters = [0; 30];
    parameters[2] = NO_MMAP | REGISTERED_FD_ONLY;
    // Where the entries and the rings lie (`sq_off.user_addr`, `cq_off.user_addr`).
    for (word, at) in [(18, rings.at), (28, rings.at + PAGE)] {
        parameters[word] = at as u32;
        parameters[word + 1] = (at >> 32) as u32;
    }
    if ring(&mut parameters).is_none() {
        skip(&format!("io_uring_setup: {}", std::io::Error::last_os_error()));
    }
    moves_whole_pages_only(&mut direct);
}

fn context() {
    let mut direct = owner(&job(1));
    let mut context: libc::c_ulong = 0;
    // SAFETY: writes to `context`.
    if unsafe { libc::syscall(libc::SYS_io_setup, 8, &raw mut context) } < 0 {
        skip(&format!("io_setup: {}", std::io::Error::last_os_error()));
    }
    moves_whole_pages_only(&mut direct);
}

fn held() {
    let mut direct = owner(&job(1));
    let memory = Memory::map(16 * PAGE);
    memory.fill(1);
    // Two blocks with a gap; the last one ends in the middle of a page.
    let at = std::ptr::with_exposed_provenance(memory.at);
    // SAFETY: the test's memory, which lives as long as the process.
    let region = unsafe { Region::user(at, 0..memory.len as isize) };
    let shape = Shape::Contiguous { bytes: 4 * PAGE + 100 };
    let held = direct.hold(&region.clone().view(shape)).expect("a back end");
    let beside = memory.part(4 * PAGE + 100, 4 * PAGE);
    for _ in 0..=AFTER {
        assert!(!is_moved(&mut direct, beside));
    }
    has_refused(&direct, SkipReason::Busy);
    drop(held);
    assert!((0..100).any(|_| is_moved(&mut direct, beside)), "{:?}", direct.usage());
    // What has been moved before is held as well: it is not moved again to lie beside others.
    let held = direct.hold(&region.view(Shape::Contiguous { bytes: 5 * PAGE }));
    let far = memory.part(12 * PAGE, 3 * PAGE);
    drop(expose_moved(&mut direct, far));
    for _ in 0..100 {
        assert!(!is_moved(&mut direct, memory));
    }
    drop(held);
    memory.check(1);
}

fn discarded() {
    let segment = job(2);
    let mut direct = owner(&segment);
    let mut peer = Peer::mapped(&segment, 1);
    let memory = Memory::malloc(4 * MIB);
    memory.fill(1);
    let window = memory.part(PAGE, 2 * MIB);
    let exposed = expose_moved(&mut direct, window);
    window.fill(2);
    peer.check(&exposed, window, 2);
    let before = file_bytes(&segment);
    let first = window.at.next_multiple_of(PAGE) - window.at;
    let beside = memory.part(3 * MIB, MIB / 2);
    beside.fill(3);
    let advise = |part: Memory, advice| {
        let at = std::ptr::with_exposed_provenance_mut(part.at);
        // SAFETY: the test's own memory.
        assert_eq!(unsafe { libc::madvise(at, part.len, advice) }, 0);
    };
    // Another thread loads and stores meanwhile, in what is not discarded.
    with_thread(
        || beside.check(3),
        || {
            for (round, advice) in
                [libc::MADV_DONTNEED, libc::MADV_FREE, libc::MADV_DONTNEED].into_iter().enumerate()
            {
                let seed = 10 + round as u8;
                peer.fill(&exposed, window, seed);
                window.check(seed);
                let part = window.part(first + 8 * PAGE, 64 * PAGE);
                advise(part, advice);
                // Before a read, which takes pages of zeros.
                assert!(file_bytes(&segment) <= before - part.len, "not given back");
                if advice == libc::MADV_DONTNEED {
                    assert!((0..part.len).all(|at| part.get(at) == 0), "no zeros");
                }
                window.part(0, first + 8 * PAGE).check(seed);
                // The peer still reaches it, and the program sees what the peer stores.
                peer.fill(&exposed, window, seed + 1);
                window.check(seed + 1);
                window.fill(seed + 2);
                peer.check(&exposed, window, seed + 2);
            }
        },
    );
    // When the slot is not in use any more, the memory is private again.
    drop(exposed);
    let whole = window.part(first, 2 * MIB - 2 * PAGE);
    advise(whole, libc::MADV_DONTNEED);
    assert!((0..whole.len).all(|at| whole.get(at) == 0), "no zeros");
    assert!(!is_moved(&mut direct, window));
    peer.end();
    memory.free();
}

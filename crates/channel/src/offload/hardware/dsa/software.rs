//! A software device for tests: a thread that executes descriptors and injects configured faults.
//!
//! Its flags and counts are SeqCst throughout, between the device's thread and the test's: that is
//! more than any of them needs, and nothing here has to be fast. Descriptors go through the mutex.

use super::descriptor::{CompletionRecord, Descriptor, PAGE_FAULT, SUCCESS};
use super::portal::{Portal, Submission};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

/// Configuration of the device's faults.
#[derive(Debug, Clone, Copy)]
pub(in crate::offload) struct Behaviour {
    pub entries: usize,
    pub max_transfer: usize,
    /// Every n-th operation stops at a page boundary.
    pub fault_every: Option<usize>,
    /// A fault stops before the first byte, as if its page were missing.
    pub fault_at_start: bool,
    /// Every n-th operation fails with this status.
    pub error_every: Option<(usize, u8)>,
    /// Failing operations first write half of their bytes wrong.
    pub garble: bool,
    /// Executes the newest descriptor first.
    pub newest_first: bool,
    /// Every n-th submission finds the queue full, regardless of its content.
    pub full_every: Option<usize>,
    /// Stops permanently after this number of operations, and is out of service.
    pub dies_after: Option<usize>,
    /// Refuses all descriptors.
    pub refuses: bool,
}

impl Default for Behaviour {
    fn default() -> Behaviour {
        Behaviour {
            entries: 8,
            max_transfer: 2 << 20,
            fault_every: None,
            fault_at_start: false,
            error_every: None,
            garble: false,
            newest_first: false,
            full_every: None,
            dies_after: None,
            refuses: false,
        }
    }
}

#[derive(Debug, Default)]
struct SoftwareQueue {
    queue: Mutex<Vec<Descriptor>>,
    more: Condvar,
    quit: AtomicBool,
    dead: AtomicBool,
    /// While it is set, no operation is executed.
    held: AtomicBool,
    executed: AtomicUsize,
}

/// The portal of a software device.
#[derive(Debug)]
pub(in crate::offload) struct Software {
    shared: Arc<SoftwareQueue>,
    behaviour: Behaviour,
    submissions: usize,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// Lets a test stop and inspect the device.
#[derive(Debug, Clone)]
pub(in crate::offload) struct Remote(Arc<SoftwareQueue>);

impl Remote {
    /// Stops or starts execution.
    pub(in crate::offload) fn hold(&self, hold: bool) {
        self.0.held.store(hold, Ordering::SeqCst);
        let _queue = self.0.queue.lock().unwrap();
        self.0.more.notify_all();
    }

    /// Descriptors executed so far.
    pub(in crate::offload) fn executed(&self) -> usize {
        self.0.executed.load(Ordering::SeqCst)
    }

    /// Descriptors in the queue.
    pub(in crate::offload) fn queued(&self) -> usize {
        self.0.queue.lock().unwrap().len()
    }
}

impl Software {
    pub(in crate::offload) fn new(behaviour: Behaviour) -> Software {
        let shared = Arc::new(SoftwareQueue::default());
        let device = Arc::clone(&shared);
        let thread = std::thread::spawn(move || serve(&device, &behaviour));
        Software { shared, behaviour, submissions: 0, thread: Some(thread) }
    }

    pub(in crate::offload) fn remote(&self) -> Remote {
        Remote(Arc::clone(&self.shared))
    }
}

impl Drop for Software {
    fn drop(&mut self) {
        self.shared.quit.store(true, Ordering::SeqCst);
        drop(self.shared.queue.lock().unwrap());
        self.shared.more.notify_all();
        self.thread.take().unwrap().join().expect("device");
    }
}

impl Portal for Software {
    fn submit(&mut self, descriptor: &Descriptor) -> Submission {
        self.submissions += 1;
        if self.behaviour.refuses {
            return Submission::Refused;
        }
        let mut queue = self.shared.queue.lock().unwrap();
        let reports_full =
            self.behaviour.full_every.is_some_and(|n| self.submissions.is_multiple_of(n));
        if reports_full || queue.len() >= self.behaviour.entries {
            return Submission::Full;
        }
        let (_, _, size, completion) = descriptor.fields();
        assert!(size as usize <= self.behaviour.max_transfer && size > 0);
        assert!(completion.is_multiple_of(32), "the device checks alignment");
        queue.push(*descriptor);
        self.shared.more.notify_one();
        Submission::Accepted
    }

    fn entries(&self) -> usize {
        self.behaviour.entries
    }

    fn max_transfer(&self) -> usize {
        self.behaviour.max_transfer
    }

    fn is_enabled(&self) -> bool {
        !self.shared.dead.load(Ordering::SeqCst)
    }
}

fn serve(shared: &SoftwareQueue, behaviour: &Behaviour) {
    let mut count = 0;
    loop {
        let mut queue = shared.queue.lock().unwrap();
        while queue.is_empty() || shared.held.load(Ordering::SeqCst) {
            if shared.quit.load(Ordering::SeqCst) {
                return;
            }
            queue = shared.more.wait(queue).unwrap();
        }
        if behaviour.dies_after == Some(count) {
            shared.dead.store(true, Ordering::SeqCst);
            queue.clear();
            drop(queue);
            while !shared.quit.load(Ordering::SeqCst) {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            return;
        }
        let descriptor =
            if behaviour.newest_first { queue.pop().unwrap() } else { queue.remove(0) };
        drop(queue);
        count += 1;
        execute(&descriptor, behaviour, count);
        shared.executed.fetch_add(1, Ordering::SeqCst);
    }
}

fn execute(descriptor: &Descriptor, behaviour: &Behaviour, count: usize) {
    let (source, target, size, completion) = descriptor.fields();
    let (source, target, size) = (source as usize, target as usize, size as usize);
    let due = |every: Option<usize>| every.is_some_and(|n| count.is_multiple_of(n));
    let copy = |bytes: usize| {
        // SAFETY: the feeder's contract: both addresses are those of a claimed chunk, valid until
        // the record is written.
        unsafe {
            std::ptr::copy_nonoverlapping(
                std::ptr::with_exposed_provenance::<u8>(source),
                std::ptr::with_exposed_provenance_mut::<u8>(target),
                bytes,
            );
        }
    };
    // SAFETY: the feeder's contract: the record lives until it is written.
    let record =
        unsafe { &*std::ptr::with_exposed_provenance::<CompletionRecord>(completion as usize) };
    if due(behaviour.error_every.map(|(n, _)| n)) {
        if behaviour.garble {
            // SAFETY: as in `copy`.
            unsafe {
                std::ptr::with_exposed_provenance_mut::<u8>(target).write_bytes(0xee, size / 2);
            }
        }
        record.write(behaviour.error_every.map_or(0, |(_, s)| s), 0, 0, 0);
    } else if due(behaviour.fault_every) {
        // The first page boundary of the destination at or after the middle; it may be beyond the
        // end.
        let boundary = (target + size / 2).next_multiple_of(4096) - target;
        let bytes = if behaviour.fault_at_start { 0 } else { boundary.min(size) };
        copy(bytes);
        record.write(PAGE_FAULT | 0x80, 0, bytes as u32, (target + bytes) as u64);
    } else {
        copy(size);
        record.write(SUCCESS, 0, 0, 0);
    }
}

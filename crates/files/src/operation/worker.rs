//! The thread of the library for accesses which go on while the program computes: it calls the
//! system for them, and, where a core is free, exchanges the messages of collective ones.
//!
//! It is started by the first such access and ends when there has been none for a while: the memory
//! of a process with other threads does not move to where peers reach it by load and store. A
//! program of one thread pays for the engine's lock from the first time on that it exchanges
//! messages.
//!
//! It is not one of the threads that are known to write to the program's memory only in transfers
//! that the engine knows (`HelperThread`): the kernel writes there at its request.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use mica_objects::process;
use mica_objects::sync::lock;
use mica_protocol::Engine;

use super::Job;

const NAME: &str = "mica-files";
/// How long the thread waits for another job before it ends.
const IDLE: Duration = Duration::from_millis(100);

struct WorkerQueue {
    jobs: VecDeque<Job>,
    /// Accesses whose messages the thread exchanges.
    served: usize,
    is_running: bool,
}

static QUEUE: Mutex<WorkerQueue> =
    Mutex::new(WorkerQueue { jobs: VecDeque::new(), served: 0, is_running: false });
static ARRIVAL: Condvar = Condvar::new();

/// What the thread does next.
enum WorkerStep {
    Run(Job),
    Exchange,
    End,
}

/// Runs a job on the thread; on this one, if there can be no other.
pub fn submit(job: Job) {
    add(|queue| queue.jobs.push_back(job));
}

/// Has the thread exchange the messages of an access until [`end_exchange`]. False: there is no
/// core for it, or there can be no thread. To be called outside the engine.
pub fn begin_exchange(engine: &Engine) -> bool {
    static HAS_CORE: OnceLock<bool> = OnceLock::new();
    if !*HAS_CORE.get_or_init(|| engine.has_core_for_helpers()) {
        return false;
    }
    // What the program has promised of its threads does not hold for this one. Peers' requests to
    // windows, which look the window up, are among the messages.
    if !engine.thread_mode().is_shared() {
        engine.set_thread_multiple();
        mica_rma::share_table();
    }
    let has_thread = add(|queue| queue.served += 1);
    if !has_thread {
        lock(&QUEUE).served -= 1;
    }
    has_thread
}

/// The access is over.
pub fn end_exchange() {
    lock(&QUEUE).served -= 1;
    notify();
}

/// Adds to what the thread does, and starts it if it does not run. False: there can be none, a
/// limit of the number of processes or of memory; then its jobs have been run here.
fn add(to_do: impl FnOnce(&mut WorkerQueue)) -> bool {
    let must_start = {
        let mut queue = lock(&QUEUE);
        to_do(&mut queue);
        !std::mem::replace(&mut queue.is_running, true)
    };
    if !must_start {
        notify();
        return true;
    }
    let started = process::engine().is_ok_and(|engine| engine.spawn_helper(NAME, work).is_ok());
    if !started {
        while let Some(job) = next_here() {
            job();
        }
    }
    started
}

/// Lets the thread look at the queue, wherever it sleeps.
fn notify() {
    ARRIVAL.notify_one();
    wake_rank();
}

fn wake_rank() {
    if let Ok(engine) = process::engine() {
        engine.wake(engine.rank());
    }
}

/// The next job for the thread that has found out that there is no other.
fn next_here() -> Option<Job> {
    let mut queue = lock(&QUEUE);
    let job = queue.jobs.pop_front();
    queue.is_running = job.is_some();
    job
}

fn work() {
    loop {
        match next() {
            WorkerStep::Run(job) => {
                job();
                // The rank may sleep until the job is done.
                wake_rank();
            }
            WorkerStep::Exchange => {
                let exchanged = process::engine()
                    .is_ok_and(|engine| engine.progress_in_background(has_other_step).is_ok());
                if !exchanged {
                    std::thread::sleep(IDLE); // until the program has met the fault
                }
            }
            WorkerStep::End => return,
        }
    }
}

/// Whether the thread has something else to do than to exchange messages.
fn has_other_step() -> bool {
    let queue = lock(&QUEUE);
    !queue.jobs.is_empty() || queue.served == 0
}

fn next() -> WorkerStep {
    let mut queue = lock(&QUEUE);
    loop {
        if let Some(job) = queue.jobs.pop_front() {
            return WorkerStep::Run(job);
        }
        if queue.served > 0 {
            return WorkerStep::Exchange;
        }
        let waited = ARRIVAL.wait_timeout(queue, IDLE).unwrap_or_else(PoisonError::into_inner);
        let timed_out = waited.1.timed_out();
        queue = waited.0;
        if timed_out && queue.jobs.is_empty() && queue.served == 0 {
            queue.is_running = false;
            return WorkerStep::End;
        }
    }
}

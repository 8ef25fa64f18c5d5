//! The thread of the library that calls the system for accesses which go on while the program
//! computes. It is started by the first of them and ends when there has been none for a while: the
//! memory of a process with other threads does not move to where peers reach it by load and store.
//!
//! It is not one of the threads that are known to write to the program's memory only in transfers
//! that the engine knows (`HelperThread`): the kernel writes there at its request.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use mica_objects::process;
use mica_objects::sync::lock;

use super::Job;

const NAME: &str = "mica-files";
/// How long the thread waits for another job before it ends.
const IDLE: Duration = Duration::from_millis(100);

struct WorkerQueue {
    jobs: VecDeque<Job>,
    is_running: bool,
}

static QUEUE: Mutex<WorkerQueue> =
    Mutex::new(WorkerQueue { jobs: VecDeque::new(), is_running: false });
static ARRIVAL: Condvar = Condvar::new();

/// Runs a job on the thread; on this one, if there can be no other.
pub fn submit(job: Job) {
    let must_start = {
        let mut queue = lock(&QUEUE);
        queue.jobs.push_back(job);
        !std::mem::replace(&mut queue.is_running, true)
    };
    if !must_start {
        ARRIVAL.notify_one();
        return;
    }
    let started = process::engine().is_ok_and(|engine| engine.spawn_helper(NAME, work).is_ok());
    if !started {
        // A limit of the number of processes or of memory.
        while let Some(job) = next_here() {
            job();
        }
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
    while let Some(job) = next() {
        job();
        // The rank may sleep until the job is done.
        if let Ok(engine) = process::engine() {
            engine.wake(engine.rank());
        }
    }
}

fn next() -> Option<Job> {
    let mut queue = lock(&QUEUE);
    loop {
        if let Some(job) = queue.jobs.pop_front() {
            return Some(job);
        }
        let waited = ARRIVAL.wait_timeout(queue, IDLE).unwrap_or_else(PoisonError::into_inner);
        let timed_out = waited.1.timed_out();
        queue = waited.0;
        if timed_out && queue.jobs.is_empty() {
            queue.is_running = false;
            return None;
        }
    }
}

//! Late arrivals at collectives: which rank came last at which call, and how long the others waited
//! (`MICA_LATE=on`).
//!
//! A function that runs a collective for the program first calls [`arrive`] and keeps the returned
//! [`Visit`] until the call returns. Operations on a shared area that begin meanwhile hold a
//! reference to the [`ArrivalCount`] ([`current`]) and record in it what peers announce about
//! arrivals ([`ArrivalCount::saw`]). The count enters the table when its last reference is dropped;
//! for a non-blocking collective, that is when the operation is complete. When the feature is off,
//! it costs one branch. Each process counts in a table of its own and leaves it in the job segment
//! at its end ([`publish`]) for `mpiexec` to print.
//!
//! Arrival times come from the shared area of the communicator's members on a node. Beside each
//! stamp of an operation, a member writes to its flag line which rank came last as far as it knows,
//! initially itself ([`ArrivalCount::word`]). A rank therefore learns the arrivals of all ranks
//! that it waits for, even through a tree of ranks. It names the latest rank if that rank arrived
//! after itself; the rank that came last names none. Times are the node's clock, so ranks of
//! different nodes are never compared. Algorithms made of messages carry no times: only their calls
//! and the time inside are counted.
//!
//! For a non-blocking collective, the counted calls are those that start it, and the counted wait
//! is how much later the last rank started it, whether or not the program waited then. A
//! non-blocking collective made of messages counts only the time of its start.
//!
//! A site is the return address of the call in the first object outside the library, so one line of
//! a C program's source is one site. Where a profiler (by `PMPI_`), Fortran's interface or Python's
//! wrapper stands between program and library, the site is the call there. The collective is named
//! after the library function that was entered: `MPI_Allreduce`, or `MPI_Start` for whatever that
//! starts. The `abi` crate finds and names addresses ([`Finder`]).

mod frequent;
mod table;
mod time;

use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use mica_node::counters::Counter;
pub use mica_node::late::CallSite;
use mica_node::late::LateRecord as Report;
use mica_node::segment::monotonic_ns;
use mica_node::tunables::LATE;
use mica_protocol::Engine;

use mica_objects::sync::lock;
use table::{CallOutcome, LateKey, LateTable};

pub use table::Caller;
use time::Time;

static ON: AtomicBool = AtomicBool::new(false);
static TABLE: Mutex<LateTable> = Mutex::new(LateTable::new());
static FINDER: OnceLock<Finder> = OnceLock::new();

thread_local! {
    static CURRENT: RefCell<Option<Arc<ArrivalCount>>> = const { RefCell::new(None) };
}

/// How addresses are found and named, which takes unsafe code, and this crate has none.
#[derive(Debug, Clone, Copy)]
pub struct Finder {
    /// Returns the call that this thread is in.
    pub caller: fn() -> Caller,
    /// Names what is called by the instruction before such a return address.
    pub name: fn(u64) -> CallSite,
}

/// Sets how addresses are found. Until then, all calls count as one site without a name.
pub fn find_by(finder: Finder) {
    // A second call passes the same finder.
    let _ = FINDER.set(finder);
}

/// Called at the end of a collective in which another rank came last: that rank, the number of
/// ranks, and the nanoseconds waited and inside.
pub type Observer = fn(u32, u32, u64, u64);

static OBSERVER: OnceLock<Observer> = OnceLock::new();

/// Sets what is called for late arrivals, if they are counted.
pub fn observe_by(observer: Observer) {
    // A second call passes the same observer.
    let _ = OBSERVER.set(observer);
}

/// Whether late arrivals are counted.
#[inline(always)]
pub fn is_on() -> bool {
    // Relaxed: set before the program calls collectives, and never cleared.
    ON.load(Ordering::Relaxed)
}

/// Starts counting if the environment asks for it.
pub fn begin() {
    if LATE.text() == "on" {
        ON.store(true, Ordering::Relaxed);
        // The first search may load what later searches use, so it is made now.
        find();
    }
}

/// Records that this rank arrives at a collective as `part`; it leaves the collective when the
/// returned [`Visit`] is dropped. `None` if counting is off, or inside another collective. Must be
/// called while the program's call is on the stack.
#[inline(always)]
pub fn arrive(part: impl FnOnce() -> MemberOf) -> Option<Visit> {
    if is_on() { Visit::begin(part()) } else { None }
}

/// The count of the collective that this thread is in, if there is one; the operations that begin
/// inside the collective hold it.
#[inline(always)]
pub fn current() -> Option<Arc<ArrivalCount>> {
    if is_on() { CURRENT.with_borrow(Clone::clone) } else { None }
}

/// A rank's place in a collective.
#[derive(Debug, Clone, Copy)]
pub struct MemberOf {
    /// Number of ranks of the communicator.
    pub ranks: u32,
    /// This rank's number in the job.
    pub rank: u32,
}

/// A call of a collective that has not returned.
#[derive(Debug)]
pub struct Visit {
    /// It belongs to the thread that made the call.
    _not_send: PhantomData<*const ()>,
}

impl Visit {
    #[cold]
    fn begin(part: MemberOf) -> Option<Visit> {
        CURRENT.with_borrow_mut(|current| match current {
            Some(_) => None,
            None => {
                *current = Some(Arc::new(ArrivalCount::new(part)));
                Some(Visit { _not_send: PhantomData })
            }
        })
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        CURRENT.with_borrow_mut(Option::take);
    }
}

/// A rank's part in a collective. It enters the table when it is dropped.
#[derive(Debug)]
pub struct ArrivalCount {
    key: LateKey,
    own: Time,
    /// The latest known arrival, of this rank or another.
    last: Mutex<Time>,
}

impl ArrivalCount {
    fn new(part: MemberOf) -> ArrivalCount {
        // Taken first, because finding the site takes a microsecond.
        let ns = monotonic_ns();
        let key = LateKey { caller: find(), ranks: part.ranks };
        ArrivalCount::at(key, Time { ns, rank: part.rank })
    }

    fn at(key: LateKey, own: Time) -> ArrivalCount {
        let last = Mutex::new(own);
        ArrivalCount { key, own, last }
    }

    /// What peers on this node read about arrivals: which rank came last as far as this one knows,
    /// and when.
    pub fn word(&self) -> u64 {
        lock(&self.last).word()
    }

    /// Records what a peer announces, the value of its [`word`](Self::word); 0 announces nothing.
    /// May be repeated.
    pub fn saw(&self, word: u64) {
        if let Some(time) = Time::of_word(word, self.own.ns) {
            let mut last = lock(&self.last);
            *last = time.max(*last);
        }
    }

    fn outcome(&self, now_ns: u64) -> CallOutcome {
        let last = *lock(&self.last);
        let wait_ns = last.ns.saturating_sub(self.own.ns);
        let inside_ns = now_ns.saturating_sub(self.own.ns);
        CallOutcome {
            inside_ns,
            waited: (wait_ns > 0).then_some((last.rank, wait_ns.min(inside_ns))),
        }
    }
}

impl Drop for ArrivalCount {
    fn drop(&mut self) {
        let outcome = self.outcome(monotonic_ns());
        lock(&TABLE).count(self.key, &outcome);
        if let Some((late, wait_ns)) = outcome.waited
            && let Some(observe) = OBSERVER.get()
        {
            observe(late, self.key.ranks, wait_ns, outcome.inside_ns);
        }
    }
}

fn find() -> Caller {
    FINDER.get().map_or(Caller::default(), |finder| (finder.caller)())
}

/// The function of the library that this thread is in, as the program called it: `MPI_Recv`. Walks
/// the stack.
pub fn current_function() -> Option<String> {
    let finder = FINDER.get()?;
    function_of(finder, (finder.caller)())
}

/// That function, and where the program calls it, each if it is known. Walks the stack.
pub fn current_call() -> (Option<String>, Option<CallSite>) {
    let Some(finder) = FINDER.get() else {
        return (None, None);
    };
    let caller = (finder.caller)();
    let site = (caller.site != 0).then(|| (finder.name)(caller.site));
    (function_of(finder, caller), site.filter(|site| !site.object.is_empty()))
}

fn function_of(finder: &Finder, caller: Caller) -> Option<String> {
    let symbol = (caller.entry != 0).then(|| (finder.name)(caller.entry).symbol)?;
    let name = table::function(&symbol);
    name.starts_with("MPI_").then_some(name)
}

/// What this process has counted so far: the sites where it waited most.
pub fn report() -> Report {
    lock(&TABLE).report(|address| match FINDER.get() {
        Some(finder) if address != 0 => (finder.name)(address),
        _ => CallSite::default(),
    })
}

/// Writes the report to the job segment, when this rank's part in the job ends; a session that is
/// opened later may call it again.
pub fn publish(engine: &Engine) {
    if is_on() {
        let totals = lock(&TABLE).totals();
        engine.set_counter(Counter::LateCalls, totals.calls);
        engine.set_counter(Counter::LateWaits, totals.waited);
        engine.set_counter(Counter::LateWaitTime, totals.wait_ns);
        // Without memory for the report there is none, and the reader of the tables reports which
        // ones are missing. That does not fail the job, whose work is done.
        let _ = engine.publish_late(&report());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(rank: u32, ns: u64) -> ArrivalCount {
        let key = LateKey { caller: Caller::default(), ranks: 4 };
        ArrivalCount::at(key, Time { ns, rank })
    }

    #[test]
    fn the_latest_that_was_seen_counts() {
        let one = arrival(10, 16_000);
        for (rank, ns) in [(12, 32_000), (10, 16_000), (13, 64_000), (11, 48_000)] {
            one.saw(arrival(rank, ns).word());
        }
        let outcome = CallOutcome { inside_ns: 54_000, waited: Some((13, 48_000)) };
        assert_eq!(one.outcome(70_000), outcome);
    }

    #[test]
    fn what_was_seen_is_passed_on() {
        let [leaf, late, parent, root] = [1, 2, 3, 4].map(|rank| {
            let ns = if rank == 2 { 160_000 } else { 16_000 };
            arrival(rank, ns)
        });
        parent.saw(leaf.word());
        parent.saw(late.word());
        root.saw(parent.word());
        leaf.saw(root.word());
        for early in [&leaf, &parent, &root] {
            assert_eq!(early.outcome(200_000).waited, Some((2, 144_000)));
        }
        late.saw(root.word());
        assert_eq!(late.outcome(200_000).waited, None);
    }

    #[test]
    fn the_last_rank_and_one_that_sees_no_others_blame_no_rank() {
        let last = arrival(10, 16_000);
        last.saw(arrival(11, 15_984).word());
        last.saw(arrival(9, 16_000).word());
        last.saw(0);
        assert_eq!(last.outcome(17_000).waited, None);
        assert_eq!(arrival(10, 16_000).outcome(17_000).waited, None);
    }

    /// The only test that counts in the table of the process.
    #[test]
    fn a_call_counts_once_when_all_its_parts_have_ended() {
        let part = || MemberOf { ranks: 777, rank: 10 };
        assert!(arrive(part).is_none() && current().is_none(), "it is off");
        ON.store(true, Ordering::Relaxed);
        let calls = || {
            let sites = report().sites.into_iter().filter(|site| site.ranks == 777);
            sites.map(|site| site.counts.calls).sum::<u64>()
        };
        assert!(current().is_none());
        let visit = arrive(part);
        assert!(visit.is_some() && arrive(part).is_none(), "one at a time");
        let operation = current().expect("the call");
        drop(visit);
        assert!(current().is_none());
        assert_eq!(calls(), 0, "a part goes on");
        drop(operation);
        assert_eq!(calls(), 1);
        drop(arrive(part));
        assert_eq!(calls(), 2);
        ON.store(false, Ordering::Relaxed);
    }
}

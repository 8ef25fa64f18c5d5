//! Late arrivals at collectives: which rank came last at which call, and how long the others waited
//! (`MICA_LATE=on`).
//!
//! Whoever runs a collective for the program [arrives](arrive) first and keeps what it gets until
//! the call returns. Operations on a shared area that begin meanwhile take the [`ArrivalCount`]
//! along ([`current`]) and tell it what peers say of arrivals ([`ArrivalCount::saw`]); it is
//! counted when the last of them has dropped it, which for a non-blocking collective is when that
//! is complete. Off, all that is one branch. Each process counts in a table of its own, which it
//! leaves in the job segment at its end ([`publish`]) for `mpiexec` to print.
//!
//! Arrival times come from the shared area of the communicator's members on a node: beside each
//! stamp of an operation a member says in its line who came last as far as it knows, at first
//! itself ([`ArrivalCount::word`]). So a rank knows of all that it waits for, even where that goes
//! through a tree of ranks. It names the latest, if that one came after itself; the rank that came
//! last blames nobody. Times are the node's clock: ranks of other nodes are never compared.
//! Algorithms made of messages carry no times: of them, only the calls and the time inside are
//! counted.
//!
//! For a non-blocking collective the calls are those that start it; what is counted as waiting is
//! how much later the last rank started it, whether or not the program waited then. One made of
//! messages counts as no longer than its start.
//!
//! A site is the address that the call returns to in the first object outside of the library, and
//! so the same in a C program's source as one line. Where a profiler (by `PMPI_`), Fortran's
//! interface or Python's wrapper stands between program and library, that is where its call is.
//! What is called there is known by the function of the library that was entered: `MPI_Allreduce`,
//! or `MPI_Start` for whatever that starts. The `abi` crate finds and names addresses ([`Finder`]).

mod frequent;
mod table;
mod time;

use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

pub use mica_node::late::CallSite;
use mica_node::late::LateRecord as Report;
use mica_node::segment::monotonic_ns;
use mica_node::tunables::LATE;
use mica_protocol::Engine;

use crate::comm::Comm;
use crate::sync::lock;
use table::{CallOutcome, LateKey, LateTable};
use time::Time;

static ON: AtomicBool = AtomicBool::new(false);
static TABLE: Mutex<LateTable> = Mutex::new(LateTable::new());
static FINDER: OnceLock<Finder> = OnceLock::new();

thread_local! {
    static CURRENT: RefCell<Option<Arc<ArrivalCount>>> = const { RefCell::new(None) };
}

/// A call of the library by the program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Caller {
    /// The address that it returns to, in the program; 0 if it cannot be found.
    pub site: u64,
    /// An address that it will come back to in the function of the library that was called; 0 if it
    /// cannot be found.
    pub entry: u64,
}

/// How addresses are found and named; that takes what this crate does without.
#[derive(Debug, Clone, Copy)]
pub struct Finder {
    /// The call that this thread is in.
    pub caller: fn() -> Caller,
    /// What is called before such an address is returned to.
    pub name: fn(u64) -> CallSite,
}

/// Says how addresses are found. Before that, all calls count as made in one place, which has no
/// name.
pub fn find_by(finder: Finder) {
    // A second time it is the same one.
    let _ = FINDER.set(finder);
}

/// Whether late arrivals are counted.
#[inline(always)]
pub fn is_on() -> bool {
    // Relaxed: set before the program calls collectives, and never taken back.
    ON.load(Ordering::Relaxed)
}

/// Begins to count if the environment asks for it.
pub(crate) fn begin() {
    if LATE.text() == "on" {
        ON.store(true, Ordering::Relaxed);
        // The first look may load what the later ones use.
        find();
    }
}

/// This rank arrives at a collective on `comm`, and leaves it when what it gets here is dropped.
/// `None` if nobody counts, or within another collective. To be called on the way down from the
/// program's call.
#[inline(always)]
pub fn arrive(comm: &Comm) -> Option<Visit> {
    if is_on() { Visit::begin(comm) } else { None }
}

/// The collective that this thread is in, if that is counted: for the operations that begin within
/// it.
#[inline(always)]
pub fn current() -> Option<Arc<ArrivalCount>> {
    if is_on() {
        CURRENT.with_borrow(Clone::clone)
    } else {
        None
    }
}

/// A call of a collective that has not returned.
#[derive(Debug)]
pub struct Visit {
    /// It belongs to the thread that made the call.
    _not_send: PhantomData<*const ()>,
}

impl Visit {
    #[cold]
    fn begin(comm: &Comm) -> Option<Visit> {
        CURRENT.with_borrow_mut(|current| match current {
            Some(_) => None,
            None => {
                *current = Some(Arc::new(ArrivalCount::new(comm)));
                Some(Visit {
                    _not_send: PhantomData,
                })
            }
        })
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        CURRENT.with_borrow_mut(Option::take);
    }
}

/// A rank's part in a collective. It is counted when it is dropped.
#[derive(Debug)]
pub struct ArrivalCount {
    key: LateKey,
    own: Time,
    /// The latest that is known of, this one or another.
    last: Mutex<Time>,
}

impl ArrivalCount {
    fn new(comm: &Comm) -> ArrivalCount {
        // First of all: to find the site takes a microsecond.
        let ns = monotonic_ns();
        let key = LateKey {
            caller: find(),
            ranks: comm.size() as u32,
        };
        let rank = comm.me();
        ArrivalCount::at(key, Time { ns, rank })
    }

    fn at(key: LateKey, own: Time) -> ArrivalCount {
        let last = Mutex::new(own);
        ArrivalCount { key, own, last }
    }

    /// What peers on this node are to see of this rank: who came last as far as it knows, and when.
    pub fn word(&self) -> u64 {
        lock(&self.last).word()
    }

    /// A peer says so; 0: it says nothing. May be said again.
    pub fn saw(&self, word: u64) {
        if let Some(time) = Time::of_word(word, self.own.ns) {
            let mut last = lock(&self.last);
            *last = time.max(*last);
        }
    }

    fn outcome(&self, now_ns: u64) -> CallOutcome {
        let last = *lock(&self.last);
        let wait_ns = last.ns.saturating_sub(self.own.ns);
        CallOutcome {
            inside_ns: now_ns.saturating_sub(self.own.ns),
            waited: (wait_ns > 0).then_some((last.rank, wait_ns)),
        }
    }
}

impl Drop for ArrivalCount {
    fn drop(&mut self) {
        let outcome = self.outcome(monotonic_ns());
        lock(&TABLE).count(self.key, &outcome);
    }
}

fn find() -> Caller {
    FINDER
        .get()
        .map_or(Caller::default(), |finder| (finder.caller)())
}

/// The function of the library that this thread is in, as the program called it: `MPI_Recv`. Walks
/// the stack.
pub(crate) fn current_function() -> Option<String> {
    let finder = FINDER.get()?;
    let entry = (finder.caller)().entry;
    let symbol = (entry != 0).then(|| (finder.name)(entry).symbol)?;
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

/// Leaves the report in the job segment, where this rank takes part in a job for the last time so
/// far.
pub(crate) fn publish(engine: &Engine) {
    if is_on() {
        // Without memory for it there is none, and whoever reads the tables says whose are missing:
        // the job has done its work all the same.
        let _ = engine.publish_late(&report());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::constants as c;
    use crate::group::Group;

    fn arrival(rank: u32, ns: u64) -> ArrivalCount {
        let key = LateKey {
            caller: Caller::default(),
            ranks: 4,
        };
        ArrivalCount::at(key, Time { ns, rank })
    }

    #[test]
    fn the_latest_that_was_seen_counts() {
        let one = arrival(10, 16_000);
        for (rank, ns) in [(12, 32_000), (10, 16_000), (13, 64_000), (11, 48_000)] {
            one.saw(arrival(rank, ns).word());
        }
        let outcome = CallOutcome {
            inside_ns: 54_000,
            waited: Some((13, 48_000)),
        };
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
    fn the_last_rank_and_one_that_sees_nobody_blame_nobody() {
        let last = arrival(10, 16_000);
        last.saw(arrival(11, 15_984).word());
        last.saw(arrival(9, 16_000).word());
        last.saw(0);
        assert_eq!(last.outcome(17_000).waited, None);
        assert_eq!(arrival(10, 16_000).outcome(17_000).waited, None);
    }

    /// The only test that counts for the whole process.
    #[test]
    fn a_call_counts_once_when_all_its_parts_have_ended() {
        let comm = Comm::predefined(c::COMM_WORLD, "members", 0, Group::run(10, 777), 10);
        assert!(arrive(&comm).is_none() && current().is_none(), "it is off");
        ON.store(true, Ordering::Relaxed);
        let calls = || {
            let sites = report().sites.into_iter().filter(|site| site.ranks == 777);
            sites.map(|site| site.counts.calls).sum::<u64>()
        };
        assert!(current().is_none());
        let visit = arrive(&comm);
        assert!(visit.is_some() && arrive(&comm).is_none(), "one at a time");
        let part = current().expect("the call");
        drop(visit);
        assert!(current().is_none());
        assert_eq!(calls(), 0, "a part goes on");
        drop(part);
        assert_eq!(calls(), 1);
        drop(arrive(&comm));
        assert_eq!(calls(), 2);
        ON.store(false, Ordering::Relaxed);
    }
}

//! Late arrivals at collectives: which rank came last at which call, and how long the others waited (`MICA_LATE=on`).
//!
//! A collective takes an [`Arrival`] when the program calls it, says whose arrivals it sees ([`Arrival::saw`]), and
//! [finishes](Arrival::finish) it. Off, that is one branch. Each process counts in a table of its own, which it leaves in the
//! job segment at its end ([`publish`]) for `mpiexec` to print.
//!
//! Arrival times come from the shared area of the communicator's members on a node: each stores its own beside its first
//! stamp of an operation. So a rank knows of those whose lines it reads: of all where all read all lines, of a part where a
//! tree of ranks gathers. It names the latest of those it saw, if that one came after itself; the rank that came last
//! blames nobody. Times are the node's clock: ranks of other nodes are never compared. Algorithms made of messages carry no
//! times: of them, only the calls and the time inside are counted.
//!
//! For a non-blocking collective the calls are those that start it; what is counted as waiting is how much later the last
//! rank started it, whether or not the program waited then.
//!
//! A site is the address that the call returns to in the first object outside of the library, and the same in a C
//! program's source as one line. Where a profiler (by `PMPI_`), Fortran's interface or Python's wrapper stands between program
//! and library, that is where its call is. The `abi` crate finds and names addresses ([`Finder`]).

mod frequent;
mod table;

use std::cmp::Reverse;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};

pub use mica_node::late::CallSite;
use mica_node::late::Table as Report;
use mica_node::segment::monotonic_ns;
use mica_node::tunables::LATE;
use mica_protocol::Engine;

use crate::comm::Comm;
use crate::sync::lock;
use table::{Key, Outcome, Table};

static ON: AtomicBool = AtomicBool::new(false);
static TABLE: Mutex<Table> = Mutex::new(Table::new());
static FINDER: OnceLock<Finder> = OnceLock::new();

/// How addresses of the program are found and named; that takes what this crate does without.
#[derive(Debug, Clone, Copy)]
pub struct Finder {
    /// The address that the call of the library returns to, which the program is in; 0 if it cannot be found.
    pub caller: fn() -> u64,
    /// What is at such an address.
    pub name: fn(u64) -> CallSite,
}

/// Says how addresses are found. Before that, all calls count as made in one place, which has no name.
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

/// This rank arrives at a collective of this name. `None` if nobody counts. To be called on the way down from the program's
/// call.
#[inline(always)]
pub fn arrive(comm: &Comm, collective: &'static str) -> Option<Arrival> {
    if is_on() {
        Some(Arrival::new(comm, collective))
    } else {
        None
    }
}

/// A rank's part in a collective that is counted when it ends.
#[derive(Debug)]
pub struct Arrival {
    key: Key,
    arrived_ns: u64,
    /// The latest that was seen, by its number in the job, and when it arrived.
    last: Mutex<Option<(u32, u64)>>,
}

impl Arrival {
    #[cold]
    fn new(comm: &Comm, collective: &'static str) -> Arrival {
        // First of all: to find the site takes a microsecond.
        let arrived_ns = monotonic_ns();
        Arrival {
            key: Key {
                site: find(),
                collective,
                ranks: comm.size() as u32,
            },
            arrived_ns,
            last: Mutex::new(None),
        }
    }

    /// When this rank arrived, by the node's clock: what its peers are to see.
    pub fn arrived_ns(&self) -> u64 {
        self.arrived_ns
    }

    /// Rank `rank` of the job arrived at this time by the node's clock; 0: it has not said. May be said again.
    pub fn saw(&self, rank: u32, arrived_ns: u64) {
        // Of two at the same time the lower rank, in whatever order they are seen.
        let order = |(rank, at): (u32, u64)| (at, Reverse(rank));
        let mut last = lock(&self.last);
        if arrived_ns != 0 && last.is_none_or(|last| order((rank, arrived_ns)) > order(last)) {
            *last = Some((rank, arrived_ns));
        }
    }

    /// Counts the call, which ends here. One that fails may just be dropped.
    pub fn finish(self) {
        let inside_ns = monotonic_ns().saturating_sub(self.arrived_ns);
        let outcome = self.outcome(inside_ns);
        lock(&TABLE).count(self.key, &outcome);
    }

    fn outcome(&self, inside_ns: u64) -> Outcome {
        let waited = lock(&self.last).filter(|&(_, at)| at > self.arrived_ns);
        Outcome {
            inside_ns,
            waited: waited.map(|(rank, at)| (rank, at - self.arrived_ns)),
        }
    }
}

fn find() -> u64 {
    FINDER.get().map_or(0, |finder| (finder.caller)())
}

/// What this process has counted so far: the sites where it waited most.
pub fn report() -> Report {
    let name = |address| match FINDER.get() {
        Some(finder) if address != 0 => (finder.name)(address),
        _ => CallSite::default(),
    };
    lock(&TABLE).report(name)
}

/// Leaves the report in the job segment, where this rank takes part in a job for the last time so far.
pub(crate) fn publish(engine: &Engine) {
    if is_on() {
        // Without memory for it there is none, and whoever reads the tables says whose are missing: the job has done its
        // work all the same.
        let _ = engine.publish_late(&report());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::constants as c;
    use crate::group::Group;

    fn arrival(ranks: u32) -> Arrival {
        let comm = Comm::predefined(c::COMM_WORLD, "members", 0, Group::run(10, ranks), 10);
        Arrival {
            arrived_ns: 1000,
            ..Arrival::new(&comm, "barrier")
        }
    }

    #[test]
    fn the_latest_that_was_seen_counts() {
        let one = arrival(4);
        for (rank, at) in [(11, 0), (12, 1500), (10, 1000), (13, 1700), (11, 1200)] {
            one.saw(rank, at);
        }
        assert_eq!(one.outcome(900).waited, Some((13, 700)));
        assert_eq!(one.key.ranks, 4);
    }

    #[test]
    fn of_two_at_the_same_time_it_is_the_lower_rank() {
        for order in [[11, 12], [12, 11]] {
            let one = arrival(4);
            for rank in order {
                one.saw(rank, 2000);
            }
            assert_eq!(one.outcome(1500).waited, Some((11, 1000)));
        }
    }

    #[test]
    fn the_last_rank_and_one_that_sees_nobody_blame_nobody() {
        let last = arrival(3);
        last.saw(11, 999);
        last.saw(10, 1000);
        assert_eq!(last.outcome(5).waited, None);
        assert_eq!(arrival(3).outcome(5).waited, None);
        let unsaid = arrival(3);
        unsaid.saw(12, 0);
        assert_eq!(
            unsaid.outcome(5),
            Outcome {
                inside_ns: 5,
                waited: None
            }
        );
    }

    #[test]
    fn off_there_is_no_arrival() {
        let comm = Comm::predefined(c::COMM_WORLD, "alone", 0, Group::run(0, 1), 0);
        assert!(!is_on() && arrive(&comm, "barrier").is_none());
    }
}

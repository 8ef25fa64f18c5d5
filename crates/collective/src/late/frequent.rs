//! Which ranks came last most often, in bounded memory.
//!
//! The space-saving algorithm (Metwally, Agrawal and El Abbadi, "Efficient computation of frequent
//! and top-k elements in data streams", 2005) with [`LATEST`] counters: as long as there are no
//! more ranks than counters, they are exact. A rank without a counter replaces the rank with the
//! lowest count, and that count becomes the error of the new counter. So a rank that came last in
//! more than one of [`LATEST`] calls always has a counter, and its count minus its error is a lower
//! bound of how often it came last.

use mica_node::late::{LATEST, LastArrival};

/// Ranks that came last.
#[derive(Debug, Clone, Default)]
pub(super) struct Frequent(Vec<LateCounter>);

#[derive(Debug, Clone, Copy)]
struct LateCounter {
    rank: u32,
    count: u64,
    error: u64,
    wait_ns: u64,
}

impl Frequent {
    /// Counts that rank `rank` came last and that this rank waited `wait_ns` for it.
    pub fn count(&mut self, rank: u32, wait_ns: u64) {
        if let Some(counter) = self.0.iter_mut().find(|counter| counter.rank == rank) {
            counter.count += 1;
            counter.wait_ns += wait_ns;
            return;
        }
        let mut fresh = LateCounter { rank, count: 1, error: 0, wait_ns };
        if self.0.len() < LATEST {
            self.0.push(fresh);
            return;
        }
        // Ties go to the highest rank, so that the same calls give the same counters.
        let order = |counter: &&mut LateCounter| (counter.count, std::cmp::Reverse(counter.rank));
        if let Some(rarest) = self.0.iter_mut().min_by_key(order) {
            fresh.error = rarest.count;
            fresh.count += rarest.count;
            *rarest = fresh;
        }
    }

    /// Lower bounds of how often each rank came last, the most frequent first.
    pub fn list(&self) -> Vec<LastArrival> {
        let mut list: Vec<LastArrival> = self
            .0
            .iter()
            .map(|counter| LastArrival {
                rank: counter.rank,
                times: counter.count - counter.error,
                wait_ns: counter.wait_ns,
            })
            .collect();
        list.sort_by_key(|last| (std::cmp::Reverse(last.times), last.rank));
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(ranks: impl IntoIterator<Item = u32>) -> Vec<LastArrival> {
        let mut frequent = Frequent::default();
        for rank in ranks {
            frequent.count(rank, 10);
        }
        frequent.list()
    }

    #[test]
    fn few_ranks_are_counted_exactly() {
        let list = of([3, 1, 3, 2, 3, 1]);
        let list: Vec<_> = list.iter().map(|l| (l.rank, l.times, l.wait_ns)).collect();
        assert_eq!(list, [(3, 3, 30), (1, 2, 20), (2, 1, 10)]);
    }

    proptest! {
        #[test]
        fn a_frequent_rank_is_found_among_many(
            others in prop::collection::vec(0u32..1000, 1..300),
            rank in 0u32..1000,
        ) {
            // Two of three calls.
            let calls: Vec<u32> = others.iter().flat_map(|&other| [other, rank, rank]).collect();
            let list = of(calls.iter().copied());
            prop_assert!(list.len() <= LATEST);
            prop_assert_eq!(list[0].rank, rank);
            for last in list {
                let truly = calls.iter().filter(|&&call| call == last.rank).count() as u64;
                prop_assert!(last.times <= truly && last.wait_ns <= 10 * truly);
            }
        }
    }
}

//! Cycles of ranks that wait for one another, for the hang report: such ranks wait for ever.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Ranks of a cycle that are named; of more, the first and the last.
const NAMED: usize = 16;

/// The cycles in what ranks need, as `0 -> 1 -> 2 -> 0`: through each rank the shortest, and each
/// once. A rank needs all ranks of its list to act before it goes on.
pub fn cycles(needs: &[(u32, Vec<u32>)]) -> Vec<String> {
    let mut needs: BTreeMap<u32, Vec<u32>> = needs.iter().cloned().collect();
    prune(&mut needs);
    let mut found = Vec::new();
    let mut named = BTreeSet::new();
    for &rank in needs.keys() {
        if named.contains(&rank) {
            continue;
        }
        if let Some(cycle) = shortest(&needs, rank) {
            named.extend(cycle.iter().copied());
            found.push(text(&cycle));
        }
    }
    found
}

/// Leaves out ranks that need none that waits, until none is left: they are in no cycle.
fn prune(needs: &mut BTreeMap<u32, Vec<u32>>) {
    loop {
        let waiting: BTreeSet<u32> = needs.keys().copied().collect();
        for needed in needs.values_mut() {
            needed.retain(|rank| waiting.contains(rank));
        }
        needs.retain(|_, needed| !needed.is_empty());
        if needs.len() == waiting.len() {
            return;
        }
    }
}

/// The shortest way from a rank back to itself: breadth first.
fn shortest(needs: &BTreeMap<u32, Vec<u32>>, start: u32) -> Option<Vec<u32>> {
    let mut before: BTreeMap<u32, u32> = BTreeMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(rank) = queue.pop_front() {
        for &next in needs.get(&rank).into_iter().flatten() {
            if next == start {
                let mut cycle = vec![rank];
                while let Some(&earlier) = before.get(cycle.last()?) {
                    cycle.push(earlier);
                }
                cycle.reverse();
                return Some(cycle);
            }
            if let Entry::Vacant(unseen) = before.entry(next) {
                unseen.insert(rank);
                queue.push_back(next);
            }
        }
    }
    None
}

fn text(cycle: &[u32]) -> String {
    let mut words: Vec<String> = cycle.iter().map(u32::to_string).collect();
    if words.len() > NAMED {
        words.splice(NAMED - 1..cycle.len() - 1, [format!("... ({} more)", words.len() - NAMED)]);
    }
    words.push(cycle[0].to_string());
    words.join(" -> ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(needs: &[(u32, &[u32])]) -> Vec<String> {
        let needs: Vec<(u32, Vec<u32>)> =
            needs.iter().map(|(rank, needed)| (*rank, needed.to_vec())).collect();
        cycles(&needs)
    }

    #[test]
    fn names_each_cycle_once_from_its_first_rank() {
        assert_eq!(found(&[(2, &[0]), (0, &[1]), (1, &[2])]), ["0 -> 1 -> 2 -> 0"]);
        let two: [(u32, &[u32]); 5] = [(0, &[3]), (3, &[0]), (5, &[6, 0]), (6, &[5]), (7, &[0])];
        assert_eq!(found(&two), ["0 -> 3 -> 0", "5 -> 6 -> 5"]);
        assert_eq!(found(&[(4, &[4])]), ["4 -> 4"]);
    }

    #[test]
    fn a_rank_that_acts_ends_the_wait() {
        assert_eq!(found(&[(0, &[1]), (1, &[2])]), [""; 0]);
        assert_eq!(found(&[(0, &[1, 9]), (1, &[9]), (9, &[])]), [""; 0]);
        assert_eq!(found(&[]), [""; 0]);
    }

    #[test]
    fn a_long_cycle_is_shortened() {
        let needs: Vec<(u32, Vec<u32>)> =
            (0..1000).map(|rank| (rank, vec![(rank + 1) % 1000])).collect();
        let [cycle] = &cycles(&needs)[..] else {
            panic!("one cycle");
        };
        assert!(cycle.starts_with("0 -> 1 -> ") && cycle.ends_with("... (984 more) -> 999 -> 0"));
    }
}

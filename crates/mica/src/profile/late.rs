//! Which rank collectives waited for, and where it made the call.
//!
//! The ranks recorded when they came to each blocking collective of a communicator and when they
//! left it. Collectives of one communicator follow each other in the same order on all its members
//! (MPI 5.0, 6.14), so the k-th calls of all members belong together. Where all wait for all, the
//! last to arrive is blamed, with its call site; where the others wait for the root (broadcast,
//! scatter), the root is; where only the root waits (gather, reduce), the last is, for what the
//! root waited.
//!
//! A rank waited for another only if it was still in the call when that one arrived: the library
//! does not synchronize a broadcast of no bytes, nor a rank that a scatter gives nothing. Its wait
//! is then from its own arrival to the other's, and so never longer than its call. Times are
//! compared between ranks of one clock only.

use std::collections::{BTreeMap, HashMap};

use mica_profile::LateArrival;

use super::records::{CollectiveWaiting, RankRecords, RecordedArrival};

/// By how much the times of two ranks may be wrong: the profiler's clocks agree to some 100 ns. A
/// rank that left less than this before another arrived counts as having waited for it.
const CLOCK_ERROR_NS: u64 = 1_000;

/// A rank at a collective.
type Arrival<'a> = (u32, &'a RecordedArrival);

/// The blame by call, site and rank, the longest waits first. `site` gives the index of a rank's
/// site in the profile.
pub fn arrivals(ranks: &[RankRecords], site: impl Fn(u32, u64) -> u32) -> Vec<LateArrival> {
    let mut collectives: HashMap<(u64, u64), Vec<Arrival<'_>>> = HashMap::new();
    for rank in ranks {
        for arrival in &rank.arrivals {
            let key = (arrival.comm, arrival.sequence);
            collectives.entry(key).or_default().push((rank.facts.rank, arrival));
        }
    }
    let mut blame: BTreeMap<(&str, u32, u32), LateArrival> = BTreeMap::new();
    for members in collectives.into_values() {
        let Some((late, behind, wait)) = judge(members) else { continue };
        let (rank, arrival) = late;
        let site = site(rank, arrival.site);
        let call = &arrival.name;
        let none = || LateArrival { call: call.clone(), site, rank, ..LateArrival::default() };
        let entry = blame.entry((call, site, rank)).or_insert_with(none);
        entry.times += 1;
        entry.behind_ns += behind;
        entry.wait_ns += wait;
    }
    let mut blame: Vec<LateArrival> = blame.into_values().collect();
    blame.sort_by_key(|late| std::cmp::Reverse(late.wait_ns));
    blame
}

/// Who was late, how long after the one before, and what the others waited in all.
fn judge(mut members: Vec<Arrival<'_>>) -> Option<(Arrival<'_>, u64, u64)> {
    let first = members.first()?.1;
    // Not all arrivals were kept.
    if members.len() != first.size as usize || members.len() < 2 {
        return None;
    }
    let kind = first.kind;
    members.sort_by_key(|(_, arrival)| arrival.ns);
    let is_root = |(rank, arrival): &Arrival<'_>| Some(*rank) == arrival.root;
    let late = match kind {
        CollectiveWaiting::All | CollectiveWaiting::Root => *members.last()?,
        CollectiveWaiting::ForRoot => members.iter().find(|member| is_root(member)).copied()?,
    };
    let wait_of = |member: &Arrival<'_>| match kind {
        CollectiveWaiting::Root if !is_root(member) => 0,
        _ => waited(member.1, late.1),
    };
    let wait: u64 = members.iter().map(wait_of).sum();
    // A rank that does not wait for the root is no measure of how late the root was.
    let counts = |member: &&Arrival<'_>| {
        let waits = kind != CollectiveWaiting::ForRoot || wait_of(member) > 0;
        waits && member.1.ns < late.1.ns
    };
    let before = members.iter().rev().find(counts)?;
    (wait > 0).then_some((late, late.1.ns - before.1.ns, wait))
}

/// How long a rank waited in its call for one that arrived later.
fn waited(own: &RecordedArrival, late: &RecordedArrival) -> u64 {
    match own.left_ns.saturating_add(CLOCK_ERROR_NS) >= late.ns {
        true => late.ns.min(own.left_ns).saturating_sub(own.ns),
        false => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEFT_NS: u64 = 1_000_000;

    /// Ranks that come at these times and all leave at [`LEFT_NS`].
    fn ranks(kind: CollectiveWaiting, root: Option<u32>, times: &[u64]) -> Vec<RankRecords> {
        let arrival = |ns| RecordedArrival {
            left_ns: LEFT_NS,
            comm: 9,
            size: times.len() as u32,
            sequence: 0,
            name: "MPI_X".into(),
            site: 4,
            ns,
            root,
            kind,
        };
        let rank = |(rank, &ns): (usize, &u64)| {
            let arrivals = vec![arrival(ns)];
            let mut records = RankRecords { arrivals, ..RankRecords::default() };
            records.facts.rank = rank as u32;
            records
        };
        times.iter().enumerate().map(rank).collect()
    }

    fn blamed_of(ranks: &[RankRecords]) -> Vec<(u32, u64, u64)> {
        let late = arrivals(ranks, |_, site| site as u32);
        late.iter().map(|late| (late.rank, late.behind_ns, late.wait_ns)).collect()
    }

    #[test]
    fn blames_by_who_waits_for_whom() {
        use CollectiveWaiting::{All, ForRoot, Root};
        let blamed = |kind, root, times: &[u64]| blamed_of(&ranks(kind, root, times));
        assert_eq!(blamed(All, None, &[100, 500, 200]), [(1, 300, 700)]);
        assert_eq!(blamed(ForRoot, Some(0), &[300, 500, 200]), [(0, 100, 100)]);
        assert_eq!(blamed(ForRoot, Some(0), &[100, 500, 200]), []);
        assert_eq!(blamed(Root, Some(0), &[100, 500, 200]), [(1, 300, 400)]);
        assert_eq!(blamed(Root, Some(1), &[100, 500, 200]), []);
    }

    #[test]
    fn ranks_that_left_before_the_root_came_did_not_wait_for_it() {
        // A broadcast of no bytes: all but the root are through at once.
        let times = [6_000_000_000, 0, 100_000];
        let mut ranks = ranks(CollectiveWaiting::ForRoot, Some(0), &times);
        for (rank, time) in ranks.iter_mut().zip(times) {
            rank.arrivals[0].left_ns = time + 100_000;
        }
        assert_eq!(blamed_of(&ranks), []);
        // A scatter that gives rank 1 nothing: rank 2 alone waits.
        ranks[2].arrivals[0].left_ns = 6_000_000_500;
        assert_eq!(blamed_of(&ranks), [(0, 5_999_900_000, 5_999_900_000)]);
    }

    #[test]
    fn a_wait_is_never_longer_than_the_call() {
        // By the error of the clocks, rank 0 left before the last arrived.
        let mut ranks = ranks(CollectiveWaiting::All, None, &[100, 5_000, 200]);
        ranks[0].arrivals[0].left_ns = 4_600;
        ranks[2].arrivals[0].left_ns = 5_100;
        assert_eq!(blamed_of(&ranks), [(1, 4_800, 4_500 + 4_800)]);
        let inside: u64 =
            ranks.iter().map(|rank| rank.arrivals[0].left_ns - rank.arrivals[0].ns).sum();
        assert!(4_500 + 4_800 <= inside);
    }

    #[test]
    fn judges_nothing_where_an_arrival_is_missing() {
        let mut ranks = ranks(CollectiveWaiting::All, None, &[100, 500, 200]);
        ranks[0].arrivals.clear();
        assert!(arrivals(&ranks, |_, site| site as u32).is_empty());
    }
}

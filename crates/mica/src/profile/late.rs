//! Which rank collectives waited for, and where it made the call.
//!
//! The ranks recorded when they arrived at each blocking collective of a communicator. Collectives
//! of one communicator follow each other in the same order on all its members (MPI 5.0, 6.14), so
//! the k-th arrivals of all members belong together. Where all wait for all, the last to arrive is
//! blamed, with its call site; where all wait for the root (broadcast, scatter), the root is, if
//! anybody came before it; where only the root waits (gather, reduce), the last is, for what the
//! root waited. Times are compared between ranks of one clock only.

use std::collections::{BTreeMap, HashMap};

use mica_profile::LateArrival;

use super::records::{CollectiveWaiting, RankRecords, RecordedArrival};

/// A rank at a collective.
type Arrival<'a> = (u32, &'a RecordedArrival);

/// The blame by call, site and rank, the longest waits first. `site` gives the index of a rank's
/// site in the profile.
pub fn arrivals(ranks: &[RankRecords], site: impl Fn(u32, u64) -> u32) -> Vec<LateArrival> {
    let mut collectives: HashMap<(u64, u64), Vec<Arrival<'_>>> = HashMap::new();
    for rank in ranks {
        for arrival in &rank.arrivals {
            let key = (arrival.comm, arrival.sequence);
            collectives.entry(key).or_default().push((rank.rank, arrival));
        }
    }
    let mut blame: BTreeMap<(&str, u32, u32), LateArrival> = BTreeMap::new();
    for members in collectives.into_values() {
        let Some((late, behind, wait)) = judge(members) else {
            continue;
        };
        let (rank, arrival) = late;
        let site = site(rank, arrival.site);
        let entry = blame.entry((&arrival.name, site, rank)).or_insert_with(|| LateArrival {
            call: arrival.name.clone(),
            site,
            rank,
            times: 0,
            behind_ns: 0,
            wait_ns: 0,
        });
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
    let root = members.iter().find(|(rank, arrival)| Some(*rank) == arrival.root).copied();
    let late = match kind {
        CollectiveWaiting::All | CollectiveWaiting::Root => *members.last()?,
        CollectiveWaiting::ForRoot => root?,
    };
    let waits = |&(rank, arrival): &Arrival<'_>| match kind {
        CollectiveWaiting::Root if Some(rank) != arrival.root => 0,
        _ => late.1.ns.saturating_sub(arrival.ns),
    };
    let wait: u64 = members.iter().map(waits).sum();
    let before = members.iter().rev().find(|(_, arrival)| arrival.ns < late.1.ns)?;
    (wait > 0).then_some((late, late.1.ns - before.1.ns, wait))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranks(kind: CollectiveWaiting, root: Option<u32>, times: &[u64]) -> Vec<RankRecords> {
        let arrival = |ns| RecordedArrival {
            comm: 9,
            size: times.len() as u32,
            sequence: 0,
            name: "MPI_X".into(),
            site: 4,
            ns,
            root,
            kind,
        };
        let rank = |(rank, &ns): (usize, &u64)| RankRecords {
            rank: rank as u32,
            arrivals: vec![arrival(ns)],
            ..RankRecords::default()
        };
        times.iter().enumerate().map(rank).collect()
    }

    fn blamed(kind: CollectiveWaiting, root: Option<u32>, times: &[u64]) -> Vec<(u32, u64, u64)> {
        let late = arrivals(&ranks(kind, root, times), |_, site| site as u32);
        late.iter().map(|late| (late.rank, late.behind_ns, late.wait_ns)).collect()
    }

    #[test]
    fn blames_the_last_where_all_wait() {
        assert_eq!(blamed(CollectiveWaiting::All, None, &[100, 500, 200]), [(1, 300, 700)]);
    }

    #[test]
    fn blames_by_who_waits_for_the_root_or_as_the_root() {
        assert_eq!(blamed(CollectiveWaiting::ForRoot, Some(0), &[300, 500, 200]), [(0, 100, 100)]);
        assert_eq!(blamed(CollectiveWaiting::ForRoot, Some(0), &[100, 500, 200]), []);
        assert_eq!(blamed(CollectiveWaiting::Root, Some(0), &[100, 500, 200]), [(1, 300, 400)]);
        assert_eq!(blamed(CollectiveWaiting::Root, Some(1), &[100, 500, 200]), []);
    }

    #[test]
    fn judges_nothing_where_an_arrival_is_missing() {
        let mut ranks = ranks(CollectiveWaiting::All, None, &[100, 500, 200]);
        ranks[0].arrivals.clear();
        assert!(arrivals(&ranks, |_, site| site as u32).is_empty());
    }
}

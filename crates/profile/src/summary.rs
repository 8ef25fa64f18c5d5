//! Sums over a [`Profile`] that its readers share: by call, by site, by level.
//!
//! Tables 2 to 4 of ma-2011 are [`by_call`] (or [`by_call_and_site`], as mpiP counts a call at two
//! sites twice) sorted by time or by bytes; figures 2.2 to 2.4 of chai-2009 are [`distribution`]
//! beside [`even_distribution`].

use std::collections::BTreeMap;

use crate::model::{CallRecord, PairLevel, Profile, ProfiledPlace, RankProfile};

/// Calls of one function, of all ranks.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CallSum {
    /// The function's name.
    pub call: String,
    /// The site, where the sum is by site.
    pub site: Option<u32>,
    /// Ranks that called it.
    pub ranks: u32,
    /// Number of calls.
    pub count: u64,
    /// Sum of their times.
    pub time_ns: u64,
    /// Shortest call.
    pub min_ns: u64,
    /// Longest call.
    pub max_ns: u64,
    /// Number of those that sent data.
    pub sends: u64,
    /// Bytes sent.
    pub bytes: u64,
}

/// Messages and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Amount {
    /// Messages.
    pub messages: u64,
    /// Bytes.
    pub bytes: u64,
}

/// The calls by name, those that took longest first.
pub fn by_call(profile: &Profile) -> Vec<CallSum> {
    sums(profile, |_| None)
}

/// The calls by name and site, those that took longest first.
pub fn by_call_and_site(profile: &Profile) -> Vec<CallSum> {
    sums(profile, |record| Some(record.site))
}

fn sums(profile: &Profile, site: impl Fn(&CallRecord) -> Option<u32>) -> Vec<CallSum> {
    let mut sums: BTreeMap<_, (CallSum, Option<u32>)> = BTreeMap::new();
    let none = |call: &str, site| CallSum {
        call: call.to_owned(),
        site,
        min_ns: u64::MAX,
        ..CallSum::default()
    };
    for record in &profile.calls {
        let (call, site) = (record.call.as_str(), site(record));
        let (sum, last_rank) = sums.entry((call, site)).or_insert_with(|| (none(call, site), None));
        // Records are sorted by rank first.
        sum.ranks += u32::from(*last_rank != Some(record.rank));
        *last_rank = Some(record.rank);
        sum.count += record.count;
        sum.time_ns += record.time_ns;
        sum.min_ns = sum.min_ns.min(record.min_ns);
        sum.max_ns = sum.max_ns.max(record.max_ns);
        sum.sends += record.sends;
        sum.bytes += record.bytes;
    }
    let mut sums: Vec<CallSum> = sums.into_values().map(|(sum, _)| sum).collect();
    sums.sort_by_key(|sum| std::cmp::Reverse(sum.time_ns));
    sums
}

/// Point-to-point messages and one-sided operations by size class and level, of all ranks.
pub fn distribution(profile: &Profile) -> BTreeMap<(u8, PairLevel), Amount> {
    let mut amounts: BTreeMap<(u8, PairLevel), Amount> = BTreeMap::new();
    for size in &profile.sizes {
        if let Some(level) = size.level {
            let amount = amounts.entry((size.class, level)).or_default();
            amount.messages += size.messages;
            amount.bytes += size.bytes;
        }
    }
    amounts
}

/// The share of each level if every rank sent as much to each other rank (chai-2009, 2.2.2): the
/// pairs of that level, divided by all pairs. The shares add to 1 where there are two ranks.
pub fn even_distribution(ranks: &[RankProfile]) -> BTreeMap<PairLevel, f64> {
    // Counted by place, not by pair: thousands of ranks have millions of pairs.
    let mut places: BTreeMap<(u32, Option<(u32, u32)>), u64> = BTreeMap::new();
    for rank in ranks {
        let place = rank.place.map(|place| (place.package, place.cache));
        *places.entry((rank.node, place)).or_default() += 1;
    }
    let others = |count: u64| count * count.saturating_sub(1);
    let pairs = others(ranks.len() as u64);
    let mut shares = BTreeMap::new();
    for (&(node, a), &count) in &places {
        for (&(other, b), &count_b) in &places {
            let same = (node, a) == (other, b);
            let n = if same { others(count) } else { count * count_b };
            let level = match (node == other, a, b) {
                (false, ..) => PairLevel::Network,
                (true, Some(a), Some(b)) if a == b => PairLevel::SharedCache,
                (true, Some(a), Some(b)) if a.0 == b.0 => PairLevel::Package,
                (true, ..) => PairLevel::Node,
            };
            if n > 0 {
                *shares.entry(level).or_insert(0.0) += n as f64 / pairs as f64;
            }
        }
    }
    shares
}

/// What all ranks did with one file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FileSum {
    /// Its name, as the program opened it.
    pub file: String,
    /// Ranks that called.
    pub ranks: u32,
    /// Reads and writes.
    pub directions: [FileDirectionSum; 2],
    /// Time in calls that do neither.
    pub other_ns: u64,
}

/// Accesses of one direction to one file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FileDirectionSum {
    /// Accesses.
    pub calls: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Their time, with that of the calls that end split ones.
    pub time_ns: u64,
    /// Those that begin where the last one of the rank ended.
    pub following: u64,
    /// Accesses by size class.
    pub classes: BTreeMap<u8, u64>,
}

impl FileDirectionSum {
    /// The size class of most accesses; `None` if there are none.
    pub fn usual_class(&self) -> Option<u8> {
        let most = self.classes.iter().max_by_key(|(_, calls)| **calls);
        most.map(|(class, _)| *class)
    }
}

impl FileSum {
    /// Reads.
    pub const READS: usize = 0;
    /// Writes.
    pub const WRITES: usize = 1;

    /// Time in all calls.
    pub fn time_ns(&self) -> u64 {
        self.directions.iter().map(|sum| sum.time_ns).sum::<u64>() + self.other_ns
    }
}

/// The files by name, those that took longest first.
pub fn by_file(profile: &Profile) -> Vec<FileSum> {
    let mut sums: BTreeMap<&str, (FileSum, Option<u32>)> = BTreeMap::new();
    for record in &profile.files {
        let none = || (FileSum { file: record.file.clone(), ..FileSum::default() }, None);
        let (sum, last_rank) = sums.entry(&record.file).or_insert_with(none);
        // Records are sorted by rank first.
        sum.ranks += u32::from(*last_rank != Some(record.rank));
        *last_rank = Some(record.rank);
        let direction = match &record.call {
            call if call.contains("write") => FileSum::WRITES,
            call if call.contains("read") => FileSum::READS,
            _ => {
                sum.other_ns += record.time_ns;
                continue;
            }
        };
        let sum = &mut sum.directions[direction];
        sum.time_ns += record.time_ns;
        if !record.call.ends_with("_end") {
            sum.calls += record.calls;
            sum.bytes += record.bytes;
            sum.following += record.following;
            *sum.classes.entry(record.class).or_default() += record.calls;
        }
    }
    let mut sums: Vec<FileSum> = sums.into_values().map(|(sum, _)| sum).collect();
    sums.sort_by_key(|sum| std::cmp::Reverse(sum.time_ns()));
    sums
}

/// How near two ranks are.
pub fn level(from: &RankProfile, to: &RankProfile) -> PairLevel {
    let near =
        |a: ProfiledPlace, b: ProfiledPlace| match (a.package == b.package, a.cache == b.cache) {
            (true, true) => PairLevel::SharedCache,
            (true, false) => PairLevel::Package,
            (false, _) => PairLevel::Node,
        };
    match (from.place, to.place) {
        _ if from.rank == to.rank => PairLevel::Own,
        _ if from.node != to.node => PairLevel::Network,
        (Some(a), Some(b)) => near(a, b),
        _ => PairLevel::Node,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::FileRecord;

    #[test]
    fn files_are_summed_by_direction() {
        let record = |rank, call: &str, class, calls, following| FileRecord {
            rank,
            file: "out".into(),
            call: call.into(),
            class,
            calls,
            bytes: calls << class >> 1,
            time_ns: 10,
            following,
        };
        let mut profile = Profile::example();
        profile.files = vec![
            record(0, "MPI_File_open", 0, 1, 0),
            record(0, "MPI_File_write_at", 4, 5, 4),
            record(1, "MPI_File_read_all_begin", 1, 2, 1),
            record(1, "MPI_File_read_all_end", 0, 2, 0),
            record(1, "MPI_File_write", 7, 3, 3),
        ];
        let sums = by_file(&profile);
        assert_eq!((sums.len(), sums[0].ranks, sums[0].time_ns()), (1, 2, 50));
        let [reads, writes] = &sums[0].directions;
        assert_eq!((reads.calls, reads.bytes, reads.time_ns, reads.following), (2, 2, 20, 1));
        assert_eq!((writes.calls, writes.following), (8, 7));
        assert_eq!(writes.classes, BTreeMap::from([(4, 5), (7, 3)]));
        assert_eq!(sums[0].other_ns, 10);
    }

    #[test]
    fn example_sums_by_call_and_site() {
        let profile = Profile::example();
        let calls = by_call(&profile);
        assert_eq!(calls[0].call, "MPI_Allreduce");
        assert_eq!((calls[0].ranks, calls[0].count, calls[0].bytes), (4, 80, 640));
        let sends = calls.iter().find(|sum| sum.call == "MPI_Send").expect("sends");
        assert_eq!((sends.ranks, sends.count, sends.bytes), (4, 400, 4 * 100 * 24_576));
        assert_eq!(by_call_and_site(&profile).len(), 4);
        let total: u64 = calls.iter().map(|sum| sum.time_ns).sum();
        assert_eq!(total, profile.ranks.iter().map(|rank| rank.mpi_ns).sum::<u64>());
    }

    #[test]
    fn even_distribution_counts_pairs() {
        let ranks = &Profile::example().ranks;
        let shares = even_distribution(ranks);
        let mut expected: BTreeMap<PairLevel, f64> = BTreeMap::new();
        for a in ranks {
            for b in ranks.iter().filter(|b| b.rank != a.rank) {
                *expected.entry(level(a, b)).or_default() += 1.0 / 12.0;
            }
        }
        assert_eq!(shares.len(), expected.len());
        for (level, share) in expected {
            assert!((shares[&level] - share).abs() < 1e-9, "{level:?}");
        }
    }
}

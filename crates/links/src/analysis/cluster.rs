//! Clusters of execution time, and the links that mark each (muecke-2010, section 5.2, Figure 7).
//!
//! Clusters are optimal one-dimensional k-means of the logarithm of the time, by dynamic
//! programming (Wang and Song 2011, Ckmeans.1d.dp). Where a cluster begins does not decrease as
//! its end moves, so each row takes n log n steps by divide and conquer. Their number maximizes the
//! integrated classification likelihood of normal clusters with one variance (Biernacki, Celeux and
//! Govaert 2000): fit, less the uncertainty that the clusters' sizes cost, less half the logarithm
//! of the number of calls for each parameter. One normal or uniform heap is not split by it.
//!
//! A link marks a cluster if a call within has more load on it than a call without, more often than
//! chance explains (Mann and Whitney's test with ties, Holm's correction over links and clusters).

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, Normal};
use statrs::statistics::{Data, OrderStatistics, RankTieBreaker};

use super::rank::holm;
use super::{ALPHA, Columns};

/// The most clusters that are tried.
const MOST: usize = 6;
/// Times that differ by less than this (as a logarithm: 3 %) make no cluster of their own.
const LEAST_SPREAD: f64 = 0.03;
/// A cluster of fewer calls has no marks.
const LEAST_CALLS: usize = 5;

/// How long a call is beside the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TimeClass {
    /// As the middle call or shorter.
    Short,
    /// In between.
    Medium,
    /// Beyond the widest gap above the short ones, or of the only other cluster.
    Long,
}

/// All values of [`TimeClass`], in order.
pub const TIME_CLASSES: [TimeClass; 3] = [TimeClass::Short, TimeClass::Medium, TimeClass::Long];

impl TimeClass {
    /// The word for it.
    pub fn name(self) -> &'static str {
        ["short", "medium", "long"][self as usize]
    }
}

/// Calls of similar execution time.
#[derive(Debug, Clone, Serialize)]
pub struct TimeCluster {
    /// Which of the three it belongs to.
    pub duration: TimeClass,
    /// The shortest time within.
    pub from: f64,
    /// The longest.
    pub to: f64,
    /// The number of calls.
    pub calls: usize,
    /// Its share of the total time.
    pub time_share: f64,
    /// The mean load of every link during its calls: the star of Figure 7.
    pub star: Vec<f64>,
    /// The links that mark it, the clearest first.
    pub marks: Vec<Mark>,
}

/// A link that marks a cluster.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Mark {
    /// The link's place among the columns.
    pub link: usize,
    /// The chance that a call of the cluster has more load on it than another call.
    pub superiority: f64,
    /// The p-value after Holm's correction.
    pub p: f64,
}

/// The clusters of the calls, the shortest first, and the cluster of each call.
pub fn clusters(calls: &Columns) -> (Vec<TimeCluster>, Vec<usize>) {
    let bounds = bounds(calls.seconds);
    let of = |time: &f64| bounds.partition_point(|bound| bound < time);
    let member: Vec<usize> = calls.seconds.iter().map(of).collect();
    let number = if calls.seconds.is_empty() { 0 } else { bounds.len() + 1 };
    let total: f64 = calls.seconds.iter().sum();
    let mut clusters: Vec<TimeCluster> =
        (0..number).map(|cluster| describe(calls, &member, cluster, total)).collect();
    name(&mut clusters);
    mark(calls, &member, &mut clusters);
    (clusters, member)
}

fn describe(calls: &Columns, member: &[usize], cluster: usize, total: f64) -> TimeCluster {
    let within: Vec<usize> = (0..member.len()).filter(|call| member[*call] == cluster).collect();
    let times = || within.iter().map(|call| calls.seconds[*call]);
    let mean = |load: &&[f64]| {
        within.iter().map(|call| load[*call]).sum::<f64>() / within.len().max(1) as f64
    };
    TimeCluster {
        duration: TimeClass::Short,
        from: times().fold(f64::INFINITY, f64::min),
        to: times().fold(0.0, f64::max),
        calls: within.len(),
        time_share: if total > 0.0 { times().sum::<f64>() / total } else { 0.0 },
        star: calls.loads.iter().map(mean).collect(),
        marks: Vec::new(),
    }
}

/// Clusters up to the middle call's are short. The widest gap (as a ratio) between those above
/// divides medium from long.
fn name(clusters: &mut [TimeCluster]) {
    let all: usize = clusters.iter().map(|cluster| cluster.calls).sum();
    let mut before = 0;
    let first = clusters.iter().position(|cluster| {
        before += cluster.calls;
        2 * before >= all
    });
    let first = first.map_or(0, |middle| middle + 1);
    let gap = |cluster: &usize| clusters[*cluster].from / clusters[cluster - 1].to;
    let long = (first + 1..clusters.len()).max_by(|a, b| gap(a).total_cmp(&gap(b)));
    for (place, cluster) in clusters.iter_mut().enumerate().skip(first) {
        cluster.duration = match long {
            Some(long) if place < long => TimeClass::Medium,
            _ => TimeClass::Long,
        };
    }
}

fn mark(calls: &Columns, member: &[usize], clusters: &mut [TimeCluster]) {
    if clusters.len() < 2 {
        return;
    }
    let mut tests = Vec::new();
    for (link, load) in calls.loads.iter().enumerate() {
        let ranks = Data::new(load.to_vec()).ranks(RankTieBreaker::Average);
        for (place, cluster) in clusters.iter().enumerate() {
            if cluster.calls >= LEAST_CALLS {
                let (superiority, p) = superiority(&ranks, member, place);
                tests.push((place, Mark { link, superiority, p }));
            }
        }
    }
    let p: Vec<f64> = tests.iter().map(|(_, mark)| mark.p).collect();
    for ((cluster, mark), p) in tests.into_iter().zip(holm(&p)) {
        if p < ALPHA {
            clusters[cluster].marks.push(Mark { p, ..mark });
        }
    }
    for cluster in clusters {
        cluster.marks.sort_by(|a, b| b.superiority.total_cmp(&a.superiority));
    }
}

/// Mann and Whitney's U of the members, as a share of all pairs, and its one-sided p-value.
fn superiority(ranks: &[f64], member: &[usize], cluster: usize) -> (f64, f64) {
    let n = ranks.len() as f64;
    let (mut inside, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for (rank, member) in ranks.iter().zip(member) {
        squares += (rank - (n + 1.0) / 2.0).powi(2);
        if *member == cluster {
            inside += 1.0;
            sum += rank;
        }
    }
    let pairs = inside * (n - inside);
    if pairs == 0.0 || squares == 0.0 {
        return (0.5, 1.0);
    }
    let u = sum - inside * (inside + 1.0) / 2.0;
    let deviation = (pairs / (n * (n - 1.0)) * squares).sqrt();
    let p = Normal::new(0.0, 1.0).map_or(1.0, |normal| normal.sf((u - pairs / 2.0) / deviation));
    (u / pairs, p)
}

/// The times between clusters: a call belongs to the first cluster whose bound is not below it.
fn bounds(seconds: &[f64]) -> Vec<f64> {
    let mut sorted: Vec<f64> = seconds.iter().map(|time| time.max(1e-9)).collect();
    sorted.sort_by(f64::total_cmp);
    let logs: Vec<f64> = sorted.iter().map(|time| time.ln()).collect();
    let partition = Partition::new(&logs);
    let rows = partition.rows(MOST.min(logs.len()));
    let best = rows
        .iter()
        .enumerate()
        .map(|(row, _)| partition.starts(&rows, row + 1))
        .max_by(|a, b| partition.likelihood(a).total_cmp(&partition.likelihood(b)));
    best.unwrap_or_default().iter().skip(1).map(|start| sorted[start - 1]).collect()
}

/// Sums of sorted values, by which the squares of any range around its mean take one step.
struct Partition {
    sums: Vec<f64>,
    squares: Vec<f64>,
}

/// The best sums of squares of the first values in a number of clusters, and where the last cluster
/// of each begins.
struct BestSums {
    cost: Vec<f64>,
    start: Vec<usize>,
}

impl Partition {
    fn new(values: &[f64]) -> Partition {
        let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
        let prefix = |f: fn(f64) -> f64| {
            let mut sum = 0.0;
            let rest = values.iter().map(|value| {
                sum += f(value - mean);
                sum
            });
            std::iter::once(0.0).chain(rest).collect::<Vec<f64>>()
        };
        Partition { sums: prefix(|value| value), squares: prefix(|value| value * value) }
    }

    fn len(&self) -> usize {
        self.sums.len() - 1
    }

    /// Squares around the mean of the values `from..to`.
    fn cost(&self, from: usize, to: usize) -> f64 {
        let sum = self.sums[to] - self.sums[from];
        let squares = self.squares[to] - self.squares[from];
        (squares - sum * sum / (to - from) as f64).max(0.0)
    }

    fn rows(&self, number: usize) -> Vec<BestSums> {
        let n = self.len();
        let mut rows: Vec<BestSums> = Vec::new();
        for clusters in 1..=number {
            let mut row = BestSums { cost: vec![f64::INFINITY; n + 1], start: vec![0; n + 1] };
            match rows.last() {
                None => (1..=n).for_each(|to| row.cost[to] = self.cost(0, to)),
                Some(before) => self.fill(&mut row, before, (clusters, n), (clusters - 1, n - 1)),
            }
            rows.push(row);
        }
        rows
    }

    /// Fills the ends `ends.0..=ends.1` whose last cluster begins within `starts`.
    fn fill(
        &self,
        row: &mut BestSums,
        before: &BestSums,
        ends: (usize, usize),
        starts: (usize, usize),
    ) {
        if ends.0 > ends.1 {
            return;
        }
        let middle = usize::midpoint(ends.0, ends.1);
        for start in starts.0..=starts.1.min(middle - 1) {
            let cost = before.cost[start] + self.cost(start, middle);
            if cost < row.cost[middle] {
                row.cost[middle] = cost;
                row.start[middle] = start;
            }
        }
        let start = row.start[middle].max(starts.0);
        self.fill(row, before, (ends.0, middle - 1), (starts.0, start));
        self.fill(row, before, (middle + 1, ends.1), (start, starts.1));
    }

    /// Where each of `clusters` clusters begins.
    fn starts(&self, rows: &[BestSums], clusters: usize) -> Vec<usize> {
        let mut end = self.len();
        let mut starts: Vec<usize> = (0..clusters)
            .rev()
            .map(|row| {
                end = rows[row].start[end];
                end
            })
            .collect();
        starts.reverse();
        starts
    }

    /// The integrated classification likelihood of clusters that begin at `starts`.
    fn likelihood(&self, starts: &[usize]) -> f64 {
        let n = self.len() as f64;
        let ends = starts.iter().skip(1).copied().chain([self.len()]);
        let (mut cost, mut weights) = (0.0, 0.0);
        for (from, to) in starts.iter().zip(ends) {
            if *from >= to {
                return f64::NEG_INFINITY;
            }
            cost += self.cost(*from, to);
            let size = (to - from) as f64;
            weights += size * (size / n).ln();
        }
        let variance = (cost / n).max(LEAST_SPREAD * LEAST_SPREAD);
        // The floor of the variance must not hide what is left of the squares.
        let fit = -n / 2.0 * variance.ln() - cost / (2.0 * variance);
        fit + weights - starts.len() as f64 * n.ln()
    }
}

//! Known answers: planted links are found, noise is not blamed, equal seeds give equal results.

use fastrand::Rng;

use super::blame::rank_links;
use super::cluster::{TimeClass, clusters};
use super::distribution::{distribution, fast_loads, histogram};
use super::rank::{dot, effective_number, holm, p_positive, unit_ranks};
use super::select::{SelectionEffort, relevant_set};
use super::*;

const LINKS: usize = 22;
const CALLS: usize = 300;
const RUNS: u64 = 100;
const EFFORT: SelectionEffort = SelectionEffort { shuffles: 199, halves: 0 };

struct Sample {
    seconds: Vec<f64>,
    loads: Vec<Vec<f64>>,
}

impl Sample {
    /// Columns of about 360 us, as the paper's; each `planted` link has bursts of some calls'
    /// length in which its load triples, and calls take `factor` times as long for each.
    fn new(seed: u64, planted: &[usize], factor: f64) -> Sample {
        let mut rng = Rng::with_seed(seed);
        let mut noise = |scale: f64| ((0..4).map(|_| rng.f64() - 0.5).sum::<f64>() * scale).exp();
        let mut loads: Vec<Vec<f64>> =
            (0..LINKS).map(|_| (0..CALLS).map(|_| 1e6 * noise(0.4)).collect()).collect();
        let mut seconds: Vec<f64> = (0..CALLS).map(|_| 360e-6 * noise(0.3)).collect();
        for link in planted {
            let mut call = rng.usize(0..20);
            while call < CALLS {
                let end = (call + rng.usize(1..12)).min(CALLS);
                for call in call..end {
                    loads[*link][call] *= 3.0;
                    seconds[call] *= factor;
                }
                call = end + rng.usize(10..40);
            }
        }
        Sample { seconds, loads }
    }

    fn with<T>(&self, f: impl FnOnce(&Columns) -> T) -> T {
        let columns: Vec<&[f64]> = self.loads.iter().map(Vec::as_slice).collect();
        f(&Columns { seconds: &self.seconds, loads: &columns })
    }

    fn blamed(&self) -> Vec<usize> {
        let slow: Vec<bool> = self.seconds.iter().map(|time| *time > 700e-6).collect();
        let links = self.with(|calls| rank_links(calls, &slow, 0, 1));
        links.iter().filter(|link| link.beyond_chance).map(|link| link.link).collect()
    }

    fn set(&self, seed: u64) -> Vec<usize> {
        let set = self.with(|calls| relevant_set(calls, EFFORT, seed));
        let mut set: Vec<usize> = set.iter().map(|selected| selected.link).collect();
        set.sort_unstable();
        set
    }
}

/// The number of seeds for which something holds.
fn holds(mut f: impl FnMut(u64) -> bool) -> u64 {
    (0..RUNS).map(|seed| u64::from(f(seed))).sum()
}

#[test]
fn ranks_a_planted_link_first() {
    let first = holds(|seed| {
        let link = (seed as usize * 7) % LINKS;
        Sample::new(seed, &[link], 4.0).blamed().first() == Some(&link)
    });
    assert!(first >= 95, "{first} of {RUNS}");
}

#[test]
fn blames_no_link_for_noise() {
    let none = holds(|seed| Sample::new(1000 + seed, &[], 1.0).blamed().is_empty());
    assert!(none >= 95, "{none} of {RUNS}");
    let none = holds(|seed| Sample::new(1000 + seed, &[], 1.0).set(seed).is_empty());
    assert!(none >= 95, "no relevant set: {none} of {RUNS}");
}

/// Both the time and the links wander, as under slowly changing traffic, but without a relation.
#[test]
fn blames_no_link_where_time_and_load_wander() {
    let wander = |rng: &mut Rng| {
        let mut level = 0.0;
        let step = |_| {
            level = 0.8 * level + rng.f64() - 0.5;
            f64::exp(level)
        };
        (0..CALLS).map(step).collect::<Vec<f64>>()
    };
    let none = holds(|seed| {
        let mut rng = Rng::with_seed(2000 + seed);
        let sample = Sample {
            seconds: wander(&mut rng),
            loads: (0..LINKS).map(|_| wander(&mut rng)).collect(),
        };
        sample.blamed().is_empty() && sample.set(seed).is_empty()
    });
    assert!(none >= 90, "{none} of {RUNS}");
}

#[test]
fn finds_a_planted_pair_as_the_set_of_two() {
    let found = holds(|seed| Sample::new(3000 + seed, &[3, 15], 4.0).set(seed) == [3, 15]);
    assert!(found >= 95, "{found} of {RUNS}");
}

#[test]
fn names_companions_and_stability() {
    let mut sample = Sample::new(5, &[12], 6.0);
    sample.loads[13] = sample.loads[12].iter().map(|load| load * 1.5).collect();
    let effort = SelectionEffort { halves: 20, ..EFFORT };
    let set = sample.with(|calls| relevant_set(calls, effort, 9));
    assert_eq!(set.len(), 1, "{set:?}");
    let both = [set[0].link, set[0].companions[0]];
    assert!(both == [12, 13] || both == [13, 12], "{set:?}");
    // Half of the calls have half of the bursts, which are few.
    assert!(set[0].stability > 0.6, "{set:?}");
    let again = sample.with(|calls| relevant_set(calls, effort, 9));
    assert_eq!(format!("{set:?}"), format!("{again:?}"));
}

#[test]
fn intervals_contain_the_coefficient_and_repeat() {
    let sample = Sample::new(6, &[2], 4.0);
    let slow = vec![false; CALLS];
    let links = |seed| sample.with(|calls| rank_links(calls, &slow, 200, seed));
    for link in links(4) {
        let width = link.interval.high - link.interval.low;
        assert!(link.interval.low < link.rho && link.rho < link.interval.high);
        assert!((0.02..0.8).contains(&width), "{link:?}");
    }
    assert_eq!(format!("{:?}", links(4)), format!("{:?}", links(4)));
    assert_ne!(format!("{:?}", links(4)), format!("{:?}", links(5)));
}

#[test]
fn finds_as_many_clusters_as_there_are() {
    let mut rng = Rng::with_seed(8);
    let levels = [(360e-6, 285), (80e-3, 10), (600e-3, 5)];
    let mut sample = Sample::new(8, &[], 1.0);
    sample.seconds.clear();
    for (level, calls) in levels {
        sample.seconds.extend((0..calls).map(|_| level * (0.9 + 0.2 * rng.f64())));
    }
    sample.loads[7][285..295].iter_mut().for_each(|load| *load *= 10.0);
    let (found, member) = sample.with(clusters);
    assert_eq!(found.iter().map(|cluster| cluster.calls).collect::<Vec<_>>(), [285, 10, 5]);
    let names: Vec<TimeClass> = found.iter().map(|cluster| cluster.duration).collect();
    assert_eq!(names, [TimeClass::Short, TimeClass::Medium, TimeClass::Long]);
    assert_eq!((member[0], member[290], member[299]), (0, 1, 2));
    assert_eq!(found[1].marks.iter().map(|mark| mark.link).collect::<Vec<_>>(), [7]);
    assert!(found[1].star[7] > 5.0 * found[0].star[7]);
}

#[test]
fn makes_no_clusters_of_one_heap() {
    let one = holds(|seed| Sample::new(seed, &[], 1.0).with(clusters).0.len() == 1);
    assert!(one >= 95, "{one} of {RUNS}");
    let same = Sample { seconds: vec![1.0; 50], loads: vec![vec![1.0; 50]; 2] };
    let (found, _) = same.with(clusters);
    assert_eq!(found.len(), 1);
    assert!(same.blamed().is_empty() && same.set(0).is_empty());
}

#[test]
fn describes_the_paper_s_shape() {
    let seconds: Vec<f64> = (0..1900)
        .map(|call| 300e-6 + f64::from(call) * 1e-7)
        .chain((0..100).map(|_| 0.1))
        .collect();
    let all = distribution(&seconds).unwrap();
    assert_eq!(all.calls, 2000);
    assert!((0.92..0.95).contains(&all.slowest_share), "{all:?}");
    assert_eq!(histogram(&seconds, 500e-6).iter().map(|bar| bar.calls).sum::<usize>(), 1900);
    assert!(distribution(&[]).is_none() && histogram(&[], 1.0).is_empty());
    let calls =
        Columns { seconds: &[1.0, 1.0, 9.0], loads: &[&[5.0, 7.0, 100.0], &[1.0, 2.0, 3.0]] };
    let loads = fast_loads(&calls, 2.0);
    assert_eq!((loads[0].link, loads[1].link), (1, 0));
    assert_eq!((loads[1].min, loads[1].median, loads[1].max), (5.0, 6.0, 7.0));
}

/// Values of R: `cor(x, y, method = "spearman")`, `p.adjust(p, "holm")`, `pt(t, 8, lower = FALSE)`.
#[test]
fn agrees_with_closed_forms() {
    let rho = dot(&unit_ranks(&[1.0, 2.0, 3.0, 4.0]), &unit_ranks(&[1.0, 3.0, 2.0, 4.0]));
    assert!((rho - 0.8).abs() < 1e-12);
    let ties = dot(&unit_ranks(&[1.0, 2.0, 2.0, 4.0]), &unit_ranks(&[1.0, 2.0, 3.0, 4.0]));
    assert!((ties - 0.948_683_298).abs() < 1e-8);
    for (p, expected) in holm(&[0.01, 0.04, 0.03, 0.005]).iter().zip([0.03, 0.06, 0.06, 0.02]) {
        assert!((p - expected).abs() < 1e-12);
    }
    // With t = 2.306 and 8 degrees of freedom, 2.5 % are above.
    let t = 2.306_004_f64;
    let rho = t / (t * t + 8.0).sqrt();
    assert!((p_positive(rho, 10.0) - 0.025).abs() < 1e-6);
    let alternating: Vec<f64> = (0..100).map(|call| f64::from(call % 2)).collect();
    let ranks = unit_ranks(&alternating);
    assert!(effective_number(&ranks, &ranks) < 20.0);
}

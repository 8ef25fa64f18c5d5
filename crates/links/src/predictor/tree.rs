//! A small decision tree over a few links.

use serde::Serialize;

use crate::analysis::cluster::{TIME_CLASSES, TimeClass};

/// The deepest tree: three comparisons for a prediction.
const DEPTH: usize = 3;
/// The most links that a tree reads.
pub const LINKS: usize = 3;
/// The least share of calls in a leaf, and the least number.
const LEAF_SHARE: f64 = 0.005;
const LEAF: usize = 3;
/// Candidates for a threshold in a node: quantiles of the feature.
const CANDIDATES: usize = 64;

/// The tree as an array: a prediction follows indices and calls nothing.
#[derive(Debug, Clone, Serialize)]
pub struct DecisionTree {
    nodes: Vec<TreeNode>,
    /// The links that it reads: what must be counted.
    links: Vec<usize>,
}

#[derive(Debug, Clone, Copy, Serialize)]
enum TreeNode {
    Leaf(TimeClass),
    /// Loads up to `threshold` go to the next node, higher ones to node `above`.
    Split {
        link: usize,
        threshold: f64,
        above: usize,
    },
}

/// Calls to learn from.
struct Lesson<'a> {
    features: &'a [&'a [f64]],
    durations: &'a [TimeClass],
    leaf: usize,
}

struct Split {
    link: usize,
    threshold: f64,
    impurity: f64,
}

impl DecisionTree {
    /// Learns from the calls `learn`; `features` has a column for each link.
    pub fn learn(features: &[&[f64]], durations: &[TimeClass], learn: &[usize]) -> DecisionTree {
        let lesson = Lesson {
            features,
            durations,
            leaf: LEAF.max((learn.len() as f64 * LEAF_SHARE) as usize),
        };
        let mut tree = DecisionTree { nodes: Vec::new(), links: Vec::new() };
        tree.grow(&lesson, learn, DEPTH);
        tree
    }

    /// The links that it reads, in the order of the tree.
    pub fn links(&self) -> &[usize] {
        &self.links
    }

    /// What a call will be if `load` gives the load of a link.
    #[inline]
    pub fn predict(&self, load: impl Fn(usize) -> f64) -> TimeClass {
        let mut at = 0;
        loop {
            match self.nodes[at] {
                TreeNode::Leaf(duration) => return duration,
                TreeNode::Split { link, threshold, .. } if load(link) <= threshold => at += 1,
                TreeNode::Split { above, .. } => at = above,
            }
        }
    }

    fn grow(&mut self, lesson: &Lesson, calls: &[usize], depth: usize) {
        let counts = lesson.counts(calls.iter().copied());
        let split = if depth == 0 { None } else { lesson.best(calls, &self.links, gini(&counts)) };
        let Some(split) = split else {
            let most = (0..3).rev().max_by_key(|which| counts[*which]);
            self.nodes.push(TreeNode::Leaf(TIME_CLASSES[most.unwrap_or(0)]));
            return;
        };
        if !self.links.contains(&split.link) {
            self.links.push(split.link);
        }
        let load = |call: &usize| lesson.features[split.link][*call];
        let (low, high): (Vec<usize>, Vec<usize>) =
            calls.iter().partition(|call| load(call) <= split.threshold);
        let here = self.nodes.len();
        self.nodes.push(TreeNode::Leaf(TimeClass::Short));
        self.grow(lesson, &low, depth - 1);
        self.nodes[here] = TreeNode::Split {
            link: split.link,
            threshold: split.threshold,
            above: self.nodes.len(),
        };
        self.grow(lesson, &high, depth - 1);
    }
}

impl Lesson<'_> {
    fn counts(&self, calls: impl Iterator<Item = usize>) -> [usize; 3] {
        let mut counts = [0; 3];
        calls.for_each(|call| counts[self.durations[call] as usize] += 1);
        counts
    }

    /// The split that lowers the impurity most, over links that the tree may read.
    fn best(&self, calls: &[usize], read: &[usize], impurity: f64) -> Option<Split> {
        let may = |link: &usize| read.len() < LINKS || read.contains(link);
        let links = (0..self.features.len()).filter(may);
        let best = links
            .filter_map(|link| self.best_of_link(calls, link))
            .min_by(|a, b| a.impurity.total_cmp(&b.impurity))?;
        (best.impurity < impurity * (1.0 - 1e-9) - 1e-12).then_some(best)
    }

    fn best_of_link(&self, calls: &[usize], link: usize) -> Option<Split> {
        let column = self.features[link];
        let mut sorted = calls.to_vec();
        sorted.sort_by(|a, b| column[*a].total_cmp(&column[*b]));
        let all = self.counts(calls.iter().copied());
        let mut below = [0; 3];
        let mut best: Option<Split> = None;
        let step = (calls.len() / CANDIDATES).max(1);
        for (place, pair) in sorted.windows(2).enumerate() {
            let (call, next) = (pair[0], pair[1]);
            below[self.durations[call] as usize] += 1;
            let number = place + 1;
            // Rare long calls lie at the ends of the order: there every place is a candidate.
            let edge = number.min(sorted.len() - number) <= CANDIDATES;
            let leaves = number >= self.leaf && sorted.len() - number >= self.leaf;
            if column[call] == column[next] || !leaves || !(edge || number.is_multiple_of(step)) {
                continue;
            }
            let above = [0, 1, 2].map(|which| all[which] - below[which]);
            let impurity = gini(&below) + gini(&above);
            if best.as_ref().is_none_or(|best| impurity < best.impurity) {
                best = Some(Split {
                    link,
                    threshold: f64::midpoint(column[call], column[next]),
                    impurity,
                });
            }
        }
        best
    }
}

/// Gini's impurity, times the number of calls.
fn gini(counts: &[usize; 3]) -> f64 {
    let all: usize = counts.iter().sum();
    let squares: f64 = counts.iter().map(|count| (*count as f64).powi(2)).sum();
    if all == 0 { 0.0 } else { all as f64 - squares / all as f64 }
}

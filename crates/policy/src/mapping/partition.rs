//! Recursive partitioning of processes along the tree of the machine.

use std::cmp::Reverse;

use super::{LEVELS, Links, NEARNESSES, Place, along, parts_at};

/// Rounds of exchanges after a division. Each gains, and few are needed.
const ROUNDS: usize = 8;

/// Divisions of more processes than this are not refined by exchanges, which take time in the
/// square of their number.
const REFINED_MAX: usize = 512;

/// The process that a part begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seed {
    /// The one with the heaviest links to those that are left: the centre of a cluster.
    Centre,
    /// The one with the lightest: a corner of a grid, the end of a chain.
    Corner,
}

impl Seed {
    pub(super) const ALL: [Seed; 2] = [Seed::Centre, Seed::Corner];
}

/// A map in which the processes of each part of the machine have heavy links among themselves.
pub(super) fn by_tree(links: &Links, places: &[Place], seed: Seed) -> Vec<usize> {
    let slots = along(places);
    let mut order = vec![0; places.len()];
    let tree = PartitionInput { links, places, seed };
    tree.divide(&slots, (0..places.len()).collect(), 0, &mut order);
    order
}

/// What does not change from level to level.
struct PartitionInput<'a> {
    links: &'a Links,
    places: &'a [Place],
    seed: Seed,
}

impl PartitionInput<'_> {
    /// Gives `slots` to `processes`, part by part of the machine from `level` on.
    fn divide(&self, slots: &[usize], processes: Vec<usize>, level: usize, order: &mut [usize]) {
        if level == LEVELS || slots.len() == 1 {
            for (process, &slot) in processes.into_iter().zip(slots) {
                order[process] = slot;
            }
            return;
        }
        let parts = parts_at(slots, self.places, level);
        if let [_] = parts[..] {
            return self.divide(slots, processes, level + 1, order);
        }
        let mut division = Assignment::grow(self, &parts, processes, level);
        division.refine();
        for (number, part) in parts.iter().enumerate() {
            self.divide(part, division.members(number), level + 1, order);
        }
    }
}

/// Some processes, each in a part of the machine or in none yet.
struct Assignment<'a> {
    links: &'a Links,
    seed: Seed,
    processes: Vec<usize>,
    /// By process: its part; `OUTSIDE` for those that are not divided, `FREE` for those to come.
    part_of: Vec<usize>,
    /// Index in a link's costs if its ends are in different parts of this level.
    apart: usize,
}

const OUTSIDE: usize = usize::MAX;
const FREE: usize = usize::MAX - 1;

impl<'a> Assignment<'a> {
    /// Each part in turn, the largest first, takes the process with the heaviest links into it.
    fn grow(
        tree: &PartitionInput<'a>,
        parts: &[&[usize]],
        processes: Vec<usize>,
        level: usize,
    ) -> Assignment<'a> {
        let mut part_of = vec![OUTSIDE; tree.links.processes()];
        for &process in &processes {
            part_of[process] = FREE;
        }
        let mut division = Assignment {
            links: tree.links,
            seed: tree.seed,
            processes,
            part_of,
            apart: NEARNESSES - 1 - level,
        };
        let mut numbers: Vec<usize> = (0..parts.len()).collect();
        numbers.sort_by_key(|&number| Reverse(parts[number].len()));
        for number in numbers {
            division.fill(number, parts[number].len());
        }
        division
    }

    fn fill(&mut self, part: usize, room: usize) {
        // By process: the weight of its links into the part, and to free processes.
        let free: Vec<usize> = self.members(FREE);
        let mut pull = vec![(0_u128, 0_u128); self.part_of.len()];
        for &process in &free {
            pull[process].1 = self.weight_to(process, FREE);
        }
        for _ in 0..room {
            let open = free.iter().filter(|&&process| self.part_of[process] == FREE);
            let best = open.max_by_key(|&&process| {
                let (inside, outside) = pull[process];
                let outside = match self.seed {
                    Seed::Centre => outside,
                    Seed::Corner => u128::MAX - outside,
                };
                (inside, outside, Reverse(process))
            });
            let Some(&taken) = best else { return };
            self.part_of[taken] = part;
            for (other, weight) in self.weights(taken) {
                if self.part_of[other] == FREE {
                    pull[other].0 += weight;
                    pull[other].1 -= weight;
                }
            }
        }
    }

    /// What the links of a process cost more if their ends are in different parts.
    fn weights(&self, process: usize) -> Vec<(usize, u128)> {
        let links = self.links.of[process].iter();
        let weight = |&(other, cost): &(usize, super::LinkCost)| {
            let more = cost[self.apart].saturating_sub(cost[self.apart - 1]);
            (other, u128::from(more))
        };
        links.map(weight).collect()
    }

    fn weight_to(&self, process: usize, part: usize) -> u128 {
        let weights = self.weights(process).into_iter();
        let inside = weights.filter(|&(other, _)| self.part_of[other] == part);
        inside.map(|(_, weight)| weight).sum()
    }

    /// The processes of a part, in ascending order.
    fn members(&self, part: usize) -> Vec<usize> {
        let processes = self.processes.iter().copied();
        let mut members: Vec<usize> =
            processes.filter(|&process| self.part_of[process] == part).collect();
        members.sort_unstable();
        members
    }

    /// Exchanges pairs of processes in different parts as long as that gains.
    fn refine(&mut self) {
        if self.processes.len() > REFINED_MAX {
            return;
        }
        for _ in 0..ROUNDS {
            let mut changed = false;
            for at in 0..self.processes.len() {
                changed |= self.exchange_best(self.processes[at]);
            }
            if !changed {
                return;
            }
        }
    }

    /// Exchanges a process with the one of another part by which most is gained. Returns whether
    /// one is found.
    fn exchange_best(&mut self, a: usize) -> bool {
        let home = self.part_of[a];
        let mut to: std::collections::BTreeMap<usize, i128> = std::collections::BTreeMap::new();
        let own = self.weights(a);
        for &(other, weight) in &own {
            *to.entry(self.part_of[other]).or_default() += weight as i128;
        }
        let gain = |b: usize| {
            let there = self.part_of[b];
            let between = own.iter().find(|&&(other, _)| other == b);
            let between = between.map_or(0, |&(_, weight)| weight as i128);
            let of_a = to.get(&there).copied().unwrap_or(0) - to.get(&home).copied().unwrap_or(0);
            let of_b = self.weight_to(b, home) as i128 - self.weight_to(b, there) as i128;
            of_a + of_b - 2 * between
        };
        let others = self.processes.iter().copied();
        let others = others.filter(|&b| self.part_of[b] != home);
        let best = others.map(|b| (gain(b), Reverse(b))).max().filter(|&(gain, _)| gain > 0);
        let Some((_, Reverse(b))) = best else {
            return false;
        };
        self.part_of.swap(a, b);
        true
    }
}

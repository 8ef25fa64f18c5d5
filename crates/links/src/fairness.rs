//! Max-min fair rates by progressive filling (Bertsekas and Gallager, Data Networks, 6.5.2): the
//! rates of all flows grow together; when a resource is full, the flows that use it stop growing;
//! and so on until every flow has stopped. A flow also stops at its own limit (its core).
//!
//! Flows that use the same resources have the same rate, so they are one class with a number of
//! members: the cost is in classes and resources, not in flows. [`model`](crate::model) calls this
//! at every event. Pure and deterministic: classes and resources are visited in order.

/// Flows that use the same resources.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowClass {
    /// Indices of the resources, each once.
    pub resources: Vec<usize>,
    /// Largest rate of a member.
    pub limit: f64,
    /// Flows of the class that run now.
    pub members: u32,
    /// The rate of each member, as [`MaxMin::fill`] has set it.
    pub rate: f64,
}

/// Memory for the computation, kept from one to the next.
#[derive(Debug, Default)]
pub struct MaxMin {
    left: Vec<f64>,
    growing: Vec<u32>,
    /// Resources with growing flows.
    used: Vec<usize>,
    /// What each growing flow of a resource could have.
    shares: Vec<f64>,
    /// Growing classes.
    open: Vec<usize>,
}

/// Rates within this part of each other are equal: rounding must not cost a round.
const ROUNDING: f64 = 1e-9;

impl MaxMin {
    /// Sets the rate of each class that has members, given what each resource has to give.
    pub fn fill(&mut self, capacities: &[f64], classes: &mut [FlowClass]) {
        self.begin(capacities, classes);
        while !self.open.is_empty() {
            let level = self.next_level(classes) * (1.0 + ROUNDING);
            let MaxMin { left, growing, shares, open, .. } = self;
            open.retain(|&index| {
                let class = &mut classes[index];
                let on = || class.resources.iter().copied();
                let share = on().map(|at| shares[at]).fold(class.limit, f64::min);
                if share > level {
                    return true;
                }
                for at in on() {
                    growing[at] -= class.members;
                    left[at] = (left[at] - share * f64::from(class.members)).max(0.0);
                }
                class.rate = share;
                false
            });
        }
    }

    fn begin(&mut self, capacities: &[f64], classes: &[FlowClass]) {
        self.left.clear();
        self.left.extend_from_slice(capacities);
        self.growing.clear();
        self.growing.resize(capacities.len(), 0);
        self.shares.clear();
        self.shares.resize(capacities.len(), f64::INFINITY);
        self.open.clear();
        self.used.clear();
        for (index, class) in classes.iter().enumerate() {
            if class.members == 0 {
                continue;
            }
            self.open.push(index);
            for &at in &class.resources {
                if self.growing[at] == 0 {
                    self.used.push(at);
                }
                self.growing[at] += class.members;
            }
        }
    }

    /// The rate at which the next of the growing classes must stop.
    fn next_level(&mut self, classes: &[FlowClass]) -> f64 {
        let MaxMin { left, growing, used, shares, open } = self;
        used.retain(|&at| growing[at] > 0);
        let limits = open.iter().map(|&index| classes[index].limit);
        let mut level = limits.fold(f64::INFINITY, f64::min);
        for &at in used.iter() {
            shares[at] = left[at] / f64::from(growing[at]);
            level = level.min(shares[at]);
        }
        level
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rates(capacities: &[f64], flows: &[(&[usize], u32)]) -> Vec<f64> {
        let class = |&(resources, members): &(&[usize], u32)| FlowClass {
            resources: resources.to_vec(),
            limit: f64::INFINITY,
            members,
            rate: 0.0,
        };
        let mut classes: Vec<FlowClass> = flows.iter().map(class).collect();
        MaxMin::default().fill(capacities, &mut classes);
        classes.iter().map(|class| class.rate).collect()
    }

    #[test]
    fn shares_one_link_evenly() {
        assert_eq!(rates(&[12.0], &[(&[0], 1)]), [12.0]);
        assert_eq!(rates(&[12.0], &[(&[0], 3)]), [4.0]);
    }

    /// The parking lot: one flow over all links, one on each link alone.
    #[test]
    fn parking_lot_has_its_known_rates() {
        let flows: [(&[usize], u32); 4] = [(&[0, 1, 2], 1), (&[0], 1), (&[1], 2), (&[2], 3)];
        // Link 2 has four flows of 3; link 1 leaves (12 - 3) / 2 for each, link 0 the rest.
        assert_eq!(rates(&[12.0, 12.0, 12.0], &flows), [3.0, 9.0, 4.5, 3.0]);
    }

    #[test]
    fn crossing_flows_meet_at_the_shared_link_only() {
        let flows: [(&[usize], u32); 2] = [(&[0, 2], 1), (&[1, 2], 1)];
        assert_eq!(rates(&[1.0, 10.0, 4.0], &flows), [1.0, 3.0]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// The definition: no resource is overloaded, and every flow has a full resource on which
        /// no flow is faster, or is at its limit.
        #[test]
        fn rates_are_max_min_fair(
            capacities in prop::collection::vec(0.1f64..100.0, 1..8),
            flows in prop::collection::vec((1u8..=255, 0u32..5, 0.1f64..50.0), 1..12),
        ) {
            let mut classes: Vec<FlowClass> = flows
                .iter()
                .map(|&(bits, members, limit)| FlowClass {
                    resources: (0..capacities.len()).filter(|at| bits >> at & 1 == 1).collect(),
                    limit,
                    members,
                    rate: 0.0,
                })
                .collect();
            MaxMin::default().fill(&capacities, &mut classes);
            let running = || classes.iter().filter(|class| class.members > 0);
            let on = |at: usize| running().filter(move |class| class.resources.contains(&at));
            let load = |at: usize| on(at).map(|c| c.rate * f64::from(c.members)).sum::<f64>();
            for (at, capacity) in capacities.iter().enumerate() {
                prop_assert!(load(at) <= capacity * (1.0 + 1e-6));
            }
            for class in running() {
                let is_bottleneck = |&at: &usize| {
                    load(at) >= capacities[at] * (1.0 - 1e-6)
                        && on(at).all(|other| other.rate <= class.rate * (1.0 + 1e-6))
                };
                prop_assert!(
                    class.rate >= class.limit * (1.0 - 1e-6)
                        || class.resources.iter().any(is_bottleneck)
                );
            }
        }
    }
}

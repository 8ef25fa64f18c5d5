//! What `mpiexec --map-by profile:FILE` would change for the calls of an observation: the same
//! mapping, on the places that the ranks had.
//!
//! An observation knows the bytes that a call moves between each pair of ranks, and mpiexec and
//! `mica place` read them from its file (`mica_profile::recorded`). The mapping knows which ranks
//! share a chip, not how far chips are from each other.

use std::path::Path;

use mica_links::{Observation, PairBytes};
use mica_node::topology::CorePlace;
use mica_policy::mapping::{MappingEffort, PairTraffic, Place, links_of, map};
use mica_policy::{PathCosts, tuning};

/// A placement that moves less between chips must save this share to be advised.
const WORTH: f64 = 0.01;

/// The chip of each rank if ranks that exchange much are brought together on the places that
/// `chips` has.
pub fn mapped(pairs: &[PairBytes], chips: &[u32]) -> Vec<u32> {
    let traffic = pairs.iter().map(|pair| PairTraffic {
        from: pair.from as usize,
        to: pair.to as usize,
        messages: 1,
        bytes: pair.bytes,
    });
    let places = (0..).zip(chips).map(|(core, &chip)| Place {
        node: 0,
        core: CorePlace { core, shared_cache: chip, package: chip, ..CorePlace::UNKNOWN },
    });
    let places: Vec<Place> = places.collect();
    let costs = tuning::in_force(None).map_or_else(|_| PathCosts::default(), |(costs, _)| costs);
    let traffic: Vec<PairTraffic> = traffic.collect();
    let links = links_of(places.len(), &traffic, &costs);
    let order = map(&links, &places, Vec::new(), MappingEffort::TOOL);
    order.into_iter().map(|place| chips[place]).collect()
}

/// Bytes of a call that leave a chip.
pub fn between_chips(pairs: &[PairBytes], chips: &[u32]) -> u64 {
    let chip = |rank: u32| chips.get(rank as usize);
    let leaves = pairs.iter().filter(|pair| chip(pair.from) != chip(pair.to));
    leaves.map(|pair| pair.bytes).sum()
}

/// A sentence on what another placement gains; `None` where ranks are on one chip, or what they
/// exchange is not known.
pub fn advice(observation: &Observation, workload: usize, file: &Path) -> Option<String> {
    let chips = &observation.provenance.rank_chips;
    let pairs = &observation.workloads[workload].pairs;
    if pairs.is_empty() || chips.iter().all(|chip| *chip == chips[0]) {
        return None;
    }
    let before = between_chips(pairs, chips);
    let after = between_chips(pairs, &mapped(pairs, chips));
    let volume = |bytes: u64| crate::draw::text::volume(bytes as f64);
    let command =
        format!("mpiexec -n {} --bind-to core --map-by profile:{}", chips.len(), file.display());
    Some(match (after as f64) < before as f64 * (1.0 - WORTH) {
        true => format!(
            "Placed by {command}, a call moves {} between chips instead of {} ({:.0} % less).",
            volume(after),
            volume(before),
            100.0 * (1.0 - after as f64 / before as f64)
        ),
        false => format!(
            "No placement was found that moves less between chips than the {} of a call here \
             ({command} changes nothing): ranks exchange as much with all others.",
            volume(before)
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_brought_together() {
        let pair = |from| PairBytes { from, to: from + 4, bytes: 1 << 20 };
        let pairs: Vec<PairBytes> = (0..4).map(pair).collect();
        let chips = [0, 0, 0, 0, 1, 1, 1, 1];
        let placed = mapped(&pairs, &chips);
        assert_eq!(between_chips(&pairs, &chips), 4 << 20);
        assert_eq!(between_chips(&pairs, &placed), 0);
        let mut sorted = placed.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, chips, "every place is used once");
    }

    #[test]
    fn nothing_is_advised_where_all_exchange_alike() {
        let mut observation = Observation::default();
        observation.provenance.rank_chips = vec![0, 0, 1, 1];
        let all = (0..4_u32).flat_map(|from| (0..4_u32).map(move |to| (from, to)));
        let pairs = all.filter(|(from, to)| from != to).map(|(from, to)| PairBytes {
            from,
            to,
            bytes: 4096,
        });
        observation.workloads =
            vec![mica_links::CallWorkload { pairs: pairs.collect(), ..Default::default() }];
        let text = advice(&observation, 0, Path::new("f")).unwrap();
        assert!(text.starts_with("No placement was found"), "{text}");
        observation.provenance.rank_chips = vec![0; 4];
        assert_eq!(advice(&observation, 0, Path::new("f")), None);
    }
}

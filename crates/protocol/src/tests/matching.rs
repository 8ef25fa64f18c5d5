//! Programs of sends, receives, probes and cancels over a network that delivers packets in any
//! permitted order.

use proptest::prelude::*;

use super::program::{Run, call};
use super::rig::{HOLD, over_fabric};
use super::scripted::Script;

/// Around what fits a header (40 bytes), what fits a packet (200 bytes), and long.
const LENGTHS: &[usize] = &[0, 1, 39, 40, 41, 120, 199, 200, 201, 400, 401, 1500];

fn script() -> impl Strategy<Value = Script> {
    let room = prop::sample::select(&[1usize, 2, 7, 1000][..]);
    let odds = || prop::sample::select(&[0usize, 2, 5][..]);
    let brings = 1usize..40;
    (room, odds(), brings, any::<bool>(), odds()).prop_map(
        |(link_room, refuses_sends, brings, reads, refuses_reads)| Script {
            link_room,
            refuses_sends,
            brings,
            reads,
            refuses_reads,
            ..Script::PLAIN
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn two_ranks_match_as_the_model_does(
        calls in prop::collection::vec(call(2, LENGTHS), 0..60),
        script in script(),
        seed: u64,
    ) {
        let (engines, fabric) = over_fabric(2, script, seed, HOLD);
        Run::new(&engines, Some(&fabric), !seed).run(&calls);
    }

    #[test]
    fn four_ranks_match_as_the_model_does(
        calls in prop::collection::vec(call(4, LENGTHS), 0..120),
        script in script(),
        seed: u64,
    ) {
        let (engines, fabric) = over_fabric(4, script, seed, HOLD);
        Run::new(&engines, Some(&fabric), !seed).run(&calls);
    }
}

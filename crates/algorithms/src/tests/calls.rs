//! What [`MessageCall`] says of its descriptions.

use super::run::RoundList;
use crate::{Algorithm, AlgorithmFamily, Collective, MessageCall};

fn calls(ranks: usize) -> Vec<MessageCall> {
    let mut calls = Vec::new();
    for collective in Collective::ALL {
        let by_messages = |a: &&Algorithm| a.family() == AlgorithmFamily::Messages;
        for &algorithm in collective.algorithms().iter().filter(by_messages) {
            for root in [0, ranks / 2, ranks - 1] {
                let bytes = 64;
                for commutes in [true, false] {
                    calls.push(MessageCall { collective, algorithm, ranks, root, bytes, commutes });
                }
            }
        }
    }
    calls
}

fn list(call: &MessageCall, rank: usize) -> RoundList {
    let mut list = RoundList::default();
    call.describe(rank, &mut list);
    list
}

fn sent_units(call: &MessageCall) -> usize {
    (0..call.ranks).map(|rank| list(call, rank).sent_units()).sum()
}

#[test]
fn symmetric_calls_are_those_of_rank_0() {
    for ranks in [1, 2, 3, 7, 8, 12, 33, 40] {
        for call in calls(ranks).iter().filter(|call| call.is_symmetric()) {
            let shape = |rank: usize| {
                let list = list(call, rank);
                let counts =
                    |(sends, receives): (Vec<usize>, Vec<usize>)| (sends.len(), receives.len());
                (list.peers().into_iter().map(counts).collect::<Vec<_>>(), list.sent_units())
            };
            assert!((1..ranks).all(|rank| shape(rank) == shape(0)), "{call:?}");
        }
    }
}

#[test]
fn only_quadratic_calls_send_more_messages_than_ranks_times_their_logarithm() {
    for ranks in [7, 16, 40] {
        for call in calls(ranks) {
            let sends = |rank| -> usize {
                list(&call, rank).peers().iter().map(|(sends, _)| sends.len()).sum()
            };
            let messages: usize = (0..ranks).map(sends).sum();
            let few = ranks * (2 + 2 * ranks.next_power_of_two().ilog2() as usize);
            let is_known = call.is_quadratic() || call.is_symmetric();
            assert!(messages <= few || is_known, "{call:?}: {messages}");
            assert!(call.phases().iter().all(|p| p.is_symmetric() || !p.is_quadratic()));
        }
    }
}

#[test]
fn phases_send_what_the_call_does_and_what_it_leaves_out() {
    for ranks in [3, 8, 13] {
        for call in calls(ranks).iter().filter(|c| c.algorithm == Algorithm::ScatterRing) {
            let call = MessageCall { bytes: 64 * ranks, ..*call };
            let [scatter, ring] = call.phases()[..] else { panic!("two phases") };
            let bytes = |call: &MessageCall| call.unit_bytes() * sent_units(call);
            // The tree brings these pieces to ranks that need them only to pass them on.
            let left_out = bytes(&scatter) - (ranks - 1) * scatter.bytes;
            let known = (ranks - 1) * ring.bytes;
            assert_eq!(bytes(&call) + left_out + known, bytes(&scatter) + bytes(&ring));
        }
    }
}

#[test]
fn volumes_are_those_of_the_algorithms() {
    let volume = |collective, algorithm, ranks: usize, bytes: usize| {
        let call = MessageCall { collective, algorithm, ranks, root: 0, bytes, commutes: true };
        call.unit_bytes() * sent_units(&call)
    };
    use Collective::{Allgather, Allreduce, Alltoall, Bcast, Gather, ReduceScatter};
    // A tree moves the vector once for each other rank.
    assert_eq!(volume(Bcast, Algorithm::Binomial, 13, 10), 12 * 10);
    // Both allgathers bring n - 1 blocks to each of n ranks.
    assert_eq!(volume(Allgather, Algorithm::Ring, 13, 10), 13 * 12 * 10);
    assert_eq!(volume(Allgather, Algorithm::Bruck, 13, 10), 13 * 12 * 10);
    assert_eq!(volume(Alltoall, Algorithm::Exchange, 40, 10), 40 * 39 * 10);
    // Each block travels as often as its distance has bits: 12 for distances 1 to 7.
    assert_eq!(volume(Alltoall, Algorithm::Bruck, 8, 10), 8 * 12 * 10);
    // Rabenseifner: 2 (n - 1) / n of the vector for each rank.
    assert_eq!(volume(Allreduce, Algorithm::Halving, 8, 800), 8 * 2 * 700);
    assert_eq!(volume(ReduceScatter, Algorithm::Halving, 8, 100), 8 * 700);
    // Leaves send 1 block, inner ranks their subtree: for 8 ranks 4 x 1 + 2 x 2 + 1 x 4.
    assert_eq!(volume(Gather, Algorithm::Binomial, 8, 10), 120);
}

#[test]
fn calls_without_bytes_send_nothing_except_barriers() {
    for call in calls(7) {
        let call = MessageCall { bytes: 0, ..call };
        let sends = (0..7).any(|rank| list(&call, rank).peers().iter().any(|p| !p.0.is_empty()));
        assert_eq!(sends, call.collective == Collective::Barrier);
    }
}

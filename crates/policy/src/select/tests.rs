use super::*;
use crate::costs::PathCost;
use proptest::prelude::*;

const ALL_BUT_ENGINES: MessagePaths =
    MessagePaths::ALL.without(MessagePaths::NONE.with(MessagePath::Offload));

/// Costs with every path at the same price except the given ones.
fn costs(of: &[(MessagePath, f64, f64)]) -> PathCosts {
    let mut costs = PathCosts::default();
    for path in MessagePath::ALL {
        costs.set(Level::Node, path, PathCost::new(1e6, &[(0, 1.0)]));
    }
    for &(path, start, byte) in of {
        costs.set(Level::Node, path, PathCost::new(start, &[(0, byte)]));
    }
    costs
}

fn why(
    path: MessagePath,
    message: &OutgoingMessage,
    situation: &Situation,
) -> Option<PathExclusion> {
    match select(message, situation, &PathCosts::default()).verdicts[path as usize] {
        PathVerdict::RuledOut(why) => Some(why),
        PathVerdict::Possible(_) => None,
    }
}

#[test]
fn cheapest_path_wins() {
    let situation = Situation::waiting(Level::Node, MessagePaths::ALL);
    let message = OutgoingMessage::contiguous(1000);
    let costs = costs(&[(MessagePath::Pull, 500.0, 0.1), (MessagePath::Cells, 100.0, 0.6)]);
    let decision = select(&message, &situation, &costs);
    assert_eq!((decision.path, decision.goal), (MessagePath::Pull, Goal::Elapsed));
    assert_eq!(decision.estimate.elapsed_ns, 600.0);
    let shorter = OutgoingMessage::contiguous(500);
    assert_eq!(choose(&shorter, &situation, &costs), MessagePath::Cells);
    let without = Situation { available: MessagePaths::SHARED_MEMORY, ..situation };
    assert_eq!(choose(&message, &without, &costs), MessagePath::Cells);
}

#[test]
fn small_messages_go_inline_at_any_cost() {
    let expensive = costs(&[(MessagePath::Inline, 1e9, 1e9)]);
    let situation = Situation::waiting(Level::Node, MessagePaths::ALL);
    assert_eq!(
        choose(&OutgoingMessage::contiguous(40), &situation, &expensive),
        MessagePath::Inline
    );
    assert_ne!(
        choose(&OutgoingMessage::contiguous(41), &situation, &expensive),
        MessagePath::Inline
    );
    assert_eq!(
        why(MessagePath::Ring, &OutgoingMessage::contiguous(8), &situation),
        Some(PathExclusion::FitsSlot)
    );
}

#[test]
fn synchronous_send_learns_of_its_match() {
    let situation = Situation::waiting(Level::SharedCache, MessagePaths::ALL);
    for len in [0, 8, 4096, 100_000] {
        let message = OutgoingMessage { synchronous: true, ..OutgoingMessage::contiguous(len) };
        let path = choose(&message, &situation, &PathCosts::default());
        assert!(!matches!(path, MessagePath::Inline | MessagePath::Cells), "{len}: {path:?}");
        assert_eq!(why(MessagePath::Cells, &message, &situation), Some(PathExclusion::Synchronous));
    }
}

#[test]
fn busy_peer_excludes_cooperative_copy() {
    let busy = Situation {
        peer_waiting: false,
        ..Situation::waiting(Level::SharedCache, ALL_BUT_ENGINES)
    };
    let message = OutgoingMessage::contiguous(1 << 20);
    for path in [MessagePath::Streamed, MessagePath::Cooperate, MessagePath::MappedCooperate] {
        assert_eq!(why(path, &message, &busy), Some(PathExclusion::PeerBusy));
    }
    assert_eq!(choose(&message, &busy, &PathCosts::default()), MessagePath::Mapped);
    let kernel = Situation {
        available: MessagePaths::SHARED_MEMORY.with(MessagePath::Pull).with(MessagePath::Cooperate),
        ..busy
    };
    assert_eq!(choose(&message, &kernel, &PathCosts::default()), MessagePath::Pull);
    let nothing = Situation { available: MessagePaths::SHARED_MEMORY, ..busy };
    let path = choose(&message, &nothing, &PathCosts::default());
    assert_eq!(path, MessagePath::Streamed, "the last resort");
}

#[test]
fn two_ranks_on_one_core_take_turns() {
    let apart = Situation::waiting(Level::SharedCache, ALL_BUT_ENGINES);
    let shared = Situation { oversubscribed: true, ..apart };
    let message = OutgoingMessage::contiguous(SHARED_WINDOW);
    let cells = |situation: &Situation| match select(&message, situation, &PathCosts::default())
        .verdicts[MessagePath::Cells as usize]
    {
        PathVerdict::Possible(estimate) => estimate,
        PathVerdict::RuledOut(why) => panic!("{why}"),
    };
    let cost = *PathCosts::default().of(Level::SharedCache, MessagePath::Cells);
    let copy = cost.copy_ns(message.len, 1);
    let difference = cells(&shared).elapsed_ns - cells(&apart).elapsed_ns;
    assert!((difference - copy).abs() < 1e-6, "both halves, one after the other");
    for path in [MessagePath::Cooperate, MessagePath::MappedCooperate] {
        assert_eq!(why(path, &message, &shared), Some(PathExclusion::Oversubscribed));
    }
}

#[test]
fn long_messages_through_cells_wait_for_the_core_at_each_window() {
    let apart =
        Situation::waiting(Level::SharedCache, MessagePaths::SHARED_MEMORY.with(MessagePath::Pull));
    let shared = Situation { oversubscribed: true, ..apart };
    // Two cores stream the message while it is in their cache; on one core a pull is better.
    let long = OutgoingMessage::contiguous(1 << 20);
    assert_eq!(choose(&long, &apart, &PathCosts::default()), MessagePath::Streamed);
    assert_eq!(choose(&long, &shared, &PathCosts::default()), MessagePath::Pull);
    let short = OutgoingMessage::contiguous(SHARED_WINDOW);
    assert_eq!(choose(&short, &shared, &PathCosts::default()), MessagePath::Cells);
}

#[test]
fn sender_does_not_wait_for_a_lagging_receiver() {
    let even = Situation::waiting(Level::Node, ALL_BUT_ENGINES);
    let skewed = Situation { skewed: true, ..even };
    let medium = OutgoingMessage::contiguous(16 << 10);
    assert!(!choose(&medium, &even, &PathCosts::default()).is_eager());
    assert_eq!(choose(&medium, &skewed, &PathCosts::default()), MessagePath::Cells);
    let limit = even.limits.eager_skewed;
    assert_eq!(
        choose(&OutgoingMessage::contiguous(limit), &skewed, &PathCosts::default()),
        MessagePath::Cells
    );
    let long = OutgoingMessage::contiguous(limit + 1);
    assert!(!choose(&long, &skewed, &PathCosts::default()).is_eager());
    assert_eq!(why(MessagePath::Pull, &medium, &skewed), Some(PathExclusion::Skewed { limit }));
    let synchronous = OutgoingMessage { synchronous: true, ..medium };
    assert!(!choose(&synchronous, &skewed, &PathCosts::default()).is_eager());
}

#[test]
fn an_engine_copies_what_can_be_hidden() {
    let waiting = Situation::waiting(Level::SharedCache, MessagePaths::ALL);
    let hiding = Situation { overlap: true, ..waiting };
    let large = OutgoingMessage::contiguous(4 << 20);
    assert_ne!(choose(&large, &waiting, &PathCosts::default()), MessagePath::Offload);
    let decision = select(&large, &hiding, &PathCosts::default());
    assert_eq!((decision.path, decision.goal), (MessagePath::Offload, Goal::Busy));
    assert!(decision.estimate.busy_ns < 0.1 * decision.estimate.elapsed_ns);
    let small = OutgoingMessage::contiguous(1 << 10);
    assert_eq!(choose(&small, &hiding, &PathCosts::default()), MessagePath::Ring);
}

#[test]
fn fine_pieces_are_not_worth_a_system_call_each() {
    let paths = MessagePaths::SHARED_MEMORY.with(MessagePath::Pull);
    let situation = Situation::waiting(Level::Node, paths);
    let len = 4 << 20;
    let of = |piece: usize| {
        let message = OutgoingMessage { pieces: len / piece, ..OutgoingMessage::contiguous(len) };
        choose(&message, &situation, &PathCosts::default())
    };
    assert_eq!((of(8), of(64 << 10)), (MessagePath::Streamed, MessagePath::Pull));
}

#[test]
fn reasons_can_be_read() {
    let text = PathExclusion::TooLong { limit: 40 }.to_string();
    assert!(text.contains("40 bytes"), "{text}");
    let text = PathExclusion::Skewed { limit: 262_144 }.to_string();
    assert!(text.contains("lags behind") && text.contains("262144"), "{text}");
}

prop_compose! {
    fn situations()(
        level in prop::sample::select(&crate::costs::LEVELS[..]),
        available in prop::sample::subsequence(MessagePath::ALL.to_vec(), 0..=PATHS),
        flags in any::<[bool; 4]>(),
    ) -> Situation {
        Situation {
            level,
            available: available.into_iter().collect(),
            limits: EagerLimits::default(),
            peer_waiting: flags[0],
            skewed: flags[1],
            oversubscribed: flags[2],
            overlap: flags[3],
        }
    }
}

proptest! {
    #[test]
    fn the_choice_is_the_least_of_what_is_possible(
        situation in situations(),
        len in prop_oneof![0usize..100, 0usize..100_000, 0usize..1 << 30],
        pieces in 1usize..1000,
        synchronous: bool,
    ) {
        let message = OutgoingMessage { len, pieces, synchronous };
        let decision = select(&message, &situation, &PathCosts::default());
        prop_assert_eq!(decision.path, choose(&message, &situation, &PathCosts::default()));
        let mut possible = false;
        for (path, verdict) in decision.considered() {
            match verdict {
                PathVerdict::Possible(estimate) => {
                    possible = true;
                    prop_assert!(situation.available.contains(path));
                    prop_assert!(decision.estimate.of(decision.goal) <= estimate.of(decision.goal));
                }
                PathVerdict::RuledOut(why) => prop_assert_eq!(
                    *why == PathExclusion::NotAvailable,
                    !situation.available.contains(path)
                ),
            }
        }
        let verdict = &decision.verdicts[decision.path as usize];
        let ruled_out = matches!(verdict, PathVerdict::RuledOut(_));
        prop_assert_eq!(ruled_out, !possible);
        prop_assert!(possible || decision.path == MessagePath::Streamed);
    }
}

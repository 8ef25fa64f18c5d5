use std::sync::Arc;

use mica_node::tunables;
use proptest::prelude::*;

use super::choose::{CLASSES, class_of, judged};
use super::formulas::load;
use super::*;
use crate::costs::{LEVELS, MessagePath, PathCost, PathCosts};

fn setting(ranks: usize, cores: usize) -> GroupSetting {
    GroupSetting {
        ranks,
        level: Level::SharedCache,
        cores: cores.min(ranks),
        area_cell: Some(32 << 10),
    }
}

fn question(collective: Collective, bytes: usize, setting: GroupSetting) -> CollectiveCall {
    CollectiveCall {
        collective,
        bytes,
        order: OperandOrder::Any,
        reach: Reachability::Unknown,
        setting,
    }
}

fn shipped(question: &CollectiveCall) -> AlgorithmDecision {
    choose(&CollectiveCosts::default(), question, &ForcedAlgorithms::default())
}

fn reason(decision: &AlgorithmDecision, algorithm: Algorithm) -> Option<AlgorithmExclusion> {
    let mut estimates = decision.estimates.iter();
    estimates.find(|e| e.algorithm == algorithm)?.ruled_out
}

#[test]
fn names_are_the_words_of_the_tunable() {
    let tunables::TunableKind::List(list) = tunables::COLL.kind else {
        panic!("MICA_COLL is a list")
    };
    assert_eq!(list.entries.len(), COLLECTIVES);
    for (collective, tunables::ListEntry { name, words }) in
        Collective::ALL.into_iter().zip(list.entries)
    {
        assert_eq!(*name, collective.name());
        assert_eq!(Collective::parse(collective.name()), Some(collective));
        let names = collective.algorithms().iter().map(|a| a.name());
        let wanted: Vec<&str> = std::iter::once("auto").chain(names).collect();
        assert_eq!(*words, wanted, "{collective:?}");
        let first = collective.algorithms()[0];
        assert_eq!(first.family(), AlgorithmFamily::Messages, "{collective:?}");
    }
    let names = AlgorithmFamily::ALL.map(AlgorithmFamily::name);
    assert_eq!(list.all, [&["auto"][..], &names[..]].concat());
    for (at, algorithm) in Algorithm::ALL.into_iter().enumerate() {
        assert_eq!(Algorithm::parse(algorithm.name()), Some(algorithm));
        assert_eq!(algorithm as usize, at);
    }
    for reach in Reachability::ALL {
        assert_eq!(Reachability::parse(reach.name()), Some(reach));
    }
}

#[test]
fn what_a_node_is_good_at() {
    use Algorithm::{Direct, Shared};
    for (ranks, cores) in [(2, 2), (4, 4), (8, 2), (8, 8), (64, 64)] {
        let of = |collective, bytes| shipped(&question(collective, bytes, setting(ranks, cores)));
        assert_eq!(of(Collective::Barrier, 0).algorithm, Shared, "{ranks}");
        for collective in &Collective::ALL[1..] {
            assert_eq!(of(*collective, 8).algorithm, Shared, "{collective:?} {ranks}");
            for long in [64 << 10, 1 << 20] {
                let algorithm = of(*collective, long).algorithm;
                assert_eq!(algorithm, Direct, "{collective:?} {ranks} {long}");
            }
        }
        // By the kernel, on this machine two copies through the area cost less than one.
        let kernel = CollectiveCall {
            reach: Reachability::Cma,
            ..question(Collective::Allreduce, 64 << 10, setting(ranks, cores))
        };
        assert_eq!(shipped(&kernel).algorithm, Shared, "{ranks}");
    }
}

/// Packing is a copy more, by who has gaps: it never makes direct copy cheaper, and on this machine
/// it never pays between two ranks, whose cells pack a piece while the other rank unpacks one.
#[test]
fn packing_is_worth_it_only_where_cells_cost_more() {
    let ns = |collective, bytes, reach, setting| {
        let call = CollectiveCall { reach, ..question(collective, bytes, setting) };
        load(&CollectiveCosts::default(), &call, Algorithm::Direct).ns(
            setting.ranks,
            setting.cores,
            700.0,
        )
    };
    use Collective::{Allgather, Alltoall, Bcast, Gather, Scatter};
    for bytes in [1 << 10, 64 << 10, 8 << 20] {
        for setting in [setting(2, 2), setting(8, 2), setting(8, 8)] {
            for collective in [Allgather, Alltoall, Bcast, Scatter] {
                let by_kernel = ns(collective, bytes, Reachability::Cma, setting);
                let packed = ns(collective, bytes, Reachability::Packed, setting);
                assert!(packed > by_kernel, "{collective:?} {bytes} {setting:?}");
            }
            // The root of a gather receives: no rank can pack for it.
            assert_eq!(
                ns(Gather, bytes, Reachability::Cma, setting),
                ns(Gather, bytes, Reachability::Packed, setting)
            );
        }
        let call = CollectiveCall {
            reach: Reachability::Packed,
            ..question(Alltoall, bytes, setting(2, 2))
        };
        let choice =
            pick_once_reachable(&CollectiveCosts::default(), &call, &ForcedAlgorithms::default());
        assert_eq!(choice, Algorithm::Shared, "{bytes}");
    }
}

/// The changes among algorithms of messages are at the lengths of the former fixed thresholds,
/// within an order of magnitude.
#[test]
fn messages_change_over_where_they_did() {
    let changes = |collective, ranks| {
        let choices = Choices::new(
            Arc::new(CollectiveCosts::default()),
            ForcedAlgorithms::default().with_family(AlgorithmFamily::Messages),
            setting(ranks, ranks),
        );
        choices.changes(collective, OperandOrder::Any, Reachability::Unknown)
    };
    let near = |collective, ranks: usize, algorithm, bytes: usize| {
        let changes = changes(collective, ranks);
        let (from, _) = changes
            .iter()
            .find(|(_, a)| *a == algorithm)
            .unwrap_or_else(|| panic!("{collective:?} {ranks}: {changes:?}"));
        let near = bytes / 10..=bytes * 10;
        assert!(near.contains(from), "{collective:?} {ranks}: {changes:?}");
    };
    use Algorithm::{Exchange, Halving, Linear, Pairwise, Ring, ScatterRing};
    near(Collective::Allreduce, 8, Halving, 16 << 10);
    near(Collective::Reduce, 8, Halving, 16 << 10);
    near(Collective::Bcast, 16, ScatterRing, 64 << 10);
    near(Collective::Gather, 12, Linear, 2 << 10);
    near(Collective::Allgather, 12, Ring, (64 << 10) / 12);
    near(Collective::Alltoall, 16, Exchange, 256);
    near(Collective::ReduceScatter, 8, Pairwise, (256 << 10) / 8);
}

#[test]
fn rejects_impossible_questions() {
    use Algorithm::{Binomial, Bruck, Direct, Halving, Linear, Ring, ScatterRing, Shared};
    let alone = GroupSetting { area_cell: None, ..setting(8, 8) };
    let decision = shipped(&question(Collective::Bcast, 1 << 20, alone));
    assert_eq!(decision.algorithm.family(), AlgorithmFamily::Messages);
    for algorithm in [Shared, Direct] {
        assert_eq!(reason(&decision, algorithm), Some(AlgorithmExclusion::NoArea));
    }
    let remote = CollectiveCall {
        reach: Reachability::None,
        ..question(Collective::Bcast, 1 << 20, setting(8, 8))
    };
    assert_eq!(reason(&shipped(&remote), Direct), Some(AlgorithmExclusion::NotReachable));
    let empty = question(Collective::Bcast, 0, setting(8, 8));
    assert_eq!(reason(&shipped(&empty), Direct), Some(AlgorithmExclusion::NoData));
    for (collective, algorithm, ranks, same) in [
        (Collective::Bcast, ScatterRing, 2, Binomial),
        (Collective::Gather, Binomial, 2, Linear),
        (Collective::Allgather, Ring, 2, Bruck),
        (Collective::Alltoall, Bruck, 3, Algorithm::Exchange),
        (Collective::Reduce, Halving, 2, Binomial),
        (Collective::Allreduce, Halving, 2, Algorithm::Doubling),
    ] {
        let of = |ranks| shipped(&question(collective, 1 << 10, setting(ranks, ranks)));
        let least = ranks + 1;
        let why = AlgorithmExclusion::FewRanks { least, same };
        assert_eq!(reason(&of(ranks), algorithm), Some(why), "{collective:?}");
        assert_eq!(reason(&of(least), algorithm), None, "{collective:?}");
    }
    let short = question(Collective::Allreduce, 4, setting(8, 8));
    let why = AlgorithmExclusion::TooShort { least: 8 };
    assert_eq!(reason(&shipped(&short), Halving), Some(why));
    let ordered = CollectiveCall {
        order: OperandOrder::ByRank,
        ..question(Collective::ReduceScatter, 64, setting(8, 8))
    };
    assert_eq!(reason(&shipped(&ordered), Halving), Some(AlgorithmExclusion::Reorders));
    let by = ForcedValue { collective: None, word: "shared" };
    for why in [AlgorithmExclusion::NoArea, why, AlgorithmExclusion::Forced { by }] {
        assert!(why.to_string().len() > 20, "{why}");
    }
}

#[test]
fn an_algorithm_is_forced_before_a_family() {
    let question = question(Collective::Allreduce, 8, setting(8, 8));
    let costs = CollectiveCosts::default();
    let forced = ForcedAlgorithms::default()
        .with_family(AlgorithmFamily::Messages)
        .with(Collective::Allreduce, Algorithm::Direct);
    let decision = choose(&costs, &question, &forced);
    assert_eq!(decision.algorithm, Algorithm::Direct);
    let by = ForcedValue { collective: Some(Collective::Allreduce), word: "direct" };
    assert_eq!(decision.forced_by, Some(by));
    assert_eq!(reason(&decision, Algorithm::Shared), Some(AlgorithmExclusion::Forced { by }));
    // If that is not possible, the family's value is next, and the reason is reported.
    let remote = CollectiveCall { reach: Reachability::None, ..question };
    let decision = choose(&costs, &remote, &forced);
    assert_eq!(decision.algorithm, Algorithm::Doubling);
    let family = ForcedValue { collective: None, word: "messages" };
    assert_eq!(decision.forced_by, Some(family));
    let refusal = decision.refused[0];
    assert_eq!(refusal.why, Some(AlgorithmExclusion::NotReachable));
    let text = refusal.to_string();
    assert!(text.contains("MICA_COLL=allreduce=direct"), "{text}");
    // A barrier copies nothing: a family that it does not have is ignored.
    let barrier = CollectiveCall { collective: Collective::Barrier, bytes: 0, ..question };
    let forced = ForcedAlgorithms::default().with_family(AlgorithmFamily::Direct);
    let decision = choose(&costs, &barrier, &forced);
    assert_eq!((decision.algorithm, decision.forced_by), (Algorithm::Shared, None));
    let text = decision.refused[0].to_string();
    assert!(text.contains("MICA_COLL=direct") && text.contains("no such"), "{text}");
    // An algorithm of another collective forces nothing.
    let none = ForcedAlgorithms::default().with(Collective::Barrier, Algorithm::Ring);
    assert_eq!(none, ForcedAlgorithms::default());
}

#[test]
fn ranks_that_share_cores_pay_for_each_pass() {
    let load = formulas::Load { passes: 3, chain_ns: 100.0, work_ns: 900.0 };
    assert_eq!(load.ns(8, 8, 1000.0), 100.0);
    assert_eq!(load.ns(8, 2, 1000.0), 3.0 * 4.0 * 1000.0 + 450.0);
    let of = |cores| {
        let decision = shipped(&question(Collective::Barrier, 0, setting(8, cores)));
        let time = |a| {
            let mut estimates = decision.estimates.iter();
            estimates.find(|e| e.algorithm == a).unwrap().nanoseconds.unwrap()
        };
        time(Algorithm::Dissemination) / time(Algorithm::Shared)
    };
    assert!(of(2) > 2.5, "three passes and one: {}", of(2));
}

#[test]
fn one_rank_has_nothing_to_wait_for() {
    for collective in Collective::ALL {
        let decision = shipped(&question(collective, 1 << 10, setting(1, 1)));
        assert_eq!(decision.nanoseconds, 0.0, "{collective:?}");
    }
}

#[test]
fn flaws_are_named() {
    assert_eq!(CollectiveCosts::default().flaw(), None);
    let level = *CollectiveCosts::default().of(Level::Node);
    for (change, word) in [
        ((|c: &mut CollectiveCosts| c.switch_ns = -1.0) as fn(&mut _), "switch_ns is -1"),
        (|c| c.round_ns = f64::NAN, "round_ns is NaN"),
        (|c| c.reduce_byte_ns = f64::INFINITY, "reduce_byte_ns"),
    ] {
        let mut costs = CollectiveCosts::default();
        change(&mut costs);
        assert!(costs.flaw().unwrap().contains(word), "{word}");
    }
    let mut costs = CollectiveCosts::default();
    let copy = PathCost::new(-5.0, &[(0, 0.1)]);
    costs.set(Level::Node, LevelCosts { copy: Some(copy), ..level });
    assert!(costs.flaw().unwrap().contains("-5"));
    // If the area was not measured, it costs what cells do, otherwise what was measured.
    let shipped = CollectiveCosts::default();
    let cells = shipped.messages.of(Level::Node, MessagePath::Cells);
    assert_eq!(shipped.copy_ns(Level::Node, 1000, 3), cells.copy_ns(1000, 1));
    let copy = Some(PathCost::new(5.0, &[(0, 0.1)]));
    costs.set(Level::Node, LevelCosts { copy, ..level });
    assert!((costs.copy_ns(Level::Node, 1000, 3) - 115.0).abs() < 1e-9);
}

fn lengths() -> impl Strategy<Value = usize> {
    prop_oneof![
        0usize..100,
        0usize..100_000,
        (0u32..48, 0usize..3).prop_map(|(bits, off)| (1usize << bits) - 1 + off),
        0usize..1 << 40,
        any::<usize>(),
    ]
}

prop_compose! {
    fn settings()(
        ranks in 1usize..200,
        cores in 1usize..200,
        level in prop::sample::select(&LEVELS[..]),
        area_cell in prop::option::of(1usize..1 << 20),
    ) -> GroupSetting {
        GroupSetting { ranks, level, cores: cores.min(ranks), area_cell }
    }
}

prop_compose! {
    fn questions()(
        collective in prop::sample::select(&Collective::ALL[..]),
        bytes in lengths(),
        order in prop::sample::select(vec![OperandOrder::ByRank, OperandOrder::Any]),
        reach in prop::sample::select(&Reachability::ALL[..]),
        setting in settings(),
    ) -> CollectiveCall {
        CollectiveCall { collective, bytes, order, reach, setting }
    }
}

prop_compose! {
    /// Arbitrary costs of messages and of steps.
    fn any_costs()(
        paths in prop::collection::vec((0.0..1e5f64, 0.0..2.0f64, 0.0..2.0f64, 1u64..1 << 30), 27),
        steps in prop::collection::vec((0.0..1e4f64, 0.0..1e4f64), 3),
        copy in prop::option::of((0.0..1e3f64, 0.0..2.0f64)),
        plain in (0.0..1e4f64, 0.0..1.0f64, 0.0..1e4f64),
    ) -> CollectiveCosts {
        let mut messages = PathCosts::default();
        let slots = LEVELS.into_iter().flat_map(|level| MessagePath::ALL.map(|path| (level, path)));
        for ((level, path), (start, near, far, from)) in slots.zip(paths) {
            messages.set(level, path, PathCost::new(start, &[(0, near), (from, far)]));
        }
        let mut costs = CollectiveCosts::new(messages);
        (costs.switch_ns, costs.reduce_byte_ns, costs.round_ns) = plain;
        for (level, (sync_ns, expose_ns)) in LEVELS.into_iter().zip(steps) {
            let copy = copy.map(|(start, byte)| PathCost::new(start, &[(0, byte)]));
            costs.set(level, LevelCosts { sync_ns, expose_ns, copy });
        }
        costs
    }
}

prop_compose! {
    fn wishes()(
        family in prop::option::of(prop::sample::select(&AlgorithmFamily::ALL[..])),
        algorithm in prop::option::of(prop::sample::select(&Algorithm::ALL[..])),
        collective in prop::sample::select(&Collective::ALL[..]),
    ) -> ForcedAlgorithms {
        let none = ForcedAlgorithms::default();
        let forced = family.map_or(none, |family| none.with_family(family));
        algorithm.map_or(forced, |a| forced.with(collective, a))
    }
}

proptest! {
    #[test]
    fn the_choice_is_the_least_of_what_is_possible(
        question in questions(),
        costs in any_costs(),
        forced in wishes(),
    ) {
        let decision = choose(&costs, &question, &forced);
        prop_assert_eq!(decision.algorithm, pick(&costs, &question, &forced));
        let listed: Vec<Algorithm> = decision.estimates.iter().map(|e| e.algorithm).collect();
        prop_assert_eq!(listed, question.collective.algorithms());
        for estimate in &decision.estimates {
            match (estimate.nanoseconds, estimate.ruled_out) {
                (Some(ns), None) => {
                    prop_assert!(ns >= 0.0 && decision.nanoseconds <= ns, "{:?}", decision);
                }
                (Some(_), Some(AlgorithmExclusion::Forced { by })) => {
                    prop_assert_eq!(Some(by), decision.forced_by);
                }
                (None, Some(why)) => {
 let only_forced = matches!(why, AlgorithmExclusion::Forced { .. });
 prop_assert!(!only_forced);
 }
                other => prop_assert!(false, "{:?}", other),
            }
            if estimate.algorithm == decision.algorithm {
                prop_assert_eq!(estimate.nanoseconds, Some(decision.nanoseconds));
                prop_assert_eq!(estimate.ruled_out, None);
            }
        }
    }

    #[test]
    fn the_table_agrees_to_the_byte(
        costs in any_costs(),
        forced in wishes(),
        setting in settings(),
        asked in prop::collection::vec(questions(), 1..20),
    ) {
        let choices = Choices::new(Arc::new(costs.clone()), forced, setting);
        for question in asked {
            let question = CollectiveCall { setting, ..question };
            let CollectiveCall { collective, bytes, order, reach, .. } = question;
            let wanted = pick(&costs, &question, &forced);
            let announced = pick_once_reachable(&costs, &question, &forced);
            prop_assert_ne!(announced.family(), AlgorithmFamily::Messages);
            // The first answer is computed, the next one comes from the cache, where similar
            // lengths may share it.
            for _ in 0..2 {
                prop_assert_eq!(choices.algorithm(collective, bytes, order, reach), wanted);
                let once = choices.once_reachable(collective, bytes, order, reach);
                prop_assert_eq!(once, announced);
            }
            let changes = choices.changes(collective, order, reach);
            let stretch = changes.iter().rfind(|(from, _)| *from <= bytes);
            prop_assert_eq!(stretch.map(|(_, algorithm)| *algorithm), Some(wanted));
        }
    }

    #[test]
    fn lengths_are_judged_by_classes(bytes in lengths(), more in lengths()) {
        let (short, long) = (bytes.min(more), bytes.max(more));
        prop_assert!(class_of(short) <= class_of(long) && class_of(long) < CLASSES);
        prop_assert!(judged(bytes) <= bytes);
        prop_assert_eq!(judged(judged(bytes)), judged(bytes));
        prop_assert_eq!(class_of(judged(bytes)), class_of(bytes));
        prop_assert_eq!(class_of(short) == class_of(long), judged(short) == judged(long));
        if bytes < 1 << 46 {
            prop_assert!(bytes - judged(bytes) <= judged(bytes) / 4);
        }
        if bytes.is_power_of_two() && bytes < 1 << 46 {
            prop_assert_eq!(judged(bytes), bytes);
        }
    }

    #[test]
    fn nothing_gets_cheaper_as_it_gets_longer_or_costs_rise(
        question in questions(),
        longer in lengths(),
        factors in prop::collection::vec(1.0..10.0f64, 5),
    ) {
        let costs = CollectiveCosts::default();
        let mut dearer = costs.clone();
        dearer.switch_ns *= factors[0];
        dearer.reduce_byte_ns *= factors[1];
        dearer.round_ns *= factors[2];
        let level = question.setting.level;
        let step = *costs.of(level);
        dearer.set(level, LevelCosts {
            sync_ns: step.sync_ns * factors[3],
            expose_ns: step.expose_ns * factors[4],
            ..step
        });
        let (short, long) = (question.bytes.min(longer), question.bytes.max(longer));
        let ns = |costs: &CollectiveCosts, bytes, algorithm| {
            let question = CollectiveCall { bytes, ..question };
            let load = formulas::load(costs, &question, algorithm);
            load.ns(question.setting.ranks, question.setting.cores, costs.switch_ns)
        };
        for &algorithm in question.collective.algorithms() {
            let least = ns(&costs, short, algorithm);
            let slack = 1.0 + 1e-9;
            prop_assert!(least.is_finite());
            prop_assert!(least <= slack * ns(&costs, long, algorithm), "{:?}", algorithm);
            prop_assert!(least <= slack * ns(&dearer, short, algorithm), "{:?}", algorithm);
        }
    }

    #[test]
    fn forced_algorithm_is_taken_or_its_exclusion_reported(
        question in questions(),
        at in any::<prop::sample::Index>(),
        costs in any_costs(),
    ) {
        let algorithm = *at.get(question.collective.algorithms());
        let forced = ForcedAlgorithms::default().with(question.collective, algorithm);
        let decision = choose(&costs, &question, &forced);
        if decision.algorithm == algorithm && decision.refused.is_empty() {
            let by = ForcedValue { collective: Some(question.collective), word: algorithm.name() };
            prop_assert_eq!(decision.forced_by, Some(by));
        } else {
            prop_assert_eq!(decision.forced_by, None);
            prop_assert_eq!(decision.refused.len(), 1);
            prop_assert!(decision.refused[0].why.is_some());
            prop_assert_eq!(decision.refused[0].why, reason(&decision, algorithm));
        }
    }
}

//! Groups against plain lists of ranks.

use mica_objects::constants as c;
use mica_objects::group::{Group, Relation};
use proptest::prelude::*;

/// Distinct job-wide ranks in any order; often a run, which groups store in another form.
fn members() -> impl Strategy<Value = Vec<u32>> {
    let run = (0..20_u32, 0..12_u32).prop_map(|(first, size)| (first..first + size).collect());
    let list = proptest::collection::hash_set(0..32_u32, 0..16)
        .prop_map(|set| set.into_iter().collect::<Vec<u32>>())
        .prop_shuffle();
    prop_oneof![run, list]
}

fn group(members: &[u32]) -> Group {
    Group::from_ranks(members.to_vec())
}

fn list(group: &Group) -> Vec<u32> {
    group.peers().collect()
}

/// What MPI says a triplet names, by its formula.
fn expand(ranges: &[[i32; 3]]) -> Vec<i64> {
    let mut ranks = Vec::new();
    for &[first, last, stride] in ranges {
        let mut rank = i64::from(first);
        let (last, stride) = (i64::from(last), i64::from(stride));
        while if stride > 0 { rank <= last } else { rank >= last } {
            ranks.push(rank);
            rank += stride;
        }
    }
    ranks
}

fn has_duplicates<T: Ord + Copy>(items: &[T]) -> bool {
    let mut sorted = items.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).any(|pair| pair[0] == pair[1])
}

proptest! {
    #[test]
    fn ranks_and_members_translate_both_ways(a in members()) {
        let g = group(&a);
        prop_assert_eq!(g.size(), a.len());
        prop_assert_eq!(list(&g), a.clone());
        for peer in 0..40 {
            prop_assert_eq!(g.rank_of(peer), a.iter().position(|&member| member == peer));
        }
        prop_assert_eq!(g.rank_of(u32::MAX), None);
    }

    #[test]
    fn set_operations_agree_with_lists(a in members(), b in members()) {
        let (g, h) = (group(&a), group(&b));
        let mut union = a.clone();
        union.extend(b.iter().filter(|member| !a.contains(member)));
        prop_assert_eq!(list(&g.union(&h)), union);
        let both: Vec<u32> = a.iter().copied().filter(|member| b.contains(member)).collect();
        prop_assert_eq!(list(&g.intersection(&h)), both);
        let rest: Vec<u32> = a.iter().copied().filter(|member| !b.contains(member)).collect();
        prop_assert_eq!(list(&g.difference(&h)), rest);
        let (mut sorted_a, mut sorted_b) = (a.clone(), b.clone());
        sorted_a.sort_unstable();
        sorted_b.sort_unstable();
        let relation = if a == b {
            Relation::Identical
        } else if sorted_a == sorted_b {
            Relation::Similar
        } else {
            Relation::Unequal
        };
        prop_assert_eq!(g.compare(&h), relation);
    }

    #[test]
    fn shuffled_groups_are_similar(a in members(), seed in any::<u64>()) {
        let mut b = a.clone();
        if !b.is_empty() {
            let by = (seed % b.len() as u64) as usize;
            b.rotate_left(by);
        }
        let expected = if a == b { Relation::Identical } else { Relation::Similar };
        prop_assert_eq!(group(&a).compare(&group(&b)), expected);
    }

    #[test]
    fn incl_and_excl_agree_with_lists(
        a in members(),
        ranks in proptest::collection::vec(-2..16_i32, 0..8),
    ) {
        let g = group(&a);
        let valid = ranks.iter().all(|&rank| rank >= 0 && (rank as usize) < a.len());
        if valid && !has_duplicates(&ranks) {
            let chosen: Vec<u32> = ranks.iter().map(|&rank| a[rank as usize]).collect();
            prop_assert_eq!(list(&g.incl(&ranks).unwrap()), chosen.clone());
            let is_left = |member: &u32| !chosen.contains(member);
            let rest: Vec<u32> = a.iter().copied().filter(is_left).collect();
            prop_assert_eq!(list(&g.excl(&ranks).unwrap()), rest);
        } else {
            prop_assert_eq!(g.incl(&ranks).unwrap_err().code(), c::ERR_RANK);
            prop_assert_eq!(g.excl(&ranks).unwrap_err().code(), c::ERR_RANK);
        }
    }

    #[test]
    fn ranges_agree_with_their_expansion(
        a in members(),
        ranges in proptest::collection::vec(prop::array::uniform3(-3..14_i32), 0..3),
    ) {
        let g = group(&a);
        if ranges.iter().any(|range| range[2] == 0) {
            prop_assert_eq!(g.range_incl(&ranges).unwrap_err().code(), c::ERR_ARG);
            prop_assert_eq!(g.range_excl(&ranges).unwrap_err().code(), c::ERR_ARG);
            return Ok(());
        }
        let ranks = expand(&ranges);
        let valid = ranks.iter().all(|&rank| rank >= 0 && rank < a.len() as i64);
        if valid && !has_duplicates(&ranks) {
            let ranks: Vec<i32> = ranks.iter().map(|&rank| rank as i32).collect();
            prop_assert_eq!(list(&g.range_incl(&ranges).unwrap()), list(&g.incl(&ranks).unwrap()));
            prop_assert_eq!(list(&g.range_excl(&ranges).unwrap()), list(&g.excl(&ranks).unwrap()));
        } else {
            prop_assert_eq!(g.range_incl(&ranges).unwrap_err().code(), c::ERR_RANK);
            prop_assert_eq!(g.range_excl(&ranges).unwrap_err().code(), c::ERR_RANK);
        }
    }

    #[test]
    fn translated_ranks_name_the_same_members(a in members(), b in members()) {
        let (g, h) = (group(&a), group(&b));
        let ranks: Vec<i32> = (0..a.len() as i32).chain([c::PROC_NULL]).collect();
        let translated = g.translate_ranks(&ranks, &h).unwrap();
        for (rank, there) in ranks.into_iter().zip(translated) {
            let expected = match rank {
                c::PROC_NULL => c::PROC_NULL,
                _ => {
                    let place = b.iter().position(|&m| m == a[rank as usize]);
                    place.map_or(c::UNDEFINED, |r| r as i32)
                }
            };
            prop_assert_eq!(there, expected);
        }
        prop_assert_eq!(g.translate_ranks(&[a.len() as i32], &h).unwrap_err().code(), c::ERR_RANK);
    }
}

#[test]
fn extreme_ranges_neither_overflow_nor_take_memory() {
    let g = Group::run(0, 4);
    let all = [[i32::MIN, i32::MAX, 1]];
    assert_eq!(g.range_incl(&all).unwrap_err().code(), c::ERR_RANK);
    assert_eq!(g.range_incl(&[[0, i32::MAX, 1]]).unwrap_err().code(), c::ERR_RANK);
    let far = g.range_incl(&[[3, 0, i32::MIN]]).unwrap();
    assert_eq!(list(&far), [3]);
    assert_eq!(g.range_incl(&[[i32::MAX, i32::MIN, i32::MIN]]).unwrap_err().code(), c::ERR_RANK);
}

#[test]
fn handles_of_groups_live_until_freed() {
    let handle = Group::run(2, 3).into_handle().unwrap();
    assert_eq!(list(&Group::resolve(handle).unwrap()), [2, 3, 4]);
    Group::free(handle).unwrap();
    let stale = Group::resolve(handle).unwrap_err();
    assert_eq!(stale.code(), c::ERR_GROUP);
    assert!(stale.to_string().contains("has been freed"), "{stale}");
    assert_eq!(Group::free(handle).unwrap_err().code(), c::ERR_GROUP);
    for wrong in [c::GROUP_NULL, c::COMM_WORLD, 0] {
        assert_eq!(Group::resolve(wrong).unwrap_err().code(), c::ERR_GROUP);
    }
}

#[test]
fn the_empty_group_is_the_predefined_one() {
    let none = Group::run(0, 8).difference(&Group::run(0, 9));
    assert_eq!(none.clone().into_handle().unwrap(), c::GROUP_EMPTY);
    assert!(Group::resolve(c::GROUP_EMPTY).unwrap().is_empty());
    assert_eq!(none.compare(&Group::EMPTY), Relation::Identical);
    Group::free(c::GROUP_EMPTY).unwrap();
    assert!(Group::resolve(c::GROUP_EMPTY).is_ok());
}

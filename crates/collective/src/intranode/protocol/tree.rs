//! How the members of a node group are arranged for collectives of many members: trees whose shape
//! follows the machine's levels.
//!
//! With few members, each member polls the lines of all others: one step, and each line is read by
//! all. With many members, this would transfer too many cache lines. So members gather at a leader
//! in each group of members that are near each other (a shared cache, a package), the leaders of
//! these groups at one of them, and results go back down the same tree. Groups are ranges of
//! members in their order, so a reduction up the tree keeps the order of operands. If members that
//! share a cache are not neighbours in that order, groups are cut by number only.

use mica_node::topology::{CorePlace, Level, level_between};

/// A node of the tree: a member's parent and children.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberTree {
    /// The member that this one reports to; `None` at the root, which is member 0.
    pub parent: Option<usize>,
    /// The members that report to this one, in order. Child `i` represents all members from itself
    /// up to the next child, so results may be combined in this order, after the member's own.
    pub children: Vec<usize>,
}

/// Maximum number of members that poll all others, without a tree.
pub const FLAT_MAX: usize = 16;

impl MemberTree {
    /// The node of member `me` in the tree over members at `places`, in which no member has more
    /// than `fan` (at least 2) children per level.
    ///
    /// # Panics
    /// If `me` is no member.
    pub fn new(me: usize, places: &[CorePlace], fan: usize) -> MemberTree {
        assert!(me < places.len(), "member {me} of {}", places.len());
        let mut tree = MemberTree { parent: None, children: Vec::new() };
        // Leaders of the groups so far, from the finest level up.
        let mut leaders: Vec<usize> = (0..places.len()).collect();
        for level in [Level::SharedCache, Level::Package, Level::Node] {
            leaders = join(me, &mut tree, leaders, fan.max(2), |a, b| {
                level == Level::Node || level_between(&places[a], &places[b]) <= level
            });
        }
        while leaders.len() > 1 {
            leaders = join(me, &mut tree, leaders, fan.max(2), |_, _| true);
        }
        tree
    }
}

/// Puts neighbours among `leaders` that are `near` the first of them under it, at most `fan` at a
/// time. Returns the new leaders.
fn join(
    me: usize,
    tree: &mut MemberTree,
    leaders: Vec<usize>,
    fan: usize,
    near: impl Fn(usize, usize) -> bool,
) -> Vec<usize> {
    let mut next = Vec::new();
    let mut rest = leaders.as_slice();
    while let Some((&first, others)) = rest.split_first() {
        let group = others.iter().take(fan).take_while(|&&other| near(first, other)).count();
        for &child in &others[..group] {
            if child == me {
                tree.parent = Some(first);
            }
            if first == me {
                tree.children.push(child);
            }
        }
        next.push(first);
        rest = &others[group..];
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(package: u32, shared_cache: u32, core: u32) -> CorePlace {
        CorePlace { package, shared_cache, core, ..CorePlace::UNKNOWN }
    }

    fn trees(places: &[CorePlace], fan: usize) -> Vec<MemberTree> {
        (0..places.len()).map(|me| MemberTree::new(me, places, fan)).collect()
    }

    /// Members that a member represents, in the order in which it would combine them.
    fn spoken_for(trees: &[MemberTree], member: usize) -> Vec<usize> {
        let below = trees[member].children.iter();
        std::iter::once(member).chain(below.flat_map(|&child| spoken_for(trees, child))).collect()
    }

    #[test]
    fn every_member_is_reached_once_and_in_order() {
        for size in 1..70 {
            for fan in [2, 3, 8] {
                let places: Vec<CorePlace> =
                    (0..size as u32).map(|i| place(i / 12, i / 5, i)).collect();
                let trees = trees(&places, fan);
                assert_eq!(spoken_for(&trees, 0), (0..size).collect::<Vec<_>>());
                for (member, tree) in trees.iter().enumerate() {
                    for &child in &tree.children {
                        assert_eq!(trees[child].parent, Some(member));
                    }
                }
            }
        }
    }

    #[test]
    fn groups_follow_caches_and_packages() {
        // Two packages of two caches of four.
        let places: Vec<CorePlace> = (0..16).map(|i| place(i / 8, i / 4, i)).collect();
        let trees = trees(&places, 8);
        assert_eq!(trees[0].children, [1, 2, 3, 4, 8]);
        assert_eq!(trees[8].children, [9, 10, 11, 12]);
        assert_eq!(trees[12].children, [13, 14, 15]);
        assert_eq!(trees[5].parent, Some(4));
    }

    #[test]
    fn members_dealt_around_still_make_a_tree() {
        let places: Vec<CorePlace> = (0..24).map(|i| place(i % 2, i % 6, i)).collect();
        let trees = trees(&places, 4);
        assert_eq!(spoken_for(&trees, 0), (0..24).collect::<Vec<_>>());
    }
}

//! The path selection, solved for the message's length: the values with which the hot path
//! compares.
//!
//! [`Thresholds::derive`] evaluates [`choose`] itself. Between two adjacent corners (the limits of
//! the eager paths, the starts of the costs' spans) every estimate is linear in the length, so that
//! the least of them is a concave curve on which each path has one interval. If both ends of an
//! interval take the same path, all lengths between them do, too, and bisection finds every change
//! to the byte.

use mica_node::tunables::{self, BadValue};

use crate::costs::{MessagePath, MessagePaths, PathCosts};
use crate::select::{OutgoingMessage, SHARED_WINDOW, Situation, choose};

/// The thresholds of a connection, in bytes. [`usize::MAX`] stands for "never" in those whose names
/// end in `_min`, and for "always" in the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thresholds {
    /// Longest message for the ring (or its slot).
    pub ring_max: usize,
    /// Longest message without a rendezvous.
    pub eager_max: usize,
    /// The same while the receiver lags behind.
    pub eager_max_skewed: usize,
    /// From here on a rendezvous message is copied once (by its receiver or, see below, by both
    /// sides) rather than streamed through cells, if both ranks wait.
    pub direct_min: usize,
    /// From here on both sides copy it, if it is copied once and both ranks wait.
    pub cooperate_min: usize,
    /// Shortest average piece for which a long non-contiguous message is copied once, in place,
    /// rather than streamed.
    pub direct_run_min: usize,
    /// From here on a copy engine copies it, if there is something to compute meanwhile.
    pub offload_min: usize,
}

/// Longer than any message.
const LONGEST: usize = 1 << 40;

impl Thresholds {
    /// The thresholds of a connection whose ranks are in `situation`. Only its level, available
    /// paths, limits and oversubscription are used. Whether a rank waits or lags behind is ignored,
    /// because each threshold assumes the case that it is for.
    pub fn derive(costs: &PathCosts, situation: &Situation) -> Thresholds {
        let waiting = Situation { peer_waiting: true, skewed: false, overlap: false, ..*situation };
        let skewed = Situation { skewed: true, ..waiting };
        let only = |paths: MessagePaths, situation: Situation| Situation {
            available: situation.available.intersection(paths),
            ..situation
        };
        let alone = MessagePaths::NONE.with(MessagePath::Pull).with(MessagePath::Mapped);
        let both =
            MessagePaths::NONE.with(MessagePath::Cooperate).with(MessagePath::MappedCooperate);
        let streamed = MessagePaths::NONE.with(MessagePath::Streamed);
        let engine = MessagePaths::NONE.with(MessagePath::Offload);
        let overlap = Situation { overlap: true, ..waiting };
        let from = |paths: MessagePaths, situation: Situation| {
            from_on(costs, &situation, |path| paths.contains(path))
        };
        let direct = alone.union(both);
        let direct_min = from(direct, only(direct.union(streamed), waiting));
        Thresholds {
            ring_max: up_to(costs, &waiting, |path| {
                matches!(path, MessagePath::Inline | MessagePath::Ring)
            }),
            eager_max: up_to(costs, &waiting, MessagePath::is_eager),
            eager_max_skewed: up_to(costs, &skewed, MessagePath::is_eager),
            direct_min,
            cooperate_min: from(both, only(direct, waiting)),
            direct_run_min: shortest_run(costs, &only(direct.union(streamed), waiting), direct_min),
            offload_min: from(engine, overlap),
        }
    }

    /// These thresholds, with those that the environment sets (`MICA_RING_MAX`, `MICA_EAGER_MAX`,
    /// `MICA_SKEW_EAGER_MAX`, `MICA_DIRECT_MIN`, `MICA_DIRECT_RUN_MIN`) replaced; `ring_limit`
    /// bounds the ring's.
    ///
    /// # Errors
    /// If one of them is not a number.
    pub fn in_force(self, ring_limit: usize) -> Result<Thresholds, BadValue> {
        let skewed = &tunables::SKEW_EAGER_MAX;
        let skewed = skewed.is_set().then(|| skewed.number()).transpose()?;
        Ok(self.overridden(&Overrides {
            ring_max: tunables::RING_MAX.threshold()?.map(|bytes| bytes.min(ring_limit)),
            eager_max: tunables::EAGER_MAX.threshold()?,
            eager_max_skewed: skewed.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX)),
            direct_min: tunables::DIRECT_MIN.threshold()?,
            direct_run_min: tunables::DIRECT_RUN_MIN.threshold()?,
        }))
    }

    /// These thresholds, with the values of `explicit` in their place. An explicit `eager_max` also
    /// applies while the receiver lags behind, unless that case has a value of its own.
    pub fn overridden(self, explicit: &Overrides) -> Thresholds {
        Thresholds {
            ring_max: explicit.ring_max.unwrap_or(self.ring_max),
            eager_max: explicit.eager_max.unwrap_or(self.eager_max),
            eager_max_skewed: explicit
                .eager_max_skewed
                .or(explicit.eager_max)
                .unwrap_or(self.eager_max_skewed),
            direct_min: explicit.direct_min.unwrap_or(self.direct_min),
            cooperate_min: self.cooperate_min,
            direct_run_min: explicit.direct_run_min.unwrap_or(self.direct_run_min),
            offload_min: self.offload_min,
        }
    }

    /// Longest message without a rendezvous, on a connection that is `skewed` or not.
    #[inline]
    pub const fn eager(&self, skewed: bool) -> usize {
        if skewed { self.eager_max_skewed } else { self.eager_max }
    }
}

/// Thresholds that the user has set explicitly.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Overrides {
    /// See [`Thresholds::ring_max`].
    pub ring_max: Option<usize>,
    /// See [`Thresholds::eager_max`].
    pub eager_max: Option<usize>,
    /// See [`Thresholds::eager_max_skewed`].
    pub eager_max_skewed: Option<usize>,
    /// See [`Thresholds::direct_min`].
    pub direct_min: Option<usize>,
    /// See [`Thresholds::direct_run_min`].
    pub direct_run_min: Option<usize>,
}

fn path_of(len: usize, costs: &PathCosts, situation: &Situation) -> MessagePath {
    choose(&OutgoingMessage::contiguous(len), situation, costs)
}

/// Lengths, ascending, such that between neighbours every estimate is linear and no path's
/// exclusion changes.
fn corners(costs: &PathCosts, situation: &Situation) -> Vec<usize> {
    let limits = situation.limits;
    let mut corners = vec![0, LONGEST];
    for limit in [limits.inline, limits.ring, limits.eager, limits.eager_skewed] {
        corners.extend([limit.min(LONGEST), limit.saturating_add(1).min(LONGEST)]);
    }
    corners.push(SHARED_WINDOW);
    for path in situation.available.iter() {
        let spans = costs.of(situation.level, path).used_spans();
        corners.extend(spans.map(|span| (span.from as usize).min(LONGEST)));
    }
    corners.sort_unstable();
    corners.dedup();
    corners
}

/// The longest length up to which all messages take a path that `is` accepts; 0 if even the empty
/// one does not.
fn up_to(costs: &PathCosts, situation: &Situation, is: impl Fn(MessagePath) -> bool) -> usize {
    let path = |len: usize| path_of(len, costs, situation);
    if !is(path(0)) {
        return 0;
    }
    let corners = corners(costs, situation);
    let mut intervals = corners.windows(2);
    let change = intervals
        .find_map(|ends| change(Change::First, (ends[0], ends[1]), &path, &|path| !is(path)));
    change.map_or(usize::MAX, |len| len - 1)
}

/// The shortest length from which on all messages take a path that `is` accepts; [`usize::MAX`] if
/// there is none.
fn from_on(costs: &PathCosts, situation: &Situation, is: impl Fn(MessagePath) -> bool) -> usize {
    let path = |len: usize| path_of(len, costs, situation);
    if !is(path(LONGEST)) {
        return usize::MAX;
    }
    let corners = corners(costs, situation);
    let mut intervals = corners.windows(2).rev();
    let change = intervals
        .find_map(|ends| change(Change::Last, (ends[0], ends[1]), &path, &|path| !is(path)));
    change.map_or(0, |len| len + 1)
}

/// Which change of the path is wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    First,
    Last,
}

/// The first length after `low` and up to `high`, or the last one before `high` and down to `low`,
/// whose path `is` accepts, if the path of the end from which it is sought is not accepted. No
/// path's exclusion changes between the two.
fn change(
    which: Change,
    (low, high): (usize, usize),
    path: &impl Fn(usize) -> MessagePath,
    is: &impl Fn(MessagePath) -> bool,
) -> Option<usize> {
    if path(low) == path(high) {
        return None;
    }
    let end = if which == Change::First { high } else { low };
    if high - low == 1 {
        return is(path(end)).then_some(end);
    }
    let middle = low + (high - low) / 2;
    let mut halves = [(low, middle), (middle, high)];
    if which == Change::Last {
        halves.reverse();
    }
    halves.into_iter().find_map(|half| change(which, half, path, is))
}

/// The shortest average piece with which a message well above `direct_min` is still copied in
/// place.
fn shortest_run(costs: &PathCosts, situation: &Situation, direct_min: usize) -> usize {
    let Some(len) = direct_min.max(1 << 20).checked_mul(2) else {
        return usize::MAX;
    };
    if len > LONGEST {
        return usize::MAX;
    }
    let worth = |run: usize| {
        let message =
            OutgoingMessage { pieces: len.div_ceil(run), ..OutgoingMessage::contiguous(len) };
        choose(&message, situation, costs) != MessagePath::Streamed
    };
    if worth(1) {
        return 1;
    }
    let (mut short, mut long) = (1, len);
    while long - short > 1 {
        let middle = short + (long - short) / 2;
        if worth(middle) {
            long = middle;
        } else {
            short = middle;
        }
    }
    long
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::costs::{LEVELS, PathCost};
    use mica_node::topology::Level;
    use proptest::prelude::*;

    fn situation(level: Level) -> Situation {
        Situation::waiting(level, MessagePaths::ALL)
    }

    #[test]
    fn shipped_thresholds_are_sane() {
        let derive = |level| Thresholds::derive(&PathCosts::default(), &situation(level));
        let shared = derive(Level::SharedCache);
        assert!((4 << 10..=8 << 10).contains(&shared.ring_max), "{shared:?}");
        for level in LEVELS {
            let t = derive(level);
            assert!(t.ring_max <= t.eager_max && t.eager_max <= 64 << 10, "{t:?}");
            assert_eq!(t.eager_max_skewed, 256 << 10);
            // By the kernel; load and store has a lower cost per piece.
            let kernel =
                Situation::waiting(level, MessagePaths::SHARED_MEMORY.with(MessagePath::Pull));
            let run = Thresholds::derive(&PathCosts::default(), &kernel).direct_run_min;
            assert!((128..16 << 10).contains(&run), "{level:?}: {run}");
            assert!(t.direct_run_min <= run, "{t:?}");
            assert!(t.offload_min > 8 << 10 && t.offload_min < 16 << 20, "{t:?}");
        }
        let node = derive(Level::Node);
        assert!(node.eager_max < derive(Level::Package).eager_max);
        assert!(derive(Level::Package).eager_max < shared.eager_max);
        let by_kernel = |level| {
            let kernel =
                Situation::waiting(level, MessagePaths::SHARED_MEMORY.with(MessagePath::Pull));
            Thresholds::derive(&PathCosts::default(), &kernel).direct_min
        };
        assert!(by_kernel(Level::Node) < by_kernel(Level::SharedCache));
    }

    #[test]
    fn without_direct_copy_eager_ends_at_its_limit() {
        let alone = Situation::waiting(Level::Node, MessagePaths::SHARED_MEMORY);
        let t = Thresholds::derive(&PathCosts::default(), &alone);
        assert_eq!(t.eager_max, 64 << 10);
        assert_eq!(
            (t.direct_min, t.cooperate_min, t.offload_min),
            (usize::MAX, usize::MAX, usize::MAX)
        );
        assert_eq!(t.direct_run_min, usize::MAX);
    }

    #[test]
    fn cooperative_copy_does_not_pay_when_oversubscribed() {
        let crowded = Situation { oversubscribed: true, ..situation(Level::Package) };
        let t = Thresholds::derive(&PathCosts::default(), &crowded);
        assert_eq!(t.cooperate_min, usize::MAX);
        let apart = Thresholds::derive(&PathCosts::default(), &situation(Level::Package));
        assert!(apart.cooperate_min < usize::MAX);
        assert!(t.direct_min <= apart.direct_min, "two copies on one core cost twice as much");
    }

    #[test]
    fn explicit_thresholds_override_derived_ones() {
        let derived = Thresholds::derive(&PathCosts::default(), &situation(Level::SharedCache));
        assert_eq!(derived.overridden(&Overrides::default()), derived);
        let explicit =
            Overrides { eager_max: Some(100), direct_min: Some(0), ..Overrides::default() };
        let t = derived.overridden(&explicit);
        assert_eq!((t.eager_max, t.eager_max_skewed, t.direct_min), (100, 100, 0));
        assert_eq!((t.eager(false), t.eager(true)), (100, 100));
        assert_eq!((t.ring_max, t.direct_run_min), (derived.ring_max, derived.direct_run_min));
        let both = Overrides { eager_max_skewed: Some(200), ..explicit };
        assert_eq!(derived.overridden(&both).eager(true), 200);
    }

    #[test]
    fn limits_default_to_the_tunables() {
        let limits = crate::select::EagerLimits::default();
        let bytes = |t: &tunables::Tunable| match t.default.split_at(t.default.len() - 1) {
            (digits, "K") => digits.parse::<usize>().unwrap() << 10,
            other => panic!("{other:?}"),
        };
        assert_eq!(limits.eager_skewed, bytes(&tunables::SKEW_EAGER_MAX));
    }

    prop_compose! {
        fn cost()(
            start in 0.0..5000.0f64,
            prices in prop::array::uniform3(0.001..1.0f64),
            knees in (100u64..1 << 16, 1u64..1 << 22),
            pieces in 0.0..100.0f64,
            shares in (0.0..=1.0f64, 0.0..=1.0f64),
        ) -> PathCost {
            let first = knees.0;
            let second = first + knees.1;
            PathCost::new(start, &[(0, prices[0]), (first, prices[1]), (second, prices[2])])
                .pieces(pieces)
                .shares(shares.0, shares.1)
        }
    }

    proptest! {
        /// Checks the definition at the thresholds' edges and at lengths of all magnitudes.
        #[test]
        fn thresholds_are_where_the_choice_changes(
            costs in prop::collection::vec(cost(), crate::costs::PATHS),
            oversubscribed: bool,
            lens in prop::collection::vec((0u32..24, 0.5..1.0f64), 64),
        ) {
            let mut table = PathCosts::default();
            for (path, cost) in MessagePath::ALL.into_iter().zip(costs) {
                table.set(Level::Node, path, cost);
            }
            let waiting = Situation { oversubscribed, ..situation(Level::Node) };
            let offload = MessagePaths::NONE.with(MessagePath::Offload);
            let direct = MessagePaths::RENDEZVOUS.without(offload);
            let t = Thresholds::derive(&table, &waiting);
            let lens: Vec<usize> = lens
                .into_iter()
                .map(|(bits, part)| ((2u64 << bits) as f64 * part) as usize)
                .collect();

            // Eager: all up to the threshold, and not the next one.
            let eager = |len: usize| path_of(len, &table, &waiting).is_eager();
            for len in lens.iter().copied().chain([t.eager_max]) {
                prop_assert!(len > t.eager_max || eager(len), "{len} of {}", t.eager_max);
            }
            prop_assert!(!eager(t.eager_max + 1));

            // Direct: all from the threshold on, and not the one before.
            let asked = Situation { available: direct, ..waiting };
            let copied = |len: usize| path_of(len, &table, &asked) != MessagePath::Streamed;
            for len in lens.iter().copied().filter(|&len| len > 40) {
                prop_assert!(len < t.direct_min || copied(len), "{len} of {}", t.direct_min);
            }
            if t.direct_min < usize::MAX {
                prop_assert!(copied(t.direct_min));
                prop_assert!(t.direct_min == 0 || !copied(t.direct_min - 1));
            }
        }
    }
}

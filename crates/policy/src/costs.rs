//! The costs of each path of a message: nanoseconds to start, per byte and per piece, and which
//! core spends them.
//!
//! There is a table for each [`Level`] within a node. The figures shipped here are those of
//! `docs/design/selection.md`, which gives the source of each; `mica tune` replaces them by those
//! of this machine ([`tuning`](crate::tuning)).

use mica_node::topology::Level;

/// A path of a message's bytes from sender to receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum MessagePath {
    /// With the header, in one slot of the receiver's ring. Two copies, concurrent.
    Inline = 0,
    /// In the arena of the receiver's ring. Two copies, concurrent.
    Ring,
    /// Eager, through cells of the sender's pool. Two copies, pipelined on two cores, without a
    /// rendezvous.
    Cells,
    /// Through cells after RTS and CTS.
    Streamed,
    /// The receiver copies from the sender's memory by the kernel (CMA). One copy, after an RTS.
    Pull,
    /// Both sides copy disjoint chunks by the kernel. One copy by two cores, after an RTS.
    Cooperate,
    /// The receiver loads from the sender's memory, which it has mapped (memfd or XPMEM). One copy
    /// without system calls, after an RTS.
    Mapped,
    /// Both sides copy disjoint chunks of mapped memory.
    MappedCooperate,
    /// A copy engine (helper thread or device) copies while both ranks compute, after an RTS.
    Offload,
}

/// Number of [`MessagePath`]s.
pub const PATHS: usize = 9;

impl MessagePath {
    /// Every path, in the order in which ties are decided: the simpler first.
    pub const ALL: [MessagePath; PATHS] = [
        MessagePath::Inline,
        MessagePath::Ring,
        MessagePath::Cells,
        MessagePath::Streamed,
        MessagePath::Pull,
        MessagePath::Cooperate,
        MessagePath::Mapped,
        MessagePath::MappedCooperate,
        MessagePath::Offload,
    ];

    /// Its name in tables and tuning files.
    pub const fn name(self) -> &'static str {
        match self {
            MessagePath::Inline => "inline",
            MessagePath::Ring => "ring",
            MessagePath::Cells => "cells",
            MessagePath::Streamed => "streamed",
            MessagePath::Pull => "pull",
            MessagePath::Cooperate => "cooperate",
            MessagePath::Mapped => "mapped",
            MessagePath::MappedCooperate => "mapped-cooperate",
            MessagePath::Offload => "offload",
        }
    }

    /// The path of this name.
    pub fn from_name(name: &str) -> Option<MessagePath> {
        MessagePath::ALL.into_iter().find(|path| path.name() == name)
    }

    /// True if the sender completes without a reply from the receiver.
    pub const fn is_eager(self) -> bool {
        matches!(self, MessagePath::Inline | MessagePath::Ring | MessagePath::Cells)
    }

    /// True if the sender's core takes part after the message was matched.
    pub const fn needs_both(self) -> bool {
        matches!(
            self,
            MessagePath::Streamed | MessagePath::Cooperate | MessagePath::MappedCooperate
        )
    }
}

/// A set of [`MessagePath`]s.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct MessagePaths(u16);

impl MessagePaths {
    /// No path.
    pub const NONE: MessagePaths = MessagePaths(0);
    /// Every path.
    pub const ALL: MessagePaths = MessagePaths((1 << PATHS) - 1);
    /// The paths that shared memory offers to every peer on the node.
    pub const SHARED_MEMORY: MessagePaths = MessagePaths::NONE
        .with(MessagePath::Inline)
        .with(MessagePath::Ring)
        .with(MessagePath::Cells)
        .with(MessagePath::Streamed);
    /// Those that begin without a reply from the receiver.
    pub const EAGER: MessagePaths = MessagePaths::NONE
        .with(MessagePath::Inline)
        .with(MessagePath::Ring)
        .with(MessagePath::Cells);
    /// Those that begin with an RTS.
    pub const RENDEZVOUS: MessagePaths = MessagePaths::ALL.without(MessagePaths::EAGER);

    /// This set and `path`.
    #[must_use]
    pub const fn with(self, path: MessagePath) -> MessagePaths {
        MessagePaths(self.0 | 1 << path as u16)
    }

    /// The paths in this set or in `other`.
    #[must_use]
    pub const fn union(self, other: MessagePaths) -> MessagePaths {
        MessagePaths(self.0 | other.0)
    }

    /// The paths in this set and in `other`.
    #[must_use]
    pub const fn intersection(self, other: MessagePaths) -> MessagePaths {
        MessagePaths(self.0 & other.0)
    }

    /// The paths in this set and not in `other`.
    #[must_use]
    pub const fn without(self, other: MessagePaths) -> MessagePaths {
        MessagePaths(self.0 & !other.0)
    }

    /// Whether `path` is in the set.
    #[inline]
    pub const fn contains(self, path: MessagePath) -> bool {
        self.0 & (1 << path as u16) != 0
    }

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The paths of the set, the simpler first.
    pub fn iter(self) -> impl Iterator<Item = MessagePath> {
        MessagePath::ALL.into_iter().filter(move |&path| self.contains(path))
    }

    /// The paths that a value of `MICA_PATH` leaves of [`MessagePaths::ALL`]: `auto` all, every
    /// other value only that path (for `cells`: eager or streamed), in addition to the paths that
    /// are not subject to the choice (inline and ring). `None`: no such value.
    pub fn forced(word: &str) -> Option<MessagePaths> {
        let short = MessagePaths::NONE.with(MessagePath::Inline).with(MessagePath::Ring);
        Some(match word {
            "auto" => MessagePaths::ALL,
            "cells" => MessagePaths::SHARED_MEMORY,
            // Cells and Streamed are enabled only together; the other values are names of paths.
            "inline" | "ring" | "streamed" => return None,
            name => short.with(MessagePath::from_name(name)?),
        })
    }
}

impl FromIterator<MessagePath> for MessagePaths {
    fn from_iter<I: IntoIterator<Item = MessagePath>>(paths: I) -> MessagePaths {
        paths.into_iter().fold(MessagePaths::NONE, MessagePaths::with)
    }
}

impl std::fmt::Debug for MessagePaths {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.iter().map(MessagePath::name)).finish()
    }
}

/// From byte `from` of a message on, each byte costs `byte_ns`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CostSpan {
    /// The first byte of this span; [`u64::MAX`] if the span is not used.
    pub from: u64,
    /// Nanoseconds for each byte.
    pub byte_ns: f64,
}

/// Number of [`CostSpan`]s of a [`PathCost`].
pub const SPANS: usize = 3;

/// The cost of a path between two ranks.
///
/// The time of a message is continuous and piecewise linear in its length: bytes beyond a cache's
/// size have a different cost. It counts from the send call until the receiver has the bytes, with
/// both ranks in the library.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PathCost {
    /// Nanoseconds to start: the full cost of an empty message, control packets included.
    pub start_ns: f64,
    /// Costs per byte, by ascending `from`; the first is from 0.
    pub spans: [CostSpan; SPANS],
    /// Nanoseconds for each piece of the message's memory beyond the first.
    pub piece_ns: f64,
    /// The fraction of the copying time that the sender's core spends: 0 to 1.
    pub sender: f64,
    /// The fraction of the copying time that the receiver's core spends: 0 to 1.
    pub receiver: f64,
}

impl PathCost {
    /// A cost with one or more spans: `prices` are (first byte, nanoseconds per byte), ascending
    /// from 0.
    ///
    /// # Panics
    /// If `prices` is empty, longer than [`SPANS`], does not start at 0 or does not ascend.
    pub const fn new(start_ns: f64, prices: &[(u64, f64)]) -> PathCost {
        assert!(!prices.is_empty() && prices.len() <= SPANS && prices[0].0 == 0);
        let mut spans = [CostSpan { from: u64::MAX, byte_ns: 0.0 }; SPANS];
        let mut at = 0;
        while at < prices.len() {
            assert!(at == 0 || prices[at - 1].0 < prices[at].0);
            spans[at] = CostSpan { from: prices[at].0, byte_ns: prices[at].1 };
            at += 1;
        }
        PathCost { start_ns, spans, piece_ns: 0.0, sender: 1.0, receiver: 1.0 }
    }

    /// This cost with the given nanoseconds per piece.
    #[must_use]
    pub const fn pieces(self, piece_ns: f64) -> PathCost {
        PathCost { piece_ns, ..self }
    }

    /// This cost with the given shares of the two cores.
    #[must_use]
    pub const fn shares(self, sender: f64, receiver: f64) -> PathCost {
        PathCost { sender, receiver, ..self }
    }

    /// The spans in use.
    pub fn used_spans(&self) -> impl Iterator<Item = &CostSpan> {
        self.spans.iter().filter(|span| span.from != u64::MAX)
    }

    /// Nanoseconds to copy `len` bytes that are in `pieces` pieces, with both ranks in the library;
    /// without the start.
    #[inline]
    pub fn copy_ns(&self, len: usize, pieces: usize) -> f64 {
        let len = len as u64;
        let mut ns = self.piece_ns * pieces.saturating_sub(1) as f64;
        for (at, span) in self.spans.iter().enumerate() {
            let end = self.spans.get(at + 1).map_or(u64::MAX, |next| next.from);
            if len <= span.from {
                break;
            }
            ns += span.byte_ns * (len.min(end) - span.from) as f64;
        }
        ns
    }

    /// Nanoseconds from the send until the receiver has `len` bytes that are in `pieces` pieces,
    /// with each rank on its own core and in the library.
    #[inline]
    pub fn ns(&self, len: usize, pieces: usize) -> f64 {
        self.start_ns + self.copy_ns(len, pieces)
    }

    /// What is invalid in it, if anything.
    pub fn flaw(&self) -> Option<String> {
        let sane = |ns: f64| ns.is_finite() && ns >= 0.0;
        for (name, ns) in [("start_ns", self.start_ns), ("piece_ns", self.piece_ns)] {
            if !sane(ns) {
                return Some(format!("{name} is {ns}: expected nanoseconds, not negative"));
            }
        }
        for (name, share) in [("sender", self.sender), ("receiver", self.receiver)] {
            if !(0.0..=1.0).contains(&share) {
                return Some(format!("{name} is {share}: expected a share from 0 to 1"));
            }
        }
        if self.spans[0].from != 0 {
            return Some(format!(
                "the first price is from byte {}: expected 0",
                self.spans[0].from
            ));
        }
        if !self.spans.is_sorted_by_key(|span| span.from == u64::MAX) {
            return Some("an unused price stands before a used one".to_owned());
        }
        let mut before = None;
        for span in self.used_spans() {
            if before.is_some_and(|before| before >= span.from) {
                return Some(format!("from has {} twice or out of order", span.from));
            }
            if !sane(span.byte_ns) {
                return Some(format!(
                    "byte_ns has {}: expected nanoseconds, not negative",
                    span.byte_ns
                ));
            }
            before = Some(span.from);
        }
        None
    }
}

/// The levels that have a table: those within a node.
pub const LEVELS: [Level; 3] = [Level::SharedCache, Level::Package, Level::Node];

/// The name of a level in tuning files and on the command line.
pub const fn level_name(level: Level) -> &'static str {
    match level {
        Level::SharedCache => "shared-cache",
        Level::Package => "package",
        Level::Node | Level::Network => "node",
    }
}

/// The level of this name, of those that have a table.
pub fn level_from_name(name: &str) -> Option<Level> {
    LEVELS.into_iter().find(|&level| level_name(level) == name)
}

/// The costs of every path at every level of a machine.
#[derive(Debug, Clone, PartialEq)]
pub struct PathCosts {
    table: [[PathCost; PATHS]; LEVELS.len()],
}

impl PathCosts {
    /// The cost of a path between ranks at `level`. A peer on another node is not reached by any of
    /// these paths; it gets the figures of [`Level::Node`].
    #[inline]
    pub fn of(&self, level: Level, path: MessagePath) -> &PathCost {
        &self.table[row(level)][path as usize]
    }

    /// Replaces the cost of a path.
    pub fn set(&mut self, level: Level, path: MessagePath, cost: PathCost) {
        self.table[row(level)][path as usize] = cost;
    }
}

#[inline]
pub(crate) const fn row(level: Level) -> usize {
    match level {
        Level::SharedCache => 0,
        Level::Package => 1,
        Level::Node | Level::Network => 2,
    }
}

impl Default for PathCosts {
    /// The shipped figures.
    fn default() -> PathCosts {
        PathCosts { table: [SHARED_CACHE, PACKAGE, NODE] }
    }
}

const M: u64 = 1 << 20;

/// Measured between two cores with one 32 MiB cache (a nested virtual machine).
const SHARED_CACHE: [PathCost; PATHS] = [
    PathCost::new(100.0, &[(0, 0.1)]),
    PathCost::new(130.0, &[(0, 0.055)]).pieces(8.0),
    PathCost::new(300.0, &[(0, 0.0225), (4 * M, 0.043), (32 * M, 0.19)]).pieces(15.0),
    PathCost::new(600.0, &[(0, 0.0225), (4 * M, 0.043), (32 * M, 0.19)]).pieces(15.0),
    PathCost::new(800.0, &[(0, 0.066), (4 * M, 0.11)]).pieces(350.0).shares(0.0, 1.0),
    PathCost::new(1300.0, &[(0, 0.034), (4 * M, 0.055)]).pieces(175.0),
    PathCost::new(480.0, &[(0, 0.0065), (M / 4, 0.0205), (32 * M, 0.1)])
        .pieces(8.0)
        .shares(0.0, 1.0),
    PathCost::new(1200.0, &[(0, 0.0055), (M / 4, 0.0098), (32 * M, 0.06)]).pieces(4.0),
    PathCost::new(3000.0, &[(0, 0.066), (4 * M, 0.11)]).pieces(350.0).shares(0.02, 0.03),
];

/// Two caches of one package: each copy through shared memory moves lines between caches, so a
/// second copy costs nearly as much as the first (chai-2009, 6.2.1: a single copy gains up to
/// 70 %).
const PACKAGE: [PathCost; PATHS] = [
    PathCost::new(150.0, &[(0, 0.2)]),
    PathCost::new(190.0, &[(0, 0.16)]).pieces(8.0),
    PathCost::new(400.0, &[(0, 0.16), (M, 0.19)]).pieces(15.0),
    PathCost::new(850.0, &[(0, 0.16), (M, 0.19)]).pieces(15.0),
    PathCost::new(700.0, &[(0, 0.095), (M, 0.11)]).pieces(120.0).shares(0.0, 1.0),
    PathCost::new(1200.0, &[(0, 0.05), (M, 0.06)]).pieces(60.0),
    PathCost::new(900.0, &[(0, 0.07), (M, 0.085)]).pieces(8.0).shares(0.0, 1.0),
    PathCost::new(1500.0, &[(0, 0.037), (M, 0.045)]).pieces(4.0),
    PathCost::new(3300.0, &[(0, 0.095), (M, 0.11)]).pieces(120.0).shares(0.02, 0.03),
];

/// Two packages: the same with a longer distance (chai-2009, 6.2.1: a single copy gains up to
/// 98 %).
const NODE: [PathCost; PATHS] = [
    PathCost::new(300.0, &[(0, 0.3)]),
    PathCost::new(350.0, &[(0, 0.25)]).pieces(8.0),
    PathCost::new(600.0, &[(0, 0.25), (M, 0.28)]).pieces(15.0),
    PathCost::new(1400.0, &[(0, 0.25), (M, 0.28)]).pieces(15.0),
    PathCost::new(1000.0, &[(0, 0.125), (M, 0.14)]).pieces(130.0).shares(0.0, 1.0),
    PathCost::new(1600.0, &[(0, 0.065), (M, 0.075)]).pieces(65.0),
    PathCost::new(1200.0, &[(0, 0.11), (M, 0.13)]).pieces(10.0).shares(0.0, 1.0),
    PathCost::new(2000.0, &[(0, 0.057), (M, 0.07)]).pieces(5.0),
    PathCost::new(3800.0, &[(0, 0.125), (M, 0.14)]).pieces(130.0).shares(0.02, 0.03),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_follow_the_spans() {
        let cost = PathCost::new(100.0, &[(0, 1.0), (10, 2.0), (20, 3.0)]).pieces(7.0);
        for (len, ns) in [(0, 100.0), (10, 110.0), (15, 120.0), (20, 130.0), (30, 160.0)] {
            assert_eq!(cost.ns(len, 1), ns, "{len}");
        }
        assert_eq!(cost.ns(10, 3), 124.0, "two pieces beyond the first");
        assert_eq!(cost.ns(0, 0), 100.0);
    }

    #[test]
    fn shipped_figures_are_sane() {
        let costs = PathCosts::default();
        for level in LEVELS {
            for path in MessagePath::ALL {
                let cost = costs.of(level, path);
                assert_eq!(cost.flaw(), None, "{level:?} {path:?}");
                let shared = costs.of(Level::SharedCache, path);
                for len in [64, 4 << 10, 1 << 20, 64 << 20] {
                    // Only CMA's start may be less on the bare machines from which the figures of
                    // the other levels come.
                    let near = shared.copy_ns(len, 1).min(cost.copy_ns(len, 1));
                    assert!(cost.copy_ns(len, 1) >= 0.75 * near, "{level:?} {path:?} {len}");
                }
            }
        }
        // Measured between two cores with one cache: microseconds within a tenth.
        for (path, len, us) in [
            (MessagePath::Ring, 4 << 10, 0.35),
            (MessagePath::Cells, 64 << 10, 1.7),
            (MessagePath::Cells, 1 << 20, 26.0),
            (MessagePath::Cells, 4 << 20, 100.0),
            (MessagePath::Cells, 16 << 20, 630.0),
            (MessagePath::Pull, 1 << 20, 72.0),
            (MessagePath::Pull, 4 << 20, 280.0),
            (MessagePath::Pull, 16 << 20, 1720.0),
            (MessagePath::Cooperate, 1 << 20, 35.0),
        ] {
            let ns = costs.of(Level::SharedCache, path).ns(len, 1);
            assert!((ns / 1000.0 / us - 1.0).abs() < 0.12, "{path:?} {len}: {ns}");
        }
    }

    #[test]
    fn flaws_are_named() {
        let sound = PathCost::new(1.0, &[(0, 1.0), (5, 2.0)]);
        assert_eq!(sound.flaw(), None);
        let mut gap = sound;
        gap.spans[0].from = u64::MAX;
        for (cost, word) in [
            (PathCost { start_ns: f64::NAN, ..sound }, "start_ns is NaN"),
            (PathCost { start_ns: -1.0, ..sound }, "-1"),
            (sound.pieces(f64::INFINITY), "piece_ns"),
            (sound.shares(1.5, 0.0), "sender is 1.5"),
            (gap, "from"),
            (PathCost::new(1.0, &[(0, -0.5)]), "byte_ns has -0.5"),
        ] {
            let flaw = cost.flaw().expect(word);
            assert!(flaw.contains(word), "{flaw}");
        }
    }

    #[test]
    fn sets_and_names() {
        for path in MessagePath::ALL {
            assert_eq!(MessagePath::from_name(path.name()), Some(path));
            assert!(MessagePaths::ALL.contains(path));
            assert_ne!(MessagePaths::EAGER.contains(path), MessagePaths::RENDEZVOUS.contains(path));
            assert_eq!(MessagePaths::EAGER.contains(path), path.is_eager());
        }
        assert_eq!(MessagePaths::ALL.iter().count(), PATHS);
        assert_eq!(
            MessagePaths::ALL.without(MessagePaths::EAGER).union(MessagePaths::EAGER),
            MessagePaths::ALL
        );
        assert!(MessagePaths::NONE.is_empty() && !MessagePaths::SHARED_MEMORY.is_empty());
        assert_eq!(
            MessagePaths::from_iter([MessagePath::Pull]),
            MessagePaths::NONE.with(MessagePath::Pull)
        );
        for level in LEVELS {
            assert_eq!(level_from_name(level_name(level)), Some(level));
        }
    }

    #[test]
    fn every_word_of_the_tunable_forces_something() {
        let mica_node::tunables::TunableKind::Choice(words) = mica_node::tunables::PATH.kind else {
            panic!("MICA_PATH is a choice");
        };
        for word in words {
            let paths = MessagePaths::forced(word).expect(word);
            assert!(paths.contains(MessagePath::Ring));
            assert_eq!(paths == MessagePaths::ALL, *word == "auto");
        }
        let pull = MessagePaths::forced("pull").unwrap();
        assert_eq!(
            pull.iter().collect::<Vec<_>>(),
            [MessagePath::Inline, MessagePath::Ring, MessagePath::Pull]
        );
        assert_eq!(MessagePaths::forced("ring"), None);
        assert_eq!(MessagePaths::forced("fastest"), None);
    }
}

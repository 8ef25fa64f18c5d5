//! The measuring plan: for each level at which the machine has a pair of cores, and for each path,
//! a series of messages.

use mica_node::topology::{BindTo, Level, Machine, MapBy, level_between, map};
use mica_policy::MessagePath;

/// Two cores at a level, and the `mpiexec` option that selects them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CorePair {
    /// Their level.
    pub level: Level,
    /// The value for `--map-by`.
    pub map_by: &'static str,
}

/// One pair for each level that exists among the cores that this process may use, nearest first.
pub fn pairs(machine: &Machine) -> Vec<CorePair> {
    let orders = ["core", "l3", "numa", "package"];
    let mut pairs: Vec<CorePair> = Vec::new();
    for map_by in orders {
        let by = MapBy::parse(map_by).expect("a word that --map-by takes");
        let slots = map(machine, 2, by, BindTo::Core);
        let [a, b] = slots.as_slice() else { continue };
        let level = level_between(&a.place, &b.place);
        if a.place.core != b.place.core && pairs.iter().all(|pair| pair.level != level) {
            pairs.push(CorePair { level, map_by });
        }
    }
    pairs.sort_by_key(|pair| pair.level);
    pairs
}

/// One message of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SeriesMessage {
    /// Bytes.
    pub len: u64,
    /// Bytes of a piece; 0 for a contiguous message.
    pub block: u64,
}

impl SeriesMessage {
    /// The argument for `calibrate`.
    pub fn argument(&self) -> String {
        match self.block {
            0 => self.len.to_string(),
            block => format!("{}/{block}", self.len),
        }
    }
}

/// Messages that all take one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampleSeries {
    /// The path.
    pub path: MessagePath,
    /// The variables that force this path.
    pub environment: Vec<(&'static str, &'static str)>,
    /// The rows of `MICA_STATS` that count them.
    pub counted_as: &'static [&'static str],
    /// Contiguous messages by ascending length, followed by at most one in pieces, as long as one
    /// of those.
    pub samples: Vec<SeriesMessage>,
}

/// The length of the message in pieces, and of its pieces.
const PIECES: SeriesMessage = SeriesMessage { len: 1 << 20, block: 256 };

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// Few and short messages: seconds.
    Quick,
    /// A minute or so.
    Thorough,
}

impl Pace {
    /// One of two values.
    pub fn choose<T>(self, quick: T, thorough: T) -> T {
        match self {
            Pace::Quick => quick,
            Pace::Thorough => thorough,
        }
    }
}

/// The series of the paths. A copy engine has none: it copies while the ranks
/// compute, and in a ping-pong they wait.
pub fn series(pace: Pace) -> Vec<SampleSeries> {
    let longest = pace.choose(16 << 20, 64 << 20);
    let long = || {
        let lens = (10..=26).step_by(2).map(|bits| 1u64 << bits);
        let mut samples = contiguous(lens.filter(|&len| len <= longest));
        samples.push(PIECES);
        samples
    };
    type Names = &'static [&'static str];
    let series = |path, environment, counted_as: Names, samples| SampleSeries {
        path,
        environment,
        counted_as,
        samples,
    };
    let asked = |path, word, direct, counted_as| {
        let environment = vec![
            ("MICA_PATH", word),
            ("MICA_DIRECT", direct),
            ("MICA_RING_MAX", "0"),
            ("MICA_EAGER_MAX", "0"),
            ("MICA_DIRECT_MIN", "0"),
            ("MICA_DIRECT_RUN_MIN", "0"),
            // Apply to short messages too, and from a buffer's first use on.
            ("MICA_MAPPED_MIN", "0"),
            ("MICA_MAPPED_AFTER", "0"),
        ];
        series(path, environment, counted_as, long())
    };
    let through_cells = |path, eager_max| {
        let environment = vec![
            ("MICA_PATH", "cells"),
            ("MICA_RING_MAX", "0"),
            ("MICA_EAGER_MAX", eager_max),
            ("MICA_DIRECT", "off"),
        ];
        series(path, environment, &["cells"], long())
    };
    let in_ring = contiguous([64, 256, 1 << 10, 2 << 10, 4 << 10, 8 << 10]);
    vec![
        series(MessagePath::Inline, Vec::new(), &["inline"], contiguous([8, 24, 40])),
        series(MessagePath::Ring, vec![("MICA_RING_MAX", "8K")], &["ring"], in_ring),
        through_cells(MessagePath::Cells, "1G"),
        through_cells(MessagePath::Streamed, "0"),
        asked(MessagePath::Pull, "pull", "cma", &["direct"]),
        asked(MessagePath::Cooperate, "cooperate", "cma", &["direct"]),
        asked(MessagePath::Mapped, "mapped", "auto", &["mapped"]),
        asked(MessagePath::MappedCooperate, "mapped-cooperate", "auto", &["mapped"]),
    ]
}

fn contiguous(lens: impl IntoIterator<Item = u64>) -> Vec<SeriesMessage> {
    let sample = |len| SeriesMessage { len, block: 0 };
    lens.into_iter().map(sample).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mica_node::tunables;

    fn levels(machine: &str) -> Vec<(Level, &'static str)> {
        let machine = Machine::synthetic(machine).unwrap();
        let pairs = pairs(&machine).into_iter();
        pairs.map(|pair| (pair.level, pair.map_by)).collect()
    }

    #[test]
    fn each_level_has_a_pair_of_cores() {
        let (shared, package, node) = (Level::SharedCache, Level::Package, Level::Node);
        assert_eq!(levels("pack:1 l3:1 core:8 pu:1"), [(shared, "core")]);
        assert_eq!(levels("pack:8 l3:1 core:6 pu:1"), [(shared, "core"), (node, "l3")]);
        assert_eq!(
            levels("pack:2 l3:2 core:2 pu:2"),
            [(shared, "core"), (package, "l3"), (node, "package")]
        );
        // Separate caches: the first two cores share none.
        assert_eq!(levels("pack:1 core:2 l2:1 pu:1"), [(package, "core")]);
        // One core with two threads is no pair.
        assert_eq!(levels("pack:1 l3:1 core:1 pu:2"), []);
    }

    #[test]
    fn forcing_tunable_has_a_valid_value() {
        let series = series(Pace::Thorough);
        let paths: Vec<MessagePath> = series.iter().map(|series| series.path).collect();
        assert_eq!(paths, MessagePath::ALL[..MessagePath::Offload as usize]);
        for (name, value) in series.iter().flat_map(|series| &series.environment) {
            let tunable = tunables::all().iter().find(|t| t.env == *name);
            let tunable = tunable.unwrap_or_else(|| panic!("{name}"));
            if let tunables::TunableKind::Choice(words) = tunable.kind {
                assert!(words.contains(value), "{name}={value}");
            } else {
                assert!(tunables::parse_bytes(value).is_some(), "{name}={value}");
            }
        }
    }

    #[test]
    fn a_message_in_pieces_has_a_contiguous_one_beside_it() {
        for pace in [Pace::Thorough, Pace::Quick] {
            for series in series(pace) {
                let (pieces, whole): (Vec<SeriesMessage>, Vec<SeriesMessage>) =
                    series.samples.iter().partition(|sample| sample.block > 0);
                assert!(pieces.len() <= 1 && whole.is_sorted_by_key(|sample| sample.len));
                for sample in pieces {
                    assert!(whole.iter().any(|whole| whole.len == sample.len));
                    assert_eq!(sample.len % sample.block, 0);
                }
            }
        }
        assert_eq!(PIECES.argument(), "1048576/256");
        assert_eq!(SeriesMessage { len: 8, block: 0 }.argument(), "8");
    }
}

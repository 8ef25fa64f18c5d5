//! Whether the ranks that were measured had processors of their own, as the model assumes.
//!
//! `bench/src/loggp.c` prints the processors that each rank may use, and how often the two ranks
//! that measure lost theirs to another thread. If the ranks of a host may use fewer processors than
//! they are, they share them, whatever the scheduler does. Otherwise the count of involuntary
//! context switches, to which Linux adds yields to another thread, tells: on a processor of its own
//! a rank has next to none, on a shared one it has one or more at nearly every message.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

/// Involuntary switches for each exchange of messages from which on ranks count as sharing. Those
/// of a loaded system come by the thousand a second, exchanges by the hundred thousand.
const SWITCHES_SHARED: f64 = 0.05;

/// Where a rank may run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllowedProcessors {
    /// The host's name.
    pub host: String,
    /// First and last processor of each range; none if they are not known.
    pub processors: Vec<(u32, u32)>,
}

/// What the two ranks that measure lost to other threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostProcessors {
    /// Involuntary context switches of both.
    pub switches: u64,
    /// Exchanges of messages.
    pub exchanges: u64,
}

/// Ranks did not have a processor each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CoreSharing {
    /// More ranks of a host than processors that they may use.
    TooFew {
        /// The host.
        host: String,
        /// Its ranks.
        ranks: usize,
        /// The processors that they may use.
        processors: usize,
    },
    /// They lost their processors to one another, or to other programs.
    Switched {
        /// Involuntary context switches for each exchange of messages.
        per_exchange: f64,
    },
}

impl fmt::Display for CoreSharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CoreSharing::TooFew { host, ranks, processors } => {
                let s = if *processors == 1 { "" } else { "s" };
                write!(f, "{ranks} ranks share {processors} processor{s} of {host}")
            }
            CoreSharing::Switched { per_exchange } => write!(
                f,
                "the ranks shared processors, with one another or with other programs \
                 ({per_exchange:.2} involuntary context switches an exchange)"
            ),
        }
    }
}

impl AllowedProcessors {
    /// Parses `0-1,4-7 HOST`; `?` where the processors are not known.
    pub(super) fn parse(text: &str) -> Option<AllowedProcessors> {
        let (ranges, host) = text.split_once(' ')?;
        let range = |text: &str| {
            let (first, last) = text.split_once('-')?;
            Some((first.parse().ok()?, last.parse().ok()?))
        };
        let processors = match ranges {
            "?" => Some(Vec::new()),
            _ => ranges.split(',').map(range).collect(),
        };
        Some(AllowedProcessors { host: host.to_owned(), processors: processors? })
    }
}

/// How the ranks of a measurement shared processors, if they did.
pub(super) fn sharing(
    places: &[AllowedProcessors],
    lost: Option<LostProcessors>,
) -> Option<CoreSharing> {
    let mut hosts: BTreeMap<&str, (usize, BTreeSet<u32>)> = BTreeMap::new();
    for place in places.iter().filter(|place| !place.processors.is_empty()) {
        let (ranks, processors) = hosts.entry(&place.host).or_default();
        *ranks += 1;
        processors.extend(place.processors.iter().flat_map(|&(first, last)| first..=last));
    }
    let crowded = hosts.into_iter().find(|(_, (ranks, processors))| *ranks > processors.len());
    if let Some((host, (ranks, processors))) = crowded {
        let (host, processors) = (host.to_owned(), processors.len());
        return Some(CoreSharing::TooFew { host, ranks, processors });
    }
    let LostProcessors { switches, exchanges } = lost.filter(|lost| lost.exchanges > 0)?;
    let per_exchange = switches as f64 / exchanges as f64;
    (per_exchange >= SWITCHES_SHARED).then_some(CoreSharing::Switched { per_exchange })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(texts: &[&str]) -> Vec<AllowedProcessors> {
        texts.iter().map(|text| AllowedProcessors::parse(text).expect("a place")).collect()
    }

    #[test]
    fn ranks_that_may_use_too_few_processors_share_them() {
        let found = |texts: &[&str]| sharing(&places(texts), None).map(|s| s.to_string());
        assert_eq!(found(&["0-0 a", "1-1 a"]), None);
        assert_eq!(found(&["0-1 a", "0-1 a"]), None);
        assert_eq!(found(&["0-0 a", "0-0 b"]), None, "hosts of their own");
        assert_eq!(found(&["? a", "? a"]), None, "not known");
        assert_eq!(found(&["3-3 a", "3-3 a"]), Some("2 ranks share 1 processor of a".to_owned()));
        let crowded = Some("3 ranks share 2 processors of a b".to_owned());
        assert_eq!(found(&["0-1 a b", "0-1 a b", "0-0,1-1 a b"]), crowded);
        assert_eq!(AllowedProcessors::parse("x-1 a"), None);
    }

    #[test]
    fn ranks_that_lose_their_processors_share_them() {
        let of = |switches| {
            let lost = LostProcessors { switches, exchanges: 1000 };
            sharing(&places(&["0-1 a", "0-1 a"]), Some(lost))
        };
        assert_eq!(of(3), None);
        assert_eq!(of(1900), Some(CoreSharing::Switched { per_exchange: 1.9 }));
        assert_eq!(sharing(&[], Some(LostProcessors { switches: 5, exchanges: 0 })), None);
    }
}

//! Texts with placeholders for a rank's number and the like: labels of a rank's lines of output
//! (`-prepend-pattern "[%r] "`) and names of its files (`-outfile-pattern out.%r`).

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// A text with placeholders, each `%` and a letter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamePattern(String);

/// The rank that a pattern is filled in for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatternRank {
    /// Rank in MPI_COMM_WORLD.
    pub rank: u32,
    /// Number of ranks in the job.
    pub size: u32,
    /// Number of its node in the job.
    pub node: u32,
    /// Name of its host.
    pub host: String,
}

impl NamePattern {
    /// The placeholders after `%`, for messages.
    pub const WANTED: &'static str = "a text with %r (rank), %0r (rank, as many digits for all), \
                                      %h (host), %p (number of the node), %g \
                                      (number of the job: 0), %t (time in seconds) or %% \
                                      (a percent sign)";

    /// Parses a pattern; `None` if something else follows a `%`.
    pub fn parse(text: &str) -> Option<NamePattern> {
        let pattern = NamePattern(text.to_owned());
        let known =
            |place: &str| matches!(place, "r" | "0r" | "d" | "w" | "g" | "p" | "h" | "t" | "%");
        let places = pattern.pieces().into_iter().filter_map(|(_, place)| place);
        places.into_iter().all(known).then(|| pattern.clone())
    }

    /// The literal texts, and the placeholder after each.
    fn pieces(&self) -> Vec<(&str, Option<&str>)> {
        let mut pieces = Vec::new();
        let mut rest = self.0.as_str();
        while let Some((text, after)) = rest.split_once('%') {
            let end = if after.starts_with("0r") { 2 } else { 1 };
            let end = after.char_indices().nth(end).map_or(after.len(), |(at, _)| at);
            let (place, next) = after.split_at(end);
            pieces.push((text, Some(place)));
            rest = next;
        }
        pieces.push((rest, None));
        pieces
    }

    /// The text for a rank at the present time.
    pub fn fill(&self, rank: &PatternRank) -> String {
        let mut text = String::new();
        for (before, place) in self.pieces() {
            text.push_str(before);
            match place {
                Some("r" | "d") => text.push_str(&rank.rank.to_string()),
                Some("0r") => {
                    let digits = rank.size.saturating_sub(1).to_string().len();
                    text.push_str(&format!("{:0digits$}", rank.rank));
                }
                Some("p") => text.push_str(&rank.node.to_string()),
                Some("h") => text.push_str(&rank.host),
                // There is only one MPI_COMM_WORLD.
                Some("g" | "w") => text.push('0'),
                Some("t") => {
                    let now = SystemTime::now().duration_since(UNIX_EPOCH);
                    text.push_str(&now.unwrap_or_default().as_secs().to_string());
                }
                Some(other) => text.push_str(other),
                None => {}
            }
        }
        text
    }

    fn has(&self, places: &[&str]) -> bool {
        let mut pieces = self.pieces().into_iter();
        pieces.any(|(_, place)| place.is_some_and(|place| places.contains(&place)))
    }

    /// Whether ranks on different nodes have different texts.
    pub fn differs_between_nodes(&self) -> bool {
        self.has(&["r", "0r", "d", "p", "h"])
    }

    /// Whether the text changes while a rank runs.
    pub fn has_time(&self) -> bool {
        self.has(&["t"])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(pattern: &str, rank: u32) -> String {
        let rank = PatternRank { rank, size: 101, node: 1, host: "n7".to_owned() };
        NamePattern::parse(pattern).expect(pattern).fill(&rank)
    }

    #[test]
    fn places_are_filled() {
        assert_eq!(fill("[%r] ", 3), "[3] ");
        assert_eq!(fill("%h/%p/%0r.%g%%", 3), "n7/1/003.0%");
        assert_eq!(fill("%d(err)> ", 12), "12(err)> ");
        assert_eq!(fill("plain", 0), "plain");
        let time: u64 = fill("%t", 0).parse().unwrap();
        assert!(time > 1_600_000_000);
        for bad in ["%", "%x", "a%", "%é", "%0", "%0d"] {
            assert!(NamePattern::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn what_a_text_depends_on() {
        let pattern = |text| NamePattern::parse(text).unwrap();
        assert!(pattern("out.%r").differs_between_nodes() && pattern("%h").differs_between_nodes());
        assert!(!pattern("out%%r").differs_between_nodes());
        assert!(pattern("%t ").has_time() && !pattern("%r").has_time());
    }
}

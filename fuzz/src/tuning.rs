//! The tuning file, and the choices that its costs lead to.

use std::path::Path;

use mica_node::topology::Level;
use mica_policy::tuning::Tuning;
use mica_policy::{MessagePaths, OutgoingMessage, Situation, Thresholds, select};

/// Parses `bytes` as the text of a tuning file.
pub fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let file = Path::new("fuzz.toml");
    let Ok(tuning) = Tuning::parse(&text, file) else {
        return;
    };
    let printed = tuning.to_string();
    let again = Tuning::parse(&printed, file);
    let again = again.unwrap_or_else(|error| panic!("{error}\n{printed}"));
    assert_eq!(again, tuning, "{printed}");
    let _ = tuning.applied_to_collectives();
    let costs = tuning.applied();
    let all = MessagePaths::ALL;
    for level in [Level::SharedCache, Level::Package, Level::Node] {
        let situation = Situation::waiting(level, all);
        let thresholds = Thresholds::derive(&costs, &situation);
        assert!(thresholds.ring_max <= thresholds.eager_max, "{thresholds:?}");
        for len in [0, 1, 40, 4096, 1 << 20, 1 << 40] {
            let decision = select(&OutgoingMessage::contiguous(len), &situation, &costs);
            assert!(all.contains(decision.path), "{decision:?}");
        }
    }
}

//! Chooses and opens the engine of a rank.

use super::hardware::dsa::{DsaEngine, DsaThreadEngine, NoDevice};
use super::setup::OffloadSetup;
use super::{CopyEngine, InlineEngine, Notify, ThreadEngine};
use mica_node::segment::JobSegment;
use std::sync::Arc;

/// The engines by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineKind {
    /// [`InlineEngine`].
    Inline,
    /// [`ThreadEngine`].
    Thread,
    /// [`DsaEngine`].
    Dsa,
    /// [`DsaThreadEngine`].
    DsaThread,
}

/// The inputs of the choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineFacts {
    /// Ranks on the node.
    pub ranks: u32,
    /// Cores that they may use.
    pub cores: u32,
    /// A work queue of a DSA device can be opened.
    pub dsa: bool,
}

impl EngineFacts {
    /// Cores that no rank needs.
    pub fn free_cores(&self) -> u32 {
        self.cores.saturating_sub(self.ranks)
    }
}

/// The engine for `request`, the text of `MICA_COPY_ENGINE`, and how many helpers may work on the
/// node at once. `auto` uses the device if there is one, else a helper thread if there is a free
/// core, else `inline`. An explicit request for a thread gets at least one helper. `None` if the
/// text names no engine.
pub fn recommended(request: &str, facts: &EngineFacts) -> Option<(EngineKind, u32)> {
    let kind = match request {
        "auto" if facts.dsa => EngineKind::Dsa,
        "auto" if facts.free_cores() > 0 => EngineKind::Thread,
        "auto" | "inline" => EngineKind::Inline,
        "thread" => EngineKind::Thread,
        "dsa" => EngineKind::Dsa,
        "dsa+thread" => EngineKind::DsaThread,
        _ => return None,
    };
    let helpers = match kind {
        EngineKind::Inline | EngineKind::Dsa => 0,
        EngineKind::Thread | EngineKind::DsaThread if request == "auto" => facts.free_cores(),
        EngineKind::Thread | EngineKind::DsaThread => facts.free_cores().max(1),
    };
    Some((kind, helpers))
}

/// Opens the engine that `request`, the text of `MICA_COPY_ENGINE`, names. For `auto`, this
/// searches for a device, and an engine that cannot be opened is not used.
///
/// # Errors
/// If a device was requested by name and no usable one exists; the error has the reason.
///
/// # Panics
/// If the text names no engine; tunables are checked earlier.
pub fn open(
    request: &str,
    segment: &Arc<JobSegment>,
    notify: Option<Notify>,
) -> Result<Box<dyn CopyEngine>, NoDevice> {
    let facts = |dsa| EngineFacts { ranks: segment.ranks(), cores: segment.available_cores(), dsa };
    let device = match request {
        "auto" | "dsa" | "dsa+thread" => super::hardware::dsa::open_device(),
        _ => Err(NoDevice::NotLookedFor),
    };
    let (kind, helpers) = recommended(request, &facts(device.is_ok()))
        .unwrap_or_else(|| panic!("{request:?} names no copy engine"));
    let setup = OffloadSetup { segment: Arc::clone(segment), helpers, notify };
    Ok(match kind {
        EngineKind::Inline => Box::new(InlineEngine::new()),
        EngineKind::Thread => Box::new(ThreadEngine::new(setup)),
        EngineKind::Dsa => Box::new(DsaEngine::with_device(device?)),
        EngineKind::DsaThread => Box::new(DsaThreadEngine::with_device(device?, setup)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(request: &str, ranks: u32, cores: u32, dsa: bool) -> (EngineKind, u32) {
        recommended(request, &EngineFacts { ranks, cores, dsa }).expect("a known engine")
    }

    #[test]
    fn auto_takes_what_is_free() {
        assert_eq!(choose("auto", 2, 2, false), (EngineKind::Inline, 0));
        assert_eq!(choose("auto", 4, 2, false), (EngineKind::Inline, 0));
        assert_eq!(choose("auto", 1, 2, false), (EngineKind::Thread, 1));
        assert_eq!(choose("auto", 8, 48, false), (EngineKind::Thread, 40));
        assert_eq!(choose("auto", 8, 48, true), (EngineKind::Dsa, 0));
        assert_eq!(choose("auto", 48, 48, true), (EngineKind::Dsa, 0));
    }

    #[test]
    fn forced_engine_is_opened() {
        assert_eq!(choose("thread", 8, 2, true), (EngineKind::Thread, 1));
        assert_eq!(choose("thread", 2, 6, false), (EngineKind::Thread, 4));
        assert_eq!(choose("inline", 1, 64, true), (EngineKind::Inline, 0));
        assert_eq!(choose("dsa", 1, 64, false), (EngineKind::Dsa, 0));
        assert_eq!(choose("dsa+thread", 2, 2, true), (EngineKind::DsaThread, 1));
        let facts = EngineFacts { ranks: 1, cores: 1, dsa: false };
        assert_eq!(recommended("gpu", &facts), None);
    }

    #[test]
    fn every_choice_of_the_tunable_names_an_engine() {
        let mica_node::tunables::TunableKind::Choice(words) = mica_node::tunables::COPY_ENGINE.kind
        else {
            panic!("a choice");
        };
        for word in words {
            let (ranks, cores, dsa) = (1, 2, true);
            let chosen = recommended(word, &EngineFacts { ranks, cores, dsa });
            assert!(chosen.is_some(), "{word}");
        }
    }
}

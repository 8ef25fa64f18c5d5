//! The choices that communicators share: duplicates, and windows, mostly have the setting of
//! another communicator, and to find the limits of the fast path alone takes 500 choices.

use std::sync::{Arc, Mutex, PoisonError};

use mica_policy::collective::{Choices, CollectiveCosts, ForcedAlgorithms, GroupSetting};

/// Those of the last communicators with different ones, the latest last.
static KNOWN: Mutex<Vec<Arc<Choices>>> = Mutex::new(Vec::new());

/// How many are kept: a program has communicators of few settings.
const KNOWN_MAX: usize = 8;

/// The choices of a communicator with this setting.
pub(in crate::intranode) fn choices_of(
    costs: Arc<CollectiveCosts>,
    forced: ForcedAlgorithms,
    setting: GroupSetting,
) -> Arc<Choices> {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(same) = known.iter().find(|known| known.are_from(&costs, &forced, &setting)) {
        return Arc::clone(same);
    }
    if known.len() == KNOWN_MAX {
        known.remove(0);
    }
    let choices = Arc::new(Choices::new(costs, forced, setting));
    known.push(Arc::clone(&choices));
    choices
}

#[cfg(test)]
mod tests {
    use super::*;
    use mica_node::topology::Level;

    #[test]
    fn communicators_of_one_setting_share_their_choices() {
        let costs = Arc::<CollectiveCosts>::default();
        let of = |ranks| {
            let setting =
                GroupSetting { ranks, level: Level::SharedCache, cores: 2, area_cell: None };
            choices_of(Arc::clone(&costs), ForcedAlgorithms::default(), setting)
        };
        let first = of(2);
        assert!(Arc::ptr_eq(&first, &of(2)));
        assert_eq!(of(3).setting().ranks, 3);
        (4..4 + KNOWN_MAX).for_each(|ranks| drop(of(ranks)));
        assert!(!Arc::ptr_eq(&first, &of(2)), "the oldest are forgotten");
    }
}

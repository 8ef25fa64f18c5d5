//! Algorithm selection on the hot path: a table that caches the choice for each size class.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

use super::choose::{CLASSES, ForcedAlgorithms, OCTAVES, class_of, pick, pick_once_reachable};
use super::costs::CollectiveCosts;
use super::{
    ALGORITHMS, Algorithm, COLLECTIVES, Collective, CollectiveCall, GroupSetting, OperandOrder,
    Reachability,
};

/// No choice has been made for this class yet.
const OPEN: u8 = u8::MAX;
const _: () = assert!(ALGORITHMS < OPEN as usize);

/// The chosen algorithm by size class, for one collective, one stage, and x.
struct ChoiceRow([AtomicU8; CLASSES]);

/// Whether the ranks of a direct call have announced their buffers.
#[derive(Clone, Copy)]
enum ReachStage {
    Before,
    Announced,
}

/// Stages of the choice: each reachability before the ranks have announced their buffers, and each
/// after that.
const STAGES: usize = 2 * Reachability::ALL.len();

/// Rows: collectives, stages, either order of operands.
const ROWS: usize = COLLECTIVES * STAGES * 2;

/// The cached choices of communicators with one setting. The answers are exactly those of
/// [`pick`]. The first call of its kind calls that function, and the first one of a row allocates
/// the row (a few hundred bytes); later calls cost two loads.
pub struct Choices {
    costs: Arc<CollectiveCosts>,
    forced: ForcedAlgorithms,
    setting: GroupSetting,
    rows: [OnceLock<Box<ChoiceRow>>; ROWS],
}

impl std::fmt::Debug for Choices {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Choices").field("setting", &self.setting).finish_non_exhaustive()
    }
}

impl Choices {
    /// The choices of communicators with this setting.
    pub fn new(
        costs: Arc<CollectiveCosts>,
        forced: ForcedAlgorithms,
        setting: GroupSetting,
    ) -> Choices {
        Choices { costs, forced, setting, rows: [const { OnceLock::new() }; ROWS] }
    }

    /// Whether [`new`](Self::new) makes the same choices of this.
    pub fn are_from(
        &self,
        costs: &CollectiveCosts,
        forced: &ForcedAlgorithms,
        setting: &GroupSetting,
    ) -> bool {
        (&self.setting, &self.forced, &*self.costs) == (setting, forced, costs)
    }

    /// The setting of the communicators.
    pub fn setting(&self) -> &GroupSetting {
        &self.setting
    }

    /// The algorithm of a call. `bytes` are those of [`CollectiveCall::bytes`]; `reach` is
    /// [`Reachability::Unknown`] unless all ranks know of a limit that holds for all calls.
    #[inline]
    pub fn algorithm(
        &self,
        collective: Collective,
        bytes: usize,
        order: OperandOrder,
        reach: Reachability,
    ) -> Algorithm {
        self.at_stage(ReachStage::Before, collective, bytes, order, reach)
    }

    /// The algorithm once the ranks of a direct call have announced their buffers and `reach` is
    /// known: [`Algorithm::Direct`] if it is still better than [`Algorithm::Shared`], else the
    /// latter.
    #[inline]
    pub fn once_reachable(
        &self,
        collective: Collective,
        bytes: usize,
        order: OperandOrder,
        reach: Reachability,
    ) -> Algorithm {
        self.at_stage(ReachStage::Announced, collective, bytes, order, reach)
    }

    #[inline]
    fn at_stage(
        &self,
        stage: ReachStage,
        collective: Collective,
        bytes: usize,
        order: OperandOrder,
        reach: Reachability,
    ) -> Algorithm {
        let column = reach as usize + stage as usize * Reachability::ALL.len();
        let row = (collective as usize * STAGES + column) * 2 + order as usize;
        let class = class_of(bytes);
        if let Some(row) = self.rows[row].get() {
            // Relaxed: concurrent threads compute the same value, and it publishes no other data.
            let known = row.0[class].load(Ordering::Relaxed);
            if let Some(&algorithm) = Algorithm::ALL.get(usize::from(known)) {
                return algorithm;
            }
        }
        let question = CollectiveCall { collective, bytes, order, reach, setting: self.setting };
        self.find(row, class, stage, &question)
    }

    #[cold]
    fn find(
        &self,
        row: usize,
        class: usize,
        stage: ReachStage,
        question: &CollectiveCall,
    ) -> Algorithm {
        let algorithm = match stage {
            ReachStage::Announced => pick_once_reachable(&self.costs, question, &self.forced),
            ReachStage::Before => pick(&self.costs, question, &self.forced),
        };
        let row = self.rows[row]
            .get_or_init(|| Box::new(ChoiceRow([const { AtomicU8::new(OPEN) }; CLASSES])));
        row.0[class].store(algorithm as u8, Ordering::Relaxed);
        algorithm
    }

    /// The lengths at which the chosen algorithm changes, for display: ascending, the first from 0.
    pub fn changes(
        &self,
        collective: Collective,
        order: OperandOrder,
        reach: Reachability,
    ) -> Vec<(usize, Algorithm)> {
        let mut changes: Vec<(usize, Algorithm)> = Vec::new();
        for bytes in class_starts() {
            let algorithm = self.algorithm(collective, bytes, order, reach);
            if changes.last().is_none_or(|&(_, before)| before != algorithm) {
                changes.push((bytes, algorithm));
            }
        }
        changes
    }
}

/// The shortest length of each class, ascending.
fn class_starts() -> impl Iterator<Item = usize> {
    let octaves = (0..OCTAVES).flat_map(|octave| (4..8usize).map(move |n| (n << octave) >> 2));
    // An octave with only one or two lengths has fewer classes.
    let mut before = None;
    std::iter::once(0).chain(octaves).filter(move |&start| before.replace(start) != Some(start))
}

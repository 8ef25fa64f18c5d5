//! The costs of the steps of a collective, in addition to those of messages.
//!
//! No figure is stored twice: the costs of a message, of a copy by the kernel and of a load from
//! another rank's buffer are the point-to-point figures ([`PathCosts`]). A copy into or out of a
//! shared area costs what a byte through cells does unless it was measured separately. `mica tune`
//! replaces the figures by those of this machine.

use mica_node::topology::Level;

use crate::costs::{MessagePath, PathCost, PathCosts, row};

/// What the steps of a collective cost among ranks at one level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LevelCosts {
    /// Nanoseconds until another rank sees a stamp that a rank has set, each on its own core.
    pub sync_ns: f64,
    /// Nanoseconds to announce a buffer to the others, and to read their announcements.
    pub expose_ns: f64,
    /// A copy into a cell of the area, or out of one; its start is that of each chunk. `None`: the
    /// figures of [`MessagePath::Cells`], whose two copies run concurrently.
    pub copy: Option<PathCost>,
}

/// The costs by which collectives within a node are selected.
#[derive(Debug, Clone, PartialEq)]
pub struct CollectiveCosts {
    /// What messages cost, single copies included.
    pub messages: PathCosts,
    /// Nanoseconds to switch to another rank on a core that ranks share.
    pub switch_ns: f64,
    /// Nanoseconds to combine a byte of an operand that is in the core's cache with one of the
    /// result.
    pub reduce_byte_ns: f64,
    /// Nanoseconds of a round of messages in addition to its messages.
    pub round_ns: f64,
    levels: [LevelCosts; 3],
}

/// What copies from one rank's memory to another's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyMeans {
    /// Its system calls.
    Kernel,
    /// Loads and stores of a rank.
    LoadStore,
}

impl CollectiveCosts {
    /// The shipped figures for the steps, with `messages` for the messages.
    pub fn new(messages: PathCosts) -> CollectiveCosts {
        CollectiveCosts { messages, ..CollectiveCosts::default() }
    }

    /// The figures among ranks at `level`.
    #[inline]
    pub fn of(&self, level: Level) -> &LevelCosts {
        &self.levels[row(level)]
    }

    /// Replaces the figures of a level.
    pub fn set(&mut self, level: Level, costs: LevelCosts) {
        self.levels[row(level)] = costs;
    }

    /// Nanoseconds to copy `bytes` into the shared area, or out of it, in `chunks`.
    pub fn copy_ns(&self, level: Level, bytes: usize, chunks: usize) -> f64 {
        match &self.of(level).copy {
            Some(cost) => cost.start_ns * chunks as f64 + cost.copy_ns(bytes, 1),
            None => self.messages.of(level, MessagePath::Cells).copy_ns(bytes, 1),
        }
    }

    /// Nanoseconds to load `bytes` from another rank's buffer, or to store them there, once it is
    /// mapped as a window.
    pub fn load_ns(&self, level: Level, bytes: usize) -> f64 {
        self.messages.of(level, MessagePath::Mapped).copy_ns(bytes, 1)
    }

    /// Nanoseconds to copy `bytes` from or to another rank's buffer by the kernel, in `calls`
    /// calls. The start of a call is that of a pulled message without its RTS and FIN.
    pub fn cma_ns(&self, level: Level, bytes: usize, calls: usize) -> f64 {
        let pull = self.messages.of(level, MessagePath::Pull);
        let words = 2.0 * self.messages.of(level, MessagePath::Inline).start_ns;
        (pull.start_ns - words).max(0.0) * calls as f64 + pull.copy_ns(bytes, 1)
    }

    /// Like `load_ns` or `cma_ns`, with both ranks copying concurrently.
    pub fn together_ns(&self, level: Level, bytes: usize, by: CopyMeans) -> f64 {
        if by == CopyMeans::Kernel {
            let together = self.messages.of(level, MessagePath::Cooperate);
            self.cma_ns(level, 0, 1) + together.copy_ns(bytes, 1)
        } else {
            self.messages.of(level, MessagePath::MappedCooperate).copy_ns(bytes, 1)
        }
    }

    /// A fingerprint by which ranks compare their figures; 0: the shipped ones.
    pub fn fingerprint(&self) -> u64 {
        if *self == CollectiveCosts::default() {
            return 0;
        }
        // FNV-1a of all figures as they print, to the last digit.
        let text = format!("{self:?}");
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        text.bytes().fold(0xcbf2_9ce4_8422_2325, step).max(1)
    }

    /// What is invalid in these figures, if anything.
    pub fn flaw(&self) -> Option<String> {
        let plain = [
            ("switch_ns", self.switch_ns),
            ("reduce_byte_ns", self.reduce_byte_ns),
            ("round_ns", self.round_ns),
        ];
        let flaw = plain.into_iter().find_map(|(name, ns)| not_sane(name, ns));
        flaw.or_else(|| self.levels.iter().find_map(LevelCosts::flaw))
    }
}

impl LevelCosts {
    /// What is invalid in these figures, if anything.
    pub fn flaw(&self) -> Option<String> {
        not_sane("sync_ns", self.sync_ns)
            .or_else(|| not_sane("expose_ns", self.expose_ns))
            .or_else(|| self.copy.and_then(|copy| copy.flaw()))
    }
}

/// What is invalid in a time.
pub(crate) fn not_sane(name: &str, ns: f64) -> Option<String> {
    let sane = ns.is_finite() && ns >= 0.0;
    (!sane).then(|| format!("{name} is {ns}: expected nanoseconds, not negative"))
}

impl Default for CollectiveCosts {
    /// The shipped figures. Shared cache: measured between two cores with one 32 MiB cache (a
    /// nested virtual machine). The other levels: transfers of cache lines on current servers, in
    /// proportion to the starts of messages.
    fn default() -> CollectiveCosts {
        let level = |sync_ns, expose_ns| LevelCosts { sync_ns, expose_ns, copy: None };
        CollectiveCosts {
            messages: PathCosts::default(),
            switch_ns: 700.0,
            reduce_byte_ns: 0.03,
            round_ns: 200.0,
            levels: [level(48.0, 400.0), level(100.0, 500.0), level(200.0, 600.0)],
        }
    }
}

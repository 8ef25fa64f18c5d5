//! What an algorithm costs the ranks: passes, chain and work, which add up step by step.

/// The load of an algorithm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// How often every rank waits for another.
    pub passes: usize,
    /// Nanoseconds of the longest chain of dependent steps.
    pub chain_ns: f64,
    /// Nanoseconds of work of all cores together.
    pub work_ns: f64,
}

impl Load {
    pub(super) const NOTHING: Load = Load { passes: 0, chain_ns: 0.0, work_ns: 0.0 };

    /// Nanoseconds that `ranks` need on `cores`.
    pub fn ns(&self, ranks: usize, cores: usize, switch_ns: f64) -> f64 {
        let cores = cores.max(1);
        if ranks <= cores {
            return self.chain_ns;
        }
        let visits = self.passes * ranks.div_ceil(cores);
        visits as f64 * switch_ns + self.chain_ns.max(self.work_ns / cores as f64)
    }

    pub(super) fn then(self, next: Load) -> Load {
        Load {
            passes: self.passes + next.passes,
            chain_ns: self.chain_ns + next.chain_ns,
            work_ns: self.work_ns + next.work_ns,
        }
    }
}

/// `once`, repeated `n` times.
pub(super) fn times(n: usize, once: Load) -> Load {
    Load {
        passes: n * once.passes,
        chain_ns: n as f64 * once.chain_ns,
        work_ns: n as f64 * once.work_ns,
    }
}

/// A load with these nanoseconds of the longest chain and of all ranks together.
pub(super) fn busy(chain_ns: f64, work_ns: f64) -> Load {
    Load { passes: 0, chain_ns, work_ns }
}

//! How many cores each rank has, and which ones the controller grants to a node.

use serde::{Deserialize, Serialize};

use crate::options::{JobOptions, ProgramSection};

/// Cores of each rank, by section.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Widths {
    /// From the command line or OMP_NUM_THREADS, else 1.
    pub required: Vec<usize>,
    /// At least SLURM_CPUS_PER_TASK. That may describe a task which is this launcher itself, so it
    /// counts only if there is room.
    pub preferred: Vec<usize>,
    /// The command line gives the number.
    pub asked: bool,
}

impl Widths {
    /// The numbers of cores that command line and environment give.
    pub fn of(options: &JobOptions) -> Widths {
        let number = |section: &ProgramSection, name: &str| {
            let value = options.variable(section, name)?;
            // OMP_NUM_THREADS may have a number for each level of nested parallelism: the first
            // is the outermost.
            let first = value.to_str()?.split(',').next()?;
            crate::options::values::binding::width(first.trim())
        };
        let sections = options.sections.iter();
        let required = |section: &ProgramSection| {
            options.binding.width.or_else(|| number(section, "OMP_NUM_THREADS")).unwrap_or(1)
        };
        let preferred = |section: &ProgramSection| match options.binding.width {
            Some(width) => width,
            None => required(section).max(number(section, "SLURM_CPUS_PER_TASK").unwrap_or(1)),
        };
        Widths {
            required: sections.clone().map(required).collect(),
            preferred: sections.map(preferred).collect(),
            asked: options.binding.width.is_some(),
        }
    }

    /// Whether there is one for each section.
    pub fn are_for(&self, sections: usize) -> bool {
        let sound = |widths: &[usize]| widths.len() == sections && widths.iter().all(|&w| w >= 1);
        sound(&self.required) && sound(&self.preferred)
    }
}

/// What the controller has planned for the ranks of a node on its own machine, if it has several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum CoreGrant {
    /// Each rank is bound to this list of processors.
    Bound(Vec<String>),
    /// Ranks are not bound, for this reason.
    Unbound(String),
}

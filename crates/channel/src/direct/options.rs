//! Which back ends a rank may use, and the thresholds for migration.

use mica_node::tunables::{self, BadValue};

/// The tunables of the direct channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectOptions {
    /// `process_vm_readv` and `process_vm_writev` are allowed.
    pub cma: bool,
    /// Buffers may be migrated to the job segment's file.
    pub mapped: bool,
    /// Also migrate buffers in mappings that the program has made itself (`MICA_MAPPED=all`).
    pub mapped_all: bool,
    /// The XPMEM module may be used.
    pub xpmem: bool,
    /// Uses of a buffer before it is migrated (`MICA_MAPPED_AFTER`).
    pub mapped_after: u32,
    /// Bytes of the shortest buffer that is migrated (`MICA_MAPPED_MIN`).
    pub mapped_min: usize,
    /// Bytes that are migrated at most (`MICA_MAPPED_MAX`).
    pub mapped_max: usize,
}

impl DirectOptions {
    /// The options that the environment sets. `MICA_DIRECT=mapped` and `=xpmem` keep CMA enabled,
    /// for what these cannot reach (the ends of buffers, scattered messages, new buffers); only
    /// `off` disables it.
    ///
    /// # Errors
    /// When a tunable has an invalid value.
    pub fn in_force() -> Result<DirectOptions, BadValue> {
        let choice = tunables::DIRECT.choice()?;
        let migrated = tunables::MAPPED.choice()?;
        Ok(DirectOptions {
            cma: choice != "off",
            mapped: matches!(choice, "auto" | "mapped") && migrated != "off",
            mapped_all: migrated == "all",
            xpmem: matches!(choice, "auto" | "xpmem"),
            mapped_after: u32::try_from(tunables::MAPPED_AFTER.number()?).unwrap_or(u32::MAX),
            mapped_min: tunables::MAPPED_MIN.number()? as usize,
            mapped_max: tunables::MAPPED_MAX.number()? as usize,
        })
    }

    /// No back end at all.
    pub const OFF: DirectOptions = DirectOptions {
        cma: false,
        mapped: false,
        mapped_all: false,
        xpmem: false,
        mapped_after: u32::MAX,
        mapped_min: usize::MAX,
        mapped_max: 0,
    };

    /// CMA alone.
    pub const CMA: DirectOptions = DirectOptions { cma: true, ..DirectOptions::OFF };
}

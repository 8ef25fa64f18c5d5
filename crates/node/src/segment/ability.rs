//! The abilities and settings of a rank that other ranks of its node must know in order to make the
//! same choices.
//!
//! Each rank publishes these in its block during `MPI_Init`, before its first communication. Ranks
//! of one node may differ: a container or a seccomp filter refuses something to one of them, or an
//! MPMD section of `mpiexec` sets a variable for some.
//!
//! - [`AlikeSettings`] are the values of the tunables that must be
//!   [alike](crate::tunables::Agreement::Alike). A rank compares them with those of all ranks that
//!   have published theirs: of two ranks that differ, at least one refuses to start.
//! - [`Abilities`] may differ. A rank that makes a communicator's node group waits until all
//!   members have published theirs, and takes the [meet](Abilities::meet), so that all members
//!   choose the same algorithms.
//! - A [`Limit`] is the reason why a back end of the direct channel does not work, shown to people
//!   in hang reports and `mica info`. One that is found later in the run does not change the
//!   abilities; collectives then handle it in each operation.
//!
//! | who | writes | when |
//! |---|---|---|
//! | the rank | settings, then `SETTINGS` (Release) | directly after it has joined the segment |
//! | the rank | abilities and limits, then `ABILITIES` (Release) | before it sends anything |
//! | the rank | whose abilities it waits for | while it waits for them |
//! | the rank | a limit | when it finds one |

use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64};

use super::SkipReason;
use crate::tunables::{self, BadValue};

/// Maximum of tunables that can be compared.
pub const SETTINGS_MAX: usize = 24;

/// The settings are published.
pub(super) const SETTINGS: u32 = 1;
/// The abilities are published as well.
pub(super) const ABILITIES: u32 = 2;

/// A rank does not wait for abilities.
pub(super) const NO_RANK: u32 = 0;
/// Several threads of a rank wait for the abilities of different ranks.
pub(super) const ANY_RANK: u32 = u32::MAX;

pub(super) const MAPPED: u32 = 1;
pub(super) const XPMEM: u32 = 1 << 1;
pub(super) const CMA: u32 = 1 << 2;

/// The line of a rank's block for its abilities.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct AbilityLine {
    pub published: AtomicU32,
    pub abilities: AtomicU32,
    pub costs: AtomicU64,
    /// The rank whose abilities this rank waits for, plus one; [`NO_RANK`] or [`ANY_RANK`].
    pub awaits: AtomicU32,
    /// Indexed by [`Means`].
    pub limits: [AtomicU64; MEANS],
    pub settings: [AtomicU32; SETTINGS_MAX],
}

/// The values of the tunables that must be alike, in the order of [`tunables::alike`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AlikeSettings(pub(super) [u32; SETTINGS_MAX]);

/// How a rank can access other ranks' buffers and give access to its own, and the costs by which it
/// chooses algorithms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Abilities {
    /// Its buffers can be migrated to the job segment's file, and it can map those of peers.
    pub mapped: bool,
    /// XPMEM works.
    pub xpmem: bool,
    /// Its settings allow the kernel to copy between ranks. Whether the kernel does is determined
    /// for each pair.
    pub cma: bool,
    /// Fingerprint of the costs by which algorithms are chosen; 0 for the shipped costs.
    pub costs: u64,
}

/// The common abilities of all ranks of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommonAbilities {
    /// Each can load from and store to the others' buffers, possibly only after some time.
    pub windows: bool,
    /// The settings of all allow the kernel to copy.
    pub cma: bool,
    /// All choose by the same costs.
    pub same_costs: bool,
}

/// A back end of the direct channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Means {
    /// Buffers migrated to the job segment's file.
    Mapped = 0,
    /// XPMEM.
    Xpmem = 1,
    /// `process_vm_readv` and `process_vm_writev`.
    Cma = 2,
    /// Loads and stores to the memory of a window that the program has given.
    Window = 3,
}

const MEANS: usize = 4;

/// Why a back end does not work for a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Disabled by `MICA_DIRECT`.
    SwitchedOff,
    /// The job segment has no room for buffers.
    NoSlots,
    /// PROCMAP_QUERY fails.
    NoQuery {
        /// The error number.
        errno: u32,
    },
    /// The allocator may be another than glibc's.
    Allocator,
    /// Fork handlers cannot be set up.
    NoForkHandler {
        /// The error number.
        errno: u32,
    },
    /// The kernel refuses to copy from or to a peer.
    Kernel {
        /// The error number.
        errno: u32,
        /// The peer's rank in the job.
        peer: u32,
    },
    /// The kernel accesses another process than the peer.
    WrongProcess {
        /// The peer's rank in the job.
        peer: u32,
    },
    /// The memory of a window was not migrated, and nothing else reaches it: each operation waits
    /// for a call of MPI by the rank.
    WindowInPlace {
        /// Why it was not migrated.
        why: SkipReason,
    },
}

impl AlikeSettings {
    /// The settings in force.
    ///
    /// # Errors
    /// When a value does not fit its tunable.
    pub fn in_force() -> Result<AlikeSettings, BadValue> {
        let mut settings = [0; SETTINGS_MAX];
        for (to, tunable) in settings.iter_mut().zip(tunables::alike()) {
            *to = tunable.code()?;
        }
        Ok(AlikeSettings(settings))
    }

    /// The defaults, changed by pairs (index in [`tunables::alike`], value) as
    /// [`to_bytes`](Self::to_bytes) writes them. `None` if the bytes are not of this version.
    pub fn from_bytes(bytes: &[u8]) -> Option<AlikeSettings> {
        let (entries, rest) = bytes.as_chunks::<5>();
        let mut settings = AlikeSettings::default();
        for &[index, a, b, c, d] in entries {
            *settings.0.get_mut(usize::from(index))? = u32::from_le_bytes([a, b, c, d]);
        }
        rest.is_empty().then_some(settings)
    }

    /// Encodes the values that differ from the defaults, for ranks on other nodes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let default = AlikeSettings::default();
        let pairs = self.0.iter().zip(&default.0).zip(0u8..);
        let changed = pairs.filter(|((mine, default), _)| mine != default);
        changed
            .flat_map(|((mine, _), index)| std::iter::once(index).chain(mine.to_le_bytes()))
            .collect()
    }

    /// The first tunable in which the settings of the two ranks differ.
    pub fn difference(
        &self,
        rank: u32,
        other: &AlikeSettings,
        other_rank: u32,
    ) -> Option<Difference> {
        let values = self.0.iter().zip(&other.0).zip(tunables::alike());
        let mut differ = values.filter(|((mine, theirs), _)| mine != theirs);
        let ((&mine, &theirs), tunable) = differ.next()?;
        Some(Difference {
            variable: tunable.env,
            rank,
            value: tunable.text_of(mine),
            other_rank,
            other_value: tunable.text_of(theirs),
        })
    }
}

impl Default for AlikeSettings {
    /// The tunables' defaults.
    fn default() -> AlikeSettings {
        let mut settings = [0; SETTINGS_MAX];
        for (to, tunable) in settings.iter_mut().zip(tunables::alike()) {
            *to = tunable.code_of_default();
        }
        AlikeSettings(settings)
    }
}

/// Two ranks have different values of a tunable that must be alike.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{variable} is {value} on rank {rank} and {other_value} on rank {other_rank}: all ranks must \
     have the same value; set it for the whole job (mpiexec -genv {variable} VALUE ...)"
)]
pub struct Difference {
    /// The environment variable.
    pub variable: &'static str,
    /// The rank that found the difference.
    pub rank: u32,
    /// Its value on that rank.
    pub value: String,
    /// The other rank.
    pub other_rank: u32,
    /// The value on the other rank.
    pub other_value: String,
}

impl Abilities {
    /// The common abilities of these ranks.
    pub fn meet(all: impl IntoIterator<Item = Abilities>) -> CommonAbilities {
        let all: Vec<Abilities> = all.into_iter().collect();
        let costs = all.first().map(|first| first.costs);
        CommonAbilities {
            // A rank with XPMEM exposes buffers by it, which another rank can open only if it has
            // XPMEM, too.
            windows: all.iter().all(|a| a.xpmem) || all.iter().all(|a| a.mapped && !a.xpmem),
            cma: all.iter().all(|a| a.cma),
            same_costs: all.iter().all(|a| Some(a.costs) == costs),
        }
    }
}

impl Limit {
    pub(super) fn to_word(self) -> u64 {
        let word = |tag: u64, errno: u32, peer: u32| {
            tag | u64::from(errno & 0xffff) << 8 | u64::from(peer) << 32
        };
        match self {
            Limit::SwitchedOff => word(1, 0, 0),
            Limit::NoSlots => word(2, 0, 0),
            Limit::NoQuery { errno } => word(3, errno, 0),
            Limit::Allocator => word(4, 0, 0),
            Limit::NoForkHandler { errno } => word(5, errno, 0),
            Limit::Kernel { errno, peer } => word(6, errno, peer),
            Limit::WrongProcess { peer } => word(7, 0, peer),
            Limit::WindowInPlace { why } => word(8, why.number(), 0),
        }
    }

    pub(super) fn from_word(word: u64) -> Option<Limit> {
        let (errno, peer) = ((word >> 8) as u32 & 0xffff, (word >> 32) as u32);
        Some(match word & 0xff {
            1 => Limit::SwitchedOff,
            2 => Limit::NoSlots,
            3 => Limit::NoQuery { errno },
            4 => Limit::Allocator,
            5 => Limit::NoForkHandler { errno },
            6 => Limit::Kernel { errno, peer },
            7 => Limit::WrongProcess { peer },
            8 => Limit::WindowInPlace { why: SkipReason::of_number(errno)? },
            _ => return None,
        })
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let system = |errno: u32| std::io::Error::from_raw_os_error(errno as i32);
        match *self {
            Limit::SwitchedOff => f.write_str("switched off by MICA_DIRECT"),
            Limit::NoSlots => f.write_str(
                "the job segment has no room for buffers (RLIMIT_FSIZE, ulimit -f, was in force \
                 when the job started, or it has too many ranks)",
            ),
            Limit::NoQuery { errno } => write!(
                f,
                "PROCMAP_QUERY on /proc/self/maps: {} (it needs Linux 6.11, /proc, and a \
                 seccomp filter that lets it pass)",
                system(errno)
            ),
            Limit::Allocator => f.write_str("the program's allocator may not be glibc's"),
            Limit::NoForkHandler { errno } => write!(f, "pthread_atfork: {}", system(errno)),
            Limit::Kernel { errno, peer } => write!(
                f,
                "process_vm_readv or process_vm_writev with rank {peer}: {}",
                system(errno)
            ),
            Limit::WrongProcess { peer } => write!(
                f,
                "process_vm_readv with rank {peer} reached another process (a PID \
                 namespace of its own?)"
            ),
            Limit::WindowInPlace { why } => {
                write!(f, "{why}; others wait for its calls of MPI")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_carry_limits() {
        let (errno, peer) = (13, 70_000);
        for limit in [
            Limit::SwitchedOff,
            Limit::NoSlots,
            Limit::NoQuery { errno },
            Limit::Allocator,
            Limit::NoForkHandler { errno },
            Limit::Kernel { errno, peer },
            Limit::WrongProcess { peer },
            Limit::WindowInPlace { why: SkipReason::OpenToStores },
        ] {
            assert_eq!(Limit::from_word(limit.to_word()), Some(limit));
        }
        assert_eq!(Limit::from_word(0), None);
    }

    #[test]
    fn bytes_carry_settings() {
        let mut settings = AlikeSettings::default();
        assert_eq!(settings.to_bytes(), []);
        assert_eq!(AlikeSettings::from_bytes(&[]), Some(settings));
        (settings.0[1], settings.0[5]) = (2, 70_000);
        assert_eq!(settings.to_bytes().len(), 10);
        assert_eq!(AlikeSettings::from_bytes(&settings.to_bytes()), Some(settings));
        assert_eq!(AlikeSettings::from_bytes(&[1, 2]), None);
        assert_eq!(AlikeSettings::from_bytes(&[200, 0, 0, 0, 0]), None);
    }

    #[test]
    fn a_difference_names_variable_ranks_and_values() {
        let (ours, mut theirs) = (AlikeSettings::default(), AlikeSettings::default());
        assert_eq!(ours.difference(0, &theirs, 1), None);
        let coll = tunables::alike().position(|t| t.name == "coll").unwrap();
        theirs.0[coll] = 2;
        let text = ours.difference(4, &theirs, 1).unwrap().to_string();
        assert!(
            text.starts_with("MICA_COLL is auto on rank 4 and scan=shared on rank 1: "),
            "{text}"
        );
    }

    #[test]
    fn the_meet_is_what_all_can() {
        let all = Abilities { mapped: true, xpmem: false, cma: true, costs: 0 };
        let meet = |a: Abilities| {
            let meet = Abilities::meet([all, a, all]);
            (meet.windows, meet.cma, meet.same_costs)
        };
        assert_eq!(meet(all), (true, true, true));
        let mapped = false;
        assert_eq!(meet(Abilities { mapped, ..all }), (false, true, true));
        let cma = false;
        assert_eq!(meet(Abilities { cma, ..all }), (true, false, true));
        let costs = 7;
        assert_eq!(meet(Abilities { costs, ..all }), (true, true, false));
        let xpmem = true;
        assert_eq!(meet(Abilities { xpmem, ..all }), (false, true, true));
        assert!(Abilities::meet([Abilities { xpmem, ..all }]).windows);
    }
}

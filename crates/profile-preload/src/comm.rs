//! Communicators and windows: the ranks in `MPI_COMM_WORLD` of those that they reach, and a key by
//! which the members' records are brought together.
//!
//! The key is a hash of the members and of how many communicators of just these members came
//! before. Ranks agree on it without a message as long as they create communicators of equal
//! groups in the same order, which MPI asks of those from one parent; threads that create equal
//! groups from different parents at once may get them crossed, and then arrivals of one are
//! compared with those of the other.

use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, RwLock};

use crate::facts;
use crate::resolve::pmpi;
use crate::topology;
use crate::types::{COMM_NULL, COMM_WORLD, MPI_Comm, MPI_Group, MPI_Win, SUCCESS, WIN_NULL};

/// A rank that is not in `MPI_COMM_WORLD` (of a job that was spawned).
pub const FOREIGN: u32 = u32::MAX;

/// What is known of a communicator or window.
pub struct CommInfo {
    /// Equal for all members, for the time of its life.
    pub key: u64,
    /// World ranks of those that a rank's number names: the group, or the remote group.
    pub peers: Vec<u32>,
    /// Number of processes in the own group.
    pub local_size: usize,
    /// Own rank in the own group.
    pub rank: c_int,
    /// Number of the group of `peers`, by which the records name it.
    pub group: u32,
    /// Whether it connects two groups.
    pub inter: bool,
    /// Blocking collectives so far.
    pub sequence: AtomicU64,
    /// World ranks of the neighbors that it sends to, [`FOREIGN`] where there is none.
    neighbors: OnceLock<Vec<u32>>,
}

/// The world, set when MPI starts.
pub struct ProfiledWorld {
    /// Its group: a session that begins later has another handle.
    group: AtomicUsize,
    /// Own rank.
    pub rank: u32,
    /// Number of ranks.
    pub size: u32,
}

static WORLD: OnceLock<ProfiledWorld> = OnceLock::new();
static KNOWN: OnceLock<RwLock<HashMap<usize, &'static CommInfo>>> = OnceLock::new();
static CREATED: Mutex<Option<HashMap<u64, u64>>> = Mutex::new(None);
/// Numbers of groups, by their members' world ranks.
static GROUPS: Mutex<Option<HashMap<Vec<u32>, u32>>> = Mutex::new(None);
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// The world, after MPI started.
pub fn world() -> Option<&'static ProfiledWorld> {
    WORLD.get()
}

/// Changes when a handle may have got another meaning; who keeps what [`info`] gave asks again.
#[inline]
pub fn generation() -> u64 {
    // Relaxed: a thread that uses a communicator which another one created has synchronised with
    // it, and so sees what that one stored before.
    GENERATION.load(Ordering::Relaxed)
}

/// MPI started: the world's group is that of `MPI_COMM_WORLD`.
pub fn start() {
    let mut group: MPI_Group = 0;
    // SAFETY: MPI is initialised; the arguments are what the functions ask for.
    unsafe {
        if pmpi!(c"MPI_Comm_group"(COMM_WORLD => MPI_Comm, &mut group => *mut MPI_Group)) == SUCCESS
        {
            start_with(group);
        }
    }
    register(COMM_WORLD);
}

/// MPI started: this is the group of all processes of the job.
pub fn start_with(group: MPI_Group) {
    let (mut rank, mut size) = (0, 0);
    // SAFETY: MPI is initialised and the group valid.
    unsafe {
        pmpi!(c"MPI_Group_rank"(group => MPI_Group, &mut rank => *mut c_int));
        pmpi!(c"MPI_Group_size"(group => MPI_Group, &mut size => *mut c_int));
    }
    let world = WORLD.get_or_init(|| ProfiledWorld {
        group: AtomicUsize::new(group),
        rank: rank.max(0) as u32,
        size: size as u32,
    });
    // Relaxed: a thread that makes a communicator has synchronised with the start of MPI.
    world.group.store(group, Ordering::Relaxed);
}

/// A communicator has been created: all members come here, in the same order.
pub fn register(comm: MPI_Comm) -> Option<&'static CommInfo> {
    if comm == COMM_NULL {
        return None;
    }
    // SAFETY: the call that created it succeeded.
    let found = unsafe { describe(comm) }?;
    Some(keep(comm, found))
}

/// What is known of a communicator that a call succeeded with.
#[cold]
pub fn info(comm: MPI_Comm) -> Option<&'static CommInfo> {
    known(comm).or_else(|| register(comm))
}

/// What is known of a window that a call succeeded with.
#[cold]
pub fn window(win: MPI_Win) -> Option<&'static CommInfo> {
    if win == WIN_NULL {
        return None;
    }
    known(win).or_else(|| {
        let mut group: MPI_Group = 0;
        // SAFETY: the window is valid, since a call with it succeeded.
        let found = unsafe {
            let code = pmpi!(c"MPI_Win_get_group"(
                win => MPI_Win, &mut group => *mut MPI_Group));
            (code == SUCCESS).then(|| members(group))??
        };
        Some(keep(win, CommInfo::new(found.0, found.1, CommKind::Intra)))
    })
}

/// The handle at this address is about to be freed.
///
/// # Safety
/// The address is null or that of a handle.
pub unsafe fn forget(handle: *const usize) {
    // SAFETY: as the caller promises.
    if let (Some(table), Some(handle)) = (KNOWN.get(), unsafe { handle.as_ref() }) {
        table.write().expect("no panic while locked").remove(handle);
        GENERATION.fetch_add(1, Ordering::Relaxed);
    }
}

fn known(handle: usize) -> Option<&'static CommInfo> {
    KNOWN.get()?.read().expect("no panic while locked").get(&handle).copied()
}

/// Entries are never freed: threads and records refer to them.
fn keep(handle: usize, info: CommInfo) -> &'static CommInfo {
    let info: &'static CommInfo = Box::leak(Box::new(info));
    KNOWN.get_or_init(RwLock::default).write().expect("no panic while locked").insert(handle, info);
    GENERATION.fetch_add(1, Ordering::Relaxed);
    info
}

/// # Safety
/// The communicator is valid.
unsafe fn describe(comm: MPI_Comm) -> Option<CommInfo> {
    let mut inter: c_int = 0;
    let (mut group, mut remote): (MPI_Group, MPI_Group) = (0, 0);
    // SAFETY: the communicator is valid.
    unsafe {
        pmpi!(c"MPI_Comm_test_inter"(comm => MPI_Comm, &mut inter => *mut c_int));
        if pmpi!(c"MPI_Comm_group"(comm => MPI_Comm, &mut group => *mut MPI_Group)) != SUCCESS {
            return None;
        }
        let (local, rank) = members(group)?;
        if inter == 0 {
            return Some(CommInfo::new(local, rank, CommKind::Intra));
        }
        pmpi!(c"MPI_Comm_remote_group"(comm => MPI_Comm, &mut remote => *mut MPI_Group));
        let kind = CommKind::Inter { local_size: local.len() };
        Some(CommInfo::new(members(remote)?.0, rank, kind))
    }
}

/// World ranks of a group's members and the own rank in it. Frees the group.
///
/// # Safety
/// The group is valid.
unsafe fn members(mut group: MPI_Group) -> Option<(Vec<u32>, c_int)> {
    let world = WORLD.get()?;
    let (mut size, mut rank): (c_int, c_int) = (0, 0);
    // SAFETY: the group is valid, the arrays have `size` elements.
    unsafe {
        pmpi!(c"MPI_Group_size"(group => MPI_Group, &mut size => *mut c_int));
        pmpi!(c"MPI_Group_rank"(group => MPI_Group, &mut rank => *mut c_int));
        let ranks: Vec<c_int> = (0..size).collect();
        let mut out = vec![-1; ranks.len()];
        pmpi!(c"MPI_Group_translate_ranks"(
            group => MPI_Group, size => c_int, ranks.as_ptr() => *const c_int,
            world.group.load(Ordering::Relaxed) => MPI_Group, out.as_mut_ptr() => *mut c_int));
        pmpi!(c"MPI_Group_free"(&mut group => *mut MPI_Group));
        let world_rank = |rank: c_int| u32::try_from(rank).unwrap_or(FOREIGN);
        Some((out.into_iter().map(world_rank).collect(), rank))
    }
}

/// The number of a group, which the records name when it is first seen.
fn number_of(peers: &[u32]) -> u32 {
    let mut groups = GROUPS.lock().expect("no panic while locked");
    let groups = groups.get_or_insert_default();
    if let Some(&number) = groups.get(peers) {
        return number;
    }
    let number = groups.len() as u32;
    groups.insert(peers.to_vec(), number);
    facts::append(&group_line(number, peers));
    number
}

/// The lines of the records for the groups that are known.
pub fn group_lines() -> Vec<String> {
    let groups = GROUPS.lock().expect("no panic while locked");
    groups.iter().flatten().map(|(peers, number)| group_line(*number, peers)).collect()
}

fn group_line(number: u32, peers: &[u32]) -> String {
    let ranks = peers.iter().filter(|rank| **rank != FOREIGN);
    format!("group\t{number}\t{}", ranks.map(u32::to_string).collect::<Vec<_>>().join(","))
}

/// The two kinds of communicators (MPI 5.0, 7.1.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CommKind {
    Intra,
    /// With the number of processes in the own group.
    Inter {
        local_size: usize,
    },
}

impl CommInfo {
    fn new(peers: Vec<u32>, rank: c_int, kind: CommKind) -> CommInfo {
        let local_size = match kind {
            CommKind::Intra => peers.len(),
            CommKind::Inter { local_size } => local_size,
        };
        // FNV-1a over the members.
        let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x0000_0100_0000_01b3);
        let group =
            peers.iter().fold(0xcbf2_9ce4_8422_2325, |hash, rank| mix(hash, u64::from(*rank)));
        let mut created = CREATED.lock().expect("no panic while locked");
        let before = created.get_or_insert_default().entry(group).or_default();
        *before += 1;
        CommInfo {
            key: mix(group, *before),
            group: number_of(&peers),
            peers,
            local_size,
            rank,
            inter: kind != CommKind::Intra,
            sequence: AtomicU64::new(0),
            neighbors: OnceLock::new(),
        }
    }

    /// World ranks of those that neighborhood collectives on it send to, in their order;
    /// [`FOREIGN`] for `MPI_PROC_NULL`. `comm` is its handle, with which a call has succeeded.
    pub fn neighbors(&self, comm: MPI_Comm) -> &[u32] {
        self.neighbors.get_or_init(|| {
            // SAFETY: the communicator is valid, since a call with it succeeded.
            let found = unsafe { topology::destinations(comm) };
            found.into_iter().map(|rank| self.world_rank(rank).unwrap_or(FOREIGN)).collect()
        })
    }

    /// World rank of a rank of it, if it is one (`MPI_PROC_NULL` and `MPI_ANY_SOURCE` are not).
    pub fn world_rank(&self, rank: c_int) -> Option<u32> {
        let found = *self.peers.get(usize::try_from(rank).ok()?)?;
        (found != FOREIGN).then_some(found)
    }
}

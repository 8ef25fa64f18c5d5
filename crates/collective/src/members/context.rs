//! Context numbers: what keeps the messages of one communicator apart from those of others.
//!
//! A context is unique in the job; its bit 0 separates collective traffic from the user's. The
//! process that becomes rank 0 of a new communicator makes it from its own job rank and a counter.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use mica_objects::error::{Error, Result};
use mica_objects::{constants as c, process};
use mica_protocol::Engine;

/// Contexts of the predefined communicators: the first ones from the counter of the job's rank 0,
/// and from the counter of each rank. Other communicators continue from [`FIRST_FREE_ID`].
pub const WORLD_ID: u64 = 0;
/// That of `MPI_COMM_SELF`, at each rank.
pub const SELF_ID: u64 = BLOCK;
/// The first communicator number that is not taken by a predefined one.
const FIRST_FREE_ID: u64 = 2 * BLOCK;

/// Numbers of the communicators that this process leads.
static NEXT_ID: AtomicU64 = AtomicU64::new(FIRST_FREE_ID);

/// Holders of a rank's number, one after the other, whose communicators have different numbers.
const GENERATIONS: u32 = 1 << 12;
/// Bits of the numbers that each of them has for itself.
const GENERATION_BITS: u32 = 20;

/// A communicator gets a block of this many numbers: its own, and spares for duplicates that need
/// no communication (`MPI_Comm_idup`).
pub const BLOCK: u64 = 64;

/// Separates the traffic among both groups of an inter-communicator from that between them.
pub const BRIDGE: u64 = 1 << 38;

/// The context of communicator number `id` led by the process with job-wide rank `leader`.
pub const fn context(leader: u32, id: u64) -> u64 {
    (leader as u64) << 40 | id << 1
}

/// Where the numbers of this process's communicators begin. Processes that have a rank's number one
/// after the other use different ones, lest one finds what is left of another that was killed.
pub fn first_id(engine: &Engine) -> u64 {
    u64::from(engine.world().generation % GENERATIONS) << GENERATION_BITS
}

/// The spare contexts, two apart, that come with a context from [`fresh_context`].
pub fn spares(first: u64) -> Range<u64> {
    first + 2..first + 2 * BLOCK
}

/// The first of a block of contexts that no other communicator in the job has.
pub fn fresh_context() -> Result<u64> {
    // Relaxed: only the number matters.
    let engine = process::engine()?;
    let id = first_id(engine) + NEXT_ID.fetch_add(BLOCK, Ordering::Relaxed);
    if (id + BLOCK) << 1 > BRIDGE {
        let detail = "this process has led 2^31 communicators; their numbers are used up";
        return Err(Error::other(c::ERR_INTERN, detail));
    }
    Ok(context(engine.rank(), id))
}

/// The context of the hidden intra-communicator of all processes of an inter-communicator.
pub fn bridge(context: u64) -> u64 {
    context | BRIDGE
}

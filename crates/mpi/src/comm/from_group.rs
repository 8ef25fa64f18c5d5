//! Communicators that have no parent (MPI 5.0, 7.4.2, `MPI_Comm_create_from_group`).
//!
//! The members find each other by what all of them know, the string tag and the group: their hash
//! is the context in which the first member sends the new communicator's context to the others. The
//! hash's context and tag have 69 bits together, and concurrent creations among the same processes
//! have different string tags.

use super::lookup::COMMS;
use super::object::{Comm, CommState};
use crate::constants as c;
use crate::errhandler::{Errhandler, HandlerFamily};
use crate::error::{Error, Result};
use crate::group::Group;
use crate::info::Info;
use crate::process;
use mica_collective::exchange::ExchangeMembers;
use mica_collective::members::Members;
use mica_collective::members::context::spares;

/// Takes the place of the leader's job-wide rank in other contexts; no process has it.
const NO_LEADER: u64 = 0xff_ffff << 40;

/// Number of bits of a hash that a context has room for, above the bit of the collective plane.
const HASH_BITS: u32 = 39;

/// The context and the tag in which the members of `group` find each other.
fn meeting_point(group: &Group, stringtag: &str) -> (u64, i32) {
    // FNV-1a, 128 bits: all processes must agree on it, which the standard library's hashers do not
    // promise.
    let ranks = group.peers().flat_map(u32::to_le_bytes);
    let hash = ranks
        .chain(stringtag.bytes())
        .fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128, |hash, byte| {
            (hash ^ u128::from(byte)).wrapping_mul(0x0100_0000_0000_0000_0000_013b)
        });
    let context = NO_LEADER | (hash as u64 & ((1 << HASH_BITS) - 1)) << 1;
    let tag = (hash >> 64) as i32 & i32::MAX;
    (context, tag)
}

impl Comm {
    /// `MPI_Comm_create_from_group`: of the processes of `group`, each of which passes the same
    /// group and string tag; `None` for the empty group.
    pub fn create_from_group(
        group: &Group,
        stringtag: &str,
        hints: &Info,
        errhandler: Errhandler,
    ) -> Result<Option<Comm>> {
        errhandler.check_family(HandlerFamily::Comm)?;
        if stringtag.len() >= c::MAX_STRINGTAG_LEN {
            let value = format!("a string of {} bytes", stringtag.len());
            let reason = format!("a string tag has at most {} bytes", c::MAX_STRINGTAG_LEN - 1);
            return Err(Error::argument(c::ERR_ARG, "stringtag", value, reason));
        }
        if group.is_empty() {
            return Ok(None);
        }
        let myself = process::engine()?.rank();
        let Some(me) = group.rank_of(myself) else {
            let value = format!("a group of {}", group.size());
            let reason = "this process is not a member of it";
            return Err(Error::argument(c::ERR_GROUP, "group", value, reason));
        };
        let (meeting, tag) = meeting_point(group, stringtag);
        let via = Members::intra(meeting, group.clone(), myself, 0..0);
        let everyone: Vec<usize> = (0..group.size()).collect();
        let context = ExchangeMembers::of(&via, &everyone, me, tag).agree_on_context()?;
        let members = Members::intra(context, group.clone(), myself, spares(context));
        let state =
            CommState { name: String::new(), errhandler: Some(errhandler), info: Info::default() };
        let comm = COMMS.insert_with(|handle| Comm::new(handle, members, None, state))?;
        comm.set_info(hints);
        Ok(Some(comm))
    }

    /// The handle of the session that it comes from; `MPI_SESSION_NULL` if it comes from the world
    /// model.
    pub fn session(&self) -> u32 {
        self.group().session()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meeting_points_depend_on_members_order_and_tag_and_are_no_communicators_context() {
        let groups = [
            Group::run(0, 4),
            Group::run(1, 4),
            Group::run(0, 3),
            Group::from_ranks(vec![0, 2, 1, 3]),
        ];
        let tags = ["", "a", "b", "org.example.solver.1"];
        let mut points: Vec<(u64, i32)> =
            groups.iter().flat_map(|group| tags.map(|tag| meeting_point(group, tag))).collect();
        for &(context, tag) in &points {
            assert_eq!(context & 1, 0, "bit 0 marks the collective plane");
            assert_eq!(context & NO_LEADER, NO_LEADER);
            assert!(tag >= 0);
        }
        let all = points.len();
        points.sort_unstable();
        points.dedup();
        assert_eq!(points.len(), all);
    }
}

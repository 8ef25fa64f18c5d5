//! What several calls check or look up.

use crate::arguments::{checked_count, in_place_away_from_root};
use crate::inter::Root;
use crate::layout::RanksByNode;
use crate::members::Members;
use crate::place::RankPlace;
use crate::reduction::Reduction;
use crate::thresholds::TwoLevel;
use mica_objects::constants as c;
use mica_objects::datatype::Datatype;
use mica_objects::error::{Error, Result};
use mica_objects::op::Op;

/// This rank's place in an intracommunicator. (Calls on an intercommunicator branch off earlier.)
pub fn place(members: &Members) -> RankPlace {
    RankPlace { rank: members.rank(), size: members.size() }
}

/// How an intracommunicator's ranks are spread over nodes, and when two levels pay; `None` if it is
/// on one node or two-level algorithms are off.
#[inline]
pub fn spread(members: &Members) -> Result<Option<(&RanksByNode, &'static TwoLevel)>> {
    let (Some(layout), Some(limits)) = (members.layout(), TwoLevel::in_force()) else {
        return Ok(None);
    };
    if layout.local().is_none() {
        layout.share(members.local()?);
    }
    Ok(Some((layout, limits)))
}

/// A buffer that an operation on an intercommunicator requires, as `MPI_IN_PLACE` is not allowed
/// there.
pub fn needed<T>(buffer: Option<T>) -> Result<T> {
    buffer.ok_or_else(|| {
        let reason = "an operation on an inter-communicator cannot work in place";
        Error::argument(c::ERR_BUFFER, "buffer", "MPI_IN_PLACE", reason)
    })
}

/// As [`needed`], for a rooted operation, where only the root's group may leave the buffer out.
pub fn needed_for<T>(root: Root, buffer: Option<T>) -> Result<Option<T>> {
    match root {
        Root::Remote(_) => needed(buffer).map(Some),
        Root::Here | Root::Beside => Ok(buffer),
    }
}

/// The rank that a collective call names as its root.
///
/// # Errors
/// `MPI_ERR_ROOT`.
pub fn rooted(me: RankPlace, root: i32) -> Result<usize> {
    usize::try_from(root).ok().filter(|&r| r < me.size).ok_or_else(|| {
        Error::argument(
            c::ERR_ROOT,
            "root",
            root,
            format!("the communicator has {} ranks", me.size),
        )
    })
}

/// Only the root may leave out its own buffer.
pub fn root_only<T>(me: RankPlace, root: usize, own: &Option<T>) -> Result<()> {
    if own.is_some() || me.rank == root { Ok(()) } else { Err(in_place_away_from_root()) }
}

pub fn reduction(
    argument: &'static str,
    count: i64,
    datatype: &Datatype,
    op: &Op,
) -> Result<Reduction> {
    let elements = checked_count(argument, count)?;
    op.check(datatype)?;
    datatype.shape(count)?;
    Ok(Reduction { op: op.clone(), datatype: datatype.clone(), count: elements })
}

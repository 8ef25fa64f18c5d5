//! What a call moves, as its arguments say it. The generated wrappers make a [`CallTraffic`];
//! `record` turns it into bytes and peers with the sizes and groups that MPI gives.

use std::ffi::{c_char, c_int, c_void};

use crate::comm::CommInfo;
pub use crate::files::{FilePlace, FileUse};
use crate::types::{IN_PLACE, MPI_Comm, MPI_Count, MPI_Datatype, MPI_File, MPI_Request, MPI_Win};

/// The `root` of collectives that have none.
pub const NO_ROOT: c_int = c_int::MIN;

/// What a call moves.
pub enum CallTraffic {
    /// Nothing, or nothing that the arguments say.
    Nothing,
    /// Nothing, on a communicator.
    On(MPI_Comm),
    /// It created a communicator.
    NewComm(*const MPI_Comm),
    /// It receives from this rank with this tag, or looks for such a message.
    From(MPI_Comm, c_int, c_int),
    /// It sends.
    To(MessageTraffic),
    /// It prepares sends, of the request written here.
    Prepare(*const MPI_Request, MessageTraffic),
    /// It starts that many prepared requests.
    Start(*const MPI_Request, c_int),
    /// It moves data between this process and a target of a window.
    Target {
        /// The window.
        win: MPI_Win,
        /// Rank in its group.
        peer: c_int,
        /// Number of elements.
        count: i64,
        /// Their type.
        datatype: MPI_Datatype,
    },
    /// A collective.
    Collective(CollectiveTraffic),
    /// It opened the file of this name.
    OpenFile(*const c_char, *const MPI_File),
    /// It reads or writes a file.
    File {
        /// The file.
        file: MPI_File,
        /// Where.
        place: FilePlace,
        /// Number of elements.
        count: i64,
        /// Their type.
        datatype: MPI_Datatype,
    },
    /// It does something else with a file.
    OnFile(MPI_File, FileUse),
}

/// A message of point-to-point communication.
pub struct MessageTraffic {
    /// Communicator.
    pub comm: MPI_Comm,
    /// Destination.
    pub peer: c_int,
    /// Its tag, and that of what the call receives.
    pub tags: TagPair,
    /// Number of elements.
    pub count: i64,
    /// Their type.
    pub datatype: MPI_Datatype,
}

/// Tags of a call.
#[derive(Clone, Copy)]
pub struct TagPair {
    /// Of the message that it sends or receives.
    pub tag: c_int,
    /// Of the message that it receives besides sending one.
    pub receive_tag: Option<c_int>,
}

impl TagPair {
    /// Of a call that sends or receives.
    pub fn one(tag: c_int) -> TagPair {
        TagPair { tag, receive_tag: None }
    }

    /// Of a call that does both.
    pub fn both(tag: c_int, receive_tag: c_int) -> TagPair {
        TagPair { tag, receive_tag: Some(receive_tag) }
    }
}

/// A collective call.
pub struct CollectiveTraffic {
    /// Communicator.
    pub comm: MPI_Comm,
    /// Root, or [`NO_ROOT`].
    pub root: c_int,
    /// Whose data goes where.
    pub flow: Flow,
    /// When it moves.
    pub start: DataStart,
    /// What this rank gives.
    pub data: Data,
}

/// Whose data goes where.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// The root's data to all.
    Broadcast,
    /// A block of the root's to each.
    Scatter,
    /// Everybody's to the root.
    Gather,
    /// Everybody's, combined, to the root.
    Reduce,
    /// Everybody's to all: the same to each, combined or not, or a block to each.
    ToAll,
    /// Everybody's, combined, a block to each; or no data.
    Mixed,
    /// Combined along the ranks: to those that come later.
    Chain,
    /// To the neighbors of a topology.
    Neighbors,
}

/// Who gets blocks of a collective.
#[derive(Clone, Copy)]
pub enum BlockReceiver {
    /// This rank of the world.
    Rank(u32),
    /// All members of a communicator.
    All(&'static CommInfo),
}

/// When a collective moves data.
#[derive(Clone, Copy)]
pub enum DataStart {
    /// In this call, which waits for others.
    Blocking,
    /// From this call on.
    Started,
    /// When the request written here is started.
    Persistent(*const MPI_Request),
}

/// What a rank gives to a collective.
#[derive(Clone, Copy)]
pub enum Data {
    /// Nothing, or it is not counted.
    None,
    /// A block: elements and their type.
    Block(i64, MPI_Datatype),
    /// Blocks of one type.
    Blocks(CountArray, MPI_Datatype),
    /// Of blocks of one type that of this rank.
    Own(CountArray, MPI_Datatype),
    /// Blocks of a type each.
    Each(CountArray, *const MPI_Datatype),
}

impl Data {
    /// A block.
    pub fn block(count: i64, datatype: MPI_Datatype) -> Data {
        Data::Block(count, datatype)
    }

    /// The first, or the second where `sendbuf` is `MPI_IN_PLACE`.
    pub fn unless_in_place(sendbuf: *const c_void, given: Data, in_place: Data) -> Data {
        if sendbuf.addr() == IN_PLACE { in_place } else { given }
    }
}

/// An array of counts in either width.
#[derive(Clone, Copy)]
pub enum CountArray {
    /// `int`.
    Int(*const c_int),
    /// `MPI_Count`.
    Wide(*const MPI_Count),
}

impl From<*const c_int> for CountArray {
    fn from(counts: *const c_int) -> CountArray {
        CountArray::Int(counts)
    }
}

impl From<*const MPI_Count> for CountArray {
    fn from(counts: *const MPI_Count) -> CountArray {
        CountArray::Wide(counts)
    }
}

impl CountArray {
    /// One of them.
    ///
    /// # Safety
    /// The array has more than `index` elements.
    pub unsafe fn get(self, index: usize) -> i64 {
        // SAFETY: as the caller promises.
        unsafe {
            match self {
                CountArray::Int(counts) => i64::from(*counts.add(index)),
                CountArray::Wide(counts) => *counts.add(index),
            }
        }
    }
}

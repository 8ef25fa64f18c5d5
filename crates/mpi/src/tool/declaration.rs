//! The declarations of events and their sources.

use super::error::{ToolInterfaceError, ToolResult};
use super::table::require;
use crate::constants as c;
use mica_node::counters::CounterGroup;
use mica_node::segment::monotonic_ns;

/// The type of an element of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ElementType {
    /// `MPI_INT`.
    Int,
    /// `MPI_UNSIGNED_LONG_LONG`.
    Unsigned,
}

/// An element of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Element {
    /// `MPI_INT`.
    Int(i32),
    /// `MPI_UNSIGNED_LONG_LONG`.
    Unsigned(u64),
}

/// The declaration of a type of events.
#[derive(Debug)]
pub struct EventDeclaration {
    /// Its name.
    pub name: &'static str,
    /// Where it is listed.
    pub group: CounterGroup,
    /// Index of its source.
    pub source: usize,
    /// A registration is for one communicator.
    pub of_comm: bool,
    /// Names and types of its elements.
    pub elements: [(&'static str, ElementType); ELEMENTS],
    /// One sentence.
    pub description: &'static str,
}

/// Elements of each event: two of `MPI_INT`, two of `MPI_UNSIGNED_LONG_LONG`, so that none needs
/// padding.
pub const ELEMENTS: usize = 4;

/// Offset of each element in what `MPI_T_event_copy` writes, and the bytes of all.
pub const OFFSETS: [usize; ELEMENTS] = [0, 4, 8, 16];
/// Bytes of the data of an event.
pub const EVENT_BYTES: usize = 24;

const fn message(detail: &'static str) -> [(&'static str, ElementType); ELEMENTS] {
    [
        ("source", ElementType::Int),
        ("tag", ElementType::Int),
        ("bytes", ElementType::Unsigned),
        (detail, ElementType::Unsigned),
    ]
}

pub(super) const ARRIVED: usize = 0;
pub(super) const UNEXPECTED: usize = 1;
pub(super) const PATH_CHOSEN: usize = 2;
pub(super) const LATE: usize = 3;
pub(super) const COMM_UNEXPECTED: usize = 4;

/// Every type of events.
pub(super) const EVENTS: [EventDeclaration; 5] = [
    EventDeclaration {
        name: "mica_message_arrived",
        group: CounterGroup::Matching,
        source: MESSAGES,
        of_comm: false,
        elements: message("posted"),
        description: "A message, or the announcement of a long one, has arrived: its source (rank \
            in MPI_COMM_WORLD), tag, bytes, and 1 if its receive was posted already.",
    },
    EventDeclaration {
        name: "mica_message_unexpected",
        group: CounterGroup::Matching,
        source: MESSAGES,
        of_comm: false,
        elements: message("queue_length"),
        description: "A message has arrived before its receive: its source (rank in \
            MPI_COMM_WORLD), tag, bytes, and the number of messages in the queue, with this one.",
    },
    EventDeclaration {
        name: "mica_protocol_chosen",
        group: CounterGroup::Paths,
        source: MESSAGES,
        of_comm: false,
        elements: message("path"),
        description: "The path of a long message from a rank of this node was chosen by this rank, \
            its receiver: its source (rank in MPI_COMM_WORLD), tag, bytes, and the path, a value \
            of the enumeration mica_message_path.",
    },
    EventDeclaration {
        name: "mica_late_arrival",
        group: CounterGroup::Collectives,
        source: COLLECTIVES,
        of_comm: false,
        elements: [
            ("late_rank", ElementType::Int),
            ("ranks", ElementType::Int),
            ("wait_ns", ElementType::Unsigned),
            ("inside_ns", ElementType::Unsigned),
        ],
        description: "A collective has ended in which another rank came later (with MICA_LATE=on): \
            the last rank, the communicator's size, the nanoseconds that this rank waited for it, \
            and those that it was in the call.",
    },
    EventDeclaration {
        name: "mica_comm_message_unexpected",
        group: CounterGroup::Matching,
        source: MESSAGES,
        of_comm: true,
        elements: message("queue_length"),
        description: "As mica_message_unexpected, for the messages of one communicator.",
    },
];

/// A source of events.
#[derive(Debug)]
pub struct EventSource {
    /// Its name.
    pub name: &'static str,
    /// One sentence.
    pub description: &'static str,
    /// `MPI_T_SOURCE_ORDERED` or `_UNORDERED`.
    pub order: i32,
}

const MESSAGES: usize = 0;
const COLLECTIVES: usize = 1;

const SOURCES: [EventSource; 2] = [
    EventSource {
        name: "mica_messages",
        description: "This rank's engine, which handles one packet at a time.",
        order: c::T_SOURCE_ORDERED,
    },
    EventSource {
        name: "mica_collectives",
        description: "The threads that leave collectives.",
        order: c::T_SOURCE_UNORDERED,
    },
];

/// Number of types of events.
pub const fn events() -> usize {
    EVENTS.len()
}

/// The declaration of a type.
///
/// # Errors
/// When there is none of this index.
pub fn event_declaration(index: i32) -> ToolResult<&'static EventDeclaration> {
    require()?;
    static DECLARATIONS: [EventDeclaration; 5] = EVENTS;
    let at = usize::try_from(index).map_err(|_| ToolInterfaceError::InvalidIndex)?;
    DECLARATIONS.get(at).ok_or(ToolInterfaceError::InvalidIndex)
}

/// The index of the type of this name.
///
/// # Errors
/// When there is none.
pub fn event_index(name: &str) -> ToolResult<i32> {
    require()?;
    let at = EVENTS.iter().position(|event| event.name == name);
    at.map(|at| at as i32).ok_or(ToolInterfaceError::InvalidName)
}

/// Number of sources.
pub const fn sources() -> usize {
    SOURCES.len()
}

/// The source of this index.
///
/// # Errors
/// When there is none.
pub fn source(index: i32) -> ToolResult<&'static EventSource> {
    require()?;
    static ALL: [EventSource; 2] = SOURCES;
    let at = usize::try_from(index).map_err(|_| ToolInterfaceError::InvalidIndex)?;
    ALL.get(at).ok_or(ToolInterfaceError::InvalidIndex)
}

/// The time of a source: nanoseconds of the monotonic clock, for all of them.
///
/// # Errors
/// When there is none of this index.
pub fn source_now(index: i32) -> ToolResult<i64> {
    source(index)?;
    Ok(monotonic_ns() as i64)
}

/// An event while its callbacks run.
#[derive(Debug, Clone, Copy)]
pub struct Instance {
    /// Its number, which the callback gets as a handle.
    pub number: u32,
    /// Index of its source.
    pub source: usize,
    /// When it happened.
    pub ns: u64,
    /// Its data.
    pub elements: [Element; ELEMENTS],
}

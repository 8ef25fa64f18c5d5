//! Performance variables that are bound to an object: a communicator or a window (MPI 5.0, 15.3.2).
//!
//! The length of a communicator's unexpected queue is always known
//! ([`UnexpectedCounts`](mica_protocol::UnexpectedCounts)), and so is what a window counts
//! ([`WindowCountsBlock`]). The messages of a communicator are counted only as long as there is a
//! handle for it ([`CommCounts`]), because the fast paths have no place for it: with a handle for
//! what is sent, the communicator loses its fast path, with one for what arrives, receives are
//! posted.

use std::sync::Arc;

use super::error::{ToolInterfaceError, ToolResult};
use crate::comm::{Comm, CommCounts, SentObserver};
use crate::constants as c;
use crate::process;
use crate::window::{Window, WindowCountsBlock};
use mica_node::counters::CounterGroup;

/// What a variable is bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectKind {
    /// Nothing: it belongs to the process.
    None,
    /// A communicator.
    Comm,
    /// A window.
    Win,
}

/// What a bound variable shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ObjectQuantity {
    SentMessages,
    SentBytes,
    ArrivedMessages,
    ArrivedBytes,
    UnexpectedMessages,
    UnexpectedQueue,
    Operations,
    OperationBytes,
    Locks,
    LockWaits,
}

/// The declaration of a bound variable.
#[derive(Debug)]
pub(super) struct ObjectVariable {
    pub name: &'static str,
    pub class: i32,
    pub description: &'static str,
    quantity: ObjectQuantity,
}

const fn variable(
    name: &'static str,
    quantity: ObjectQuantity,
    class: i32,
    description: &'static str,
) -> ObjectVariable {
    ObjectVariable { name, quantity, class, description }
}

/// All bound variables.
pub(super) const OBJECT_VARIABLES: [ObjectVariable; 10] = [
    variable(
        "mica_comm_sent_messages",
        ObjectQuantity::SentMessages,
        c::T_PVAR_CLASS_COUNTER,
        "Messages of the program that this rank has sent on the communicator; partitioned ones and \
         those of collectives are not counted.",
    ),
    variable(
        "mica_comm_sent_bytes",
        ObjectQuantity::SentBytes,
        c::T_PVAR_CLASS_AGGREGATE,
        "Bytes of the messages that mica_comm_sent_messages counts.",
    ),
    variable(
        "mica_comm_arrived_messages",
        ObjectQuantity::ArrivedMessages,
        c::T_PVAR_CLASS_COUNTER,
        "Messages of the program, or announcements of long ones, that have arrived on the \
         communicator.",
    ),
    variable(
        "mica_comm_arrived_bytes",
        ObjectQuantity::ArrivedBytes,
        c::T_PVAR_CLASS_AGGREGATE,
        "Bytes of the messages that mica_comm_arrived_messages counts.",
    ),
    variable(
        "mica_comm_unexpected_messages",
        ObjectQuantity::UnexpectedMessages,
        c::T_PVAR_CLASS_COUNTER,
        "Those of them that arrived before a receive for them was posted.",
    ),
    variable(
        "mica_comm_unexpected_queue",
        ObjectQuantity::UnexpectedQueue,
        c::T_PVAR_CLASS_LEVEL,
        "Messages of the communicator that have arrived and wait for their receives.",
    ),
    variable(
        "mica_win_operations",
        ObjectQuantity::Operations,
        c::T_PVAR_CLASS_COUNTER,
        "One-sided operations of this rank on the window, by whichever means.",
    ),
    variable(
        "mica_win_bytes",
        ObjectQuantity::OperationBytes,
        c::T_PVAR_CLASS_AGGREGATE,
        "Bytes of the operations that mica_win_operations counts.",
    ),
    variable(
        "mica_win_locks",
        ObjectQuantity::Locks,
        c::T_PVAR_CLASS_COUNTER,
        "Locks of the window that this rank has asked for.",
    ),
    variable(
        "mica_win_lock_waits",
        ObjectQuantity::LockWaits,
        c::T_PVAR_CLASS_COUNTER,
        "Times that this rank waited for a lock of the window.",
    ),
];

impl ObjectQuantity {
    const fn kind(self) -> ObjectKind {
        use ObjectQuantity as Q;
        match self {
            Q::Operations | Q::OperationBytes | Q::Locks | Q::LockWaits => ObjectKind::Win,
            _ => ObjectKind::Comm,
        }
    }
}

impl ObjectVariable {
    /// It has a value at this moment, which can be neither written nor reset.
    pub fn is_continuous(&self) -> bool {
        self.class == c::T_PVAR_CLASS_LEVEL
    }

    /// Where it is listed.
    pub fn group(&self) -> CounterGroup {
        match self.kind() {
            ObjectKind::Win => CounterGroup::Windows,
            _ => CounterGroup::Matching,
        }
    }

    /// What it is bound to.
    pub fn kind(&self) -> ObjectKind {
        self.quantity.kind()
    }

    /// Binds it to the object that `handle` names.
    ///
    /// # Errors
    /// When there is no such object; `OutOfHandles` for a window without counts of its own.
    pub fn bind(&self, handle: u32) -> ToolResult<BoundObject> {
        if self.quantity.kind() == ObjectKind::Win {
            let window = Window::resolve(handle).map_err(|_| ToolInterfaceError::InvalidHandle)?;
            let block = window.counts_block().ok_or(ToolInterfaceError::OutOfHandles)?;
            let quantity = self.quantity;
            return Ok(BoundObject::Win(BoundWin { quantity, block }));
        }
        let comm = Comm::resolve(handle).map_err(|_| ToolInterfaceError::InvalidHandle)?;
        let is_sent =
            matches!(self.quantity, ObjectQuantity::SentMessages | ObjectQuantity::SentBytes);
        Ok(BoundObject::Comm(BoundComm {
            quantity: self.quantity,
            context: comm.context(),
            counts: comm.counts(),
            _sent: is_sent.then(|| comm.observe_sent()),
        }))
    }
}

/// The object of a handle, which stays countable as long as the handle exists.
#[derive(Debug)]
pub(super) enum BoundObject {
    None,
    Comm(BoundComm),
    Win(BoundWin),
}

#[derive(Debug)]
pub(super) struct BoundComm {
    quantity: ObjectQuantity,
    pub context: u64,
    pub counts: Arc<CommCounts>,
    _sent: Option<SentObserver>,
}

impl BoundComm {
    /// Whether arrivals must be seen for it; and those of unexpected messages.
    pub fn wants_arrivals(&self) -> bool {
        use ObjectQuantity as Q;
        matches!(self.quantity, Q::ArrivedMessages | Q::ArrivedBytes)
    }

    pub fn wants_unexpected(&self) -> bool {
        self.quantity == ObjectQuantity::UnexpectedMessages
    }

    fn value(&self) -> u64 {
        use ObjectQuantity as Q;
        match self.quantity {
            Q::SentMessages => self.counts.sent.messages(),
            Q::SentBytes => self.counts.sent.bytes(),
            Q::ArrivedMessages => self.counts.arrived.messages(),
            Q::ArrivedBytes => self.counts.arrived.bytes(),
            Q::UnexpectedMessages => self.counts.unexpected.messages(),
            _ => {
                let engine = process::started_engine();
                engine.map_or(0, |engine| engine.unexpected_of(self.context).into())
            }
        }
    }
}

#[derive(Debug)]
pub(super) struct BoundWin {
    quantity: ObjectQuantity,
    block: Arc<WindowCountsBlock>,
}

impl BoundWin {
    fn value(&self) -> u64 {
        let counts = self.block.counts();
        let operations = counts.operations.iter();
        match self.quantity {
            ObjectQuantity::Operations => operations.map(|(count, _)| count).sum(),
            ObjectQuantity::OperationBytes => operations.map(|(_, bytes)| bytes).sum(),
            ObjectQuantity::Locks => counts.locks,
            _ => counts.lock_waits,
        }
    }
}

impl BoundObject {
    /// The value of its variable at this moment.
    pub fn value(&self) -> u64 {
        match self {
            BoundObject::None => 0,
            BoundObject::Comm(comm) => comm.value(),
            BoundObject::Win(window) => window.value(),
        }
    }
}

//! Layout of the memory that a process shares with its adapter; see the module above.

use std::mem::{offset_of, size_of};
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Environment variable with the number of the adapter's descriptor.
pub const ADAPTER_VARIABLE: &str = "MICA_SIM_ADAPTER";
/// First register, and version of this layout.
pub const MAGIC: u64 = 0x4d49_4341_5349_4d01;
/// Offset of the commands; the registers have the page before them.
pub const COMMANDS_OFFSET: usize = 4096;
/// Places for commands; a place is free as soon as the doorbell's store returns.
pub const COMMANDS: usize = 64;
/// Offset of the events.
pub const EVENTS_OFFSET: usize = COMMANDS_OFFSET + COMMANDS * size_of::<Command>();
/// Places for events: the operations that may be pending at once.
pub const EVENTS: usize = 8192;
/// Bytes of the descriptor.
pub const DEVICE_BYTES: usize = EVENTS_OFFSET + EVENTS * size_of::<Event>();
/// `peer` of a receive or probe from any source.
pub const ANY_SOURCE: u32 = u32::MAX;
/// In `flags`: a receive or probe matches any tag.
pub const ANY_TAG: u32 = 1;

/// The adapter's registers. Those that the adapter reads on a store are 64 bytes apart.
#[repr(C, align(4096))]
#[derive(Debug)]
pub struct Registers {
    /// [`MAGIC`].
    pub magic: AtomicU64,
    /// This process's rank in the job.
    pub rank: AtomicU32,
    /// Number of ranks, each on a node of its own.
    pub size: AtomicU32,
    _identity_line: [u8; 48],
    /// Stored: number of a command's place. The command starts.
    pub doorbell: AtomicU64,
    _doorbell_line: [u8; 56],
    /// Stored: number of events that the process has taken. Returns when there is something new.
    pub wait: AtomicU64,
    _wait_line: [u8; 56],
    /// Stored: token of a posted receive whose payload the program will use at once, the hint of an
    /// application-driven injection.
    pub hint: AtomicU64,
    _hint_line: [u8; 56],
    /// Stored: the level of `MPI_Pcontrol`, which marks regions of interest.
    pub marker: AtomicU64,
}

impl Registers {
    /// Offset of `doorbell`.
    pub const DOORBELL: usize = offset_of!(Registers, doorbell);
    /// Offset of `wait`.
    pub const WAIT: usize = offset_of!(Registers, wait);
    /// Offset of `hint`.
    pub const HINT: usize = offset_of!(Registers, hint);
    /// Offset of `marker`.
    pub const MARKER: usize = offset_of!(Registers, marker);
}

/// What a process asks of its adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum CommandKind {
    /// Send (`tx_start`). Completes when the buffer may be reused.
    Send = 1,
    /// Synchronous send (`stx_start`). Completes when the message is matched.
    SendSynchronous = 2,
    /// Post a receive (`rx_start`). Completes when the message is in the buffer.
    Receive = 3,
    /// Cancel the posted receive with token `target`: [`OperationStatus::Done`], and that receive
    /// completes with [`OperationStatus::Cancelled`]; or [`OperationStatus::NotFound`].
    Cancel = 4,
    /// Look for an unexpected message that matches (`rx_probe`): [`OperationStatus::Done`] with
    /// source, tag and length, or [`OperationStatus::NotFound`].
    Probe = 5,
    /// As `Probe`, and takes the message out of matching; it is known by this operation's token.
    Extract = 6,
    /// Receive the message that the `Extract` with token `target` has taken.
    ReceiveExtracted = 7,
}

impl CommandKind {
    /// The operation of a code that a process wrote, if there is one.
    pub fn from_code(code: u32) -> Option<CommandKind> {
        use CommandKind::*;
        [Send, SendSynchronous, Receive, Cancel, Probe, Extract, ReceiveExtracted]
            .into_iter()
            .find(|op| *op as u32 == code)
    }
}

/// How an operation has completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum OperationStatus {
    /// As asked.
    Done = 1,
    /// The message was longer than the buffer, which has its first bytes.
    Truncated = 2,
    /// The receive was cancelled.
    Cancelled = 3,
    /// No message matches, or no such receive is posted.
    NotFound = 4,
    /// The request is not valid: no such operation, peer or token.
    Invalid = 5,
}

impl OperationStatus {
    /// The status of a code that the adapter wrote, if there is one.
    pub fn from_code(code: u32) -> Option<OperationStatus> {
        use OperationStatus::*;
        [Done, Truncated, Cancelled, NotFound, Invalid]
            .into_iter()
            .find(|status| *status as u32 == code)
    }
}

/// A request. Its 64 bytes are one cache line on machines with lines of 64 or 128 bytes.
#[repr(C, align(128))]
#[derive(Debug)]
pub struct Command {
    /// An [`CommandKind`].
    pub operation: AtomicU32,
    /// Rank of the receiver, or of the sender to receive from, or [`ANY_SOURCE`].
    pub peer: AtomicU32,
    /// Context of the communicator, compared for equality.
    pub context: AtomicU64,
    /// Tag, an `i32`.
    pub tag: AtomicU32,
    /// 0 or [`ANY_TAG`].
    pub flags: AtomicU32,
    /// Address of the buffer in the process.
    pub address: AtomicU64,
    /// Bytes of the buffer.
    pub length: AtomicU64,
    /// The process's name for the operation; no two that are pending, and no message that is
    /// extracted, have the same.
    pub token: AtomicU64,
    /// Token of another operation, for `Cancel` and `ReceiveExtracted`.
    pub target: AtomicU64,
}

/// The completion of an operation.
#[repr(C, align(128))]
#[derive(Debug)]
pub struct Event {
    /// 1 + number of this event since the start. Written last.
    pub sequence: AtomicU64,
    /// The operation's token.
    pub token: AtomicU64,
    /// A [`OperationStatus`].
    pub status: AtomicU32,
    /// Rank of the message's sender.
    pub source: AtomicU32,
    /// The message's tag, an `i32`.
    pub tag: AtomicU32,
    _reserved: u32,
    /// Bytes of the message, also if the buffer is shorter.
    pub length: AtomicU64,
}

const _: () = {
    assert!(size_of::<Command>() == 128);
    assert!(offset_of!(Command, target) + 8 <= 64);
    assert!(size_of::<Event>() == 128);
    assert!(offset_of!(Event, length) + 8 <= 64);
    assert!(size_of::<Registers>() == COMMANDS_OFFSET);
    assert!(Registers::DOORBELL == 64 && Registers::WAIT == 128);
    assert!(Registers::HINT == 192 && Registers::MARKER == 256);
};

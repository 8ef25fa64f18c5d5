//! The packets between two engines. Each kind is written in one place and read in one place.
//!
//! | kind | inline words | after them |
//! |---|---|---|
//! | `EAGER` | the message itself, or nothing if it lies in the arena | |
//! | `EAGER_SYNC` | sender's op | message in the arena |
//! | `CELLS` | total length | cell numbers (`aux` of them), the first of the message |
//! | `MORE_CELLS` | 0, or receiver's op + 1 | cell numbers, the next of the message |
//! | `RTS` | length, copy_index, memory kind; sender's op, runs; address; exposure or key | |
//! | `CTS` | sender's op, receiver's op, position to continue from | |
//! | `FIN` | sender's op | |
//! | `JOIN` | sender's and receiver's op; length; address; exposure (2 words) | |
//! | `PUSHED` | receiver's op | |
//! | `SKEW` | | |
//! | `HOLD` | | |
//! | `CREDIT` | messages received since the start | |
//! | `CHUNK` | receiver's op + 1 | the next bytes of the message, as payload |
//! | `RTS_REST` | sender's op, receiver's op | |
//! | `CANCEL`, `CANCELLED` | sender's op | |
//! | `TARGET_COPY` | length, copy_index; offset in the window; buffer (2 words); operation | |
//! | `MIGRATE` | address | |
//!
//! `tag` and `aux` of a `TARGET_COPY` are the bytes at the ends that are not divided.
//!
//! In an `RTS`, the copy_index is the index of the sender's cooperative copy, `runs` the number of
//! runs; the last field is an exposure (2 words) or, over the network, a key.
//!
//! `RTS`, `JOIN`, `PUSHED`, `FIN`, `SKEW` and `HOLD` have flags in `aux`.

use mica_channel::RemoteRegion;
use mica_channel::direct::{Exposure, SenderBuffer};
use mica_channel::shm::{INLINE, Packet};
use mica_node::counters::TrafficClass;
use std::ops::Range;

/// A whole message.
pub const EAGER: u8 = 1;
/// A whole message whose sender waits until it is matched.
pub const EAGER_SYNC: u8 = 2;
/// The first cells of a message.
pub const CELLS: u8 = 3;
/// More cells of the message that is arriving from this sender.
pub const MORE_CELLS: u8 = 4;
/// Request to send (RTS): the message is still at the sender.
pub const RTS: u8 = 5;
/// Clear to send (CTS): the receiver wants the message through cells, or in chunks.
pub const CTS: u8 = 6;
/// FIN: the receiver has received, or has matched, the message.
pub const FIN: u8 = 7;
/// Basic design and network: the next bytes of a message that the receiver asked for.
pub const CHUNK: u8 = 11;
/// Basic design: request to send the rest of a message, because it has used up the FIFO.
pub const RTS_REST: u8 = 12;
/// The receiver's buffer is open to the sender, which may copy from the message's end.
pub const JOIN: u8 = 8;
/// The sender has copied the pieces that it took of a message.
pub const PUSHED: u8 = 9;

/// The receiver of this rank's messages lags behind, or has caught up.
pub const SKEW: u8 = 10;

/// The receiver of this rank's messages, reached over the network, holds them back, or has stopped
/// doing so.
pub const HOLD: u8 = 13;

/// The number of this rank's messages that their receiver, over the network, has received.
pub const CREDIT: u8 = 14;

/// The origin of a long transfer in this rank's part of a window asks this rank to copy, too.
pub const TARGET_COPY: u8 = 15;

/// An origin reaches this rank's part of a window by address so often that migrating it pays.
pub const MIGRATE: u8 = 18;

/// The sender cancels a message.
pub const CANCEL: u8 = 16;

/// The receiver has dropped a message that was cancelled before a receive has matched it.
pub const CANCELLED: u8 = 17;

/// Maximum number of cells that one control message announces.
pub const CELLS_MAX: usize = (INLINE - 8) / 2;

/// A request to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RtsPacket {
    /// Length of the message in bytes.
    pub len: u64,
    /// The sender's operation.
    pub op: u32,
    /// Index of the sender's cooperative copy, by which both sides can copy the message.
    pub copy_index: Option<u8>,
    /// Where the message lies, if the receiver may read it through the kernel.
    pub remote: Option<SenderBuffer>,
    /// How the receiver can load from it, if it is contiguous and can be mapped.
    pub exposure: Option<Exposure>,
    /// The exposure is cached and not verified: the sender confirms it in the cooperative copy.
    pub unverified: bool,
    /// Where the message lies, for reads over the network.
    pub registered: Option<RemoteRegion>,
}

/// A receiver's buffer, open to the sender of the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JoinPacket {
    /// The sender's operation.
    pub sender_op: u32,
    /// The receiver's operation.
    pub receiver_op: u32,
    /// Bytes of the message that the buffer can hold.
    pub len: u64,
    /// Address of the buffer, which is contiguous.
    pub address: u64,
    /// How the sender can store to it, if it can be mapped.
    pub exposure: Option<Exposure>,
    /// The sender copies the whole message, and completes it.
    pub sender_copies_all: bool,
    /// The exposure is cached and not verified: the receiver confirms it in the cooperative copy.
    pub unverified: bool,
}

/// What an origin asks its target to copy as well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetCopyRequest {
    /// Bytes of the transfer.
    pub bytes: usize,
    /// Those that both sides reach and divide: all but less than a page at each end.
    pub divided: Range<usize>,
    /// Where it begins in the target's part of the window.
    pub offset: u64,
    /// By which words the target opens the origin's buffer.
    pub buffer: [u64; 2],
    /// What to do with the bytes: for the [`TargetCopier`](crate::TargetCopier) alone.
    pub operation: u64,
}

/// A request to copy in a window as well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetCopyPacket {
    /// Index of the origin's cooperative copy.
    pub copy_index: u8,
    /// The transfer.
    pub request: TargetCopyRequest,
}

/// `RTS`'s first word: length in the low bits, copy_index, kind of memory.
const LEN_BITS: u32 = 48;
const NO_COPY: u64 = 0xff;
const NOT_READABLE: u64 = 0;
const CONTIGUOUS: u64 = 1;
const RUNS: u64 = 2;
const REGISTERED: u64 = 3;

fn set_exposure(p: &mut Packet, exposure: Option<Exposure>) {
    let [a, b] = exposure.map_or([0; 2], |e| e.to_words());
    p.set_word(3, a);
    p.set_word(4, b);
}

fn exposure(p: &Packet) -> Option<Exposure> {
    Exposure::from_words([p.word(3), p.word(4)])
}

/// A packet of a kind with these inline words.
fn of_words<const N: usize>(kind: u8, words: [u64; N]) -> Packet {
    let mut p = Packet::of_kind(kind);
    for (at, word) in words.into_iter().enumerate() {
        p.set_word(at, word);
    }
    p
}

pub fn rts(context: u64, tag: i32, r: &RtsPacket) -> Packet {
    debug_assert!(r.len < 1 << LEN_BITS);
    let mut p = Packet { context, tag, aux: u16::from(r.unverified), ..Packet::of_kind(RTS) };
    let (kind, address, runs) = match (r.remote, r.registered) {
        (None, None) => (NOT_READABLE, 0, 0),
        (None, Some(region)) => (REGISTERED, region.address, 0),
        (Some(SenderBuffer::Contiguous { address }), _) => (CONTIGUOUS, address, 0),
        (Some(SenderBuffer::Runs { table, count }), _) => (RUNS, table, count),
    };
    debug_assert!(runs < 1 << 32);
    let copy_index = r.copy_index.map_or(NO_COPY, u64::from);
    p.set_word(0, r.len | copy_index << LEN_BITS | kind << (LEN_BITS + 8));
    p.set_word(1, u64::from(r.op) | runs << 32);
    p.set_word(2, address);
    match r.registered {
        Some(region) => p.set_word(3, region.key),
        None => set_exposure(&mut p, r.exposure),
    }
    p
}

pub fn read_rts(p: &Packet) -> RtsPacket {
    let (head, ops, address) = (p.word(0), p.word(1), p.word(2));
    let copy_index = head >> LEN_BITS & 0xff;
    let kind = head >> (LEN_BITS + 8);
    RtsPacket {
        len: head & ((1 << LEN_BITS) - 1),
        op: ops as u32,
        copy_index: (copy_index != NO_COPY).then_some(copy_index as u8),
        remote: match kind {
            CONTIGUOUS => Some(SenderBuffer::Contiguous { address }),
            RUNS => Some(SenderBuffer::Runs { table: address, count: ops >> 32 }),
            _ => None,
        },
        exposure: if kind == REGISTERED { None } else { exposure(p) },
        unverified: p.aux == 1,
        registered: (kind == REGISTERED).then(|| RemoteRegion { key: p.word(3), address }),
    }
}

pub fn join(j: &JoinPacket) -> Packet {
    let mut p = Packet {
        aux: u16::from(j.sender_copies_all) | u16::from(j.unverified) << 1,
        ..Packet::of_kind(JOIN)
    };
    p.set_word(0, u64::from(j.sender_op) | u64::from(j.receiver_op) << 32);
    p.set_word(1, j.len);
    p.set_word(2, j.address);
    set_exposure(&mut p, j.exposure);
    p
}

pub fn read_join(p: &Packet) -> JoinPacket {
    JoinPacket {
        sender_op: p.word(0) as u32,
        receiver_op: (p.word(0) >> 32) as u32,
        len: p.word(1),
        address: p.word(2),
        exposure: exposure(p),
        sender_copies_all: p.aux & 1 == 1,
        unverified: p.aux >> 1 == 1,
    }
}

pub fn target_copy(context: u64, a: &TargetCopyPacket) -> Packet {
    let TargetCopyRequest { bytes, ref divided, offset, buffer: [first, second], operation } =
        a.request;
    let (before, behind) = (divided.start, bytes - divided.end);
    debug_assert!((bytes as u64) < 1 << LEN_BITS && before.max(behind) <= 0xffff);
    let head = bytes as u64 | u64::from(a.copy_index) << LEN_BITS;
    let words = of_words(TARGET_COPY, [head, offset, first, second, operation]);
    Packet { context, tag: before as i32, aux: behind as u16, ..words }
}

pub fn read_target_copy(p: &Packet) -> TargetCopyPacket {
    let bytes = (p.word(0) & ((1 << LEN_BITS) - 1)) as usize;
    TargetCopyPacket {
        copy_index: (p.word(0) >> LEN_BITS) as u8,
        request: TargetCopyRequest {
            bytes,
            divided: p.tag as usize..bytes - usize::from(p.aux),
            offset: p.word(1),
            buffer: [p.word(2), p.word(3)],
            operation: p.word(4),
        },
    }
}

pub fn migrate(context: u64, address: u64) -> Packet {
    Packet { context, ..of_words(MIGRATE, [address]) }
}

/// The address of the memory.
pub fn read_migrate(p: &Packet) -> u64 {
    p.word(0)
}

pub fn pushed(receiver_op: u32, outcome: PushOutcome) -> Packet {
    Packet { aux: outcome as u16, ..of_words(PUSHED, [receiver_op.into()]) }
}

/// The receiver's op, and how the sender's part of the copy ended.
pub fn read_pushed(p: &Packet) -> (u32, PushOutcome) {
    let outcome = match p.aux {
        0 => PushOutcome::Copied,
        _ => PushOutcome::Failed,
    };
    (p.word(0) as u32, outcome)
}

/// How the sender's part of a copy into the receiver's buffer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PushOutcome {
    Copied = 0,
    Failed = 1,
}

pub fn skew(skewed: bool) -> Packet {
    Packet { aux: u16::from(skewed), ..Packet::of_kind(SKEW) }
}

/// Whether the receiver lags behind.
pub fn read_skew(p: &Packet) -> bool {
    p.aux == 1
}

pub fn hold(on: bool) -> Packet {
    Packet { aux: u16::from(on), ..Packet::of_kind(HOLD) }
}

pub fn credit(received: u64) -> Packet {
    of_words(CREDIT, [received])
}

/// Whether the receiver holds messages back.
pub fn read_hold(p: &Packet) -> bool {
    p.aux == 1
}

pub fn cts(sender_op: u32, receiver_op: u32, position: usize) -> Packet {
    of_words(CTS, [sender_op.into(), receiver_op.into(), position as u64])
}

pub fn chunk(target: u64, bytes: usize) -> Packet {
    Packet { payload: bytes as u32, ..of_words(CHUNK, [target]) }
}

pub fn rts_rest(sender_op: u32, receiver_op: u32) -> Packet {
    of_words(RTS_REST, [sender_op.into(), receiver_op.into()])
}

pub fn cancel(sender_op: u32) -> Packet {
    of_words(CANCEL, [sender_op.into()])
}

pub fn cancelled(sender_op: u32) -> Packet {
    of_words(CANCELLED, [sender_op.into()])
}

/// The sender's op of a `CANCEL` or `CANCELLED`.
pub fn read_cancel(p: &Packet) -> u32 {
    p.word(0) as u32
}

/// `class`: the path that the bytes took.
pub fn fin(sender_op: u32, class: TrafficClass) -> Packet {
    let aux = match class {
        TrafficClass::Mapped => 1,
        TrafficClass::Net => 2,
        _ => 0,
    };
    Packet { aux, ..of_words(FIN, [sender_op.into()]) }
}

/// The sender's op, and the path that the bytes took.
pub fn read_fin(p: &Packet) -> (u32, TrafficClass) {
    let class = match p.aux {
        1 => TrafficClass::Mapped,
        2 => TrafficClass::Net,
        _ => TrafficClass::Direct,
    };
    (p.word(0) as u32, class)
}

/// A packet that announces `cells`; `word` is the total length (`CELLS`) or the target
/// (`MORE_CELLS`).
pub fn cells(kind: u8, context: u64, tag: i32, word: u64, cells: &[u16]) -> Packet {
    debug_assert!(cells.len() <= CELLS_MAX);
    let mut p = Packet { context, tag, aux: cells.len() as u16, ..Packet::of_kind(kind) };
    p.set_word(0, word);
    for (i, cell) in cells.iter().enumerate() {
        p.inline[8 + 2 * i..10 + 2 * i].copy_from_slice(&cell.to_ne_bytes());
    }
    p.inline_len = INLINE as u8;
    p
}

/// The cells that a packet announces.
pub fn read_cells(p: &Packet) -> impl Iterator<Item = u16> + use<> {
    let (n, inline) = (usize::from(p.aux).min(CELLS_MAX), p.inline);
    (0..n).map(move |i| u16::from_ne_bytes([inline[8 + 2 * i], inline[9 + 2 * i]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exposures() -> [Option<Exposure>; 2] {
        [None, Exposure::from_words([3, 0x7f00_1234_5000])]
    }

    #[test]
    fn rts_round_trips() {
        for remote in [
            None,
            Some(SenderBuffer::Contiguous { address: 0x1234 }),
            Some(SenderBuffer::Runs { table: 0x99, count: 3 }),
        ] {
            for (exposure, copy_index) in exposures().into_iter().zip([None, Some(63)]) {
                let r = RtsPacket {
                    len: 1 << 40,
                    op: 7,
                    copy_index,
                    remote,
                    exposure,
                    unverified: copy_index.is_some(),
                    registered: None,
                };
                assert_eq!(read_rts(&rts(2, 3, &r)), r);
            }
        }
        let r = RtsPacket {
            len: 9,
            op: 1,
            copy_index: None,
            remote: None,
            exposure: None,
            unverified: false,
            registered: Some(RemoteRegion { key: u64::MAX, address: 0x1234 }),
        };
        assert_eq!(read_rts(&rts(2, 3, &r)), r);
    }

    #[test]
    fn join_round_trips() {
        for (exposure, sender_copies_all) in exposures().into_iter().zip([false, true]) {
            let j = JoinPacket {
                sender_op: u32::MAX,
                receiver_op: 5,
                len: 1 << 40,
                address: 0x7fff_0000_1000,
                exposure,
                sender_copies_all,
                unverified: !sender_copies_all,
            };
            assert_eq!(read_join(&join(&j)), j);
        }
    }

    #[test]
    fn target_copy_round_trips() {
        let a = TargetCopyPacket {
            copy_index: 127,
            request: TargetCopyRequest {
                bytes: (1 << LEN_BITS) - 1,
                divided: 0xffff..(1 << LEN_BITS) - 2,
                offset: 1 << 50,
                buffer: [u64::MAX, 7],
                operation: 1 << 63,
            },
        };
        let packet = target_copy(9, &a);
        assert_eq!((read_target_copy(&packet), packet.context), (a, 9));
    }

    #[test]
    fn migrate_round_trips() {
        let packet = migrate(9, u64::MAX - 1);
        assert_eq!((read_migrate(&packet), packet.context), (u64::MAX - 1, 9));
    }

    #[test]
    fn completion_and_skew_packets_round_trip() {
        assert_eq!(read_pushed(&pushed(9, PushOutcome::Failed)), (9, PushOutcome::Failed));
        assert_eq!(read_pushed(&pushed(9, PushOutcome::Copied)), (9, PushOutcome::Copied));
        assert!(read_skew(&skew(true)) && !read_skew(&skew(false)));
        assert_eq!(read_fin(&fin(8, TrafficClass::Mapped)), (8, TrafficClass::Mapped));
        assert_eq!(read_fin(&fin(8, TrafficClass::Direct)), (8, TrafficClass::Direct));
        assert_eq!(read_fin(&fin(8, TrafficClass::Net)), (8, TrafficClass::Net));
    }

    #[test]
    fn cells_round_trip() {
        let all: Vec<u16> = (0..CELLS_MAX as u16).map(|i| i * 1000).collect();
        for n in 0..=all.len() {
            let p = cells(CELLS, 0, 0, 5, &all[..n]);
            assert_eq!(p.word(0), 5);
            assert_eq!(read_cells(&p).collect::<Vec<_>>(), all[..n]);
        }
    }
}

//! What the packets between two engines say. One place writes and one reads each kind.
//!
//! | kind | inline words | after them |
//! |---|---|---|
//! | `EAGER` | the message itself, or nothing if it lies in the arena | |
//! | `EAGER_SYNC` | sender's op | message in the arena |
//! | `CELLS` | total length | cell numbers (`aux` of them), the first of the message |
//! | `MORE_CELLS` | 0, or receiver's op + 1 | cell numbers, the next of the message |
//! | `REQUEST` | length, sender's op, address, number of runs | |
//! | `CLEAR` | sender's op, receiver's op, position to go on from | |
//! | `DONE` | sender's op | |
//! | `CHUNK` | receiver's op + 1 | the next bytes of the message, as payload |
//! | `REQUEST_MORE` | sender's op, receiver's op | |

use mica_channel::direct::Remote;
use mica_channel::shm::{INLINE, Packet};

/// A whole message.
pub const EAGER: u8 = 1;
/// A whole message whose sender waits until it is matched.
pub const EAGER_SYNC: u8 = 2;
/// The first cells of a message.
pub const CELLS: u8 = 3;
/// More cells of the message that is on its way from this sender.
pub const MORE_CELLS: u8 = 4;
/// Request to send: the message is still with the sender.
pub const REQUEST: u8 = 5;
/// Clear to send: the receiver wants the message through cells, or in chunks.
pub const CLEAR: u8 = 6;
/// The receiver has, or has matched, the message.
pub const DONE: u8 = 7;
/// Basic design: the next bytes of a message that the receiver asked for.
pub const CHUNK: u8 = 8;
/// Basic design: request to send again, as the FIFO is used up before the message is complete.
pub const REQUEST_MORE: u8 = 9;

/// Most cells that one control message announces.
pub const CELLS_MAX: usize = (INLINE - 8) / 2;

/// `REQUEST`'s number of runs when the receiver must not read the sender's memory.
const NOT_READABLE: u64 = u64::MAX;

/// A request to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Length of the message in bytes.
    pub len: u64,
    /// The sender's operation.
    pub op: u32,
    /// Where the message lies, if the receiver may read it.
    pub remote: Option<Remote>,
}

pub fn request(context: u64, tag: i32, r: &Request) -> Packet {
    let mut p = Packet {
        context,
        tag,
        ..Packet::of_kind(REQUEST)
    };
    p.set_word(0, r.len);
    p.set_word(1, u64::from(r.op));
    let (address, runs) = match r.remote {
        None => (0, NOT_READABLE),
        Some(Remote::Contiguous { address }) => (address, 0),
        Some(Remote::Runs { table, count }) => (table, count),
    };
    p.set_word(2, address);
    p.set_word(3, runs);
    p
}

pub fn read_request(p: &Packet) -> Request {
    let address = p.word(2);
    let remote = match p.word(3) {
        NOT_READABLE => None,
        0 => Some(Remote::Contiguous { address }),
        count => Some(Remote::Runs {
            table: address,
            count,
        }),
    };
    Request {
        len: p.word(0),
        op: p.word(1) as u32,
        remote,
    }
}

pub fn clear(sender_op: u32, receiver_op: u32, position: usize) -> Packet {
    let mut p = Packet::of_kind(CLEAR);
    p.set_word(0, u64::from(sender_op));
    p.set_word(1, u64::from(receiver_op));
    p.set_word(2, position as u64);
    p
}

pub fn chunk(target: u64, bytes: usize) -> Packet {
    let mut p = Packet {
        payload: bytes as u32,
        ..Packet::of_kind(CHUNK)
    };
    p.set_word(0, target);
    p
}

pub fn request_more(sender_op: u32, receiver_op: u32) -> Packet {
    let mut p = Packet::of_kind(REQUEST_MORE);
    p.set_word(0, u64::from(sender_op));
    p.set_word(1, u64::from(receiver_op));
    p
}

pub fn done(sender_op: u32) -> Packet {
    let mut p = Packet::of_kind(DONE);
    p.set_word(0, u64::from(sender_op));
    p
}

/// A packet that announces `cells`; `word` is the total length (`CELLS`) or the target (`MORE_CELLS`).
pub fn cells(kind: u8, context: u64, tag: i32, word: u64, cells: &[u16]) -> Packet {
    debug_assert!(cells.len() <= CELLS_MAX);
    let mut p = Packet {
        context,
        tag,
        aux: cells.len() as u16,
        ..Packet::of_kind(kind)
    };
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

    #[test]
    fn requests_survive_the_wire() {
        for remote in [
            None,
            Some(Remote::Contiguous { address: 0x1234 }),
            Some(Remote::Runs {
                table: 0x99,
                count: 3,
            }),
        ] {
            let r = Request {
                len: 1 << 40,
                op: 7,
                remote,
            };
            assert_eq!(read_request(&request(2, 3, &r)), r);
        }
    }

    #[test]
    fn cells_survive_the_wire() {
        let all: Vec<u16> = (0..CELLS_MAX as u16).map(|i| i * 1000).collect();
        for n in 0..=all.len() {
            let p = cells(CELLS, 0, 0, 5, &all[..n]);
            assert_eq!(p.word(0), 5);
            assert_eq!(read_cells(&p).collect::<Vec<_>>(), all[..n]);
        }
    }
}

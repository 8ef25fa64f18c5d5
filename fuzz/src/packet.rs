//! The packets between engines. The memory that a peer writes is not trusted: every bit pattern
//! decodes to a packet, and encoding and decoding that packet again gives the same one.

use mica_channel::shm::{INLINE, Packet};
use mica_protocol::packet::{self, CELLS, CELLS_MAX};

use crate::reader::Reader;

/// The header and the inline bytes of one packet.
pub fn run(bytes: &[u8]) {
    let mut from = Reader::new(bytes);
    let (context, tag) = (from.below(1 << 16) as u64, from.below(1 << 16) as i32);
    let mut p = Packet {
        aux: from.below(1 << 16) as u16,
        payload: from.below(1 << 16) as u32,
        context,
        tag,
        ..Packet::of_kind(from.byte())
    };
    let inline = from.take(INLINE);
    p.inline[..inline.len()].copy_from_slice(inline);
    p.inline_len = INLINE as u8;

    let rts = packet::read_rts(&p);
    let again = packet::read_rts(&packet::rts(context, tag, &rts));
    assert_eq!(again, rts);
    let join = packet::read_join(&p);
    assert_eq!(packet::read_join(&packet::join(&join)), join);
    let (op, failed) = packet::read_pushed(&p);
    assert_eq!(packet::read_pushed(&packet::pushed(op, failed)), (op, failed));
    let (op, class) = packet::read_fin(&p);
    assert_eq!(packet::read_fin(&packet::fin(op, class)), (op, class));
    let skewed = packet::read_skew(&p);
    assert_eq!(packet::read_skew(&packet::skew(skewed)), skewed);
    let cells: Vec<u16> = packet::read_cells(&p).collect();
    assert!(cells.len() <= CELLS_MAX && cells.len() <= usize::from(p.aux));
    let again = packet::cells(CELLS, context, tag, p.word(0), &cells);
    assert_eq!(packet::read_cells(&again).collect::<Vec<_>>(), cells);
}

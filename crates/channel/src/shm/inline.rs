//! Packets whose payload lies in their header.

use mica_memory::View;
use mica_node::ring::{INLINE, Packet};

/// The packet whose payload, at most [`INLINE`] bytes, is all of `view` and lies in its header.
pub fn inline_packet(kind: u8, context: u64, tag: i32, view: &View) -> Packet {
    debug_assert!(view.len() <= INLINE);
    let mut packet = Packet { context, tag, inline_len: view.len() as u8, ..Packet::of_kind(kind) };
    view.pack(0, &mut packet.inline);
    packet
}

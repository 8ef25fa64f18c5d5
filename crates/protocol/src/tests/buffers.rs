//! Buffers in which every byte is known: the bytes of the message, and those around it.

use std::sync::Arc;

use mica_memory::{Region, Shape, TypeLayout, View, fill};

use super::scripted::memory;

/// The content of a buffer before anything is received, and of its gaps afterwards.
const UNTOUCHED: u8 = 0xa5;

/// What a send's buffer is overwritten with as soon as the send has completed.
const REUSED: u8 = 0xee;

/// Bytes of a block of a scattered buffer.
const BLOCK: usize = 3;
/// Bytes from the start of one block to the next.
const STRIDE: usize = 5;

/// A message's buffer, in one piece or scattered.
#[derive(Debug)]
pub struct Buffer {
    pub view: View,
    region: Region,
    bytes: usize,
    scattered: bool,
}

impl Buffer {
    /// For `len` bytes, or a few less if scattered: a whole number of blocks.
    pub fn new(len: usize, scattered: bool) -> Buffer {
        let blocks = len / BLOCK;
        let (bytes, shape) = match scattered {
            false => (len, Shape::Contiguous { bytes: len }),
            true => {
                let byte = TypeLayout::basic(1, 1).expect("fits");
                let layout =
                    byte.hvector(blocks as u64, BLOCK as u64, STRIDE as i64).expect("fits");
                let shape = Shape::of(&Arc::new(layout), 1).expect("fits");
                (blocks * STRIDE, shape)
            }
        };
        let region = memory(bytes);
        fill(&region, UNTOUCHED, bytes);
        Buffer { view: region.clone().view(shape), region, bytes, scattered }
    }

    /// Holding message number `id`.
    pub fn of_message(id: usize, len: usize, scattered: bool) -> Buffer {
        let buffer = Buffer::new(len, scattered);
        buffer.view.unpack(0, &content(id, buffer.view.len()));
        buffer
    }

    /// Its memory, and the length of the memory in bytes.
    pub fn memory(&self) -> (Region, usize) {
        (self.region.clone(), self.bytes)
    }

    pub fn address(&self) -> usize {
        self.region.address()
    }

    /// Overwrites it, as a program may when its send has completed.
    pub fn reuse(&self) {
        fill(&self.region, REUSED, self.bytes);
    }

    /// Panics unless it holds the first bytes of message `id`, which has `sent` bytes, as far as
    /// they fit, and nothing else.
    pub fn assert_holds(&self, id: usize, sent: usize) {
        let mut expected = vec![UNTOUCHED; self.bytes];
        for (i, byte) in content(id, sent).into_iter().take(self.view.len()).enumerate() {
            let at = match self.scattered {
                false => i,
                true => i / BLOCK * STRIDE + i % BLOCK,
            };
            expected[at] = byte;
        }
        let mut found = vec![0; self.bytes];
        self.region.read_bytes(&mut found);
        assert!(
            found == expected,
            "message {id} of {sent} bytes is damaged in a buffer of {}: at {:?}",
            self.view.len(),
            found.iter().zip(&expected).position(|(a, b)| a != b)
        );
    }
}

/// The bytes of message number `id`.
pub fn content(id: usize, len: usize) -> Vec<u8> {
    let byte = |i: usize| {
        let mixed =
            (id as u64 + 1).wrapping_mul(0x9e37_79b9) ^ (i as u64).wrapping_mul(0x85eb_ca6b);
        (mixed ^ mixed >> 15) as u8
    };
    (0..len).map(byte).collect()
}

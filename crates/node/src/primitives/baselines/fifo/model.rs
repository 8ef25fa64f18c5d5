//! loom model of the FIFO: two threads, four lines, records of three, so that one record in three
//! wraps around the end of the buffer.

use super::*;
use loom::sync::Arc;

const PAYLOAD: usize = LINE + 8;

fn storage<'a>(
    boxed: &'a (Box<FifoHead>, Box<[FifoLine]>),
) -> FifoStorage<&'a FifoHead, &'a [FifoLine]> {
    FifoStorage { head: &*boxed.0, lines: &*boxed.1 }
}

#[test]
fn every_packet_arrives_once_and_whole() {
    loom::model(|| {
        let shared = Arc::new(boxed(4));
        let theirs = shared.clone();
        let sender = loom::thread::spawn(move || {
            let mut p = FifoProducer::new(storage(&theirs));
            for i in 0..3u8 {
                let mut packet = Packet::of_kind(i);
                packet.payload = PAYLOAD as u32;
                packet.inline[0] = i;
                let mut tries = 0;
                while !p.push(&packet, |offset, to, bytes| {
                    assert!(offset + bytes <= PAYLOAD);
                    // SAFETY: the FIFO hands out room for `bytes` bytes.
                    unsafe { std::ptr::write_bytes(to, i + 1, bytes) }
                }) {
                    tries += 1;
                    assert!(tries < 100);
                    loom::thread::yield_now();
                }
            }
        });
        let mut c = FifoConsumer::new(storage(&shared));
        for i in 0..3u8 {
            let packet = loop {
                if let Some(p) = c.peek() {
                    break p;
                }
                loom::thread::yield_now();
            };
            assert_eq!((packet.kind, packet.inline[0]), (i, i));
            let mut read = 0;
            c.with_payload(&packet, |offset, from, bytes| {
                assert_eq!(offset, read);
                // SAFETY: this many bytes were sent.
                let sent = unsafe { std::slice::from_raw_parts(from, bytes) };
                assert!(sent.iter().all(|&b| b == i + 1));
                read += bytes;
            });
            assert_eq!(read, PAYLOAD);
            c.consume(&packet);
        }
        assert!(!c.has_arrived());
        sender.join().expect("sender");
    });
}

//! loom model of the ring: two threads, two slots.

use super::*;

#[test]
fn every_packet_arrives_once_and_whole() {
    loom::model(|| {
        let storage = loom::sync::Arc::new(*RingStorage::boxed());
        let theirs = storage.clone();
        let sender = loom::thread::spawn(move || {
            let mut p = RingProducer::new(theirs);
            for i in 0..3u8 {
                let mut packet = Packet::of_kind(i);
                packet.payload = 8;
                packet.inline[0] = i;
                let mut tries = 0;
                while !p.push(&packet, |to| {
                    // SAFETY: the ring hands out room for 8 bytes.
                    unsafe { std::ptr::write_bytes(to, i + 1, 8) }
                }) {
                    tries += 1;
                    assert!(tries < 100);
                    loom::thread::yield_now();
                }
            }
        });
        let mut c = RingConsumer::new(storage);
        for i in 0..3u8 {
            let packet = loop {
                if let Some(p) = c.peek() {
                    break p;
                }
                loom::thread::yield_now();
            };
            assert_eq!((packet.kind, packet.inline[0]), (i, i));
            c.with_payload(&packet, |from| {
                // SAFETY: 8 bytes were sent.
                assert_eq!(unsafe { std::slice::from_raw_parts(from, 8) }, [i + 1; 8]);
            });
            c.consume(&packet);
        }
        sender.join().expect("sender");
    });
}

//! Sleeping until the network has something.

use super::kit::*;
use mica_channel::net::Net;
use mica_channel::transport::{Transport, WaitMode};

/// Waits for the descriptor; true if it became readable.
fn sleep(descriptor: i32, milliseconds: i32) -> bool {
    let mut poll = libc::pollfd { fd: descriptor, events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry.
    unsafe { libc::poll(&raw mut poll, 1, milliseconds) == 1 }
}

/// Polls until there is nothing left to do but wait.
fn settle(net: &mut Net) -> i32 {
    let dog = Watchdog::new();
    loop {
        net.poll();
        if let WaitMode::Descriptor(descriptor) = net.prepare_to_wait() {
            return descriptor;
        }
        dog.check("settling");
    }
}

#[test]
fn packet_makes_the_descriptor_readable() {
    let Some(mut nets) = job(2) else { return };
    // The first packets make the connection.
    send(&mut nets, 0, 1, &packet(0, 0), None);
    assert_eq!(receive(&mut nets, 1).1, packet(0, 0));
    let mut receiver = nets.pop().unwrap();
    let mut sender = nets.pop().unwrap();
    for number in 1..50u64 {
        let payload = filled((number as usize * 997) % 60_000, number);
        let waiter = std::thread::spawn(move || {
            let dog = Watchdog::new();
            loop {
                if let Some(found) = take(&mut receiver) {
                    return (receiver, found);
                }
                dog.check("the packet");
                match receiver.prepare_to_wait() {
                    WaitMode::Ready => {}
                    WaitMode::Poll | WaitMode::WakeUp => std::thread::yield_now(),
                    WaitMode::Descriptor(descriptor) => {
                        assert!(
                            sleep(descriptor, 20_000),
                            "packet {number} does not wake the receiver"
                        );
                    }
                }
            }
        });
        let head = packet(number, payload.len());
        let dog = Watchdog::new();
        while !sender.send(1, &head, Some(&payload), 0).unwrap() {
            sender.poll();
            dog.check("a send");
        }
        while !waiter.is_finished() {
            sender.poll();
            dog.check("the waiter");
        }
        let found;
        (receiver, found) = waiter.join().unwrap();
        assert_eq!(found, (0, head, content(&payload)));
    }
}

#[test]
fn idle_descriptor_is_not_readable() {
    let Some(mut nets) = job(2) else { return };
    send(&mut nets, 0, 1, &packet(0, 0), None);
    receive(&mut nets, 1);
    until(&mut nets, "draining", |nets| nets[0].is_drained().then_some(()));
    let mut quiet = false;
    for _ in 0..20 {
        let descriptor = settle(&mut nets[1]);
        settle(&mut nets[0]);
        quiet |= !sleep(descriptor, 20);
    }
    assert!(quiet, "it is always readable: to wait for it is to spin");
}

#[test]
fn refuses_to_wait_with_a_packet_at_hand() {
    let Some(mut nets) = job(2) else { return };
    send(&mut nets, 0, 1, &packet(0, 0), None);
    until(&mut nets, "a packet", |nets| mica_channel::PacketSource::peek(&mut nets[1]));
    assert_eq!(nets[1].prepare_to_wait(), WaitMode::Ready);
    let (_, view) = buffer(0);
    assert!(nets[0].start_read(1, NOWHERE, &view, 0, 5).unwrap());
    assert_eq!(nets[0].prepare_to_wait(), WaitMode::Ready);
    assert_eq!(nets[0].next_completion().map(|end| end.token), Some(5));
}

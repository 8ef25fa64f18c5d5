//! Long messages over the network, one packet at a time: by remote read, and by chunks if a read is
//! not possible.

use super::buffers::Buffer;
use super::rig::{HOLD, assert_idle, over_fabric};
use super::scripted::{Fabric, Script};
use crate::channels::packet;
use crate::engine::Engine;
use crate::matching::MatchPattern;
use crate::pt2pt::SendCompletion;

const LEN: usize = 1500;

/// Sends one long message to a receive of `capacity` bytes, and checks that it arrives.
fn exchange(script: Script, scattered: (bool, bool), capacity: usize) -> Fabric {
    let (engines, fabric) = over_fabric(2, script, 3, HOLD);
    let from = Buffer::of_message(1, LEN, scattered.0);
    let (region, bytes) = from.memory();
    fabric.add_buffer(0, region, bytes);
    let to = Buffer::new(capacity, scattered.1);
    let send = engines[0].enter(|state| state.send(1, 0, 5, &from.view, SendCompletion::Local));
    let send = send.expect("no fault").expect("it waits");
    let pattern = MatchPattern { context: 0, source: Some(0), tag: Some(5) };
    let receive = engines[1].enter(|state| state.receive(pattern, &to.view));
    let receive = receive.expect("no fault");
    let mut is_sent = false;
    let end = steps(&engines, || {
        is_sent = is_sent || engines[0].enter(|state| state.take_send(send).is_some());
        let is_received = engines[1].enter(|state| state.is_received(receive));
        (is_sent && is_received).then(|| engines[1].enter(|state| state.take_received(receive)))
    });
    let end = end.expect("received");
    assert_eq!((end.sent, end.capacity), (LEN, to.view.len()));
    to.assert_holds(1, LEN);
    engines.iter().for_each(assert_idle);
    fabric.assert_empty();
    fabric
}

/// Steps all engines in turn until `f` returns something.
fn steps<R>(engines: &[Engine], mut f: impl FnMut() -> Option<R>) -> R {
    for _ in 0..10_000 {
        for engine in engines {
            engine.enter(|state| state.progress()).expect("no fault");
        }
        if let Some(r) = f() {
            return r;
        }
    }
    panic!("hangs");
}

#[test]
fn reads_contiguous_messages() {
    for capacity in [LEN, LEN + 10, 700] {
        let fabric = exchange(Script::PLAIN, (false, false), capacity);
        assert_eq!((fabric.sent(packet::CHUNK), fabric.sent(packet::FIN)), (0, 1));
    }
}

#[test]
fn refused_read_falls_back_to_chunks() {
    for capacity in [LEN, 700] {
        let script = Script { refuses_reads: 1, ..Script::PLAIN };
        let fabric = exchange(script, (false, false), capacity);
        assert_eq!(fabric.sent(packet::CHUNK), LEN.div_ceil(script.payload_max) as u64);
        assert_eq!((fabric.sent(packet::CTS), fabric.sent(packet::FIN)), (1, 0));
    }
}

#[test]
fn scattered_or_unreadable_messages_use_chunks() {
    let without = Script { reads: false, ..Script::PLAIN };
    for (script, scattered) in [
        (without, (false, false)),
        (Script::PLAIN, (true, false)),
        (Script::PLAIN, (false, true)),
        (Script::PLAIN, (true, true)),
    ] {
        let fabric = exchange(script, scattered, LEN);
        assert_eq!(fabric.sent(packet::CHUNK), 8);
        assert_eq!((fabric.sent(packet::CTS), fabric.sent(packet::FIN)), (1, 0));
    }
}

/// An RTS without bytes to transfer is answered, so that the send completes.
#[test]
fn sends_fin_for_empty_receive_buffer() {
    let fabric = exchange(Script::PLAIN, (false, false), 0);
    assert_eq!((fabric.sent(packet::CHUNK), fabric.sent(packet::FIN)), (0, 1));
}

//! A lost peer ends every wait for it with [`Fault::Lost`], within a limited number of polls of the
//! network.

use std::time::Duration;

use super::buffers::Buffer;
use super::rig::{HOLD, over_fabric};
use super::scripted::{Fabric, Script};
use crate::channels::packet;
use crate::engine::{Engine, Fault};
use crate::matching::MatchPattern;
use crate::pt2pt::SendCompletion;
use SendCompletion::{Local, Matched};

/// More polls than any of these tests needs; they take a few seconds.
const POLLS_MAX: u64 = 20_000;

const LONG: usize = 5000;

fn three_ranks(script: Script) -> (Vec<Engine>, Fabric) {
    let (engines, fabric) = over_fabric(3, script, 1, HOLD);
    fabric.limit_polls(POLLS_MAX);
    (engines, fabric)
}

fn pattern(source: Option<u32>) -> MatchPattern {
    MatchPattern { context: 0, source, tag: None }
}

fn assert_lost<R: std::fmt::Debug>(result: Result<R, Fault>, peer: u32) {
    match result {
        Err(Fault::Lost { rank, .. }) => assert_eq!(rank, peer),
        other => panic!("rank {peer} is lost, but: {other:?}"),
    }
}

fn message(fabric: &Fabric, rank: u32, len: usize) -> Buffer {
    let buffer = Buffer::of_message(7, len, false);
    let (region, bytes) = buffer.memory();
    fabric.add_buffer(rank, region, bytes);
    buffer
}

#[test]
fn sends_to_lost_peer_fail() {
    for (len, completion) in [(8, Local), (100, Local), (8, Matched), (LONG, Local)] {
        let (engines, fabric) = three_ranks(Script::PLAIN);
        let buffer = message(&fabric, 0, len);
        fabric.lose(1);
        assert_lost(engines[0].send(1, 0, 0, &buffer.view, completion), 1);
    }
}

#[test]
fn losing_peer_ends_unmatched_send() {
    for completion in [Local, Matched] {
        let (engines, fabric) = three_ranks(Script::PLAIN);
        let len = if completion == Matched { 8 } else { LONG };
        let buffer = message(&fabric, 0, len);
        let sent = engines[0].enter(|state| state.send(1, 0, 0, &buffer.view, completion));
        let id = sent.expect("no fault").expect("it waits");
        fabric.lose(1);
        let waited = engines[0].drive(|_, _| {}, |state| state.take_send(id).map(|_| ()));
        assert_lost(waited, 1);
    }
}

/// The network reports no loss of a peer from which this rank only receives: the rank has to probe
/// it, however often it wakes meanwhile.
#[test]
fn losing_peer_ends_receive_despite_short_sleeps() {
    for wait_at_most in [None, Some(Duration::from_millis(1))] {
        let (engines, fabric) = three_ranks(Script { wait_at_most, ..Script::PLAIN });
        fabric.lose(1);
        if wait_at_most.is_none() {
            // Each sleep takes a second; the rank polls before the first one.
            fabric.limit_polls(u64::from(crate::MIN_POLLS_BEFORE_PARKING) + 40);
        }
        let buffer = Buffer::new(8, false);
        assert_lost(engines[0].receive(pattern(Some(1)), &buffer.view), 1);
    }
}

#[test]
fn losing_peer_ends_receive_during_read() {
    let (engines, fabric) = three_ranks(Script::PLAIN);
    let from = message(&fabric, 1, LONG);
    let to = Buffer::new(LONG, false);
    let sent = engines[1].enter(|state| state.send(0, 0, 0, &from.view, Local));
    assert!(sent.expect("no fault").is_some());
    // The RTS is handled, and the read begins; it cannot complete before the next poll.
    fabric.set_script(|script| script.brings = 0);
    assert!(fabric.deliver(1, 0));
    let id = engines[0].enter(|state| {
        let id = state.receive(pattern(Some(1)), &to.view).expect("no fault");
        assert!(state.progress().expect("no fault"));
        assert!(!state.rendezvous.reads.all.is_empty() && !state.is_received(id));
        id
    });
    fabric.lose(1);
    assert_lost(engines[0].drive(|_, _| {}, |state| state.take_received(id)), 1);
    assert_eq!(fabric.sent(packet::CTS), 0, "the sender is gone");
}

#[test]
fn receives_messages_sent_before_loss() {
    let (engines, fabric) = three_ranks(Script { brings: 0, ..Script::PLAIN });
    for id in [7, 8] {
        let buffer = Buffer::of_message(id, 8, false);
        engines[1].send(0, 0, 0, &buffer.view, Local).expect("room");
    }
    assert!(fabric.deliver(1, 0) && fabric.deliver(1, 0));
    fabric.lose(1);
    for id in [7, 8] {
        let buffer = Buffer::new(8, false);
        let end = engines[0].receive(pattern(None), &buffer.view).expect("it is there");
        assert_eq!((end.envelope.source, end.sent), (1, 8));
        buffer.assert_holds(id, 8);
    }
}

/// The loss of one peer is not a loss of the others, as long as a rank can continue without it.
#[test]
fn losing_one_peer_keeps_the_others_reachable() {
    let (engines, fabric) = three_ranks(Script { brings: 40, ..Script::PLAIN });
    fabric.lose(1);
    let buffer = Buffer::of_message(3, 8, false);
    assert_lost(engines[0].send(1, 0, 0, &buffer.view, Local), 1);
    engines[2].send(0, 0, 0, &buffer.view, Local).expect("room");
    let to = Buffer::new(8, false);
    engines[0].receive(pattern(Some(2)), &to.view).expect("rank 2 is there");
    to.assert_holds(3, 8);
}

//! Puts and gets of a peer's registered memory: every byte arrives, in bounded parts, whatever the
//! shapes on the two sides are; what fails ends with its error.

use super::buffers::Buffer;
use super::rig::{HOLD, assert_idle, over_fabric};
use super::scripted::{Fabric, Script};
use crate::engine::{Engine, Fault};
use crate::rma::{BOUNCE_MAX, PARTS_MAX, RmaDirection, RmaId, RmaTransfer};
use mica_channel::RemoteRegion;

/// A buffer of rank 1 that it has registered.
fn registered(engines: &[Engine], fabric: &Fabric, buffer: &Buffer) -> RemoteRegion {
    let (region, bytes) = buffer.memory();
    fabric.add_buffer(1, region.clone(), bytes);
    let region = engines[1].enter(|state| state.register_memory(region.address(), bytes));
    region.expect("the script registers what it is given")
}

fn start(
    engines: &[Engine],
    direction: RmaDirection,
    (remote, there): (RemoteRegion, &Buffer),
    here: &Buffer,
) -> RmaId {
    let transfer = RmaTransfer {
        direction,
        peer: 1,
        remote,
        shape: there.view.shape().clone(),
        view: here.view.clone(),
    };
    engines[0].enter(|state| state.start_rma(transfer))
}

/// Makes progress until a transfer has ended.
fn end(engines: &[Engine], id: RmaId) -> Result<(), Fault> {
    for _ in 0..100_000 {
        let ended = engines[0].enter(|state| {
            let parts = state.rma.parts.len();
            let under_way = state.rma.parts.iter();
            let bounced: usize =
                under_way.filter_map(|(_, part)| Some(part.bounce.as_ref()?.2)).sum();
            assert!(parts <= PARTS_MAX && bounced <= PARTS_MAX * BOUNCE_MAX);
            let _ = state.progress();
            state.take_rma(id)
        });
        if let Some(ended) = ended {
            return ended;
        }
    }
    panic!("the transfer goes on for ever");
}

#[test]
fn transfers_of_all_shapes_bring_every_byte() {
    let script = Script { refuses_sends: 3, ..Script::PLAIN };
    let (engines, fabric) = over_fabric(2, script, 9, HOLD);
    for (round, len) in [0, 3, 30, 3000, 30_000, 300_000].into_iter().enumerate() {
        for (scattered_here, scattered_there) in
            [(false, false), (true, false), (false, true), (true, true)]
        {
            // A part for each piece of a scattered peer: keep their number small.
            let len = if scattered_there { len.min(3000) } else { len };
            let (put, get) = (round, round + 100);
            let here = Buffer::of_message(put, len, scattered_here);
            let there = Buffer::new(len, scattered_there);
            let region = registered(&engines, &fabric, &there);
            let id = start(&engines, RmaDirection::Put, (region, &there), &here);
            assert_eq!(end(&engines, id), Ok(()));
            there.assert_holds(put, len);
            here.assert_holds(put, len);

            let from = Buffer::of_message(get, len, scattered_there);
            let from_region = registered(&engines, &fabric, &from);
            let to = Buffer::new(len, scattered_here);
            let id = start(&engines, RmaDirection::Get, (from_region, &from), &to);
            assert_eq!(end(&engines, id), Ok(()));
            to.assert_holds(get, len);
            for (region, buffer) in [(region, &there), (from_region, &from)] {
                engines[1].enter(|state| state.unregister_memory(region));
                fabric.remove_buffer(1, buffer.address());
            }
        }
    }
    engines.iter().for_each(assert_idle);
    fabric.assert_empty();
}

#[test]
fn many_transfers_at_once_share_the_parts() {
    let script = Script { refuses_sends: 4, ..Script::PLAIN };
    let (engines, fabric) = over_fabric(2, script, 5, HOLD);
    let transfers: Vec<_> = (0..40)
        .map(|i| {
            let here = Buffer::of_message(i, 60 + 9 * i, i % 2 == 0);
            let there = Buffer::new(60 + 9 * i, i % 3 == 0);
            let region = registered(&engines, &fabric, &there);
            let id = start(&engines, RmaDirection::Put, (region, &there), &here);
            (id, region, here, there)
        })
        .collect();
    for (i, (id, region, _here, there)) in transfers.iter().enumerate() {
        assert_eq!(end(&engines, *id), Ok(()));
        there.assert_holds(i, 60 + 9 * i);
        engines[1].enter(|state| state.unregister_memory(*region));
    }
    engines.iter().for_each(assert_idle);
    fabric.assert_empty();
}

#[test]
fn a_refused_part_ends_its_transfer_alone() {
    let script = Script { refuses_reads: 1, ..Script::PLAIN };
    let (engines, fabric) = over_fabric(2, script, 5, HOLD);
    let (here, there) = (Buffer::of_message(1, 900, false), Buffer::new(900, true));
    let region = registered(&engines, &fabric, &there);
    let refused = start(&engines, RmaDirection::Put, (region, &there), &here);
    match end(&engines, refused) {
        Err(Fault::Channel { detail }) => assert!(detail.contains("refused"), "{detail}"),
        other => panic!("{other:?}"),
    }
    fabric.set_script(|script| script.refuses_reads = 0);
    let next = start(&engines, RmaDirection::Put, (region, &there), &here);
    assert_eq!(end(&engines, next), Ok(()));
    there.assert_holds(1, 900);
    engines[1].enter(|state| state.unregister_memory(region));
    engines.iter().for_each(assert_idle);
}

#[test]
fn a_lost_peer_ends_transfers() {
    let (engines, fabric) = over_fabric(2, Script::PLAIN, 5, HOLD);
    let (here, there) = (Buffer::new(900, false), Buffer::new(900, true));
    let region = registered(&engines, &fabric, &there);
    let first = start(&engines, RmaDirection::Get, (region, &there), &here);
    let second = start(&engines, RmaDirection::Get, (region, &there), &here);
    fabric.lose(1);
    for id in [first, second] {
        match end(&engines, id) {
            Err(Fault::Lost { rank, .. }) => assert_eq!(rank, 1),
            other => panic!("{other:?}"),
        }
    }
}

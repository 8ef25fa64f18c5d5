//! Packets: order, content, room.

use proptest::prelude::*;

use super::kit::*;
use mica_channel::net::Net;
use mica_channel::transport::Transport;
use mica_channel::{Capabilities, PacketSource};
use mica_node::counters::Counters;

/// Sizes around every limit that there is: of inline areas, of what the provider copies, of its own
/// buffers, of ours.
fn size(number: u64, most: usize) -> usize {
    let special = [0, 1, 7, 8, 28, 64, 255, 256, 4096, 16_000, 16_384, 16_400, 40_000, most];
    match number % 3 {
        0 => special[(number / 3) as usize % special.len()],
        1 => (number as usize).wrapping_mul(7919) % 300,
        _ => (number as usize).wrapping_mul(104_729) % (most + 1),
    }
}

fn ten_thousand(provider: &str) {
    const COUNT: u64 = 10_000;
    let Some(mut nets) = job_with(2, &options(provider)) else {
        return;
    };
    assert!(nets[0].capabilities().contains(Capabilities::MESSAGES));
    let most = nets[0].payload_max();
    let payload = filled(most, 1);
    let bytes = content(&payload);
    let dog = Watchdog::new();
    let (mut sent, mut got) = (0, 0);
    while got < COUNT {
        while sent < COUNT {
            let packet = packet(sent, size(sent, most));
            let room = nets[0].has_room(1, packet.payload as usize);
            if !room || !nets[0].send(1, &packet, Some(&payload), 0).unwrap() {
                break;
            }
            sent += 1;
        }
        nets[0].poll();
        while let Some((source, found, body)) = take(&mut nets[1]) {
            assert_eq!((source, found), (0, packet(got, size(got, most))));
            assert!(body == bytes[..body.len()], "payload of packet {got}");
            got += 1;
        }
        dog.check("ten thousand packets");
    }
    assert_eq!(nets[1].counters(), Counters::default());
    assert!(nets[1].take_loss().is_none() && nets[0].take_loss().is_none());
}

#[test]
fn ten_thousand_packets_of_all_sizes_stay_in_order() {
    ten_thousand("tcp");
}

#[test]
fn packets_stay_in_order_by_the_native_provider() {
    ten_thousand(native());
}

#[test]
fn packets_stay_in_order_by_the_provider_sockets() {
    ten_thousand("sockets");
}

#[test]
fn a_payload_may_start_anywhere_in_its_view() {
    let Some(mut nets) = job(2) else { return };
    let payload = filled(1000, 3);
    let bytes = content(&payload);
    for (position, len) in [(0, 10), (990, 10), (500, 400), (1000, 0)] {
        let head = packet(5, len);
        until(&mut nets, "a send", |nets| {
            nets[0].send(1, &head, Some(&payload), position).unwrap().then_some(())
        });
        let (_, found, body) = receive(&mut nets, 1);
        assert_eq!(found, head);
        assert_eq!(body, bytes[position..position + len]);
    }
    for (position, len) in [(991, 10), (1001, 1), (0, nets[0].payload_max() + 1)] {
        let error = net_error(nets[0].send(1, &packet(5, len), Some(&payload), position));
        assert!(error.to_string().contains(&len.to_string()), "{error}");
    }
}

#[test]
fn a_receiver_takes_as_much_as_its_view_has_room_for() {
    let Some(mut nets) = job(2) else { return };
    let payload = filled(100, 9);
    send(&mut nets, 0, 1, &packet(3, 100), Some(&payload));
    let (source, head) = until(&mut nets, "a packet", |nets| nets[1].peek());
    assert_eq!(nets[1].peek(), Some((source, head)), "it stays until it is consumed");
    let (_, view) = buffer(60);
    assert_eq!(nets[1].read_payload(source, &head, &view, 50), 10);
    assert_eq!(content(&view)[50..], content(&payload)[..10]);
    nets[1].consume(source, &head);
    assert_eq!(nets[1].peek(), None);
}

/// Both send until there is no room, and only then poll: neither waits for the other for ever.
#[test]
fn both_sides_may_fill_the_network_at_once() {
    const COUNT: u64 = 2000;
    let Some(mut nets) = job(2) else { return };
    let most = nets[0].payload_max();
    let payload = filled(most, 1);
    let dog = Watchdog::new();
    let (mut sent, mut got) = ([0u64; 2], [0u64; 2]);
    let mut refusals = 0;
    while got != [COUNT; 2] {
        for me in 0..2 {
            let peer = 1 - me as u32;
            while sent[me] < COUNT {
                if !nets[me].has_room(peer, most) {
                    refusals += 1;
                    break;
                }
                if !nets[me].send(peer, &packet(sent[me], most), Some(&payload), 0).unwrap() {
                    refusals += 1;
                    assert!(!nets[me].has_room(peer, most), "no room was the answer");
                    break;
                }
                sent[me] += 1;
            }
            nets[me].poll();
            // One at a time, so that the other side's buffers fill up.
            if let Some((_, found, body)) = take(&mut nets[me]) {
                assert_eq!(found, packet(got[me], most));
                assert_eq!(body.len(), most);
                got[me] += 1;
            }
        }
        dog.check("two floods");
    }
    assert!(refusals > 0, "no send was ever refused");
}

#[test]
fn what_was_sent_leaves_without_the_receiver_taking_it() {
    let Some(mut nets) = job(3) else { return };
    for number in 0..20 {
        for peer in [1, 2] {
            send(&mut nets, 0, peer, &packet(number, 0), None);
        }
    }
    until(&mut nets, "draining", |nets| nets[0].is_drained().then_some(()));
    for at in [1, 2] {
        for number in 0..20 {
            assert_eq!(receive(&mut nets, at).1, packet(number, 0));
        }
        // What asked whether the others have left is no packet.
        nets[at].poll();
        assert_eq!(nets[at].peek(), None);
        assert_eq!(nets[at].counters(), Counters::default());
    }
}

#[test]
fn a_rank_may_be_left_out_or_be_the_sender() {
    let Some(mut nets) = job(1) else { return };
    let mut other = open(&options("tcp")).expect("opened before");
    let addresses = [None, Some(nets[0].address().to_vec()), Some(other.address().to_vec())];
    for (me, net) in [(1, &mut nets[0]), (2, &mut other)] {
        net.connect(me, SECRET, addresses.to_vec()).unwrap();
    }
    assert_eq!([0, 1, 2, 3].map(|peer| nets[0].reaches(peer)), [false, true, true, false]);
    nets.push(other);
    for peer in [0, 3] {
        let error = net_error(nets[0].send(peer, &packet(1, 0), None, 0));
        assert!(error.to_string().starts_with(&format!("rank {peer} ")), "{error}");
    }
    send(&mut nets, 0, 1, &packet(8, 0), None);
    assert_eq!(receive(&mut nets, 0).0, 1);
    send(&mut nets, 1, 1, &packet(9, 0), None);
    assert_eq!(receive(&mut nets, 0).0, 2);
}

/// A rank of a large job needs the addresses of those alone that it talks to: not of those whose
/// messages it only receives.
#[test]
fn an_address_is_resolved_at_the_first_contact() {
    let Some(mut nets) = job(4) else { return };
    let resolved = |nets: &[Net]| -> Vec<usize> { nets.iter().map(Net::resolved_peers).collect() };
    assert_eq!(resolved(&nets), [0, 0, 0, 0]);
    for number in 0..3 {
        send(&mut nets, 0, 2, &packet(number, 0), None);
        assert_eq!(receive(&mut nets, 2).0, 0);
    }
    assert_eq!(resolved(&nets), [1, 0, 0, 0]);
    send(&mut nets, 2, 0, &packet(3, 0), None);
    send(&mut nets, 2, 3, &packet(4, 0), None);
    assert_eq!(receive(&mut nets, 0).0, 2);
    assert_eq!(receive(&mut nets, 3).0, 2);
    assert_eq!(resolved(&nets), [1, 0, 2, 0]);
}

/// Ranks get to know each other at different times.
#[test]
fn packets_before_the_connection_are_not_lost() {
    for provider in ["tcp", native()] {
        let (Some(one), Some(two)) = (open(&options(provider)), open(&options(provider))) else {
            return;
        };
        let mut nets = [one, two];
        let addresses = [0, 1].map(|i: usize| Some(nets[i].address().to_vec()));
        nets[0].connect(0, SECRET, addresses.to_vec()).unwrap();
        let mut sent = 0;
        for _ in 0..20_000 {
            sent += u64::from(sent < 10 && nets[0].send(1, &packet(sent, 0), None, 0).unwrap());
            nets.iter_mut().for_each(Net::poll);
            assert_eq!(nets[1].peek(), None);
        }
        nets[1].connect(1, SECRET, addresses.to_vec()).unwrap();
        while sent < 10 {
            send(&mut nets, 0, 1, &packet(sent, 0), None);
            sent += 1;
        }
        for number in 0..10 {
            assert_eq!(receive(&mut nets, 1).1, packet(number, 0));
        }
        assert_eq!(nets[1].counters(), Counters::default());
    }
}

#[derive(Debug, Clone)]
struct Step {
    from: usize,
    to: usize,
    bytes: usize,
    /// Packets that are taken after it.
    takes: usize,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let bytes = prop_oneof![0..100usize, 0..70_000usize];
    let step = (0..3usize, 0..3usize, bytes, 0..3usize).prop_map(|(from, to, bytes, takes)| Step {
        from,
        to,
        bytes,
        takes,
    });
    prop::collection::vec(step, 1..120)
}

/// Takes one packet, and checks that it is the pair's next.
fn take_next(
    net: &mut Net,
    to: usize,
    got: &mut [[u64; 3]; 3],
    wanted: &[[Vec<usize>; 3]; 3],
) -> bool {
    let Some((source, head, body)) = take(net) else {
        return false;
    };
    let from = source as usize;
    let number = got[from][to];
    assert_eq!(head, packet(number, wanted[from][to][number as usize]));
    assert!(body == pattern(body.len(), number + 1), "payload {number} of {from} to {to}");
    got[from][to] += 1;
    true
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn random_traffic_of_three_arrives_in_order(steps in steps()) {
        let Some(mut nets) = job(3) else { return Ok(()) };
        let most = nets[0].payload_max();
        let mut wanted: [[Vec<usize>; 3]; 3] = Default::default();
        let mut got = [[0u64; 3]; 3];
        let dog = Watchdog::new();
        for step in &steps {
            let bytes = step.bytes.min(most);
            let (from, to) = (step.from, step.to);
            let number = wanted[from][to].len() as u64;
            let payload = filled(bytes, number + 1);
            wanted[from][to].push(bytes);
            let head = packet(number, bytes);
            while !(nets[from].has_room(to as u32, bytes)
                && nets[from].send(to as u32, &head, Some(&payload), 0).unwrap())
            {
                for (at, net) in nets.iter_mut().enumerate() {
                    net.poll();
                    take_next(net, at, &mut got, &wanted);
                }
                dog.check("a send");
            }
            for _ in 0..step.takes {
                take_next(&mut nets[to], to, &mut got, &wanted);
            }
        }
        while (0..9).any(|i| got[i / 3][i % 3] < wanted[i / 3][i % 3].len() as u64) {
            for (at, net) in nets.iter_mut().enumerate() {
                net.poll();
                take_next(net, at, &mut got, &wanted);
            }
            dog.check("the rest");
        }
    }
}

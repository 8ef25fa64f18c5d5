//! Reads of long messages, and one-sided operations.

use super::kit::*;
use mica_channel::net::Net;
use mica_channel::transport::Transport;
use mica_channel::{Capabilities, RemoteMemory, RemoteRegion};

fn reads(provider: &str) {
    let Some(mut nets) = job_with(2, &options(provider)) else {
        return;
    };
    assert!(nets[1].can_read());
    for (token, len) in [0, 1, 7, 4096, 65_537, 1 << 20, 5 << 20].into_iter().enumerate() {
        let theirs = filled(len, 4);
        let (_, mine) = buffer(len + 1);
        let (address, _) = theirs.as_contiguous().unwrap();
        let exposed = nets[0].expose(address, len).unwrap();
        until(&mut nets, "room", |nets| {
            let from = RemoteRegion::from(&exposed);
            nets[1].start_read(0, from, &mine, len, token as u64).unwrap().then_some(())
        });
        assert_eq!(end_of(&mut nets, 1, token as u64), Ok(()));
        assert!(content(&mine)[..len] == content(&theirs)[..]);
        assert_eq!(content(&mine)[len], 0, "no byte more");
        nets[0].conceal(exposed);
    }
}

#[test]
fn reads_of_every_length_bring_the_bytes() {
    reads("tcp");
}

#[test]
fn reads_bring_the_bytes_by_the_native_provider() {
    reads(native());
}

#[test]
fn reads_bring_the_bytes_by_the_provider_sockets() {
    reads("sockets");
}

#[test]
fn many_reads_both_ways_at_once_and_messages_between_them() {
    const COUNT: usize = 200;
    let Some(mut nets) = job(2) else { return };
    let theirs: Vec<_> = (0..2).map(|me| filled(1 << 20, me + 20)).collect();
    let exposed: Vec<_> = (0..2)
        .map(|me| {
            let (address, len) = theirs[me].as_contiguous().unwrap();
            nets[me].expose(address, len).unwrap()
        })
        .collect();
    let part = |i: usize| ((i * 7919) % (1 << 19), 1 + (i * 104_729) % (1 << 17));
    let mine: Vec<Vec<_>> =
        (0..2).map(|_| (0..COUNT).map(|i| buffer(part(i).1).1).collect()).collect();
    let (mut started, mut ended, mut got) = ([0; 2], [0; 2], [0; 2]);
    let mut sent = [0; 2];
    let dog = Watchdog::new();
    while ended != [COUNT; 2] || got != [COUNT; 2] {
        for me in 0..2 {
            let peer = 1 - me as u32;
            while started[me] < COUNT {
                let i = started[me];
                let (from, len) = part(i);
                let there = &exposed[1 - me];
                let there = RemoteRegion { key: there.key, address: there.address + from as u64 };
                if !nets[me].start_read(peer, there, &mine[me][i], len, i as u64).unwrap() {
                    break;
                }
                started[me] += 1;
            }
            if sent[me] < COUNT
                && nets[me].send(peer, &packet(sent[me] as u64, 0), None, 0).unwrap()
            {
                sent[me] += 1;
            }
            nets[me].poll();
            while let Some(end) = nets[me].next_completion() {
                assert_eq!(end.result, Ok(()));
                let i = end.token as usize;
                let (from, len) = part(i);
                let wanted = &content(&theirs[1 - me])[from..from + len];
                assert!(content(&mine[me][i]) == wanted, "read {i} of rank {me}");
                ended[me] += 1;
            }
            if let Some((_, found, _)) = take(&mut nets[me]) {
                assert_eq!(found, packet(got[me] as u64, 0));
                got[me] += 1;
            }
        }
        dog.check("the reads");
    }
    assert!(nets[0].next_completion().is_none() && nets[1].next_completion().is_none());
}

#[test]
fn a_read_that_cannot_be_is_an_error() {
    let Some(mut nets) = job(2) else { return };
    let (_, short) = buffer(10);
    let error = net_error(nets[0].start_read(1, NOWHERE, &short, 11, 0));
    assert!(error.to_string().contains("11 bytes of a buffer of 10"), "{error}");
    let error = net_error(nets[0].start_read(7, NOWHERE, &short, 1, 0));
    assert!(error.to_string().starts_with("rank 7 "), "{error}");
}

/// A window of `bytes` zeros at rank `at`.
fn window(net: &mut Net, bytes: usize) -> (mica_memory::Region, RemoteRegion) {
    let (region, view) = buffer(bytes);
    let (address, _) = view.as_contiguous().unwrap();
    let registered = net.register(address, bytes).unwrap();
    (region, registered)
}

fn at(region: RemoteRegion, offset: u64) -> RemoteRegion {
    RemoteRegion { address: region.address + offset, ..region }
}

fn put_and_get(provider: &str) {
    let Some(mut nets) = job_with(3, &options(provider)) else {
        return;
    };
    assert!(nets[0].capabilities().contains(Capabilities::READ | Capabilities::WRITE));
    let (memory, region) = window(&mut nets[2], 3 << 20);
    for (round, (offset, len)) in
        [(0, 8), (100, 1), (4096, 70_000), (1 << 20, 2 << 20), (5, 0)].into_iter().enumerate()
    {
        let from = round % 2;
        let data = filled(len, round as u64 + 50);
        let there = at(region, offset);
        until(&mut nets, "room", |nets| {
            nets[from].put(2, there, &data, len, 1).unwrap().then_some(())
        });
        assert_eq!(end_of(&mut nets, from, 1), Ok(()));
        let mut bytes = vec![0; len];
        memory.offset(offset as isize).read_bytes(&mut bytes);
        assert!(bytes == content(&data), "at its end a put is there");
        let (_, back) = buffer(len);
        until(&mut nets, "room", |nets| {
            nets[from].get(2, there, &back, len, 2).unwrap().then_some(())
        });
        assert_eq!(end_of(&mut nets, from, 2), Ok(()));
        assert!(content(&back) == bytes);
    }
    nets[2].unregister(region);
}

#[test]
fn put_then_get_returns_the_bytes() {
    put_and_get("tcp");
}

#[test]
fn put_then_get_returns_the_bytes_by_the_native_provider() {
    put_and_get(native());
}

/// A stranger who reaches the port can name any key.
#[test]
fn keys_of_exposed_memory_cannot_be_guessed() {
    for provider in ["tcp", "sockets", native()] {
        let Some(mut nets) = job_with(2, &options(provider)) else {
            return;
        };
        let buffers: Vec<_> = (0..8).map(|seed| filled(4096, seed)).collect();
        let exposed: Vec<_> = buffers
            .iter()
            .map(|view| nets[0].expose(view.as_contiguous().unwrap().0, 4096).unwrap())
            .collect();
        for (at, one) in exposed.iter().enumerate() {
            for other in &exposed[..at] {
                // Two random keys are this near to each other once in 2^31 pairs.
                let distance = one.key.abs_diff(other.key);
                assert!(distance > 1 << 32, "{provider}: {:x} {:x}", one.key, other.key);
            }
        }
        let (_, mine) = buffer(4096);
        until(&mut nets, "room", |nets| {
            let from = RemoteRegion { key: exposed[0].key ^ 1, address: exposed[0].address };
            let started = nets[1].start_read(0, from, &mine, 4096, 9);
            started.unwrap().then_some(())
        });
        assert!(end_of(&mut nets, 1, 9).is_err(), "{provider}");
        assert!(content(&mine).iter().all(|&byte| byte == 0));
        for one in exposed {
            nets[0].conceal(one);
        }
    }
}

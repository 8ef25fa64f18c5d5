//! Reads of long messages, and one-sided operations.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::kit::*;
use mica_channel::net::Net;
use mica_channel::transport::NetError;
use mica_channel::{Capabilities, Channel, RemoteMemory, RemoteRegion, Width};

const ATOMICS: Capabilities = Capabilities::ATOMIC_ADD
    .union(Capabilities::ATOMIC_CAS)
    .union(Capabilities::ATOMIC_SWAP);

fn reads(provider: &str) {
    let Some(mut nets) = job_with(2, &options(provider)) else {
        return;
    };
    assert!(nets[1].can_read());
    for (token, len) in [0, 1, 7, 4096, 65_537, 1 << 20, 5 << 20]
        .into_iter()
        .enumerate()
    {
        let theirs = filled(len, 4);
        let (_, mine) = buffer(len + 1);
        let (address, _) = theirs.as_contiguous().unwrap();
        let exposed = nets[0].expose(address, len).unwrap();
        until(&mut nets, "room", |nets| {
            let (address, key) = (exposed.address, exposed.key);
            nets[1]
                .start_read(0, address, key, &mine, len, token as u64)
                .unwrap()
                .then_some(())
        });
        assert_eq!(end_of(&mut nets, 1, token as u64), Ok(0));
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
    let mine: Vec<Vec<_>> = (0..2)
        .map(|_| (0..COUNT).map(|i| buffer(part(i).1).1).collect())
        .collect();
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
                let address = there.address + from as u64;
                let view = &mine[me][i];
                if !nets[me]
                    .start_read(peer, address, there.key, view, len, i as u64)
                    .unwrap()
                {
                    break;
                }
                started[me] += 1;
            }
            if sent[me] < COUNT
                && nets[me]
                    .send(peer, &packet(sent[me] as u64, 0), None, 0)
                    .unwrap()
            {
                sent[me] += 1;
            }
            nets[me].poll();
            while let Some(end) = nets[me].next_completion() {
                assert_eq!(end.result, Ok(0));
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
    let error = net_error(nets[0].start_read(1, 0, 0, &short, 11, 0));
    assert!(
        error.to_string().contains("11 bytes of a buffer of 10"),
        "{error}"
    );
    let error = net_error(nets[0].start_read(7, 0, 0, &short, 1, 0));
    assert!(error.to_string().starts_with("rank 7 "), "{error}");
}

/// A window of `bytes` zeros at rank `at`.
fn window(net: &mut Net, bytes: usize) -> (mica_channel::memory::Region, RemoteRegion) {
    let (region, view) = buffer(bytes);
    let (address, _) = view.as_contiguous().unwrap();
    let registered = net.register(address, bytes).unwrap();
    (region, registered)
}

fn at(region: RemoteRegion, offset: u64) -> RemoteRegion {
    RemoteRegion {
        address: region.address + offset,
        ..region
    }
}

fn put_and_get(provider: &str) {
    let Some(mut nets) = job_with(3, &options(provider)) else {
        return;
    };
    assert!(
        nets[0]
            .capabilities()
            .contains(Capabilities::READ | Capabilities::WRITE)
    );
    let (memory, region) = window(&mut nets[2], 3 << 20);
    for (round, (offset, len)) in [(0, 8), (100, 1), (4096, 70_000), (1 << 20, 2 << 20), (5, 0)]
        .into_iter()
        .enumerate()
    {
        let from = round % 2;
        let data = filled(len, round as u64 + 50);
        let there = at(region, offset);
        until(&mut nets, "room", |nets| {
            nets[from]
                .put(2, there, &data, len, 1)
                .unwrap()
                .then_some(())
        });
        assert_eq!(end_of(&mut nets, from, 1), Ok(0));
        let mut bytes = vec![0; len];
        memory.offset(offset as isize).read_bytes(&mut bytes);
        assert!(bytes == content(&data), "at its end a put is there");
        let (_, back) = buffer(len);
        until(&mut nets, "room", |nets| {
            nets[from]
                .get(2, there, &back, len, 2)
                .unwrap()
                .then_some(())
        });
        assert_eq!(end_of(&mut nets, from, 2), Ok(0));
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

/// Two ranks work on words of a third.
#[test]
fn atomic_operations_lose_nothing() {
    const ROUNDS: u64 = 300;
    let Some(mut nets) = job_with(3, &options("tcp;ofi_rxm")) else {
        return;
    };
    assert!(nets[0].capabilities().contains(ATOMICS), "ofi_rxm has them");
    let (memory, region) = window(&mut nets[2], 4096);
    let word = |index: usize| {
        // SAFETY: aligned words of a block that lives on; the library works on them by atomic
        // instructions or this thread.
        unsafe { &*std::ptr::with_exposed_provenance::<AtomicU64>(memory.address() + 8 * index) }
    };
    let mut sums = Vec::new();
    let (mut started, mut ended) = ([0; 2], [0; 2]);
    let dog = Watchdog::new();
    while ended != [ROUNDS; 2] {
        for me in 0..2 {
            while started[me] < ROUNDS
                && nets[me]
                    .fetch_add(2, at(region, 8), Width::Eight, 3, started[me])
                    .unwrap()
            {
                started[me] += 1;
            }
            nets[me].poll();
            while let Some(end) = nets[me].next_completion() {
                sums.push(end.result.unwrap());
                ended[me] += 1;
            }
        }
        nets[2].poll();
        dog.check("the additions");
    }
    assert_eq!(word(1).load(Ordering::Relaxed), 2 * ROUNDS * 3);
    sums.sort_unstable();
    let each: Vec<u64> = (0..2 * ROUNDS).map(|i| 3 * i).collect();
    assert_eq!(sums, each, "each found the sum of those before it");
    assert_eq!(
        [word(0), word(2)].map(|w| w.load(Ordering::Relaxed)),
        [0; 2]
    );
}

#[test]
fn swaps_and_compared_swaps_find_what_was_there() {
    let Some(mut nets) = job_with(2, &options("tcp;ofi_rxm")) else {
        return;
    };
    let (memory, region) = window(&mut nets[1], 64);
    let value = || {
        // SAFETY: as above.
        let word = unsafe { &*std::ptr::with_exposed_provenance::<AtomicU64>(memory.address()) };
        word.load(Ordering::Relaxed)
    };
    let big = 0xfedc_ba98_7654_3210;
    until(&mut nets, "room", |n| {
        n[0].swap(1, region, Width::Eight, big, 1)
            .unwrap()
            .then_some(())
    });
    assert_eq!((end_of(&mut nets, 0, 1), value()), (Ok(0), big));
    assert!(
        nets[0]
            .compare_swap(1, region, Width::Eight, big - 1, 5, 2)
            .unwrap()
    );
    assert_eq!((end_of(&mut nets, 0, 2), value()), (Ok(big), big));
    assert!(
        nets[0]
            .compare_swap(1, region, Width::Eight, big, 5, 3)
            .unwrap()
    );
    assert_eq!((end_of(&mut nets, 0, 3), value()), (Ok(big), 5));
    assert!(
        nets[0]
            .fetch_add(1, region, Width::Eight, u64::MAX, 4)
            .unwrap()
    );
    assert_eq!((end_of(&mut nets, 0, 4), value()), (Ok(5), 4));
}

#[test]
fn four_bytes_are_four_bytes() {
    let Some(mut nets) = job_with(2, &options("tcp;ofi_rxm")) else {
        return;
    };
    assert!(nets[0].capabilities().contains(Capabilities::ATOMIC_4));
    let (memory, region) = window(&mut nets[1], 64);
    let word = |index: usize| {
        // SAFETY: as above.
        let word = unsafe {
            &*std::ptr::with_exposed_provenance::<AtomicU32>(memory.address() + 4 * index)
        };
        word.load(Ordering::Relaxed)
    };
    let there = at(region, 4);
    until(&mut nets, "room", |n| {
        n[0].swap(1, there, Width::Four, 7, 1)
            .unwrap()
            .then_some(())
    });
    assert_eq!(end_of(&mut nets, 0, 1), Ok(0));
    assert!(
        nets[0]
            .fetch_add(1, there, Width::Four, u64::from(u32::MAX), 2)
            .unwrap()
    );
    assert_eq!(end_of(&mut nets, 0, 2), Ok(7));
    assert!(
        nets[0]
            .compare_swap(1, there, Width::Four, 6, 9, 3)
            .unwrap()
    );
    assert_eq!(end_of(&mut nets, 0, 3), Ok(6));
    assert_eq!([0, 1, 2].map(word), [0, 9, 0]);
}

#[test]
fn a_flush_ends_after_all_that_was_started_before_it() {
    const PUTS: u64 = 40;
    let Some(mut nets) = job(2) else { return };
    nets[0].flush(1, 1000);
    assert_eq!(
        nets[0].next_completion().map(|e| e.token),
        Some(1000),
        "of nothing"
    );
    let (memory, region) = window(&mut nets[1], (PUTS as usize) << 16);
    let data = filled(1 << 16, 2);
    for i in 0..PUTS {
        let there = at(region, i << 16);
        until(&mut nets, "room", |nets| {
            nets[0]
                .put(1, there, &data, 1 << 16, i)
                .unwrap()
                .then_some(())
        });
    }
    nets[0].flush(1, 1000);
    let mut order = Vec::new();
    until(&mut nets, "the flush", |nets| {
        while let Some(end) = nets[0].next_completion() {
            assert!(end.result.is_ok());
            order.push(end.token);
        }
        order.contains(&1000).then_some(())
    });
    assert_eq!(order.len() as u64, PUTS + 1);
    assert_eq!(order.last(), Some(&1000));
    let mut bytes = vec![0; (PUTS as usize) << 16];
    memory.read_bytes(&mut bytes);
    let wanted = content(&data);
    assert!(bytes.chunks(1 << 16).all(|chunk| chunk == wanted));
}

/// The native provider has no atomic operations, and that of 1.17 has capability bits that say
/// otherwise.
#[test]
fn missing_provider_capability_is_a_named_error() {
    let Some(mut nets) = job_with(2, &options(native())) else {
        return;
    };
    let (_, region) = window(&mut nets[1], 64);
    if nets[0].capabilities().intersects(ATOMICS) {
        println!("this libfabric's provider has atomic operations");
        return;
    }
    let error = net_error(nets[0].fetch_add(1, region, Width::Eight, 1, 0));
    assert!(matches!(error, NetError::Unsupported { .. }), "{error}");
    assert!(error.to_string().contains("fetch-and-add"), "{error}");
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
            .map(|view| {
                nets[0]
                    .expose(view.as_contiguous().unwrap().0, 4096)
                    .unwrap()
            })
            .collect();
        for (at, one) in exposed.iter().enumerate() {
            for other in &exposed[..at] {
                // Two random keys are this near to each other once in 2^31 pairs.
                let distance = one.key.abs_diff(other.key);
                assert!(
                    distance > 1 << 32,
                    "{provider}: {:x} {:x}",
                    one.key,
                    other.key
                );
            }
        }
        let (_, mine) = buffer(4096);
        until(&mut nets, "room", |nets| {
            let (address, key) = (exposed[0].address, exposed[0].key ^ 1);
            let started = nets[1].start_read(0, address, key, &mine, 4096, 9);
            started.unwrap().then_some(())
        });
        assert!(end_of(&mut nets, 1, 9).is_err(), "{provider}");
        assert!(content(&mine).iter().all(|&byte| byte == 0));
        for one in exposed {
            nets[0].conceal(one);
        }
    }
}

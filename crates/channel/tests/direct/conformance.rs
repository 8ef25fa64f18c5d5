//! What every back end does alike: peers read what the owner wrote and the owner what peers wrote,
//! and nothing else changes.

use std::sync::Arc;

use crate::kit::{self, MIB, Memory, PAGE, Peer, Scenario, job, skip};
use crate::mock::{Mock, Shared};
use mica_channel::direct::{Backend, Direct, DirectOptions, Exposed};
use mica_memory::Block;
use mica_memory::Shape;

pub const SCENARIOS: &[Scenario] = &[
    ("cma_conforms", || conforms(cma)),
    ("mapped_conforms", || conforms(mapped)),
    ("xpmem_conforms", || conforms(xpmem)),
    ("xpmem_attachments_are_kept_and_given_back", attachments),
];

/// A back end under test: the owner's channel, two peers, and memory for buffers.
struct Ends {
    direct: Direct,
    peers: [Peer; 2],
    memory: Memory,
    backend: Backend,
}

const ROOM: usize = 6 * MIB;

fn cma() -> Ends {
    let segment = job(3);
    segment.claim(0).expect("free");
    let mut direct = Direct::new(&segment, 0, &DirectOptions::CMA);
    if !direct.is_usable(0) {
        skip(&format!("{:?}", direct.refusal(0)));
    }
    let peers = [1, 2].map(|rank| {
        Peer::fork(|| {
            segment.claim(rank).expect("free");
            let mut direct = Direct::new(&segment, rank, &DirectOptions::CMA);
            if !direct.is_usable(0) {
                skip(&format!("{:?}", direct.refusal(0)));
            }
            direct
        })
    });
    Ends { direct, peers, memory: Memory::map(ROOM), backend: Backend::Cma }
}

fn mapped() -> Ends {
    let segment = job(3);
    let direct = kit::owner(&segment);
    Ends {
        direct,
        peers: [1, 2].map(|rank| Peer::mapped(&segment, rank)),
        memory: Memory::map(ROOM),
        backend: Backend::Mapped,
    }
}

fn xpmem() -> Ends {
    let segment = job(3);
    segment.claim(0).expect("free");
    let shared = Shared::new(ROOM);
    let end = |rank| {
        let device = Arc::new(Mock::new(shared));
        Direct::with_xpmem(&segment, rank, &DirectOptions::CMA, device)
            .expect("the mock makes segments")
    };
    let direct = end(0);
    let peers = [1, 2].map(|rank| {
        Peer::fork(|| {
            segment.claim(rank).expect("free");
            end(rank)
        })
    });
    Ends { direct, peers, memory: shared.memory, backend: Backend::Xpmem }
}

fn expose(ends: &mut Ends, memory: Memory) -> Exposed {
    let mut exposed = ends.direct.expose(memory.at, memory.len).expect("a back end");
    for _ in 0..kit::AFTER {
        if exposed.exposure().backend() == ends.backend {
            break;
        }
        drop(exposed);
        exposed = ends.direct.expose(memory.at, memory.len).expect("a back end");
    }
    exposed
}

fn conforms(make: fn() -> Ends) {
    let mut ends = make();
    let mut seed = 0;
    for len in [1, 100, PAGE - 1, PAGE, 3 * PAGE, 3 * PAGE + 17, 70_000, MIB + 5, 5 * MIB] {
        for from in [0, 1, 63, PAGE - 1, PAGE, 2 * MIB - 100] {
            if from + len + 64 > ROOM {
                continue;
            }
            ends.memory.part(from, len + 64).fill(200);
            let buffer = ends.memory.part(from, len);
            let mut by_window = [0, 0];
            for peer in [0, 1] {
                let exposed = expose(&mut ends, buffer);
                seed += 1;
                buffer.fill(seed);
                by_window[peer] = ends.peers[peer].check(&exposed, buffer, seed);
                seed += 1;
                ends.peers[peer].fill(&exposed, buffer, seed);
                buffer.check(seed);
                // The other peer sees what the first wrote.
                ends.peers[1 - peer].check(&exposed, buffer, seed);
                seed %= 100;
            }
            let least = match ends.backend {
                Backend::Cma => 0,
                Backend::Mapped => len.saturating_sub(2 * PAGE),
                _ => len,
            };
            assert!(by_window.iter().all(|&n| n >= least), "{by_window:?} of {len} at {from}");
            // What follows the buffer is as it was.
            let rest = ends.memory.part(from + len, 64);
            assert!((0..64).all(|i| rest.get(i) == kit::pattern(200, len + i)));
        }
    }
    if ends.backend == Backend::Mapped {
        let usage = ends.direct.usage().expect("mapped");
        assert_eq!(usage.slots, 1, "neighbours share a slot: {usage:?}");
    }
    ends.peers.into_iter().for_each(Peer::end);
}

fn attachments() {
    let segment = job(1);
    segment.claim(0).expect("free");
    let shared = Shared::new(16 * MIB);
    let device = Arc::new(Mock::new(shared));
    let mut direct = Direct::with_xpmem(&segment, 0, &DirectOptions::CMA, Arc::clone(&device) as _)
        .expect("mock");
    assert!(direct.usage().is_none());
    let mine = Block::allocate(PAGE).unwrap().view(Shape::Contiguous { bytes: PAGE });
    let mut got = vec![0; PAGE];
    for i in 0..100usize {
        let part = shared.memory.part(i * 100, PAGE);
        part.fill(i as u8);
        let exposed = direct.expose(part.at, part.len).expect("xpmem");
        let window = direct.window(0, &exposed.exposure(), part.len).expect("attached");
        window.load(0, &mine, 0, PAGE);
        mine.pack(0, &mut got);
        assert!((0..PAGE).all(|at| got[at] == kit::pattern(i as u8, at)));
    }
    assert!(device.attachments() <= 2, "{} attachments", device.attachments());
    // One that covers the others takes their place; a window keeps its own alive.
    let small = direct.expose(shared.memory.at, 10).unwrap().exposure();
    let window = direct.window(0, &small, 10).expect("attached");
    let all = direct.expose(shared.memory.at, 16 * MIB).unwrap().exposure();
    direct.window(0, &all, 16 * MIB).expect("attached");
    let held = device.attachments();
    window.store(0, &mine, 0, 10);
    assert_eq!(shared.memory.get(0), got[0]);
    drop(window);
    assert!(device.attachments() <= held);
    assert_eq!(direct.status().len(), 3);
    drop(direct);
    assert_eq!(device.attachments(), 0);
}

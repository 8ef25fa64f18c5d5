//! Direct copy from this very process: the kernel allows it wherever the call exists.

use super::*;
use crate::memory::{Block, Shape};
use mica_node::segment::JobSpec;
use mica_node::topology::Place;

fn segment() -> &'static JobSegment {
    let spec = JobSpec {
        places: &[Place::UNKNOWN; 1],
        available_cores: 2,
        appnum: &[],
    };
    let segment: &'static JobSegment =
        Box::leak(Box::new(JobSegment::create(&spec).expect("segment")));
    segment.claim(0).expect("free");
    segment
}

#[test]
fn contiguous_and_listed_bytes_are_pulled() {
    let mut direct = Direct::new(segment(), 0, &Options::CMA);
    assert!(direct.is_usable(0), "{:?}", direct.refusal(0));
    let source: Vec<u8> = (0..100_000u32).map(|i| (i * 13) as u8).collect();
    let to = Block::allocate(source.len())
        .expect("memory")
        .view(Shape::Contiguous {
            bytes: source.len(),
        });
    let address = source.as_ptr().addr() as u64;
    direct
        .pull(0, Remote::Contiguous { address }, &to, source.len())
        .expect("readable");
    let mut got = vec![0; source.len()];
    to.pack(0, &mut got);
    assert_eq!(got, source);

    // Every second byte, backwards: more pieces than one call takes.
    let runs: Vec<RemoteRun> = (0..5000u64)
        .rev()
        .map(|i| RemoteRun {
            address: address + 2 * i,
            bytes: 1,
        })
        .collect();
    let remote = Remote::Runs {
        table: runs.as_ptr().addr() as u64,
        count: runs.len() as u64,
    };
    direct.pull(0, remote, &to, runs.len()).expect("readable");
    to.pack(0, &mut got);
    let expected: Vec<u8> = (0..5000).rev().map(|i| source[2 * i]).collect();
    assert_eq!(got[..5000], expected);
}

#[test]
fn switched_off_means_refused() {
    let mut direct = Direct::new(segment(), 0, &Options::OFF);
    assert!(!direct.is_usable(0));
    assert_eq!(direct.refusal(0), Some(&Refusal::SwitchedOff));
}

#[test]
fn an_unreadable_address_is_an_error() {
    let mut direct = Direct::new(segment(), 0, &Options::CMA);
    let to = Block::allocate(8)
        .expect("memory")
        .view(Shape::Contiguous { bytes: 8 });
    let result = direct.pull(0, Remote::Contiguous { address: 8 }, &to, 8);
    assert_eq!(
        result,
        Err(Refusal::Kernel {
            errno: libc::EFAULT
        })
    );
}

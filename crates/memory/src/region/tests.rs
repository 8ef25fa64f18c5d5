use super::*;
use crate::Shape;
use crate::bytes::copy_small;

#[test]
fn blocks_are_aligned_and_keep_what_is_written() {
    let region = Block::allocate(100).unwrap();
    assert_eq!(region.address() % LINE, 0);
    let data: Vec<u8> = (0..100).collect();
    region.write_bytes(&data);
    let mut back = vec![0; 60];
    region.offset(40).read_bytes(&mut back);
    assert_eq!(back, data[40..]);
    fill(&region, 7, 3);
    region.read_bytes(&mut back[..5]);
    assert_eq!(back[..5], [7, 7, 7, 3, 4]);
}

#[test]
#[should_panic(expected = "reach outside the 8 bytes")]
fn a_block_is_never_left() {
    Block::allocate(8).unwrap().offset(4).write_bytes(&[0; 5]);
}

#[test]
#[should_panic(expected = "reach outside the 0 bytes at 0x0")]
fn the_null_region_holds_no_byte() {
    Region::null().offset(4096).write_bytes(&[1]);
}

/// The middle of a buffer, 4 bytes on either side of an address; no access may reach the rest.
fn middle(buffer: &mut [u8; 32]) -> Region {
    // SAFETY: the bytes are the buffer's, which lives longer and is touched by nothing else
    // meanwhile.
    unsafe { Region::user(buffer.as_mut_ptr().wrapping_add(16).cast(), -4..4) }
}

#[test]
fn user_memory_is_reached_within_its_bounds() {
    let mut buffer = [9; 32];
    let region = middle(&mut buffer);
    region.offset(-4).write_bytes(&[1; 8]);
    fill(&region.offset(4), 7, 0);
    copy_bytes(&region.offset(-4), &region.offset(1), 3);
    region.offset(-2).view(Shape::Contiguous { bytes: 6 });
    assert_eq!(buffer[..12], [9; 12]);
    assert_eq!(buffer[12..20], [1; 8]);
    assert_eq!(buffer[20..], [9; 12]);
}

#[test]
fn regions_may_share_a_byte_where_their_bounds_do() {
    let at = |from: isize, to: isize| {
        // SAFETY: nothing is read or written through the region.
        unsafe { Region::user(ptr::without_provenance(0x1000), from..to) }
    };
    let middle = at(-8, 8);
    for (other, shares) in [
        (at(-20, -8), false),
        (at(-20, -7), true),
        (at(-1, 1), true),
        (at(-100, 100), true),
        (at(7, 20), true),
        (at(8, 20), false),
    ] {
        assert_eq!(middle.may_share(&other), shares, "{other:?}");
        assert_eq!(other.may_share(&middle), shares, "{other:?}");
    }
    assert!(!Region::null().may_share(&Region::null()));
    // An empty region shares no byte, wherever it lies.
    assert!(!at(100, 100).may_share(&middle));
}

#[test]
fn user_memory_is_never_left() {
    let accesses: [fn(&Region); 8] = [
        |region| region.write_bytes(&[0; 5]),
        |region| region.offset(-5).read_bytes(&mut [0; 2]),
        |region| region.offset(4).write_bytes(&[0]),
        |region| region.at(usize::MAX - 15).copy_to(region.at(0), 1),
        |region| combine(&Region::null(), region, 1, |_, _| ()),
        |region| fill(&region.offset(isize::MIN), 0, 1),
        |region| drop(region.clone().view(Shape::Contiguous { bytes: 5 })),
        |region| drop(region.clone().view(Shape::Contiguous { bytes: usize::MAX })),
    ];
    let mut buffer = [0; 32];
    let region = middle(&mut buffer);
    for (i, access) in accesses.iter().enumerate() {
        let access = std::panic::AssertUnwindSafe(|| access(&region));
        assert!(std::panic::catch_unwind(access).is_err(), "{i}");
    }
    assert_eq!(buffer, [0; 32]);
}

#[test]
#[cfg_attr(miri, ignore = "Miri ends where an allocation fails")]
fn too_much_memory_is_an_error() {
    assert_eq!(Block::allocate(usize::MAX).unwrap_err(), OutOfMemory { bytes: usize::MAX });
    assert!(Block::allocate(isize::MAX as usize / 2).is_err());
}

#[test]
fn small_copies_move_every_length() {
    let from: Vec<u8> = (1..=40).collect();
    for n in 0..=40 {
        let mut to = vec![0u8; 40];
        // SAFETY: both vectors have 40 bytes.
        unsafe { copy_small(from.as_ptr(), to.as_mut_ptr(), n) };
        assert_eq!(to[..n], from[..n]);
        assert!(to[n..].iter().all(|&b| b == 0));
    }
}

#[test]
fn long_copies_move_all_bytes_wherever_they_lie_in_their_pages() {
    let block = Block::allocate(3 * 32768).unwrap();
    let first = block.offset((block.address().next_multiple_of(4096) - block.address()) as isize);
    let data: Vec<u8> = (0..20_000u32).map(|i| (i % 251) as u8).collect();
    let shifts = if cfg!(miri) { &[1, 4095][..] } else { &[0, 1, 16, 63, 64, 4095] };
    for &shift in shifts {
        let to = first.offset(32768 + shift);
        first.write_bytes(&data);
        fill(&to, 0, 20_001);
        copy_bytes(&first, &to, 20_000);
        let mut back = vec![9; 20_001];
        to.read_bytes(&mut back);
        assert_eq!(back[..20_000], data, "{shift}");
        assert_eq!(back[20_000], 0);
        // Overlapping, forward and backward.
        copy_bytes(&first, &first.offset(shift), 20_000);
        let mut back = vec![0; 20_000];
        first.offset(shift).read_bytes(&mut back);
        assert_eq!(back, data, "{shift}");
        copy_bytes(&first.offset(shift), &first, 20_000);
        first.read_bytes(&mut back);
        assert_eq!(back, data, "{shift}");
    }
}

#[test]
fn combine_handles_overlap() {
    let region = Block::allocate(8).unwrap();
    region.write_bytes(&[1, 2, 3, 4, 5, 6, 7, 8]);
    combine(&region, &region.offset(1), 4, |a, b| b.iter_mut().zip(a).for_each(|(b, a)| *b += a));
    let mut out = [0; 8];
    region.read_bytes(&mut out);
    assert_eq!(out, [1, 3, 5, 7, 9, 6, 7, 8]);
    combine(&Region::null(), &region, 0, |a, b| assert!(a.is_empty() && b.is_empty()));
}

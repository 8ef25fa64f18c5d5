//! Datatypes that are constructed by calls listed in the input, decoded and used.

use mica_memory::{Block, Region};
use mica_mpi::constants as c;
use mica_mpi::datatype::Datatype;
use mica_mpi::datatype::{external_size, pack, pack_external, pack_size, unpack, unpack_external};
use mica_mpi::{Error, Result};

use crate::reader::Reader;

/// The initial old types: one of each size, some with padding, some of two parts, and one without
/// an external size.
const NAMED: [u32; 14] = [
    c::BYTE,
    c::CHAR,
    c::SHORT,
    c::INT,
    c::LONG,
    c::FLOAT,
    c::DOUBLE,
    c::LONG_DOUBLE,
    c::C_BOOL,
    c::C_DOUBLE_COMPLEX,
    c::C_LONG_DOUBLE_COMPLEX,
    c::DOUBLE_INT,
    c::SHORT_INT,
    c::PACKED,
];

/// Number of datatypes that are constructed at most.
const TYPES_MAX: usize = 20;

/// Length of buffers in bytes at most.
const BUFFER_MAX: i64 = 1 << 15;

/// Runs a list of constructors; each takes its old types from the list made so far.
pub fn run(bytes: &[u8]) {
    let mut calls = Reader::new(bytes);
    let named = NAMED.map(|handle| Datatype::predefined(handle).expect("a predefined datatype"));
    let mut types = named.to_vec();
    while !calls.is_empty() && types.len() < NAMED.len() + TYPES_MAX {
        let Ok(datatype) = construct(&mut calls, &types) else {
            continue;
        };
        check_contents(&datatype);
        check_numbers(&datatype, &mut calls);
        check_packing(&datatype, &mut calls);
        types.push(datatype);
    }
}

/// Constructs the type that the next bytes of the input describe.
fn construct(calls: &mut Reader, types: &[Datatype]) -> Result<Datatype> {
    let kind = calls.byte() % 12;
    let old = types[calls.below(types.len())].clone();
    let mut n = || calls.integer();
    match kind {
        0 => Datatype::dup(&old),
        1 => Datatype::contiguous(n(), &old),
        2 => Datatype::vector(n(), n(), n(), &old),
        3 => Datatype::hvector(n(), n(), n(), &old),
        4 => Datatype::resized(&old, n(), n()),
        5 | 6 => {
            let (lengths, displacements) = blocks(calls);
            match kind {
                5 => Datatype::indexed(&lengths, &displacements, &old),
                _ => Datatype::hindexed(&lengths, &displacements, &old),
            }
        }
        7 => Datatype::indexed_block(calls.integer(), &calls.integers(40), &old),
        8 => Datatype::hindexed_block(calls.integer(), &calls.integers(40), &old),
        9 => {
            let (lengths, displacements) = blocks(calls);
            let old = |_: &i64| types[calls.below(types.len())].clone();
            let old: Vec<Datatype> = lengths.iter().map(old).collect();
            Datatype::create_struct(&lengths, &displacements, &old)
        }
        10 => {
            let sizes = calls.integers(5);
            let mut some = || sizes.iter().map(|_| calls.integer()).collect::<Vec<_>>();
            let (subsizes, starts) = (some(), some());
            Datatype::subarray(&sizes, &subsizes, &starts, order(calls), &old)
        }
        _ => {
            let sizes = calls.integers(5);
            let mut some = |f: fn(&mut Reader) -> i32| {
                let some = sizes.iter().map(|_| f(calls));
                some.collect::<Vec<_>>()
            };
            let distribs = some(|calls| c::DISTRIBUTE_NONE + i32::from(calls.byte() % 4));
            let dargs = some(|calls| match calls.byte() {
                0..=99 => c::DISTRIBUTE_DFLT_DARG,
                _ => calls.integer() as i32,
            });
            let grid = some(|calls| 1 + i32::from(calls.byte() % 3));
            let size = grid.iter().product::<i32>();
            let rank = i32::from(calls.byte()) % (size + 1);
            Datatype::darray(size, rank, &sizes, &distribs, &dargs, &grid, order(calls), &old)
        }
    }
}

fn order(calls: &mut Reader) -> i32 {
    match calls.byte() {
        0..=120 => c::ORDER_C,
        121..=240 => c::ORDER_FORTRAN,
        _ => calls.integer() as i32,
    }
}

/// Block lengths and displacements; sometimes more than the 32 that a layout merges into its
/// parent.
fn blocks(calls: &mut Reader) -> (Vec<i64>, Vec<i64>) {
    let displacements = calls.integers(40);
    let lengths = displacements.iter().map(|_| calls.integer()).collect();
    (lengths, displacements)
}

/// The properties in which equal datatypes must agree.
fn bounds(datatype: &Datatype) -> [i64; 5] {
    [datatype.size(), datatype.lb(), datatype.extent(), datatype.true_lb(), datatype.true_extent()]
}

/// Checks that `MPI_Type_get_contents` returns arguments that construct the same datatype.
fn check_contents(datatype: &Datatype) {
    let envelope = datatype.envelope();
    let contents = datatype.contents().expect("a derived datatype");
    assert_eq!(envelope.integers, contents.integers.len());
    assert_eq!(envelope.addresses, contents.addresses.len());
    assert_eq!(envelope.counts, contents.counts.len());
    assert_eq!(envelope.datatypes, contents.datatypes.len());
    let old: Vec<Datatype> = contents
        .datatypes
        .iter()
        .map(|&handle| Datatype::resolve(handle).expect("a datatype"))
        .collect();
    // The large form has the counts that are large, followed by the displacements, in one list.
    let plain = contents.counts.is_empty();
    let (integers, addresses) = (&contents.integers, &contents.addresses);
    let all = if plain { integers } else { &contents.counts };
    let places = |from: usize| if plain { &addresses[..] } else { &all[from..] };
    let again = match envelope.combiner {
        c::COMBINER_DUP => Datatype::dup(&old[0]),
        c::COMBINER_CONTIGUOUS => Datatype::contiguous(all[0], &old[0]),
        c::COMBINER_VECTOR => Datatype::vector(all[0], all[1], all[2], &old[0]),
        c::COMBINER_HVECTOR => Datatype::hvector(all[0], all[1], places(2)[0], &old[0]),
        c::COMBINER_RESIZED => Datatype::resized(&old[0], addresses[0], addresses[1]),
        c::COMBINER_INDEXED => {
            let n = all[0] as usize;
            Datatype::indexed(&all[1..=n], &all[n + 1..], &old[0])
        }
        c::COMBINER_HINDEXED => {
            let n = all[0] as usize;
            Datatype::hindexed(&all[1..=n], places(n + 1), &old[0])
        }
        c::COMBINER_INDEXED_BLOCK => Datatype::indexed_block(all[1], &all[2..], &old[0]),
        c::COMBINER_HINDEXED_BLOCK => Datatype::hindexed_block(all[1], places(2), &old[0]),
        c::COMBINER_STRUCT => {
            let n = all[0] as usize;
            Datatype::create_struct(&all[1..=n], places(n + 1), &old)
        }
        c::COMBINER_SUBARRAY => {
            let n = integers[0] as usize;
            let sizes = if plain { &integers[1..] } else { &all[..] };
            let order = *integers.last().expect("an order") as i32;
            let part = |i: usize| &sizes[i * n..(i + 1) * n];
            Datatype::subarray(part(0), part(1), part(2), order, &old[0])
        }
        c::COMBINER_DARRAY => {
            let n = integers[2] as usize;
            let (sizes, rest) = match plain {
                true => integers[3..].split_at(n),
                false => (&all[..], &integers[3..]),
            };
            let narrow = |i: usize| rest[i * n..(i + 1) * n].iter().map(|&n| n as i32);
            let part = |i: usize| narrow(i).collect::<Vec<i32>>();
            let order = *integers.last().expect("an order") as i32;
            Datatype::darray(
                integers[0] as i32,
                integers[1] as i32,
                sizes,
                &part(0),
                &part(1),
                &part(2),
                order,
                &old[0],
            )
        }
        other => panic!("no constructor has the combiner {other}"),
    };
    let again = again.unwrap_or_else(|error| panic!("{error:?}: {envelope:?} {contents:?}"));
    assert_eq!(bounds(&again), bounds(datatype), "{envelope:?} {contents:?}");
    assert_eq!(again.envelope(), envelope);
    for old in old.iter().filter(|old| !old.is_predefined()) {
        Datatype::free(old.handle()).expect("a handle of its own");
    }
}

/// Checks that bounds and counts are consistent.
fn check_numbers(datatype: &Datatype, calls: &mut Reader) {
    assert!(datatype.size() >= 0 && datatype.true_extent() >= 0);
    if datatype.size() > 0 {
        assert!(datatype.true_lb().checked_add(datatype.true_extent()).is_some());
    }
    let bytes = calls.integer().max(0) as u64;
    if let Some(count) = datatype.count(bytes) {
        assert_eq!(count * datatype.size() as u64, bytes);
    }
    if let Some(elements) = datatype.elements(bytes) {
        let same = datatype.bytes_of_elements(elements as i64);
        assert!(same.is_ok_and(|same| same == bytes), "{elements} {bytes}");
    }
}

/// Memory of `bytes` bytes, filled with a pattern that begins with `first`.
fn buffer(bytes: usize, first: u8) -> Region {
    let region = Block::allocate(bytes).expect("a small buffer");
    let pattern: Vec<u8> = (0..bytes).map(|i| first.wrapping_add(i as u8)).collect();
    region.write_bytes(&pattern);
    region
}

fn content(region: &Region, bytes: usize) -> Vec<u8> {
    let mut content = vec![0; bytes];
    region.read_bytes(&mut content);
    content
}

/// Packs and unpacks some elements, plain and external, if they fit a small buffer.
fn check_packing(datatype: &Datatype, calls: &mut Reader) {
    let (count, first) = (i64::from(calls.byte() % 4), calls.byte());
    let Some((low, span)) = reach(datatype, count) else {
        return;
    };
    datatype.commit();
    let handle = datatype.register().unwrap();
    let bytes = pack_size(count, handle).expect("a small size");
    assert_eq!(bytes, count * datatype.size());
    if bytes <= BUFFER_MAX {
        let from = buffer(span, first);
        let at = |region: &Region| region.offset(-low as isize);
        let packed = |from: &Region| {
            let to = buffer(bytes as usize, 0);
            let end = pack(at(from), count, handle, &to, bytes, 0);
            assert_eq!(end.expect("pack"), bytes);
            to
        };
        let (to, wire) = (buffer(span, !first), packed(&from));
        let end = unpack(&wire, bytes, 0, at(&to), count, handle).expect("unpack");
        assert_eq!(end, bytes);
        let wire = content(&wire, bytes as usize);
        assert_eq!(content(&packed(&to), bytes as usize), wire);
        // A buffer that is one byte too small is an error, never written beyond its end.
        if bytes > 0 {
            let short = buffer(bytes as usize - 1, 0);
            assert!(pack(at(&from), count, handle, &short, bytes - 1, 0).is_err());
        }
        check_external(&at(&from), &at(&to), count, handle);
    }
    Datatype::free(handle).expect("a derived datatype");
}

/// The displacement of the first byte of `count` elements and the number of bytes that they span;
/// `None` if that is too much.
fn reach(datatype: &Datatype, count: i64) -> Option<(i64, usize)> {
    if count == 0 || datatype.size() == 0 {
        return Some((0, 0));
    }
    let stride = datatype.extent().checked_mul(count - 1)?;
    let low = datatype.true_lb().checked_add(stride.min(0))?;
    let span = datatype.true_extent().checked_add(stride.checked_abs()?)?;
    (span <= BUFFER_MAX && low > i64::MIN).then_some((low, span as usize))
}

/// Data packed in the external representation unpacks to the same data; values that it cannot
/// represent are errors.
fn check_external(from: &Region, to: &Region, count: i64, handle: u32) {
    const REP: &str = "external32";
    let size = external_size(REP, count, handle).expect("a small size");
    assert!((0..=4 * BUFFER_MAX).contains(&size));
    let wire = buffer(size as usize, 0);
    let packed = |from: &Region, wire: &Region| -> std::result::Result<i64, Error> {
        pack_external(REP, from.clone(), count, handle, wire, size, 0)
    };
    let Ok(end) = packed(from, &wire) else { return };
    assert_eq!(end, size);
    let end = unpack_external(REP, &wire, size, 0, to.clone(), count, handle);
    assert_eq!(end.ok(), Some(size), "what was packed can be unpacked");
}

use super::*;
use mica_memory::Block;

fn named(handle: u32) -> Datatype {
    Datatype::predefined(handle).unwrap()
}

/// A region that holds these bytes.
fn region_of(bytes: &[u8]) -> Region {
    let region = Block::allocate(bytes.len()).unwrap();
    region.write_bytes(bytes);
    region
}

fn bytes_of(region: &Region, n: usize) -> Vec<u8> {
    let mut bytes = vec![0; n];
    region.read_bytes(&mut bytes);
    bytes
}

fn class<T>(result: Result<T>) -> i32 {
    result.err().expect("an error").code()
}

#[test]
fn every_predefined_datatype_is_there_and_committed() {
    assert_eq!(PREDEFINED.len(), 70);
    for entry in PREDEFINED {
        let datatype = Datatype::resolve(entry.handle).unwrap();
        assert!(datatype.committed() && datatype.is_predefined());
        assert_eq!((datatype.handle(), datatype.name()), (entry.handle, entry.name.to_string()));
        assert_eq!(datatype.size() as u64, entry.basic.size(), "{}", entry.name);
        assert_eq!(datatype.extent() as u64, entry.basic.extent(), "{}", entry.name);
        assert_eq!((datatype.lb(), datatype.true_lb()), (0, 0));
        assert_eq!(datatype.envelope().combiner, c::COMBINER_NAMED);
        assert_eq!(class(datatype.contents()), c::ERR_TYPE);
        assert_eq!(class(Datatype::free(entry.handle)), c::ERR_TYPE);
        let shape = shape_of(entry.handle, 0, 0).unwrap();
        assert!(shape.is_empty());
    }
}

#[test]
fn wrong_handles_and_counts_are_told() {
    for handle in [c::DATATYPE_NULL, 0, 0x204, 0x4300_ffff, c::COMM_WORLD, u32::MAX] {
        assert_eq!(class(Datatype::resolve(handle)), c::ERR_TYPE);
        assert_eq!(class(shape_of(handle, 0, 1)), c::ERR_TYPE);
        let none = shape_of(handle, 0, 0);
        match handle {
            c::DATATYPE_NULL => assert!(none.unwrap().is_empty()),
            _ => assert_eq!(class(none), c::ERR_TYPE),
        }
    }
    let text = Datatype::resolve(c::DATATYPE_NULL).unwrap_err().to_string();
    assert_eq!(text, "datatype = MPI_DATATYPE_NULL: a datatype is needed");
    for handle in [c::INT, c::DOUBLE_INT] {
        assert_eq!(class(shape_of(handle, 0, -1)), c::ERR_COUNT);
        assert_eq!(class(named(handle).shape(i64::MAX)), c::ERR_COUNT);
    }
}

#[test]
fn bounds_hold_all_elements_with_their_gaps_or_nothing() {
    let int = named(c::INT);
    assert_eq!((int.bounds(3), int.bounds(1)), (0..12, 0..4));
    for count in [0, -1, i64::MIN, i64::MAX, i64::MAX / 4 + 1] {
        assert!(int.bounds(count).is_empty(), "{count}");
    }
    // An int at 8, from -4 to 20; and backwards.
    let spread = Datatype::hindexed(&[1], &[8], &int).unwrap();
    let spread = Datatype::resized(&spread, -4, 24).unwrap();
    assert_eq!((spread.bounds(1), spread.bounds(3)), (-4..20, -4..68));
    let backwards = Datatype::resized(&spread, 4, -4).unwrap();
    assert_eq!(backwards.bounds(3), -4..12);
}

#[test]
fn only_committed_datatypes_move_data() {
    let pair = Datatype::contiguous(2, &named(c::INT)).unwrap();
    let handle = pair.register().unwrap();
    assert_eq!(class(shape_of(handle, 0, 0)), c::ERR_TYPE);
    pair.commit();
    let shape = shape_of(handle, 4096, 3).unwrap();
    assert!(matches!(shape, Shape::Contiguous { bytes: 24 }));
    // After the free the handle is stale, and the object lives while it is referenced.
    Datatype::free(handle).unwrap();
    assert_eq!(class(Datatype::resolve(handle)), c::ERR_TYPE);
    assert_eq!(pair.size(), 8);
    assert_eq!(class(Datatype::free(handle)), c::ERR_TYPE);
}

#[test]
fn constructors_refuse_bad_arguments() {
    let int = &named(c::INT);
    let huge = i64::MAX / 2;
    assert_eq!(class(Datatype::contiguous(-1, int)), c::ERR_COUNT);
    assert_eq!(class(Datatype::contiguous(i64::MAX, int)), c::ERR_ARG);
    assert_eq!(class(Datatype::vector(-1, 1, 1, int)), c::ERR_COUNT);
    assert_eq!(class(Datatype::vector(1, -1, 1, int)), c::ERR_ARG);
    assert_eq!(class(Datatype::vector(2, 1, huge, int)), c::ERR_ARG);
    assert_eq!(class(Datatype::hvector(4, 1, huge, int)), c::ERR_ARG);
    assert_eq!(class(Datatype::indexed(&[1, -2], &[0, 1], int)), c::ERR_ARG);
    assert_eq!(class(Datatype::indexed(&[1], &[huge], int)), c::ERR_ARG);
    assert_eq!(class(Datatype::hindexed(&[1], &[i64::MAX], int)), c::ERR_ARG);
    assert_eq!(class(Datatype::indexed_block(-1, &[0], int)), c::ERR_ARG);
    assert_eq!(class(Datatype::hindexed_block(-3, &[0], int)), c::ERR_ARG);
    assert_eq!(class(Datatype::create_struct(&[-1], &[0], std::slice::from_ref(int))), c::ERR_ARG);
    assert_eq!(class(Datatype::resized(int, i64::MAX, 4)), c::ERR_ARG);
    let text = Datatype::indexed(&[1, -2], &[0, 1], int).unwrap_err().to_string();
    assert_eq!(text, "array_of_blocklengths = -2: element 1 must not be negative");

    let subarray = |sizes: &[i64], subsizes: &[i64], starts: &[i64], order| {
        class(Datatype::subarray(sizes, subsizes, starts, order, int))
    };
    assert_eq!(subarray(&[], &[], &[], c::ORDER_C), c::ERR_ARG);
    assert_eq!(subarray(&[0], &[1], &[0], c::ORDER_C), c::ERR_ARG);
    assert_eq!(subarray(&[4], &[5], &[0], c::ORDER_C), c::ERR_ARG);
    assert_eq!(subarray(&[4], &[2], &[3], c::ORDER_C), c::ERR_ARG);
    assert_eq!(subarray(&[4], &[2], &[-1], c::ORDER_C), c::ERR_ARG);
    assert_eq!(subarray(&[4], &[2], &[1], 1), c::ERR_ARG);
    assert_eq!(subarray(&[huge, 9], &[1, 1], &[0, 0], c::ORDER_C), c::ERR_ARG);

    let dflt = c::DISTRIBUTE_DFLT_DARG;
    let darray = |size, rank, distrib, darg, psize| {
        let order = c::ORDER_C;
        class(Datatype::darray(size, rank, &[10], &[distrib], &[darg], &[psize], order, int))
    };
    assert_eq!(darray(0, 0, c::DISTRIBUTE_BLOCK, dflt, 1), c::ERR_ARG);
    assert_eq!(darray(2, 2, c::DISTRIBUTE_BLOCK, dflt, 2), c::ERR_ARG);
    assert_eq!(darray(2, 0, c::DISTRIBUTE_BLOCK, dflt, 3), c::ERR_ARG);
    assert_eq!(darray(2, 0, c::DISTRIBUTE_BLOCK, 4, 2), c::ERR_ARG);
    assert_eq!(darray(2, 0, c::DISTRIBUTE_CYCLIC, 0, 2), c::ERR_ARG);
    assert_eq!(darray(2, 0, c::DISTRIBUTE_NONE, dflt, 2), c::ERR_ARG);
    assert_eq!(darray(2, 0, 99, dflt, 2), c::ERR_ARG);
}

#[test]
fn struct_extents_are_rounded_up_unless_resized() {
    let types = [named(c::DOUBLE), named(c::CHAR)];
    let padded = Datatype::create_struct(&[1, 1], &[0, 8], &types).unwrap();
    assert_eq!((padded.size(), padded.extent(), padded.true_extent()), (9, 16, 9));
    let tight = Datatype::resized(&padded, 0, 9).unwrap();
    assert_eq!(Datatype::contiguous(3, &tight).unwrap().extent(), 27);
}

#[test]
fn a_name_is_cut_at_the_limit() {
    let datatype = Datatype::dup(&named(c::INT)).unwrap();
    assert_eq!(datatype.name(), "");
    datatype.set_name(&"é".repeat(100));
    assert_eq!(datatype.name(), "é".repeat(63));
    assert_eq!((datatype.basic(), datatype.committed()), (Some(BasicType::I32), true));
}

/// A number for each dimension.
type Grid = [i32; 3];

#[test]
fn distributed_arrays_cover_every_element_once() {
    let int = named(c::INT);
    let (block, cyclic, none) = (c::DISTRIBUTE_BLOCK, c::DISTRIBUTE_CYCLIC, c::DISTRIBUTE_NONE);
    let dflt = c::DISTRIBUTE_DFLT_DARG;
    let cases: [[Grid; 4]; 5] = [
        [[7, 5, 3], [block, cyclic, none], [dflt, dflt, dflt], [3, 2, 1]],
        [[8, 9, 2], [cyclic, cyclic, block], [2, 4, dflt], [2, 2, 2]],
        [[2, 3, 4], [block, block, cyclic], [dflt, 3, 3], [4, 1, 2]],
        [[1, 10, 1], [none, cyclic, none], [dflt, 3, dflt], [1, 3, 1]],
        [[6, 6, 6], [cyclic, none, cyclic], [6, dflt, 1], [1, 1, 1]],
    ];
    for [gsizes, distribs, dargs, psizes] in cases {
        let gsizes = gsizes.map(i64::from);
        for order in [c::ORDER_C, c::ORDER_FORTRAN] {
            let size: i32 = psizes.iter().product();
            let total: i64 = gsizes.iter().product();
            let array = Block::allocate(4 * total as usize).unwrap();
            let mut seen = vec![0; total as usize];
            for rank in 0..size {
                let part =
                    Datatype::darray(size, rank, &gsizes, &distribs, &dargs, &psizes, order, &int)
                        .unwrap();
                assert_eq!((part.lb(), part.extent()), (0, 4 * total));
                for run in array.clone().view(part.shape(1).unwrap()).runs(0) {
                    let first = (run.address - array.address()) / 4;
                    seen[first..first + run.len / 4].iter_mut().for_each(|n| *n += 1);
                }
            }
            assert!(seen.iter().all(|&n| n == 1), "{gsizes:?} {distribs:?} {order}: {seen:?}");
        }
    }
}

/// Process 1 of 2 x 2 in row-major order has the right column of processes, in either storage
/// order.
#[test]
fn distributed_arrays_number_processes_by_rows() {
    let byte = named(c::BYTE);
    let (block, dflt) = (c::DISTRIBUTE_BLOCK, c::DISTRIBUTE_DFLT_DARG);
    for (order, expect) in [(c::ORDER_C, [2, 3, 6, 7]), (c::ORDER_FORTRAN, [8, 9, 12, 13])] {
        let part = Datatype::darray(4, 1, &[4, 4], &[block; 2], &[dflt; 2], &[2, 2], order, &byte)
            .unwrap();
        let array = region_of(&(0..16).collect::<Vec<u8>>());
        let mut packed = [0; 4];
        array.view(part.shape(1).unwrap()).pack(0, &mut packed);
        assert_eq!(packed, expect);
    }
}

#[test]
fn parameterized_types_are_one_object_for_one_argument() {
    let real = Datatype::f90_real(12, c::UNDEFINED).unwrap();
    assert_eq!(real.basic(), Some(BasicType::F64));
    assert_eq!(real.handle(), Datatype::f90_real(12, c::UNDEFINED).unwrap().handle());
    assert_ne!(real.handle(), Datatype::f90_real(13, c::UNDEFINED).unwrap().handle());
    assert_eq!(real.contents().unwrap().integers, [12, c::UNDEFINED.into()]);
    assert_eq!(class(Datatype::free(real.handle())), c::ERR_TYPE);
    assert!(Datatype::resolve_committed(real.handle()).is_ok());
    assert_eq!(
        Datatype::f90_complex(c::UNDEFINED, 37).unwrap().basic(),
        Some(BasicType::ComplexF32)
    );
    assert_eq!(Datatype::f90_real(30, 400).unwrap().basic(), Some(BasicType::Quad));
    assert_eq!(Datatype::f90_integer(10).unwrap().size(), 8);
    assert_eq!(class(Datatype::f90_integer(39)), c::ERR_ARG);
    assert_eq!(class(Datatype::f90_real(34, 1)), c::ERR_ARG);
    assert_eq!(class(Datatype::f90_real(c::UNDEFINED, c::UNDEFINED)), c::ERR_ARG);
    assert_eq!(match_size(c::TYPECLASS_REAL, 8).unwrap(), c::REAL8);
    assert_eq!(match_size(c::TYPECLASS_COMPLEX, 8).unwrap(), c::COMPLEX8);
    assert_eq!(match_size(c::TYPECLASS_INTEGER, 2).unwrap(), c::INTEGER2);
    assert_eq!(class(match_size(c::TYPECLASS_INTEGER, 3)), c::ERR_ARG);
    assert_eq!(class(match_size(1, 4)), c::ERR_ARG);
}

#[test]
fn value_and_index_make_the_named_pairs() {
    assert_eq!(value_index(c::DOUBLE, c::INT).unwrap(), c::DOUBLE_INT);
    assert_eq!(value_index(c::INTEGER, c::INTEGER).unwrap(), c::TWOINTEGER);
    assert_eq!(value_index(c::DOUBLE, c::INT64_T).unwrap(), c::DATATYPE_NULL);
    let derived = Datatype::contiguous(1, &named(c::INT)).unwrap().register().unwrap();
    assert_eq!(class(value_index(c::INT, derived)), c::ERR_TYPE);
}

#[test]
fn counts_and_elements_of_received_bytes() {
    let pair = named(c::DOUBLE_INT);
    assert_eq!((pair.count(24), pair.count(20)), (Some(2), None));
    assert_eq!((pair.elements(20), pair.elements(24), pair.elements(21)), (Some(3), Some(4), None));
    assert_eq!(pair.bytes_of_elements(3).unwrap(), 20);
    let empty = Datatype::contiguous(0, &pair).unwrap();
    assert_eq!((empty.count(0), empty.count(1), empty.elements(0)), (Some(0), None, Some(0)));
    assert_eq!(class(empty.bytes_of_elements(1)), c::ERR_COUNT);
    assert_eq!(class(pair.bytes_of_elements(-1)), c::ERR_COUNT);
}

#[test]
fn packing_stays_within_its_buffer() {
    let from = region_of(&[1, 2, 3, 4, 5, 6, 7, 8]);
    let to = region_of(&[0; 12]);
    assert_eq!(pack(from.clone(), 2, c::SHORT, &to, 12, 3).unwrap(), 7);
    assert_eq!(bytes_of(&to, 12), [0, 0, 0, 1, 2, 3, 4, 0, 0, 0, 0, 0]);
    assert_eq!(class(pack(from.clone(), 2, c::INT, &to, 12, 5)), c::ERR_TRUNCATE);
    assert_eq!(class(pack(from.clone(), 0, c::INT, &to, 12, 13)), c::ERR_ARG);
    assert_eq!(class(pack(from.clone(), 0, c::INT, &to, 12, -1)), c::ERR_ARG);
    assert_eq!(class(pack(from.clone(), 0, c::INT, &to, -1, 0)), c::ERR_ARG);
    assert_eq!(unpack(&to, 12, 3, from.clone(), 1, c::INT).unwrap(), 7);
    assert_eq!(bytes_of(&from, 8), [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(class(unpack(&to, 12, 9, from, 1, c::INT)), c::ERR_TRUNCATE);
    assert_eq!(pack_size(3, c::DOUBLE_INT).unwrap(), 36);
    assert_eq!(class(pack_size(-3, c::INT)), c::ERR_COUNT);
}

/// Packs to external32, compares, unpacks again, compares.
fn external(handle: u32, native: &[u8], expect: &[u8]) {
    let count = native.len() as i64 / named(handle).extent();
    let to = region_of(&vec![0xee; expect.len()]);
    let size = expect.len() as i64;
    assert_eq!(external_size("external32", count, handle).unwrap(), size);
    let end = pack_external("external32", region_of(native), count, handle, &to, size, 0).unwrap();
    assert_eq!((end, &bytes_of(&to, expect.len())[..]), (size, expect));
    let back = region_of(&vec![0; native.len()]);
    let end = unpack_external("external32", &to, size, 0, back.clone(), count, handle).unwrap();
    assert_eq!((end, &bytes_of(&back, native.len())[..]), (size, native));
}

#[test]
fn external32_is_big_endian_with_fixed_sizes() {
    external(c::INT, &[1, 2, 3, 4, 5, 6, 7, 8], &[4, 3, 2, 1, 8, 7, 6, 5]);
    external(c::BYTE, &[1, 2, 3], &[1, 2, 3]);
    external(c::LONG, &(-2i64).to_ne_bytes(), &[0xff, 0xff, 0xff, 0xfe]);
    external(c::UNSIGNED_LONG, &0x8000_0001u64.to_ne_bytes(), &[0x80, 0, 0, 1]);
    external(c::WCHAR, &0x20acu32.to_ne_bytes(), &[0x20, 0xac]);
    let pair = [&1.5f32.to_ne_bytes()[..], &(-2f32).to_ne_bytes()].concat();
    external(c::C_COMPLEX, &pair, &[0x3f, 0xc0, 0, 0, 0xc0, 0, 0, 0]);
    let mut double_int = [1f64.to_ne_bytes(), [7, 0, 0, 0, 0, 0, 0, 0]].concat();
    double_int.extend_from_slice(&double_int.clone());
    let one = [0x3f, 0xf0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7];
    external(c::DOUBLE_INT, &double_int, &[one, one].concat());
    let many: Vec<u8> = (0..2000u16).flat_map(u16::to_le_bytes).collect();
    external(
        c::UNSIGNED_SHORT,
        &many,
        &(0..2000u16).flat_map(u16::to_be_bytes).collect::<Vec<_>>(),
    );
}

#[cfg(target_arch = "x86_64")]
#[test]
fn long_doubles_become_quads() {
    // 1.5: sign and exponent 0x3fff, mantissa with its explicit leading 1.
    let mut native = [0; 16];
    native[7] = 0xc0;
    native[8..10].copy_from_slice(&0x3fffu16.to_le_bytes());
    let mut quad = [0; 16];
    quad[..3].copy_from_slice(&[0x3f, 0xff, 0x80]);
    external(c::LONG_DOUBLE, &native, &quad);
    external(c::C_LONG_DOUBLE_COMPLEX, &[native, native].concat(), &[quad, quad].concat());
}

#[test]
fn what_external32_cannot_hold_is_an_error() {
    let to = region_of(&[0; 8]);
    for (handle, value) in [(c::LONG, 1u64 << 40), (c::LONG, 1 << 31), (c::UNSIGNED_LONG, 1 << 32)]
    {
        let from = region_of(&value.to_ne_bytes());
        assert_eq!(
            class(pack_external("external32", from, 1, handle, &to, 8, 0)),
            c::ERR_CONVERSION
        );
    }
    let from = region_of(&[0; 8]);
    assert_eq!(class(pack_external("native", from.clone(), 1, c::INT, &to, 8, 0)), c::ERR_ARG);
    assert_eq!(
        class(pack_external("external32", from.clone(), 1, c::INT, &to, 8, 5)),
        c::ERR_TRUNCATE
    );
    assert_eq!(class(external_size("external32", -1, c::INT)), c::ERR_COUNT);
}

#[test]
fn large_counts_are_decoded_in_the_large_form() {
    let byte = named(c::BYTE);
    let big = 1i64 << 33;
    let small = Datatype::hvector(2, 3, big, &byte).unwrap();
    assert_eq!((small.envelope().integers, small.envelope().addresses), (2, 1));
    let large = Datatype::hvector(2, big, big, &byte).unwrap();
    assert_eq!((large.envelope().integers, large.envelope().addresses), (0, 0));
    assert_eq!(large.contents().unwrap().counts, [2, big, big]);
    let array = Datatype::subarray(&[big], &[1], &[0], c::ORDER_C, &byte).unwrap();
    let contents = array.contents().unwrap();
    assert_eq!(contents.integers, [1, c::ORDER_C.into()]);
    assert_eq!(contents.counts, [big, 1, 0]);
    assert_eq!(contents.datatypes, [c::BYTE]);
}

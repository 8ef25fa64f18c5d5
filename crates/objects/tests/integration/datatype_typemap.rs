//! Random datatypes against the standard's own definition, a list of (type, displacement) (MPI 5.0,
//! 5.1): bounds, bytes, elements, and decoding by envelope and contents.

use mica_memory::{Block, View};
use mica_objects::constants as c;
use mica_objects::datatype::{Datatype, pack, pack_size, unpack};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Tree {
    Named(u32),
    Contiguous(i64, Box<Tree>),
    Vector(i64, i64, i64, Box<Tree>),
    Hvector(i64, i64, i64, Box<Tree>),
    Indexed(Vec<(i64, i64)>, Box<Tree>),
    Hindexed(Vec<(i64, i64)>, Box<Tree>),
    IndexedBlock(i64, Vec<i64>, Box<Tree>),
    HindexedBlock(i64, Vec<i64>, Box<Tree>),
    Struct(Vec<(i64, i64, Tree)>),
    /// Size, subsize and start of each dimension.
    Subarray(Vec<(i64, i64, i64)>, i32, Box<Tree>),
    Resized(i64, i64, Box<Tree>),
    Dup(Box<Tree>),
}

/// A named datatype: handle, size and displacement of each field, alignment.
type Named = (u32, &'static [(i64, i64)], i64);

const NAMED: [Named; 7] = [
    (c::CHAR, &[(1, 0)], 1),
    (c::SHORT, &[(2, 0)], 2),
    (c::INT, &[(4, 0)], 4),
    (c::DOUBLE, &[(8, 0)], 8),
    (c::C_DOUBLE_COMPLEX, &[(16, 0)], 8),
    (c::DOUBLE_INT, &[(8, 0), (4, 8)], 8),
    (c::SHORT_INT, &[(2, 0), (4, 4)], 4),
];

/// A type map: entries as (size, displacement), the upper bounds of the parts that have no markers,
/// and the markers that `MPI_Type_create_resized` leaves.
#[derive(Clone, Default)]
struct Map {
    entries: Vec<(i64, i64)>,
    part_ends: Vec<i64>,
    lb_markers: Vec<i64>,
    ub_markers: Vec<i64>,
    align: i64,
}

impl Map {
    fn lb(&self) -> i64 {
        let markers = self.lb_markers.iter().copied().min();
        markers.or(self.entries.iter().map(|e| e.1).min()).unwrap_or(0)
    }

    fn ub(&self) -> i64 {
        let bytes = self
            .entries
            .iter()
            .map(|(size, at)| at + size)
            .chain(self.part_ends.iter().copied())
            .max()
            .map(|end| {
                let extent = end - self.lb();
                self.lb() + (extent + self.align - 1) / self.align * self.align
            });
        self.ub_markers.iter().copied().max().or(bytes).unwrap_or(0)
    }

    fn extent(&self) -> i64 {
        self.ub() - self.lb()
    }

    /// Adds another map's entries and markers at a displacement.
    fn add(&mut self, other: &Map, at: i64) {
        self.entries.extend(other.entries.iter().map(|(size, d)| (*size, d + at)));
        if other.ub_markers.is_empty() && !other.entries.is_empty() {
            self.part_ends.push(other.ub() + at);
        }
        self.lb_markers.extend(other.lb_markers.iter().map(|d| d + at));
        self.ub_markers.extend(other.ub_markers.iter().map(|d| d + at));
        self.align = self.align.max(other.align);
    }

    fn block(&mut self, other: &Map, length: i64, at: i64) {
        (0..length).for_each(|i| self.add(other, at + i * other.extent()));
    }

    fn bytes(&self) -> impl Iterator<Item = i64> {
        self.entries.iter().flat_map(|&(size, at)| at..at + size)
    }
}

/// A small count, seldom 0.
fn few(limit: i64) -> impl Strategy<Value = i64> {
    prop_oneof![1 => Just(0), 9 => 1..limit]
}

fn tree() -> impl Strategy<Value = Tree> {
    let leaf = prop::sample::select(NAMED.to_vec()).prop_map(|(handle, ..)| Tree::Named(handle));
    leaf.prop_recursive(4, 20, 3, |inner| {
        let boxed = || inner.clone().prop_map(Box::new);
        let blocks = |reach: i64| prop::collection::vec((few(3), -reach..3 * reach), 0..5);
        let places = |reach: i64| prop::collection::vec(-reach..3 * reach, 0..5);
        let dimension = (1..5i64)
            .prop_flat_map(|size| (Just(size), 1..=size))
            .prop_flat_map(|(size, subsize)| (Just(size), Just(subsize), 0..=size - subsize));
        let order = prop::sample::select(vec![c::ORDER_C, c::ORDER_FORTRAN]);
        prop_oneof![
            (few(4), boxed()).prop_map(|(n, t)| Tree::Contiguous(n, t)),
            (few(4), few(3), -4..5i64, boxed()).prop_map(|(n, b, s, t)| Tree::Vector(n, b, s, t)),
            (few(4), few(3), -40..70i64, boxed())
                .prop_map(|(n, b, s, t)| Tree::Hvector(n, b, s, t)),
            (blocks(3), boxed()).prop_map(|(b, t)| Tree::Indexed(b, t)),
            (blocks(40), boxed()).prop_map(|(b, t)| Tree::Hindexed(b, t)),
            (few(3), places(4), boxed()).prop_map(|(b, d, t)| Tree::IndexedBlock(b, d, t)),
            (few(3), places(50), boxed()).prop_map(|(b, d, t)| Tree::HindexedBlock(b, d, t)),
            prop::collection::vec((few(3), -30..90i64, inner.clone()), 0..5).prop_map(Tree::Struct),
            (prop::collection::vec(dimension, 1..4), order, boxed())
                .prop_map(|(d, o, t)| Tree::Subarray(d, o, t)),
            (-20..20i64, -10..80i64, boxed()).prop_map(|(lb, ex, t)| Tree::Resized(lb, ex, t)),
            boxed().prop_map(Tree::Dup),
        ]
    })
}

fn map(tree: &Tree) -> Map {
    let mut out = Map { align: 1, ..Map::default() };
    match tree {
        Tree::Named(handle) => {
            let (_, fields, align) = NAMED.iter().find(|named| named.0 == *handle).unwrap();
            out.entries = fields.to_vec();
            out.align = *align;
        }
        Tree::Contiguous(n, t) => out.block(&map(t), *n, 0),
        Tree::Vector(n, b, s, t) => {
            let t = map(t);
            (0..*n).for_each(|i| out.block(&t, *b, i * s * t.extent()));
        }
        Tree::Hvector(n, b, s, t) => {
            let t = map(t);
            (0..*n).for_each(|i| out.block(&t, *b, i * s));
        }
        Tree::Indexed(blocks, t) => {
            let t = map(t);
            blocks.iter().for_each(|(b, d)| out.block(&t, *b, d * t.extent()));
        }
        Tree::Hindexed(blocks, t) => {
            let t = map(t);
            blocks.iter().for_each(|(b, d)| out.block(&t, *b, *d));
        }
        Tree::IndexedBlock(b, places, t) => {
            let t = map(t);
            places.iter().for_each(|d| out.block(&t, *b, d * t.extent()));
        }
        Tree::HindexedBlock(b, places, t) => {
            let t = map(t);
            places.iter().for_each(|d| out.block(&t, *b, *d));
        }
        Tree::Struct(fields) => fields.iter().for_each(|(b, d, t)| out.block(&map(t), *b, *d)),
        Tree::Subarray(dims, order, t) => {
            let t = map(t);
            let mut dims = dims.clone();
            if *order == c::ORDER_FORTRAN {
                dims.reverse();
            }
            // Now the last dimension varies fastest. Count through all elements of the subarray.
            let total: i64 = dims.iter().map(|d| d.1).product();
            for element in 0..total {
                let (mut rest, mut place, mut stride) = (element, 0, 1);
                for (size, subsize, start) in dims.iter().rev() {
                    place += (rest % subsize + start) * stride;
                    rest /= subsize;
                    stride *= size;
                }
                out.add(&t, place * t.extent());
            }
            out.lb_markers = vec![0];
            out.ub_markers = vec![dims.iter().map(|d| d.0).product::<i64>() * t.extent()];
        }
        Tree::Resized(lb, extent, t) => {
            out = map(t);
            out.lb_markers = vec![*lb];
            out.ub_markers = vec![lb + extent];
        }
        Tree::Dup(t) => out = map(t),
    }
    out
}

fn make(tree: &Tree) -> Datatype {
    let split = |blocks: &[(i64, i64)]| -> (Vec<i64>, Vec<i64>) { blocks.iter().copied().unzip() };
    match tree {
        Tree::Named(handle) => Datatype::resolve(*handle),
        Tree::Contiguous(n, t) => Datatype::contiguous(*n, &make(t)),
        Tree::Vector(n, b, s, t) => Datatype::vector(*n, *b, *s, &make(t)),
        Tree::Hvector(n, b, s, t) => Datatype::hvector(*n, *b, *s, &make(t)),
        Tree::Indexed(blocks, t) => {
            let (lengths, places) = split(blocks);
            Datatype::indexed(&lengths, &places, &make(t))
        }
        Tree::Hindexed(blocks, t) => {
            let (lengths, places) = split(blocks);
            Datatype::hindexed(&lengths, &places, &make(t))
        }
        Tree::IndexedBlock(b, places, t) => Datatype::indexed_block(*b, places, &make(t)),
        Tree::HindexedBlock(b, places, t) => Datatype::hindexed_block(*b, places, &make(t)),
        Tree::Struct(fields) => {
            let lengths: Vec<_> = fields.iter().map(|f| f.0).collect();
            let places: Vec<_> = fields.iter().map(|f| f.1).collect();
            let types: Vec<_> = fields.iter().map(|f| make(&f.2)).collect();
            Datatype::create_struct(&lengths, &places, &types)
        }
        Tree::Subarray(dims, order, t) => {
            let list = |f: fn(&(i64, i64, i64)) -> i64| dims.iter().map(f).collect::<Vec<_>>();
            Datatype::subarray(&list(|d| d.0), &list(|d| d.1), &list(|d| d.2), *order, &make(t))
        }
        Tree::Resized(lb, extent, t) => Datatype::resized(&make(t), *lb, *extent),
        Tree::Dup(t) => Datatype::dup(&make(t)),
    }
    .unwrap()
}

/// Makes the datatype again from what the envelope and contents say, and frees the handles it got.
fn remake(datatype: &Datatype) -> Datatype {
    let envelope = datatype.envelope();
    if envelope.combiner == c::COMBINER_NAMED {
        return datatype.clone();
    }
    let contents = datatype.contents().unwrap();
    let (i, a) = (&contents.integers[..], &contents.addresses[..]);
    assert_eq!((i.len(), a.len()), (envelope.integers, envelope.addresses));
    assert_eq!(contents.datatypes.len(), envelope.datatypes);
    let types: Vec<Datatype> = contents
        .datatypes
        .iter()
        .map(|&handle| {
            let inner = Datatype::resolve(handle).unwrap();
            let again = remake(&inner);
            assert_eq!(Datatype::free(handle).is_err(), inner.is_predefined());
            again
        })
        .collect();
    let n = i.first().map_or(0, |&n| n as usize);
    match envelope.combiner {
        c::COMBINER_CONTIGUOUS => Datatype::contiguous(i[0], &types[0]),
        c::COMBINER_VECTOR => Datatype::vector(i[0], i[1], i[2], &types[0]),
        c::COMBINER_HVECTOR => Datatype::hvector(i[0], i[1], a[0], &types[0]),
        c::COMBINER_INDEXED => Datatype::indexed(&i[1..n + 1], &i[n + 1..], &types[0]),
        c::COMBINER_HINDEXED => Datatype::hindexed(&i[1..], a, &types[0]),
        c::COMBINER_INDEXED_BLOCK => Datatype::indexed_block(i[1], &i[2..], &types[0]),
        c::COMBINER_HINDEXED_BLOCK => Datatype::hindexed_block(i[1], a, &types[0]),
        c::COMBINER_STRUCT => Datatype::create_struct(&i[1..], a, &types),
        c::COMBINER_SUBARRAY => {
            let order = i[3 * n + 1] as i32;
            let (sizes, rest) = i[1..].split_at(n);
            Datatype::subarray(sizes, &rest[..n], &rest[n..2 * n], order, &types[0])
        }
        c::COMBINER_RESIZED => Datatype::resized(&types[0], a[0], a[1]),
        c::COMBINER_DUP => Datatype::dup(&types[0]),
        other => panic!("no such combiner: {other}"),
    }
    .unwrap()
}

/// Displacements of the bytes of one element, as the library sees them.
fn bytes_of(datatype: &Datatype) -> Vec<i64> {
    let far = std::ptr::without_provenance::<std::ffi::c_void>(1 << 40);
    // SAFETY: nothing is read or written through the view, so any address will do.
    let view = unsafe { View::user(far, datatype.shape(1).unwrap()) };
    view.runs(0)
        .flat_map(|run| (run.address..run.address + run.len).map(|at| at as i64 - (1 << 40)))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 4 } else { 1500 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn datatypes_are_their_type_maps(tree in tree()) {
        let (datatype, map) = (make(&tree), map(&tree));
        if map.entries.len() > 20_000 {
            return Ok(());
        }
        let size: i64 = map.entries.iter().map(|entry| entry.0).sum();
        prop_assert_eq!(datatype.size(), size);
        prop_assert_eq!((datatype.lb(), datatype.extent()), (map.lb(), map.extent()));
        let first = map.bytes().min().unwrap_or(0);
        let end = map.bytes().max().map_or(first, |last| last + 1);
        prop_assert_eq!((datatype.true_lb(), datatype.true_extent()), (first, end - first));
        prop_assert_eq!(bytes_of(&datatype), map.bytes().collect::<Vec<_>>());
    }

    #[test]
    fn contents_make_the_same_datatype(tree in tree()) {
        let datatype = make(&tree);
        if datatype.size() > 1 << 17 {
            return Ok(());
        }
        let again = remake(&datatype);
        prop_assert_eq!(again.envelope(), datatype.envelope());
        prop_assert_eq!((again.lb(), again.extent()), (datatype.lb(), datatype.extent()));
        prop_assert_eq!(bytes_of(&again), bytes_of(&datatype));
    }

    #[test]
    fn elements_are_counted_entry_by_entry(tree in tree(), cut in 0.0..1.0f64) {
        let (datatype, map) = (make(&tree), map(&tree));
        if map.entries.is_empty() || map.entries.len() > 20_000 {
            return Ok(());
        }
        let n = map.entries.len() as u64;
        let elements = (cut * 3.0 * n as f64) as u64;
        let (whole, rest) = (elements / n, (elements % n) as usize);
        let partial: i64 = map.entries[..rest].iter().map(|entry| entry.0).sum();
        let bytes = whole * datatype.size() as u64 + partial as u64;
        prop_assert_eq!(datatype.elements(bytes), Some(elements));
        prop_assert_eq!(datatype.bytes_of_elements(elements as i64).unwrap(), bytes);
        prop_assert_eq!(datatype.count(bytes), (partial == 0).then_some(whole));
        // Half a basic element is not a number of elements.
        if map.entries[rest].0 > 1 {
            prop_assert_eq!(datatype.elements(bytes + 1), None);
        }
    }

    #[test]
    fn what_is_packed_comes_back(tree in tree(), count in 0..4i64, position in 0..9i64) {
        let (datatype, map) = (make(&tree), map(&tree));
        let element = |i: i64| map.bytes().map(move |at| (i, at));
        let extent = map.extent();
        let all: Vec<i64> =
            (0..count).flat_map(element).map(|(i, at)| at + i * extent).take(1 << 16).collect();
        let low = all.iter().copied().min().unwrap_or(0);
        let span = all.iter().copied().max().map_or(0, |high| high + 1 - low) as usize;
        if all.len() == 1 << 16 || span > 1 << 20 {
            return Ok(());
        }
        datatype.commit();
        let handle = datatype.register().unwrap();

        let content: Vec<u8> = (0..span).map(|i| (i * 37 % 251) as u8).collect();
        let memory = Block::allocate(span).unwrap();
        memory.write_bytes(&content);
        let buffer = memory.offset(-low as isize);
        let size = pack_size(count, handle).unwrap() + position;
        let packed = Block::allocate(size as usize).unwrap();
        let end = pack(buffer.clone(), count, handle, &packed, size, position).unwrap();
        prop_assert_eq!(end, size);
        let mut bytes = vec![0; all.len()];
        packed.offset(position as isize).read_bytes(&mut bytes);
        let gathered: Vec<u8> = all.iter().map(|at| content[(at - low) as usize]).collect();
        prop_assert_eq!(bytes, gathered);

        let mut expect = vec![0; span];
        memory.write_bytes(&expect);
        prop_assert_eq!(unpack(&packed, size, position, buffer, count, handle).unwrap(), size);
        all.iter().for_each(|at| expect[(at - low) as usize] = content[(at - low) as usize]);
        let mut got = vec![0; span];
        memory.read_bytes(&mut got);
        prop_assert_eq!(got, expect);
        Datatype::free(handle).unwrap_or_default();
    }
}

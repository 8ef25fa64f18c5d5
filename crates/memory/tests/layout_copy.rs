//! Random layouts against the plain list of their bytes' displacements: pack, unpack, runs and
//! copies at any position.

use std::sync::Arc;

use mica_memory::{Block, ByteRun, Region, Shape, TypeLayout, View};
use proptest::prelude::*;

/// How a layout is made.
#[derive(Clone, Debug)]
enum Tree {
    Basic(u64),
    Vector(u64, u64, i64, Box<Tree>),
    Indexed(Vec<(u64, i64)>, Box<Tree>),
    Structure(Vec<(u64, i64, Tree)>),
    Resized(i64, i64, Box<Tree>),
}

/// A layout with the displacement of each of its bytes in order.
struct Sample {
    layout: TypeLayout,
    bytes: Vec<i64>,
}

/// A small count, seldom 0.
fn few(limit: u64) -> impl Strategy<Value = u64> {
    prop_oneof![1 => Just(0), 9 => 1..limit]
}

fn tree() -> impl Strategy<Value = Tree> {
    let basic = prop::sample::select(vec![1u64, 2, 4, 8, 12, 16, 40]).prop_map(Tree::Basic);
    basic.prop_recursive(4, 24, 4, |inner| {
        let boxed = inner.clone().prop_map(Box::new);
        let displacement = -60..200i64;
        prop_oneof![
            (few(5), few(4), -40..80i64, boxed.clone())
                .prop_map(|(n, length, stride, body)| Tree::Vector(n, length, stride, body)),
            (prop::collection::vec((few(3), displacement.clone()), 0..6), boxed.clone())
                .prop_map(|(blocks, body)| Tree::Indexed(blocks, body)),
            prop::collection::vec((few(3), displacement, inner), 0..4).prop_map(Tree::Structure),
            (-16..16i64, -20..90i64, boxed)
                .prop_map(|(lb, extent, body)| Tree::Resized(lb, extent, body)),
        ]
    })
}

fn build(tree: &Tree) -> Sample {
    fn block(sample: &Sample, length: u64, at: i64, bytes: &mut Vec<i64>) {
        for element in 0..length as i64 {
            let at = at + element * sample.layout.extent();
            bytes.extend(sample.bytes.iter().map(|byte| byte + at));
        }
    }
    let mut bytes = Vec::new();
    let layout = match tree {
        Tree::Basic(n) => {
            bytes.extend(0..*n as i64);
            TypeLayout::basic(*n, 1).unwrap()
        }
        Tree::Vector(count, length, stride, body) => {
            let body = build(body);
            (0..*count as i64).for_each(|i| block(&body, *length, i * stride, &mut bytes));
            body.layout.hvector(*count, *length, *stride).unwrap()
        }
        Tree::Indexed(blocks, body) => {
            let body = build(body);
            blocks.iter().for_each(|(length, at)| block(&body, *length, *at, &mut bytes));
            body.layout.hindexed(blocks.iter().copied()).unwrap()
        }
        Tree::Structure(fields) => {
            let parts: Vec<_> =
                fields.iter().map(|(n, at, field)| (*n, *at, build(field))).collect();
            parts.iter().for_each(|(length, at, field)| block(field, *length, *at, &mut bytes));
            TypeLayout::structure(parts.iter().map(|(n, at, field)| (*n, *at, &field.layout)))
                .unwrap()
        }
        Tree::Resized(lb, extent, body) => {
            let body = build(body);
            let layout = body.layout.resized(*lb, *extent).unwrap();
            bytes = body.bytes;
            layout
        }
    };
    Sample { layout, bytes }
}

/// A message in a block of its own, with the index in the block of each of its bytes.
struct Message {
    block: Region,
    size: usize,
    view: View,
    bytes: Vec<usize>,
}

/// `None` if the message is empty, or too large to be worth a test.
fn message(tree: &Tree, count: usize) -> Option<Message> {
    let Sample { layout, bytes } = build(tree);
    assert_eq!(layout.size() as usize, bytes.len());
    // The interpreter (Miri) needs a second for some kilobytes.
    let limits = if cfg!(miri) { (1 << 9, 1 << 11) } else { (1 << 16, 1 << 22) };
    if bytes.len() * count > limits.0 {
        return None;
    }
    let extent = layout.extent();
    let all: Vec<i64> =
        (0..count as i64).flat_map(|i| bytes.iter().map(move |byte| byte + i * extent)).collect();
    let (low, high) = (all.iter().min().copied()?, all.iter().max().copied()?);
    let size = (high - low + 1) as usize;
    if size > limits.1 {
        return None;
    }
    assert_eq!(layout.true_span(count).unwrap(), (low, high + 1));
    let block = Block::allocate(size).unwrap();
    let shape = Shape::of(&Arc::new(layout), count).unwrap();
    let view = block.offset(-low as isize).view(shape);
    assert_eq!(view.len(), all.len());
    Some(Message { block, size, view, bytes: all.iter().map(|at| (at - low) as usize).collect() })
}

impl Message {
    /// Fills the whole block, gaps too.
    fn fill(&self, seed: usize) -> Vec<u8> {
        let content: Vec<u8> = (0..self.size).map(|i| (((i + seed) * 131) >> 3) as u8).collect();
        self.block.write_bytes(&content);
        content
    }

    fn content(&self) -> Vec<u8> {
        let mut content = vec![0; self.size];
        self.block.read_bytes(&mut content);
        content
    }
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: if cfg!(miri) { 4 } else { 3000 },
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn pack_gathers_and_unpack_scatters(tree in tree(), count in 1..5usize) {
        let Some(message) = message(&tree, count) else { return Ok(()) };
        let content = message.fill(7);
        let expect: Vec<u8> = message.bytes.iter().map(|&at| content[at]).collect();
        let mut packed = vec![0; expect.len() + 3];
        prop_assert_eq!(message.view.pack(0, &mut packed), expect.len());
        prop_assert_eq!(&packed[..expect.len()], &expect);

        let mut scattered = vec![0u8; message.size];
        message.block.write_bytes(&scattered);
        message.bytes.iter().zip(&expect).for_each(|(&at, &byte)| scattered[at] = byte);
        prop_assert_eq!(message.view.unpack(0, &packed), expect.len());
        prop_assert_eq!(message.content(), scattered);
    }

    #[test]
    fn parts_are_parts_of_the_whole(
        tree in tree(),
        count in 1..4usize,
        cuts in prop::collection::vec((0.0..1.1f64, 0.0..1.0f64), 8),
    ) {
        let Some(message) = message(&tree, count) else { return Ok(()) };
        let content = message.fill(3);
        let total = message.bytes.len();
        let whole: Vec<u8> = message.bytes.iter().map(|&at| content[at]).collect();
        for (start, length) in cuts {
            let position = (start * total as f64) as usize;
            let wanted = (length * total as f64) as usize + 1;
            let end = (position + wanted).min(total);
            let expect = whole.get(position..end).unwrap_or_default();
            let mut part = vec![0; wanted];
            prop_assert_eq!(message.view.pack(position, &mut part), expect.len());
            prop_assert_eq!(&part[..expect.len()], expect);

            let replacement: Vec<u8> = (0..wanted).map(|i| (i * 17 + 1) as u8).collect();
            let mut changed = message.fill(3);
            for (k, &at) in message.bytes.iter().enumerate().take(end).skip(position) {
                changed[at] = replacement[k - position];
            }
            prop_assert_eq!(message.view.unpack(position, &replacement), expect.len());
            prop_assert_eq!(message.content(), changed);
            message.fill(3);
        }
    }

    #[test]
    fn runs_are_the_bytes_in_order(tree in tree(), count in 1..4usize, start in 0.0..1.0f64) {
        let Some(message) = message(&tree, count) else { return Ok(()) };
        let base = message.block.address();
        let position = (start * message.bytes.len() as f64) as usize;
        let runs: Vec<ByteRun> = message.view.runs(position).collect();
        let covered: Vec<usize> = runs
            .iter()
            .flat_map(|run| run.address - base..run.address - base + run.len)
            .collect();
        prop_assert_eq!(&covered[..], &message.bytes[position..]);
        prop_assert!(runs.windows(2).all(|pair| pair[0].address + pair[0].len != pair[1].address));
        prop_assert!(runs.len() <= message.view.run_count_hint());
        prop_assert_eq!(&message.view.iovecs(position, 3)[..], &runs[..runs.len().min(3)]);
        if let Some((address, len)) = message.view.as_contiguous() {
            prop_assert_eq!((address - base, len), (message.bytes[0], message.bytes.len()));
        }
    }

    #[test]
    fn any_layout_copies_to_any_other(a in tree(), b in tree(), m in 1..6usize, n in 1..6usize) {
        let (Some(from), Some(to)) = (message(&a, m), message(&b, n)) else { return Ok(()) };
        let (source, mut expect) = (from.fill(1), to.fill(2));
        for (&at, &source_at) in to.bytes.iter().zip(&from.bytes) {
            expect[at] = source[source_at];
        }
        let copied = to.view.copy_from(&from.view);
        prop_assert_eq!(copied, from.bytes.len().min(to.bytes.len()));
        prop_assert_eq!(to.content(), expect);
        prop_assert_eq!(from.content(), source);
    }
}

/// Kinds of regular layouts that have copy loops of their own, long enough to be cut often.
fn regular() -> Vec<Tree> {
    let boxed = |n| Box::new(Tree::Basic(n));
    vec![
        Tree::Vector(3000, 1, 24, boxed(8)),
        Tree::Vector(40, 1, 4096, Box::new(Tree::Vector(50, 1, 48, boxed(16)))),
        Tree::Indexed((0..2000).map(|i| (1, i * i % 7919 * 8)).collect(), boxed(4)),
        Tree::Indexed((0..900).map(|i| (1 + i as u64 % 3, i * 64)).collect(), boxed(4)),
        Tree::Vector(3, 1, 9000, boxed(5000)),
    ]
}

#[test]
fn a_pipeline_of_pieces_packs_what_one_call_packs() {
    for tree in regular() {
        let message = message(&tree, 2).expect("small enough");
        let content = message.fill(5);
        let expect: Vec<u8> = message.bytes.iter().map(|&at| content[at]).collect();
        let mut packed = Vec::new();
        let mut piece = [0; 1237];
        loop {
            let n = message.view.pack(packed.len(), &mut piece);
            if n == 0 {
                break;
            }
            packed.extend_from_slice(&piece[..n]);
        }
        assert_eq!(packed, expect);
    }
}

/// Long runs on either side, on both, on none.
#[test]
fn long_and_short_runs_copy_to_one_another() {
    for a in regular() {
        for b in regular() {
            let (from, to) = (message(&a, 2).unwrap(), message(&b, 2).unwrap());
            let (source, mut expect) = (from.fill(1), to.fill(2));
            for (&at, &source_at) in to.bytes.iter().zip(&from.bytes) {
                expect[at] = source[source_at];
            }
            to.view.copy_from(&from.view);
            assert_eq!(to.content(), expect, "from {a:?} to {b:?}");
        }
    }
}

#[test]
fn contiguous_messages_may_overlap() {
    let block = Block::allocate(16).unwrap();
    block.write_bytes(&(0..16).collect::<Vec<u8>>());
    let view = |region: Region| region.view(Shape::Contiguous { bytes: 10 });
    assert_eq!(view(block.offset(4)).copy_from(&view(block.clone())), 10);
    let mut content = [0; 16];
    block.read_bytes(&mut content);
    assert_eq!(content, [0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 14, 15]);
}

#[test]
#[should_panic(expected = "reach outside the")]
fn a_view_stays_in_its_block() {
    let layout = Arc::new(TypeLayout::basic(4, 4).unwrap().hvector(3, 1, 8).unwrap());
    let shape = Shape::of(&layout, 1).unwrap();
    let _ = Block::allocate(19).unwrap().view(shape);
}

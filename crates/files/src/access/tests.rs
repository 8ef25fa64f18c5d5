//! One rank's accesses against a file as an array of bytes, with and without faults of the storage.

use std::io::ErrorKind;
use std::sync::Arc;

use mica_memory::{Block, Region, Shape, View};
use mica_node::counters::LiveCounters;
use mica_objects::constants as c;
use mica_objects::datatype::Datatype;
use mica_objects::error::Result;
use mica_policy::files::{AccessChoice, AccessDirection};
use proptest::prelude::*;

use super::FileAccess;
use crate::guard::{FileGuard, SharedWords};
use crate::hints::{self, Hints};
use crate::representation::Representation;
use crate::storage::Storage;
use crate::storage::memory::{MemoryFile, StorageFault};
use crate::view::FileView;

const FILE: usize = 4096;

/// What an access is tried with.
#[derive(Clone, Debug)]
struct Case {
    displacement: i64,
    /// Lengths of the filetype's pieces, and the gaps behind them, in bytes.
    pieces: Vec<(usize, usize)>,
    start: u64,
    bytes: usize,
    /// Whether memory is in pieces of 3 bytes, 5 apart.
    is_scattered: bool,
    sieves: AccessChoice,
    is_atomic: bool,
}

fn cases() -> impl Strategy<Value = Case> {
    let pieces = prop::collection::vec((1usize..40, 0usize..60), 1..6);
    let choice = prop_oneof![
        Just(AccessChoice::Always),
        Just(AccessChoice::Never),
        Just(AccessChoice::Automatic)
    ];
    let access = (0i64..200, pieces, 0u64..600, 0usize..700);
    (access, any::<bool>(), choice, any::<bool>()).prop_map(
        |((displacement, pieces, start, bytes), is_scattered, sieves, is_atomic)| Case {
            displacement,
            pieces,
            start,
            bytes,
            is_scattered,
            sieves,
            is_atomic,
        },
    )
}

impl Case {
    fn view(&self) -> FileView {
        let byte = Datatype::resolve(c::BYTE).unwrap();
        let mut at = 0;
        let places = self.pieces.iter().map(|(len, gap)| {
            let place = at;
            at += (len + gap) as i64;
            place
        });
        let places: Vec<i64> = places.collect();
        let lengths: Vec<i64> = self.pieces.iter().map(|(len, _)| *len as i64).collect();
        let filetype = Datatype::hindexed(&lengths, &places, &byte).unwrap();
        let filetype = Datatype::resized(&filetype, 0, at).unwrap();
        filetype.commit();
        FileView::new(self.displacement, &byte, &filetype, Representation::Native).unwrap()
    }

    /// The places in the file of the bytes that are accessed.
    fn places(&self) -> Vec<usize> {
        let tile: usize = self.pieces.iter().map(|(len, gap)| len + gap).sum();
        let shown = self.pieces.iter().scan(0, |at, (len, gap)| {
            let from = *at;
            *at += len + gap;
            Some(from..from + len)
        });
        let shown: Vec<usize> = shown.flatten().collect();
        let place = |position: usize| {
            let (number, within) = (position / shown.len(), position % shown.len());
            self.displacement as usize + number * tile + shown[within]
        };
        (self.start as usize..self.start as usize + self.bytes).map(place).collect()
    }

    /// Memory for the bytes, as a message and as a region.
    fn memory(&self) -> (Region, View) {
        let region = Block::allocate(2 * self.bytes + 8).unwrap();
        region.write_bytes(&vec![0xEE; 2 * self.bytes + 8]);
        let byte = Datatype::resolve(c::BYTE).unwrap();
        let shape = match self.is_scattered && self.bytes > 0 {
            false => Shape::Contiguous { bytes: self.bytes },
            true => {
                let lengths: Vec<i64> = (0..self.bytes.div_ceil(3))
                    .map(|i| (self.bytes - 3 * i).min(3) as i64)
                    .collect();
                let places: Vec<i64> = (0..lengths.len() as i64).map(|i| 5 * i).collect();
                Datatype::hindexed(&lengths, &places, &byte).unwrap().shape(1).unwrap()
            }
        };
        (region.clone(), region.view(shape))
    }

    fn run(
        &self,
        storage: &Arc<MemoryFile>,
        direction: AccessDirection,
        data: &View,
    ) -> Result<u64> {
        let words = Block::allocate(SharedWords::bytes(1)).unwrap();
        mica_memory::fill(&words, 0, SharedWords::bytes(1));
        let shared: Arc<dyn Storage> = Arc::clone(storage) as _;
        let guard = FileGuard::new(shared, Some(SharedWords::new(words, 0, 1)));
        guard.set_atomic(self.is_atomic);
        let in_force = Hints::of(&hints::in_force(&Default::default())).unwrap();
        let hints = Hints {
            sieve_reads: self.sieves,
            sieve_writes: self.sieves,
            read_block: 256,
            write_block: 256,
            ..in_force
        };
        let (view, counters) = (&self.view(), &LiveCounters::default());
        let access = FileAccess {
            storage: &**storage,
            guard: &guard,
            view,
            hints,
            name: "a file",
            counters,
        };
        let stream = view.stream(self.start as i64, self.bytes as u64)?;
        access.transfer(direction, stream, data)
    }
}

fn content() -> Vec<u8> {
    (0..FILE).map(|i| (i * 7 % 251) as u8).collect()
}

fn payload(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i * 13 % 241) as u8 ^ 0x80).collect()
}

/// What the file holds after a write.
fn written(case: &Case, payload: &[u8]) -> Vec<u8> {
    let mut file = content();
    for (&place, &byte) in case.places().iter().zip(payload) {
        if place >= file.len() {
            file.resize(place + 1, 0);
        }
        file[place] = byte;
    }
    file
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn writes_what_the_view_shows_and_nothing_else(case in cases()) {
        let storage = Arc::new(MemoryFile::of(&content()));
        let (_, data) = case.memory();
        let payload = payload(case.bytes);
        data.unpack(0, &payload);
        let done = case.run(&storage, AccessDirection::Write, &data).unwrap();
        prop_assert_eq!(done as usize, case.bytes);
        prop_assert_eq!(storage.bytes(), written(&case, &payload));
        prop_assert_eq!(storage.locks(), 0);
    }

    #[test]
    fn reads_what_the_view_shows_up_to_the_end(case in cases(), size in 0usize..FILE) {
        let storage = Arc::new(MemoryFile::of(&content()[..size]));
        let (_, data) = case.memory();
        let done = case.run(&storage, AccessDirection::Read, &data).unwrap() as usize;
        let there = case.places().iter().take_while(|&&place| place < size).count();
        prop_assert_eq!(done, there);
        let mut got = vec![0; done];
        data.pack(0, &mut got);
        let expected: Vec<u8> =
            case.places()[..there].iter().map(|&place| content()[place]).collect();
        prop_assert_eq!(got, expected);
        prop_assert_eq!(storage.locks(), 0);
    }

    #[test]
    fn short_transfers_go_on(case in cases(), most in 1usize..50) {
        let short = StorageFault::Short(most);
        let storage = Arc::new(MemoryFile::of(&content()).failing_at(0, short));
        let (_, data) = case.memory();
        let payload = payload(case.bytes);
        data.unpack(0, &payload);
        case.run(&storage, AccessDirection::Write, &data).unwrap();
        prop_assert_eq!(storage.bytes(), written(&case, &payload));
    }
}

/// A case that goes by blocks, or by runs.
fn many_runs(sieves: AccessChoice) -> Case {
    Case {
        displacement: 10,
        pieces: vec![(8, 8), (3, 30)],
        start: 5,
        bytes: 400,
        is_scattered: true,
        sieves,
        is_atomic: false,
    }
}

#[test]
fn refused_at_each_call_in_turn_and_no_lock_is_left() {
    for sieves in [AccessChoice::Always, AccessChoice::Never] {
        for direction in [AccessDirection::Read, AccessDirection::Write] {
            let case = many_runs(sieves);
            let (_, data) = case.memory();
            data.unpack(0, &payload(case.bytes));
            let whole = Arc::new(MemoryFile::of(&content()));
            case.run(&whole, direction, &data).unwrap();
            assert!(whole.calls() > 3);
            for call in 0..whole.calls() {
                let full = StorageFault::Refused(ErrorKind::StorageFull);
                let storage = Arc::new(MemoryFile::of(&content()).failing_at(call, full));
                let what = format!("{direction:?} {sieves:?}, call {call}");
                match case.run(&storage, direction, &data) {
                    Err(error) => assert_eq!(error.code(), c::ERR_NO_SPACE, "{what}"),
                    // A lock that is refused: the rank does without blocks.
                    Ok(done) => assert_eq!(done as usize, case.bytes, "{what}"),
                }
                assert_eq!(storage.locks(), 0, "{what}");
                // No byte that is not the access's has changed.
                let places = case.places();
                let after = storage.bytes();
                let untouched = (0..FILE).filter(|place| !places.contains(place));
                for place in untouched {
                    assert_eq!(after[place], content()[place], "{what}: byte {place}");
                }
            }
        }
    }
}

#[test]
fn interrupted_calls_are_repeated() {
    let case = many_runs(AccessChoice::Never);
    let (_, data) = case.memory();
    let payload = payload(case.bytes);
    data.unpack(0, &payload);
    let interrupted = StorageFault::Refused(ErrorKind::Interrupted);
    let storage = Arc::new(MemoryFile::of(&content()).failing_at(2, interrupted));
    case.run(&storage, AccessDirection::Write, &data).unwrap();
    assert_eq!(storage.bytes(), written(&case, &payload));
}

#[test]
fn a_device_that_takes_nothing_is_an_error() {
    let case = many_runs(AccessChoice::Never);
    let (_, data) = case.memory();
    let storage = Arc::new(MemoryFile::of(&content()).failing_at(1, StorageFault::Short(0)));
    let error = case.run(&storage, AccessDirection::Write, &data).unwrap_err();
    assert_eq!(error.code(), c::ERR_IO);
    assert!(error.to_string().contains("a file at byte"), "{error}");
}

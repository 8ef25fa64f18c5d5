//! Runs the fuzz targets on their corpus, and on mutations of it that are the same in each run.
//!
//! `MICA_FUZZ_ROUNDS` multiplies the number of mutations; `MICA_FUZZ_INPUT=FILE` with the name of a
//! target as filter tries one file only. A failing input is kept in `target/fuzz`: fix the bug, and
//! put the file into the corpus.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use mica_fuzz::mutate::{Random, mutate};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The inputs of a target with their names, sorted by name.
fn corpus(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = root().join("corpus").join(target);
    let entries = fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut inputs: Vec<_> = entries
        .map(|entry| {
            let path = entry.expect("a readable folder").path();
            let bytes = fs::read(&path).expect("a readable file");
            (path, bytes)
        })
        .collect();
    inputs.sort();
    inputs
}

/// Runs a target on one input; if it fails, keeps the input and fails the test.
fn try_input(target: &str, bytes: &[u8], from: &str) {
    let run = AssertUnwindSafe(|| mica_fuzz::run(target, bytes));
    if catch_unwind(run).is_err() {
        let folder = root().join("../target/fuzz");
        fs::create_dir_all(&folder).expect("target is writable");
        let file = folder.join(format!("{target}.input"));
        fs::write(&file, bytes).expect("target is writable");
        panic!(
            "{target} failed on {} bytes from {from}: {}\nkept as {}",
            bytes.len(),
            bytes.escape_ascii(),
            file.display()
        );
    }
}

/// Runs the corpus, then `count` mutations of it.
fn short_run(target: &str, count: usize) {
    if let Some(file) = std::env::var_os("MICA_FUZZ_INPUT") {
        let bytes = fs::read(&file).expect("MICA_FUZZ_INPUT is a readable file");
        return try_input(target, &bytes, &file.to_string_lossy());
    }
    let inputs = corpus(target);
    assert!(inputs.len() >= 3, "{target} has a corpus of {}", inputs.len());
    for (path, bytes) in &inputs {
        try_input(target, bytes, &path.to_string_lossy());
    }
    let rounds = std::env::var("MICA_FUZZ_ROUNDS").map_or(Ok(1), |rounds| rounds.parse::<usize>());
    let rounds = rounds.expect("MICA_FUZZ_ROUNDS is a number");
    let mut random = Random::new(target);
    for number in 0..rounds * count {
        let mut bytes = inputs[random.below(inputs.len())].1.clone();
        let other = &inputs[random.below(inputs.len())].1;
        mutate(&mut bytes, other, &mut random);
        try_input(target, &bytes, &format!("mutation {number}"));
    }
}

macro_rules! targets {
    ($($name:ident $count:literal;)*) => {
        $(
            #[test]
            fn $name() {
                short_run(stringify!($name), $count);
            }
        )*

        /// A target without a short run would never be tested.
        #[test]
        fn every_target_has_a_short_run_and_a_program() {
            let run = [$(stringify!($name)),*];
            let known: Vec<&str> = mica_fuzz::TARGETS.iter().map(|(name, _)| *name).collect();
            assert_eq!(run[..], known);
            for name in known {
                let program = root().join("fuzz_targets").join(name).with_extension("rs");
                let text = fs::read_to_string(&program).expect("a program for cargo-fuzz");
                assert!(text.contains(&format!("run({name:?}, bytes)")), "{}", program.display());
            }
        }
    };
}

targets! {
    agent 200_000;
    endpoint_record 200_000;
    contact 200_000;
    datatype 100_000;
    hosts 60_000;
    info 100_000;
    network 200_000;
    packet 200_000;
    pmi1 200_000;
    pmi2 200_000;
    tuning 60_000;
}

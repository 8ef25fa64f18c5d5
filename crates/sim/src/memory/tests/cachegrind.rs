//! The caches against valgrind's cachegrind: data misses of D1 and LL are equal to the last one.
//!
//! cachegrind counts the misses of a program under a geometry; valgrind's lackey prints every
//! access of the same program, which the model gets under the same geometry. The programs are
//! `tests/c/tools/cache_patterns.c`, and `sort` and `gzip` of the system on a text. Both tools see
//! the same addresses. cachegrind has two levels, LRU, allocation on writes, and no inclusion; it
//! does not count what is written back. A load and store of one instruction to one address is a
//! load for cachegrind.
//!
//! Of an access to two lines, of which only one misses D1, cachegrind looks for both in LL, and
//! the model for the one. [`Replay`] does as cachegrind does.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::machine_of;
use crate::machine::SimulatedMachine;
use crate::memory::NodeMemory;
use crate::memory::hierarchy::Origin;

/// Size in KiB and ways of I1, D1 and LL.
#[derive(Debug, Clone, Copy)]
struct Geometry {
    i1: (u64, u32),
    d1: (u64, u32),
    ll: (u64, u32),
    line: u64,
}

/// Data references and misses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Misses {
    references: u64,
    d1: u64,
    ll: u64,
}

impl Geometry {
    fn machine(self) -> SimulatedMachine {
        let cache = |(kib, ways): (u64, u32)| format!("size_kib = {kib}, ways = {ways}");
        machine_of(&[
            format!("caches.line={}", self.line),
            format!("caches.l1i={{ {} }}", cache(self.i1)),
            format!("caches.l1d={{ {} }}", cache(self.d1)),
            format!("caches.l2={{ {}, latency = 10, inclusion = 'none' }}", cache(self.ll)),
        ])
    }

    fn option(self, name: &str, (kib, ways): (u64, u32)) -> String {
        format!("--{name}={},{ways},{}", kib * 1024, self.line)
    }
}

/// The model under lackey's trace.
struct Replay {
    memory: NodeMemory,
    /// Data accesses whose only miss of LL was by the line that D1 had.
    more_ll: u64,
}

impl Replay {
    fn access(&mut self, kind: char, address: u64, size: u32) {
        let mask = self.memory.offset_mask;
        let first = address & !mask;
        let last = (address + u64::from(size) - 1) & !mask;
        let levels = &self.memory.levels;
        let l1 = if kind == 'I' { &levels.l1i } else { &levels.l1d };
        let held = [first, last].map(|line| l1.holds(line));
        let before = self.data_misses_of_ll();
        let mut missed = false;
        if held == [true, false] {
            missed |= self.look_in_ll(first);
        }
        match kind {
            'I' => self.memory.fetch(0, address, size),
            'S' => self.memory.store(0, address, size),
            _ => self.memory.load(0, address, size),
        };
        if held == [false, true] {
            missed |= self.look_in_ll(last);
        }
        let counted = self.data_misses_of_ll() > before;
        self.more_ll += u64::from(missed && kind != 'I' && !counted);
    }

    /// Whether it was not there; it is then.
    fn look_in_ll(&mut self, line: u64) -> bool {
        self.memory.levels.read(line).origin == Origin::Memory
    }

    fn data_misses_of_ll(&self) -> u64 {
        let counts = self.memory.counts();
        counts.loads.l2_misses() + counts.stores.l2_misses()
    }
}

/// A directory of this test process.
fn scratch() -> PathBuf {
    let path = env::temp_dir().join(format!("mica-cachegrind-{}", std::process::id()));
    fs::create_dir_all(&path).expect("the directory for temporary files is writable");
    path
}

/// The program, or why there is none.
fn program() -> Result<PathBuf, String> {
    for tool in ["valgrind", "cc"] {
        let found = Command::new(tool).arg("--version").output();
        found.map_err(|e| format!("{tool} cannot be started ({e})"))?;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/c/tools/cache_patterns.c");
    let program = scratch().join("cache_patterns");
    // Static where that is possible, so that the trace is not mostly the dynamic linker's.
    let build = |options: &[&str]| {
        let mut cc = Command::new("cc");
        cc.args(options).args(["-O1", "-o"]).args([&program, &source]);
        cc.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    };
    assert!(build(&["-static"]) || build(&[]), "cc {}", source.display());
    Ok(program)
}

/// A program with its arguments.
struct Traced {
    program: PathBuf,
    arguments: Vec<String>,
}

impl Traced {
    fn name(&self) -> String {
        let program = self.program.file_name().expect("a file").to_string_lossy();
        format!("{program}-{}", self.arguments[0])
    }
}

/// Programs of the system that are there, on a text of lines in no order.
fn system_programs() -> Vec<Traced> {
    let text = scratch().join("text");
    let lines = (0..300u64).map(|i| format!("{:016x}\n", i.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    fs::write(&text, lines.collect::<String>()).expect("the directory is writable");
    let text = text.display().to_string();
    let all = [
        ("/usr/bin/sort", vec!["--parallel=1".to_owned(), text.clone()]),
        ("/usr/bin/gzip", vec!["-c".to_owned(), text]),
    ];
    let there = all.into_iter().filter(|(program, _)| {
        let found = Path::new(program).exists();
        if !found {
            println!("skipped: there is no {program}");
        }
        found
    });
    there.map(|(program, arguments)| Traced { program: program.into(), arguments }).collect()
}

/// Runs valgrind on the program. Both tools get the same environment, which is on the stack.
fn valgrind(traced: &Traced, options: &[String]) -> Command {
    let mut command = Command::new("valgrind");
    command.env_clear().env("PATH", env::var_os("PATH").unwrap_or_default());
    command.args(options).arg(&traced.program).args(&traced.arguments);
    command.stdout(Stdio::null());
    command
}

fn count_by_cachegrind(traced: &Traced, geometry: Geometry) -> Misses {
    let out = scratch().join(format!("{}.out", traced.name()));
    let options = [
        "--tool=cachegrind".to_owned(),
        format!("--cachegrind-out-file={}", out.display()),
        geometry.option("I1", geometry.i1),
        geometry.option("D1", geometry.d1),
        geometry.option("LL", geometry.ll),
    ];
    let ran = valgrind(traced, &options).stderr(Stdio::null()).status();
    assert!(ran.expect("valgrind was started before").success());
    let text = fs::read_to_string(&out).expect("cachegrind writes its file");
    let counts: Vec<u64> = text
        .lines()
        .find_map(|line| line.strip_prefix("summary:"))
        .expect("a summary")
        .split_whitespace()
        .map(|count| count.parse().expect("a number"))
        .collect();
    // Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw
    let [_, _, _, dr, d1mr, dlmr, dw, d1mw, dlmw] = counts[..] else {
        panic!("{text}");
    };
    Misses { references: dr + dw, d1: d1mr + d1mw, ll: dlmr + dlmw }
}

fn count_by_model(traced: &Traced, geometry: Geometry) -> Misses {
    let options = ["--tool=lackey".to_owned(), "--trace-mem=yes".to_owned()];
    let mut tool = valgrind(traced, &options)
        .stderr(Stdio::piped())
        .spawn()
        .expect("valgrind was started before");
    let mut replay = Replay { memory: NodeMemory::new(&geometry.machine()), more_ll: 0 };
    let trace = BufReader::new(tool.stderr.take().expect("it is piped"));
    for line in trace.lines() {
        let line = line.expect("the trace is text");
        if let Some((kind, address, size)) = access(&line) {
            replay.access(kind, address, size);
        }
    }
    assert!(tool.wait().expect("it was started").success());
    let counts = replay.memory.counts();
    Misses {
        references: counts.loads.accesses + counts.stores.accesses,
        d1: counts.loads.l1_misses() + counts.stores.l1_misses(),
        ll: replay.data_misses_of_ll() + replay.more_ll,
    }
}

/// Kind (I, L, S, M), address and size of a line of lackey's.
fn access(line: &str) -> Option<(char, u64, u32)> {
    let (kind, rest) = line.split_at_checked(3)?;
    let kind = kind.trim().chars().next().filter(|kind| "ILSM".contains(*kind))?;
    let (address, size) = rest.trim().split_once(',')?;
    Some((kind, u64::from_str_radix(address, 16).ok()?, size.parse().ok()?))
}

#[test]
fn data_misses_are_those_of_cachegrind() {
    let program = match program() {
        Ok(program) => program,
        Err(reason) => {
            println!("skipped: {reason}; scripts/setup.sh installs it as root");
            return;
        }
    };
    let small = Geometry { i1: (8, 2), d1: (8, 4), ll: (64, 8), line: 64 };
    let wide = Geometry { i1: (32, 4), d1: (32, 8), ll: (256, 16), line: 128 };
    let patterns = [
        ("sweep", small),
        ("transpose", small),
        ("chase", small),
        ("chase", wide),
        ("unaligned", small),
    ];
    let traced = patterns.map(|(pattern, geometry)| {
        let arguments = vec![pattern.to_owned()];
        let program = program.clone();
        (Traced { program, arguments }, geometry)
    });
    let system = system_programs().into_iter().map(|traced| (traced, small));
    for (traced, geometry) in traced.into_iter().chain(system) {
        let name = traced.name();
        let expected = count_by_cachegrind(&traced, geometry);
        let counted = count_by_model(&traced, geometry);
        println!("{name}: {counted:?}, cachegrind {expected:?}");
        assert!(expected.ll > 500, "{name}: too few misses");
        assert_eq!(counted, expected, "{name}, {geometry:?}");
    }
    fs::remove_dir_all(scratch()).expect("it is this test's");
}

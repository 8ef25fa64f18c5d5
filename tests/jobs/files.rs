//! Jobs that die while they write files: what they reported as written is there, and nothing is
//! left beside the file: no lock, no process.

use std::fs;
use std::path::Path;
use std::time::Duration;

use mica_tests::{Cores, Install, core_count, processes_with_mark, target};
use rustix::process::{Pid, Signal, kill_process};

const RANKS: usize = 4;
/// Words of a block, and of a rank in each part of the file (`tools/io_killed.c`).
const BLOCK: usize = 375;
const WORDS: usize = 50 * BLOCK;

/// Who is killed.
#[derive(Clone, Copy, Debug)]
enum Victims {
    Rank(usize),
    AllRanks,
    Launcher,
}

/// The rank that writes a word of the file; `None` of one that none writes.
fn writer(part: usize, word: usize) -> Option<usize> {
    match part {
        1 => word.is_multiple_of(2).then_some(word / (2 * WORDS)),
        _ => (word < RANKS * WORDS).then_some(word / BLOCK % RANKS),
    }
}

/// Checks that each word has the value of its rank, of this round or a later one.
fn check_file(path: &Path, first_round: u64, what: &str) {
    let bytes = fs::read(path).expect("the file");
    let words = bytes.as_chunks().0.iter().map(|&word| u64::from_le_bytes(word));
    let mut seen = 0;
    for (index, word) in words.enumerate() {
        let (part, at) = (index / (2 * RANKS * WORDS), index % (2 * RANKS * WORDS));
        let Some(rank) = writer(part, at) else {
            assert_eq!(word, 0, "{what}: word {at} of part {part}, which no rank writes");
            continue;
        };
        seen += 1;
        let (round, by) = (word / 64, word % 64);
        assert!(
            round >= first_round && by == rank as u64,
            "{what}: word {at} of part {part} is of round {round} and rank {by}; rank {rank} has \
             written round {first_round}"
        );
    }
    assert_eq!(seen, 3 * RANKS * WORDS, "{what}: the file is {} bytes", bytes.len());
}

/// `MICA_FILE_KILLS=200` kills that many jobs. All write to the same file: a lock that stayed would
/// stop the next.
#[test]
fn killed_writers_leave_what_they_wrote_and_nothing_else() {
    let install = Install::find();
    let _cores = Cores::take(core_count());
    let folder = target().join("killed-writers");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("target is writable");
    let path = folder.join("data");
    let program = install.program("tools/io_killed");
    let kills = std::env::var("MICA_FILE_KILLS")
        .map_or(8, |kills| kills.parse().expect("MICA_FILE_KILLS is a number"));
    for kill in 0..kills {
        let victims = match kill % 6 {
            4 => Victims::AllRanks,
            5 => Victims::Launcher,
            rank => Victims::Rank(rank),
        };
        let base = 1_000_000 * (kill as u64 + 1);
        let what = format!("kill {kill} ({victims:?})");
        let mut job = install.mpiexec(["-n", "4"]).args([&program, &path]);
        job = job.args([base.to_string()]);
        let mut job = if kill % 3 == 2 { job.env("MICA_VIRTUAL_NODES", "2") } else { job }.start();
        job.wait_for("round 1\n");
        // Where in the round the kill hits does not matter: somewhere else each time.
        std::thread::sleep(Duration::from_micros(1_370 * (kill as u64 % 29)));
        let ranks: Vec<i32> = processes_with_mark(job.mark())
            .into_iter()
            .filter(|(_, line)| line.contains("io_killed") && !line.contains("mpiexec"))
            .map(|(pid, _)| pid)
            .collect();
        assert_eq!(ranks.len(), RANKS, "{what}");
        let killed = match victims {
            Victims::Rank(rank) => &ranks[rank..=rank],
            Victims::AllRanks => &ranks[..],
            Victims::Launcher => &[job.pid()],
        };
        for &pid in killed {
            let _ = kill_process(Pid::from_raw(pid).expect("positive"), Signal::KILL);
        }
        let out = job.finish().expect_failure();
        assert!(!out.hung() && out.survivors.is_empty(), "{what}: {}", out.report());
        let mut rounds = out.stdout.lines().rev().filter_map(|line| line.strip_prefix("round "));
        let last: u64 = rounds.next().expect("a round").parse().expect("a number");
        check_file(&path, base + last, &what);
        let entries = fs::read_dir(&folder).expect("the folder").flatten();
        let names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
        assert_eq!(names, ["data"], "{what}");
    }
    let _ = fs::remove_dir_all(&folder);
}

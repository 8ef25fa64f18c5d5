//! `MICA_RECORD_TRANSFERS`: what each rank's file says about the collectives of a job.

use std::fs;

use mica_tests::{Install, target};

const RANKS: usize = 4;

#[test]
fn each_rank_records_the_steps_of_its_collectives() {
    let install = Install::find();
    let folder = target().join("record-transfers");
    for family in ["shared", "direct"] {
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        let prefix = folder.join("steps");
        let outcome = install
            .mpiexec(["-n", &RANKS.to_string()])
            .env("MICA_RECORD_TRANSFERS", &prefix.display().to_string())
            .env("MICA_COLL", family)
            .args([install.program("coll_data")])
            .run()
            .expect_success();
        let files = fs::read_dir(&folder).expect("a folder").count();
        assert_eq!(files, RANKS, "{}", outcome.report());
        for rank in 0..RANKS {
            let path = folder.join(format!("steps.{rank}"));
            check(&fs::read_to_string(&path).expect("a record"), rank);
        }
    }
    fs::remove_dir_all(&folder).expect("removed");
}

fn check(record: &str, rank: usize) {
    let of = |word: &str| {
        let lines = record.lines();
        let found = lines.filter(|line| line.split(' ').nth(1) == Some(word));
        found.collect::<Vec<_>>()
    };
    let (begun, ended) = (of("begin"), of("end"));
    assert!(!begun.is_empty(), "rank {rank} has recorded nothing");
    assert_eq!(begun.len(), ended.len(), "rank {rank}");
    assert!(ended.iter().all(|line| !line.ends_with("failed")), "rank {rank}");
    // Short calls too, which would take the fast path.
    assert!(begun.iter().any(|line| line.contains("MPI_Bcast ")), "rank {rank}");
    for word in ["publish", "wait", "load"] {
        assert!(!of(word).is_empty(), "rank {rank} has no {word}");
    }
}

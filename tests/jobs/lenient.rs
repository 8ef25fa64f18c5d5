//! What MPI does not allow but other MPIs accept: programs continue silently as long as no data is
//! lost, and `MICA_CHECK=1` reports it once.

use mica_tests::{Install, Job, Outcome, TWO_NODES};

const CHECK: (&str, &str) = ("MICA_CHECK", "1");
const NOT_FINALIZED: &str =
    "exited with code 0 without calling MPI_Finalize, or with a session open";

/// `mpiexec -n RANKS PROGRAM ARGUMENT`.
fn job(ranks: u32, program: &str, argument: &str) -> Job {
    let install = Install::find();
    let program = install.program(program);
    let job = install.mpiexec(["-n", &ranks.to_string()]);
    job.args([program]).args([argument])
}

fn leave(ranks: u32, how: &str) -> Job {
    job(ranks, "tools/leave", how)
}

/// The number of occurrences of the text in the error output.
fn said(outcome: &Outcome, text: &str) -> usize {
    outcome.stderr.matches(text).count()
}

#[test]
fn rank_may_exit_without_finalize_if_no_rank_needs_it() {
    for (ranks, how) in [(1, "all"), (3, "all"), (1, "leak"), (2, "leak"), (3, "slow"), (4, "talk")]
    {
        let outcome = leave(ranks, how).run().expect_success();
        assert_eq!(outcome.stderr, "", "{how}");
        if how != "leak" {
            let all: Vec<_> = (1..ranks).map(|rank| format!("rank {rank} is done")).collect();
            assert_eq!(outcome.sorted(), all, "{how}");
        }
    }
    let outcome = leave(4, "all").env(TWO_NODES[0].0, TWO_NODES[0].1);
    let outcome = TWO_NODES[1..].iter().fold(outcome, |job, (name, value)| job.env(name, value));
    assert_eq!(outcome.run().expect_success().stderr, "", "two nodes");
}

#[test]
fn a_checked_job_says_once_that_ranks_did_not_finalize() {
    for how in ["all", "leak"] {
        let outcome = leave(3, how).env(CHECK.0, CHECK.1).run().expect_success();
        assert_eq!(said(&outcome, NOT_FINALIZED), 1, "{}", outcome.report());
        assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.report());
    }
}

#[test]
fn the_job_ends_if_others_need_a_rank_that_left() {
    for (ranks, how) in
        [(2, "recv"), (3, "recv"), (3, "late"), (3, "any"), (2, "send"), (4, "finalize")]
    {
        let outcome = leave(ranks, how).run().expect_code(1);
        let outcome = outcome.says("rank 0").says(NOT_FINALIZED);
        assert!(!outcome.hung() && outcome.survivors.is_empty(), "{}", outcome.report());
    }
    // Another failure is reported as that failure.
    leave(3, "fail").run().expect_code(3).says("rank 1");
    let outcome =
        TWO_NODES.iter().fold(leave(4, "recv"), |job, (name, value)| job.env(name, value));
    outcome.run().expect_failure();
}

#[test]
fn sessions_may_use_the_world() {
    for ranks in [1, 3] {
        let outcome = job(ranks, "session_lenient", "").run().expect_success();
        assert_eq!((outcome.stdout.trim_end(), &*outcome.stderr), ("No Errors", ""));
        let outcome = job(ranks, "session_lenient", "").env(CHECK.0, CHECK.1).run();
        let outcome = outcome.expect_success();
        let times = said(&outcome, "MPI_Init has not been called, only MPI_Session_init");
        assert_eq!(times, ranks as usize, "{}", outcome.report());
    }
}

#[test]
fn a_grid_may_have_a_dimension_of_length_0() {
    let outcome = job(3, "topo_empty", "").run().expect_success();
    assert_eq!((outcome.stdout.trim_end(), &*outcome.stderr), ("No Errors", ""));
    let outcome = job(3, "topo_empty", "").env(CHECK.0, CHECK.1).run().expect_success();
    let times = said(&outcome, "a dimension of length 0");
    assert_eq!(times, 3, "{}", outcome.report());
}

//! Cases that users of mpi4py run into: workers of mpi4py.futures, and exceptions while other ranks
//! wait.
//! `MICA_PYTHON` names the Python (default `target/venv/bin/python`).

use std::time::Duration;

use mica_tests::{Install, Job, workspace};

use crate::mpi4py::path;

/// `mpiexec OPTIONS python ARGUMENTS FILE`, the file in tests/python.
fn python(options: &[&str], arguments: &[&str], file: &str) -> Job {
    let job = Install::find().mpiexec(options);
    let job = job.args([mica_tests::python()]).args(arguments);
    job.args([workspace().join("tests/python").join(file)])
}

#[test]
fn existing_workers_do_the_work() {
    let out = python(&["-n", "3"], &["-m", "mpi4py.futures"], "futures_spawn.py").run();
    assert_eq!(out.expect_success().stdout, "[0, 1, 4, 9, 16]\n");
}

/// Without workers that are there, they are spawned, also by a program without a launcher.
#[test]
fn workers_are_spawned() {
    let out = python(&["-n", "1"], &[], "futures_spawn.py").run().expect_success();
    assert_eq!((&*out.stdout, &*out.stderr), ("[0, 1, 4, 9, 16]\n", ""));
    let file = workspace().join("tests/python/futures_spawn.py");
    let out = Job::new(mica_tests::python()).args([file]).run().expect_success();
    assert_eq!((&*out.stdout, &*out.stderr), ("[0, 1, 4, 9, 16]\n", ""));
}

/// mpi4py's main thread keeps waiting, so a time limit ends the job.
#[test]
fn workers_that_cannot_be_spawned_are_an_error_that_says_why() {
    let out = python(&["-n", "1", "--timeout", "10"], &[], "futures_spawn.py");
    let out = out.env("MICA_SPARE_RANKS", "0").run().expect_failure();
    out.says("MPI_ERR_SPAWN").says("MICA_SPARE_RANKS=0");
}

/// mpi4py's own tests of its futures, which spawn workers, as a job of one rank and without a
/// launcher.
#[test]
fn the_tests_of_futures_pass() {
    let source = path("MICA_MPI4PY_SRC", "mpi4py-src");
    let folder = source.join("demo/futures");
    let mpiexec = Install::find().mpiexec(["-n", "1"]).args([mica_tests::python()]);
    for job in [mpiexec, Job::new(mica_tests::python())] {
        let job = job.args(["test_futures.py"]).dir(&folder).limit(Duration::from_secs(400));
        let out = job.run().expect_success();
        assert!(out.stderr.trim_end().ends_with("OK"), "{}", out.report());
    }
}

/// A pool's workers are processes that a rank starts and that call MPI_Init.
#[test]
fn workers_of_a_pool_are_jobs_of_their_own() {
    let out = python(&["-n", "2", "--timeout", "90"], &[], "pool.py").run().expect_success();
    assert_eq!(out.stdout, "ranks: 2\n", "{}", out.report());
    let said = out.stderr.lines().filter(|line| line.contains("is a job of its own")).count();
    assert_eq!(said, 1, "{}", out.report());
}

#[test]
fn an_exception_of_one_rank_ends_the_job() {
    let job = python(&["-n", "3"], &["-m", "mpi4py"], "exception.py");
    let out = job.limit(Duration::from_secs(60)).run().expect_failure();
    out.says("RuntimeError: on purpose").says("rank 2");
}

/// Without `-m mpi4py` the rank that raises calls MPI_Finalize as it exits, while the others are in
/// a barrier. They ignore SIGTERM: else mpiexec, which learns of the first end, may end them before
/// they have printed why they fail.
#[test]
fn an_exception_without_the_module_ends_the_job_too() {
    let stubborn = ["-n", "3", "--grace", "5", "env", "--ignore-signal=TERM"];
    let job = python(&stubborn, &[], "exception.py");
    let out = job.limit(Duration::from_secs(60)).run().expect_failure();
    out.says("RuntimeError: on purpose")
        .says("rank 2 of the job has called MPI_Finalize where this rank has called MPI_Barrier");
}

//! One binary under foreign launchers: MPICH's and Intel's Hydra (PMI-1, PMI-2), Open MPI's mpirun
//! (PMIx), and a one-machine Slurm (PMI-2, PMIx). The ranks agree on size and rank and exchange
//! messages; a rank that aborts or dies ends the job. Slurm also starts a program of MPICH's ABI.
//!
//! Each launcher runs in a machine of namespaces, so that it listens on loopback only.

use mica_tests::{Install, Job, Launcher, Machine};

/// A launcher and how it starts a job: `start` takes the number of ranks; the program follows.
struct Way<'a> {
    name: &'static str,
    start: Box<dyn Fn(u32) -> Job + 'a>,
    /// The exit status of a job in which MPI_Abort was called with code 7; `None` where the
    /// launcher chooses its own.
    aborted: Option<i32>,
}

impl Way<'_> {
    fn run(&self, ranks: u32, words: &[&str]) -> mica_tests::Outcome {
        (self.start)(ranks).args(words).run()
    }

    /// Checks everything that is required of a launcher.
    fn check(&self, install: &Install) {
        let (job, ring) = (install.job(), install.program("pt2pt_sendrecv"));
        let (job, ring) = (job.display().to_string(), ring.display().to_string());
        for ranks in 1..=4 {
            let out = self.run(ranks, &[&job, "hello"]).expect_success();
            let hello = (0..ranks).map(|rank| format!("hello from {rank} of {ranks}"));
            let hello: Vec<_> = hello.collect();
            assert_eq!(out.sorted(), hello, "{}: {}", self.name, out.report());
        }
        for ranks in [1, 3] {
            let out = self.run(ranks, &[&ring]).expect_success();
            assert_eq!(out.stdout.trim(), "No Errors", "{}", out.report());
        }
        let aborted = self.run(3, &[&job, "abort", "7", "1"]).expect_failure();
        if let Some(code) = self.aborted {
            assert_eq!(aborted.code(), code, "{}", aborted.report());
        }
        self.run(3, &[&job, "kill", "9", "1", "100000"]).expect_failure();
    }
}

fn under(name: &'static str, launcher: Launcher, pmi: &'static str, aborted: Option<i32>) {
    let (install, machine) = (Install::find(), Machine::start());
    let (program, options) = launcher.find();
    let start = |ranks: u32| {
        let job = machine.job(&program).args(options);
        let job = job.args(["-n", &ranks.to_string()]);
        job.env("MICA_PMI", pmi)
    };
    let way = Way { name, start: Box::new(start), aborted };
    way.check(&install);
}

#[test]
fn under_mpich() {
    under("MPICH by PMI-1", Launcher::Mpich, "auto", Some(7));
}

#[test]
fn under_mpich_by_pmi2() {
    under("MPICH by PMI-2", Launcher::Mpich, "pmi2", None);
}

#[test]
fn under_intel() {
    under("Intel MPI", Launcher::Intel, "auto", Some(7));
}

#[test]
fn under_open_mpi() {
    under("Open MPI", Launcher::OpenMpi, "auto", Some(7));
}

#[test]
fn under_slurm() {
    let (install, machine) = (Install::find(), Machine::with_slurm());
    for (name, plugin) in [("Slurm by PMI-2", "pmi2"), ("Slurm by PMIx", "pmix")] {
        let start = |ranks: u32| {
            let job = machine.job("srun");
            job.args([&format!("--mpi={plugin}"), "-n", &ranks.to_string()])
        };
        let way = Way { name, start: Box::new(&start), aborted: None };
        way.check(&install);
        // Of MPICH's ABI, whose library finds the others by the same means.
        let program = Launcher::Mpich.program("tools/job").display().to_string();
        for (verb, said) in [("hello", "hello from 2 of 3"), ("library", "3 ranks on Mica ")] {
            let job = start(3).env("LD_LIBRARY_PATH", &install.libraries());
            let out = job.args([&program, verb]).run().expect_success();
            assert!(out.stdout.contains(said), "{name}, MPICH's ABI: {}", out.report());
        }
    }
    // If the launcher does not end the other ranks, they notice the loss themselves.
    let alone = machine.job("srun").args(["--mpi=pmi2", "--kill-on-bad-exit=0"]);
    let alone = alone.args(["-n", "3"]).args([install.job()]);
    let alone = alone.args(["kill", "9", "1", "100000"]).run();
    alone.expect_failure().says("lost rank 1");
    // Without a PMI: one rank is a job of one, several get an error with the remedy.
    let srun = |ranks: &str| {
        let job = machine.job("srun").args(["--mpi=none", "-n", ranks]);
        job.args([install.job()]).args(["hello"]).run()
    };
    assert_eq!(srun("1").expect_success().sorted(), ["hello from 0 of 1"]);
    let refused = srun("2").expect_failure().says("--mpi=pmi2");
    assert!(!refused.stdout.contains("hello"), "{}", refused.report());
}

/// A program that a rank starts does not take over that rank.
#[test]
fn a_program_started_by_a_rank_is_not_that_rank() {
    let (install, machine) = (Install::find(), Machine::start());
    for launcher in [Launcher::Mpich, Launcher::OpenMpi] {
        let (program, options) = launcher.find();
        let job = machine.job(program).args(options).args(["-n", "1"]);
        let inner = install.job().display().to_string();
        let out = job.args([install.job()]).args(["run", &inner, "hello"]);
        let out = out.run().expect_failure().says("inside an MPI program");
        assert!(!out.stdout.contains("hello"), "{}", out.report());
    }
}

/// Virtual nodes under a foreign launcher: their ranks talk over the network.
#[test]
fn virtual_nodes_under_a_foreign_launcher() {
    let (install, machine) = (Install::find(), Machine::start());
    let (program, options) = Launcher::Mpich.find();
    let job = machine.job(program).args(options).args(["-n", "4"]);
    let out = job.args([install.program("pt2pt_sendrecv")]);
    let out = out.env("MICA_VIRTUAL_NODES", "2").run().expect_success();
    assert_eq!(out.stdout.trim(), "No Errors", "{}", out.report());
}

/// Programs that are linked to MPICH's own library run under Mica's mpiexec, which provides PMI-1.
/// Intel MPI's library has the same ABI, so the same program runs with it, too.
#[test]
fn programs_of_mpich_and_intel_under_our_mpiexec() {
    let (install, machine) = (Install::find(), Machine::start());
    let program = Launcher::Mpich.program("tools/job");
    let mpiexec = install.bin("mpiexec");
    for library in [Launcher::Mpich, Launcher::Intel] {
        let libraries = library.libraries().display().to_string();
        let start = |words: &[&str], verb: &[&str]| {
            let job = machine.job(&mpiexec).args(words).args([&program]).args(verb);
            job.env("LD_LIBRARY_PATH", &libraries)
        };
        for ranks in [1, 2, 4] {
            let out = start(&["-n", &ranks.to_string()], &["hello"]).run().expect_success();
            let hello = (0..ranks).map(|rank| format!("hello from {rank} of {ranks}"));
            let hello: Vec<_> = hello.collect();
            assert_eq!(out.sorted(), hello, "{library:?}: {}", out.report());
        }
        let aborted = start(&["-n", "3"], &["abort", "7", "1"]).run();
        aborted.expect_code(7).says("rank 1");
        start(&["-n", "3"], &["kill", "9", "1", "1000"]).run().expect_code(137);
        // A rank exits with 0 in the middle of the job, or never initializes.
        let left = start(&["-n", "2"], &["early", "0", "1"]).run().expect_code(1);
        left.says("without calling MPI_Finalize");
        let mixed = start(&["-n", "1", "true", ":", "-n", "1"], &["hello"]).run().expect_code(1);
        mixed.says("without calling MPI_Init, while rank 1 waits for it");
    }
}

/// The ranks of a program that is linked to Open MPI would each be rank 0 of 1: refused before they
/// start.
#[test]
fn programs_of_open_mpi_are_refused() {
    let (install, machine) = (Install::find(), Machine::start());
    let program = Launcher::OpenMpi.program("tools/job");
    let mpiexec = install.bin("mpiexec");
    let start = |words: &[&str]| {
        let job = machine.job(&mpiexec).args(words).args([&program]).args(["hello"]);
        job.env("LD_LIBRARY_PATH", &Launcher::OpenMpi.libraries().display().to_string())
    };
    for words in [
        &["-n", "2"][..],
        &["-n", "2", "--launcher", "fork", "-hosts", "a,b"],
        &["-n", "1", "true", ":", "-n", "1"],
    ] {
        let out = start(words).run().expect_code(1).says("libmpi.so.40");
        let out = out.says("Open MPI's mpirun").says("Mica's mpicc");
        assert_eq!(out.stdout, "", "{}", out.report());
    }
    // A job of one rank is allowed: it is the same without a launcher.
    let one = start(&["-n", "1"]).run().expect_success();
    assert_eq!(one.sorted(), ["hello from 0 of 1"], "{}", one.report());
    let forced = start(&["-n", "2", "-x", "MICA_FOREIGN_MPI=start"]).run().expect_success();
    assert_eq!(forced.sorted(), ["hello from 0 of 1"; 2]);
}

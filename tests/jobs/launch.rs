//! Tests of `mpiexec`: what it accepts, what the ranks see, how it ends.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mica_tests::{Install, Job, MARK, processes_with_mark, target};
use rustix::process::Signal;

/// `mpiexec ARGS...`; the argument JOB stands for the helper program.
fn mpiexec(args: &[&str]) -> Job {
    let install = Install::find();
    let job = install.job().to_string_lossy().into_owned();
    let args: Vec<_> = args.iter().map(|a| if *a == "JOB" { job.as_str() } else { a }).collect();
    install.mpiexec(args)
}

fn hello(n: u32) -> Vec<String> {
    let mut lines: Vec<_> = (0..n).map(|r| format!("hello from {r} of {n}")).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn number_of_ranks() {
    for flag in ["-n", "-np"] {
        for n in [1, 2, 5] {
            let out = mpiexec(&[flag, &n.to_string(), "JOB", "hello"]).run().expect_success();
            assert_eq!(out.sorted(), hello(n), "{}", out.report());
            assert_eq!(out.stderr, "", "a normal run is silent");
        }
    }
}

#[test]
fn mpirun_is_the_same() {
    let install = Install::find();
    let out = Job::new(install.bin("mpirun")).args(["-n", "3"]).args([install.job()]).run();
    assert_eq!(out.expect_success().sorted(), hello(3));
}

#[test]
fn without_a_launcher_it_is_a_job_of_one() {
    let out = Job::new(Install::find().job()).args(["hello"]).run().expect_success();
    assert_eq!(out.stdout, "hello from 0 of 1\n");
    assert_eq!(out.stderr, "");
}

#[test]
fn silent_programs_print_nothing() {
    let out = mpiexec(&["-n", "4", "JOB", "silent"]).run().expect_success();
    assert_eq!((out.stdout.as_str(), out.stderr.as_str()), ("", ""));
}

#[test]
fn many_programs_one_job() {
    let args = [
        "-n", "1", "JOB", "show", "A", ":", "-n", "2", "JOB", "show", "B", ":", "-n", "1", "JOB",
        "show",
    ];
    let out = mpiexec(&args).env("A", "1").env("B", "2").run().expect_success();
    let lines = out.sorted();
    assert_eq!(lines.len(), 4, "{}", out.report());
    for (rank, end) in [" A=1", " B=2", " B=2", ""].into_iter().enumerate() {
        assert!(lines[rank].starts_with(&format!("rank={rank} size=4 cwd=")), "{}", out.report());
        assert!(lines[rank].ends_with(end), "{}", out.report());
    }
}

#[test]
fn environment() {
    // -x exports (and may set) a variable, -env is for this program only, -genv for all
    let args = [
        "-genv", "ALL", "all", "-n", "1", "-env", "ONE", "first", "-x", "PASSED", "-x", "SET=here",
        "JOB", "show", "ALL", "ONE", "PASSED", "SET", ":", "-n", "1", "JOB", "show", "ALL", "ONE",
    ];
    let out = mpiexec(&args).env("PASSED", "on").run().expect_success();
    let lines = out.sorted();
    assert!(lines[0].ends_with(" ALL=all ONE=first PASSED=on SET=here"), "{}", out.report());
    assert!(lines[1].ends_with(" ALL=all ONE=(unset)"), "{}", out.report());
}

#[test]
fn working_directory() {
    let dir = target().join("tests-c").join("a directory");
    fs::create_dir_all(&dir).unwrap();
    let dir = dir.canonicalize().unwrap();
    for flag in ["-wdir", "--wdir"] {
        let out = mpiexec(&[flag, dir.to_str().unwrap(), "-n", "2", "JOB", "show"])
            .run()
            .expect_success();
        for line in out.sorted() {
            assert!(line.ends_with(&format!("cwd={}", dir.display())), "{}", out.report());
        }
    }
    let out = mpiexec(&["-n", "1", "JOB", "show"]).dir(&dir).run().expect_success();
    assert!(out.stdout.ends_with(&format!("cwd={}\n", dir.display())), "{}", out.report());
    mpiexec(&["-wdir", "/no/such/directory", "-n", "2", "JOB"])
        .run()
        .expect_failure()
        .says("/no/such/directory");
}

#[test]
fn arguments_pass_unchanged() {
    let args = ["-n", "2", "JOB", "args", "-n", "--label", "a b", "", "*", "-x", "$HOME", "ü"];
    let out = mpiexec(&args).run().expect_success();
    assert_eq!(out.stdout, "-n\n--label\na b\n\n*\n-x\n$HOME\nü\n");
}

/// Every line is whole and labelled with its rank, however many bytes the ranks write at once.
#[test]
fn labels() {
    for flag in ["-l", "--label"] {
        let out = mpiexec(&[flag, "-n", "4", "JOB", "lines", "500"]).run().expect_success();
        let mut next = [0; 4];
        for line in out.stdout.lines() {
            let rank =
                line.find(": line ")
                    .and_then(|at| line[..at].chars().next_back())
                    .and_then(|c| c.to_digit(10))
                    .unwrap_or_else(|| panic!("a broken line: '{line}'")) as usize;
            let text = format!(
                "{rank}: line {} of a text that is long enough to be cut in two somewhere",
                next[rank]
            );
            let label =
                line.strip_suffix(&text).unwrap_or_else(|| panic!("a broken line: '{line}'"));
            assert!(label.contains(&rank.to_string()), "no rank in the label: '{line}'");
            next[rank] += 1;
        }
        assert_eq!(next, [500; 4]);
    }
}

#[test]
fn standard_input_goes_to_rank_0() {
    let text: String = (0..20_000).map(|i| format!("line {i}\n")).collect();
    let out = mpiexec(&["-n", "3", "JOB", "cat"]).stdin(text.clone()).run().expect_success();
    let (others, echoed): (Vec<_>, Vec<_>) =
        out.stdout.lines().partition(|l| l.starts_with("rank "));
    assert_eq!(echoed.join("\n") + "\n", text);
    assert_eq!(others.len(), 2);
    assert!(others.iter().all(|l| l.ends_with(" read 0 bytes")), "{others:?}");
    // and an empty standard input is at its end
    mpiexec(&["-n", "2", "JOB", "cat"]).run().expect_success();
}

#[test]
fn exit_status_is_that_of_the_failing_rank() {
    mpiexec(&["-n", "3", "JOB", "exit", "0", "0"]).run().expect_code(0);
    mpiexec(&["-n", "3", "JOB", "exit", "41", "2"]).run().expect_code(41);
    mpiexec(&["-n", "1", "JOB", "exit", "7", "0"]).run().expect_code(7);
    // a rank that leaves without MPI_Finalize while others wait for it ends the job
    mpiexec(&["-n", "4", "JOB", "early", "19", "1"]).run().expect_code(19).says("rank 1");
}

#[test]
fn abort_ends_the_job_with_its_code() {
    for (n, rank) in [("1", "0"), ("4", "2")] {
        mpiexec(&["-n", n, "JOB", "abort", "33", rank]).run().expect_code(33);
    }
    // MPI_Abort in a job without a launcher
    Job::new(Install::find().job()).args(["abort", "21", "0"]).run().expect_code(21);
}

#[test]
fn signals_are_forwarded_and_everything_ends() {
    for signal in [Signal::INT, Signal::TERM] {
        let mut job = mpiexec(&["-n", "4", "JOB", "spin"]).start();
        job.wait_for("ready");
        let living = processes_with_mark(job.mark()).len();
        assert!(living > 4, "mpiexec and four ranks: {living} processes");
        job.signal(signal);
        let out = job.finish().expect_failure();
        assert_eq!(out.code(), 128 + signal.as_raw(), "{}", out.report());
    }
}

/// A shell that writes `got NAME` for each of these signals, and ends after that.
fn catches(names: &[&str]) -> String {
    let traps = names.iter().map(|name| format!("trap 'echo got {name}; exit 0' {name}; "));
    traps.collect::<String>() + "echo ready $MICA_RANK; while :; do sleep 0.05; done"
}

/// Signals that users and batch systems send to warn a program reach it, on one node and several.
#[test]
fn signals_for_the_program_reach_the_ranks() {
    let signals = [
        ("USR2", Signal::USR2, &[][..]),
        ("ALRM", Signal::ALARM, &[]),
        ("XCPU", Signal::XCPU, &[]),
        ("URG", Signal::URG, &[]),
        ("USR1", Signal::USR1, &["--forward-signals", "USR1"]),
        ("TERM", Signal::TERM, &["--forward-signals", "SIGTERM,10"]),
        ("ALRM", Signal::ALARM, &["--launcher", "fork", "-hosts", "h0,h1"]),
    ];
    for (name, number, options) in signals {
        let script = catches(&[name]);
        let words = [options, &["-n", "2", "bash", "-c", &script]].concat();
        let mut job = mpiexec(&words).start();
        job.wait_for("ready 0");
        job.wait_for("ready 1");
        job.signal(number);
        let out = job.finish().expect_success();
        assert_eq!(out.stdout.matches(&format!("got {name}")).count(), 2, "{}", out.report());
        // The shell may say that its `sleep` was ended.
        assert!(!out.stderr.contains("mpiexec"), "{}", out.report());
    }
}

/// What is not passed on ends the job, and is named.
#[test]
fn other_signals_end_the_job_by_name() {
    let none = &["--forward-signals", "none"][..];
    for (name, number, options) in [
        ("SIGQUIT", Signal::QUIT, &[][..]),
        ("SIGVTALRM", Signal::VTALARM, &[]),
        ("SIGPWR", Signal::POWER, &[]),
        ("SIGXCPU", Signal::XCPU, none),
        ("SIGUSR2", Signal::USR2, none),
    ] {
        let words = [options, &["-n", "2", "JOB", "spin"]].concat();
        let mut job = mpiexec(&words).start();
        job.wait_for("ready");
        job.signal(number);
        let out = job.finish().expect_failure();
        assert_eq!(out.code(), 128 + number.as_raw(), "{}", out.report());
        out.says(&format!("got signal {} ({name}), ending the job", number.as_raw()));
    }
}

/// A signal without a handler is named as what killed a rank.
#[test]
fn signals_have_names_where_they_kill_a_rank() {
    let out = mpiexec(&["-n", "2", "bash", "-c", "kill -ALRM $$"]).run().expect_code(128 + 14);
    out.says("was killed by signal 14 (SIGALRM, alarm clock)");
    let out = mpiexec(&["-n", "1", "bash", "-c", "kill -RTMIN+3 $$"]).run().expect_failure();
    out.says("(SIGRTMIN+3)");
}

/// A rank whose first process exits has not ended as long as what it started has its output open.
#[test]
fn what_a_rank_started_is_waited_for() {
    let late = "sh -c 'sleep 0.5; echo late'";
    for start in [late.to_owned(), format!("setsid {late}"), format!("(setsid nohup {late} &)")] {
        let script = format!("{start} & exit 0");
        for options in [&["-n", "1"][..], &["-n", "2"], &["-launcher", "fork", "-hosts", "a,b"]] {
            let words = [options, &["bash", "-c", &script]].concat();
            let out = mpiexec(&words).run().expect_success();
            let ranks = if options == ["-n", "1"] { 1 } else { 2 };
            assert_eq!(out.stdout, "late\n".repeat(ranks), "{}", out.report());
            // On a loaded machine it takes long enough to be spoken of.
            let expected = |line: &&str| line.contains("nohup:") || line.contains("is waited for");
            let said: Vec<&str> = out.stderr.lines().filter(|line| !expected(line)).collect();
            assert!(said.is_empty(), "{}", out.report());
        }
    }
    // Files of ranks do not pass through mpiexec.
    let file = target().join("tests-c").join("lingering.%r");
    let script = format!("{late} & exit 0");
    let to_file = ["-outfile-pattern", file.to_str().unwrap()];
    mpiexec(&[&to_file[..], &["-n", "2", "bash", "-c", &script]].concat()).run().expect_success();
    for rank in ["0", "1"] {
        let name = file.to_str().unwrap().replace("%r", rank);
        assert_eq!(fs::read_to_string(name).unwrap(), "late\n");
    }
}

/// The MPI program is what its wrapper left in the background.
#[test]
fn a_wrapper_in_the_background_does_not_end_the_rank() {
    for to in ["", "> /dev/null"] {
        let script = format!("\"$@\" {to} & exit 0");
        let out = mpiexec(&["-n", "3", "bash", "-c", &script, "wrapper", "JOB", "hello"]).run();
        let out = out.expect_success();
        assert_eq!(out.stderr, "", "{}", out.report());
        assert_eq!(out.sorted(), if to.is_empty() { hello(3) } else { Vec::new() });
    }
}

/// What let go of the output is not waited for, and mpiexec says what it ends.
#[test]
fn a_daemon_that_ranks_leave_is_ended_by_name() {
    for n in ["1", "2"] {
        // It has its name when it has become that program.
        let script = "setsid sleep 1000 > /dev/null 2>&1 &
            until grep -q sleep /proc/$!/comm; do :; done";
        let out = mpiexec(&["-n", n, "bash", "-c", script]).run().expect_success();
        assert!(out.stderr.contains("ending what they left running"), "{}", out.report());
        assert!(out.stderr.contains("(sleep)"), "{}", out.report());
    }
}

/// Signals reach what a rank left in the background, in whatever session.
#[test]
fn a_lingering_rank_gets_signals() {
    for start in ["", "setsid "] {
        // Until the first process has ended it is this one that gets them.
        let lingers = "while kill -0 $first 2> /dev/null; do sleep 0.01; done";
        let works = catches(&["TERM"]);
        let script = format!("first=$$; {start}bash -c \"{lingers}; {works}\" & exit 0");
        let mut job = mpiexec(&["-n", "2", "bash", "-c", &script]).start();
        job.wait_for("ready 0");
        job.wait_for("ready 1");
        job.signal(Signal::TERM);
        let out = job.finish().expect_code(128 + 15);
        assert_eq!(out.stdout.matches("got TERM").count(), 2, "{}", out.report());
    }
}

/// MPI_INFO_ENV has what the program's own part of the command line has, and nothing else.
#[test]
fn programs_learn_how_they_were_started() {
    let install = Install::find();
    let program = install.program("tools/started");
    let name = program.file_name().unwrap().to_str().unwrap();
    let folder = program.parent().unwrap().to_str().unwrap();
    let path = format!("/no/such:{folder}");
    let arch = std::env::consts::ARCH;
    let first = ["-n", "2", "-soft", "1:9", "-arch", arch, "-path", &path, "-file", "f", name];
    let words = [&first[..], &[":", "-n", "1", "-path", &path, name, "-x"]].concat();
    let out = install.mpiexec(&words).run().expect_success();
    let lines = out.sorted();
    assert_eq!(lines.len(), 3, "{}", out.report());
    for (rank, line) in lines.iter().enumerate() {
        let pairs = match rank {
            2 => "argv=-x;maxprocs=1;wdir=".to_owned(),
            _ => format!("maxprocs=2;soft=1:9;arch={arch};file=f;wdir="),
        };
        assert!(line.starts_with(&format!("rank={rank};command=")), "{}", out.report());
        assert!(line.contains(&pairs), "{}", out.report());
        let end = "mpi_memory_alloc_kinds=mpi,system;errors=fatal";
        assert!(line.ends_with(end), "{}", out.report());
    }
    let hosts = ["--launcher", "fork", "-host", "a:1,b", "-n", "3", program.to_str().unwrap()];
    let out = install.mpiexec(hosts).run().expect_success();
    assert_eq!(out.stdout.matches("maxprocs=3;host=a:1,b;").count(), 3, "{}", out.report());
}

#[test]
fn the_initial_error_handler_is_chosen() {
    let install = Install::find();
    let program = install.program("tools/started");
    let program = program.to_str().unwrap();
    for (option, wanted) in [
        ("mpi_errors_return", "errors=return,MPI_ERR_RANK"),
        ("mpi_errors_abort", "errors=abort"),
        ("mpi_errors_are_fatal", "errors=fatal"),
    ] {
        let words = ["-initial-errhandler", option, "-memory-alloc-kinds", "mpi", program];
        let out = install.mpiexec(words).run().expect_success();
        assert!(out.stdout.ends_with(&format!("{wanted}\n")), "{}", out.report());
    }
    install.mpiexec(["-initial-errhandler", "mine", program]).run().expect_code(2);
}

#[test]
fn a_killed_mpiexec_leaves_no_rank() {
    let mut job = mpiexec(&["-n", "4", "JOB", "spin"]).start();
    job.wait_for("ready");
    job.signal(Signal::KILL);
    job.finish().expect_failure();
}

#[test]
fn timeout_ends_the_job() {
    let out = mpiexec(&["--timeout", "1", "-n", "3", "JOB", "spin"]).run().expect_failure();
    assert!(out.stdout.contains("ready"), "{}", out.report());
    out.says("1 s");
    // a limit that is long enough changes nothing
    mpiexec(&["--timeout", "100", "-n", "2", "JOB", "hello"]).run().expect_code(0);
}

#[test]
fn binding() {
    for args in
        [["--bind-to", "core"], ["--bind-to", "none"], ["-bind-to", "none"], ["--map-by", "core"]]
    {
        for n in ["1", "2", "7"] {
            let all = [&args[..], &["-n", n, "JOB", "hello"]].concat();
            mpiexec(&all).run().expect_success();
        }
    }
    // with --bind-to core, each of two ranks sees one processor if there are two
    let install = Install::find();
    let nproc = |bind: &str| {
        let out = install.mpiexec(["--bind-to", bind, "-n", "2", "nproc"]).run().expect_success();
        out.stdout.lines().map(|l| l.parse::<usize>().unwrap()).collect::<Vec<_>>()
    };
    let all = std::thread::available_parallelism().unwrap().get();
    assert_eq!(nproc("none"), [all, all]);
    assert!(nproc("core").iter().all(|n| *n < all || all == 1), "{:?} of {all}", nproc("core"));
}

/// mpiexec also starts programs that do not use MPI, as scripts expect.
#[test]
fn programs_without_mpi() {
    let out = Install::find().mpiexec(["-n", "3", "echo", "hi"]).run().expect_success();
    assert_eq!(out.stdout, "hi\nhi\nhi\n");
    Install::find().mpiexec(["-n", "2", "false"]).run().expect_code(1);
}

#[test]
fn starts_more_ranks_than_cores() {
    let out = mpiexec(&["-n", "24", "JOB", "hello"]).run().expect_success();
    assert_eq!(out.sorted(), hello(24));
}

#[test]
fn a_hundred_and_twenty_eight_ranks() {
    let out = mpiexec(&["-n", "128", "JOB", "hello"]).run().expect_success();
    assert_eq!(out.sorted(), hello(128));
}

/// Virtual hosts h0, h1, ..., each with `ranks` ranks that take part in an allreduce.
fn on_many_hosts(hosts: u32, ranks: u32) {
    let names: Vec<String> = (0..hosts).map(|host| format!("h{host}")).collect();
    let (names, each) = (names.join(","), ranks.to_string());
    let options = ["--launcher", "fork", "-hosts", &names, "-ppn", &each];
    let words = [&options[..], &["JOB", "hello"]].concat();
    let out = mpiexec(&words).limit(MANY_LIMIT).run().expect_success();
    assert_eq!(out.sorted(), hello(hosts * ranks), "{}", out.report());
    assert_eq!(out.stderr, "");
}

/// Time for hundreds of processes on a machine of two cores that others use too.
const MANY_LIMIT: Duration = Duration::from_secs(900);

/// More than one host starts agents on: the controller starts 32, and these the others.
#[test]
fn more_hosts_than_one_starts() {
    on_many_hosts(40, 1);
}

#[test]
#[ignore = "takes minutes on two cores"]
fn sixty_four_hosts_of_sixteen_ranks() {
    on_many_hosts(64, 16);
}

#[test]
#[ignore = "takes 300 MiB and, on two cores, ten seconds"]
fn a_thousand_ranks() {
    let words = ["-n", "1000", "JOB", "hello"];
    let out = mpiexec(&words).limit(MANY_LIMIT).run().expect_success();
    assert_eq!(out.sorted(), hello(1000));
}

#[test]
fn foreign_launchers_are_named() {
    let cases: [(&[(&str, &str)], &str); 4] = [
        (&[("PMI_RANK", "0"), ("PMI_SIZE", "2"), ("PMI_FD", "9")], "PMI"),
        (&[("PMIX_RANK", "1"), ("PMIX_NAMESPACE", "job@1")], "PMIx"),
        (&[("OMPI_COMM_WORLD_SIZE", "2"), ("OMPI_COMM_WORLD_RANK", "1")], "Open MPI"),
        (&[("PALS_RANKID", "0")], "PALS"),
    ];
    for (env, name) in cases {
        let mut job = Job::new(Install::find().job()).args(["hello"]);
        for (key, value) in env {
            job = job.env(key, value);
        }
        let out = job.run().expect_failure().says(name);
        assert!(!out.stdout.contains("hello"), "{}", out.report());
        // our own launcher under the foreign one works
        let mut job = mpiexec(&["-n", "2", "JOB", "hello"]);
        for (key, value) in env {
            job = job.env(key, value);
        }
        assert_eq!(job.run().expect_success().sorted(), hello(2));
    }
}

#[test]
fn command_line_errors_name_the_mistake() {
    for (args, word) in [
        (&["-n", "0", "JOB"][..], "0"),
        (&["-n", "-3", "JOB"], "-3"),
        (&["-n", "many", "JOB"], "many"),
        (&["-n", "2"], "program"),
        (&["-n", "2", "./no-such-program-here"], "no-such-program-here"),
        (&["--no-such-option", "JOB"], "--no-such-option"),
        (&["--bind-to", "moon", "JOB"], "moon"),
        (&["-n", "1", "JOB", ":", "-n", "x", "JOB"], "x"),
    ] {
        mpiexec(args).run().expect_failure().says(word);
    }
}

/// Tests the watchdog itself: marks are found in /proc.
#[test]
fn the_harness_finds_survivors() {
    // The survivor reports that it runs, and then stops: a process amid fork or exec shows no
    // environment.
    let survivor = "echo started; exec >/dev/null 2>&1; kill -STOP $$";
    let script = format!("(setsid sh -c '{survivor}' &) | head -n 1");
    let job = Job::new(PathBuf::from("/bin/sh")).args(["-c", &script]);
    let out = job.patience(Duration::from_secs(1)).run();
    assert_eq!(out.survivors.len(), 1, "{}", out.report());
    let mark = format!("no such mark {}", std::process::id());
    assert!(processes_with_mark(&mark).is_empty());
    assert!(Path::new("/proc/self/environ").exists() && !MARK.is_empty());
    let hung = Job::new("/bin/sleep").args(["60"]).limit(Duration::from_millis(50)).run();
    assert!(hung.hung() && hung.survivors.is_empty());
}

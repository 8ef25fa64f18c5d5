//! How `mpiexec` judges the end of a rank by what the job segment says of it: MPI_Abort, an exit
//! without MPI_Finalize, what a rank waits for. The ranks are this program again, started with a
//! role; they write to the segment as the library does, so these tests do not need the library.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::process::{Command, ExitCode, Output, Stdio};
use std::time::Duration;

use mica_node::late::{CallSite, LastArrival, LateRecord, LateSite, SiteCounts};
use mica_node::segment::{JobSegment, WaitKind, Waiting, monotonic_ns};

fn main() -> ExitCode {
    match std::env::var("MICA_TEST_ROLE") {
        Ok(role) => rank(&role),
        // As a test runner asks for the list of tests (libtest's terse format): they are one to it.
        Err(_) if std::env::args().any(|argument| argument == "--list") => {
            if !std::env::args().any(|argument| argument == "--ignored") {
                println!("stages: test");
            }
            ExitCode::SUCCESS
        }
        Err(_) => {
            tests();
            ExitCode::SUCCESS
        }
    }
}

/// A rank's whole life.
fn rank(role: &str) -> ExitCode {
    let number = |name: &str| -> u32 { std::env::var(name).unwrap().parse().unwrap() };
    let me = number("MICA_RANK");
    // A second descriptor of the memfd: what a safe program can get from a number.
    let path = format!("/proc/self/fd/{}", number("MICA_SEGMENT_FD"));
    let file = File::options().read(true).write(true).open(path).unwrap();
    let segment = JobSegment::attach(OwnedFd::from(file)).unwrap();
    assert_eq!(segment.job_size(), number("MICA_SIZE"));
    segment.claim(me).unwrap();
    let block = segment.block(me);
    match (role, me) {
        ("finalize", _) => block.finalize(),
        ("exit", 1) => return ExitCode::SUCCESS,
        ("exit", _) => {
            // What a rank reports that polls for a message of the one that has left.
            let waiting =
                Waiting { kind: WaitKind::Receive, peer: 1, tag: 5, context: 0, unexpected: 0 };
            block.set_waiting(Some((&waiting, monotonic_ns())));
            sleep(); // until mpiexec ends it, which is what is tested
        }
        ("abort", 1) => {
            block.abort(42);
            return ExitCode::from(9);
        }
        ("wait", _) => {
            let waiting =
                Waiting { kind: WaitKind::Receive, peer: 0, tag: 77, context: 0, unexpected: 3 };
            block.set_waiting(Some((&waiting, monotonic_ns())));
            println!("wait");
            sleep();
        }
        ("late", _) => {
            assert_eq!(std::env::var("MICA_LATE").unwrap(), "on");
            segment.publish_late(me, &waited_for_three(me)).unwrap();
            block.finalize();
        }
        ("late but one", _) => {
            if me != 2 {
                segment.publish_late(me, &waited_for_three(me)).unwrap();
            }
            block.finalize();
        }
        ("sections", _) => {
            println!("{me} {}", segment.appnum(me));
            block.finalize();
        }
        ("places", _) => {
            let place = segment.place(me);
            println!("{me} {} {}", place.core, place.package);
            block.finalize();
        }
        _ => sleep(),
    }
    ExitCode::SUCCESS
}

/// What rank `me` of four counts when rank 3 comes a millisecond late each of ten times.
fn waited_for_three(me: u32) -> LateRecord {
    let waited = if me == 3 { 0 } else { 10 };
    let last = LastArrival { rank: 3, times: waited, wait_ns: waited * 1_000_000 };
    let counts = SiteCounts {
        calls: 10,
        waited,
        wait_ns: last.wait_ns,
        longest_ns: 1_500_000,
        inside_ns: 20_000_000,
        last: (waited > 0).then_some(last).into_iter().collect(),
    };
    let place = CallSite {
        // The loader puts a program elsewhere each time.
        address: 0x5555_0000 + u64::from(me) * 0x1000,
        object: "/home/me/solve".to_owned(),
        offset: 0x1234,
        ..CallSite::default()
    };
    LateRecord {
        sites: vec![LateSite { place, collective: "barrier".to_owned(), ranks: 4, counts }],
        calls_left_out: 0,
    }
}

fn sleep() {
    std::thread::sleep(Duration::from_secs(1000));
}

fn mpiexec(role: &str, options: &[&str]) -> Output {
    let own = std::env::current_exe().unwrap();
    let words = options.iter().map(|word| match *word {
        "RANK" => own.as_os_str(),
        word => word.as_ref(),
    });
    Command::new(env!("CARGO_BIN_EXE_mpiexec"))
        .args(words)
        .env("MICA_TEST_ROLE", role)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn tests() {
    let tests: [(&str, fn()); 6] = [
        ("ranks_that_finalize", ranks_that_finalize),
        ("an_exit_without_finalize_is_a_failure", an_exit_without_finalize_is_a_failure),
        ("an_abort_gives_its_code", an_abort_gives_its_code),
        ("the_report_says_what_ranks_wait_for", the_report_says_what_ranks_wait_for),
        ("ranks_read_their_section_and_place", ranks_read_their_section_and_place),
        ("late_arrivals_of_all_nodes_are_one_table", late_arrivals_of_all_nodes_are_one_table),
    ];
    for (name, test) in tests {
        test();
        println!("test {name} ... ok");
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn ranks_that_finalize() {
    let output = mpiexec("finalize", &["-n", "3", "RANK"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "");
}

fn an_exit_without_finalize_is_a_failure() {
    let output = mpiexec("exit", &["-n", "3", "RANK"]);
    assert_eq!(output.status.code(), Some(1));
    let report = text(&output.stderr);
    assert!(report.contains("rank 1 (pid "), "{report}");
    assert!(report.contains("without calling MPI_Finalize"), "{report}");
}

fn an_abort_gives_its_code() {
    let output = mpiexec("abort", &["-n", "3", "RANK"]);
    assert_eq!(output.status.code(), Some(42), "the code of the abort, not the exit status");
    let report = text(&output.stderr);
    assert!(report.contains("rank 1 (pid "), "{report}");
    assert!(report.contains("called MPI_Abort with code 42"), "{report}");
}

fn the_report_says_what_ranks_wait_for() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_mpiexec"))
        .args(["-n", "2"])
        .arg(std::env::current_exe().unwrap())
        .env("MICA_TEST_ROLE", "wait")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Both ranks have said that they wait now.
    let stdout = BufReader::new(child.stdout.take().unwrap());
    assert_eq!(stdout.lines().take(2).map(Result::unwrap).collect::<String>(), "waitwait");
    let pid = child.id().to_string();
    let send = |signal: &str| {
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    };
    send("-USR1");
    let stderr = BufReader::new(child.stderr.take().unwrap());
    let report: Vec<String> = stderr.lines().take(3).map(Result::unwrap).collect();
    send("-TERM");
    assert_eq!(child.wait().unwrap().code(), Some(128 + 15));
    assert!(report[2].starts_with("mpiexec:   rank 1 (pid "), "{report:?}");
    for part in ["from rank 0", "tag 77", "3 unexpected"] {
        assert!(report[2].contains(part), "{part}: {report:?}");
    }
}

fn ranks_read_their_section_and_place() {
    let output = mpiexec("sections", &["-n", "2", "RANK", ":", "-n", "1", "RANK"]);
    let mut lines: Vec<String> = text(&output.stdout).lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["0 0", "1 0", "2 1"], "{}", text(&output.stderr));

    let machine = "MICA_TOPOLOGY_SYNTHETIC=pack:2 core:2 pu:1";
    let own = std::env::current_exe().unwrap();
    let output = Command::new("env")
        .args([machine, "MICA_TEST_ROLE=places", env!("CARGO_BIN_EXE_mpiexec")])
        .args(["-n", "3", "--map-by", "package"])
        .arg(own)
        .output()
        .unwrap();
    let mut lines: Vec<String> = text(&output.stdout).lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["0 0 0", "1 2 1", "2 1 0"], "{}", text(&output.stderr));
}

fn late_arrivals_of_all_nodes_are_one_table() {
    let nodes = ["--launcher", "fork", "-hosts", "left,right", "-ppn", "2"];
    for hosts in [&[][..], &nodes] {
        let ask = |role: &str, option: &str| {
            let options = [hosts, &[option, "-n", "4", "RANK"]].concat();
            let output = mpiexec(role, &options);
            assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
            text(&output.stderr)
        };
        let report = ask("late", "--late-arrivals");
        let lines: Vec<&str> = report.lines().collect();
        assert_eq!(lines.len(), 3, "{report}");
        assert!(lines[0].contains("4 of 4 ranks"), "{report}");
        let row: Vec<&str> = lines[2].split_whitespace().collect();
        let expected = "mpiexec: barrier 4 40 30 30.00 ms 1.00 ms 1.50 ms 80.00 ms 3: 100% (100%) \
                        solve+0x1234";
        assert_eq!(row, expected.split(' ').collect::<Vec<_>>(), "{report}");
        let report = ask("late but one", "-x=MICA_LATE=on");
        assert!(report.contains("3 of 4 ranks"), "{report}");
        assert_eq!(ask("finalize", "-x=MICA_LATE=off"), "", "unasked, nothing");
    }
}

//! `mpiexec --late-arrivals`: the table names the lines of the program at which ranks waited, and
//! the ranks that they waited for.

use mica_tests::{Install, Outcome, TWO_NODES, workspace};

const ROUNDS: u64 = 10;

/// A row of the table.
#[derive(Debug)]
struct Row {
    collective: String,
    size: u64,
    calls: u64,
    waits: u64,
    longest_ms: f64,
    /// The rank that was waited for most, and its share of the waiting time.
    last: Option<(u64, f64)>,
    /// The source line of the call.
    line: String,
}

/// The rows of a job's table.
fn rows(outcome: &Outcome) -> Vec<Row> {
    let mut lines = outcome.stderr.lines();
    let head = lines.next().unwrap_or_default();
    assert!(head.contains("late arrivals at collectives (4 of 4 ranks"), "{}", outcome.report());
    lines.skip(1).map(row).collect()
}

fn row(text: &str) -> Row {
    let words: Vec<&str> = text.split_whitespace().collect();
    let number = |at: usize| words[at].parse::<u64>().unwrap_or_else(|_| panic!("{text}"));
    let ms = |at: usize| {
        let unit = match words[at + 1] {
            "ns" => 1e-6,
            "us" => 1e-3,
            "ms" => 1.0,
            _ => 1e3,
        };
        words[at].parse::<f64>().unwrap_or_else(|_| panic!("{text}")) * unit
    };
    // `main at coll_late.c:27 (coll_late+0x12f4)`.
    let place = words[words.len() - 1];
    assert!(place.starts_with("(coll_late+0x"), "{text}");
    let (file, line) = words[words.len() - 2].split_once(':').unwrap_or_else(|| panic!("{text}"));
    assert_eq!(words[words.len() - 3], "at", "{text}");
    let last = words[13].strip_suffix(':').map(|rank| {
        let share = words[14].trim_end_matches('%');
        let share: f64 = share.parse().unwrap_or_else(|_| panic!("{text}"));
        (rank.parse().unwrap_or_else(|_| panic!("{text}")), share)
    });
    Row {
        collective: words[1].to_owned(),
        size: number(2),
        calls: number(3),
        waits: number(4),
        longest_ms: ms(9),
        last,
        // What the harness calls has a row as well, in `test.h`.
        line: if file == "coll_late.c" { source(line) } else { String::new() },
    }
}

/// The line of the test program with this number.
fn source(number: &str) -> String {
    let number: usize = number.parse().expect("a number");
    let text = std::fs::read_to_string(workspace().join("tests/c/coll_late.c")).unwrap();
    text.lines().nth(number - 1).unwrap_or_default().to_owned()
}

fn run(install: &Install, options: &[&str]) -> Outcome {
    run_on(install, &[], options)
}

fn run_on(install: &Install, nodes: &[(&str, &str)], options: &[&str]) -> Outcome {
    let program = install.program("coll_late");
    let job = install.mpiexec(["-n", "4"]).args(options);
    let job = nodes.iter().fold(job, |job, (name, value)| job.env(name, value));
    let outcome = job.args([program]).args([ROUNDS.to_string()]).run();
    let outcome = outcome.expect_success();
    assert_eq!(outcome.stdout.trim(), "No Errors");
    outcome
}

fn find<'a>(rows: &'a [Row], comment: &str, outcome: &Outcome) -> &'a Row {
    let mut found = rows.iter().filter(|row| row.line.contains(comment));
    let row = found.next();
    assert!(found.next().is_none(), "two rows: {}", outcome.report());
    row.unwrap_or_else(|| panic!("no row for {comment}: {}", outcome.report()))
}

#[test]
fn late_table_names_call_sites_and_late_ranks() {
    let install = Install::find();
    // Every rank polls every other; announcements go through a tree; buffers are read directly.
    let tree = ["-x", "MICA_COLL_SHAPE=tree", "-x", "MICA_COLL_FAN=2"];
    for (family, options) in [("shared", &[][..]), ("shared", &tree), ("direct", &[])] {
        let family = format!("MICA_COLL={family}");
        let options = [&["--late-arrivals", "-x", &family], options].concat();
        check(&run(&install, &options));
    }
}

fn check(outcome: &Outcome) {
    let rows = rows(outcome);
    for (comment, collective, late) in [
        ("/* the last rank */", "MPI_Barrier", 3),
        ("/* rank 0 */", "MPI_Allreduce", 0),
        ("/* the last rank, non-blocking */", "MPI_Ibarrier", 3),
        ("/* rank 0, persistent */", "MPI_Start", 0),
        ("/* the last rank, window */", "MPI_Win_fence", 3),
    ] {
        let row = find(&rows, comment, outcome);
        assert_eq!((&*row.collective, row.size), (collective, 4), "{row:?}");
        // All ranks wait for the last one; the last one waits for none.
        assert_eq!((row.calls, row.waits), (4 * ROUNDS, 3 * ROUNDS), "{row:?}");
        let (rank, share) = row.last.expect("somebody came last");
        assert_eq!(rank, late, "{}", outcome.report());
        assert!(share >= 50.0, "{}", outcome.report());
        // The late rank sleeps for 20 ms; others may begin to wait a little later.
        assert!(row.longest_ms >= 10.0, "{}", outcome.report());
    }
}

#[test]
fn ranks_of_a_node_are_compared_among_themselves() {
    let install = Install::find();
    let outcome = run_on(&install, &TWO_NODES, &["--late-arrivals"]);
    let rows = rows(&outcome);
    // Ranks 0 and 1 are on one node, 2 and 3 on the other.
    for (comment, late) in [("/* the last rank */", 3), ("/* rank 0 */", 0)] {
        let row = find(&rows, comment, &outcome);
        assert_eq!(row.calls, 4 * ROUNDS, "{row:?}");
        assert!(row.waits <= 2 * ROUNDS, "one of two waits: {row:?}");
        let (rank, share) = row.last.expect("somebody came last");
        assert_eq!(rank, late, "{}", outcome.report());
        assert!(share >= 50.0, "{}", outcome.report());
        assert!(row.longest_ms >= 10.0, "{}", outcome.report());
    }
}

#[test]
fn messages_carry_no_arrival_times() {
    let install = Install::find();
    let outcome = run(&install, &["-x", "MICA_LATE=on", "-x", "MICA_COLL=messages"]);
    let rows = rows(&outcome);
    for comment in [
        "/* the last rank */",
        "/* rank 0 */",
        "/* the last rank, non-blocking */",
        "/* rank 0, persistent */",
    ] {
        let row = find(&rows, comment, &outcome);
        assert_eq!((row.calls, row.waits), (4 * ROUNDS, 0), "{row:?}");
        assert!(row.last.is_none(), "{row:?}");
    }
}

#[test]
fn prints_nothing_unless_asked() {
    let install = Install::find();
    assert_eq!(run(&install, &[]).stderr, "");
}

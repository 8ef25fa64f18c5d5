//! The hang report (`kill -USR1` to mpiexec): what each rank waits for or polls for, by the names
//! that the program uses, and which ranks have ended.

use std::time::{Duration, Instant};

use mica_tests::{Install, TWO_NODES, workspace};
use rustix::process::Signal;

/// Time before another report is requested. Reports are not this late; the ranks may just not yet
/// have reached the calls in which they stay.
const AGAIN: Duration = Duration::from_secs(6);

/// Requests reports from a job of `n` ranks that stay in `scene`, until one report has a line that
/// ends with each of `lines`, and returns that report. Numbers that differ from job to job (process
/// ids, times, counts of polls) are `#` in the lines, and the host's name with its "on" and the
/// places of calls are left out. `None` if the installation has no such reports.
fn expect(n: u32, scene: &str, env: &[(&str, &str)], lines: &[&str]) -> Option<String> {
    let install = Install::find();
    if !install.is_mica() {
        println!("skipped: only our mpiexec has such reports");
        return None;
    }
    let program = install.program("tools/hang");
    let job = install.mpiexec(["-n", &n.to_string(), &program.to_string_lossy(), scene]);
    let job = env.iter().fold(job, |job, (name, value)| job.env(name, value));
    let mut job = job.start();
    // mpiexec is running by then: a signal before it handles signals would end it.
    job.wait_for("ready");
    let mut seen = 0;
    loop {
        job.signal(Signal::USR1);
        let until = Instant::now() + AGAIN;
        while Instant::now() < until {
            let said = job.said();
            let reports: Vec<&str> = said.split("ranks are running:").collect();
            let complete = reports[reports.len() - 1];
            let report = plain(complete);
            if lines.iter().all(|line| report.lines().any(|l| l.ends_with(line))) {
                let found = complete.to_owned();
                job.signal(Signal::TERM);
                job.finish();
                return Some(found);
            }
            if reports.len() > seen {
                seen = reports.len();
                println!("{report}");
            }
        }
    }
}

/// The report without what differs from job to job.
fn plain(report: &str) -> String {
    let mut text = String::new();
    for line in report.lines() {
        let line = line.strip_prefix("mpiexec:").unwrap_or(line).trim_start();
        let mut words: Vec<String> = Vec::new();
        for word in line.split(' ') {
            let digits = word.trim_end_matches([':', ')', ';']);
            let before = words.last().map(String::as_str).unwrap_or_default();
            let is_number = digits.starts_with(|c: char| c.is_ascii_digit());
            let is_time = before == "for" && digits.contains('.');
            let is_count = word.starts_with('(') && line.contains(&format!("{word} failed polls"));
            let varies = is_number && (before == "(pid" || is_time) || is_count;
            match varies {
                true if word.starts_with('(') => words.push("(#".to_owned()),
                true => words.push(word.replace(digits, "#")),
                false => words.push(word.to_owned()),
            }
        }
        let mut line = words.join(" ");
        // "rank 3 (pid # on host): ..."
        if let Some(on) = line.find("(pid # on ")
            && let Some(end) = line[on..].find("):")
        {
            line.replace_range(on..on + end, "(pid #");
        }
        // "waits in MPI_Recv (at cycle at hang.c:12) for ..."
        if let Some(at) = line.find(" (at ")
            && let Some(end) = line[at..].find(')')
        {
            line.replace_range(at..=at + end, "");
        }
        text.push_str(&line);
        text.push('\n');
    }
    text
}

const COMPUTES: &str = "is not waiting in MPI";

/// What ranks report in `messages`, except rank 3, which polls for two requests alternately.
const MESSAGES: [&str; 8] = [
    "rank 0 (pid #): waits in MPI_Waitall for 20 requests, for # s; 0 unexpected messages queued",
    "a message from rank 2 (rank 1 of the communicator), tag 100, up to 4 bytes, \
     on \"halo ?ring\" (3 ranks: 0,2,4)",
    "a message from rank 2 (rank 1 of the communicator), tag 115, up to 4 bytes, \
     on \"halo ?ring\" (3 ranks: 0,2,4)",
    "and 4 more",
    "rank 1 (pid #): polls with MPI_Iprobe for a message from any rank, tag 33, on MPI_COMM_WORLD \
     (6 ranks: 0-5), for # s (# failed polls); 0 unexpected messages queued",
    "rank 2 (pid #): waits in MPI_Recv for a message from rank 4 (rank 2 of the communicator), \
     any tag, up to 80 bytes, on \"halo ?ring\" (3 ranks: 0,2,4), for # s; 0 unexpected messages \
     queued",
    "rank 4 (pid #): is not waiting in MPI",
    "rank 5 (pid #): waits in MPI_Ssend for its message to rank 4 to be taken, tag 77, 12 bytes, \
     on MPI_COMM_WORLD (6 ranks: 0-5), for # s; 0 unexpected messages queued",
];

#[test]
fn hang_report_names_what_waiting_and_polling_ranks_need() {
    let polled = [
        "polls with MPI_Test for a message from rank 0, tag 5, up to 8 bytes, \
         on a communicator without a name (6 ranks: 0-5), for # s (# failed polls); 0 unexpected \
         messages queued",
        "polls with MPI_Test for a message from rank 1, tag 6, up to 8 bytes, \
         on a communicator without a name (6 ranks: 0-5), for # s (# failed polls); 0 unexpected \
         messages queued",
    ];
    let lines: Vec<&str> = MESSAGES.iter().chain(&polled).copied().collect();
    expect(6, "messages", &[], &lines);
}

#[test]
fn agents_pass_reports_on() {
    expect(6, "messages", &TWO_NODES, &MESSAGES);
}

#[test]
fn collectives_have_the_name_that_they_were_called_by() {
    let lines = [
        "rank 0 (pid #): waits in MPI_Wait for MPI_Iallreduce, on a communicator without a name \
         (3 ranks: 0-2), for # s; 0 unexpected messages queued",
        "rank 1 (pid #): waits in MPI_Allreduce for other ranks, on MPI_COMM_WORLD (4 ranks: \
         0-3), for # s; 0 unexpected messages queued",
        "rank 2 (pid #): waits in MPI_Waitany for 2 requests, for # s; 0 unexpected messages \
        queued",
        "MPI_Ibarrier, on a communicator without a name (4 ranks: 0-3)",
        "a message from any rank, tag 9, up to 4 bytes, on MPI_COMM_WORLD (4 ranks: 0-3)",
        "rank 3 (pid #): is not waiting in MPI",
    ];
    expect(4, "collectives", &[], &lines);
}

/// Of each rank the line of its call, of three the cycle that they are in, also across nodes, and
/// the message that nobody receives.
#[test]
fn hang_report_names_lines_cycles_and_messages_without_a_receive() {
    let lines = [
        "rank 1 (pid #): waits in MPI_Recv for a message from rank 2, tag 7, up to 4 bytes, \
         on MPI_COMM_WORLD (4 ranks: 0-3), for # s; 1 unexpected message queued",
        "queued: a message from rank 0, tag 42, 4 bytes, on MPI_COMM_WORLD (4 ranks: 0-3)",
        "cycle, in which each rank waits for the next: 0 -> 1 -> 2 -> 0",
    ];
    let source = std::fs::read_to_string(workspace().join("tests/c/tools/hang.c")).unwrap();
    let line = source.lines().position(|line| line.contains("site: cycle")).unwrap() + 1;
    for env in [&[][..], &TWO_NODES] {
        if let Some(report) = expect(4, "cycle", env, &lines) {
            let place = format!("waits in MPI_Recv (at cycle at hang.c:{line}) for");
            assert_eq!(report.matches(&place).count(), 3, "{report}");
        }
    }
}

#[test]
fn hang_report_lists_all_threads_of_a_rank() {
    let lines = [8, 9].map(|tag| {
        format!(
            "waits in MPI_Recv for a message from rank 1, tag {tag}, up to 4 bytes, \
             on MPI_COMM_WORLD (2 ranks: 0-1), for # s; 0 unexpected messages queued"
        )
    });
    expect(2, "threads", &[], &[&lines[0], &lines[1], COMPUTES]);
}

#[test]
fn ranks_that_have_ended_are_listed() {
    let lines = [
        "rank 0 (pid #): has called MPI_Finalize",
        "ranks 1-2 have ended: exited with code 0 after MPI_Finalize",
    ];
    expect(3, "ended", &[], &lines);
}

#[test]
fn who_waits_for_a_lock_names_its_holder() {
    let line =
        ["the lock of rank 0, which is held by rank 2 (exclusive), in window \"table\", for # s; \
         0 unexpected messages queued"];
    for design in ["barging", "mcs", "test_and_set", "thread", "event"] {
        expect(3, "locks", &[("MICA_WINDOW_LOCK", design)], &line);
    }
    expect(3, "locks", &[("MICA_WINDOW_ACCESS", "messages")], &line);
}

#[test]
fn who_waits_in_a_fence_names_the_window() {
    let lines = [0, 1].map(|rank| {
        format!(
            "rank {rank} (pid #): waits in MPI_Win_fence for other ranks, on window \"table\" (3 \
             ranks: 0-2), for # s; 0 unexpected messages queued"
        )
    });
    expect(3, "fence", &[], &[&lines[0], &lines[1], COMPUTES]);
}

//! Output of ranks through `mpiexec`: whole lines, nothing lost, and no reader that holds the
//! launcher up.

use crate::common::text;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

const MPIEXEC: &str = env!("CARGO_BIN_EXE_mpiexec");
/// Only there to end a test that would hang.
const WATCHDOG: Duration = Duration::from_secs(120);

fn mpiexec(options: &[&str], script: &str) -> Command {
    let mut command = Command::new(MPIEXEC);
    command.args(options).args(["sh", "-c", script]);
    command.stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(options: &[&str], script: &str) -> Output {
    mpiexec(options, script).output().unwrap()
}

fn scratch(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("output");
    fs::create_dir_all(&folder).unwrap();
    folder.join(format!("{name}-{}", std::process::id()))
}

/// Waits for the end of `mpiexec` and answers its exit code; kills it if it hangs.
fn code(child: &mut Child) -> i32 {
    let end = std::time::Instant::now() + WATCHDOG;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code().expect("not killed");
        }
        if std::time::Instant::now() > end {
            child.kill().unwrap();
            panic!("mpiexec hangs");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Reads from a thread: what has come when as many bytes as asked are there.
fn read_some(mut from: impl Read + Send + 'static, bytes: usize) -> Vec<u8> {
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        let mut buffer = vec![0; bytes];
        let done = from.read_exact(&mut buffer).map(|()| buffer);
        let _ = send.send((done, from));
    });
    receive.recv_timeout(WATCHDOG).expect("output comes").0.unwrap()
}

/// awk's output goes through a buffer of the C library, which cuts lines anywhere.
const LONG_LINES: &str = "awk -v r=$MICA_RANK 'BEGIN { s = sprintf(\"%04999d\", 0); gsub(/0/, r, \
     s); for (i = 0; i < 300; i++) print s }'";

fn assert_whole(output: &str, ranks: usize) {
    let mut count = BTreeMap::new();
    for line in output.lines() {
        let first = line.chars().next().expect("no empty line");
        assert!(
            line.len() == 4999 && line.chars().all(|c| c == first),
            "a broken line of {} characters: {line:.20}...",
            line.len()
        );
        *count.entry(first).or_insert(0) += 1;
    }
    let all = (0..ranks).map(|rank| (char::from(b'0' + rank as u8), 300));
    assert_eq!(count, all.collect());
}

#[test]
fn lines_of_different_ranks_are_not_mixed() {
    for nodes in [&[][..], &["--launcher", "fork", "-hosts", "a,b"]] {
        let output = run(&[nodes, &["-n", "4"]].concat(), LONG_LINES);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_whole(&text(&output.stdout), 4);
    }
}

#[test]
fn lines_in_a_file_are_not_mixed() {
    let path = scratch("lines");
    let mut command = mpiexec(&["-n", "4"], LONG_LINES);
    command.stdout(File::create(&path).unwrap());
    assert!(command.status().unwrap().success());
    assert_whole(&fs::read_to_string(&path).unwrap(), 4);
    fs::remove_file(&path).unwrap();
}

/// Lines on standard error are kept whole as well, and apart from standard output.
#[test]
fn standard_error_stays_apart() {
    let script = "for i in $(seq 200); do echo out $MICA_RANK $i; echo err $MICA_RANK $i >&2; done";
    let output = run(&["-n", "3"], script);
    for (bytes, word) in [(&output.stdout, "out"), (&output.stderr, "err")] {
        let mut next = [1; 3];
        for line in text(bytes).lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let rank: usize = words[1].parse().unwrap();
            assert_eq!(line, format!("{word} {rank} {}", next[rank]));
            next[rank] += 1;
        }
        assert_eq!(next, [201; 3]);
    }
}

/// With `2>&1`, what a rank writes to the one and the other keeps its order.
#[test]
fn one_file_for_both_keeps_their_order() {
    let path = scratch("both");
    let file = File::create(&path).unwrap();
    let script = "for i in $(seq 100); do echo $MICA_RANK $i out; echo $MICA_RANK $i err >&2; done";
    for nodes in [&[][..], &["--launcher", "fork", "-hosts", "a,b"]] {
        let mut command = mpiexec(&[nodes, &["-n", "2"]].concat(), script);
        command.stdout(file.try_clone().unwrap());
        command.stderr(file.try_clone().unwrap());
        assert!(command.status().unwrap().success());
    }
    let all = fs::read_to_string(&path).unwrap();
    for rank in 0..2 {
        let of_rank = |line: &&str| line.starts_with(&format!("{rank} "));
        let lines: Vec<&str> = all.lines().filter(of_rank).collect();
        let expected =
            (1..=100).flat_map(|i| ["out", "err"].map(|word| format!("{rank} {i} {word}")));
        let expected: Vec<String> = expected.collect();
        assert_eq!(lines, [&expected[..], &expected].concat());
    }
    fs::remove_file(&path).unwrap();
}

#[test]
fn bytes_pass_unchanged_and_complete() {
    let path = scratch("bytes");
    let bytes: Vec<u8> =
        (0..5_000_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    fs::write(&path, &bytes).unwrap();
    let script = format!("test $MICA_RANK = 1 && cat {}; true", path.display());
    let output = run(&["-n", "3"], &script);
    assert!(output.stdout == bytes, "{} bytes", output.stdout.len());
    // Without a single line's end.
    let script = "head -c 3000000 /dev/zero | tr '\\0' $MICA_RANK";
    let output = run(&["-n", "3"], script);
    for rank in b'0'..b'3' {
        let count = output.stdout.iter().filter(|&&byte| byte == rank).count();
        assert_eq!(count, 3_000_000);
    }
    assert_eq!(output.stdout.len(), 9_000_000);
    fs::remove_file(&path).unwrap();
}

#[test]
fn a_prompt_is_passed_on_before_its_answer() {
    let script = "if test $MICA_RANK = 0; then printf 'name? '; read name; echo hello $name; fi";
    let mut command = mpiexec(&["-n", "2"], script);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let stdout = child.stdout.take().unwrap();
    let (prompt, mut stdout) = {
        let copy = std::os::fd::AsFd::as_fd(&stdout).try_clone_to_owned().unwrap();
        (read_some(File::from(copy), 6), stdout)
    };
    assert_eq!(prompt, b"name? ");
    child.stdin.take().unwrap().write_all(b"you\n").unwrap();
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "hello you\n");
    assert_eq!(code(&mut child), 0);
}

/// Dots that come faster than any quiet moment.
#[test]
fn dots_are_passed_on_while_they_come() {
    let script = "test $MICA_RANK = 0 && while :; do printf .; sleep 0.02; done; sleep 1000";
    let mut child = mpiexec(&["-n", "2"], script).spawn().unwrap();
    assert_eq!(read_some(child.stdout.take().unwrap(), 50), [b'.'; 50]);
    assert_eq!(code(&mut child), 128 + 13, "then their reader is gone");
}

/// A reader that does not read holds up neither signals nor deadlines nor the news of a dead rank.
#[test]
fn a_stuck_reader_does_not_stop_the_launcher() {
    let flood = "while :; do echo $MICA_RANK and a text of some length to fill the pipe; done";
    for label in [&[][..], &["-l"]] {
        // A signal.
        let mut child = mpiexec(&[label, &["-n", "2"]].concat(), flood).spawn().unwrap();
        let stdout = child.stdout.take().unwrap();
        let _ = read_some(stdout.try_clone_for_test(), 10);
        // Time for the flood to fill the pipe. If it is too short, the test only shows less.
        std::thread::sleep(Duration::from_millis(300));
        let status = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        assert!(status.unwrap().success());
        assert_eq!(code(&mut child), 130);
        drop(stdout);
        // The time.
        let options = [label, &["-n", "2", "--timeout", "0.5"]].concat();
        let mut child = mpiexec(&options, flood).spawn().unwrap();
        let _unread = child.stdout.take().unwrap();
        assert_eq!(code(&mut child), 124);
        // A death: it is reported while the reader is stuck, and all is there when it reads again.
        let script = "test $MICA_RANK = 0 && { head -c 2000000 /dev/zero | tr '\\0' x; sleep \
                      1000; }; sleep 0.5; exit 7";
        let mut child = mpiexec(&[label, &["-n", "2"]].concat(), script).spawn().unwrap();
        let mut line = String::new();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        stderr.read_line(&mut line).unwrap();
        assert!(line.contains("rank 1 (pid "), "{line}");
        let mut rest = Vec::new();
        child.stdout.take().unwrap().read_to_end(&mut rest).unwrap();
        assert!(rest.len() > 65_536);
        assert_eq!(code(&mut child), 7);
    }
}

fn named_pipe(name: &str) -> PathBuf {
    let path = scratch(name);
    let made = Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    path
}

/// To open a named pipe takes until it has a reader; `mpiexec` does not wait for that.
#[test]
fn a_named_pipe_without_a_reader_does_not_stop_the_launcher() {
    for label in [&[][..], &["-l"]] {
        let path = named_pipe("unread");
        let file = ["-n", "2", "-outfile-pattern", path.to_str().unwrap()];
        let options = [label, &file].concat();
        let mut child =
            mpiexec(&options, "echo lost; echo started >&2; exec sleep 1000").spawn().unwrap();
        let mut line = String::new();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        stderr.read_line(&mut line).unwrap();
        assert!(line.ends_with("started\n"), "{line}");
        let status = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        assert!(status.unwrap().success());
        assert_eq!(code(&mut child), 130);
        fs::remove_file(&path).unwrap();
    }
}

/// A death is reported while a named pipe is full, and all is there when it is read.
#[test]
fn a_named_pipe_gets_everything_when_it_is_read() {
    let path = named_pipe("late");
    let options = ["-n", "2", "-outfile-pattern", path.to_str().unwrap()];
    let script = "test $MICA_RANK = 0 && { head -c 2000000 /dev/zero | tr '\\0' x; exit 0; }; \
                  echo done >&2";
    let mut child = mpiexec(&options, script).spawn().unwrap();
    let mut line = String::new();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    stderr.read_line(&mut line).unwrap();
    assert_eq!(line, "done\n");
    assert_eq!(fs::read(&path).unwrap(), vec![b'x'; 2_000_000]);
    assert_eq!(code(&mut child), 0);
    fs::remove_file(&path).unwrap();
}

/// Half of a pipe that is read elsewhere, too.
trait CloneForTest {
    fn try_clone_for_test(&self) -> File;
}

impl<T: std::os::fd::AsFd> CloneForTest for T {
    fn try_clone_for_test(&self) -> File {
        File::from(self.as_fd().try_clone_to_owned().unwrap())
    }
}

/// As without a launcher: a writer finds that its reader is gone.
#[test]
fn ranks_notice_that_their_reader_is_gone() {
    let nodes = ["--launcher", "fork", "-hosts", "a,b", "-n", "2"];
    for options in [&["-n", "2"][..], &["-n", "2", "-l"], &nodes] {
        let mut child = mpiexec(options, "exec yes").spawn().unwrap();
        read_some(child.stdout.take().unwrap(), 100);
        assert_eq!(code(&mut child), 128 + 13);
    }
}

#[test]
fn output_that_cannot_be_written_is_reported() {
    let full = || OpenOptions::new().write(true).open("/dev/full").unwrap();
    let nodes = ["--launcher", "fork", "-hosts", "a,b", "-n", "2"];
    for options in [&["-n", "2"][..], &["-l"], &["-n", "2", "-l"], &nodes] {
        let output = mpiexec(options, "echo hi").stdout(full()).output().unwrap();
        let report = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{options:?}: {report}");
        assert!(report.contains("cannot write to standard output"), "{report}");
        assert!(report.contains("No space left"), "{report}");
        let output = mpiexec(options, "echo hi >&2").stderr(full()).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{options:?}");
        // A rank's own failure counts more.
        let output = mpiexec(options, "echo hi; exit 9").stdout(full()).output().unwrap();
        assert_eq!(output.status.code(), Some(9));
    }
    for question in ["--help", "--version"] {
        let output = Command::new(MPIEXEC).arg(question).stdout(full()).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).contains("No space left"));
    }
}

/// A job of one has its output for itself.
#[test]
fn the_only_rank_writes_itself() {
    let path = scratch("own");
    let script = "readlink /proc/self/fd/1";
    for (options, is_file) in [(&["-n", "1"][..], true), (&["-n", "2"], false)] {
        let mut command = mpiexec(options, script);
        command.stdout(File::create(&path).unwrap());
        assert!(command.status().unwrap().success());
        let shown = fs::read_to_string(&path).unwrap();
        assert_eq!(shown.contains(path.to_str().unwrap()), is_file, "{shown}");
    }
    fs::remove_file(&path).unwrap();
}

/// On a terminal ranks write themselves: programs line-buffer and colour there.
#[test]
fn a_terminal_is_left_to_the_ranks() {
    // script(1) gives a terminal.
    let inner = format!("{MPIEXEC} -n 2 sh -c 'test -t 1 && echo terminal'");
    let output =
        Command::new("script").args(["-qec", &inner, "/dev/null"]).stdin(Stdio::null()).output();
    match output {
        Ok(output) => assert_eq!(text(&output.stdout).matches("terminal").count(), 2),
        Err(error) => eprintln!("skipped: there is no script(1): {error}"),
    }
}

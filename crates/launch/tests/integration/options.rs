//! Options and variables that users know from other launchers, with programs that know nothing of
//! MPI.

use crate::common::*;
use std::fs;
use std::io::Write;
use std::process::{Command, Output, Stdio};

fn mpiexec(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mpiexec"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Runs `mpiexec OPTIONS sh -c SCRIPT`.
fn run(options: &[&str], script: &str) -> Output {
    let arguments = [options, &["sh", "-c", script]].concat();
    mpiexec(&arguments).output().unwrap()
}

/// Runs a command with this standard input.
fn with_input(mut command: Command, input: &[u8]) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    // Ranks that do not read leave the pipe broken.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

#[test]
fn slots_say_how_many_ranks_there_are() {
    for (options, ranks) in [
        (&["-hosts", "localhost:4"][..], 4),
        (&["-hosts", "localhost", "-ppn", "2"], 2),
        (&["-ppn", "2"], 2),
        (&["--npernode", "2"], 2),
        (&["-N", "3"], 3),
        (&[], 1),
    ] {
        let output = run(options, "echo $MICA_SIZE");
        assert_eq!(text(&output.stdout).lines().count(), ranks, "{options:?}");
        assert!(text(&output.stdout).starts_with(&ranks.to_string()), "{options:?}");
    }
}

#[test]
fn ranks_get_as_much_of_the_environment_as_is_said() {
    let show = "echo $MICA_RANK $ONE$TWO$SET";
    let with = |options: &[&str]| {
        let arguments = [options, &["sh", "-c", show]].concat();
        let mut command = mpiexec(&arguments);
        command.env("ONE", "1").env("TWO", "2");
        text(&command.output().unwrap().stdout)
    };
    assert_eq!(with(&["-genvall"]), "0 12\n");
    assert_eq!(with(&["-genvlist", "TWO,PATH"]), "0 2\n");
    assert_eq!(with(&["-genvlist", "TWO", "-genv", "SET=s"]), "0 2s\n");
    assert_eq!(with(&["-genvexcept", "T*,X"]), "0 1\n");
    assert_eq!(with(&["-genvnone", "-envlist", "ONE"]), "0 1\n");
    assert_eq!(with(&["-genvnone", "-envall"]), "0 12\n");
    // The program is found all the same.
    let mut none = mpiexec(&["env"]);
    let none = none.env("HYDRA_ENV", "none").env("ONE", "1").output().unwrap();
    let lines = sorted_lines(&none.stdout);
    assert!(lines.iter().any(|line| line == "MICA_RANK=0"), "{lines:?}");
    let inherited = |line: &String| line.starts_with("ONE=") || line.starts_with("PATH=");
    assert!(!lines.iter().any(inherited), "{lines:?}");
}

#[test]
fn nodes_get_as_much_of_the_environment_as_is_said() {
    let script = "echo $MICA_RANK $ONE$TWO$SET";
    let arguments = ["-n", "2", "-genvlist", "TWO", "-genv", "SET", "s", "sh", "-c", script];
    let output = mpiexec(&arguments)
        .env("MICA_VIRTUAL_NODES", "2")
        .env("ONE", "1")
        .env("TWO", "2")
        .output()
        .unwrap();
    assert_eq!(sorted_lines(&output.stdout), ["0 2s", "1 2s"], "{}", text(&output.stderr));
}

#[test]
fn programs_come_from_a_file() {
    let file = empty_folder("config").join("programs");
    let lines = "# first\n-n 1 -env A 1 sh -c 'echo $MICA_RANK one $A'\n\
                 -n 2 sh -c \\\n 'echo $MICA_RANK two $A'\n";
    fs::write(&file, lines).unwrap();
    for option in ["-configfile", "--app"] {
        let output = mpiexec(&[option, file.to_str().unwrap()]).env_remove("A").output().unwrap();
        assert_eq!(
            sorted_lines(&output.stdout),
            ["0 one 1", "1 two", "2 two"],
            "{}",
            text(&output.stderr)
        );
    }
    let output = mpiexec(&["-configfile", "/no/such"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("/no/such: cannot read it"));
}

#[test]
fn each_rank_has_its_files() {
    let folder = empty_folder("files");
    let file = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let script = "echo out $MICA_RANK; echo err $MICA_RANK >&2";
    let options =
        ["-n", "3", "-outfile-pattern", &file("o.%r"), "-errfile-pattern", &file("new/e.%h.%r")];
    let output = run(&options, script);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!((output.stdout, output.stderr), (Vec::new(), Vec::new()));
    let read = |name: &str| fs::read_to_string(file(name)).unwrap();
    assert_eq!(read("o.2"), "out 2\n");
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert_eq!(read(&format!("new/e.{}.1", host.trim())), "err 1\n");

    // One file for all: what was in it is gone, what ranks write is all there, and a label says
    // whose it is.
    fs::write(file("all"), "old\n").unwrap();
    run(&["-n", "4", "-outfile-pattern", &file("all")], script);
    assert_eq!(sorted_lines(read("all").as_bytes()), ["out 0", "out 1", "out 2", "out 3"]);
    run(&["-n", "2", "-l", "-outfile-pattern", &file("all")], script);
    assert_eq!(sorted_lines(read("all").as_bytes()), ["[0] out 0", "[1] out 1"]);

    let output = run(&["-n", "2", "-outfile-pattern", "/proc/no/such"], script);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("/proc/no/such"), "{}", text(&output.stderr));
}

#[test]
fn files_as_open_mpi_has_them() {
    let folder = empty_folder("open-mpi-files");
    let file = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let script = "echo out $MICA_RANK; echo err $MICA_RANK >&2";
    let read = |name: &str| fs::read_to_string(file(name)).unwrap();
    let output = run(&["-n", "2", "--output-filename", &file("d")], script);
    assert_eq!(sorted_lines(&output.stdout), ["out 0", "out 1"]);
    assert_eq!(sorted_lines(&output.stderr), ["err 0", "err 1"]);
    assert_eq!(read("d/1/rank.1/stdout"), "out 1\n");
    assert_eq!(read("d/1/rank.0/stderr"), "err 0\n");
    let output = run(&["-n", "2", "--output-filename", &(file("q") + ":nocopy")], script);
    assert_eq!(text(&output.stdout), "");
    assert_eq!(read("q/1/rank.0/stdout"), "out 0\n");
    let both = ["-n", "1", "--merge-stderr-to-stdout", "--output", &format!("file={}", file("m"))];
    run(&both, script);
    assert_eq!(sorted_lines(read("m.0.out").as_bytes()), ["err 0", "out 0"]);
}

#[test]
fn files_are_written_on_each_node() {
    let folder = empty_folder("node-files");
    let pattern = folder.join("%p.%r");
    let options = ["-n", "4", "-outfile-pattern", pattern.to_str().unwrap()];
    let arguments = [&options[..], &["sh", "-c", "echo $MICA_RANK"]].concat();
    let output = mpiexec(&arguments).env("MICA_VIRTUAL_NODES", "2").output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    for name in ["0.0", "0.1", "1.2", "1.3"] {
        let rank = name.split('.').nth(1).unwrap();
        assert_eq!(fs::read_to_string(folder.join(name)).unwrap().trim(), rank);
    }
}

#[test]
fn lines_begin_as_is_said() {
    let script = "echo out; echo err >&2";
    let output = run(&["-n", "2", "-prepend-pattern", "<%r of %g> "], script);
    assert_eq!(sorted_lines(&output.stdout), ["<0 of 0> out", "<1 of 0> out"]);
    let with = |variables: &[(&str, &str)]| {
        let mut command = mpiexec(&["sh", "-c", script]);
        command.envs(variables.iter().copied()).output().unwrap()
    };
    let output = with(&[("MPIEXEC_PREFIX_DEFAULT", "")]);
    assert_eq!(text(&output.stdout), "0> out\n");
    assert_eq!(text(&output.stderr), "0(err)> err\n");
    let output = with(&[("MPIEXEC_PREFIX_STDERR", "rank %d: ")]);
    assert_eq!(text(&output.stdout), "out\n");
    assert_eq!(text(&output.stderr), "rank 0: err\n");
    let output = run(&["-n", "2", "-output-from", "1"], "echo $MICA_RANK; echo e >&2");
    assert_eq!((text(&output.stdout), text(&output.stderr)), ("1\n".to_owned(), "e\n".to_owned()));
    let output = run(&["-n", "1", "--merge-stderr-to-stdout"], script);
    assert_eq!(sorted_lines(&output.stdout), ["err", "out"]);
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn standard_input_goes_to_the_ranks_that_are_named() {
    let script = "echo $MICA_RANK:$(cat | wc -c)";
    let input: Vec<u8> = (0..300_000u32).map(|i| i as u8).collect();
    for (ranks, wanted) in [
        ("all", ["0:300000", "1:300000", "2:300000"]),
        ("1", ["0:0", "1:300000", "2:0"]),
        ("0,2", ["0:300000", "1:0", "2:300000"]),
        ("none", ["0:0", "1:0", "2:0"]),
    ] {
        for option in ["-s", "--stdin"] {
            let command = mpiexec(&["-n", "3", option, ranks, "sh", "-c", script]);
            let output = with_input(command, &input);
            assert_eq!(sorted_lines(&output.stdout), wanted, "{ranks}: {}", text(&output.stderr));
        }
        let mut command = mpiexec(&["-n", "3", "-s", ranks, "sh", "-c", script]);
        command.env("MICA_VIRTUAL_NODES", "2");
        let output = with_input(command, &input);
        assert_eq!(sorted_lines(&output.stdout), wanted, "two nodes, {ranks}");
    }
    let output = run(&["-n", "2", "-s", "5"], script);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("-s: there is no rank 5"));
}

/// A rank that does not read before another has read all: the other does not wait for it.
#[test]
fn a_rank_that_reads_late_keeps_no_other_from_reading() {
    let mark = empty_folder("late-reader").join("read");
    let script = format!(
        "if [ $MICA_RANK = 0 ]; then wc -c; : >{0}; else until [ -e {0} ]; do sleep 0.05; done; \
        wc -c; fi",
        mark.display()
    );
    let command = mpiexec(&["-n", "2", "-s", "all", "sh", "-c", &script]);
    let output = with_input(command, &vec![b'x'; 4 << 20]);
    assert_eq!(sorted_lines(&output.stdout), ["4194304", "4194304"]);
}

#[test]
fn tools_and_debuggers_stand_before_programs() {
    let output = run(&["-n", "3", "--tool", "env MARK=yes:0,2"], "echo $MICA_RANK $MARK");
    assert_eq!(sorted_lines(&output.stdout), ["0 yes", "1", "2 yes"]);
    let mut command = mpiexec(&["-n", "2", "--debug", "1", "echo", "program"]);
    let output = command.env("MICA_DEBUGGER", "echo debugger").output().unwrap();
    assert_eq!(sorted_lines(&output.stdout), ["debugger echo program", "program"]);
    let mut command = mpiexec(&["-n", "2", "-gdb", "true"]);
    let output = command
        .env_remove("DISPLAY")
        .env_remove("WAYLAND_DISPLAY")
        .env_remove("MICA_TERMINAL")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("no display"), "{}", text(&output.stderr));
}

#[test]
fn gdb_reads_its_commands_from_standard_input() {
    if Command::new("gdb").arg("--version").output().is_err() {
        println!("skipped: there is no gdb");
        return;
    }
    let command = mpiexec(&["-n", "2", "--debug", "1", "true"]);
    let output = with_input(command, b"print 6 * 7\nquit\n");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("$1 = 42"), "{}", text(&output.stdout));
}

/// Under a terminal the debugged rank is its foreground, and mpiexec is again when the job is
/// over.
#[test]
fn a_debugger_has_the_terminal() {
    let Ok(script) = Command::new("script").arg("--version").output() else {
        println!("skipped: there is no script(1) to make a terminal");
        return;
    };
    assert!(script.status.success());
    let show = "set -- $(cat /proc/self/stat); test $5 = $8 && echo foreground";
    let launcher = env!("CARGO_BIN_EXE_mpiexec");
    let file = empty_folder("terminal").join("debugger");
    fs::write(&file, format!("{show}\n")).unwrap();
    let inner = format!(
        "MICA_DEBUGGER='sh {}' {launcher} -n 2 --debug 1 true; {show} again",
        file.display()
    );
    let output = Command::new("script")
        .args(["-qec", &inner, "/dev/null"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let lines = sorted_lines(text(&output.stdout).replace('\r', "").as_bytes());
    assert_eq!(lines, ["foreground", "foreground again"]);
}

#[test]
fn the_time_limit_of_the_environment_counts() {
    let mut command = mpiexec(&["sleep", "1000"]);
    let output = command.env("MPIEXEC_TIMEOUT", "1").output().unwrap();
    assert_eq!(output.status.code(), Some(124));
    let mut command = mpiexec(&["--timeout", "0.2", "sleep", "1000"]);
    let output = command.env("MPIEXEC_TIMEOUT", "100000").output().unwrap();
    assert_eq!(output.status.code(), Some(124));
    let mut command = mpiexec(&["true"]);
    let output = command.env("MPIEXEC_TIMEOUT", "soon").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("MPIEXEC_TIMEOUT: \"soon\""));
}

#[test]
fn hosts_and_ports_of_the_environment_count() {
    let file = empty_folder("hydra-hosts").join("hosts");
    fs::write(&file, "localhost:3\n").unwrap();
    let mut command = mpiexec(&["sh", "-c", "echo $MICA_SIZE"]);
    let output = command.env("HYDRA_HOST_FILE", &file).output().unwrap();
    assert_eq!(sorted_lines(&output.stdout), ["3", "3", "3"]);

    // Ports that cannot be had are an error that says so; a range that can is used for
    // connections, and announced to ranks.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let arguments = ["-n", "2", "sh", "-c", "echo $FI_TCP_PORT_LOW_RANGE-$FI_TCP_PORT_HIGH_RANGE"];
    let with = |range: String| {
        let mut command = mpiexec(&arguments);
        command.env("MICA_VIRTUAL_NODES", "2").env("MPIEXEC_PORT_RANGE", range);
        command.env_remove("FI_TCP_PORT_LOW_RANGE").env_remove("FI_TCP_PORT_HIGH_RANGE");
        command.output().unwrap()
    };
    let output = with(format!("{port}:{port}"));
    assert_eq!(output.status.code(), Some(1));
    let error = text(&output.stderr);
    assert!(error.contains(&format!("no port from {port} to {port}")), "{error}");
    let output = with("20000:29999".to_owned());
    assert_eq!(sorted_lines(&output.stdout), ["20000-29999"; 2], "{}", text(&output.stderr));
}

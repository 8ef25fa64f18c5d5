//! `mica top`: it shows who waits for whom in which call and exact counts, as JSON and in a
//! terminal; it reads no other user's job; and it leaves nothing behind, whatever connects.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use mica_tests::Launcher;
use mica_tests::{Cores, Install, Job, Running, TWO_NODES, core_count};
use rustix::process::Signal;
use serde_json::Value;

/// How long something may take to come about.
const LIMIT: Duration = Duration::from_secs(60);
/// The user `nobody`.
const STRANGER: &str = "65534";

/// A job of `tools/top`, whose ranks have come to where they stay.
fn job(install: &Install, env: &[(&str, &str)]) -> Running {
    let program = install.program("tools/top");
    let job = install.mpiexec(["-n", "3", &program.to_string_lossy()]);
    let job = env.iter().fold(job, |job, (name, value)| job.env(name, value));
    let mut job = job.start();
    job.wait_for("ready");
    job
}

fn end(job: Running) {
    job.signal(Signal::TERM);
    let outcome = job.finish();
    assert!(!outcome.hung(), "{}", outcome.stderr);
    assert_eq!(outcome.survivors, [] as [&str; 0]);
}

fn mica(install: &Install, arguments: &[&str]) -> Output {
    let output = Command::new(install.bin("mica"))
        .args(["top", "--interval", "0.1"])
        .args(arguments)
        .output();
    output.expect("mica runs")
}

/// What `mica top --once --json` prints of a job.
fn state(install: &Install, job: &Running) -> Value {
    let output = mica(install, &["--once", "--json", &job.pid().to_string()]);
    let text = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The state of a job once these ranks wait in these calls.
fn state_with(install: &Install, job: &Running, calls: &[(usize, &str)]) -> Value {
    let until = Instant::now() + LIMIT;
    loop {
        let state = state(install, job);
        let ranks = &state["ranks"];
        if calls.iter().all(|&(rank, call)| ranks[rank]["wait"]["call"] == call) {
            return state;
        }
        assert!(Instant::now() < until, "{calls:?} in {state:#}");
    }
}

/// The names of the sockets of this mpiexec for tools.
fn sockets(mpiexec: i32) -> Vec<String> {
    let listing = fs::read_to_string("/proc/net/unix").expect("/proc/net/unix");
    let names = listing.lines().filter_map(|line| line.split('@').nth(1));
    let of_job = names.filter(|name| {
        name.starts_with("mica-top-") && name.split('-').nth(3) == Some(&mpiexec.to_string())
    });
    of_job.map(str::to_owned).collect()
}

#[test]
fn ranks_are_shown_with_calls_peers_and_exact_counts() {
    let install = Install::find();
    if !install.is_mica() {
        println!("skipped: mica top is Mica's");
        return;
    }
    // The second time, ranks spin for ever where they wait.
    let spinning = [("MICA_SPIN", "1000000000"), ("MICA_SPIN_SHARED", "1000000000")];
    for env in [&[][..], &spinning] {
        let job = job(&install, env);
        let state = state_with(&install, &job, &[(1, "MPI_Recv"), (2, "MPI_Barrier")]);
        let ranks = &state["ranks"];
        let wait = &ranks[1]["wait"];
        assert_eq!((&wait["peer"], &wait["tag"]), (&0.into(), &7.into()), "{wait}");
        assert!(wait["seconds"].as_f64() > Some(0.0), "{wait}");
        let states = [0, 1, 2].map(|rank| ranks[rank]["state"].as_str().unwrap());
        assert_eq!(states, ["computes", "waits", "waits"]);
        // Exactly what the program sends, by channel and by level.
        for (rank, messages) in [(0, 0), (1, 1000), (2, 5)] {
            let shm = &ranks[rank]["channels"]["shm"];
            let sent = (shm["messages"].as_u64(), shm["bytes"].as_u64());
            assert_eq!(sent, (Some(messages), Some(8 * messages)), "rank {rank}");
            let counters = &ranks[rank]["counters"];
            let of = |level| counters[format!("level_{level}_messages")][0].as_u64().unwrap();
            let levels = ["shared_cache", "package", "node", "network"];
            assert_eq!(levels.into_iter().map(of).sum::<u64>(), messages, "rank {rank}");
        }
        assert_eq!(ranks[0]["unexpected"], 4);
        let resident = ranks[0]["resident_bytes"].as_u64().unwrap();
        assert!(resident > 1 << 20);
        assert_eq!((&state["job"]["size"], &state["job"]["ranks_here"]), (&3.into(), &3.into()));
        // Nothing happens any more: rates are zero, and a second look finds the same counts.
        let again = state_with(&install, &job, &[(1, "MPI_Recv")]);
        assert_eq!(again["ranks"][1]["channels"]["shm"]["messages"], 1000);
        assert_eq!(again["ranks"][1]["messages_per_second"], 0.0);
        end(job);
    }
}

/// A terminal of 170 x 20 characters that runs a command, under tmux.
struct Pane(String);

impl Pane {
    fn tmux(&self, arguments: &[&str]) -> String {
        let output = Command::new("tmux")
            .args(["-L", &self.0, "-f", "/dev/null"])
            .args(arguments)
            .output()
            .expect("tmux runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Starts the shell's command; the pane stays after its end.
    fn start(command: &str) -> Pane {
        static PANES: AtomicU32 = AtomicU32::new(0);
        let number = PANES.fetch_add(1, Ordering::Relaxed);
        let pane = Pane(format!("mica-top-{}-{number}", std::process::id()));
        let stays = format!("{command}; echo status $?; exec sleep 1000");
        pane.tmux(&["new-session", "-d", "-x", "170", "-y", "20", &stays]);
        pane
    }

    /// What is on the screen, once `is_wanted`.
    fn wait_for(&self, what: &str, is_wanted: impl Fn(&str) -> bool) -> String {
        let until = Instant::now() + LIMIT;
        loop {
            let screen = self.tmux(&["capture-pane", "-p"]);
            if is_wanted(&screen) {
                return screen;
            }
            assert!(Instant::now() < until, "no {what} on the screen:\n{screen}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Asserts that the ordinary screen is back, with its cursor.
    fn expect_ordinary_screen(&self) {
        let flags = self.tmux(&["display", "-p", "#{alternate_on}#{cursor_flag}"]);
        assert_eq!(flags.trim(), "01");
    }
}

/// Whether `mica top` can be tried in a terminal; says why not.
fn has_terminal(install: &Install) -> bool {
    let can = install.is_mica() && Command::new("tmux").arg("-V").output().is_ok();
    if !can {
        println!("skipped: mica top is Mica's, and needs tmux here");
    }
    can
}

impl Drop for Pane {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

/// The words of the line whose first word is this one, and of which there are more than `than`.
fn words(screen: &str, first: &str, than: usize) -> Vec<String> {
    let lines = screen.lines().map(|line| line.split_whitespace().map(str::to_owned));
    let mut lines = lines.map(Iterator::collect::<Vec<String>>);
    let found = lines.find(|line| line.len() > than && line[0] == first);
    found.unwrap_or_default()
}

/// The words of a rank's row; the lines of rates have fewer.
fn row(screen: &str, rank: &str) -> Vec<String> {
    words(screen, rank, 5)
}

#[test]
fn a_terminal_shows_the_ranks_until_the_job_ends() {
    let install = Install::find();
    if !install.is_mica() {
        println!("skipped: mica top is Mica's");
        return;
    }
    if Command::new("tmux").arg("-V").output().is_err() {
        println!("skipped: tmux is not installed (scripts/setup.sh installs it)");
        return;
    }
    let job = job(&install, &[]);
    let mica = install.bin("mica");
    let command = format!("{} top --interval 0.1 {}", mica.display(), job.pid());
    let pane = Pane::start(&command);
    let screen = pane.wait_for("MPI_Recv", |screen| screen.contains("MPI_Recv"));
    assert!(screen.starts_with(&format!("job {}", job.pid())), "{screen}");
    let waits = row(&screen, "1");
    assert_eq!(&waits[2..6], ["waits", "MPI_Recv", "0", "7"], "{screen}");
    assert_eq!(row(&screen, "0")[2], "computes", "{screen}");
    // Only those that wait; a smaller terminal; all again.
    pane.tmux(&["send-keys", "w"]);
    pane.wait_for("fewer rows", |screen| row(screen, "0").is_empty());
    pane.tmux(&["resize-window", "-x", "100", "-y", "12"]);
    pane.tmux(&["send-keys", "w"]);
    pane.wait_for("all rows", |screen| {
        !row(screen, "0").is_empty() && screen.trim_end().lines().count() <= 12
    });
    end(job);
    // Its end is said on the ordinary screen, where the cursor is shown again.
    pane.wait_for("end", |screen| {
        screen.contains("has ended") && screen.contains("status 0") && !screen.contains("STATE")
    });
    pane.expect_ordinary_screen();
}

/// Becomes this user, listens under names of the form of a job's, takes connections and says
/// nothing.
const SILENT: &str = "import os, socket, sys, time
os.setgroups([])
os.setuid(int(sys.argv[1]))
kept = []
for number in range(30):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.bind('\\0mica-top-%d-%d-%032x' % (os.getuid(), os.getpid(), number))
    s.listen(100)
    kept.append(s)
print('ready', flush=True)
time.sleep(1000)";

/// Root asks the sockets of all users, which may be silent: one deadline holds for all of them.
#[test]
fn silent_sockets_of_others_delay_root_once() {
    let become_stranger = "import os, sys; os.setgroups([]); os.setuid(int(sys.argv[1]))";
    let works = Command::new("python3").args(["-c", become_stranger, STRANGER]).output();
    if !works.is_ok_and(|output| output.status.success()) {
        println!("skipped: needs root");
        return;
    }
    let install = Install::find();
    let job = job(&install, &[]);
    let mut silent = Job::new("python3").args(["-c", SILENT, STRANGER]).start();
    silent.wait_for("ready");
    let start = Instant::now();
    let output = mica(&install, &["--list"]);
    // Thirty times the deadline of one would be minutes.
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    let listed = String::from_utf8_lossy(&output.stdout);
    assert!(listed.contains(&job.pid().to_string()), "{listed}");
    end(job);
    end(silent);
}

#[test]
fn a_signal_gives_the_terminal_back() {
    let install = Install::find();
    if !has_terminal(&install) {
        return;
    }
    let job = job(&install, &[]);
    let mica = install.bin("mica");
    // The shell's child tells its process id before it becomes `mica`, at a key: the table then
    // hides what was on the screen.
    let command =
        format!("sh -c 'echo pid $$; read key; exec {} top {}'", mica.display(), job.pid());
    let pane = Pane::start(&command);
    let screen = pane.wait_for("pid", |screen| !words(screen, "pid", 1).is_empty());
    let pid = words(&screen, "pid", 1)[1].parse().expect("a process id");
    pane.tmux(&["send-keys", "Enter"]);
    pane.wait_for("table", |screen| screen.contains("STATE"));
    let pid = rustix::process::Pid::from_raw(pid).expect("positive");
    rustix::process::kill_process(pid, Signal::TERM).expect("it runs");
    pane.wait_for("status", |screen| screen.contains("status 143"));
    pane.expect_ordinary_screen();
    end(job);
}

#[test]
fn it_ends_with_its_terminal() {
    let install = Install::find();
    if !has_terminal(&install) {
        return;
    }
    let job = job(&install, &[]);
    let command = format!("{} top {}", install.bin("mica").display(), job.pid());
    let pane = Pane::start(&command);
    pane.wait_for("table", |screen| screen.contains("STATE"));
    drop(pane);
    // Other processes have the program's name in their arguments, not these.
    let wanted = format!("{}\0top\0{}\0", install.bin("mica").display(), job.pid());
    let is_there = || {
        let processes = fs::read_dir("/proc").expect("/proc").flatten();
        let mut lines = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
        lines.any(|line| line == wanted.as_bytes())
    };
    let until = Instant::now() + LIMIT;
    while is_there() {
        assert!(Instant::now() < until, "mica top outlives its terminal");
        thread::sleep(Duration::from_millis(20));
    }
    end(job);
}

/// `program ARGS...` as another user; `None` if this user cannot become another.
fn as_stranger(program: &PathBuf, arguments: &[&str]) -> Option<Output> {
    let user = format!("--reuid={STRANGER}");
    let group = format!("--regid={STRANGER}");
    let become_other = ["--clear-groups", &user, &group, "--"];
    let check = Command::new("setpriv").args(become_other).arg("true").output();
    if !check.is_ok_and(|check| check.status.success()) {
        return None;
    }
    let output = Command::new("setpriv").args(become_other).arg(program).args(arguments).output();
    Some(output.expect("setpriv runs"))
}

/// A copy of a program where every user can run it.
fn for_all(program: PathBuf) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("test-top-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder for temporary files");
    let copy = folder.join(program.file_name().expect("a program's name"));
    fs::copy(&program, &copy).expect("a copy");
    copy
}

#[test]
fn another_user_sees_nothing_and_idle_connections_do_no_harm() {
    let install = Install::find();
    if !install.is_mica() {
        println!("skipped: mica top is Mica's");
        return;
    }
    let job = job(&install, &[]);
    let mpiexec = job.pid();
    let names = sockets(mpiexec);
    assert_eq!(names.len(), 1, "{names:?}");
    let attach = install.program("tools/attach");
    let own = Job::new(&attach).args([&names[0], "1"]).run();
    assert_eq!(own.stdout.trim(), "served", "the user itself");
    let (mica, direct) = (for_all(install.bin("mica")), for_all(attach.clone()));
    match as_stranger(&direct, &[&names[0], "1"]) {
        None => println!("skipped: this user cannot run a command as another (setpriv)"),
        Some(output) => {
            let said = String::from_utf8_lossy(&output.stdout);
            assert_eq!(said.trim(), "refused", "by the socket itself");
            let number = mpiexec.to_string();
            for arguments in
                [&["top", &number, "--once"][..], &["top", "--once"], &["top", "--list"]]
            {
                let output = as_stranger(&mica, arguments).expect("as before");
                let said = String::from_utf8_lossy(&output.stderr);
                let shown = String::from_utf8_lossy(&output.stdout);
                assert!(!shown.contains("tools/top") && !shown.contains(&number), "{shown}");
                match arguments.len() {
                    3 => assert!(said.contains("only that user and root"), "{said}"),
                    _ if arguments[1] == "--once" => assert!(said.contains("no job"), "{said}"),
                    _ => assert!(output.status.success(), "{said}"),
                }
            }
        }
    }
    fs::remove_dir_all(mica.parent().expect("a folder")).expect("removed");
    // Idle connections, many at once: the job is shown, and ends as it always does.
    let mut idle = Job::new(&attach).args([&names[0], "64"]).start();
    idle.wait_for("connected");
    assert_eq!(state(&install, &job)["job"]["size"], 3);
    end(job);
    assert_eq!(sockets(mpiexec), [] as [&str; 0], "left behind");
    let output = self::mica(&install, &["--once", &mpiexec.to_string()]);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("its job has ended"));
    drop(idle);
}

#[test]
fn parts_of_a_job_on_one_machine_are_shown_together() {
    let install = Install::find();
    if !install.is_mica() {
        println!("skipped: mica top is Mica's");
        return;
    }
    let job = job(&install, &TWO_NODES);
    let state = state_with(&install, &job, &[(1, "MPI_Recv")]);
    let numbers: Vec<_> = state["ranks"].as_array().expect("a list").iter().collect();
    assert_eq!(numbers.len(), 3);
    assert!((0..3).all(|rank| numbers[rank]["rank"] == rank), "{state:#}");
    assert_eq!(state["job"]["nodes"], 2);
    end(job);
}

/// `mica top --once --json PID`, again and again until `is_there` is true of it.
fn state_until(install: &Install, pid: i32, is_there: impl Fn(&Value) -> bool) -> Value {
    let until = Instant::now() + LIMIT;
    loop {
        let output = mica(install, &["--once", "--json", &pid.to_string()]);
        let state = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
        if is_there(&state) {
            return state;
        }
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(Instant::now() < until, "{state:#}\n{said}");
    }
}

#[test]
fn ranks_that_poll_are_told_from_those_that_compute() {
    let install = Install::find();
    if !install.is_mica() {
        println!("skipped: mica top is Mica's");
        return;
    }
    let program = install.program("tools/top_poll");
    let mut job = install.mpiexec(["-n", "3", &program.to_string_lossy()]).start();
    job.wait_for("ready");
    let state = state_until(&install, job.pid(), |state| {
        let call = |rank: usize| &state["ranks"][rank]["wait"]["call"];
        call(0) == "MPI_Test" && call(1) == "MPI_Iprobe" && state["ranks"][2]["state"] == "computes"
    });
    let ranks = &state["ranks"];
    for (rank, peer, tag) in [(0, Value::from(1), 7), (1, Value::from("any"), 5)] {
        assert_eq!(ranks[rank]["state"], "polls", "{state:#}");
        let wait = &ranks[rank]["wait"];
        assert_eq!((&wait["peer"], &wait["tag"]), (&peer, &tag.into()), "{wait}");
    }
    assert_eq!(ranks[2]["wait"], Value::Null);
    end(job);
}

/// Their waits are short, and pass while they yield their cores to one another.
#[test]
fn ranks_that_share_cores_and_wait_are_told_from_those_that_compute() {
    let install = Install::find();
    if !install.is_mica() {
        println!("skipped: mica top is Mica's");
        return;
    }
    let _cores = Cores::take(core_count());
    let program = install.program("tools/top_crowded");
    let ranks = 6 * core_count();
    let job = install.mpiexec(["-n", &ranks.to_string(), &program.to_string_lossy()]);
    let mut job = job.start();
    job.wait_for("ready");
    state_until(&install, job.pid(), |state| {
        let waits = |rank: usize| state["ranks"][rank]["state"] == "waits";
        (1..ranks).all(waits) && state["ranks"][0]["state"] == "computes"
    });
    end(job);
}

/// The tests before are those of a job that mpiexec hands out; this one's launcher knows nothing of
/// Mica, and the last has none.
#[test]
fn jobs_of_other_launchers_are_watched_by_their_user_alone() {
    let install = Install::find();
    if !install.is_mica() {
        println!("skipped: mica top is Mica's");
        return;
    }
    let (launcher, options) = Launcher::Mpich.find();
    let program = install.program("tools/top");
    let mut job = Job::new(launcher).args(options).args(["-n", "3"]).args([&program]).start();
    job.wait_for("ready");
    let state = state_until(&install, job.pid(), |state| {
        state["ranks"][1]["wait"]["call"] == "MPI_Recv"
            && state["ranks"][2]["wait"]["call"] == "MPI_Barrier"
    });
    assert_eq!(state["ranks"][1]["channels"]["shm"]["messages"], 1000);
    assert_eq!(state["ranks"][0]["state"], "computes");
    assert_eq!(state["job"]["size"], 3);
    let rank = state["ranks"][2]["pid"].as_i64().expect("a process");
    let by_rank = state_until(&install, rank as i32, |state| state.is_object());
    assert_eq!(by_rank["job"]["pid"], state["job"]["pid"]);
    let copy = for_all(install.bin("mica"));
    let number = rank.to_string();
    if let Some(output) = as_stranger(&copy, &["top", &number, "--once"]) {
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("has no ranks in Mica"), "{said}");
        let listed = as_stranger(&copy, &["top", "--list"]).expect("as before");
        let listed = String::from_utf8_lossy(&listed.stdout);
        assert!(!listed.contains("tools/top"), "{listed}");
    }
    fs::remove_dir_all(copy.parent().expect("a folder")).expect("removed");
    end(job);

    let mut alone = Job::new(install.program("tools/top_poll")).start();
    alone.wait_for("ready");
    let state = state_until(&install, alone.pid(), |state| state["ranks"][0]["state"].is_string());
    assert_eq!((&state["job"]["size"], &state["job"]["pid"]), (&1.into(), &alone.pid().into()));
    end(alone);
}

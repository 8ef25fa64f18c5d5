//! What `mpiexec` does for `MPI_Comm_spawn`. The ranks are this program again, started with a role:
//! they write to the job segment and talk to the launcher as the library does, so these tests do
//! not need the library.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Output, Stdio};
use std::time::{Duration, Instant};

use mica_bootstrap::spawned::{SpawnAnswer, SpawnedLauncher};
use mica_node::segment::{JobSegment, JobSpec, ParentPort, RankState, World};
use mica_node::topology::CorePlace;

const MPIEXEC: &str = env!("CARGO_BIN_EXE_mpiexec");
/// Time for anything to happen.
const PATIENCE: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["parent", role, folder] => parent(role, Path::new(folder)),
        ["child", role, folder] => child(role, Path::new(folder)),
        // As a test runner asks for the list of tests (libtest's terse format): they are one to it.
        [..] if words.iter().any(|word| word == "--list") => {
            if !words.iter().any(|word| word == "--ignored") {
                println!("spawned: test");
            }
            ExitCode::SUCCESS
        }
        _ => {
            tests();
            ExitCode::SUCCESS
        }
    }
}

/// A rank that `mpiexec` has started.
struct Rank {
    segment: JobSegment,
    number: u32,
}

impl Rank {
    fn init() -> Rank {
        let variable = |name: &str| -> u32 { std::env::var(name).unwrap().parse().unwrap() };
        // A second descriptor of the memfd: what a safe program can get from a number.
        let path = format!("/proc/self/fd/{}", variable("MICA_SEGMENT_FD"));
        let file = File::options().read(true).write(true).open(path).unwrap();
        let segment = JobSegment::attach(OwnedFd::from(file)).unwrap();
        let number = variable("MICA_RANK");
        segment.claim(number).unwrap();
        Rank { segment, number }
    }

    /// A rank of a job that no launcher has started, with room for eight more.
    fn alone() -> Rank {
        let places = [CorePlace::UNKNOWN];
        let spec = JobSpec { spare: 8, ..JobSpec::on_one_node(&places, 2, &[]) };
        let segment = JobSegment::create(&spec).unwrap();
        segment.claim(0).unwrap();
        Rank { segment, number: 0 }
    }

    fn world(&self) -> World {
        self.segment.world_of(self.number).unwrap()
    }

    fn spawn(&self, line: &[&str]) -> SpawnedLauncher {
        let words: Vec<_> = line.iter().map(Into::into).collect();
        let port = ParentPort { rank: self.number, tag: 5 };
        SpawnedLauncher::start(Path::new(MPIEXEC), &words, self.segment.as_fd(), port).unwrap()
    }

    /// Spawns ranks of this program and waits until all have come.
    fn spawn_ranks(&self, count: u32, role: &str, folder: &Path) -> World {
        let own = std::env::current_exe().unwrap();
        let (own, folder) = (own.to_str().unwrap(), folder.to_str().unwrap());
        let launcher = self.spawn(&["-n", &count.to_string(), own, "child", role, folder]);
        let SpawnAnswer::Started { first, count: started } = answer(&launcher) else {
            panic!("not started")
        };
        assert_eq!(started, count);
        let has_come = |rank| !matches!(self.segment.rank_state(rank), RankState::Absent);
        wait_until(|| (first..first + count).all(has_come));
        self.segment.world_of(first).unwrap()
    }

    fn connect(&self, world: u32) {
        self.segment.set_connected(self.number, 1 << world);
    }
}

fn answer(launcher: &SpawnedLauncher) -> SpawnAnswer {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        if let Some(answer) = launcher.try_answer().expect("the launcher is there") {
            return answer;
        }
        // As the library looks, between polls of its rings.
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("no answer")
}

fn failed(answer: SpawnAnswer) -> (Option<u32>, String) {
    match answer {
        SpawnAnswer::Failed { section, why } => (section, why),
        SpawnAnswer::Started { .. } => panic!("{answer:?}"),
    }
}

fn wait_until(condition: impl Fn() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < PATIENCE, "it does not happen");
        // Of states of other processes, which no descriptor reports.
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What a process does that is to be ended by others. One that is not fails its test.
fn sleep() -> ! {
    std::thread::sleep(PATIENCE);
    std::process::exit(3)
}

/// The whole life of a rank that spawns.
fn parent(role: &str, folder: &Path) -> ExitCode {
    match role {
        "answers" => answers(folder),
        // It ends before what it has spawned, with which it is not connected.
        "first to go" => {
            let rank = Rank::init();
            rank.spawn_ranks(2, "on command", folder);
            rank.segment.block(rank.number).finalize();
            println!("the parent has ended");
        }
        "bystander" => {
            let rank = Rank::init();
            rank.spawn_ranks(1, "abort", folder);
            fs::write(folder.join("abort"), "").unwrap();
            wait_until(|| rank.segment.worlds().count() == 1);
            rank.segment.block(rank.number).finalize();
        }
        "connected" => {
            let rank = Rank::init();
            let world = rank.spawn_ranks(2, "abort", folder);
            rank.connect(world.index);
            fs::write(folder.join("abort"), "").unwrap();
            sleep();
        }
        "launcher killed" => {
            let rank = Rank::init();
            let world = rank.spawn_ranks(2, "stay", folder);
            rank.connect(world.index);
            kill("-KILL", &world.launcher.to_string());
            sleep();
        }
        // It is not connected with what it has spawned.
        "fail" => {
            let rank = Rank::init();
            rank.spawn_ranks(2, "stay", folder);
            return ExitCode::from(7);
        }
        // Both wait for the end of the world above them.
        "stay" => {
            let rank = Rank::init();
            rank.spawn_ranks(2, "grandparent", folder);
            println!("ready");
            sleep();
        }
        "die" => {
            let rank = Rank::init();
            let world = rank.spawn_ranks(2, "stay", folder);
            rank.connect(world.index);
            println!("ready");
            wait_until(|| folder.join("die").exists());
            return ExitCode::from(7);
        }
        _ => unreachable!("{role}"),
    }
    ExitCode::SUCCESS
}

/// The whole life of a rank that was spawned.
fn child(role: &str, folder: &Path) -> ExitCode {
    let rank = Rank::init();
    let world = rank.world();
    let local: u32 = std::env::var("PMI_RANK").unwrap().parse().unwrap();
    assert_eq!(rank.number, world.first + local);
    assert_eq!(std::env::var("MICA_SIZE").unwrap(), world.count.to_string());
    assert_eq!(world.parent.unwrap().tag, 5);
    fs::write(folder.join(format!("pid.{}", rank.number)), std::process::id().to_string()).unwrap();
    match (role, local) {
        ("on command", _) => {
            wait_until(|| folder.join("go").exists());
            println!("spawned rank {local}");
            rank.segment.block(rank.number).finalize();
        }
        ("abort", 0) => {
            wait_until(|| folder.join("abort").exists());
            rank.segment.block(rank.number).abort(42);
            return ExitCode::from(9);
        }
        ("grandparent", 0) => {
            rank.spawn_ranks(1, "stay", folder);
            sleep();
        }
        ("stay" | "grandparent" | "abort", _) => sleep(), // until others end it
        _ => unreachable!("{role}"),
    }
    ExitCode::SUCCESS
}

/// A rank without a launcher asks for what cannot be started, and for programs without MPI.
fn answers(folder: &Path) {
    let rank = Rank::alone();
    let (section, why) = failed(answer(&rank.spawn(&["true", ":", "-n", "2", "/no/such/program"])));
    assert_eq!(section, Some(1), "{why}");
    assert!(why.contains("/no/such/program") && why.contains("No such file"), "{why}");
    assert_eq!(rank.segment.worlds().count(), 1, "nothing is left of it");
    let file = folder.join("no program");
    fs::write(&file, "").unwrap();
    let (section, why) = failed(answer(&rank.spawn(&["-n", "1", file.to_str().unwrap()])));
    assert!(section == Some(0) && why.contains("ermission"), "{why}");
    let (section, why) = failed(answer(&rank.spawn(&["-wdir", "/no/such", "true"])));
    assert!(section == Some(0) && why.contains("/no/such"), "{why}");
    let (_, why) = failed(answer(&rank.spawn(&["-host", "far.away", "true"])));
    assert!(why.contains("far.away is another node"), "{why}");
    let (section, why) = failed(answer(&rank.spawn(&["-n", "9", "true"])));
    assert!(section.is_none() && why.contains("MICA_SPARE_RANKS"), "{why}");

    // The program has this open, and its children inherit it.
    let open = File::create(folder.join("open")).unwrap();
    rustix::io::fcntl_setfd(&open, rustix::io::FdFlags::empty()).unwrap();
    // Each waits for the other, since the first end is the end of both.
    let script = format!(
        "cd {}; (env; ls -l /proc/self/fd) > $PMI_RANK.part; mv $PMI_RANK.part $PMI_RANK; \
         until test -e 0 && test -e 1; do sleep 0.01; done",
        folder.display()
    );
    let launcher = rank.spawn(&["-n", "2", "-env", "OWN", "1", "sh", "-c", &script]);
    assert_eq!(answer(&launcher), SpawnAnswer::Started { first: 1, count: 2 });
    let (section, why) = failed(answer(&launcher));
    assert!(section == Some(0) && why.contains("before it had called MPI_Init"), "{why}");
    assert_eq!(rank.segment.worlds().count(), 1);
    assert!(rank.segment.world_of(1).is_none(), "its numbers are free");
}

fn tests() {
    let tests: [(&str, fn()); 9] = [
        ("what_cannot_be_started_is_answered", what_cannot_be_started_is_answered),
        ("the_job_waits_for_what_it_has_spawned", the_job_waits_for_what_it_has_spawned),
        ("a_loss_does_not_matter_to_others", a_loss_does_not_matter_to_others),
        ("connected_worlds_end_together", connected_worlds_end_together),
        ("a_killed_launcher_is_a_loss", a_killed_launcher_is_a_loss),
        ("a_signal_ends_all_worlds", a_signal_ends_all_worlds),
        ("what_is_spawned_dies_with_a_killed_launcher", what_is_spawned_dies_with_mpiexec),
        ("a_failure_spares_others_and_a_signal_does_not", a_failure_spares_others),
        ("a_rank_that_fails_ends_what_it_is_connected_with", a_failing_parent),
    ];
    for (name, test) in tests {
        test();
        println!("test {name} ... ok");
    }
}

/// A folder of this name that is empty at the beginning.
fn empty_folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("spawned-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// A job of one rank with this role.
fn job(role: &str, folder: &Path) -> Command {
    let mut command = Command::new(MPIEXEC);
    command.args(["-n", "1"]).arg(std::env::current_exe().unwrap());
    command.args(["parent", role]).arg(folder).stdin(Stdio::null());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn kill(signal: &str, pid: &str) {
    assert!(Command::new("kill").args([signal, pid]).status().unwrap().success());
}

/// The processes that were spawned.
fn spawned(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let pids = files.filter(|path| path.file_stem().unwrap() == "pid");
    pids.map(|path| fs::read_to_string(path).unwrap()).collect()
}

fn is_gone(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.is_empty() || stat.contains(") Z ")
}

/// No process is there that was spawned.
fn assert_none_left(folder: &Path) {
    assert!(spawned(folder).iter().all(|pid| is_gone(pid)));
}

/// Starts the job and waits until it says that it is ready.
fn ready(mut command: Command) -> Child {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let out = child.stdout.as_mut().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).unwrap();
    assert_eq!(line, "ready\n");
    child
}

fn what_cannot_be_started_is_answered() {
    let folder = empty_folder("answers");
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["parent", "answers"])
        .arg(&folder)
        .envs([("HYDI_CONTROL_FD", "9"), ("PMI_PORT", "x"), ("SLURM_PROCID", "3")])
        .envs([("MICA_SEGMENT_SOCKET", "x"), ("KEPT", "1"), ("MICA_VIRTUAL_NODES", "2")])
        .output()
        .unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));
    for rank in 0..2 {
        let variables = fs::read_to_string(folder.join(rank.to_string())).unwrap();
        let has = |line: &str| variables.lines().any(|known| known == line);
        for line in [
            &format!("MICA_RANK={}", rank + 1),
            &format!("MPI_LOCALRANKID={rank}"),
            "MICA_SIZE=2",
            "PMI_SIZE=2",
            "MPI_LOCALNRANKS=2",
            "OWN=1",
            "KEPT=1",
        ] {
            assert!(has(line), "{line}: {variables}");
        }
        for foreign in
            ["HYDI_", "PMI_PORT", "SLURM_", "MICA_SEGMENT_SOCKET=x", "MICA_VIRTUAL", "/open"]
        {
            assert!(!variables.contains(foreign), "{foreign}: {variables}");
        }
    }
}

fn the_job_waits_for_what_it_has_spawned() {
    let folder = empty_folder("first");
    let mut command = job("first to go", &folder);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until(|| spawned(&folder).len() == 2);
    // Time for the launcher to do something wrong.
    std::thread::sleep(Duration::from_millis(700));
    fs::write(folder.join("go"), "").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "");
    let mut lines: Vec<String> = text(&output.stdout).lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["spawned rank 0", "spawned rank 1", "the parent has ended"]);
    assert_none_left(&folder);
}

fn a_loss_does_not_matter_to_others() {
    let folder = empty_folder("bystander");
    let output = job("bystander", &folder).output().unwrap();
    let report = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{report}");
    assert!(report.starts_with("mpiexec: rank 0 of spawned job 1 (pid "), "{report}");
    assert!(report.contains("called MPI_Abort with code 42"), "{report}");
}

fn report_of_loss(output: &Output, folder: &Path) -> String {
    assert_none_left(folder);
    let report = text(&output.stderr);
    assert!(report.contains("which the job is connected with"), "{report}");
    report
}

fn connected_worlds_end_together() {
    let folder = empty_folder("connected");
    let output = job("connected", &folder).output().unwrap();
    let report = report_of_loss(&output, &folder);
    assert_eq!(output.status.code(), Some(42), "{report}");
    let lines = report.lines().filter(|line| line.contains("code 42")).count();
    assert_eq!(lines, 2, "{report}");
}

fn a_killed_launcher_is_a_loss() {
    let folder = empty_folder("launcher");
    let output = job("launcher killed", &folder).output().unwrap();
    let report = report_of_loss(&output, &folder);
    assert_eq!(output.status.code(), Some(1), "{report}");
    assert!(report.contains("was lost"), "{report}");
}

fn a_signal_ends_all_worlds() {
    let folder = empty_folder("signal");
    let child = ready(job("stay", &folder));
    wait_until(|| spawned(&folder).len() == 3);
    kill("-TERM", &child.id().to_string());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(128 + 15));
    assert_none_left(&folder);
    let report = text(&output.stderr);
    assert!(report.contains("ending the job."), "{report}");
    assert!(!report.contains("left running"), "{report}");
}

fn what_is_spawned_dies_with_mpiexec() {
    let folder = empty_folder("killed");
    let child = ready(job("stay", &folder));
    wait_until(|| spawned(&folder).len() == 3);
    kill("-KILL", &child.id().to_string());
    child.wait_with_output().unwrap();
    // A process that is killed closes its output before it is gone.
    wait_until(|| spawned(&folder).iter().all(|pid| is_gone(pid)));
}

fn a_failure_spares_others() {
    let folder = empty_folder("fail");
    let mut child = job("fail", &folder).stderr(Stdio::piped()).spawn().unwrap();
    wait_until(|| spawned(&folder).len() == 2);
    // Longer than the intervals and the grace.
    std::thread::sleep(Duration::from_millis(800));
    assert!(child.try_wait().unwrap().is_none(), "it waits for the spawned job");
    assert!(spawned(&folder).iter().all(|pid| Path::new(&format!("/proc/{pid}")).exists()));
    kill("-TERM", &child.id().to_string());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
    assert_none_left(&folder);
}

fn a_failing_parent() {
    let folder = empty_folder("die");
    let child = ready(job("die", &folder));
    fs::write(folder.join("die"), "").unwrap();
    let output = child.wait_with_output().unwrap();
    let report = text(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{report}");
    assert!(report.contains("which spawned job 1 is connected with, was lost"), "{report}");
    assert_none_left(&folder);
}

//! Processes that ranks spawn, by jobs that end in other ways than well: connected worlds share a
//! fate, others do not, and nothing is left. Where nothing can be spawned, and by whom, and what
//! many spawns leave in the process that spawns. The family `dyn` of `tests/c` has the calls.
//!
//! `tests/c/tools/dynamic.c` is the program of all of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use mica_node::process_stat::ProcessStat;
use mica_tests::{
    Cores, Install, Job, Launcher, Machine, Outcome, Running, TWO_NODES, processes_with_mark,
    target,
};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;

use crate::faults::Traces;

/// `mpiexec -n PARENTS dynamic VERB CHILDREN WORDS...`.
fn dynamic(parents: u32, verb: &str, children: u32, words: &[&str]) -> Job {
    let install = Install::find();
    let job = install.mpiexec(["-n", &parents.to_string()]);
    let job = job.args([install.program("tools/dynamic")]);
    job.args([verb, &children.to_string()]).args(words)
}

fn pid(id: i32) -> Pid {
    Pid::from_raw(id).expect("positive")
}

fn kill(id: i32) {
    kill_process(pid(id), Signal::KILL).expect("the victim lives");
}

fn lives(id: i32) -> bool {
    test_kill_process(pid(id)).is_ok()
}

/// The processes of a job, by what the program calls them (`child 1`), once `count` of them have
/// printed their number, and rank 0 "ready".
fn processes(job: &mut Running, count: usize) -> BTreeMap<String, i32> {
    for _ in 0..2000 {
        let text = job.wait_for("ready\n");
        let lines = text.lines().filter_map(|line| line.split_once(" pid "));
        let found: BTreeMap<_, _> = lines
            .filter_map(|(name, id)| Some((name.to_owned(), id.trim().parse::<i32>().ok()?)))
            .collect();
        if found.len() == count {
            return found;
        }
    }
    panic!("not {count} processes:\n{}", job.wait_for("ready\n"));
}

/// Waits until standard error has `text`.
fn wait_until_said(job: &mut Running, text: &str) {
    while !job.said().contains(text) {}
}

fn parent_of(id: i32) -> i32 {
    ProcessStat::of(id as u32).map_or(0, |stat| stat.parent as i32)
}

/// A file that a program waits for; it is not there yet.
fn signal_file(name: &str) -> PathBuf {
    let file = target().join("tests-c").join(format!("{name}-{}", std::process::id()));
    let _ = fs::remove_file(&file);
    file
}

fn text(file: &Path) -> &str {
    file.to_str().expect("a path of text")
}

#[test]
fn the_loss_of_a_connected_process_ends_all_worlds() {
    let _alone = Cores::alone();
    let before = Traces::now();
    for (verb, victim, status) in [
        ("exchange", "parent 1", 137),
        ("exchange", "parent 0", 137),
        ("exchange", "child 0", 1),
        ("exchange", "child 1", 1),
        // Those that are lost, or that are to end, are not in MPI.
        ("children", "parent 0", 137),
        ("children", "child 1", 1),
    ] {
        let mut job = dynamic(2, verb, 2, &[]).start();
        let all = processes(&mut job, 4);
        kill(all[victim]);
        let out = job.finish().expect_code(status).says("SIGKILL");
        let number = &victim[victim.len() - 1..];
        let name = match victim.starts_with("child") {
            true => format!("rank {number} of spawned job 1"),
            false => format!("rank {number}"),
        };
        assert!(out.stderr.contains(&name), "{verb}, {victim}: {}", out.report());
    }
    assert_eq!(Traces::now().new_since(&before), [""; 0]);
}

/// The first and the last world have no communicator in common.
#[test]
fn a_loss_ends_worlds_that_are_connected_by_others() {
    for victim in ["last 0", "parent 0"] {
        let mut job = dynamic(1, "chain", 1, &[]).start();
        let all = processes(&mut job, 3);
        kill(all[victim]);
        job.finish().expect_failure().says("SIGKILL");
    }
}

/// What `mica top` shows of a job that this process is of.
fn top(process: i32) -> Value {
    let shown = Command::new(Install::find().bin("mica"))
        .args(["top", "--json", "--interval", "0.1", &process.to_string()])
        .output()
        .expect("mica runs");
    assert!(shown.status.success(), "{process}: {}", String::from_utf8_lossy(&shown.stderr));
    serde_json::from_slice(&shown.stdout).expect("JSON")
}

/// `mica top` shows the jobs that belong together, whichever of their processes is named.
#[test]
fn top_shows_spawned_jobs_with_the_one_that_spawned_them() {
    let mut job = dynamic(1, "chain", 1, &[]).start();
    let all = processes(&mut job, 3);
    for process in [job.pid(), all["parent 0"], all["last 0"], parent_of(all["last 0"])] {
        let shown = top(process);
        assert_eq!(shown["job"]["pid"], job.pid(), "{shown:#}");
        let spawned: Vec<_> = [0, 1].map(|at| &shown["spawned_jobs"][at]).into();
        let facts = |at: usize, name: &str| spawned[at][name].as_i64();
        for (at, child) in ["child 0", "last 0"].into_iter().enumerate() {
            assert_eq!(facts(at, "number"), Some(1 + at as i64), "{shown:#}");
            assert_eq!(facts(at, "size"), Some(1), "{shown:#}");
            assert_eq!(facts(at, "pid"), Some(parent_of(all[child]).into()), "{shown:#}");
            assert_eq!(
                (facts(at, "parent"), facts(at, "parent_spawned_job")),
                (Some(0), Some(at as i64))
            );
        }
        let rank = |at: usize| {
            let rank = &shown["ranks"][at];
            ["spawned_job", "rank", "pid"].map(|name| rank[name].as_i64().unwrap())
        };
        let expected = ["parent 0", "child 0", "last 0"].map(|name| i64::from(all[name]));
        assert_eq!([0, 1, 2].map(rank), [0, 1, 2].map(|at| [at as i64, 0, expected[at]]));
    }
    job.signal(Signal::TERM);
    job.finish();
    // A rank that waits for one of another job.
    let mut job = dynamic(1, "children", 2, &[]).start();
    processes(&mut job, 3);
    let mut wait = Value::Null;
    while wait["call"] != "MPI_Recv" {
        wait = top(job.pid())["ranks"][0]["wait"].clone();
    }
    assert_eq!((&wait["peer"], &wait["peer_spawned_job"]), (&0.into(), &1.into()), "{wait}");
    job.signal(Signal::TERM);
    job.finish();
}

/// A world that is lost after it has disconnected; the parents spawn another one, and end well.
#[test]
fn a_loss_after_disconnecting_ends_the_lost_world_alone() {
    let file = signal_file("lost");
    let mut job = dynamic(2, "lost", 2, &[text(&file)]).start();
    let all = processes(&mut job, 4);
    kill(all["child 0"]);
    wait_until_said(&mut job, "SIGKILL");
    while lives(all["child 1"]) {
        job.said();
    }
    fs::write(&file, "").expect("target is writable");
    let out = job.finish().expect_success().says("rank 0 of spawned job 1");
    assert!(out.stdout.contains("3 processes\n"), "{}", out.report());
    fs::remove_file(file).expect("it is there");
}

/// The parents are lost; the user's job waits for a world that is not connected, until the user
/// ends it.
#[test]
fn a_world_that_is_not_connected_outlives_its_parents() {
    let mut job = dynamic(2, "apart", 2, &[]).start();
    let all = processes(&mut job, 4);
    kill(all["parent 1"]);
    wait_until_said(&mut job, "SIGKILL");
    while lives(all["parent 0"]) {
        job.said();
    }
    // Time for the launchers to do something wrong.
    std::thread::sleep(Duration::from_millis(500));
    assert!(lives(all["child 0"]) && lives(all["child 1"]), "{}", job.said());
    job.signal(Signal::TERM);
    job.finish().expect_failure();
}

/// What children print after their parents' end arrives.
#[test]
fn mpiexec_waits_for_children_that_go_on() {
    let file = signal_file("leave");
    let mut job = dynamic(2, "leave", 3, &[text(&file)]).start();
    let all = processes(&mut job, 5);
    while lives(all["parent 0"]) || lives(all["parent 1"]) {
        job.said();
    }
    fs::write(&file, "").expect("target is writable");
    let out = job.finish().expect_success();
    let said = out.sorted().into_iter().filter(|line| line.ends_with("still here"));
    let wanted = [0, 1, 2].map(|rank| format!("child {rank} still here"));
    assert_eq!(said.collect::<Vec<_>>(), wanted, "{}", out.report());
    fs::remove_file(file).expect("it is there");
}

#[test]
fn an_abort_of_a_child_is_the_job_s() {
    for (parents, children) in [(1, 1), (2, 3)] {
        let out = dynamic(parents, "abort", children, &["7"]).run().expect_code(7);
        out.says("rank 0 of spawned job 1");
    }
}

/// Signals to mpiexec, while worlds are connected, after they have disconnected, and while the
/// children are not in MPI_Init yet.
#[test]
fn signals_to_mpiexec_end_all_worlds() {
    let _alone = Cores::alone();
    let before = Traces::now();
    for (verb, count) in [("exchange", 4), ("children", 4), ("apart", 4), ("early", 1)] {
        for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
            let children = if verb == "early" { 1 } else { 2 };
            let mut job = dynamic(2, verb, children, &[]).start();
            let all = processes(&mut job, count);
            assert_ne!(parent_of(all["child 0"]), job.pid(), "it has a launcher of its own");
            job.signal(signal);
            let out = job.finish().expect_failure();
            assert_eq!(out.code(), 128 + signal.as_raw(), "{verb}: {}", out.report());
        }
    }
    assert_eq!(Traces::now().new_since(&before), [""; 0]);
}

/// The launcher of the children is killed: they end with it, and those whom they are connected
/// with.
#[test]
fn the_loss_of_a_launcher_of_children_ends_connected_worlds() {
    for verb in ["exchange", "children"] {
        let mut job = dynamic(2, verb, 2, &[]).start();
        let launcher = parent_of(processes(&mut job, 4)["child 0"]);
        assert_ne!(launcher, job.pid());
        kill(launcher);
        job.finish().expect_failure();
    }
}

/// The rank that spawns is lost while it waits, or what it waits for.
#[test]
fn a_loss_before_the_children_have_come_ends_the_others() {
    let mut job = dynamic(1, "early", 1, &[]).start();
    let child = processes(&mut job, 1)["child 0"];
    kill(child);
    job.finish().expect_failure().says("SIGKILL").says("MPI_Comm_spawn on ");
    let mut job = dynamic(1, "early", 1, &[]).start();
    let child = processes(&mut job, 1)["child 0"];
    let is_parent = |(id, line): &(i32, String)| {
        *id != child && parent_of(*id) == job.pid() && !line.contains("mpiexec")
    };
    let all = processes_with_mark(job.mark());
    let parents: Vec<i32> = all.iter().filter(|it| is_parent(it)).map(|(id, _)| *id).collect();
    let [parent] = parents[..] else { panic!("{parents:?}") };
    kill(parent);
    job.finish().expect_code(137);
}

/// Where nothing can be spawned the call says why, and the job goes on.
#[test]
fn jobs_that_can_spawn_nothing_say_why() {
    let install = Install::find();
    let program = install.program("tools/dynamic");
    let start = |options: &[&str]| install.mpiexec(options).args([&program]).args(["fails", "1"]);
    let nodes =
        TWO_NODES.iter().fold(start(&["-n", "2"]), |job, (name, value)| job.env(name, value));
    let fork = start(&["-n", "2", "--launcher", "fork", "-hosts", "a,b", "-ppn", "1"]);
    let spare = start(&["-n", "2"]).env("MICA_SPARE_RANKS", "0");
    let basic = start(&["-n", "2"]).env("MICA_SHM", "basic");
    let loopback = start(&["-n", "2"]).env("MICA_NET", "loopback");
    for (job, name) in [
        (nodes, "several nodes"),
        (fork, "several nodes"),
        (spare, "MICA_SPARE_RANKS"),
        (basic, "MICA_SHM=basic"),
        (loopback, "MICA_NET=loopback"),
    ] {
        let out = job.run().expect_success();
        let [error, rest] = out.stdout.lines().collect::<Vec<_>>()[..] else {
            panic!("{}", out.report())
        };
        assert!(error.starts_with("MPI_ERR_SPAWN: ") && error.contains(name), "{error}");
        assert_eq!((rest, out.stderr.as_str()), ("2 go on", ""), "{}", out.report());
    }
}

fn expect_processes(out: Outcome, count: u32) {
    let out = out.expect_success();
    assert_eq!(out.stdout, format!("{count} processes\n"), "{}", out.report());
    // A job that waits for a moment is what srun speaks of.
    let mut said = out.stderr.lines().filter(|line| !line.starts_with("srun: job "));
    assert_eq!(said.next(), None, "{}", out.report());
}

/// A program that was started without a launcher spawns others; when it is lost, so are they.
#[test]
fn a_process_without_a_launcher_spawns() {
    let program = Install::find().program("tools/dynamic");
    let start = |verb: &str| Job::new(&program).args([verb, "3"]);
    expect_processes(start("count").run(), 4);
    for victim in ["parent 0", "child 2"] {
        let mut job = start("exchange").start();
        let all = processes(&mut job, 4);
        kill(all[victim]);
        job.finish().expect_failure();
    }
}

/// Ranks that other launchers have started spawn by Mica's mpiexec.
#[test]
fn ranks_of_other_launchers_spawn() {
    let (install, machine) = (Install::find(), Machine::with_slurm());
    let program = install.program("tools/dynamic");
    let mut starts = vec![machine.job("srun").args(["--mpi=pmi2", "-n", "2"])];
    starts.push(machine.job("srun").args(["--mpi=pmix", "-n", "2"]));
    for launcher in [Launcher::Mpich, Launcher::OpenMpi] {
        let (mpiexec, options) = launcher.find();
        starts.push(machine.job(mpiexec).args(options).args(["-n", "2"]));
    }
    for start in starts {
        expect_processes(start.args([&program]).args(["count", "3"]).run(), 5);
    }
}

/// Two hundred times: what the parents hold does not grow. `MICA_SPAWN_ROUNDS` is another number.
#[test]
fn many_spawns_leave_nothing() {
    let rounds = std::env::var("MICA_SPAWN_ROUNDS").unwrap_or_else(|_| "200".to_owned());
    let rounds: u32 = rounds.parse().expect("MICA_SPAWN_ROUNDS is a number");
    for parents in [1, 2] {
        let out = dynamic(parents, "rounds", rounds, &[]).run().expect_success();
        let lines = out.stdout.lines();
        let held: Vec<&str> = lines.filter_map(|line| Some(line.split_once(": ")?.1)).collect();
        let [tenth, last] = held[..] else { panic!("{}", out.report()) };
        let numbers = |held: &str| -> Vec<i64> {
            held.split(' ').filter_map(|word| word.parse().ok()).collect()
        };
        let (tenth, last) = (numbers(tenth), numbers(last));
        let growth: Vec<i64> = last.iter().zip(&tenth).map(|(last, tenth)| last - tenth).collect();
        let [descriptors, mappings, threads, blocks] = growth[..] else { panic!("{last:?}") };
        assert!(tenth[3] > 0 && descriptors == 0, "{}", out.report());
        // A helper thread may start after the tenth, and two parents may get more memory for what
        // is between them: less than one mapping, and a page (8 blocks), in ten rounds.
        let tens = i64::from(rounds) / 10;
        assert!(threads <= 1 && mappings < tens && blocks < 8 * tens, "{}", out.report());
    }
}

/// Some process at some moment, from before the children's start on. `MICA_SPAWN_KILLS=100` kills
/// that many.
#[test]
fn kill_9_at_any_moment() {
    let kills = std::env::var("MICA_SPAWN_KILLS")
        .map_or(6, |kills| kills.parse().expect("MICA_SPAWN_KILLS is a number"));
    let _alone = Cores::alone();
    let before = Traces::now();
    let mut random = 12345_u64;
    let mut below = |limit: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) % limit
    };
    for kill_number in 0..kills {
        let verb = ["exchange", "rounds"][kill_number % 2];
        let job = dynamic(2, verb, if verb == "rounds" { 100_000 } else { 2 }, &[]).start();
        std::thread::sleep(Duration::from_micros(below(150_000)));
        // mpiexec and the launchers of children have tests of their own. A child that is lost as it
        // ends, after it has disconnected, ends no other.
        let is_parent = |id: i32| parent_of(id) == job.pid();
        let is_victim = |(id, line): &(i32, String)| {
            !line.contains("mpiexec")
                && line.contains(verb)
                && (verb == "exchange" || is_parent(*id))
        };
        let victim = loop {
            let mut ranks: Vec<_> = processes_with_mark(job.mark());
            ranks.retain(is_victim);
            let some = below(ranks.len().max(1) as u64) as usize;
            // One that ends by itself just now is no victim.
            if let Some((id, line)) = ranks.get(some)
                && kill_process(pid(*id), Signal::KILL).is_ok()
            {
                break format!("{id} {line}");
            }
        };
        let out = job.finish();
        let ended = out.code() != 0 && !out.hung() && out.survivors.is_empty();
        assert!(ended, "kill {kill_number}, of {victim}: {}", out.report());
    }
    assert_eq!(Traces::now().new_since(&before), [""; 0]);
}

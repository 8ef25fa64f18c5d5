//! Jobs that variables alone describe: RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as torchrun
//! sets them (a script plays it here; `scripts/torchrun.sh` runs the real one), on one node, by
//! TCP, and on two hosts of namespaces.

use std::sync::atomic::{AtomicU32, Ordering};

use mica_tests::netns::Namespaces;
use mica_tests::{Install, Job, Machine};

/// Starts ranks as torchrun's agent of a node does, and waits for them: size of the job, first rank
/// here, number of ranks here, program.
const AGENT: &str = r#"
    size=$1 first=$2 count=$3 pids=
    shift 3
    for local in $(seq 0 $((count - 1))); do
        RANK=$((first + local)) WORLD_SIZE=$size LOCAL_RANK=$local LOCAL_WORLD_SIZE=$count "$@" &
        pids="$pids $!"
    done
    status=0
    for pid in $pids; do wait "$pid" || status=$?; done
    exit $status"#;

/// The same without LOCAL_RANK and LOCAL_WORLD_SIZE, as a loop in a shell.
fn loop_in_a_shell() -> String {
    AGENT.replace("LOCAL_RANK=$local LOCAL_WORLD_SIZE=$count", "")
}

/// A job of torchrun's that no other test has.
fn run_id() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    format!("test-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// An agent's ranks in a job of `size`, where `shell` runs a shell.
fn ranks(shell: Job, agent: &str, [size, first, count]: [u32; 3], words: &[&str]) -> Job {
    let numbers = [size, first, count].map(|number| number.to_string());
    shell.args(["-c", agent, "agent"]).args(numbers).args(words)
}

fn described(job: Job, address: &str, run_id: &str) -> Job {
    job.env("MASTER_ADDR", address)
        .env("MASTER_PORT", "29500")
        .env("TORCHELASTIC_RUN_ID", run_id)
        .env("TORCHELASTIC_USE_AGENT_STORE", "True")
}

/// A job on this node.
fn on_one_node(size: u32, words: &[&str]) -> Job {
    let job = ranks(Job::new("sh"), AGENT, [size, 0, size], words);
    described(job, "localhost", &run_id())
}

fn hello(size: u32) -> Vec<String> {
    (0..size).map(|rank| format!("hello from {rank} of {size}")).collect()
}

fn path(program: std::path::PathBuf) -> String {
    program.display().to_string()
}

#[test]
fn on_one_node_ranks_find_each_other() {
    let install = Install::find();
    let [job, data, long] =
        [install.job(), install.program("coll_data"), install.program("pt2pt_bidir")].map(path);
    for size in [1, 2, 3, 8] {
        let out = on_one_node(size, &[&job, "hello"]).run().expect_success();
        assert_eq!(out.sorted(), hello(size), "{}", out.report());
        assert_eq!(out.stderr, "", "a normal run is silent");
    }
    on_one_node(3, &[&data]).run().expect_success();
    on_one_node(2, &[&long]).run().expect_success();
    // Virtual nodes divide such a job as any other.
    let out = on_one_node(4, &[&job, "hello"]);
    let out = mica_tests::TWO_NODES.iter().fold(out, |job, (name, value)| job.env(name, value));
    assert_eq!(out.run().expect_success().sorted(), hello(4));
}

/// Where it is not said that all ranks are on one node, they meet by TCP.
#[test]
fn ranks_of_a_loop_in_a_shell_meet_by_tcp() {
    let (install, machine) = (Install::find(), Machine::start());
    let job = path(install.job());
    let agent = loop_in_a_shell();
    // The address of the machine that is no loopback address.
    let start = |words: &[&str]| {
        described(ranks(machine.job("sh"), &agent, [3, 0, 3], words), "192.0.2.1", "")
    };
    let out = start(&[&job, "hello"]).run().expect_success();
    assert_eq!(out.sorted(), hello(3), "{}", out.report());
    let given = start(&[&job, "hello"]).env("MICA_JOIN_ADDRESS", "192.0.2.1:4000");
    assert_eq!(given.run().expect_success().sorted(), hello(3));
    let cookie = start(&[&job, "hello"]).env("MICA_COOKIE", &"0f".repeat(16));
    assert_eq!(cookie.run().expect_success().sorted(), hello(3));
    let wrong = start(&[&job, "hello"]).env("MICA_COOKIE", "secret").run().expect_failure();
    wrong.says("MICA_COOKIE=(6 characters): expected 32 hexadecimal digits");
}

#[test]
fn two_hosts() {
    let install = Install::find();
    let Some(hosts) = Namespaces::new() else {
        return;
    };
    let agent = |host: usize, port: &str, words: &[&str]| {
        let shell = Job::new("ip").args(["netns", "exec", &hosts.names[host], "sh"]);
        let job = ranks(shell, AGENT, [4, 2 * host as u32, 2], words);
        described(job, "10.77.0.1", "none").env("MASTER_PORT", port)
    };
    let job = path(install.job());
    // torchrun's agent has MASTER_PORT.
    const STORE: &str = "import socket, sys\n\
        store = socket.create_server(('10.77.0.1', 29500))\n\
        print('listens', flush=True)\n\
        sys.stdin.read()";
    let store = Job::new("ip").args(["netns", "exec", &hosts.names[0]]);
    let mut store = store.args(["python3", "-c", STORE]).stdin("").start();
    store.wait_for("listens");
    // Two jobs at once, the second host first.
    let started: Vec<_> = ["29500", "29501"]
        .into_iter()
        .flat_map(|port| [1, 0].map(|host| agent(host, port, &[&job, "hello"]).start()))
        .collect();
    let outs: Vec<_> = started.into_iter().map(|job| job.finish().expect_success()).collect();
    for two in outs.chunks(2) {
        let lines: Vec<String> =
            two.iter().rev().flat_map(|out| out.sorted()).map(str::to_owned).collect();
        assert_eq!(lines, hello(4), "{}{}", two[0].report(), two[1].report());
    }
    for program in ["coll_data", "pt2pt_bidir"] {
        let program = path(install.program(program));
        let both = [0, 1].map(|host| agent(host, "29500", &[&program]).start());
        for job in both {
            job.finish().expect_success();
        }
    }
    // A rank that is killed: the others end as well, on both hosts.
    let both = [0, 1].map(|host| agent(host, "29500", &[&job, "kill", "9", "1", "100000"]).start());
    let [first, second] = both.map(|job| job.finish().expect_failure());
    // Which loss a rank sees first depends on whom it waits for.
    first.says("lost rank");
    second.says("lost rank");
}

#[test]
fn a_missing_rank_ends_the_start() {
    let install = Install::find();
    let job = path(install.job());
    let some = |first, count| {
        let some = ranks(Job::new("sh"), AGENT, [4, first, count], &[&job, "hello"]);
        let some = described(some, "127.0.0.1", &run_id()).env("MICA_JOIN_TIMEOUT", "1");
        some.run().expect_failure()
    };
    let out = some(0, 3).says("of 4 ranks, 3 did not come within 1 s (MICA_JOIN_TIMEOUT)");
    assert_eq!(out.stdout, "", "{}", out.report());
    some(2, 1).says("rank 2 of 4 found no rank 0 of its job on this node within 1 s");
}

#[test]
fn the_loss_of_a_rank_is_noticed() {
    let install = Install::find();
    let job = path(install.job());
    let out = on_one_node(3, &[&job, "kill", "9", "1", "100000"]).run().expect_failure();
    out.says("lost rank 1");
}

/// A program that a rank starts is a job of its own, as under mpiexec.
#[test]
fn a_program_started_by_a_rank_is_not_that_rank() {
    let install = Install::find();
    let job = path(install.job());
    let out = on_one_node(2, &[&job, "run", &job, "hello"]).run().expect_success();
    assert_eq!(out.sorted(), ["hello from 0 of 1"; 2], "{}", out.report());
    out.says("which it cannot be as well");
}

/// Variables that programs export for other purposes make no job, and mpiexec has the last word.
#[test]
fn some_of_the_variables_are_no_job() {
    let install = Install::find();
    let job = path(install.job());
    let alone = Job::new(&job).args(["hello"]).env("RANK", "3").env("WORLD_SIZE", "8");
    let out = alone.run().expect_success();
    assert_eq!(out.sorted(), hello(1), "{}", out.report());
    let ours = install.mpiexec(["-n", "2", &job, "hello"]).env("RANK", "0").env("WORLD_SIZE", "8");
    let out = described(ours, "localhost", "none").run().expect_success();
    assert_eq!(out.sorted(), hello(2), "{}", out.report());
    let wrong = Job::new(&job).args(["hello"]).env("RANK", "8").env("WORLD_SIZE", "8");
    let wrong = described(wrong, "localhost", "none").run().expect_failure();
    wrong.says("RANK=8: is not below WORLD_SIZE");
}

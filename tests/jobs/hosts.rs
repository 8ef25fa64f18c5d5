//! MPI jobs over several nodes: (a) virtual nodes of this machine, (b) two network namespaces
//! joined by a cable, each a host with its own address, with `ip netns exec` as the remote shell.
//! Ranks of different nodes have nothing but the network between them. All traffic is on 127.0.0.1
//! or inside the namespaces.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use mica_node::process_stat::ProcessStat;
use mica_tests::netns::Namespaces;
use mica_tests::{Install, Job, Machine, Outcome, processes_with_mark};
use rustix::process::{Pid, Signal, kill_process};

/// A job of four ranks on two virtual nodes.
fn on_virtual_nodes(install: &Install, words: &[&str]) -> Job {
    let options = ["--launcher", "fork", "-hosts", "left,right", "-ppn", "2"];
    install.mpiexec(options).args(words)
}

/// A job of four ranks on two hosts, started on the first.
fn on_hosts(install: &Install, hosts: &Namespaces, words: &[&str]) -> Job {
    install.mpiexec_on(hosts, ["-ppn", "2", "--host-timeout", "3"]).args(words)
}

/// Programs of `tests/c` that send messages of all kinds, and their arguments.
const PROGRAMS: [(&str, &[&str]); 8] = [
    ("pt2pt_modes", &[]),
    ("pt2pt_sendrecv", &[]),
    ("pt2pt_order", &[]),
    ("pt2pt_layouts", &[]),
    ("pt2pt_ssend", &[]),
    ("pt2pt_random", &["20", "11"]),
    ("coll_data", &[]),
    ("coll_reduce", &[]),
];

/// Runs the programs by `start`, then jobs that end in various ways.
fn suite(install: &Install, start: &dyn Fn(&[&str]) -> Job) {
    let job = install.job().to_string_lossy().into_owned();
    let out = start(&[&job, "hello"]).run().expect_success();
    let wanted: Vec<String> = (0..4).map(|rank| format!("hello from {rank} of 4")).collect();
    assert_eq!(out.sorted(), wanted, "{}", out.report());
    assert_eq!(out.stderr, "", "a normal run is silent");
    start(&[&job, "silent"]).run().expect_success();
    for (name, arguments) in PROGRAMS {
        let program = install.program(name).to_string_lossy().into_owned();
        let words = [&[program.as_str()], arguments].concat();
        start(&words).run().expect_success();
    }
    let out = start(&[&job, "cat"]).stdin("some text\n").run().expect_success();
    assert_eq!(
        out.sorted(),
        ["rank 1 read 0 bytes", "rank 2 read 0 bytes", "rank 3 read 0 bytes", "some text"]
    );
    let out = start(&[&job, "abort", "42", "3"]).run().expect_code(42);
    out.says("rank 3 (pid ").says("MPI_Abort with code 42");
    start(&[&job, "early", "9", "1"]).run().expect_code(9).says("rank 1 (pid ");
    let out = start(&[&job, "kill", "9", "2", "500000"]).run().expect_code(128 + 9);
    out.says("rank 2 (pid ").says("SIGKILL");
    // The table covers all nodes' ranks, including network traffic.
    let out = start(&[&job, "silent"]).env("MICA_STATS", "table").run().expect_success();
    let row = out.stderr.lines().find(|line| line.contains("  net "));
    let row = row.unwrap_or_else(|| panic!("no row for the network:\n{}", out.report()));
    let messages: u64 = row.split_whitespace().nth(2).unwrap().parse().unwrap();
    assert!(messages > 0, "{}", out.report());
}

#[test]
fn two_virtual_nodes() {
    let install = Install::find();
    suite(&install, &|words| on_virtual_nodes(&install, words));
}

#[test]
fn two_hosts() {
    let install = Install::find();
    let Some(hosts) = Namespaces::new() else {
        return;
    };
    suite(&install, &|words| on_hosts(&install, &hosts, words));
}

/// The parent of a process; for a rank, its host's agent.
fn parent(pid: i32) -> i32 {
    ProcessStat::of(pid as u32).expect("a process that runs").parent as i32
}

/// Starts a job that exchanges forever, disturbs it, and returns how it ended.
fn disturbed(job: Job, disturb: impl FnOnce(&dyn Fn(u32) -> i32)) -> Outcome {
    let mut job = job.start();
    job.wait_for("ready");
    // mpiexec may reorder lines of different ranks.
    let text = (0..4).map(|rank| job.wait_for(&format!("[{rank}] pid ")));
    let text = text.last().expect("four ranks");
    let marked = processes_with_mark(job.mark());
    assert!(marked.len() > 4 + 2, "ranks, agents and a head: {marked:?}");
    let agent_of = |rank: u32| {
        let label = format!("[{rank}] pid ");
        let line = text.lines().find_map(|line| line.strip_prefix(&label));
        parent(line.expect("a rank's pid").trim().parse().expect("a number"))
    };
    disturb(&agent_of);
    job.finish().expect_failure()
}

fn names_the_host(out: &Outcome, host: &str) {
    let lost = format!("host {host} (ranks 2-3) was lost: ");
    assert!(out.stderr.contains(&lost), "{}", out.report());
}

fn kill_agent_of_rank_3(agent_of: &dyn Fn(u32) -> i32) {
    let pid = Pid::from_raw(agent_of(3)).expect("positive");
    kill_process(pid, Signal::KILL).expect("the agent lives");
}

#[test]
fn a_killed_agent_ends_the_job() {
    let install = Install::find();
    let job = install.job().to_string_lossy().into_owned();
    let words = ["--label", &job, "pids", "100000"];
    let out = disturbed(on_virtual_nodes(&install, &words), kill_agent_of_rank_3);
    names_the_host(&out, "right");
    if let Some(hosts) = Namespaces::new() {
        let out = disturbed(on_hosts(&install, &hosts, &words), kill_agent_of_rank_3);
        names_the_host(&out, &hosts.names[1]);
    }
}

#[test]
fn a_cut_cable_ends_the_job() {
    let install = Install::find();
    let Some(hosts) = Namespaces::new() else {
        return;
    };
    let job = install.job().to_string_lossy().into_owned();
    let words = ["--label", &job, "pids", "100000"];
    let out = disturbed(on_hosts(&install, &hosts, &words), |_| hosts.cut());
    names_the_host(&out, &hosts.names[1]);
}

/// The variables of Kubernetes' MPI operator: a file of hosts, and a shell that takes the host's
/// name and a command, as a script for `kubectl exec -i` does.
#[test]
fn as_an_mpijob_of_kubernetes() {
    let install = Install::find();
    let Some(hosts) = Namespaces::new() else {
        return;
    };
    let folder = std::env::temp_dir().join(&hosts.names[0]);
    fs::create_dir_all(&folder).expect("a temporary folder");
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).expect("a temporary file");
        path.display().to_string()
    };
    let [a, b] = &hosts.names;
    let open_mpi = write("open-mpi", &format!("{a} slots=2\n{b} slots=2\n"));
    let mpich = write("mpich", &format!("{a}:2\n{b}:2\n"));
    let agent = "#!/bin/sh\nhost=$1\nshift\nexec ip netns exec \"$host\" sh -c \"$*\"\n";
    let agent = write("kubexec.sh", agent);
    fs::set_permissions(&agent, Permissions::from_mode(0o700)).expect("a file of this user");
    let (mpiexec, job) = (install.bin("mpiexec"), install.job());
    for [hostfile, file, shell] in [
        ["OMPI_MCA_orte_default_hostfile", &open_mpi, "OMPI_MCA_plm_rsh_agent"],
        ["PRTE_MCA_prte_default_hostfile", &open_mpi, "PRTE_MCA_plm_ssh_agent"],
        ["HYDRA_HOST_FILE", &mpich, "HYDRA_LAUNCHER_EXEC"],
        ["I_MPI_HYDRA_HOST_FILE", &mpich, "HYDRA_LAUNCHER_EXEC"],
    ] {
        // Without -n: the slots of all hosts.
        let words = [mpiexec.as_os_str(), job.as_os_str(), "hello".as_ref()];
        let mpijob = Job::new("ip").args(&hosts.on_first()[1..]).args(words);
        let out = mpijob.env(hostfile, file).env(shell, &agent).run().expect_success();
        let wanted: Vec<String> = (0..4).map(|rank| format!("hello from {rank} of 4")).collect();
        assert_eq!(out.sorted(), wanted, "{}", out.report());
    }
    fs::remove_dir_all(&folder).expect("a temporary folder");
}

/// A real allocation on a machine of one node: srun starts the agent.
#[test]
fn in_a_slurm_allocation() {
    let (install, machine) = (Install::find(), Machine::with_slurm());
    let job = install.job().to_string_lossy().into_owned();
    let allocated = |words: &[&str]| {
        let mpiexec = install.bin("mpiexec").to_string_lossy().into_owned();
        let salloc = machine.job("salloc").args(["-Q", "-n", "3", &mpiexec]);
        salloc.args(words)
    };
    // The default is as many ranks as the allocation has tasks.
    let words = ["--launcher", "srun", &job, "hello"];
    let out = allocated(&words).run().expect_success();
    let wanted = ["hello from 0 of 3", "hello from 1 of 3", "hello from 2 of 3"];
    assert_eq!(out.sorted(), wanted, "{}", out.report());
    let words = ["--launcher", "srun", &job, "abort", "42", "1"];
    allocated(&words).run().expect_code(42).says("rank 1 (pid ");
    // This node is the only one: no agent is needed.
    let words = ["-n", "2", &job, "hello"];
    allocated(&words).run().expect_success();
}

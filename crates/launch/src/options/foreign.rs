//! Options that do not exist: what to use instead of another launcher's, and which name a typing
//! error may mean. Together with the
//! table of options this covers all of Hydra's `mpiexec -help` and those options of Open MPI's
//! `mpirun` and Intel's `mpiexec` that scripts use.

/// Names without dashes, divided by spaces, and the advice that follows "unknown option NAME: ".
const FOREIGN: &[(&str, &str)] = &[
    (
        "mca gmca omca pmixmca prtemca am tune ssi",
        "Open MPI's parameters mean nothing here: leave it out. Mica's own are variables (`mica \
        info` lists them), set by -x NAME=VALUE",
    ),
    (
        "rf rankfile rankmap rank-by",
        "ranks go to hosts in blocks: name the hosts in the order of the ranks, as in -hosts \
         a:2,b:2; -bind-to user:SET,SET,... says which processors each rank has",
    ),
    (
        "cpu-set cpu-list",
        "use `taskset -c LIST mpiexec ...` for all ranks together, or -bind-to user:SET,SET,... \
        for each",
    ),
    (
        "npersocket npernuma",
        "use -ppn with the number of ranks on each host, and -map-by package or numa",
    ),
    ("use-hwthread-cpus", "use -bind-to hwthread, or -map-by hwthread"),
    (
        "nooversubscribe no-oversubscribe",
        "there is no limit of slots: say how many ranks you want with -n",
    ),
    (
        "membind",
        "ranks have their memory from the NUMA node that they run on: bind them (-bind-to numa), \
        or use --tool \"numactl --interleave=all:all\"",
    ),
    (
        "gpus-per-proc gpu-subdevs-per-proc g gpu-support",
        "start the program by a script that sets CUDA_VISIBLE_DEVICES (or the like) from \
        MPI_LOCALRANKID",
    ),
    (
        "rmk",
        "Slurm's allocations are found without it; for other systems give the hosts by -hosts or \
        -f",
    ),
    ("enable-x", "use --launcher-exec \"ssh -X -o BatchMode=yes\""),
    (
        "disable-auto-cleanup enable-recovery continuous max-restarts disable-recovery",
        "a rank that fails always ends the job",
    ),
    (
        "print-all-exitcodes",
        "mpiexec names the first rank that failed and how, and returns its status",
    ),
    ("silent-abort", "the report of a failed rank goes to standard error: 2>/dev/null"),
    (
        "nameserver ompi-server",
        "there is none: jobs of several programs are started together, with ':' between",
    ),
    (
        "order-nodes nolocal skip-launch-node",
        "the order of -hosts counts: name the hosts that shall have ranks",
    ),
    (
        "localhost hybrid-hosts singleton pmi-port pmi_args pmi-args",
        "leave it out: hosts find mpiexec by its addresses (-iface chooses among them)",
    ),
    ("usize universe-size", "MPI_UNIVERSE_SIZE is the number of ranks of the job"),
    (
        "ckpointlib ckpoint ckpoint-interval ckpoint-prefix ckpoint-num",
        "there is no checkpointing by the launcher",
    ),
    (
        "profile trace t check_mpi check-mpi trace-collectives",
        "MICA_STATS=table prints what ranks sent, --late-arrivals who came late to collectives",
    ),
    ("prefix noprefix", "leave it out: mpiexec and libraries are under the same path on all hosts"),
    ("gpath", "use -path for each program, -x PATH=DIRECTORIES, or the program's path"),
    ("umask", "set it in the shell before mpiexec"),
    (
        "tv debugger debug-daemons output-proctable ddt gdba gdb-ia",
        "use -gdb or --debug RANKS, or --tool \"COMMAND:RANKS\" to start ranks under another tool",
    ),
    (
        "xterm",
        "use --debug RANKS for debuggers in windows, --tool \"xterm -hold -e:RANKS\" for programs",
    ),
    (
        "report-state-on-timeout get-stack-traces",
        "--timeout prints what every rank waits for before it ends the job, --hang-report does \
        without ending it",
    ),
    (
        "report-pid report-uri display-allocation display-devel-map display-devel-allocation \
         display-topo display show-progress print-rank-map",
        "use -v, which says what is started where, and --report-bindings; `mica info --topology` \
        draws the machine",
    ),
    ("do-not-launch do-not-resolve dry-run", "use -v with the program true: it prints the plan"),
    (
        "preload-binary preload-files preload-files-dest-dir set-cwd-to-session-dir copy",
        "programs and files are not copied to other hosts: use a shared file system, or scp before",
    ),
    (
        "xml xml-file",
        "there is no output as XML; -prepend-pattern labels lines, -outfile-pattern divides them",
    ),
    (
        "with-ft novm tmpdir personality ppr map runtime-options index-argv-by-rank max-vm-size \
         ilp64 genvuser part branch-count perhost-consecutive delegate launch-agent dvm dvm-uri",
        "leave it out: Mica has nothing of the kind",
    ),
    ("kill-on-bad-exit", "leave it out: a rank that fails always ends the job"),
    ("ntasks nranks procs", "use -n"),
    ("nodes nodelist w", "use -hosts"),
    ("multi-prog", "use -configfile"),
];

/// What to use in place of an option that other launchers have.
pub(super) fn instead(bare: &str) -> Option<&'static str> {
    Some(FOREIGN.iter().find(|(names, _)| names.split(' ').any(|name| name == bare))?.1)
}

/// The option whose name is closest to one that does not exist, if any of `names` is close
/// enough.
pub(super) fn nearest(
    names: impl Iterator<Item = &'static str>,
    bare: &str,
) -> Option<&'static str> {
    let distance_to = |name: &&str| distance(name.trim_start_matches('-'), bare);
    let near = names.min_by_key(distance_to)?;
    // One or two wrong letters in a long name are a typing error; in a short one they make another
    // name.
    let allowed = (bare.chars().count() / 4).min(2);
    (distance_to(&near) <= allowed).then_some(near)
}

/// The edit distance: letters to insert, delete or replace to get from one name to the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &y) in b.iter().enumerate() {
            let changed = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// Every name in the table.
#[cfg(test)]
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    FOREIGN.iter().flat_map(|(names, _)| names.split(' '))
}

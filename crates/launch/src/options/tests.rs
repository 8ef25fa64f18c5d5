use std::fmt::Write as _;

use super::table::options;
use super::*;
use crate::options::values::binding::Bind;
use crate::options::values::output_rules::OutputRules;
use crate::options::values::pattern::NamePattern;
use mica_node::topology::{BindTo, MapBy};

/// The job that a command line asks for, if no variable is set.
pub fn job(line: &str) -> JobOptions {
    match parse_line(line).unwrap() {
        CommandRequest::Run(options) => *options,
        other => panic!("{line}: {other:?}"),
    }
}

fn parse_line(line: &str) -> Result<CommandRequest, UsageError> {
    let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
    parse(&words, &|_| None)
}

fn refusal(line: &str) -> String {
    parse_line(line).unwrap_err().to_string()
}

#[test]
fn one_dash_or_two() {
    for line in ["-n 4 a", "--n 4 a", "-np 4 a", "--np 4 a", "--np=4 a", "-n=4 a", "-c 4 a"] {
        assert_eq!(job(line).sections[0].ranks, 4, "{line}");
    }
    assert_eq!(job("a").sections[0].ranks, 1);
    for line in ["-label a", "--label a", "-l a"] {
        assert!(job(line).output.out.label.is_some(), "{line}");
    }
}

#[test]
fn late_arrivals_are_asked_for_by_option_or_variable() {
    let wanted = ["--late-arrivals a", "-x MICA_LATE=on a", "-env MICA_LATE on a"];
    assert!(wanted.into_iter().all(|line| job(line).wants_late()));
    assert!(!job("-x MICA_LATE=off a").wants_late());
    assert_eq!(job("--late-arrivals a").environment, [("MICA_LATE".into(), "on".into())]);
}

#[test]
fn options_end_at_the_program() {
    let options = job("-n 2 prog -n 7 --label -- x");
    assert_eq!(options.sections[0].ranks, 2);
    assert_eq!(options.sections[0].command, ["prog", "-n", "7", "--label", "--", "x"]);
    assert_eq!(options.output, OutputRules::default());
    assert_eq!(job("-n 2 -- -odd").sections[0].command, ["-odd"]);
}

#[test]
fn sections() {
    let options = job("-n 2 -env A 1 a x : -n 3 -wdir / --genv B 2 b : c");
    let ranks: Vec<usize> = options.sections.iter().map(|s| s.ranks).collect();
    assert_eq!(ranks, [2, 3, 1]);
    assert_eq!(options.sections[0].command, ["a", "x"]);
    assert_eq!(options.sections[0].environment, [("A".into(), "1".into())]);
    assert_eq!(options.sections[1].directory, Some(PathBuf::from("/")));
    assert_eq!(
        options.sections[2],
        ProgramSection {
            ranks: 1,
            counted: false,
            command: vec!["c".into()],
            ..ProgramSection::default()
        }
    );
    assert_eq!(options.environment, [("B".into(), "2".into())]);
}

#[test]
fn exported_variables() {
    assert_eq!(job("-x A=b=c p").environment, [("A".into(), "b=c".into())]);
    assert_eq!(job("-x PATH p").environment[0].0, "PATH");
    assert!(refusal("-x MICA_NO_SUCH_VARIABLE p").contains("not set"));
    assert!(refusal("-x =1 p").contains("name of an environment variable"));
}

#[test]
fn policies_and_times() {
    let options = job("--bind-to none --map-by l3 --timeout 1.5 --hang-report 3 --grace 0 p");
    assert_eq!(options.binding.bind, Some(Bind::To(BindTo::None)));
    assert_eq!(options.binding.map, Some(MapBy::SharedCache));
    assert_eq!(options.timeout, Some(Duration::from_millis(1500)));
    assert_eq!(options.hang_report, Some(Duration::from_secs(3)));
    assert_eq!(options.grace, Duration::ZERO);
}

#[test]
fn the_options_of_the_standard() {
    let line = "-n 6 -soft 1:8:2 -arch ARCH -path /a:/b -file /conf -initial-errhandler \
                mpi_errors_return -memory-alloc-kinds mpi,system a : -soft 2,3 b : c";
    let options = job(&line.replace("ARCH", std::env::consts::ARCH));
    assert_eq!(options.sections.iter().map(|section| section.ranks).collect::<Vec<_>>(), [5, 3, 1]);
    let [first, _, last] = &options.sections[..] else { panic!("three programs") };
    assert_eq!(first.path.as_deref(), Some(OsStr::new("/a:/b")));
    assert_eq!((first.soft.as_deref(), first.file.as_deref()), (Some("1:8:2"), Some("/conf")));
    assert_eq!(first.architecture.as_deref(), Some(std::env::consts::ARCH));
    assert_eq!(options.environment, [("MICA_ERRHANDLER".into(), "return".into())]);
    assert_eq!(*last, ProgramSection { command: vec!["c".into()], ..ProgramSection::new() });
    assert!(refusal("-n 2 -soft 3 a").contains("-soft 3: no number in it is from 1 to 2"));
    assert!(refusal("-soft 1: a").contains("\"1:\" is not"));
    assert!(refusal("-arch sparc a").contains(std::env::consts::ARCH));
    assert!(refusal("-initial-errhandler mine a").contains("mpi_errors_abort"));
}

#[test]
fn familiar_options_are_accepted() {
    job("--oversubscribe --allow-run-as-root -host localhost,127.0.0.1:4 -H localhost p");
}

#[test]
fn hosts_and_how_to_reach_them() {
    let line = "-hosts a,b:4 -H c -f /hosts -ppn 3 --launcher fork -iface lo --host-timeout 2.5 \
                -wdir /no/such --fanout 0 p";
    let options = job(line);
    let names: Vec<&str> = options.hosts.named.iter().map(|host| host.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert_eq!(options.hosts.named[1].slots, Some(4));
    assert_eq!(options.hosts.file, Some(PathBuf::from("/hosts")));
    assert_eq!(
        (options.hosts.per_host, options.hosts.launcher),
        (Some(3), Some(AgentLauncher::Fork))
    );
    assert_eq!(options.hosts.interface.as_deref(), Some("lo"));
    assert_eq!(options.hosts.fanout, Some(0));
    assert_eq!(options.hosts.timeout, Duration::from_millis(2500));
    for name in ["-f", "-hostfile", "--hostfile", "-machinefile"] {
        assert!(job(&format!("{name} x p")).hosts.file.is_some());
    }
    let words = ["-launcher-exec", "ip netns exec", "p"].map(OsString::from);
    let Ok(CommandRequest::Run(options)) = parse(&words, &|_| None) else {
        panic!("a job");
    };
    assert_eq!(options.hosts.launcher_exec.unwrap(), ["ip", "netns", "exec"]);
}

#[test]
fn an_agents_command_line() {
    for node in [Some(3), None] {
        let addresses = ["10.0.0.1:400", "[fd00::1]:5"].map(|a| a.parse().unwrap());
        let agent = Agent { addresses: addresses.to_vec(), node };
        let words: Vec<OsString> = agent.arguments().into_iter().map(OsString::from).collect();
        match parse(&words, &|_| None) {
            Ok(CommandRequest::Agent(read)) => assert_eq!(read, agent),
            other => panic!("{other:?}"),
        }
    }
    assert!(matches!(parse_line("--starter"), Ok(CommandRequest::Starter)));
    assert!(!help().contains("--agent") && !help().contains("--starter"));
}

#[test]
fn wrong_lines_are_named() {
    assert_eq!(refusal(""), "no program given");
    assert_eq!(refusal("-n 2"), "no program given");
    assert!(refusal("a : -n 2").contains("after ':'"));
    assert_eq!(refusal("--fast a"), "unknown option --fast");
    assert_eq!(refusal("-n"), "-n needs N");
    assert_eq!(refusal("-env A"), "-env needs NAME VALUE");
    assert!(refusal("-n none a").contains("\"none\" is not a number of ranks"));
    assert!(refusal("-n 0 a").contains("\"0\""));
    assert!(refusal("--timeout -1 a").contains("seconds"));
    for option in ["--timeout", "--hang-report", "--host-timeout", "--head-timeout"] {
        let line = format!("{option} 9223372036854775000 a");
        assert!(refusal(&line).contains("up to 1e9"), "{line}");
    }
    assert!(refusal("--bind-to board:2 a").contains("core, hwthread"));
    assert!(refusal("--map-by board a").contains("package"));
    assert!(refusal("-wdir /no/such a").contains("/no/such"));
    let by = "0123456789abcdef0123456789abcdef:3:70000";
    for line in ["--spawned", "--spawned x a", "--spawned-here 7", "--spawned-here x BY a"] {
        assert!(refusal(&line.replace("BY", by)).contains("MPI_Comm_spawn"), "{line}");
    }
    assert!(refusal("-host -oX a").contains("\"-oX\" is not a host"));
    assert!(refusal("-hosts a,,b a").contains("\"\" is not a host"));
    assert!(refusal("--launcher rsh a").contains("ssh, fork, srun"));
    assert!(refusal("-ppn 0 a").contains("\"0\""));
    assert!(refusal("--host-timeout 0.1 a").contains("2 seconds or more"));
    assert!(refusal("--agent 1 2 3").contains("mpiexec's own use"));
    assert!(refusal("--agent 127.0.0.1 0").contains("mpiexec's own use"));
    assert!(refusal("--starter 1").contains("mpiexec's own use"));
    assert!(refusal("--fanout -1 a").contains("a number of hosts"));
    assert!(refusal("--label=yes a").contains("no value"));
}

#[test]
fn help_and_version() {
    assert!(matches!(parse_line("--help"), Ok(CommandRequest::Help)));
    assert!(matches!(parse_line("-n 2 -h"), Ok(CommandRequest::Help)));
    assert!(matches!(parse_line("--version"), Ok(CommandRequest::Version)));
    for spec in options() {
        assert!(help().contains(&help::usage(spec)), "{}", spec.names[0]);
    }
}

#[test]
fn manual_page_and_completion() {
    assert!(matches!(parse_line("--man"), Ok(CommandRequest::Manual)));
    let fish = parse_line("--completion fish");
    assert!(matches!(fish, Ok(CommandRequest::Completion(CompletionShell::Fish))));
    assert!(refusal("--completion csh").contains("bash, zsh or fish"));
    let page = manual();
    for name in options().flat_map(|spec| spec.names) {
        assert!(page.contains(&format!("\\fB{}\\fP", name.replace('-', "\\-"))), "{name}");
    }
}

/// An option that is another one with a value names one that there is, and a value that it takes.
#[test]
fn options_that_stand_for_others_are_read() {
    let others = options().filter(|spec| matches!(spec.effect, OptionEffect::SameAs(..)));
    let all: Vec<JobOptions> = others.map(|spec| job(&format!("{} a", spec.names[0]))).collect();
    assert_eq!(all.len(), 9);
    assert!(all.iter().all(|options| *options != job("a")));
}

#[test]
fn names_are_unique() {
    let mut names: Vec<&str> = options()
        .flat_map(|s| s.names)
        .map(|n| n.trim_start_matches('-'))
        .chain(foreign::names())
        .collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all);
}

/// The manual's tables are generated from the tables here. To update them:
/// `MICA_RENEW=1 cargo test -p mica-launch manual`.
#[test]
fn the_manual_has_these_tables() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/mpiexec.md");
    let mut page = std::fs::read_to_string(path).unwrap();
    let mut of_options = String::from("| option | meaning |\n|---|---|\n");
    for spec in options() {
        let option = help::usage(spec).replace('|', "\\|");
        let _ = writeln!(of_options, "| `{option}` | {} |", spec.help.replace('|', "\\|"));
    }
    let mut of_variables = String::from("| variable | means here |\n|---|---|\n");
    for (names, help) in variables::rows() {
        let _ = writeln!(of_variables, "| `{}` | {help} |", names.replace(", ", "`, `"));
    }
    for (name, wanted) in [("options", of_options), ("variables", of_variables)] {
        let begin = format!("<!-- {name}: generated -->\n");
        let end = format!("<!-- end of {name} -->");
        let (before, rest) = page.split_once(&begin).expect("begin marker");
        let (table, after) = rest.split_once(&end).expect("end marker");
        if std::env::var_os("MICA_RENEW").is_some() {
            page = format!("{before}{begin}{wanted}{end}{after}");
            std::fs::write(path, &page).unwrap();
        } else {
            assert_eq!(table, wanted);
        }
    }
}

/// Every option that `mpiexec -help` of MPICH 4.3 lists, and the common ones of Open MPI and Intel
/// MPI: each exists, or the error says what to use instead.
#[test]
fn options_of_others_are_done_or_answered() {
    let hydra = "genv genvlist genvnone genvall f hosts rankmap wdir configfile env envlist \
                 envnone envall n np launcher launcher-exec enable-x disable-x rmk topolib \
                 bind-to map-by membind demux disable-auto-cleanup disable-hostname-propagation \
                 errfile-pattern gpus-per-proc hybrid-hosts iface info localhost nameserver \
                 order-nodes outfile-pattern pmi-port ppn prepend-pattern prepend-rank \
                 print-all-exitcodes profile skip-launch-node usize verbose help h hostfile \
                 machinefile host hostlist output-from l outfile errfile bootstrap bootstrap-exec \
                 binding debug enable-auto-cleanup enable-hostname-propagation g \
                 gpu-subdevs-per-proc v version";
    let open_mpi = "c np N npernode pernode npersocket H host hostfile machinefile x wdir wd path \
                    bind-to bind-to-core bind-to-socket bind-to-none map-by bynode byslot bycore \
                    bysocket rank-by report-bindings cpus-per-proc cpus-per-rank cpu-set cpu-list \
                    rf rankfile mca gmca am tune oversubscribe nooversubscribe use-hwthread-cpus \
                    output-filename tag-output timestamp-output merge-stderr-to-stdout xml q \
                    quiet v V version h help stdin timeout get-stack-traces \
                    report-state-on-timeout preload-binary preload-files prefix app \
                    allow-run-as-root do-not-launch display-map display-allocation display-topo \
                    max-restarts ompi-server enable-recovery continuous index-argv-by-rank \
                    leave-session-attached nolocal tv debug debugger xterm report-pid report-uri \
                    show-progress personality ppr display output with-ft tmpdir runtime-options";
    let intel = "perhost grr rr ppn machine s gtool gdb configfile trace check_mpi umask ilp64 \
                 silent-abort print-rank-map localhost part branch-count";
    for word in [hydra, open_mpi, intel].map(str::split_whitespace).into_iter().flatten() {
        let known = options().any(|spec| spec.has_name(word));
        let answered = foreign::instead(word).is_some();
        assert!(known || answered || word == "machine", "-{word}");
    }
    let advice = refusal("--rankfile f a");
    assert!(advice.starts_with("unknown option --rankfile: ranks go to hosts"), "{advice}");
    assert!(refusal("--mca btl self a").contains("leave it out"));
    assert_eq!(refusal("--hotfile f a"), "unknown option --hotfile; is -hostfile meant?");
    assert_eq!(refusal("-k a"), "unknown option -k");
}

#[test]
fn what_ranks_inherit() {
    let options = job("-genvlist A,B -n 1 a : -envnone b : -envall c : -genv X=1=2 d");
    let only = |names: &[&str]| Inherit::Only(names.iter().map(OsString::from).collect());
    assert_eq!(options.inherit, only(&["A", "B"]));
    let sections: Vec<Option<Inherit>> =
        options.sections.iter().map(|s| s.inherit.clone()).collect();
    assert_eq!(sections, [None, Some(only(&[])), Some(Inherit::All), None]);
    assert_eq!(options.environment, [("X".into(), "1=2".into())]);
    assert_eq!(job("-genvexcept A*,B a").inherit, Inherit::Except(vec!["A*".into(), "B".into()]));
    assert!(refusal("-genvlist A,,B a").contains("name of an environment variable"));
    assert_eq!(job("-env A=b -envlist PATH a").sections[0].environment, [("A".into(), "b".into())]);
}

#[test]
fn ranks_that_options_name() {
    assert_eq!(job("a").input, RankSet::one(0));
    assert_eq!(job("-s all a").input, RankSet::All);
    assert_eq!(job("--stdin none a").input, RankSet::Ranges(Vec::new()));
    assert!(refusal("-s some a").contains("all, none, or ranks"));
    let options = job("-gtool valgrind:0-1 --debug 2 a");
    assert_eq!(options.tools[1], Tool::debugger(RankSet::one(2)));
    assert_eq!(options.tools[0].ranks, RankSet::parse("0-1").unwrap());
    assert_eq!(options.input, RankSet::one(2), "the debugger has the terminal");
    assert_eq!(job("--debug 2 -s 0 a").input, RankSet::one(0));
    assert!(refusal("--tool valgrind a").contains("COMMAND:RANKS"));
    assert!(refusal("-prepend-pattern %x a").contains("%r (rank)"));
}

#[test]
fn variables_of_other_launchers() {
    let with = |line: &str, variables: &[(&str, &str)]| {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        };
        match parse(&words, &variable) {
            Ok(CommandRequest::Run(options)) => Ok(*options),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.to_string()),
        }
    };
    let one = |name: &str, value: &str| with("a", &[(name, value)]).unwrap();
    assert_eq!(one("MPIEXEC_TIMEOUT", "5").timeout, Some(Duration::from_secs(5)));
    assert_eq!(one("MPIEXEC_TIMEOUT", "-1").timeout, None);
    let timed = with("--timeout 7 a", &[("MPIEXEC_TIMEOUT", "5")]).unwrap();
    assert_eq!(timed.timeout, Some(Duration::from_secs(7)));
    for name in
        ["MPIEXEC_PORTRANGE", "MPIEXEC_PORT_RANGE", "MPICH_PORT_RANGE", "MPIR_CVAR_CH3_PORT_RANGE"]
    {
        assert_eq!(one(name, "10000:10100").hosts.ports, Some((10000, 10100)));
    }
    assert_eq!(one("HYDRA_HOST_FILE", "/h").hosts.file, Some(PathBuf::from("/h")));
    assert_eq!(one("HYDRA_IFACE", "ib0").hosts.interface.as_deref(), Some("ib0"));
    assert_eq!(one("HYDRA_LAUNCHER", "fork").hosts.launcher, Some(AgentLauncher::Fork));
    assert_eq!(one("HYDRA_LAUNCHER_EXEC", "/x/ssh").hosts.launcher_exec.unwrap(), ["/x/ssh"]);
    assert_eq!(one("HYDRA_LAUNCHER_EXTRA_ARGS", "-p 22").hosts.launcher_args, ["-p", "22"]);
    for name in [
        "I_MPI_HYDRA_HOST_FILE",
        "OMPI_MCA_orte_default_hostfile",
        "OMPI_MCA_prte_default_hostfile",
        "PRTE_MCA_prte_default_hostfile",
    ] {
        assert_eq!(one(name, "/etc/mpi/hostfile").hosts.file, Some("/etc/mpi/hostfile".into()));
    }
    assert_eq!(one("I_MPI_PERHOST", "3").hosts.per_host, Some(3));
    assert_eq!(one("I_MPI_PERHOST", "all").hosts.per_host, None);
    for name in ["OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent"] {
        let agent = |value: &str| one(name, value).hosts.launcher_exec;
        assert_eq!(agent("/etc/mpi/kubexec.sh").unwrap(), ["/etc/mpi/kubexec.sh"]);
        assert_eq!(agent("qrsh -inherit : ssh").unwrap(), ["qrsh", "-inherit"]);
        assert_eq!(agent("ssh : rsh"), None);
    }
    for name in ["OMPI_MCA_plm_rsh_args", "PRTE_MCA_plm_ssh_args"] {
        let args = one(name, "-o ConnectionAttempts=10").hosts.launcher_args;
        assert_eq!(args, ["-o", "ConnectionAttempts=10"]);
    }
    assert_eq!(one("HYDRA_ENV", "all").inherit, Inherit::All);
    assert_eq!(one("HYDRA_ENV", "none").inherit, Inherit::Only(Vec::new()));
    assert_eq!(one("HYDRA_BINDING", "socket").binding.bind, Some(Bind::To(BindTo::Package)));
    assert_eq!(one("HYDRA_MAPPING", "numa").binding.map, Some(MapBy::Numa));
    assert!(one("HYDRA_DEBUG", "1").verbose && !one("HYDRA_DEBUG", "0").verbose);
    let default = one("MPIEXEC_PREFIX_DEFAULT", "").output;
    assert_eq!(
        (default.out.label, default.err.label),
        (NamePattern::parse("%d> "), NamePattern::parse("%d(err)> "))
    );
    let both = with("a", &[("MPIEXEC_PREFIX_DEFAULT", "1"), ("MPIEXEC_PREFIX_STDOUT", "%d:")]);
    assert_eq!(both.unwrap().output.out.label, NamePattern::parse("%d:"));
    let wrong = with("a", &[("HYDRA_LAUNCHER", "rsh")]).unwrap_err();
    assert!(wrong.contains("HYDRA_LAUNCHER: \"rsh\" is not one of ssh"), "{wrong}");
    let wrong = with("a", &[("MPIEXEC_PORT_RANGE", "9")]).unwrap_err();
    assert!(wrong.contains("MPIEXEC_PORT_RANGE: \"9\" is not LOW:HIGH"), "{wrong}");
}

#[test]
fn programs_from_a_file() {
    let path = std::env::temp_dir().join(format!("mica-config-{}", std::process::id()));
    let read = |text: &str, before: &str| {
        std::fs::write(&path, text).unwrap();
        let line = format!("{before} -configfile {}", path.display());
        parse_line(&line).map(|request| match request {
            CommandRequest::Run(options) => *options,
            other => panic!("{other:?}"),
        })
    };
    let options = read("# two\n-genv A 1\n-n 2 a 'b c'\n-n 3 \\\n d : e\n-n 1 f\n", "-l").unwrap();
    let ranks: Vec<usize> = options.sections.iter().map(|section| section.ranks).collect();
    assert_eq!(ranks, [2, 3, 1]);
    assert_eq!(options.sections[0].command, ["a", "b c"]);
    assert_eq!(options.sections[1].command, ["d", ":", "e"]);
    assert_eq!(options.environment, [("A".into(), "1".into())]);
    assert!(options.output.out.label.is_some() && options.output.err.label.is_some());
    let error = |text: &str| read(text, "").unwrap_err().to_string();
    assert!(error("-n 2 a\n-n x b\n").contains("line 2: -n: \"x\" is not a number of ranks"));
    assert!(error("-n 2\n").contains("line 1: no program given in a line"));
    assert!(error("# nothing\n").contains("no program in it"));
    assert!(error("-configfile x\n").contains("cannot stand in a file"));
    assert!(error("'a\n").contains("line 1: a quote"));
    std::fs::remove_file(&path).unwrap();
    let gone = read_only(&path);
    assert!(gone.contains("cannot read it"), "{gone}");
}

fn read_only(path: &Path) -> String {
    refusal(&format!("--app {}", path.display()))
}

#[test]
fn the_two_command_lines_of_a_spawned_job() {
    let by = "0123456789abcdef0123456789abcdef:3:70000";
    let rest: Vec<OsString> = ["-n", "2", "a", "--spawned", ":", "b"].map(Into::into).to_vec();
    let words = |first: &[&str]| -> Vec<OsString> {
        first.iter().map(Into::into).chain(rest.iter().cloned()).collect()
    };
    let first = parse(&words(&[SPAWNED, by]), &|_| None);
    let Ok(CommandRequest::Spawn { by: rank, command_line }) = first else { panic!("{first:?}") };
    assert_eq!((rank.parent.rank, rank.parent.tag), (3, 70_000));
    assert_eq!(command_line, rest);
    let second = SpawnedJob::words(7, &rank);
    let second = parse(&words(&second.each_ref().map(String::as_str)), &|_| None);
    let Ok(CommandRequest::Spawned(job)) = second else { panic!("{second:?}") };
    assert_eq!(job, SpawnedJob { starter: 7, by: rank, command_line });
    assert!(!help().contains("spawned"), "it is for MPI alone");
}

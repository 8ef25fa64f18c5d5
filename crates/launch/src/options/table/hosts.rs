//! Other hosts, and how to reach them.

use super::super::*;
use OptionEffect::{SameAs, Seconds, Value};

pub(super) const HOSTS: &[Spec] = &[
    job(
        &["-hosts", "-host", "-H", "-hostlist", "-machines"],
        "Run on these hosts, in this order. A host takes as many ranks as it has slots, or \
               an equal share, before the next has its turn; when all are full it goes on with \
               the first. Without -n the job has as many ranks as there are slots, a host without \
               a number having 1.",
        Value("NAME[:SLOTS],...", |parser, option, value| {
            let hosts = crate::hosts::parse_list(&value.to_string_lossy());
            let hosts = hosts
                .map_err(|bad| wrong(option, OsStr::new(&bad), "a host (NAME or NAME:SLOTS)"))?;
            parser.options.hosts.named.extend(hosts);
            Ok(())
        }),
    ),
    job(
        &["-f", "-hostfile", "-machinefile"],
        "Read the hosts from a file: lines of NAME, NAME:SLOTS or NAME slots=N; # begins a \
            comment.",
        Value("FILE", |parser, _, value| {
            parser.options.hosts.file = Some(PathBuf::from(value));
            Ok(())
        }),
    ),
    job(
        &["-ppn", "-perhost", "-N", "--npernode", "-grr"],
        "Give each host N ranks before the next has its turn, whatever its slots; without \
            -n the job has N ranks on each host.",
        Value("N", |parser, option, value| {
            parser.options.hosts.per_host = Some(ranks(option, value)?);
            Ok(())
        }),
    ),
    job(&["--pernode", "--bynode", "-rr"], "The same as -ppn 1.", SameAs("ppn", "1")),
    job(
        &["--launcher", "-bootstrap"],
        "How hosts are reached: by ssh; by Slurm (the default in an allocation if no hosts \
               are given); or fork, where all hosts are virtual nodes on this machine.",
        Value("ssh|fork|srun", |parser, option, value| {
            let launcher = value.to_str().and_then(AgentLauncher::parse);
            let wanted = || format!("one of {}", AgentLauncher::NAMES);
            parser.options.hosts.launcher =
                Some(launcher.ok_or_else(|| wrong(option, value, &wanted()))?);
            Ok(())
        }),
    ),
    job(
        &["--launcher-exec", "-bootstrap-exec"],
        "The remote shell in place of ssh: it is run as PROGRAM ARGS HOST COMMAND...",
        Value("\"PROGRAM ARGS\"", |parser, option, value| {
            let words = value.to_string_lossy();
            let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
            if words.is_empty() {
                return Err(wrong(option, value, "a program"));
            }
            parser.options.hosts.launcher_exec = Some(words);
            Ok(())
        }),
    ),
    job(
        &["--launcher-args"],
        "More arguments for the remote shell (or srun), before the host.",
        Value("\"ARGS\"", |parser, _, value| {
            let words = value.to_string_lossy();
            let words = words.split_whitespace().map(str::to_owned);
            parser.options.hosts.launcher_args.extend(words);
            Ok(())
        }),
    ),
    job(
        &["--fanout"],
        "A host starts agents on at most N others; if there are more, these start the rest \
               (default 32 with ssh and fork). 0: this host starts all, 32 at a time, as it does \
               with --launcher-exec; where hosts of the job cannot reach each other by ssh, use \
               this.",
        Value("N", |parser, option, value| {
            parser.options.hosts.fanout = Some(number(option, value, "a number of hosts")?);
            Ok(())
        }),
    ),
    job(
        &["--host-timeout"],
        "A host that is not heard of for this time is lost, and the job is ended (default \
               10). To start it may take six times as long, and so may its silence if its machine \
               answers.",
        Value("SECONDS", |parser, option, value| {
            let time = seconds(option, value)?;
            if time < Duration::from_secs(2) {
                return Err(wrong(
                    option,
                    value,
                    "2 seconds or more: hosts are heard of once a second",
                ));
            }
            parser.options.hosts.timeout = time;
            Ok(())
        }),
    ),
    job(
        &["--head-timeout"],
        "The hosts end the job when this machine has not answered for this time (default: as \
               --host-timeout; 12 hours if this machine has a battery, since it may be suspended).",
        Seconds(|parser, time| parser.options.hosts.head_timeout = Some(time)),
    ),
    job(
        &["-iface", "--interface"],
        "The network interface that hosts connect to, and that ranks use among hosts \
               (MICA_NET_INTERFACE, unless it is set).",
        Value("NAME|ADDRESS", |parser, _, value| {
            parser.options.hosts.interface = Some(value.to_string_lossy().into_owned());
            Ok(())
        }),
    ),
    job(
        &["--port-range"],
        "Use only these ports for connections among hosts: of mpiexec and its agents, and \
            of ranks where the network is TCP.",
        Value("LOW:HIGH", |parser, option, value| {
            let text = value.to_string_lossy();
            let range = text.split_once([':', '-', ',']).and_then(|(low, high)| {
                let range: (u16, u16) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
                (range.0 > 0 && range.0 <= range.1).then_some(range)
            });
            let wanted = "LOW:HIGH, two ports";
            parser.options.hosts.ports = Some(range.ok_or_else(|| wrong(option, value, wanted))?);
            Ok(())
        }),
    ),
];

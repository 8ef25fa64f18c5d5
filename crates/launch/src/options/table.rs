//! The table of options: names, values, help, and what each does.

use super::*;

/// The table.
pub(super) const OPTIONS: &[Spec] = &[
    Spec {
        names: &["-n", "-np", "-c"],
        values: &["N"],
        scope: Scope::Section,
        help: "Start N ranks of the program (default 1). There is no limit of slots.",
        apply: |parser, option, values| {
            let wanted = "a number of ranks from 1 to 65536";
            let ranks: usize = number(option, &values[0], wanted)?;
            if !(1..=65536).contains(&ranks) {
                return Err(wrong(option, &values[0], wanted));
            }
            parser.section.ranks = ranks;
            parser.section.counted = true;
            Ok(())
        },
    },
    Spec {
        names: &["-env"],
        values: &["NAME", "VALUE"],
        scope: Scope::Section,
        help: "Set an environment variable for the ranks of this program.",
        apply: |parser, option, values| {
            let name = variable_name(option, &values[0])?;
            parser.section.environment.push((name, values[1].clone()));
            Ok(())
        },
    },
    Spec {
        names: &["-wdir", "-wd"],
        values: &["DIR"],
        scope: Scope::Section,
        help: "Run the program in this directory.",
        apply: |parser, option, values| {
            if values[0].is_empty() {
                return Err(wrong(option, &values[0], "a directory"));
            }
            parser.section.directory = Some(PathBuf::from(&values[0]));
            Ok(())
        },
    },
    Spec {
        names: &["-genv"],
        values: &["NAME", "VALUE"],
        scope: Scope::Job,
        help: "Set an environment variable for all ranks.",
        apply: |parser, option, values| {
            let name = variable_name(option, &values[0])?;
            parser.options.environment.push((name, values[1].clone()));
            Ok(())
        },
    },
    Spec {
        names: &["-x"],
        values: &["NAME[=VALUE]"],
        scope: Scope::Job,
        help: "Set (or, without a value, pass on) an environment variable for all ranks.",
        apply: |parser, option, values| {
            let pair = values[0].to_string_lossy();
            let (name, value) = match pair.split_once('=') {
                Some((name, value)) => (name.to_owned(), OsString::from(value)),
                None => match std::env::var_os(&values[0]) {
                    Some(value) => (pair.to_string(), value),
                    None => return Err(UsageError::Unset(pair.to_string())),
                },
            };
            let name = variable_name(option, OsStr::new(&name))?;
            parser.options.environment.push((name, value));
            Ok(())
        },
    },
    Spec {
        names: &["--bind-to"],
        values: &["core|none"],
        scope: Scope::Job,
        help: "Bind each rank to a core, or to nothing. By default ranks are bound as long as \
               each can have a core of its own.",
        apply: |parser, option, values| {
            let policy = values[0].to_str().and_then(BindTo::parse);
            let wanted = || format!("one of {}", BindTo::NAMES);
            parser.options.bind = Some(policy.ok_or_else(|| wrong(option, &values[0], &wanted()))?);
            Ok(())
        },
    },
    Spec {
        names: &["--map-by"],
        values: &["core|slot|package|numa|l3"],
        scope: Scope::Job,
        help: "The order in which ranks take cores: one after the other (core, slot; the \
               default), or in turns over packages, NUMA nodes or shared caches.",
        apply: |parser, option, values| {
            let policy = values[0].to_str().and_then(MapBy::parse);
            let wanted = || format!("one of {}", MapBy::NAMES);
            parser.options.map = policy.ok_or_else(|| wrong(option, &values[0], &wanted()))?;
            Ok(())
        },
    },
    Spec {
        names: &["-l", "--label", "--prepend-rank", "--tag-output"],
        values: &[],
        scope: Scope::Job,
        help: "Begin each line of output with the rank that wrote it: \"[3] ...\".",
        apply: |parser, _, _| {
            parser.options.label = true;
            Ok(())
        },
    },
    Spec {
        names: &["--timeout"],
        values: &["SECONDS"],
        scope: Scope::Job,
        help: "End the job after this time, with exit status 124.",
        apply: |parser, option, values| {
            parser.options.timeout = Some(seconds(option, &values[0])?);
            Ok(())
        },
    },
    Spec {
        names: &["--hang-report"],
        values: &["SECONDS"],
        scope: Scope::Job,
        help: "Print what every rank waits for if the job still runs after this time. \
               `kill -USR1` to mpiexec prints it at any time.",
        apply: |parser, option, values| {
            parser.options.hang_report = Some(seconds(option, &values[0])?);
            Ok(())
        },
    },
    Spec {
        names: &["--late-arrivals"],
        values: &[],
        scope: Scope::Job,
        help: "Print at the end, for each place in the program that calls a collective, how long ranks \
               waited there for the last one to come, and which that was. The same as -x MICA_LATE=on.",
        apply: |parser, _, _| {
            let on = (OsString::from(LATE.env), OsString::from("on"));
            parser.options.environment.push(on);
            Ok(())
        },
    },
    Spec {
        names: &["--grace"],
        values: &["SECONDS"],
        scope: Scope::Job,
        help: "Time between asking ranks to end (SIGTERM) and killing them (default 2).",
        apply: |parser, option, values| {
            parser.options.grace = seconds(option, &values[0])?;
            Ok(())
        },
    },
    Spec {
        names: &["-hosts", "-host", "-H"],
        values: &["NAME[:SLOTS],..."],
        scope: Scope::Job,
        help: "Run on these hosts, in this order. A host takes as many ranks as it has slots, or an \
               equal share, before the next has its turn; when all are full it goes on with the first.",
        apply: |parser, option, values| {
            let hosts = parse_list(&values[0].to_string_lossy());
            let hosts = hosts
                .map_err(|bad| wrong(option, OsStr::new(&bad), "a host (NAME or NAME:SLOTS)"))?;
            parser.options.hosts.extend(hosts);
            Ok(())
        },
    },
    Spec {
        names: &["-f", "-hostfile", "-machinefile"],
        values: &["FILE"],
        scope: Scope::Job,
        help: "Read the hosts from a file: lines of NAME, NAME:SLOTS or NAME slots=N; # begins a comment.",
        apply: |parser, _, values| {
            parser.options.host_file = Some(PathBuf::from(&values[0]));
            Ok(())
        },
    },
    Spec {
        names: &["-ppn", "-perhost", "--npernode"],
        values: &["N"],
        scope: Scope::Job,
        help: "Give each host N ranks before the next has its turn, whatever its slots.",
        apply: |parser, option, values| {
            let wanted = "a number of ranks from 1 to 65536";
            let ranks: usize = number(option, &values[0], wanted)?;
            if !(1..=65536).contains(&ranks) {
                return Err(wrong(option, &values[0], wanted));
            }
            parser.options.per_host = Some(ranks);
            Ok(())
        },
    },
    Spec {
        names: &["--launcher"],
        values: &["ssh|fork|srun"],
        scope: Scope::Job,
        help: "How hosts are reached: by ssh; by Slurm (the default in an allocation if no hosts are \
               given); or fork, where all hosts are virtual nodes on this machine.",
        apply: |parser, option, values| {
            let launcher = values[0].to_str().and_then(Launcher::parse);
            let wanted = || format!("one of {}", Launcher::NAMES);
            parser.options.launcher =
                Some(launcher.ok_or_else(|| wrong(option, &values[0], &wanted()))?);
            Ok(())
        },
    },
    Spec {
        names: &["--launcher-exec"],
        values: &["\"PROGRAM ARGS\""],
        scope: Scope::Job,
        help: "The remote shell in place of ssh: it is run as PROGRAM ARGS HOST COMMAND...",
        apply: |parser, option, values| {
            let words = values[0].to_string_lossy();
            let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
            if words.is_empty() {
                return Err(wrong(option, &values[0], "a program"));
            }
            parser.options.launcher_exec = Some(words);
            Ok(())
        },
    },
    Spec {
        names: &["--host-timeout"],
        values: &["SECONDS"],
        scope: Scope::Job,
        help: "A host that is not heard of for this time is lost, and the job is ended (default 10). To \
               start it may take six times as long.",
        apply: |parser, option, values| {
            let time = seconds(option, &values[0])?;
            if time < Duration::from_secs(2) {
                return Err(wrong(
                    option,
                    &values[0],
                    "2 seconds or more: hosts are heard of once a second",
                ));
            }
            parser.options.host_timeout = time;
            Ok(())
        },
    },
    Spec {
        names: &["-iface", "--interface"],
        values: &["NAME|ADDRESS"],
        scope: Scope::Job,
        help: "The network interface that hosts connect to, and that ranks use among hosts \
               (MICA_NET_INTERFACE, unless it is set).",
        apply: |parser, _, values| {
            parser.options.interface = Some(values[0].to_string_lossy().into_owned());
            Ok(())
        },
    },
    Spec {
        names: &["--oversubscribe"],
        values: &[],
        scope: Scope::Job,
        help: "Accepted for familiarity: more ranks than cores are always allowed.",
        apply: |_, _, _| Ok(()),
    },
    Spec {
        names: &["--allow-run-as-root"],
        values: &[],
        scope: Scope::Job,
        help: "Accepted for familiarity: root may run jobs.",
        apply: |_, _, _| Ok(()),
    },
    Spec {
        names: &["-v", "--verbose"],
        values: &[],
        scope: Scope::Job,
        help: "Say on standard error what is started, and where.",
        apply: |parser, _, _| {
            parser.options.verbose = true;
            Ok(())
        },
    },
    Spec {
        names: &["-V", "--version"],
        values: &[],
        scope: Scope::Job,
        help: "Print the version.",
        apply: |parser, _, _| {
            parser.answer = Some(Request::Version);
            Ok(())
        },
    },
    Spec {
        names: &["-h", "--help"],
        values: &[],
        scope: Scope::Job,
        help: "Print this help.",
        apply: |parser, _, _| {
            parser.answer = Some(Request::Help);
            Ok(())
        },
    },
];

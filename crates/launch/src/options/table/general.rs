//! Time limits, reports, and requests for information.

use super::super::*;

pub(super) const GENERAL: &[Spec] = &[
    Spec {
        names: &["--timeout"],
        scope: Scope::Job,
        help: "End the job after this time, with exit status 124.",
        effect: OptionEffect::Value("SECONDS", |parser, option, value| {
            parser.options.timeout = Some(seconds(option, value)?);
            Ok(())
        }),
    },
    Spec {
        names: &["--hang-report"],
        scope: Scope::Job,
        help: "Print what every rank waits for if the job still runs after this time. \
               `kill -USR1` to mpiexec prints it at any time.",
        effect: OptionEffect::Value("SECONDS", |parser, option, value| {
            parser.options.hang_report = Some(seconds(option, value)?);
            Ok(())
        }),
    },
    Spec {
        names: &["--late-arrivals"],
        scope: Scope::Job,
        help: "Print at the end, for each place in the program that calls a collective, how long \
               ranks waited there for the last one to come, and which that was. The same as -x \
               MICA_LATE=on.",
        effect: OptionEffect::Flag(|parser| {
            let on = (OsString::from(LATE.env), OsString::from("on"));
            parser.options.environment.push(on);
        }),
    },
    Spec {
        names: &["-initial-errhandler"],
        scope: Scope::Job,
        help: "The error handler that MPI_COMM_WORLD and MPI_COMM_SELF have at first: \
               mpi_errors_are_fatal (the default), mpi_errors_abort or mpi_errors_return. The same \
               as -x MICA_ERRHANDLER=fatal, abort or return.",
        effect: OptionEffect::Value("NAME", |parser, option, value| {
            let chosen = match value.to_str() {
                Some("mpi_errors_are_fatal") => "fatal",
                Some("mpi_errors_abort") => "abort",
                Some("mpi_errors_return") => "return",
                _ => {
                    let wanted = "mpi_errors_are_fatal, mpi_errors_abort or mpi_errors_return";
                    return Err(wrong(option, value, wanted));
                }
            };
            parser.options.environment.push((ERRHANDLER.env.into(), chosen.into()));
            Ok(())
        }),
    },
    Spec {
        names: &["-memory-alloc-kinds"],
        scope: Scope::Job,
        help: "The kinds of memory that the program asks for. Mica provides mpi and system, \
               whatever it asks for; MPI_INFO_ENV says so.",
        effect: OptionEffect::Value("KIND,...", |_, _, _| Ok(())),
    },
    Spec {
        names: &["--grace"],
        scope: Scope::Job,
        help: "Time between asking ranks to end (SIGTERM) and killing them (default 2).",
        effect: OptionEffect::Value("SECONDS", |parser, option, value| {
            parser.options.grace = seconds(option, value)?;
            Ok(())
        }),
    },
    Spec {
        names: &["--forward-signals"],
        scope: Scope::Job,
        help: "Signals to mpiexec that it passes on to the ranks, besides USR2, ALRM, ABRT, XCPU, \
               URG and the real-time ones; none takes what stands before it out of the list. With \
               USR1 in it, the signal no longer prints the hang report; TERM, INT, HUP and QUIT no \
               longer end the job.",
        effect: OptionEffect::Value("none|NAME,...", |parser, option, value| {
            let added = value.to_str().and_then(|list| parser.options.signals.add(list));
            added.ok_or_else(|| wrong(option, value, SignalRules::WANTED))
        }),
    },
    Spec {
        names: &[
            "--oversubscribe",
            "--allow-run-as-root",
            "-enable-auto-cleanup",
            "-disable-x",
            "-disable-hostname-propagation",
            "-enable-hostname-propagation",
            "--leave-session-attached",
            "-q",
            "--quiet",
        ],
        scope: Scope::Job,
        help: "Accepted for familiarity: Mica does so anyway.",
        effect: OptionEffect::Flag(|_| {}),
    },
    Spec {
        names: &["-demux", "-topolib"],
        scope: Scope::Job,
        help: "Accepted for familiarity, without effect.",
        effect: OptionEffect::Value("NAME", |_, _, _| Ok(())),
    },
    Spec {
        names: &["-v", "--verbose", "--display-map"],
        scope: Scope::Job,
        help: "Say on standard error what is started, and where.",
        effect: OptionEffect::Flag(|parser| parser.options.verbose = true),
    },
    Spec {
        names: &["-V", "--version", "-info"],
        scope: Scope::Job,
        help: "Print the version.",
        effect: OptionEffect::Flag(|parser| parser.answer = Some(CommandRequest::Version)),
    },
    Spec {
        names: &["-h", "--help"],
        scope: Scope::Job,
        help: "Print this help.",
        effect: OptionEffect::Flag(|parser| parser.answer = Some(CommandRequest::Help)),
    },
];

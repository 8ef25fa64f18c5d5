//! Time limits, reports, and requests for information.

use super::super::*;

pub(super) const GENERAL: &[Spec] = &[
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
        help: "Print at the end, for each place in the program that calls a collective, how long \
               ranks waited there for the last one to come, and which that was. The same as -x \
               MICA_LATE=on.",
        apply: |parser, _, _| {
            let on = (OsString::from(LATE.env), OsString::from("on"));
            parser.options.environment.push(on);
            Ok(())
        },
    },
    Spec {
        names: &["-initial-errhandler"],
        values: &["NAME"],
        scope: Scope::Job,
        help: "The error handler that MPI_COMM_WORLD and MPI_COMM_SELF have at first: \
               mpi_errors_are_fatal (the default), mpi_errors_abort or mpi_errors_return. The same \
               as -x MICA_ERRHANDLER=fatal, abort or return.",
        apply: |parser, option, values| {
            let chosen = match values[0].to_str() {
                Some("mpi_errors_are_fatal") => "fatal",
                Some("mpi_errors_abort") => "abort",
                Some("mpi_errors_return") => "return",
                _ => {
                    let wanted = "mpi_errors_are_fatal, mpi_errors_abort or mpi_errors_return";
                    return Err(wrong(option, &values[0], wanted));
                }
            };
            parser.options.environment.push((ERRHANDLER.env.into(), chosen.into()));
            Ok(())
        },
    },
    Spec {
        names: &["-memory-alloc-kinds"],
        values: &["KIND,..."],
        scope: Scope::Job,
        help: "The kinds of memory that the program asks for. Mica provides mpi and system, \
               whatever it asks for; MPI_INFO_ENV says so.",
        apply: |_, _, _| Ok(()),
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
        names: &["--forward-signals"],
        values: &["none|NAME,..."],
        scope: Scope::Job,
        help: "Signals to mpiexec that it passes on to the ranks, besides USR2, ALRM, ABRT, XCPU, \
               URG and the real-time ones; none takes what stands before it out of the list. With \
               USR1 in it, the signal no longer prints the hang report; TERM, INT, HUP and QUIT no \
               longer end the job.",
        apply: |parser, option, values| {
            let added = values[0].to_str().and_then(|list| parser.options.signals.add(list));
            added.ok_or_else(|| wrong(option, &values[0], SignalRules::WANTED))
        },
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
        values: &[],
        scope: Scope::Job,
        help: "Accepted for familiarity: Mica does so anyway.",
        apply: |_, _, _| Ok(()),
    },
    Spec {
        names: &["-demux", "-topolib"],
        values: &["NAME"],
        scope: Scope::Job,
        help: "Accepted for familiarity, without effect.",
        apply: |_, _, _| Ok(()),
    },
    Spec {
        names: &["-v", "--verbose", "--display-map"],
        values: &[],
        scope: Scope::Job,
        help: "Say on standard error what is started, and where.",
        apply: |parser, _, _| {
            parser.options.verbose = true;
            Ok(())
        },
    },
    Spec {
        names: &["-V", "--version", "-info"],
        values: &[],
        scope: Scope::Job,
        help: "Print the version.",
        apply: |parser, _, _| {
            parser.answer = Some(CommandRequest::Version);
            Ok(())
        },
    },
    Spec {
        names: &["-h", "--help"],
        values: &[],
        scope: Scope::Job,
        help: "Print this help.",
        apply: |parser, _, _| {
            parser.answer = Some(CommandRequest::Help);
            Ok(())
        },
    },
];

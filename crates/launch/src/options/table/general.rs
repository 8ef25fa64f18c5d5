//! Time limits, reports, and requests for information.

use super::super::*;
use OptionEffect::{Flag, Seconds, Value};

pub(super) const GENERAL: &[Spec] = &[
    job(
        &["--timeout"],
        "End the job after this time, with exit status 124.",
        Seconds(|parser, time| parser.options.timeout = Some(time)),
    ),
    job(
        &["--hang-report"],
        "Print what every rank waits for if the job still runs after this time. \
               `kill -USR1` to mpiexec prints it at any time.",
        Seconds(|parser, time| parser.options.hang_report = Some(time)),
    ),
    job(
        &["--late-arrivals"],
        "Print at the end, for each place in the program that calls a collective, how long \
               ranks waited there for the last one to come, and which that was. The same as -x \
               MICA_LATE=on.",
        Flag(|parser| {
            parser.options.environment.push((OsString::from(LATE.env), OsString::from("on")));
        }),
    ),
    job(
        &["-initial-errhandler"],
        "The error handler that MPI_COMM_WORLD and MPI_COMM_SELF have at first (default: \
               mpi_errors_are_fatal). The same as -x MICA_ERRHANDLER=fatal, abort or return.",
        Value(
            "mpi_errors_are_fatal|mpi_errors_abort|mpi_errors_return",
            |parser, option, value| {
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
            },
        ),
    ),
    job(
        &["-memory-alloc-kinds"],
        "The kinds of memory that the program asks for. Mica provides mpi and system, \
               whatever it asks for; MPI_INFO_ENV says so.",
        Value("KIND,...", |_, _, _| Ok(())),
    ),
    job(
        &["--grace"],
        "Time between asking ranks to end (SIGTERM) and killing them (default 2).",
        Seconds(|parser, time| parser.options.grace = time),
    ),
    job(
        &["--forward-signals"],
        "Signals to mpiexec that it passes on to the ranks, besides USR2, ALRM, ABRT, XCPU, \
               URG and the real-time ones; none takes what stands before it out of the list. With \
               USR1 in it, the signal no longer prints the hang report; TERM, INT, HUP and QUIT no \
               longer end the job.",
        Value("none|NAME,...", |parser, option, value| {
            let added = value.to_str().and_then(|list| parser.options.signals.add(list));
            added.ok_or_else(|| wrong(option, value, SignalRules::WANTED))
        }),
    ),
    job(
        &[
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
        "Accepted for familiarity: Mica does so anyway.",
        Flag(|_| {}),
    ),
    job(
        &["-demux", "-topolib"],
        "Accepted for familiarity, without effect.",
        Value("NAME", |_, _, _| Ok(())),
    ),
    job(
        &["-v", "--verbose", "--display-map"],
        "Say on standard error what is started, and where.",
        Flag(|parser| parser.options.verbose = true),
    ),
    job(
        &["-V", "--version", "-info"],
        "Print the version.",
        Flag(|parser| parser.answer = Some(CommandRequest::Version)),
    ),
    job(
        &["-h", "--help"],
        "Print this help.",
        Flag(|parser| parser.answer = Some(CommandRequest::Help)),
    ),
    job(
        &["--man"],
        "Print the manual page, in roff: mpiexec --man | man -l -.",
        Flag(|parser| parser.answer = Some(CommandRequest::Manual)),
    ),
    job(
        &["--completion"],
        "Print the script by which this shell completes the options of mpiexec: eval \
            \"$(mpiexec --completion bash)\".",
        Value("bash|zsh|fish", |parser, option, value| {
            let shell = value.to_str().and_then(CompletionShell::parse);
            let shell = shell.ok_or_else(|| wrong(option, value, CompletionShell::WANTED))?;
            parser.answer = Some(CommandRequest::Completion(shell));
            Ok(())
        }),
    ),
];

//! Redirection of output and input.

use super::super::*;
use OptionEffect::{Flag, Pattern, SameAs, Value};

pub(super) const OUTPUT: &[Spec] = &[
    job(
        &["-l", "--label", "-prepend-rank", "--tag-output"],
        "Begin each line of output with the rank that wrote it: \"[3] ...\".",
        Flag(|parser| parser.options.output.label_ranks()),
    ),
    job(
        &["-prepend-pattern"],
        "Begin each line of output with this text, in which %r is the rank, %h its host, %t \
            the time in seconds, %p the number of its node, %g the number of the job (0), %% a \
            percent sign.",
        Pattern(|parser, pattern| parser.options.output.label_both(&pattern)),
    ),
    job(
        &["--timestamp-output"],
        "The same as -prepend-pattern \"%t \".",
        SameAs("prepend-pattern", "%t "),
    ),
    job(
        &["-outfile-pattern", "-outfile"],
        "Write standard output of each rank to this file, with places as in \
            -prepend-pattern: -outfile-pattern out.%r. Ranks that have the same file all write to \
            its end.",
        Pattern(|parser, pattern| parser.options.output.out.file = Some(pattern)),
    ),
    job(
        &["-errfile-pattern", "-errfile"],
        "The same for standard error.",
        Pattern(|parser, pattern| parser.options.output.err.file = Some(pattern)),
    ),
    job(
        &["--output-filename"],
        "Write what ranks print also to DIR/1/rank.N/stdout and stderr; with nocopy only \
            there, with nojobid without the 1.",
        Value("DIR[:nocopy,nojobid]", |parser, option, value| {
            let read = value.to_str().and_then(|text| parser.options.output.read_directory(text));
            read.ok_or_else(|| wrong(option, value, "DIR, DIR:nocopy or DIR:nojobid"))
        }),
    ),
    job(
        &["--output"],
        "As Open MPI 5 has it: tag is -l, timestamp -prepend-pattern \"%t \", merge \
            --merge-stderr-to-stdout, dir=DIR --output-filename DIR:nocopy, file=NAME writes to \
            NAME.N.out and NAME.N.err.",
        Value("tag|timestamp|merge|dir=DIR|file=NAME,...", |parser, option, value| {
            let read = value.to_str().and_then(|text| parser.options.output.read_words(text));
            read.ok_or_else(|| {
                wrong(option, value, "one or more of tag, timestamp, merge, dir=DIR, file=NAME")
            })
        }),
    ),
    job(
        &["--merge-stderr-to-stdout"],
        "Standard error of ranks goes where their standard output goes.",
        Flag(|parser| parser.options.output.merge = true),
    ),
    job(
        &["-output-from"],
        "Show only what these ranks print (all, none, or as in 0,2-5).",
        Value("RANKS", |parser, option, value| {
            parser.options.output.only = rank_set(option, value)?;
            Ok(())
        }),
    ),
    job(
        &["-s", "--stdin"],
        "The ranks that get standard input: all, none, or as in 0,2-5 (default 0). Each of \
            them gets all of it; others read end-of-file.",
        Value("RANKS", |parser, option, value| {
            parser.options.input = rank_set(option, value)?;
            parser.input_given = true;
            Ok(())
        }),
    ),
];

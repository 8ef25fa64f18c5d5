//! Redirection of output and input.

use super::super::*;

pub(super) const OUTPUT: &[Spec] = &[
    Spec {
        names: &["-l", "--label", "-prepend-rank", "--tag-output"],
        scope: Scope::Job,
        help: "Begin each line of output with the rank that wrote it: \"[3] ...\".",
        effect: OptionEffect::Flag(|parser| parser.options.output.label_ranks()),
    },
    Spec {
        names: &["-prepend-pattern"],
        scope: Scope::Job,
        help: "Begin each line of output with this text, in which %r is the rank, %h its host, %t \
            the time in seconds, %p the number of its node, %g the number of the job (0), %% a \
            percent sign.",
        effect: OptionEffect::Value("PATTERN", |parser, option, value| {
            let pattern = pattern(option, value)?;
            parser.options.output.label_both(&pattern);
            Ok(())
        }),
    },
    Spec {
        names: &["--timestamp-output"],
        scope: Scope::Job,
        help: "The same as -prepend-pattern \"%t \".",
        effect: OptionEffect::SameAs("prepend-pattern", "%t "),
    },
    Spec {
        names: &["-outfile-pattern", "-outfile"],
        scope: Scope::Job,
        help: "Write standard output of each rank to this file, with places as in \
            -prepend-pattern: -outfile-pattern out.%r. Ranks that have the same file all write to \
            its end.",
        effect: OptionEffect::Value("PATTERN", |parser, option, value| {
            let pattern = pattern(option, value)?;
            parser.options.output.out.file = Some(pattern);
            Ok(())
        }),
    },
    Spec {
        names: &["-errfile-pattern", "-errfile"],
        scope: Scope::Job,
        help: "The same for standard error.",
        effect: OptionEffect::Value("PATTERN", |parser, option, value| {
            let pattern = pattern(option, value)?;
            parser.options.output.err.file = Some(pattern);
            Ok(())
        }),
    },
    Spec {
        names: &["--output-filename"],
        scope: Scope::Job,
        help: "Write what ranks print also to DIR/1/rank.N/stdout and stderr; with nocopy only \
            there, with nojobid without the 1.",
        effect: OptionEffect::Value("DIR[:nocopy,nojobid]", |parser, option, value| {
            let read = value.to_str().and_then(|text| parser.options.output.read_directory(text));
            read.ok_or_else(|| wrong(option, value, "DIR, DIR:nocopy or DIR:nojobid"))
        }),
    },
    Spec {
        names: &["--output"],
        scope: Scope::Job,
        help: "As Open MPI 5 has it: tag is -l, timestamp -prepend-pattern \"%t \", merge \
            --merge-stderr-to-stdout, dir=DIR --output-filename DIR:nocopy, file=NAME writes to \
            NAME.N.out and NAME.N.err.",
        effect: OptionEffect::Value(
            "tag|timestamp|merge|dir=DIR|file=NAME,...",
            |parser, option, value| {
                let read = value.to_str().and_then(|text| parser.options.output.read_words(text));
                read.ok_or_else(|| {
                    wrong(option, value, "one or more of tag, timestamp, merge, dir=DIR, file=NAME")
                })
            },
        ),
    },
    Spec {
        names: &["--merge-stderr-to-stdout"],
        scope: Scope::Job,
        help: "Standard error of ranks goes where their standard output goes.",
        effect: OptionEffect::Flag(|parser| parser.options.output.merge = true),
    },
    Spec {
        names: &["-output-from"],
        scope: Scope::Job,
        help: "Show only what these ranks print (all, none, or as in 0,2-5).",
        effect: OptionEffect::Value("RANKS", |parser, option, value| {
            parser.options.output.only = rank_set(option, value)?;
            Ok(())
        }),
    },
    Spec {
        names: &["-s", "--stdin"],
        scope: Scope::Job,
        help: "The ranks that get standard input: all, none, or as in 0,2-5 (default 0). Each of \
            them gets all of it; others read end-of-file.",
        effect: OptionEffect::Value("RANKS", |parser, option, value| {
            parser.options.input = rank_set(option, value)?;
            parser.input_given = true;
            Ok(())
        }),
    },
];

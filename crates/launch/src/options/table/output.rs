//! Redirection of output and input.

use super::super::*;

pub(super) const OUTPUT: &[Spec] = &[
    Spec {
        names: &["-l", "--label", "-prepend-rank", "--tag-output"],
        values: &[],
        scope: Scope::Job,
        help: "Begin each line of output with the rank that wrote it: \"[3] ...\".",
        apply: |parser, _, _| {
            parser.options.output.label_ranks();
            Ok(())
        },
    },
    Spec {
        names: &["-prepend-pattern"],
        values: &["PATTERN"],
        scope: Scope::Job,
        help: "Begin each line of output with this text, in which %r is the rank, %h its host, %t \
            the time in seconds, %p the number of its node, %g the number of the job (0), %% a \
            percent sign.",
        apply: |parser, option, values| {
            let pattern = pattern(option, &values[0])?;
            parser.options.output.label_both(&pattern);
            Ok(())
        },
    },
    Spec {
        names: &["--timestamp-output"],
        values: &[],
        scope: Scope::Job,
        help: "The same as -prepend-pattern \"%t \".",
        apply: |parser, _, _| {
            parser.options.output.label_time();
            Ok(())
        },
    },
    Spec {
        names: &["-outfile-pattern", "-outfile"],
        values: &["PATTERN"],
        scope: Scope::Job,
        help: "Write standard output of each rank to this file, with places as in \
            -prepend-pattern: -outfile-pattern out.%r. Ranks that have the same file all write to \
            its end.",
        apply: |parser, option, values| {
            let pattern = pattern(option, &values[0])?;
            parser.options.output.out.file = Some(pattern);
            Ok(())
        },
    },
    Spec {
        names: &["-errfile-pattern", "-errfile"],
        values: &["PATTERN"],
        scope: Scope::Job,
        help: "The same for standard error.",
        apply: |parser, option, values| {
            let pattern = pattern(option, &values[0])?;
            parser.options.output.err.file = Some(pattern);
            Ok(())
        },
    },
    Spec {
        names: &["--output-filename"],
        values: &["DIR[:nocopy,nojobid]"],
        scope: Scope::Job,
        help: "Write what ranks print also to DIR/1/rank.N/stdout and stderr; with nocopy only \
            there, with nojobid without the 1.",
        apply: |parser, option, values| {
            let read =
                values[0].to_str().and_then(|text| parser.options.output.read_directory(text));
            read.ok_or_else(|| wrong(option, &values[0], "DIR, DIR:nocopy or DIR:nojobid"))
        },
    },
    Spec {
        names: &["--output"],
        values: &["tag|timestamp|merge|dir=DIR|file=NAME,..."],
        scope: Scope::Job,
        help: "As Open MPI 5 has it: tag is -l, timestamp -prepend-pattern \"%t \", merge \
            --merge-stderr-to-stdout, dir=DIR --output-filename DIR:nocopy, file=NAME writes to \
            NAME.N.out and NAME.N.err.",
        apply: |parser, option, values| {
            let read = values[0].to_str().and_then(|text| parser.options.output.read_words(text));
            read.ok_or_else(|| {
                wrong(
                    option,
                    &values[0],
                    "one or more of tag, timestamp, merge, dir=DIR, file=NAME",
                )
            })
        },
    },
    Spec {
        names: &["--merge-stderr-to-stdout"],
        values: &[],
        scope: Scope::Job,
        help: "Standard error of ranks goes where their standard output goes.",
        apply: |parser, _, _| {
            parser.options.output.merge = true;
            Ok(())
        },
    },
    Spec {
        names: &["-output-from"],
        values: &["RANKS"],
        scope: Scope::Job,
        help: "Show only what these ranks print (all, none, or as in 0,2-5).",
        apply: |parser, option, values| {
            parser.options.output.only = rank_set(option, &values[0])?;
            Ok(())
        },
    },
    Spec {
        names: &["-s", "--stdin"],
        values: &["RANKS"],
        scope: Scope::Job,
        help: "The ranks that get standard input: all, none, or as in 0,2-5 (default 0). Each of \
            them gets all of it; others read end-of-file.",
        apply: |parser, option, values| {
            parser.options.input = rank_set(option, &values[0])?;
            parser.input_given = true;
            Ok(())
        },
    },
];

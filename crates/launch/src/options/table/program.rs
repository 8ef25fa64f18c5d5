//! The programs to run, and the tools to run them under.

use super::super::*;

pub(super) const PROGRAM: &[Spec] = &[
    Spec {
        names: &["-n", "-np", "-c"],
        values: &["N"],
        scope: Scope::Section,
        help: "Start N ranks of the program. Without it: as many as -ppn and the slots of the \
            hosts give, else 1. There is no limit of slots.",
        apply: |parser, option, values| {
            parser.section.ranks = ranks(option, &values[0])?;
            parser.section.counted = true;
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
        names: &["-path"],
        values: &["DIR:..."],
        scope: Scope::Section,
        help: "Look for the program in these directories, before those of PATH.",
        apply: |parser, _, values| {
            parser.section.path = Some(values[0].clone());
            Ok(())
        },
    },
    Spec {
        names: &["-soft"],
        values: &["A[:B[:C]],..."],
        scope: Scope::Section,
        help: "The numbers of ranks that the program can run with: A, or A to B, or every C-th of \
            these. It gets the largest that is not above -n.",
        apply: |parser, option, values| {
            let text = values[0].to_string_lossy();
            if !soft::is_valid(&text) {
                return Err(wrong(option, &values[0], "a list of numbers, as in 1,4:16:4"));
            }
            parser.section.soft = Some(text.into_owned());
            Ok(())
        },
    },
    Spec {
        names: &["-arch"],
        values: &["NAME"],
        scope: Scope::Section,
        help: "The architecture that the program needs. All ranks of a job run on the one of this \
            machine; another is refused.",
        apply: |parser, option, values| {
            let own = std::env::consts::ARCH;
            if values[0] != own {
                return Err(wrong(option, &values[0], &format!("that of this machine, {own}")));
            }
            parser.section.architecture = Some(own.to_owned());
            Ok(())
        },
    },
    Spec {
        names: &["-file"],
        values: &["FILE"],
        scope: Scope::Section,
        help: "The standard leaves the meaning to the implementation: none here. MPI_INFO_ENV has \
            the name.",
        apply: |parser, _, values| {
            parser.section.file = Some(values[0].to_string_lossy().into_owned());
            Ok(())
        },
    },
    Spec {
        names: &["-configfile", "--app"],
        values: &["FILE"],
        scope: Scope::Job,
        help: "Read the programs from a file: a line stands for each, with its options as on the \
            command line, in the place of \":\". # begins a comment, \\ at the end goes on with \
            the next line, quotes are as in a shell.",
        apply: |parser, option, values| parser.read_config_file(option, Path::new(&values[0])),
    },
    Spec {
        names: &["--tool", "-gtool"],
        values: &["\"COMMAND:RANKS\""],
        scope: Scope::Job,
        help: "Start the program of these ranks (all, or as in 0,2-5) under a command: --tool \
            \"valgrind -q:all\". Several are divided by \";\".",
        apply: |parser, option, values| {
            let text = values[0].to_string_lossy();
            let tools = Tool::parse(&text);
            let wanted = "COMMAND:RANKS, where RANKS is all or as in 0,2-5";
            parser.options.tools.extend(tools.ok_or_else(|| wrong(option, &values[0], wanted))?);
            Ok(())
        },
    },
    Spec {
        names: &["--debug"],
        values: &["RANKS"],
        scope: Scope::Job,
        help: "Start these ranks (all, or as in 0,2-5) under the debugger (gdb, or \
            MICA_DEBUGGER): one rank takes the terminal; several get a window each (xterm, or \
            MICA_TERMINAL).",
        apply: |parser, option, values| {
            parser.options.tools.push(Tool::debugger(rank_set(option, &values[0])?));
            Ok(())
        },
    },
    Spec {
        names: &["-gdb"],
        values: &[],
        scope: Scope::Job,
        help: "The same as --debug all.",
        apply: |parser, _, _| {
            parser.options.tools.push(Tool::debugger(RankSet::All));
            Ok(())
        },
    },
];

//! The programs to run, and the tools to run them under.

use super::super::*;
use OptionEffect::{SameAs, Value};

pub(super) const PROGRAM: &[Spec] = &[
    section(
        &["-n", "-np", "-c"],
        "Start N ranks of the program. Without it: as many as -ppn and the slots of the \
            hosts give, else 1. There is no limit of slots.",
        Value("N", |parser, option, value| {
            parser.section.ranks = ranks(option, value)?;
            parser.section.counted = true;
            Ok(())
        }),
    ),
    section(
        &["-wdir", "-wd"],
        "Run the program in this directory.",
        Value("DIR", |parser, option, value| {
            if value.is_empty() {
                return Err(wrong(option, value, "a directory"));
            }
            parser.section.directory = Some(PathBuf::from(value));
            Ok(())
        }),
    ),
    section(
        &["-path"],
        "Look for the program in these directories, before those of PATH.",
        Value("DIR:...", |parser, _, value| {
            parser.section.path = Some(value.to_owned());
            Ok(())
        }),
    ),
    section(
        &["-soft"],
        "The numbers of ranks that the program can run with: A, or A to B, or every C-th of \
            these. It gets the largest that is not above -n.",
        Value("A[:B[:C]],...", |parser, option, value| {
            let text = value.to_string_lossy();
            if !soft::is_valid(&text) {
                return Err(wrong(option, value, "a list of numbers, as in 1,4:16:4"));
            }
            parser.section.soft = Some(text.into_owned());
            Ok(())
        }),
    ),
    section(
        &["-arch"],
        "The architecture that the program needs. All ranks of a job run on the one of this \
            machine; another is refused.",
        Value("NAME", |parser, option, value| {
            let own = std::env::consts::ARCH;
            if value != own {
                return Err(wrong(option, value, &format!("that of this machine, {own}")));
            }
            parser.section.architecture = Some(own.to_owned());
            Ok(())
        }),
    ),
    section(
        &["-file"],
        "The standard leaves the meaning to the implementation: none here. MPI_INFO_ENV has \
            the name.",
        Value("FILE", |parser, _, value| {
            parser.section.file = Some(value.to_string_lossy().into_owned());
            Ok(())
        }),
    ),
    job(
        &["-configfile", "--app"],
        "Read the programs from a file: a line stands for each, with its options as on the \
            command line, in the place of \":\". # begins a comment, \\ at the end goes on with \
            the next line, quotes are as in a shell.",
        Value("FILE", |parser, option, value| parser.read_config_file(option, Path::new(value))),
    ),
    job(
        &["--tool", "-gtool"],
        "Start the program of these ranks (all, or as in 0,2-5) under a command: --tool \
            \"valgrind -q:all\". Several are divided by \";\".",
        Value("\"COMMAND:RANKS\"", |parser, option, value| {
            let text = value.to_string_lossy();
            let tools = Tool::parse(&text);
            let wanted = "COMMAND:RANKS, where RANKS is all or as in 0,2-5";
            parser.options.tools.extend(tools.ok_or_else(|| wrong(option, value, wanted))?);
            Ok(())
        }),
    ),
    job(
        &["--debug"],
        "Start these ranks (all, or as in 0,2-5) under the debugger (gdb, or \
            MICA_DEBUGGER): one rank takes the terminal; several get a window each (xterm, or \
            MICA_TERMINAL).",
        Value("RANKS", |parser, option, value| {
            parser.options.tools.push(Tool::debugger(rank_set(option, value)?));
            Ok(())
        }),
    ),
    job(&["-gdb"], "The same as --debug all.", SameAs("debug", "all")),
];

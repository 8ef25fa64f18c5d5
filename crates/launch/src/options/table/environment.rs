//! The environment of the ranks.

use super::super::*;
use OptionEffect::{Flag, Value, Variable};

pub(super) const ENVIRONMENT: &[Spec] = &[
    section(
        &["-env"],
        "Set an environment variable for the ranks of this program; NAME=VALUE is \
            understood as well.",
        Variable(|parser, pair| parser.section.environment.push(pair)),
    ),
    section(
        &["-envall"],
        "Pass the whole environment of mpiexec to the ranks of this program.",
        Flag(|parser| parser.section.inherit = Some(Inherit::All)),
    ),
    section(
        &["-envnone"],
        "Pass nothing of the environment of mpiexec to the ranks of this program. What \
            other options set, they get.",
        Flag(|parser| parser.section.inherit = Some(Inherit::Only(Vec::new()))),
    ),
    section(
        &["-envlist"],
        "Pass only these variables of the environment of mpiexec to the ranks of this \
            program.",
        Value("A,B,...", |parser, option, value| {
            parser.section.inherit = Some(Inherit::Only(variable_names(option, value)?));
            Ok(())
        }),
    ),
    job(
        &["-genv"],
        "Set an environment variable for all ranks; NAME=VALUE is understood as well.",
        Variable(|parser, pair| parser.options.environment.push(pair)),
    ),
    job(
        &["-x"],
        "Set (or, without a value, pass on) an environment variable for all ranks.",
        Value("NAME[=VALUE]", |parser, option, value| {
            let pair = value.to_string_lossy();
            let (name, value) = match pair.split_once('=') {
                Some((name, value)) => (name.to_owned(), OsString::from(value)),
                None => match std::env::var_os(value) {
                    Some(value) => (pair.to_string(), value),
                    None => return Err(UsageError::Unset(pair.to_string())),
                },
            };
            parser.options.environment.push((variable_name(option, OsStr::new(&name))?, value));
            Ok(())
        }),
    ),
    job(
        &["-genvall"],
        "Pass the whole environment of mpiexec to all ranks (the default).",
        Flag(|parser| parser.options.inherit = Inherit::All),
    ),
    job(
        &["-genvnone"],
        "Pass nothing of the environment of mpiexec to all ranks. What other options set, \
            they get.",
        Flag(|parser| parser.options.inherit = Inherit::Only(Vec::new())),
    ),
    job(
        &["-genvlist"],
        "Pass only these variables of the environment of mpiexec to all ranks.",
        Value("A,B,...", |parser, option, value| {
            parser.options.inherit = Inherit::Only(variable_names(option, value)?);
            Ok(())
        }),
    ),
    job(
        &["-genvexcept"],
        "Pass the environment of mpiexec to all ranks without these variables; B* means all \
               that begin with B.",
        Value("A,B*,...", |parser, option, value| {
            parser.options.inherit = Inherit::Except(variable_names(option, value)?);
            Ok(())
        }),
    ),
];

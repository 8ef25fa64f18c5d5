//! The environment of the ranks.

use super::super::*;

pub(super) const ENVIRONMENT: &[Spec] = &[
    Spec {
        names: &["-env"],
        values: &["NAME", "VALUE"],
        scope: Scope::Section,
        help: "Set an environment variable for the ranks of this program; NAME=VALUE is \
            understood as well.",
        apply: |parser, option, values| {
            let pair = variable(option, values)?;
            parser.section.environment.push(pair);
            Ok(())
        },
    },
    Spec {
        names: &["-envall"],
        values: &[],
        scope: Scope::Section,
        help: "Pass the whole environment of mpiexec to the ranks of this program.",
        apply: |parser, _, _| {
            parser.section.inherit = Some(Inherit::All);
            Ok(())
        },
    },
    Spec {
        names: &["-envnone"],
        values: &[],
        scope: Scope::Section,
        help: "Pass nothing of the environment of mpiexec to the ranks of this program. What \
            other options set, they get.",
        apply: |parser, _, _| {
            parser.section.inherit = Some(Inherit::Only(Vec::new()));
            Ok(())
        },
    },
    Spec {
        names: &["-envlist"],
        values: &["A,B,..."],
        scope: Scope::Section,
        help: "Pass only these variables of the environment of mpiexec to the ranks of this \
            program.",
        apply: |parser, option, values| {
            parser.section.inherit = Some(Inherit::Only(variable_names(option, &values[0])?));
            Ok(())
        },
    },
    Spec {
        names: &["-genv"],
        values: &["NAME", "VALUE"],
        scope: Scope::Job,
        help: "Set an environment variable for all ranks; NAME=VALUE is understood as well.",
        apply: |parser, option, values| {
            let pair = variable(option, values)?;
            parser.options.environment.push(pair);
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
        names: &["-genvall"],
        values: &[],
        scope: Scope::Job,
        help: "Pass the whole environment of mpiexec to all ranks (the default).",
        apply: |parser, _, _| {
            parser.options.inherit = Inherit::All;
            Ok(())
        },
    },
    Spec {
        names: &["-genvnone"],
        values: &[],
        scope: Scope::Job,
        help: "Pass nothing of the environment of mpiexec to all ranks. What other options set, \
            they get.",
        apply: |parser, _, _| {
            parser.options.inherit = Inherit::Only(Vec::new());
            Ok(())
        },
    },
    Spec {
        names: &["-genvlist"],
        values: &["A,B,..."],
        scope: Scope::Job,
        help: "Pass only these variables of the environment of mpiexec to all ranks.",
        apply: |parser, option, values| {
            parser.options.inherit = Inherit::Only(variable_names(option, &values[0])?);
            Ok(())
        },
    },
    Spec {
        names: &["-genvexcept"],
        values: &["A,B*,..."],
        scope: Scope::Job,
        help: "Pass the environment of mpiexec to all ranks without these variables; B* means all \
               that begin with B.",
        apply: |parser, option, values| {
            parser.options.inherit = Inherit::Except(variable_names(option, &values[0])?);
            Ok(())
        },
    },
];

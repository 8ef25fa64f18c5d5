//! The environment of the ranks.

use super::super::*;

pub(super) const ENVIRONMENT: &[Spec] = &[
    Spec {
        names: &["-env"],
        scope: Scope::Section,
        help: "Set an environment variable for the ranks of this program; NAME=VALUE is \
            understood as well.",
        effect: OptionEffect::Variable(|parser, pair| parser.section.environment.push(pair)),
    },
    Spec {
        names: &["-envall"],
        scope: Scope::Section,
        help: "Pass the whole environment of mpiexec to the ranks of this program.",
        effect: OptionEffect::Flag(|parser| parser.section.inherit = Some(Inherit::All)),
    },
    Spec {
        names: &["-envnone"],
        scope: Scope::Section,
        help: "Pass nothing of the environment of mpiexec to the ranks of this program. What \
            other options set, they get.",
        effect: OptionEffect::Flag(|parser| {
            parser.section.inherit = Some(Inherit::Only(Vec::new()))
        }),
    },
    Spec {
        names: &["-envlist"],
        scope: Scope::Section,
        help: "Pass only these variables of the environment of mpiexec to the ranks of this \
            program.",
        effect: OptionEffect::Value("A,B,...", |parser, option, value| {
            parser.section.inherit = Some(Inherit::Only(variable_names(option, value)?));
            Ok(())
        }),
    },
    Spec {
        names: &["-genv"],
        scope: Scope::Job,
        help: "Set an environment variable for all ranks; NAME=VALUE is understood as well.",
        effect: OptionEffect::Variable(|parser, pair| parser.options.environment.push(pair)),
    },
    Spec {
        names: &["-x"],
        scope: Scope::Job,
        help: "Set (or, without a value, pass on) an environment variable for all ranks.",
        effect: OptionEffect::Value("NAME[=VALUE]", |parser, option, value| {
            let pair = value.to_string_lossy();
            let (name, value) = match pair.split_once('=') {
                Some((name, value)) => (name.to_owned(), OsString::from(value)),
                None => match std::env::var_os(value) {
                    Some(value) => (pair.to_string(), value),
                    None => return Err(UsageError::Unset(pair.to_string())),
                },
            };
            let name = variable_name(option, OsStr::new(&name))?;
            parser.options.environment.push((name, value));
            Ok(())
        }),
    },
    Spec {
        names: &["-genvall"],
        scope: Scope::Job,
        help: "Pass the whole environment of mpiexec to all ranks (the default).",
        effect: OptionEffect::Flag(|parser| parser.options.inherit = Inherit::All),
    },
    Spec {
        names: &["-genvnone"],
        scope: Scope::Job,
        help: "Pass nothing of the environment of mpiexec to all ranks. What other options set, \
            they get.",
        effect: OptionEffect::Flag(|parser| parser.options.inherit = Inherit::Only(Vec::new())),
    },
    Spec {
        names: &["-genvlist"],
        scope: Scope::Job,
        help: "Pass only these variables of the environment of mpiexec to all ranks.",
        effect: OptionEffect::Value("A,B,...", |parser, option, value| {
            parser.options.inherit = Inherit::Only(variable_names(option, value)?);
            Ok(())
        }),
    },
    Spec {
        names: &["-genvexcept"],
        scope: Scope::Job,
        help: "Pass the environment of mpiexec to all ranks without these variables; B* means all \
               that begin with B.",
        effect: OptionEffect::Value("A,B*,...", |parser, option, value| {
            parser.options.inherit = Inherit::Except(variable_names(option, value)?);
            Ok(())
        }),
    },
];

//! Environment variables that scripts set for other launchers, above all for Hydra's `mpiexec`, and
//! that Kubernetes' MPI operator sets in the pod of a launcher: each has the same meaning here. A
//! variable acts like an option before all others on the command line, so command-line options
//! take precedence.

use super::*;

/// One variable, or several alternative names: the first that is set counts.
struct Variable {
    names: &'static [&'static str],
    /// What it does, for the manual.
    help: &'static str,
    apply: fn(&mut OptionParser, &str, &OsStr) -> Result<(), UsageError>,
}

/// The table.
const VARIABLES: &[Variable] = &[
    Variable {
        names: &["MPIEXEC_TIMEOUT"],
        help: "`--timeout`; 0 or less: no limit",
        apply: |parser, name, value| {
            let time: f64 = number(name, value, "a number of seconds")?;
            if time > 0.0 { give(parser, name, "timeout", Some(value)) } else { Ok(()) }
        },
    },
    Variable {
        names: &[
            "MPIEXEC_PORTRANGE",
            "MPIEXEC_PORT_RANGE",
            "MPICH_PORT_RANGE",
            "MPIR_CVAR_CH3_PORT_RANGE",
        ],
        help: "`--port-range`",
        apply: |parser, name, value| give(parser, name, "port-range", Some(value)),
    },
    Variable {
        names: &["MPIEXEC_PREFIX_DEFAULT"],
        help: "lines of standard output begin with `RANK> `, of standard error with `RANK(err)> `",
        apply: |parser, name, _| {
            parser.options.output.out.label = Some(pattern(name, OsStr::new("%d> "))?);
            parser.options.output.err.label = Some(pattern(name, OsStr::new("%d(err)> "))?);
            Ok(())
        },
    },
    Variable {
        names: &["MPIEXEC_PREFIX_STDOUT"],
        help: "lines of standard output begin with this text, in which `%d` is the rank and `%w` \
            the number of MPI_COMM_WORLD (0)",
        apply: |parser, name, value| {
            parser.options.output.out.label = Some(pattern(name, value)?);
            Ok(())
        },
    },
    Variable {
        names: &["MPIEXEC_PREFIX_STDERR"],
        help: "the same for standard error",
        apply: |parser, name, value| {
            parser.options.output.err.label = Some(pattern(name, value)?);
            Ok(())
        },
    },
    Variable {
        names: &[
            "HYDRA_HOST_FILE",
            "I_MPI_HYDRA_HOST_FILE",
            "OMPI_MCA_orte_default_hostfile",
            "OMPI_MCA_prte_default_hostfile",
            "PRTE_MCA_prte_default_hostfile",
        ],
        help: "`-f`",
        apply: |parser, name, value| give(parser, name, "f", Some(value)),
    },
    Variable {
        names: &["I_MPI_PERHOST"],
        help: "`-ppn`; `all` and `allcores`: no effect",
        apply: |parser, name, value| match value == "all" || value == "allcores" {
            true => Ok(()),
            false => give(parser, name, "ppn", Some(value)),
        },
    },
    Variable {
        names: &["HYDRA_IFACE"],
        help: "`-iface`",
        apply: |parser, name, value| give(parser, name, "iface", Some(value)),
    },
    Variable {
        names: &["HYDRA_LAUNCHER", "HYDRA_BOOTSTRAP"],
        help: "`--launcher`",
        apply: |parser, name, value| give(parser, name, "launcher", Some(value)),
    },
    Variable {
        names: &["HYDRA_LAUNCHER_EXEC", "HYDRA_BOOTSTRAP_EXEC"],
        help: "`--launcher-exec`",
        apply: |parser, name, value| give(parser, name, "launcher-exec", Some(value)),
    },
    Variable {
        names: &["OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent"],
        help: "`--launcher-exec`; of several commands with colons between, the first; `ssh`: no \
            effect",
        apply: |parser, name, value| {
            let commands = value.to_string_lossy();
            match commands.split(':').next().unwrap_or_default().trim() {
                "ssh" => Ok(()),
                first => give(parser, name, "launcher-exec", Some(OsStr::new(first))),
            }
        },
    },
    Variable {
        names: &[
            "HYDRA_LAUNCHER_EXTRA_ARGS",
            "HYDRA_LAUNCH_EXTRA_ARGS",
            "HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS",
            "OMPI_MCA_plm_rsh_args",
            "PRTE_MCA_plm_ssh_args",
        ],
        help: "`--launcher-args`",
        apply: |parser, name, value| give(parser, name, "launcher-args", Some(value)),
    },
    Variable {
        names: &["HYDRA_ENV"],
        help: "`all`: `-genvall`; anything else: `-genvnone`",
        apply: |parser, name, value| match value == "all" {
            true => give(parser, name, "genvall", None),
            false => give(parser, name, "genvnone", None),
        },
    },
    Variable {
        names: &["HYDRA_BINDING"],
        help: "`-bind-to`",
        apply: |parser, name, value| give(parser, name, "bind-to", Some(value)),
    },
    Variable {
        names: &["HYDRA_MAPPING"],
        help: "`-map-by`",
        apply: |parser, name, value| give(parser, name, "map-by", Some(value)),
    },
    Variable {
        names: &["HYDRA_DEBUG"],
        help: "`-v`, unless it is 0",
        apply: |parser, name, value| match value == "0" {
            true => Ok(()),
            false => give(parser, name, "v", None),
        },
    },
];

/// Applies an option for a variable. An error names the variable.
fn give(
    parser: &mut OptionParser,
    name: &str,
    option: &str,
    value: Option<&OsStr>,
) -> Result<(), UsageError> {
    let spec = parser.spec(option);
    let spec = spec.expect("the table of variables names options of the other table");
    let values: Vec<OsString> = value.into_iter().map(OsStr::to_owned).collect();
    parser.apply(spec, name, &values)
}

/// Applies the variables that are set. An empty one counts as not set, except
/// `MPIEXEC_PREFIX_DEFAULT`, which need only exist.
pub(super) fn apply(parser: &mut OptionParser, variables: Variables<'_>) -> Result<(), UsageError> {
    for variable in VARIABLES {
        let set = variable.names.iter().find_map(|&name| {
            let value = variables(name)?;
            (!value.is_empty() || name == "MPIEXEC_PREFIX_DEFAULT").then_some((name, value))
        });
        if let Some((name, value)) = set {
            (variable.apply)(parser, name, &value)?;
        }
    }
    Ok(())
}

/// The rows for the help and the manual: names and meaning.
pub(super) fn rows() -> impl Iterator<Item = (String, &'static str)> {
    VARIABLES.iter().map(|variable| (variable.names.join(", "), variable.help))
}

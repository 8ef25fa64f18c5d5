//! Where ranks run on their node.

use std::os::unix::ffi::OsStrExt as _;

use super::super::*;
use OptionEffect::{Flag, SameAs, Value};

pub(super) const PLACES: &[Spec] = &[
    job(
        &["-bind-to", "-binding"],
        "Bind each rank to N cores or hardware threads, to the part of the machine around \
            its core, to nothing, or to the processors named (rank 0 to the first SET, as 0+2 or \
            0-3, and so on, then from the first again). By default ranks are bound to cores as \
            long as there are enough that no other job has.",
        Value(
            "core[:N]|hwthread[:N]|l3|numa|package|none|user:SET,...",
            |parser, option, value| {
                let read = value.to_str().and_then(|text| parser.options.binding.read_bind(text));
                read.ok_or_else(|| wrong(option, value, Binding::BIND_WANTED))
            },
        ),
    ),
    job(
        &["-map-by"],
        "The order in which ranks take cores: one after the other (core, slot; the \
            default), or in turns over packages, NUMA nodes or shared caches (the default if they \
            are bound to these). node and ppr:N:node say how many ranks a host takes before the \
            next has its turn: 1, or N. With PE=N each rank has N cores. profile:FILE gives the \
            places that result to ranks so that those which exchange much are close, by the \
            traffic in a profile.json of mica profile; it goes together with the others.",
        Value(
            "core|slot|hwthread|package|numa|l3|node|ppr:N:node[:PE=N]|profile:FILE",
            |parser, option, value| {
                if let Some(file) = value.as_bytes().strip_prefix(b"profile:")
                    && !file.is_empty()
                {
                    parser.options.profile = Some(OsStr::from_bytes(file).into());
                    return Ok(());
                }
                let read = value.to_str().and_then(|text| parser.options.binding.read_map(text));
                let per_host = read.ok_or_else(|| wrong(option, value, Binding::MAP_WANTED))?;
                parser.options.hosts.per_host = per_host.or(parser.options.hosts.per_host);
                Ok(())
            },
        ),
    ),
    job(
        &["--cpus-per-rank", "--cpus-per-proc", "--cpus-per-task"],
        "Each rank has N cores, next to each other. By default as many as OMP_NUM_THREADS \
            or SLURM_CPUS_PER_TASK say, else 1.",
        Value("N", |parser, option, value| {
            let width = value.to_str().and_then(crate::options::values::binding::width);
            let wanted = "a number of cores from 1 to 65536";
            parser.options.binding.width = Some(width.ok_or_else(|| wrong(option, value, wanted))?);
            Ok(())
        }),
    ),
    job(
        &["--report-bindings"],
        "Print on standard error what each rank is bound to, or why it is not.",
        Flag(|parser| parser.options.report_bindings = true),
    ),
    job(&["--bind-to-core"], "The same as -bind-to core.", SameAs("bind-to", "core")),
    job(&["--bind-to-socket"], "The same as -bind-to package.", SameAs("bind-to", "package")),
    job(&["--bind-to-none"], "The same as -bind-to none.", SameAs("bind-to", "none")),
    job(&["--bycore", "--byslot"], "The same as -map-by core.", SameAs("map-by", "core")),
    job(&["--bysocket"], "The same as -map-by package.", SameAs("map-by", "package")),
    job(&["--bynuma"], "The same as -map-by numa.", SameAs("map-by", "numa")),
];

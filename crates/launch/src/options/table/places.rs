//! Where ranks run on their node.

use std::os::unix::ffi::OsStrExt as _;

use super::super::*;

pub(super) const PLACES: &[Spec] = &[
    Spec {
        names: &["-bind-to", "-binding"],
        scope: Scope::Job,
        help: "Bind each rank to N cores or hardware threads, to the part of the machine around \
            its core, to nothing, or to the processors named (rank 0 to the first SET, as 0+2 or \
            0-3, and so on, then from the first again). By default ranks are bound to cores as \
            long as there are enough that no other job has.",
        effect: OptionEffect::Value(
            "core[:N]|hwthread[:N]|l3|numa|package|none|user:SET,...",
            |parser, option, value| {
                let read = value.to_str().and_then(|text| parser.options.binding.read_bind(text));
                read.ok_or_else(|| wrong(option, value, Binding::BIND_WANTED))
            },
        ),
    },
    Spec {
        names: &["-map-by"],
        scope: Scope::Job,
        help: "The order in which ranks take cores: one after the other (core, slot; the \
            default), or in turns over packages, NUMA nodes or shared caches (the default if they \
            are bound to these). node and ppr:N:node say how many ranks a host takes before the \
            next has its turn: 1, or N. With PE=N each rank has N cores. profile:FILE gives the \
            places that result to ranks so that those which exchange much are close, by the \
            traffic in a profile.json of mica profile; it goes together with the others.",
        effect: OptionEffect::Value(
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
    },
    Spec {
        names: &["--cpus-per-rank", "--cpus-per-proc", "--cpus-per-task"],
        scope: Scope::Job,
        help: "Each rank has N cores, next to each other. By default as many as OMP_NUM_THREADS \
            or SLURM_CPUS_PER_TASK say, else 1.",
        effect: OptionEffect::Value("N", |parser, option, value| {
            let width = value.to_str().and_then(crate::options::values::binding::width);
            let wanted = "a number of cores from 1 to 65536";
            let width = width.ok_or_else(|| wrong(option, value, wanted))?;
            parser.options.binding.width = Some(width);
            Ok(())
        }),
    },
    Spec {
        names: &["--report-bindings"],
        scope: Scope::Job,
        help: "Print on standard error what each rank is bound to, or why it is not.",
        effect: OptionEffect::Flag(|parser| parser.options.report_bindings = true),
    },
    Spec {
        names: &["--bind-to-core"],
        scope: Scope::Job,
        help: "The same as -bind-to core.",
        effect: OptionEffect::SameAs("bind-to", "core"),
    },
    Spec {
        names: &["--bind-to-socket"],
        scope: Scope::Job,
        help: "The same as -bind-to package.",
        effect: OptionEffect::SameAs("bind-to", "package"),
    },
    Spec {
        names: &["--bind-to-none"],
        scope: Scope::Job,
        help: "The same as -bind-to none.",
        effect: OptionEffect::SameAs("bind-to", "none"),
    },
    Spec {
        names: &["--bycore", "--byslot"],
        scope: Scope::Job,
        help: "The same as -map-by core.",
        effect: OptionEffect::SameAs("map-by", "core"),
    },
    Spec {
        names: &["--bysocket"],
        scope: Scope::Job,
        help: "The same as -map-by package.",
        effect: OptionEffect::SameAs("map-by", "package"),
    },
    Spec {
        names: &["--bynuma"],
        scope: Scope::Job,
        help: "The same as -map-by numa.",
        effect: OptionEffect::SameAs("map-by", "numa"),
    },
];

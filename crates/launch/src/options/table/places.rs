//! Where ranks run on their node.

use std::os::unix::ffi::OsStrExt as _;

use super::super::*;

pub(super) const PLACES: &[Spec] = &[
    Spec {
        names: &["-bind-to", "-binding"],
        values: &["core[:N]|hwthread[:N]|l3|numa|package|none|user:SET,..."],
        scope: Scope::Job,
        help: "Bind each rank to N cores or hardware threads, to the part of the machine around \
            its core, to nothing, or to the processors named (rank 0 to the first SET, as 0+2 or \
            0-3, and so on, then from the first again). By default ranks are bound to cores as \
            long as there are enough that no other job has.",
        apply: |parser, option, values| {
            let read = values[0].to_str().and_then(|text| parser.options.binding.read_bind(text));
            read.ok_or_else(|| wrong(option, &values[0], Binding::BIND_WANTED))
        },
    },
    Spec {
        names: &["-map-by"],
        values: &["core|slot|hwthread|package|numa|l3|node|ppr:N:node[:PE=N]|profile:FILE"],
        scope: Scope::Job,
        help: "The order in which ranks take cores: one after the other (core, slot; the \
            default), or in turns over packages, NUMA nodes or shared caches (the default if they \
            are bound to these). node and ppr:N:node say how many ranks a host takes before the \
            next has its turn: 1, or N. With PE=N each rank has N cores. profile:FILE gives the \
            places that result to ranks so that those which exchange much are close, by the \
            traffic in a profile.json of mica profile; it goes together with the others.",
        apply: |parser, option, values| {
            if let Some(file) = values[0].as_bytes().strip_prefix(b"profile:")
                && !file.is_empty()
            {
                parser.options.profile = Some(OsStr::from_bytes(file).into());
                return Ok(());
            }
            let read = values[0].to_str().and_then(|text| parser.options.binding.read_map(text));
            let per_host = read.ok_or_else(|| wrong(option, &values[0], Binding::MAP_WANTED))?;
            parser.options.hosts.per_host = per_host.or(parser.options.hosts.per_host);
            Ok(())
        },
    },
    Spec {
        names: &["--cpus-per-rank", "--cpus-per-proc", "--cpus-per-task"],
        values: &["N"],
        scope: Scope::Job,
        help: "Each rank has N cores, next to each other. By default as many as OMP_NUM_THREADS \
            or SLURM_CPUS_PER_TASK say, else 1.",
        apply: |parser, option, values| {
            let width = values[0].to_str().and_then(crate::options::values::binding::width);
            let wanted = "a number of cores from 1 to 65536";
            let width = width.ok_or_else(|| wrong(option, &values[0], wanted))?;
            parser.options.binding.width = Some(width);
            Ok(())
        },
    },
    Spec {
        names: &["--report-bindings"],
        values: &[],
        scope: Scope::Job,
        help: "Print on standard error what each rank is bound to, or why it is not.",
        apply: |parser, _, _| {
            parser.options.report_bindings = true;
            Ok(())
        },
    },
    Spec {
        names: &["--bind-to-core"],
        values: &[],
        scope: Scope::Job,
        help: "The same as -bind-to core.",
        apply: |parser, _, _| {
            let read = parser.options.binding.read_bind("core");
            debug_assert!(read.is_some());
            Ok(())
        },
    },
    Spec {
        names: &["--bind-to-socket"],
        values: &[],
        scope: Scope::Job,
        help: "The same as -bind-to package.",
        apply: |parser, _, _| {
            let read = parser.options.binding.read_bind("package");
            debug_assert!(read.is_some());
            Ok(())
        },
    },
    Spec {
        names: &["--bind-to-none"],
        values: &[],
        scope: Scope::Job,
        help: "The same as -bind-to none.",
        apply: |parser, _, _| {
            let read = parser.options.binding.read_bind("none");
            debug_assert!(read.is_some());
            Ok(())
        },
    },
    Spec {
        names: &["--bycore", "--byslot"],
        values: &[],
        scope: Scope::Job,
        help: "The same as -map-by core.",
        apply: |parser, _, _| {
            let read = parser.options.binding.read_map("core");
            debug_assert!(read.is_some());
            Ok(())
        },
    },
    Spec {
        names: &["--bysocket"],
        values: &[],
        scope: Scope::Job,
        help: "The same as -map-by package.",
        apply: |parser, _, _| {
            let read = parser.options.binding.read_map("package");
            debug_assert!(read.is_some());
            Ok(())
        },
    },
    Spec {
        names: &["--bynuma"],
        values: &[],
        scope: Scope::Job,
        help: "The same as -map-by numa.",
        apply: |parser, _, _| {
            let read = parser.options.binding.read_map("numa");
            debug_assert!(read.is_some());
            Ok(())
        },
    },
];

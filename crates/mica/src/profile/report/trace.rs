//! The trace in Chrome's trace event format (JSON object form), which Perfetto reads.
//!
//! A rank is a process, its threads are threads: metadata events (`M`) name and sort them. An MPI
//! call is a complete event (`X`) with times in microseconds. There are no flow events: a profile
//! says a call's peer, not which receive took which message, and an arrow that is guessed from the
//! order would be wrong where tags or communicators differ.
//!
//! Events are written one by one: the largest trace needs no more memory than a small one.

use std::collections::BTreeSet;
use std::io::{self, Write};

use mica_profile::{Profile, TimelineInterval};
use serde_json::{Value, json};

use super::view::ProfileView;

/// Writes the trace.
pub fn write(profile: &Profile, out: &mut impl Write) -> io::Result<()> {
    let view = ProfileView::new(profile);
    let other = json!({
        "command": profile.job.command.join(" "),
        "host": profile.job.host,
        "library": profile.job.library,
        "dropped calls": profile.timeline.dropped.to_string(),
    });
    write!(out, "{{\"displayTimeUnit\":\"ns\",\"otherData\":{other},\"traceEvents\":[")?;
    let mut separator = "\n";
    let mut put = |event: Value| -> io::Result<()> {
        write!(out, "{separator}{event}")?;
        separator = ",\n";
        Ok(())
    };
    for event in names(&view) {
        put(event)?;
    }
    let sites: Vec<String> =
        (0..profile.sites.len()).map(|site| view.site(site as u32).both()).collect();
    for interval in &profile.timeline.intervals {
        put(call(interval, &sites))?;
    }
    writeln!(out, "\n]}}")
}

fn names(view: &ProfileView) -> Vec<Value> {
    let mut threads: BTreeSet<(u32, u32)> =
        view.profile.ranks.iter().map(|rank| (rank.rank, 0)).collect();
    let intervals = &view.profile.timeline.intervals;
    threads.extend(intervals.iter().map(|interval| (interval.rank, interval.thread)));
    let event = |name: &str, pid: u32, tid: u32, args: Value| {
        let of = json!({ "ph": "M", "name": name, "pid": pid, "tid": tid });
        with_args(of, args)
    };
    let mut events = Vec::new();
    for rank in &view.profile.ranks {
        let name = format!("rank {} ({})", rank.rank, rank.host);
        events.push(event("process_name", rank.rank, 0, json!({ "name": name })));
        let sort = json!({ "sort_index": rank.rank });
        events.push(event("process_sort_index", rank.rank, 0, sort));
    }
    for (rank, thread) in threads {
        let name = json!({ "name": format!("thread {thread}") });
        events.push(event("thread_name", rank, thread, name));
    }
    events
}

fn with_args(mut event: Value, args: Value) -> Value {
    event["args"] = args;
    event
}

fn call(interval: &TimelineInterval, sites: &[String]) -> Value {
    let us = |ns: u64| ns as f64 / 1000.0;
    let mut args = json!({ "site": sites.get(interval.site as usize), "bytes": interval.bytes });
    let mut name = interval.call.clone();
    if let Some(joined) = interval.joined {
        args["calls"] = joined.calls.into();
        args["us in calls"] = us(joined.busy_ns).into();
        name = match joined.calls {
            0 => "nothing recorded".to_owned(),
            calls => format!("{calls} short calls, the longest {name}"),
        };
    }
    if let Some(peer) = interval.peer {
        args["peer"] = peer.into();
    }
    json!({
        "ph": "X",
        "cat": "mpi",
        "name": name,
        "pid": interval.rank,
        "tid": interval.thread,
        "ts": us(interval.start_ns),
        "dur": us(interval.end_ns.saturating_sub(interval.start_ns)),
        "args": args,
    })
}

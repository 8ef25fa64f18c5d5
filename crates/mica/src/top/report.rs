//! A job's state as text and as JSON, and the list of jobs.

use std::time::SystemTime;

use comfy_table::Table;
use mica_node::counters::ALL;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::column::Column;
use super::find::FoundJob;
use super::number::time;
use super::rows::{AwaitedPeer, CHANNEL_NAMES, JobView, RankRow, kind_name};
use super::spawned::{RankName, SpawnedJobView};
use super::view::TableView;
use crate::origin::ResultOrigin;
use crate::terminal::{align_right_but, table, with_header};

/// The format's version; fields may be added without a new one.
const FORMAT: u32 = 1;

/// The lines above the table: what job this is.
pub fn heading(job: &JobView) -> Vec<String> {
    let here = job.ranks_here();
    let elsewhere = (job.size as usize).saturating_sub(here);
    let mut ranks = match here {
        1 => format!("1 rank on {}", job.host),
        _ => format!("{here} ranks on {}", job.host),
    };
    if elsewhere > 0 {
        let nodes = match job.nodes {
            0 => String::new(),
            nodes => format!(" ({nodes} nodes)"),
        };
        ranks += &format!(", {elsewhere} elsewhere{nodes}: run mica top there to see them");
    }
    let since = time((job.seconds * 1e9) as u64);
    let end = if job.has_ended { ", has ended" } else { "" };
    let mut lines = vec![format!("job {}, {since}{end}: {}", job.pid, job.command), ranks];
    lines.extend(job.spawned.iter().map(spawned_line));
    lines
}

fn spawned_line(job: &SpawnedJobView) -> String {
    let SpawnedJobView { number, size, pid, command, .. } = job;
    let ranks = if *size == 1 { "1 rank".to_owned() } else { format!("{size} ranks") };
    let by = job.parent.map(|parent| format!(" by rank {parent}")).unwrap_or_default();
    format!("spawned job {number}{by}, {ranks} ({number}:0 ...), process {pid}: {command}")
}

/// The state for people.
pub fn text(job: &JobView) -> String {
    let columns: Vec<Column> = Column::all().collect();
    let mut table = with_header(columns.iter().map(|column| column.title()));
    for row in TableView::default().rows(job) {
        table.add_row(columns.iter().map(|column| column.cell(row)));
    }
    let words = (0..columns.len()).filter(|at| columns[*at].is_text());
    let table = aligned(table, &words.collect::<Vec<_>>());
    format!("{}\n\n{table}", heading(job).join("\n"))
}

/// The table with all columns but these to the right, without the spaces at its lines' ends.
fn aligned(mut table: Table, left: &[usize]) -> String {
    align_right_but(&mut table, left);
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt() + "\n"
}

/// The state for programs.
pub fn json(job: &JobView) -> String {
    let value = json!({
        "format": FORMAT,
        "origin": ResultOrigin::of_this_command("all of the job's; see channels"),
        "mica": mica_node::attach::VERSION,
        "job": {
            "pid": job.pid,
            "command": job.command,
            "host": job.host,
            "size": job.size,
            "ranks_here": job.ranks_here(),
            "nodes": Some(job.nodes).filter(|&nodes| nodes > 0),
            "seconds": job.seconds,
            "has_ended": job.has_ended,
        },
        "spawned_jobs": job.spawned.iter().map(spawned).collect::<Vec<_>>(),
        "interval_seconds": job.interval,
        "ranks": job.ranks.iter().map(rank).collect::<Vec<_>>(),
    });
    serde_json::to_string_pretty(&value).expect("plain data is valid JSON") + "\n"
}

fn spawned(job: &SpawnedJobView) -> Value {
    json!({
        "number": job.number,
        "size": job.size,
        "pid": job.pid,
        "command": job.command,
        "parent": job.parent.map(|parent| parent.rank),
        "parent_spawned_job": job.parent.map(|parent| parent.spawned_job),
    })
}

fn rank(row: &RankRow) -> Value {
    let wait = row.waiting.as_ref().map(|wait| {
        let (peer, peer_job) = match row.peer {
            AwaitedPeer::None => (Value::Null, Value::Null),
            AwaitedPeer::Any => (json!("any"), Value::Null),
            AwaitedPeer::Rank(RankName { spawned_job, rank }) => (json!(rank), json!(spawned_job)),
        };
        json!({
            "kind": kind_name(wait.what.kind),
            "call": Some(&wait.call).filter(|call| !call.is_empty()),
            "peer": peer,
            "peer_spawned_job": peer_job,
            "tag": row.tag(),
            "communicator": format!("{:#x}", wait.what.context & !1),
            "seconds": wait.ns as f64 / 1e9,
        })
    });
    let channels = CHANNEL_NAMES.iter().enumerate().map(|(at, name)| {
        let (total, rate) = (row.totals[at], row.rates[at]);
        let channel = json!({
            "messages": total.messages,
            "bytes": total.bytes,
            "messages_per_second": rate.messages,
            "bytes_per_second": rate.bytes,
        });
        ((*name).to_owned(), channel)
    });
    json!({
        "rank": row.rank.rank,
        "spawned_job": row.rank.spawned_job,
        "pid": row.pid,
        "state": row.activity.name(),
        "process_state": row.process_state.map(String::from),
        "wait": wait,
        "unexpected": row.unexpected(),
        "cpu_percent": row.cpu,
        "resident_bytes": row.resident,
        "messages_per_second": row.rate().messages,
        "bytes_per_second": row.rate().bytes,
        "file_bytes_per_second": row.file_rate,
        "channels": channels.collect::<Map<_, _>>(),
        "counters": counters(row),
    })
}

/// All counters by name; those that are counted by size class are lists.
fn counters(row: &RankRow) -> Map<String, Value> {
    let values = row.counters.values();
    let named = ALL.iter().map(|counter| {
        let value = match &values[counter.first..counter.first + counter.elements] {
            [one] => json!(one),
            all => json!(all),
        };
        (counter.name.to_owned(), value)
    });
    named.collect()
}

/// A job in a list.
#[derive(Serialize)]
struct Listed<'a> {
    pid: u32,
    user: u32,
    ranks_here: usize,
    size: u32,
    spawned: u32,
    nodes: Option<u32>,
    seconds: u64,
    command: &'a str,
}

fn listed(job: &FoundJob) -> Listed<'_> {
    let first = &job.parts[0];
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    let started = first.description.started_ms / 1000;
    Listed {
        pid: job.pid(),
        user: first.uid,
        ranks_here: job.ranks_here(),
        size: first.segment.job_size(),
        spawned: first.segment.spawned_worlds().iter().map(|world| world.count).sum(),
        nodes: Some(first.description.nodes).filter(|&nodes| nodes > 0),
        seconds: now.as_secs().saturating_sub(started),
        command: &first.description.command,
    }
}

/// The jobs for people.
pub fn list(jobs: &[FoundJob]) -> String {
    let mut table = table("PID | USER | RANKS | HERE | SPAWNED | TIME | COMMAND");
    for job in jobs.iter().map(listed) {
        table.add_row([
            job.pid.to_string(),
            job.user.to_string(),
            job.size.to_string(),
            job.ranks_here.to_string(),
            job.spawned.to_string(),
            time(job.seconds.saturating_mul(1_000_000_000)),
            job.command.to_owned(),
        ]);
    }
    aligned(table, &[6])
}

/// The jobs for programs.
pub fn list_json(jobs: &[FoundJob]) -> String {
    let all: Vec<Listed<'_>> = jobs.iter().map(listed).collect();
    let origin = ResultOrigin::without_messages();
    origin.json(&json!({ "jobs": all })).expect("plain data is valid JSON")
}

#[cfg(test)]
mod tests {
    use super::super::view::tests::job;
    use super::*;

    #[test]
    fn text_names_call_peer_and_time() {
        let text = text(&job(2));
        assert!(text.starts_with("job 4711, 1m15s: ./solver -n 5\n2 ranks on here, 2 elsewhere"));
        let line = text.lines().last().unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(&words[..7], ["1", "101", "waits", "MPI_Recv", "0", "7", "13.3s"]);
    }

    #[test]
    fn json_has_the_same() {
        let value: Value = serde_json::from_str(&json(&job(2))).unwrap();
        let rank = &value["ranks"][1];
        assert_eq!(rank["state"], "waits");
        assert_eq!(rank["wait"]["call"], "MPI_Recv");
        assert_eq!((&rank["wait"]["peer"], &rank["wait"]["tag"]), (&json!(0), &json!(7)));
        assert_eq!(rank["channels"]["shm"]["messages"], 25);
        assert_eq!(rank["counters"]["sent_ring_bytes"], 250);
        assert_eq!(value["ranks"][0]["wait"], Value::Null);
        assert_eq!(value["job"]["size"], 4);
    }
}

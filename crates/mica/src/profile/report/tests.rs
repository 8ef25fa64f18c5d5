//! The report as a whole: the example and generated profiles, the trace against its format's rules,
//! and the page in a browser.
//!
//! With `MICA_REPORT_OUT=DIR` the pages of [`PAGES`] are written there and kept, to be looked at.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use fastrand::Rng;
use mica_profile::model::size_class;
use mica_profile::summary::level;
use mica_profile::{
    CallRecord, LateArrival, Profile, ProfiledPlace, ProgramSite, RankPair, SizeCount, Timeline,
    TimelineInterval, Wait,
};
use serde_json::Value;

use super::*;
use crate::draw::browser::{browser, open};
use crate::scratch::ScratchFolder;

const US: u64 = 1000;
/// Name, function and line of the sites of [`generated`].
const SITES: [(&str, &str, u32); 9] = [
    ("MPI_Isend", "exchange_halo", 112),
    ("MPI_Irecv", "exchange_halo", 104),
    ("MPI_Waitall", "exchange_halo", 120),
    ("MPI_Allreduce", "residual", 61),
    ("MPI_Alltoall", "transpose<double, 3>", 207),
    ("MPI_Bcast", "read_input", 33),
    ("MPI_Barrier", "main", 290),
    ("MPI_Gather", "write_output", 255),
    ("MPI_Put", "steal_work", 178),
];

/// A program in steps: a halo exchange with four neighbours, a reduction, now and then a transpose.
/// Every seventh rank has more work than the others.
fn generated(ranks: u32, steps: u32) -> Profile {
    let mut profile = Profile::example();
    let mut numbers = Rng::with_seed(u64::from(ranks));
    let template = profile.ranks[0].clone();
    let site = profile.sites[0].clone();
    profile.job.command = ["mpiexec", "-n", &ranks.to_string(), "./heat", "--grid", "4096x4096"]
        .map(str::to_owned)
        .to_vec();
    profile.job.notes.clear();
    profile.sites = SITES
        .iter()
        .map(|(_, function, line)| ProgramSite {
            function: Some((*function).into()),
            file: Some("/home/user/heat/src/solver.cpp".into()),
            line: Some(*line),
            ..site.clone()
        })
        .collect();
    profile.timeline = Timeline::default();
    profile.timeline.intervals =
        (0..ranks).flat_map(|rank| intervals(rank, ranks, steps, &mut numbers)).collect();
    profile.calls = records(&profile.timeline.intervals);
    let end = profile.timeline.intervals.iter().map(|i| i.end_ns).max().unwrap_or(0);
    profile.job.wall_ns = end + end / 20;
    let per_node = ranks.div_ceil(if ranks > 64 { 8 } else { 2 }).max(1);
    let rank = |rank: u32| {
        let (node, local) = (rank / per_node, rank % per_node);
        let mpi = profile.calls.iter().filter(|call| call.rank == rank);
        mica_profile::RankProfile {
            rank,
            node,
            host: format!("node{node:02}"),
            place: Some(ProfiledPlace {
                cpu: local,
                core: local,
                cache: local / 4,
                package: local / (per_node / 2).max(1),
            }),
            app_ns: end,
            mpi_ns: mpi.map(|call| call.time_ns).sum(),
            ..template.clone()
        }
    };
    profile.ranks = (0..ranks).map(rank).collect();
    traffic(&mut profile, &mut numbers);
    profile.late = (0..ranks)
        .filter(|rank| rank % 7 == 3)
        .flat_map(|rank| [(rank, 3), (rank, 4)])
        .map(|(rank, site)| {
            let times = u64::from(steps) / (2 + u64::from(site)) + numbers.u64(..4);
            let behind = times * (700 + numbers.u64(..500)) * US;
            LateArrival {
                call: SITES[site as usize].0.into(),
                site,
                rank,
                times,
                behind_ns: behind,
                wait_ns: behind * u64::from(ranks - 1) * 9 / 10,
            }
        })
        .collect();
    profile.waits = Some(
        profile
            .ranks
            .iter()
            .flat_map(|rank| {
                [("peer", 6), ("copy", 2), ("queue full", 1), ("progress", 1)].map(
                    |(reason, share)| Wait {
                        rank: rank.rank,
                        reason: reason.into(),
                        ns: rank.mpi_ns * share / 12,
                    },
                )
            })
            .collect(),
    );
    profile
}

fn intervals(rank: u32, ranks: u32, steps: u32, numbers: &mut Rng) -> Vec<TimelineInterval> {
    let step_ns = 4000 * US;
    let mut intervals = Vec::new();
    for step in 0..u64::from(steps) {
        let mut now = step * step_ns + numbers.u64(..200 * US);
        let mut put = |site: u32, length: u64, bytes: u64, peer: Option<u32>| {
            intervals.push(interval(rank, now, length, (site, bytes, peer)));
            now += length + 2 * US;
        };
        if step == 0 {
            put(5, 300 * US, if rank == 0 { 4096 } else { 0 }, Some(0));
        }
        for distance in [1, 4] {
            let peer = (rank + distance) % ranks;
            put(1, 3 * US + numbers.u64(..2 * US), 0, Some(peer));
            put(0, 8 * US + numbers.u64(..9 * US), 8192 << (distance / 2), Some(peer));
        }
        put(2, 150 * US + numbers.u64(..300 * US), 0, None);
        if step % 4 == 3 {
            put(4, 500 * US + numbers.u64(..300 * US), 24_576, None);
        }
        let work = if rank % 7 == 3 { 2600 } else { 1500 } * US + numbers.u64(..200 * US);
        let reduce = step * step_ns + 3950 * US;
        now = (now + work).min(reduce - 20 * US);
        intervals.push(interval(rank, now, reduce - now, (3, 8, None)));
    }
    intervals
}

/// A call at a site, with its bytes and its peer.
fn interval(
    rank: u32,
    start_ns: u64,
    length: u64,
    (site, bytes, peer): (u32, u64, Option<u32>),
) -> TimelineInterval {
    let (call, end_ns) = (SITES[site as usize].0.into(), start_ns + length);
    TimelineInterval { rank, start_ns, end_ns, call, site, bytes, peer, ..Default::default() }
}

fn records(intervals: &[TimelineInterval]) -> Vec<CallRecord> {
    let mut records: BTreeMap<(u32, &str, u32), CallRecord> = BTreeMap::new();
    for interval in intervals {
        let key = (interval.rank, interval.call.as_str(), interval.site);
        let ns = interval.end_ns - interval.start_ns;
        let record = records.entry(key).or_insert_with(|| CallRecord {
            rank: interval.rank,
            call: interval.call.clone(),
            site: interval.site,
            min_ns: u64::MAX,
            ..CallRecord::default()
        });
        record.count += 1;
        record.time_ns += ns;
        record.min_ns = record.min_ns.min(ns);
        record.max_ns = record.max_ns.max(ns);
        record.sends += u64::from(interval.bytes > 0);
        record.bytes += interval.bytes;
    }
    records.into_values().collect()
}

/// Sizes and the matrix that follow from the intervals, with a few more sizes.
fn traffic(profile: &mut Profile, numbers: &mut Rng) {
    let count = profile.ranks.len() as u32;
    let mut sizes: BTreeMap<_, SizeCount> = BTreeMap::new();
    let mut pairs: BTreeMap<(u32, u32), RankPair> = BTreeMap::new();
    let mut sent = Vec::new();
    for interval in profile.timeline.intervals.iter().filter(|interval| interval.bytes > 0) {
        let to = interval.peer.filter(|_| interval.call == "MPI_Isend");
        sent.push((interval.rank, interval.call.clone(), to, interval.bytes));
    }
    for rank in 0..count {
        for _ in 0..6 {
            let to = (rank + 1 + numbers.u32(..(count - 1).max(1))) % count;
            sent.push((rank, "MPI_Put".into(), Some(to), 1 << numbers.u64(..21)));
        }
    }
    for (from, call, to, bytes) in sent {
        let level = to.map(|to| level(&profile.ranks[from as usize], &profile.ranks[to as usize]));
        let class = size_class(bytes);
        let none =
            || SizeCount { rank: from, call: call.clone(), level, class, ..Default::default() };
        let size = sizes.entry((from, call.clone(), level, class)).or_insert_with(none);
        size.messages += 1;
        size.bytes += bytes;
        let empty = |to| RankPair { from, to, ..RankPair::default() };
        if let Some(to) = to {
            let pair = pairs.entry((from, to)).or_insert_with(|| empty(to));
            pair.messages += 1;
            pair.bytes += bytes;
        } else if call == "MPI_Alltoall" {
            for to in (0..count).filter(|to| *to != from) {
                let pair = pairs.entry((from, to)).or_insert_with(|| empty(to));
                pair.collective_messages += 1;
                pair.collective_bytes += bytes / u64::from(count) * u64::from(1 + to % 3);
            }
        }
    }
    profile.sizes = sizes.into_values().collect();
    profile.matrix = pairs.into_values().collect();
}

/// A profile of a program that did nothing but end.
fn empty() -> Profile {
    let mut profile = Profile::example();
    profile.calls.clear();
    profile.sites.clear();
    profile.sizes.clear();
    profile.matrix.clear();
    profile.late.clear();
    profile.waits = None;
    profile.timeline = Timeline::default();
    profile.ranks.truncate(1);
    profile.ranks[0].mpi_ns = 0;
    profile.job.exit_code = 3;
    profile.job.missing_ranks = (1..40).collect();
    profile.job.notes = vec!["</script><img src=x onerror=alert(1)>".into()];
    profile
}

type MakeProfile = fn() -> Profile;

const PAGES: [(&str, MakeProfile); 4] = [
    ("example", Profile::example),
    ("sixteen", || generated(16, 24)),
    ("large", || generated(512, 66)),
    ("empty", empty),
];

/// A directory, which is removed with the folder that it is in, unless it is to be looked at.
fn directory_for(name: &str) -> (Option<ScratchFolder>, PathBuf) {
    if let Some(out) = std::env::var_os("MICA_REPORT_OUT") {
        return (None, Path::new(&out).join(name));
    }
    let folder = ScratchFolder::new("report").unwrap();
    let directory = folder.path().join(name);
    (Some(folder), directory)
}

#[test]
fn pages_are_whole_and_bounded() {
    for (name, profile) in PAGES {
        let profile = profile();
        let page = page::page(&profile);
        assert!(page.len() < 6 << 20, "{name}: {} bytes", page.len());
        assert!(!page.contains("NaN") && !page.contains(" inf"), "{name}");
        for outside in ["http://", "https://", " src=", "@import", "url("] {
            let found = page.replace("&lt;img src=", "").contains(outside);
            assert!(!found, "{name} has {outside}");
        }
        assert_eq!(page.matches("</script>").count(), 2, "{name}");
        let (_, data) = page.split_once("id=\"data\">").unwrap();
        let (data, _) = data.split_once("</script>").unwrap();
        serde_json::from_str::<Value>(data).unwrap();
    }
}

#[test]
fn a_large_profile_says_what_it_leaves_out() {
    let profile = generated(512, 66);
    let intervals = profile.timeline.intervals.len();
    assert!(intervals > 200_000, "{intervals}");
    let page = page::page(&profile);
    for part in [
        "There are 512 ranks: a row or column stands for 4 neighbouring ranks.",
        "calls are drawn as",
        "The 100 largest of",
    ] {
        assert!(page.contains(part), "{part}");
    }
}

/// The rules of the format: the object form, phases M and X with their fields, times that are
/// numbers, names of metadata, one process a rank.
#[test]
fn trace_follows_the_event_format() {
    for (name, profile) in [PAGES[0], PAGES[1], PAGES[3]] {
        let profile = profile();
        let mut text = Vec::new();
        trace::write(&profile, &mut text).unwrap();
        let trace: Value = serde_json::from_slice(&text).unwrap();
        assert!(["ns", "ms"].contains(&trace["displayTimeUnit"].as_str().unwrap()));
        assert!(trace["otherData"].is_object());
        let mut named = Vec::new();
        let mut calls = 0;
        for event in trace["traceEvents"].as_array().unwrap() {
            assert!(event["pid"].is_u64() && event["tid"].is_u64(), "{event}");
            assert!(event["name"].is_string() && event["args"].is_object(), "{event}");
            match event["ph"].as_str().unwrap() {
                "M" => match event["name"].as_str().unwrap() {
                    "process_name" => {
                        assert!(event["args"]["name"].is_string(), "{event}");
                        named.push(event["pid"].as_u64().unwrap());
                    }
                    "thread_name" => assert!(event["args"]["name"].is_string(), "{event}"),
                    "process_sort_index" => assert!(event["args"]["sort_index"].is_u64()),
                    other => panic!("metadata {other}"),
                },
                "X" => {
                    let interval = &profile.timeline.intervals[calls];
                    let of = |name: &str| event[name].as_f64().unwrap();
                    assert!((of("ts") - interval.start_ns as f64 / 1000.0).abs() < 1e-6);
                    let length = (interval.end_ns - interval.start_ns) as f64;
                    assert!((of("dur") - length / 1000.0).abs() < 1e-6 && of("dur") >= 0.0);
                    assert!(named.contains(&event["pid"].as_u64().unwrap()), "{event}");
                    assert_eq!(event["args"]["bytes"], interval.bytes);
                    assert_eq!(event["args"]["peer"].as_u64(), interval.peer.map(u64::from));
                    assert!(event["cat"] == "mpi" && event["args"]["site"].is_string());
                    calls += 1;
                }
                other => panic!("phase {other}"),
            }
        }
        assert_eq!(calls, profile.timeline.intervals.len(), "{name}");
        let ranks: Vec<u64> = profile.ranks.iter().map(|rank| rank.rank.into()).collect();
        assert_eq!(named, ranks, "{name}");
    }
}

#[test]
fn a_browser_shows_the_page_from_the_file_alone() {
    let Some(browser) = browser() else {
        eprintln!("skipped: there is no chromium here (apt-get install chromium)");
        return;
    };
    for (name, profile) in PAGES {
        let (_folder, directory) = directory_for(name);
        write(&profile(), &directory, &ResultOrigin::without_messages()).unwrap();
        let (document, console) = open(browser, &directory.join(PAGE));
        assert_eq!(console, "", "{name}");
        let html = document.split_once('>').unwrap().1;
        let html = html.split_once('>').map_or(html, |(root, _)| root);
        let timeline = if name == "empty" { "none" } else { "drawn" };
        for attribute in ["data-errors=\"0\"".to_owned(), format!("data-timeline=\"{timeline}\"")] {
            assert!(html.contains(&attribute), "{name}, {attribute}: {html}");
        }
        let charts = if name == "empty" { 1 } else { 6 };
        let drawn = document.split("<svg").skip(1).filter(|svg| {
            svg.split_once("</svg>").is_some_and(|(svg, _)| {
                svg.contains("<path fill=") || svg.contains("<path style=\"fill")
            })
        });
        assert!(drawn.count() >= charts, "{name}");
        // The script made the headings of tables into buttons.
        assert!(name == "empty" || document.contains("<button type=\"button\">call</button>"));
    }
}

/// Acts as a reader would, and leaves what came of it in an attribute.
const READER: &str = r##"<script>
const seen = {};
const text = (selector) => document.querySelector(selector).textContent;
const press = (key) =>
  canvas_.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
const point = (target, x, y) => {
  const box = target.getBoundingClientRect();
  target.dispatchEvent(new PointerEvent("pointermove",
    { clientX: box.left + x, clientY: box.top + y, bubbles: true }));
  return text("#tip");
};
const canvas_ = document.getElementById("canvas");
const column = [...document.querySelectorAll("#calls th button")]
  .find((button) => button.textContent === "sent");
column.click();
seen.most = text("#calls tbody td");
column.click();
seen.least = text("#calls tbody td");
seen.sorted = column.parentElement.getAttribute("aria-sort");
filter.value = "Exchange solver";
filter.dispatchEvent(new Event("input"));
seen.filtered = text("#filtered");
seen.tip = point(document.querySelector("#ranks .hit"), 5, 5);
const map = document.querySelector(".heat .empty");
const cell = map.getBoundingClientRect().width / 16;
seen.cell = point(map, 1.5 * cell, 0.5 * cell);
seen.call = point(canvas_, 300, 40);
seen.whole = text("#window");
canvas_.focus();
press("+");
seen.zoomed = text("#window");
canvas_.dispatchEvent(new WheelEvent("wheel", { deltaY: -400, bubbles: true, cancelable: true }));
seen.wheel = text("#window");
press("]");
seen.ranks = text("#window");
press("Home");
seen.home = text("#window");
document.documentElement.dataset.seen = encodeURIComponent(JSON.stringify(seen));
</script>"##;

#[test]
fn tables_sort_and_the_time_line_zooms() {
    let Some(browser) = browser() else {
        eprintln!("skipped: there is no chromium here (apt-get install chromium)");
        return;
    };
    let (_folder, directory) = directory_for("acted-on");
    write(&generated(16, 24), &directory, &ResultOrigin::without_messages()).unwrap();
    let path = directory.join(PAGE);
    let page = fs::read_to_string(&path).unwrap();
    fs::write(&path, page.replace("</body>", &format!("{READER}</body>"))).unwrap();
    let (document, console) = open(browser, &directory.join(PAGE));
    assert_eq!(console, "");
    let (_, seen) = document.split_once("data-seen=\"").expect("the reader's attribute");
    let (seen, _) = seen.split_once('"').unwrap();
    let seen: Value = serde_json::from_str(&decoded(seen)).unwrap();
    let of = |name: &str| seen[name].as_str().unwrap();
    assert_eq!((of("most"), of("sorted")), ("MPI_Isend", "ascending"));
    assert!(["MPI_Waitall", "MPI_Irecv"].contains(&of("least")), "{seen}");
    assert_eq!(of("filtered"), "3 of 6");
    assert!(of("tip").starts_with("Rank 0\napplication: "), "{seen}");
    assert!(of("cell").starts_with("0 \u{2192} 1\n") && of("cell").contains(" messages, "));
    assert!(of("call").starts_with("rank 0"), "{seen}");
    assert!(of("whole").starts_with("0 to ") && of("home") == of("whole"), "{seen}");
    assert!(of("zoomed") != of("whole") && of("wheel") != of("zoomed"), "{seen}");
}

/// Undoes `encodeURIComponent`.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, more)) = rest.split_first() {
        rest = more;
        bytes.push(match first {
            b'%' => {
                let (digits, more) = rest.split_at(2);
                rest = more;
                u8::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap()
            }
            byte => *byte,
        });
    }
    String::from_utf8(bytes).unwrap()
}

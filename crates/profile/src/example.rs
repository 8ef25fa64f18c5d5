//! A small profile made by hand: four ranks on two nodes, a ring of 24 KiB messages and a reduction
//! to which rank 3 comes late. `tests/example.json` is its JSON form, `tests/example-1.json` what
//! that was in format 1.

use crate::model::{
    CallRecord, FORMAT, Language, LateArrival, Profile, ProfiledJob, ProfiledPlace, ProgramSite,
    RankPair, RankProfile, SizeCount, Timeline, TimelineInterval, Wait, size_class,
};
use crate::summary::level;

const MS: u64 = 1_000_000;
const BYTES: u64 = 24_576;

/// Name, site, calls, time of each, whether it sends data, bytes of each.
const CALLS: [(&str, u32, u64, u64, bool, u64); 4] = [
    ("MPI_Allreduce", 2, 20, 10 * MS, true, 8),
    ("MPI_Recv", 1, 100, 60_000, false, 0),
    ("MPI_Send", 0, 100, 20_000, true, BYTES),
    ("MPI_Barrier", 3, 1, 5 * MS, false, 0),
];

impl Profile {
    /// The example. Its sums: 80 reductions of 8 bytes, 400 messages of 24 KiB.
    pub fn example() -> Profile {
        let ranks: Vec<RankProfile> = (0..4).map(rank).collect();
        let mut calls: Vec<CallRecord> = (0..4).flat_map(records).collect();
        calls.sort_by(|a, b| (a.rank, &a.call, a.site).cmp(&(b.rank, &b.call, b.site)));
        Profile {
            format: FORMAT,
            job: ProfiledJob {
                command: ["mpiexec", "-n", "4", "./ring"].map(String::from).to_vec(),
                number: None,
                program: "./ring".into(),
                host: "alpha".into(),
                library: "Mica 0.1.0".into(),
                is_mica: true,
                exit_code: 0,
                started_unix_s: 1_764_000_000,
                wall_ns: 1_300 * MS,
                missing_ranks: Vec::new(),
                notes: vec!["made by hand".into()],
            },
            sites: sites(),
            calls,
            sizes: (0..4).flat_map(|from| sizes(&ranks, from)).collect(),
            matrix: (0..4).map(pair).collect(),
            files: Vec::new(),
            late: vec![LateArrival {
                call: "MPI_Allreduce".into(),
                site: 2,
                rank: 3,
                times: 18,
                behind_ns: 900 * MS,
                wait_ns: 2_700 * MS,
            }],
            waits: Some((0..4).flat_map(waits).collect()),
            timeline: Timeline {
                origin_ns: 5_000 * MS,
                intervals: (0..4).flat_map(intervals).collect(),
                dropped: 404,
            },
            ranks,
        }
    }
}

fn rank(rank: u32) -> RankProfile {
    RankProfile {
        rank,
        host: ["alpha", "beta"][rank as usize / 2].into(),
        node: rank / 2,
        pid: 1000 + rank,
        // The ranks of node 0 share a cache; those of node 1 are not bound.
        place: (rank < 2).then_some(ProfiledPlace { cpu: rank, core: rank, cache: 0, package: 0 }),
        app_ns: 1_200 * MS,
        mpi_ns: CALLS.iter().map(|(_, _, count, each, ..)| count * each).sum(),
        finalized: true,
        start_ns: 0,
        ended: None,
    }
}

fn records(rank: u32) -> Vec<CallRecord> {
    let record = |&(call, site, count, each, sends, bytes): &(&str, u32, u64, u64, bool, u64)| {
        let mut durations = vec![0; each.ilog2() as usize + 1];
        durations[each.ilog2() as usize] = count;
        CallRecord {
            rank,
            call: call.into(),
            site,
            count,
            time_ns: count * each,
            min_ns: each,
            max_ns: each,
            durations,
            sends: if sends { count } else { 0 },
            bytes: count * bytes,
            comm_size: 4,
        }
    };
    CALLS.iter().map(record).collect()
}

fn sites() -> Vec<ProgramSite> {
    let site = |function: &str, line, offset| ProgramSite {
        object: "/home/user/ring".into(),
        offset,
        function: Some(function.into()),
        file: Some("/home/user/ring.c".into()),
        line: Some(line),
        ..ProgramSite::default()
    };
    let python = ProgramSite {
        object: "/home/user/check.py".into(),
        file: Some("/home/user/check.py".into()),
        language: Language::Python,
        ..site("check", 7, 0)
    };
    let [send, receive] = [(21, 0x1190), (22, 0x11b4)].map(|(line, at)| site("pass_on", line, at));
    vec![send, receive, site("main", 40, 0x1288), python]
}

fn sizes(ranks: &[RankProfile], from: u32) -> [SizeCount; 2] {
    let to = &ranks[(from as usize + 1) % 4];
    let size = |call: &str, level, bytes, messages| SizeCount {
        rank: from,
        call: call.into(),
        level,
        class: size_class(bytes),
        messages,
        bytes: messages * bytes,
    };
    [
        size("MPI_Allreduce", None, 8, 20),
        size("MPI_Send", Some(level(&ranks[from as usize], to)), BYTES, 100),
    ]
}

fn pair(from: u32) -> RankPair {
    let to = (from + 1) % 4;
    RankPair { from, to, messages: 100, bytes: 100 * BYTES, ..RankPair::default() }
}

fn waits(rank: u32) -> [Wait; 2] {
    [("peer", 150 * MS), ("copy", 40 * MS)].map(|(reason, ns)| Wait {
        rank,
        reason: reason.into(),
        ns,
    })
}

fn intervals(rank: u32) -> Vec<TimelineInterval> {
    let interval = |start_ns, length, call: &str, site, bytes, peer| TimelineInterval {
        rank,
        start_ns,
        end_ns: start_ns + length,
        call: call.into(),
        site,
        bytes,
        peer,
        ..TimelineInterval::default()
    };
    let mut intervals = Vec::new();
    for step in 0..5 {
        let start = step * 60 * MS;
        let (to, from) = ((rank + 1) % 4, (rank + 3) % 4);
        intervals.push(interval(start, 20_000, "MPI_Send", 0, BYTES, Some(to)));
        intervals.push(interval(start + 20_000, 60_000, "MPI_Recv", 1, 0, Some(from)));
        // Rank 3 comes 50 ms later than the others.
        let late = if rank == 3 { 50 * MS } else { 0 };
        let arrival = start + MS + late;
        intervals.push(interval(arrival, 51 * MS - late, "MPI_Allreduce", 2, 8, None));
    }
    intervals
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_form_is_kept() {
        let text = include_str!("../tests/example.json");
        assert!(Profile::parse(text) == Ok(Profile::example()));
        // What is compressed may be so in other ways.
        let rest = |text: &str| {
            let mut profile: serde_json::Value = serde_json::from_str(text).expect("JSON");
            profile["timeline"]["columns"] = "".into();
            profile
        };
        assert_eq!(rest(&Profile::example().to_json()), rest(text));
    }

    #[test]
    fn format_1_is_read() {
        let text = include_str!("../tests/example-1.json");
        let mut profile = Profile::example();
        profile.format = 1;
        profile.job.program.clear();
        assert!(Profile::parse(text) == Ok(profile));
    }
}

//! Makes one profile of the records of all ranks.

use std::collections::{BTreeMap, BTreeSet};

use mica_node::ranges::ranges;
use mica_profile::model::FORMAT;
use mica_profile::summary::level;
use mica_profile::{
    CallRecord, FileRecord, MessageEnvelope, Profile, ProfiledJob, ProgramSite, RankPair,
    RankProfile, SizeCount, Timeline, TimelineInterval, Wait,
};
use mica_symbols::Symbolizer;

use super::late;
use super::records::{RankRecords, RecordedSite, SiteCalls};
use super::symbols::resolve;
use super::text::place;

/// The sites of all ranks, each once.
struct Sites {
    all: Vec<ProgramSite>,
    /// By rank and the number in its records.
    index: BTreeMap<(u32, u64), u32>,
}

/// The profile of the job. `ranks` has one record at least.
pub fn merge(mut job: ProfiledJob, ranks: Vec<RankRecords>) -> Profile {
    let sites = Sites::of(&ranks);
    describe(&mut job, &ranks);
    let profiles = profiles(&job, &ranks, &sites);
    describe_ends(&mut job, &profiles);
    let one_clock = ranks.windows(2).all(|pair| pair[0].facts.boot == pair[1].facts.boot);
    let late = match one_clock {
        true => late::arrivals(&ranks, |rank, site| sites.index(rank, site)),
        false => {
            job.notes.push("late arrivals: not known, the ranks' clocks differ".into());
            Vec::new()
        }
    };
    Profile {
        format: FORMAT,
        calls: calls(&ranks, &sites),
        sizes: sizes(&ranks, &profiles),
        matrix: matrix(&ranks),
        files: files(&ranks),
        late,
        waits: waits(&ranks),
        timeline: timeline(&ranks, &sites),
        sites: sites.all,
        ranks: profiles,
        job,
    }
}

/// Why each rank's library waited; `None` if no library counts it.
fn waits(ranks: &[RankRecords]) -> Option<Vec<Wait>> {
    let of = |records: &RankRecords| {
        let rank = records.facts.rank;
        let wait = move |(reason, ns): (&String, &u64)| Wait {
            rank,
            reason: reason.replace('_', " "),
            ns: *ns,
        };
        records.facts.waits.iter().map(wait).collect::<Vec<_>>()
    };
    let all: Vec<Wait> = ranks.iter().flat_map(of).collect();
    (!all.is_empty()).then_some(all)
}

/// Fills what the ranks know of the job.
fn describe(job: &mut ProfiledJob, ranks: &[RankRecords]) {
    let first = &ranks[0].facts;
    job.library = first.library.clone();
    job.is_mica = first.library.starts_with("Mica ");
    job.program = first.program.clone();
    let present: BTreeSet<u32> = ranks.iter().map(|rank| rank.facts.rank).collect();
    job.missing_ranks = (0..first.size).filter(|rank| !present.contains(rank)).collect();
    if !job.is_mica {
        job.notes.push(format!("the MPI library is not Mica but {}", first.library));
    }
    let kept = ranks.iter().any(|rank| !rank.spans.is_empty());
    let spans: u64 = ranks.iter().map(|rank| rank.dropped_spans).sum();
    if spans > 0 && kept {
        job.notes
            .push(format!("time line: {spans} short calls were not kept one by one (--spans)"));
    }
    for rank in ranks {
        if let Some(reason) = &rank.facts.stopped {
            job.notes.push(format!("rank {}: no room for more records: {reason}", rank.facts.rank));
        }
    }
    let arrivals: u64 = ranks.iter().map(|rank| rank.dropped_arrivals).sum();
    if arrivals > 0 {
        job.notes.push(format!("late arrivals: {arrivals} later arrivals were not kept"));
    }
}

/// Notes how ranks ended that did not end well, those that ended alike together.
fn describe_ends(job: &mut ProfiledJob, ranks: &[RankProfile]) {
    let mut ends: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for rank in ranks {
        if let Some(how) = &rank.ended {
            ends.entry(how).or_default().push(rank.rank);
        }
    }
    let mut ends: Vec<(Vec<u32>, &str)> = ends.into_iter().map(|(how, who)| (who, how)).collect();
    ends.sort();
    for (who, how) in ends {
        job.notes.push(match (&who[..], how.strip_prefix("was ")) {
            ([rank], _) => format!("rank {rank} {how}"),
            (_, Some(what)) => format!("ranks {} were {what}", ranges(who)),
            (_, None) => format!("ranks {} {how}", ranges(who)),
        });
    }
}

/// How a rank ended, and in which call.
fn end_of(records: &RankRecords, sites: &Sites) -> Option<String> {
    let mut how = records.ended.clone()?;
    for call in &records.unfinished {
        let site = sites.index(records.facts.rank, call.site);
        let place = place(&sites.all[site as usize]);
        how += &format!(", in {} at {place}", call.name);
    }
    Some(how)
}

/// One for each rank of the job; those that left no record are empty.
fn profiles(job: &ProfiledJob, ranks: &[RankRecords], sites: &Sites) -> Vec<RankProfile> {
    let origins = origins(ranks);
    let mut nodes: Vec<(&str, &str)> = Vec::new();
    let mut profiles = Vec::new();
    for records in ranks {
        let facts = &records.facts;
        let key = (facts.boot.as_str(), facts.processor.as_str());
        let node = nodes.iter().position(|node| *node == key).unwrap_or_else(|| {
            nodes.push(key);
            nodes.len() - 1
        });
        profiles.push(RankProfile {
            rank: facts.rank,
            host: facts.host.clone(),
            node: node as u32,
            pid: facts.pid,
            place: facts.place,
            app_ns: records.app_ns,
            mpi_ns: records.mpi_ns,
            finalized: records.finalized,
            start_ns: facts.start_ns.saturating_sub(origins[facts.boot.as_str()]),
            ended: end_of(records, sites),
        });
    }
    profiles.extend(job.missing_ranks.iter().map(|&rank| RankProfile {
        rank,
        host: "?".into(),
        ..RankProfile::default()
    }));
    profiles.sort_by_key(|rank| rank.rank);
    profiles
}

impl Sites {
    fn of(ranks: &[RankRecords]) -> Sites {
        // The same place in the program has another address in each rank.
        let distinct: BTreeSet<&RecordedSite> =
            ranks.iter().flat_map(|rank| rank.facts.sites.values()).collect();
        let order: Vec<&RecordedSite> = distinct.into_iter().collect();
        let mut symbols = Symbolizer::default();
        let mut all: Vec<ProgramSite> =
            order.iter().map(|site| resolve(&mut symbols, site)).collect();
        let mut index = BTreeMap::new();
        for rank in ranks {
            for (number, site) in &rank.facts.sites {
                let found = order.binary_search(&site).expect("all were collected");
                index.insert((rank.facts.rank, *number), found as u32);
            }
        }
        // Calls whose site is not in the records get this one.
        all.push(ProgramSite { object: "?".into(), ..ProgramSite::default() });
        Sites { all, index }
    }

    fn index(&self, rank: u32, site: u64) -> u32 {
        let unknown = self.all.len() as u32 - 1;
        self.index.get(&(rank, site)).copied().unwrap_or(unknown)
    }
}

fn calls(ranks: &[RankRecords], sites: &Sites) -> Vec<CallRecord> {
    let mut calls: BTreeMap<(u32, &str, u32), CallRecord> = BTreeMap::new();
    for rank in ranks {
        // Threads of a rank have records of their own.
        for call in &rank.calls {
            let site = sites.index(rank.facts.rank, call.site);
            let entry =
                calls.entry((rank.facts.rank, &call.name, site)).or_insert_with(|| CallRecord {
                    rank: rank.facts.rank,
                    call: call.name.clone(),
                    site,
                    min_ns: u64::MAX,
                    ..CallRecord::default()
                });
            add(entry, call);
        }
    }
    calls.into_values().collect()
}

fn add(entry: &mut CallRecord, call: &SiteCalls) {
    entry.count += call.count;
    entry.time_ns += call.time_ns;
    entry.min_ns = entry.min_ns.min(call.min_ns);
    entry.max_ns = entry.max_ns.max(call.max_ns);
    entry.sends += call.sends;
    entry.bytes += call.bytes;
    entry.comm_size = entry.comm_size.max(call.comm_size);
    let length = entry.durations.len().max(call.durations.len());
    entry.durations.resize(length, 0);
    for (sum, count) in entry.durations.iter_mut().zip(&call.durations) {
        *sum += count;
    }
}

fn sizes(ranks: &[RankRecords], profiles: &[RankProfile]) -> Vec<SizeCount> {
    let mut sizes: BTreeMap<_, SizeCount> = BTreeMap::new();
    for rank in ranks {
        let own = &profiles[rank.facts.rank as usize];
        for message in &rank.messages {
            let peer = message.peer.and_then(|peer| profiles.get(peer as usize));
            let level = peer.map(|peer| level(own, peer));
            let key = (rank.facts.rank, &message.name, level, message.class);
            let entry = sizes.entry(key).or_insert_with(|| SizeCount {
                rank: rank.facts.rank,
                call: message.name.clone(),
                level,
                class: message.class,
                ..SizeCount::default()
            });
            entry.messages += message.messages;
            entry.bytes += message.bytes;
        }
    }
    sizes.into_values().collect()
}

fn matrix(ranks: &[RankRecords]) -> Vec<RankPair> {
    let mut pairs: BTreeMap<(u32, u32), RankPair> = BTreeMap::new();
    let pair = |from, to| RankPair { from, to, ..RankPair::default() };
    for rank in ranks {
        let from = rank.facts.rank;
        for message in &rank.messages {
            if let Some(to) = message.peer.filter(|to| *to < rank.facts.size) {
                let entry = pairs.entry((from, to)).or_insert_with(|| pair(from, to));
                entry.messages += message.messages;
                entry.bytes += message.bytes;
            }
        }
        for block in rank.blocks.iter().filter(|block| block.peer < rank.facts.size) {
            let to = block.peer;
            let entry = pairs.entry((from, to)).or_insert_with(|| pair(from, to));
            entry.collective_messages += block.messages;
            entry.collective_bytes += block.bytes;
        }
    }
    pairs.into_values().collect()
}

fn files(ranks: &[RankRecords]) -> Vec<FileRecord> {
    let mut files: BTreeMap<_, FileRecord> = BTreeMap::new();
    for rank in ranks {
        for calls in &rank.files {
            let key = (rank.facts.rank, &calls.file, &calls.name, calls.class);
            let entry = files.entry(key).or_insert_with(|| FileRecord {
                rank: rank.facts.rank,
                file: calls.file.clone(),
                call: calls.name.clone(),
                class: calls.class,
                ..FileRecord::default()
            });
            entry.calls += calls.totals.calls;
            entry.bytes += calls.totals.bytes;
            entry.time_ns += calls.totals.time_ns;
            entry.following += calls.totals.following;
        }
    }
    files.into_values().collect()
}

/// The first start of a rank, by kernel.
fn origins(ranks: &[RankRecords]) -> BTreeMap<&str, u64> {
    let mut origins: BTreeMap<&str, u64> = BTreeMap::new();
    for rank in ranks {
        let origin = origins.entry(&rank.facts.boot).or_insert(rank.facts.start_ns);
        *origin = rank.facts.start_ns.min(*origin);
    }
    origins
}

/// The intervals of all ranks from one origin; where clocks differ, from the first start of each.
fn timeline(ranks: &[RankRecords], sites: &Sites) -> Timeline {
    let origins = origins(ranks);
    let mut numbers: BTreeMap<u64, u32> = BTreeMap::new();
    let mut intervals = Vec::new();
    for rank in ranks {
        let origin = origins[rank.facts.boot.as_str()];
        intervals.extend(rank.spans.iter().map(|span| TimelineInterval {
            rank: rank.facts.rank,
            thread: span.thread,
            start_ns: span.start_ns.saturating_sub(origin),
            end_ns: span.end_ns.max(span.start_ns).saturating_sub(origin),
            call: span.name.clone(),
            site: sites.index(rank.facts.rank, span.site),
            bytes: span.bytes,
            peer: span.peer,
            envelope: span.envelope.map(|envelope| {
                let next = numbers.len() as u32;
                MessageEnvelope {
                    comm: *numbers.entry(envelope.comm).or_insert(next),
                    tag: envelope.tag,
                    receive_tag: envelope.receive_tag,
                }
            }),
            joined: span.joined,
        }));
    }
    intervals.sort_by_key(|interval| (interval.rank, interval.start_ns));
    Timeline {
        origin_ns: origins[ranks[0].facts.boot.as_str()],
        intervals,
        dropped: ranks.iter().map(|rank| rank.dropped_spans).sum(),
    }
}

//! Takes the calls out of a rank's tables, with names and times that others can compare.

use mica_profile::JoinedCalls;
use mica_profile::rank_tables::{
    ArrivalEntry, COLLECTIVE, CallTotals, InterruptedCall, NO_RANK, SpanEntry, SpanKind,
    ThreadTables,
};

use super::facts::{LoadedRange, RankFacts, RecordedSite};
use super::jobs::EndedRecords;
use super::rank::{
    RankRecords, RecordedArrival, RecordedBlock, RecordedEnvelope, RecordedFileCalls,
    RecordedMessage, RecordedSpan, SiteCalls, UnfinishedCall,
};

/// The call that stops recording.
const PAUSE: &str = "MPI_Pcontrol";

/// The records of a rank.
pub fn records(rank: EndedRecords) -> RankRecords {
    let EndedRecords { facts, tables, end_ns, finalized, ended } = rank;
    let clock = tables.clock;
    let app_ns = end_ns.saturating_sub(facts.start_ns);
    let mut records =
        RankRecords { facts: facts.clone(), app_ns, finalized, ended, ..Default::default() };
    for thread in &tables.threads {
        let reader = ThreadReader { facts: &facts, thread, ns: &|ticks| clock.ns(ticks) };
        reader.read(&mut records);
        if !finalized && let Some(call) = thread.running {
            reader.unfinished(call, end_ns, &mut records);
        }
    }
    if let Some(ticks) = tables.paused {
        let start_ns = clock.ns(ticks);
        records.spans.push(RecordedSpan {
            start_ns,
            end_ns: end_ns.max(start_ns),
            name: PAUSE.into(),
            joined: Some(JoinedCalls { calls: 0, busy_ns: 0 }),
            ..RecordedSpan::default()
        });
    }
    records
}

struct ThreadReader<'a> {
    facts: &'a RankFacts,
    thread: &'a ThreadTables,
    /// From ticks.
    ns: &'a dyn Fn(u64) -> u64,
}

impl ThreadReader<'_> {
    fn name(&self, call: u16) -> String {
        self.facts.calls.get(usize::from(call)).cloned().unwrap_or_else(|| "?".into())
    }

    fn read(&self, records: &mut RankRecords) {
        let thread = self.thread;
        records.mpi_ns += thread.mpi_ns;
        records.dropped_arrivals += thread.dropped_arrivals;
        records.dropped_spans += thread.unkept_spans;
        let calls = thread.calls.iter().filter(|(_, totals)| totals.count > 0);
        records.calls.extend(calls.map(|(key, totals)| self.call(*key, totals)));
        records.messages.extend(thread.messages.iter().map(|(key, amount)| RecordedMessage {
            name: self.name((key[0] >> 8) as u16),
            peer: (key[1] != COLLECTIVE).then_some(key[1] as u32),
            class: key[0] as u8,
            messages: amount.messages,
            bytes: amount.bytes,
        }));
        records.files.extend(thread.files.iter().filter_map(|(key, totals)| {
            Some(RecordedFileCalls {
                file: self.facts.files.get(&key[0])?.clone(),
                name: self.name((key[1] >> 8) as u16),
                class: key[1] as u8,
                totals: *totals,
            })
        }));
        let to_one = thread.blocks.iter().map(|(key, amount)| (key[0] as u32, amount));
        let to_all = thread.group_blocks.iter().flat_map(|(key, amount)| {
            let members = self.facts.groups.get(&key[0]).into_iter().flatten();
            members.map(move |peer| (*peer, amount))
        });
        let others = to_one.chain(to_all).filter(|(peer, _)| *peer != self.facts.rank);
        records.blocks.extend(others.map(|(peer, amount)| RecordedBlock {
            peer,
            messages: amount.messages,
            bytes: amount.bytes,
        }));
        records.arrivals.extend(thread.arrivals.iter().filter_map(|entry| self.arrival(entry)));
        for span in thread.spans.iter().filter_map(|entry| self.span(entry)) {
            records.dropped_spans += span.joined.map_or(0, |joined| joined.calls);
            records.spans.push(span);
        }
    }

    fn call(&self, key: [u64; 2], totals: &CallTotals) -> SiteCalls {
        let used = totals.durations.iter().rposition(|count| *count != 0).map_or(0, |at| at + 1);
        SiteCalls {
            name: self.name(key[0] as u16),
            site: key[1],
            count: totals.count,
            time_ns: totals.time_ns,
            min_ns: totals.min_ns,
            max_ns: totals.max_ns,
            sends: totals.sends,
            bytes: totals.bytes,
            comm_size: totals.comm_size as u32,
            durations: totals.durations[..used].iter().map(|count| u64::from(*count)).collect(),
        }
    }

    fn arrival(&self, entry: &ArrivalEntry) -> Option<RecordedArrival> {
        Some(RecordedArrival {
            comm: entry.comm,
            size: entry.size,
            sequence: entry.sequence,
            name: self.name(entry.call as u16),
            site: entry.site,
            ns: (self.ns)(entry.start),
            left_ns: (self.ns)(entry.end),
            root: (entry.root != NO_RANK).then_some(entry.root),
            kind: entry.waiting()?,
        })
    }

    fn span(&self, entry: &SpanEntry) -> Option<RecordedSpan> {
        let kind = entry.kind()?;
        let [first, second, third] = entry.more;
        let (start_ns, end_ns) = ((self.ns)(entry.start), (self.ns)(entry.end));
        let envelope =
            |receive_tag| RecordedEnvelope { comm: first, tag: second as i32, receive_tag };
        let busy = (self.ns)(entry.start.wrapping_add(second)).saturating_sub(start_ns);
        Some(RecordedSpan {
            thread: self.thread.number,
            start_ns,
            end_ns: end_ns.max(start_ns),
            name: match kind {
                SpanKind::Paused => PAUSE.into(),
                _ => self.name(entry.call()),
            },
            site: entry.site,
            bytes: entry.bytes,
            peer: (entry.peer != NO_RANK).then_some(entry.peer),
            envelope: match kind {
                SpanKind::Tagged => Some(envelope(None)),
                SpanKind::TaggedTwice => Some(envelope(Some(third as i32))),
                _ => None,
            },
            joined: match kind {
                SpanKind::Joined => Some(JoinedCalls { calls: first, busy_ns: busy }),
                SpanKind::Paused => Some(JoinedCalls { calls: 0, busy_ns: 0 }),
                _ => None,
            },
        })
    }

    /// The call that the thread was in when the rank ended: it counts as one that ended then.
    fn unfinished(&self, call: InterruptedCall, end_ns: u64, records: &mut RankRecords) {
        let (name, site) = (self.name(call.call), call.caller);
        let start_ns = (self.ns)(call.entered);
        let time_ns = end_ns.saturating_sub(start_ns);
        let inside = |object: &&LoadedRange| (object.start..object.end).contains(&site);
        if let Some(object) = self.facts.objects.iter().find(inside) {
            let offset = site.wrapping_sub(object.base);
            let code = || RecordedSite::code(object.path.clone(), offset);
            records.facts.sites.entry(site).or_insert_with(code);
        }
        records.mpi_ns += time_ns;
        let mut durations = vec![0; (time_ns | 1).ilog2() as usize + 1];
        durations[(time_ns | 1).ilog2() as usize] = 1;
        records.calls.push(SiteCalls {
            name: name.clone(),
            site,
            count: 1,
            time_ns,
            min_ns: time_ns,
            max_ns: time_ns,
            durations,
            ..SiteCalls::default()
        });
        records.spans.push(RecordedSpan {
            thread: self.thread.number,
            start_ns,
            end_ns: end_ns.max(start_ns),
            name: name.clone(),
            site,
            ..RecordedSpan::default()
        });
        records.unfinished.push(UnfinishedCall { name, site, ns: time_ns });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mica_profile::rank_tables::RankTables;

    #[test]
    fn a_call_that_never_ended_counts_until_the_end_of_its_rank() {
        let object = LoadedRange { start: 1000, end: 2000, base: 900, path: "/x".into() };
        let facts = RankFacts {
            size: 1,
            start_ns: 100,
            calls: vec!["MPI_A".into(), "MPI_Recv".into()],
            objects: vec![object],
            ..RankFacts::default()
        };
        let mut tables = RankTables::empty();
        let running = Some(InterruptedCall { call: 1, caller: 1500, entered: 300 });
        tables.threads.push(ThreadTables { running, left: 250, mpi_ns: 50, ..Default::default() });
        let ended = Some("was killed".to_owned());
        let rank = EndedRecords { facts, tables, end_ns: 1100, finalized: false, ended };
        let records = records(rank);
        assert_eq!((records.app_ns, records.mpi_ns), (1000, 850));
        assert_eq!((records.calls[0].name.as_str(), records.calls[0].time_ns), ("MPI_Recv", 800));
        let code = RecordedSite::code("/x".into(), 600);
        assert_eq!(records.facts.sites[&1500], code);
        assert_eq!((records.spans[0].start_ns, records.spans[0].end_ns), (300, 1100));
        let call = UnfinishedCall { name: "MPI_Recv".into(), site: 1500, ns: 800 };
        assert_eq!(records.unfinished, [call]);
    }
}

//! The time line in a profile's file: columns instead of rows, compressed.
//!
//! As rows of JSON a call takes 300 bytes, here some 10. `columns` is a JSON object of arrays of
//! equal length, one for each field of an interval, compressed with zlib (RFC 1950) and written as
//! base64 (RFC 4648): the file stays one of JSON, in which all else can be read as it is. `call`
//! has indices in `calls`, `start` is the difference to the start in the row before. What a row
//! does not have is `null`.
//!
//! Files of format 1 have `intervals`, rows, instead; they can still be read.

use std::io::{Read, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::model::{JoinedCalls, MessageEnvelope, Timeline, TimelineInterval};

/// The largest object of columns that is read, in bytes: that of some 100 million calls.
const LARGEST: u64 = 4 << 30;

/// A time line as it is in a file.
#[derive(Serialize, Deserialize)]
struct TimelineForm {
    origin_ns: u64,
    dropped: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    columns: Option<String>,
    #[serde(default, skip_serializing)]
    intervals: Vec<TimelineInterval>,
}

/// The fields of all intervals.
#[derive(Default, Serialize, Deserialize)]
struct TimelineColumns {
    calls: Vec<String>,
    rank: Vec<u32>,
    thread: Vec<u32>,
    start: Vec<i64>,
    length: Vec<u64>,
    call: Vec<u32>,
    site: Vec<u32>,
    bytes: Vec<u64>,
    peer: Vec<Option<u32>>,
    comm: Vec<Option<u32>>,
    tag: Vec<Option<i32>>,
    receive_tag: Vec<Option<i32>>,
    joined: Vec<Option<u64>>,
    busy: Vec<Option<u64>>,
}

impl Serialize for Timeline {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let columns = (!self.intervals.is_empty()).then(|| compressed(&self.intervals));
        let (origin_ns, dropped) = (self.origin_ns, self.dropped);
        TimelineForm { origin_ns, dropped, columns, intervals: Vec::new() }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Timeline {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Timeline, D::Error> {
        let form = TimelineForm::deserialize(deserializer)?;
        let intervals = match form.columns {
            None => form.intervals,
            Some(text) => expanded(&text)
                .map_err(|what| D::Error::custom(format!("columns of the time line: {what}")))?,
        };
        Ok(Timeline { origin_ns: form.origin_ns, intervals, dropped: form.dropped })
    }
}

fn compressed(intervals: &[TimelineInterval]) -> String {
    let json =
        serde_json::to_vec(&TimelineColumns::of(intervals)).expect("plain data is valid JSON");
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&json).expect("a vector takes all");
    STANDARD.encode(encoder.finish().expect("a vector takes all"))
}

fn expanded(text: &str) -> Result<Vec<TimelineInterval>, String> {
    let bytes = STANDARD.decode(text).map_err(|error| format!("not base64: {error}"))?;
    let mut json = Vec::new();
    let mut decoder = ZlibDecoder::new(bytes.as_slice()).take(LARGEST);
    decoder.read_to_end(&mut json).map_err(|error| error.to_string())?;
    let columns: TimelineColumns =
        serde_json::from_slice(&json).map_err(|error| error.to_string())?;
    columns.intervals()
}

impl TimelineColumns {
    fn of(intervals: &[TimelineInterval]) -> TimelineColumns {
        let mut columns = TimelineColumns::default();
        let mut before = 0;
        for interval in intervals {
            let known = columns.calls.iter().position(|call| *call == interval.call);
            let call = known.unwrap_or_else(|| {
                columns.calls.push(interval.call.clone());
                columns.calls.len() - 1
            });
            columns.rank.push(interval.rank);
            columns.thread.push(interval.thread);
            columns.start.push(interval.start_ns.wrapping_sub(before) as i64);
            before = interval.start_ns;
            columns.length.push(interval.end_ns.saturating_sub(interval.start_ns));
            columns.call.push(call as u32);
            columns.site.push(interval.site);
            columns.bytes.push(interval.bytes);
            columns.peer.push(interval.peer);
            columns.comm.push(interval.envelope.map(|envelope| envelope.comm));
            columns.tag.push(interval.envelope.map(|envelope| envelope.tag));
            let receive = |envelope: MessageEnvelope| envelope.receive_tag;
            columns.receive_tag.push(interval.envelope.and_then(receive));
            columns.joined.push(interval.joined.map(|joined| joined.calls));
            columns.busy.push(interval.joined.map(|joined| joined.busy_ns));
        }
        columns
    }

    fn intervals(self) -> Result<Vec<TimelineInterval>, String> {
        let lengths = [
            self.thread.len(),
            self.start.len(),
            self.length.len(),
            self.call.len(),
            self.site.len(),
            self.bytes.len(),
            self.peer.len(),
            self.comm.len(),
            self.tag.len(),
            self.receive_tag.len(),
            self.joined.len(),
            self.busy.len(),
        ];
        if lengths.iter().any(|length| *length != self.rank.len()) {
            return Err("they differ in length".into());
        }
        let mut start_ns = 0u64;
        let interval = |row: usize| {
            start_ns = start_ns.wrapping_add(self.start[row] as u64);
            let call = self.calls.get(self.call[row] as usize).ok_or("a call has no name")?;
            let envelope =
                |(comm, tag)| MessageEnvelope { comm, tag, receive_tag: self.receive_tag[row] };
            let joined = |(calls, busy_ns)| JoinedCalls { calls, busy_ns };
            Ok(TimelineInterval {
                rank: self.rank[row],
                thread: self.thread[row],
                start_ns,
                end_ns: start_ns.saturating_add(self.length[row]),
                call: call.clone(),
                site: self.site[row],
                bytes: self.bytes[row],
                peer: self.peer[row],
                envelope: self.comm[row].zip(self.tag[row]).map(envelope),
                joined: self.joined[row].zip(self.busy[row]).map(joined),
            })
        };
        (0..self.rank.len()).map(interval).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Profile;

    fn intervals() -> Vec<TimelineInterval> {
        let mut intervals = Profile::example().timeline.intervals;
        intervals[1].envelope = Some(MessageEnvelope { comm: 2, tag: -2, receive_tag: None });
        intervals[2].envelope = Some(MessageEnvelope { comm: 0, tag: 7, receive_tag: Some(8) });
        intervals[3].joined = Some(JoinedCalls { calls: 12, busy_ns: 345 });
        intervals
    }

    #[test]
    fn columns_hold_what_rows_hold() {
        let timeline = Timeline { origin_ns: 5, intervals: intervals(), dropped: 12 };
        let text = serde_json::to_string(&timeline).unwrap();
        assert!(!text.contains("intervals"), "{text}");
        assert_eq!(serde_json::from_str::<Timeline>(&text).unwrap(), timeline);
        let empty = serde_json::to_string(&Timeline::default()).unwrap();
        assert_eq!(serde_json::from_str::<Timeline>(&empty).unwrap(), Timeline::default());
    }

    #[test]
    fn a_call_takes_a_few_bytes() {
        // Times without a pattern that could be compressed (a generator of pseudo-random numbers).
        let mut state = 1u64;
        let mut random = |bound: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % bound
        };
        let mut now = 0;
        let row = |_| {
            let mut interval = intervals()[1].clone();
            interval.start_ns = now + random(10_000);
            interval.end_ns = interval.start_ns + random(10_000);
            now = interval.end_ns;
            interval
        };
        let rows: Vec<TimelineInterval> = (0..10_000).map(row).collect();
        let bytes = compressed(&rows).len();
        assert!(bytes < 10_000 * 10, "{bytes} bytes of 10,000 calls");
    }

    #[test]
    fn rows_of_format_1_are_read() {
        let rows = serde_json::to_string(&intervals()).unwrap();
        let text = format!(r#"{{"origin_ns":5,"intervals":{rows},"dropped":0}}"#);
        assert_eq!(serde_json::from_str::<Timeline>(&text).unwrap().intervals, intervals());
    }

    #[test]
    fn broken_columns_are_errors() {
        let refused = |columns: &str| {
            let text = format!(r#"{{"origin_ns":0,"dropped":0,"columns":"{columns}"}}"#);
            serde_json::from_str::<Timeline>(&text).unwrap_err().to_string()
        };
        assert!(refused("a!").contains("base64"));
        assert!(refused("AAAA").contains("columns of the time line"));
        let mut columns = TimelineColumns::of(&intervals());
        columns.call[0] = 99;
        assert_eq!(columns.intervals(), Err("a call has no name".to_owned()));
        let mut columns = TimelineColumns::of(&intervals());
        columns.site.pop();
        assert_eq!(columns.intervals(), Err("they differ in length".to_owned()));
    }
}

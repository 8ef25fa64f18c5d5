//! The time line's data for the page's script, bounded.
//!
//! If there are more intervals than [`BUDGET`], calls of one thread that are shorter than a limit
//! and follow one another with gaps of at most a quarter of it become one bar, which knows how many
//! they were and how long they took; longer calls stay as they are. A bar ends at eight limits. The
//! limit is the smallest, by doubling, that keeps the budget. (Parts of equal length instead of
//! gaps would show beats where the program has a period.) The page says what was merged;
//! `trace.json` has every interval.
//!
//! The script reads arrays of numbers by lane (a thread of a rank), with starts as differences.

use std::collections::{BTreeMap, BTreeSet};

use mica_profile::TimelineInterval;
use serde_json::{Value, json};

use super::section::{Section, figure};
use super::time::duration;
use super::view::ProfileView;
use crate::draw::page::{Cell, DataTable, columns};
use crate::draw::text::{count, time, volume};

/// Bars on the page: about 35 bytes each.
pub const BUDGET: usize = 80_000;
/// Rows of the table of the longest calls.
const LONGEST: usize = 50;
const NS: f64 = 1e-9;

/// One bar: a call, or several short ones.
#[derive(Debug, Clone, PartialEq)]
struct TimelineBar<'a> {
    start: u64,
    end: u64,
    /// The call, or the one that took longest of several.
    longest: &'a TimelineInterval,
    calls: u64,
    /// Time in the calls: less than `end - start` where there are gaps between them.
    busy: u64,
    bytes: u64,
    /// Some of it was not recorded call by call, or not at all.
    hatched: bool,
}

impl<'a> TimelineBar<'a> {
    fn of(interval: &'a TimelineInterval) -> TimelineBar<'a> {
        let (calls, busy) = calls_of(interval);
        TimelineBar {
            start: interval.start_ns,
            end: interval.end_ns.max(interval.start_ns),
            longest: interval,
            calls,
            busy,
            bytes: interval.bytes,
            hatched: interval.joined.is_some(),
        }
    }

    fn add(&mut self, interval: &'a TimelineInterval) {
        self.end = self.end.max(interval.end_ns);
        if length(interval) > length(self.longest) {
            self.longest = interval;
        }
        let (calls, busy) = calls_of(interval);
        self.calls += calls;
        self.busy += busy;
        self.bytes += interval.bytes;
        self.hatched |= interval.joined.is_some();
    }
}

fn length(interval: &TimelineInterval) -> u64 {
    interval.end_ns.saturating_sub(interval.start_ns)
}

/// The calls that an interval stands for, and the time in them.
fn calls_of(interval: &TimelineInterval) -> (u64, u64) {
    interval.joined.map_or((1, length(interval)), |joined| (joined.calls, joined.busy_ns))
}

/// Threads of ranks with their intervals, by start.
type Lanes<'a> = BTreeMap<(u32, u32), Vec<&'a TimelineInterval>>;

/// What is drawn.
pub struct Drawn<'a> {
    lanes: BTreeMap<(u32, u32), Vec<TimelineBar<'a>>>,
    span: u64,
    /// Calls shorter than this may be merged; 0 if none was.
    limit: u64,
}

impl<'a> Drawn<'a> {
    pub fn new(view: &ProfileView<'a>, budget: usize) -> Drawn<'a> {
        let intervals = &view.profile.timeline.intervals;
        let mut lanes = Lanes::new();
        for rank in &view.profile.ranks {
            lanes.insert((rank.rank, 0), Vec::new());
        }
        for interval in intervals {
            lanes.entry((interval.rank, interval.thread)).or_default().push(interval);
        }
        for lane in lanes.values_mut() {
            lane.sort_by_key(|interval| interval.start_ns);
        }
        let ends = view.profile.ranks.iter().map(|rank| rank.start_ns + rank.app_ns);
        let ends = ends.chain(intervals.iter().map(|interval| interval.end_ns));
        let span = ends.max().unwrap_or(0);
        let mut limit = 0;
        let mut drawn = merged(&lanes, limit);
        while bars(&drawn) > budget.max(lanes.len()) && limit < span * 8 {
            limit = (limit * 2).max(span / 65_536).max(1);
            drawn = merged(&lanes, limit);
        }
        Drawn { lanes: drawn, span, limit }
    }

    fn data(&self, view: &ProfileView) -> Value {
        let mut calls: Vec<&str> = Vec::new();
        let lanes = self.lanes.iter().map(|((rank, thread), bars)| {
            let mut before = 0;
            let mut flat: Vec<i64> = Vec::new();
            for bar in bars {
                let name = bar.longest.call.as_str();
                let known = calls.iter().position(|call| *call == name);
                let call = known.unwrap_or_else(|| {
                    calls.push(name);
                    calls.len() - 1
                });
                let peer = bar.longest.peer.map_or(-1, i64::from);
                let [start, length] = [bar.start - before, bar.end - bar.start];
                before = bar.start;
                let site = u64::from(bar.longest.site);
                let numbers = [start, length, call as u64, site, bar.bytes, bar.calls, bar.busy];
                flat.extend(numbers.map(|number| number as i64));
                flat.extend([peer, i64::from(bar.hatched)]);
            }
            let of = view.profile.ranks.get(*rank as usize);
            let run =
                of.map_or([0, self.span], |rank| [rank.start_ns, rank.start_ns + rank.app_ns]);
            json!({ "rank": rank, "thread": thread, "run": run, "bars": flat })
        });
        let lanes: Vec<Value> = lanes.collect();
        let used: BTreeSet<u32> =
            self.lanes.values().flatten().map(|bar| bar.longest.site).collect();
        let sites: BTreeMap<u32, String> =
            used.into_iter().map(|site| (site, view.site(site).both())).collect();
        // The colour's number is its variable's: `--c3`.
        let hue = |call: &&str| match view.call_colour(call) {
            colour if colour.len() > 7 => colour[7..8].parse::<u8>().unwrap_or(7),
            _ => 7,
        };
        json!({
            "span": self.span,
            "calls": calls,
            "hues": calls.iter().map(hue).collect::<Vec<u8>>(),
            "sites": sites,
            "lanes": lanes,
        })
    }

    fn notes(&self, view: &ProfileView) -> Option<String> {
        let timeline = &view.profile.timeline;
        let mut notes = Vec::new();
        if self.limit > 0 {
            notes.push(format!(
                "{} calls are drawn as {} bars: neighbouring calls shorter than {} are one bar, \
                 paler where there is time between them.",
                count(timeline.intervals.len() as u64),
                count(bars(&self.lanes) as u64),
                time(self.limit as f64 * NS)
            ));
        }
        let paused = |interval: &TimelineInterval| interval.joined.is_some_and(|of| of.calls == 0);
        if timeline.intervals.iter().any(paused) {
            notes.push("Hatched in grey: nothing was recorded (MPI_Pcontrol).".to_owned());
        }
        if timeline.dropped > 0 {
            notes.push(format!(
                "Hatched: {} short calls that were not kept one by one; --spans N keeps more.",
                count(timeline.dropped)
            ));
        }
        (!notes.is_empty()).then(|| notes.join(" "))
    }
}

fn bars(lanes: &BTreeMap<(u32, u32), Vec<TimelineBar>>) -> usize {
    lanes.values().map(Vec::len).sum()
}

/// Merges calls that are shorter than `limit` and follow one another.
fn merged<'a>(lanes: &Lanes<'a>, limit: u64) -> BTreeMap<(u32, u32), Vec<TimelineBar<'a>>> {
    let joins = |bar: &TimelineBar, interval: &TimelineInterval| {
        interval.start_ns.saturating_sub(bar.end) <= limit / 4
            && interval.end_ns.saturating_sub(bar.start) <= limit.saturating_mul(8)
    };
    let merge = |lane: &[&'a TimelineInterval]| {
        let mut bars: Vec<TimelineBar> = Vec::new();
        // Whether the last bar is of short calls, which others may join.
        let mut open = false;
        for interval in lane {
            let short = length(interval) < limit;
            match bars.last_mut().filter(|_| short && open) {
                Some(bar) if joins(bar, interval) => bar.add(interval),
                _ => bars.push(TimelineBar::of(interval)),
            }
            open = short;
        }
        bars
    };
    lanes.iter().map(|(key, lane)| (*key, merge(lane))).collect()
}

/// The section, and the data for the script.
pub fn section(view: &ProfileView) -> (Section, Value) {
    let drawn = Drawn::new(view, BUDGET);
    let section = Section {
        id: "timeline",
        title: "Time line",
        question: "What did each rank do when? Gaps are the application's own work. Click into it, \
                   then the wheel zooms and dragging moves; double click shows all.",
        body: match view.profile.timeline.intervals.is_empty() {
            true => "<p class=\"none\">No interval was kept.</p>".into(),
            false => body(view, &drawn),
        },
    };
    (section, drawn.data(view))
}

fn body(view: &ProfileView, drawn: &Drawn) -> String {
    let buttons = [
        ("zoom-in", "+", "Zoom in"),
        ("zoom-out", "\u{2212}", "Zoom out"),
        ("left", "\u{2190}", "Earlier"),
        ("right", "\u{2192}", "Later"),
        ("all", "All", "Show all"),
    ];
    let buttons = buttons.map(|(name, text, label)| {
        format!(
            "<button type=\"button\" data-do=\"{name}\" aria-label=\"{label}\" \
             title=\"{label}\">{text}</button>"
        )
    });
    let chart = format!(
        "{}<div class=\"tools\">{}<output id=\"window\"></output></div>\n\
         <div class=\"timeline\"><canvas id=\"canvas\" tabindex=\"0\" role=\"application\" \
         aria-label=\"Time line of {} ranks. Arrow keys move, plus and minus zoom, brackets \
         zoom the ranks, Home shows all. The longest calls are in the table below.\">\
         </canvas></div>\n\
         <p class=\"keys\">Keys: <kbd>\u{2190}</kbd> <kbd>\u{2192}</kbd> <kbd>\u{2191}</kbd> \
         <kbd>\u{2193}</kbd> move, <kbd>+</kbd> <kbd>\u{2212}</kbd> zoom time, <kbd>[</kbd> \
         <kbd>]</kbd> ranks, <kbd>Home</kbd> shows all. The same calls are in <code>{}</code> for \
         Perfetto.</p>\n",
        crate::draw::bars::legend(&view.series()),
        buttons.concat(),
        view.profile.ranks.len(),
        "trace.json"
    );
    figure(&chart, drawn.notes(view).as_deref(), &longest(view))
}

fn longest(view: &ProfileView) -> String {
    let single = view.profile.timeline.intervals.iter().filter(|of| of.joined.is_none());
    let mut intervals: Vec<&TimelineInterval> = single.collect();
    intervals.sort_by_key(|interval| std::cmp::Reverse(length(interval)));
    let row = |interval: &&TimelineInterval| {
        vec![
            Cell::number(f64::from(interval.rank), interval.rank.to_string()),
            Cell::text(&interval.call),
            Cell::text(view.site(interval.site).both()),
            duration(interval.start_ns),
            duration(length(interval)),
            Cell::number(interval.bytes as f64, volume(interval.bytes as f64)),
            Cell::text(interval.peer.map_or("\u{2013}".into(), |peer| peer.to_string())),
        ]
    };
    DataTable {
        caption: "The longest calls of the time line",
        header: columns("rank | call | where | start | duration | sent | peer"),
        rows: intervals.iter().take(LONGEST).map(row).collect(),
    }
    .html()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mica_profile::Profile;

    #[test]
    fn small_time_lines_are_kept_as_they_are() {
        let profile = Profile::example();
        let view = ProfileView::new(&profile);
        let drawn = Drawn::new(&view, BUDGET);
        assert_eq!((drawn.limit, bars(&drawn.lanes)), (0, 60));
        assert_eq!(
            drawn.notes(&view).unwrap(),
            "Hatched: 404 short calls that were not kept one by one; --spans N keeps more."
        );
    }

    #[test]
    fn what_was_not_recorded_is_hatched_and_ranks_end_where_they_ended() {
        let mut profile = Profile::example();
        profile.ranks[1].app_ns = 7;
        profile.ranks[1].start_ns = 3;
        profile.timeline.intervals[1].joined =
            Some(mica_profile::JoinedCalls { calls: 30, busy_ns: 9 });
        let view = ProfileView::new(&profile);
        let drawn = Drawn::new(&view, BUDGET);
        let bars = drawn.lanes[&(0, 0)].iter().map(|bar| (bar.calls, bar.busy, bar.hatched));
        assert_eq!(bars.take(2).collect::<Vec<_>>(), [(1, 20_000, false), (30, 9, true)]);
        let data = drawn.data(&view);
        assert_eq!(data["lanes"][1]["run"], json!([3, 10]));
        assert_eq!(
            (&data["lanes"][0]["bars"][8], &data["lanes"][0]["bars"][17]),
            (&json!(0), &json!(1))
        );
        profile.timeline.intervals[1].joined =
            Some(mica_profile::JoinedCalls { calls: 0, busy_ns: 0 });
        let view = ProfileView::new(&profile);
        let notes = Drawn::new(&view, BUDGET).notes(&view).unwrap();
        assert!(notes.contains("MPI_Pcontrol"), "{notes}");
    }

    #[test]
    fn merging_keeps_calls_time_and_long_ones() {
        let profile = Profile::example();
        let view = ProfileView::new(&profile);
        let drawn = Drawn::new(&view, 42);
        assert!(bars(&drawn.lanes) <= 42 && drawn.limit > 0);
        let all = || drawn.lanes.values().flatten();
        assert_eq!(all().map(|bar| bar.calls).sum::<u64>(), 60);
        let time: u64 = profile.timeline.intervals.iter().map(length).sum();
        assert_eq!(all().map(|bar| bar.busy).sum::<u64>(), time);
        let long = all().filter(|bar| bar.calls == 1 && bar.longest.call == "MPI_Allreduce");
        assert_eq!(long.count(), 20);
        assert!(drawn.notes(&view).unwrap().contains("60 calls are drawn as"));
    }
}

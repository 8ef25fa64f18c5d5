//! The stream prefetcher, as in Power4 and Power5 (Tendler et al. 2002; leon-2009 2.3.2).
//!
//! A miss of the L1 whose neighbour has missed not long ago starts a stream in that direction.
//! Each use of the line that a stream expects next moves it on: then the L1 gets the line after
//! it, out of the L2, and the L2 gets lines until it is `depth` ahead, out of the L3 or memory,
//! at most [`LINES_A_STEP`] at a time. Streams end at the borders of pages. A new stream takes
//! the place of the one that moved least recently.
//!
//! This file only says which lines to get; `hierarchy` gets them. A line that is on its way has an
//! entry in [`InFlight`] with the moment when it is there.

use crate::machine::PrefetchParameters;

/// Missed lines that are remembered until a neighbour misses.
const CANDIDATES: usize = 16;
/// Lines that the L2 gets when a stream moves, until it is far enough ahead.
const LINES_A_STEP: u32 = 2;
/// Lines on their way that are remembered.
const IN_FLIGHT: usize = 128;

/// What to get, now that a stream has moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StreamStep {
    /// The stream.
    pub(super) stream: usize,
    /// For the L1.
    pub(super) l1: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Stream {
    /// The line that is expected next.
    next: u64,
    /// From a line to the next, in bytes; as a number to add with wrapping.
    stride: u64,
    /// The first line that the L2 has not been asked to get.
    l2_next: u64,
    /// Lines of the L2 that are asked for ahead of `next`.
    ahead: u32,
    /// Order of its last move.
    moved: u64,
}

#[derive(Debug, Clone)]
pub(super) struct Prefetcher {
    streams: Vec<Stream>,
    room: usize,
    depth: u32,
    line: u64,
    /// Bits of an address that differ within a page; all if streams do not end at pages.
    page_mask: u64,
    candidates: [u64; CANDIDATES],
    next_candidate: usize,
    moves: u64,
}

impl Prefetcher {
    pub(super) fn new(parameters: &PrefetchParameters, line: u32) -> Prefetcher {
        Prefetcher {
            streams: Vec::new(),
            room: parameters.streams as usize,
            depth: parameters.depth,
            line: line.into(),
            page_mask: (parameters.page_kib * 1024).wrapping_sub(1),
            candidates: [0; CANDIDATES],
            next_candidate: 0,
            moves: 0,
        }
    }

    pub(super) fn is_off(&self) -> bool {
        self.room == 0
    }

    /// The program uses a line that missed the L1, or that was prefetched and not used before.
    pub(super) fn used(&mut self, line: u64) -> Option<StreamStep> {
        self.moves += 1;
        let expected = self.streams.iter().position(|s| s.next == line);
        let stream = if let Some(stream) = expected { stream } else { self.start(line)? };
        let page_mask = self.page_mask;
        let s = &mut self.streams[stream];
        s.moved = self.moves;
        s.next = line.wrapping_add(s.stride);
        s.ahead = s.ahead.saturating_sub(1);
        if s.ahead == 0 {
            s.l2_next = s.next;
        }
        let inside = (s.next ^ line) & !page_mask == 0;
        let l1 = inside.then_some(s.next);
        Some(StreamStep { stream, l1 })
    }

    /// The next line for the L2, at most [`LINES_A_STEP`] times after a step; `taken` of them so
    /// far.
    pub(super) fn l2_line(&self, stream: usize, taken: u32) -> Option<u64> {
        let s = &self.streams[stream];
        let before = s.next.wrapping_sub(s.stride);
        let inside = (s.l2_next ^ before) & !self.page_mask == 0;
        let wanted = s.ahead < self.depth && taken < LINES_A_STEP;
        (wanted && inside).then_some(s.l2_next)
    }

    /// The L2 has been asked for that line.
    pub(super) fn asked(&mut self, stream: usize) {
        let s = &mut self.streams[stream];
        s.l2_next = s.l2_next.wrapping_add(s.stride);
        s.ahead += 1;
    }

    /// A stream that this line continues from a candidate before it or after it, else the line
    /// becomes a candidate.
    fn start(&mut self, line: u64) -> Option<usize> {
        let missed = |other: u64| self.candidates.contains(&other);
        let stride = if missed(line.wrapping_sub(self.line)) {
            self.line
        } else if missed(line.wrapping_add(self.line)) {
            self.line.wrapping_neg()
        } else {
            self.candidates[self.next_candidate] = line;
            self.next_candidate = (self.next_candidate + 1) % CANDIDATES;
            return None;
        };
        let next = line.wrapping_add(stride);
        let stream = Stream { next, stride, l2_next: next, ahead: 0, moved: self.moves };
        if self.streams.len() < self.room {
            self.streams.push(stream);
            return Some(self.streams.len() - 1);
        }
        let (oldest, _) = self.streams.iter().enumerate().min_by_key(|(_, s)| s.moved)?;
        self.streams[oldest] = stream;
        Some(oldest)
    }

    pub(super) fn empty(&mut self) {
        self.streams.clear();
        self.candidates = [0; CANDIDATES];
    }
}

/// Lines on their way to a cache.
#[derive(Debug, Clone, Default)]
pub(super) struct InFlight {
    lines: Vec<(u64, u64)>,
}

impl InFlight {
    /// A line that is there from cycle `ready` on.
    pub(super) fn add(&mut self, line: u64, ready: u64, now: u64) {
        if let Some((_, known)) = self.lines.iter_mut().find(|(l, _)| *l == line) {
            *known = ready;
            return;
        }
        if self.lines.len() == IN_FLIGHT {
            self.lines.retain(|(_, ready)| *ready > now);
        }
        if self.lines.len() == IN_FLIGHT {
            self.lines.remove(0);
        }
        self.lines.push((line, ready));
    }

    /// Cycles until the line is there.
    pub(super) fn wait(&self, line: u64, now: u64) -> u64 {
        let found = self.lines.iter().find(|(l, _)| *l == line);
        found.map_or(0, |(_, ready)| ready.saturating_sub(now))
    }

    /// As [`InFlight::wait`]; the line is used and need not be remembered.
    pub(super) fn take(&mut self, line: u64, now: u64) -> u64 {
        match self.lines.iter().position(|(l, _)| *l == line) {
            Some(at) => self.lines.swap_remove(at).1.saturating_sub(now),
            None => 0,
        }
    }

    pub(super) fn empty(&mut self) {
        self.lines.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::{InFlight, Prefetcher};
    use crate::machine::PrefetchParameters;

    const LINE: u64 = 64;

    fn prefetcher(streams: u32, page_kib: u64) -> Prefetcher {
        let parameters = PrefetchParameters { streams, depth: 4, page_kib };
        Prefetcher::new(&parameters, LINE as u32)
    }

    /// The line for the L1 and those for the L2 when `line` is used.
    fn use_line(prefetcher: &mut Prefetcher, line: u64) -> Option<(Option<u64>, Vec<u64>)> {
        let step = prefetcher.used(line)?;
        let mut l2 = Vec::new();
        while let Some(next) = prefetcher.l2_line(step.stream, l2.len() as u32) {
            prefetcher.asked(step.stream);
            l2.push(next);
        }
        Some((step.l1, l2))
    }

    #[test]
    fn a_stream_starts_at_the_second_line_and_runs_ahead_two_lines_a_step() {
        let mut prefetcher = prefetcher(2, 0);
        let line = |n: u64| 0x10_0000 + n * LINE;
        assert_eq!(use_line(&mut prefetcher, line(0)), None);
        let steps: Vec<_> = (1..6).map(|n| use_line(&mut prefetcher, line(n))).collect();
        let expected = [
            (2, vec![2, 3]),
            (3, vec![4, 5]),
            (4, vec![6, 7]),
            // Four ahead of the line that is used.
            (5, vec![8]),
            (6, vec![9]),
        ];
        for (step, (l1, l2)) in steps.into_iter().zip(expected) {
            assert_eq!(step, Some((Some(line(l1)), l2.into_iter().map(line).collect())));
        }
    }

    #[test]
    fn streams_end_at_pages_in_both_directions() {
        for (start, stride) in [(0x10_1000 - 3 * LINE, LINE), (0x10_0000 + 2 * LINE, !LINE + 1)] {
            let mut prefetcher = prefetcher(2, 4);
            let line = |n: u64| start.wrapping_add(n.wrapping_mul(stride));
            use_line(&mut prefetcher, line(0));
            assert_eq!(use_line(&mut prefetcher, line(1)), Some((Some(line(2)), vec![line(2)])));
            assert_eq!(use_line(&mut prefetcher, line(2)), Some((None, vec![])));
        }
    }

    #[test]
    fn a_new_stream_takes_the_place_of_the_one_that_moved_least_recently() {
        let mut prefetcher = prefetcher(2, 0);
        let streams = [0x10_0000, 0x20_0000, 0x30_0000];
        for start in &streams[..2] {
            use_line(&mut prefetcher, *start);
            use_line(&mut prefetcher, start + LINE);
        }
        // The first moves on, so the second is replaced.
        use_line(&mut prefetcher, streams[0] + 2 * LINE);
        use_line(&mut prefetcher, streams[2]);
        use_line(&mut prefetcher, streams[2] + LINE);
        assert!(use_line(&mut prefetcher, streams[0] + 3 * LINE).is_some());
        assert!(use_line(&mut prefetcher, streams[2] + 2 * LINE).is_some());
        assert!(use_line(&mut prefetcher, streams[1] + 2 * LINE).is_none());
    }

    #[test]
    fn lines_on_their_way_are_waited_for_once() {
        let mut in_flight = InFlight::default();
        in_flight.add(64, 100, 0);
        assert_eq!(in_flight.wait(64, 40), 60);
        assert_eq!(in_flight.take(64, 90), 10);
        assert_eq!(in_flight.take(64, 90), 0);
        // Old lines give way.
        for n in 0..1000 {
            in_flight.add(n * 64, n + 10, n);
        }
        assert!(in_flight.lines.len() <= super::IN_FLIGHT);
        assert_eq!(in_flight.wait(999 * 64, 999), 10);
    }
}

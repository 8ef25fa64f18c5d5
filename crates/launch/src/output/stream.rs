//! Output of ranks that passes through this process: lines of different ranks are never mixed, as
//! long as each rank writes whole lines.
//!
//! A [`RankStream`] reads one rank's pipe and passes on whole lines. A partial line is held until
//! its end comes, but not for long: progress dots and prompts have no line end. How long depends on
//! what the rank does, see [`LineCutter::deadline`]. Bytes are never changed, and those of one rank
//! keep their order; with a label, each line begins with it, and a last line without a line end
//! gets one.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use mica_node::process::wait_readable;

use crate::options::values::pattern::{NamePattern, PatternRank};
use crate::output::OutputTarget;
use crate::output::file_writer::FileWriter;

/// Bytes of one rank's stream in flight; above this, the rank has to wait until they are written.
pub const WINDOW: usize = 256 << 10;
/// A longer line is passed on in parts, so that memory stays bounded.
const LONGEST_LINE: usize = 1 << 20;
/// A partial line is passed on when the rank has written nothing more for this time...
const QUIET: Duration = Duration::from_millis(100);
/// ... or when it has been held for this time, even if the rank still writes.
const PARTIAL_LINE_TIMEOUT: Duration = Duration::from_millis(500);
/// Limit when the rest of a line is in the rank's own buffer, and comes when that is full again or
/// flushed.
const BUFFERED: Duration = Duration::from_secs(30);
/// C libraries flush full buffers in multiples of this many bytes (`st_blksize` of a pipe).
const BLOCK: usize = 4096;

/// A pipe from one rank.
pub struct RankStream {
    pipe: Box<dyn Pipe>,
    lines: LineCutter,
    target: OutputTarget,
    /// The file that gets the text instead of the target, or in addition.
    file: Option<StreamFile>,
    /// Identifies the stream.
    pub id: u32,
    /// Its text that is not reported as written.
    pub unwritten: UnwrittenBytes,
}

/// Bytes of a stream that are in flight.
#[derive(Debug, Clone, Copy, Default)]
pub struct UnwrittenBytes {
    /// To its target.
    pub output: usize,
    /// To its file.
    pub file: usize,
}

/// A file that gets the text of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamFile {
    /// Its number ([`crate::output::file_writer`]).
    pub number: u32,
    /// The target gets the text as well.
    pub copy: bool,
}

/// The result of reading a stream.
pub struct Pumped {
    /// The text to pass on.
    pub text: Vec<u8>,
    /// Whether more can come.
    pub is_open: bool,
}

/// The read end of a pipe.
pub trait Pipe: Read + AsFd {}
impl<T: Read + AsFd> Pipe for T {}

impl RankStream {
    /// Reads a rank's `pipe` for `target`, or for a file, and puts the label, if there is one,
    /// before each line.
    pub fn new(
        id: u32,
        label: Option<LineLabel>,
        pipe: impl Pipe + 'static,
        target: OutputTarget,
        file: Option<StreamFile>,
    ) -> RankStream {
        let (pipe, lines) = (Box::new(pipe), LineCutter::new(label));
        RankStream { pipe, lines, target, file, id, unwritten: UnwrittenBytes::default() }
    }

    /// The descriptor to wait for.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }

    /// Whether there is something to read, or the end.
    pub fn is_readable(&self) -> bool {
        let ready = wait_readable(&[self.as_fd()], Some(Duration::ZERO));
        ready.is_ok_and(|ready| ready[0])
    }

    /// Where its lines go.
    pub fn target(&self) -> OutputTarget {
        self.target
    }

    /// Gives text of the stream to the thread of its file, if it has one. Returns what goes to its
    /// target.
    pub fn pass_to_file(&mut self, text: Vec<u8>, files: &mut FileWriter) -> Vec<u8> {
        match self.file {
            Some(file) if !text.is_empty() => {
                self.unwritten.file += text.len();
                let copy = if file.copy { text.clone() } else { Vec::new() };
                files.write(file.number, text, self.id);
                copy
            }
            _ => text,
        }
    }

    /// Reads the available bytes; to be called when the pipe is readable.
    pub fn pump(&mut self) -> Pumped {
        let mut buffer = [0; 65536];
        let (text, is_open) = match self.pipe.read(&mut buffer) {
            Ok(read) if read > 0 => (self.lines.push(&buffer[..read], Instant::now()), true),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => (Vec::new(), true),
            _ => (self.lines.finish(), false),
        };
        Pumped { text, is_open }
    }

    /// The rest of a stream that is not read to its end.
    pub fn rest(&mut self) -> Vec<u8> {
        self.lines.finish()
    }

    /// When a partial line is to be passed on, if there is one.
    pub fn deadline(&self) -> Option<Instant> {
        self.lines.deadline()
    }

    /// The partial line, if its deadline has passed.
    pub fn overdue(&mut self, now: Instant) -> Vec<u8> {
        if let Some(at) = self.deadline()
            && at <= now
        {
            self.lines.flush()
        } else {
            Vec::new()
        }
    }
}

/// Cuts text into lines.
struct LineCutter {
    /// What each line begins with.
    label: Option<LineLabel>,
    /// A line whose end has not come yet.
    partial: Vec<u8>,
    /// When its first bytes came, or the first that were not cut off by a full buffer.
    since: Instant,
    /// When the last bytes came.
    last: Instant,
    /// Bytes of the last read.
    read: usize,
    /// Bytes since the rank last flushed a buffer that was not full, as far as the reads show.
    burst: usize,
}

impl LineCutter {
    fn new(label: Option<LineLabel>) -> LineCutter {
        let now = Instant::now();
        LineCutter { label, partial: Vec::new(), since: now, last: now, read: 0, burst: 0 }
    }

    /// The complete lines after adding `bytes`.
    fn push(&mut self, bytes: &[u8], now: Instant) -> Vec<u8> {
        let was_flushed = !self.burst.is_multiple_of(BLOCK);
        if was_flushed && now.saturating_duration_since(self.last) >= QUIET {
            self.burst = 0;
        }
        let was_cut = self.is_cut();
        self.burst += bytes.len();
        self.read = bytes.len();
        self.last = now;
        let had_partial = !self.partial.is_empty();
        let text = match self.label.is_some() {
            true => self.push_labelled(bytes),
            false => self.push_plain(bytes),
        };
        if !had_partial || was_cut || !text.is_empty() {
            self.since = now;
        }
        text
    }

    fn push_plain(&mut self, bytes: &[u8]) -> Vec<u8> {
        let end = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let (whole, rest) = bytes.split_at(end);
        let mut text = Vec::new();
        if !whole.is_empty() {
            text.append(&mut self.partial);
            text.extend_from_slice(whole);
        }
        self.partial.extend_from_slice(rest);
        if self.partial.len() >= LONGEST_LINE {
            text.append(&mut self.partial);
        }
        text
    }

    fn push_labelled(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut text = Vec::with_capacity(bytes.len() + 64);
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            self.partial.extend_from_slice(piece);
            if piece.ends_with(b"\n") || self.partial.len() >= LONGEST_LINE {
                self.emit_labelled(&mut text);
            }
        }
        text
    }

    /// The remaining text, after the rank has closed its output.
    fn finish(&mut self) -> Vec<u8> {
        if self.label.is_none() || self.partial.is_empty() {
            return std::mem::take(&mut self.partial);
        }
        let mut text = Vec::new();
        self.emit_labelled(&mut text);
        text
    }

    /// Passes on the partial line.
    fn flush(&mut self) -> Vec<u8> {
        self.burst = 0;
        std::mem::take(&mut self.partial)
    }

    /// When the partial line is to be passed on. A rank that flushed a full buffer has cut the line
    /// unintentionally: its rest is awaited for [`BUFFERED`]. Any other part was flushed on
    /// purpose. A labelled line is only passed on whole.
    fn deadline(&self) -> Option<Instant> {
        if self.partial.is_empty() || self.label.is_some() {
            return None;
        }
        if self.is_cut() {
            return Some(self.last + BUFFERED);
        }
        Some((self.last + QUIET).min(self.since + PARTIAL_LINE_TIMEOUT))
    }

    /// Whether the rank has probably just flushed a full buffer.
    fn is_cut(&self) -> bool {
        let full = |bytes: usize| bytes > 0 && bytes.is_multiple_of(BLOCK);
        full(self.read) || full(self.burst)
    }

    fn emit_labelled(&mut self, text: &mut Vec<u8>) {
        if let Some(label) = &self.label {
            label.begin(text);
        }
        text.append(&mut self.partial);
        if !text.ends_with(b"\n") {
            text.push(b'\n');
        }
    }
}

/// The label of a rank's lines.
pub struct LineLabel {
    pattern: NamePattern,
    rank: PatternRank,
    /// The text, unless it changes.
    text: Option<String>,
}

impl LineLabel {
    /// The label of a rank.
    pub fn new(pattern: NamePattern, rank: PatternRank) -> LineLabel {
        let text = (!pattern.has_time()).then(|| pattern.fill(&rank));
        LineLabel { pattern, rank, text }
    }

    /// Appends the label for a line that is written now.
    pub fn begin(&self, line: &mut Vec<u8>) {
        match &self.text {
            Some(text) => line.extend_from_slice(text.as_bytes()),
            None => line.extend_from_slice(self.pattern.fill(&self.rank).as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(rank: u32) -> LineLabel {
        let pattern = NamePattern::parse("[%r] ").unwrap();
        let rank = crate::options::values::pattern::PatternRank {
            rank,
            size: 4,
            node: 0,
            host: String::new(),
        };
        LineLabel::new(pattern, rank)
    }

    fn push(lines: &mut LineCutter, bytes: &[u8]) -> Vec<u8> {
        lines.push(bytes, Instant::now())
    }

    #[test]
    fn lines_are_labelled_when_complete() {
        let mut lines = LineCutter::new(Some(label(3)));
        assert_eq!(push(&mut lines, b"one\ntw"), b"[3] one\n");
        assert_eq!(push(&mut lines, b"o"), b"");
        assert_eq!(lines.deadline(), None);
        assert_eq!(push(&mut lines, b"\n\nthree"), b"[3] two\n[3] \n");
        assert_eq!(lines.finish(), b"[3] three\n");
        assert_eq!(lines.finish(), b"");
    }

    #[test]
    fn plain_lines_are_passed_on_whole_and_unchanged() {
        let mut lines = LineCutter::new(None);
        assert_eq!(push(&mut lines, b"one\ntw"), b"one\n");
        assert_eq!(push(&mut lines, b"o"), b"");
        assert_eq!(push(&mut lines, b"\nthree\nfo"), b"two\nthree\n");
        assert_eq!(lines.finish(), b"fo");
        assert_eq!(lines.finish(), b"");
    }

    #[test]
    fn a_line_without_end_does_not_fill_memory() {
        for label in [None, Some(label(0))] {
            let mut lines = LineCutter::new(label);
            let piece = vec![b'x'; 65536];
            assert!((0..64).map(|_| push(&mut lines, &piece).len()).sum::<usize>() >= 3 << 20);
            assert!(lines.partial.len() < LONGEST_LINE + 65536);
        }
    }

    #[test]
    fn a_part_of_a_line_waits_for_a_quiet_moment() {
        let mut lines = LineCutter::new(None);
        let start = Instant::now();
        assert_eq!(lines.deadline(), None);
        lines.push(b"name? ", start);
        assert_eq!(lines.deadline(), Some(start + QUIET));
        // Dots that come faster are still passed on.
        for dot in 1..20 {
            lines.push(b".", start + QUIET / 2 * dot);
        }
        assert_eq!(lines.deadline(), Some(start + PARTIAL_LINE_TIMEOUT));
        assert_eq!(lines.flush().len(), 25);
        assert_eq!(lines.deadline(), None);
    }

    #[test]
    fn a_line_cut_by_a_full_buffer_waits_for_its_rest() {
        let mut lines = LineCutter::new(None);
        let start = Instant::now();
        let mut full = vec![b'x'; 2 * BLOCK];
        full[5000] = b'\n';
        assert_eq!(lines.push(&full, start).len(), 5001);
        assert_eq!(lines.deadline(), Some(start + BUFFERED));
        // Its rest comes with the next full buffer, and so on; then the program flushes.
        let later = start + Duration::from_secs(5);
        assert_eq!(lines.push(&full[..BLOCK], later), b"");
        assert_eq!(lines.deadline(), Some(later + BUFFERED));
        lines.push(b"name? ", later);
        assert_eq!(lines.deadline(), Some(later + QUIET));
    }
}

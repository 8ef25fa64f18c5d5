//! The table of ranks: its columns, what is sorted and left out, and which part is on the screen.

use std::cmp::Ordering;

use super::rows::{Activity, AwaitedPeer, CHANNEL_COUNT, CHANNEL_NAMES, JobView, RankRow};

/// A column of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Column {
    Rank,
    Pid,
    State,
    Call,
    Peer,
    Tag,
    Since,
    Cpu,
    Memory,
    Unexpected,
    Messages,
    Bytes,
    /// Bytes of a channel, by its number.
    Channel(usize),
}

impl Column {
    /// All columns, from left to right.
    pub fn all() -> impl Iterator<Item = Column> {
        let fixed = [
            Column::Rank,
            Column::Pid,
            Column::State,
            Column::Call,
            Column::Peer,
            Column::Tag,
            Column::Since,
            Column::Cpu,
            Column::Memory,
            Column::Unexpected,
            Column::Messages,
            Column::Bytes,
        ];
        fixed.into_iter().chain((0..CHANNEL_COUNT).map(Column::Channel))
    }

    /// Its title.
    pub fn title(self) -> &'static str {
        match self {
            Column::Rank => "RANK",
            Column::Pid => "PID",
            Column::State => "STATE",
            Column::Call => "CALL",
            Column::Peer => "PEER",
            Column::Tag => "TAG",
            Column::Since => "SINCE",
            Column::Cpu => "CPU%",
            Column::Memory => "RSS",
            Column::Unexpected => "UNEXP",
            Column::Messages => "MSG/s",
            Column::Bytes => "B/s",
            Column::Channel(at) => CHANNEL_NAMES[at],
        }
    }

    /// Its width on the screen.
    pub fn width(self) -> u16 {
        match self {
            Column::Rank | Column::Peer | Column::Tag | Column::Unexpected | Column::Cpu => 5,
            Column::Pid => 7,
            Column::State => 9,
            Column::Call => 18,
            Column::Since | Column::Memory | Column::Messages | Column::Bytes => 7,
            Column::Channel(_) => 6,
        }
    }

    /// Whether its cells are words.
    pub fn is_text(self) -> bool {
        matches!(self, Column::State | Column::Call)
    }

    /// The cell of a rank.
    pub fn cell(self, row: &RankRow) -> String {
        let number = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        match self {
            Column::Rank => row.rank.to_string(),
            Column::Pid => number(row.pid.map(|pid| pid.to_string())),
            Column::State => row.activity.name().to_owned(),
            Column::Call => row.call().to_owned(),
            Column::Peer => match row.peer() {
                AwaitedPeer::None => String::new(),
                AwaitedPeer::Any => "any".to_owned(),
                AwaitedPeer::Rank(rank) => rank.to_string(),
            },
            Column::Tag => row.tag().map(|tag| tag.to_string()).unwrap_or_default(),
            Column::Since => row.waiting.as_ref().map(|w| time(w.ns)).unwrap_or_default(),
            Column::Cpu => number(row.cpu.map(|cpu| format!("{cpu:.0}"))),
            Column::Memory => number(row.resident.map(|bytes| short(bytes as f64))),
            Column::Unexpected => number(row.unexpected().map(|queued| queued.to_string())),
            Column::Messages => rate(row.rate().messages),
            Column::Bytes => rate(row.rate().bytes),
            Column::Channel(at) => rate(row.rates[at].bytes),
        }
    }

    /// The column that a key sorts by.
    pub fn of_key(key: char) -> Option<Column> {
        Some(match key {
            'r' => Column::Rank,
            't' => Column::State,
            's' => Column::Since,
            'c' => Column::Cpu,
            'm' => Column::Memory,
            'u' => Column::Unexpected,
            'n' => Column::Messages,
            'b' => Column::Bytes,
            _ => return None,
        })
    }

    fn compare(self, one: &RankRow, other: &RankRow) -> Ordering {
        let by = |key: &dyn Fn(&RankRow) -> f64| key(one).total_cmp(&key(other));
        match self {
            Column::State => one.activity.cmp(&other.activity),
            Column::Since => by(&|row| row.waiting.as_ref().map_or(-1.0, |wait| wait.ns as f64)),
            Column::Unexpected => by(&|row| row.unexpected().map_or(-1.0, |queued| queued as f64)),
            Column::Cpu => by(&|row| row.cpu.unwrap_or(-1.0)),
            Column::Memory => by(&|row| row.resident.map_or(-1.0, |bytes| bytes as f64)),
            Column::Messages => by(&|row| row.rate().messages),
            Column::Bytes => by(&|row| row.rate().bytes),
            _ => one.rank.cmp(&other.rank),
        }
    }
}

/// What part of the table is shown, and in which order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableView {
    /// The column that it is sorted by.
    pub column: Column,
    /// The largest values come first.
    pub is_descending: bool,
    /// Only ranks that wait are shown.
    pub only_waiting: bool,
    /// Number of rows above the first one on the screen.
    pub offset: usize,
}

impl Default for TableView {
    fn default() -> TableView {
        TableView { column: Column::Rank, is_descending: false, only_waiting: false, offset: 0 }
    }
}

impl TableView {
    /// Sorts by a column: numbers from the largest, ranks and states from the first. By the same
    /// column again: the other way round.
    pub fn sort_by(&mut self, column: Column) {
        self.is_descending = match self.column == column {
            true => !self.is_descending,
            false => !matches!(column, Column::Rank | Column::State),
        };
        self.column = column;
    }

    /// The rows of a job that are shown, in order.
    pub fn rows<'a>(&self, job: &'a JobView) -> Vec<&'a RankRow> {
        let is_shown = |row: &&RankRow| {
            !self.only_waiting || matches!(row.activity, Activity::Waits | Activity::Polls)
        };
        let mut rows: Vec<&RankRow> = job.ranks.iter().filter(is_shown).collect();
        rows.sort_by(|one, other| {
            let order = self.column.compare(one, other);
            let order = match self.is_descending {
                true => order.reverse(),
                false => order,
            };
            order.then(one.rank.cmp(&other.rank))
        });
        rows
    }

    /// Scrolls by this many rows, and keeps the last page of `rows` rows full.
    pub fn scroll(&mut self, by: isize, rows: usize, page: usize) {
        let last = rows.saturating_sub(page);
        self.offset = self.offset.saturating_add_signed(by).min(last);
    }
}

/// A time in nanoseconds, in at most seven characters.
pub fn time(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    match seconds {
        0..60 => format!("{:.1}s", ns as f64 / 1e9),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..360_000 => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// A number in at most five characters, with decimal prefixes.
pub fn short(number: f64) -> String {
    let mut value = number;
    for prefix in ["", "k", "M", "G", "T", "P", "E"] {
        let is_last = prefix == "E";
        if value < 999.5 || is_last {
            return match prefix.is_empty() || value >= 99.5 {
                true => format!("{value:.0}{prefix}"),
                false => format!("{value:.1}{prefix}"),
            };
        }
        value /= 1000.0;
    }
    String::new()
}

/// A rate; nothing at all is a dot, so that activity stands out.
pub fn rate(number: f64) -> String {
    match number {
        0.0 => ".".to_owned(),
        _ if number < 9.95 => format!("{number:.1}"),
        _ => short(number),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::rows::tests::{receive, row};
    use super::*;

    /// A job of this many ranks; the odd ones wait.
    pub fn job(ranks: u32) -> JobView {
        let waiting = |rank: u32| {
            let mut wait = receive();
            wait.ns += u64::from(rank) * 1_000_000_000;
            (rank % 2 == 1).then_some(wait)
        };
        JobView {
            pid: 4711,
            command: "./solver -n 5".to_owned(),
            host: "here".to_owned(),
            size: ranks + 2,
            nodes: 2,
            seconds: 75.0,
            interval: 2.0,
            has_ended: false,
            ranks: (0..ranks).map(|rank| row(rank, waiting(rank))).collect(),
        }
    }

    fn ranks(view: &TableView, job: &JobView) -> Vec<u32> {
        view.rows(job).iter().map(|row| row.rank).collect()
    }

    #[test]
    fn rows_are_sorted_and_left_out() {
        let job = job(5);
        let mut view = TableView::default();
        assert_eq!(ranks(&view, &job), [0, 1, 2, 3, 4]);
        view.sort_by(Column::of_key('s').unwrap());
        assert_eq!(ranks(&view, &job), [3, 1, 0, 2, 4]);
        view.sort_by(Column::Since);
        assert_eq!(ranks(&view, &job), [0, 2, 4, 1, 3]);
        view.only_waiting = true;
        assert_eq!(ranks(&view, &job), [1, 3]);
        view.sort_by(Column::Rank);
        view.sort_by(Column::Rank);
        assert_eq!(ranks(&view, &job), [3, 1]);
        assert_eq!(Column::of_key('q'), None);
    }

    #[test]
    fn scrolling_stays_in_the_table() {
        let mut view = TableView::default();
        view.scroll(-3, 1000, 20);
        assert_eq!(view.offset, 0);
        view.scroll(30, 1000, 20);
        view.scroll(isize::MAX, 1000, 20);
        assert_eq!(view.offset, 980);
        view.scroll(0, 5, 20);
        assert_eq!(view.offset, 0, "fewer rows than before");
    }

    #[test]
    fn numbers_are_short() {
        for (number, text) in [
            (0.0, "0"),
            (999.4, "999"),
            (999.6, "1.0k"),
            (12_345.0, "12.3k"),
            (999_600.0, "1.0M"),
            (3.2e9, "3.2G"),
            (1.8e19, "18.0E"),
            (f64::MAX, ""),
        ] {
            let short = short(number);
            assert!(text.is_empty() || short == text, "{number}: {short}");
        }
        assert_eq!((rate(0.0), rate(0.25), rate(10.0)), (".".into(), "0.2".into(), "10".into()));
        for (ns, text) in [
            (0, "0.0s"),
            (59_960_000_000, "60.0s"),
            (75_000_000_000, "1m15s"),
            (7_260_000_000_000, "2h01m"),
            (u64::MAX, "213503d"),
        ] {
            assert_eq!(time(ns), text);
        }
    }
}

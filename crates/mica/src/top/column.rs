//! The columns of the table of ranks, and which of them fit on a screen.
//!
//! A cell is shown whole or not at all: where columns do not fit, the least important are left out.
//! Only a name may be cut, and ends in an ellipsis then.

use std::cmp::Ordering;

use super::number::{rate, short, time};
use super::rows::{AwaitedPeer, CHANNEL_COUNT, CHANNEL_NAMES, RankRow};

/// Characters that the names of most functions have at most.
const CALL_WIDTH: u16 = 18;

/// The columns without channels, those first that are left out last.
const BY_IMPORTANCE: [Column; 13] = [
    Column::Rank,
    Column::State,
    Column::Call,
    Column::Peer,
    Column::Since,
    Column::Cpu,
    Column::Pid,
    Column::Tag,
    Column::Memory,
    Column::Bytes,
    Column::Messages,
    Column::Files,
    Column::Unexpected,
];

/// The columns without channels from left to right, with their titles and usual widths.
const FIXED: [(Column, &str, u16); 13] = [
    (Column::Rank, "RANK", 4),
    (Column::Pid, "PID", 7),
    (Column::State, "STATE", 9),
    (Column::Call, "CALL", CALL_WIDTH),
    (Column::Peer, "PEER", 4),
    (Column::Tag, "TAG", 5),
    (Column::Since, "SINCE", 6),
    (Column::Cpu, "CPU%", 4),
    (Column::Memory, "RSS", 6),
    (Column::Unexpected, "UNEXP", 5),
    (Column::Messages, "MSG/s", 6),
    (Column::Bytes, "B/s", 6),
    (Column::Files, "FILE/s", 6),
];

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
    /// Bytes of files.
    Files,
    /// Bytes of a channel, by its number.
    Channel(usize),
}

impl Column {
    /// All columns, from left to right.
    pub fn all() -> impl Iterator<Item = Column> {
        let fixed = FIXED.into_iter().map(|(column, ..)| column);
        fixed.chain((0..CHANNEL_COUNT).map(Column::Channel))
    }

    /// Its title, and the width that it has at least: what its cells usually take, so that it
    /// rarely changes.
    fn head(self) -> (&'static str, u16) {
        let fixed = FIXED.into_iter().find(|(column, ..)| *column == self);
        match (fixed, self) {
            (_, Column::Channel(at)) => (CHANNEL_NAMES[at], 6),
            (fixed, _) => fixed.map_or(("", 0), |(_, title, width)| (title, width)),
        }
    }

    /// Its title.
    pub fn title(self) -> &'static str {
        self.head().0
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
            Column::Peer => match row.peer {
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
            Column::Files => rate(row.file_rate),
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
            'f' => Column::Files,
            _ => return None,
        })
    }

    /// The order of two ranks by it.
    pub fn compare(self, one: &RankRow, other: &RankRow) -> Ordering {
        let by = |key: &dyn Fn(&RankRow) -> f64| key(one).total_cmp(&key(other));
        match self {
            Column::State => one.activity.cmp(&other.activity),
            Column::Since => by(&|row| row.waiting.as_ref().map_or(-1.0, |wait| wait.ns as f64)),
            Column::Unexpected => by(&|row| row.unexpected().map_or(-1.0, |queued| queued as f64)),
            Column::Cpu => by(&|row| row.cpu.unwrap_or(-1.0)),
            Column::Memory => by(&|row| row.resident.map_or(-1.0, |bytes| bytes as f64)),
            Column::Messages => by(&|row| row.rate().messages),
            Column::Bytes => by(&|row| row.rate().bytes),
            Column::Files => by(&|row| row.file_rate),
            _ => one.rank.cmp(&other.rank),
        }
    }
}

/// A column on the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShownColumn {
    /// Which one.
    pub column: Column,
    /// Its width in characters.
    pub width: u16,
}

impl ShownColumn {
    /// The columns, from left to right, that fit into `width` characters with a space between two
    /// of them, where `rows` are shown. `kept` is left out last but for the rank's number.
    pub fn fitting(rows: &[&RankRow], width: u16, kept: Column) -> Vec<ShownColumn> {
        let channels = (0..CHANNEL_COUNT).map(Column::Channel);
        let mut candidates: Vec<Column> = BY_IMPORTANCE.into_iter().chain(channels).collect();
        if let Some(at) = candidates.iter().position(|&column| column == kept) {
            candidates[..=at].rotate_right(1);
        }
        let rank = candidates.iter().position(|&column| column == Column::Rank);
        candidates[..=rank.unwrap_or(0)].rotate_right(1);
        let mut chosen: Vec<ShownColumn> = Vec::new();
        let mut left = width + 1;
        for column in candidates {
            let width = match column {
                Column::Call => CALL_WIDTH,
                _ => widest(column, rows),
            };
            if width < left {
                left -= width + 1;
                chosen.push(ShownColumn { column, width });
            }
        }
        if let Some(call) = chosen.iter_mut().find(|shown| shown.column == Column::Call) {
            call.width = widest(Column::Call, rows).min(CALL_WIDTH + left);
        }
        let place = |shown: &ShownColumn| Column::all().position(|column| column == shown.column);
        chosen.sort_by_key(place);
        chosen
    }

    /// The cell of a rank, in this width.
    pub fn cell(self, row: &RankRow) -> String {
        let mut cell = self.column.cell(row);
        if cell.len() > usize::from(self.width) {
            cell.truncate(usize::from(self.width).saturating_sub(1));
            cell.push('…');
        }
        cell
    }
}

/// The width in which every cell of a column is whole.
fn widest(column: Column, rows: &[&RankRow]) -> u16 {
    let cells = rows.iter().map(|row| column.cell(row).len());
    let longest = cells.chain([column.title().len()]).max().unwrap_or(0);
    column.head().1.max(u16::try_from(longest).unwrap_or(u16::MAX - 1))
}

#[cfg(test)]
mod tests {
    use super::super::rows::tests::{receive, row};
    use super::*;

    fn columns(width: u16, kept: Column) -> Vec<Column> {
        let row = row(3, Some(receive()));
        let shown = ShownColumn::fitting(&[&row], width, kept);
        assert!(shown.iter().map(|shown| shown.width + 1).sum::<u16>() <= width + 1);
        shown.into_iter().map(|shown| shown.column).collect()
    }

    #[test]
    fn the_least_important_columns_are_left_out_first() {
        assert_eq!(columns(0, Column::Rank), []);
        assert_eq!(columns(4, Column::Rank), [Column::Rank]);
        assert_eq!(columns(14, Column::Rank), [Column::Rank, Column::State]);
        let at_80 = columns(80, Column::Rank);
        assert_eq!(at_80[..4], [Column::Rank, Column::Pid, Column::State, Column::Call]);
        assert!(at_80.contains(&Column::Memory) && !at_80.contains(&Column::Unexpected));
        assert_eq!(columns(200, Column::Rank), Column::all().collect::<Vec<_>>());
    }

    #[test]
    fn the_column_that_is_sorted_by_stays() {
        assert_eq!(columns(10, Column::Unexpected), [Column::Rank, Column::Unexpected]);
        assert!(columns(80, Column::Unexpected).contains(&Column::Unexpected));
    }

    #[test]
    fn only_names_are_cut() {
        let mut wait = receive();
        wait.call = "MPI_Intercomm_create_from_groups".to_owned();
        let row = row(3, Some(wait));
        let cell = |width| {
            let shown = ShownColumn::fitting(&[&row], width, Column::Rank);
            let call = shown.iter().find(|shown| shown.column == Column::Call).unwrap();
            call.cell(&row)
        };
        assert_eq!(cell(33), "MPI_Intercomm_cre…");
        assert_eq!(cell(200), "MPI_Intercomm_create_from_groups");
    }
}

//! Which rows of the table are shown: how they are sorted, what is left out, and which part is on
//! the screen.

use super::column::Column;
use super::rows::{Activity, JobView, RankRow};

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
            let order = if self.is_descending { order.reverse() } else { order };
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
            spawned: Vec::new(),
            ranks: (0..ranks).map(|rank| row(rank, waiting(rank))).collect(),
        }
    }

    fn ranks(view: &TableView, job: &JobView) -> Vec<u32> {
        view.rows(job).iter().map(|row| row.rank.rank).collect()
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
}

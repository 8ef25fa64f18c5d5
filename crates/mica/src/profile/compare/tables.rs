//! A [`Comparison`] as text and as Markdown. Table 1 and 5 of ma-2011 are "Application time and MPI
//! time", Tables 2 and 3 "Most used calls", Table 4 "Aggregate sent message size".

use std::fmt::Write as _;

use comfy_table::{Table, presets};

use super::super::text::{short, without_folders};
use super::{CallRow, Comparison, Side, percent};
use crate::draw::page::columns;
use crate::terminal::{align_right_but, with_header};

/// Calls in the tables of those that took longest or sent most, as in ma-2011.
const MOST_USED: usize = 5;

/// What the tables are for.
#[derive(Clone, Copy, PartialEq)]
pub enum Format {
    Text,
    Markdown,
}

impl Comparison {
    /// The tables.
    pub fn render(&self, format: Format) -> String {
        let mut text = String::new();
        let title = self.title();
        let _ = match format {
            Format::Text => writeln!(text, "Comparison of {title}\n"),
            Format::Markdown => writeln!(text, "## `{title}`\n"),
        };
        for line in self.what_ran() {
            let _ = writeln!(text, "{line}");
        }
        let mut part = |title: &str, table: &Table| {
            let _ = match format {
                Format::Text => write!(text, "\n{title}\n"),
                Format::Markdown => write!(text, "\n{title}\n\n"),
            };
            for line in table.lines() {
                let _ = writeln!(text, "{}", line.trim_end());
            }
        };
        part("Application time and MPI time (seconds, mean of the ranks)", &self.times(format));
        part("Most used calls (milliseconds of all ranks)", &self.most_used(format));
        let sent: Vec<Table> = self.sides.iter().map(|side| sent(side, format)).collect();
        let all_alike = sent.iter().all(|table| table.to_string() == sent[0].to_string());
        for (side, table) in
            self.sides.iter().zip(&sent).take(if all_alike { 1 } else { sent.len() })
        {
            match all_alike {
                true => part("Aggregate sent message size, the same on all sides", table),
                false => part(&format!("Aggregate sent message size, {}", side.name), table),
            }
        }
        text
    }

    /// The command, or the sides' names if they have different ones.
    pub(super) fn title(&self) -> String {
        let first = &self.sides[0];
        let names: Vec<&str> = self.sides.iter().map(|side| &*side.name).collect();
        let is_one = self.sides.iter().all(|side| side.command == first.command);
        if is_one { first.command.join(" ") } else { names.join(", ") }
    }

    /// What ran: one line if that was alike on all sides, else one for each.
    pub(super) fn what_ran(&self) -> Vec<String> {
        let runs = |side: &Side| match side.rounds {
            1 => "one run".to_owned(),
            rounds => format!("medians of {rounds} rounds"),
        };
        let alike = |side: &Side| {
            format!("{} ranks, {}, on {}; {}", side.ranks, side.library, side.host, runs(side))
        };
        let first = &self.sides[0];
        let is_alike = |side: &Side| alike(side) == alike(first) && side.command == first.command;
        if self.sides.iter().all(is_alike) {
            return vec![alike(first)];
        }
        let line =
            |side: &Side| format!("{}: {}; {}", side.name, side.command.join(" "), alike(side));
        self.sides.iter().map(line).collect()
    }

    fn times(&self, format: Format) -> Table {
        let header = " | App time | min - max | MPI time | min - max | MPI % | App / first";
        let mut table = table(format, columns(header), &[0]);
        let first = self.sides[0].app_s.median;
        for side in &self.sides {
            let (app, mpi) = (side.app_s, side.mpi_s);
            table.add_row([
                side.name.clone(),
                format!("{:.3}", app.median),
                format!("{:.3} - {:.3}", app.min, app.max),
                format!("{:.3}", mpi.median),
                format!("{:.3} - {:.3}", mpi.min, mpi.max),
                format!("{:.1}", side.mpi_percent),
                format!("{:.2}", percent(app.median, first) / 100.0),
            ]);
        }
        table
    }

    /// The sides beside each other, each in its own order, as the paper has it.
    fn most_used(&self, format: Format) -> Table {
        let header: Vec<String> = self
            .sides
            .iter()
            .flat_map(|side| [side.name.clone(), "Time".into(), "MPI %".into(), "Site".into()])
            .collect();
        let words = (0..header.len()).filter(|column| column % 4 == 0 || column % 4 == 3);
        let words: Vec<usize> = words.collect();
        let mut table = table(format, header, &words);
        let rows = self.sides.iter().map(|side| side.calls.len()).max().unwrap_or(0);
        for at in 0..rows.min(MOST_USED) {
            let cells = self.sides.iter().flat_map(|side| match side.calls.get(at) {
                Some(row) => used_cells(row, side),
                None => Default::default(),
            });
            table.add_row(cells);
        }
        table
    }
}

fn used_cells(row: &CallRow, side: &Side) -> [String; 4] {
    let mpi_ms = side.mpi_s.median * 1e3 * side.ranks as f64;
    [
        short(&row.call).to_owned(),
        format!("{:.3}", row.time_ms),
        format!("{:.2}", percent(row.time_ms, mpi_ms)),
        without_folders(&row.site),
    ]
}

fn sent(side: &Side, format: Format) -> Table {
    let mut table =
        table(format, columns("Call | Count | Total (bytes) | Avrg (bytes) | Sent %"), &[0]);
    let total: u64 = side.calls.iter().map(|row| row.bytes).sum();
    let mut senders: Vec<&CallRow> = side.calls.iter().filter(|row| row.sends > 0).collect();
    senders.sort_by(|a, b| (b.bytes, &a.call, &a.site).cmp(&(a.bytes, &b.call, &b.site)));
    for row in senders.into_iter().take(MOST_USED) {
        table.add_row([
            short(&row.call).to_owned(),
            row.sends.to_string(),
            row.bytes.to_string(),
            format!("{:.1}", row.bytes as f64 / row.sends as f64),
            format!("{:.2}", percent(row.bytes as f64, total as f64)),
        ]);
    }
    table
}

/// A table whose columns but these are numbers.
fn table(format: Format, header: Vec<String>, words: &[usize]) -> Table {
    let mut table = with_header(header);
    if format == Format::Markdown {
        table.load_preset(presets::ASCII_MARKDOWN);
    }
    align_right_but(&mut table, words);
    table
}

#[cfg(test)]
mod tests {
    use mica_profile::Profile;

    use super::super::summarize;
    use super::*;

    fn comparison(second: &Profile) -> Comparison {
        let sides = vec![
            summarize("as it is".into(), &[Profile::example()]),
            summarize("MICA_DIRECT=off".into(), std::slice::from_ref(second)),
        ];
        Comparison { sides }
    }

    fn has(text: &str, words: &[&str]) -> bool {
        text.lines().any(|line| words.iter().all(|word| line.contains(word)))
    }

    #[test]
    fn sides_stand_beside_each_other() {
        let mut slower = Profile::example();
        for rank in &mut slower.ranks {
            rank.app_ns *= 2;
        }
        let comparison = comparison(&slower);
        let text = comparison.render(Format::Text);
        for row in [
            ["MICA_DIRECT=off", "2.400", "2.00"],
            ["Allreduce", "800", "ring.c:40"],
            ["Send", "9830400", "24576.0"],
        ] {
            assert!(has(&text, &row), "no {row:?} in:\n{text}");
        }
        assert_eq!(text.matches("Aggregate sent message size").count(), 1);
        assert!(has(&text, &["4 ranks", "one run"]), "{text}");
        let markdown = comparison.render(Format::Markdown);
        assert!(has(&markdown, &["| as it is", " Time |", "| MICA_DIRECT=off"]), "{markdown}");
        assert!(has(&markdown, &["|--"]), "{markdown}");
    }

    #[test]
    fn unlike_runs_are_each_named() {
        let mut other = Profile::example();
        other.job.command = vec!["mpiexec".into(), "./other".into()];
        let text = comparison(&other).render(Format::Text);
        assert!(has(&text, &["Comparison of as it is, MICA_DIRECT=off"]), "{text}");
        assert!(has(&text, &["MICA_DIRECT=off: mpiexec ./other; 4 ranks"]), "{text}");
    }

    #[test]
    fn sides_that_send_otherwise_have_a_table_each() {
        let mut other = Profile::example();
        other.calls.retain(|call| call.call != "MPI_Send");
        let text = comparison(&other).render(Format::Text);
        assert!(text.contains("message size, as it is"), "{text}");
        assert!(text.contains("message size, MICA_DIRECT=off"), "{text}");
    }
}

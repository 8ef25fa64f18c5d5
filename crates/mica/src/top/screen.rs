//! The live view: a header with the job and its rates, and the table of ranks.
//!
//! ratatui draws; its `try_init` takes the terminal (raw mode, alternate screen) and installs a
//! panic hook that gives it back. A thread reads the signals that would end this process, gives the
//! terminal back and exits; not the loop that draws, since crossterm does not return from reading a
//! terminal that has gone. Only the rows on the screen are built, so that a thousand ranks cost
//! what a screen of them costs.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use mica_node::process::{Signals, signal, wait_readable};
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Cell, Paragraph, Row, Sparkline, Table};
use ratatui::{DefaultTerminal, Frame};

use super::column::{Column, ShownColumn};
use super::error::TopError;
use super::job::WatchedJob;
use super::number::short;
use super::report::heading;
use super::rows::{Activity, JobView, MovedAmount, RankRow};
use super::view::TableView;

/// Longest wait for a key before the job's end is looked for.
const TICK: Duration = Duration::from_millis(200);
/// Samples of the rates that are kept: more than a terminal is wide.
const HISTORY: usize = 512;
/// Longest wait for the end of a drawing.
const DRAWING_LIMIT: Duration = Duration::from_secs(1);
/// Held while the screen is drawn.
static DRAWING: Mutex<()> = Mutex::new(());
/// What the keys do: on one line, or on two where the terminal is narrow.
const HELP: [&str; 2] = [
    "q quit  w only waiting  arrows, PgUp, PgDn scroll",
    "sort: r rank  t state  s since  c CPU  m RSS  u unexpected  n messages  b bytes  f files",
];

/// What a key asks for.
#[derive(Debug, PartialEq, Eq)]
enum KeyCommand {
    Quit,
    Draw,
    Nothing,
}

/// The state of the screen.
struct Screen {
    view: TableView,
    has_color: bool,
    rates: VecDeque<MovedAmount<f64>>,
    /// Rows that fitted at the last drawing.
    page: usize,
}

/// Shows the job until the user quits or it ends.
pub fn run(job: &mut WatchedJob, interval: Duration) -> Result<ExitCode, TopError> {
    let ends = [signal::SIGTERM, signal::SIGHUP, signal::SIGINT, signal::SIGQUIT];
    let signals = Signals::take(&ends).map_err(TopError::Terminal)?;
    std::thread::spawn(move || exit_at_signal(&signals));
    let mut terminal = match ratatui::try_init() {
        Ok(terminal) => terminal,
        Err(error) => {
            let _ = ratatui::try_restore();
            return Err(TopError::Terminal(error));
        }
    };
    show_cursor_on_panic();
    let result = watch(&mut terminal, job, interval);
    let restored = ratatui::try_restore();
    let end = result.and_then(|end| restored.map(|()| end));
    if let WatchEnd::JobEnded = end.map_err(TopError::Terminal)? {
        let command = &job.job.parts[0].description.command;
        println!("job {} has ended: {command}", job.job.pid());
    }
    Ok(ExitCode::SUCCESS)
}

/// Waits for a signal, gives the terminal back and ends this process, with the status that a shell
/// reports for the signal.
fn exit_at_signal(signals: &Signals) {
    let number = loop {
        let _ = wait_readable(&[signals.as_fd()], None);
        if let Some(number) = signals.next() {
            break number;
        }
    };
    // Nothing is drawn any more. A terminal that takes no output must not keep this process.
    let until = Instant::now() + DRAWING_LIMIT;
    let mut drawing = DRAWING.try_lock();
    while drawing.is_err() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
        drawing = DRAWING.try_lock();
    }
    let _ = ratatui::try_restore();
    let _ = execute!(std::io::stdout(), Show);
    std::process::exit(128 + number);
}

/// After a panic, which ends this process, nothing else shows the cursor again.
fn show_cursor_on_panic() {
    let next = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let _ = execute!(std::io::stdout(), Show);
        next(info);
    }));
}

enum WatchEnd {
    Quit,
    JobEnded,
}

fn watch(
    terminal: &mut DefaultTerminal,
    job: &mut WatchedJob,
    interval: Duration,
) -> std::io::Result<WatchEnd> {
    let mut screen = Screen::new();
    let mut last = job.sample();
    let mut view = JobView::between(job, &last, &last);
    // The first rates come soon, whatever the interval.
    let mut next = last.at + interval.min(Duration::from_millis(300));
    loop {
        {
            let _drawing = DRAWING.lock();
            terminal.draw(|frame| screen.draw(frame, &view))?;
        }
        loop {
            if job.has_ended() {
                return Ok(WatchEnd::JobEnded);
            }
            let left = next.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let sample = job.sample();
                view = JobView::between(job, &last, &sample);
                screen.remember(view.total_rate());
                next = sample.at + interval;
                last = sample;
                break;
            }
            if event::poll(left.min(TICK))? {
                match screen.on_event(&event::read()?, &view) {
                    KeyCommand::Quit => return Ok(WatchEnd::Quit),
                    KeyCommand::Draw => break,
                    KeyCommand::Nothing => {}
                }
            }
        }
    }
}

impl Screen {
    fn new() -> Screen {
        // https://no-color.org: any value but an empty one.
        let has_color = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Screen { view: TableView::default(), has_color, rates: VecDeque::new(), page: 1 }
    }

    fn remember(&mut self, rate: MovedAmount<f64>) {
        self.rates.push_back(rate);
        if self.rates.len() > HISTORY {
            self.rates.pop_front();
        }
    }

    fn on_event(&mut self, event: &Event, job: &JobView) -> KeyCommand {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => self.on_key(*key, job),
            Event::Resize(..) => KeyCommand::Draw,
            _ => KeyCommand::Nothing,
        }
    }

    fn on_key(&mut self, key: KeyEvent, job: &JobView) -> KeyCommand {
        let page = self.page as isize;
        let by = match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                return KeyCommand::Quit;
            }
            KeyCode::Char('q') | KeyCode::Esc => return KeyCommand::Quit,
            KeyCode::Char('w') => {
                self.view.only_waiting = !self.view.only_waiting;
                0
            }
            KeyCode::Up | KeyCode::Char('k') => -1,
            KeyCode::Down | KeyCode::Char('j') => 1,
            KeyCode::PageUp => -page,
            KeyCode::PageDown => page,
            KeyCode::Home => isize::MIN,
            KeyCode::End => isize::MAX,
            KeyCode::Char(key) => match Column::of_key(key) {
                Some(column) => {
                    self.view.sort_by(column);
                    0
                }
                None => return KeyCommand::Nothing,
            },
            _ => return KeyCommand::Nothing,
        };
        let rows = self.view.rows(job).len();
        self.view.scroll(by, rows, self.page);
        KeyCommand::Draw
    }

    fn draw(&mut self, frame: &mut Frame<'_>, job: &JobView) {
        let help = help_lines(frame.area().width);
        let lines: Vec<Line<'_>> = heading(job).into_iter().map(Line::from).collect();
        // Of many spawned jobs the last are left out, so that ranks have most of the screen.
        let most = usize::from(frame.area().height / 4).max(2);
        let areas = Layout::vertical([
            Constraint::Length(lines.len().min(most) as u16),
            Constraint::Length(2),
            Constraint::Min(2),
            Constraint::Length(help.len() as u16),
        ]);
        let [head, rates, table, foot] = areas.areas(frame.area());
        frame.render_widget(Paragraph::new(lines), head);
        self.draw_rates(frame, rates, job);
        self.draw_table(frame, table, job);
        let help: Vec<Line<'_>> = help.into_iter().map(Line::from).collect();
        frame.render_widget(Paragraph::new(help).style(self.color(Color::DarkGray)), foot);
    }

    fn draw_rates(&self, frame: &mut Frame<'_>, area: Rect, job: &JobView) {
        let columns = Layout::horizontal([Constraint::Length(12), Constraint::Min(1)]);
        let lines: [Rect; 2] = Layout::vertical([Constraint::Length(1); 2]).areas(area);
        let total = job.total_rate();
        let messages = self.rates.iter().map(|rate| rate.messages);
        let bytes = self.rates.iter().map(|rate| rate.bytes);
        let parts: [(f64, &str, Vec<f64>); 2] =
            [(total.messages, "msg/s", messages.collect()), (total.bytes, "B/s", bytes.collect())];
        for (line, (now, unit, rates)) in lines.into_iter().zip(parts) {
            let [label, plot] = columns.areas(line);
            frame.render_widget(Paragraph::new(format!("{:>5} {unit}", short(now))), label);
            let first = rates.len().saturating_sub(usize::from(plot.width));
            let data = rates[first..].iter().map(|&rate| rate as u64);
            let spark = Sparkline::default().data(data).style(self.color(Color::Cyan));
            frame.render_widget(spark, plot);
        }
    }

    fn draw_table(&mut self, frame: &mut Frame<'_>, area: Rect, job: &JobView) {
        self.page = usize::from(area.height.saturating_sub(1)).max(1);
        let rows = self.view.rows(job);
        self.view.scroll(0, rows.len(), self.page);
        let rows: Vec<&RankRow> = rows.into_iter().skip(self.view.offset).take(self.page).collect();
        let columns = ShownColumn::fitting(&rows, area.width, self.view.column);
        let titles = columns.iter().map(|shown| {
            let style = Style::new().add_modifier(Modifier::BOLD);
            let is_sorted = shown.column == self.view.column;
            let style = if is_sorted { style.add_modifier(Modifier::UNDERLINED) } else { style };
            let title = shown.column.title().to_owned();
            Cell::from(aligned(shown.column, title)).style(style)
        });
        let widths = columns.iter().map(|shown| Constraint::Length(shown.width));
        let shown: Vec<Row<'_>> = rows.iter().map(|row| self.row(row, &columns)).collect();
        let table = Table::new(shown, widths).header(Row::new(titles));
        frame.render_widget(table, area);
    }

    fn row(&self, row: &RankRow, columns: &[ShownColumn]) -> Row<'static> {
        let cell = |shown: &ShownColumn| Cell::from(aligned(shown.column, shown.cell(row)));
        let cells = columns.iter().map(cell);
        let style = match row.activity {
            Activity::Waits | Activity::Polls => self.color(Color::Yellow),
            Activity::Computes => self.color(Color::Green),
            Activity::Stopped | Activity::Aborted => self.color(Color::Red),
            Activity::Starting | Activity::Finalized | Activity::Ended => {
                self.color(Color::DarkGray)
            }
        };
        Row::new(cells.collect::<Vec<_>>()).style(style)
    }

    fn color(&self, color: Color) -> Style {
        if self.has_color { Style::new().fg(color) } else { Style::new() }
    }
}

fn aligned(column: Column, text: String) -> Text<'static> {
    let line = Line::from(text);
    Text::from(if column.is_text() { line } else { line.right_aligned() })
}

/// The lines that say what the keys do, in this width.
fn help_lines(width: u16) -> Vec<String> {
    let line = HELP.join("  ");
    if line.len() <= usize::from(width) { vec![line] } else { HELP.map(str::to_owned).to_vec() }
}

#[cfg(test)]
mod tests {
    use super::super::view::tests::job;
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn screen() -> Screen {
        Screen { has_color: false, ..Screen::new() }
    }

    fn drawn(screen: &mut Screen, job: &JobView, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| screen.draw(frame, job)).unwrap();
        let buffer = terminal.backend().buffer();
        assert!(screen.has_color || buffer.content().iter().all(|cell| cell.fg == Color::Reset));
        let cells: Vec<&str> = buffer.content().iter().map(|cell| cell.symbol()).collect();
        let lines = cells.chunks(usize::from(width));
        lines.map(|line| line.concat().trim_end().to_owned() + "\n").collect()
    }

    fn press(screen: &mut Screen, job: &JobView, code: KeyCode) -> KeyCommand {
        screen.on_event(&Event::Key(KeyEvent::from(code)), job)
    }

    #[test]
    fn the_screen_shows_the_job_and_its_ranks() {
        let (job, mut screen) = (job(4), screen());
        screen.remember(job.total_rate());
        let text = drawn(&mut screen, &job, 140, 12);
        assert!(text.starts_with("job 4711, 1m15s: ./solver -n 5\n4 ranks on here, 2 elsewhere"));
        let row = text.lines().find(|line| line.contains("MPI_Recv")).unwrap();
        let words: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(&words[..7], ["1", "101", "waits", "MPI_Recv", "0", "7", "13.3s"]);
        assert!(text.contains("q quit"));
        assert!(text.contains('█'), "a sparkline: {text}");
    }

    #[test]
    fn a_thousand_ranks_scroll() {
        let (job, mut screen) = (job(1000), screen());
        let first = |screen: &mut Screen| {
            let text = drawn(screen, &job, 140, 25);
            let row = text.lines().nth(5).unwrap_or_default();
            row.split_whitespace().next().map(str::to_owned)
        };
        assert_eq!(first(&mut screen).as_deref(), Some("0"));
        assert_eq!(press(&mut screen, &job, KeyCode::PageDown), KeyCommand::Draw);
        assert_eq!(first(&mut screen).as_deref(), Some("19"));
        press(&mut screen, &job, KeyCode::End);
        assert_eq!(first(&mut screen).as_deref(), Some("981"));
        press(&mut screen, &job, KeyCode::Char('w'));
        assert_eq!(first(&mut screen).as_deref(), Some("963"), "the last page of 500");
        press(&mut screen, &job, KeyCode::Home);
        press(&mut screen, &job, KeyCode::Char('s'));
        assert_eq!(first(&mut screen).as_deref(), Some("999"));
    }

    #[test]
    fn no_number_is_cut_in_any_width() {
        let (mut job, mut screen) = (job(4), screen());
        for (row, pid) in job.ranks.iter_mut().zip([20_635, 1_234_567, 4_194_303, 7]) {
            row.pid = Some(pid);
            row.resident = Some(449_000_000 * u64::from(row.rank.rank + 1));
            row.cpu = Some(1600.0);
            if let Some(wait) = &mut row.waiting {
                (wait.what.tag, wait.what.peer, wait.ns) = (i32::MAX, 123_456, u64::MAX);
            }
        }
        for width in [80, 100, 120, 200] {
            let text = drawn(&mut screen, &job, width, 12);
            let lines: Vec<&str> = text.lines().skip(4).take(5).collect();
            let titles: Vec<&str> = lines[0].split_whitespace().collect();
            assert!(titles.iter().all(|&title| Column::all().any(|c| c.title() == title)));
            let count = Column::all().count();
            assert!(titles.len() == count || width < 200, "{width}: {titles:?}");
            assert!(["RANK", "PID", "CALL", "RSS"].iter().all(|title| titles.contains(title)));
            for (row, line) in job.ranks.iter().zip(&lines[1..]) {
                let cells: Vec<String> = Column::all().map(|column| column.cell(row)).collect();
                let words: Vec<&str> = line.split_whitespace().collect();
                assert!(words.contains(&cells[1].as_str()), "{width}: {line}");
                for word in words {
                    assert!(cells.iter().any(|cell| cell == word), "{width}: {word} in {line}");
                }
            }
            for sort in ["u unexpected", "b bytes", "q quit"] {
                assert!(text.contains(sort), "{text}");
            }
        }
    }

    #[test]
    fn any_size_is_drawn() {
        let (job, mut screen) = (job(3), screen());
        for (width, height) in [(1, 1), (10, 2), (20, 5), (300, 60)] {
            drawn(&mut screen, &job, width, height);
        }
    }

    #[test]
    fn keys_that_quit() {
        let (job, mut screen) = (job(1), screen());
        assert_eq!(press(&mut screen, &job, KeyCode::Char('q')), KeyCommand::Quit);
        assert_eq!(press(&mut screen, &job, KeyCode::Esc), KeyCommand::Quit);
        assert_eq!(press(&mut screen, &job, KeyCode::Char('z')), KeyCommand::Nothing);
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(screen.on_event(&Event::Key(interrupt), &job), KeyCommand::Quit);
    }
}

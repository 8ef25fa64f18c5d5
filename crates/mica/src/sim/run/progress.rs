//! A line on a terminal while a simulation runs.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use mica_sim::time::SimTime;

/// A line on a terminal: simulated time and slow-down.
#[derive(Debug)]
pub struct RunProgress {
    bar: ProgressBar,
}

impl RunProgress {
    /// Shown or not.
    pub fn new(shown: bool) -> RunProgress {
        let bar = if shown { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
        let style = ProgressStyle::with_template("{spinner} {elapsed} {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        bar.enable_steady_tick(Duration::from_millis(200));
        RunProgress { bar }
    }

    /// The clocks have reached `now`.
    pub fn show(&self, now: SimTime) {
        if self.bar.is_hidden() {
            return;
        }
        let slow_down = self.bar.elapsed().as_secs_f64() / now.seconds();
        let simulated = now.ns() / 1e6;
        self.bar.set_message(format!("{simulated:.3} ms simulated, slow-down {slow_down:.0}"));
    }

    /// Removes the line.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

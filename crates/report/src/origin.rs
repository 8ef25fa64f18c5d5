//! Where a result comes from: the host, the command, the date, this Mica, what carried the
//! messages, and the machine that was simulated, if one was.
//!
//! Every JSON document and every page of the tools has it: the documents as the object `origin`
//! ([`ResultOrigin::json`]), the pages as their last paragraph ([`ResultOrigin::on_page`]).

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::build;
use crate::draw::text::escape;

/// Where a result comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultOrigin {
    /// The host that the command ran on.
    pub host: String,
    /// The command line.
    pub command: String,
    /// Date and time of the command, in UTC: `2026-11-22T00:14:23Z`.
    pub date: String,
    /// The version of the tool, and the commit that it was built from, if that is known.
    pub mica: String,
    /// What carried the messages that the result is about.
    pub channel: String,
    /// The machine that was simulated; none if the result was measured.
    pub simulated: Option<String>,
}

impl ResultOrigin {
    /// Of this command, now; `channel` is what carried its messages.
    pub fn of_this_command(channel: impl Into<String>) -> ResultOrigin {
        let mut words = std::env::args_os();
        let program = words.next().map(PathBuf::from).unwrap_or_default();
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        ResultOrigin {
            host: mica_node::identity::host_name(),
            command: words.fold(name, |line, word| line + " " + &word.to_string_lossy()),
            date: date_of_now(),
            mica: version(),
            channel: channel.into(),
            simulated: None,
        }
    }

    /// Of this command, which sends no messages.
    pub fn without_messages() -> ResultOrigin {
        ResultOrigin::of_this_command("none: no message was sent")
    }

    /// Of this command, which simulates `machine`.
    pub fn simulated(machine: &str) -> ResultOrigin {
        ResultOrigin {
            simulated: Some(machine.to_owned()),
            ..ResultOrigin::of_this_command(format!("the simulated network of {machine}"))
        }
    }

    /// One line for people.
    pub fn line(&self) -> String {
        let ResultOrigin { host, command, date, mica, channel, simulated } = self;
        let made = match simulated {
            Some(machine) => format!("Simulated ({machine}), not measured; on"),
            None => "On".to_owned(),
        };
        format!("{made} {host}, {date}, by Mica {mica}: {command}. Channel: {channel}.")
    }

    /// `result`, which is written as an object, as JSON with this as its member `origin`.
    ///
    /// # Errors
    /// Those of serde.
    pub fn json(&self, result: &impl Serialize) -> serde_json::Result<String> {
        #[derive(Serialize)]
        struct WithOrigin<'a, T> {
            origin: &'a ResultOrigin,
            #[serde(flatten)]
            result: &'a T,
        }
        let document = WithOrigin { origin: self, result };
        Ok(serde_json::to_string_pretty(&document)? + "\n")
    }

    /// The page with a paragraph that says this, at its end.
    pub fn on_page(&self, page: &str) -> String {
        let paragraph = format!("<p class=\"note origin\">{}</p>\n", escape(&self.line()));
        let ends = ["</main>", "</body>", "</html>"];
        match ends.iter().find_map(|end| page.rfind(end)) {
            Some(at) => format!("{}{paragraph}{}", &page[..at], &page[at..]),
            None => page.to_owned() + &paragraph,
        }
    }
}

/// The version of this command, with its commit.
fn version() -> String {
    let version = env!("CARGO_PKG_VERSION");
    build::commit().map_or_else(|| version.to_owned(), |commit| format!("{version} ({commit})"))
}

/// Date and time of now.
pub fn date_of_now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    date_and_time(since.map_or(0, |since| since.as_secs()))
}

/// `2026-11-22T00:14:23Z` of seconds since 1970 (the civil calendar from days, after Howard
/// Hinnant's `civil_from_days`).
pub fn date_and_time(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_795_306_463, "2026-11-22T00:14:23Z"),
        ] {
            assert_eq!(date_and_time(seconds), text);
        }
    }

    #[test]
    fn documents_and_pages_say_where_they_come_from() {
        #[derive(Serialize)]
        struct Answer {
            value: u128,
        }
        let origin = ResultOrigin::simulated("<power5>");
        let value: serde_json::Value =
            serde_json::from_str(&origin.json(&Answer { value: 7 }).unwrap()).unwrap();
        assert_eq!(value["value"], 7);
        for part in ["host", "command", "date", "mica", "channel"] {
            let text = value["origin"][part].as_str();
            assert!(text.is_some_and(|text| !text.is_empty()), "{part}: {value}");
        }
        assert_eq!(value["origin"]["simulated"], "<power5>");
        let page = origin.on_page("<main>\n<p>x</p>\n</main>\n</html>\n");
        assert!(page.starts_with("<main>\n<p>x</p>\n<p class=\"note origin\">Simulated (&lt;"));
        assert!(page.ends_with(".</p>\n</main>\n</html>\n"), "{page}");
        let measured = ResultOrigin::of_this_command("shared memory");
        assert_eq!(measured.simulated, None);
        let line = measured.line();
        assert!(line.starts_with("On ") && line.ends_with("Channel: shared memory."), "{line}");
    }
}

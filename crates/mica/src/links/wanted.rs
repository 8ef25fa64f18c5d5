//! The counters that `mica links run` asks the ranks to read: those of the links that the machine
//! has and the kernel permits, and those that the user names.

use std::fmt::Write as _;
use std::path::Path;

use mica_links::counters::{LinkEvents, named_event};
use mica_links::discover::LinkUnits;
use mica_node::perf::{CountedPlace, PerfCounter, PerfEvent};

/// What is counted, and why the rest is not.
#[derive(Debug, Default)]
pub struct WantedCounters {
    pub counters: Vec<WantedCounter>,
    /// Sentences for the user.
    pub notes: Vec<String>,
}

/// One counter.
#[derive(Debug, Clone, PartialEq)]
pub struct WantedCounter {
    /// Unit and event.
    pub name: String,
    pub event: PerfEvent,
    /// The processor; `None` for the thread that reads it.
    pub cpu: Option<u32>,
    /// The link that it counts: `0->1`; the event's own name if it is not one of a link.
    pub link: String,
    /// The chips at the link's ends.
    pub ends: Option<(u32, u32)>,
    /// Bytes of a count, or counts as they are.
    pub scale: f64,
}

impl WantedCounters {
    /// The counters of the links of the machine at `root`, if the kernel opens them, and those that
    /// are `named`.
    ///
    /// # Errors
    /// If one that is named does not exist or is refused.
    pub fn find(root: &Path, named: &[String]) -> Result<WantedCounters, String> {
        let mut wanted = WantedCounters::default();
        match LinkUnits::find(root) {
            Ok(found) => wanted.add_links(&found, &found.link_events()),
            Err(error) => wanted.notes.push(format!("Link counters: {error}.")),
        }
        for text in named {
            for raw in named_event(root, text)? {
                let counter = WantedCounter {
                    link: raw.name.clone(),
                    name: raw.name,
                    event: PerfEvent { event_type: raw.event_type, config: raw.config },
                    cpu: raw.cpu,
                    ends: None,
                    scale: 1.0,
                };
                if let Err(error) = counter.open() {
                    return Err(format!("--counter {text}: the kernel refuses it: {error}"));
                }
                wanted.counters.push(counter);
            }
        }
        Ok(wanted)
    }

    fn add_links(&mut self, found: &LinkUnits, links: &LinkEvents) {
        self.notes.extend(links.notes.iter().map(|note| format!("Counters: {note}.")));
        let counters = links.events.iter().map(|event| WantedCounter {
            name: event.name.clone(),
            event: PerfEvent { event_type: event.event_type, config: event.config },
            cpu: Some(event.cpu),
            link: event.link(),
            ends: Some((event.from, event.to)),
            scale: event.scale,
        });
        let counters: Vec<WantedCounter> = counters.collect();
        let Some(first) = counters.first() else {
            self.notes.push(absent(found));
            return;
        };
        match counters.iter().find_map(|counter| counter.open().err()) {
            None => self.counters = counters,
            Some(error) => self.notes.push(format!(
                "Link counters are there ({}), but the kernel refuses them: {error}. \
                 perf_event_paranoid is {}; root, CAP_PERFMON, or 0 there permits them.",
                first.name,
                found.paranoid.map_or("absent".to_owned(), |level| level.to_string())
            )),
        }
    }

    /// The list for the ranks: a line each, as links.c reads it.
    pub fn list(&self) -> String {
        let mut list = String::new();
        for counter in &self.counters {
            let PerfEvent { event_type, config } = counter.event;
            let cpu = counter.cpu.map_or(-1, i64::from);
            let _ = writeln!(list, "{event_type} {config} {cpu}");
        }
        list
    }
}

impl WantedCounter {
    /// Opens it in this process.
    pub fn open(&self) -> std::io::Result<PerfCounter> {
        let place = self.cpu.map_or(CountedPlace::ThisThread, CountedPlace::Processor);
        PerfCounter::open(self.event, place)
    }
}

fn absent(found: &LinkUnits) -> String {
    match found.paranoid {
        None => "This kernel has no performance events, so the load of links cannot be counted.",
        Some(_) => "This machine shows no counters of links between chips.",
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(name: &str) -> std::path::PathBuf {
        let links = Path::new(env!("CARGO_MANIFEST_DIR")).join("../links/tests/sysfs");
        links.join(name)
    }

    /// The trees name event sources with numbers that this machine gives to none, or to others: a
    /// real machine with UPI would open them, which is no failure.
    #[test]
    fn refused_link_counters_say_why_in_one_line() {
        let wanted = WantedCounters::find(&tree("intel-2"), &[]).unwrap();
        if wanted.counters.is_empty() {
            let [note] = &wanted.notes[..] else { panic!("one line: {:?}", wanted.notes) };
            assert!(note.contains("uncore_upi_0/") && note.contains("perf_event_paranoid is 2"));
            assert!(note.contains("the kernel refuses them: ") && !note.contains('\n'));
        }
    }

    #[test]
    fn machine_without_units_says_so() {
        let wanted = WantedCounters::find(&tree("nowhere"), &[]).unwrap();
        assert!(wanted.counters.is_empty() && wanted.list().is_empty());
        assert!(wanted.notes[0].contains("no performance events"));
    }

    #[test]
    fn named_events_are_opened_or_refused_by_name() {
        let error = |text: &str| WantedCounters::find(Path::new("/"), &[text.to_owned()]);
        assert!(error("nothing/event=1/").is_err() && error("nonsense").is_err());
        // CPU time of the reading thread: PERF_COUNT_SW_TASK_CLOCK.
        match error("software/config=1/") {
            Ok(wanted) => assert!(wanted.list().ends_with("1 1 -1\n"), "{}", wanted.list()),
            Err(refusal) => assert!(refusal.contains("software/config=1/"), "{refusal}"),
        }
    }
}

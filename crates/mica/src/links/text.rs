//! An explanation as text for a terminal.

use std::fmt::Write as _;

use mica_links::analysis::cluster::TIME_CLASSES;
use mica_links::data::NumaFacts;
use mica_links::explain::Explanation;
use mica_links::intensity::{IoIntensity, StreamIntensity, TrafficIntensity};
use mica_links::predictor::{Payoff, Validation};
use mica_links::study::ModelStudy;

use super::WorkloadFinding;
use crate::draw::text::{percent, time, trimmed, volume};
use crate::terminal::table;

/// Said under a table of links none of which is named.
pub const NONE_NAMED: &str = "No link is named: load that goes with the time is no cause by \
    itself, since a longer call counts more bytes on every link.";
/// Rows of the table of links.
const LINKS: usize = 12;

/// The text.
pub fn render(finding: &WorkloadFinding) -> String {
    let explanation = &finding.explanation;
    let all = &explanation.distribution;
    let mut text = format!(
        "{}\non {}\n\n{} calls, {} in all: median {}, 95 % up to {}, longest {}.\n\
         The slowest 5 % of the calls take {} of the time.\n\n",
        explanation.what,
        explanation.machine,
        all.calls,
        time(all.total_seconds),
        time(all.median),
        time(all.p95),
        time(all.max),
        percent(all.slowest_share)
    );
    if let Some(moved) = finding.moved_bytes {
        let _ = writeln!(
            text,
            "A call moves {} between ranks, by the library's account.\n",
            volume(moved)
        );
    }
    for advice in &explanation.advice {
        let _ = writeln!(text, "* {advice}");
    }
    let _ = writeln!(text, "\nClusters of execution time\n{}", clusters(explanation));
    if !explanation.links.is_empty() {
        let _ = writeln!(
            text,
            "\nLinks by rank correlation with the time (all links together: {:.2})\n{}",
            explanation.total_correlation,
            links(explanation)
        );
        let _ = writeln!(text, "\n{}", relevant(explanation));
    }
    let validations = [
        ("Load during a call as indicator of its class", &explanation.indicator),
        ("Load before a call as predictor of its class", &explanation.predictor),
    ];
    for (title, validation) in validations {
        if let Some(validation) = validation {
            let _ = writeln!(text, "\n{title}\n{}", confusion(validation));
        }
    }
    let _ = writeln!(text, "\nBeside the paper (muecke-2010)\n{}", paper(finding));
    if let Some(numa) = finding.numa {
        text += &format!("\n{}", memory(numa));
    }
    for note in &explanation.notes {
        let _ = writeln!(text, "\nNote: {note}");
    }
    text + "\n"
}

fn paper(finding: &WorkloadFinding) -> String {
    let mut rows = table("figure | what | paper | here");
    for row in &finding.paper {
        rows.add_row([row.figure, row.what, row.paper, row.here.as_str()]);
    }
    rows.to_string()
}

/// What the kernel says about memory domains, a line each.
pub fn memory_lines(numa: &NumaFacts) -> Vec<String> {
    let grown = numa.numastat.iter().map(|(domain, pages)| {
        let names = pages.iter().filter(|(_, pages)| **pages > 0);
        let names: Vec<String> = names.map(|(name, pages)| format!("{name} {pages}")).collect();
        let all = if names.is_empty() { "no pages".to_owned() } else { names.join(", ") };
        format!("Memory domain {domain} during the job, in pages (numastat): {all}.")
    });
    let mut sums = std::collections::BTreeMap::<u32, u64>::new();
    for (domain, bytes) in numa.rank_bytes.iter().flatten() {
        *sums.entry(*domain).or_default() += bytes;
    }
    let sums: Vec<String> = sums
        .iter()
        .map(|(domain, bytes)| format!("{} in domain {domain}", volume(*bytes as f64)))
        .collect();
    let mapped = (!sums.is_empty()).then(|| {
        let ranks = numa.rank_bytes.len();
        format!("Pages of the {ranks} ranks (numa_maps): {}.", sums.join(", "))
    });
    grown.chain(mapped).collect()
}

fn memory(numa: &NumaFacts) -> String {
    memory_lines(numa).join("\n") + "\n"
}

/// What a study of the modelled machine found.
pub fn study(study: &ModelStudy) -> String {
    let mut rows = table("other traffic | slowest 5 % take | over worlds | longest/median");
    for row in &study.sensitivity {
        rows.add_row([
            intensity(row.intensity),
            percent(row.slowest_share) + if row.is_default { " (default)" } else { "" },
            format!("{} to {}", percent(row.least), percent(row.highest)),
            format!("{:.0}", row.longest),
        ]);
    }
    let mut text = format!(
        "\nHow much the share of the slowest calls depends on the background ({} worlds of {} \
         calls)\n{rows}\n",
        study.worlds, study.calls
    );
    let _ = writeln!(text, "\nWhether the predictor pays, in {} worlds", study.worlds);
    for (what, payoff) in uses(study) {
        let _ = writeln!(text, "* {what}: {}", payoff_sentence(payoff));
    }
    text
}

/// What there is of the traffic.
pub fn intensity(intensity: TrafficIntensity) -> String {
    match intensity {
        TrafficIntensity::Io(IoIntensity { share, quiet }) => {
            let share = 100.0 * share;
            format!("I/O: {share:.2} % of a link, {} apart", time(quiet))
        }
        TrafficIntensity::Streams(StreamIntensity { streams, time: on }) => {
            format!("memory streams: {streams} from each chip, {} on and off", time(on))
        }
    }
}

/// The uses of the predictor that were compared.
pub fn uses(study: &ModelStudy) -> [(String, &Payoff); 3] {
    let choosing = &study.choosing;
    let names = choosing.schedules.iter().zip(&choosing.alone);
    let names: Vec<String> = names.map(|(name, mean)| format!("{name} {}", time(*mean))).collect();
    // Every postponed call waits.
    let postponing = match study.postponing.waiting > 0.0 {
        true => "Postponing calls that are predicted to be long",
        false => {
            "Postponing calls that are predicted to be long (none was: the load before a call does \
             not show what will make it long)"
        }
    };
    [
        (postponing.to_owned(), &study.postponing),
        (
            format!("Choosing between {} against the best of each world", names.join(" and ")),
            &choosing.against_best,
        ),
        (
            "Choosing against the schedule that was best while learning".to_owned(),
            &choosing.against_fixed,
        ),
    ]
}

/// What was saved, with intervals.
pub fn payoff_sentence(payoff: &Payoff) -> String {
    let interval = |share: f64, low: f64, high: f64| {
        format!("{:+.1} % ({:+.1} to {:+.1})", 100.0 * share, 100.0 * low, 100.0 * high)
    };
    let all = interval(payoff.saved, payoff.interval.low, payoff.interval.high);
    let mut text = format!("time saved {all}: {}", payoff.verdict.words());
    if payoff.waiting > 0.0 {
        let (low, high) = (payoff.in_calls_interval.low, payoff.in_calls_interval.high);
        let _ = write!(
            text,
            "; {} of the time is waiting, and a program that has other work for it saves {} of the \
             time in calls",
            percent(payoff.waiting),
            interval(payoff.saved_in_calls, low, high)
        );
    }
    text
}

fn clusters(explanation: &Explanation) -> String {
    let mut rows = table("class | from | to | calls | of the time | more load on");
    for cluster in &explanation.clusters {
        let marks = cluster.marks.iter().take(6);
        let names: Vec<&str> = marks.map(|mark| explanation.links[mark.link].as_str()).collect();
        rows.add_row([
            cluster.duration.name().to_owned(),
            time(cluster.from),
            time(cluster.to),
            cluster.calls.to_string(),
            percent(cluster.time_share),
            names.join(" "),
        ]);
    }
    rows.to_string()
}

fn links(explanation: &Explanation) -> String {
    let header =
        "link | correlation | 95 % interval | p (Holm) | beyond chance | in slow calls | named";
    let mut rows = table(header);
    for link in explanation.ranking.iter().take(LINKS) {
        rows.add_row([
            explanation.links[link.link].clone(),
            format!("{:.2}", link.rho),
            format!("{:.2} to {:.2}", link.interval.low, link.interval.high),
            match link.p {
                p if p < 1e-6 => "< 1e-6".to_owned(),
                p => trimmed(p),
            },
            if link.beyond_chance { "yes" } else { "" }.to_owned(),
            percent(link.coincidence),
            if explanation.named.contains(&link.link) { "yes" } else { "" }.to_owned(),
        ]);
    }
    if explanation.named.is_empty() { format!("{rows}\n{NONE_NAMED}") } else { rows.to_string() }
}

fn relevant(explanation: &Explanation) -> String {
    let names = explanation.relevant.iter().map(|chosen| {
        let name = &explanation.links[chosen.link];
        format!("{name} (in {:.0} % of half samples)", 100.0 * chosen.stability)
    });
    let names: Vec<String> = names.collect();
    match names.is_empty() {
        true => "No set of links is relevant.".to_owned(),
        false => format!("Relevant set of links: {}", names.join(", ")),
    }
}

fn confusion(validation: &Validation) -> String {
    let mut rows = table("is \\ said | short | medium | long");
    for class in TIME_CLASSES {
        let row = validation.confusion[class as usize].map(|calls| calls.to_string());
        rows.add_row(std::iter::once(class.name().to_owned()).chain(row));
    }
    format!(
        "{rows}\nRight in {} of held-out calls, the best constant guess in {}; difference {:+.1} \
         to {:+.1} points: {}.",
        percent(validation.accuracy),
        percent(validation.constant),
        100.0 * validation.gain.low,
        100.0 * validation.gain.high,
        match validation.beats_constant {
            true => "better than the guess",
            false => "not better than the guess",
        }
    )
}

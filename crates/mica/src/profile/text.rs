//! The profile as text, in mpiP's terms and with the tables of ma-2011: application and MPI time
//! (Table 1), the calls that took longest (2, 3), aggregate sent message size (4); the message
//! distribution of chai-2009 2.2.2; late arrivals; call sites.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use comfy_table::Table;
use mica_node::ranges::ranges;
use mica_profile::model::class_bounds;
use mica_profile::summary::{CallSum, by_call_and_site, by_file, distribution, even_distribution};
use mica_profile::{Language, PairLevel, Profile, ProgramSite, RankProfile};

use crate::draw::page::columns;
use crate::terminal::{align_right_but, with_header};

/// Calls in the table of those that took longest, as in ma-2011.
const MOST_USED: usize = 5;

/// Ranks that the table of times names one by one.
const RANKS: usize = 32;

/// The whole text; `sites` bounds the rows of the tables of call sites.
pub fn render(profile: &Profile, sites: usize) -> String {
    let mut text = head(profile);
    let sums = by_call_and_site(profile);
    let mut part = |title: &str, table: String| {
        if !table.is_empty() {
            let _ = write!(text, "\n{title}\n{table}");
        }
    };
    part("Application time and MPI time (seconds)", times(profile));
    let app = app_ns(profile) as f64;
    let mpi: u64 = profile.ranks.iter().map(|rank| rank.mpi_ns).sum();
    part("Most used calls (time of all ranks)", most_used(&sums, MOST_USED, app, mpi as f64));
    part("Aggregate sent message size", sent(&sums, sites));
    part("Messages by size and distance (point-to-point and one-sided)", messages(profile));
    part("Files (times of all ranks)", files(profile, sites));
    part("Late arrivals: who was waited for in collectives", late(profile, sites));
    part("Waiting by reason (ms of all ranks)", waiting(profile));
    part("Call sites", call_sites(profile, &sums, sites));
    for note in &profile.job.notes {
        let _ = writeln!(text, "\nNote: {note}");
    }
    text
}

fn head(profile: &Profile) -> String {
    let job = &profile.job;
    let mut nodes: Vec<u32> = profile.ranks.iter().map(|rank| rank.node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let rows = [
        ("Command", job.command.join(" ")),
        ("Library", job.library.clone()),
        ("Ranks", format!("{} on {} node(s), from {}", profile.ranks.len(), nodes.len(), job.host)),
        ("Wall time", format!("{:.3} s", seconds(job.wall_ns))),
        ("Exit code", job.exit_code.to_string()),
    ];
    let mut text: String =
        rows.iter().map(|(name, value)| format!("{name:<10} {value}\n")).collect();
    if let Some([number, all]) = job.number {
        let _ = writeln!(text, "Job        {number} of {all}: {}", job.program);
    }
    if !job.missing_ranks.is_empty() {
        let ranks = ranges(job.missing_ranks.clone());
        let _ = writeln!(text, "No record  ranks {ranks}: they did not come back from MPI_Init");
    }
    let early = profile.ranks.iter().filter(|rank| rank.ended.is_some()).count();
    if early > 0 {
        let ranks = profile.ranks.len();
        let _ =
            writeln!(text, "Ends       {early} of {ranks} ranks did not end well: see the notes");
    }
    text
}

/// Table 1 of ma-2011, by rank.
fn times(profile: &Profile) -> String {
    let mut table = numbers(columns("Rank | App time | MPI time | MPI % | Host"), &[0]);
    let row = |name: String, app: u64, mpi: u64, host: &str| {
        let percent = percent(mpi as f64, app as f64);
        let [app, mpi] = [app, mpi].map(|ns| format!("{:.3}", seconds(ns)));
        vec![name, app, mpi, percent, host.to_owned()]
    };
    let of = |rank: &RankProfile| row(rank.rank.to_string(), rank.app_ns, rank.mpi_ns, &rank.host);
    for rank in profile.ranks.iter().take(RANKS) {
        table.add_row(of(rank));
    }
    let mpi = profile.ranks.iter().map(|rank| rank.mpi_ns).sum();
    let rest = if profile.ranks.len() > RANKS { "sum, with ranks not shown" } else { "" };
    table.add_row(row("*".into(), app_ns(profile), mpi, rest));
    finish(table)
}

/// Why the library waited, the longest first; nothing if it does not count that.
fn waiting(profile: &Profile) -> String {
    let mut sums: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for wait in profile.waits.iter().flatten() {
        let (all, longest) = sums.entry(&wait.reason).or_default();
        *all += wait.ns;
        *longest = wait.ns.max(*longest);
    }
    let mut rows: Vec<(&str, (u64, u64))> = sums.into_iter().collect();
    rows.retain(|(_, (all, _))| *all > 0);
    if rows.is_empty() {
        return String::new();
    }
    rows.sort_by_key(|(_, (all, _))| std::cmp::Reverse(*all));
    let mut table = numbers(columns("Reason | Time (ms) | Longest of a rank (ms)"), &[0]);
    for (reason, (all, longest)) in rows {
        let [all, longest] = [all, longest].map(|ns| format!("{:.3}", ns as f64 / 1e6));
        table.add_row(vec![reason.to_owned(), all, longest]);
    }
    finish(table)
}

/// Tables 2 and 3 of ma-2011: a call at two sites has two rows, as there.
fn most_used(sums: &[CallSum], rows: usize, app: f64, mpi: f64) -> String {
    let mut table =
        numbers(columns("Call | Site | Time (ms) | App % | MPI % | Count | Mean (us)"), &[0]);
    for sum in sums.iter().take(rows) {
        table.add_row(vec![
            short(&sum.call).to_owned(),
            site_number(sum),
            format!("{:.3}", sum.time_ns as f64 / 1e6),
            percent(sum.time_ns as f64, app),
            percent(sum.time_ns as f64, mpi),
            sum.count.to_string(),
            format!("{:.2}", sum.time_ns as f64 / 1e3 / sum.count as f64),
        ]);
    }
    finish(table)
}

/// Table 4 of ma-2011.
fn sent(sums: &[CallSum], rows: usize) -> String {
    let total: u64 = sums.iter().map(|sum| sum.bytes).sum();
    let mut senders: Vec<&CallSum> = sums.iter().filter(|sum| sum.sends > 0).collect();
    if senders.is_empty() {
        return String::new();
    }
    senders.sort_by_key(|sum| std::cmp::Reverse(sum.bytes));
    let mut table =
        numbers(columns("Call | Site | Count | Total (bytes) | Avrg (bytes) | Sent %"), &[0]);
    for sum in senders.into_iter().take(rows) {
        table.add_row(vec![
            short(&sum.call).to_owned(),
            site_number(sum),
            sum.sends.to_string(),
            sum.bytes.to_string(),
            format!("{:.1}", sum.bytes as f64 / sum.sends as f64),
            percent(sum.bytes as f64, total as f64),
        ]);
    }
    finish(table)
}

/// Figures 2.2 to 2.4 of chai-2009: messages by size class and level, and the levels' shares
/// beside those of the even distribution.
fn messages(profile: &Profile) -> String {
    let amounts = distribution(profile);
    if amounts.is_empty() {
        return String::new();
    }
    let levels: Vec<PairLevel> = PairLevel::ALL
        .into_iter()
        .filter(|level| amounts.keys().any(|key| key.1 == *level))
        .collect();
    let mut header = columns("Bytes");
    header.extend(levels.iter().map(|level| level.name().to_owned()));
    let mut table = numbers(header, &[0]);
    let mut classes: Vec<u8> = amounts.keys().map(|key| key.0).collect();
    classes.dedup();
    let count = |class, level| amounts.get(&(class, level)).map_or(0, |amount| amount.messages);
    for &class in &classes {
        let mut row = vec![bounds(class)];
        row.extend(levels.iter().map(|level| count(class, *level).to_string()));
        table.add_row(row);
    }
    let sum = |level: PairLevel, bytes: bool| -> u64 {
        let of_level = amounts.iter().filter(|(key, _)| key.1 == level);
        of_level.map(|(_, amount)| if bytes { amount.bytes } else { amount.messages }).sum()
    };
    for (name, bytes) in [("messages %", false), ("bytes %", true)] {
        let total: u64 = levels.iter().map(|level| sum(*level, bytes)).sum();
        let mut row = vec![name.to_owned()];
        row.extend(levels.iter().map(|level| percent(sum(*level, bytes) as f64, total as f64)));
        table.add_row(row);
    }
    let even = even_distribution(&profile.ranks);
    let mut row = vec!["even %".to_owned()];
    row.extend(levels.iter().map(|level| percent(*even.get(level).unwrap_or(&0.0), 1.0)));
    table.add_row(row);
    finish(table)
}

/// What was done with each file; the size is that of most accesses, and sequential are accesses
/// that begin where the rank's last one ended.
fn files(profile: &Profile, rows: usize) -> String {
    let sums = by_file(profile);
    if sums.is_empty() {
        return String::new();
    }
    let header = columns(
        "File | Ranks | Access | Count | Total (bytes) | Most of (bytes) | Sequential % | \
         Time (ms)",
    );
    let mut table = numbers(header, &[0, 2]);
    let ms = |ns: u64| format!("{:.3}", ns as f64 / 1e6);
    for sum in sums.iter().take(rows) {
        let ranks = sum.ranks.to_string();
        for (access, of) in ["read", "write"].into_iter().zip(&sum.directions) {
            let Some(class) = of.usual_class() else { continue };
            table.add_row(vec![
                sum.file.clone(),
                ranks.clone(),
                access.to_owned(),
                of.calls.to_string(),
                of.bytes.to_string(),
                bounds(class),
                percent(of.following as f64, of.calls as f64),
                ms(of.time_ns),
            ]);
        }
        let mut other = vec![sum.file.clone(), ranks, "other".to_owned()];
        other.extend([const { String::new() }; 4]);
        other.push(ms(sum.other_ns));
        table.add_row(other);
    }
    finish(table)
}

fn late(profile: &Profile, rows: usize) -> String {
    if profile.late.is_empty() {
        return String::new();
    }
    let header = columns("Call | Rank | Times | Behind (ms) | Others waited (ms) | Site");
    let mut table = numbers(header, &[0, 5]);
    for late in profile.late.iter().take(rows) {
        table.add_row(vec![
            short(&late.call).to_owned(),
            late.rank.to_string(),
            late.times.to_string(),
            format!("{:.3}", late.behind_ns as f64 / 1e6),
            format!("{:.3}", late.wait_ns as f64 / 1e6),
            format!("{} {}", late.site, place(&profile.sites[late.site as usize])),
        ]);
    }
    finish(table)
}

fn call_sites(profile: &Profile, sums: &[CallSum], rows: usize) -> String {
    let header = columns("Site | Call | Count | Time (ms) | Min (us) | Max (us) | Place");
    let mut table = numbers(header, &[0, 1, 6]);
    for sum in sums.iter().take(rows) {
        let place = sum.site.map(|site| place(&profile.sites[site as usize]));
        table.add_row(vec![
            site_number(sum),
            short(&sum.call).to_owned(),
            sum.count.to_string(),
            format!("{:.3}", sum.time_ns as f64 / 1e6),
            format!("{:.2}", sum.min_ns as f64 / 1e3),
            format!("{:.2}", sum.max_ns as f64 / 1e3),
            place.unwrap_or_default(),
        ]);
    }
    let mut text = finish(table);
    if sums.len() > rows {
        let _ = writeln!(text, "and {} more (--sites)", sums.len() - rows);
    }
    text
}

/// `function file:line`, as far as known, and its callers.
pub fn place(site: &ProgramSite) -> String {
    let callers = site.callers.iter().map(|caller| format!(" < {}", own_place(caller)));
    own_place(site) + &callers.collect::<String>()
}

/// A [`place`] without the folders of its files.
pub fn without_folders(place: &str) -> String {
    let parts = place.split(" < ").map(|part| match part.rsplit_once('/') {
        None => part.to_owned(),
        // A path begins with a slash, or has no spaces; names of functions may have some.
        Some((before, file)) => match before.find(" /").or_else(|| before.rfind(' ')) {
            Some(end) => format!("{} {file}", &before[..end]),
            None => file.to_owned(),
        },
    });
    parts.collect::<Vec<_>>().join(" < ")
}

fn own_place(site: &ProgramSite) -> String {
    let function = site.function.as_deref().unwrap_or("?");
    match (&site.file, site.line) {
        (Some(file), Some(line)) => format!("{function} {file}:{line}"),
        _ if site.language == Language::Python => format!("{function} {}", site.object),
        _ => format!("{function} {}+{:#x}", site.object, site.offset),
    }
}

fn bounds(class: u8) -> String {
    let (low, high) = class_bounds(class);
    if low == high { low.to_string() } else { format!("{low}-{high}") }
}

fn app_ns(profile: &Profile) -> u64 {
    profile.ranks.iter().map(|rank| rank.app_ns).sum()
}

fn site_number(sum: &CallSum) -> String {
    sum.site.map_or_else(|| "*".into(), |site| site.to_string())
}

/// mpiP prints names without the prefix.
pub fn short(call: &str) -> &str {
    call.strip_prefix("MPI_").unwrap_or(call)
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn percent(part: f64, whole: f64) -> String {
    if whole > 0.0 { format!("{:.2}", 100.0 * part / whole) } else { "-".into() }
}

/// A table whose columns but these are numbers.
fn numbers(header: Vec<String>, words: &[usize]) -> Table {
    let mut table = with_header(header);
    align_right_but(&mut table, words);
    table
}

fn finish(table: Table) -> String {
    table.trim_fmt() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use mica_profile::FileRecord;

    #[test]
    fn folders_are_left_out_of_places() {
        let place = "void f<int>(char*) /a b/wrap.c:9 < main ring.c:4 < f x/y/z.so+0x12";
        let short = "void f<int>(char*) wrap.c:9 < main ring.c:4 < f z.so+0x12";
        assert_eq!(without_folders(place), short);
    }

    #[test]
    fn files_have_a_table() {
        let mut profile = Profile::example();
        assert!(!render(&profile, 20).contains("Files"));
        let write = FileRecord {
            file: "results.h5".into(),
            call: "MPI_File_write_at_all".into(),
            class: 13,
            calls: 8,
            bytes: 32_768,
            time_ns: 2_500_000,
            following: 6,
            ..FileRecord::default()
        };
        profile.files = vec![write];
        let text = render(&profile, 20);
        let row = ["results.h5", "write", "8", "32768", "4096-8191", "75.00", "2.500"];
        let has = |line: &&str| row.iter().all(|word| line.contains(word));
        assert!(text.lines().any(|line| has(&line)), "{text}");
    }

    #[test]
    fn prints_the_tables_of_the_example() {
        let text = render(&Profile::example(), 20);
        for row in [
            // Allreduce: 800 ms of 852 ms.
            ["Allreduce", "800.000", "93.90"],
            ["Send", "9830400", "99.99"],
            ["16384-32767", "100", "200"],
            ["Allreduce", "900.000", "2700.000"],
            ["Recv", "24.000", "/home/user/ring.c:22"],
            ["peer", "600.000", "150.000"],
            ["even %", "16.67", "66.67"],
        ] {
            let has = |line: &&str| row.iter().all(|word| line.contains(word));
            assert!(text.lines().any(|line| has(&line)), "no {row:?} in:\n{text}");
        }
    }
}

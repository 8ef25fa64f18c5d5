//! The head of the page: what ran, the main figures, and what stands out in them.

use mica_profile::PairLevel;
use mica_profile::summary::{by_call_and_site, distribution, even_distribution};

use super::view::ProfileView;
use crate::draw::page;
use crate::draw::text::{count, escape, percent, time, volume};
use crate::origin::date_and_time;

const NS: f64 = 1e-9;

/// Command, figures, findings and notes.
pub fn html(view: &ProfileView) -> String {
    let job = &view.profile.job;
    let mut html = format!(
        "<header>\n<p class=\"kicker\">MPI profile</p>\n<h1><code>{}</code></h1>\n\
         <p class=\"where\">{}</p>\n",
        escape(&short_command(&job.command)),
        escape(&origin(view)),
    );
    html += &page::facts(figures(view));
    html += &page::sentences("findings", "What stands out", &findings(view));
    html += &page::sentences("notes", "Notes", &notes(view));
    html + "</header>\n"
}

fn origin(view: &ProfileView) -> String {
    let job = &view.profile.job;
    let mut parts = vec![job.library.clone(), format!("on {}", job.host), date(job.started_unix_s)];
    parts.retain(|part| !part.is_empty());
    parts.join(" \u{b7} ")
}

/// The command with the programs' names instead of their whole paths.
fn short_command(command: &[String]) -> String {
    let word = |word: &String| match word.strip_prefix('/').and_then(|path| path.rsplit('/').next())
    {
        Some(name) if !name.is_empty() => name.to_owned(),
        _ => word.clone(),
    };
    command.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// Date and time in UTC: `2025-11-24 16:00 UTC`.
fn date(seconds: u64) -> String {
    let date = date_and_time(seconds);
    format!("{} {} UTC", &date[..10], &date[11..16])
}

/// Name, value, and what belongs to it.
fn figures(view: &ProfileView) -> Vec<(&'static str, String, String)> {
    let profile = view.profile;
    let ranks = profile.ranks.len();
    let nodes = match view.nodes() {
        1 => "on 1 node".to_owned(),
        nodes => format!("on {nodes} nodes"),
    };
    let sum =
        |value: fn(&mica_profile::RankPair) -> u64| profile.matrix.iter().map(value).sum::<u64>();
    let calls: u64 = view.calls.iter().map(|sum| sum.count).sum();
    let mean = match ranks {
        0 => 0.0,
        ranks => view.app_ns as f64 * NS / ranks as f64,
    };
    let times = [profile.job.wall_ns, view.mpi_ns, view.app_ns];
    let [wall, mpi, app] = times.map(|ns| time(ns as f64 * NS));
    let bytes = volume(sum(|pair| pair.bytes) as f64);
    let mpi_share = percent(share(view.mpi_ns, view.app_ns));
    vec![
        ("Ranks", count(ranks as u64), nodes),
        ("Wall time", wall, format!("application {} per rank", time(mean))),
        ("MPI time", mpi_share, format!("{mpi} of {app}, all ranks")),
        ("MPI calls", count(calls), format!("{} functions", view.calls.len())),
        ("Messages", count(sum(|pair| pair.messages)), format!("{bytes}, point-to-point")),
    ]
}

/// `part / whole`, 0 where there is nothing.
pub fn share(part: u64, whole: u64) -> f64 {
    match whole {
        0 => 0.0,
        whole => part as f64 / whole as f64,
    }
}

/// Sentences on what is large.
fn findings(view: &ProfileView) -> Vec<String> {
    let all = [balance(view), largest_call(view), blame(view), nearness(view)];
    all.into_iter().flatten().collect()
}

fn balance(view: &ProfileView) -> Option<String> {
    if view.mpi_ns == 0 {
        return None;
    }
    let shares = view.profile.ranks.iter().filter(|rank| rank.app_ns > 0);
    let mut shares: Vec<(f64, u32)> =
        shares.map(|rank| (share(rank.mpi_ns, rank.app_ns), rank.rank)).collect();
    shares.sort_by(|a, b| a.0.total_cmp(&b.0));
    let ((least, first), (most, last)) = (shares.first()?, shares.last()?);
    Some(match most - least < 0.005 {
        true => format!("Every rank spends about {} of its time in MPI.", percent(*most)),
        false => format!(
            "Rank {first} spends least of its time in MPI ({}), rank {last} most ({}).",
            percent(*least),
            percent(*most)
        ),
    })
}

fn largest_call(view: &ProfileView) -> Option<String> {
    let largest = view.calls.first().filter(|sum| sum.time_ns > 0)?;
    let sites = by_call_and_site(view.profile);
    let site = sites.iter().find(|sum| sum.call == largest.call)?;
    let at = view.site(site.site?).both();
    let part = share(site.time_ns, largest.time_ns);
    let at = match part > 0.995 {
        true => format!("all of it in {at}"),
        false => format!("{} of that in {at}", percent(part)),
    };
    Some(format!(
        "{} takes {} of the MPI time, {at}.",
        largest.call,
        percent(share(largest.time_ns, view.mpi_ns))
    ))
}

fn blame(view: &ProfileView) -> Option<String> {
    let mut waits = vec![(0u64, 0u64); view.profile.ranks.len()];
    for late in &view.profile.late {
        let wait = waits.get_mut(late.rank as usize)?;
        *wait = (wait.0 + late.wait_ns, wait.1 + late.times);
    }
    let (rank, (wait, times)) = waits.into_iter().enumerate().max_by_key(|(_, w)| *w)?;
    (wait > 0).then(|| {
        format!(
            "{} collective calls waited for rank {rank}; the others waited {} in them.",
            count(times),
            time(wait as f64 * NS)
        )
    })
}

fn nearness(view: &ProfileView) -> Option<String> {
    let even = even_distribution(&view.profile.ranks);
    let even = even.get(&PairLevel::Network).copied().filter(|share| *share > 0.0)?;
    let (mut near, mut all) = (0, 0);
    for ((_, level), amount) in distribution(view.profile) {
        all += amount.bytes;
        near += if level == PairLevel::Network { 0 } else { amount.bytes };
    }
    (all > 0).then(|| {
        format!(
            "{} of the bytes of messages stay on a node; spread evenly over all pairs of ranks it \
             would be {}.",
            percent(share(near, all)),
            percent(1.0 - even)
        )
    })
}

fn notes(view: &ProfileView) -> Vec<String> {
    let job = &view.profile.job;
    let mut notes = Vec::new();
    let full = job.command.join(" ");
    if full != short_command(&job.command) {
        notes.push(format!("The whole command: {full}"));
    }
    if view.profile.ranks.iter().any(|rank| rank.mpi_ns > rank.app_ns) {
        notes.push(
            "Several threads of a rank were in MPI at once: its MPI time is their sum, and may be \
             more than the rank's time."
                .into(),
        );
    }
    if job.exit_code != 0 {
        notes.push(format!("The command ended with exit code {}.", job.exit_code));
    }
    if !job.missing_ranks.is_empty() {
        let ranks: Vec<String> = job.missing_ranks.iter().take(20).map(u32::to_string).collect();
        let more = match job.missing_ranks.len() - ranks.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let ranks = ranks.join(", ");
        notes.push(format!("Ranks without a record: {ranks}{more}. No figure includes them."));
    }
    notes.extend(job.notes.iter().cloned());
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use mica_profile::Profile;

    #[test]
    fn dates_are_short() {
        assert_eq!(date(1_764_000_000), "2025-11-24 16:00 UTC");
        assert_eq!(date(951_827_696), "2000-02-29 12:34 UTC");
    }

    #[test]
    fn heading_has_names_without_paths() {
        let command = ["/opt/mica/bin/mpiexec", "-n", "4", "./ring", "/", "--in=/tmp/x"];
        let command = command.map(str::to_owned);
        assert_eq!(short_command(&command), "mpiexec -n 4 ./ring / --in=/tmp/x");
    }

    #[test]
    fn time_of_several_threads_is_explained() {
        let mut profile = Profile::example();
        assert_eq!(notes(&ProfileView::new(&profile)), ["made by hand"]);
        profile.ranks[1].mpi_ns = profile.ranks[1].app_ns * 2;
        assert!(notes(&ProfileView::new(&profile))[0].starts_with("Several threads"));
    }

    #[test]
    fn example_is_described() {
        let profile = Profile::example();
        let found = findings(&ProfileView::new(&profile));
        assert_eq!(
            found,
            [
                "Every rank spends about 17.8 % of its time in MPI.",
                "MPI_Allreduce takes 93.9 % of the MPI time, all of it in main (ring.c:40).",
                "18 collective calls waited for rank 3; the others waited 2.7 s in them.",
                "50.0 % of the bytes of messages stay on a node; spread evenly over all pairs of \
                 ranks it would be 33.3 %."
            ]
        );
    }
}

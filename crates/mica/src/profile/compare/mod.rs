//! `mica profile --compare NAME=VALUE[,NAME=VALUE...] -- mpiexec -n N PROGRAM`: the program with
//! several settings, side by side in the tables of ma-2011 (Tables 1 to 5): application and MPI
//! time, the calls that took longest, aggregate sent message size.
//!
//! Each `--compare` is one side; a single one stands beside the command as it is. A round runs
//! every side once, and every other round runs them in reverse order, so that a machine that gets
//! slower or faster favours none. A figure is the median of the rounds. Each run is a
//! `mica profile` of its own, whose profile.json is read back. Settings are environment variables,
//! which the launchers of all libraries pass on to the ranks of their own host.
//!
//! [`tables`] prints a [`Comparison`].

mod tables;

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use mica_profile::Profile;
use mica_profile::summary::by_call_and_site;
use serde::Serialize;

pub use self::tables::Format;
use super::rounds::{Spread, spread, turns};
use super::text::place;
use crate::scratch::ScratchFolder;

/// Settings as the command line gives them: `A=1,B=2`.
#[derive(Debug, Clone, PartialEq)]
pub struct SettingsArgument(Vec<(String, String)>);

/// Reads `NAME=VALUE[,NAME=VALUE...]`.
pub fn parse_settings(text: &str) -> Result<SettingsArgument, String> {
    let pair = |word: &str| match word.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!("'{word}' is not NAME=VALUE")),
    };
    text.split(',').map(pair).collect::<Result<_, _>>().map(SettingsArgument)
}

impl SettingsArgument {
    fn name(&self) -> String {
        let words: Vec<String> =
            self.0.iter().map(|(name, value)| format!("{name}={value}")).collect();
        match words.is_empty() {
            true => "as it is".to_owned(),
            false => words.join(" "),
        }
    }
}

/// The program with one side's settings: medians of the rounds.
#[derive(Debug, PartialEq, Serialize)]
pub struct Side {
    /// The settings, or `as it is`.
    name: String,
    /// Application time, mean of the ranks.
    app_s: Spread,
    /// Time in MPI calls, mean of the ranks.
    mpi_s: Spread,
    /// The second in percent of the first.
    mpi_percent: f64,
    /// Those that took longest first.
    calls: Vec<CallRow>,
}

/// One call at one site, of all ranks.
#[derive(Debug, PartialEq, Serialize)]
struct CallRow {
    call: String,
    site: String,
    time_ms: f64,
    count: u64,
    sends: u64,
    bytes: u64,
}

/// The sides of a program.
#[derive(Debug, Serialize)]
pub struct Comparison {
    command: Vec<String>,
    library: String,
    ranks: usize,
    rounds: usize,
    sides: Vec<Side>,
}

/// Runs the command in alternating rounds.
///
/// # Errors
/// If a run fails or leaves no profile.
pub fn compare(
    command: &[String],
    settings: &[SettingsArgument],
    rounds: usize,
) -> Result<Comparison, Box<dyn Error>> {
    let mut sides = settings.to_vec();
    if sides.len() == 1 {
        sides.insert(0, SettingsArgument(Vec::new()));
    }
    let folder = ScratchFolder::new("compare")?;
    let mut profiles: Vec<Vec<Profile>> = sides.iter().map(|_| Vec::new()).collect();
    for (round, side) in turns(rounds, sides.len()) {
        eprintln!("round {} of {rounds}: {}", round + 1, sides[side].name());
        profiles[side].push(run(command, &sides[side], folder.path())?);
        folder.empty()?;
    }
    let first = &profiles[0][0];
    Ok(Comparison {
        command: command.to_vec(),
        library: first.job.library.clone(),
        ranks: first.ranks.len(),
        rounds,
        sides: sides
            .iter()
            .zip(&profiles)
            .map(|(side, profiles)| summarize(side.name(), profiles))
            .collect(),
    })
}

fn run(
    command: &[String],
    settings: &SettingsArgument,
    folder: &Path,
) -> Result<Profile, Box<dyn Error>> {
    let mut profiler = Command::new(std::env::current_exe()?);
    profiler.args(["profile", "--no-timeline", "-o"]).arg(folder).arg("--").args(command);
    profiler.envs(settings.0.iter().cloned());
    profiler.stdout(Stdio::null()).stderr(Stdio::inherit());
    let status = profiler.status()?;
    if !status.success() {
        return Err(format!("{} ({}): {status}", command.join(" "), settings.name()).into());
    }
    let profile = fs::read_to_string(folder.join("profile.json"))
        .map_err(|error| format!("{}: no profile: {error}", command.join(" ")))?;
    Ok(serde_json::from_str(&profile)?)
}

fn summarize(name: String, profiles: &[Profile]) -> Side {
    let mean_s = |profile: &Profile, of: fn(&mica_profile::RankProfile) -> u64| {
        let sum: u64 = profile.ranks.iter().map(of).sum();
        sum as f64 / 1e9 / profile.ranks.len().max(1) as f64
    };
    let times = |of: fn(&mica_profile::RankProfile) -> u64| {
        spread(profiles.iter().map(|profile| mean_s(profile, of)).collect())
    };
    let (app_s, mpi_s) = (times(|rank| rank.app_ns), times(|rank| rank.mpi_ns));
    Side {
        name,
        app_s,
        mpi_s,
        mpi_percent: percent(mpi_s.median, app_s.median),
        calls: calls(profiles),
    }
}

/// The medians of each call and site. A call that a round does not have counts as zero there.
fn calls(profiles: &[Profile]) -> Vec<CallRow> {
    let mut rows: BTreeMap<(String, String), Vec<[u64; 4]>> = BTreeMap::new();
    for profile in profiles {
        for sum in by_call_and_site(profile) {
            let site = sum.site.map(|site| place(&profile.sites[site as usize]));
            let key = (sum.call, site.unwrap_or_default());
            let figures = [sum.time_ns, sum.count, sum.sends, sum.bytes];
            rows.entry(key).or_default().push(figures);
        }
    }
    let row = |((call, site), mut figures): ((String, String), Vec<[u64; 4]>)| {
        figures.resize(profiles.len().max(figures.len()), [0; 4]);
        let median =
            |which: usize| spread(figures.iter().map(|all| all[which] as f64).collect()).median;
        CallRow {
            call,
            site,
            time_ms: median(0) / 1e6,
            count: median(1) as u64,
            sends: median(2) as u64,
            bytes: median(3) as u64,
        }
    };
    let mut rows: Vec<CallRow> = rows.into_iter().map(row).collect();
    rows.sort_by(|a, b| b.time_ms.total_cmp(&a.time_ms));
    rows
}

fn percent(part: f64, whole: f64) -> f64 {
    match whole > 0.0 {
        true => 100.0 * part / whole,
        false => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_settings() {
        let settings = parse_settings("MICA_DIRECT=off,MICA_COLL=shared").unwrap();
        assert_eq!(settings.name(), "MICA_DIRECT=off MICA_COLL=shared");
        assert_eq!(parse_settings("A=").unwrap().name(), "A=");
        for bad in ["", "A", "=1", "A=1,B"] {
            assert!(parse_settings(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn figures_are_medians_of_the_rounds() {
        let slower = |by: u64| {
            let mut profile = Profile::example();
            for rank in &mut profile.ranks {
                rank.app_ns *= by;
            }
            for call in &mut profile.calls {
                call.time_ns *= by;
            }
            profile
        };
        let side = summarize("a".into(), &[slower(1), slower(9), slower(2)]);
        assert_eq!(side.app_s, Spread { median: 2.4, min: 1.2, max: 10.8 });
        assert!((side.mpi_s.median - 0.213).abs() < 1e-9);
        assert_eq!(side.calls[0].call, "MPI_Allreduce");
        assert_eq!((side.calls[0].time_ms, side.calls[0].count), (1600.0, 80));
        let send = side.calls.iter().find(|row| row.call == "MPI_Send").unwrap();
        assert_eq!((send.sends, send.bytes), (400, 400 * 24_576));
        assert!(send.site.ends_with("ring.c:21"));
    }

    #[test]
    fn call_that_most_rounds_lack_counts_nothing() {
        let mut without = Profile::example();
        without.calls.retain(|call| call.call != "MPI_Barrier");
        let side = summarize("a".into(), &[Profile::example(), without.clone(), without]);
        let barrier = side.calls.iter().find(|row| row.call == "MPI_Barrier").unwrap();
        assert_eq!((barrier.time_ms, barrier.count), (0.0, 0));
    }
}

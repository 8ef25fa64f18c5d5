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
//! A side may also be a profile that was saved: `mica profile --compare BEFORE AFTER`. It is one
//! round, and nothing is run for it.
//!
//! [`tables`] prints a [`Comparison`], [`page`] draws it.

mod page;
mod tables;

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use mica_profile::Profile;
use mica_profile::summary::by_call_and_site;
use serde::Serialize;

pub use self::tables::Format;
use super::rounds::{Spread, spread, turns};
use super::text::place;
use crate::scratch::ScratchFolder;
use crate::settings;

/// The file of a profile in its directory.
const PROFILE_FILE: &str = "profile.json";

/// A side as the command line gives it.
#[derive(Debug, Clone, PartialEq)]
pub enum SideArgument {
    /// The command with these variables: `A=1,B=2`.
    Settings(Vec<(String, String)>),
    /// A saved profile: its file, or the directory with profile.json.
    Saved(PathBuf),
}

/// Reads `NAME=VALUE[,NAME=VALUE...]`, or the path of a saved profile.
pub fn parse_side(text: &str) -> Result<SideArgument, String> {
    let path = Path::new(text);
    if path.exists() {
        let path = if path.is_dir() { path.join(PROFILE_FILE) } else { path.to_owned() };
        return Ok(SideArgument::Saved(path));
    }
    let wrong = |part: &str| format!("'{part}' is neither NAME=VALUE nor a saved profile");
    settings::parse(text).map(SideArgument::Settings).map_err(wrong)
}

impl SideArgument {
    /// The command as it is.
    const AS_IT_IS: SideArgument = SideArgument::Settings(Vec::new());

    fn name(&self) -> String {
        match self {
            SideArgument::Settings(settings) if settings.is_empty() => "as it is".to_owned(),
            SideArgument::Settings(settings) => {
                let words: Vec<String> =
                    settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
                words.join(" ")
            }
            SideArgument::Saved(file) => match file.file_name() {
                Some(name) if name == PROFILE_FILE => {
                    file.parent().unwrap_or(file).display().to_string()
                }
                _ => file.display().to_string(),
            },
        }
    }
}

/// One side: medians of the rounds.
#[derive(Debug, PartialEq, Serialize)]
pub struct Side {
    /// The settings, `as it is`, or the path of the saved profile.
    name: String,
    /// What ran.
    command: Vec<String>,
    library: String,
    ranks: usize,
    host: String,
    /// Seconds since the epoch at the start of the first round.
    started_unix_s: u64,
    /// How many runs the figures are medians of.
    rounds: usize,
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

/// The sides; at least one.
#[derive(Debug, Serialize)]
pub struct Comparison {
    sides: Vec<Side>,
}

/// Reads saved profiles, and runs the command with each side's settings in alternating rounds.
///
/// # Errors
/// If there is no command for settings or one side alone, a run fails or leaves no profile, or a
/// saved one cannot be read.
pub fn compare(
    command: &[String],
    sides: &[SideArgument],
    rounds: usize,
) -> Result<Comparison, Box<dyn Error>> {
    let mut sides = sides.to_vec();
    if sides.len() == 1 {
        sides.insert(0, SideArgument::AS_IT_IS);
    }
    let is_run = |side: &SideArgument| matches!(side, SideArgument::Settings(_));
    if command.is_empty() && sides.iter().any(is_run) {
        return Err("--compare: give a command to run, or two saved profiles".into());
    }
    let folder = ScratchFolder::new("compare")?;
    let mut profiles: Vec<Vec<Profile>> = sides.iter().map(|_| Vec::new()).collect();
    for (round, side) in turns(rounds, sides.len()) {
        match &sides[side] {
            SideArgument::Settings(settings) => {
                eprintln!("round {} of {rounds}: {}", round + 1, sides[side].name());
                let run = run(command, settings, folder.path());
                let named =
                    |error| format!("{} ({}): {error}", command.join(" "), sides[side].name());
                profiles[side].push(run.map_err(named)?);
                folder.empty()?;
            }
            SideArgument::Saved(file) if round == 0 => profiles[side].push(Profile::read(file)?),
            SideArgument::Saved(_) => {}
        }
    }
    let sides = sides.iter().zip(&profiles);
    Ok(Comparison {
        sides: sides.map(|(side, profiles)| summarize(side.name(), profiles)).collect(),
    })
}

fn run(
    command: &[String],
    settings: &[(String, String)],
    folder: &Path,
) -> Result<Profile, Box<dyn Error>> {
    let mut profiler = Command::new(std::env::current_exe()?);
    profiler.args(["profile", "--no-timeline", "-o"]).arg(folder).arg("--").args(command);
    profiler.envs(settings.iter().cloned());
    profiler.stdout(Stdio::null()).stderr(Stdio::inherit());
    let status = profiler.status()?;
    if status.success() { Ok(Profile::read(folder)?) } else { Err(status.to_string().into()) }
}

/// Sums up the rounds of a side; there is one at least.
fn summarize(name: String, profiles: &[Profile]) -> Side {
    let mean_s = |profile: &Profile, of: fn(&mica_profile::RankProfile) -> u64| {
        let sum: u64 = profile.ranks.iter().map(of).sum();
        sum as f64 / 1e9 / profile.ranks.len().max(1) as f64
    };
    let times = |of: fn(&mica_profile::RankProfile) -> u64| {
        spread(profiles.iter().map(|profile| mean_s(profile, of)).collect())
    };
    let (app_s, mpi_s) = (times(|rank| rank.app_ns), times(|rank| rank.mpi_ns));
    let first = &profiles[0];
    Side {
        name,
        command: first.job.command.clone(),
        library: first.job.library.clone(),
        ranks: first.ranks.len(),
        host: first.job.host.clone(),
        started_unix_s: first.job.started_unix_s,
        rounds: profiles.len(),
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
    if whole > 0.0 { 100.0 * part / whole } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn reads_settings() {
        let settings = parse_side("MICA_DIRECT=off,MICA_COLL=shared").unwrap();
        assert_eq!(settings.name(), "MICA_DIRECT=off MICA_COLL=shared");
        assert_eq!(parse_side("A=").unwrap().name(), "A=");
        for bad in ["", "A", "=1", "A=1,B", "/nowhere"] {
            assert!(parse_side(bad).is_err(), "{bad}");
        }
    }

    /// Two profiles in a folder: as saved, and with twice the time.
    fn saved(folder: &Path) -> [PathBuf; 2] {
        [1, 2].map(|by| {
            let mut profile = Profile::example();
            for rank in &mut profile.ranks {
                rank.app_ns *= by;
            }
            let directory = folder.join(format!("times-{by}"));
            fs::create_dir(&directory).expect("own folder");
            fs::write(directory.join(PROFILE_FILE), profile.to_json()).expect("own folder");
            directory
        })
    }

    #[test]
    fn saved_profiles_are_compared_without_a_command() {
        let folder = ScratchFolder::new("saved").expect("a folder");
        let sides = saved(folder.path()).map(|path| parse_side(path.to_str().unwrap()).unwrap());
        let comparison = compare(&[], &sides, 5).expect("two profiles");
        let [before, after] = &comparison.sides[..] else { panic!("two sides") };
        assert!(before.name.ends_with("times-1"), "{}", before.name);
        assert_eq!((before.rounds, before.ranks), (1, Profile::example().ranks.len()));
        assert_eq!(after.app_s.median, 2.0 * before.app_s.median);
        assert_eq!(before.command, Profile::example().job.command);
    }

    #[test]
    fn says_what_is_missing_of_saved_profiles() {
        let folder = ScratchFolder::new("saved-bad").expect("a folder");
        let [one, other] = saved(folder.path());
        let side = |path: &Path| parse_side(path.to_str().unwrap()).unwrap();
        let error = compare(&[], &[side(&one)], 5).expect_err("one alone").to_string();
        assert!(error.contains("two saved profiles"), "{error}");
        fs::write(other.join(PROFILE_FILE), "{").expect("own folder");
        let error = compare(&[], &[side(&one), side(&other)], 5).expect_err("broken").to_string();
        assert!(error.contains("times-2/profile.json"), "{error}");
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

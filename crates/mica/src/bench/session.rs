//! One run of the command, from the choice of contestants to the result files.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use mica_node::topology;
use serde_json::json;

use super::BenchOptions;
use super::bars;
use super::build::Builder;
use super::cache::{MissCounter, Misses};
use super::contestant::{self, Contestant};
use super::data::FigureTable;
use super::execute::Executor;
use super::guidelines;
use super::host::{self, HostFacts};
use super::hosts::Hosts;
use super::html;
use super::place::Places;
use super::plot;
use super::progress::BenchProgress;
use super::report::BenchReport;
use super::results;
use super::rounds::{RoundEntry, Rounds};
use super::run::BenchRun;
use super::suite::{MICA, Program, Suite};

/// Runs the selected programs and writes the results. An `Err` is a mistake of the caller (an
/// unknown name, a folder that cannot be written); failures of a contestant are part of the
/// results.
pub fn run(
    options: &BenchOptions,
    places: &Places,
    suite: &Suite,
    mut executor: Executor,
) -> Result<ExitCode, String> {
    let say = |line: &str| eprintln!("{line}");
    let programs = match options.cache_misses {
        true => Vec::new(),
        false => suite.select(&options.what)?,
    };
    let (mut contestants, mut left_out) =
        contestant::find(&options.with, &places.peers, &mut executor, &say)?;
    add_variants(&mut contestants, options, suite, &programs);
    let peers = places.peers.display().to_string();
    for setting in contestants.iter_mut().flat_map(|c| c.settings.values_mut()) {
        *setting = setting.replace("{peers}", &peers);
    }
    let builder = Builder {
        work: &places.work,
        sources: &suite.sources,
    };
    let mut host = HostFacts::gather(places.tree.as_deref());
    contestants.retain(|contestant| {
        let version = match contestant::refused(contestant, &mut executor) {
            Some(complaint) => Err(complaint),
            None => builder.version(&mut executor, contestant),
        };
        match version {
            Ok(version) => {
                host.versions.insert(contestant.name.clone(), version);
                true
            }
            Err(error) => {
                left_out.push(format!("{} is left out: {error}", contestant.name));
                false
            }
        }
    });
    for line in &left_out {
        say(line);
    }
    if contestants.is_empty() {
        return Err("no library to run".to_owned());
    }

    let (runs, misses, interrupted) = if options.cache_misses {
        let misses = misses(
            &mut executor,
            &builder,
            &contestants,
            (suite, &options.what),
            &mut left_out,
        )?;
        (Vec::new(), misses, false)
    } else {
        let rounds = prepare(
            options,
            suite,
            &programs,
            &contestants,
            &builder,
            &mut executor,
            &mut left_out,
        )?;
        say(&format!(
            "{} runs; load average {}: figures want an idle machine",
            rounds.steps(),
            host.load_before
        ));
        let mut progress = BenchProgress::new(rounds.steps());
        let (runs, interrupted) = rounds.run(&mut executor, &mut progress);
        progress.finish();
        (runs, Vec::new(), interrupted)
    };
    host.load_after = host::load();

    let names: Vec<String> = contestants.iter().map(|c| c.name.clone()).collect();
    let data = FigureTable::of(&runs, suite);
    let rows = results::rows(&data, suite, &names);
    let bars = match options.cache_misses {
        true => Vec::new(),
        false => suite.bars_of(&options.what)?,
    };
    if interrupted {
        left_out.push("interrupted: the rounds are not complete".to_owned());
    }
    let report = BenchReport {
        command: std::env::args()
            .skip(1)
            .fold("mica".to_owned(), |line, word| line + " " + &word),
        title: title(options, suite),
        rounds: rounds(options),
        bars: bars::judge(&bars, suite, &data, &rows),
        guidelines: guidelines::judge(suite, &rows, &names),
        plots: if options.no_plots {
            Vec::new()
        } else {
            plot::plots(&rows, suite)
        },
        hardware: results::hardware(&data, &runs, suite),
        failures: results::failures(&runs),
        contestants: names,
        host,
        rows,
        misses,
        left_out,
    };
    let out = options.out.clone().unwrap_or_else(|| {
        let name = match options.cache_misses {
            true => "cache-misses".to_owned(),
            false => options.what.join("-"),
        };
        unused(&places.results, &format!("{}-{name}", report.host.day()))
    });
    write(&out, &report, &runs)?;
    if options.json {
        println!(
            "{}",
            serde_json::to_string_pretty(&report).map_err(|error| error.to_string())?
        );
    } else {
        print!("{}", report.terminal());
    }
    say(&format!("written to {}", out.display()));
    Ok(match (interrupted, report.complaints().is_empty()) {
        (true, _) => ExitCode::from(130),
        (false, true) => ExitCode::SUCCESS,
        (false, false) => ExitCode::FAILURE,
    })
}

/// Adds the variants of the command line, and those of the suite that these programs need.
fn add_variants(
    contestants: &mut Vec<Contestant>,
    options: &BenchOptions,
    suite: &Suite,
    programs: &[&Program],
) {
    let Some(mica) = contestants.iter().find(|c| c.name == MICA).cloned() else {
        return;
    };
    let given = options.variant.iter().map(|variant| mica.variant(variant));
    let mut variants: Vec<Contestant> = given.collect();
    for variant in &suite.variants {
        let variant = mica.variant(variant);
        let named = variants.iter().any(|other| other.name == variant.name);
        // A variant that is not tied to programs takes part only if the command line names it.
        let needed =
            variant.programs.is_some() && programs.iter().any(|program| variant.runs(program));
        if needed && !named {
            variants.push(variant);
        }
    }
    let place = contestants
        .iter()
        .position(|c| c.name == MICA)
        .map_or(0, |place| place + 1);
    contestants.splice(place..place, variants);
}

/// Compiles everything. A program that does not compile for a contestant is left out for that
/// contestant.
fn prepare<'a>(
    options: &BenchOptions,
    suite: &'a Suite,
    programs: &[&'a Program],
    contestants: &'a [Contestant],
    builder: &Builder<'_>,
    executor: &mut Executor,
    left_out: &mut Vec<String>,
) -> Result<Rounds<'a>, String> {
    // Make the hosts first: without them, their programs need not be compiled.
    let mut programs = programs.to_vec();
    let on_hosts = programs.iter().any(|program| program.on_hosts());
    let here = programs.iter().any(|program| !program.on_hosts());
    let hosts = match on_hosts.then(|| Hosts::make(executor.scratch())) {
        Some(Err(error)) if !here => return Err(error),
        Some(Err(error)) => {
            programs.retain(|program| {
                if program.on_hosts() {
                    left_out.push(format!("{} is left out: {error}", program.name));
                }
                !program.on_hosts()
            });
            None
        }
        Some(Ok(hosts)) => Some(hosts),
        None => None,
    };
    let mut floors = Vec::new();
    let wanted = |program: &&Program| match program.on_hosts() {
        true => hosts.is_some(),
        false => here,
    };
    let all = suite.programs.iter().filter(|program| program.floor);
    for program in all.filter(wanted) {
        match builder.floor(executor, program) {
            Ok(binary) => floors.push((program, binary.display().to_string())),
            Err(error) => left_out.push(format!("{} is left out: {error}", program.name)),
        }
    }
    let mut entries = Vec::new();
    for program in programs {
        let mut binaries = BTreeMap::new();
        for (index, contestant) in contestants.iter().enumerate() {
            if !contestant.runs(program) {
                continue;
            }
            match builder.program(executor, contestant, program) {
                Ok(binary) => drop(binaries.insert(index, binary.display().to_string())),
                Err(error) => {
                    let line =
                        format!("{} does not run {}: {error}", contestant.name, program.name);
                    eprintln!("{line}");
                    left_out.push(line);
                }
            }
        }
        let values = program.sweep.as_ref().map(|sweep| &sweep.values[..]);
        let values: Vec<Option<i64>> = match values {
            Some(values) => values.iter().copied().map(Some).collect(),
            None => vec![None],
        };
        for ranks in program.counts() {
            for &swept in &values {
                let binaries = binaries.clone();
                entries.push(RoundEntry {
                    program,
                    ranks,
                    swept,
                    binaries,
                });
            }
        }
    }
    let allowed = topology::affinity().map_err(|error| format!("the affinity mask: {error}"))?;
    Ok(Rounds {
        hosts,
        floors,
        entries,
        contestants,
        allowed,
        cores: topology::available_cores(),
        rounds: rounds(options),
        quick: options.quick,
    })
}

/// Counts cache misses: for all programs that the suite declares, or those that were named.
fn misses(
    executor: &mut Executor,
    builder: &Builder<'_>,
    contestants: &[Contestant],
    (suite, names): (&Suite, &[String]),
    left_out: &mut Vec<String>,
) -> Result<Vec<Misses>, String> {
    let known = |name: &String| suite.caches.iter().any(|walk| walk.name == *name);
    if let Some(name) = names.iter().find(|name| !known(name)) {
        let all: Vec<&str> = suite.caches.iter().map(|walk| walk.name.as_str()).collect();
        let all = all.join(", ");
        return Err(format!("--cache-misses has no '{name}'; there are: {all}"));
    }
    let counter = MissCounter::find(executor)?;
    let mut found = Vec::new();
    let cores = topology::available_cores();
    for walk in suite
        .caches
        .iter()
        .filter(|walk| names.is_empty() || names.contains(&walk.name))
    {
        for contestant in contestants {
            eprintln!("{} {}", contestant.name, walk.name);
            match counter.measure(executor, builder, contestant, walk, cores) {
                Ok(misses) => found.push(misses),
                Err(error) => {
                    let line = format!("{} {}: {error}", contestant.name, walk.name);
                    eprintln!("{line}");
                    left_out.push(line);
                }
            }
        }
    }
    Ok(found)
}

fn rounds(options: &BenchOptions) -> usize {
    if options.quick {
        1
    } else {
        options.rounds.into()
    }
}

/// A set's own title if only that set was selected.
fn title(options: &BenchOptions, suite: &Suite) -> String {
    let set = suite
        .sets
        .iter()
        .find(|set| options.what == [set.name.as_str()]);
    match set {
        _ if options.cache_misses => "Cache misses per message".to_owned(),
        Some(set) => set.title.clone(),
        None => format!("mica bench: {}", options.what.join(", ")),
    }
}

/// A folder that does not exist yet: results are not overwritten unless `--out` names the folder.
fn unused(folder: &Path, name: &str) -> PathBuf {
    let names = (1..).map(|n| match n {
        1 => folder.join(name),
        n => folder.join(format!("{name}-{n}")),
    });
    let mut free = names.filter(|path| !path.exists());
    free.next().expect("numbers do not end")
}

fn write(out: &Path, report: &BenchReport, runs: &[BenchRun]) -> Result<(), String> {
    let put = |name: &str, text: String| {
        let path = out.join(name);
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
    };
    let pretty = |value: &serde_json::Value| format!("{value:#}\n");
    fs::create_dir_all(out).map_err(|error| format!("{}: {error}", out.display()))?;
    put("command", format!("{}\n", report.command))?;
    put("host.json", pretty(&json!(report.host)))?;
    put(
        "raw.json",
        pretty(&json!({ "runs": runs, "cache_misses": report.misses })),
    )?;
    put("summary.json", pretty(&json!(report)))?;
    put("summary.md", report.markdown())?;
    if !report.plots.is_empty() {
        for plot in &report.plots {
            put(&format!("{}.svg", plot.name), plot.svg())?;
        }
    }
    put("report.html", html::page(report))
}

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
use super::gzip;
use super::host::{self, HostFacts};
use super::hosts::Hosts;
use super::html;
use super::place::Places;
use super::plot;
use super::progress::BenchProgress;
use super::report::BenchReport;
use super::results;
use super::rounds::{MeasuredRounds, RoundEntry, Rounds};
use super::run::BenchRun;
use super::suite::{MICA, Program, Suite};
use crate::origin::ResultOrigin;

/// Runs the selected programs and writes the results. An `Err` is a mistake of the caller (an
/// unknown name, a folder that cannot be written); failures of a contestant are part of the
/// results.
pub fn run(
    options: &BenchOptions,
    places: &Places,
    suite: &Suite,
    mut executor: Executor,
) -> Result<ExitCode, String> {
    let programs = if options.cache_misses { Vec::new() } else { suite.select(&options.what)? };
    let (mut contestants, left_out) =
        contestant::find(&options.with, &places.peers, &mut executor, &say)?;
    add_variants(&mut contestants, options, suite, &programs);
    let peers = places.peers.display().to_string();
    for setting in contestants.iter_mut().flat_map(|c| c.settings.values_mut()) {
        *setting = setting.replace("{peers}", &peers);
    }
    let mut session = BenchSession {
        options,
        suite,
        builder: Builder { work: &places.work, sources: &suite.sources },
        executor,
        host: HostFacts::gather(places.tree.as_deref()),
        left_out,
    };
    session.drop_unusable(&mut contestants);
    for line in &session.left_out {
        say(line);
    }
    if contestants.is_empty() {
        return Err("no library to run".to_owned());
    }
    let measured = session.measure(&programs, &contestants)?;
    session.host.load_after = host::load();
    let interrupted = measured.interrupted;
    let names = contestants.iter().map(|c| c.name.clone()).collect();
    let (report, runs) = session.report(names, measured)?;
    publish(options, places, &report, &runs)?;
    Ok(match (interrupted, report.complaints().is_empty()) {
        (true, _) => ExitCode::from(130),
        (false, true) => ExitCode::SUCCESS,
        (false, false) => ExitCode::FAILURE,
    })
}

fn say(line: &str) {
    eprintln!("{line}");
}

/// What a session measured.
struct Measured {
    runs: Vec<BenchRun>,
    misses: Vec<Misses>,
    /// The user stopped the rounds.
    interrupted: bool,
}

/// One run of the command.
struct BenchSession<'a> {
    options: &'a BenchOptions,
    suite: &'a Suite,
    builder: Builder<'a>,
    executor: Executor,
    host: HostFacts,
    /// What does not take part, with the reason.
    left_out: Vec<String>,
}

impl<'a> BenchSession<'a> {
    /// Drops the contestants that cannot run, and notes the versions of the others.
    fn drop_unusable(&mut self, contestants: &mut Vec<Contestant>) {
        contestants.retain(|contestant| {
            let version = match contestant::refused(contestant, &mut self.executor) {
                Some(complaint) => Err(complaint),
                None => self.builder.version(&mut self.executor, contestant),
            };
            match version {
                Ok(version) => {
                    let versions = &mut self.host.versions;
                    versions.insert(contestant.name.clone(), version);
                    true
                }
                Err(error) => {
                    self.left_out.push(format!("{} is left out: {error}", contestant.name));
                    false
                }
            }
        });
    }

    /// Runs all rounds, or counts cache misses.
    fn measure(
        &mut self,
        programs: &[&'a Program],
        contestants: &[Contestant],
    ) -> Result<Measured, String> {
        if self.options.cache_misses {
            return Ok(Measured {
                runs: Vec::new(),
                misses: self.misses(contestants)?,
                interrupted: false,
            });
        }
        let rounds = self.prepare(programs, contestants)?;
        say(&format!(
            "{} runs; load average {}: figures want an idle machine",
            rounds.steps(),
            self.host.load_before
        ));
        let mut progress = BenchProgress::new(rounds.steps());
        let MeasuredRounds { runs, interrupted, others } =
            rounds.run(&mut self.executor, &mut progress);
        progress.finish();
        self.host.others = others;
        Ok(Measured { runs, misses: Vec::new(), interrupted })
    }

    /// The report, and the runs that it is computed from.
    fn report(
        mut self,
        contestants: Vec<String>,
        measured: Measured,
    ) -> Result<(BenchReport, Vec<BenchRun>), String> {
        let Measured { runs, misses, interrupted } = measured;
        let (options, suite) = (self.options, self.suite);
        let data = FigureTable::of(&runs, suite);
        let rows = results::rows(&data, suite, &contestants);
        let bars = if options.cache_misses { Vec::new() } else { suite.bars_of(&options.what)? };
        if interrupted {
            self.left_out.push("interrupted: the rounds are not complete".to_owned());
        }
        let report = BenchReport {
            origin: ResultOrigin::of_this_command(
                "as each library chooses, or as its variant is set",
            ),
            title: title(options, suite),
            rounds: rounds(options),
            bars: bars::judge(&bars, &rows),
            guidelines: guidelines::judge(suite, &rows, &contestants),
            plots: if options.no_plots { Vec::new() } else { plot::plots(&rows, suite) },
            hardware: results::hardware(&data, &runs, suite),
            failures: results::failures(&runs),
            contestants,
            host: self.host,
            rows,
            misses,
            left_out: self.left_out,
        };
        Ok((report, runs))
    }

    /// Compiles everything. A program that does not compile for a contestant is left out for that
    /// contestant.
    fn prepare<'c>(
        &mut self,
        programs: &[&'c Program],
        contestants: &'c [Contestant],
    ) -> Result<Rounds<'c>, String>
    where
        'a: 'c,
    {
        let mut programs = programs.to_vec();
        let here = programs.iter().any(|program| !program.on_hosts());
        // Make the hosts first: without them, their programs need not be compiled.
        let hosts = self.make_hosts(&mut programs)?;
        let suite = self.suite;
        let mut floors = Vec::new();
        let wanted = |program: &&Program| if program.on_hosts() { hosts.is_some() } else { here };
        let all = suite.programs.iter().filter(|program| program.floor);
        for program in all.filter(wanted) {
            match self.compile(None, program) {
                Ok(binary) => floors.push((program, binary.display().to_string())),
                Err(error) => {
                    self.left_out.push(format!("{} is left out: {error}", program.name));
                }
            }
        }
        let mut entries = Vec::new();
        for program in programs {
            let binaries = self.build(program, contestants);
            let values: Vec<Option<i64>> = match &program.sweep {
                Some(sweep) => sweep.values.iter().copied().map(Some).collect(),
                None => vec![None],
            };
            for ranks in program.counts() {
                entries.extend(values.iter().map(|&swept| RoundEntry {
                    program,
                    ranks,
                    swept,
                    binaries: binaries.clone(),
                }));
            }
        }
        let allowed =
            topology::affinity().map_err(|error| format!("the affinity mask: {error}"))?;
        Ok(Rounds {
            hosts,
            floors,
            entries,
            contestants,
            allowed,
            cores: topology::available_cores(),
            rounds: rounds(self.options),
            quick: self.options.quick,
        })
    }

    /// Makes the hosts if programs need them. If that fails, their programs are left out; it is an
    /// error if there are no others.
    fn make_hosts(&mut self, programs: &mut Vec<&Program>) -> Result<Option<Hosts>, String> {
        if !programs.iter().any(|program| program.on_hosts()) {
            return Ok(None);
        }
        let here = programs.iter().any(|program| !program.on_hosts());
        match Hosts::make(self.executor.scratch()) {
            Ok(hosts) => Ok(Some(hosts)),
            Err(error) if !here => Err(error),
            Err(error) => {
                for program in programs.iter().filter(|program| program.on_hosts()) {
                    self.left_out.push(format!("{} is left out: {error}", program.name));
                }
                programs.retain(|program| !program.on_hosts());
                Ok(None)
            }
        }
    }

    fn compile(&mut self, by: Option<&Contestant>, program: &Program) -> Result<PathBuf, String> {
        self.builder.compile(&mut self.executor, by, program.source(), &program.flags)
    }

    /// Compiles a program for the contestants that run it: the binaries by contestant's index.
    fn build(&mut self, program: &Program, contestants: &[Contestant]) -> BTreeMap<usize, String> {
        let mut binaries = BTreeMap::new();
        for (index, contestant) in contestants.iter().enumerate() {
            if !contestant.runs(program) {
                continue;
            }
            match self.compile(Some(contestant), program) {
                Ok(binary) => drop(binaries.insert(index, binary.display().to_string())),
                Err(error) => {
                    let name = &contestant.name;
                    self.leave_out(format!("{name} does not run {}: {error}", program.name));
                }
            }
        }
        binaries
    }

    /// Reports at once that something does not take part.
    fn leave_out(&mut self, line: String) {
        say(&line);
        self.left_out.push(line);
    }

    /// Counts cache misses: for all programs that the suite declares, or those that were named.
    fn misses(&mut self, contestants: &[Contestant]) -> Result<Vec<Misses>, String> {
        let (suite, names) = (self.suite, &self.options.what);
        let known = |name: &String| suite.caches.iter().any(|walk| walk.name == *name);
        if let Some(name) = names.iter().find(|name| !known(name)) {
            let all: Vec<&str> = suite.caches.iter().map(|walk| walk.name.as_str()).collect();
            let all = all.join(", ");
            return Err(format!("--cache-misses has no '{name}'; there are: {all}"));
        }
        let counter = MissCounter::find(&mut self.executor)?;
        let mut found = Vec::new();
        let cores = topology::available_cores();
        let walks = suite.caches.iter();
        for walk in walks.filter(|walk| names.is_empty() || names.contains(&walk.name)) {
            for contestant in contestants {
                say(&format!("{} {}", contestant.name, walk.name));
                let (executor, builder) = (&mut self.executor, &self.builder);
                match counter.measure(executor, builder, contestant, walk, cores) {
                    Ok(misses) => found.push(misses),
                    Err(error) => {
                        self.leave_out(format!("{} {}: {error}", contestant.name, walk.name));
                    }
                }
            }
        }
        Ok(found)
    }
}

/// Writes the results and prints them.
fn publish(
    options: &BenchOptions,
    places: &Places,
    report: &BenchReport,
    runs: &[BenchRun],
) -> Result<(), String> {
    let out = options.out.clone().unwrap_or_else(|| {
        let name = match options.cache_misses {
            true => "cache-misses".to_owned(),
            false => options.what.join("-"),
        };
        unused(&places.results, &format!("{}-{name}", report.host.day()))
    });
    write(&out, report, runs)?;
    print!("{}", if options.json { report.json()? } else { report.terminal() });
    say(&format!("written to {}", out.display()));
    Ok(())
}

/// Adds the variants of the command line, and those of the suite that these programs need.
fn add_variants(
    contestants: &mut Vec<Contestant>,
    options: &BenchOptions,
    suite: &Suite,
    programs: &[&Program],
) {
    let Some(mica) = contestants.iter().find(|c| c.name == MICA).cloned() else { return };
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
    let place = contestants.iter().position(|c| c.name == MICA).map_or(0, |place| place + 1);
    contestants.splice(place..place, variants);
}

fn rounds(options: &BenchOptions) -> usize {
    if options.quick { 1 } else { options.rounds.into() }
}

/// A set's own title if only that set was selected.
fn title(options: &BenchOptions, suite: &Suite) -> String {
    let set = suite.sets.iter().find(|set| options.what == [set.name.as_str()]);
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
    let put_bytes = |name: &str, bytes: &[u8]| {
        let path = out.join(name);
        fs::write(&path, bytes).map_err(|error| format!("{}: {error}", path.display()))
    };
    let put = |name: &str, text: String| put_bytes(name, text.as_bytes());
    fs::create_dir_all(out).map_err(|error| format!("{}: {error}", out.display()))?;
    put("command", format!("{}\n", report.origin.command))?;
    put("host.json", report.origin.json(&report.host).map_err(|error| error.to_string())?)?;
    let raw = json!({ "runs": runs, "cache_misses": report.misses });
    let raw = report.origin.json(&raw).map_err(|error| error.to_string())?;
    put_bytes("raw.json.gz", &gzip::compressed(&raw))?;
    put("summary.json", report.json()?)?;
    put("summary.md", report.markdown())?;
    for plot in &report.plots {
        put(&format!("{}.svg", plot.name), plot.svg())?;
    }
    put("report.html", report.origin.on_page(&html::page(report)))
}

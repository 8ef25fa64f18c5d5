//! The suite as `bench/suite.toml` declares it: programs, sets, floors, bars, variants.
//!
//! Errors in the declaration are found when it is read, not after an hour of rounds.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::hosts::HOSTS;
use crate::settings;

/// Mica's name among the contestants, and in a program's `only`.
pub const MICA: &str = "mica";
/// The set of all programs that the bars need.
pub const BARS: &str = "bars";
/// Of a program with [`is_job`](Program::is_job), the measure whose figure it prints as the time
/// in ms from the launch, and which becomes the time until mpiexec has ended.
pub const JOB_END: &str = "job end";
/// The set of all programs.
pub const ALL: &str = "all";

/// The declaration.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suite {
    #[serde(rename = "set", default)]
    pub sets: Vec<Set>,
    #[serde(rename = "program", default)]
    pub programs: Vec<Program>,
    #[serde(rename = "measure", default)]
    pub measures: BTreeMap<String, Measure>,
    #[serde(rename = "floor", default)]
    pub floors: Vec<Floor>,
    #[serde(rename = "bar", default)]
    pub bars: Vec<Bar>,
    #[serde(rename = "variant", default)]
    pub variants: Vec<Variant>,
    #[serde(rename = "cache", default)]
    pub caches: Vec<CacheWalk>,
    /// How the guidelines are judged; if absent, they are not judged.
    #[serde(rename = "guidelines")]
    pub judging: Option<Judging>,
    #[serde(rename = "guideline", default)]
    pub guidelines: Vec<Guideline>,
    /// The folder of the C sources, beside the declaration.
    #[serde(skip)]
    pub sources: PathBuf,
}

/// Programs that a user would want to run together.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Set {
    pub name: String,
    pub title: String,
    pub programs: Vec<String>,
}

/// One program with its arguments and how it is run. Several entries may share a source.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    pub name: String,
    /// The file in `src/`; default `NAME.c`.
    pub source: Option<String>,
    /// The numbers of ranks; the program runs once with each.
    #[serde(default)]
    pub ranks: Vec<u32>,
    /// How many ranks run on each of two hosts (see [`hosts`](super::hosts)): one run, instead of
    /// `ranks`.
    #[serde(default)]
    pub nodes: Vec<u32>,
    /// On two hosts: each host may use all processors, not only its share. For programs in which
    /// some ranks sleep.
    #[serde(default)]
    pub share_cores: bool,
    #[serde(default)]
    pub args: Vec<String>,
    /// Arguments for `--quick`; default: `args`.
    pub quick_args: Option<Vec<String>>,
    /// Time limit of a run in seconds.
    #[serde(default = "default_timeout")]
    pub timeout: u64,
    /// Environment for every contestant.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Environment for Mica only.
    #[serde(default)]
    pub mica_env: BTreeMap<String, String>,
    /// A variable of Mica's that is set to several values, one run each.
    pub sweep: Option<Sweep>,
    /// Confines the whole job to some of the processors that this process may use, by index: `"0"`,
    /// `"0-1,3"`.
    pub cpus: Option<String>,
    /// Each launcher places ranks as it does by default: with options that bind them, some
    /// launchers cannot start processes later.
    #[serde(default)]
    pub places_by_default: bool,
    /// The processors of the ranks only: each rank runs on all of these. The launcher, and a helper
    /// thread that picks a free core by the launcher's binding, may use the others.
    pub ranks_on: Option<String>,
    /// A plain program without MPI: `cc` compiles it, it runs once in each round, and its figures
    /// are floors.
    #[serde(default)]
    pub floor: bool,
    /// The figures are times of the whole job: the program learns when mpiexec was launched, and
    /// [`JOB_END`] is completed by when it has ended.
    #[serde(default)]
    pub is_job: bool,
    /// It uses files: it learns of a folder for them, which is empty, and is removed after the run.
    #[serde(default)]
    pub scratch: bool,
    /// Further options for the compiler.
    #[serde(default)]
    pub flags: Vec<String>,
    /// The contestants that run it; default: all.
    pub only: Option<Vec<String>>,
    /// Further keys of its figures that, with measure, bytes and ranks, identify a figure (`peers`,
    /// `depth`).
    #[serde(default)]
    pub keys: Vec<String>,
}

/// A variable of Mica's and its values. Each figure gets the value as a further key.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    pub variable: String,
    pub values: Vec<i64>,
    /// The name of the key.
    pub key: String,
}

fn default_timeout() -> u64 {
    120
}

/// How the figures of a measure are read. A measure that is not declared is a time: lower is
/// better.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    pub title: Option<String>,
    pub better: Option<Better>,
    /// The x axis of a plot: `bytes`, `ranks`, or a key of the program. Default: the one that
    /// varies.
    pub axis: Option<String>,
    /// The name of the number after the measure's name: `depth` makes "matching posted 100" the
    /// measure "matching posted" at depth 100 (and of "skew c2=10" the measure "skew" at c2 10).
    pub parameter: Option<String>,
}

/// Which of two values is the better one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    Lower,
    Higher,
}

/// The hardware's limit for a measure: figures of the floor program. The first floor that matches
/// applies.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Floor {
    pub measure: String,
    pub program: Option<String>,
    pub ranks: Option<u32>,
    #[serde(default)]
    pub min_bytes: u64,
    pub max_bytes: Option<u64>,
    /// The measure of the floor program that is used.
    pub from: String,
    /// The size of that figure; default: the same size.
    pub from_bytes: Option<u64>,
    /// The ranks of that figure; default: any.
    pub from_ranks: Option<u32>,
    pub label: String,
}

/// A limit that Mica has to reach.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bar {
    pub text: String,
    pub program: String,
    pub measure: String,
    /// Sizes, one row each; default: any size (there must be only one).
    #[serde(default)]
    pub bytes: Vec<u64>,
    pub ranks: Option<u32>,
    /// Values of the program's further keys.
    #[serde(default)]
    pub at: BTreeMap<String, toml::Value>,
    /// The variant of Mica that has to reach it; default: Mica without settings.
    pub variant: Option<String>,
    /// `best-peer`, `floor`, `variant NAME`, `mica` (without settings), `own` (another figure, see
    /// `than`), `value` (the limit itself).
    pub against: String,
    /// For `own`: how the other figure differs.
    pub than: Option<Than>,
    pub at_most: Option<f64>,
    pub at_least: Option<f64>,
}

/// The figure that a bar against `own` compares with: absent fields are as in the bar.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Than {
    pub program: Option<String>,
    pub measure: Option<String>,
    pub bytes: Option<u64>,
    pub ranks: Option<u32>,
    pub at: Option<BTreeMap<String, toml::Value>>,
}

/// Mica with other settings, as a contestant of its own.
#[derive(Debug, Clone, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    pub name: String,
    /// `{peers}` in a value is replaced by the folder of the peers.
    pub env: BTreeMap<String, String>,
    /// The programs that it runs; default: all.
    pub programs: Option<Vec<String>>,
}

/// How performance guidelines are judged.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Judging {
    /// One side may be slower than the other by this fraction.
    pub tolerance: f64,
    /// Figures of the programs of one set are compared with each other.
    pub sets: Vec<String>,
}

/// An operation that must not be slower than an equivalent sequence of others.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Guideline {
    pub text: String,
    pub measure: String,
    /// The equivalent: the sum of these.
    pub than: Vec<Term>,
}

/// One operation on a guideline's other side.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Term {
    pub measure: String,
    #[serde(default)]
    pub bytes: TermScale,
}

/// The size of an operation, relative to that of the guideline's first one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TermScale {
    /// The same size.
    #[default]
    Same,
    /// That size times the number of ranks: a whole vector, where the first has one block per rank.
    TimesRanks,
    /// That size divided by the number of ranks: one block per rank, where the first has a vector.
    OverRanks,
}

/// A run in which cache misses are counted.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheWalk {
    pub name: String,
    pub source: String,
    pub ranks: u32,
    /// `{messages}` is replaced by the number of messages that each rank sends.
    pub args: Vec<String>,
    pub few: u64,
    pub many: u64,
}

impl Suite {
    /// Reads `FOLDER/suite.toml`.
    pub fn read(folder: &Path) -> Result<Suite, String> {
        let path = folder.join("suite.toml");
        let name = path.display();
        let text = fs::read_to_string(&path).map_err(|error| format!("{name}: {error}"))?;
        let mut suite: Suite = toml::from_str(&text).map_err(|error| format!("{name}: {error}"))?;
        suite.sources = folder.join("src");
        suite.check().map_err(|error| format!("{name}: {error}"))?;
        Ok(suite)
    }

    fn check(&self) -> Result<(), String> {
        let mut names = BTreeSet::from([BARS, ALL]);
        let all = self.sets.iter().map(|set| &set.name);
        for name in all.chain(self.programs.iter().map(|program| &program.name)) {
            if !names.insert(name) {
                return Err(format!("two sets or programs are called '{name}'"));
            }
        }
        for set in &self.sets {
            self.all_known(&format!("set '{}'", set.name), &set.programs)?;
        }
        for variant in &self.variants {
            let programs = variant.programs.as_deref().unwrap_or_default();
            self.all_known(&format!("variant '{}'", variant.name), programs)?;
        }
        for program in &self.programs {
            program.check().map_err(|error| format!("program '{}' {error}", program.name))?;
            for cpus in program.cpus.iter().chain(&program.ranks_on) {
                parse_cpus(cpus).map_err(|error| format!("program '{}': {error}", program.name))?;
            }
        }
        for walk in &self.caches {
            if walk.few >= walk.many || !walk.args.iter().any(|word| word.contains("{messages}")) {
                let name = &walk.name;
                return Err(format!(
                    "cache '{name}' needs '{{messages}}' in its arguments, and 'few' below 'many'"
                ));
            }
        }
        for name in self.judging.iter().flat_map(|judging| &judging.sets) {
            if self.set(name).is_none() {
                return Err(format!("'guidelines' names set '{name}', which is not declared"));
            }
        }
        if let Some(guideline) = self.guidelines.iter().find(|line| line.than.is_empty()) {
            return Err(format!("guideline '{}' needs 'than'", guideline.text));
        }
        for bar in &self.bars {
            self.check_bar(bar).map_err(|error| format!("bar '{}': {error}", bar.text))?;
        }
        Ok(())
    }

    fn check_bar(&self, bar: &Bar) -> Result<(), String> {
        let than = bar.than.as_ref().and_then(|than| than.program.clone());
        self.all_known("it", [&bar.program].into_iter().chain(&than))?;
        if bar.at_most.is_some() == bar.at_least.is_some() {
            return Err("needs either 'at_most' or 'at_least'".to_owned());
        }
        match bar.against.split_once(' ') {
            Some(("variant", name)) => self.known_variant(name)?,
            None if bar.against == "own" && bar.than.is_none() => {
                return Err("against 'own' needs 'than'".to_owned());
            }
            None if ["best-peer", "floor", "own", "value", "mica"].contains(&&*bar.against) => {}
            _ => return Err(format!("against '{}' is not known", bar.against)),
        }
        bar.variant.as_ref().map_or(Ok(()), |name| self.known_variant(name))
    }

    fn known_variant(&self, name: &str) -> Result<(), String> {
        let known = self.variants.iter().any(|variant| variant.name == name);
        known.then_some(()).ok_or_else(|| format!("variant '{name}' is not declared"))
    }

    fn all_known<'a>(
        &self,
        who: &str,
        names: impl IntoIterator<Item = &'a String>,
    ) -> Result<(), String> {
        match names.into_iter().find(|name| self.program(name).is_none()) {
            Some(name) => Err(format!("{who} names program '{name}', which is not declared")),
            None => Ok(()),
        }
    }

    /// The declared set of this name.
    pub fn set(&self, name: &str) -> Option<&Set> {
        self.sets.iter().find(|set| set.name == name)
    }

    /// The program of this name.
    pub fn program(&self, name: &str) -> Option<&Program> {
        self.programs.iter().find(|program| program.name == name)
    }

    /// The programs that these sets and programs select, in the order of the declaration, each
    /// once, without floors.
    pub fn select(&self, words: &[String]) -> Result<Vec<&Program>, String> {
        let mut chosen = BTreeSet::new();
        for word in words {
            if word == ALL {
                let here = self.programs.iter().filter(|program| !program.on_hosts());
                chosen.extend(here.map(|program| program.name.as_str()));
            } else if word == BARS {
                for bar in self.bars.iter().filter(|bar| !self.needs_hosts(bar)) {
                    chosen.insert(bar.program.as_str());
                    let than = bar.than.as_ref().and_then(|than| than.program.as_deref());
                    chosen.extend(than);
                }
            } else if let Some(set) = self.set(word) {
                chosen.extend(set.programs.iter().map(String::as_str));
            } else if let Some(program) = self.program(word) {
                chosen.insert(&program.name);
            } else {
                let sets = self.sets.iter().map(|set| set.name.as_str());
                let sets: Vec<&str> = sets.chain([BARS, ALL]).collect();
                let list = sets.join(", ");
                return Err(format!(
                    "'{word}' is neither a set nor a program of the suite (sets: {list}; --list \
                    shows all)"
                ));
            }
        }
        let programs = self.programs.iter();
        Ok(programs
            .filter(|program| !program.floor && chosen.contains(program.name.as_str()))
            .collect())
    }

    /// The bars that apply to a run of these sets and programs: those of every program that was
    /// selected.
    pub fn bars_of(&self, words: &[String]) -> Result<Vec<&Bar>, String> {
        let chosen = self.select(words)?;
        let held = |bar: &&Bar| chosen.iter().any(|program| program.name == bar.program);
        Ok(self.bars.iter().filter(held).collect())
    }

    /// Whether the program of a bar runs on two hosts.
    fn needs_hosts(&self, bar: &Bar) -> bool {
        self.program(&bar.program).is_some_and(Program::on_hosts)
    }

    /// How a measure is interpreted.
    pub fn measure(&self, name: &str) -> Measure {
        self.measures.get(name).cloned().unwrap_or_default()
    }

    /// Splits a printed name into the declared measure, its parameter's name and value, if it has
    /// one.
    pub fn parameter(&self, printed: &str) -> Option<(&str, &str, i64)> {
        self.measures.iter().find_map(|(name, measure)| {
            let parameter = measure.parameter.as_deref()?;
            let rest = printed.strip_prefix(name)?.strip_prefix(' ')?;
            let number = rest.strip_prefix(parameter).and_then(|rest| rest.strip_prefix('='));
            let number = number.unwrap_or(rest).parse().ok()?;
            Some((name.as_str(), parameter, number))
        })
    }

    /// Which direction is better: as declared, else by the unit (something per second: higher).
    pub fn better(&self, measure: &str, unit: &str) -> Better {
        let by_unit = if unit.ends_with("/s") { Better::Higher } else { Better::Lower };
        self.measure(measure).better.unwrap_or(by_unit)
    }
}

impl Program {
    fn check(&self) -> Result<(), String> {
        let counts: Vec<u32> = self.ranks.iter().chain(&self.nodes).copied().collect();
        if counts.contains(&0) || (counts.is_empty() && !self.floor) {
            return Err("needs 'ranks' or 'nodes', each at least 1".to_owned());
        }
        if !self.ranks.is_empty() && (self.floor || !self.nodes.is_empty()) {
            return Err("has 'ranks' beside 'nodes', or is a floor, which has none".to_owned());
        }
        if !self.nodes.is_empty() && self.nodes.len() != HOSTS {
            return Err(format!("has {} 'nodes': there are {HOSTS} hosts", self.nodes.len()));
        }
        if self.on_hosts() && (self.cpus.is_some() || self.ranks_on.is_some()) {
            return Err("has 'nodes', whose processors are theirs: no 'cpus', no 'ranks_on'".into());
        }
        if self.scratch && (self.floor || self.on_hosts()) {
            return Err("has 'scratch', which is for ranks on one host".to_owned());
        }
        let ours = |only: &Vec<String>| only.iter().all(|name| name == MICA);
        if self.sweep.is_some() && !self.only.as_ref().is_some_and(ours) {
            return Err(format!("has a 'sweep', which is {MICA}'s only: say so by 'only'"));
        }
        Ok(())
    }

    /// Whether it runs on two hosts.
    pub fn on_hosts(&self) -> bool {
        !self.nodes.is_empty()
    }

    /// The numbers of ranks to run it with.
    pub fn counts(&self) -> Vec<u32> {
        if self.on_hosts() { vec![self.nodes.iter().sum()] } else { self.ranks.clone() }
    }

    /// The further keys of its figures.
    pub fn all_keys(&self) -> impl Iterator<Item = &String> {
        self.keys.iter().chain(self.sweep.iter().map(|sweep| &sweep.key))
    }

    /// The file in `src/`.
    pub fn source(&self) -> String {
        self.source.clone().unwrap_or_else(|| format!("{}.c", self.name))
    }

    /// Its arguments.
    pub fn arguments(&self, quick: bool) -> &[String] {
        match &self.quick_args {
            Some(args) if quick => args,
            _ => &self.args,
        }
    }
}

/// `0-1,3` as numbers.
pub fn parse_cpus(text: &str) -> Result<Vec<usize>, String> {
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |word: &str| {
            let parsed = word.trim().parse::<usize>();
            parsed.map_err(|_| format!("cpus '{text}': expected numbers and ranges as in 0-1,3"))
        };
        cpus.extend(number(first)?..=number(last)?);
    }
    Ok(cpus)
}

/// `NAME:MICA_X=1,MICA_Y=2` from the command line.
pub fn parse_variant(text: &str) -> Result<Variant, String> {
    let expected = || format!("'{text}': expected NAME:VARIABLE=VALUE,...");
    let (name, list) = text.split_once(':').ok_or_else(expected)?;
    let env = settings::parse(list).map_err(|_| expected())?;
    if name.is_empty() {
        return Err(expected());
    }
    Ok(Variant { name: name.to_owned(), env: env.into_iter().collect(), programs: None })
}

#[cfg(test)]
mod tests;

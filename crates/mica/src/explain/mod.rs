//! `mica info --explain SIZE`: which path a message takes, with the cost of each path.
//! `mica info --explain COLLECTIVE SIZE`: the same for the algorithm of a collective
//! ([`collective`]).
//! `mica info --explain write_all --view vector:4096:8192`: the same for an access to a file
//! ([`mod@file`]).

mod collective;
mod file;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::network::FoundNetwork;
use crate::terminal::{align_right_but, table};
use clap::Args;
use mica_node::procmap::ProcMap;
use mica_node::topology::{
    BindTo, Level, Machine, MapBy, available_cores, level_between, map, readable_bytes,
};
use mica_node::{process, tunables};
use mica_policy::collective::Collective;
use mica_policy::costs::{level_from_name, level_name};
use mica_policy::select::{Goal, PathExclusion, PathVerdict};
use mica_policy::tuning::{self, TuningSource};
use mica_policy::{
    EagerLimits, MessagePath, MessagePaths, OutgoingMessage, PathCosts, PathDecision, Situation,
    Thresholds, select,
};

/// The options that describe the question.
#[derive(Args)]
pub struct ExplainQuestion {
    /// Show which path a message of SIZE bytes (K, M, G) takes, with the numbers for and against
    /// each path; or, as in `--explain allreduce 64K -n 8`, which algorithm a collective takes
    /// among the ranks of a node; or, as in `--explain write_all 1M --view vector:4096:8192 -n 8`,
    /// which way an access to a file takes (read, write, read_all, write_all).
    #[arg(long, value_names = ["CALL", "SIZE"], num_args = 1..=2, value_parser = word,
          conflicts_with_all = ["json", "topology"])]
    explain: Vec<ExplainWord>,
    /// How far apart its ranks are: shared-cache, package, node or network. Default: as this
    /// machine's first two cores.
    #[arg(long, value_parser = level, requires = "explain")]
    level: Option<Level>,
    /// How its bytes lie in memory: contiguous, or vector:BLOCK for pieces of BLOCK bytes.
    #[arg(long, value_parser = layout, default_value = "contiguous", requires = "explain")]
    layout: ExplainLayout,
    /// The paths to choose from: here (those that work on this machine), all, or a list such as
    /// cells,streamed,pull.
    #[arg(long, alias = "ways", value_name = "PATHS", value_parser = paths)]
    #[arg(default_value = "here", requires = "explain")]
    paths: Choice,
    /// Its buffers have been moved to shared memory, or attached, so that the other rank can load
    /// and store there.
    #[arg(long, requires = "explain")]
    mapped: bool,
    /// The receiver lags behind.
    #[arg(long, requires = "explain")]
    skewed: bool,
    /// The other rank waits for the message and can help to copy.
    #[arg(long, requires = "explain")]
    peer_waiting: bool,
    /// The operation is non-blocking and there is something to compute meanwhile.
    #[arg(long, requires = "explain")]
    nonblocking: bool,
    /// The send is synchronous (MPI_Ssend).
    #[arg(long, requires = "explain")]
    synchronous: bool,
    /// Ranks outnumber cores.
    #[arg(long, requires = "explain")]
    oversubscribed: bool,
    /// What each rank sees of a file: contiguous, or vector:LENGTH:STRIDE for pieces of LENGTH
    /// bytes, STRIDE from one to the next, that alternate with those of other ranks.
    #[arg(long, value_parser = file::view, requires = "explain")]
    view: Option<file::ExplainView>,
    #[command(flatten)]
    ranks: collective::CollectiveRanks,
}

/// A value of `--explain`.
#[derive(Clone, Copy, PartialEq, Debug)]
enum ExplainWord {
    Collective(Collective),
    File(file::FileCall),
    Bytes(usize),
}

/// The subject of the question.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Subject {
    Message(usize),
    Collective(Collective, usize),
    File(file::FileCall, usize),
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum ExplainLayout {
    Contiguous,
    Vector { block: usize },
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Choice {
    Here,
    These(MessagePaths),
}

fn bytes(text: &str) -> Result<usize, String> {
    let bytes = tunables::parse_bytes(text).and_then(|bytes| usize::try_from(bytes).ok());
    bytes.ok_or_else(|| "expected a number of bytes such as 65536 or 64K".to_owned())
}

fn word(text: &str) -> Result<ExplainWord, String> {
    if let Some(call) = file::call(text) {
        return Ok(ExplainWord::File(call));
    }
    match Collective::parse(text) {
        Some(collective) => Ok(ExplainWord::Collective(collective)),
        None => bytes(text).map(ExplainWord::Bytes).map_err(|expected| {
            let names = Collective::ALL.map(Collective::name).join(", ");
            format!("{expected}, or one of {names}")
        }),
    }
}

fn level(text: &str) -> Result<Level, String> {
    match text {
        "network" => Ok(Level::Network),
        _ => level_from_name(text)
            .ok_or_else(|| "expected shared-cache, package, node or network".to_owned()),
    }
}

fn layout(text: &str) -> Result<ExplainLayout, String> {
    match text.split_once(':') {
        None if text == "contiguous" => Ok(ExplainLayout::Contiguous),
        Some(("vector", block)) => match bytes(block)? {
            0 => Err("a block has at least 1 byte".to_owned()),
            block => Ok(ExplainLayout::Vector { block }),
        },
        _ => Err("expected contiguous or vector:BLOCK".to_owned()),
    }
}

fn paths(text: &str) -> Result<Choice, String> {
    match text {
        "here" => Ok(Choice::Here),
        "all" => Ok(Choice::These(MessagePaths::ALL)),
        list => {
            let path = |name: &str| {
                MessagePath::from_name(name).ok_or_else(|| {
                    let names = MessagePath::ALL.map(MessagePath::name).join(", ");
                    format!("{name:?} is no path: expected here, all or some of {names}")
                })
            };
            let paths: Result<MessagePaths, String> = list.split(',').map(path).collect();
            paths.map(Choice::These)
        }
    }
}

impl ExplainQuestion {
    /// True if `--explain` was given.
    pub fn is_asked(&self) -> bool {
        !self.explain.is_empty()
    }

    /// The subject of the question, from the values of `--explain`.
    fn subject(&self) -> Result<Subject, String> {
        match *self.explain.as_slice() {
            [ExplainWord::Bytes(len)] => Ok(Subject::Message(len)),
            [ExplainWord::Collective(Collective::Barrier)] => {
                Ok(Subject::Collective(Collective::Barrier, 0))
            }
            [ExplainWord::Collective(collective)] => Err(format!(
                "--explain {0}: how long? Say as in --explain {0} 64K, for {1}",
                collective.name(),
                collective.unit()
            )),
            [ExplainWord::Collective(Collective::Barrier), _] => {
                Err("--explain barrier: a barrier has no length".to_owned())
            }
            [ExplainWord::Collective(collective), ExplainWord::Bytes(len)] => {
                Ok(Subject::Collective(collective, len))
            }
            [ExplainWord::File(call)] => Ok(Subject::File(call, 1 << 20)),
            [ExplainWord::File(call), ExplainWord::Bytes(len)] => Ok(Subject::File(call, len)),
            _ => Err("--explain takes SIZE, or CALL SIZE".to_owned()),
        }
    }

    /// The given options that apply to messages only.
    fn about_messages(&self) -> Vec<&'static str> {
        collective::given(&[
            (self.layout != ExplainLayout::Contiguous, "--layout"),
            (self.paths != Choice::Here, "--paths"),
            (self.mapped, "--mapped"),
            (self.skewed, "--skewed"),
            (self.peer_waiting, "--peer-waiting"),
            (self.nonblocking, "--nonblocking"),
            (self.synchronous, "--synchronous"),
            (self.oversubscribed, "--oversubscribed"),
        ])
    }

    /// The answer as text.
    pub fn answer(&self) -> Result<String, Box<dyn std::error::Error>> {
        let len = match self.subject()? {
            Subject::Message(len) => len,
            Subject::Collective(collective, bytes) => {
                let other = self.about_messages();
                if !other.is_empty() {
                    let other = other.join(", ");
                    let is = "is for messages, not for collectives";
                    return Err(
                        format!("{other} {is} (-n and --cores say how many share a core)").into()
                    );
                }
                return self.ranks.answer(collective, bytes, self.level);
            }
            Subject::File(call, bytes) => {
                let view = self.view.unwrap_or(file::ExplainView::Contiguous);
                return call.answer(bytes as u64, view, self.ranks.number());
            }
        };
        if self.view.is_some() {
            return Err("--view is for files, as in --explain write_all 1M -n 8".into());
        }
        let other = self.ranks.given();
        if !other.is_empty() {
            let other = other.join(", ");
            return Err(
                format!("{other} is for collectives, as in --explain allreduce 64K -n 8").into()
            );
        }
        if self.level == Some(Level::Network) {
            return self.over_the_network(len);
        }
        let (costs, source) = tuning::in_force(prefix().as_deref())?;
        let machine = Machine::load()?;
        let message = self.message(len);
        let available = match self.paths {
            Choice::Here => self.paths_here(len)?,
            Choice::These(paths) => paths,
        };
        let situation = Situation {
            level: self.level.unwrap_or_else(|| nearest_level(&machine)),
            available,
            limits: EagerLimits::default(),
            peer_waiting: self.peer_waiting,
            skewed: self.skewed,
            oversubscribed: self.oversubscribed,
            overlap: self.nonblocking,
        };
        let explicit = Thresholds::derive(&costs, &situation).in_force(situation.limits.ring)?;
        let mapped = self.mapped_here(&message)?;
        Ok(render(&message, &situation, &costs, &source, &explicit, &mapped))
    }

    /// What the answer says about migrated buffers.
    fn mapped_here(&self, message: &OutgoingMessage) -> Result<Mapped, tunables::BadValue> {
        let direct = tunables::DIRECT.choice()?;
        let least = tunables::MAPPED_MIN.number()?;
        Ok(match () {
            () if self.mapped || self.paths != Choice::Here => Mapped::Asked,
            () if !matches!(direct, "auto" | "mapped") => {
                Mapped::Never(format!("switched off by {}={direct}", tunables::DIRECT.env))
            }
            () if ProcMap::open().is_err() => {
                Mapped::Never("not on this machine: see the channels of `mica info`".to_owned())
            }
            () if (message.len as u64) < least => Mapped::Never(format!(
                "buffers below {least} bytes do not move to shared memory ({})",
                tunables::MAPPED_MIN.env
            )),
            () => Mapped::Later(tunables::MAPPED_AFTER.number()?),
        })
    }

    fn message(&self, len: usize) -> OutgoingMessage {
        OutgoingMessage {
            len,
            pieces: match self.layout {
                ExplainLayout::Contiguous => 1,
                ExplainLayout::Vector { block } => len.div_ceil(block).max(1),
            },
            synchronous: self.synchronous,
        }
    }

    /// The answer for ranks on two nodes.
    fn over_the_network(&self, len: usize) -> Result<String, Box<dyn std::error::Error>> {
        let message = self.message(len);
        let network = FoundNetwork::query();
        let limits = network.limits()?;
        Ok(describe(&message, "network") + &network.explain(&message, &limits))
    }

    /// The paths that work between two ranks on this machine and that the environment permits.
    fn paths_here(&self, len: usize) -> Result<MessagePaths, tunables::BadValue> {
        let direct = tunables::DIRECT.choice()?;
        let engine = tunables::COPY_ENGINE.choice()? != "inline";
        let long = len as u64 >= tunables::OFFLOAD_MIN.number()?;
        let kernel = direct != "off" && process::cma_between_ranks().is_ok();
        let mapped = self.mapped && !matches!(direct, "off" | "cma");
        let offload = self.nonblocking && engine && long && (kernel || mapped);
        let works = [
            (kernel, MessagePath::Pull),
            (kernel, MessagePath::Cooperate),
            (mapped, MessagePath::Mapped),
            (mapped, MessagePath::MappedCooperate),
            (offload, MessagePath::Offload),
        ];
        let works = works.into_iter().filter_map(|(is, path)| is.then_some(path));
        let allowed = MessagePaths::forced(tunables::PATH.choice()?).unwrap_or(MessagePaths::ALL);
        let works: MessagePaths = works.collect();
        Ok(works.union(MessagePaths::SHARED_MEMORY).intersection(allowed))
    }
}

/// What the answer adds to the decision about paths through migrated buffers.
#[derive(Debug, PartialEq)]
enum Mapped {
    /// The question itself says whether they can be used.
    Asked,
    /// They cannot be used here, or not for this message; with the reason.
    Never(String),
    /// They can be used after this many uses of the buffers.
    Later(u64),
}

/// The folder of this command's installation.
pub fn prefix() -> Option<PathBuf> {
    let exe = std::env::current_exe().ok()?;
    exe.parent()?.parent().map(Path::to_owned)
}

/// The level of the first two cores.
fn nearest_level(machine: &Machine) -> Level {
    match map(machine, 2, MapBy::Core, BindTo::Core).as_slice() {
        [a, b] => level_between(&a.place, &b.place),
        _ => Level::Node,
    }
}

/// Describes the message and the level of its ranks.
fn describe(message: &OutgoingMessage, level: &str) -> String {
    let pieces = match message.pieces {
        1 => "contiguous".to_owned(),
        n => format!("in {n} pieces"),
    };
    format!(
        "Message    {} bytes ({}), {pieces}\nLevel      {level}\n",
        message.len,
        readable_bytes(message.len as u64)
    )
}

fn render(
    message: &OutgoingMessage,
    situation: &Situation,
    costs: &PathCosts,
    source: &TuningSource,
    thresholds: &Thresholds,
    mapped: &Mapped,
) -> String {
    let decision = select(message, situation, costs);
    let mut text = describe(message, level_name(situation.level));
    let circumstances: Vec<&str> = [
        (message.synchronous, "synchronous"),
        (situation.peer_waiting, "the other rank waits"),
        (!situation.peer_waiting, "the other rank is busy elsewhere"),
        (situation.skewed, "the receiver lags behind"),
        (situation.overlap, "non-blocking, with something to compute"),
        (situation.oversubscribed, "ranks outnumber cores"),
    ]
    .into_iter()
    .filter_map(|(holds, words)| holds.then_some(words))
    .collect();
    let _ = writeln!(text, "Situation  {}", circumstances.join("; "));
    let _ = writeln!(text, "Costs      {source}");
    let goal = match decision.goal {
        Goal::Elapsed => "least time until the receiver has it",
        Goal::Busy => "least time taken from both cores",
    };
    let _ = writeln!(text, "Path       {} ({goal})\n", decision.path.name());
    let _ = writeln!(text, "{}\n", verdicts(&decision, mapped));
    if let Mapped::Later(uses) = mapped {
        let paths =
            situation.available.with(MessagePath::Mapped).with(MessagePath::MappedCooperate);
        let later = Situation { available: paths, ..*situation };
        let path = select(message, &later, costs).path;
        let _ = writeln!(
            text,
            "From use {} of the same buffers on, which then lie in shared memory: {} (--mapped \
            shows the numbers)\n",
            uses + 1,
            path.name()
        );
    }
    let _ = writeln!(text, "Thresholds between ranks at this level, both waiting");
    for (name, value) in threshold_rows(thresholds) {
        let _ = writeln!(text, "  {name:<18} {value}");
    }
    let set = [
        &tunables::RING_MAX,
        &tunables::EAGER_MAX,
        &tunables::SKEW_EAGER_MAX,
        &tunables::DIRECT_MIN,
        &tunables::DIRECT_RUN_MIN,
    ];
    for tunable in set.into_iter().filter(|tunable| tunable.is_set()) {
        let _ = writeln!(text, "  set by hand: {}={}", tunable.env, tunable.text());
    }
    if available_cores() < 2 {
        let _ = writeln!(text, "  (this job may use one core only: --oversubscribed is its case)");
    }
    text
}

fn verdicts(decision: &PathDecision, mapped: &Mapped) -> String {
    let mut table = table(" path | elapsed | cores busy | ");
    for (path, verdict) in decision.considered() {
        let mark = if path == decision.path { "*" } else { " " };
        let name = format!("{mark}{}", path.name());
        match verdict {
            PathVerdict::Possible(estimate) => {
                let chosen = if path == decision.path { "chosen" } else { "" };
                let [elapsed, busy] = [estimate.elapsed_ns, estimate.busy_ns].map(time);
                table.add_row([name.as_str(), &elapsed, &busy, chosen]);
            }
            PathVerdict::RuledOut(why) => {
                let taken = "; taken since nothing else is possible";
                let last_resort = if path == decision.path { taken } else { "" };
                let is_mapped = matches!(path, MessagePath::Mapped | MessagePath::MappedCooperate);
                let why = match (mapped, why) {
                    (Mapped::Later(uses), PathExclusion::NotAvailable) if is_mapped => {
                        format!("the buffers have not been used {uses} times yet")
                    }
                    (Mapped::Never(why), PathExclusion::NotAvailable) if is_mapped => why.clone(),
                    _ => why.to_string(),
                };
                table.add_row([name.as_str(), "-", "-", &format!("{why}{last_resort}")]);
            }
        }
    }
    align_right_but(&mut table, &[0, 3]);
    table.trim_fmt()
}

/// The names and values of the thresholds.
pub fn threshold_rows(t: &Thresholds) -> [(&'static str, String); 7] {
    let text = |bytes: usize, most: &str| match bytes {
        usize::MAX => most.to_owned(),
        bytes => bytes.to_string(),
    };
    let (min, max) = (|bytes| text(bytes, "never"), |bytes| text(bytes, "always"));
    [
        ("ring up to", max(t.ring_max)),
        ("eager up to", max(t.eager_max)),
        ("eager, skewed", max(t.eager_max_skewed)),
        ("one copy from", min(t.direct_min)),
        ("by both from", min(t.cooperate_min)),
        ("pieces from", min(t.direct_run_min)),
        ("engine from", min(t.offload_min)),
    ]
}

/// `430 ns`, `26.0 us`, `1.72 ms`.
pub fn time(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns < 1e3 => return format!("{ns:.0} ns"),
        ns if ns < 1e6 => (ns / 1e3, "us"),
        ns if ns < 1e9 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    let digits = match value {
        v if v < 10.0 => 2,
        v if v < 100.0 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests;

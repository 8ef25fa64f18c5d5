//! `mica info --explain COLLECTIVE SIZE`: which algorithm a collective uses among the ranks of one
//! node, the cost of each algorithm, and the tunable that forces it.

use std::error::Error;
use std::fmt::Write as _;
use std::sync::Arc;

use clap::Args;
use mica_node::topology::{
    BindTo, Level, Machine, MapBy, available_cores, level_between, map, readable_bytes,
};
use mica_node::{area, process, tunables};
use mica_policy::collective::{
    AlgorithmDecision, AlgorithmExclusion, AlgorithmFamily, Choices, Collective, CollectiveCall,
    CollectiveCosts, ForcedAlgorithms, ForcedValue, GroupSetting, OperandOrder, Reachability,
    choose,
};
use mica_policy::costs::level_name;
use mica_policy::tuning::{self, TuningSource};

use super::{prefix, time};
use crate::terminal::{align_right_but, table};

/// Who takes part in the collective that is asked about.
#[derive(Args, Default)]
pub struct CollectiveRanks {
    /// Ranks on the node. Default: one for each core that this job may use, but at least 2.
    #[arg(short = 'n', value_name = "RANKS", value_parser = count, requires = "explain")]
    ranks: Option<usize>,
    /// Cores that they may use. Default: those that this job may use.
    #[arg(long, value_parser = count, requires = "explain")]
    cores: Option<usize>,
    /// The operator does not commute.
    #[arg(long, requires = "explain")]
    non_commutative: bool,
    /// How ranks get at one another's buffers: unknown until they are announced, by windows, by
    /// the kernel (cma), or none. Default: as far as it is known on this machine.
    #[arg(long, value_parser = reach, requires = "explain")]
    reach: Option<Reachability>,
}

fn count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n @ 1..=1_000_000) => Ok(n),
        _ => Err("expected a number, at least 1 and at most 1000000".to_owned()),
    }
}

fn reach(text: &str) -> Result<Reachability, String> {
    Reachability::parse(text)
        .ok_or_else(|| "expected unknown, windows, cma, packed or none".to_owned())
}

impl CollectiveRanks {
    /// The number of ranks, if it was given.
    pub fn number(&self) -> Option<usize> {
        self.ranks
    }

    /// The names of the given options.
    pub fn given(&self) -> Vec<&'static str> {
        given(&[
            (self.ranks.is_some(), "-n"),
            (self.cores.is_some(), "--cores"),
            (self.non_commutative, "--non-commutative"),
            (self.reach.is_some(), "--reach"),
        ])
    }

    /// The answer as text.
    pub fn answer(
        &self,
        collective: Collective,
        bytes: usize,
        level: Option<Level>,
    ) -> Result<String, Box<dyn Error>> {
        if level == Some(Level::Network) {
            return Err(
                "--level network: this is about the ranks of one node; docs/design/collectives.md \
                has those between nodes"
                    .into(),
            );
        }
        if self.non_commutative && !collective.reduces() {
            let name = collective.name();
            return Err(format!("--non-commutative: {name} has no operator").into());
        }
        let (costs, source) = tuning::collective_in_force(prefix().as_deref())?;
        let ranks = self.ranks.unwrap_or_else(|| available_cores().max(2));
        let level = match level {
            Some(level) => level,
            None => worst_level(&Machine::load()?, ranks),
        };
        let bound = tunables::COLL_AREA.number()?;
        let question = CollectiveCall {
            collective,
            bytes,
            order: if self.non_commutative { OperandOrder::ByRank } else { OperandOrder::Any },
            reach: match self.reach {
                Some(reach) => reach,
                None => reach_here()?,
            },
            setting: GroupSetting {
                ranks,
                level,
                cores: self.cores.unwrap_or_else(available_cores).min(ranks),
                area_cell: area::cell_bytes(ranks, bound).filter(|_| bound > 0),
            },
        };
        Ok(render(&question, costs, &ForcedAlgorithms::in_force()?, &source))
    }
}

/// The names of those options that are given.
pub fn given(options: &[(bool, &'static str)]) -> Vec<&'static str> {
    options.iter().filter_map(|(is_given, name)| is_given.then_some(*name)).collect()
}

/// The reachability that ranks know of before they have announced their buffers.
fn reach_here() -> Result<Reachability, tunables::BadValue> {
    Ok(match tunables::DIRECT.choice()? {
        "off" => Reachability::None,
        "cma" if process::cma_between_ranks().is_ok() => Reachability::Cma,
        "cma" => Reachability::None,
        _ => Reachability::Unknown,
    })
}

/// The level of the two of `ranks` ranks that are furthest apart.
fn worst_level(machine: &Machine, ranks: usize) -> Level {
    let slots = map(machine, ranks, MapBy::Core, BindTo::Core);
    let Some((first, others)) = slots.split_first() else { return Level::Node };
    // No two of the others are further apart than one of them is from the first.
    let levels = others.iter();
    let levels = levels.map(|other| level_between(&first.place, &other.place));
    levels.max().unwrap_or(Level::SharedCache)
}

fn render(
    question: &CollectiveCall,
    costs: CollectiveCosts,
    forced: &ForcedAlgorithms,
    source: &TuningSource,
) -> String {
    let decision = choose(&costs, question, forced);
    let CollectiveCall { collective, order, reach, setting, .. } = *question;
    let mut text = describe(question);
    let _ = writeln!(text, "Costs       {source}");
    let why = match decision.forced_by {
        Some(value) => format!("forced by {value}"),
        None => "least time".to_owned(),
    };
    let _ = writeln!(text, "Algorithm   {} ({why})\n", decision.algorithm.name());
    let _ = writeln!(text, "{}", estimates(question, &decision));
    if decision.judged_bytes != question.bytes {
        let _ = writeln!(
            text,
            "  (judged as {} bytes: four classes of lengths in an octave)",
            decision.judged_bytes
        );
    }
    for refusal in &decision.refused {
        let _ = writeln!(text, "  {refusal}");
    }
    let _ = writeln!(text, "  MICA_COLL={} takes a family for all collectives", families());

    let choices = Choices::new(Arc::new(costs), *forced, setting);
    let _ = writeln!(text, "\nBy length");
    for (from, algorithm) in choices.changes(collective, order, reach) {
        let from = format!("from {from}");
        let _ = writeln!(text, "  {from:<18} {}", algorithm.name());
    }
    if decision.algorithm.family() == AlgorithmFamily::Direct && reach == Reachability::Unknown {
        let _ = writeln!(text, "\nOnce the ranks have announced their buffers");
        for reach in &Reachability::ALL[1..] {
            let reach = *reach;
            let then = choices.once_reachable(collective, question.bytes, order, reach);
            let _ = writeln!(text, "  {:<18} {}", reach.name(), then.name());
        }
    }
    text
}

fn families() -> String {
    AlgorithmFamily::ALL.map(AlgorithmFamily::name).join("|")
}

/// Describes the call and its ranks.
fn describe(question: &CollectiveCall) -> String {
    let CollectiveCall { collective, bytes, setting, .. } = *question;
    let mut text = format!("Collective  {}", collective.name());
    if collective != Collective::Barrier {
        let _ = write!(
            text,
            " of {bytes} bytes ({}), {}",
            readable_bytes(bytes as u64),
            collective.unit()
        );
    }
    if collective.reduces() {
        let commutes = match question.order {
            OperandOrder::Any => "commutes",
            OperandOrder::ByRank => "does not commute",
        };
        let _ = write!(text, "; the operator {commutes}");
    }
    let _ = writeln!(
        text,
        "\nRanks       {} on {} core{}, level {}",
        setting.ranks,
        setting.cores,
        if setting.cores == 1 { "" } else { "s" },
        level_name(setting.level)
    );
    let area = match setting.area_cell {
        Some(cell) => format!("cells of {}", readable_bytes(cell as u64)),
        None => "none (MICA_COLL_AREA is too small)".to_owned(),
    };
    let reach = match question.reach {
        Reachability::Unknown => "unknown until announced; judged as windows",
        Reachability::Windows => "by load and store (windows)",
        Reachability::Cma => "by the kernel (cma)",
        Reachability::Packed => "by the kernel (cma), packed before",
        Reachability::None => "not within reach",
    };
    let _ = writeln!(text, "Shared area {area}\nBuffers     {reach}");
    text
}

fn estimates(question: &CollectiveCall, decision: &AlgorithmDecision) -> String {
    let mut table = table(" algorithm | family | time | forced by | ");
    for estimate in &decision.estimates {
        let chosen = estimate.algorithm == decision.algorithm;
        let mark = if chosen { "*" } else { " " };
        let name = estimate.algorithm.name();
        let remark = match estimate.ruled_out {
            _ if chosen => "chosen".to_owned(),
            // The line above the table already says this.
            Some(AlgorithmExclusion::Forced { .. }) | None => String::new(),
            Some(why) => why.to_string(),
        };
        table.add_row([
            format!("{mark}{name}"),
            estimate.algorithm.family().name().to_owned(),
            estimate.nanoseconds.map_or("-".to_owned(), time),
            ForcedValue { collective: Some(question.collective), word: name }.to_string(),
            remark,
        ]);
    }
    align_right_but(&mut table, &[0, 1, 3, 4]);
    table.trim_fmt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mica_policy::collective::Algorithm;

    fn question(collective: Collective, bytes: usize, ranks: usize) -> CollectiveCall {
        CollectiveCall {
            collective,
            bytes,
            order: OperandOrder::Any,
            reach: Reachability::Unknown,
            setting: GroupSetting {
                ranks,
                level: Level::SharedCache,
                cores: 2,
                area_cell: Some(32 << 10),
            },
        }
    }

    fn answer(question: &CollectiveCall, forced: ForcedAlgorithms) -> String {
        render(question, CollectiveCosts::default(), &forced, &TuningSource::Shipped)
    }

    #[test]
    fn answer_lists_every_algorithm_with_time_and_forcing_tunable() {
        for collective in Collective::ALL {
            let text = answer(&question(collective, 64 << 10, 8), ForcedAlgorithms::default());
            for algorithm in collective.algorithms() {
                let force = format!("MICA_COLL={}={}", collective.name(), algorithm.name());
                let row = text.lines().find(|line| line.contains(&force));
                let row = row.unwrap_or_else(|| panic!("{force}: {text}"));
                assert!(row.contains("ns") || row.contains("us"), "{text}");
                assert!(row.contains(algorithm.family().name()), "{text}");
            }
            for part in ["8 on 2 cores", "shipped defaults", "(least time)", "from 0", "chosen"] {
                assert!(text.contains(part), "{part}: {text}");
            }
        }
        let text =
            answer(&question(Collective::Allreduce, 1 << 20, 8), ForcedAlgorithms::default());
        for part in ["(1 MiB), the vector", "Once the ranks have announced", "cma  ", "windows  "] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("judged as 1048576"), "{text}");
        let text = answer(&question(Collective::Bcast, 1_000_000, 8), ForcedAlgorithms::default());
        assert!(text.contains("judged as 917504 bytes"), "{text}");
    }

    #[test]
    fn reports_excluded_forced_and_refused_algorithms() {
        let remote = CollectiveCall {
            reach: Reachability::None,
            ..question(Collective::Allreduce, 64 << 10, 2)
        };
        let direct = ForcedAlgorithms::default().with(Collective::Allreduce, Algorithm::Direct);
        let text = answer(&remote, direct);
        for part in [
            "MICA_COLL=allreduce=direct is not heeded: ranks cannot get at",
            "with fewer than 3 ranks no better than doubling",
            "not within reach",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let near = question(Collective::Allreduce, 64 << 10, 8);
        let text =
            answer(&near, ForcedAlgorithms::default().with_family(AlgorithmFamily::Messages));
        assert!(text.contains("forced by MICA_COLL=messages)"), "{text}");
        let ordered = CollectiveCall {
            order: OperandOrder::ByRank,
            ..question(Collective::ReduceScatter, 64, 8)
        };
        let text = answer(&ordered, ForcedAlgorithms::default());
        for part in ["does not commute", "changes the order of operands"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn levels_follow_the_machine_topology() {
        let machine = Machine::synthetic("pack:2 l3:2 core:2 pu:1").unwrap();
        let levels = [1, 2, 4, 8].map(|ranks| worst_level(&machine, ranks));
        let (shared, package, node) = (Level::SharedCache, Level::Package, Level::Node);
        assert_eq!(levels, [shared, shared, package, node]);
    }
}

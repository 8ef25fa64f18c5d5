//! An observation explained: all statistics of one workload's calls, and sentences that a user can
//! act on.
//!
//! `mica links analyze` prints an [`Explanation`], `mica links report` draws it. Sentences state
//! what was counted ("67 % of the slow calls coincide with load on link 3->5") and name a cause
//! only as far as the data has it: ranks whose own transfers certainly take the link, and the share
//! of its bytes that are not the call's. Coincidence is no proof; see [`crate::analysis`].

use serde::Serialize;

use crate::analysis::Columns;
use crate::analysis::blame::{LinkBlame, correlation, rank_links};
use crate::analysis::cluster::{TimeClass, TimeCluster, clusters};
use crate::analysis::distribution::{
    Bin, LinkLoad, TimeDistribution, distribution, fast_loads, histogram,
};
use crate::analysis::select::{SelectedLink, SelectionEffort, relevant_set};
use crate::data::{CallWorkload, LoadSource, Observation};
use crate::predictor::{DecisionTree, Validation, rates_before, validate};

/// A link is named in advice if at least this share of half samples selects it (Meinshausen and
/// Bühlmann 2010 advise 0.6 to 0.9).
const STABLE: f64 = 0.6;

/// What counts as a link's load during a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LoadKind {
    /// Bytes during the call, of all traffic: the paper's.
    Bytes,
    /// Bytes that are not the call's.
    Background,
    /// Bytes per second.
    Rate,
}

/// What to compute.
#[derive(Debug, Clone, Copy)]
pub struct ExplainOptions {
    /// The load.
    pub load: LoadKind,
    /// Resamples of each interval.
    pub resamples: usize,
    /// The seed of everything random.
    pub seed: u64,
}

/// Everything that is said about the calls of one workload.
#[derive(Debug, Clone, Serialize)]
pub struct Explanation {
    /// The machine, for people.
    pub machine: String,
    /// How the links' bytes were obtained.
    pub source: LoadSource,
    /// The workload's place in the observation.
    pub workload: usize,
    /// What was called: `allreduce of 16384 B on 32 ranks`.
    pub what: String,
    /// The load that the statistics use.
    pub load: LoadKind,
    /// The links' names; all other places are indices of it.
    pub links: Vec<String>,
    /// The times as a whole (Figure 2).
    pub distribution: TimeDistribution,
    /// The times of the fastest 95 % (Figure 3).
    pub histogram: Vec<Bin>,
    /// The correlation of the time with the load of all links together (Figure 4).
    pub total_correlation: f64,
    /// Links by correlation (Figure 5).
    pub ranking: Vec<LinkBlame>,
    /// The links' loads in the fastest 95 % (Figure 6).
    pub fast_loads: Vec<LinkLoad>,
    /// Clusters of time (Figure 7).
    pub clusters: Vec<TimeCluster>,
    /// The relevant set of links; none if no call is slow.
    pub relevant: Vec<SelectedLink>,
    /// The links that the sentences name: those of the relevant set that most half samples select.
    /// Tables name no others.
    pub named: Vec<usize>,
    /// How well load during a call indicates its class.
    pub indicator: Option<Validation>,
    /// How well load before a call predicts its class.
    pub predictor: Option<Validation>,
    /// The predictor, learnt from all calls.
    pub tree: Option<DecisionTree>,
    /// Sentences for the user.
    pub advice: Vec<String>,
    /// What a reader of the numbers should know.
    pub notes: Vec<String>,
}

/// The columns of one workload.
pub struct Selected {
    /// When each call began.
    pub start: Vec<f64>,
    /// How long it took.
    pub seconds: Vec<f64>,
    /// Each link's load during it.
    pub loads: Vec<Vec<f64>>,
    /// Each link's bytes during it, and those among them that are not the call's, if known.
    bytes: Vec<Vec<f64>>,
    background: Vec<Vec<f64>>,
}

/// The calls of a workload, with the load that is asked for. The second value says why it is
/// another load than that.
pub fn select(
    observation: &Observation,
    workload: usize,
    load: LoadKind,
) -> (Selected, LoadKind, Option<String>) {
    let calls = &observation.calls;
    let its = |call: &usize| calls.workload[*call] as usize == workload;
    let rows: Vec<usize> = (0..calls.len()).filter(its).collect();
    let of = |column: &Vec<f64>| rows.iter().map(|call| column[*call]).collect::<Vec<f64>>();
    let seconds = of(&calls.time);
    let bytes: Vec<Vec<f64>> = calls.link_bytes.iter().map(of).collect();
    let mut background: Vec<Vec<f64>> = calls.background_bytes.iter().map(of).collect();
    if background.is_empty() {
        // What counters counted beyond the library's account: at least this much is not the call's,
        // since what a cache keeps is accounted for and crosses no link.
        let own = calls.account_bytes.iter().map(of);
        let beyond = |(all, own): (&Vec<f64>, Vec<f64>)| -> Vec<f64> {
            all.iter().zip(own).map(|(all, own)| (all - own).max(0.0)).collect()
        };
        background = bytes.iter().zip(own).map(beyond).collect();
    }
    let unknown = load == LoadKind::Background && background.is_empty();
    let note = "what the call itself carried is not known apart: the load is all bytes";
    let used = if unknown { LoadKind::Bytes } else { load };
    let loads = match used {
        LoadKind::Bytes => bytes.clone(),
        LoadKind::Background => background.clone(),
        LoadKind::Rate => {
            let rate = |column: &Vec<f64>| {
                column.iter().zip(&seconds).map(|(bytes, time)| bytes / time.max(1e-9)).collect()
            };
            bytes.iter().map(rate).collect()
        }
    };
    let selected = Selected { start: of(&calls.start), seconds, loads, bytes, background };
    (selected, used, unknown.then(|| note.to_owned()))
}

/// Parts of an explanation, for a progress bar.
pub const STEPS: usize = 5;

/// Explains the calls of a workload. `None` if there are none.
pub fn explain(
    observation: &Observation,
    workload: usize,
    options: &ExplainOptions,
) -> Option<Explanation> {
    explain_in_steps(observation, workload, options, &mut || ())
}

/// The same; calls `done` after each of [`STEPS`] parts.
pub fn explain_in_steps(
    observation: &Observation,
    workload: usize,
    options: &ExplainOptions,
    done: &mut dyn FnMut(),
) -> Option<Explanation> {
    let (selected, load, note) = select(observation, workload, options.load);
    let loads = slices(&selected.loads);
    let columns = Columns { seconds: &selected.seconds, loads: &loads };
    let all = distribution(&selected.seconds)?;
    let (clusters, member) = clusters(&columns);
    let classes: Vec<TimeClass> = member.iter().map(|at| clusters[*at].duration).collect();
    let slow: Vec<bool> = classes.iter().map(|class| *class != TimeClass::Short).collect();
    done();
    let ranking = rank_links(&columns, &slow, options.resamples, options.seed);
    done();
    // What makes calls slow is asked, not what orders the short ones: these are ties. Where no call
    // is slow no link is relevant.
    let shorts = clusters.iter().filter(|c| c.duration == TimeClass::Short);
    let top = shorts.map(|cluster| cluster.to).fold(0.0, f64::max);
    let slowness: Vec<f64> = selected.seconds.iter().map(|time| time.max(top)).collect();
    let of_slow = Columns { seconds: &slowness, loads: &loads };
    let relevant = match slow.contains(&true) {
        true => relevant_set(&of_slow, SelectionEffort::default(), options.seed),
        false => Vec::new(),
    };
    done();
    let bytes = slices(&selected.bytes);
    let before = rates_before(&selected.seconds, &bytes);
    let before = slices(&before);
    let validated = |features: &[&[f64]]| match features.is_empty() {
        true => None,
        false => validate(features, &classes, options.resamples, options.seed),
    };
    let predictor = validated(&before);
    done();
    let indicator = validated(&loads);
    done();
    let everything: Vec<usize> = (0..classes.len()).collect();
    let tree = predictor.as_ref().map(|_| DecisionTree::learn(&before, &classes, &everything));
    let mut notes = observation.provenance.notes.clone();
    notes.extend(note);
    let stable = relevant.iter().filter(|chosen| chosen.stability >= STABLE);
    let mut explanation = Explanation {
        machine: observation.provenance.machine.clone(),
        source: observation.provenance.source,
        workload,
        what: describe(&observation.workloads[workload]),
        load,
        links: observation.links.names().to_vec(),
        histogram: histogram(&selected.seconds, all.p95),
        total_correlation: correlation(&selected.seconds, &columns.total()),
        fast_loads: fast_loads(&columns, all.p95),
        distribution: all,
        ranking,
        clusters,
        named: stable.map(|chosen| chosen.link).collect(),
        relevant,
        indicator,
        predictor,
        tree,
        advice: Vec::new(),
        notes,
    };
    explanation.advice = advise(observation, workload, &selected, &slow, &explanation);
    Some(explanation)
}

fn slices(columns: &[Vec<f64>]) -> Vec<&[f64]> {
    columns.iter().map(Vec::as_slice).collect()
}

fn describe(workload: &CallWorkload) -> String {
    let schedule = match workload.schedule.as_str() {
        "" => String::new(),
        name => format!(", schedule {name}"),
    };
    format!("{} of {} B on {} ranks{schedule}", workload.collective, workload.bytes, workload.ranks)
}

fn advise(
    observation: &Observation,
    workload: usize,
    selected: &Selected,
    slow: &[bool],
    explanation: &Explanation,
) -> Vec<String> {
    let slow_calls = slow.iter().filter(|slow| **slow).count();
    if explanation.links.is_empty() {
        let text = "The ranks are in one memory domain: there are no links between chips to blame. \
                    What makes calls slow here is the processor's time, or memory.";
        return vec![text.to_owned()];
    }
    if slow_calls == 0 {
        return vec![
            "The execution times are one cluster: no call is slow beside the others. (Whether all \
             are, a description of the machine tells: --machine.)"
                .into(),
        ];
    }
    if explanation.named.is_empty() {
        return vec![format!(
            "{slow_calls} of {} calls are slow, but no link's load goes with that both beyond \
             chance and in most half samples: the cause is elsewhere, or more calls are needed.",
            slow.len()
        )];
    }
    let sentence = |chosen: &SelectedLink| {
        let blame = explanation.ranking.iter().find(|blame| blame.link == chosen.link);
        let share = blame.map_or(0.0, |blame| blame.coincidence);
        let names = chosen.companions.iter().map(|link| explanation.links[*link].as_str());
        let others: Vec<&str> = names.collect();
        let beside = match others.is_empty() {
            true => String::new(),
            false => format!(" (or {}, whose load is the same)", others.join(", ")),
        };
        let name = &explanation.links[chosen.link];
        format!(
            "{:.0} % of the slow calls coincide with load on link {name}{beside} above what 95 % \
             of the fast calls see.{}",
            100.0 * share,
            cause(observation, workload, selected, slow, chosen.link)
        )
    };
    let is_named = |chosen: &&SelectedLink| explanation.named.contains(&chosen.link);
    explanation.relevant.iter().filter(is_named).map(sentence).collect()
}

/// Who loads the link, as far as the data has it, and what to do about it.
fn cause(
    observation: &Observation,
    workload: usize,
    selected: &Selected,
    slow: &[bool],
    link: usize,
) -> String {
    let name = &observation.links.names()[link];
    let mut text = String::new();
    let foreign = foreign_share(selected, slow, link);
    if let Some(share) = foreign {
        text += &format!(" {:.0} % of its bytes in them are not the call's own.", 100.0 * share);
    }
    let Some((from, to)) = chips(name) else { return text };
    if foreign.is_some_and(|share| share > 0.5) {
        text += &format!(
            " Other traffic (input and output, memory of other processes) crosses it: find it \
             with numastat -p, and keep it or the ranks off chips {from} and {to}."
        );
        return text;
    }
    let places = &observation.provenance.rank_chips;
    let chip = |rank: u32| places.get(rank as usize).copied();
    let pairs = observation.workloads[workload].pairs.iter();
    let crossing = pairs.filter(|pair| chip(pair.from) == Some(from) && chip(pair.to) == Some(to));
    let (mut senders, mut readers) = (Vec::new(), Vec::new());
    for pair in crossing {
        senders.push(pair.from);
        readers.push(pair.to);
    }
    if !senders.is_empty() {
        // Whether another placement avoids that depends on all pairs of ranks, and is said of all.
        text += &format!(
            " Ranks {} move the memory of ranks {} over it.",
            ranges(readers),
            ranges(senders)
        );
    }
    text
}

/// The share of a link's bytes in slow calls that are not the calls' own, if known.
fn foreign_share(selected: &Selected, slow: &[bool], link: usize) -> Option<f64> {
    let background = selected.background.get(link)?;
    let sum = |column: &[f64]| {
        column.iter().zip(slow).filter(|(_, slow)| **slow).map(|(bytes, _)| bytes).sum::<f64>()
    };
    let all = sum(&selected.bytes[link]);
    (all > 0.0).then(|| sum(background) / all)
}

/// The chips of a link's name: `3->5`.
fn chips(name: &str) -> Option<(u32, u32)> {
    let (from, to) = name.split_once("->")?;
    Some((from.trim().parse().ok()?, to.trim().parse().ok()?))
}

/// `0-3, 7` of ranks in any order.
fn ranges(mut ranks: Vec<u32>) -> String {
    ranks.sort_unstable();
    ranks.dedup();
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for rank in ranks {
        match runs.last_mut() {
            Some(run) if run.1 + 1 == rank => run.1 = rank,
            _ => runs.push((rank, rank)),
        }
    }
    let text = runs.iter().map(|(from, to)| match from == to {
        true => from.to_string(),
        false => format!("{from}-{to}"),
    });
    text.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Calls, LinkSet, PairBytes};

    const OPTIONS: ExplainOptions =
        ExplainOptions { load: LoadKind::Bytes, resamples: 50, seed: 1 };

    /// Every tenth to fifteenth call is slow and has ten times the bytes on `0->1`.
    fn observation(background: bool) -> Observation {
        let mut rng = fastrand::Rng::with_seed(3);
        let mut calls = Calls::with_columns(0, 2);
        let mut now = 0.0;
        for call in 0..400 {
            let slow = call % 40 < 5;
            let time = if slow { 5e-3 } else { 4e-4 } * (0.9 + 0.2 * rng.f64());
            calls.workload.push(0);
            calls.start.push(now);
            calls.time.push(time);
            now += time;
            let load = if slow { 1e6 } else { 1e5 } * (0.9 + 0.2 * rng.f64());
            calls.link_bytes[0].push(load);
            calls.link_bytes[1].push(1e5 * (0.9 + 0.2 * rng.f64()));
            let foreign = if background { 0.9 } else { 0.0 };
            calls.background_bytes[0].push(load * foreign);
            calls.background_bytes[1].push(0.0);
        }
        let pair = |from, to| PairBytes { from, to, bytes: 8 };
        Observation {
            provenance: crate::data::Provenance {
                rank_chips: vec![0, 0, 1, 1],
                ..Default::default()
            },
            links: LinkSet::new(vec!["0->1".into(), "1->0".into()]).unwrap(),
            workloads: vec![CallWorkload {
                collective: "allreduce".into(),
                bytes: 8,
                ranks: 4,
                schedule: String::new(),
                pairs: vec![pair(0, 2), pair(1, 3), pair(2, 0)],
            }],
            calls,
            study: None,
        }
    }

    #[test]
    fn names_the_link_and_the_ranks_that_load_it() {
        let explanation = explain(&observation(false), 0, &OPTIONS).unwrap();
        assert_eq!(explanation.relevant.len(), 1);
        let advice = explanation.advice.join("\n");
        for part in ["100 % of the slow calls", "link 0->1", "Ranks 2-3 move", "ranks 0-1 over"] {
            assert!(advice.contains(part), "{part}: {advice}");
        }
        assert_eq!(explanation.named, [0]);
        assert!(!advice.contains("avoids"), "what avoids it is said of all pairs: {advice}");
        assert!(explanation.indicator.unwrap().beats_constant);
    }

    /// Load that goes with the time within one heap: the correlation is beyond chance, and no link
    /// is named.
    #[test]
    fn names_no_link_where_no_call_is_slow() {
        let mut observation = observation(false);
        let calls = &mut observation.calls;
        for (call, time) in calls.time.iter_mut().enumerate() {
            let noise = f64::from((call * 7919 % 101) as u32) / 101.0;
            *time = 3e-4 * (0.95 + 0.1 * noise);
            calls.link_bytes[0][call] = 1e6 * (0.95 + 0.1 * noise);
        }
        let explanation = explain(&observation, 0, &OPTIONS).unwrap();
        assert!(explanation.ranking[0].beyond_chance, "{:?}", explanation.ranking);
        assert!(explanation.named.is_empty() && explanation.relevant.is_empty());
        assert_eq!(explanation.advice.len(), 1, "{:?}", explanation.advice);
        assert!(explanation.advice[0].contains("no call is slow"), "{:?}", explanation.advice);
    }

    #[test]
    fn names_foreign_traffic_where_it_is_known() {
        let advice = explain(&observation(true), 0, &OPTIONS).unwrap().advice.join("\n");
        assert!(advice.contains("90 % of its bytes"), "{advice}");
        assert!(advice.contains("Other traffic") && !advice.contains("Ranks 2-3"), "{advice}");
    }

    #[test]
    fn says_that_one_domain_has_no_links() {
        let mut observation = observation(false);
        observation.links = LinkSet::default();
        observation.calls.link_bytes.clear();
        observation.calls.background_bytes.clear();
        observation.check().unwrap();
        let explanation = explain(&observation, 0, &OPTIONS).unwrap();
        assert!(explanation.advice[0].contains("no links between chips"), "{explanation:?}");
        assert!(explanation.ranking.is_empty() && explanation.predictor.is_none());
        observation.calls = Calls::default();
        assert!(explain(&observation, 0, &OPTIONS).is_none());
    }

    #[test]
    fn ranges_are_short() {
        assert_eq!(ranges(vec![3, 0, 1, 2, 7, 7]), "0-3, 7");
        assert_eq!(chips("3->5"), Some((3, 5)));
        assert_eq!(chips("io"), None);
    }
}

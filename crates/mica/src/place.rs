//! `mica place`: from the profile of a job and the machine that it shall run on, which rank had
//! better run where, and what that gains (chai-2009, 9.2).
//!
//! The map is the one that `mpiexec --map-by profile:FILE` makes for the same hosts: first the
//! ranks of each host, then their cores there. It is compared with mpiexec's default: blocks of
//! ranks host by host, core after core. Costs are those of the tuning file in force; the file of
//! this machine also stands for the machines of `--topology`.

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use mica_node::topology::{BindTo, CorePlace, Level, Machine, MapBy, UNKNOWN, map as map_to_cores};
use mica_policy::mapping::{Links, MappingEffort, Nearness, PairTraffic, Place, links_of, map};
use mica_policy::{PathCosts, tuning};
use mica_profile::recorded::RecordedTraffic;
use serde::Serialize;

use crate::origin::ResultOrigin;
use crate::terminal::table;

/// The options of `mica place`.
#[derive(clap::Args)]
pub struct PlaceOptions {
    /// The profile.json that mica profile wrote.
    profile: PathBuf,
    /// The hosts, as for mpiexec: NAME or NAME:SLOTS, separated by commas. By default one node.
    #[arg(long, value_delimiter = ',')]
    hosts: Vec<String>,
    /// The machine that each host is: a file of lstopo (FILE.xml) or a description in hwloc's
    /// synthetic language ("pack:2 l3:4 core:4 pu:1"). By default this machine.
    #[arg(long)]
    topology: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// A proposed map and its costs.
#[derive(Debug, Serialize)]
struct Proposal {
    /// The place of each rank.
    ranks: Vec<RankProposal>,
    /// Nanoseconds of all messages, by level, of the default and the proposed map.
    levels: Vec<LevelCost>,
    /// Nanoseconds that the default map costs.
    default_ns: u128,
    /// Nanoseconds that the proposed map costs.
    proposed_ns: u128,
    /// The command that applies it.
    command: String,
}

#[derive(Debug, Serialize)]
struct RankProposal {
    rank: usize,
    host: String,
    core: Option<u32>,
    shared_cache: Option<u32>,
    package: Option<u32>,
}

#[derive(Debug, Serialize)]
struct LevelCost {
    level: &'static str,
    default_ns: u128,
    proposed_ns: u128,
}

/// The text that the command prints.
///
/// # Errors
/// If the profile, the hosts or the topology cannot be used.
pub fn place(options: &PlaceOptions) -> Result<String, Box<dyn Error>> {
    let traffic = RecordedTraffic::read(&options.profile)?;
    let machine = match &options.topology {
        None => Machine::load()?,
        Some(file) if file.ends_with(".xml") => Machine::from_xml(Path::new(file))?,
        Some(description) => Machine::synthetic(description)?,
    };
    let hosts = match options.hosts.is_empty() {
        true => vec![("this node".to_owned(), traffic.ranks.max(1))],
        false => hosts(&options.hosts, traffic.ranks)?,
    };
    let proposal = propose(&traffic, &machine, &hosts, options)?;
    Ok(match options.json {
        true => ResultOrigin::without_messages().json(&proposal)?,
        false => render(&proposal),
    })
}

/// Name and slots of each host; one without a number takes an equal share.
fn hosts(words: &[String], ranks: usize) -> Result<Vec<(String, usize)>, String> {
    let share = ranks.div_ceil(words.len()).max(1);
    let host = |word: &String| {
        let (name, slots) = match word.rsplit_once(':') {
            None => (word.as_str(), Some(share)),
            Some((name, slots)) => (name, slots.parse().ok().filter(|&slots| slots > 0)),
        };
        let slots = slots.filter(|_| !name.is_empty());
        let slots = slots.ok_or_else(|| format!("--hosts: {word:?} is not NAME or NAME:SLOTS"))?;
        Ok((name.to_owned(), slots))
    };
    words.iter().map(host).collect()
}

/// The places of mpiexec's default: by rank.
fn default_places(machine: &Machine, hosts: &[(String, usize)], ranks: usize) -> Vec<Place> {
    let turns = hosts.iter().zip(0_u32..).cycle();
    let blocks = turns.flat_map(|((_, slots), node)| std::iter::repeat_n(node, *slots));
    let nodes: Vec<u32> = blocks.take(ranks).collect();
    let cores = map_to_cores(machine, ranks, MapBy::Core, BindTo::Core);
    let mut used = vec![0; hosts.len()];
    let place = |node: u32| {
        let next = &mut used[node as usize];
        *next += 1;
        Place { node, core: cores[*next - 1].place }
    };
    nodes.into_iter().map(place).collect()
}

fn traffic_of(recorded: &RecordedTraffic) -> Vec<PairTraffic> {
    let pairs = recorded.pairs.iter().map(|pair| PairTraffic {
        from: pair.from as usize,
        to: pair.to as usize,
        messages: pair.messages,
        bytes: pair.bytes,
    });
    pairs.collect()
}

/// The place of each rank as an index of `places`: first the node, then the core.
fn in_two_stages(traffic: &[PairTraffic], places: &[Place], costs: &PathCosts) -> Vec<usize> {
    let blurred = places.iter().map(|place| Place { core: CorePlace::UNKNOWN, ..*place });
    let blurred: Vec<Place> = blurred.collect();
    let whole = links_of(places.len(), traffic, costs);
    let nodes = map(&whole, &blurred, Vec::new(), MappingEffort::TOOL);
    let mut order = vec![0; places.len()];
    let count = places.iter().map(|place| place.node + 1).max().unwrap_or(0);
    for node in 0..count {
        let is_here = |&slot: &usize| places[slot].node == node;
        let members = (0..places.len()).filter(|&rank| is_here(&nodes[rank]));
        let members: Vec<usize> = members.collect();
        let slots: Vec<usize> = (0..places.len()).filter(is_here).collect();
        let index = |rank: usize| members.binary_search(&rank).ok();
        let inside = traffic.iter().filter_map(|pair| {
            Some(PairTraffic { from: index(pair.from)?, to: index(pair.to)?, ..*pair })
        });
        let inside: Vec<PairTraffic> = inside.collect();
        let own: Vec<Place> = slots.iter().map(|&slot| places[slot]).collect();
        let links = links_of(own.len(), &inside, costs);
        let within = map(&links, &own, Vec::new(), MappingEffort::TOOL);
        for (&rank, slot) in members.iter().zip(within) {
            order[rank] = slots[slot];
        }
    }
    order
}

fn propose(
    recorded: &RecordedTraffic,
    machine: &Machine,
    hosts: &[(String, usize)],
    options: &PlaceOptions,
) -> Result<Proposal, Box<dyn Error>> {
    let (costs, _) = tuning::in_force(None)?;
    let places = default_places(machine, hosts, recorded.ranks);
    let traffic = traffic_of(recorded);
    let links = links_of(recorded.ranks, &traffic, &costs);
    let plain: Vec<usize> = (0..recorded.ranks).collect();
    let order = in_two_stages(&traffic, &places, &costs);
    let named = |part: u32| (part != UNKNOWN).then_some(part);
    let rank = |rank: usize| {
        let Place { node, core } = places[order[rank]];
        RankProposal {
            rank,
            host: hosts[node as usize].0.clone(),
            core: named(core.core),
            shared_cache: named(core.shared_cache),
            package: named(core.package),
        }
    };
    let on_hosts = match options.hosts.is_empty() {
        true => String::new(),
        false => format!(" -hosts {}", options.hosts.join(",")),
    };
    Ok(Proposal {
        ranks: plain.iter().map(|&number| rank(number)).collect(),
        levels: levels(&links, &places, &plain, &order),
        default_ns: links.cost(&plain, &places),
        proposed_ns: links.cost(&order, &places),
        command: format!(
            "mpiexec -n {}{on_hosts} --bind-to core --map-by profile:{} PROGRAM",
            recorded.ranks,
            options.profile.display()
        ),
    })
}

fn levels(links: &Links, places: &[Place], plain: &[usize], order: &[usize]) -> Vec<LevelCost> {
    let (before, after) = (links.costs(plain, places), links.costs(order, places));
    let sum = |costs: &[u128], level: Level| {
        let near = Nearness::ALL.into_iter().zip(costs);
        let near = near.filter(|(nearness, _)| nearness.level() == level);
        near.map(|(_, ns)| ns).sum()
    };
    let level = |level: Level| LevelCost {
        level: level.name(),
        default_ns: sum(&before, level),
        proposed_ns: sum(&after, level),
    };
    Level::ALL.map(level).into()
}

fn gain(default_ns: u128, proposed_ns: u128) -> f64 {
    100.0 * (default_ns - proposed_ns) as f64 / default_ns.max(1) as f64
}

fn render(proposal: &Proposal) -> String {
    let ms = |ns: u128| format!("{:.3} ms", ns as f64 / 1e6);
    let mut text = String::new();
    let mut table = table("time of messages | by default | proposed");
    for row in &proposal.levels {
        table.add_row([row.level.to_owned(), ms(row.default_ns), ms(row.proposed_ns)]);
    }
    let (before, after) = (proposal.default_ns, proposal.proposed_ns);
    table.add_row(["all".to_owned(), ms(before), ms(after)]);
    let _ = writeln!(text, "{table}\n");
    if before == after {
        text.push_str("No other map is found that costs less: ranks may stay where they are.\n");
        return text;
    }
    let _ = writeln!(
        text,
        "Predicted gain: {} of {}, {:.1} %\n",
        ms(before - after),
        ms(before),
        gain(before, after)
    );
    for rank in &proposal.ranks {
        let _ = write!(text, "rank {}: {}", rank.rank, rank.host);
        for (name, part) in
            [("core", rank.core), ("shared cache", rank.shared_cache), ("package", rank.package)]
        {
            if let Some(part) = part {
                let _ = write!(text, ", {name} {part}");
            }
        }
        text.push('\n');
    }
    let _ = writeln!(text, "\nTo apply it:\n\n    {}", proposal.command);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use mica_profile::recorded::RecordedPair;

    fn options(hosts: &[&str]) -> PlaceOptions {
        PlaceOptions {
            profile: "p.json".into(),
            hosts: hosts.iter().map(|&host| host.to_owned()).collect(),
            topology: None,
            json: false,
        }
    }

    /// Pairs (i, i + 4) exchange 1 MiB in 16 messages.
    fn recorded() -> RecordedTraffic {
        let pair = |i| RecordedPair { from: i, to: i + 4, messages: 16, bytes: 1 << 20 };
        RecordedTraffic { ranks: 8, pairs: (0..4).map(pair).collect() }
    }

    #[test]
    fn pairs_move_to_one_cache_and_the_gain_is_said() {
        let machine = Machine::synthetic("pack:2 l3:2 core:2 pu:1").unwrap();
        let here = [("this node".to_owned(), 8)];
        let proposal = propose(&recorded(), &machine, &here, &options(&[])).unwrap();
        for i in 0..4 {
            let (a, b) = (&proposal.ranks[i], &proposal.ranks[i + 4]);
            assert!(a.shared_cache.is_some() && a.shared_cache == b.shared_cache);
        }
        // All traffic was between packages, and all is within caches.
        let by_level =
            |at: usize| (proposal.levels[at].default_ns, proposal.levels[at].proposed_ns);
        assert_eq!(by_level(0), (0, proposal.proposed_ns));
        assert_eq!(by_level(2), (proposal.default_ns, 0));
        assert!(proposal.proposed_ns < proposal.default_ns);
        let text = render(&proposal);
        assert!(text.contains("Predicted gain: ") && text.contains("--map-by profile:p.json"));
        let mut seen: Vec<_> = proposal.ranks.iter().map(|rank| rank.core).collect();
        seen.sort_unstable();
        assert!(seen.into_iter().eq((0..8).map(Some)), "a core each");
    }

    #[test]
    fn hosts_of_different_sizes_keep_their_slots() {
        let machine = Machine::synthetic("pack:1 l3:1 core:4 pu:1").unwrap();
        let options = options(&["a:2", "b:6"]);
        let hosts = hosts(&options.hosts, 8).unwrap();
        let proposal = propose(&recorded(), &machine, &hosts, &options).unwrap();
        let on_a = |rank: &&RankProposal| rank.host == "a";
        let on_a: Vec<usize> = proposal.ranks.iter().filter(on_a).map(|r| r.rank).collect();
        assert!(on_a.len() == 2 && on_a[0] + 4 == on_a[1], "{on_a:?}");
        assert_eq!(proposal.levels[3].proposed_ns, 0, "nothing over the network");
        assert!(proposal.levels[3].default_ns > 0);
        assert!(proposal.command.contains("-hosts a:2,b:6"));
        assert!(super::hosts(&["a:x".to_owned()], 8).is_err());
    }
}

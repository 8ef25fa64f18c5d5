//! The library's own account of its transfers, routed over links: which bytes a call moved between
//! chips, although nothing counted them.
//!
//! With `MICA_TRANSFER_ACCOUNT=PREFIX` each rank writes, for each collective, the bytes that it
//! read from and wrote to every rank's memory (the module `intranode::protocol::account` of the
//! library describes the file; [`RankAccount::parse`] reads it). A rank's memory is on the chip on
//! which the rank runs: it touches its buffers first. [`ChipLinks`] says which directed links a
//! transfer between two chips crosses; [`transfers`] brings both together, one row for each call.
//!
//! The account has the collective's own traffic alone. What others load on a link, only counters
//! know; and what a cache keeps never crosses a link, though it is accounted for. So its bytes are
//! an upper bound of what one call can load on a link.

use std::collections::{BTreeMap, VecDeque};

use mica_machine::{ChipMachine, ChipRoutes, shortest_routes};

use crate::data::{LinkSet, PairBytes};
use crate::discover::Domains;

/// The first word of an account's first line.
const FORMAT: &str = "mica-transfer-account";

/// What one rank's file says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RankAccount {
    /// Its collectives, in the order in which they ended, with all that belongs to them.
    pub calls: Vec<AccountedCall>,
}

/// A record: a whole call, but for its steps within a node, or such a step.
#[derive(Debug)]
struct AccountRecord {
    call: AccountedCall,
    is_step: bool,
    /// Steps that belong to it.
    steps: usize,
}

/// One rank's part in a collective.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountedCall {
    /// The function, `MPI_Allreduce`; empty for the library's own operations.
    pub function: String,
    /// Ranks that took part.
    pub ranks: u64,
    /// For each rank whose memory was used: its number in the job, bytes read and bytes written.
    pub moved: Vec<(u32, u64, u64)>,
}

/// An account cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not an account of transfers: {0}")]
pub struct AccountError(String);

impl RankAccount {
    /// Reads the bytes of a file.
    ///
    /// # Errors
    /// If they have another form, or end within a record.
    pub fn parse(bytes: &[u8]) -> Result<RankAccount, AccountError> {
        let wrong = |what: &str| AccountError(what.to_owned());
        let end = bytes.iter().position(|&byte| byte == b'\n');
        let end = end.ok_or_else(|| wrong("it has no first line"))?;
        let line = str::from_utf8(&bytes[..end]).map_err(|_| wrong("it begins with no text"))?;
        let mut words = line.split(' ');
        if (words.next(), words.next()) != (Some(FORMAT), Some("2")) {
            return Err(wrong("its first line names no format that is known"));
        }
        let names: Vec<&str> = words.collect();
        let rest = &bytes[end + 1..];
        if !rest.len().is_multiple_of(8) {
            return Err(wrong("it ends within a number"));
        }
        let (numbers, _) = rest.as_chunks::<8>();
        let mut numbers = numbers.iter().map(|bytes| u64::from_le_bytes(*bytes));
        let mut records = Vec::new();
        while let Some(ranks) = numbers.next() {
            let mut next = || numbers.next().ok_or_else(|| wrong("it ends within a record"));
            let (label, part, steps) = (next()?, next()?, next()?);
            let (repeats, members) = (next()?, next()?);
            let name = (label as usize).checked_sub(1).and_then(|at| names.get(at));
            let mut moved = Vec::new();
            for _ in 0..members {
                let rank = u32::try_from(next()?).map_err(|_| wrong("a rank is out of range"))?;
                moved.push((rank, next()?, next()?));
            }
            for _ in 0..repeats {
                records.push(AccountRecord {
                    call: AccountedCall {
                        function: (*name.unwrap_or(&"")).to_owned(),
                        ranks,
                        moved: moved.clone(),
                    },
                    is_step: part == 1,
                    steps: steps as usize,
                });
            }
        }
        Ok(RankAccount { calls: with_steps(records) })
    }

    /// The last `count` calls of a function on `ranks` ranks; `None` if there are fewer.
    fn last_of(&self, function: &str, ranks: usize, count: usize) -> Option<Vec<&AccountedCall>> {
        let is_one = |call: &&AccountedCall| {
            call.ranks == ranks as u64 && call.function.eq_ignore_ascii_case(function)
        };
        let all: Vec<&AccountedCall> = self.calls.iter().filter(is_one).collect();
        let first = all.len().checked_sub(count)?;
        Some(all[first..].to_vec())
    }
}

/// The calls, with what their steps have moved. Steps of a function's calls come in the order of
/// the calls, before or after the call's own record.
fn with_steps(records: Vec<AccountRecord>) -> Vec<AccountedCall> {
    let (steps, mut calls): (Vec<AccountRecord>, Vec<AccountRecord>) =
        records.into_iter().partition(|record| record.is_step);
    let mut by_function: BTreeMap<String, VecDeque<AccountedCall>> = BTreeMap::new();
    for step in steps {
        by_function.entry(step.call.function.clone()).or_default().push_back(step.call);
    }
    for record in &mut calls {
        if let Some(steps) = by_function.get_mut(&record.call.function) {
            let own = steps.drain(..record.steps.min(steps.len()));
            record.call.moved.extend(own.flat_map(|step| step.moved));
        }
    }
    calls.into_iter().map(|record| record.call).collect()
}

/// The directed links between chips, and which of them a transfer crosses.
#[derive(Debug, Clone, PartialEq)]
pub struct ChipLinks {
    /// The links.
    pub links: LinkSet,
    routes: ChipRoutes,
    /// What the links are taken from, as a sentence.
    pub source: String,
}

impl ChipLinks {
    /// Those of a described machine.
    pub fn of_machine(machine: &ChipMachine) -> ChipLinks {
        let chips = 0..machine.chips();
        let route = |from: usize| chips.clone().map(move |to| machine.route(from, to).to_vec());
        ChipLinks {
            links: LinkSet::of_machine(machine),
            routes: chips.clone().map(|from| route(from).collect()).collect(),
            source: format!("Links and routes are those of the description of {}.", machine.name()),
        }
    }

    /// Those that the distances between memory domains suggest. The firmware reports distances and
    /// no links; where all machines agree is that two domains with the smallest remote distance
    /// are neighbours. If these pairs connect all domains, they are the links, and routes are the
    /// shortest paths; if not, each pair of domains has a link.
    pub fn of_domains(domains: &Domains) -> ChipLinks {
        let count = domains.domains.len();
        let distance = |from: usize, to: usize| {
            domains.domains[from].distances.get(to).copied().unwrap_or(u32::MAX)
        };
        let pairs = || (0..count).flat_map(|a| (0..count).map(move |b| (a, b)));
        let remote = || pairs().filter(|(a, b)| a != b);
        let nearest = remote().map(|(a, b)| distance(a, b)).min().unwrap_or(0);
        let near: Vec<(usize, usize)> = remote()
            .filter(|&(a, b)| distance(a, b) == nearest || distance(b, a) == nearest)
            .collect();
        let (ends, source) = match shortest_routes(count, &near) {
            Ok(_) => (near, "Links are the pairs of memory domains at the smallest distance"),
            Err(_) => (remote().collect(), "Each pair of memory domains counts as a link"),
        };
        let name = |&(a, b): &(usize, usize)| {
            let number = |at: usize| domains.domains[at].number;
            format!("{}->{}", number(a), number(b))
        };
        let names = ends.iter().map(name).collect();
        ChipLinks {
            links: LinkSet::new(names).expect("pairs of different domains, each once"),
            routes: shortest_routes(count, &ends).unwrap_or_default(),
            source: format!(
                "{source}: the firmware reports distances, not links, so the account's routes are \
                 an assumption (a description of the machine, --machine, replaces it)."
            ),
        }
    }

    /// Those between these chips, with shortest paths; ways that are not connected cross none.
    pub fn of_ends(chips: usize, ends: &[(usize, usize)], source: &str) -> ChipLinks {
        let names = ends.iter().map(|(from, to)| format!("{from}->{to}")).collect();
        ChipLinks {
            links: LinkSet::new(names).expect("each pair of chips once"),
            routes: shortest_routes(chips, ends).unwrap_or_default(),
            source: source.to_owned(),
        }
    }

    /// The links that a transfer from one chip's memory to another chip crosses.
    pub fn route(&self, from: usize, to: usize) -> &[usize] {
        self.routes.get(from).and_then(|routes| routes.get(to)).map_or(&[], Vec::as_slice)
    }

    /// Number of chips.
    pub fn chips(&self) -> usize {
        self.routes.len()
    }

    /// The same chips and links on each of `nodes` nodes, one node's chips after the other's. Links
    /// are named by [`name_on_node`], and none connects nodes.
    pub fn on_nodes(&self, nodes: usize) -> ChipLinks {
        let (chips, links) = (self.chips(), self.links.len());
        let name =
            |node: usize| self.links.names().iter().map(move |name| name_on_node(node, name));
        let route = |from: usize, to: usize| match from / chips == to / chips {
            false => Vec::new(),
            true => {
                let first = from / chips * links;
                let on_first = &self.routes[from % chips][to % chips];
                on_first.iter().map(|link| first + link).collect()
            }
        };
        let all = 0..nodes * chips;
        ChipLinks {
            links: LinkSet::new((0..nodes).flat_map(name).collect()).expect("unlike names"),
            routes: (all.clone())
                .map(|from| all.clone().map(|to| route(from, to)).collect())
                .collect(),
            source: self.source.clone(),
        }
    }
}

/// The name of a link, or of what else is counted, on a node: on those beyond the first one it has
/// their number in front, `1:0->1`.
pub fn name_on_node(node: usize, name: &str) -> String {
    if node == 0 { name.to_owned() } else { format!("{node}:{name}") }
}

/// What the calls moved.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Transfers {
    /// For each call: bytes that ranks read from or wrote to other ranks' memory.
    pub moved: Vec<f64>,
    /// For each link: its bytes in each call.
    pub link_bytes: Vec<Vec<f64>>,
    /// The mean bytes of a call between each pair of ranks.
    pub pairs: Vec<PairBytes>,
}

/// What the last `count` calls of `MPI_<collective>` moved over the links, where rank `r` is on
/// chip `chips[r]`. `None` if a rank's account has fewer calls of it.
pub fn transfers(
    accounts: &[RankAccount],
    collective: &str,
    count: usize,
    chips: &[usize],
    links: &ChipLinks,
) -> Option<Transfers> {
    let function = format!("MPI_{collective}");
    let mut found = Transfers {
        moved: vec![0.0; count],
        link_bytes: vec![vec![0.0; count]; links.links.len()],
        pairs: Vec::new(),
    };
    let mut sums: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    for (me, account) in (0_u32..).zip(accounts) {
        let calls = account.last_of(&function, accounts.len(), count)?;
        for (row, call) in calls.into_iter().enumerate() {
            for &(peer, loaded, stored) in call.moved.iter().filter(|moved| moved.0 != me) {
                for (from, to, bytes) in [(peer, me, loaded), (me, peer, stored)] {
                    if bytes == 0 {
                        continue;
                    }
                    found.moved[row] += bytes as f64;
                    *sums.entry((from, to)).or_default() += bytes;
                    let chip = |rank: u32| chips.get(rank as usize).copied();
                    let (Some(from), Some(to)) = (chip(from), chip(to)) else { continue };
                    for &link in links.route(from, to) {
                        found.link_bytes[link][row] += bytes as f64;
                    }
                }
            }
        }
    }
    let mean = |((from, to), bytes): ((u32, u32), u64)| PairBytes {
        from,
        to,
        bytes: bytes / count.max(1) as u64,
    };
    found.pairs = sums.into_iter().map(mean).collect();
    Some(found)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn domains(tree: &str) -> Domains {
        let trees = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sysfs");
        Domains::find(&trees.join(tree)).expect("a tree")
    }

    /// A file with these words of records.
    fn file_of(words: impl Iterator<Item = u64>) -> Vec<u8> {
        let mut bytes = b"mica-transfer-account 2 MPI_Barrier MPI_Allreduce\n".to_vec();
        words.for_each(|word| bytes.extend(word.to_le_bytes()));
        bytes
    }

    /// A file with these records of whole calls: label, ranks, and rank, loaded, stored.
    fn file(records: &[(u64, u64, &[[u64; 3]])]) -> Vec<u8> {
        file_of(records.iter().flat_map(|(label, ranks, moved)| {
            let head = [*ranks, *label, 0, 0, 1, moved.len() as u64];
            head.into_iter().chain(moved.iter().copied().flatten())
        }))
    }

    #[test]
    fn reads_records_and_refuses_parts_of_them() {
        let bytes = file(&[(2, 2, &[[1, 64, 0], [0, 0, 8]]), (0, 2, &[])]);
        let account = RankAccount::parse(&bytes).expect("two records");
        assert_eq!(account.calls[0].function, "MPI_Allreduce");
        assert_eq!(account.calls[0].moved, [(1, 64, 0), (0, 0, 8)]);
        assert_eq!(account.calls[1].function, "", "the library's own operation");
        for cut in 1..56 {
            assert!(RankAccount::parse(&bytes[..bytes.len() - cut]).is_err() || cut == 48);
        }
        assert!(RankAccount::parse(b"32.1 begin MPI_Barrier 0 0\n").is_err());
    }

    #[test]
    fn repeated_records_and_steps_make_the_calls() {
        // Steps of the first call before its record, those of the second one after it.
        let words = [
            [2, 2, 1, 0, 1, 1, 1, 10, 0].as_slice(),
            &[2, 2, 1, 0, 1, 0],
            &[4, 2, 0, 2, 2, 1, 3, 0, 64],
            &[2, 2, 1, 0, 1, 1, 1, 20, 0],
            &[2, 2, 1, 0, 1, 1, 1, 0, 5],
            &[4, 1, 0, 0, 3, 0],
        ];
        let account = RankAccount::parse(&file_of(words.concat().into_iter())).expect("records");
        let moved: Vec<_> = account.calls.iter().map(|call| &call.moved[..]).collect();
        assert_eq!(moved[0], [(3, 0, 64), (1, 10, 0)]);
        assert_eq!(moved[1], [(3, 0, 64), (1, 20, 0), (1, 0, 5)]);
        assert_eq!(moved[2..], [&[][..]; 3]);
        assert_eq!(account.calls[4].function, "MPI_Barrier");
    }

    #[test]
    fn nodes_have_links_of_their_own() {
        let one = ChipLinks::of_domains(&domains("intel-2"));
        let three = one.on_nodes(3);
        assert_eq!((three.chips(), three.links.len()), (6, 6));
        let name = |&at: &usize| three.links.names()[at].as_str();
        let way = |from, to| three.route(from, to).iter().map(name).collect::<Vec<_>>();
        assert_eq!(way(0, 1), ["0->1"]);
        assert_eq!(way(5, 4), ["2:1->0"]);
        assert!(way(1, 2).is_empty(), "another node");
        assert_eq!(one.on_nodes(1).links.names(), one.links.names());
    }

    #[test]
    fn transfers_of_the_last_calls_go_over_the_links_between_chips() {
        // Rank 0 reads 64 bytes of rank 1, which writes 8 to rank 0: both go from 1 to 0.
        let zero = file(&[(2, 2, &[[1, 1000, 0]]), (2, 2, &[[1, 64, 0], [0, 5, 5]])]);
        let one = file(&[(2, 2, &[]), (1, 2, &[[0, 9, 9]]), (2, 2, &[[0, 0, 8]])]);
        let accounts = [zero, one].map(|bytes| RankAccount::parse(&bytes).expect("records"));
        let links = ChipLinks::of_domains(&domains("intel-2"));
        let found = transfers(&accounts, "allreduce", 1, &[0, 1], &links).expect("a call");
        let link = links.links.index("1->0").expect("a link");
        assert_eq!(found.link_bytes[link], [72.0]);
        assert_eq!(found.link_bytes[1 - link], [0.0]);
        assert_eq!(found.moved, [72.0]);
        assert_eq!(found.pairs, [PairBytes { from: 1, to: 0, bytes: 72 }]);
        let apart = transfers(&accounts, "allreduce", 1, &[0, 0], &links).expect("a call");
        assert_eq!((apart.link_bytes[link][0], apart.moved[0]), (0.0, 72.0));
        assert!(transfers(&accounts, "allreduce", 3, &[0, 1], &links).is_none());
    }

    #[test]
    fn distances_of_a_real_x4600_give_the_papers_links() {
        let domains = domains("x4600");
        let found = ChipLinks::of_domains(&domains);
        let machine = ChipMachine::named("x4600").expect("shipped");
        let sorted = |links: &LinkSet| {
            let mut names = links.names().to_vec();
            names.sort();
            names
        };
        assert_eq!(sorted(&found.links), sorted(&LinkSet::of_machine(&machine)));
        for (from, domain) in domains.domains.iter().enumerate() {
            for (to, distance) in domain.distances.iter().enumerate() {
                let hops = machine.route(from, to).len();
                assert_eq!(hops as u32, (distance - 10) / 2, "{from} to {to}");
                assert_eq!(found.route(from, to).len(), hops);
            }
        }
    }

    #[test]
    fn one_domain_has_no_links() {
        let links = ChipLinks::of_domains(&domains("nowhere"));
        assert!(links.links.is_empty() && links.route(0, 0).is_empty());
    }
}

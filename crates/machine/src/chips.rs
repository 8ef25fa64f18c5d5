//! Chips, their cores and memory, and the directed links between them, with the route from each
//! chip to each other: the section `[chips]`.
//!
//! Routing is shortest path, with ties resolved towards the lower chip number at the first hop
//! where paths part, and a `[[chips.route]]` may replace the path of a pair: Opteron's routing
//! tables are set at start-up, and differ between boards (muecke-2010, section 4). A path from A to
//! B and the path from B to A may differ.
//!
//! Parallel links between two chips are one link with their common bandwidth: processors interleave
//! addresses over them. A [`ChipMachine`] has bandwidths in bytes per second and latencies in
//! seconds, as all of `mica links`. Its model and the library's account of its transfers use the
//! routes.

use super::check::{self, Mistake};
use super::sections::ChipParameters;

/// A machine whose routes are known.
#[derive(Debug, Clone, PartialEq)]
pub struct ChipMachine {
    name: String,
    source: String,
    cores_per_chip: usize,
    chips: ChipParameters,
    links: Vec<Link>,
    routes: ChipRoutes,
}

/// For each chip and each other chip: indices of the links on the way.
pub type ChipRoutes = Vec<Vec<Vec<usize>>>;

/// A directed link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Link {
    /// The chip that sends.
    pub from: usize,
    /// The chip that receives.
    pub to: usize,
    /// Bytes per second.
    pub bandwidth: f64,
    /// Seconds.
    pub latency: f64,
}

impl ChipMachine {
    /// The machine of this name and source; chips have `cores` each if they do not say theirs.
    pub(super) fn new(
        name: String,
        source: String,
        cores: Option<usize>,
        chips: ChipParameters,
    ) -> Result<ChipMachine, Mistake> {
        let cores_per_chip = chips.cores.or(cores).unwrap_or(0);
        check::chips(&chips, cores_per_chip)?;
        let links = links(&chips)?;
        let routes = routes(&chips, &links)?;
        Ok(ChipMachine { name, source, cores_per_chip, chips, links, routes })
    }

    /// Its name, for people.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where its numbers come from.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Number of chips.
    pub fn chips(&self) -> usize {
        self.chips.count
    }

    /// Number of cores.
    pub fn cores(&self) -> usize {
        self.chips.count * self.cores_per_chip
    }

    /// Bytes per second that one core copies at most.
    pub fn core_bandwidth(&self) -> f64 {
        self.chips.core_gb_s * 1e9
    }

    /// Bytes per second of one chip's memory.
    pub fn memory_bandwidth(&self) -> f64 {
        self.chips.memory_gb_s * 1e9
    }

    /// The chips to which I/O is attached.
    pub fn io_chips(&self) -> &[usize] {
        &self.chips.io
    }

    /// The directed links.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// The machine with a link that is slower by this factor, in both directions: the pair of links
    /// `2 * pair` and `2 * pair + 1` of [`links`](Self::links).
    #[must_use]
    pub fn with_slower_link(&self, pair: usize, factor: f64) -> ChipMachine {
        let mut machine = self.clone();
        for link in &mut machine.links[2 * pair..2 * pair + 2] {
            link.bandwidth /= factor;
        }
        machine
    }

    /// The links on the way from a chip to another, in order; none within a chip.
    pub fn route(&self, from: usize, to: usize) -> &[usize] {
        &self.routes[from][to]
    }

    /// Seconds for a cache line from a chip to another on an idle machine.
    pub fn latency(&self, from: usize, to: usize) -> f64 {
        let links: f64 = self.route(from, to).iter().map(|&link| self.links[link].latency).sum();
        self.chips.local_latency_ns / 1e9 + links
    }

    /// The chip of each of `ranks` ranks: one after another from the first core on, spread evenly
    /// over the machine if there are fewer ranks than cores; cores hold several if there are more.
    pub fn placement(&self, ranks: usize) -> Vec<usize> {
        let (cores, first) = (self.cores(), self.chips.first_core);
        let core = |rank: usize| (first + rank * cores / ranks) % cores;
        (0..ranks).map(|rank| core(rank) / self.cores_per_chip).collect()
    }
}

impl Link {
    /// Its name: `3->5`.
    pub fn name(&self) -> String {
        format!("{}->{}", self.from, self.to)
    }
}

/// Both directions of each link, in the order of the description.
fn links(chips: &ChipParameters) -> Result<Vec<Link>, Mistake> {
    let mut links: Vec<Link> = Vec::new();
    for pair in &chips.link {
        let [a, b] = pair.between;
        let is_linked = links.iter().any(|link| (link.from, link.to) == (a, b));
        let reason = "has a link already; merge them into one with a count";
        check::require(!is_linked, "chips.link.between", format!("[{a}, {b}]"), reason)?;
        links.extend([(a, b), (b, a)].map(|(from, to)| Link {
            from,
            to,
            bandwidth: pair.gb_s * 1e9 * f64::from(pair.count),
            latency: pair.latency_ns / 1e9,
        }));
    }
    Ok(links)
}

/// The links on the way between all pairs.
fn routes(parameters: &ChipParameters, links: &[Link]) -> Result<ChipRoutes, Mistake> {
    let ends: Vec<(usize, usize)> = links.iter().map(|link| (link.from, link.to)).collect();
    let chips = parameters.count;
    let mut routes = shortest_routes(chips, &ends).map_err(|(from, to)| {
        let reason = format!("no link leads from chip {from} to {to}, directly or through others");
        Mistake::new("chips.count", chips, &reason)
    })?;
    for explicit in &parameters.route {
        let (ends, way) = explicit_route(&explicit.path, links)?;
        routes[ends.0][ends.1] = way;
    }
    Ok(routes)
}

/// The shortest way between all pairs of chips over directed links with these ends; where paths
/// part, to the lower chip number.
///
/// # Errors
/// A pair that no way connects.
pub fn shortest_routes(
    chips: usize,
    ends: &[(usize, usize)],
) -> Result<ChipRoutes, (usize, usize)> {
    let mut routes = vec![vec![Vec::new(); chips]; chips];
    for to in 0..chips {
        let hops = hops_to(to, chips, ends);
        for (from, routes) in routes.iter_mut().enumerate() {
            let mut at = from;
            while at != to {
                let nearer =
                    |(_, end): &(usize, &(usize, usize))| end.0 == at && hops[end.1] < hops[at];
                let links = ends.iter().enumerate().filter(nearer);
                let (index, end) = links.min_by_key(|(_, end)| end.1).ok_or((from, to))?;
                routes[to].push(index);
                at = end.1;
            }
        }
    }
    Ok(routes)
}

/// Links from each chip to `to`; `usize::MAX` if there is no path.
fn hops_to(to: usize, chips: usize, ends: &[(usize, usize)]) -> Vec<usize> {
    let mut hops = vec![usize::MAX; chips];
    hops[to] = 0;
    let mut queue = std::collections::VecDeque::from([to]);
    while let Some(at) = queue.pop_front() {
        for &(from, _) in ends.iter().filter(|end| end.1 == at) {
            if hops[from] == usize::MAX {
                hops[from] = hops[at] + 1;
                queue.push_back(from);
            }
        }
    }
    hops
}

/// The ends and the links of a path that a description gives.
fn explicit_route(path: &[usize], links: &[Link]) -> Result<((usize, usize), Vec<usize>), Mistake> {
    let wrong = |reason: &str| Mistake::new("chips.route.path", format!("{path:?}"), reason);
    let (Some(&first), Some(&last), true) = (path.first(), path.last(), path.len() >= 2) else {
        return Err(wrong("needs two chips"));
    };
    let steps = path.windows(2).map(|step| {
        let found = links.iter().position(|link| (link.from, link.to) == (step[0], step[1]));
        found.ok_or_else(|| wrong(&format!("has no link from {} to {}", step[0], step[1])))
    });
    let way: Vec<usize> = steps.collect::<Result<_, _>>()?;
    let mut visited = path.to_vec();
    visited.sort_unstable();
    visited.dedup();
    match visited.len() == path.len() {
        true => Ok(((first, last), way)),
        false => Err(wrong("visits a chip twice")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MachineError;

    fn names(machine: &ChipMachine, from: usize, to: usize) -> Vec<String> {
        machine.route(from, to).iter().map(|&link| machine.links()[link].name()).collect()
    }

    #[test]
    fn x4600_is_the_twisted_ladder_of_the_paper() {
        let machine = ChipMachine::named("x4600").expect("shipped");
        assert_eq!((machine.chips(), machine.cores()), (8, 32));
        assert_eq!(machine.links().len(), 22);
        assert_eq!(machine.io_chips(), [0, 7]);
        assert!(machine.links().iter().all(|link| link.bandwidth == 4e9));
        for chip in 0..8 {
            let out = machine.links().iter().filter(|link| link.from == chip);
            let ports = out.count() + usize::from(machine.io_chips().contains(&chip));
            assert_eq!(ports, 3, "chip {chip} has three HyperTransport ports");
        }
        let pairs = || (0..8).flat_map(|a| (0..8).map(move |b| (a, b)));
        let longest = pairs().map(|(a, b)| machine.route(a, b).len()).max();
        assert_eq!(longest, Some(3), "up to three links, says section 5.1");
        // The root is on core 4, the first of the second socket.
        assert_eq!(machine.placement(32)[..5], [1, 1, 1, 1, 2]);
    }

    #[test]
    fn shipped_machines_parse_and_route_from_all_to_all() {
        for name in ChipMachine::names() {
            let machine = ChipMachine::named(name).unwrap_or_else(|error| panic!("{error}"));
            for from in 0..machine.chips() {
                for to in 0..machine.chips() {
                    let mut at = from;
                    for &link in machine.route(from, to) {
                        assert_eq!(machine.links()[link].from, at, "{name}");
                        at = machine.links()[link].to;
                    }
                    assert_eq!(at, to, "{name}: {from} to {to}");
                }
            }
        }
        let error = ChipMachine::named("x4500").expect_err("unknown").to_string();
        assert!(error.contains("x4600") && !error.contains("power5"), "{error}");
    }

    /// A ring of four chips with one line changed or added.
    fn ring(extra: &str, replaced: (&str, &str)) -> Result<ChipMachine, MachineError> {
        let link =
            |(a, b)| format!("[[chips.link]]\nbetween = [{a}, {b}]\ngb_s = 1\nlatency_ns = 100\n");
        let links = [(0, 1), (1, 2), (2, 3), (3, 0)].map(link).concat();
        let head = "description = \"ring\"\n[chips]\ncount = 4\ncores = 2\ncore_gb_s = 1\n\
            memory_gb_s = 10\nlocal_latency_ns = 100\nio = [0]\n";
        let text = format!("{head}{links}{extra}");
        ChipMachine::parse(&text.replacen(replaced.0, replaced.1, 1), "ring.toml")
    }

    #[test]
    fn routes_are_shortest_and_can_be_replaced() {
        let plain = ring("", ("", "")).expect("a ring");
        assert_eq!(names(&plain, 0, 2), ["0->1", "1->2"]);
        assert_eq!(names(&plain, 3, 0), ["3->0"]);
        assert!((plain.latency(0, 2) - 3e-7).abs() < 1e-15);
        let set = ring("[[chips.route]]\npath = [0, 3, 2]\n", ("", "")).expect("a ring");
        assert_eq!(names(&set, 0, 2), ["0->3", "3->2"]);
        assert_eq!(names(&set, 2, 0), ["2->1", "1->0"]);
    }

    #[test]
    fn refuses_descriptions_that_cannot_work() {
        let none = ("", "");
        let twice = "[[chips.link]]\nbetween = [1, 0]\ngb_s = 1\nlatency_ns = 100\n";
        let cases = [
            (twice, none, "chips.link.between = [1, 0]: has a link already"),
            ("", ("count = 4", "count = 5"), "chips.count = 5: no link leads from chip 4 to 0"),
            ("", ("count = 4", "count = 65"), "chips.count = 65: must be from 1 to 64"),
            ("", ("cores = 2\n", ""), "chips.cores = 0: must be from 1 to 4096"),
            ("", ("io = [0]", "io = [4]"), "chips.io = [4]: names a chip above 3"),
            ("", ("core_gb_s = 1", "core_gb_s = -1"), "chips.core_gb_s = -1: must be above 0"),
            ("", ("[0, 1]", "[0, 0]"), "chips.link.between = [0, 0]: must name two chips"),
            ("", ("[0, 1]", "[0, 7]"), "chips.link.between = [0, 7]: names a chip above 3"),
            ("[[chips.route]]\npath = [0, 2]\n", none, "chips.route.path = [0, 2]: has no link"),
            ("[[chips.route]]\npath = [0, 1, 0]\n", none, "visits a chip twice"),
            ("[[chips.route]]\npath = [0]\n", none, "needs two chips"),
            ("speed = 1\n", none, "unknown field `speed`"),
            ("", ("[chips]", "[cheeps]"), "unknown field `cheeps`"),
        ];
        for (extra, replaced, expected) in cases {
            let error = ring(extra, replaced).expect_err("cannot work").to_string();
            assert!(error.starts_with("ring.toml: ") && error.contains(expected), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }
}

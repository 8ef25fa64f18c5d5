//! Descriptions of machines: chips, their cores and memory, and the directed links between them,
//! with the route from each chip to each other. Read from TOML ([`ChipMachine::parse`]); some are
//! shipped ([`SHIPPED`]).
//!
//! Routing is shortest path, with ties resolved towards the lower chip number at the first hop
//! where paths part, and a `[[route]]` may replace the path of a pair: Opteron's routing tables are
//! set at start-up, and differ between boards (muecke-2010, section 4). A path from A to B and the
//! path from B to A may differ.
//!
//! Parallel links between two chips are one link with their common bandwidth: processors interleave
//! addresses over them. Bandwidths are in bytes per second, latencies in seconds, as in all of this
//! crate. The model and the library's account of its transfers use the routes.

use serde::Deserialize;

/// The machines that are shipped: name for the command line, and description.
pub const SHIPPED: &[(&str, &str)] = &[
    ("x4600", include_str!("../machines/x4600.toml")),
    ("upi-2", include_str!("../machines/upi-2.toml")),
    ("upi-4", include_str!("../machines/upi-4.toml")),
    ("xgmi-2", include_str!("../machines/xgmi-2.toml")),
    ("xgmi-4", include_str!("../machines/xgmi-4.toml")),
];

/// Chips; bounds the tables made for a description.
const CHIPS_MAX: usize = 64;

/// A machine whose routes are known.
#[derive(Debug, Clone, PartialEq)]
pub struct ChipMachine {
    description: Description,
    links: Vec<Link>,
    /// For each chip and each other chip: indices of the links on the way.
    routes: Vec<Vec<Vec<usize>>>,
}

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

/// What a description says.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    name: String,
    /// Where the numbers come from.
    source: String,
    sockets: usize,
    cores_per_socket: usize,
    /// Bytes per second that one core copies at most.
    core_bandwidth: f64,
    /// Bytes per second of a socket's memory.
    memory_bandwidth: f64,
    /// Seconds for a cache line within a socket.
    local_latency: f64,
    /// The core of rank 0; later ranks follow, and wrap around.
    #[serde(default)]
    first_core: usize,
    /// The sockets with I/O.
    io: Vec<usize>,
    link: Vec<LinkPair>,
    #[serde(default)]
    route: Vec<ExplicitRoute>,
}

/// A link in both directions.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkPair {
    between: [usize; 2],
    /// Each direction.
    bandwidth: f64,
    latency: f64,
    /// Parallel links, each with this bandwidth.
    #[serde(default = "one")]
    count: u32,
}

fn one() -> u32 {
    1
}

/// The chips on the way between two chips, both included.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExplicitRoute {
    path: Vec<usize>,
}

/// A description cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DescriptionError {
    /// It is not TOML of this form.
    #[error("cannot read the machine description: {0}")]
    Syntax(#[from] toml::de::Error),
    /// A number is out of range.
    #[error("{what} is {value}; expected {expected}")]
    Range {
        /// Its name.
        what: String,
        /// Its value.
        value: String,
        /// What would fit.
        expected: String,
    },
    /// Two links connect the same sockets.
    #[error("sockets {0} and {1} have two links: merge them into one with a count")]
    DuplicateLink(usize, usize),
    /// No path leads from one socket to another.
    #[error("no link leads from socket {0} to socket {1}, directly or through others")]
    Unreachable(usize, usize),
    /// A route uses a link that does not exist, or is given twice.
    #[error("the route {path:?} {problem}")]
    Route {
        /// The path as it was given.
        path: Vec<usize>,
        /// What is wrong with it.
        problem: String,
    },
    /// No machine of this name is shipped.
    #[error("no machine is named {name:?}; shipped are {}", known.join(", "))]
    Unknown {
        /// The name that was asked for.
        name: String,
        /// The names that exist.
        known: Vec<&'static str>,
    },
}

impl ChipMachine {
    /// The shipped machine of this name.
    ///
    /// # Errors
    /// If there is none.
    pub fn shipped(name: &str) -> Result<ChipMachine, DescriptionError> {
        match SHIPPED.iter().find(|(known, _)| *known == name) {
            Some((_, text)) => ChipMachine::parse(text),
            None => Err(DescriptionError::Unknown {
                name: name.to_owned(),
                known: SHIPPED.iter().map(|(name, _)| *name).collect(),
            }),
        }
    }

    /// The machine that this TOML describes.
    ///
    /// # Errors
    /// If it is malformed, out of range, has a pair of sockets twice, or is not connected.
    pub fn parse(text: &str) -> Result<ChipMachine, DescriptionError> {
        let description: Description = toml::from_str(text)?;
        description.check()?;
        let links = description.links()?;
        let routes = routes(&description, &links)?;
        Ok(ChipMachine { description, links, routes })
    }

    /// Its name, for people.
    pub fn name(&self) -> &str {
        &self.description.name
    }

    /// Where its numbers come from.
    pub fn source(&self) -> &str {
        &self.description.source
    }

    /// Number of chips.
    pub fn chips(&self) -> usize {
        self.description.sockets
    }

    /// Number of cores.
    pub fn cores(&self) -> usize {
        self.description.sockets * self.description.cores_per_socket
    }

    /// Bytes per second that one core copies at most.
    pub fn core_bandwidth(&self) -> f64 {
        self.description.core_bandwidth
    }

    /// Bytes per second of one chip's memory.
    pub fn memory_bandwidth(&self) -> f64 {
        self.description.memory_bandwidth
    }

    /// The chips to which I/O is attached.
    pub fn io_chips(&self) -> &[usize] {
        &self.description.io
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
        machine.description.link[pair].bandwidth /= factor;
        machine
    }

    /// The links on the way from a chip to another, in order; none within a chip.
    pub fn route(&self, from: usize, to: usize) -> &[usize] {
        &self.routes[from][to]
    }

    /// Seconds for a cache line from a chip to another on an idle machine.
    pub fn latency(&self, from: usize, to: usize) -> f64 {
        let on_the_way = self.route(from, to).iter();
        let links: f64 = on_the_way.map(|&link| self.links[link].latency).sum();
        self.description.local_latency + links
    }

    /// The chip of each of `ranks` ranks: one after another from the first core on, spread evenly
    /// over the machine if there are fewer ranks than cores; cores hold several if there are more.
    pub fn placement(&self, ranks: usize) -> Vec<usize> {
        let (cores, first) = (self.cores(), self.description.first_core);
        let core = |rank: usize| (first + rank * cores / ranks) % cores;
        (0..ranks).map(|rank| core(rank) / self.description.cores_per_socket).collect()
    }
}

impl Link {
    /// Its name: `3->5`.
    pub fn name(&self) -> String {
        format!("{}->{}", self.from, self.to)
    }
}

impl Description {
    fn check(&self) -> Result<(), DescriptionError> {
        let range = |what: &str, value: String, expected: &str| {
            Err(DescriptionError::Range {
                what: what.to_owned(),
                value,
                expected: expected.to_owned(),
            })
        };
        let count = |what: &str, value: usize, most: usize| match (1..=most).contains(&value) {
            true => Ok(()),
            false => range(what, value.to_string(), &format!("1 to {most}")),
        };
        let positive = |what: &str, value: f64| match value > 0.0 && value.is_finite() {
            true => Ok(()),
            false => range(what, value.to_string(), "a positive number"),
        };
        count("sockets", self.sockets, CHIPS_MAX)?;
        count("cores_per_socket", self.cores_per_socket, 4096)?;
        positive("core_bandwidth", self.core_bandwidth)?;
        positive("memory_bandwidth", self.memory_bandwidth)?;
        positive("local_latency", self.local_latency)?;
        let below = format!("a socket from 0 to {}", self.sockets - 1);
        let links = self.link.iter().flat_map(|link| link.between);
        let routes = self.route.iter().flat_map(|route| route.path.clone());
        let mut sockets = links.chain(routes).chain(self.io.iter().copied());
        if let Some(socket) = sockets.find(|&socket| socket >= self.sockets) {
            return range("a socket", socket.to_string(), &below);
        }
        for link in &self.link {
            let [a, b] = link.between;
            if a == b {
                return range("a link's end", format!("{a}, twice"), "two sockets");
            }
            positive(&format!("the bandwidth of link {a}-{b}"), link.bandwidth)?;
            positive(&format!("the latency of link {a}-{b}"), link.latency)?;
            count(&format!("the count of link {a}-{b}"), link.count as usize, 64)?;
        }
        Ok(())
    }

    /// Both directions of each link, in the order of the description.
    fn links(&self) -> Result<Vec<Link>, DescriptionError> {
        let mut links: Vec<Link> = Vec::new();
        for pair in &self.link {
            let [a, b] = pair.between;
            if links.iter().any(|link| (link.from, link.to) == (a, b)) {
                return Err(DescriptionError::DuplicateLink(a, b));
            }
            links.extend([(a, b), (b, a)].map(|(from, to)| Link {
                from,
                to,
                bandwidth: pair.bandwidth * f64::from(pair.count),
                latency: pair.latency,
            }));
        }
        Ok(links)
    }
}

/// The links on the way between all pairs.
fn routes(
    description: &Description,
    links: &[Link],
) -> Result<Vec<Vec<Vec<usize>>>, DescriptionError> {
    let chips = description.sockets;
    let mut routes = vec![vec![Vec::new(); chips]; chips];
    for (from, routes) in routes.iter_mut().enumerate() {
        for (to, route) in routes.iter_mut().enumerate() {
            let hops = hops_to(to, chips, links);
            if hops[from] == usize::MAX {
                return Err(DescriptionError::Unreachable(from, to));
            }
            let mut at = from;
            while at != to {
                let nearer =
                    |(_, link): &(usize, &Link)| link.from == at && hops[link.to] + 1 == hops[at];
                let candidates = links.iter().enumerate().filter(nearer);
                let (index, link) = candidates
                    .min_by_key(|(_, link)| link.to)
                    .expect("a chip at a distance has a neighbour that is nearer");
                route.push(index);
                at = link.to;
            }
        }
    }
    for explicit in &description.route {
        let (ends, way) = explicit_route(&explicit.path, links)?;
        routes[ends.0][ends.1] = way;
    }
    Ok(routes)
}

/// Links from each chip to `to`; `usize::MAX` if there is no path.
fn hops_to(to: usize, chips: usize, links: &[Link]) -> Vec<usize> {
    let mut hops = vec![usize::MAX; chips];
    hops[to] = 0;
    let mut queue = std::collections::VecDeque::from([to]);
    while let Some(at) = queue.pop_front() {
        for link in links.iter().filter(|link| link.to == at) {
            if hops[link.from] == usize::MAX {
                hops[link.from] = hops[at] + 1;
                queue.push_back(link.from);
            }
        }
    }
    hops
}

/// The ends and the links of a path that a description gives.
fn explicit_route(
    path: &[usize],
    links: &[Link],
) -> Result<((usize, usize), Vec<usize>), DescriptionError> {
    let wrong = |problem: String| DescriptionError::Route { path: path.to_vec(), problem };
    let (Some(&first), Some(&last), true) = (path.first(), path.last(), path.len() >= 2) else {
        return Err(wrong("needs two sockets".to_owned()));
    };
    let steps = path.windows(2).map(|step| {
        let on = |link: &Link| (link.from, link.to) == (step[0], step[1]);
        let found = links.iter().position(on);
        found.ok_or_else(|| wrong(format!("has no link from {} to {}", step[0], step[1])))
    });
    let way: Vec<usize> = steps.collect::<Result<_, _>>()?;
    let mut visited = path.to_vec();
    visited.sort_unstable();
    visited.dedup();
    match visited.len() == path.len() {
        true => Ok(((first, last), way)),
        false => Err(wrong("visits a socket twice".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(machine: &ChipMachine, from: usize, to: usize) -> Vec<String> {
        let route = machine.route(from, to).iter();
        route.map(|&link| machine.links()[link].name()).collect()
    }

    #[test]
    fn x4600_is_the_twisted_ladder_of_the_paper() {
        let machine = ChipMachine::shipped("x4600").expect("shipped");
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
        for (name, text) in SHIPPED {
            let machine =
                ChipMachine::parse(text).unwrap_or_else(|error| panic!("{name}: {error}"));
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
        let error = ChipMachine::shipped("x4500").expect_err("unknown");
        assert!(error.to_string().contains("x4600"), "{error}");
    }

    /// A ring of four sockets with one line changed or added.
    fn ring(extra: &str, replaced: (&str, &str)) -> Result<ChipMachine, DescriptionError> {
        let links: String = [(0, 1), (1, 2), (2, 3), (3, 0)]
            .map(|(a, b)| {
                format!("[[link]]\nbetween = [{a}, {b}]\nbandwidth = 1e9\nlatency = 1e-7\n")
            })
            .concat();
        let head = "name = \"ring\"\nsource = \"test\"\nsockets = 4\ncores_per_socket = 2\n\
            core_bandwidth = 1e9\nmemory_bandwidth = 1e10\nlocal_latency = 1e-7\nio = [0]\n";
        let text = format!("{head}{links}{extra}");
        ChipMachine::parse(&text.replacen(replaced.0, replaced.1, 1))
    }

    #[test]
    fn routes_are_shortest_and_can_be_replaced() {
        let plain = ring("", ("", "")).expect("a ring");
        assert_eq!(names(&plain, 0, 2), ["0->1", "1->2"]);
        assert_eq!(names(&plain, 3, 0), ["3->0"]);
        assert!((plain.latency(0, 2) - 3e-7).abs() < 1e-15);
        let set = ring("[[route]]\npath = [0, 3, 2]\n", ("", "")).expect("a ring");
        assert_eq!(names(&set, 0, 2), ["0->3", "3->2"]);
        assert_eq!(names(&set, 2, 0), ["2->1", "1->0"]);
    }

    #[test]
    fn refuses_descriptions_that_cannot_work() {
        let error = |extra: &str, replaced| ring(extra, replaced).expect_err("bad").to_string();
        let none = ("", "");
        let link = "[[link]]\nbetween = [1, 0]\nbandwidth = 1e9\nlatency = 1e-7\n";
        assert!(error(link, none).contains("sockets 1 and 0 have two links"));
        assert!(error("", ("sockets = 4", "sockets = 5")).contains("no link leads from socket"));
        assert!(error("", ("io = [0]", "io = [4]")).contains("a socket is 4"));
        assert!(
            error("", ("bandwidth = 1e9", "bandwidth = -1.0")).contains("core_bandwidth is -1")
        );
        assert!(error("", ("[0, 1]", "[0, 0]")).contains("0, twice"));
        assert!(error("[[route]]\npath = [0, 2]\n", none).contains("no link from 0 to 2"));
        assert!(error("[[route]]\npath = [0, 1, 0]\n", none).contains("twice"));
        assert!(error("speed = 1\n", none).contains("unknown field"));
    }
}

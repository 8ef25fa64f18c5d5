//! The hosts of a job, and the ranks that each of them gets.
//!
//! Hosts come from the command line (`a,b:4`), from a file, from a Slurm allocation, or are virtual
//! nodes. Everything here is pure, except for reading the file.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use mica_node::ranges::ranges;

/// A host that ranks can be started on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// The name, as the remote shell understands it.
    pub name: String,
    /// How many ranks it shall get before the next host gets some; `None` if not given.
    pub slots: Option<usize>,
}

/// A list of hosts cannot be understood.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The file of hosts cannot be read.
    #[error("cannot read the hosts in {}: {source}", path.display())]
    File { path: PathBuf, source: std::io::Error },
    /// A line of the file is malformed.
    #[error(
        "{}, line {line}: {text:?} is not a host (name, name:slots or name slots=N)",
        path.display()
    )]
    Line { path: PathBuf, line: usize, text: String },
    /// There is no host.
    #[error("no hosts in {0}")]
    Empty(String),
    /// A variable of Slurm is malformed.
    #[error("{variable}={value:?}: {what}")]
    Slurm { variable: &'static str, value: String, what: &'static str },
}

/// Parses `NAME` or `NAME:SLOTS`. An IPv6 address stands in brackets: `[fe80::1]:4`.
pub fn parse_host(text: &str) -> Option<Host> {
    let (name, rest) = match text.strip_prefix('[') {
        Some(inner) => inner.split_once(']')?,
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let slots = match rest.strip_prefix(':') {
        Some(number) => Some(parse_slots(number)?),
        None if rest.is_empty() => None,
        None => return None,
    };
    is_name(name).then(|| Host { name: name.to_owned(), slots })
}

/// Maximum slots on one host; more are a mistake. Sums of slots cannot overflow.
const SLOTS_MAX: usize = 1 << 20;

fn parse_slots(number: &str) -> Option<usize> {
    let slots = number.parse().ok()?;
    (1..=SLOTS_MAX).contains(&slots).then_some(slots)
}

/// Whether this can name a host. The remote shell would take a name that begins with a dash for an
/// option.
fn is_name(name: &str) -> bool {
    let allowed = |c: char| c.is_alphanumeric() || "-._@:%+".contains(c);
    !name.is_empty() && !name.starts_with('-') && name.chars().all(allowed)
}

/// Parses `a,b:4,c`. The error is the host that is malformed.
pub fn parse_list(text: &str) -> Result<Vec<Host>, String> {
    text.split(',').map(|host| parse_host(host.trim()).ok_or_else(|| host.to_owned())).collect()
}

/// Reads a file of hosts: one per line as `name`, `name:slots` or `name slots=N` (further words
/// such as `max_slots=N` are ignored); `#` begins a comment.
pub fn read_file(path: &Path) -> Result<Vec<Host>, HostError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| HostError::File { path: path.to_owned(), source })?;
    let hosts = parse_file(&text).map_err(|(line, text)| HostError::Line {
        path: path.to_owned(),
        line,
        text,
    })?;
    if hosts.is_empty() { Err(HostError::Empty(path.display().to_string())) } else { Ok(hosts) }
}

/// The hosts in a file's text, or the line that is malformed.
fn parse_file(text: &str) -> Result<Vec<Host>, (usize, String)> {
    let mut hosts = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
        let Some(first) = words.next() else { continue };
        let bad = || (number, line.to_owned());
        let mut host = parse_host(first).ok_or_else(bad)?;
        for word in words {
            let (name, value) = word.split_once('=').ok_or_else(bad)?;
            if name == "slots" {
                host.slots = Some(parse_slots(value).ok_or_else(bad)?);
            }
        }
        hosts.push(host);
    }
    Ok(hosts)
}

/// Each host once, in the order of first mention. Naming a host again adds its slots; a mention
/// without a number counts as one.
pub fn merge(hosts: Vec<Host>) -> Vec<Host> {
    let mut merged: Vec<Host> = Vec::new();
    let mut index_of: HashMap<String, usize> = HashMap::new();
    for host in hosts {
        match index_of.get(&host.name) {
            Some(&index) => {
                let slots = &mut merged[index].slots;
                *slots = Some(slots.unwrap_or(1) + host.slots.unwrap_or(1));
            }
            None => {
                index_of.insert(host.name.clone(), merged.len());
                merged.push(host);
            }
        }
    }
    merged
}

/// The number of ranks of a job without `-n`: the slots of its hosts, where a host without a number
/// counts as one.
pub fn default_ranks(hosts: &[Host], per_host: Option<usize>) -> usize {
    hosts.iter().map(|host| per_host.or(host.slots).unwrap_or(1)).sum()
}

/// The ranks of each host, in ascending order. With `per_host`, blocks of that many in the hosts'
/// order; without, blocks of the hosts' slots, where a host without a number takes an equal share.
/// When all hosts are full it starts again with the first: a job is never refused for lack of
/// slots. A host may get none.
pub fn assign(hosts: &[Host], ranks: usize, per_host: Option<usize>) -> Vec<Vec<u32>> {
    let share = ranks.div_ceil(hosts.len().max(1));
    let mut members = vec![Vec::new(); hosts.len()];
    let turns = hosts.iter().enumerate().cycle();
    let blocks = turns.flat_map(|(index, host)| {
        let block = per_host.or(host.slots).unwrap_or(share);
        std::iter::repeat_n(index, block.max(1))
    });
    for (rank, host) in (0..ranks as u32).zip(blocks) {
        members[host].push(rank);
    }
    members
}

/// `count` virtual nodes: hosts with made-up names, and their ranks. With `per_host`, ranks go to
/// them as to any hosts ([`assign`]); without, in even blocks (rank r on node r * count / ranks),
/// so that no node is empty if there are enough ranks.
pub fn virtual_nodes(
    count: usize,
    ranks: usize,
    per_host: Option<usize>,
) -> (Vec<Host>, Vec<Vec<u32>>) {
    let count = count.clamp(1, ranks.max(1));
    let host = |index| Host { name: format!("node{index}"), slots: None };
    let hosts: Vec<Host> = (0..count).map(host).collect();
    if per_host.is_some() {
        let members = assign(&hosts, ranks, per_host);
        return (hosts, members);
    }
    let mut members = vec![Vec::new(); count];
    for rank in 0..ranks {
        members[rank * count / ranks].push(rank as u32);
    }
    (hosts, members)
}

/// The hosts of a Slurm allocation, from the values of `SLURM_JOB_NODELIST` and
/// `SLURM_TASKS_PER_NODE`.
pub fn of_slurm(nodes: &str, tasks: Option<&str>) -> Result<Vec<Host>, HostError> {
    let names = expand(nodes).ok_or_else(|| HostError::Slurm {
        variable: "SLURM_JOB_NODELIST",
        value: nodes.to_owned(),
        what: "not a list of hosts",
    })?;
    let slots = match tasks {
        Some(text) => {
            let slots = repeated(text).filter(|slots| slots.len() == names.len());
            let slots = slots.ok_or_else(|| HostError::Slurm {
                variable: "SLURM_TASKS_PER_NODE",
                value: text.to_owned(),
                what: "not one number for each host of SLURM_JOB_NODELIST",
            })?;
            slots.into_iter().map(Some).collect()
        }
        None => vec![None; names.len()],
    };
    Ok(names.into_iter().zip(slots).map(|(name, slots)| Host { name, slots }).collect())
}

/// Maximum hosts in one expression; more are a mistake (`n[0-99999999999]`).
const HOSTS_MAX: usize = 1 << 20;

/// Expands Slurm's bracket syntax: `n[01-03,7],login,r[1-2]n[1-2]-ib`. `None` if it is malformed.
fn expand(list: &str) -> Option<Vec<String>> {
    let mut names = Vec::new();
    for item in split_outside_brackets(list)? {
        names.extend(expand_item(item)?);
        if names.len() > HOSTS_MAX {
            return None;
        }
    }
    (!names.is_empty()).then_some(names)
}

/// The parts between the commas outside brackets.
fn split_outside_brackets(list: &str) -> Option<Vec<&str>> {
    let (mut parts, mut start, mut inside) = (Vec::new(), 0, false);
    for (at, c) in list.char_indices() {
        match c {
            '[' if inside => return None,
            '[' => inside = true,
            ']' if !inside => return None,
            ']' => inside = false,
            ',' if !inside => {
                parts.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[start..]);
    (!inside).then_some(parts)
}

/// Expands one item with any number of brackets; the last bracket varies fastest.
fn expand_item(item: &str) -> Option<Vec<String>> {
    let mut names = vec![String::new()];
    let mut rest = item;
    while let Some((fixed, after)) = rest.split_once('[') {
        let (ranges, tail) = after.split_once(']')?;
        let endings = expand_ranges(ranges)?;
        if names.len().checked_mul(endings.len())? > HOSTS_MAX {
            return None;
        }
        let longer = names
            .iter()
            .flat_map(|name| endings.iter().map(move |end| format!("{name}{fixed}{end}")));
        names = longer.collect();
        rest = tail;
    }
    names.iter_mut().for_each(|name| name.push_str(rest));
    names.iter().all(|name| is_name(name)).then_some(names)
}

/// Expands `01-03,7` to 01 02 03 7. The width of a range's first number is kept.
fn expand_ranges(ranges: &str) -> Option<Vec<String>> {
    let mut endings = Vec::new();
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if !digits(first) || !digits(last) {
            return None;
        }
        let (from, to): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
        let room = HOSTS_MAX.saturating_sub(endings.len()) as u64;
        if from > to || to - from >= room {
            return None;
        }
        let width = first.len();
        endings.extend((from..=to).map(|number| format!("{number:0width$}")));
    }
    Some(endings)
}

/// Expands `2(x3),1` to 2 2 2 1.
fn repeated(text: &str) -> Option<Vec<usize>> {
    let mut numbers = Vec::new();
    for part in text.split(',') {
        let (number, times) = match part.split_once("(x") {
            Some((number, times)) => (number, times.strip_suffix(')')?.parse().ok()?),
            None => (part, 1),
        };
        let number = parse_slots(number)?;
        if times > HOSTS_MAX.saturating_sub(numbers.len()) {
            return None;
        }
        numbers.extend(std::iter::repeat_n(number, times));
    }
    Some(numbers)
}

/// A list of ranks for people: `ranks 0-3,8`.
pub fn ranks_text(members: &[u32]) -> String {
    let word = if members.len() == 1 { "rank" } else { "ranks" };
    format!("{word} {}", ranges(members.iter().copied()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn host(name: &str, slots: Option<usize>) -> Host {
        let name = name.to_owned();
        Host { name, slots }
    }

    #[test]
    fn lists() {
        let hosts = parse_list("a,b:4, c.d-e").unwrap();
        assert_eq!(hosts, [host("a", None), host("b", Some(4)), host("c.d-e", None)]);
        assert_eq!(parse_host("[fe80::1]:2"), Some(host("fe80::1", Some(2))));
        assert_eq!(parse_host("user@h"), Some(host("user@h", None)));
        let bad = "a,,b|a:0|a:x|a:1048577|a:18446744073709551615|\
                   -oProxyCommand=x|a b|a;b|[1|[1]x|$(x)";
        for bad in bad.split('|') {
            assert!(parse_list(bad).is_err(), "{bad}");
        }
        assert_eq!(parse_list("a,b:q").unwrap_err(), "b:q");
    }

    #[test]
    fn files() {
        let text = "# all\na\n  b:2 # two\n\nc slots=3 max_slots=9\n";
        let wanted = [host("a", None), host("b", Some(2)), host("c", Some(3))];
        assert_eq!(parse_file(text).unwrap(), wanted);
        assert_eq!(parse_file("a\nb two").unwrap_err(), (2, "b two".to_owned()));
        assert_eq!(parse_file("a slots=0").unwrap_err().0, 1);
        assert_eq!(parse_file("a slots=1048577").unwrap_err().0, 1);
        assert!(read_file(Path::new("/no/such")).unwrap_err().to_string().contains("/no/such"));
    }

    #[test]
    fn hosts_named_twice() {
        let merged = merge(parse_list("a,b:2,a,b:3,a:2").unwrap());
        assert_eq!(merged, [host("a", Some(4)), host("b", Some(5))]);
    }

    #[test]
    fn blocks_by_slots() {
        let hosts = parse_list("a:1,b:2").unwrap();
        assert_eq!(assign(&hosts, 3, None), [vec![0], vec![1, 2]]);
        assert_eq!(assign(&hosts, 5, None), [vec![0, 3], vec![1, 2, 4]]);
        assert_eq!(assign(&hosts, 1, None), [vec![0], vec![]]);
        let hosts = parse_list("a,b").unwrap();
        assert_eq!(assign(&hosts, 5, None), [vec![0, 1, 2], vec![3, 4]]);
        assert_eq!(assign(&hosts, 4, Some(1)), [vec![0, 2], vec![1, 3]]);
        assert_eq!(default_ranks(&hosts, Some(3)), 6);
        assert_eq!(default_ranks(&parse_list("a:3,b").unwrap(), None), 4);
    }

    #[test]
    fn virtual_nodes_in_blocks() {
        let (hosts, members) = virtual_nodes(2, 5, None);
        assert_eq!(hosts[1].name, "node1");
        assert_eq!(members, [vec![0, 1, 2], vec![3, 4]]);
        assert_eq!(virtual_nodes(9, 2, None).0.len(), 2);
    }

    #[test]
    fn slurm_lists() {
        let names = |list| expand(list).map(|names| names.join(" "));
        let ok = |list, wanted: &str| assert_eq!(names(list).as_deref(), Some(wanted), "{list}");
        ok("a", "a");
        ok("n[1-3]", "n1 n2 n3");
        ok("n[08-10,3]", "n08 n09 n10 n3");
        ok("login,r[1-2]n[1,3]-ib,x", "login r1n1-ib r1n3-ib r2n1-ib r2n3-ib x");
        let bad = "|a,|n[1|n]1|n[3-1]|n[a-b]|n[]|n[[1]]|n[0-9999999999]|n[1-2|n[-1]|\
                   n[0-9999]m[0-9999]|n[0-1048575,0-1048575]|n[99999999999999999999]";
        for bad in bad.split('|') {
            assert_eq!(names(bad), None, "{bad}");
        }
        let hosts = of_slurm("n[1-3]", Some("2(x2),1")).unwrap();
        assert_eq!(hosts, [host("n1", Some(2)), host("n2", Some(2)), host("n3", Some(1))]);
        for bad in ["2", "2(x4)", "x", "2(x", "0(x3)"] {
            let error = of_slurm("n[1-3]", Some(bad)).unwrap_err().to_string();
            assert!(error.contains("SLURM_TASKS_PER_NODE"), "{error}");
        }
    }

    #[test]
    fn ranks_in_words() {
        assert_eq!(ranks_text(&[3]), "rank 3");
        assert_eq!(ranks_text(&[0, 1, 2, 5, 7, 8]), "ranks 0-2,5,7-8");
    }

    proptest! {
        #[test]
        fn every_rank_has_one_host(
            slots in proptest::collection::vec(proptest::option::of(1usize..5), 1..6),
            ranks in 1usize..40,
            per_host in proptest::option::of(1usize..5),
        ) {
            let hosts: Vec<Host> =
                slots.iter().enumerate().map(|(i, &s)| host(&format!("h{i}"), s)).collect();
            let members = assign(&hosts, ranks, per_host);
            let mut all: Vec<u32> = members.concat();
            all.sort_unstable();
            prop_assert_eq!(all, (0..ranks as u32).collect::<Vec<_>>());
            prop_assert!(members.iter().all(|ranks| ranks.is_sorted()));
        }

        #[test]
        fn no_list_makes_it_panic(list in "[n0-9,\\[\\]x()-]{0,30}") {
            let _ = (expand(&list), repeated(&list), parse_list(&list), parse_file(&list));
        }
    }
}

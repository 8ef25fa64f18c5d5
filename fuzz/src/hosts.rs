//! Host lists: from the command line, from files and from Slurm.

use mica_launch::hosts::{assign, default_ranks, merge, of_slurm, parse_list};

/// A host list, followed by a line end and Slurm's counts of tasks.
pub fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (nodes, tasks) = match text.split_once('\n') {
        Some((nodes, tasks)) => (nodes, Some(tasks)),
        None => (&*text, None),
    };
    // Expressions that stand for very many hosts are valid but slow, and test nothing new.
    let large = nodes.split(|c: char| !c.is_ascii_digit()).any(|n| n.len() > 2)
        || nodes.matches('[').count() > 2;
    let slurm = if large { None } else { of_slurm(nodes, tasks).ok() };
    for hosts in [parse_list(nodes).ok(), slurm].into_iter().flatten() {
        let hosts = merge(hosts);
        // The user chooses the number of slots: no job has as many ranks as it allows.
        let ranks = default_ranks(&hosts, None).min(1000);
        let members = assign(&hosts, ranks, None);
        let mut all: Vec<u32> = members.concat();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..ranks as u32), "{hosts:?}");
    }
}

//! Compact text for sets of ranks, for messages to people: `0-3,8,10-14`.

/// Maximum of ranges that are listed; the ranks beyond are only counted.
const NAMED: usize = 16;

/// The ranks in rising order, consecutive ones as a range.
pub fn ranges(ranks: impl IntoIterator<Item = u32>) -> String {
    let mut ranks: Vec<u32> = ranks.into_iter().collect();
    ranks.sort_unstable();
    ranks.dedup();
    let mut stretches: Vec<(u32, u32)> = Vec::new();
    for rank in ranks {
        match stretches.last_mut() {
            Some((_, last)) if *last + 1 == rank => *last = rank,
            _ => stretches.push((rank, rank)),
        }
    }
    let text = |&(first, last): &(u32, u32)| match last - first {
        0 => first.to_string(),
        _ => format!("{first}-{last}"),
    };
    let named: Vec<String> = stretches.iter().take(NAMED).map(text).collect();
    let rest = stretches.get(NAMED..).unwrap_or_default();
    let left_out: u64 = rest.iter().map(|(a, b)| u64::from(b - a) + 1).sum();
    match left_out {
        0 => named.join(","),
        n => format!("{} and {n} more", named.join(",")),
    }
}

#[cfg(test)]
mod tests {
    use super::ranges;

    #[test]
    fn consecutive_ranks_are_one_stretch() {
        assert_eq!(ranges([]), "");
        assert_eq!(ranges([7]), "7");
        assert_eq!(ranges(0..16), "0-15");
        assert_eq!(ranges([9, 3, 1, 2, 9, 0, 11, 12]), "0-3,9,11-12");
    }

    #[test]
    fn of_scattered_ranks_the_first_are_named() {
        let even = (0..1000).map(|n| 2 * n);
        assert_eq!(ranges(even), "0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30 and 984 more");
    }
}

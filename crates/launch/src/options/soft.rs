//! `-soft`: the numbers of ranks that a program can run with (MPI 5.0, 11.8.4): a list of triplets
//! as in Fortran 90, `a`, `a:b` or `a:b:c`, each for a, a + c, and so on up to b.

/// The numbers of one triplet: first, last, step.
type Triplet = (i64, i64, i64);

/// Reads a list of triplets; `None` if it is none.
fn parse(text: &str) -> Option<Vec<Triplet>> {
    let number = |text: &str| text.trim().parse::<i64>().ok().filter(|n| n.abs() <= 1 << 40);
    let triplet = |text: &str| {
        let numbers: Vec<i64> = text.split(':').map(number).collect::<Option<_>>()?;
        match numbers[..] {
            [only] => Some((only, only, 1)),
            [first, last] => Some((first, last, 1)),
            [first, last, step] if step != 0 => Some((first, last, step)),
            _ => None,
        }
    };
    text.split(',').map(triplet).collect()
}

/// Whether the text is a list of triplets.
pub(super) fn is_valid(text: &str) -> bool {
    parse(text).is_some()
}

/// The largest number of ranks in the set that is not above `limit`. Others do not count.
pub(super) fn largest(text: &str, limit: usize) -> Option<usize> {
    let limit = i64::try_from(limit).ok()?;
    let of_one = |(first, last, step): Triplet| {
        let found = match step > 0 {
            true => {
                let last = last.min(limit);
                (first <= last).then(|| first + (last - first) / step * step)
            }
            false => {
                let down = -step;
                let steps = ((first - limit).max(0) + down - 1) / down;
                Some(first - steps * down).filter(|&found| found >= last)
            }
        };
        found.filter(|&found| found > 0)
    };
    usize::try_from(parse(text)?.into_iter().filter_map(of_one).max()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_number_that_is_allowed_is_taken() {
        for (text, limit, wanted) in [
            ("4", 4, Some(4)),
            ("4", 9, Some(4)),
            ("4", 3, None),
            ("2:8", 5, Some(5)),
            ("1:9:3", 6, Some(4)),
            ("2:8,16", 20, Some(16)),
            ("8:2:-3", 7, Some(5)),
            ("8:6:-3", 7, None),
            ("-4:-1", 3, None),
            ("-4:6:2", 3, Some(2)),
            ("0", 3, None),
            ("3:1", 5, None),
            ("1:1099511627776", 65536, Some(65536)),
        ] {
            assert_eq!(largest(text, limit), wanted, "{text} up to {limit}");
        }
        for bad in ["", "x", "1:2:0", "1:2:3:4", "1,", "1:", "99999999999999999999"] {
            assert!(!is_valid(bad), "{bad}");
        }
    }
}

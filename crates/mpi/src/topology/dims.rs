//! `MPI_Dims_create` (MPI 5.0, 8.5.2): lengths of a grid that are as close to each other as
//! possible.
//!
//! "As close as possible" is taken literally, as Träff and Lübbe demand ("Specification Guideline
//! Violations by MPI_Dims_create", EuroMPI 2015): of all ways to write the number as a product, the
//! one with the least difference between the longest and the shortest length; of several, the one
//! with the shortest longest lengths.

use super::cart::list;
use crate::constants as c;
use crate::error::{Error, Result};

/// Fills in the lengths that are 0 so that the product is `nodes`. Lengths that are given stay.
///
/// # Errors
/// `MPI_ERR_ARG` unless `nodes` is positive, `MPI_ERR_DIMS` if no such lengths exist.
pub fn create(nodes: i32, dims: &mut [i32]) -> Result<()> {
    if nodes < 1 {
        let reason = "a grid has at least one node";
        return Err(Error::argument(c::ERR_ARG, "nnodes", nodes, reason));
    }
    let refuse = |dims: &[i32], reason| Error::argument(c::ERR_DIMS, "dims", list(dims), reason);
    if dims.iter().any(|&dim| dim < 0) {
        let reason = "the length of a dimension is not negative; 0 asks for one";
        return Err(refuse(dims, reason.to_owned()));
    }
    let given = dims.iter().filter(|&&dim| dim > 0);
    let given = given.fold(1_i64, |product, &dim| product.saturating_mul(dim.into()));
    let nodes = i64::from(nodes);
    if nodes % given != 0 {
        let reason =
            format!("{nodes} nodes are no multiple of the given lengths' product, {given}");
        return Err(refuse(dims, reason));
    }
    let open = dims.iter().filter(|&&dim| dim == 0).count();
    if open == 0 && nodes != given && !dims.is_empty() {
        let reason = format!("the product is {given}, not {nodes}, and no length is left open");
        return Err(refuse(dims, reason));
    }
    let lengths = balanced((nodes / given) as u64, open);
    let holes = dims.iter_mut().filter(|dim| **dim == 0);
    for (dim, length) in holes.zip(lengths) {
        *dim = length as i32; // a factor of an i32
    }
    Ok(())
}

/// `number` as a product of `count` factors, in decreasing order.
fn balanced(number: u64, count: usize) -> Vec<u64> {
    let mut search = FactorSearch {
        divisors: divisors(number),
        primes: prime_factors(number),
        best: Vec::new(),
        spread: u64::MAX,
    };
    if count > 0 {
        search.extend(&mut Vec::with_capacity(count), number, count);
    }
    search.best
}

/// A search through the ways to write a number as a product, longest factor first, that skips those
/// that cannot be better than the best found.
struct FactorSearch {
    /// Of the number, in rising order.
    divisors: Vec<u64>,
    /// With repetitions, in rising order.
    primes: Vec<u64>,
    best: Vec<u64>,
    /// Difference of the best's first and last factor.
    spread: u64,
}

impl FactorSearch {
    /// Tries all factors that may come next; the last `left` factors must have the product `rest`.
    fn extend(&mut self, chosen: &mut Vec<u64>, rest: u64, left: usize) {
        let cap = chosen.last().copied().unwrap_or(rest);
        if left == 1 {
            let spread = chosen.first().map_or(0, |first| first - rest);
            if rest <= cap && spread < self.spread {
                self.best.clone_from(chosen);
                self.best.push(rest);
                self.spread = spread;
            }
            return;
        }
        let (largest_prime, most) = self.primes_of(rest);
        for i in 0..self.divisors.len() {
            let factor = self.divisors[i];
            if factor > cap {
                break;
            }
            // `factor` is the largest of the remaining `left` factors, so no prime can exceed it
            // and its power must reach `rest`.
            if !rest.is_multiple_of(factor)
                || factor < largest_prime
                || !reaches(factor, left, rest)
            {
                continue;
            }
            let longest = chosen.first().copied().unwrap_or(factor);
            // The shortest is at most the root of the remaining product, and 1 if there are too few
            // primes.
            let after = rest / factor;
            let shortest = if most < left { 1 } else { root(after, left - 1) };
            if longest - shortest.min(longest) >= self.spread {
                if chosen.is_empty() {
                    break; // longer first factors leave shorter last ones
                }
                continue;
            }
            chosen.push(factor);
            self.extend(chosen, after, left - 1);
            chosen.pop();
        }
    }

    /// The largest prime factor of a divisor, and the number of its prime factors.
    fn primes_of(&self, mut divisor: u64) -> (u64, usize) {
        let (mut largest, mut many) = (1, 0);
        for &prime in &self.primes {
            if divisor.is_multiple_of(prime) {
                divisor /= prime;
                (largest, many) = (prime, many + 1);
            }
        }
        (largest, many)
    }
}

/// Whether `base` to the power of `exponent` is at least `goal`.
fn reaches(base: u64, exponent: usize, goal: u64) -> bool {
    let mut power = 1_u64;
    for _ in 0..exponent {
        if power >= goal || base == 1 {
            break;
        }
        power = power.saturating_mul(base);
    }
    power >= goal
}

/// The largest number whose `degree`th power is at most `number`.
fn root(number: u64, degree: usize) -> u64 {
    let mut root = (number as f64).powf(1.0 / degree as f64) as u64 + 1; // not too small
    while root > 1 && reaches(root, degree, number + 1) {
        root -= 1;
    }
    root
}

fn prime_factors(mut number: u64) -> Vec<u64> {
    let mut primes = Vec::new();
    let mut candidate = 2;
    while candidate * candidate <= number {
        while number.is_multiple_of(candidate) {
            primes.push(candidate);
            number /= candidate;
        }
        candidate += 1;
    }
    if number > 1 {
        primes.push(number);
    }
    primes
}

fn divisors(number: u64) -> Vec<u64> {
    let mut divisors = vec![1];
    for prime in prime_factors(number) {
        let more: Vec<u64> = divisors.iter().map(|d| d * prime).collect();
        divisors.extend(more);
        divisors.sort_unstable();
        divisors.dedup();
    }
    divisors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dims<const N: usize>(nodes: i32, mut dims: [i32; N]) -> std::result::Result<[i32; N], i32> {
        create(nodes, &mut dims).map(|()| dims).map_err(|e| e.code())
    }

    #[test]
    fn the_standards_examples() {
        assert_eq!(dims(6, [0, 0]), Ok([3, 2]));
        assert_eq!(dims(7, [0, 0]), Ok([7, 1]));
        assert_eq!(dims(6, [0, 3, 0]), Ok([2, 3, 1]));
        assert_eq!(dims(7, [0, 3, 0]), Err(c::ERR_DIMS));
    }

    #[test]
    fn bounds_and_refusals() {
        assert_eq!(dims(1, [0; 5]), Ok([1; 5]));
        assert_eq!(dims(6, [2, 3]), Ok([2, 3]));
        assert_eq!(dims(7, []), Ok([]));
        assert_eq!(dims(6, [2, 2]), Err(c::ERR_DIMS));
        assert_eq!(dims(12, [2, 3]), Err(c::ERR_DIMS));
        assert_eq!(dims(6, [-1, 0]), Err(c::ERR_DIMS));
        assert_eq!(dims(i32::MAX, [i32::MAX; 3]), Err(c::ERR_DIMS));
        assert_eq!(dims(0, [0]), Err(c::ERR_ARG));
        assert_eq!(dims(i32::MAX, [0, 0]), Ok([i32::MAX, 1])); // a prime
    }

    #[test]
    fn large_numbers_with_many_factors() {
        assert_eq!(dims(1 << 30, [0; 3]), Ok([1 << 10; 3]));
        assert_eq!(dims(2_000_000_000, [0; 2]), Ok([50_000, 40_000]));
        let many = dims(1_396_755_360, [0; 20]).unwrap(); // 2^5 3^3 5 7 11 13 17 19
        assert_eq!(many.iter().map(|&d| i64::from(d)).product::<i64>(), 1_396_755_360);
        assert_eq!(&many[..4], [19, 17, 13, 11]);
        for count in 3..9 {
            let lengths = balanced(1_396_755_360, count);
            assert_eq!(lengths.iter().product::<u64>(), 1_396_755_360);
        }
    }

    #[test]
    fn roots() {
        for number in 1..2000_u64 {
            for degree in 1..8 {
                let r = root(number, degree) as u128;
                assert!(r.pow(degree as u32) <= number.into());
                assert!((r + 1).pow(degree as u32) > number.into());
            }
        }
    }

    /// All ways, by brute force.
    fn all(number: u64, count: usize, cap: u64) -> Vec<Vec<u64>> {
        if count == 0 {
            return if number == 1 { vec![vec![]] } else { vec![] };
        }
        let factors = (1..=number.min(cap)).filter(|f| number.is_multiple_of(*f));
        let longer = factors.flat_map(|factor| {
            let rest = all(number / factor, count - 1, factor);
            rest.into_iter().map(move |mut r| {
                r.insert(0, factor);
                r
            })
        });
        longer.collect()
    }

    #[test]
    fn nothing_is_closer() {
        for number in 1..400 {
            for count in 1..6 {
                let found = balanced(number, count);
                let spread = |lengths: &[u64]| lengths[0] - lengths[count - 1];
                let ways = all(number, count, number);
                let best = ways.into_iter().min_by_key(|w| (spread(w), w.clone()));
                assert_eq!(Some(found), best, "{number} in {count}");
            }
        }
    }
}

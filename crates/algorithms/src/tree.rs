//! The binomial tree.

/// A node of the binomial tree over `0..size` with root 0. The subtree of `v` is `v..v + span`, so
/// the data of a subtree is contiguous when ordered by rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BinomialTree {
    /// `None` for the root.
    pub parent: Option<usize>,
    /// Nodes of the subtree.
    pub span: usize,
    /// Children and their spans, the largest subtree first.
    pub children: Vec<(usize, usize)>,
}

impl BinomialTree {
    /// Node `v` of the tree over `0..size`.
    pub fn binomial(v: usize, size: usize) -> BinomialTree {
        let reach = if v == 0 { size.next_power_of_two() } else { v & v.wrapping_neg() };
        let span_of = |v: usize, reach: usize| reach.min(size - v);
        let mut children = Vec::new();
        let mut bit = reach / 2;
        while bit > 0 {
            if v + bit < size {
                children.push((v + bit, span_of(v + bit, bit)));
            }
            bit /= 2;
        }
        BinomialTree { parent: (v > 0).then(|| v - reach), span: span_of(v, reach), children }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_reaches_every_rank_once_and_agrees_with_itself() {
        for size in 1..40 {
            let mut reached = vec![0; size];
            for v in 0..size {
                let tree = BinomialTree::binomial(v, size);
                let below: usize = tree.children.iter().map(|&(_, span)| span).sum();
                assert_eq!(tree.span, below + 1);
                for (child, span) in tree.children {
                    reached[child] += 1;
                    let other = BinomialTree::binomial(child, size);
                    assert_eq!((other.parent, other.span), (Some(v), span));
                }
            }
            assert_eq!(reached[0], 0);
            assert!(reached[1..].iter().all(|&n| n == 1));
        }
    }
}

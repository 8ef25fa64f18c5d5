//! The messages of a collective: what a rank sends, receives and combines in each round, by the
//! algorithms of the library (docs/design/collectives.md; the schedules are built in
//! `crates/mpi/src/collective`). Only sizes and peers matter here.
//!
//! In a round a rank posts its receives, starts its sends in order, and waits for the receives.
//! Ranks are numbered in the group, from 0; trees count from the root.

use mica_policy::collective::{Algorithm, Collective, MessageThresholds};

/// One collective call, the same on all of its ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Plan {
    /// The operation.
    pub collective: Collective,
    /// Its algorithm, one of messages.
    pub algorithm: Algorithm,
    /// Ranks of the group.
    pub ranks: u32,
    /// Root in the group; 0 where there is none.
    pub root: u32,
    /// Bytes of the vector, of a pair's block or of a rank's block, as
    /// [`mica_policy::collective::CollectiveCall::bytes`] counts.
    pub bytes: u64,
}

/// What a rank does in a round.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RankRound {
    /// Peers and bytes, in order.
    pub sends: Vec<(u32, u64)>,
    /// Peers.
    pub receives: Vec<u32>,
    /// Bytes that are combined afterwards.
    pub combine: u64,
}

impl Plan {
    /// The library's choice between nodes.
    pub fn new(collective: Collective, ranks: u32, root: u32, bytes: u64) -> Plan {
        let (n, size) = (ranks as usize, usize::try_from(bytes).unwrap_or(usize::MAX));
        Plan {
            collective,
            algorithm: MessageThresholds::NETWORK.algorithm(collective, n, size),
            ranks,
            root,
            bytes,
        }
    }

    /// Number of rounds, the same for all ranks; a rank may have nothing to do in one.
    pub fn rounds(&self) -> u32 {
        let (n, log) = (self.ranks, ceil_log2(self.ranks));
        if n < 2 || (self.bytes == 0 && self.collective != Collective::Barrier) {
            return 0;
        }
        let folded = self.ranks.ilog2();
        let surplus = u32::from(!n.is_power_of_two());
        match (self.collective, self.algorithm) {
            (Collective::Bcast | Collective::Scatter, Algorithm::Binomial) => 2,
            (Collective::Reduce | Collective::Gather, Algorithm::Binomial) => log + 1,
            (_, Algorithm::Linear) => 1,
            (_, Algorithm::ScatterRing) => 2 + n - 1,
            (_, Algorithm::Ring | Algorithm::Pairwise) => n - 1,
            (_, Algorithm::Exchange) => (n - 1).div_ceil(WINDOW),
            (Collective::Allreduce, Algorithm::Doubling) => folded + 2 * surplus,
            (Collective::Allreduce, Algorithm::Halving) => 2 * folded + 2 * surplus,
            (Collective::Reduce, Algorithm::Halving) => 2 * folded + 2 * surplus,
            (_, Algorithm::Halving) => folded + 2 * surplus,
            _ => log,
        }
    }

    /// Whether its messages grow with the square of the ranks, in rounds in which all ranks do the
    /// same.
    pub fn is_symmetric_and_long(&self) -> bool {
        matches!(
            self.algorithm,
            Algorithm::Ring | Algorithm::Pairwise | Algorithm::Exchange | Algorithm::ScatterRing
        )
    }

    /// Writes what rank `me` does in `round` to `out`.
    pub fn round(&self, me: u32, round: u32, out: &mut RankRound) {
        out.sends.clear();
        out.receives.clear();
        out.combine = 0;
        let (n, bytes) = (self.ranks, self.bytes);
        let (after, before) = (|d: u32| (me + d) % n, |d: u32| (me + n - d % n) % n);
        match (self.collective, self.algorithm) {
            (_, Algorithm::Dissemination) => out.exchange(after(1 << round), before(1 << round), 0),
            (Collective::Bcast, Algorithm::Binomial) => self.spread(me, round, out, |_| bytes),
            (Collective::Scatter, Algorithm::Binomial) => {
                self.spread(me, round, out, |span| bytes * u64::from(span));
            }
            (Collective::Reduce | Collective::Gather, Algorithm::Binomial) => {
                self.collect(me, round, out);
            }
            (_, Algorithm::Linear) => self.linear(me, out),
            (_, Algorithm::ScatterRing) => {
                let piece = bytes.div_ceil(u64::from(n));
                match round {
                    0 | 1 => self.spread(me, round, out, |span| piece * u64::from(span)),
                    _ => out.exchange(after(1), before(1), piece),
                }
            }
            (_, Algorithm::Ring) => out.exchange(after(1), before(1), bytes),
            (_, Algorithm::Pairwise) => {
                out.exchange(after(round + 1), before(round + 1), bytes);
                out.combine = bytes;
            }
            (_, Algorithm::Exchange) => {
                let first = 1 + round * WINDOW;
                for distance in first..(first + WINDOW).min(n) {
                    out.exchange(after(distance), before(distance), bytes);
                }
            }
            (Collective::Allgather, Algorithm::Bruck) => {
                let blocks = (1 << round).min(n - (1 << round));
                out.exchange(before(1 << round), after(1 << round), bytes * u64::from(blocks));
            }
            (_, Algorithm::Bruck) => {
                // Blocks whose distance, below n, has this bit.
                let (bit, twice) = (1u32 << round, 2u32 << round);
                let blocks = n / twice * bit + (n % twice).saturating_sub(bit);
                out.exchange(after(bit), before(bit), bytes * u64::from(blocks));
            }
            (Collective::Scan, Algorithm::Doubling) => self.scan(me, round, out),
            (_, Algorithm::Doubling | Algorithm::Halving) => self.folded(me, round, out),
            (_, Algorithm::Binomial | Algorithm::Shared | Algorithm::Direct) => {
                unreachable!("{:?} of {:?}", self.algorithm, self.collective)
            }
        }
    }

    /// Down the binomial tree: round 0 receives from the parent, round 1 sends to the children, the
    /// largest subtree first. `size` of the number of ranks of a subtree.
    fn spread(&self, me: u32, round: u32, out: &mut RankRound, size: impl Fn(u32) -> u64) {
        let (n, root) = (self.ranks, self.root);
        let v = (me + n - root) % n;
        let reach = reach(v, n);
        if round == 0 {
            if v > 0 {
                out.receives.push((v - reach + root) % n);
            }
            return;
        }
        let mut bit = reach / 2;
        while bit > 0 {
            if v + bit < n {
                let span = bit.min(n - v - bit);
                out.sends.push(((v + bit + root) % n, size(span)));
            }
            bit /= 2;
        }
    }

    /// Up the binomial tree: one child a round, the smallest subtree first; then to the parent.
    fn collect(&self, me: u32, round: u32, out: &mut RankRound) {
        let (n, root) = (self.ranks, self.root);
        let v = (me + n - root) % n;
        let reach = reach(v, n);
        let reduces = self.collective == Collective::Reduce;
        let bit = 1u32 << round;
        if bit < reach && v + bit < n {
            out.receives.push((v + bit + root) % n);
            out.combine = if reduces { self.bytes } else { 0 };
        } else if bit == reach && v > 0 {
            let span = u64::from(reach.min(n - v));
            let bytes = if reduces { self.bytes } else { self.bytes * span };
            out.sends.push(((v - reach + root) % n, bytes));
        }
    }

    fn linear(&self, me: u32, out: &mut RankRound) {
        let others = (0..self.ranks).filter(|rank| *rank != self.root);
        match (self.collective == Collective::Gather, me == self.root) {
            (true, true) => out.receives.extend(others),
            (true, false) => out.sends.push((self.root, self.bytes)),
            (false, true) => out.sends.extend(others.map(|rank| (rank, self.bytes))),
            (false, false) => out.receives.push(self.root),
        }
    }

    fn scan(&self, me: u32, round: u32, out: &mut RankRound) {
        let distance = 1 << round;
        if me + distance < self.ranks {
            out.sends.push((me + distance, self.bytes));
        }
        if me >= distance {
            out.receives.push(me - distance);
            out.combine = 2 * self.bytes;
        }
    }

    /// Recursive doubling and halving among a power of two of ranks. Of each pair of the first
    /// ranks, as many as there are too many, the even one gives its operand to the odd one before,
    /// and gets the result after.
    fn folded(&self, me: u32, round: u32, out: &mut RankRound) {
        let active = 1u32 << self.ranks.ilog2();
        let surplus = self.ranks - active;
        let whole = match self.collective {
            Collective::ReduceScatter => self.bytes * u64::from(self.ranks),
            _ => self.bytes,
        };
        let first = u32::from(surplus > 0);
        let last = surplus > 0 && round + 1 == self.rounds();
        let is_pair = me < 2 * surplus;
        if surplus > 0 && round == 0 {
            match (is_pair, me % 2) {
                (true, 0) => out.sends.push((me + 1, whole)),
                (true, _) => {
                    out.receives.push(me - 1);
                    out.combine = whole;
                }
                (false, _) => {}
            }
        } else if last {
            let is_given = self.collective != Collective::Reduce || me / 2 == self.root / 2;
            if is_pair
                && is_given
                && (self.collective != Collective::Reduce || self.root.is_multiple_of(2))
            {
                match me % 2 {
                    0 => out.receives.push(me + 1),
                    _ => out.sends.push((me - 1, self.bytes)),
                }
            }
        } else if !is_pair || me % 2 == 1 {
            let number = |rank: u32| {
                if rank < 2 * surplus { rank / 2 } else { rank - surplus }
            };
            let rank = |number: u32| match number < surplus {
                true => 2 * number + 1,
                false => number + surplus,
            };
            self.among(number(me), number(self.root), round - first, out);
            out.sends.iter_mut().for_each(|send| send.0 = rank(send.0));
            out.receives.iter_mut().for_each(|peer| *peer = rank(*peer));
        }
    }

    /// Step `step` of the active ranks, by their numbers among these.
    fn among(&self, me: u32, root: u32, step: u32, out: &mut RankRound) {
        let steps = self.ranks.ilog2();
        let whole = match self.collective {
            Collective::ReduceScatter => self.bytes * u64::from(self.ranks),
            _ => self.bytes,
        };
        let (part, down) = (|k: u32| whole >> k, step < steps);
        if self.algorithm == Algorithm::Doubling {
            out.exchange(me ^ (1 << step), me ^ (1 << step), whole);
            out.combine = whole;
        } else if down {
            let peer = me ^ (1 << (steps - 1 - step));
            out.exchange(peer, peer, part(step + 1));
            out.combine = part(step + 1);
        } else {
            let back = step - steps;
            let peer = me ^ (1 << back);
            let bytes = part(steps - back);
            if self.collective != Collective::Reduce {
                return out.exchange(peer, peer, bytes);
            }
            // Parts go to the root as in a binomial tree.
            let place = me ^ root;
            match (place & ((1 << back) - 1), place >> back & 1) {
                (0, 0) => out.receives.push(peer),
                (0, _) => out.sends.push((peer, bytes)),
                _ => {}
            }
        }
    }
}

/// Peers that a rank exchanges with at the same time in an all-to-all.
const WINDOW: u32 = MessageThresholds::NETWORK.alltoall_window as u32;

impl RankRound {
    fn exchange(&mut self, to: u32, from: u32, bytes: u64) {
        self.sends.push((to, bytes));
        self.receives.push(from);
    }
}

/// Twice the distance of the farthest child: the lowest bit, or all of them for the root.
fn reach(v: u32, n: u32) -> u32 {
    match v {
        0 => n.next_power_of_two(),
        _ => v & v.wrapping_neg(),
    }
}

/// ceil(log2 n)
pub fn ceil_log2(n: u32) -> u32 {
    n.max(1).next_power_of_two().trailing_zeros()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn plans(ranks: u32) -> Vec<Plan> {
        let mut plans = Vec::new();
        for collective in Collective::ALL {
            for &algorithm in collective.algorithms() {
                if matches!(algorithm, Algorithm::Shared | Algorithm::Direct) {
                    continue;
                }
                for root in [0, ranks / 2, ranks - 1] {
                    plans.push(Plan { collective, algorithm, ranks, root, bytes: 64 });
                }
            }
        }
        plans
    }

    /// Senders and receivers.
    type Pairs = Vec<(u32, u32)>;

    /// What is sent in a round of this plan, and what is received.
    fn messages(plan: &Plan, round: u32) -> (Pairs, Pairs) {
        let (mut sent, mut received) = (Vec::new(), Vec::new());
        let mut out = RankRound::default();
        for me in 0..plan.ranks {
            plan.round(me, round, &mut out);
            sent.extend(out.sends.iter().map(|send| (me, send.0)));
            received.extend(out.receives.iter().map(|from| (*from, me)));
        }
        (sent, received)
    }

    #[test]
    fn every_message_that_is_sent_is_received_and_none_to_oneself() {
        for ranks in [2, 3, 4, 5, 7, 8, 12, 33, 40] {
            for plan in plans(ranks) {
                // Trees send in another round than the receiver's: compare whole calls.
                let mut open: BTreeMap<(u32, u32), i64> = BTreeMap::new();
                for round in 0..plan.rounds() {
                    let (sent, received) = messages(&plan, round);
                    for pair in sent {
                        assert!(pair.0 != pair.1 && pair.1 < ranks, "{plan:?}");
                        *open.entry(pair).or_default() += 1;
                    }
                    for pair in received {
                        *open.entry(pair).or_default() -= 1;
                    }
                }
                assert!(open.values().all(|count| *count == 0), "{plan:?}: {open:?}");
            }
        }
    }

    /// Ranks whose data has reached each rank after the call, if rounds are carried out in order.
    fn knowledge(plan: &Plan) -> Vec<Vec<bool>> {
        let n = plan.ranks as usize;
        let mut known: Vec<Vec<bool>> =
            (0..n).map(|me| (0..n).map(|r| r == me).collect()).collect();
        let mut out = RankRound::default();
        let mut at = vec![0; n];
        let mut mail: BTreeMap<(u32, u32), Vec<Vec<bool>>> = BTreeMap::new();
        let mut sent = vec![false; n];
        // Carries out what can be until nothing changes.
        loop {
            let mut moved = false;
            for me in 0..plan.ranks {
                let place = me as usize;
                while at[place] < plan.rounds() {
                    plan.round(me, at[place], &mut out);
                    if !sent[place] {
                        for (to, _) in &out.sends {
                            mail.entry((me, *to)).or_default().push(known[place].clone());
                        }
                        sent[place] = true;
                    }
                    let is_there =
                        |from: &u32| mail.get(&(*from, me)).is_some_and(|m| !m.is_empty());
                    if !out.receives.iter().all(is_there) {
                        break;
                    }
                    for from in &out.receives {
                        let data = mail.get_mut(&(*from, me)).expect("is there").remove(0);
                        for (mine, new) in known[place].iter_mut().zip(data) {
                            *mine |= new;
                        }
                    }
                    at[place] += 1;
                    sent[place] = false;
                    moved = true;
                }
            }
            if !moved {
                assert!(at.iter().all(|round| *round == plan.rounds()), "stuck: {plan:?}");
                return known;
            }
        }
    }

    #[test]
    fn data_reaches_those_that_need_it() {
        for ranks in [2, 3, 5, 8, 12, 40] {
            for plan in plans(ranks) {
                let known = knowledge(&plan);
                let root = plan.root as usize;
                for (me, known) in known.iter().enumerate() {
                    let all = known.iter().all(|k| *k);
                    let right = match plan.collective {
                        Collective::Bcast | Collective::Scatter => known[root],
                        Collective::Gather | Collective::Reduce => all || me != root,
                        Collective::Scan => (0..=me).all(|rank| known[rank]),
                        _ => all,
                    };
                    assert!(right, "rank {me} of {plan:?}");
                }
            }
        }
    }

    #[test]
    fn volumes_are_those_of_the_algorithms() {
        let volume = |collective, algorithm, ranks: u32, bytes: u64| {
            let plan = Plan { collective, algorithm, ranks, root: 0, bytes };
            let mut out = RankRound::default();
            let mut sum = 0;
            for me in 0..ranks {
                for round in 0..plan.rounds() {
                    plan.round(me, round, &mut out);
                    sum += out.sends.iter().map(|send| send.1).sum::<u64>();
                }
            }
            sum
        };
        use Collective::{Allgather, Allreduce, Alltoall, Bcast, Gather, ReduceScatter};
        // A tree moves the vector once for each other rank.
        assert_eq!(volume(Bcast, Algorithm::Binomial, 13, 10), 12 * 10);
        // Both allgathers bring n - 1 blocks to each of n ranks.
        assert_eq!(volume(Allgather, Algorithm::Ring, 13, 10), 13 * 12 * 10);
        assert_eq!(volume(Allgather, Algorithm::Bruck, 13, 10), 13 * 12 * 10);
        assert_eq!(volume(Alltoall, Algorithm::Exchange, 40, 10), 40 * 39 * 10);
        // Each block travels as often as its distance has bits: 12 for distances 1 to 7.
        assert_eq!(volume(Alltoall, Algorithm::Bruck, 8, 10), 8 * 12 * 10);
        // Rabenseifner: 2 (n - 1) / n of the vector for each rank.
        assert_eq!(volume(Allreduce, Algorithm::Halving, 8, 800), 8 * 2 * 700);
        assert_eq!(volume(ReduceScatter, Algorithm::Halving, 8, 100), 8 * 700);
        // Leaves send 1 block, inner ranks their subtree: for 8 ranks 4 x 1 + 2 x 2 + 1 x 4.
        assert_eq!(volume(Gather, Algorithm::Binomial, 8, 10), 120);
    }
}

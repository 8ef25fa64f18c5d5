//! The reductions, for 1 to 9 ranks, every root, many counts, datatypes, operators and thresholds,
//! against a fold from the left in rank order. The operator that does not commute proves the order;
//! equal values would hide nothing.

use crate::common::*;
use mica_collective::ScanKind as Scan;
use mica_collective::{Elements, MessageThresholds, Reduction, flat};
use mica_memory::Block;
use mica_objects::constants as c;
use mica_objects::datatype::Datatype;
use mica_objects::op::Op;

struct Case<'a> {
    size: usize,
    count: usize,
    kind: &'a Kind,
    operator: &'a Operator,
    limits: MessageThresholds,
    in_place: bool,
    seed: usize,
}

impl Case<'_> {
    fn reduction(&self) -> Reduction {
        self.operator.reduction(self.kind, self.count)
    }

    /// Send buffers of `count` elements and receive buffers of `receive`; in place these begin with
    /// the operand.
    fn memory(&self, receive: impl Fn(usize) -> usize) -> (Vec<Memory>, Vec<Memory>) {
        let send = |rank| Memory::new(self.kind, &values(rank, 0..self.count));
        let receive = |rank| match self.in_place {
            true => Memory::new(self.kind, &values(rank, 0..self.count)),
            false => Memory::new(self.kind, &vec![UNTOUCHED; receive(rank)]),
        };
        ((0..self.size).map(send).collect(), (0..self.size).map(receive).collect())
    }

    fn label(&self) -> (usize, usize, bool, bool, MessageThresholds) {
        (self.size, self.count, self.operator.commutes, self.in_place, self.limits)
    }

    fn send_unchanged(&self, send: &[Memory]) {
        for (rank, send) in send.iter().enumerate() {
            send.expect(&values(rank, 0..self.count), &"a send buffer was changed");
        }
    }
}

fn cases(mut f: impl FnMut(&Case<'_>)) {
    let kinds = Kind::all();
    let operators: Vec<Vec<Operator>> =
        kinds.iter().map(|kind| vec![Operator::ordered(kind), Operator::commuting(kind)]).collect();
    let sum = vec![Operator::sum()];
    let mut seed = 0;
    for size in SIZES {
        for count in counts(size) {
            let some = if [1, 7, 20].contains(&count) { kinds.len() } else { 1 };
            for (kind, operators) in kinds[..some].iter().zip(&operators).chain([(&kinds[0], &sum)])
            {
                for operator in operators {
                    for limits in
                        thresholds().into_iter().filter(|t| t.alltoall_window != usize::MAX)
                    {
                        for in_place in [false, true] {
                            f(&Case { size, count, kind, operator, limits, in_place, seed });
                            seed += 1;
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn reduce_folds_in_rank_order() {
    cases(|case| {
        for root in 0..case.size {
            let (send, receive) = case.memory(|_| case.count);
            run(case.size, case.seed + root, |me| {
                let here = me.rank == root;
                let own = (!here || !case.in_place).then(|| send[me.rank].elements());
                let to = here.then(|| receive[root].elements());
                flat::reduce(me, &case.limits, &case.reduction(), own.as_ref(), to.as_ref(), root)
            });
            let wanted = case.operator.expected(0..case.size, 0..case.count);
            receive[root].expect(&wanted, &("reduce", root, case.label()));
            case.send_unchanged(&send);
        }
    });
}

#[test]
fn allreduce_folds_in_rank_order() {
    cases(|case| {
        let (send, receive) = case.memory(|_| case.count);
        run(case.size, case.seed, |me| {
            let own = (!case.in_place).then(|| send[me.rank].elements());
            let to = receive[me.rank].elements();
            flat::allreduce(me, &case.limits, &case.reduction(), own.as_ref(), &to)
        });
        let wanted = case.operator.expected(0..case.size, 0..case.count);
        for receive in &receive {
            receive.expect(&wanted, &("allreduce", case.label()));
        }
        case.send_unchanged(&send);
    });
}

/// How `count` elements are dealt out: evenly as far as possible, or very unevenly with empty
/// blocks.
fn block_counts(size: usize, count: usize) -> [Vec<usize>; 3] {
    let even = (0..size).map(|rank| (rank + 1) * count / size - rank * count / size).collect();
    let mut first = vec![0; size];
    let mut uneven = vec![0; size];
    first[0] = count;
    uneven[size / 2] = count / 3;
    uneven[size - 1] += count - count / 3;
    [even, first, uneven]
}

#[test]
fn reduce_scatter_folds_in_rank_order() {
    cases(|case| {
        for blocks in block_counts(case.size, case.count) {
            let (send, receive) = case.memory(|rank| blocks[rank]);
            run(case.size, case.seed, |me| {
                let own = (!case.in_place).then(|| send[me.rank].elements());
                let to = receive[me.rank].elements();
                flat::reduce_scatter(
                    me,
                    &case.limits,
                    &case.reduction(),
                    &blocks,
                    own.as_ref(),
                    &to,
                )
            });
            for rank in 0..case.size {
                let first: usize = blocks[..rank].iter().sum();
                let mut wanted = case.operator.expected(0..case.size, first..first + blocks[rank]);
                if case.in_place {
                    // Behind the result the operand may stay as it was.
                    wanted.extend(values(rank, blocks[rank]..case.count));
                }
                receive[rank].expect(&wanted, &("reduce_scatter", rank, &blocks, case.label()));
            }
            case.send_unchanged(&send);
        }
    });
}

#[test]
fn scans_fold_the_ranks_before() {
    cases(|case| {
        for kind in [Scan::Inclusive, Scan::Exclusive] {
            let (send, receive) = case.memory(|_| case.count);
            run(case.size, case.seed, |me| {
                let own = (!case.in_place).then(|| send[me.rank].elements());
                let to = receive[me.rank].elements();
                flat::scan(me, kind, &case.reduction(), own.as_ref(), &to)
            });
            for (rank, receive) in receive.iter().enumerate() {
                let wanted = match (kind, rank) {
                    (Scan::Inclusive, _) => case.operator.expected(0..rank + 1, 0..case.count),
                    (Scan::Exclusive, 0) if case.in_place => values(0, 0..case.count),
                    (Scan::Exclusive, 0) => vec![UNTOUCHED; case.count],
                    (Scan::Exclusive, _) => case.operator.expected(0..rank, 0..case.count),
                };
                receive.expect(&wanted, &(kind, rank, case.label()));
            }
            case.send_unchanged(&send);
        }
    });
}

/// Sums of floating point numbers depend on the order; all ranks must nevertheless get the same
/// bits.
#[test]
fn allreduce_of_floats_is_the_same_everywhere() {
    let datatype = Datatype::predefined(c::DOUBLE).unwrap();
    let count = 37;
    let region = |values: Vec<f64>| {
        let region = Block::allocate(8 * values.len()).unwrap();
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_ne_bytes()).collect();
        region.write_bytes(&bytes);
        region
    };
    for op in [c::SUM, c::PROD, c::MIN, c::MAX] {
        let op = Op::resolve(op).unwrap();
        let reduction = Reduction { op, datatype: datatype.clone(), count };
        for (size, limits) in
            SIZES.flat_map(|size| thresholds().into_iter().map(move |t| (size, t)))
        {
            let number = |rank: usize, i: usize| match i {
                // Zeros of both signs and NaN with different payloads: equal or unordered, but
                // other bits.
                0 => [0.0, -0.0][rank % 2],
                1 => f64::from_bits(f64::NAN.to_bits() | rank as u64),
                _ => (value(rank, i) as f64 / 1e19 - 0.5) * 10f64.powi((rank * i % 13) as i32),
            };
            let send: Vec<_> = (0..size)
                .map(|rank| region((0..count).map(|i| number(rank, i)).collect()))
                .collect();
            let receive: Vec<_> = (0..size).map(|_| region(vec![0.0; count])).collect();
            run(size, size, |me| {
                let own = Elements::new(send[me.rank].clone(), &datatype);
                let to = Elements::new(receive[me.rank].clone(), &datatype);
                flat::allreduce(me, &limits, &reduction, Some(&own), &to)
            });
            let bits = |rank: usize| {
                let mut bytes = vec![0; 8 * count];
                receive[rank].read_bytes(&mut bytes);
                bytes
            };
            assert!((1..size).all(|rank| bits(rank) == bits(0)), "{size} ranks, {limits:?}");
        }
    }
}

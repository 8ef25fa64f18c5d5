//! Collectives with all ranks' buffers, and what is to be in these afterwards.

use std::sync::Arc;

use fastrand::Rng;
use mica_collective::ScanKind;
use mica_collective::intranode::{CollectiveOperation, Parts};
use mica_memory::View;
use mica_policy::collective::Collective;

use super::rig::{Means, NodePath, NodePathTaken, Operation};
use crate::common::{Kind, Memory, Operator, UNTOUCHED, value, values};

/// Datatypes and operators, made once in a test.
pub struct Kit {
    kinds: Vec<Kind>,
    operators: Vec<[Operator; 2]>,
}

impl Kit {
    pub fn new() -> Kit {
        let kinds = Kind::all();
        let both = |kind| [Operator::ordered(kind), Operator::commuting(kind)];
        Kit { operators: kinds.iter().map(both).collect(), kinds }
    }

    /// How many kinds there are; number 0 has no gaps, and reductions take those below
    /// [`Kit::REDUCED`].
    pub fn kinds(&self) -> usize {
        self.kinds.len()
    }

    /// Kinds whose elements do not reach beyond their extent.
    pub const REDUCED: usize = 3;
}

/// One collective.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    pub collective: Collective,
    pub size: usize,
    /// Elements of a part, or of the vector.
    pub count: usize,
    pub root: usize,
    pub in_place: bool,
    /// Number of the kind.
    pub kind: usize,
    /// Number of the kind of what is sent, where nothing is reduced.
    pub sent: usize,
    pub commutes: bool,
    /// Parts of different lengths; an exclusive scan.
    pub uneven: bool,
    /// Parts in another order than that of ranks, with gaps between them.
    pub scattered: bool,
    /// Contributions differ from those of operations with another one.
    pub salt: usize,
}

/// What one buffer is to hold.
struct Expected {
    memory: Memory,
    values: Vec<Option<u64>>,
    name: String,
}

/// A collective that can be run, and its outcome checked.
pub struct Case {
    pub spec: Spec,
    pub parts: Vec<CollectiveOperation>,
    expected: Vec<Expected>,
}

impl Spec {
    pub fn random(random: &mut Rng, kit: &Kit, size: usize, cell: usize, salt: usize) -> Spec {
        let collective = random.choice(Collective::ALL).expect("some");
        let kind = match random.usize(..3) == 0 {
            true if collective.reduces() => random.usize(..Kit::REDUCED),
            true => random.usize(..kit.kinds()),
            false => 0,
        };
        let uneven = random.usize(..2) == 0;
        Spec {
            collective,
            size,
            count: random.choice(counts(collective, size, cell)).expect("some"),
            root: random.usize(..size),
            in_place: random.usize(..3) == 0,
            kind,
            sent: if random.usize(..3) == 0 { random.usize(..kit.kinds()) } else { kind },
            commutes: random.usize(..2) == 0,
            uneven,
            scattered: uneven && random.usize(..2) == 0,
            salt,
        }
    }

    /// Ranks by which contributions are numbered.
    fn first(&self) -> usize {
        self.salt * 32
    }

    /// Elements of the part number `i`.
    fn part(&self, i: usize) -> usize {
        match (self.uneven, (i + self.salt) % 4) {
            (false, _) | (true, 0) => self.count,
            (true, 1) => self.count / 2,
            (true, 2) => self.count + 3,
            (true, _) => 0,
        }
    }

    /// Where parts of these lengths begin, and where the buffer ends.
    fn places(&self, lengths: &[usize]) -> (Vec<usize>, usize) {
        let mut starts = vec![0; lengths.len()];
        let mut end = 0;
        for i in 0..lengths.len() {
            let part = if self.scattered { lengths.len() - 1 - i } else { i };
            starts[part] = end;
            end += lengths[part] + usize::from(self.scattered);
        }
        (starts, end)
    }
}

/// Numbers of elements around what makes a difference, for which tests do not take long.
pub fn counts(collective: Collective, size: usize, cell: usize) -> Vec<usize> {
    let c = cell / 8;
    let share = c / 2 / (size - 1).max(1);
    let all = [
        0,
        1,
        5,
        6,
        7,
        share,
        share + 1,
        c / 2 - 1,
        c / 2,
        c / 2 + 1,
        c,
        c + 1,
        2 * c + 3,
        5 * c + 1,
    ];
    let buffers = match collective {
        Collective::Alltoall => size * size,
        Collective::Allgather | Collective::ReduceScatter => size * size,
        _ => 2 * size,
    };
    let bearable = |&count: &usize| count * buffers <= 40_000 || count < 8;
    all.into_iter().filter(bearable).collect()
}

impl Case {
    pub fn new(kit: &Kit, spec: Spec) -> Case {
        let mut case = Case { spec, parts: Vec::new(), expected: Vec::new() };
        match spec.collective {
            Collective::Barrier => case.parts = vec![CollectiveOperation::Barrier; spec.size],
            Collective::Bcast => case.bcast(kit),
            Collective::Gather => case.gather(kit),
            Collective::Scatter => case.scatter(kit),
            Collective::Allgather => case.allgather(kit),
            Collective::Alltoall => case.alltoall(kit),
            Collective::Reduce | Collective::Allreduce => case.reduce(kit),
            Collective::ReduceScatter => case.reduce_scatter(kit),
            Collective::Scan => case.scan(kit),
        }
        case
    }

    pub fn operation(&self, path: NodePath) -> Operation {
        let path = match (self.spec.collective, path) {
            // There is nothing to copy.
            (Collective::Barrier, _) => NodePath::Cells { base: 0 },
            (_, path) => path,
        };
        Operation::new(self.parts.clone(), path, format!("{:?} {path:?}", self.spec))
    }

    /// Panics unless all ranks have ended well, in the same way unless some may miss what others
    /// have, with the right result.
    pub fn check(
        &self,
        results: &[mica_objects::Result<NodePathTaken>],
        means: Means,
        label: &dyn std::fmt::Debug,
    ) {
        for (rank, result) in results.iter().enumerate() {
            assert!(result.is_ok(), "rank {rank}: {result:?} {:?} {label:?}", self.spec);
            if means != Means::Refusing {
                assert_eq!(result, &results[0], "{rank} {:?} {label:?}", self.spec);
            }
        }
        for Expected { memory, values, name } in &self.expected {
            let have = memory.values();
            let want: Vec<u64> =
                values.iter().zip(&have).map(|(want, &have)| want.unwrap_or(have)).collect();
            memory.expect(&want, &(name, self.spec, label));
        }
    }

    /// The path it must have taken, if that is known: by these means, where copies by the kernel
    /// would do or not.
    pub fn must_go(&self, means: Means, by_address: bool) -> Option<NodePathTaken> {
        let spec = &self.spec;
        let is_plain =
            spec.kind == 0 && !spec.scattered && (spec.sent == 0 || spec.collective.reduces());
        let reached = match means {
            Means::Nothing | Means::Off => false,
            Means::OneCannot if by_address => false,
            Means::Cma => by_address,
            Means::Windows => true,
            Means::Mixed if by_address => true,
            Means::Mapped if by_address => true,
            Means::Mixed | Means::Mapped | Means::OneCannot | Means::Refusing => return None,
        };
        match spec.collective {
            Collective::Barrier => Some(NodePathTaken::Cells),
            _ if spec.size == 1 || spec.count == 0 || spec.uneven => None,
            _ if !reached => Some(NodePathTaken::Cells),
            _ if is_plain => Some(NodePathTaken::Direct),
            _ => None,
        }
    }

    /// A buffer of elements of a kind, which are `have` and are to be `want`; at the end
    /// `None` matches anything.
    fn buffer_of(
        &mut self,
        kind: &Kind,
        name: &str,
        have: &[u64],
        want: Vec<Option<u64>>,
    ) -> usize {
        self.expected.push(Expected {
            memory: Memory::new(kind, have),
            values: want,
            name: format!("{name} of rank {}", self.parts.len()),
        });
        self.expected.len() - 1
    }

    fn buffer(&mut self, kit: &Kit, name: &str, have: &[u64], want: &[u64]) -> usize {
        let want = want.iter().copied().map(Some).collect();
        self.buffer_of(&kit.kinds[self.spec.kind], name, have, want)
    }

    /// A buffer that is only read.
    fn source(&mut self, kit: &Kit, have: &[u64]) -> usize {
        let kind = match self.spec.collective.reduces() {
            true => self.spec.kind,
            false => self.spec.sent,
        };
        let want = have.iter().copied().map(Some).collect();
        self.buffer_of(&kit.kinds[kind], "the send buffer", have, want)
    }

    fn memory(&self, buffer: usize) -> &Memory {
        &self.expected[buffer].memory
    }

    fn view(&self, buffer: usize) -> View {
        self.memory(buffer).view()
    }

    /// The parts of a buffer.
    fn parts_of(&self, buffer: usize, starts: &[usize], lengths: &[usize]) -> Parts {
        let memory = self.memory(buffer);
        match self.spec.uneven {
            false => Parts::Even(memory.blocks(self.spec.count), self.spec.size),
            true => {
                let part = |(&start, &length)| memory.range(start, length);
                Parts::Each(starts.iter().zip(lengths).map(part).collect())
            }
        }
    }

    /// Bytes of each part, if they are alike.
    fn bytes(&self) -> Option<usize> {
        (!self.spec.uneven).then_some(8 * self.spec.count)
    }

    fn lengths(&self) -> Vec<usize> {
        (0..self.spec.size).map(|rank| self.spec.part(rank)).collect()
    }

    fn bcast(&mut self, kit: &Kit) {
        let spec = self.spec;
        let message = values(spec.first() + spec.root, 0..spec.count);
        for rank in 0..spec.size {
            let buffer = match rank == spec.root {
                true => self.source(kit, &message),
                false => {
                    let before = vec![UNTOUCHED; spec.count];
                    self.buffer(kit, "the message", &before, &message)
                }
            };
            self.parts
                .push(CollectiveOperation::Bcast { view: self.view(buffer), root: spec.root });
        }
    }

    /// What all ranks' parts look like in one buffer.
    fn gathered(&self, starts: &[usize], lengths: &[usize], end: usize) -> Vec<u64> {
        let mut all = vec![UNTOUCHED; end];
        for (rank, (&start, &length)) in starts.iter().zip(lengths).enumerate() {
            all[start..start + length]
                .copy_from_slice(&values(self.spec.first() + rank, 0..length));
        }
        all
    }

    /// What a rank has in the buffer that it gathers in.
    fn before(&self, rank: usize, starts: &[usize], lengths: &[usize], end: usize) -> Vec<u64> {
        let mut before = vec![UNTOUCHED; end];
        if self.spec.in_place {
            let own = values(self.spec.first() + rank, 0..lengths[rank]);
            before[starts[rank]..starts[rank] + lengths[rank]].copy_from_slice(&own);
        }
        before
    }

    fn gather(&mut self, kit: &Kit) {
        let (spec, lengths) = (self.spec, self.lengths());
        let (starts, end) = spec.places(&lengths);
        let all = self.gathered(&starts, &lengths, end);
        for rank in 0..spec.size {
            let send = (rank != spec.root || !spec.in_place).then(|| {
                let own = values(spec.first() + rank, 0..lengths[rank]);
                let buffer = self.source(kit, &own);
                self.view(buffer)
            });
            let parts = (rank == spec.root).then(|| {
                let before = self.before(rank, &starts, &lengths, end);
                let buffer = self.buffer(kit, "the receive buffer", &before, &all);
                self.parts_of(buffer, &starts, &lengths)
            });
            self.parts.push(CollectiveOperation::Gather {
                send,
                parts,
                root: spec.root,
                bytes: self.bytes(),
            });
        }
    }

    fn scatter(&mut self, kit: &Kit) {
        let (spec, lengths) = (self.spec, self.lengths());
        let (starts, end) = spec.places(&lengths);
        let all = self.gathered(&starts, &lengths, end);
        for rank in 0..spec.size {
            let receive = (rank != spec.root || !spec.in_place).then(|| {
                let own = values(spec.first() + rank, 0..lengths[rank]);
                let before = vec![UNTOUCHED; lengths[rank]];
                let buffer = self.buffer(kit, "the receive buffer", &before, &own);
                self.view(buffer)
            });
            let parts = (rank == spec.root).then(|| {
                let buffer = self.source(kit, &all);
                self.parts_of(buffer, &starts, &lengths)
            });
            self.parts.push(CollectiveOperation::Scatter {
                parts,
                receive,
                root: spec.root,
                bytes: self.bytes(),
            });
        }
    }

    fn allgather(&mut self, kit: &Kit) {
        let (spec, lengths) = (self.spec, self.lengths());
        let (starts, end) = spec.places(&lengths);
        let all = self.gathered(&starts, &lengths, end);
        for rank in 0..spec.size {
            let send = (!spec.in_place).then(|| {
                let own = values(spec.first() + rank, 0..lengths[rank]);
                let buffer = self.source(kit, &own);
                self.view(buffer)
            });
            let before = self.before(rank, &starts, &lengths, end);
            let buffer = self.buffer(kit, "the receive buffer", &before, &all);
            let parts = self.parts_of(buffer, &starts, &lengths);
            self.parts.push(CollectiveOperation::Allgather { send, parts });
        }
    }

    fn alltoall(&mut self, kit: &Kit) {
        let spec = self.spec;
        let size = spec.size;
        // In place, as much is sent as received.
        let length = |from: usize, to: usize| match spec.in_place {
            true => spec.part(from + to),
            false => spec.part(3 * from + to + from * to),
        };
        let sent = |rank: usize| -> Vec<usize> { (0..size).map(|to| length(rank, to)).collect() };
        let received =
            |rank: usize| -> Vec<usize> { (0..size).map(|from| length(from, rank)).collect() };
        for rank in 0..size {
            let (starts, end) = spec.places(&received(rank));
            let mut want = vec![UNTOUCHED; end];
            for from in 0..size {
                let there = spec.places(&sent(from)).0[rank];
                let part = values(spec.first() + from, there..there + length(from, rank));
                want[starts[from]..starts[from] + part.len()].copy_from_slice(&part);
            }
            let (out, out_end) = spec.places(&sent(rank));
            let mut own = vec![UNTOUCHED; out_end];
            for (to, &start) in out.iter().enumerate() {
                let part = start..start + length(rank, to);
                own[part.clone()].copy_from_slice(&values(spec.first() + rank, part));
            }
            let (send, before) = match spec.in_place {
                true => (None, own),
                false => {
                    let buffer = self.source(kit, &own);
                    let send = self.parts_of(buffer, &out, &sent(rank));
                    (Some(send), vec![UNTOUCHED; end])
                }
            };
            let buffer = self.buffer(kit, "the receive buffer", &before, &want);
            let receive = self.parts_of(buffer, &starts, &received(rank));
            self.parts.push(CollectiveOperation::Alltoall { send, receive });
        }
    }

    fn operator(&self, kit: &Kit) -> Operator {
        match (self.spec.kind, self.spec.commutes, self.spec.salt % 2) {
            (0, true, 0) => Operator::sum(),
            (kind, commutes, _) => kit.operators[kind][usize::from(commutes)].clone(),
        }
    }

    /// A rank's operand, if it does not work in place.
    fn operand(&mut self, kit: &Kit, rank: usize, count: usize, always: bool) -> Option<usize> {
        let own = values(self.spec.first() + rank, 0..count);
        (always || !self.spec.in_place).then(|| self.source(kit, &own))
    }

    fn reduce(&mut self, kit: &Kit) {
        let (spec, operator) = (self.spec, self.operator(kit));
        let root = (spec.collective == Collective::Reduce).then_some(spec.root);
        let (first, count) = (spec.first(), spec.count);
        let reduced = operator.expected(first..first + spec.size, 0..count);
        for rank in 0..spec.size {
            let wants = root.is_none_or(|root| root == rank);
            let send = self.operand(kit, rank, count, !wants);
            let result = wants.then(|| {
                let before = match spec.in_place {
                    true => values(first + rank, 0..count),
                    false => vec![UNTOUCHED; count],
                };
                self.buffer(kit, "the result", &before, &reduced)
            });
            self.parts.push(CollectiveOperation::Reduce {
                reduction: operator.reduction(&kit.kinds[spec.kind], count),
                send: send.map(|buffer| self.memory(buffer).elements()),
                result: result.map(|buffer| self.memory(buffer).elements()),
                root,
            });
        }
    }

    fn reduce_scatter(&mut self, kit: &Kit) {
        let (spec, operator) = (self.spec, self.operator(kit));
        let counts: Arc<[usize]> = self.lengths().into();
        let total = counts.iter().sum();
        let (first, mut start) = (spec.first(), 0);
        for rank in 0..spec.size {
            let send = self.operand(kit, rank, total, false);
            let block = operator.expected(first..first + spec.size, start..start + counts[rank]);
            start += counts[rank];
            let mut want: Vec<_> = block.into_iter().map(Some).collect();
            let before = match spec.in_place {
                true => {
                    // The rest of the operand may be overwritten.
                    want.resize(total, None);
                    values(first + rank, 0..total)
                }
                false => vec![UNTOUCHED; counts[rank]],
            };
            let result = self.buffer_of(&kit.kinds[spec.kind], "the result", &before, want);
            self.parts.push(CollectiveOperation::ReduceScatter {
                reduction: operator.reduction(&kit.kinds[spec.kind], total),
                send: send.map(|buffer| self.memory(buffer).elements()),
                counts: Arc::clone(&counts),
                result: self.memory(result).elements(),
            });
        }
    }

    fn scan(&mut self, kit: &Kit) {
        let (spec, operator) = (self.spec, self.operator(kit));
        let (first, count, exclusive) = (spec.first(), spec.count, spec.uneven);
        let mut so_far: Option<Vec<u64>> = None;
        for rank in 0..spec.size {
            let own = values(first + rank, 0..count);
            let before = match spec.in_place {
                true => own.clone(),
                false => vec![UNTOUCHED; count],
            };
            let with_own = match &so_far {
                None => own,
                Some(so_far) => {
                    (0..count).map(|i| (operator.f)(so_far[i], value(first + rank, i))).collect()
                }
            };
            // The first has nothing before it: its result is left alone.
            let want = match exclusive {
                true => so_far.unwrap_or_else(|| before.clone()),
                false => with_own.clone(),
            };
            so_far = Some(with_own);
            let send = self.operand(kit, rank, count, false);
            let result = self.buffer(kit, "the result", &before, &want);
            self.parts.push(CollectiveOperation::Scan {
                reduction: operator.reduction(&kit.kinds[spec.kind], count),
                send: send.map(|buffer| self.memory(buffer).elements()),
                result: self.memory(result).elements(),
                kind: match exclusive {
                    true => ScanKind::Exclusive,
                    false => ScanKind::Inclusive,
                },
            });
        }
    }
}

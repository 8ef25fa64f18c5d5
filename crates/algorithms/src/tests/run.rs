//! Runs the descriptions of all ranks on symbolic values.

use std::collections::{HashMap, VecDeque};

use crate::{Buffer, BufferPart, BufferPlace, RankPlace, RoundSink};

/// What a unit holds: the operands that were combined, as (rank, unit), from left to right. `None`:
/// nothing that may be read.
pub type Symbol = Option<Vec<(usize, usize)>>;

/// The unit `index` of `rank`'s data.
pub fn symbol(rank: usize, index: usize) -> Symbol {
    Some(vec![(rank, index)])
}

/// When the units of a message leave the sender's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// When the round begins; the send completes by itself.
    Eager,
    /// When the receive is posted; the send completes then.
    Rendezvous,
}

#[derive(Default)]
struct ListedRound {
    sends: Vec<(usize, BufferPart)>,
    receives: Vec<(usize, BufferPart)>,
    work: Vec<LocalWork>,
}

enum LocalWork {
    Copy(BufferPart, BufferPart),
    Combine(BufferPart, BufferPart),
}

/// A rank's rounds as a list.
#[derive(Default)]
pub struct RoundList {
    scratch: Vec<usize>,
    rounds: Vec<ListedRound>,
}

impl RoundList {
    /// Whom the rank sends to in each round, and whom it receives from.
    pub fn peers(&self) -> Vec<(Vec<usize>, Vec<usize>)> {
        let peer = |message: &(usize, BufferPart)| message.0;
        let round = |r: &ListedRound| {
            (r.sends.iter().map(peer).collect(), r.receives.iter().map(peer).collect())
        };
        self.rounds.iter().map(round).collect()
    }

    /// Units that the rank sends.
    pub fn sent_units(&self) -> usize {
        let sends = self.rounds.iter().flat_map(|round| &round.sends);
        sends.map(|(_, part)| part.count).sum()
    }

    fn last(&mut self) -> &mut ListedRound {
        if self.rounds.is_empty() {
            self.rounds.push(ListedRound::default());
        }
        self.rounds.last_mut().expect("just made sure of")
    }
}

impl RoundSink for RoundList {
    fn scratch(&mut self, units: usize) -> Buffer {
        self.scratch.push(units);
        Buffer::Scratch(self.scratch.len() - 1)
    }

    fn round(&mut self) {
        let is_empty =
            |r: &ListedRound| r.sends.is_empty() && r.receives.is_empty() && r.work.is_empty();
        if !self.rounds.last().is_some_and(is_empty) {
            self.rounds.push(ListedRound::default());
        }
    }

    fn send(&mut self, to: usize, part: BufferPart) {
        self.last().sends.push((to, part));
    }

    fn receive(&mut self, from: usize, part: BufferPart) {
        self.last().receives.push((from, part));
    }

    fn copy(&mut self, from: BufferPart, to: BufferPart) {
        assert_eq!(from.count, to.count);
        self.last().work.push(LocalWork::Copy(from, to));
    }

    fn combine(&mut self, input: BufferPlace, inout: BufferPlace, count: usize) {
        self.last().work.push(LocalWork::Combine(input.part(count), inout.part(count)));
    }
}

/// A rank's memory.
pub struct Memory {
    pub input: Vec<Symbol>,
    pub output: Vec<Symbol>,
    scratch: Vec<Vec<Symbol>>,
}

impl Memory {
    pub fn new(input: Vec<Symbol>, output: Vec<Symbol>) -> Memory {
        Memory { input, output, scratch: Vec::new() }
    }

    fn read(&self, part: BufferPart) -> Vec<Symbol> {
        let units = match part.buffer {
            Buffer::Input => &self.input,
            Buffer::Output => &self.output,
            Buffer::Scratch(number) => &self.scratch[number],
        };
        let units = units[part.first..part.first + part.count].to_vec();
        assert!(units.iter().all(Option::is_some), "{part:?} has not been written");
        units
    }

    fn write(&mut self, part: BufferPart, units: Vec<Symbol>) {
        assert_eq!(part.count, units.len(), "the message has another length than {part:?}");
        let target = match part.buffer {
            Buffer::Input => panic!("{part:?} is written"),
            Buffer::Output => &mut self.output,
            Buffer::Scratch(number) => &mut self.scratch[number],
        };
        target[part.first..part.first + part.count].clone_from_slice(&units);
    }

    fn work(&mut self, work: &LocalWork) {
        match work {
            LocalWork::Copy(from, to) => self.write(*to, self.read(*from)),
            LocalWork::Combine(input, inout) => {
                let pairs = self.read(*input).into_iter().zip(self.read(*inout));
                let both = |(left, right): (Symbol, Symbol)| {
                    Some([left.expect("was read"), right.expect("was read")].concat())
                };
                self.write(*inout, pairs.map(both).collect());
            }
        }
    }
}

struct Message {
    part: BufferPart,
    units: Option<Vec<Symbol>>,
}

#[derive(Default)]
struct Progress {
    round: usize,
    has_entered: bool,
    receives: Vec<(usize, BufferPart)>,
    /// Sends of the round that no receive has taken.
    untaken: usize,
}

/// Describes and runs all ranks; returns their outputs. Panics on a deadlock, on a message whose
/// receive is missing or has another length, and on reading what was not written.
pub fn run(
    size: usize,
    delivery: Delivery,
    memory: impl Fn(usize) -> Memory,
    describe: impl Fn(RankPlace, &mut RoundList),
) -> Vec<Vec<Symbol>> {
    let mut lists = Vec::new();
    let mut ranks: Vec<Memory> = (0..size).map(memory).collect();
    let inputs: Vec<Vec<Symbol>> = ranks.iter().map(|rank| rank.input.clone()).collect();
    for (rank, memory) in ranks.iter_mut().enumerate() {
        let mut list = RoundList::default();
        describe(RankPlace { rank, size }, &mut list);
        memory.scratch = list.scratch.iter().map(|&units| vec![None; units]).collect();
        lists.push(list);
    }
    let mut progress: Vec<Progress> = (0..size).map(|_| Progress::default()).collect();
    let mut wires: HashMap<(usize, usize), VecDeque<Message>> = HashMap::new();
    loop {
        let mut has_moved = false;
        for me in (0..size).rev() {
            let Some(round) = lists[me].rounds.get(progress[me].round) else {
                continue;
            };
            if !progress[me].has_entered {
                has_moved = true;
                progress[me].has_entered = true;
                progress[me].receives.clone_from(&round.receives);
                for &(to, part) in &round.sends {
                    assert!(to != me && to < size, "rank {me} sends to {to}");
                    let units = (delivery == Delivery::Eager).then(|| ranks[me].read(part));
                    wires.entry((me, to)).or_default().push_back(Message { part, units });
                    progress[me].untaken += usize::from(delivery == Delivery::Rendezvous);
                }
            }
            for (from, part) in std::mem::take(&mut progress[me].receives) {
                // In order: what comes after a receive that is not matched may be from its sender.
                let is_behind = progress[me].receives.iter().any(|(sender, _)| *sender == from);
                let wire = wires.entry((from, me)).or_default();
                match if is_behind { None } else { wire.pop_front() } {
                    None => progress[me].receives.push((from, part)),
                    Some(Message { part: sent, units }) => {
                        has_moved = true;
                        let units = units.unwrap_or_else(|| {
                            progress[from].untaken -= 1;
                            ranks[from].read(sent)
                        });
                        ranks[me].write(part, units);
                    }
                }
            }
            if progress[me].receives.is_empty() && progress[me].untaken == 0 {
                has_moved = true;
                progress[me].round += 1;
                progress[me].has_entered = false;
                round.work.iter().for_each(|work| ranks[me].work(work));
            }
        }
        if !has_moved {
            break;
        }
    }
    for (me, list) in lists.iter().enumerate() {
        assert_eq!(progress[me].round, list.rounds.len(), "rank {me} waits forever");
        assert_eq!(ranks[me].input, inputs[me]);
    }
    assert!(wires.values().all(VecDeque::is_empty), "a message is not received");
    ranks.into_iter().map(|rank| rank.output).collect()
}

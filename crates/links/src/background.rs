//! Traffic of others on the links, from a seed: what muecke-2010 meets without having asked for it
//! (section 5.2: scheduler, coherency, I/O), and what a test plants.
//!
//! A [`BurstProcess`] is quiet for an exponentially distributed time, then active for the length of
//! a burst, of one of several kinds; the processes of a [`Background`] are independent. The kinds
//! of I/O bursts last 8 ms, 25 ms, 80 ms, 250 ms and 600 ms (each within 10 %), with probabilities
//! that fall with length to the power 0.9: on/off sources with heavy-tailed on-times make traffic
//! bursty at all time scales (Willinger et al., SIGCOMM 1995), and typical lengths make the
//! clusters that the paper sees (80 ms, and a maximum of 600 ms).
//!
//! How much a burst takes is a choice, too. The paper's slow calls are 250 times as long as its
//! fast ones; fair sharing of a link by a few streams slows a call by their number and no more. So
//! an I/O burst has [priority](BurstTraffic::Reserved) and leaves little of the links to others
//! until it ends. Memory streams are [fair](BurstTraffic::Fair).

use mica_machine::ChipMachine;
use rand_core::{Rng, SeedableRng};
use rand_xorshift::XorShiftRng;

use crate::intensity::{IoIntensity, StreamIntensity, TrafficIntensity};

/// What others do while calls run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Background {
    /// Independent processes.
    pub processes: Vec<BurstProcess>,
}

/// Alternates between quiet and a burst.
#[derive(Debug, Clone, PartialEq)]
pub struct BurstProcess {
    /// Mean of the quiet times, in seconds.
    pub quiet: f64,
    /// The kinds of bursts; there must be one.
    pub kinds: Vec<BurstKind>,
}

/// A kind of burst.
#[derive(Debug, Clone, PartialEq)]
pub struct BurstKind {
    /// How probable it is relative to the other kinds of the process.
    pub weight: f64,
    /// The chip that the data comes from.
    pub from: usize,
    /// The chip that it goes to.
    pub to: usize,
    /// Its length in seconds, evenly distributed within 10 %.
    pub length: f64,
    /// What it takes.
    pub traffic: BurstTraffic,
}

/// How a burst shares what it uses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum BurstTraffic {
    /// It takes this part of every link on its way, before all others.
    Reserved(f64),
    /// It is this many flows, each as fast as a core, that share with others fairly; they use the
    /// memory of the chip that they come from as well.
    Fair(u32),
}

/// Lengths of I/O bursts in seconds.
const IO_LENGTHS: [f64; 5] = [8e-3, 25e-3, 80e-3, 250e-3, 600e-3];

impl Background {
    /// No other traffic.
    pub fn none() -> Background {
        Background::default()
    }

    /// I/O between the machine's I/O chips and the memory of the others, one burst at a time.
    pub fn io(machine: &ChipMachine) -> Background {
        Background::io_of(machine, IoIntensity::DEFAULT)
    }

    /// This traffic alone.
    pub fn of(machine: &ChipMachine, intensity: TrafficIntensity) -> Background {
        match intensity {
            TrafficIntensity::Io(io) => Background::io_of(machine, io),
            TrafficIntensity::Streams(streams) => Background::streams_of(machine.chips(), streams),
        }
    }

    fn io_of(machine: &ChipMachine, intensity: IoIntensity) -> Background {
        let mut kinds = Vec::new();
        for (index, length) in IO_LENGTHS.into_iter().enumerate() {
            for (nth, &io) in machine.io_chips().iter().enumerate() {
                // Each kind of I/O has a buffer of its own, so each length marks certain links.
                let others: Vec<usize> = (0..machine.chips()).filter(|&chip| chip != io).collect();
                if others.is_empty() {
                    continue;
                }
                let memory = others[(2 * index + nth) % others.len()];
                let (from, to) = if index % 2 == 0 { (io, memory) } else { (memory, io) };
                kinds.push(BurstKind {
                    weight: length.powf(-0.9),
                    from,
                    to,
                    length,
                    traffic: BurstTraffic::Reserved(intensity.share),
                });
            }
        }
        let quiet = intensity.quiet;
        let processes = match kinds.is_empty() {
            true => Vec::new(),
            false => vec![BurstProcess { quiet, kinds }],
        };
        Background { processes }
    }

    /// From every chip's memory to the next chip, a stream that comes and goes.
    pub fn memory_streams(machine: &ChipMachine) -> Background {
        Background::streams_between(machine.chips())
    }

    /// The same between this many chips.
    pub fn streams_between(chips: usize) -> Background {
        Background::streams_of(chips, StreamIntensity::DEFAULT)
    }

    fn streams_of(chips: usize, intensity: StreamIntensity) -> Background {
        let process = |from: usize| BurstProcess {
            quiet: intensity.time,
            kinds: vec![BurstKind {
                weight: 1.0,
                from,
                to: (from + 1) % chips,
                length: intensity.time,
                traffic: BurstTraffic::Fair(intensity.streams),
            }],
        };
        Background { processes: (0..chips).map(process).collect() }
    }

    /// Bursts of one kind.
    pub fn planted(quiet: f64, kind: BurstKind) -> Background {
        let kinds = vec![BurstKind { weight: 1.0, ..kind }];
        Background { processes: vec![BurstProcess { quiet, kinds }] }
    }

    /// Both at once.
    pub fn and(mut self, other: Background) -> Background {
        self.processes.extend(other.processes);
        self
    }
}

/// When bursts begin and end, in seconds from the start on. The model runs through them; a load
/// generator on a machine waits for them.
#[derive(Debug)]
pub struct BurstTimes {
    processes: Vec<RunningProcess>,
}

#[derive(Debug)]
struct RunningProcess {
    process: BurstProcess,
    random: XorShiftRng,
    /// The kind of the current burst.
    active: Option<usize>,
    /// When the current state ends.
    until: f64,
}

/// A burst begins or ends.
#[derive(Debug, Clone, PartialEq)]
pub struct BurstChange {
    /// Of which kind.
    pub kind: BurstKind,
    /// It begins; otherwise it ends.
    pub begins: bool,
}

impl BurstTimes {
    /// All processes are quiet at first.
    pub fn new(background: &Background, seed: u64) -> BurstTimes {
        let running = |(index, process): (u64, &BurstProcess)| {
            // Each process has its own sequence, whatever the others do.
            let own_seed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(index);
            let mut random = XorShiftRng::seed_from_u64(own_seed);
            let until = exponential(&mut random, process.quiet);
            RunningProcess { process: process.clone(), random, active: None, until }
        };
        BurstTimes { processes: (0..).zip(&background.processes).map(running).collect() }
    }

    /// When the next burst begins or ends; infinite if there is none.
    pub fn next(&self) -> f64 {
        self.processes.iter().map(|running| running.until).fold(f64::INFINITY, f64::min)
    }

    /// The change at the time that [`next`](Self::next) has returned.
    pub fn advance(&mut self) -> Option<BurstChange> {
        let next = self.next();
        let running = self.processes.iter_mut().find(|running| running.until == next)?;
        let kinds = &running.process.kinds;
        match running.active.take() {
            Some(active) => {
                running.until += exponential(&mut running.random, running.process.quiet);
                Some(BurstChange { kind: kinds[active].clone(), begins: false })
            }
            None => {
                let active = choose(&mut running.random, kinds);
                let within = 0.9 + 0.2 * uniform(&mut running.random);
                running.until += kinds[active].length * within;
                running.active = Some(active);
                Some(BurstChange { kind: kinds[active].clone(), begins: true })
            }
        }
    }
}

/// In [0, 1).
fn uniform(random: &mut XorShiftRng) -> f64 {
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

fn exponential(random: &mut XorShiftRng, mean: f64) -> f64 {
    -mean * (1.0 - uniform(random)).ln()
}

fn choose(random: &mut XorShiftRng, kinds: &[BurstKind]) -> usize {
    let total: f64 = kinds.iter().map(|kind| kind.weight).sum();
    let mut left = uniform(random) * total;
    for (index, kind) in kinds.iter().enumerate() {
        left -= kind.weight;
        if left < 0.0 {
            return index;
        }
    }
    kinds.len() - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(seed: u64, count: usize) -> Vec<(f64, BurstChange)> {
        let machine = ChipMachine::named("x4600").expect("shipped");
        let mut times = BurstTimes::new(&Background::io(&machine), seed);
        (0..count).map(|_| (times.next(), times.advance().expect("never ends"))).collect()
    }

    #[test]
    fn seed_determines_the_bursts() {
        assert_eq!(changes(5, 50), changes(5, 50));
        assert_ne!(changes(5, 50), changes(6, 50));
    }

    #[test]
    fn io_bursts_alternate_with_quiet_and_are_heavy_tailed() {
        let changes = changes(1, 4000);
        let mut lengths = Vec::new();
        for pair in changes.windows(2) {
            assert_ne!(pair[0].1.begins, pair[1].1.begins);
            if pair[0].1.begins {
                lengths.push(pair[1].0 - pair[0].0);
            }
        }
        let total: f64 = lengths.iter().sum();
        let long: f64 = lengths.iter().filter(|&&length| length > 0.2).sum();
        let few = lengths.iter().filter(|&&length| length > 0.2).count();
        assert!(few * 10 < lengths.len(), "{few} of {}", lengths.len());
        assert!(long > 0.2 * total, "long bursts have {long} s of {total} s");
    }
}

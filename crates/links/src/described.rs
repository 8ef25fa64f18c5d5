//! Collectives by messages as schedules: an algorithm of the library (`mica_algorithms`) among any
//! number of ranks, without a record of it.
//!
//! A message is a copy by its receiver: the sender publishes a phase when it starts the messages of
//! a round, and the receiver, having waited for that phase, reads the bytes from the sender's
//! memory. So a send completes by itself, as an eager one does, and what the library copies on the
//! way is left out. Messages between two ranks match in order.

use std::collections::{HashMap, VecDeque};

use mica_algorithms::{
    Algorithm, AlgorithmFamily, Buffer, BufferPart, BufferPlace, Collective, MessageCall, RoundSink,
};

use crate::schedule::{RANKS_MAX, RecordedSchedule, RecordedStep, ScheduleError};

impl RecordedSchedule {
    /// The schedule that `COLLECTIVE/ALGORITHM/BYTES/RANKS` names, such as
    /// `allreduce/halving/16384/32`; `None` if it names none.
    pub fn described_by(name: &str) -> Option<Result<RecordedSchedule, ScheduleError>> {
        let words: Vec<&str> = name.split('/').collect();
        let &[collective, algorithm, bytes, ranks] = words.as_slice() else { return None };
        let collective = Collective::parse(collective)?;
        let algorithm = Algorithm::parse(algorithm)?;
        let is_known = collective.algorithms().contains(&algorithm)
            && algorithm.family() == AlgorithmFamily::Messages;
        let (bytes, ranks) = (bytes.parse().ok()?, ranks.parse().ok().filter(|_| is_known)?);
        let call = MessageCall { collective, algorithm, ranks, root: 0, bytes, commutes: true };
        Some(RecordedSchedule::described(&call))
    }

    /// The schedule of a call by messages.
    ///
    /// # Errors
    /// If there are too few ranks, or too many.
    pub fn described(call: &MessageCall) -> Result<RecordedSchedule, ScheduleError> {
        if !(1..=RANKS_MAX).contains(&call.ranks) {
            let range = format!("{} ranks; expected 1 to {RANKS_MAX}", call.ranks);
            return Err(ScheduleError::Range(range));
        }
        let rank = |rank: usize| {
            let mut messages = RankMessages { unit: call.unit_bytes(), ..RankMessages::default() };
            call.describe(rank, &mut messages);
            messages.round();
            messages.rounds
        };
        let rounds: Vec<Vec<MessageRound>> = (0..call.ranks).map(rank).collect();
        let mut phases = sent_phases(&rounds);
        let rounds = rounds.iter().enumerate();
        let schedule = RecordedSchedule {
            collective: call.collective.name().to_owned(),
            bytes: call.bytes as u64,
            path: "messages".to_owned(),
            command: format!("described: {}", call.algorithm.name()),
            steps: rounds.map(|(me, rounds)| steps(me, rounds, &mut phases)).collect(),
        };
        schedule.check()?;
        Ok(schedule)
    }
}

/// The messages of a round.
#[derive(Default)]
struct MessageRound {
    /// Destinations.
    sends: Vec<usize>,
    /// Sources and bytes.
    receives: Vec<(usize, u64)>,
}

/// Takes a rank's rounds.
#[derive(Default)]
struct RankMessages {
    unit: usize,
    scratch: usize,
    open: MessageRound,
    rounds: Vec<MessageRound>,
}

impl RoundSink for RankMessages {
    const TAKES_COPIES: bool = false;

    fn scratch(&mut self, _: usize) -> Buffer {
        self.scratch += 1;
        Buffer::Scratch(self.scratch - 1)
    }

    fn round(&mut self) {
        let round = std::mem::take(&mut self.open);
        if !round.sends.is_empty() || !round.receives.is_empty() {
            self.rounds.push(round);
        }
    }

    fn send(&mut self, to: usize, _: BufferPart) {
        self.open.sends.push(to);
    }

    fn receive(&mut self, from: usize, part: BufferPart) {
        self.open.receives.push((from, (part.count * self.unit) as u64));
    }

    // Within a rank's own memory.
    fn copy(&mut self, _: BufferPart, _: BufferPart) {}
    fn combine(&mut self, _: BufferPlace, _: BufferPlace, _: usize) {}
}

/// The phases with which the messages of each pair of ranks are there, in order. A rank's phases
/// are numbered from 1, one for each round in which it sends.
type PairPhases = HashMap<(usize, usize), VecDeque<u32>>;

fn sent_phases(rounds: &[Vec<MessageRound>]) -> PairPhases {
    let mut phases = PairPhases::new();
    for (me, rounds) in rounds.iter().enumerate() {
        let sending = rounds.iter().filter(|round| !round.sends.is_empty());
        for (phase, round) in (1..).zip(sending) {
            for &to in &round.sends {
                phases.entry((me, to)).or_default().push_back(phase);
            }
        }
    }
    phases
}

fn steps(me: usize, rounds: &[MessageRound], phases: &mut PairPhases) -> Vec<RecordedStep> {
    let mut steps = Vec::new();
    let mut phase = 0;
    for round in rounds {
        if !round.sends.is_empty() {
            phase += 1;
            steps.push(RecordedStep::Publish(phase));
        }
        for &(from, bytes) in &round.receives {
            let sent = phases.get_mut(&(from, me)).and_then(VecDeque::pop_front);
            let sent = sent.expect("every receive of a description has its send");
            steps.push(RecordedStep::Wait(from as u32, sent));
            if bytes > 0 {
                steps.push(RecordedStep::Load(from as u32, bytes));
            }
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::background::Background;
    use crate::model::observe_model;
    use mica_machine::ChipMachine;

    #[test]
    fn every_algorithm_of_messages_runs() {
        for collective in Collective::ALL {
            for algorithm in collective.algorithms() {
                for ranks in [1, 2, 7, 16] {
                    let name = format!("{}/{}/4096/{ranks}", collective.name(), algorithm.name());
                    let by_messages = algorithm.family() == AlgorithmFamily::Messages;
                    let schedule = RecordedSchedule::described_by(&name);
                    assert_eq!(schedule.is_some(), by_messages, "{name}");
                    if let Some(schedule) = schedule {
                        let schedule = schedule.unwrap_or_else(|e| panic!("{name}: {e}"));
                        assert_eq!(schedule.ranks(), ranks);
                        let text = schedule.to_string();
                        assert_eq!(RecordedSchedule::parse(&text).expect(&name), schedule);
                    }
                }
            }
        }
    }

    #[test]
    fn moves_what_the_algorithm_sends() {
        let bytes = |name: &str| -> u64 {
            let schedule = RecordedSchedule::described_by(name).expect(name).expect(name);
            schedule.pairs().iter().map(|pair| pair.bytes).sum()
        };
        assert_eq!(bytes("bcast/binomial/1000/13"), 12 * 1000);
        assert_eq!(bytes("allreduce/halving/800/8"), 8 * 2 * 700);
        assert_eq!(bytes("alltoall/exchange/10/16"), 16 * 15 * 10);
        assert_eq!(bytes("barrier/dissemination/0/16"), 0);
    }

    /// The time of a call on the machine of the paper.
    fn modelled(name: &str) -> f64 {
        let machine = ChipMachine::named("x4600").expect("shipped");
        let schedule = RecordedSchedule::shipped(name).expect(name);
        let observed = observe_model(&machine, &schedule, &Background::none(), 1, 1);
        observed.expect("finite times").calls.time[0]
    }

    #[test]
    fn the_model_runs_it() {
        let (short, long) = ("bcast/binomial/64/16", "bcast/binomial/1048576/16");
        assert!(modelled(short) > 0.0 && modelled(long) > modelled(short));
        // A tree sends the whole message over and over, the ring its pieces at the same time.
        assert!(modelled("bcast/scatter-ring/1048576/16") < modelled(long));
        assert!(modelled("bcast/scatter-ring/64/16") > modelled(short));
    }

    #[test]
    fn other_names_describe_nothing() {
        for name in ["", "allreduce-16384", "allreduce/ring/8/4", "bcast/binomial/x/4", "a/b/1/2"] {
            assert!(RecordedSchedule::described_by(name).is_none(), "{name}");
        }
        let many = RecordedSchedule::described_by("bcast/binomial/8/5000").expect("a name");
        assert!(many.expect_err("too many").to_string().contains("5000 ranks"));
        assert!(RecordedSchedule::described_by("bcast/binomial/8/0").expect("a name").is_err());
    }
}

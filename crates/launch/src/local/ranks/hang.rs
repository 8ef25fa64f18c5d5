//! What the ranks of this node wait for: they are asked through the job segment.

use std::collections::HashMap;

use mica_node::segment::answer::HangText;
use mica_symbols::Symbolizer;

use super::*;
use crate::report::call_place::call_place;
use crate::report::rank_end::NodeReport;
use crate::report::{end_text, hang_line};

/// Time for ranks that sleep in MPI to answer what they wait for; other ranks have half of it.
const ASK_TIME: Duration = Duration::from_secs(2);

/// Time for further parts of answers to arrive.
const SETTLE_TIME: Duration = Duration::from_millis(20);

impl RankProcesses<'_> {
    /// What each running rank waits for, and how the others have ended. `host` is named if there
    /// are several. Takes up to [`ASK_TIME`]: the ranks are asked.
    pub fn hang_report(&self, host: Option<&str>) -> NodeReport {
        let asked = |index: &usize| self.stage(*index) == RankStage::Running;
        let answers = self.ask(self.alive().into_iter().filter(asked).collect());
        let mut symbols = Symbolizer::default();
        let mut read = |answer: &str| {
            let place =
                |object: &str, offset| format!("(at {})", call_place(&mut symbols, object, offset));
            HangText::read(answer, place)
        };
        let answers: HashMap<usize, HangText> =
            answers.into_iter().map(|(index, answer)| (index, read(&answer))).collect();
        let rank_of = |index: usize| self.plan.ranks[index].rank;
        // Of a rank with several threads that wait, another thread may do what one is waited for.
        let needs = answers.iter().filter_map(|(index, answer)| match &answer.needs[..] {
            // A rank of another world is in no cycle of this one.
            [numbers] => Some((rank_of(*index), self.own_ranks(numbers))),
            _ => None,
        });
        let line = |index: usize| {
            let rank = rank_of(index);
            let pid = self.ranks[index].process.pid();
            let answer = answers.get(&index).map(|answer| answer.words.clone());
            let waits_for = answer.or_else(|| self.waits_for(index));
            let waits_for = waits_for.map(|said| self.world.with_limits(self.number(index), said));
            (rank, hang_line(rank, pid, host, self.stage(index), waits_for))
        };
        let ended = |index: usize| {
            let rank = &self.ranks[index];
            let exit = rank.exit.filter(|_| !rank.is_alive())?;
            Some((rank_of(index), end_text(exit, self.stage(index))))
        };
        NodeReport {
            lines: self.alive().into_iter().map(line).collect(),
            ended: (0..self.ranks.len()).filter_map(ended).collect(),
            needs: needs.collect(),
        }
    }

    /// Asks these ranks, by number on the node, what they wait for. Returns the answers that came.
    fn ask(&self, ranks: Vec<usize>) -> Vec<(usize, String)> {
        let number = |index: usize| self.number(index);
        let block = |index: usize| self.world.block(number(index));
        // A rank that sleeps in MPI answers when it is woken; one that computes never answers.
        let asleep: Vec<bool> =
            ranks.iter().map(|&index| block(index).waiting().is_some()).collect();
        let question = self.world.ask();
        let answer = |index: usize| self.world.answer_of(number(index), question);
        let began = Instant::now();
        loop {
            let is_missing = |(index, asleep): (&usize, &bool)| {
                let limit = if *asleep { ASK_TIME } else { ASK_TIME / 2 };
                (began.elapsed() < limit && answer(*index).is_none()).then_some(*index)
            };
            let missing: Vec<usize> = ranks.iter().zip(&asleep).filter_map(is_missing).collect();
            if missing.is_empty() {
                break;
            }
            for index in missing {
                self.world.wake_for_question(number(index));
            }
            // Answers are words in shared memory, which are not reported to the launcher.
            std::thread::sleep(Duration::from_millis(1));
        }
        // Other threads of a rank, and its other polls, may add to the answer. How many is not
        // known, so there is no condition to wait for.
        std::thread::sleep(SETTLE_TIME);
        let answers = ranks.iter().filter_map(|&i| Some((i, answer(i)?))).collect();
        self.world.end_question();
        answers
    }

    /// The ranks of this world among these numbers of the segment.
    fn own_ranks(&self, numbers: &[u32]) -> Vec<u32> {
        let ranks = numbers.iter().filter_map(|number| number.checked_sub(self.world.first()));
        ranks.filter(|&rank| rank < self.job.size).collect()
    }

    fn waits_for(&self, index: usize) -> Option<String> {
        let number = self.number(index);
        match self.world.rank_state(number) {
            RankState::Absent if self.job.network.pmi => {
                Some("waits in MPI_Init for other ranks".into())
            }
            RankState::Absent => Some("is in a program of another MPI library".into()),
            _ => self.world.wait_report(number),
        }
    }
}

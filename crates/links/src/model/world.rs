//! The modelled machine as a [`PredictorWorld`]: calls one after the other, by any of several
//! recorded schedules, while the background goes on, also between calls.
//!
//! All ranks enter a call at the same time, and the next call begins when the last has returned and
//! the caller asks for it: what is before a call is then the same for all schedules. The load of a
//! link is what a program would get from its counter by two readings: bytes per second since the
//! call before began, or since the last wait began.

use std::sync::Arc;

use mica_machine::ChipMachine;

use super::{MachineStep, ModelRankState, Simulation, actions};
use crate::background::{Background, BurstTimes};
use crate::predictor::PredictorWorld;
use crate::schedule::{RecordedSchedule, RecordedStep};

/// A modelled machine on which calls are made one by one.
pub struct ModelWorld {
    simulation: Simulation,
    bursts: BurstTimes,
    /// For each schedule and rank.
    actions: Vec<Vec<Arc<[MachineStep]>>>,
    /// When the load began to be measured, and what each link had carried.
    since: f64,
    carried: Vec<f64>,
}

impl ModelWorld {
    /// An idle machine before the first call. All schedules are of as many ranks.
    ///
    /// # Panics
    /// If there is no schedule, or schedules are of different numbers of ranks.
    pub fn new(
        machine: &ChipMachine,
        schedules: &[&RecordedSchedule],
        background: &Background,
        seed: u64,
    ) -> ModelWorld {
        let ranks = schedules[0].ranks();
        assert!(schedules.iter().all(|schedule| schedule.ranks() == ranks));
        let chips = machine.placement(ranks);
        let simulation = Simulation::new(machine, schedules[0], &chips, 0);
        let of_schedule = |schedule: &&RecordedSchedule| -> Vec<Arc<[MachineStep]>> {
            let of_rank = |(me, steps): (usize, &Vec<RecordedStep>)| {
                actions(machine, &simulation.network, steps, &chips, me).into()
            };
            schedule.steps.iter().enumerate().map(of_rank).collect()
        };
        ModelWorld {
            actions: schedules.iter().map(of_schedule).collect(),
            bursts: BurstTimes::new(background, seed),
            since: 0.0,
            carried: simulation.network.carried().to_vec(),
            simulation,
        }
    }

    /// The load is measured from now on.
    fn begin_interval(&mut self) {
        self.since = self.simulation.now;
        self.carried.clear();
        self.carried.extend_from_slice(self.simulation.network.carried());
    }
}

impl PredictorWorld for ModelWorld {
    fn load(&mut self, link: usize) -> f64 {
        let seconds = self.simulation.now - self.since;
        match seconds > 0.0 {
            true => (self.simulation.network.carried()[link] - self.carried[link]) / seconds,
            false => 0.0,
        }
    }

    fn wait(&mut self, seconds: f64) {
        self.begin_interval();
        self.simulation.idle(seconds, &mut self.bursts);
    }

    fn call(&mut self, schedule: usize) -> f64 {
        self.begin_interval();
        let simulation = &mut self.simulation;
        simulation.count += 1;
        for (rank, actions) in simulation.ranks.iter_mut().zip(&self.actions[schedule]) {
            rank.actions = actions.clone();
            rank.state = ModelRankState::SlotWait;
        }
        simulation.run(&mut self.bursts, &mut |_| ());
        *simulation.calls.time.last().expect("the call that was made")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::background::{BurstKind, BurstTraffic};
    use crate::data::LinkSet;
    use crate::model::observe_model;

    fn world(background: &Background, names: &[&str]) -> ModelWorld {
        let machine = ChipMachine::named("x4600").expect("shipped");
        let shipped = |name: &&str| RecordedSchedule::shipped(name).expect("shipped");
        let schedules: Vec<RecordedSchedule> = names.iter().map(shipped).collect();
        ModelWorld::new(&machine, &schedules.iter().collect::<Vec<_>>(), background, 1)
    }

    #[test]
    fn single_calls_take_as_long_as_the_first_call_of_an_observation() {
        let names = ["allreduce-1024", "barrier"];
        let mut world = world(&Background::none(), &names);
        let machine = ChipMachine::named("x4600").expect("shipped");
        for (index, name) in names.iter().enumerate() {
            let schedule = RecordedSchedule::shipped(name).expect("shipped");
            let observed = observe_model(&machine, &schedule, &Background::none(), 1, 1);
            let first = observed.expect("finite").calls.time[0];
            for _ in 0..2 {
                let time = world.call(index);
                assert!((time - first).abs() < 1e-9, "{name}: {time} and {first}");
            }
        }
    }

    #[test]
    fn load_is_that_of_the_call_before_or_of_the_wait() {
        let machine = ChipMachine::named("x4600").expect("shipped");
        let link = LinkSet::of_machine(&machine).index("0->1").expect("a link");
        let kind = BurstKind {
            weight: 1.0,
            from: 0,
            to: 1,
            length: 1e3,
            traffic: BurstTraffic::Reserved(0.5),
        };
        let mut world = world(&Background::planted(1e-9, kind), &["allreduce-1024"]);
        assert_eq!(world.load(link), 0.0, "nothing was measured");
        world.wait(1e-3);
        assert!((world.load(link) / 2e9 - 1.0).abs() < 1e-3, "half of 4 GB/s");
        world.call(0);
        assert!(world.load(link) > 2.01e9, "and the call's own bytes");
        world.wait(1e-3);
        assert!((world.load(link) / 2e9 - 1.0).abs() < 1e-9);
    }
}

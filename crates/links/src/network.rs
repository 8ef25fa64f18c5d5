//! The links and memories of a machine as a fluid network: transfers between chips share them by
//! max-min fairness, reserved traffic comes first, and a transfer that starts waits in the queues
//! of the links on its way.
//!
//! Every directed link and every chip's memory is a resource. A transfer uses the memory that it
//! reads or writes remotely and the links from the source chip to the target; it is at most as fast
//! as a core copies. Between two events all rates are constant, so bytes grow linearly.
//!
//! Queueing: a link at utilisation u serves packets of 64 bytes; a packet that arrives waits
//! u / (2 (1 - u)) service times on average (M/D/1, Pollaczek-Khinchine), and no longer than its
//! buffer of 16 packets takes. A transfer pays this once, at its start: afterwards its own rate
//! says what it gets. [`model`](crate::model) drives this.

use mica_machine::ChipMachine;

use crate::background::{BurstChange, BurstTraffic};
use crate::fairness::{FlowClass, MaxMin};

/// Bytes of a packet with one cache line.
const PACKET: f64 = 64.0;

/// Packets that a link's buffer holds.
const BUFFER: f64 = 16.0;

/// Of each link, at least this part is left to fair traffic: reserved traffic cannot stop it.
const LEFT_MIN: f64 = 1e-6;

/// Packets that wait at a link of this utilisation, on average.
pub fn queue_length(utilisation: f64) -> f64 {
    if utilisation < 1.0 { (utilisation / (2.0 * (1.0 - utilisation))).min(BUFFER) } else { BUFFER }
}

/// What a transfer uses; the index of its class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransferClass(usize);

/// The state of the network at a moment.
#[derive(Debug)]
pub struct LinkNetwork {
    links: usize,
    chips: usize,
    /// Links, then memories; bytes per second.
    capacities: Vec<f64>,
    left: Vec<f64>,
    reserved: Vec<f64>,
    classes: Vec<FlowClass>,
    /// Of the members of each class, those of the background.
    others: Vec<u32>,
    is_stale: bool,
    max_min: MaxMin,
    /// Bytes per second on each link: all, and those of the background.
    load: Vec<f64>,
    background_load: Vec<f64>,
    /// Bytes so far.
    carried: Vec<f64>,
    background_carried: Vec<f64>,
}

impl LinkNetwork {
    /// The idle network of a machine.
    pub fn new(machine: &ChipMachine) -> LinkNetwork {
        let (links, chips) = (machine.links().len(), machine.chips());
        let mut capacities: Vec<f64> = machine.links().iter().map(|link| link.bandwidth).collect();
        capacities.resize(links + chips, machine.memory_bandwidth());
        let mut classes = Vec::new();
        for from in 0..chips {
            for to in 0..chips {
                for memory in [from, to] {
                    let mut resources = machine.route(from, to).to_vec();
                    resources.push(links + memory);
                    classes.push(FlowClass {
                        resources,
                        limit: machine.core_bandwidth(),
                        members: 0,
                        rate: 0.0,
                    });
                }
            }
        }
        LinkNetwork {
            links,
            chips,
            left: capacities.clone(),
            reserved: vec![0.0; links],
            others: vec![0; classes.len()],
            classes,
            is_stale: false,
            max_min: MaxMin::default(),
            load: vec![0.0; links],
            background_load: vec![0.0; links],
            carried: vec![0.0; links],
            background_carried: vec![0.0; links],
            capacities,
        }
    }

    /// The class of a copy made on chip `at` that reads from the memory of chip `memory`.
    pub fn load_class(&self, memory: usize, at: usize) -> TransferClass {
        TransferClass(2 * (memory * self.chips + at))
    }

    /// The class of a copy made on chip `at` that writes to the memory of chip `memory`.
    pub fn store_class(&self, memory: usize, at: usize) -> TransferClass {
        TransferClass(2 * (at * self.chips + memory) + 1)
    }

    /// Adds a transfer.
    pub fn start(&mut self, class: TransferClass) {
        self.classes[class.0].members += 1;
        self.is_stale = true;
    }

    /// Removes a transfer.
    pub fn finish(&mut self, class: TransferClass) {
        self.classes[class.0].members -= 1;
        self.is_stale = true;
    }

    /// Begins or ends a burst of the background.
    pub(crate) fn change(&mut self, change: &BurstChange) {
        let class = self.load_class(change.kind.from, change.kind.to);
        match (change.kind.traffic, change.begins) {
            (BurstTraffic::Fair(flows), true) => {
                self.classes[class.0].members += flows;
                self.others[class.0] += flows;
            }
            (BurstTraffic::Fair(flows), false) => {
                self.classes[class.0].members -= flows;
                self.others[class.0] -= flows;
            }
            (BurstTraffic::Reserved(part), begins) => {
                for &link in &self.classes[class.0].resources {
                    if link < self.links {
                        self.reserved[link] += if begins { part } else { -part };
                    }
                }
            }
        }
        self.is_stale = true;
    }

    /// Bytes per second of a transfer of this class.
    pub fn rate(&mut self, class: TransferClass) -> f64 {
        self.refresh();
        self.classes[class.0].rate
    }

    /// Seconds that a transfer of this class waits in queues when it starts now.
    pub fn queue_wait(&mut self, class: TransferClass) -> f64 {
        self.refresh();
        let links = self.classes[class.0].resources.iter();
        let wait = |&link: &usize| {
            let capacity = self.capacities[link];
            queue_length(self.load[link] / capacity) * PACKET / capacity
        };
        links.filter(|&&resource| resource < self.links).map(wait).sum()
    }

    /// Lets `seconds` pass.
    pub fn pass(&mut self, seconds: f64) {
        self.refresh();
        for link in 0..self.links {
            self.carried[link] += self.load[link] * seconds;
            self.background_carried[link] += self.background_load[link] * seconds;
        }
    }

    /// Bytes that each link has carried so far.
    pub fn carried(&self) -> &[f64] {
        &self.carried
    }

    /// Those of the background.
    pub fn background_carried(&self) -> &[f64] {
        &self.background_carried
    }

    /// Computes the rates if something has changed.
    fn refresh(&mut self) {
        if !self.is_stale {
            return;
        }
        self.is_stale = false;
        for link in 0..self.links {
            let taken = self.reserved[link].clamp(0.0, 1.0 - LEFT_MIN) * self.capacities[link];
            self.left[link] = self.capacities[link] - taken;
            self.load[link] = taken;
            self.background_load[link] = taken;
        }
        self.max_min.fill(&self.left, &mut self.classes);
        for (class, &others) in self.classes.iter().zip(&self.others) {
            if class.members == 0 {
                continue;
            }
            for &link in class.resources.iter().filter(|&&at| at < self.links) {
                self.load[link] += class.rate * f64::from(class.members);
                self.background_load[link] += class.rate * f64::from(others);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::background::BurstKind;
    use crate::data::LinkSet;

    #[test]
    fn queue_follows_pollaczek_khinchine_up_to_its_buffer() {
        assert_eq!(queue_length(0.0), 0.0);
        assert!((queue_length(0.5) - 0.5).abs() < 1e-12);
        assert!((queue_length(0.8) - 2.0).abs() < 1e-12);
        assert_eq!(queue_length(0.999), BUFFER);
        assert_eq!(queue_length(1.0), BUFFER);
    }

    #[test]
    fn reserved_traffic_comes_first_and_fair_traffic_shares() {
        let machine = ChipMachine::named("x4600").expect("shipped");
        let mut network = LinkNetwork::new(&machine);
        let class = network.load_class(0, 1);
        network.start(class);
        assert_eq!(network.rate(class), machine.core_bandwidth());
        let burst = |traffic, begins| BurstChange {
            kind: BurstKind { weight: 1.0, from: 0, to: 1, length: 1.0, traffic },
            begins,
        };
        network.change(&burst(BurstTraffic::Fair(3), true));
        assert_eq!(network.rate(class), 1e9, "four flows on 4 GB/s");
        network.change(&burst(BurstTraffic::Reserved(0.9), true));
        assert!((network.rate(class) - 1e8).abs() < 1.0);
        network.pass(2.0);
        let link = LinkSet::of_machine(&machine).index("0->1").expect("a link");
        assert!((network.carried()[link] - 8e9).abs() < 1.0);
        assert!((network.background_carried()[link] - 7.8e9).abs() < 1.0);
        network.change(&burst(BurstTraffic::Fair(3), false));
        network.change(&burst(BurstTraffic::Reserved(0.9), false));
        assert_eq!(network.rate(class), machine.core_bandwidth());
        network.finish(class);
        network.pass(1.0);
        assert!((network.carried()[link] - 8e9).abs() < 1.0);
    }
}

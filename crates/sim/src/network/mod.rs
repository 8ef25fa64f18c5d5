//! The network between the nodes: LogGP at its ends, a topology with contention in between.
//!
//! Model of a packet of `b` bytes that is handed over at `t` (Alexandrov et al., LogGP, 1995; the
//! network of leon-2009 3.1 delivers at "time stamp plus modelled delay" as well):
//!
//! 1. The sender's port starts it when it is free, and is busy for `g + (b - 1) G`, or until its
//!    last byte is there if the sender brings the bytes more slowly than the port takes them.
//! 2. The head crosses the links of a fixed route (dimension order in a torus, chosen by
//!    destination in a fat tree), each in the hop latency once the link has a free moment.
//!    Cut-through: the rest follows while the head goes on. A link works for `b` times its own gap
//!    per byte.
//! 3. The receiver's port takes it in at `G` per byte and is then busy for another `g`.
//! 4. `L` after its first and its last byte these have arrived. Alone, it needs
//!    `L + hops * hop latency + (b - 1) G` (links no slower than `G`). Times of a last byte are
//!    those of its start.
//!
//! Links and receiving ports work for packets in the order of their departure, but are never idle
//! while one waits: a packet that comes later in this order uses the moments in which those before
//! it have not come yet ([`Calendar`]). For one stage this is FIFO. Packets of a pair of nodes
//! stay in order: a packet uses every free moment until it is through, so that the next finds none
//! before.
//!
//! Called by `mica sim`: every host rank runs the same [`Network`] over the heads of all packets.
//! So the result is a pure function of the sequence of calls: heads are sorted by (time, sender,
//! number), all times are integers, and nothing depends on the order of the input. If the calls
//! partition time, as quanta do, the result does not depend on the partition either.

mod port;
mod timing;
mod topology;

use serde::{Deserialize, Serialize};
use thiserror::Error;

pub(crate) use port::{Port, PortTiming};
use timing::Timing;
use topology::Routes;

use crate::calendar::{Calendar, FreeTime};
use crate::machine::{NetworkParameters, NetworkTopology};
use crate::time::{ByteTimes, SimTime};

/// Why there can be no such network.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NetworkError {
    /// No nodes.
    #[error("a network needs at least one node")]
    NoNodes,
    /// The nodes do not fit.
    #[error("network.topology has room for {room} nodes, not for {nodes}")]
    TooSmall {
        /// Nodes that fit.
        room: u64,
        /// Nodes asked for.
        nodes: u32,
    },
    /// A torus whose links need more memory than is sensible.
    #[error("network.topology has {room} nodes; a torus of more than {MAX_TORUS} is not modelled")]
    TooLarge {
        /// Nodes that fit.
        room: u64,
    },
}

/// Nodes of the largest torus; its links take 0.3 KiB a node.
const MAX_TORUS: u64 = 1 << 22;

/// What the network knows of a packet. Its order is that of (time, sender, number).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PacketHead {
    /// When its first byte leaves the adapter.
    pub at: SimTime,
    /// When its last byte can leave the adapter.
    pub last: SimTime,
    /// The node that sends it.
    pub from: u32,
    /// Which of the sender's packets it is, counted from its start.
    pub number: u64,
    /// The node that it is for.
    pub to: u32,
    /// Bytes of its payload; headers are part of `g` and `L`.
    pub bytes: u64,
}

/// The state of the network between calls: when its ports and links are taken.
#[derive(Debug, Clone)]
pub struct Network {
    timing: Timing,
    routes: Routes,
    /// Of each node: the sending port.
    injection: Vec<Port>,
    /// Of each node: the receiving port.
    reception: Vec<Calendar>,
    links: Vec<Calendar>,
    /// Room for a route, kept to save an allocation a packet.
    route: Vec<u32>,
}

impl Network {
    /// An idle network of `nodes` nodes.
    pub fn new(parameters: &NetworkParameters, nodes: u32) -> Result<Network, NetworkError> {
        if nodes == 0 {
            return Err(NetworkError::NoNodes);
        }
        if let Some(room) = parameters.topology.room()
            && room < u64::from(nodes)
        {
            return Err(NetworkError::TooSmall { room, nodes });
        }
        if let (NetworkTopology::Torus { .. }, Some(room @ MAX_TORUS..)) =
            (&parameters.topology, parameters.topology.room())
        {
            return Err(NetworkError::TooLarge { room });
        }
        let routes = Routes::new(&parameters.topology, nodes);
        Ok(Network {
            timing: Timing::new(parameters),
            injection: vec![Port::default(); nodes as usize],
            reception: vec![Calendar::default(); nodes as usize],
            links: vec![Calendar::default(); routes.links()],
            routes,
            route: Vec::new(),
        })
    }

    /// The shortest time between a departure and its arrival: the largest quantum that delivers
    /// every packet in time.
    pub fn min_latency(&self) -> SimTime {
        self.timing.min_latency()
    }

    /// Carries packets: sorts `departures` by (time, sender, number), and returns when each
    /// arrives, in this order.
    ///
    /// # Panics
    ///
    /// If a head names a node that there is not.
    pub fn carry(&mut self, departures: &mut [PacketHead]) -> Vec<ByteTimes> {
        departures.sort_unstable_by_key(|head| (head.at, head.from, head.number));
        let floor = departures.first().map_or(SimTime::default(), |d| d.at);
        departures.iter().map(|head| self.carry_one(head, floor)).collect()
    }

    /// Carries one packet. No later call has a packet before `floor`, except for the few
    /// picoseconds by which a node overruns its quantum.
    fn carry_one(&mut self, packet: &PacketHead, floor: SimTime) -> ByteTimes {
        let timing = &self.timing;
        let port = &mut self.injection[packet.from as usize];
        let sent = port.send(packet.at, packet.last, packet.bytes, &timing.port);
        let ByteTimes { first: mut head, last: mut tail } = sent;

        self.routes.find(packet.from, packet.to, &mut self.route);
        let on_link = timing.link_transfer(packet.bytes);
        for link in &self.route {
            let slot = reserve(&mut self.links[*link as usize], head, on_link, floor);
            head = slot.first + timing.hop_latency;
            tail = tail.max(slot.last.since(timing.link_byte)) + timing.hop_latency;
        }

        let port = &mut self.reception[packet.to as usize];
        let slot = reserve(port, head, timing.port.transfer(packet.bytes), floor);
        reserve(port, slot.last, timing.port.gap, floor);
        let last = tail.max(slot.last) + timing.port.latency;
        ByteTimes { first: slot.first + timing.port.latency, last }
    }
}

/// The first free `work` of a link or port from `from` on; what is before `floor` is forgotten.
fn reserve(calendar: &mut Calendar, from: SimTime, work: SimTime, floor: SimTime) -> ByteTimes {
    calendar.forget_before(floor.0);
    let FreeTime { first, done } = calendar.reserve(from.0, work.0, ());
    ByteTimes { first: SimTime(first), last: SimTime(done) }
}

#[cfg(test)]
mod tests;

//! Neighbourhood collectives (MPI 5.0, 8.6 to 8.8): each process exchanges blocks with its
//! neighbours in the topology, all of them at once.
//!
//! Two processes may be neighbours several times (short rings of a grid, repeated edges). Messages
//! between two processes match in order: sends go in the order of the destinations, receives are
//! posted in the order of [`Neighborhood::matching_order`]. Blocks for the process itself are
//! copied, paired by the same rule.

use mica_memory::View;

use super::arguments::{BlockList, BufferArgument};
use super::overlap;
use super::schedule::Schedule;
use mica_objects::constants as c;
use mica_objects::error::Result;

/// The neighbours of one process, in the order of the blocks of neighbourhood collectives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Neighborhood {
    /// The ranks that blocks come from; `MPI_PROC_NULL` where a grid ends.
    pub sources: Vec<i32>,
    /// The ranks that blocks go to.
    pub destinations: Vec<i32>,
    /// Whether sources and destinations are pairs of opposite directions: the block that leaves
    /// through one side of a grid arrives through the other (MPI 5.0, 8.6). It matters where the
    /// same process is on both sides.
    pub opposite: bool,
}

impl Neighborhood {
    /// The indices of the sources, in the order in which their messages match the sends, which are
    /// made in the order of the destinations.
    pub fn matching_order(&self) -> impl Iterator<Item = usize> + '_ {
        let opposite = usize::from(self.opposite);
        (0..self.sources.len()).map(move |i| i ^ opposite)
    }
}

/// `MPI_Neighbor_allgather` and its non-blocking and persistent forms.
///
/// # Errors
/// `MPI_ERR_BUFFER`, `MPI_ERR_COUNT`.
pub fn allgather(
    me: usize,
    around: &Neighborhood,
    send: &BufferArgument,
    receive: &BufferArgument,
) -> Result<Schedule> {
    let views = receive.blocks(around.sources.len())?;
    let views = views.each(around.sources.len())?;
    let send = vec![send.view()?; around.destinations.len()];
    check_apart(around, &send, &views)?;
    Ok(exchange(me, around, &send, &views))
}

/// `MPI_Neighbor_allgatherv` and its other forms.
///
/// # Errors
/// `MPI_ERR_BUFFER`.
pub fn allgatherv(
    me: usize,
    around: &Neighborhood,
    send: &BufferArgument,
    receive: &BlockList,
) -> Result<Schedule> {
    let send = vec![send.view()?; around.destinations.len()];
    check_apart(around, &send, &receive.views)?;
    Ok(exchange(me, around, &send, &receive.views))
}

/// `MPI_Neighbor_alltoall` and its other forms.
///
/// # Errors
/// As [`allgather`].
pub fn alltoall(
    me: usize,
    around: &Neighborhood,
    send: &BufferArgument,
    receive: &BufferArgument,
) -> Result<Schedule> {
    let (to, from) = (around.destinations.len(), around.sources.len());
    let send = send.blocks(to)?.each(to)?;
    let receive = receive.blocks(from)?.each(from)?;
    check_apart(around, &send, &receive)?;
    Ok(exchange(me, around, &send, &receive))
}

/// `MPI_Neighbor_alltoallv`, `MPI_Neighbor_alltoallw` and their other forms.
///
/// # Errors
/// `MPI_ERR_BUFFER`.
pub fn alltoallv(
    me: usize,
    around: &Neighborhood,
    send: &BlockList,
    receive: &BlockList,
) -> Result<Schedule> {
    check_apart(around, &send.views, &receive.views)?;
    Ok(exchange(me, around, &send.views, &receive.views))
}

/// Refuses blocks that share bytes between sending and receiving; blocks of `MPI_PROC_NULL`
/// neighbours are not checked.
fn check_apart(around: &Neighborhood, send: &[View], receive: &[View]) -> Result<()> {
    let used = |ranks: &[i32], views: &[View]| -> Vec<View> {
        let all = ranks.iter().zip(views);
        let used = all.filter(|&(&rank, _)| rank != c::PROC_NULL);
        used.map(|(_, view)| view.clone()).collect()
    };
    overlap::check(&used(&around.destinations, send), &used(&around.sources, receive))
}

/// The schedule of process `me`: `send[i]` goes to the `i`th destination, `receive[i]` comes from
/// the `i`th source.
pub fn exchange(me: usize, around: &Neighborhood, send: &[View], receive: &[View]) -> Schedule {
    let me = me as i32;
    let mut schedule = Schedule::new();
    let round = schedule.round();
    let mut to_myself = Vec::new();
    for (&rank, view) in around.destinations.iter().zip(send) {
        if view.is_empty() || rank == c::PROC_NULL {
            continue;
        }
        if rank == me {
            to_myself.push(view);
        } else {
            round.send(rank as usize, view.clone());
        }
    }
    let mut from_myself = to_myself.into_iter();
    for i in around.matching_order() {
        let (rank, view) = (around.sources[i], &receive[i]);
        if view.is_empty() || rank == c::PROC_NULL {
            continue;
        }
        if rank != me {
            round.receive(rank as usize, view.clone());
        } else if let Some(block) = from_myself.next() {
            round.copy(block.clone(), view.clone());
        }
    }
    schedule
}

#[cfg(test)]
mod tests {
    use super::super::schedule::{RoundTransfer, RoundWork};
    use super::*;
    use mica_memory::{Block, Region, Shape};
    use std::collections::{HashMap, VecDeque};

    /// Blocks of one byte.
    struct Bytes(Region, usize);

    impl Bytes {
        fn new(values: &[u8]) -> Bytes {
            let region = Block::allocate(values.len()).unwrap();
            region.write_bytes(values);
            Bytes(region, values.len())
        }

        fn views(&self) -> Vec<View> {
            let view = |i| self.0.offset(i as isize).view(Shape::Contiguous { bytes: 1 });
            (0..self.1).map(view).collect()
        }

        fn values(&self) -> Vec<u8> {
            let mut values = vec![0; self.1];
            self.0.read_bytes(&mut values);
            values
        }
    }

    /// Runs the schedules of all ranks; block `i` that rank `r` sends has the value `16 * r + i`.
    /// Returns what each rank got.
    fn run(all: &[Neighborhood]) -> Vec<Vec<u8>> {
        let value = |rank: usize, i: usize| (16 * rank + i) as u8;
        let mut wires: HashMap<(usize, usize), VecDeque<View>> = HashMap::new();
        let mut ranks = Vec::new();
        for (rank, around) in all.iter().enumerate() {
            let sent = (0..around.destinations.len()).map(|i| value(rank, i));
            let send = Bytes::new(&sent.collect::<Vec<u8>>());
            let receive = Bytes::new(&vec![0xff; around.sources.len()]);
            let schedule = exchange(rank, around, &send.views(), &receive.views());
            assert_eq!(schedule.rounds.len(), 1);
            for transfer in &schedule.rounds[0].transfers {
                if let RoundTransfer::Send { to, view } = transfer {
                    let wire = wires.entry((rank, *to)).or_default();
                    wire.push_back(view.clone());
                }
            }
            ranks.push((schedule, receive));
        }
        for (rank, (schedule, _)) in ranks.iter().enumerate() {
            for transfer in &schedule.rounds[0].transfers {
                if let RoundTransfer::Receive { from, view } = transfer {
                    let sent = wires.get_mut(&(*from, rank)).and_then(VecDeque::pop_front);
                    view.copy_from(&sent.expect("a message was sent"));
                }
            }
            for local in &schedule.rounds[0].local {
                let RoundWork::Copy { from, to } = local else { panic!("nothing is reduced here") };
                to.copy_from(from);
            }
        }
        assert!(wires.values().all(VecDeque::is_empty));
        ranks.iter().map(|(_, receive)| receive.values()).collect()
    }

    /// The neighbours of a rank of a grid, rows last: for each dimension the one below and the one
    /// above.
    fn around(dims: &[i32], ring: bool, rank: i32) -> Vec<i32> {
        let mut neighbors = Vec::new();
        for (d, &length) in dims.iter().enumerate() {
            let stride: i32 = dims[d + 1..].iter().product();
            let at = rank / stride % length;
            for step in [-1, 1] {
                neighbors.push(match at + step {
                    to if ring => rank + (to.rem_euclid(length) - at) * stride,
                    to if (0..length).contains(&to) => rank + step * stride,
                    _ => c::PROC_NULL,
                });
            }
        }
        neighbors
    }

    #[test]
    fn what_leaves_a_grids_cell_on_one_side_arrives_on_the_other() {
        for dims in [&[1][..], &[2], &[3], &[1, 1], &[2, 2], &[1, 2, 1], &[4, 1], &[2, 1, 3]] {
            for ring in [true, false] {
                let size = dims.iter().product::<i32>();
                let of = |rank| {
                    let around = around(dims, ring, rank);
                    Neighborhood { sources: around.clone(), destinations: around, opposite: true }
                };
                let all: Vec<_> = (0..size).map(of).collect();
                for (rank, got) in run(&all).iter().enumerate() {
                    for (i, &value) in got.iter().enumerate() {
                        let expected = match all[rank].sources[i] {
                            c::PROC_NULL => 0xff,
                            source => 16 * source as u8 + (i ^ 1) as u8,
                        };
                        assert_eq!(value, expected, "{dims:?} {ring}: rank {rank}, block {i}");
                    }
                }
            }
        }
    }

    #[test]
    fn repeated_edges_match_in_order() {
        let around = |sources: &[i32], destinations: &[i32]| Neighborhood {
            sources: sources.to_vec(),
            destinations: destinations.to_vec(),
            opposite: false,
        };
        // Twice to the other, three times to itself; the other lists them in its own order.
        let all = [around(&[0, 1, 0, 0], &[1, 0, 0, 1, 0]), around(&[0, 0], &[0])];
        assert_eq!(run(&all), [vec![1, 16, 2, 4], vec![0, 3]]);
    }
}

//! How jobs on one node avoid each other's processors: advisory reservations that end with the
//! process that holds them.
//!
//! A launcher that binds its ranks holds, for each processor that they are bound to, a Unix socket
//! with an abstract name (`mica-cpu-N`). A launcher whose ranks are not bound holds `mica-float-N`
//! for as many processors as its ranks keep busy, wherever they run: N only shows among which
//! processors they may be. Abstract names are in no file system, are visible to all users, and
//! disappear with the process that holds them, however it ends.
//!
//! A name can be bound by one socket at a time, so of two launchers that want the same processor at
//! the same time, one gets it and the other checks again. To check, a launcher connects to the
//! name, which reserves nothing.
//!
//! Limitations: processes that Mica did not start, and launchers in another network namespace
//! (abstract names belong to one), are not seen. So containers that share processors see each other
//! only if they share the network.
//!
//! Reservations are advisory. If the system refuses these sockets, the job assumes that it is
//! alone.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use super::CpuSet;

/// The reservations of other launchers among some processors.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Occupied {
    /// Processors that ranks are bound to.
    pub bound: CpuSet,
    /// As many processors as unbound ranks keep busy.
    pub floating: CpuSet,
}

/// The names that this process holds. Dropping this releases them.
#[derive(Debug, Default)]
pub struct Reservation {
    _held: Vec<UnixDatagram>,
}

/// The kind of a reservation.
#[derive(Debug, Clone, Copy)]
enum ReservedUse {
    Bound,
    Floating,
}

fn address(used: ReservedUse, cpu: u32) -> io::Result<SocketAddr> {
    let word = match used {
        ReservedUse::Bound => "cpu",
        ReservedUse::Floating => "float",
    };
    SocketAddr::from_abstract_name(format!("mica-{word}-{cpu}"))
}

/// The reservations of other launchers among `cpus`.
///
/// # Errors
/// When the system refuses such sockets.
pub fn occupied(cpus: &CpuSet) -> io::Result<Occupied> {
    let socket = UnixDatagram::unbound()?;
    let held = |used| {
        let is_held = |&cpu: &u32| {
            let address = address(used, cpu);
            address.is_ok_and(|address| socket.connect_addr(&address).is_ok())
        };
        CpuSet::from_cpus(cpus.iter().filter(is_held))
    };
    Ok(Occupied { bound: held(ReservedUse::Bound), floating: held(ReservedUse::Floating) })
}

impl Reservation {
    /// Reserves all of `cpus` for ranks that are bound to them; `None` if another launcher holds
    /// one of them.
    ///
    /// # Errors
    /// When the system refuses such sockets.
    pub fn bound(cpus: &CpuSet) -> io::Result<Option<Reservation>> {
        let mut held = Vec::new();
        for cpu in cpus.iter() {
            match UnixDatagram::bind_addr(&address(ReservedUse::Bound, cpu)?) {
                Ok(socket) => held.push(socket),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(Some(Reservation { _held: held }))
    }

    /// Announces that unbound ranks keep `count` of `cpus` busy; fewer if others have announced the
    /// rest.
    pub fn floating(cpus: &CpuSet, count: usize) -> Reservation {
        let names = cpus.iter().filter_map(|cpu| address(ReservedUse::Floating, cpu).ok());
        let held = names.filter_map(|name| UnixDatagram::bind_addr(&name).ok());
        Reservation { _held: held.take(count).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Processors that no machine has, a different range for each test, so that jobs that run at
    /// the same time do not interfere.
    fn cpus(first: u32) -> CpuSet {
        let base = 100_000 + std::process::id() % 100_000 * 8;
        CpuSet::from_cpus((0..4).map(|cpu| base + first + cpu))
    }

    fn some(cpus: &CpuSet, count: usize) -> CpuSet {
        CpuSet::from_cpus(cpus.iter().take(count))
    }

    #[test]
    fn a_processor_is_reserved_once_and_free_after_the_drop() {
        let all = cpus(0);
        let two = some(&all, 2);
        let first = Reservation::bound(&two).unwrap().expect("free");
        assert_eq!(occupied(&all).unwrap().bound, two);
        assert!(Reservation::bound(&all).unwrap().is_none());
        // The refused reservation has released what it had got before.
        assert_eq!(occupied(&all).unwrap().bound, two);
        drop(first);
        assert_eq!(occupied(&all).unwrap(), Occupied::default());
        assert!(Reservation::bound(&all).unwrap().is_some());
    }

    #[test]
    fn floating_ranks_are_counted_together() {
        let all = cpus(4);
        let first = Reservation::floating(&all, 1);
        let second = Reservation::floating(&all, 2);
        assert_eq!(occupied(&all).unwrap().floating.len(), 3);
        drop(first);
        let third = Reservation::floating(&all, 100);
        assert_eq!(occupied(&all).unwrap().floating.len(), 4);
        assert!(occupied(&all).unwrap().bound.is_empty());
        drop((second, third));
        assert!(occupied(&all).unwrap().floating.is_empty());
    }
}

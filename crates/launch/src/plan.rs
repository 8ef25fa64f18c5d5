//! What each rank gets: its program, its environment, its place.

use std::ffi::OsString;
use std::fmt::Write as _;

use mica_node::topology::{BindTo, Machine, Slot, TopologyError, available_cores, can_bind, map};

use crate::options::Section;
use crate::wire::NodeJob;

/// A node's part of the job, rank by rank.
#[derive(Debug)]
pub struct Plan<'a> {
    /// The ranks on this node in order.
    pub ranks: Vec<RankPlan<'a>>,
    /// How many of them can run at the same time.
    pub available_cores: usize,
    /// Whether the slots' processors are those of a synthetic topology.
    synthetic: bool,
    /// Why ranks that could be bound are not.
    pub unbound: Option<String>,
}

/// One rank's part.
#[derive(Debug)]
pub struct RankPlan<'a> {
    /// Its number in the job.
    pub rank: u32,
    /// Its program.
    pub section: &'a Section,
    /// The section's number (MPI_APPNUM).
    pub section_number: u32,
    /// Its place and binding.
    pub slot: Slot,
}

impl<'a> Plan<'a> {
    /// Places the ranks on this machine.
    pub fn new(job: &'a NodeJob) -> Result<Plan<'a>, TopologyError> {
        Ok(Plan::on(&Machine::load()?, job))
    }

    fn on(machine: &Machine, job: &'a NodeJob) -> Plan<'a> {
        // Virtual nodes share the machine: each takes its part of what all their ranks get.
        let (count, first) = (job.machine_ranks as usize, job.machine_first as usize);
        // A CPU quota below the number of cores counts too: bound ranks could not all run.
        let cores = match machine.is_synthetic() {
            true => machine.cores(),
            false => machine.cores().min(available_cores()),
        };
        let bind = job
            .bind
            .unwrap_or_else(|| BindTo::recommended(count, cores));
        let unbound = refusal(machine, bind);
        let bind = if unbound.is_some() {
            BindTo::None
        } else {
            bind
        };
        let mut slots = map(machine, count, job.map, bind);
        if machine.is_synthetic() {
            // The processors are not this machine's.
            slots.iter_mut().for_each(|slot| slot.cpus = None);
        }
        let here = job.members.iter().zip(&job.section_of);
        let ranks = here
            .zip(slots.into_iter().skip(first))
            .map(|((&rank, &number), slot)| RankPlan {
                rank,
                section: &job.sections[number as usize],
                section_number: number,
                slot,
            });
        let ranks: Vec<RankPlan<'_>> = ranks.collect();
        let share = available_cores() * ranks.len() / count.max(1);
        Plan {
            ranks,
            available_cores: share.max(1),
            synthetic: machine.is_synthetic(),
            unbound,
        }
    }

    /// The plan in words, a line per rank.
    pub fn describe(&self) -> String {
        let mut text = format!(
            "mpiexec: {} ranks, {} cores available{}\n",
            self.ranks.len(),
            self.available_cores,
            if self.synthetic {
                ", synthetic topology"
            } else {
                ""
            }
        );
        for plan in &self.ranks {
            let (rank, place) = (plan.rank, plan.slot.place);
            let binding = match &plan.slot.cpus {
                Some(cpus) => format!("bound to processors {cpus}"),
                None => "not bound".to_owned(),
            };
            let _ = write!(text, "mpiexec: rank {rank}: {binding}");
            for (name, index) in [
                ("core", place.core),
                ("shared cache", place.shared_cache),
                ("package", place.package),
                ("numa", place.numa),
            ] {
                if index != mica_node::topology::UNKNOWN {
                    let _ = write!(text, ", {name} {index}");
                }
            }
            let _ = writeln!(text, ": {}", command_line(&plan.section.command));
        }
        text
    }
}

/// Why the kernel does not let ranks be bound, if they are to be.
fn refusal(machine: &Machine, bind: BindTo) -> Option<String> {
    let (call, error) = match machine.refusal() {
        Some(error) => ("sched_getaffinity", error.to_string()),
        None if bind == BindTo::None || machine.is_synthetic() => return None,
        None => ("sched_setaffinity", can_bind().err()?.to_string()),
    };
    Some(format!(
        "mpiexec: ranks are not bound to cores: the kernel refuses {call} ({error}); a container's seccomp profile does that\n"
    ))
}

/// A command as one would type it.
pub fn command_line(command: &[OsString]) -> String {
    let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Request, parse};

    fn options(line: &str) -> NodeJob {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        match parse(&words).unwrap() {
            Request::Run(options) => NodeJob::all_here(&options),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn virtual_nodes_share_the_machine() {
        let machine = Machine::synthetic("pack:2 l3:1 core:2 pu:1").unwrap();
        let mut job = options("-n 4 a");
        job.members = vec![2, 3];
        job.section_of = vec![0, 0];
        job.machine_first = 2;
        let plan = Plan::on(&machine, &job);
        let cores: Vec<(u32, u32)> = plan
            .ranks
            .iter()
            .map(|r| (r.rank, r.slot.place.core))
            .collect();
        assert_eq!(cores, [(2, 2), (3, 3)]);
        assert_eq!(plan.available_cores, (available_cores() / 2).max(1));
    }

    #[test]
    fn ranks_of_sections_in_order() {
        let machine = Machine::synthetic("pack:2 l3:1 core:4 pu:1").unwrap();
        let options = options("-n 2 a : -n 1 b : -n 3 c");
        let plan = Plan::on(&machine, &options);
        let numbers: Vec<u32> = plan.ranks.iter().map(|r| r.section_number).collect();
        assert_eq!(numbers, [0, 0, 1, 2, 2, 2]);
        assert_eq!(plan.ranks[2].section.command, ["b"]);
        let cores: Vec<u32> = plan.ranks.iter().map(|r| r.slot.place.core).collect();
        assert_eq!(cores, [0, 1, 2, 3, 4, 5]);
        assert!(
            plan.ranks.iter().all(|r| r.slot.cpus.is_none()),
            "not this machine's processors"
        );
    }

    #[test]
    fn more_ranks_than_cores_are_not_bound() {
        let machine = Machine::synthetic("pack:2 l3:1 core:2 pu:1").unwrap();
        let options = options("-n 5 a");
        let plan = Plan::on(&machine, &options);
        assert!(
            plan.ranks
                .iter()
                .all(|r| r.slot.place.core == mica_node::topology::UNKNOWN)
        );
        assert!(plan.describe().contains("rank 4: not bound"));
    }

    #[test]
    fn the_description_names_places() {
        let machine = Machine::synthetic("pack:2 l3:1 core:2 pu:1").unwrap();
        let options = options("-n 2 --map-by package a b");
        let text = Plan::on(&machine, &options).describe();
        assert!(
            text.contains("rank 1: not bound, core 2, shared cache 1, package 1"),
            "{text}"
        );
        assert!(text.contains(": a b"), "{text}");
    }
}

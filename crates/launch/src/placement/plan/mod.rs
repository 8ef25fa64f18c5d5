//! What each rank gets: its program, its environment, its processors.
//!
//! Ranks are bound to cores if the user asks for nothing else and the launcher can be sure that
//! this job has the cores: there are enough of them, no other job on this node has reserved them
//! ([`mica_node::topology::Reservation`]), and there is no CPU quota, which gives time on all
//! processors and reserves none. Otherwise no rank is bound, and the operating system balances the
//! load.

use std::fmt::Write as _;

use mica_node::topology::{
    BindTo, CpuSet, Machine, MapRequest, Occupied, RankSlot, Reservation, TopologyError, Unit,
    available_cores, can_bind, cpu_quota, map_user, map_wide, occupied,
};

use crate::options::ProgramSection;
use crate::options::values::binding::Bind;
use crate::options::values::shell_words::command_line;
use crate::placement::node_job::NodeJob;
use crate::placement::profiled;
use crate::placement::widths::CoreGrant;

/// Attempts to reserve processors, if other launchers reserve the chosen ones first.
const ATTEMPTS: usize = 8;

/// A node's part of the job, rank by rank.
#[derive(Debug)]
pub struct NodePlan<'a> {
    /// The ranks on this node in order.
    pub ranks: Vec<RankPlan<'a>>,
    /// How many of them can run at the same time.
    pub available_cores: usize,
    /// Whether the slots' processors are those of a synthetic topology.
    synthetic: bool,
    /// Why ranks are not bound, if they are not bound.
    unbound: Option<String>,
    /// A message to the user is needed because they are not bound: the command line said how many
    /// cores each has, or the kernel refuses to bind them.
    is_refusal: bool,
    /// Keeps other jobs off the processors while the plan is in force.
    reservation: Reservation,
}

/// One rank's part.
#[derive(Debug)]
pub struct RankPlan<'a> {
    /// Its number in the job.
    pub rank: u32,
    pub section: &'a ProgramSection,
    /// The section's number (MPI_APPNUM).
    pub section_number: u32,
    /// Its place and binding.
    pub slot: RankSlot,
    /// Processors of a synthetic machine to which the rank would be bound.
    described: Option<CpuSet>,
}

/// The ranks cannot be placed.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The machine's topology is not known.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// The user binds ranks to a processor that does not exist or may not be used.
    #[error("-bind-to user: this job may not use processor {0}; it may use {1}")]
    Processor(u32, CpuSet),
}

/// The present state of the machine.
#[derive(Debug, Default)]
struct Circumstances {
    occupied: Occupied,
    /// CPU time that a quota allows, in processors, if it is limited.
    quota: Option<f64>,
}

/// Places for all of the job's ranks on this machine.
struct RankPlacement {
    slots: Vec<RankSlot>,
    /// Why they are not bound.
    unbound: Option<String>,
    /// Number of processors that they keep busy.
    need: usize,
}

impl RankPlacement {
    fn unbound(machine: &Machine, job: &NodeJob, need: usize, why: String) -> RankPlacement {
        let widths = vec![1; job.cores.machine_ranks as usize];
        RankPlacement {
            slots: map_wide(machine, &request(BindTo::None, job, &widths, None)),
            unbound: Some(why),
            need,
        }
    }

    /// All processors that ranks are bound to.
    fn processors(&self) -> CpuSet {
        let sets = self.slots.iter().filter_map(|slot| slot.cpus.as_ref());
        CpuSet::from_cpus(sets.flat_map(CpuSet::iter))
    }
}

fn request<'a>(
    bind: BindTo,
    job: &NodeJob,
    widths: &'a [usize],
    within: Option<&'a CpuSet>,
) -> MapRequest<'a> {
    MapRequest {
        by: job.cores.binding.map.unwrap_or(bind.usual_order()),
        bind,
        widths,
        objects: job.cores.binding.objects.unwrap_or(1),
        within,
    }
}

impl<'a> NodePlan<'a> {
    /// Places the ranks on this machine, and reserves the processors that they are bound to.
    pub fn new(job: &'a NodeJob) -> Result<NodePlan<'a>, PlanError> {
        let machine = Machine::load()?;
        if machine.is_synthetic() {
            let decision = decide(&machine, job, &Circumstances::default())?;
            return Ok(NodePlan::of(&machine, job, decision, Reservation::default()));
        }
        if let Some(grant) = &job.cores.grant {
            let decision = granted(&machine, job, grant)?;
            return Ok(NodePlan::of(&machine, job, decision, Reservation::default()));
        }
        let (decision, reservation) = reserve(&machine, job)?;
        Ok(NodePlan::of(&machine, job, decision, reservation))
    }

    fn of(
        machine: &Machine,
        job: &'a NodeJob,
        decision: RankPlacement,
        reservation: Reservation,
    ) -> NodePlan<'a> {
        let refused = refusal(machine, &decision);
        let is_refused = refused.is_some();
        let decision = match refused {
            Some(why) => RankPlacement::unbound(machine, job, decision.need, why),
            None => decision,
        };
        // Virtual nodes share the machine: each takes its part of the places for all their ranks.
        let (count, first) = (job.cores.machine_ranks as usize, job.cores.machine_first as usize);
        let first = if job.cores.grant.is_some() { 0 } else { first };
        let here = job.members.iter().zip(&job.programs.section_of);
        let slots = decision.slots.into_iter().skip(first).take(job.members.len()).collect();
        let slots = profiled::arrange(&job.cores.traffic, slots);
        let ranks = here.zip(slots).map(|((&rank, &number), mut slot)| {
            // The processors of a synthetic machine do not exist on this one.
            let described = machine.is_synthetic().then(|| slot.cpus.take()).flatten();
            RankPlan {
                rank,
                section: &job.programs.sections[number as usize],
                section_number: number,
                slot,
                described,
            }
        });
        let ranks: Vec<RankPlan<'_>> = ranks.collect();
        let share = available_cores() * ranks.len() / count.max(1);
        NodePlan {
            ranks,
            available_cores: share.max(1),
            synthetic: machine.is_synthetic(),
            is_refusal: is_refused
                || decision.unbound.is_some()
                    && (job.cores.widths.asked || job.is_placed_here_by_traffic())
                    && job.cores.binding.bind.is_none(),
            unbound: decision.unbound,
            reservation,
        }
    }

    /// What the controller grants, of this plan, to the agent of a node on this machine: the places
    /// of these ranks.
    pub fn grant(&self, part: std::ops::Range<usize>) -> CoreGrant {
        if let Some(why) = &self.unbound {
            return CoreGrant::Unbound(why.clone());
        }
        let cpus = self.ranks[part].iter().map(|rank| rank.slot.cpus.as_ref());
        let lists = cpus.map(|cpus| cpus.map(ToString::to_string).unwrap_or_default());
        CoreGrant::Bound(lists.collect())
    }

    /// The reservation, which keeps other jobs off the processors.
    pub fn into_reservation(self) -> Reservation {
        self.reservation
    }

    /// The plan in words, a line per rank, with the programs.
    pub fn describe(&self) -> String {
        self.lines(true)
    }

    /// The message about bindings without `-v`: all bindings, if the user asked for them, or that
    /// ranks could not be bound.
    pub fn notice(&self, job: &NodeJob) -> String {
        match (&self.unbound, job.reports.report_bindings && !job.reports.verbose) {
            (_, true) => self.lines(false),
            (Some(why), false) if self.is_refusal => {
                format!("mpiexec: ranks are not bound: {why}\n")
            }
            _ => String::new(),
        }
    }

    fn lines(&self, programs: bool) -> String {
        let mut text = format!(
            "mpiexec: {} ranks, {} cores available{}",
            self.ranks.len(),
            self.available_cores,
            if self.synthetic { ", synthetic topology" } else { "" }
        );
        if let Some(why) = &self.unbound {
            let _ = write!(text, "; ranks are not bound: {why}");
        }
        text.push('\n');
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
            if let Some(cpus) = &plan.described {
                let _ = write!(text, " (processors {cpus} of the synthetic machine)");
            }
            match programs {
                true => _ = writeln!(text, ": {}", command_line(&plan.section.command)),
                false => text.push('\n'),
            }
        }
        text
    }
}

/// Why the kernel refuses to bind ranks, if `placement` binds them.
fn refusal(machine: &Machine, placement: &RankPlacement) -> Option<String> {
    let (call, error) = match machine.refusal() {
        Some(error) => ("sched_getaffinity", error.to_string()),
        None if placement.unbound.is_some() || machine.is_synthetic() => return None,
        None => ("sched_setaffinity", can_bind().err()?.to_string()),
    };
    Some(format!("the kernel refuses {call} ({error}); a container's seccomp profile does that"))
}

/// Decides on the placement, and reserves its processors for as long as the reservation lives.
fn reserve(machine: &Machine, job: &NodeJob) -> Result<(RankPlacement, Reservation), PlanError> {
    let all = CpuSet::from_cpus(machine.units().iter().map(|unit| unit.os_index));
    let shared = job.cores.machine_ranks as usize > job.members.len();
    for attempt in 1..=ATTEMPTS {
        let circumstances = Circumstances {
            // Several nodes on a machine that is not the controller's: each plans for all of them,
            // and all must reach the same result.
            occupied: if shared { Occupied::default() } else { occupied(&all).unwrap_or_default() },
            quota: cpu_quota(),
        };
        let decision = decide(machine, job, &circumstances)?;
        if shared {
            return Ok((decision, Reservation::default()));
        }
        let wanted = decision.processors();
        let is_exact = wanted.len() <= threads_of(machine, decision.need);
        if decision.unbound.is_some() || !is_exact {
            let among = if wanted.is_empty() { &all } else { &wanted };
            let firsts = first_threads(machine, among);
            let reservation = Reservation::floating(&firsts, decision.need);
            return Ok((decision, reservation));
        }
        // Another job may already have reserved what the user insists on.
        let free = wanted.without(&circumstances.occupied.bound);
        match Reservation::bound(&free) {
            Ok(Some(reservation)) => return Ok((decision, reservation)),
            Ok(None) if attempt < ATTEMPTS => {}
            Ok(None) if job.cores.binding.bind.is_none() => {
                let why = "other jobs of this node started at the same time".to_owned();
                let decision = RankPlacement::unbound(machine, job, decision.need, why);
                return Ok((decision, Reservation::default()));
            }
            Ok(None) | Err(_) => return Ok((decision, Reservation::default())),
        }
    }
    unreachable!("the last attempt decides")
}

/// The number of processing units in this number of cores.
fn threads_of(machine: &Machine, cores: usize) -> usize {
    cores * machine.units().len().div_ceil(machine.cores().max(1))
}

/// The first processing unit in `among` of each core that has one there.
fn first_threads(machine: &Machine, among: &CpuSet) -> CpuSet {
    let cores = cores(machine);
    let units = cores.iter().filter_map(|core| {
        let mut inside = core.iter().filter(|unit| among.contains(unit.os_index));
        inside.next()
    });
    CpuSet::from_cpus(units.map(|unit| unit.os_index))
}

fn cores(machine: &Machine) -> Vec<&[Unit]> {
    machine.units().chunk_by(|a, b| a.place.core == b.place.core).collect()
}

/// The placement that the controller has decided.
fn granted(
    machine: &Machine,
    job: &NodeJob,
    grant: &CoreGrant,
) -> Result<RankPlacement, PlanError> {
    match grant {
        CoreGrant::Unbound(why) => Ok(RankPlacement::unbound(machine, job, 0, why.clone())),
        CoreGrant::Bound(lists) => {
            let sets = lists.iter().map(|list| CpuSet::from_list(list));
            let sets: Option<Vec<CpuSet>> = sets.collect();
            bound_by_user(machine, job.members.len(), &sets.unwrap_or_default())
        }
    }
}

fn bound_by_user(
    machine: &Machine,
    ranks: usize,
    sets: &[CpuSet],
) -> Result<RankPlacement, PlanError> {
    let slots = map_user(machine, ranks, sets).map_err(|cpu| {
        let units = machine.units().iter().map(|unit| unit.os_index);
        PlanError::Processor(cpu, CpuSet::from_cpus(units))
    })?;
    Ok(RankPlacement { slots, unbound: None, need: ranks })
}

/// Decides on places for all of the job's ranks on this machine.
fn decide(
    machine: &Machine,
    job: &NodeJob,
    circumstances: &Circumstances,
) -> Result<RankPlacement, PlanError> {
    let count = job.cores.machine_ranks as usize;
    let widths = |by_section: &[usize]| {
        let mut widths: Vec<usize> = Vec::with_capacity(count);
        let most = by_section.iter().copied().max().unwrap_or(1);
        let own = job.programs.section_of.iter().map(|&number| by_section[number as usize]);
        match job.members.len() == count {
            true => widths.extend(own),
            false => widths.resize(count, most),
        }
        widths
    };
    let (required, preferred) =
        (widths(&job.cores.widths.required), widths(&job.cores.widths.preferred));
    let need: usize = required.iter().sum();
    let bound = |bind: BindTo, widths: &[usize], free: Option<&CpuSet>| RankPlacement {
        slots: map_wide(machine, &request(bind, job, widths, free)),
        unbound: None,
        need: widths.iter().sum(),
    };
    let free = free_processors(machine, &circumstances.occupied);
    let free_cores = first_threads(machine, &free).len();
    match &job.cores.binding.bind {
        Some(Bind::User(sets)) => return bound_by_user(machine, count, sets),
        Some(Bind::To(BindTo::None)) => {
            return Ok(RankPlacement::unbound(machine, job, need, "-bind-to none".to_owned()));
        }
        Some(Bind::To(bind)) => {
            let room = match bind {
                BindTo::HwThread => free.len(),
                _ => free_cores,
            };
            let free = (need <= room).then_some(&free);
            return Ok(bound(*bind, &required, free));
        }
        None => {}
    }
    let cores = machine.cores();
    if let Some(quota) = circumstances.quota.filter(|&quota| quota < cores as f64) {
        let why = format!(
            "a CPU quota of {quota:.1} processors gives time on all {cores} cores, and none of them"
        );
        return Ok(RankPlacement::unbound(machine, job, need, why));
    }
    let room = free_cores.saturating_sub(circumstances.occupied.floating.len());
    for widths in [&preferred, &required] {
        let fits = |widths: &[usize]| widths.iter().sum::<usize>() <= room;
        if fits(widths) {
            return Ok(bound(BindTo::Core, widths, Some(&free)));
        }
        // With one hardware thread for each thread of a rank, the cores may suffice.
        let threads = machine.units().len() / cores.max(1);
        let narrow: Vec<usize> = widths.iter().map(|w| w.div_ceil(threads.max(1))).collect();
        if fits(&narrow) {
            return Ok(bound(BindTo::Core, &narrow, Some(&free)));
        }
    }
    let wanted = match need == count {
        true => format!("{count} ranks want a core each"),
        false => format!("{count} ranks want {need} cores together"),
    };
    let why = match need > cores {
        true => format!("{wanted}, there are {cores}"),
        false => format!("{wanted}, {room} of {cores} are not in use by other jobs"),
    };
    Ok(RankPlacement::unbound(machine, job, need, why))
}

/// The processing units of cores of which no other job has reserved any part.
fn free_processors(machine: &Machine, occupied: &Occupied) -> CpuSet {
    let cores = cores(machine).into_iter();
    let free = cores.filter(|core| !core.iter().any(|unit| occupied.bound.contains(unit.os_index)));
    CpuSet::from_cpus(free.flatten().map(|unit| unit.os_index))
}

#[cfg(test)]
mod tests;

use super::*;
use crate::options::tests::job;

fn options(line: &str) -> NodeJob {
    NodeJob::all_here(&job(line))
}

fn on<'a>(machine: &Machine, job: &'a NodeJob) -> NodePlan<'a> {
    with(machine, job, &Circumstances::default())
}

fn with<'a>(machine: &Machine, job: &'a NodeJob, now: &Circumstances) -> NodePlan<'a> {
    NodePlan::of(machine, job, decide(machine, job, now).unwrap(), Reservation::default())
}

/// Processors of each rank, or why the ranks are not bound.
fn placed(machine: &str, line: &str, now: &Circumstances) -> String {
    let job = options(line);
    let machine = Machine::synthetic(machine).unwrap();
    let plan = with(&machine, &job, now);
    match &plan.unbound {
        Some(why) => why.clone(),
        None => {
            let sets = plan.ranks.iter().map(|rank| rank.described.as_ref().unwrap());
            sets.map(ToString::to_string).collect::<Vec<_>>().join(" ")
        }
    }
}

#[test]
fn virtual_nodes_share_the_machine() {
    let machine = Machine::synthetic("pack:2 l3:1 core:2 pu:1").unwrap();
    let mut job = options("-n 4 a");
    job.members = vec![2, 3];
    job.programs.section_of = vec![0, 0];
    job.cores.machine_first = 2;
    let plan = on(&machine, &job);
    let cores: Vec<(u32, u32)> = plan.ranks.iter().map(|r| (r.rank, r.slot.place.core)).collect();
    assert_eq!(cores, [(2, 2), (3, 3)]);
    assert_eq!(plan.available_cores, (available_cores() / 2).max(1));
}

#[test]
fn ranks_of_sections_in_order() {
    let machine = Machine::synthetic("pack:2 l3:1 core:4 pu:1").unwrap();
    let options = options("-n 2 a : -n 1 b : -n 3 c");
    let plan = on(&machine, &options);
    assert_eq!(plan.ranks.iter().map(|r| r.section_number).collect::<Vec<_>>(), [0, 0, 1, 2, 2, 2]);
    assert_eq!(plan.ranks[2].section.command, ["b"]);
    let cores: Vec<u32> = plan.ranks.iter().map(|r| r.slot.place.core).collect();
    assert_eq!(cores, [0, 1, 2, 3, 4, 5]);
    assert!(plan.ranks.iter().all(|r| r.slot.cpus.is_none()), "not this machine's processors");
}

#[test]
fn more_ranks_than_cores_are_not_bound() {
    let machine = Machine::synthetic("pack:2 l3:1 core:2 pu:1").unwrap();
    let options = options("-n 5 a");
    let plan = on(&machine, &options);
    assert!(plan.ranks.iter().all(|r| r.slot.place.core == mica_node::topology::UNKNOWN));
    assert!(plan.describe().contains("rank 4: not bound"));
}

#[test]
fn the_description_names_places() {
    let machine = Machine::synthetic("pack:2 l3:1 core:2 pu:1").unwrap();
    let options = options("-n 2 --map-by package a b");
    let text = on(&machine, &options).describe();
    assert!(text.contains("rank 1: not bound, core 2, shared cache 1, package 1"), "{text}");
    assert!(text.contains(": a b"), "{text}");
}

#[test]
fn ranks_with_threads_have_as_many_cores() {
    let now = Circumstances::default();
    let machine = "pack:2 l3:1 core:4 pu:1";
    let placed = |line: &str| placed(machine, line, &now);
    assert_eq!(placed("-n 2 a"), "0 1");
    assert_eq!(placed("-n 2 -genv OMP_NUM_THREADS 3 a"), "0-2 4-6");
    assert_eq!(placed("-n 2 -env OMP_NUM_THREADS 2,4 a : -n 3 b"), "0-1 2-3 4 5 6");
    assert_eq!(placed("-n 2 --cpus-per-rank 4 a"), "0-3 4-7");
    assert_eq!(placed("-n 2 -map-by slot:PE=2 a"), "0-1 2-3");
    assert_eq!(placed("-n 2 -map-by socket:PE=2 a"), "0-1 4-5");
    assert_eq!(placed("-n 2 -bind-to core:3 a"), "0-2 4-6");
    // The command line takes precedence over OMP_NUM_THREADS.
    assert_eq!(placed("-n 2 -x OMP_NUM_THREADS=4 --cpus-per-rank 1 a"), "0 1");
    assert_eq!(placed("-n 2 -x OMP_NUM_THREADS=many a"), "0 1");
    let why = placed("-n 2 -x OMP_NUM_THREADS=8 a");
    assert_eq!(why, "2 ranks want 16 cores together, there are 8");
    // Slurm's number counts if there is room.
    assert_eq!(placed("-n 2 -x SLURM_CPUS_PER_TASK=4 a"), "0-3 4-7");
    assert_eq!(placed("-n 4 -x SLURM_CPUS_PER_TASK=4 a"), "0 1 2 3");
}

#[test]
fn threads_of_a_rank_may_share_cores_that_have_several() {
    let now = Circumstances::default();
    let placed = |line: &str| placed("pack:1 core:4 pu:2", line, &now);
    assert_eq!(placed("-n 2 -x OMP_NUM_THREADS=2 a"), "0-3 4-7");
    assert_eq!(placed("-n 2 -x OMP_NUM_THREADS=4 a"), "0-3 4-7");
    assert!(placed("-n 2 -x OMP_NUM_THREADS=5 a").contains("want 10 cores"));
}

#[test]
fn parts_of_the_machine() {
    let now = Circumstances::default();
    let placed = |line: &str| placed("pack:2 l3:2 core:2 pu:2", line, &now);
    assert_eq!(placed("-n 2 -bind-to socket a"), "0-7 8-15");
    assert_eq!(placed("-n 2 -bind-to l3 a"), "0-3 4-7");
    assert_eq!(placed("-n 2 -bind-to l3 -map-by core a"), "0-3 0-3");
    assert_eq!(placed("-n 3 -bind-to hwthread a"), "0 2 4");
    assert_eq!(placed("-n 3 -bind-to hwthread -map-by hwthread a"), "0 1 2");
    assert_eq!(placed("-n 3 -bind-to user:0+2,5 a"), "0,2 5 0,2");
    assert_eq!(placed("-n 1 -bind-to none a"), "-bind-to none");
}

#[test]
fn a_processor_that_is_not_there() {
    let machine = Machine::synthetic("pack:1 core:2 pu:1").unwrap();
    let job = options("-bind-to user:7 a");
    let error = decide(&machine, &job, &Circumstances::default()).err().unwrap().to_string();
    assert!(error.contains("processor 7; it may use 0-1"), "{error}");
}

#[test]
fn processors_of_other_jobs_are_left_alone() {
    let mut now = Circumstances::default();
    now.occupied.bound = CpuSet::from_cpus([0, 3]);
    let machine = "pack:1 core:4 pu:2";
    // Processors 0 and 3 are threads of the first two cores.
    assert_eq!(placed(machine, "-n 1 a", &now), "4-5");
    assert_eq!(placed(machine, "-n 2 a", &now), "4-5 6-7");
    let why = placed(machine, "-n 3 a", &now);
    assert_eq!(why, "3 ranks want a core each, 2 of 4 are not in use by other jobs");
    // An explicit -bind-to gets cores that are not free.
    assert_eq!(placed(machine, "-n 3 -bind-to core a", &now), "0-1 2-3 4-5");
    assert_eq!(placed(machine, "-n 2 -bind-to core a", &now), "4-5 6-7");
    now.occupied.floating = CpuSet::from_cpus([4]);
    assert!(placed(machine, "-n 2 a", &now).contains("1 of 4"));
    assert_eq!(placed(machine, "-n 1 a", &now), "4-5");
}

#[test]
fn a_quota_is_no_processor() {
    let quota = |quota| Circumstances { quota: Some(quota), ..Circumstances::default() };
    let machine = "pack:1 core:4 pu:1";
    assert!(placed(machine, "-n 1 a", &quota(2.0)).contains("quota of 2.0"));
    assert_eq!(placed(machine, "-n 1 -bind-to core a", &quota(2.0)), "0");
    assert_eq!(placed(machine, "-n 1 a", &quota(4.0)), "0");
}

#[test]
fn what_was_asked_for_and_cannot_be_had_is_said() {
    let machine = Machine::synthetic("pack:1 core:2 pu:1").unwrap();
    let notice = |line: &str| {
        let job = options(line);
        on(&machine, &job).notice(&job)
    };
    assert_eq!(notice("-n 4 a"), "");
    let refusal = notice("-n 2 --cpus-per-rank 2 a");
    assert!(refusal.contains("not bound: 2 ranks want 4 cores"), "{refusal}");
    let report = notice("-n 2 --report-bindings a");
    assert!(report.contains("rank 1: not bound, core 1"), "{report}");
    assert!(report.contains("(processors 1 of the synthetic machine)"), "{report}");
}

#[test]
fn a_head_plans_for_nodes_on_its_machine() {
    let machine = Machine::synthetic("pack:1 core:4 pu:1").unwrap();
    let whole = options("-n 4 a");
    let mut part = options("-n 4 a");
    part.members = vec![2, 3];
    part.programs.section_of = vec![0, 0];
    part.cores.machine_first = 2;
    part.cores.grant = Some(CoreGrant::Bound(vec!["1".to_owned(), "3".to_owned()]));
    let decision = granted(&machine, &part, part.cores.grant.as_ref().unwrap()).unwrap();
    let plan = NodePlan::of(&machine, &part, decision, Reservation::default());
    assert_eq!(plan.ranks.iter().map(|r| r.slot.place.core).collect::<Vec<_>>(), [1, 3]);
    let crowded = Circumstances { quota: Some(1.0), ..Circumstances::default() };
    assert!(matches!(with(&machine, &whole, &crowded).grant(0..2), CoreGrant::Unbound(_)));
}

#[test]
fn two_plans_at_once_share_no_processor() {
    let machine = Machine::load().unwrap();
    let job = options("-n 1 a");
    let first = reserve(&machine, &job).unwrap();
    let second = reserve(&machine, &job).unwrap();
    let (a, b) = (first.0.processors(), second.0.processors());
    assert_eq!(a.without(&b), a, "{a} and {b}");
    assert!(b.is_empty() == second.0.unbound.is_some());
}

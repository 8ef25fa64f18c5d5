use super::*;

fn x4600() -> ChipMachine {
    ChipMachine::named("x4600").expect("shipped")
}

fn allreduce() -> RecordedSchedule {
    RecordedSchedule::shipped("allreduce-16384").expect("shipped")
}

/// One call in which rank `r` does the steps at `r`; on the X4600 with 32 ranks, 28 to 31 are on
/// chip 0, 0 to 3 on chip 1.
fn one_call(steps: &[(usize, &[RecordedStep])]) -> Observation {
    let mut all = vec![Vec::new(); 32];
    for (rank, steps) in steps {
        all[*rank] = steps.to_vec();
    }
    let schedule = RecordedSchedule { steps: all, ..RecordedSchedule::default() };
    observe_model(&x4600(), &schedule, &Background::none(), 1, 1).expect("a call")
}

fn assert_near(value: f64, expected: f64) {
    let error = (value - expected).abs() / expected;
    assert!(error < 1e-9, "{value} instead of {expected}");
}

#[test]
fn one_flow_takes_its_latency_and_its_bytes_by_bandwidth() {
    let seen = one_call(&[(0, &[RecordedStep::Load(28, 1_000_000)])]);
    // 70 ns in the chip and 45 ns on the link, then as fast as a core copies.
    assert_near(seen.calls.time[0], 115e-9 + 1e6 / 2.5e9);
    let link = seen.links.index("0->1").expect("a link");
    for (index, column) in seen.calls.link_bytes.iter().enumerate() {
        let expected = if index == link { 1e6 } else { 0.0 };
        assert!((column[0] - expected).abs() < 1.0, "{index}: {}", column[0]);
    }
}

#[test]
fn flows_on_one_link_share_it() {
    let load: &[RecordedStep] = &[RecordedStep::Load(28, 1_000_000)];
    let seen = one_call(&[(0, load), (1, load), (2, load), (3, load)]);
    assert_near(seen.calls.time[0], 115e-9 + 4.0 * 1e6 / 4e9);
}

#[test]
fn flow_speeds_up_when_another_ends() {
    let long: &[RecordedStep] = &[RecordedStep::Load(28, 3_000_000)];
    let seen = one_call(&[(0, long), (1, &[RecordedStep::Load(29, 1_000_000)])]);
    // Each has 2 GB/s until the short one has ended, then the long one has a core's 2.5 GB/s.
    let shared = 1e6 / 2e9;
    assert_near(seen.calls.rank_time[1][0], 115e-9 + shared);
    assert_near(seen.calls.rank_time[0][0], 115e-9 + shared + 2e6 / 2.5e9);
}

#[test]
fn directions_of_a_link_do_not_share() {
    let seen = one_call(&[
        (0, &[RecordedStep::Load(28, 1_000_000)]),
        (28, &[RecordedStep::Load(0, 1_000_000)]),
    ]);
    assert_near(seen.calls.time[0], 115e-9 + 1e6 / 2.5e9);
}

#[test]
fn wait_ends_when_the_phase_has_crossed_the_links() {
    let seen = one_call(&[
        (0, &[RecordedStep::Load(1, 250_000), RecordedStep::Publish(1)]),
        (28, &[RecordedStep::Wait(0, 1)]),
    ]);
    assert_near(seen.calls.rank_time[28][0], 70e-9 + 1e-4 + 115e-9);
}

#[test]
fn same_seed_gives_the_same_bits_and_quiet_calls_are_alike() {
    let (machine, schedule) = (x4600(), allreduce());
    let background = Background::io(&machine).and(Background::memory_streams(&machine));
    let observe = |background: &Background, seed| {
        observe_model(&machine, &schedule, background, 50, seed).expect("calls")
    };
    assert_eq!(observe(&background, 3), observe(&background, 3));
    assert_ne!(observe(&background, 3).calls, observe(&background, 4).calls);
    let quiet = observe(&Background::none(), 3);
    let (first, last) = (quiet.calls.time[10], quiet.calls.time[49]);
    assert!((first / last - 1.0).abs() < 0.1, "{first} and {last}");
    assert!(quiet.calls.background_bytes.iter().all(|link| link[49] == 0.0));
}

/// All bytes that a schedule moves between chips are on the links, once for each link of the way.
#[test]
fn links_carry_what_the_schedule_moves() {
    let machine = x4600();
    for name in ["allreduce-16384", "allreduce-16384-direct", "alltoall-1024", "barrier"] {
        let schedule = RecordedSchedule::shipped(name).expect("shipped");
        let seen = observe_model(&machine, &schedule, &Background::none(), 1, 1).expect("a call");
        let chips = machine.placement(32);
        let mut expected = vec![0.0; machine.links().len()];
        for pair in schedule.pairs() {
            for &link in machine.route(chips[pair.from as usize], chips[pair.to as usize]) {
                expected[link] += pair.bytes as f64;
            }
        }
        for (link, expected) in expected.iter().enumerate() {
            let carried = seen.calls.link_bytes[link][0];
            assert!((carried - expected).abs() <= 1e-6 * expected + 1.0, "{name} {link}");
        }
    }
}

/// muecke-2010, section 5.1: 5 % of the calls take 93 % of the time under background I/O, and the
/// busiest link's load goes up with the time.
#[test]
fn few_slow_calls_take_most_of_the_time_under_io() {
    let machine = x4600();
    let background = Background::io(&machine);
    let seen = observe_model(&machine, &allreduce(), &background, 1000, 1).expect("calls");
    let mut times = seen.calls.time.clone();
    times.sort_by(f64::total_cmp);
    let total: f64 = times.iter().sum();
    let slowest: f64 = times[900..].iter().sum();
    assert!(slowest > 0.6 * total, "the slowest tenth takes {slowest} s of {total} s");
    let median = times[500];
    assert!(times[999] > 20.0 * median, "{} against {median}", times[999]);
}

/// muecke-2010, figure 6: in fast calls no link stands out.
#[test]
fn fast_calls_load_links_evenly() {
    let seen = observe_model(&x4600(), &allreduce(), &Background::none(), 20, 1).expect("calls");
    let loads: Vec<f64> = seen.calls.link_bytes.iter().map(|link| link[10]).collect();
    let most = loads.iter().copied().fold(0.0, f64::max);
    let mean = loads.iter().sum::<f64>() / loads.len() as f64;
    assert!(most < 4.0 * mean, "{loads:?}");
}

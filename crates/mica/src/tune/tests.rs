use mica_node::topology::Level;
use mica_policy::{MessagePath, PathCost, PathCosts};

use super::fit::Point;
use super::measure::*;
use super::plan::{self, Pace, SampleSeries, SeriesMessage};
use super::report::*;
use super::run::RunError;
use super::*;

fn series(path: MessagePath) -> SampleSeries {
    let mut all = plan::series(Pace::Quick).into_iter();
    all.find(|series| series.path == path).expect("every path has a series")
}

/// The measurements that `cost` would give.
fn points(series: &SampleSeries, cost: &PathCost) -> Vec<(SeriesMessage, Point)> {
    let point = |sample: &SeriesMessage| {
        let pieces = sample.len.checked_div(sample.block).unwrap_or(1);
        let point = Point {
            len: sample.len,
            ns: cost.ns(sample.len as usize, pieces as usize),
            spread: 0.01,
        };
        (*sample, point)
    };
    series.samples.iter().map(point).collect()
}

#[test]
fn what_is_true_is_found() {
    for path in MessagePath::ALL.into_iter().filter(|&path| path != MessagePath::Offload) {
        let series = series(path);
        let before = *PathCosts::default().of(Level::Package, path);
        let truth = PathCost { start_ns: 2.0 * before.start_ns, ..before };
        let (found, error) = cost(path, &points(&series, &truth), &before, 0.0).unwrap();
        assert!(error < fit::GOOD, "{path:?}: {error}");
        assert!((found.start_ns / truth.start_ns - 1.0).abs() < 0.15, "{path:?}: {found:?}");
        assert!((found.piece_ns - truth.piece_ns).abs() < 0.01, "{path:?}: {found:?}");
        assert_eq!((found.sender, found.receiver), (before.sender, before.receiver));
        for len in [8 << 10, 1 << 20, 16 << 20] {
            let ratio = found.ns(len, 1) / truth.ns(len, 1);
            assert!(path.is_eager() || (ratio - 1.0).abs() < 0.12, "{path:?} {len}: {ratio}");
        }
    }
}

#[test]
fn pieces_below_the_noise_cost_nothing() {
    let series = series(MessagePath::Pull);
    let before = *PathCosts::default().of(Level::Node, MessagePath::Pull);
    let truth = PathCost::new(1000.0, &[(0, 0.1)]);
    let mut points = points(&series, &truth);
    points.last_mut().unwrap().1.ns *= 0.99;
    assert_eq!(cost(MessagePath::Pull, &points, &before, 0.0).unwrap().0.piece_ns, 0.0);
}

#[test]
fn times_that_fall_are_refused() {
    let series = series(MessagePath::Pull);
    let before = *PathCosts::default().of(Level::Node, MessagePath::Pull);
    let mut points = points(&series, &before);
    let times: Vec<f64> = points.iter().rev().skip(1).map(|(_, point)| point.ns).collect();
    for ((_, point), ns) in points.iter_mut().zip(times) {
        point.ns = ns;
    }
    let error = cost(MessagePath::Pull, &points, &before, 0.0).unwrap_err();
    assert!(error.contains("less time"), "{error}");
}

fn outcome(path: MessagePath, noisy: usize, error: f64) -> SeriesOutcome {
    SeriesOutcome {
        level: Level::SharedCache,
        path,
        result: Ok(MeasuredCost {
            cost: PathCost::new(1234.0, &[(0, 0.5), (4096, 0.75)]).pieces(6.0),
            error,
            noisy: (noisy, 10),
        }),
    }
}

#[test]
fn tables_have_what_was_measured_and_why_not() {
    let refused = SeriesOutcome {
        level: Level::SharedCache,
        path: MessagePath::Mapped,
        result: Err("not available here: the messages went by cells".to_owned()),
    };
    let outcomes = [outcome(MessagePath::Pull, 0, 0.05), refused];
    let before = PathCosts::default();
    let text = table(&outcomes, &before);
    for part in
        ["pull", "1.23 us", "800 ns", "0.5, 0.75 from 4 KiB", "5 %", "as before", "went by cells"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let mut after = before.clone();
    after.set(Level::SharedCache, MessagePath::Pull, PathCost::new(500.0, &[(0, 0.001)]));
    let text = thresholds(&outcomes, &before, &after);
    assert!(text.contains("eager up to") && text.contains("65536"), "{text}");
}

#[test]
fn warns_of_noise_and_poor_fits() {
    assert!(warnings(&[outcome(MessagePath::Pull, 1, 0.1)]).is_empty());
    let found = warnings(&[outcome(MessagePath::Pull, 4, 0.5)]);
    assert_eq!(found.len(), 2);
    assert!(found[0].contains("4 of 10") && found[1].contains("50 %"), "{found:?}");
}

#[test]
fn a_file_is_written_whole_and_read_again() {
    let folder = ScratchFolder::new("test").unwrap();
    let file = folder.path().join("a/b/machine.toml");
    let tuning = Tuning {
        machine: Identity::read(),
        costs: vec![(Level::Node, MessagePath::Pull, PathCost::new(1.5, &[(0, 0.1)]))],
        ..Tuning::default()
    };
    write(&file, &tuning).unwrap();
    write(&file, &tuning).unwrap();
    assert_eq!(Tuning::read(&file).unwrap(), tuning);
    let names = fs::read_dir(file.parent().unwrap()).unwrap().count();
    assert_eq!(names, 1, "nothing is left beside it");
    let error = write(&file.join("below-a-file"), &tuning).unwrap_err().to_string();
    assert!(error.contains("below-a-file"), "{error}");
}

#[test]
fn four_digits_remain() {
    assert_eq!(rounded(0.065_432_1), 0.06543);
    assert_eq!(rounded(12_345.6), 12_350.0);
    assert_eq!(rounded(0.0), 0.0);
}

#[test]
fn a_noisy_message_gets_a_second_chance() {
    let point = |spread| Point { len: 8, ns: 100.0, spread };
    for (spreads, accepted, asked) in
        [([0.1, 0.05], 0.1, 1), ([0.9, 0.05], 0.05, 2), ([0.5, 0.9], 0.5, 2)]
    {
        let mut times = 0;
        let found = calm(|| {
            times += 1;
            Ok(point(spreads[times - 1]))
        });
        assert_eq!((found.unwrap().spread, times), (accepted, asked));
    }
    assert_eq!(
        noise(&[outcome(MessagePath::Pull, 4, 0.1), outcome(MessagePath::Ring, 1, 0.1)]),
        (5, 20)
    );
}

#[test]
fn no_path_starts_before_the_step_it_begins_with() {
    let costs = PathCosts::default();
    for level in mica_policy::costs::LEVELS {
        for path in MessagePath::ALL {
            let least = least_start(level, path, &costs);
            assert!(least <= costs.of(level, path).start_ns, "{level:?} {path:?}");
            assert_eq!(least == 0.0, path == MessagePath::Inline);
        }
    }
}

#[test]
fn ignores_messages_that_took_another_path() {
    let series = series(MessagePath::Cooperate);
    let costs = PathCosts::default();
    let truth = *costs.of(Level::Node, MessagePath::Cooperate);
    let known = points(&series, &truth);
    let run = |from: u64| {
        measure_one(Level::Node, &series, &costs, |sample| {
            // Behaves like a library that divides only contiguous messages, from some length on.
            if sample.len < from || sample.block > 0 {
                return Err(RunError::OtherWay("cells".to_owned()));
            }
            let point = known.iter().find(|(known, _)| known == sample);
            Ok(point.expect("a sample of the series").1)
        })
    };
    let measured = run(64 << 10).unwrap();
    assert_eq!(measured.cost.piece_ns, truth.piece_ns, "as before");
    for len in [64 << 10, 16 << 20] {
        let ratio = measured.cost.ns(len, 1) / truth.ns(len, 1);
        assert!((ratio - 1.0).abs() <= fit::GOOD, "{len}: {ratio}");
    }
    assert!(run(1 << 40).is_err_and(|why| why.contains("a line needs two")));
}

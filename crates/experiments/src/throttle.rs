//! A network of less bandwidth, and the integer sort on it (leon-2009, 3.2; Figures 3.4 and 3.5).

use crate::declaration::Experiment;
use crate::report::{
    Chart, ExperimentReport, ReportPlot, ShapeVerdict, ThesisFinding, XAxis, YAxis, percents,
};
use crate::store::Results;
use crate::table::{Extent, Heading, SimulationMode, SimulationRun};
use crate::thesis;

pub const EXPERIMENT: Experiment = Experiment {
    heading: Heading {
        name: "throttle",
        title: "A throttled network",
        question: "How much slower is a sort if the network has a part of its bandwidth?",
        source: "leon-2009, 3.2, Figures 3.4 and 3.5",
    },
    runs,
    report,
};

const MODES: [SimulationMode; 2] = [SimulationMode::Accurate, SimulationMode::Loose];
const CLUSTERS: [u32; 2] = [4, 16];

/// Percents of the bandwidth, the whole first.
fn bandwidths(extent: Extent) -> Vec<u32> {
    let mut percents = extent.choose(&[100, 50, 20, 10], &[90, 75, 60, 40, 30, 5]);
    percents.sort_unstable_by(|a, b| b.cmp(a));
    percents
}

fn run(nodes: u32, mode: SimulationMode, percent: u32) -> SimulationRun {
    SimulationRun::of("integer_sort", nodes)
        .arguments("M --iterations 1")
        .set("network.bandwidth_factor", format!("{:.2}", f64::from(percent) / 100.0))
        .mode(mode)
}

fn runs(extent: Extent) -> Vec<SimulationRun> {
    let mut runs = Vec::new();
    for nodes in CLUSTERS {
        for mode in MODES {
            runs.extend(bandwidths(extent).into_iter().map(|percent| run(nodes, mode, percent)));
        }
    }
    runs
}

/// Percents of the time with the whole bandwidth.
fn times(extent: Extent, results: &Results, nodes: u32, mode: SimulationMode) -> Vec<f64> {
    let time = |percent| results.of(&run(nodes, mode, percent)).region_ns;
    let whole = time(100);
    bandwidths(extent).into_iter().map(|percent| time(percent) / whole * 100.0).collect()
}

fn report(extent: Extent, results: &Results) -> ExperimentReport {
    let times = |nodes, mode| times(extent, results, nodes, mode);
    let rises = |times: Vec<f64>| times.windows(2).all(|two| two[1] >= two[0]);
    let all = || CLUSTERS.iter().flat_map(|&nodes| MODES.map(|mode| (nodes, mode)));
    let accurate = times(4, SimulationMode::Accurate);
    let loose = times(4, SimulationMode::Loose);
    let bandwidths: Vec<String> = bandwidths(extent).iter().map(|b| format!("{b} %")).collect();
    let bandwidths = bandwidths.join(", ");
    let both = format!(
        "of the time with the whole bandwidth, accurate {}, loose {}, at {bandwidths} of it on 4 \
         nodes",
        percents(&accurate),
        percents(&loose)
    );
    ExperimentReport {
        findings: vec![
            ThesisFinding::shape(
                &thesis::THROTTLE_DECLINES,
                ShapeVerdict::of(all().all(|(nodes, mode)| rises(times(nodes, mode)))),
                format!(
                    "on 16 nodes {} of the time, at {bandwidths} of the bandwidth",
                    percents(&times(16, SimulationMode::Accurate))
                ),
            ),
            ThesisFinding::shape(
                &thesis::LOOSE_SHIFTS,
                ShapeVerdict::of(rises(accurate) && rises(loose)),
                both,
            ),
        ],
        notes: vec![
            "2^20 keys below 2^16 (the thesis: 2^23 and more): the bytes that are moved and the \
             instructions that are executed both go with the keys, so their ratio is the same."
                .into(),
            cost_of_caches(results),
        ],
        charts: CLUSTERS
            .iter()
            .map(|&nodes| chart(extent, nodes, &|mode| times(nodes, mode)))
            .collect(),
    }
}

/// By how much the caches' misses slow the sort.
fn cost_of_caches(results: &Results) -> String {
    let time = |nodes, mode| results.of(&run(nodes, mode, 100)).region_ns;
    let slower = |&nodes: &u32| {
        let loose = time(nodes, SimulationMode::Loose);
        (time(nodes, SimulationMode::Accurate) / loose - 1.0) * 100.0
    };
    let slower: Vec<f64> = CLUSTERS.iter().map(slower).collect();
    format!(
        "With the whole bandwidth, accurate mode is {} slower than loose mode on 4 and 16 nodes: \
         the less misses cost, the less the two curves are apart",
        percents(&slower)
    )
}

fn chart(extent: Extent, nodes: u32, times: &dyn Fn(SimulationMode) -> Vec<f64>) -> Chart {
    let curve = |mode: SimulationMode| {
        let bandwidths = bandwidths(extent).into_iter().map(f64::from);
        let name = format!("{mode:?}").to_lowercase();
        let mut points: Vec<_> = bandwidths.zip(times(mode)).collect();
        points.reverse();
        (name, points)
    };
    Chart {
        title: format!("Integer sort on {nodes} nodes"),
        caption: "Percent of the time with the whole bandwidth (Figures 3.4 and 3.5)".into(),
        x_name: "percent of the bandwidth",
        y_name: "time",
        plot: ReportPlot::Curves {
            x: XAxis::Plain,
            y: YAxis::Percent,
            curves: MODES.map(curve).into(),
        },
    }
}

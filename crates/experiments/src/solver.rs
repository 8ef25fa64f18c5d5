//! The multigrid solver across memory and processor speeds, policies and nodes (leon-2009, 5.1 and
//! 5.2; Figures 5.1 to 5.4): hypre's conjugate gradient with algebraic multigrid, its solve phase.

use crate::declaration::Experiment;
use crate::report::{
    Chart, ExperimentReport, ReportPlot, ShapeVerdict, ThesisFinding, XAxis, YAxis, gain, percents,
};
use crate::store::{Results, SimulationOutcome};
use crate::table::{Extent, Heading, SimulationRun};
use crate::thesis;

pub const EXPERIMENT: Experiment = Experiment {
    heading: Heading {
        name: "solver",
        title: "A multigrid solver",
        question: "What does injection gain as memory gets slower against the processor, and which \
            part of a message is worth injecting?",
        source: "leon-2009, 5.1 and 5.2, Figures 5.1 to 5.4",
    },
    runs,
    report,
};

/// Table 5.1.
const SLOW_DOWNS: [f64; 4] = [1.0, 2.5, 5.0, 7.5];
const POLICIES: [&str; 4] = ["base", "header", "payload", "message"];
/// Points of a node in each direction: small, as the thesis's problem, so that faces of some
/// hundred bytes to some KiB are exchanged.
const SIDE: u32 = 8;

/// Of a chart: a cluster and a processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SolverPanel {
    nodes: u32,
    mhz: u32,
}

const fn panel(nodes: u32, mhz: u32) -> SolverPanel {
    SolverPanel { nodes, mhz }
}

fn panels(extent: Extent) -> Vec<SolverPanel> {
    extent.choose(
        &[panel(8, 900), panel(8, 2100)],
        &[panel(4, 2100), panel(8, 1500), panel(16, 2100), panel(64, 2100)],
    )
}

/// Runs of the panel; hypre distributes the nodes over a box.
pub fn run(nodes: u32, mhz: u32, slow_down: f64, policy: &str) -> SimulationRun {
    let shape = match nodes {
        4 => [2, 2, 1],
        8 => [2, 2, 2],
        16 => [4, 2, 2],
        64 => [4, 4, 4],
        other => [other, 1, 1],
    };
    let [x, y, z] = shape.map(|n| n * SIDE);
    let [p, q, r] = shape;
    let arguments = format!("-laplacian -n {x} {y} {z} -P {p} {q} {r} -c 1 1 10 -solver 1");
    SimulationRun::of("amg", nodes)
        .arguments(&arguments)
        .set("processor.mhz", mhz)
        .set("memory.slow_down", format!("{slow_down:.1}"))
        .policy(policy)
}

fn runs(extent: Extent) -> Vec<SimulationRun> {
    let mut runs = Vec::new();
    for SolverPanel { nodes, mhz } in panels(extent) {
        for slow_down in SLOW_DOWNS {
            runs.extend(POLICIES.map(|policy| run(nodes, mhz, slow_down, policy)));
        }
    }
    runs
}

/// Of each slow-down, by how many percent a policy's value is less than base's.
fn gains(
    results: &Results,
    panel: SolverPanel,
    policy: &str,
    of: fn(&SimulationOutcome) -> f64,
) -> Vec<f64> {
    let value = |slow_down, policy| of(results.of(&run(panel.nodes, panel.mhz, slow_down, policy)));
    SLOW_DOWNS.map(|slow_down| gain(value(slow_down, "base"), value(slow_down, policy))).into()
}

fn time(outcome: &SimulationOutcome) -> f64 {
    outcome.region_ns
}

fn report(extent: Extent, results: &Results) -> ExperimentReport {
    let panels = panels(extent);
    let times = panels.iter().map(|&panel| time_chart(results, panel));
    let reads = panels.iter().map(|&panel| reads_chart(results, panel));
    ExperimentReport {
        findings: findings(results, &panels),
        notes: vec![
            "hypre 2.26's ij stands for AMG2006, which was made of it: a Laplacian with \
             anisotropy, 512 points a node, conjugate gradient with one V-cycle of AMG."
                .into(),
            "A simulated rank that waits lets the clock go on to the next event and does not poll \
             in between, so the policies do not change how often events are read, as they do in \
             the thesis (Figure 5.3)."
                .into(),
        ],
        charts: times.chain(reads).collect(),
    }
}

fn findings(results: &Results, panels: &[SolverPanel]) -> Vec<ThesisFinding> {
    let all = |policy, of: fn(&SimulationOutcome) -> f64| -> Vec<Vec<f64>> {
        panels.iter().map(|&panel| gains(results, panel, policy, of)).collect()
    };
    let messages = all("message", time);
    let grows = |gains: &Vec<f64>| gains.windows(2).all(|two| two[1] > two[0]);
    let (headers, payloads) = (all("header", time), all("payload", time));
    let (slow, fast) = (panels[0], panels[1]);
    let at = |panel| gains(results, panel, "message", time);
    let unlike = at(slow).into_iter().zip(at(fast)).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    let beats = headers.concat().iter().zip(payloads.concat()).all(|(h, p)| *h > p);
    let reads = all("payload", SimulationOutcome::memory_reads).concat();
    let last = |gains: &[Vec<f64>]| -> Vec<f64> { gains.iter().map(|g| g[3]).collect() };
    vec![
        ThesisFinding::shape(
            &thesis::GAIN_GROWS,
            ShapeVerdict::of(messages.iter().all(grows)),
            format!(
                "message gains {} at slow-downs 1, 2.5, 5, 7.5 ({} nodes, {} MHz)",
                percents(&messages[1]),
                fast.nodes,
                fast.mhz
            ),
        ),
        ThesisFinding::shape(
            &thesis::SAME_RATIO_SAME_GAIN,
            ShapeVerdict::of(unlike < 2.0),
            format!(
                "message gains {} at {} MHz and {} at {} MHz, {} nodes",
                percents(&at(slow)),
                slow.mhz,
                percents(&at(fast)),
                fast.mhz,
                slow.nodes
            ),
        ),
        ThesisFinding::shape(
            &thesis::HEADER_BEATS_PAYLOAD,
            ShapeVerdict::of(beats),
            format!(
                "at slow-down 7.5 header gains {}, payload {} (by cluster and processor)",
                percents(&last(&headers)),
                percents(&last(&payloads))
            ),
        ),
        ThesisFinding::shape(
            &thesis::PAYLOAD_READS_LESS,
            ShapeVerdict::of(reads.iter().all(|gain| *gain > 0.0)),
            format!("{} fewer", percents(&reads)),
        ),
    ]
}

fn curves(
    results: &Results,
    panel: SolverPanel,
    of: fn(&SimulationOutcome, &SimulationOutcome) -> f64,
) -> ReportPlot {
    let outcome =
        |slow_down, policy: &str| results.of(&run(panel.nodes, panel.mhz, slow_down, policy));
    let curve = |policy: &str| {
        let point =
            |slow_down| (slow_down, of(outcome(slow_down, "base"), outcome(slow_down, policy)));
        (policy.to_owned(), SLOW_DOWNS.map(point).into())
    };
    ReportPlot::Curves { x: XAxis::Plain, y: YAxis::Percent, curves: POLICIES.map(curve).into() }
}

fn time_chart(results: &Results, panel: SolverPanel) -> Chart {
    Chart {
        title: format!("Solve phase, {} nodes, {} MHz", panel.nodes, panel.mhz),
        caption: "Time less than base's (Figure 5.1)".into(),
        x_name: "slow-down of the memory",
        y_name: "time less",
        plot: curves(results, panel, |base, other| gain(base.region_ns, other.region_ns)),
    }
}

fn reads_chart(results: &Results, panel: SolverPanel) -> Chart {
    Chart {
        title: format!("Memory reads, {} nodes, {} MHz", panel.nodes, panel.mhz),
        caption: "Memory reads fewer than base's (Figure 5.2)".into(),
        x_name: "slow-down of the memory",
        y_name: "reads fewer",
        plot: curves(results, panel, |base, other| gain(base.memory_reads(), other.memory_reads())),
    }
}

//! Holds the plot and the page byte for byte: what is in `golden/` was written before the drawing
//! moved to [`crate::draw`], which other commands change too. `MICA_RENEW=1` writes the files anew
//! after a change that is meant.

use std::collections::BTreeMap;
use std::path::Path;

use super::bars::Judged;
use super::data::FigureTable;
use super::guidelines::{Findings, Tally};
use super::host::HostFacts;
use super::others::OthersLoad;
use super::report::{BenchReport, TableDetail};
use super::results::{RunFailure, rows, tests as made};
use super::run::FLOOR;
use super::{html, plot};
use crate::origin::ResultOrigin;

/// A report with each part that the page shows, in several magnitudes.
fn report() -> BenchReport {
    let mut runs = Vec::new();
    let names = ["mica", "mpich", "openmpi", "mica+slow"];
    for bytes in [1u64, 8, 90, 1024, 16 << 10, 1 << 20] {
        for (place, who) in names.iter().enumerate() {
            let time = (0.1 + bytes as f64 / 9000.0) * (1.0 + place as f64 * 0.07);
            for round in 0..3 {
                let time = time * (1.0 + round as f64 * 0.03);
                runs.push(made::run(round, who, "time", bytes, time, "us"));
                let speed = bytes as f64 / time;
                runs.push(made::run(round, who, "speed", bytes, speed, "MB/s"));
                let narrow = 5.0 + time / 1000.0;
                runs.push(made::run(round, who, "a < b & c", bytes, narrow, "us"));
            }
        }
    }
    runs.push(made::run(0, FLOOR, "flag", 8, 0.05, "us"));
    runs.push(made::run(0, FLOOR, "copy", 1024, 0.1, "us"));
    let suite = made::suite();
    let contestants = names.map(str::to_owned).to_vec();
    let rows = rows(&FigureTable::of(&runs, &suite), &suite, &contestants);
    let bar = |value: Option<f64>, pass| Judged {
        text: "fast".into(),
        place: "8 B".into(),
        unit: "us".into(),
        value,
        reference: Some(2.0),
        against: "mpich".into(),
        ratio: value.map(|value| value / 2.0),
        limit: "at most 0.65".into(),
        pass,
        ..Judged::default()
    };
    BenchReport {
        origin: ResultOrigin {
            command: "mica bench \"a\" <b>".into(),
            ..ResultOrigin::without_messages()
        },
        title: "Bars & plots".into(),
        rounds: 3,
        plots: plot::plots(&rows, &suite),
        contestants,
        host: host(),
        rows,
        bars: vec![bar(Some(1.0), Some(true)), bar(Some(3.0), Some(false)), bar(None, None)],
        guidelines: Findings {
            tolerance: 0.1,
            tallies: vec![Tally {
                guideline: "no slower for less".into(),
                contestant: "mica".into(),
                judged: 4,
                violated: 1,
            }],
            violations: vec![],
        },
        misses: vec![],
        hardware: vec![],
        failures: vec![RunFailure {
            program: "p".into(),
            ranks: 2,
            contestant: "mpich".into(),
            rounds: vec![1],
            error: "exit code 1".into(),
            output: String::new(),
        }],
        left_out: vec!["impi: not here".into()],
    }
}

fn host() -> HostFacts {
    HostFacts {
        date: "2026-11-25".into(),
        host: "h".into(),
        processor: "a processor".into(),
        machine: "x86_64",
        cores: 2,
        packages: 1,
        all_cores: 2,
        processing_units: 4,
        caches: vec!["L2 2 MiB".into()],
        numa_nodes: vec![],
        memory: "8 GiB".into(),
        kernel: "6.1".into(),
        governor: "none".into(),
        transparent_huge_pages: "madvise".into(),
        virtualised: "kvm".into(),
        cpu_quota: None,
        load_before: "0.1".into(),
        load_after: "0.2".into(),
        others: OthersLoad::default(),
        compiler: "cc 12".into(),
        commit: "0".into(),
        mica_environment: BTreeMap::new(),
        versions: BTreeMap::from([("mica".into(), "1".into())]),
    }
}

fn same(name: &str, text: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/bench/golden");
    let path = folder.join(name);
    if std::env::var_os("MICA_RENEW").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    let (line, (was, now)) = golden
        .lines()
        .zip(text.lines())
        .enumerate()
        .find(|(_, (was, now))| was != now)
        .unwrap_or_default();
    assert!(golden == text, "{name}, line {}:\n{was}\n{now}", line + 1);
}

#[test]
fn bars_of_a_loaded_machine_say_so() {
    let verdicts = |report: &BenchReport| {
        let bars = report.tables(TableDetail::Medians).swap_remove(0);
        let verdicts: Vec<String> = bars.rows.iter().map(|row| row[7].clone()).collect();
        (bars.note, verdicts)
    };
    let mut report = report();
    report.host.others = OthersLoad::of(&[0.1, 0.0]);
    let (note, quiet) = verdicts(&report);
    assert!(!note.contains("Other programs"), "{note}");
    assert_eq!(quiet, ["reached", "missed", "not judged: "]);
    report.host.others = OthersLoad::of(&[1.0, 2.0]);
    let (note, loaded) = verdicts(&report);
    assert!(note.contains("Other programs used 1.5 of 4 cores while this ran"), "{note}");
    assert_eq!(loaded[0], "reached; Other programs used 1.5 of 4 cores");
    assert_eq!(loaded[1], "missed; Other programs used 1.5 of 4 cores");
    assert!(report.terminal().contains("no measurement of an idle machine"));
}

#[test]
fn columns_without_a_value_are_left_out() {
    let mut report = report();
    let header = |report: &BenchReport| {
        let tables = report.tables(TableDetail::Medians);
        tables.into_iter().find(|cells| cells.title != "Bars").unwrap().header
    };
    assert!(header(&report).contains(&"best peer".to_owned()));
    for row in &mut report.rows {
        (row.floor, row.floor_ratio, row.best_peer, row.ratio) = (None, None, None, None);
        row.ratio_by_round = None;
        row.contestants.remove("mpich");
    }
    report.failures.clear();
    assert_eq!(header(&report), ["measure", "at", "unit", "mica", "openmpi", "mica+slow"]);
}

#[test]
fn page_and_plot_are_the_golden_ones() {
    let report = report();
    assert_eq!(report.plots.len(), 3);
    same("plot.svg", &report.plots[0].svg());
    same("page.html", &html::page(&report));
}

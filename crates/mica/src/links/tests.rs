//! The text and the page of an observation with a planted link.

use mica_links::analysis::resample::Interval;
use mica_links::intensity::{IoIntensity, TrafficIntensity};
use mica_links::predictor::{Payoff, PayoffVerdict};
use mica_links::study::{BackgroundRow, ChoosingStudy};
use mica_links::{CallWorkload, Calls, LinkSet, Observation, Provenance};

use super::*;
use crate::draw::browser::{browser, open};

/// 300 calls, of which those in bursts are slow and load link `2->3`; names that must be escaped.
fn observation(links: usize) -> Observation {
    let mut calls = Calls::with_columns(0, links);
    calls.background_bytes.clear();
    let mut now = 0.0;
    for call in 0..300u32 {
        let slow = call % 30 < 4;
        let noise = 0.9 + 0.2 * f64::from(call * 7919 % 101) / 100.0;
        let time = if slow { 8e-2 } else { 3.6e-4 } * noise;
        calls.workload.push(0);
        calls.start.push(now);
        calls.time.push(time);
        now += time;
        for (link, bytes) in calls.link_bytes.iter_mut().enumerate() {
            let noise = 0.9 + 0.2 * f64::from(call * (31 + link as u32) % 97) / 96.0;
            bytes.push(if slow && link == 2 { 1e7 } else { 1e6 } * noise);
        }
    }
    Observation {
        provenance: Provenance { machine: "<b>machine</b>".into(), ..Provenance::default() },
        links: LinkSet::new((0..links).map(|at| format!("{at}->{}", at + 1)).collect()).unwrap(),
        workloads: vec![CallWorkload {
            collective: "allreduce".into(),
            bytes: 16384,
            ranks: 32,
            ..CallWorkload::default()
        }],
        calls,
        study: None,
    }
}

fn explained(observation: &Observation) -> Vec<WorkloadFinding<'_>> {
    let options = StatisticsOptions { load: LoadArgument::Bytes, resamples: 50, seed: 1 };
    findings(observation, Path::new("links.mica"), &options, &PromiseOptions::default()).unwrap()
}

#[test]
fn the_text_names_the_link() {
    let observation = observation(6);
    let text = text::render(&explained(&observation)[0]);
    for part in [
        "allreduce of 16384 B on 32 ranks",
        "100 % of the slow calls coincide with load on link 2->3",
        "Relevant set of links: 2->3",
        "better than the guess",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn the_page_needs_no_other_file_and_escapes() {
    let observation = observation(6);
    let page = report::page(&observation, &explained(&observation));
    for part in ["(Figure 2)", "(Figure 3)", "(Figures 4, 5)", "(Figure 6)", "(Figure 7)"] {
        assert!(page.contains(part), "{part}");
    }
    // Figures 2, 3, 7, 4 and three links of 5, 6.
    assert_eq!(page.matches("<svg").count(), 8);
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    for part in ["<b>machine", "http", "src=", "<link", "@import", "NaN", "inf"] {
        assert!(!page.contains(part), "{part}");
    }
    if let Some(directory) = std::env::var_os("MICA_REPORT_OUT") {
        fs::write(Path::new(&directory).join("links.html"), page).unwrap();
    }
}

#[test]
fn one_domain_has_no_figures_of_links() {
    let observation = observation(0);
    let explanations = explained(&observation);
    let page = report::page(&observation, &explanations);
    assert!(page.contains("no links between chips to blame"));
    assert!(!page.contains("(Figure 6)") && page.contains("(Figure 2)"));
    assert!(text::render(&explanations[0]).contains("no links between chips"));
}

#[test]
fn equal_files_give_equal_json() {
    let observation = observation(6);
    let json = || serde_json::to_string(&explained(&observation)).unwrap();
    assert_eq!(json(), json());
}

/// A study of made-up numbers.
fn study() -> ModelStudy {
    let interval = |low, high| Interval { low, high };
    let payoff = |saved: f64, verdict| Payoff {
        without: 1.0,
        with: 1.0 - saved,
        waiting: 0.25,
        saved,
        interval: interval(saved - 0.01, saved + 0.01),
        saved_in_calls: saved + 0.2,
        in_calls_interval: interval(saved + 0.1, saved + 0.3),
        verdict,
    };
    let row = |share, is_default| BackgroundRow {
        intensity: TrafficIntensity::Io(IoIntensity { share, quiet: 5e-3 }),
        is_default,
        slowest_share: share / 1.1,
        least: share / 1.2,
        highest: share,
        longest: 100.0,
    };
    ModelStudy {
        sensitivity: vec![row(0.5, false), row(0.9999, true)],
        calls: 400,
        worlds: 8,
        postponing: payoff(-0.125, PayoffVerdict::Costs),
        choosing: ChoosingStudy {
            schedules: vec!["one".into(), "two".into()],
            alone: vec![1e-4, 2e-4],
            against_best: payoff(0.0, PayoffVerdict::Undecided),
            against_fixed: payoff(0.0625, PayoffVerdict::Pays),
        },
    }
}

#[test]
fn text_json_and_page_show_the_study_and_the_paper() {
    let mut observation = observation(6);
    observation.study = Some(study());
    observation.calls.moved_bytes = vec![1e6; 300];
    let findings = explained(&observation);
    let page = report::page(&observation, &findings);
    let said = text::render(&findings[0]) + &text::study(&study());
    for part in [
        "93 %",
        "600 ms",
        "363 us",
        "-12.5 %",
        "it costs",
        "it pays",
        "no difference can be told",
        "by the library's account",
    ] {
        assert!(page.contains(part), "{part}");
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(page.contains("Sensitivity to the background") && said.contains("(default)"));
    let json: serde_json::Value =
        serde_json::from_str(&serde_json::to_string(&findings).unwrap()).unwrap();
    assert_eq!(json[0]["study"]["postponing"]["verdict"], "costs");
    assert_eq!(json[0]["moved_bytes"], 1e6);
    assert_eq!(json[0]["paper"][3]["paper"], "93 %");
    assert!(json[0]["ranking"].is_array());
}

/// Measures the page as a reader sees it, and leaves what came of it in an attribute.
const READER: &str = r#"<script>
const boxes = [...document.querySelectorAll("svg")].map((svg) => svg.getBoundingClientRect());
document.documentElement.dataset.charts = boxes
  .filter((box) => box.width > 100 && box.height > 100).length;
document.documentElement.dataset.tables = [...document.querySelectorAll("table")]
  .filter((table) => table.rows.length > 1 && table.getBoundingClientRect().height > 20).length;
document.documentElement.dataset.cut =
  [...document.querySelectorAll(".words .table")].some((box) => box.scrollWidth > box.clientWidth);
document.documentElement.dataset.wider =
  document.documentElement.scrollWidth > document.documentElement.clientWidth;
</script>"#;

#[test]
fn a_browser_shows_the_page_from_the_file_alone() {
    let Some(browser) = browser() else {
        eprintln!("skipped: there is no chromium here (apt-get install chromium)");
        return;
    };
    let directory = crate::scratch::ScratchFolder::new("links-page").unwrap();
    let mut observation = observation(6);
    observation.study = Some(study());
    let page = report::page(&observation, &explained(&observation));
    let file = directory.path().join("links.html");
    fs::write(&file, page.replace("</body>", &format!("{READER}</body>"))).unwrap();
    let (document, console) = open(browser, &file);
    assert_eq!(console, "");
    // Clusters, links, fast loads, indicator, predictor, paper, sensitivity, payoffs.
    for attribute in ["data-charts=\"8\"", "data-tables=\"8\"", "data-wider=\"false\""] {
        let html = document.split_once("<head").map_or("", |(html, _)| html);
        assert!(html.contains(attribute), "{attribute}: {html}");
    }
}

//! The text and the page of an observation with a planted link.

use mica_links::{Calls, LinkSet, Observation, Provenance, Workload};

use super::*;

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
        provenance: Provenance {
            machine: "<b>machine</b>".into(),
            ..Provenance::default()
        },
        links: LinkSet::new((0..links).map(|at| format!("{at}->{}", at + 1)).collect()).unwrap(),
        workloads: vec![Workload {
            collective: "allreduce".into(),
            bytes: 16384,
            ranks: 32,
            ..Workload::default()
        }],
        calls,
        study: None,
    }
}

fn explained(observation: &Observation) -> Vec<Finding<'_>> {
    let options = StatisticsOptions {
        load: LoadArgument::Bytes,
        resamples: 50,
        seed: 1,
    };
    findings(observation, Path::new("links.mica"), &options).unwrap()
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
    for part in [
        "(Figure 2)",
        "(Figure 3)",
        "(Figures 4, 5)",
        "(Figure 6)",
        "(Figure 7)",
    ] {
        assert!(page.contains(part), "{part}");
    }
    // Figures 2, 3, 7, 4 and three links of 5, 6.
    assert_eq!(page.matches("<svg").count(), 8);
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    for part in [
        "<b>machine",
        "http",
        "src=",
        "<link",
        "@import",
        "NaN",
        "inf",
    ] {
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

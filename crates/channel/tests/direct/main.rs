//! The direct channel between processes: buffers that are moved to the job segment (`mapped`),
//! attached (`xpmem`, by a mock of the module), or copied by the kernel (`cma`).
//!
//! Every scenario runs in a process of its own, with one thread unless it makes more, so that it
//! can fork, count its threads, and set limits. Arguments are filters on names.

mod blocks;
mod conformance;
mod forks;
mod holders;
mod kit;
mod lives;
mod mock;
mod ranks;
mod reach;
mod refusals;

use kit::{Outcome, Scenario, run};

fn main() {
    // As a test runner asks for the list of tests (libtest's terse format): they are one to it.
    if std::env::args().any(|argument| argument == "--list") {
        if !std::env::args().any(|argument| argument == "--ignored") {
            println!("scenarios: test");
        }
        return;
    }
    let mut scenarios: Vec<Scenario> = Vec::new();
    scenarios.extend(conformance::SCENARIOS);
    scenarios.extend(lives::SCENARIOS);
    scenarios.extend(blocks::SCENARIOS);
    scenarios.extend(refusals::SCENARIOS);
    scenarios.extend(holders::SCENARIOS);
    scenarios.extend(forks::SCENARIOS);
    scenarios.extend(reach::SCENARIOS);
    let filters: Vec<String> =
        std::env::args().skip(1).filter(|a| !a.starts_with('-') && a != "scenarios").collect();
    // Before any scenario migrates something.
    kit::unseen_mremap();
    let mut failed = Vec::new();
    for (name, body) in scenarios {
        if !filters.is_empty() && !filters.iter().any(|f| name.contains(f.as_str())) {
            continue;
        }
        let outcome = run(body);
        println!("test {name} ... {outcome:?}");
        if outcome == Outcome::Failed {
            failed.push(name);
        }
    }
    assert!(failed.is_empty(), "failed: {failed:?}");
}

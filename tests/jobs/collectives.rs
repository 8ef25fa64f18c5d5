//! Tests of collectives that the test list cannot express.
//!
//! Floating-point reductions give the same bits in every run on the same ranks, under each family
//! of algorithms: neither late arrivals nor buffer addresses may change the order of the additions.

use std::collections::BTreeSet;

use mica_tests::{Install, Traffic};

/// A digest of the bits of all results of one run.
fn digest(install: &Install, ranks: u32, late: u32, env: &[(&str, &str)]) -> String {
    let job = install
        .mpiexec(["-n", &ranks.to_string()])
        .args([install.program("coll_digest")])
        .args(["24", &late.to_string(), "digest"]);
    let job = env.iter().fold(job, |job, (name, value)| job.env(name, value));
    let outcome = job.run().expect_code(0);
    let line = outcome.stdout.lines().find_map(|l| l.strip_prefix("digest "));
    let line = line.unwrap_or_else(|| panic!("no digest:\n{}", outcome.report()));
    line.to_owned()
}

/// Runs on several numbers of ranks, three times each with different delays and memory.
fn same_bits(ranks: &[u32], env: &[(&str, &str)]) {
    let install = Install::find();
    let mut all = BTreeSet::new();
    for &n in ranks {
        let first = digest(&install, n, 1, env);
        for late in [2, 3] {
            let again = digest(&install, n, late, env);
            assert_eq!(first, again, "{n} ranks, {env:?}: other bits with delays {late}");
        }
        all.insert(first);
    }
    // Other numbers of ranks add other numbers: equal digests would mean that the digest
    // ignores the results.
    assert_eq!(all.len(), ranks.len(), "{env:?}: {all:?}");
}

#[test]
fn bits_of_the_chosen_algorithms() {
    same_bits(&[1, 2, 3, 5, 8], &[]);
}

#[test]
fn bits_of_messages() {
    same_bits(&[2, 5, 7], &[("MICA_COLL", "messages")]);
}

#[test]
fn bits_of_shared_areas() {
    same_bits(&[2, 3, 8], &[("MICA_COLL", "shared")]);
    same_bits(
        &[5, 9],
        &[("MICA_COLL", "shared"), ("MICA_COLL_SHAPE", "tree"), ("MICA_COLL_FAN", "2")],
    );
}

#[test]
fn bits_of_direct_copy() {
    same_bits(&[2, 3, 8], &[("MICA_COLL", "direct")]);
    // Some buffers are first copied by the kernel and later reached by mappings.
    same_bits(
        &[2, 5],
        &[("MICA_COLL", "direct"), ("MICA_MAPPED_AFTER", "2"), ("MICA_MAPPED_MIN", "4K")],
    );
}

/// The trees of the shared areas follow the levels of the machine: packages, caches, cores; regular
/// or irregular.
#[test]
fn trees_of_other_machines() {
    let install = Install::find();
    let program = install.program("coll_property");
    for (ranks, machine) in [
        ("8", "pack:2 l3:2 core:2 pu:1"),
        ("7", "pack:3 l3:1 core:3 pu:1"),
        ("12", "numa:2 pack:1 l3:3 l2:2 core:1 pu:2"),
    ] {
        for shape in ["auto", "tree"] {
            let job = install.mpiexec(["-n", ranks]).args([&program]);
            let job = job.args(["12", "139"]).env("MICA_TOPOLOGY_SYNTHETIC", machine);
            let job = job.env("MICA_COLL", "shared").env("MICA_COLL_SHAPE", shape);
            let outcome = job.run().expect_code(0);
            assert_eq!(outcome.stdout, "No Errors\n", "{}", outcome.report());
        }
    }
}

/// The number of messages between ranks in one run, according to the traffic table.
fn messages(install: &Install, program: &str, env: &[(&str, &str)]) -> u64 {
    let job =
        install.mpiexec(["-n", "4"]).args([install.program(program)]).env("MICA_STATS", "table");
    let job = env.iter().fold(job, |job, (name, value)| job.env(name, value));
    let outcome = job.run().expect_code(0);
    // Copies between buffers are counted with those of collectives, so they are left out here.
    Traffic::of(&outcome).by_any(&["inline", "ring", "cells", "net"])
}

/// Limit on the messages for making communicators and finalizing.
const FEW: u64 = 60;

/// The runs under a family would prove nothing if another family did the work.
#[test]
fn a_family_that_is_forced_does_all_the_work() {
    let install = Install::find();
    for program in ["coll_data", "coll_vector", "coll_digest"] {
        let sent = messages(&install, program, &[("MICA_COLL", "messages")]);
        assert!(sent > 5 * FEW, "{program}: {sent} messages");
        for family in ["shared", "direct"] {
            let sent = messages(&install, program, &[("MICA_COLL", family)]);
            assert!(sent <= FEW, "{program}, {family}: {sent} messages");
        }
    }
}

/// One collective by messages and all others in shared areas, and the reverse.
#[test]
fn an_algorithm_that_is_forced_is_used() {
    let install = Install::find();
    for (name, algorithms, program) in [
        ("barrier", ["dissemination"].as_slice(), "coll_barrier"),
        ("bcast", &["binomial", "scatter-ring"], "coll_data"),
        ("gather", &["binomial", "linear"], "coll_data"),
        ("scatter", &["binomial", "linear"], "coll_data"),
        ("allgather", &["bruck", "ring"], "coll_data"),
        ("alltoall", &["bruck", "exchange"], "coll_data"),
        ("reduce", &["binomial", "halving"], "coll_digest"),
        ("allreduce", &["doubling", "halving"], "coll_digest"),
        ("reduce_scatter", &["halving", "pairwise"], "coll_digest"),
        ("scan", &["doubling"], "coll_digest"),
    ] {
        for algorithm in algorithms {
            let list = format!("shared,{name}={algorithm}");
            let sent = messages(&install, program, &[("MICA_COLL", &list)]);
            assert!(sent > FEW, "{name}={algorithm}: {sent} messages");
        }
        let all = messages(&install, program, &[("MICA_COLL", "messages")]);
        let list = format!("messages,{name}=shared");
        let fewer = messages(&install, program, &[("MICA_COLL", &list)]);
        assert!(fewer < all, "{name}=shared: {fewer} messages, without it {all}");
    }
}

//! The dependency rules (docs/design/house.md, section 1): which crates may depend on which, and
//! where `unsafe` may be.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use spdx::{Expression, LicenseReq, ParseMode};

use crate::sources::workspace;

/// Every crate of the workspace, and the crates of the workspace that it may use.
const LAW: &[(&str, &[&str])] = &[
    ("mica-memory", &[]),
    ("mica-node", &["mica-memory"]),
    ("mica-channel", &["mica-node", "mica-memory"]),
    // The collective algorithms as data: pure, and read by all that run, choose or model them.
    ("mica-algorithms", &[]),
    ("mica-policy", &["mica-algorithms", "mica-node"]),
    ("mica-bootstrap", &["mica-node"]),
    (
        "mica-protocol",
        &["mica-channel", "mica-policy", "mica-bootstrap", "mica-node", "mica-memory"],
    ),
    // What every kind of call uses and no other process: datatypes, operators, groups, errors.
    (
        "mica-objects",
        &[
            "mica-protocol",
            "mica-channel",
            "mica-policy",
            "mica-bootstrap",
            "mica-node",
            "mica-memory",
        ],
    ),
    (
        "mica-collective",
        &[
            "mica-objects",
            "mica-protocol",
            "mica-channel",
            "mica-policy",
            "mica-algorithms",
            "mica-node",
            "mica-memory",
        ],
    ),
    // A fence is a barrier, and windows are made by exchanges.
    (
        "mica-rma",
        &[
            "mica-collective",
            "mica-objects",
            "mica-protocol",
            "mica-channel",
            "mica-policy",
            "mica-node",
            "mica-memory",
        ],
    ),
    // The shared file pointer of ranks that share no memory is in a window.
    (
        "mica-files",
        &[
            "mica-rma",
            "mica-collective",
            "mica-objects",
            "mica-protocol",
            "mica-policy",
            "mica-node",
            "mica-memory",
        ],
    ),
    (
        "mica-mpi",
        &[
            "mica-files",
            "mica-rma",
            "mica-collective",
            "mica-objects",
            "mica-protocol",
            "mica-policy",
            "mica-node",
            "mica-memory",
        ],
    ),
    // The C types of the standard ABI, and what front ends of other ABIs call beside MPI.
    ("mica-front-end", &[]),
    (
        "mica-abi",
        &[
            "mica-front-end",
            "mica-mpi",
            "mica-protocol",
            "mica-policy",
            "mica-bootstrap",
            "mica-node",
            "mica-memory",
        ],
    ),
    // A front end is exports and nothing else.
    ("mica-mpi5", &["mica-abi"]),
    // The front end of another ABI loads the library and calls its functions.
    ("mica-mpich", &["mica-front-end"]),
    // That of Fortran calls the functions of C by their names.
    ("mica-fortran", &["mica-front-end"]),
    // The same source for MPICH's ABI.
    ("mica-mpich-fortran", &["mica-front-end"]),
    // Tools use the library through mpi.h as any tool would, `node` for the topology, `policy` for
    // what the library would choose, and `channel` and `bootstrap` for what these report about
    // themselves (`mica info`).
    (
        "mica-launch",
        &["mica-profile", "mica-symbols", "mica-policy", "mica-bootstrap", "mica-node"],
    ),
    // What the profiler loads into ranks, under any vendor's library.
    ("mica-profile-preload", &["mica-profile", "mica-node"]),
    // What the tools' results are written with: charts, pages, their origin.
    ("mica-report", &["mica-node"]),
    // The profile as data: what `mica profile` writes and others draw.
    ("mica-profile", &[]),
    // Function, file and line of addresses, for the reports of tools and of the launcher.
    ("mica-symbols", &[]),
    // Which links make a collective slow: data, model, analysis. `mica links` runs it.
    ("mica-links", &["mica-algorithms", "mica-machine", "mica-statistics"]),
    // What a machine is, as a file describes it, for the models of `sim` and `links`.
    ("mica-machine", &[]),
    // Medians and quantiles of what tools measure.
    ("mica-statistics", &[]),
    // The models of the simulated cluster; `node` has the layout of the adapter's memory, `policy`
    // the choice of collective algorithms, `profile` the calls that the replayer repeats.
    (
        "mica-sim",
        &[
            "mica-machine",
            "mica-statistics",
            "mica-profile",
            "mica-policy",
            "mica-algorithms",
            "mica-node",
        ],
    ),
    // A simulated node, loaded into the emulator.
    ("mica-sim-plugin", &["mica-sim", "mica-node"]),
    // `mica sim` is an MPI program itself, in Rust, so it uses `mpi` where others use mpi.h.
    (
        "mica",
        &[
            "mica-links",
            "mica-sim",
            "mica-statistics",
            "mica-profile",
            "mica-report",
            "mica-symbols",
            "mica-mpi",
            "mica-channel",
            "mica-policy",
            "mica-bootstrap",
            "mica-node",
            "mica-memory",
        ],
    ),
    // The thesis's experiments: they run the installed `mica sim run`.
    ("mica-experiments", &["mica-report", "mica-sim"]),
    // Reads the sources, and nothing of the workspace is compiled for it.
    ("mica-structure", &[]),
    ("mica-tests", &["mica-node"]),
    // The fuzz targets call code that parses external input in any crate. No crate uses them.
    (
        "mica-fuzz",
        &[
            "mica-launch",
            "mica-mpi",
            "mica-protocol",
            "mica-channel",
            "mica-policy",
            "mica-bootstrap",
            "mica-node",
            "mica-memory",
        ],
    ),
];

/// The crates that make up the library loaded into every rank.
const LIBRARY: &[&str] = &[
    "mica-algorithms",
    "mica-memory",
    "mica-node",
    "mica-channel",
    "mica-policy",
    "mica-bootstrap",
    "mica-protocol",
    "mica-objects",
    "mica-collective",
    "mica-rma",
    "mica-files",
    "mica-mpi",
    "mica-front-end",
    "mica-abi",
    "mica-mpi5",
    "mica-mpich",
    "mica-fortran",
    "mica-mpich-fortran",
];

/// The crates in which `unsafe` is allowed; clippy's `undocumented_unsafe_blocks` checks the
/// comments.
const UNSAFE: &[&str] = &[
    "mica-memory",
    "mica-node",
    "mica-channel",
    "mica-abi",
    "mica-front-end",
    "mica-mpi5",
    "mica-mpich",
    "mica-fortran",
    "mica-mpich-fortran",
    "mica-profile-preload",
    "mica-sim-plugin",
];

/// Crates that only tools may use, never the library.
const TOOLS_ONLY: &[&str] = &[
    "hwlocality",
    "addr2line",
    "clap",
    "comfy-table",
    "hmac",
    "indicatif",
    "postcard",
    "rand_core",
    "rand_xorshift",
    "ratatui",
    "serde_json",
    "sha2",
    "toml",
];

fn metadata(options: &[&str]) -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--offline"])
        .args(options)
        .current_dir(workspace())
        .output()
        .expect("cargo starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo metadata: {errors}");
    serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON")
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("no {key} in {value}"))
}

/// Maps each crate to its folder and its dependencies as cargo describes them.
fn crates() -> BTreeMap<String, (PathBuf, Vec<Value>)> {
    let metadata = metadata(&["--no-deps"]);
    let packages = metadata["packages"].as_array().expect("packages");
    let entry = |package: &Value| {
        let manifest = Path::new(text(package, "manifest_path"));
        let folder = manifest.parent().expect("a manifest is in a folder").to_owned();
        let dependencies = package["dependencies"].as_array().expect("dependencies").clone();
        (text(package, "name").to_owned(), (folder, dependencies))
    };
    packages.iter().map(entry).collect()
}

/// The dependencies of this crate that break the rules.
fn violations(name: &str, dependencies: &[Value]) -> Vec<String> {
    let Some((_, allowed)) = LAW.iter().find(|(known, _)| *known == name) else {
        return vec![format!("{name} is not in the law: add it, below what it may use")];
    };
    let ours = |dependency: &str| LAW.iter().any(|(known, _)| *known == dependency);
    let library = LIBRARY.contains(&name);
    let mut found = Vec::new();
    for dependency in dependencies {
        let target = text(dependency, "name");
        let normal = dependency["kind"].is_null();
        let optional = dependency["optional"].as_bool() == Some(true);
        if ours(target) && !allowed.contains(&target) {
            found.push(format!("{name} must not use {target}"));
        }
        if library && normal && !optional && TOOLS_ONLY.contains(&target) {
            found.push(format!("{name} must not use {target}: only tools may"));
        }
        let features = dependency["features"].as_array().expect("features");
        if library && normal && features.iter().any(|f| f == "hwloc" || f == "launcher") {
            found.push(format!("{name} must not ask {target} for a feature of the tools"));
        }
    }
    found
}

#[test]
fn dependencies_point_downwards() {
    let crates = crates();
    let found: Vec<String> =
        crates.iter().flat_map(|(name, (_, uses))| violations(name, uses)).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
    for (name, _) in LAW {
        assert!(crates.contains_key(*name), "{name} is in the law and not in the workspace");
    }
}

/// Checks that the test above can fail.
#[test]
fn law_detects_violations() {
    let uses = |name: &str| {
        vec![serde_json::json!({
            "name": name, "kind": null, "optional": false, "features": []
        })]
    };
    assert!(violations("mica-protocol", &uses("mica-channel")).is_empty());
    for (from, to) in [
        ("mica-node", "mica-channel"),
        ("mica-channel", "mica-protocol"),
        ("mica-channel", "mica-policy"),
        ("mica-policy", "mica-channel"),
        ("mica-bootstrap", "mica-channel"),
        ("mica-launch", "mica-mpi"),
        ("mica-collective", "mica-mpi"),
        ("mica-collective", "mica-rma"),
        ("mica-rma", "mica-files"),
        ("mica", "mica-protocol"),
        ("mica-mpi", "hwlocality"),
        ("mica-new", "mica-node"),
    ] {
        assert_eq!(violations(from, &uses(to)).len(), 1, "{from} -> {to}");
    }
    let mut hwloc = uses("mica-node");
    hwloc[0]["features"] = serde_json::json!(["hwloc"]);
    assert_eq!(violations("mica-channel", &hwloc).len(), 1);
    assert!(violations("mica-launch", &hwloc).is_empty());
}

/// Crates outside `node`, `channel` and `abi` forbid unsafe code in their root file, and the
/// compiler enforces that. Only the root file can forbid it, so only that file is read.
#[test]
fn unsafe_is_only_in_permitted_crates() {
    for (name, (folder, _)) in crates() {
        if UNSAFE.contains(&name.as_str()) || name == "mica-tests" || name == "mica-structure" {
            continue;
        }
        let source = folder.join("src");
        let root = ["lib.rs", "main.rs"].map(|file| source.join(file));
        let root = root.iter().find(|path| path.exists()).expect("a crate has a root");
        let code = fs::read_to_string(root).expect("a readable root");
        assert!(
            code.lines().any(|line| line == "#![forbid(unsafe_code)]"),
            "{} must say #![forbid(unsafe_code)]",
            root.display()
        );
    }
}

/// Whether a package's licence expression, of today's form or an older one, can be met by the
/// licences allowed.
fn may_be_used(expression: &str, allowed: &[&str]) -> bool {
    let expression = Expression::parse_mode(expression, ParseMode::LAX);
    let is_allowed = |one: &LicenseReq| allowed.contains(&one.to_string().as_str());
    expression.is_ok_and(|expression| expression.evaluate(is_allowed))
}

/// The quick half of what cargo-deny checks (`sh scripts/proof.sh deny`), which takes minutes to
/// compile.
#[test]
fn licences_of_dependencies_are_those_that_deny_toml_allows() {
    let deny = fs::read_to_string(workspace().join("deny.toml")).expect("deny.toml");
    let (_, list) = deny.split_once("\nallow = [").expect("a list of licences");
    let (list, _) = list.split_once(']').expect("the end of the list");
    let allowed: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
    assert!(allowed.contains(&"MIT"), "{allowed:?}");
    let metadata = metadata(&["--filter-platform", "x86_64-unknown-linux-gnu", "--all-features"]);
    let packages = metadata["packages"].as_array().expect("packages");
    assert!(packages.len() > 50, "{} packages", packages.len());
    let others = packages.iter().filter(|package| {
        !package["license"].as_str().is_some_and(|expression| may_be_used(expression, &allowed))
    });
    let others: Vec<_> = others.map(|p| format!("{}: {}", text(p, "name"), p["license"])).collect();
    assert!(others.is_empty(), "licences that deny.toml does not allow: {others:?}");
}

#[test]
fn licence_expressions_are_read() {
    let allowed = ["MIT", "Apache-2.0", "Unicode-3.0"];
    for good in ["MIT", "GPL-3.0 OR MIT", "MIT/GPL-2.0", "(MIT OR GPL-3.0) AND Unicode-3.0"] {
        assert!(may_be_used(good, &allowed), "{good}");
    }
    for bad in ["GPL-3.0", "MIT AND GPL-3.0", "(MIT OR Zlib) AND BSL-1.0", ""] {
        assert!(!may_be_used(bad, &allowed), "{bad}");
    }
}

//! Which proofs a change needs (`scripts/proofs_of.sh`): the mapping knows every kind of file, and
//! a change in any area selects what can find a fault there; and when all proofs ran last.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::sources::workspace;

/// Commits after which all proofs must run again.
const FULL_EVERY: u32 = 20;

/// The proofs that a change of these files needs.
fn proofs(paths: &[&str]) -> String {
    let script = ". scripts/proofs_of.sh; printf '%s\\n' \"$@\" | proofs_of_all";
    let output = Command::new("sh")
        .args(["-c", script, "sh"])
        .args(paths)
        .current_dir(workspace())
        .output()
        .expect("sh starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("names in UTF-8")
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).current_dir(workspace()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    output.status.success().then_some(text)
}

#[test]
fn a_change_selects_what_can_find_a_fault_there() {
    for (paths, expected) in [
        (&["crates/node/src/primitives/ring/producer.rs"][..], "aarch64 miri-node loom:ring,fifo"),
        (
            &["crates/node/src/primitives/ring/mod.rs", "crates/node/src/primitives/cells/pool.rs"],
            "aarch64 miri-node loom:cells,ring,fifo",
        ),
        (
            &["crates/node/src/primitives/sync.rs", "crates/node/src/primitives/ring/mod.rs"],
            "aarch64 loom miri-node thread",
        ),
        (&["crates/memory/src/view.rs"], "aarch64 address miri-memory"),
        (&["crates/objects/src/datatype/layout.rs"], "address miri-objects"),
        (&["crates/protocol/src/pt2pt/send.rs"], "aarch64 address thread"),
        (&["docs/guide.md", "README.md", "crates/mica/src/main.rs"], ""),
        (&["scripts/miri.sh"], "miri-memory miri-node miri-objects"),
    ] {
        assert_eq!(proofs(paths), expected, "{paths:?}");
    }
}

#[test]
fn what_is_not_known_selects_all() {
    let all = proofs(&["scripts/proof.sh"]);
    for path in ["crates/new/src/lib.rs", "Cargo.lock", "crates/node/Cargo.toml", "new.c", "new/x"]
    {
        assert_eq!(proofs(&[path]), all, "{path}");
    }
}

/// The text of a file, or of all files below a folder.
fn texts_below(path: &Path) -> Vec<String> {
    match fs::read_dir(path) {
        Ok(entries) => entries.flatten().flat_map(|entry| texts_below(&entry.path())).collect(),
        Err(_) => vec![fs::read_to_string(path).expect("text")],
    }
}

/// Every module with models of loom has its own line, and its models are what that line runs: other
/// tests of the module, which fail outside a model, are not compiled for loom.
#[test]
fn every_model_is_selected_by_its_module() {
    let node = workspace().join("crates/node/src");
    let mut models = 0;
    let in_folder = |folder| fs::read_dir(node.join(folder)).expect("a folder").flatten();
    let folders = ["", "primitives", "primitives/baselines"];
    for entry in folders.into_iter().flat_map(in_folder) {
        let path = entry.path();
        if path.ends_with("primitives") || path.ends_with("primitives/baselines") {
            continue;
        }
        let module = path.file_stem().expect("a name").to_str().expect("UTF-8").to_owned();
        let texts = texts_below(&path);
        let inside = path.strip_prefix(&node).expect("a path of the crate").display();
        let file = match path.is_dir() {
            true => format!("{inside}/mod.rs"),
            false => inside.to_string(),
        };
        let has_model = texts.iter().any(|text| text.contains("loom::model"));
        let others = texts.iter().filter(|text| text.contains("#[cfg(test)]\nmod ")).count();
        assert!(
            !has_model || others == 0,
            "{module}: tests beside models need #[cfg(all(test, not(loom)))]"
        );
        let selected = proofs(&[&format!("crates/node/src/{file}")]);
        let has_line = selected.split(' ').any(|proof| {
            let modules = proof.strip_prefix("loom:").unwrap_or_default();
            modules.split(',').any(|name| name == module)
        });
        models += u32::from(has_model);
        assert!(!has_model || has_line || module == "sync", "{file}: {selected}");
    }
    assert!(models > 10, "only {models} modules with models");
}

/// `make test FULL=1` notes the commit, of which all proofs have passed.
#[test]
fn all_proofs_have_run_not_long_ago() {
    if std::env::var_os("FULL").is_some_and(|full| !full.is_empty()) {
        println!("skipped: this run has all proofs");
        return;
    }
    let stamp = workspace().join("tests/proofs/last-full-run");
    let text = fs::read_to_string(&stamp).unwrap_or_else(|e| panic!("{}: {e}", stamp.display()));
    let commit = text.split_whitespace().next().expect("a commit").to_owned();
    let Some(count) = git(&["rev-list", "--count", &format!("{commit}..HEAD")]) else {
        println!(
            "skipped: {commit} is not in this clone, so all proofs run (scripts/proof.sh since)"
        );
        return;
    };
    let count: u32 = count.parse().expect("a number");
    assert!(
        count <= FULL_EVERY,
        "{count} commits since all proofs ran, {FULL_EVERY} at most: run make test FULL=1 and \
         commit tests/proofs/last-full-run"
    );
}

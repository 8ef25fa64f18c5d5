//! Tells the crate what this Mica is built from.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    let variable = |name: &str| env::var(name).unwrap_or_default();
    let output = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    println!("cargo::rustc-env=MICA_BUILD_PROFILE={}", variable("PROFILE"));
    println!("cargo::rustc-env=MICA_BUILD_TARGET={}", variable("TARGET"));
    let compiler = output(&variable("RUSTC"), &["--version"]).unwrap_or_default();
    println!("cargo::rustc-env=MICA_BUILD_COMPILER={compiler}");
    // Packagers who build from an archive can say it by MICA_COMMIT.
    println!("cargo::rerun-if-env-changed=MICA_COMMIT");
    let commit = match variable("MICA_COMMIT") {
        given if !given.is_empty() => Some(given),
        _ => output("git", &["rev-parse", "--short=12", "HEAD"]),
    };
    println!("cargo::rustc-env=MICA_BUILD_COMMIT={}", commit.unwrap_or_default());
    // The file that changes with each commit; without a repository, this file.
    let log = output("git", &["rev-parse", "--git-path", "logs/HEAD"]);
    let watched = log.filter(|path| Path::new(path).exists());
    println!("cargo::rerun-if-changed={}", watched.as_deref().unwrap_or("build.rs"));
}

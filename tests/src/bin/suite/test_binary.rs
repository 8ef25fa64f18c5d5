//! The test binaries that cargo has built, and the tests that they have.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// A test binary.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TestBinary {
    /// The package, and the target's name if it is another.
    pub name: String,
    /// The name of the package.
    pub package: String,
    path: PathBuf,
    /// The package's folder, in which its tests run.
    folder: PathBuf,
}

/// One test.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TestCase {
    /// The binary that has it.
    pub binary: TestBinary,
    /// Its name there.
    pub name: String,
}

impl TestCase {
    /// Its name in reports.
    pub fn full_name(&self) -> String {
        format!("{} {}", self.binary.name, self.name)
    }

    /// The command that runs it and nothing else.
    pub fn command(&self) -> Command {
        let mut command = self.binary.command();
        command.args([&self.name, "--exact", "--nocapture", "--test-threads=1"]);
        command
    }
}

impl TestBinary {
    fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        // As cargo runs them.
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        command
    }

    /// Asks it for its tests.
    pub fn tests(&self) -> Result<Vec<TestCase>, String> {
        let all = self.list(&[])?;
        // Those that only other tests start, as processes.
        let ignored: BTreeSet<String> = self.list(&["--ignored"])?.into_iter().collect();
        let run = all.into_iter().filter(|name| !ignored.contains(name));
        Ok(run.map(|name| TestCase { binary: self.clone(), name }).collect())
    }

    fn list(&self, options: &[&str]) -> Result<Vec<String>, String> {
        let output = self.command().args(["--list", "--format", "terse"]).args(options).output();
        let output = output.map_err(|error| format!("{}: {error}", self.path.display()))?;
        if !output.status.success() {
            return Err(format!("{} --list: {}", self.path.display(), output.status));
        }
        Ok(listed(&String::from_utf8_lossy(&output.stdout)).map(str::to_owned).collect())
    }
}

/// The tests in the list of a binary: `NAME: test` on a line.
fn listed(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| line.strip_suffix(": test"))
}

/// The binaries in the file of cargo's messages.
pub fn read(file: &Path) -> Result<Vec<TestBinary>, String> {
    let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let binaries: Vec<_> = text.lines().filter_map(binary).collect();
    match binaries.is_empty() {
        true => Err(format!("{}: no test binaries in it", file.display())),
        false => Ok(binaries),
    }
}

/// The test binary that a message of cargo tells of.
fn binary(line: &str) -> Option<TestBinary> {
    let message: Value = serde_json::from_str(line).ok()?;
    let is_test = message["profile"]["test"].as_bool()?;
    let path = PathBuf::from(message["executable"].as_str().filter(|_| is_test)?);
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
    let target = message["target"]["name"].as_str()?;
    let id = message["package_id"].as_str()?;
    // "path+file:///work/crates/node#mica-node@0.1.0"; "...#0.1.0" where the folder has the name.
    let (before, after) = id.rsplit_once('#')?;
    let package = match after.split_once('@') {
        Some((name, _)) => name,
        None => before.rsplit('/').next()?,
    };
    let is_own = target.replace('_', "-") == package;
    let name = if is_own { package.to_owned() } else { format!("{package} {target}") };
    Some(TestBinary { name, package: package.to_owned(), path, folder })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_cargos_messages() {
        let message = |id: &str, target: &str, test: bool| {
            format!(
                r#"{{"reason":"compiler-artifact","package_id":"{id}","manifest_path":
                "/w/crates/node/Cargo.toml","target":{{"name":"{target}"}},"profile":
                {{"test":{test}}},"executable":"/w/target/debug/deps/x-1"}}"#
            )
            .replace('\n', "")
        };
        let found =
            binary(&message("path+file:///w/crates/node#mica-node@0.1.0", "mica_node", true));
        let found = found.expect("a test binary");
        assert_eq!(
            (found.name.as_str(), found.folder.as_path()),
            ("mica-node", "/w/crates/node".as_ref())
        );
        let id = "path+file:///w/crates/mica#0.1.0";
        assert_eq!(binary(&message(id, "options", true)).expect("one").name, "mica options");
        assert_eq!(binary(&message(id, "mica", false)), None);
        assert_eq!(binary("not JSON"), None);
    }

    #[test]
    fn reads_lists_of_tests() {
        let text = "a::b: test\nbench: benchmark\n\n2 tests, 0 benchmarks\nc: test\n";
        assert_eq!(listed(text).collect::<Vec<_>>(), ["a::b", "c"]);
    }
}

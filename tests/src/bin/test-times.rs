//! The table of times of a whole run: `test-times FOLDER OUTPUT.json` reads the lines in
//! `FOLDER/*.jsonl` (steps of `make test`, test binaries, passes of the program list, tests),
//! prints a table of them, and writes all to one file.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use mica_tests::TestTime;

/// How many single tests, and how many lines of the program list, are shown.
const SLOWEST: usize = 100;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, output] = arguments.as_slice() else {
        eprintln!("usage: test-times FOLDER OUTPUT.json");
        return ExitCode::from(2);
    };
    match read(Path::new(folder)) {
        Ok(times) => {
            let json = serde_json::to_string_pretty(&times).expect("text and numbers");
            if let Err(error) = fs::write(output, json) {
                eprintln!("test-times: {output}: {error}");
                return ExitCode::from(2);
            }
            print!("{}", table(&times));
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("test-times: {why}");
            ExitCode::from(2)
        }
    }
}

fn read(folder: &Path) -> Result<Vec<TestTime>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut files: Vec<_> = fs::read_dir(folder)
        .map_err(failed)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()
        .map_err(failed)?;
    files.sort();
    let mut times = Vec::new();
    for file in files.iter().filter(|file| file.extension().is_some_and(|end| end == "jsonl")) {
        let text = fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
        for (number, line) in text.lines().enumerate() {
            let time = serde_json::from_str(line);
            times.push(time.map_err(|e| format!("{}:{}: {e}", file.display(), number + 1))?);
        }
    }
    Ok(times)
}

fn of<'a>(times: &'a [TestTime], group: &'static str) -> impl Iterator<Item = &'a TestTime> {
    times.iter().filter(move |time| time.group == group)
}

/// Steps in their order, then sums of groups, binaries and passes, then what took longest.
fn table(times: &[TestTime]) -> String {
    let mut text = String::from("  wall s   core s  what\n");
    let mut row = |wall: f64, core: f64, what: &str| {
        writeln!(text, "{wall:8.1} {core:8.1}  {what}").expect("a string takes all");
    };
    for time in of(times, "steps") {
        row(time.wall, time.core, &format!("step {}", time.name));
    }
    let mut sums: BTreeMap<String, (f64, f64, usize)> = BTreeMap::new();
    for time in times {
        let name = match time.group.as_str() {
            "steps" | "tests" => continue,
            "test binaries" => format!("binary {}", time.name),
            group => group.to_owned(),
        };
        let sum = sums.entry(name).or_default();
        *sum = (sum.0 + time.wall, sum.1 + time.core, sum.2 + 1);
    }
    for (name, (wall, core, count)) in &sums {
        let runs = if *count > 1 { format!(": {count} runs") } else { String::new() };
        row(*wall, *core, &format!("{name}{runs}"));
    }
    let is_line = |time: &&TestTime| time.group.starts_with("programs, ");
    let mut lines: Vec<&TestTime> = times.iter().filter(is_line).collect();
    let mut tests: Vec<&TestTime> = of(times, "tests").collect();
    for (list, kind) in [(&mut tests, "test"), (&mut lines, "line")] {
        list.sort_by(|a, b| b.core.total_cmp(&a.core));
        for time in list.iter().take(SLOWEST) {
            let pass = time.group.strip_prefix("programs, ").map(|pass| format!(" ({pass})"));
            row(time.wall, time.core, &format!("{kind} {}{}", time.name, pass.unwrap_or_default()));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_groups_and_sorts_tests() {
        let time = |group: &str, name: &str, core: f64| TestTime {
            group: group.to_owned(),
            name: name.to_owned(),
            wall: 1.0,
            core,
        };
        let text = table(&[
            time("steps", "lint", 9.0),
            time("tests", "mica-node a", 0.5),
            time("tests", "mica-node b", 2.5),
            time("test binaries", "mica-node", 3.0),
            time("programs, plain", "coll_data, 2 ranks", 1.5),
            time("programs, plain", "coll_data, 3 ranks", 2.0),
        ]);
        let expected = [
            "     1.0      9.0  step lint",
            "     1.0      3.0  binary mica-node",
            "     2.0      3.5  programs, plain: 2 runs",
            "     1.0      2.5  test mica-node b",
            "     1.0      0.5  test mica-node a",
            "     1.0      2.0  line coll_data, 3 ranks (plain)",
            "     1.0      1.5  line coll_data, 2 ranks (plain)",
        ];
        assert_eq!(text.lines().skip(1).collect::<Vec<_>>(), expected);
    }
}

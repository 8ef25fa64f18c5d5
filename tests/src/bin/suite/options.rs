//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use crate::load::Load;

/// What `suite` without arguments prints.
pub const USAGE: &str = "\
usage: suite [OPTIONS] BINARIES.json
  BINARIES.json       output of cargo test --no-run --message-format=json
  --name NAME         of the run, for its table of times (default: tests)
  --package NAME      only the binaries of this package (again: or of this one)
  --only TEXT         only tests whose name has this text (again: or this one)
  --skip TEXT         no tests whose name has this text
  --repeat N          each test N times; all failures are counted and the first of each is shown
  --load none|busy|memory
                      what else the machine does meanwhile: a loop on each core, or memory that
                      is written until a twentieth is left
  --limit SECONDS     a test that takes longer is hung (default: 900)";

/// The options of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Cargo's messages.
    pub binaries: PathBuf,
    /// Names the table of times.
    pub name: String,
    /// Packages to run; empty: all.
    pub packages: Vec<String>,
    /// Parts of tests' names; empty: all.
    pub only: Vec<String>,
    /// Parts of the names of tests that do not run.
    pub skip: Vec<String>,
    /// How often each test runs.
    pub repeat: u32,
    /// What else the machine does.
    pub load: Load,
    /// Limit on each test.
    pub limit: Duration,
}

impl Options {
    /// Reads the arguments behind the program's name.
    pub fn parse(mut words: impl Iterator<Item = String>) -> Result<Options, String> {
        let mut options = Options {
            binaries: PathBuf::new(),
            name: "tests".to_owned(),
            packages: Vec::new(),
            only: Vec::new(),
            skip: Vec::new(),
            repeat: 1,
            load: Load::None,
            limit: Duration::from_secs(900),
        };
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} needs a value"));
            match word.as_str() {
                "--name" => options.name = value()?,
                "--package" => options.packages.push(value()?),
                "--only" => options.only.push(value()?),
                "--skip" => options.skip.push(value()?),
                "--repeat" => options.repeat = number(&word, &value()?)?,
                "--limit" => options.limit = Duration::from_secs(number(&word, &value()?)?.into()),
                "--load" => options.load = value()?.parse()?,
                _ if word.starts_with('-') => return Err(format!("unknown option '{word}'")),
                _ => options.binaries = PathBuf::from(word),
            }
        }
        match options.binaries.as_os_str().is_empty() {
            true => Err("which binaries?".to_owned()),
            false => Ok(options),
        }
    }

    /// Whether a test of this name is to run.
    pub fn wants(&self, name: &str) -> bool {
        let has = |words: &[String]| words.iter().any(|word| name.contains(word));
        (self.only.is_empty() || has(&self.only)) && !has(&self.skip)
    }
}

fn number(option: &str, value: &str) -> Result<u32, String> {
    match value.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(format!("{option} {value}: expected a number from 1")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        Options::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn options_select_tests() {
        let options = parse("--only hang:: --only faults:: --skip slow --repeat 30 x.json");
        let options = options.expect("right options");
        assert_eq!(options.repeat, 30);
        assert!(options.wants("jobs hang::a") && options.wants("jobs faults::b"));
        assert!(!options.wants("jobs top::a") && !options.wants("jobs hang::slow"));
    }

    #[test]
    fn mistakes_are_named() {
        for (line, why) in [
            ("", "which binaries?"),
            ("--repeat 0 x", "--repeat 0: expected a number from 1"),
            ("--name", "--name needs a value"),
            ("--load much x", "--load much: expected none, busy or memory"),
            ("--what x", "unknown option '--what'"),
        ] {
            assert_eq!(parse(line), Err(why.to_owned()), "{line}");
        }
    }
}

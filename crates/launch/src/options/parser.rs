//! Reads options from left to right, as their [table](super::table) says.

use std::ffi::{OsStr, OsString};
use std::time::Duration;

use super::foreign;
use super::request::{CommandRequest, JobOptions, ProgramSection, UsageError};
use super::soft;
use crate::options::values::pattern::NamePattern;
use crate::options::values::rank_set::RankSet;

/// One entry of the table.
pub(super) struct Spec {
    /// The names as the help shows them; one dash or two are accepted.
    pub names: &'static [&'static str],
    /// Whether it belongs to the section (program) or to the whole job.
    pub scope: Scope,
    /// The text for the help.
    pub help: &'static str,
    /// The values that it takes, and what it does with them.
    pub effect: OptionEffect,
}

/// What an option does.
pub(super) enum OptionEffect {
    /// It takes no value.
    Flag(fn(&mut OptionParser)),
    /// It takes one value, which has this name in the help. An error names the option as written.
    Value(&'static str, fn(&mut OptionParser, &str, &OsStr) -> Result<(), UsageError>),
    /// It takes an environment variable.
    Variable(fn(&mut OptionParser, (OsString, OsString))),
    /// It takes a number of seconds.
    Seconds(fn(&mut OptionParser, Duration)),
    /// It takes a text with placeholders.
    Pattern(fn(&mut OptionParser, NamePattern)),
    /// It takes no value, and is the same as this option with this value.
    SameAs(&'static str, &'static str),
}

/// An option of one program.
pub(super) const fn section(
    names: &'static [&'static str],
    help: &'static str,
    effect: OptionEffect,
) -> Spec {
    Spec { names, scope: Scope::Section, help, effect }
}

/// An option of the whole job.
pub(super) const fn job(
    names: &'static [&'static str],
    help: &'static str,
    effect: OptionEffect,
) -> Spec {
    Spec { names, scope: Scope::Job, help, effect }
}

impl Spec {
    pub fn has_name(&self, bare: &str) -> bool {
        self.names.iter().any(|name| name.trim_start_matches('-') == bare)
    }

    /// The names of its values, one for each argument that it takes.
    pub fn values(&self) -> &[&'static str] {
        match &self.effect {
            OptionEffect::Flag(_) | OptionEffect::SameAs(..) => &[],
            OptionEffect::Value(name, _) => std::slice::from_ref(name),
            OptionEffect::Seconds(_) => &["SECONDS"],
            OptionEffect::Pattern(_) => &["PATTERN"],
            OptionEffect::Variable(_) => &["NAME", "VALUE"],
        }
    }
}

#[derive(PartialEq)]
pub(super) enum Scope {
    Section,
    Job,
}

/// The options and sections read so far.
pub(super) struct OptionParser {
    /// Every option.
    pub table: &'static [&'static [Spec]],
    pub options: JobOptions,
    pub section: ProgramSection,
    /// The sections come from a file, or this is a line of a file.
    pub from_file: bool,
    /// The command line names the ranks that get standard input.
    pub input_given: bool,
    /// Set by options that mpiexec answers without running a job.
    pub answer: Option<CommandRequest>,
}

impl OptionParser {
    /// A parser of the options in `table` that has read nothing yet.
    pub fn new(table: &'static [&'static [Spec]]) -> OptionParser {
        OptionParser {
            table,
            options: JobOptions::new(),
            section: ProgramSection::new(),
            from_file: false,
            input_given: false,
            answer: None,
        }
    }

    fn specs(&self) -> impl Iterator<Item = &'static Spec> {
        self.table.iter().copied().flatten()
    }

    /// The entry of the option with this name, given without dashes.
    pub fn spec(&self, bare: &str) -> Option<&'static Spec> {
        self.specs().find(|spec| spec.has_name(bare))
    }

    /// The error for an option that does not exist, with a suggestion.
    fn unknown(&self, text: &str, bare: &str) -> UsageError {
        let instead = foreign::instead(bare).map(|instead| format!(": {instead}"));
        let instead = instead.or_else(|| {
            let names = self.specs().flat_map(|spec| spec.names.iter().copied());
            Some(format!("; is {} meant?", foreign::nearest(names, bare)?))
        });
        UsageError::Unknown(text.to_owned(), instead.unwrap_or_default())
    }

    pub fn section(&mut self, arguments: &[OsString]) -> Result<(), UsageError> {
        self.section = ProgramSection::new();
        let arguments = self.leading_options(arguments)?;
        if self.answer.is_some() || (arguments.is_empty() && self.from_file) {
            return Ok(());
        }
        if arguments.is_empty() {
            let place = match self.options.sections.is_empty() {
                true => "",
                false => " in the section after ':'",
            };
            return Err(UsageError::NoProgram(place));
        }
        self.program(arguments)
    }

    /// Applies the options before the program and returns the rest.
    pub fn leading_options<'a>(
        &mut self,
        mut arguments: &'a [OsString],
    ) -> Result<&'a [OsString], UsageError> {
        while let Some((first, rest)) = arguments.split_first() {
            let text = first.to_string_lossy();
            if !text.starts_with('-') || text == "-" {
                break;
            }
            arguments = rest;
            if text == "--" {
                break;
            }
            arguments = self.option(&text, arguments)?;
            if self.answer.is_some() {
                break;
            }
        }
        Ok(arguments)
    }

    /// Ends the section at its program.
    pub fn program(&mut self, command: &[OsString]) -> Result<(), UsageError> {
        self.section.command = command.to_vec();
        let mut section = std::mem::replace(&mut self.section, ProgramSection::new());
        if let Some(soft) = &section.soft {
            let limit = if section.counted { section.ranks } else { RANKS_MAX };
            let ranks = soft::largest(soft, limit);
            section.ranks = ranks.ok_or_else(|| UsageError::Soft { soft: soft.clone(), limit })?;
            section.counted = true;
        }
        self.options.sections.push(section);
        Ok(())
    }

    /// Applies one option and returns the arguments after it.
    pub fn option<'a>(
        &mut self,
        text: &str,
        arguments: &'a [OsString],
    ) -> Result<&'a [OsString], UsageError> {
        let bare = text.strip_prefix("--").unwrap_or(&text[1..]);
        let (bare, attached) = match bare.split_once('=') {
            Some((bare, value)) => (bare, Some(OsString::from(value))),
            None => (bare, None),
        };
        let option = text.split('=').next().unwrap_or(text);
        let spec = self.spec(bare).ok_or_else(|| self.unknown(text, bare))?;
        let needed = match (&spec.effect, arguments.first()) {
            // Hydra accepts `-genv NAME=VALUE` as well.
            (OptionEffect::Variable(_), Some(pair)) if pair.as_encoded_bytes().contains(&b'=') => 1,
            _ => spec.values().len(),
        };
        match attached {
            Some(value) if needed == 1 => self.apply(spec, option, &[value]).map(|()| arguments),
            Some(value) => Err(wrong(option, &value, "wanted: it takes no value after '='")),
            None if arguments.len() < needed => Err(UsageError::Missing {
                option: option.to_owned(),
                wanted: spec.values().join(" "),
            }),
            None => {
                let (values, rest) = arguments.split_at(needed);
                self.apply(spec, option, values).map(|()| rest)
            }
        }
    }

    /// Applies an option to as many values as it takes. `option` is named in errors.
    pub fn apply(
        &mut self,
        spec: &Spec,
        option: &str,
        values: &[OsString],
    ) -> Result<(), UsageError> {
        match &spec.effect {
            OptionEffect::Flag(set) => set(self),
            OptionEffect::Value(_, read) => read(self, option, &values[0])?,
            OptionEffect::Seconds(set) => set(self, seconds(option, &values[0])?),
            OptionEffect::Pattern(set) => set(self, pattern(option, &values[0])?),
            OptionEffect::Variable(set) => set(self, variable(option, values)?),
            OptionEffect::SameAs(other, value) => {
                let other = self.spec(other).expect("an option of the table");
                self.apply(other, option, &[OsString::from(value)])?;
            }
        }
        Ok(())
    }
}

pub(super) fn wrong(option: &str, value: &OsStr, wanted: &str) -> UsageError {
    UsageError::Value {
        option: option.to_owned(),
        value: value.to_string_lossy().into_owned(),
        wanted: wanted.to_owned(),
    }
}

pub(super) fn number<T: std::str::FromStr>(
    option: &str,
    value: &OsStr,
    wanted: &str,
) -> Result<T, UsageError> {
    value.to_str().and_then(|text| text.parse().ok()).ok_or_else(|| wrong(option, value, wanted))
}

/// Longest time that an option may give: 31 years. The sum of any such times and a time of day is
/// one.
const LONGEST: Duration = Duration::from_secs(1_000_000_000);

pub(super) fn seconds(option: &str, value: &OsStr) -> Result<Duration, UsageError> {
    let wanted = "a number of seconds, up to 1e9";
    let seconds: f64 = number(option, value, wanted)?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if time <= LONGEST => Ok(time),
        _ => Err(wrong(option, value, wanted)),
    }
}

/// The most ranks that a program may have.
const RANKS_MAX: usize = 65536;

/// Parses a number of ranks.
pub(super) fn ranks(option: &str, value: &OsStr) -> Result<usize, UsageError> {
    let wanted = "a number of ranks from 1 to 65536";
    let ranks: usize = number(option, value, wanted)?;
    if (1..=RANKS_MAX).contains(&ranks) { Ok(ranks) } else { Err(wrong(option, value, wanted)) }
}

pub(super) fn rank_set(option: &str, value: &OsStr) -> Result<RankSet, UsageError> {
    value.to_str().and_then(RankSet::parse).ok_or_else(|| wrong(option, value, RankSet::WANTED))
}

pub(super) fn pattern(option: &str, value: &OsStr) -> Result<NamePattern, UsageError> {
    let pattern = value.to_str().and_then(NamePattern::parse);
    pattern.ok_or_else(|| wrong(option, value, NamePattern::WANTED))
}

pub(super) fn variable_name(option: &str, name: &OsStr) -> Result<OsString, UsageError> {
    let text = name.to_string_lossy();
    if text.is_empty() || text.contains('=') {
        return Err(wrong(option, name, "the name of an environment variable"));
    }
    Ok(name.to_owned())
}

/// Parses `NAME VALUE` or `NAME=VALUE`.
fn variable(option: &str, values: &[OsString]) -> Result<(OsString, OsString), UsageError> {
    match values {
        [name, value] => Ok((variable_name(option, name)?, value.clone())),
        _ => {
            let pair = values[0].to_string_lossy();
            let (name, value) = pair.split_once('=').unwrap_or((&pair, ""));
            Ok((variable_name(option, OsStr::new(name))?, value.into()))
        }
    }
}

/// Parses `A,B,C`, each the name of a variable.
pub(super) fn variable_names(option: &str, value: &OsStr) -> Result<Vec<OsString>, UsageError> {
    let names = value.to_string_lossy();
    names.split(',').map(|name| variable_name(option, OsStr::new(name))).collect()
}

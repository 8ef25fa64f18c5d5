//! The command line: one table of options drives parsing, `--help`, the manual page and completion.
//!
//! Long names may be written with one dash or two (`-np`, `--np`): users come from launchers with
//! either habit. Options end at the program's name; what follows up to a lone `:` belongs to the
//! program. After `:` comes the next section of a job of several programs (MPMD).

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use mica_bootstrap::spawned::{SPAWNED, SpawnedBy};
use mica_node::tunables::{ERRHANDLER, LATE};

use crate::options::values::binding::Binding;
use crate::options::values::completion_shell::CompletionShell;
use crate::options::values::inherit::Inherit;
use crate::options::values::rank_set::RankSet;
use crate::options::values::tool::Tool;
use crate::signals::SignalRules;

mod completion;
mod config_file;
mod foreign;
mod help;
mod manual;
mod parser;
mod request;
mod soft;
mod table;
pub mod values;
mod variables;

pub use completion::completion;
pub use help::help;
pub use manual::manual;
pub use request::{
    AGENT, Agent, AgentLauncher, CommandRequest, HostOptions, JobOptions, ProgramSection, STARTER,
    SpawnedJob, UsageError,
};

use parser::*;
use request::SPAWNED_HERE;
use table::OPTIONS;

/// Looks up an environment variable.
pub type Variables<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// Parses the command line (without the name of this program). Variables that other launchers read
/// are applied before it.
pub fn parse(
    arguments: &[OsString],
    variables: Variables<'_>,
) -> Result<CommandRequest, UsageError> {
    if let Some((first, rest)) = arguments.split_first()
        && first == AGENT
    {
        return Agent::parse(rest).ok_or(UsageError::Agent).map(CommandRequest::Agent);
    }
    if arguments.first().is_some_and(|first| first == STARTER) {
        return match arguments {
            [_] => Ok(CommandRequest::Starter),
            _ => Err(UsageError::Starter),
        };
    }
    if let Some((first, rest)) = arguments.split_first()
        && first == SPAWNED
    {
        let by = rest.first().and_then(|by| SpawnedBy::parse(by.to_str()?));
        let by = by.ok_or(UsageError::Spawned)?;
        return Ok(CommandRequest::Spawn { by, command_line: rest[1..].to_vec() });
    }
    if let Some((first, rest)) = arguments.split_first()
        && first == SPAWNED_HERE
    {
        return SpawnedJob::parse(rest).ok_or(UsageError::Spawned).map(CommandRequest::Spawned);
    }
    let mut parser = OptionParser::new(OPTIONS);
    variables::apply(&mut parser, variables)?;
    for section in arguments.split(|argument| argument == ":") {
        parser.section(section)?;
        if let Some(answer) = parser.answer {
            return Ok(answer);
        }
    }
    if !parser.input_given {
        // A debugger of a single rank reads its commands from standard input.
        let debugged = parser.options.tools.iter().find_map(Tool::only_debugged);
        parser.options.input = RankSet::one(debugged.unwrap_or(0));
    }
    // Other hosts may have other directories, so directories are checked only without hosts.
    if parser.options.names_no_hosts() {
        for (section, number) in parser.options.sections.iter().zip(0..) {
            if let Some(directory) = section.directory.as_ref().filter(|path| !path.is_dir()) {
                let directory = directory.clone();
                return Err(UsageError::Directory { section: number, directory });
            }
        }
    }
    Ok(CommandRequest::Run(Box::new(parser.options)))
}

#[cfg(test)]
pub mod tests;

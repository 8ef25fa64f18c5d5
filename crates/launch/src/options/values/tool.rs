//! Commands that the programs of some ranks are started under: `--tool "valgrind -q:0,2"`,
//! `--debug 1`.

use std::ffi::OsString;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::options::values::rank_set::RankSet;
use crate::options::values::shell_words::shell_words;

/// The debugger, if MICA_DEBUGGER names no other.
const DEBUGGER: &str = "gdb -q";
/// The command that opens a terminal for a debugger, unless MICA_TERMINAL names another; `%r` is
/// the rank.
const TERMINAL: &str = "xterm -T rank:%r -e";

/// A command that the programs of some ranks are started under.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// The ranks.
    pub ranks: RankSet,
    /// The command; `None` for the debugger.
    command: Option<Vec<OsString>>,
}

/// A tool cannot be used.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum ToolError {
    /// Several debuggers, and no display for them.
    #[error(
        "--debug of {0} ranks opens a window for each, and there is no display (DISPLAY is not \
         set): name one rank, or set MICA_TERMINAL to a command that runs its arguments in a new \
         terminal"
    )]
    NoDisplay(usize),
    /// A variable cannot be read as a command.
    #[error("{variable}={value:?} is not a command")]
    Command { variable: &'static str, value: String },
}

impl Tool {
    /// Reads `COMMAND:RANKS;COMMAND:RANKS...`.
    pub fn parse(text: &str) -> Option<Vec<Tool>> {
        let tool = |part: &str| {
            let (command, ranks) = part.rsplit_once(':')?;
            let command = shell_words(command).ok().filter(|words| !words.is_empty())?;
            Some(Tool { ranks: RankSet::parse(ranks.trim())?, command: Some(command) })
        };
        text.split(';').map(tool).collect()
    }

    /// The debugger for these ranks.
    pub fn debugger(ranks: RankSet) -> Tool {
        Tool { ranks, command: None }
    }

    /// Whether it is a debugger for this rank alone, which then has the terminal.
    pub fn debugs_alone(&self, rank: u32, size: u32) -> bool {
        self.command.is_none() && self.ranks.contains(rank) && self.count(size) == 1
    }

    /// The rank, if this is a debugger for a single named rank.
    pub fn only_debugged(&self) -> Option<u32> {
        let RankSet::Ranges(ranges) = &self.ranks else { return None };
        match (&self.command, &ranges[..]) {
            (None, &[(first, last)]) if first == last => Some(first),
            _ => None,
        }
    }

    fn count(&self, size: u32) -> usize {
        (0..size).filter(|&rank| self.ranks.contains(rank)).count()
    }

    /// The words before the program of a rank.
    fn words(
        &self,
        rank: u32,
        size: u32,
        variables: Variables<'_>,
    ) -> Result<Vec<OsString>, ToolError> {
        if let Some(command) = &self.command {
            return Ok(command.clone());
        }
        let command = |variable: &'static str, default: &str| {
            let value = variables(variable).filter(|value| !value.is_empty());
            let value = value.unwrap_or_else(|| default.to_owned());
            match shell_words(&value) {
                Ok(words) if !words.is_empty() => Ok(words),
                _ => Err(ToolError::Command { variable, value }),
            }
        };
        let mut words = Vec::new();
        let count = self.count(size);
        if count > 1 {
            let known = ["MICA_TERMINAL", "DISPLAY", "WAYLAND_DISPLAY"];
            if known.iter().all(|name| variables(name).is_none()) {
                return Err(ToolError::NoDisplay(count));
            }
            let terminal = command("MICA_TERMINAL", TERMINAL)?.into_iter();
            words.extend(terminal.map(|word| {
                OsString::from(word.to_string_lossy().replace("%r", &rank.to_string()))
            }));
        }
        let debugger = command("MICA_DEBUGGER", DEBUGGER)?;
        let name = Path::new(&debugger[0]).file_name().unwrap_or_default().to_string_lossy();
        let divider = match () {
            () if name.contains("gdb") => Some("--args"),
            () if name.contains("lldb") => Some("--"),
            () => None,
        };
        words.extend(debugger);
        words.extend(divider.map(OsString::from));
        Ok(words)
    }
}

/// Looks up an environment variable.
type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The command of a rank with the tools that it is started under; the first tool is the outermost.
///
/// # Errors
/// When a debugger has no terminal.
pub fn command(
    tools: &[Tool],
    program: &[OsString],
    rank: u32,
    size: u32,
    variables: Variables<'_>,
) -> Result<Vec<OsString>, ToolError> {
    let mut words = Vec::new();
    for tool in tools.iter().filter(|tool| tool.ranks.contains(rank)) {
        words.extend(tool.words(rank, size, variables)?);
    }
    words.extend(program.iter().cloned());
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(tools: &[Tool], rank: u32, variables: &[(&str, &str)]) -> Result<String, ToolError> {
        let variable = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string())
        };
        let program = ["a", "b"].map(OsString::from);
        let words = command(tools, &program, rank, 4, &variable)?;
        Ok(crate::options::values::shell_words::command_line(&words))
    }

    #[test]
    fn tools_stand_before_the_program_of_their_ranks() {
        let tools = Tool::parse("valgrind -q:0,2;strace -o 'a b':2").unwrap();
        assert_eq!(line(&tools, 0, &[]).unwrap(), "valgrind -q a b");
        assert_eq!(line(&tools, 1, &[]).unwrap(), "a b");
        assert_eq!(line(&tools, 2, &[]).unwrap(), "valgrind -q strace -o a b a b");
        for bad in ["", "valgrind", ":0", "a:x", "a:0;", "'a:0"] {
            assert_eq!(Tool::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn one_debugger_has_the_terminal_and_several_have_windows() {
        let one = [Tool::debugger(RankSet::one(1))];
        assert_eq!(line(&one, 1, &[]).unwrap(), "gdb -q --args a b");
        assert_eq!(line(&one, 1, &[("MICA_DEBUGGER", "lldb")]).unwrap(), "lldb -- a b");
        assert!(one[0].debugs_alone(1, 4) && !one[0].debugs_alone(0, 4));
        let all = [Tool::debugger(RankSet::All)];
        assert!(!all[0].debugs_alone(0, 4) && all[0].debugs_alone(0, 1));
        assert_eq!(line(&all, 3, &[]), Err(ToolError::NoDisplay(4)));
        let window = line(&all, 3, &[("DISPLAY", ":0")]).unwrap();
        assert_eq!(window, "xterm -T rank:3 -e gdb -q --args a b");
        let own = [("MICA_TERMINAL", "konsole -e"), ("MICA_DEBUGGER", "ddd --args")];
        assert_eq!(line(&all, 0, &own).unwrap(), "konsole -e ddd --args a b");
        let wrong = line(&one, 1, &[("MICA_DEBUGGER", "'x")]).unwrap_err();
        assert!(wrong.to_string().contains("MICA_DEBUGGER"), "{wrong}");
    }
}

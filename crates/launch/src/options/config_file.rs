//! Files of programs: `-configfile` of MPICH, `--app` of Open MPI.
//!
//! A line is a section of the job, with the options that it would have on the command line. `#`
//! begins a comment, a backslash at the end joins the next line, and words are quoted as in a
//! shell. A line without a program sets options of the whole job.

use super::*;
use crate::options::values::shell_words::shell_words;

impl OptionParser {
    /// Reads the sections of a file.
    pub(super) fn read_config_file(&mut self, option: &str, path: &Path) -> Result<(), UsageError> {
        let fault = |what: String| UsageError::ConfigFile { path: path.to_owned(), what };
        if self.from_file {
            return Err(fault(format!("{option} cannot stand in a file of options, or twice")));
        }
        self.from_file = true;
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|error| fault(format!("cannot read it: {error}")))?;
        for (number, words) in lines(&text) {
            let at_line = |what: String| fault(format!("line {number}: {what}"));
            let words = words.map_err(at_line)?;
            self.line(&words).map_err(|error| at_line(error.to_string()))?;
        }
        if self.options.sections.is_empty() && self.answer.is_none() {
            return Err(fault("there is no program in it".to_owned()));
        }
        Ok(())
    }

    /// Parses one line of the file. A colon in it is an argument like any other.
    fn line(&mut self, words: &[OsString]) -> Result<(), UsageError> {
        self.section = ProgramSection::new();
        let command = self.leading_options(words)?;
        if command.is_empty() && self.section != ProgramSection::new() {
            return Err(UsageError::NoProgram(" in a line with options of one program"));
        }
        if !command.is_empty() {
            self.program(command)?;
        }
        Ok(())
    }
}

/// A line's number, and its words or an error message.
type Line = (usize, Result<Vec<OsString>, String>);

/// The lines that are not empty.
fn lines(text: &str) -> Vec<Line> {
    let mut all = Vec::new();
    let mut joined = String::new();
    let mut first = 0;
    let last = text.lines().count();
    for (line, number) in text.lines().zip(1..) {
        if joined.is_empty() {
            first = number;
        }
        match line.strip_suffix('\\') {
            Some(part) if number < last => {
                joined.push_str(part);
                joined.push(' ');
                continue;
            }
            _ => joined.push_str(line),
        }
        let words = shell_words(&std::mem::take(&mut joined));
        if !words.as_ref().is_ok_and(Vec::is_empty) {
            all.push((first, words));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_joined_and_numbered() {
        let lines = lines("# head\n\n-n 1 \\\n  a\n-n 2 b\n");
        assert_eq!(lines.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [3, 5]);
        assert_eq!(lines[0].1.as_ref().unwrap().len(), 3);
    }
}

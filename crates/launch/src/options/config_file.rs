//! Files of programs: `-configfile` of MPICH, `--app` of Open MPI.
//!
//! A line is a section of the job, with the options that it would have on the command line. `#`
//! begins a comment, a backslash at the end joins the next line, and words are quoted as in a
//! shell. A line without a program sets options of the whole job.

use super::*;

impl OptionParser {
    /// Reads the sections of a file.
    pub(super) fn read_config_file(&mut self, option: &str, path: &Path) -> Result<(), UsageError> {
        let fault = |what: String| UsageError::ConfigFile {
            path: path.to_owned(),
            what,
        };
        if self.from_file {
            return Err(fault(format!(
                "{option} cannot stand in a file of options, or twice"
            )));
        }
        self.from_file = true;
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|error| fault(format!("cannot read it: {error}")))?;
        for (number, words) in lines(&text) {
            let at_line = |what: String| fault(format!("line {number}: {what}"));
            let words = words.map_err(at_line)?;
            for section in words.split(|word| word == ":") {
                self.line(section)
                    .map_err(|error| at_line(error.to_string()))?;
            }
        }
        if self.options.sections.is_empty() && self.answer.is_none() {
            return Err(fault("there is no program in it".to_owned()));
        }
        Ok(())
    }

    /// Parses one section of the file.
    fn line(&mut self, words: &[OsString]) -> Result<(), UsageError> {
        self.section = ProgramSection::new();
        let command = self.leading_options(words)?;
        if command.is_empty() && self.section != ProgramSection::new() {
            return Err(UsageError::NoProgram(
                " in a line with options of one program",
            ));
        }
        if !command.is_empty() {
            self.program(command);
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
        let words = words(&std::mem::take(&mut joined));
        if !words.as_ref().is_ok_and(Vec::is_empty) {
            all.push((first, words));
        }
    }
    all
}

/// Splits a line into words as a shell does: blanks separate, quotes and backslashes keep together,
/// `#` begins a comment.
///
/// # Errors
/// A message about what is wrong.
pub fn words(line: &str) -> Result<Vec<OsString>, String> {
    let mut words: Vec<OsString> = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some('"') | None, '\\') => {
                let next = chars
                    .next()
                    .ok_or("a backslash at the end of the last line")?;
                let word = word.get_or_insert_default();
                if quote.is_some() && !matches!(next, '"' | '\\' | '$' | '`') {
                    word.push('\\');
                }
                word.push(next);
            }
            (Some(_), c) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, c) if c.is_whitespace() => words.extend(word.take().map(OsString::from)),
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    if let Some(open) = quote {
        return Err(format!("a quote ({open}) is not closed"));
    }
    words.extend(word.map(OsString::from));
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(line: &str) -> Vec<String> {
        let words = words(line).unwrap();
        words
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect()
    }

    #[test]
    fn words_are_those_of_a_shell() {
        assert_eq!(texts("  -n 2  ./a b"), ["-n", "2", "./a", "b"]);
        assert_eq!(
            texts(r#"'a b' "c \"d\" \e" f\ g ''"#),
            ["a b", r#"c "d" \e"#, "f g", ""]
        );
        assert_eq!(texts("a#b # rest"), ["a#b"]);
        assert!(texts("# all").is_empty());
        assert!(words("'a").unwrap_err().contains("not closed"));
        assert!(words("a \\").is_err());
    }

    #[test]
    fn lines_are_joined_and_numbered() {
        let lines = lines("# head\n\n-n 1 \\\n  a\n-n 2 b\n");
        let numbers: Vec<usize> = lines.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [3, 5]);
        assert_eq!(lines[0].1.as_ref().unwrap().len(), 3);
    }
}

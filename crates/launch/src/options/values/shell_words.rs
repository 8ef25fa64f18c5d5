//! Command lines as texts, and the words of such a text.

use std::ffi::OsString;

/// Splits a line into words as a shell does: blanks separate, quotes and backslashes keep together,
/// `#` begins a comment.
///
/// # Errors
/// A message about what is wrong.
pub fn shell_words(line: &str) -> Result<Vec<OsString>, String> {
    let mut words: Vec<OsString> = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some('"') | None, '\\') => {
                let next = chars.next().ok_or("a backslash at the end of the last line")?;
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

/// A command as a user would type it.
pub fn command_line(command: &[OsString]) -> String {
    command.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(line: &str) -> Vec<String> {
        shell_words(line).unwrap().iter().map(|word| word.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn words_are_those_of_a_shell() {
        assert_eq!(texts("  -n 2  ./a b"), ["-n", "2", "./a", "b"]);
        assert_eq!(texts(r#"'a b' "c \"d\" \e" f\ g ''"#), ["a b", r#"c "d" \e"#, "f g", ""]);
        assert_eq!(texts("a#b # rest"), ["a#b"]);
        assert!(texts("# all").is_empty());
        assert!(shell_words("'a").unwrap_err().contains("not closed"));
        assert!(shell_words("a \\").is_err());
    }
}

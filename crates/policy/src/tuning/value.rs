//! The values of a tuning file, as text and as numbers: what the parser and the sections share.

use std::fmt;

use crate::costs::{CostSpan, PathCost, SPANS};

/// A value in the file.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum TuningValue {
    Text(String),
    Number(f64),
    List(Vec<f64>),
}

impl TuningValue {
    /// Parses a value and what may follow it: blanks and a comment.
    pub(super) fn parse(text: &str) -> Result<TuningValue, String> {
        let wrong = || format!("{text:?} is no string, number or list of numbers");
        let (value, rest) = if let Some(inner) = text.strip_prefix('"') {
            let (value, rest) = unquote(inner).ok_or_else(wrong)?;
            (TuningValue::Text(value), rest)
        } else if let Some(inner) = text.strip_prefix('[') {
            let (list, rest) = inner.split_once(']').ok_or_else(wrong)?;
            let list = list.trim().trim_end_matches(',');
            let numbers = list.split(',').map(number).collect::<Option<_>>();
            (TuningValue::List(numbers.ok_or_else(wrong)?), rest)
        } else {
            let end = text.find('#').unwrap_or(text.len());
            let value = number(&text[..end]).ok_or_else(wrong)?;
            (TuningValue::Number(value), &text[end..])
        };
        let rest = rest.trim_start();
        if rest.is_empty() || rest.starts_with('#') {
            Ok(value)
        } else {
            Err(format!("{rest:?} after the value"))
        }
    }
}

fn number(text: &str) -> Option<f64> {
    let value: f64 = text.trim().parse().ok()?;
    value.is_finite().then_some(value)
}

/// The string up to the closing quote, and the text after the quote.
fn unquote(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.chars();
    loop {
        match chars.next()? {
            '"' => return Some((value, chars.as_str())),
            '\\' => match chars.next()? {
                c @ ('"' | '\\') => value.push(c),
                'u' => {
                    let digits = chars.as_str().get(..4)?;
                    let code = u32::from_str_radix(digits, 16).ok()?;
                    value.push(char::from_u32(code)?);
                    chars = chars.as_str()[4..].chars();
                }
                _ => return None,
            },
            c => value.push(c),
        }
    }
}

/// The spans of a cost in a section.
pub(super) fn spans(values: &[(String, TuningValue)]) -> Result<[CostSpan; SPANS], String> {
    let list = |key: &str| match values.iter().find(|(known, _)| known == key) {
        Some((_, TuningValue::List(list))) => Ok(list),
        Some(_) => Err(format!("{key} is no list")),
        None => Err(format!("no {key} in this section")),
    };
    let (from, byte_ns) = (list("from")?, list("byte_ns")?);
    if from.len() != byte_ns.len() {
        return Err(format!("from has {} values and byte_ns has {}", from.len(), byte_ns.len()));
    }
    // Numbers of bytes beyond this are not exact in the file's number format.
    let bytes = |from: f64| from.fract() == 0.0 && (0.0..=9e15).contains(&from);
    if let Some(from) = from.iter().find(|&&from| !bytes(from)) {
        return Err(format!("from has {from}: expected a number of bytes"));
    }
    let mut spans = PathCost::new(0.0, &[(0, 0.0)]).spans;
    for (span, (&from, &byte_ns)) in spans.iter_mut().zip(from.iter().zip(byte_ns)) {
        *span = CostSpan { from: from as u64, byte_ns };
    }
    Ok(spans)
}

/// Writes the spans of a cost.
pub(super) fn write_spans(f: &mut fmt::Formatter<'_>, cost: &PathCost) -> fmt::Result {
    let list = |values: Vec<String>| format!("[{}]", values.join(", "));
    let from = cost.used_spans().map(|span| span.from.to_string());
    let byte_ns = cost.used_spans().map(|span| span.byte_ns.to_string());
    writeln!(f, "from = {}", list(from.collect()))?;
    writeln!(f, "byte_ns = {}", list(byte_ns.collect()))
}

/// A string as TOML writes it.
pub(super) struct Quoted<'a>(pub(super) &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"")?;
        for c in self.0.chars() {
            match c {
                '"' | '\\' => write!(f, "\\{c}")?,
                c if c.is_control() => write!(f, "\\u{:04x}", c as u32)?,
                c => write!(f, "{c}")?,
            }
        }
        write!(f, "\"")
    }
}

//! The output contract of the programs in bench/src: one line of JSON per figure, between any other
//! lines.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One figure as a program printed it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    pub measure: String,
    #[serde(default)]
    pub bytes: u64,
    pub ranks: u32,
    pub value: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
    pub unit: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iterations: Option<u64>,
    /// All other fields that the program prints.
    #[serde(flatten)]
    pub more: BTreeMap<String, Value>,
}

/// The figures in a program's output. A line that begins like a figure but cannot be parsed (a NaN,
/// a truncated line) is an error: otherwise a missing figure would look like one that was not
/// requested.
pub fn parse(output: &str) -> Result<Vec<Figure>, String> {
    let lines = output.lines().map(str::trim);
    let meant = lines.filter(|line| line.starts_with('{') && line.contains("\"measure\""));
    meant
        .map(|line| {
            serde_json::from_str(line)
                .map_err(|error| format!("unreadable figure ({error}): {line}"))
        })
        .collect()
}

/// Why a program ended itself: the rest of the first line that begins with its source, as
/// `bench_die` prints it.
pub fn reason<'a>(output: &'a str, source: &str) -> Option<&'a str> {
    let mark = format!("{source}: ");
    output.lines().find_map(|line| {
        let (folder, reason) = line.split_once(&mark)?;
        (folder.trim().is_empty() || folder.ends_with('/')).then(|| reason.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_between_garbage() {
        let output = "warning: something\n{not ours}\n\
            {\"measure\": \"flag\", \"bytes\": 8, \"ranks\": 2, \"value\": 0.07, \"min\": 0.06, \
             \"max\": 1, \"unit\": \"us\", \"iterations\": 10}\n\nbye\n  \
            {\"measure\": \"depth\", \"ranks\": 2, \"value\": 3, \"unit\": \"us\", \"peers\": 4}\n";
        let figures = parse(output).unwrap();
        assert_eq!(figures.len(), 2);
        assert_eq!((figures[0].bytes, figures[0].value), (8, 0.07));
        assert_eq!(figures[0].iterations, Some(10));
        assert_eq!((figures[1].bytes, figures[1].min), (0, None));
        assert_eq!(figures[1].more["peers"], 4);
    }

    #[test]
    fn a_damaged_figure_is_an_error() {
        for line in [
            "{\"measure\": \"flag\", \"ranks\": 2, \"value\": nan, \"unit\": \"us\"}",
            "{\"measure\": \"flag\", \"ranks\": 2",
            "{\"measure\": \"flag\", \"ranks\": 2, \"unit\": \"us\"}",
        ] {
            assert!(parse(line).unwrap_err().contains(line), "{line}");
        }
        assert_eq!(parse("").unwrap(), []);
    }

    #[test]
    fn the_reason_is_the_first_line_of_the_programs_source() {
        let output = "MPI_ABORT was invoked in studio.c: 1\n /b/src/io.c: wrong data: at 8\n\
            /b/src/io.c: wrong data: at 16\n";
        assert_eq!(reason(output, "io.c"), Some("wrong data: at 8"));
        assert_eq!(reason("io.c: wants a layout", "io.c"), Some("wants a layout"));
        assert_eq!(reason(output, "rma.c"), None);
    }
}

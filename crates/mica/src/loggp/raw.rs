//! The file of raw times: where they come from, in the first line, and the program's output.

use crate::origin::ResultOrigin;

/// Before the origin, in JSON.
const ORIGIN: &str = "origin ";

/// The file's text.
///
/// # Errors
/// Those of serde.
pub fn written(origin: &ResultOrigin, output: &str) -> serde_json::Result<String> {
    Ok(format!("{ORIGIN}{}\n{output}", serde_json::to_string(origin)?))
}

/// The origin and the program's output; a file without an origin is of unknown origin.
///
/// # Errors
/// If the first line is no origin.
pub fn parse(text: &str) -> serde_json::Result<(ResultOrigin, String)> {
    let Some(rest) = text.strip_prefix(ORIGIN) else {
        let origin = ResultOrigin::of_this_command("not known: the file does not say");
        return Ok((origin, text.to_owned()));
    };
    let (line, output) = rest.split_once('\n').unwrap_or((rest, ""));
    Ok((serde_json::from_str(line)?, output.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_times_keep_their_origin() {
        let origin = ResultOrigin::simulated("power5-redstorm");
        let text = written(&origin, "mica-loggp 1 2\n").unwrap();
        assert_eq!(parse(&text).unwrap(), (origin, "mica-loggp 1 2\n".to_owned()));
        let (unknown, output) = parse("mica-loggp 1 2\n").unwrap();
        assert!(unknown.channel.contains("not known") && output == "mica-loggp 1 2\n");
        assert!(parse("origin {").is_err());
    }
}

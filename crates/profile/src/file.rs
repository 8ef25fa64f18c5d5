//! A profile's file: JSON with one line for each rank, site, call record and pair, and the time
//! line in [`crate::columns`].

use std::fs;
use std::io;
use std::path::Path;

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

use crate::model::{Profile, check_format};

/// Name of the file in the directory that `mica profile` writes.
pub const FILE: &str = "profile.json";

/// Depth of the arrays whose elements have a line each: the fields of a profile.
const LINES: usize = 2;

impl Profile {
    /// The text of the file.
    pub fn to_json(&self) -> String {
        let mut bytes = Vec::new();
        let mut serializer = Serializer::with_formatter(&mut bytes, LineFormatter { depth: 0 });
        self.serialize(&mut serializer).expect("plain data is valid JSON");
        String::from_utf8(bytes).expect("JSON is UTF-8") + "\n"
    }

    /// Parses the text of a file.
    ///
    /// # Errors
    /// If it is no profile, or of a form that this does not read.
    pub fn parse(text: &str) -> Result<Profile, String> {
        let profile: Profile = serde_json::from_str(text).map_err(|error| error.to_string())?;
        check_format(profile.format).map(|()| profile)
    }

    /// Reads a file, or that of a directory which `mica profile` wrote.
    ///
    /// # Errors
    /// As [`parse`](Self::parse), or if it cannot be read; the text names the file.
    pub fn read(path: &Path) -> Result<Profile, String> {
        let file = if path.is_dir() { path.join(FILE) } else { path.to_owned() };
        let named = |what: String| format!("{}: {what}", file.display());
        let text =
            fs::read_to_string(&file).map_err(|error| match path.join("job-1").is_dir() {
                true => format!(
                    "{}: the command ran several jobs, each with a profile (job-1, ...)",
                    path.display()
                ),
                false => named(error.to_string()),
            })?;
        Profile::parse(&text).map_err(named)
    }
}

/// The text of several profiles: an array of them.
pub fn several_to_json(profiles: &[Profile]) -> String {
    let texts: Vec<String> =
        profiles.iter().map(|profile| profile.to_json().trim_end().to_owned()).collect();
    format!("[{}]\n", texts.join(",\n"))
}

/// Breaks lines between the fields of the outermost object and the elements of what they hold.
struct LineFormatter {
    depth: usize,
}

impl LineFormatter {
    fn open<W: io::Write + ?Sized>(&mut self, writer: &mut W, sign: &[u8]) -> io::Result<()> {
        self.depth += 1;
        writer.write_all(sign)
    }

    fn close<W: io::Write + ?Sized>(&mut self, writer: &mut W, sign: &[u8]) -> io::Result<()> {
        self.depth -= 1;
        if self.depth < LINES {
            writer.write_all(b"\n")?;
        }
        writer.write_all(sign)
    }

    /// Before an element: the sign that separates it from one before it, and a new line.
    fn begin<W: io::Write + ?Sized>(&self, writer: &mut W, sign: &[u8]) -> io::Result<()> {
        writer.write_all(sign)?;
        if self.depth <= LINES { writer.write_all(b"\n") } else { Ok(()) }
    }
}

impl Formatter for LineFormatter {
    fn begin_array<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(writer, b"[")
    }

    fn end_array<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close(writer, b"]")
    }

    fn begin_array_value<W: io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.begin(writer, if first { b"" } else { b"," })
    }

    fn begin_object<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(writer, b"{")
    }

    fn end_object<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close(writer, b"}")
    }

    fn begin_object_key<W: io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.begin(writer, if first { b"" } else { b"," })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::FORMATS;

    #[test]
    fn a_record_has_a_line() {
        let profile = Profile::example();
        let text = profile.to_json();
        assert_eq!(Profile::parse(&text), Ok(profile.clone()));
        let calls = text.lines().filter(|line| line.starts_with("{\"rank\":0,\"call\""));
        let records = profile.calls.iter().filter(|call| call.rank == 0).count();
        let sizes = profile.sizes.iter().filter(|size| size.rank == 0).count();
        assert_eq!(calls.count(), records + sizes);
    }

    #[test]
    fn several_are_an_array() {
        let text = several_to_json(&[Profile::example(), Profile::example()]);
        let read: Vec<Profile> = serde_json::from_str(&text).expect("an array");
        assert_eq!(read, [Profile::example(), Profile::example()]);
    }

    #[test]
    fn another_format_is_refused() {
        let mut profile = Profile::example();
        profile.format = FORMATS.end() + 1;
        let error = Profile::parse(&profile.to_json()).expect_err("refused");
        assert!(error.contains("its format is"), "{error}");
        profile.format = 1;
        assert!(Profile::parse(&profile.to_json()).is_ok());
    }
}

//! Where a program calls the library, in words: function, file and line, if the object's debug
//! information is at hand.

use std::path::Path;

use mica_symbols::Symbolizer;

/// `solve at solver.c:41`, or without debug information `solve in program+0x13f2`, or
/// `program+0x13f2`. The offset is that of the call in the object's file.
pub fn call_place(symbols: &mut Symbolizer, object: &str, offset: u64) -> String {
    source(symbols, object, offset).unwrap_or_else(|| {
        let in_file = in_file(object, offset);
        match symbols.place(object, offset).function {
            Some(function) => format!("{function} in {in_file}"),
            None => in_file,
        }
    })
}

/// `solve at solver.c:41`, if the object's debug information says so.
pub fn source(symbols: &mut Symbolizer, object: &str, offset: u64) -> Option<String> {
    let place = symbols.place(object, offset);
    let line = place.file_and_line()?;
    Some(if let Some(function) = place.function { format!("{function} at {line}") } else { line })
}

/// `program+0x13f2`.
pub fn in_file(object: &str, offset: u64) -> String {
    let name = Path::new(object).file_name();
    let name = name.map_or(object.into(), |name| name.to_string_lossy());
    format!("{name}+{offset:#x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let place = call_place(&mut Symbolizer::default(), "/nowhere/program", 0x13f2);
        assert_eq!(place, "program+0x13f2");
    }
}

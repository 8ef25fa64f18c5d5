//! Function, file and line of the call sites that the ranks recorded.

use mica_profile::{Language, ProgramSite};
use mica_symbols::Symbolizer;

use super::records::RecordedSite;

/// The site with all that is known of it.
pub fn resolve(symbols: &mut Symbolizer, site: &RecordedSite) -> ProgramSite {
    match site {
        RecordedSite::Python { file, function, line } => ProgramSite {
            object: file.clone(),
            offset: 0,
            function: Some(function.clone()),
            file: Some(file.clone()),
            line: Some(*line),
            language: Language::Python,
        },
        RecordedSite::Code { object, offset } => {
            let place = symbols.call(object, *offset);
            ProgramSite {
                object: object.clone(),
                offset: *offset,
                function: place.function,
                file: place.file,
                line: place.line,
                language: Language::Compiled,
            }
        }
    }
}

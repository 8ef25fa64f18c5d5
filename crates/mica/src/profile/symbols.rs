//! Function, file and line of the call sites that the ranks recorded.

use mica_profile::{Language, ProgramSite};
use mica_symbols::{SourcePlace, Symbolizer};

use super::records::RecordedSite;

/// The function that the system calls.
const MAIN: &str = "main";

/// The site with all that is known of it. Callers are also those into which the compiler has put
/// the function; in all there are not more than were recorded.
pub fn resolve(symbols: &mut Symbolizer, site: &RecordedSite) -> ProgramSite {
    match site {
        RecordedSite::Python { file, function, line } => ProgramSite {
            object: file.clone(),
            function: Some(function.clone()),
            file: Some(file.clone()),
            line: Some(*line),
            language: Language::Python,
            ..ProgramSite::default()
        },
        RecordedSite::Code { object, offset, callers } if callers.is_empty() => {
            code(symbols.call(object, *offset), object, *offset)
        }
        RecordedSite::Code { object, offset, callers } => {
            let depth = 1 + callers.len();
            let own = (object.clone(), *offset);
            let mut chain = Vec::new();
            for (object, offset) in std::iter::once(&own).chain(callers) {
                let places = symbols.calls(object, *offset).into_iter();
                chain.extend(places.map(|place| code(place, object, *offset)));
            }
            // What calls the program's main function is the system's.
            let main = chain.iter().position(|site| site.function.as_deref() == Some(MAIN));
            chain.truncate(main.map_or(depth, |main| depth.min(main + 1)));
            let callers = chain.split_off(1);
            ProgramSite { callers, ..chain.remove(0) }
        }
    }
}

fn code(place: SourcePlace, object: &str, offset: u64) -> ProgramSite {
    let SourcePlace { function, file, line } = place;
    ProgramSite { object: object.to_owned(), offset, function, file, line, ..Default::default() }
}

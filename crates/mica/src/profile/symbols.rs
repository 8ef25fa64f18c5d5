//! Function, file and line of call sites, from the debug information of the objects
//! (`addr2line`, `gimli`); without it, the function from the symbol table.
//!
//! A recorded address is that after the call, which may belong to the next line: the line is
//! looked up one byte before. Where the call was inlined into another function, the innermost one
//! is named, as a debugger does.

use std::collections::HashMap;

use addr2line::Loader;
use mica_profile::{Language, ProgramSite};

use super::records::RecordedSite;

/// The objects that were opened; `None` where one cannot be read (another node's).
#[derive(Default)]
pub struct Symbols {
    objects: HashMap<String, Option<Loader>>,
}

impl Symbols {
    /// The site with all that is known of it.
    pub fn resolve(&mut self, site: &RecordedSite) -> ProgramSite {
        match site {
            RecordedSite::Python { file, function, line } => ProgramSite {
                object: file.clone(),
                offset: 0,
                function: Some(function.clone()),
                file: Some(file.clone()),
                line: Some(*line),
                language: Language::Python,
            },
            RecordedSite::Code { object, offset } => self.code(object, *offset),
        }
    }

    fn code(&mut self, object: &str, offset: u64) -> ProgramSite {
        let mut site = ProgramSite { object: object.to_owned(), offset, ..ProgramSite::default() };
        let open = || Loader::new(object).ok();
        let loader = self.objects.entry(object.to_owned()).or_insert_with(open);
        if let Some(loader) = loader {
            describe(loader, &mut site);
        }
        site
    }
}

fn describe(loader: &Loader, site: &mut ProgramSite) {
    let address = site.offset.saturating_sub(1);
    let frame = loader.find_frames(address).ok().and_then(|mut frames| frames.next().ok()?);
    if let Some(frame) = frame {
        let name = frame.function.as_ref().and_then(|name| name.demangle().ok());
        site.function = name.map(|name| name.into_owned());
        if let Some(location) = frame.location {
            site.file = location.file.map(str::to_owned);
            site.line = location.line.filter(|line| *line > 0);
        }
    }
    if site.function.is_none() {
        let symbol = loader.find_symbol(address);
        site.function = symbol.map(|name| addr2line::demangle_auto(name.into(), None).into_owned());
    }
}

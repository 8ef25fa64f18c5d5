//! The report of a profile that a browser shows: `report.html`, one page that works from the file
//! alone, and beside it `trace.json` for Perfetto or Chrome's tracing.
//!
//! Charts that stand still are SVG drawn here with [`crate::draw`]; a script of the page draws the
//! time line and shows what is under the pointer. Each chart has its figures as a table below it.
//! All text of a profile passes `escape` or, in the embedded data, `script_json`.
//!
//! Charts and terms follow the papers: MPI time and its share by call as in ma-2011's Tables 1 to
//! 4; the message distribution is chai-2009's (2.2.2): bars are shares of the levels within a size
//! class, points the class's share of all, beside the even distribution.
//!
//! The page is bounded whatever the profile's size: charts group ranks ([`groups`]), tables end
//! after a number of rows, and the time line merges short calls ([`timeline`]); each says so where
//! it did. `trace.json` has every interval of the profile.

mod distribution;
mod facts;
mod files;
mod groups;
mod matrix;
mod page;
mod section;
mod sites;
#[cfg(test)]
mod tests;
mod time;
mod timeline;
mod trace;
mod view;
mod waiting;

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use mica_profile::Profile;

pub use self::view::level_colour;
use crate::origin::ResultOrigin;
use crate::scratch::{new_file, write_new};

/// The page's file name in the directory.
pub const PAGE: &str = "report.html";
/// The trace's.
pub const TRACE: &str = "trace.json";

/// Writes the page and the trace into `directory`, which is made if it is not there.
pub fn write(profile: &Profile, directory: &Path, origin: &ResultOrigin) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    write_new(&directory.join(PAGE), origin.on_page(&page::page(profile)))?;
    let mut out = BufWriter::new(new_file(&directory.join(TRACE))?);
    trace::write(profile, &mut out)?;
    out.flush()
}

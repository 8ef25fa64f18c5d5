//! What the tools' results are written with.
//!
//! - [`draw`]: charts in SVG, and the frame and the tables of an HTML page.
//! - [`origin`]: where a result comes from, which every document and every page says.
//! - [`scratch`]: folders and files that no other user can have prepared.
//! - [`build`]: what this Mica was built from.
//!
//! The `mica` command and the thesis's experiments (`mica-experiments`) share it. It knows no
//! result: the caller says what is shown and in which words.

#![forbid(unsafe_code)]

pub mod build;
pub mod draw;
pub mod origin;
pub mod scratch;
